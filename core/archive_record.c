#include "core/archive_record.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define SIDECAR_SUFFIX ".ttlfs"
/* Of a name that is too long for its sidecar, this much is kept in front of the hash. */
#define SIDECAR_KEPT_BYTES 200

void archive_copy_release(struct archive_copy *copy)
{
    free(copy->mount);
    free(copy->path);
    free(copy->target);
    while (copy->xattrs) {
        struct xattr *next = copy->xattrs->next;
        free(copy->xattrs);
        copy->xattrs = next;
    }
    *copy = (struct archive_copy){0};
}

void archive_copy_id(const struct archive_copy *copy, char *ret_id)
{
    snprintf(ret_id, ARCHIVE_ID_BYTES, "%" PRIx64 "-%" PRIx64 "-%" PRIx64 ".%09ld-%" PRIx64,
        copy->ino, (uint64_t) copy->created_ms, (uint64_t) copy->mtime.tv_sec, copy->mtime.tv_nsec,
        copy->size);
}

void archive_append_bytes(bson_t *b, const char *key, const char *bytes)
{
    size_t len = strlen(bytes);
    if (bson_utf8_validate(bytes, len, false))
        bson_append_utf8(b, key, -1, bytes, (int) len);
    else
        bson_append_binary(
            b, key, -1, BSON_SUBTYPE_BINARY, (const uint8_t *) bytes, (uint32_t) len);
}

int archive_read_bytes(const bson_iter_t *it, char **ret_bytes)
{
    const uint8_t *bytes = NULL;
    uint32_t len = 0;
    if (BSON_ITER_HOLDS_UTF8(it))
        bytes = (const uint8_t *) bson_iter_utf8(it, &len);
    else if (BSON_ITER_HOLDS_BINARY(it))
        bson_iter_binary(it, NULL, &len, &bytes);
    if (!bytes || memchr(bytes, 0, len))
        return -EPROTO;
    *ret_bytes = strndup((const char *) bytes, len);
    return *ret_bytes ? 0 : -ENOMEM;
}

static void append_time(bson_t *b, const char *key, struct timespec t)
{
    bson_t sub;
    bson_append_document_begin(b, key, -1, &sub);
    BSON_APPEND_INT64(&sub, "s", t.tv_sec);
    BSON_APPEND_INT64(&sub, "ns", t.tv_nsec);
    bson_append_document_end(b, &sub);
}

static void append_xattrs(bson_t *b, const struct xattr *xattrs)
{
    bson_t array, one;
    char key[16];
    unsigned int n = 0;
    BSON_APPEND_ARRAY_BEGIN(b, "xattrs", &array);
    for (const struct xattr *x = xattrs; x; x = x->next) {
        (void) snprintf(key, sizeof key, "%u", n++);
        bson_append_document_begin(&array, key, -1, &one);
        archive_append_bytes(&one, "name", x->bytes);
        BSON_APPEND_BINARY(
            &one, "value", BSON_SUBTYPE_BINARY, (const uint8_t *) xattr_value(x), x->value_len);
        bson_append_document_end(&array, &one);
    }
    bson_append_array_end(b, &array);
}

int archive_record_format(
    const struct archive_copy *copy, bool with_xattrs, char **ret_text, size_t *ret_len)
{
    bson_t b = BSON_INITIALIZER;
    char id[ARCHIVE_ID_BYTES];
    size_t len;
    archive_copy_id(copy, id);
    BSON_APPEND_UTF8(&b, "id", id);
    if (copy->mount)
        archive_append_bytes(&b, "mount", copy->mount);
    archive_append_bytes(&b, "path", copy->path);
    archive_append_bytes(&b, "name", copy->name);
    BSON_APPEND_DATE_TIME(&b, "expired", copy->expired_ms);
    archive_append_bytes(&b, "reason", copy->reason);
    BSON_APPEND_BOOL(&b, "byContent", copy->by_content);
    BSON_APPEND_INT64(&b, "ino", (int64_t) copy->ino);
    BSON_APPEND_INT64(&b, "mode", copy->mode);
    BSON_APPEND_INT64(&b, "uid", copy->uid);
    BSON_APPEND_INT64(&b, "gid", copy->gid);
    BSON_APPEND_INT64(&b, "size", (int64_t) copy->size);
    BSON_APPEND_INT64(&b, "rdev", (int64_t) copy->rdev);
    append_time(&b, "atime", copy->atime);
    append_time(&b, "mtime", copy->mtime);
    BSON_APPEND_DATE_TIME(&b, "created", copy->created_ms);
    BSON_APPEND_DATE_TIME(&b, "ts", copy->ts_ms);
    BSON_APPEND_DATE_TIME(&b, "accessed", copy->accessed_ms);
    if (copy->target)
        archive_append_bytes(&b, "target", copy->target);
    if (with_xattrs)
        append_xattrs(&b, copy->xattrs);
    char *json = bson_as_relaxed_extended_json(&b, &len);
    bson_destroy(&b);
    *ret_text = json ? malloc(len + 2) : NULL;
    if (*ret_text) {
        memcpy(*ret_text, json, len);
        memcpy(*ret_text + len, "\n", 2);
        *ret_len = len + 1;
    }
    bson_free(json);
    return *ret_text ? 0 : -ENOMEM;
}

static int read_time(const bson_iter_t *it, struct timespec *ret_time)
{
    bson_iter_t sub;
    if (!BSON_ITER_HOLDS_DOCUMENT(it) || !bson_iter_recurse(it, &sub))
        return -EPROTO;
    while (bson_iter_next(&sub)) {
        if (!BSON_ITER_HOLDS_NUMBER(&sub))
            return -EPROTO;
        if (strcmp(bson_iter_key(&sub), "s") == 0)
            ret_time->tv_sec = (time_t) bson_iter_as_int64(&sub);
        else
            ret_time->tv_nsec = (long) bson_iter_as_int64(&sub);
    }
    return ret_time->tv_nsec >= 0 && ret_time->tv_nsec < 1000000000 ? 0 : -EPROTO;
}

static int read_xattr(const bson_iter_t *at, struct archive_copy *copy)
{
    bson_iter_t it, one = *at;
    char *name = NULL;
    const uint8_t *value = NULL;
    uint32_t len = 0;
    int err = bson_iter_recurse(&one, &it) ? 0 : -EPROTO;
    while (!err && bson_iter_next(&it)) {
        if (strcmp(bson_iter_key(&it), "name") == 0 && !name)
            err = archive_read_bytes(&it, &name);
        else if (strcmp(bson_iter_key(&it), "value") == 0 && BSON_ITER_HOLDS_BINARY(&it))
            bson_iter_binary(&it, NULL, &len, &value);
    }
    if (!err && (!name || (!value && len)))
        err = -EPROTO;
    struct xattr *x = err ? NULL : xattr_new(name, value ? (const char *) value : "", len);
    free(name);
    if (!err && !x)
        err = -ENOMEM;
    if (err)
        return err;
    x->next = copy->xattrs;
    copy->xattrs = x;
    return 0;
}

static int read_xattrs(const bson_iter_t *it, struct archive_copy *copy)
{
    bson_iter_t array;
    if (!BSON_ITER_HOLDS_ARRAY(it) || !bson_iter_recurse(it, &array))
        return -EPROTO;
    int err = 0;
    while (!err && bson_iter_next(&array))
        err = BSON_ITER_HOLDS_DOCUMENT(&array) ? read_xattr(&array, copy) : -EPROTO;
    return err;
}

int archive_read_text(const bson_iter_t *it, char *ret_text, size_t size)
{
    char *text;
    int err = archive_read_bytes(it, &text);
    if (err)
        return err;
    size_t len = strlen(text);
    if (len < size)
        memcpy(ret_text, text, len + 1);
    free(text);
    return len < size ? 0 : -EPROTO;
}

static int read_number(const bson_iter_t *it, struct archive_copy *copy)
{
    const char *key = bson_iter_key(it);
    const struct {
        const char *key;
        uint64_t *u64;
        uint32_t *u32;
        int64_t *i64;
    } places[] = {{"ino", &copy->ino, NULL, NULL}, {"size", &copy->size, NULL, NULL},
        {"rdev", &copy->rdev, NULL, NULL}, {"mode", NULL, &copy->mode, NULL},
        {"uid", NULL, &copy->uid, NULL}, {"gid", NULL, &copy->gid, NULL},
        {"expired", NULL, NULL, &copy->expired_ms}, {"created", NULL, NULL, &copy->created_ms},
        {"ts", NULL, NULL, &copy->ts_ms}, {"accessed", NULL, NULL, &copy->accessed_ms}};
    int64_t value =
        BSON_ITER_HOLDS_DATE_TIME(it) ? bson_iter_date_time(it) : bson_iter_as_int64(it);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (strcmp(key, places[i].key) != 0)
            continue;
        if (places[i].u64)
            *places[i].u64 = (uint64_t) value;
        else if (places[i].u32)
            *places[i].u32 = (uint32_t) value;
        else
            *places[i].i64 = value;
    }
    return 0;
}

/* One member of a record; unknown ones are left alone. */
static int read_member(const bson_iter_t *it, struct archive_copy *copy, char *ret_id)
{
    const char *key = bson_iter_key(it);
    if (strcmp(key, "id") == 0)
        return ret_id ? archive_read_text(it, ret_id, ARCHIVE_ID_BYTES) : 0;
    if (strcmp(key, "name") == 0)
        return archive_read_text(it, copy->name, sizeof copy->name);
    if (strcmp(key, "reason") == 0)
        return archive_read_text(it, copy->reason, sizeof copy->reason);
    if (strcmp(key, "mount") == 0 && !copy->mount)
        return archive_read_bytes(it, &copy->mount);
    if (strcmp(key, "path") == 0 && !copy->path)
        return archive_read_bytes(it, &copy->path);
    if (strcmp(key, "target") == 0 && !copy->target)
        return archive_read_bytes(it, &copy->target);
    if (strcmp(key, "atime") == 0)
        return read_time(it, &copy->atime);
    if (strcmp(key, "mtime") == 0)
        return read_time(it, &copy->mtime);
    if (strcmp(key, "xattrs") == 0)
        return read_xattrs(it, copy);
    if (strcmp(key, "byContent") == 0)
        copy->by_content = bson_iter_as_bool(it);
    else if (BSON_ITER_HOLDS_NUMBER(it) || BSON_ITER_HOLDS_DATE_TIME(it))
        return read_number(it, copy);
    return 0;
}

int archive_record_parse(const char *text, size_t len, struct archive_copy *ret_copy, char *ret_id)
{
    struct archive_copy copy = {0};
    bson_t b;
    bson_iter_t it;
    bson_error_t error;
    if (ret_id)
        ret_id[0] = '\0';
    if (!bson_init_from_json(&b, text, (ssize_t) len, &error))
        return -EPROTO;
    int err = bson_iter_init(&it, &b) ? 0 : -EPROTO;
    while (!err && bson_iter_next(&it))
        err = read_member(&it, &copy, ret_id);
    bson_destroy(&b);
    if (!err && (!copy.path || !copy.name[0] || strchr(copy.name, '/')))
        err = -EPROTO;
    if (err)
        archive_copy_release(&copy);
    else
        *ret_copy = copy;
    return err;
}

void archive_sidecar_name(const char *name, char *ret_name)
{
    size_t len = strlen(name);
    if (len + sizeof SIDECAR_SUFFIX <= DOCUMENT_NAME_MAX_BYTES)
        snprintf(ret_name, DOCUMENT_NAME_MAX_BYTES + 1, ".%s%s", name, SIDECAR_SUFFIX);
    else
        snprintf(ret_name, DOCUMENT_NAME_MAX_BYTES + 1, ".%.*s.%016" PRIx64 "%s",
            SIDECAR_KEPT_BYTES, name, (uint64_t) XXH3_64bits(name, len), SIDECAR_SUFFIX);
}
