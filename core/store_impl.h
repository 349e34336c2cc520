/*
 * store_impl.h - what the parts of the embedded store share; private to core/store_*.c.
 *
 *     store_batch.c   building, sorting and searching a batch
 *     store_open.c    the directory, its lock, its creation, opening and closing
 *     store_lmdb.c    records: staging, writing, reading
 *     store_blob.c    large contents as files
 *
 * Below the store's directory:
 *
 *     lock                    fcntl write lock of the process that has it open; its pid as text
 *     data.mdb, data.mdb-lock LMDB: one table per enum store_table
 *     blobs/XX/ID             a blob: ID is its number in 16 hex digits, XX the last two of them
 *
 * Lock order: registry (store_open.c), then store->lock; neither is held during disk I/O, except
 * for the registry while a lock file is opened or closed.
 */
#ifndef TTLFS_CORE_STORE_IMPL_H
#define TTLFS_CORE_STORE_IMPL_H

#include "core/store.h"

#include <lmdb.h>
#include <pthread.h>
#include <sys/types.h>

#define STORE_BLOB_FOLDERS 256

/* Read transactions that are kept for the next reader; beyond, each reader makes its own. */
#define STORE_IDLE_TXNS 32

struct store {
    int dir_fd;   /* the store's directory */
    int lock_fd;  /* -1 on a read-only filesystem */
    int blobs_fd; /* -1 when there is no such folder (read-only stores) */
    bool read_only;
    MDB_env *env;
    MDB_dbi tables[STORE_TABLES];
    bool durable_folder[STORE_BLOB_FOLDERS]; /* its name in blobs/ was synced; store_apply's own */

    pthread_mutex_t lock; /* covers what follows */
    const struct store_batch *staged;
    MDB_txn *idle[STORE_IDLE_TXNS]; /* reset: they hold a reader slot, but no snapshot */
    unsigned int nidle;
    bool new_in_folder[STORE_BLOB_FOLDERS]; /* a file was created; its name may not be durable */

    /* The registry's, under its mutex. */
    bool registered;
    dev_t dev;
    ino_t ino;
    struct store *next;
};

/*
 * Turns what LMDB returned into words and -errno. A short write, which LMDB calls EIO, becomes
 * -ENOSPC when the filesystem is full.
 */
int store_lmdb_error(const struct store *store, int rc, const char *doing, struct reason *why);

/* Sorts by table and key; of several operations on one key only the last is kept. */
void store_batch_sort(struct store_batch *batch);

/* Finds the operation on a key in a sorted batch; NULL when there is none. */
const struct store_op *store_batch_find(
    const struct store_batch *batch, enum store_table table, const void *key, size_t key_len);

/*
 * Makes a batch's dirty blobs durable, with their names; those that the batch also lists as dead
 * are skipped. Sorts both lists and drops duplicates.
 * Errors: -EIO, -ENOSPC and what open and fsync report.
 */
int store_blob_sync(struct store *store, struct store_batch *batch, struct reason *why);

#endif
