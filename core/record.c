#include "core/record.h"

#include "core/acl.h"
#include "core/content.h"

#include <bson/bson.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_FLAG_EXTENDED 1
#define RECORD_FLAG_TAIL_HOLE 2

void record_ino_key(uint64_t ino, unsigned char *ret_key)
{
    for (int i = 0; i < RECORD_INO_BYTES; i++)
        ret_key[i] = (unsigned char) (ino >> (56 - 8 * i));
}

uint64_t record_ino_of_key(const unsigned char *key)
{
    uint64_t ino = 0;
    for (int i = 0; i < RECORD_INO_BYTES; i++)
        ino = ino << 8 | key[i];
    return ino;
}

size_t record_link_key(const struct dentry *d, uint64_t ino, unsigned char *ret_key)
{
    record_ino_key(ino, ret_key);
    record_ino_key(d->parent->doc.ino, ret_key + RECORD_INO_BYTES);
    memcpy(ret_key + 2 * RECORD_INO_BYTES, d->name, d->name_len);
    return 2 * RECORD_INO_BYTES + d->name_len;
}

static bool append_binary(bson_t *b, const char *key, const void *bytes, size_t len)
{
    return bson_append_binary(
        b, key, (int) strlen(key), BSON_SUBTYPE_BINARY, (const uint8_t *) bytes, (uint32_t) len);
}

static bool append_time(bson_t *b, const char *key, const char *key_ns, int64_t s, uint32_t ns)
{
    return BSON_APPEND_INT64(b, key, s) &&
           (!ns || bson_append_int32(b, key_ns, (int) strlen(key_ns), (int32_t) ns));
}

static bool append_kind(bson_t *b, const struct document *doc)
{
    if (S_ISLNK(doc->mode))
        return append_binary(b, "target", doc->data, doc->size);
    if (S_ISBLK(doc->mode) || S_ISCHR(doc->mode))
        return BSON_APPEND_INT64(b, "rdev", (int64_t) doc->rdev);
    if (S_ISREG(doc->mode) && doc->content)
        return BSON_APPEND_INT64(b, "blob", (int64_t) content_blob(doc->content)) &&
               BSON_APPEND_INT64(b, "pages", content_pages(doc->content));
    return true;
}

static bool append_xattrs(bson_t *b, const struct document *doc)
{
    bson_t sub;
    if (!doc->xattrs)
        return true;
    if (!BSON_APPEND_DOCUMENT_BEGIN(b, "xattrs", &sub))
        return false;
    bool ok = true;
    for (const struct xattr *x = doc->xattrs; x && ok; x = x->next)
        ok = append_binary(&sub, x->bytes, xattr_value(x), x->value_len);
    return bson_append_document_end(b, &sub) && ok;
}

int record_encode(const struct document *doc, void **ret_value, size_t *ret_len)
{
    bson_t b = BSON_INITIALIZER;
    const struct dentry *d = doc->flags & DOCUMENT_LINKS_STORED ? NULL : doc->links;
    bool ok = true;

    if (d)
        ok = BSON_APPEND_INT64(&b, "parent", (int64_t) d->parent->doc.ino) &&
             append_binary(&b, "name", d->name, d->name_len);
    ok = ok && BSON_APPEND_INT64(&b, "mode", doc->mode) && BSON_APPEND_INT64(&b, "uid", doc->uid) &&
         BSON_APPEND_INT64(&b, "gid", doc->gid) && BSON_APPEND_INT64(&b, "nlink", doc->nlink) &&
         BSON_APPEND_INT64(&b, "size", (int64_t) doc->size) &&
         append_time(&b, "atime", "atimeNs", doc->atime_s, doc->atime_ns) &&
         append_time(&b, "mtime", "mtimeNs", doc->mtime_s, doc->mtime_ns) &&
         append_time(&b, "ctime", "ctimeNs", doc->ctime_s, doc->ctime_ns) &&
         BSON_APPEND_DATE_TIME(&b, "created", doc->created_ms) &&
         BSON_APPEND_DATE_TIME(&b, "ts", doc->ts_ms) &&
         BSON_APPEND_DATE_TIME(&b, "accessed", doc->accessed_ms);
    int32_t flags = (doc->flags & DOCUMENT_EXTENDED ? RECORD_FLAG_EXTENDED : 0) |
                    (doc->flags & DOCUMENT_TAIL_HOLE ? RECORD_FLAG_TAIL_HOLE : 0);
    if (flags)
        ok = ok && BSON_APPEND_INT32(&b, "flags", flags);
    ok = ok && append_kind(&b, doc) && append_xattrs(&b, doc);
    if (!ok) {
        bson_destroy(&b);
        return -ENOMEM;
    }
    /* Copied to its exact length: bson_destroy_with_steal would keep the growth margin. */
    void *value = malloc(b.len);
    if (value) {
        memcpy(value, bson_get_data(&b), b.len);
        *ret_value = value;
        *ret_len = b.len;
    }
    bson_destroy(&b);
    return value ? 0 : -ENOMEM;
}

static int decode_xattrs(const bson_iter_t *parent, struct document *doc)
{
    bson_iter_t it;
    if (!bson_iter_recurse(parent, &it))
        return -EPROTO;
    while (bson_iter_next(&it)) {
        const uint8_t *bytes;
        uint32_t len;
        if (!BSON_ITER_HOLDS_BINARY(&it))
            return -EPROTO;
        bson_iter_binary(&it, NULL, &len, &bytes);
        /* An access control list is used without another look. */
        if (strncmp(bson_iter_key(&it), "system.", 7) == 0 &&
            (!acl_is_name(bson_iter_key(&it)) || acl_check(bytes, len) != 0))
            return -EPROTO;
        struct xattr *x = xattr_new(bson_iter_key(&it), bytes, len);
        if (!x)
            return -ENOMEM;
        document_xattr_put(doc, x);
    }
    return 0;
}

static int decode_target(const bson_iter_t *it, struct document *doc)
{
    const uint8_t *bytes;
    uint32_t len;
    bson_iter_binary(it, NULL, &len, &bytes);
    doc->data = malloc(len + 1);
    if (!doc->data)
        return -ENOMEM;
    memcpy(doc->data, bytes, len);
    doc->data[len] = '\0';
    doc->data_cap = len + 1;
    return 0;
}

/* One element of a record; unknown ones are left alone. */
static int decode_element(const bson_iter_t *it, struct document *doc,
    struct record_place *ret_place, uint64_t *ret_blob, int64_t *ret_pages)
{
    const char *key = bson_iter_key(it);
    if (BSON_ITER_HOLDS_BINARY(it)) {
        if (strcmp(key, "target") == 0)
            return decode_target(it, doc);
        if (strcmp(key, "name") == 0) {
            const uint8_t *bytes;
            uint32_t len;
            bson_iter_binary(it, NULL, &len, &bytes);
            if (len == 0 || len > DOCUMENT_NAME_MAX_BYTES)
                return -EPROTO;
            ret_place->name = (const char *) bytes;
            ret_place->name_len = len;
        }
        return 0;
    }
    if (BSON_ITER_HOLDS_DATE_TIME(it)) {
        int64_t date_ms = bson_iter_date_time(it);
        if (strcmp(key, "created") == 0)
            doc->created_ms = date_ms;
        else if (strcmp(key, "ts") == 0)
            doc->ts_ms = date_ms;
        else if (strcmp(key, "accessed") == 0)
            doc->accessed_ms = date_ms;
        return 0;
    }
    if (BSON_ITER_HOLDS_DOCUMENT(it))
        return strcmp(key, "xattrs") == 0 ? decode_xattrs(it, doc) : 0;
    if (!BSON_ITER_HOLDS_INT64(it) && !BSON_ITER_HOLDS_INT32(it))
        return 0;

    const struct {
        const char *key;
        uint32_t *u32;
        uint64_t *u64;
        int64_t *i64;
    } places[] = {
        {"parent", NULL, &ret_place->parent, NULL},
        {"mode", &doc->mode, NULL, NULL},
        {"uid", &doc->uid, NULL, NULL},
        {"gid", &doc->gid, NULL, NULL},
        {"nlink", &doc->nlink, NULL, NULL},
        {"size", NULL, &doc->size, NULL},
        {"atime", NULL, NULL, &doc->atime_s},
        {"mtime", NULL, NULL, &doc->mtime_s},
        {"ctime", NULL, NULL, &doc->ctime_s},
        {"atimeNs", &doc->atime_ns, NULL, NULL},
        {"mtimeNs", &doc->mtime_ns, NULL, NULL},
        {"ctimeNs", &doc->ctime_ns, NULL, NULL},
        {"rdev", NULL, &doc->rdev, NULL},
        {"blob", NULL, ret_blob, NULL},
        {"pages", NULL, NULL, ret_pages},
    };
    int64_t value = bson_iter_as_int64(it);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (strcmp(key, places[i].key) != 0)
            continue;
        if (places[i].u32)
            *places[i].u32 = (uint32_t) value;
        else if (places[i].u64)
            *places[i].u64 = (uint64_t) value;
        else if (places[i].i64)
            *places[i].i64 = value;
        return 0;
    }
    if (strcmp(key, "flags") == 0 && value & RECORD_FLAG_EXTENDED)
        doc->flags |= DOCUMENT_EXTENDED;
    if (strcmp(key, "flags") == 0 && value & RECORD_FLAG_TAIL_HOLE)
        doc->flags |= DOCUMENT_TAIL_HOLE;
    return 0;
}

int record_decode(const void *value, size_t len, struct document *doc,
    struct record_place *ret_place, uint64_t *ret_blob, int64_t *ret_pages)
{
    bson_t b;
    bson_iter_t it;
    if (!bson_init_static(&b, value, len) || !bson_iter_init(&it, &b))
        return -EPROTO;
    while (bson_iter_next(&it)) {
        int err = decode_element(&it, doc, ret_place, ret_blob, ret_pages);
        if (err)
            return err;
    }
    switch (doc->mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFLNK:
    case S_IFIFO:
    case S_IFSOCK:
    case S_IFBLK:
    case S_IFCHR:
        return S_ISLNK(doc->mode) && !doc->data ? -EPROTO : 0;
    default:
        return -EPROTO;
    }
}
