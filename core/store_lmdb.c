/*
 * store_lmdb.c - records in LMDB: staged, written, read.
 *
 * A write transaction begins and ends within store_apply, in one thread, as LMDB asks for. Read
 * transactions are not tied to threads (MDB_NOTLS) and are reused: renewing one costs no lock.
 */
#include "core/store_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* With less than this left, a write that came out short was too long for the filesystem. */
#define FULL_BYTES (1 << 20)

static bool disk_is_full(const struct store *store)
{
    struct statvfs st;
    return store->dir_fd >= 0 && fstatvfs(store->dir_fd, &st) == 0 &&
           (uint64_t) st.f_bavail * st.f_frsize < FULL_BYTES;
}

static int lmdb_errno(const struct store *store, int rc)
{
    switch (rc) {
    case EIO:
        return disk_is_full(store) ? ENOSPC : EIO;
    case EDQUOT:
    case EFBIG:
    case MDB_MAP_FULL:
        return ENOSPC;
    case MDB_NOTFOUND:
        return ENOENT;
    case MDB_BAD_VALSIZE:
        return EINVAL;
    case MDB_VERSION_MISMATCH:
        return EPROTO;
    case MDB_READERS_FULL:
        return EAGAIN;
    default: /* LMDB's own are negative: damage, or an earlier failure to write the root */
        return rc > 0 ? rc : EIO;
    }
}

int store_lmdb_error(const struct store *store, int rc, const char *doing, struct reason *why)
{
    int err = lmdb_errno(store, rc);
    const char *full = err == ENOSPC && rc != ENOSPC ? " (the store is full)" : "";
    return reason_set(why, err, "%s: %s%s", doing, mdb_strerror(rc), full);
}

void store_stage(struct store *store, struct store_batch *batch)
{
    pthread_mutex_lock(&store->lock);
    bool staged = store->staged == batch;
    pthread_mutex_unlock(&store->lock);
    if (staged) /* after a failure: readers may be searching it */
        return;

    store_batch_sort(batch);
    pthread_mutex_lock(&store->lock);
    store->staged = batch;
    pthread_mutex_unlock(&store->lock);
}

static int write_op(MDB_cursor *cursor, const struct store_op *op, const unsigned char *op_key)
{
    MDB_val key = {op->key_len, (void *) op_key};
    MDB_val value = {op->value_len, op->value};
    if (op->put)
        return mdb_cursor_put(cursor, &key, &value, 0);
    int rc = mdb_cursor_get(cursor, &key, NULL, MDB_SET);
    if (rc)
        return rc == MDB_NOTFOUND ? 0 : rc;
    return mdb_cursor_del(cursor, 0);
}

/*
 * Operations come in the order of their keys, so the next one is mostly on the page where the
 * table's cursor is. (MDB_APPEND for new numbers was measured: 5 % less space, hardly any time.)
 */
static int write_ops(struct store *store, MDB_txn *txn, const struct store_batch *batch)
{
    MDB_cursor *cursor = NULL;
    int rc = 0;
    for (size_t i = 0; !rc && i < batch->nops; i++) {
        const struct store_op *op = &batch->ops[i];
        if (i == 0 || op->table != batch->ops[i - 1].table)
            rc = mdb_cursor_open(txn, store->tables[op->table], &cursor);
        if (!rc)
            rc = write_op(cursor, op, batch->keys + op->key_off);
    }
    return rc; /* the end of the transaction closes the cursors */
}

static int write_records(struct store *store, const struct store_batch *batch, struct reason *why)
{
    if (batch->nops == 0)
        return 0;
    MDB_txn *txn;
    int rc = mdb_txn_begin(store->env, NULL, 0, &txn);
    if (rc)
        return store_lmdb_error(store, rc, "beginning to write records", why);
    rc = write_ops(store, txn, batch);
    if (rc) {
        mdb_txn_abort(txn);
        return store_lmdb_error(store, rc, "writing records", why);
    }
    rc = mdb_txn_commit(txn);
    return rc ? store_lmdb_error(store, rc, "making records durable", why) : 0;
}

int store_apply(struct store *store, struct store_batch *batch, struct reason *why)
{
    if (store->read_only)
        return reason_set(why, EROFS, "the store is open for reading only");
    pthread_mutex_lock(&store->lock);
    bool staged = store->staged == batch;
    pthread_mutex_unlock(&store->lock);
    if (!staged)
        return reason_set(why, EINVAL, "this batch was not staged");

    int ret = store_blob_sync(store, batch, why);
    if (!ret)
        ret = write_records(store, batch, why);
    if (ret)
        return ret;

    /* Only now: a reader that does not find the batch any more finds what was committed. */
    pthread_mutex_lock(&store->lock);
    store->staged = NULL;
    pthread_mutex_unlock(&store->lock);
    for (size_t i = 0; i < batch->ndead; i++)
        store_blob_remove(store, batch->dead_blobs[i]); /* what stays is swept at the next start */
    store_batch_release(batch);
    return 0;
}

/* Hands out a reading transaction; the caller has seen to it that store->lock is not held. */
static int reader_begin(struct store *store, MDB_txn *idle, MDB_txn **ret_txn)
{
    if (!idle)
        return mdb_txn_begin(store->env, NULL, MDB_RDONLY, ret_txn);
    int rc = mdb_txn_renew(idle);
    if (rc)
        mdb_txn_abort(idle);
    else
        *ret_txn = idle;
    return rc;
}

static MDB_txn *take_idle(struct store *store)
{
    return store->nidle ? store->idle[--store->nidle] : NULL;
}

static void reader_end(struct store *store, MDB_txn *txn)
{
    mdb_txn_reset(txn); /* a snapshot that is held on to keeps LMDB from reusing pages */
    pthread_mutex_lock(&store->lock);
    bool kept = store->nidle < STORE_IDLE_TXNS;
    if (kept)
        store->idle[store->nidle++] = txn;
    pthread_mutex_unlock(&store->lock);
    if (!kept)
        mdb_txn_abort(txn);
}

static int copy_value(const void *value, size_t len, void **ret_value, size_t *ret_len)
{
    void *copy = NULL;
    if (len) {
        copy = malloc(len);
        if (!copy)
            return -ENOMEM;
        memcpy(copy, value, len);
    }
    *ret_value = copy;
    *ret_len = len;
    return 0;
}

int store_get(struct store *store, enum store_table table, const void *key, size_t key_len,
    void **ret_value, size_t *ret_len)
{
    pthread_mutex_lock(&store->lock);
    const struct store_op *op =
        store->staged ? store_batch_find(store->staged, table, key, key_len) : NULL;
    if (op) {
        int ret = op->put ? copy_value(op->value, op->value_len, ret_value, ret_len) : -ENOENT;
        pthread_mutex_unlock(&store->lock);
        return ret;
    }
    MDB_txn *idle = take_idle(store), *txn;
    pthread_mutex_unlock(&store->lock);

    /* The snapshot is younger than the look at the staged batch, so it has what left the batch. */
    int rc = reader_begin(store, idle, &txn);
    if (rc)
        return store_lmdb_error(store, rc, "", NULL);
    MDB_val lmdb_key = {key_len, (void *) key}, value;
    rc = mdb_get(txn, store->tables[table], &lmdb_key, &value);
    int ret = rc ? store_lmdb_error(store, rc, "", NULL)
                 : copy_value(value.mv_data, value.mv_size, ret_value, ret_len);
    reader_end(store, txn);
    return ret;
}

int store_scan(struct store *store, enum store_table table, store_scan_fn *fn, void *arg)
{
    pthread_mutex_lock(&store->lock);
    MDB_txn *idle = take_idle(store), *txn;
    pthread_mutex_unlock(&store->lock);
    int rc = reader_begin(store, idle, &txn);
    if (rc)
        return store_lmdb_error(store, rc, "", NULL);

    MDB_cursor *cursor = NULL;
    int ret = 0;
    rc = mdb_cursor_open(txn, store->tables[table], &cursor);
    MDB_val key, value;
    if (!rc)
        rc = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    while (!rc && !ret) {
        ret = fn(arg, key.mv_data, key.mv_size, value.mv_data, value.mv_size);
        if (!ret)
            rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    if (cursor)
        mdb_cursor_close(cursor); /* LMDB leaves those of reading transactions to their users */
    reader_end(store, txn);
    if (!ret && rc && rc != MDB_NOTFOUND)
        ret = store_lmdb_error(store, rc, "", NULL);
    return ret;
}
