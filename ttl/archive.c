#include "ttl/archive.h"

#include "core/index.h"
#include "ttl/deadline.h"
#include "ttl/limbo.h"
#include "ttl/rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool archive_wanted(struct ttl *ttl, struct dentry *d)
{
    if (dentry_in_limbo(d))
        return limbo_wants_archive(ttl, d);
    const struct ruleset *rs = ruleset_of(ttl, d->parent);
    /* Without memory for the rules nothing may be lost. */
    return !rs || rs->archive;
}

/* A collection's path from the root, malloc'd. */
static char *path_of(const struct collection *c)
{
    size_t len = 0;
    for (const struct dentry *d = c->doc.links; d; d = d->parent->doc.links)
        len += d->name_len + 1U;
    char *path = malloc(len + 1), *at = path ? path + len : NULL;
    if (!path)
        return NULL;
    *at = '\0';
    for (const struct dentry *d = c->doc.links; d; d = d->parent->doc.links) {
        if (at != path + len)
            *--at = '/';
        at -= d->name_len;
        memcpy(at, d->name, d->name_len);
    }
    /* One slash fewer than names. */
    memmove(path, at, (size_t) (path + len - at) + 1);
    return path;
}

int archive_origin_of(struct ttl *ttl, struct dentry *d, struct archive_origin *ret_origin)
{
    if (dentry_in_limbo(d))
        return limbo_origin(d, ret_origin);
    struct ttl_deadline deadline = ttl_deadline(ttl, d);
    struct archive_origin o = {.path = path_of(d->parent)};
    if (!o.path)
        return -ENOMEM;
    memcpy(o.name, d->name, d->name_len + 1U);
    /* A date may be older than the document that bears it: nothing expires before it is written. */
    o.expired_ms = deadline.at_ms > d->doc->ts_ms ? deadline.at_ms : d->doc->ts_ms;
    o.by_content = deadline.reason == TTL_REASON_INDEX && deadline.index->kind == INDEX_FIELD;
    ttl_reason_text(&deadline, o.reason);
    *ret_origin = o;
    return 0;
}

void archive_origin_release(struct archive_origin *origin)
{
    free(origin->path);
    origin->path = NULL;
}

void archive_origin_encode(const struct archive_origin *origin, bson_t *b)
{
    archive_append_bytes(b, "path", origin->path);
    archive_append_bytes(b, "name", origin->name);
    BSON_APPEND_DATE_TIME(b, "expired", origin->expired_ms);
    archive_append_bytes(b, "reason", origin->reason);
    BSON_APPEND_BOOL(b, "byContent", origin->by_content);
}

int archive_origin_decode(const bson_t *b, struct archive_origin *ret_origin)
{
    struct archive_origin o = {0};
    bson_iter_t it;
    int err = bson_iter_init(&it, b) ? 0 : -EPROTO;
    while (!err && bson_iter_next(&it)) {
        const char *key = bson_iter_key(&it);
        if (strcmp(key, "path") == 0 && !o.path)
            err = archive_read_bytes(&it, &o.path);
        else if (strcmp(key, "name") == 0)
            err = archive_read_text(&it, o.name, sizeof o.name);
        else if (strcmp(key, "reason") == 0)
            err = archive_read_text(&it, o.reason, sizeof o.reason);
        else if (strcmp(key, "expired") == 0 && BSON_ITER_HOLDS_DATE_TIME(&it))
            o.expired_ms = bson_iter_date_time(&it);
        else if (strcmp(key, "byContent") == 0)
            o.by_content = bson_iter_as_bool(&it);
    }
    if (!err && (!o.path || !o.name[0]))
        err = -EPROTO;
    if (err)
        archive_origin_release(&o);
    else
        *ret_origin = o;
    return err;
}

static int copy_xattrs(const struct document *doc, struct archive_copy *copy)
{
    for (const struct xattr *x = doc->xattrs; x; x = x->next) {
        if (strncmp(x->bytes, DOCUMENT_NOTE_PREFIX, sizeof DOCUMENT_NOTE_PREFIX - 1) == 0)
            continue;
        struct xattr *one = xattr_new(x->bytes, xattr_value(x), x->value_len);
        if (!one)
            return -ENOMEM;
        one->next = copy->xattrs;
        copy->xattrs = one;
    }
    return 0;
}

int archive_copy_make(struct ttl *ttl, struct dentry *d, struct archive_copy *ret_copy)
{
    const struct document *doc = d->doc;
    struct archive_origin origin;
    int err = archive_origin_of(ttl, d, &origin);
    if (err)
        return err;
    struct archive_copy copy = {.path = origin.path,
        .expired_ms = origin.expired_ms,
        .by_content = origin.by_content,
        .created_ms = doc->created_ms,
        .ts_ms = doc->ts_ms,
        .accessed_ms = doc->accessed_ms,
        .ino = doc->ino,
        .size = doc->size,
        .mode = doc->mode,
        .uid = doc->uid,
        .gid = doc->gid,
        .atime = {(time_t) doc->atime_s, (long) doc->atime_ns},
        .mtime = {(time_t) doc->mtime_s, (long) doc->mtime_ns}};
    memcpy(copy.name, origin.name, sizeof copy.name);
    memcpy(copy.reason, origin.reason, sizeof copy.reason);
    if (S_ISBLK(doc->mode) || S_ISCHR(doc->mode))
        copy.rdev = doc->rdev;
    if (S_ISLNK(doc->mode)) {
        copy.target = strndup((const char *) doc->data, doc->size);
        err = copy.target ? 0 : -ENOMEM;
    }
    if (!err)
        err = copy_xattrs(doc, &copy);
    if (err)
        archive_copy_release(&copy);
    else
        *ret_copy = copy;
    return err;
}

struct archive_state archive_state_of(const struct document *doc)
{
    return (struct archive_state){
        .size = doc->size, .mtime_s = doc->mtime_s, .mtime_ns = doc->mtime_ns};
}

bool archive_covers(
    struct ttl *ttl, struct dentry *d, const struct archive_state *copied, int64_t now_ms)
{
    const struct document *doc = d->doc;
    if (ttl_hidden(ttl, d, now_ms))
        return true;
    return doc->size == copied->size && doc->mtime_s == copied->mtime_s &&
           doc->mtime_ns == copied->mtime_ns;
}
