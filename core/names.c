#include "core/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Up to this many names a table is one list. */
#define SMALL_TABLE_NAMES 6
/* Names per bucket before the table doubles. */
#define LOAD_NAMES 2
#define SEGMENTS 40
/* How far from its hash's place a name may be put when places are taken: orders are odd. */
#define COLLISION_SPAN 32

static uint64_t bits_reversed(uint64_t x)
{
    x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
    x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
    return __builtin_bswap64(x);
}

static uint64_t name_order(uint64_t seed, const char *name, size_t len)
{
    uint64_t order = bits_reversed(XXH3_64bits_withSeed(name, len, seed)) | 1;
    if (order >> 1 <= NAMES_COOKIE_RESERVED)
        order += 2 * (NAMES_COOKIE_RESERVED + 1);
    /* Room for colliding names behind it. */
    if (order > UINT64_MAX - COLLISION_SPAN)
        order -= COLLISION_SPAN;
    return order;
}

static bool is_dentry(const struct name_node *node)
{
    return node->order & 1;
}

static struct name_node *mark_at(struct name_table *table, uint64_t bucket)
{
    if (bucket == 0)
        return &table->head;
    unsigned int segment = 64 - (unsigned int) __builtin_clzll(bucket);
    return &table->segments[segment][bucket - (1ULL << (segment - 1))];
}

/*
 * The mark of a bucket, put into the list when it is used for the first time: behind the mark of
 * the bucket that this one was split from, which has the same number without its highest bit.
 */
static struct name_node *bucket_mark(struct name_table *table, uint64_t bucket)
{
    struct name_node *mark = mark_at(table, bucket);
    if (bucket == 0 || mark->order)
        return mark;
    uint64_t parent = bucket & ~(1ULL << (63 - (unsigned int) __builtin_clzll(bucket)));
    struct name_node *at = bucket_mark(table, parent);
    mark->order = bits_reversed(bucket);
    while (at->next && at->next->order < mark->order)
        at = at->next;
    mark->next = at->next;
    at->next = mark;
    return mark;
}

/* The last node before `order`. */
static struct name_node *node_before(struct name_table *table, uint64_t order)
{
    uint64_t bucket = bits_reversed(order) & ((1ULL << table->bits) - 1);
    struct name_node *at = bucket_mark(table, bucket);
    while (at->next && at->next->order < order)
        at = at->next;
    return at;
}

static void grow_if_full(struct name_table *table)
{
    if (table->count <= SMALL_TABLE_NAMES || table->count <= (uint64_t) LOAD_NAMES << table->bits ||
        table->bits + 1 >= SEGMENTS)
        return;
    if (!table->segments) {
        table->segments = calloc(SEGMENTS, sizeof *table->segments);
        if (!table->segments)
            return;
    }
    unsigned int segment = table->bits + 1;
    struct name_node *marks = calloc(1ULL << table->bits, sizeof *marks);
    if (!marks)
        return;
    table->segments[segment] = marks;
    table->bits++;
}

void names_init(struct name_table *table)
{
    memset(table, 0, sizeof *table);
}

void names_release(struct name_table *table)
{
    if (table->segments) {
        for (unsigned int k = 1; k <= table->bits; k++)
            free(table->segments[k]);
        free(table->segments);
    }
    names_init(table);
}

struct dentry *names_find(
    struct name_table *table, uint64_t hash_seed, const char *name, size_t len)
{
    uint64_t order = name_order(hash_seed, name, len);
    struct name_node *node = node_before(table, order)->next;
    for (; node && node->order - order < COLLISION_SPAN; node = node->next) {
        struct dentry *d = (struct dentry *) node;
        if (is_dentry(node) && d->name_len == len && memcmp(d->name, name, len) == 0)
            return d;
    }
    return NULL;
}

int names_insert(struct name_table *table, uint64_t hash_seed, struct dentry *d)
{
    uint64_t order = name_order(hash_seed, d->name, d->name_len);
    uint64_t end = order + COLLISION_SPAN;
    struct name_node *at = node_before(table, order);
    while (at->next && at->next->order <= order) {
        if (at->next->order == order)
            order += 2;
        at = at->next;
    }
    if (order >= end)
        return -ENOSPC;
    d->node.order = order;
    d->node.next = at->next;
    at->next = &d->node;
    table->count++;
    grow_if_full(table);
    return 0;
}

void names_remove(struct name_table *table, struct dentry *d)
{
    struct name_node *at = node_before(table, d->node.order);
    at->next = d->node.next;
    d->node.next = NULL;
    table->count--;
    /* An emptied collection gives its marks back; nothing in the list but marks is left. */
    if (table->count == 0)
        names_release(table);
}

static struct dentry *first_dentry(struct name_node *node)
{
    while (node && !is_dentry(node))
        node = node->next;
    return (struct dentry *) node;
}

struct dentry *names_after(struct name_table *table, uint64_t cookie)
{
    if (cookie >= INT64_MAX)
        return NULL;
    return first_dentry(node_before(table, (cookie + 1) << 1)->next);
}

struct dentry *names_next(struct dentry *d)
{
    return first_dentry(d->node.next);
}
