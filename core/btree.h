/*
 * btree.h - an ordered set of (date, item) pairs: the entries of an index.
 *
 * A B+tree in memory, made for the ways in which documents expire: mostly appended at the end,
 * mostly removed from the front, sometimes anywhere. Pairs are ordered by key, then by the item's
 * address, so every pair is unique and can be removed exactly. Each inner node counts the pairs
 * below it, so "how many are due" costs one descent.
 *
 * The caller's lock covers every call.
 */
#ifndef TTLFS_CORE_BTREE_H
#define TTLFS_CORE_BTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct btree_entry {
    int64_t key; /* milliseconds, mostly */
    void *item;  /* never looked into, never owned */
};

struct btree_node;

struct btree {
    struct btree_node *root; /* NULL when empty: an unused tree costs nothing */
    uint64_t count;
    unsigned int height;
};

void btree_init(struct btree *tree);
/* Frees all nodes; not the items. Leaves an empty, usable tree. */
void btree_release(struct btree *tree);

/* Errors: -EEXIST (this very pair is there), -ENOMEM; the tree is then as it was. */
int btree_insert(struct btree *tree, int64_t key, void *item);

/* Needs no memory. Errors: -ENOENT. */
int btree_remove(struct btree *tree, int64_t key, void *item);

/* The smallest pair. Returns false when the tree is empty. */
bool btree_first(const struct btree *tree, struct btree_entry *ret_entry);

/* The smallest pair that is greater than `after`. Returns false when there is none. */
bool btree_next(const struct btree *tree, struct btree_entry after, struct btree_entry *ret_entry);

/*
 * Copies out, in order, up to `max` pairs greater than or equal to `from` whose key is at most
 * `last_key`. Returns how many.
 */
size_t btree_copy(const struct btree *tree, struct btree_entry from, int64_t last_key,
    struct btree_entry *ret_entries, size_t max);

/* How many pairs have a key of at most `last_key`. */
uint64_t btree_count_upto(const struct btree *tree, int64_t last_key);

/* Bytes held in nodes; for reports and tests. */
size_t btree_bytes(const struct btree *tree);

/*
 * Checks every invariant of the structure (order, fill, counts, heights). For tests and debug
 * builds. Returns true when all hold.
 */
bool btree_check(const struct btree *tree);

#endif
