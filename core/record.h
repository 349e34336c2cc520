/*
 * record.h - documents as records: BSON out of a struct document, and back.
 *
 * The fields of a record in STORE_NODES, keyed by document number (big endian, 8 bytes):
 *
 *     parent   int64   number of the collection that has its name   } only when it has one name;
 *     name     binary  the name                                     } several are in STORE_LINKS
 *     mode, uid, gid, nlink   int64
 *     size     int64   bytes
 *     atime, mtime, ctime     int64 seconds;  atimeNs, mtimeNs, ctimeNs  int32
 *     created, ts, accessed   date
 *     flags    int32   1: accessed after creation
 *     rdev     int64   devices
 *     target   binary  symlinks
 *     blob     int64   large contents: the blob's number;  pages int64: what it takes
 *     xattrs   document of binaries, in order
 *
 * Fields with the value that a new file has are left out. Unknown fields are ignored.
 */
#ifndef TTLFS_CORE_RECORD_H
#define TTLFS_CORE_RECORD_H

#include "core/document.h"
#include "core/store.h"

#define RECORD_INO_BYTES 8

/* Where a loaded document wants to be; no name when it has several. */
struct record_place {
    uint64_t parent;
    const char *name; /* in the record; NULL for none */
    size_t name_len;
};

/* Big endian, so that records lie in the order of their numbers. */
void record_ino_key(uint64_t ino, unsigned char *ret_key);
uint64_t record_ino_of_key(const unsigned char *key);

/* A key of STORE_LINKS; returns its length. @ret_key has STORE_KEY_MAX_BYTES. */
size_t record_link_key(const struct dentry *d, uint64_t ino, unsigned char *ret_key);

/*
 * Encodes a document's record.
 * @ret_value  malloc'd, the caller's
 * Errors: -ENOMEM. Expects the tree's lock.
 */
int record_encode(const struct document *doc, void **ret_value, size_t *ret_len);

/*
 * Decodes a record into a zeroed document.
 * @ret_blob   0 for none
 * @ret_pages  what the blob takes
 * Errors: -EPROTO, -ENOMEM; the document then still has to be released.
 */
int record_decode(const void *value, size_t len, struct document *doc,
    struct record_place *ret_place, uint64_t *ret_blob, int64_t *ret_pages);

#endif
