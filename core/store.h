/*
 * store.h - the plug behind the tree: where records and large contents are kept.
 *
 * The tree hands over batches of records and asks for single contents back; everything else lives
 * in memory. A store speaks of documents (records keyed by document number), never of pages, so
 * that something other than an embedded database can stand behind it. `memory:` is no store at
 * all: the tree then has a NULL store and keeps every content itself.
 *
 * Locks: no function here may be called with the tree's lock held, except the batch builders
 * (store_batch_*), which only append to memory that their caller owns. Every other function may be
 * called from any thread.
 */
#ifndef TTLFS_CORE_STORE_H
#define TTLFS_CORE_STORE_H

#include "core/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The version of everything below a store directory; another one is refused. */
#define STORE_FORMAT_VERSION 1

/* A record's key is at most this long: two document numbers and a name of 255 bytes. */
#define STORE_KEY_MAX_BYTES (8 + 8 + 255)

enum store_table {
    STORE_NODES,    /* document number (8 bytes, big endian) -> BSON: attributes, name, xattrs */
    STORE_LINKS,    /* number, parent's number, name -> empty: names of multiply linked documents */
    STORE_CONTENTS, /* document number -> the bytes of a small content */
    STORE_META,     /* a word -> BSON: parameters, counters */
    STORE_TABLES
};

/* One record put or removed. */
struct store_op {
    uint8_t table;    /* enum store_table */
    bool put;         /* else: remove; removing what is not there is no error */
    bool owns_value;  /* value was malloc'd and is freed with the batch */
    uint16_t key_len; /* bytes */
    uint32_t seq;     /* order of arrival: of several operations on one key the last one wins */
    uint32_t key_off; /* where the key starts in the batch's key arena */
    size_t value_len; /* bytes */
    void *value;      /* NULL when removing or empty */
};

/*
 * A set of changes that becomes durable as a whole. Built by one thread at a time under the
 * caller's lock, then handed to store_apply.
 */
struct store_batch {
    struct store_op *ops;
    size_t nops, cap_ops;
    unsigned char *keys; /* key arena */
    size_t keys_len, keys_cap;
    uint64_t *dirty_blobs; /* blobs whose bytes must reach the disk before the records */
    size_t ndirty, cap_dirty;
    uint64_t *dead_blobs; /* blobs to be unlinked once the records are durable */
    size_t ndead, cap_dead;
};

void store_batch_init(struct store_batch *batch);
/* Frees what the batch owns and leaves it empty and usable. */
void store_batch_release(struct store_batch *batch);
bool store_batch_empty(const struct store_batch *batch);

/*
 * Adds "put value under key".
 * @key        copied; 1 to STORE_KEY_MAX_BYTES bytes
 * @value      taken over (malloc'd; freed with the batch, also when this call fails); may be NULL
 *             when value_len is 0
 * Errors: -ENOMEM, -EINVAL (key empty or longer than STORE_KEY_MAX_BYTES).
 */
int store_batch_put(struct store_batch *batch, enum store_table table, const void *key,
    size_t key_len, void *value, size_t value_len);

/* Adds "remove key". The key is copied. Errors: -ENOMEM, -EINVAL. */
int store_batch_remove(
    struct store_batch *batch, enum store_table table, const void *key, size_t key_len);

/*
 * Adds a blob to those synced before the records are written; duplicates are allowed, blobs that
 * are dead or gone by then are skipped. A new blob must be listed once even if it is empty: this
 * makes its name durable, too. Errors: -ENOMEM.
 */
int store_batch_dirty_blob(struct store_batch *batch, uint64_t blob);

/* Adds a blob to those unlinked after the records are durable. Errors: -ENOMEM. */
int store_batch_dead_blob(struct store_batch *batch, uint64_t blob);

struct store; /* opaque */

/*
 * Opens the embedded store in a directory, creating both when missing (mode 0700), and takes its
 * lock for this process. The lock does not survive a fork: a daemon opens its store afterwards.
 * @path       the directory
 * @read_only  true refuses every later write, and creates nothing but lock files
 * @ret_store  freed with store_close
 * @why        the reason in words, naming the holder's pid when another process has the store
 * Errors: -EBUSY (another process or this one has it open), -ENOTEMPTY (it would have
 * to be made among other files), -EPROTO (a format version that this
 * build does not know), -ENOENT (read_only and no store there), -ENOTDIR, -EACCES, -EIO, -ENOSPC,
 * -ENOMEM and what open, mkdir and LMDB report.
 */
int store_open(const char *path, bool read_only, struct store **ret_store, struct reason *why);

/* Closes and frees. Nothing may be running in the store. NULL is allowed. */
void store_close(struct store *store);

/* Called for each record of a scan; a non-zero result ends the scan with that result. */
typedef int store_scan_fn(
    void *arg, const void *key, size_t key_len, const void *value, size_t value_len);

/*
 * Visits every durable record of a table in key order; what is merely staged is not seen. Key and
 * value are valid during the call only. LMDB reuses no pages that are freed while a scan lasts.
 * Returns 0, the callback's non-zero result, or -errno. The callback may call store_get.
 */
int store_scan(struct store *store, enum store_table table, store_scan_fn *fn, void *arg);

/*
 * Reads one record: the newest of what is durable and of what store_apply is writing right now.
 * @ret_value  malloc'd copy, the caller frees it; NULL when the record is empty
 * Errors: -ENOENT, -ENOMEM, -EINVAL (no possible key), -EAGAIN (a thousand readers), -EIO.
 */
int store_get(struct store *store, enum store_table table, const void *key, size_t key_len,
    void **ret_value, size_t *ret_len);

/*
 * Makes a batch findable by store_get before it is written; to be called by the one thread that
 * commits, once the batch is complete. The batch must not change until store_apply has returned.
 * Sorts the batch's operations; of several on one key only the last is kept. Cannot fail. Staging a
 * batch that is staged already does nothing.
 *
 * Needs no lock, and is better called without the tree's: it costs a sort, 0.12 to 0.18 us per
 * operation where that was measured.
 */
void store_stage(struct store *store, struct store_batch *batch);

/*
 * Writes the staged batch: syncs its dirty blobs, writes the records in one transaction with a
 * real sync, then unlinks its dead blobs. On success the batch has been released and is no longer
 * staged. On failure nothing was written, the batch stays staged and findable, and the call may
 * be repeated.
 * Errors: -ENOSPC (the filesystem, a quota or the map is full), -EIO, -ENOMEM, -EROFS, -EINVAL (not
 * staged) and what fdatasync reports. @why says what failed.
 */
int store_apply(struct store *store, struct store_batch *batch, struct reason *why);

/*
 * Opens a blob's file for reading and writing, creating it (mode 0600) when asked. In a read-only
 * store it is opened for reading.
 * @ret_fd  the caller closes it
 * Errors: -ENOENT, -EEXIST (create and it is there), -ENOSPC, -EMFILE, -EROFS, -EIO.
 */
int store_blob_open(struct store *store, uint64_t blob, bool create, int *ret_fd);

/* Unlinks a blob that no record names. Missing ones are no error. Errors: -EROFS, -EIO. */
int store_blob_remove(struct store *store, uint64_t blob);

/*
 * Removes every blob file for which `keep` says false; for the start, after a crash.
 * Files that are no blobs are left alone. Returns how many were removed, or -errno (-EROFS, -EIO).
 */
int store_blob_sweep(struct store *store, bool (*keep)(void *arg, uint64_t blob), void *arg);

/* What statvfs says of the store directory's filesystem. Returns 0 or -errno. */
struct statvfs;
int store_statvfs(struct store *store, struct statvfs *ret_stat);

#endif
