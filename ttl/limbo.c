#include "ttl/limbo.h"

#include "core/names.h"
#include "ttl/events.h"
#include "ttl/rules.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number in hexadecimal, a dot, a number, and the prefix. */
#define LIMBO_NAME_BYTES 40
#define LIMBO_XATTR_BYTES (sizeof LIMBO_XATTR_PREFIX + LIMBO_NAME_BYTES)

static void xattr_name_of(const char *name, char *ret_name)
{
    snprintf(ret_name, LIMBO_XATTR_BYTES, LIMBO_XATTR_PREFIX "%s", name);
}

/* A name for the document that is free in the limbo: several of its names may wait there. */
static void make_name(struct tree *tree, const struct document *doc, char *ret_name)
{
    unsigned int i = 0;
    do
        snprintf(ret_name, LIMBO_NAME_BYTES, "%" PRIx64 ".%u", doc->ino, i++);
    while (tree_find(tree, tree->limbo, ret_name, strlen(ret_name)));
}

static struct xattr *note_origin(struct ttl *ttl, struct dentry *d, const char *xattr, int *ret_err)
{
    struct archive_origin origin;
    *ret_err = archive_origin_of(ttl, d, &origin);
    if (*ret_err)
        return NULL;
    bson_t b = BSON_INITIALIZER;
    archive_origin_encode(&origin, &b);
    struct xattr *x = xattr_new(xattr, bson_get_data(&b), b.len);
    *ret_err = x ? 0 : -ENOMEM;
    bson_destroy(&b);
    archive_origin_release(&origin);
    return x;
}

int limbo_take(struct ttl *ttl, struct dentry *d, struct timespec now)
{
    struct tree *tree = ttl->tree;
    struct document *doc = d->doc;
    char name[LIMBO_NAME_BYTES], attribute[LIMBO_XATTR_BYTES];
    int err = journal_will_change(tree, doc);
    if (err)
        return err;
    make_name(tree, doc, name);
    xattr_name_of(name, attribute);
    struct xattr *x = note_origin(ttl, d, attribute, &err);
    if (!x)
        return err;
    document_xattr_put(doc, x);
    /* Whoever comes in its place must not bring the others of its bucket back. */
    timeseries_expiring(ttl, d);
    ttl_tell(ttl, TTL_EVENT_EXPIRED, d, timespec_ms(now));
    struct dentry *moved;
    err = tree_move(tree, d, tree->limbo, name, strlen(name), now, &moved);
    if (err) {
        document_xattr_remove(doc, attribute);
        return err;
    }
    /* Whoever asks for the document's place takes the first one. */
    tree_name_last(moved);
    return 0;
}

int limbo_origin(const struct dentry *d, struct archive_origin *ret_origin)
{
    char attribute[LIMBO_XATTR_BYTES];
    bson_t b;
    xattr_name_of(d->name, attribute);
    const struct xattr *x = document_xattr(d->doc, attribute);
    if (!x || !bson_init_static(&b, (const uint8_t *) xattr_value(x), x->value_len))
        return -EPROTO;
    return archive_origin_decode(&b, ret_origin);
}

/* The collection at a path; NULL when there is none. */
static struct collection *collection_at(struct tree *tree, const char *path)
{
    struct collection *c = tree->root;
    while (*path && c) {
        size_t len = strcspn(path, "/");
        struct dentry *d = tree_find(tree, c, path, len);
        c = d && document_is_collection(d->doc) ? document_collection(d->doc) : NULL;
        path += len + (path[len] == '/');
    }
    return c;
}

bool limbo_wants_archive(struct ttl *ttl, struct dentry *d)
{
    struct archive_origin origin;
    /* What nobody can read any more is kept all the same: deleting it cannot be undone. */
    if (limbo_origin(d, &origin) != 0)
        return true;
    struct collection *c = collection_at(ttl->tree, origin.path);
    archive_origin_release(&origin);
    const struct ruleset *rs = c ? ruleset_of(ttl, c) : NULL;
    return !rs || rs->archive;
}

int limbo_remove(struct ttl *ttl, struct dentry *d, struct timespec now)
{
    char attribute[LIMBO_XATTR_BYTES];
    struct document *doc = d->doc;
    xattr_name_of(d->name, attribute);
    document_pin(doc);
    /* Notes the document as changed: its record loses the attribute with the name. */
    int err = tree_unlink(ttl->tree, d, now);
    if (!err)
        document_xattr_remove(doc, attribute);
    document_unpin(ttl->tree, doc);
    return err;
}
