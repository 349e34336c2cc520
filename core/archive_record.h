/*
 * archive_record.h - what stands beside an archived content: one JSON object.
 *
 * It is the extended attribute ARCHIVE_XATTR of the archived file, beside the document's own
 * attributes. Where the archive's filesystem cannot hold all of those (symlinks, FIFOs, sockets and
 * devices have no user attributes; ext4 has room for one block) it is a file of its own, with the
 * attributes in it: archive_sidecar_name. Needs no lock, knows neither tree nor mount.
 */
#ifndef TTLFS_CORE_ARCHIVE_RECORD_H
#define TTLFS_CORE_ARCHIVE_RECORD_H

#include "core/document.h"

#include <bson/bson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARCHIVE_XATTR "user.ttlfs.archive"
#define ARCHIVE_WHY_BYTES 300
/* Four numbers in hexadecimal, their separators and a NUL. */
#define ARCHIVE_ID_BYTES 96
/* The longest text of a record that is read back. */
#define ARCHIVE_RECORD_MAX_BYTES (16 * 1024 * 1024)

/* What tells whether a document has changed. */
struct archive_state {
    uint64_t size;
    int64_t mtime_s;
    uint32_t mtime_ns;
};

/* A document to be archived, or one that was. */
struct archive_copy {
    char *mount; /* where it was mounted; NULL when not known */
    char *path;  /* of its collection, from the root, without a slash in front */
    char name[DOCUMENT_NAME_MAX_BYTES + 1];
    int64_t expired_ms, created_ms, ts_ms, accessed_ms;
    char reason[ARCHIVE_WHY_BYTES];
    bool by_content; /* a date in the content decided: it would be due again at once */
    uint64_t ino, size, rdev;
    uint32_t mode, uid, gid;
    struct timespec atime, mtime;
    char *target; /* symlinks */
    struct xattr *xattrs;
};

/* Frees what a copy owns. A zeroed one owns nothing. */
void archive_copy_release(struct archive_copy *copy);

/*
 * What makes a copy this document's and no other's: number, birth, last change, size. The same
 * again when an archiving that was interrupted is repeated.
 * @ret_id  has ARCHIVE_ID_BYTES
 */
void archive_copy_id(const struct archive_copy *copy, char *ret_id);

/*
 * The record as text.
 * @with_xattrs  the sidecar's form
 * @ret_text     malloc'd and terminated, the caller's
 * Errors: -ENOMEM.
 */
int archive_record_format(
    const struct archive_copy *copy, bool with_xattrs, char **ret_text, size_t *ret_len);

/*
 * Reads a record.
 * @ret_copy  released with archive_copy_release unless the call fails
 * @ret_id    has ARCHIVE_ID_BYTES; may be NULL
 * Errors: -EPROTO, -ENOMEM.
 */
int archive_record_parse(const char *text, size_t len, struct archive_copy *ret_copy, char *ret_id);

/*
 * The name of the file beside an archived one: ".NAME.ttlfs", or a hash in the place of what is too
 * long.
 * @ret_name  has DOCUMENT_NAME_MAX_BYTES + 1
 */
void archive_sidecar_name(const char *name, char *ret_name);

/* Appends bytes: as text where they are UTF-8 without a NUL, as binary where they are not. */
void archive_append_bytes(bson_t *b, const char *key, const char *bytes);

/* Reads them back. @ret_bytes malloc'd and terminated. Errors: -EPROTO, -ENOMEM. */
int archive_read_bytes(const bson_iter_t *it, char **ret_bytes);

/*
 * The same into a place of `size` bytes, which is left alone on errors. Errors: -EPROTO also when it
 * does not fit, -ENOMEM.
 */
int archive_read_text(const bson_iter_t *it, char *ret_text, size_t size);

#endif
