/*
 * store_batch.c - sets of changes: built, sorted, searched.
 */
#include "core/store_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void store_batch_init(struct store_batch *batch)
{
    *batch = (struct store_batch){0};
}

static void op_release(struct store_op *op)
{
    if (op->owns_value)
        free(op->value);
}

void store_batch_release(struct store_batch *batch)
{
    for (size_t i = 0; i < batch->nops; i++)
        op_release(&batch->ops[i]);
    free(batch->ops);
    free(batch->keys);
    free(batch->dirty_blobs);
    free(batch->dead_blobs);
    store_batch_init(batch);
}

bool store_batch_empty(const struct store_batch *batch)
{
    return batch->nops == 0 && batch->ndirty == 0 && batch->ndead == 0;
}

/* Gives back an array with room for `need` items, doubling its capacity; NULL without memory. */
static void *with_room(void *array, size_t *cap, size_t need, size_t item_bytes)
{
    if (need <= *cap)
        return array;
    size_t wanted = *cap ? *cap * 2 : 16;
    while (wanted < need)
        wanted *= 2;
    void *grown = reallocarray(array, wanted, item_bytes);
    if (grown)
        *cap = wanted;
    return grown;
}

static int add_op(struct store_batch *batch, const struct store_op *op, const void *key)
{
    if (op->key_len == 0 || op->key_len > STORE_KEY_MAX_BYTES)
        return -EINVAL;
    if (batch->nops >= UINT32_MAX || batch->keys_len > UINT32_MAX - STORE_KEY_MAX_BYTES)
        return -ENOMEM;
    struct store_op *ops = with_room(batch->ops, &batch->cap_ops, batch->nops + 1, sizeof *ops);
    if (!ops)
        return -ENOMEM;
    batch->ops = ops;
    unsigned char *keys =
        with_room(batch->keys, &batch->keys_cap, batch->keys_len + op->key_len, 1);
    if (!keys)
        return -ENOMEM;
    batch->keys = keys;

    memcpy(keys + batch->keys_len, key, op->key_len);
    ops[batch->nops] = *op;
    ops[batch->nops].seq = (uint32_t) batch->nops;
    ops[batch->nops].key_off = (uint32_t) batch->keys_len;
    batch->nops++;
    batch->keys_len += op->key_len;
    return 0;
}

/* A key that is too long for its field must not wrap around to a valid length. */
static uint16_t checked_len(size_t key_len)
{
    return key_len > STORE_KEY_MAX_BYTES ? UINT16_MAX : (uint16_t) key_len;
}

int store_batch_put(struct store_batch *batch, enum store_table table, const void *key,
    size_t key_len, void *value, size_t value_len)
{
    struct store_op op = {.table = (uint8_t) table,
        .put = true,
        .owns_value = value != NULL,
        .key_len = checked_len(key_len),
        .value_len = value_len,
        .value = value};
    int ret = add_op(batch, &op, key);
    if (ret)
        free(value);
    return ret;
}

int store_batch_remove(
    struct store_batch *batch, enum store_table table, const void *key, size_t key_len)
{
    struct store_op op = {.table = (uint8_t) table, .key_len = checked_len(key_len)};
    return add_op(batch, &op, key);
}

static int add_blob(uint64_t **blobs, size_t *n, size_t *cap, uint64_t blob)
{
    if (*n && (*blobs)[*n - 1] == blob)
        return 0;
    uint64_t *grown = with_room(*blobs, cap, *n + 1, sizeof blob);
    if (!grown)
        return -ENOMEM;
    *blobs = grown;
    grown[(*n)++] = blob;
    return 0;
}

int store_batch_dirty_blob(struct store_batch *batch, uint64_t blob)
{
    return add_blob(&batch->dirty_blobs, &batch->ndirty, &batch->cap_dirty, blob);
}

int store_batch_dead_blob(struct store_batch *batch, uint64_t blob)
{
    return add_blob(&batch->dead_blobs, &batch->ndead, &batch->cap_dead, blob);
}

/* LMDB's order: bytes, then length. */
static int compare_keys(const void *a, size_t a_len, const void *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int compare_records(
    const struct store_op *a, const struct store_op *b, const unsigned char *keys)
{
    if (a->table != b->table)
        return a->table < b->table ? -1 : 1;
    return compare_keys(keys + a->key_off, a->key_len, keys + b->key_off, b->key_len);
}

static int compare_ops(const void *a_op, const void *b_op, void *keys)
{
    const struct store_op *a = a_op, *b = b_op;
    int order = compare_records(a, b, keys);
    return order ? order : (a->seq > b->seq) - (a->seq < b->seq);
}

void store_batch_sort(struct store_batch *batch)
{
    if (batch->nops < 2)
        return;
    /* Does its work in place when it gets no memory for a copy. */
    qsort_r(batch->ops, batch->nops, sizeof batch->ops[0], compare_ops, batch->keys);

    size_t kept = 0;
    for (size_t i = 0; i < batch->nops; i++) {
        struct store_op *op = &batch->ops[i];
        if (i + 1 < batch->nops && compare_records(op, op + 1, batch->keys) == 0)
            op_release(op);
        else
            batch->ops[kept++] = *op;
    }
    batch->nops = kept;
}

const struct store_op *store_batch_find(
    const struct store_batch *batch, enum store_table table, const void *key, size_t key_len)
{
    size_t low = 0, high = batch->nops;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct store_op *op = &batch->ops[middle];
        int order = (op->table > table) - (op->table < table);
        if (order == 0)
            order = compare_keys(batch->keys + op->key_off, op->key_len, key, key_len);
        if (order == 0)
            return op;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
