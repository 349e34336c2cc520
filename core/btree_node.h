/*
 * btree_node.h - the nodes of a btree; private to core/btree*.c.
 */
#ifndef TTLFS_CORE_BTREE_NODE_H
#define TTLFS_CORE_BTREE_NODE_H

#include "core/btree.h"

#include <string.h>

enum {
    LEAF_PAIRS = 64,     /* 1 KiB: moving half of it costs about as much as the descent */
    INNER_CHILDREN = 64, /* four levels hold 16 million pairs */
    /* A third, not a half: what was just merged or split is then not at the brink again. */
    LEAF_MIN_PAIRS = LEAF_PAIRS / 3,
    INNER_MIN_CHILDREN = INNER_CHILDREN / 3,
    EDGE_MIN_CHILDREN = 2, /* so every node below the root has a sibling under its parent */
    MAX_HEIGHT = 16,       /* 64 bits of address space end before this */
};

struct btree_node {
    uint16_t n;   /* pairs or children in use */
    uint16_t cap; /* LEAF_PAIRS or INNER_CHILDREN; less only in a leaf that is the root */
};

struct leaf {
    struct btree_node head;
    struct leaf *next;
    struct btree_entry pairs[];
};

struct inner {
    struct btree_node head;
    struct btree_entry low[INNER_CHILDREN]; /* low[i] <= all pairs of child i; low[0] is unused */
    uint64_t counts[INNER_CHILDREN];
    struct btree_node *children[INNER_CHILDREN];
};

/* The way down to a leaf: at each inner level the node and the child that was taken. */
struct path {
    unsigned int depth; /* inner levels */
    struct {
        struct inner *node;
        unsigned int at;
    } steps[MAX_HEIGHT];
};

static inline bool is_before(struct btree_entry a, struct btree_entry b)
{
    return a.key < b.key || (a.key == b.key && (uintptr_t) a.item < (uintptr_t) b.item);
}

static inline bool is_same(struct btree_entry a, struct btree_entry b)
{
    return a.key == b.key && a.item == b.item;
}

/* The first of n pairs that is not before `entry`; both ends are tried first, being the usual. */
static inline unsigned int lower_bound(
    const struct btree_entry *pairs, unsigned int n, struct btree_entry entry)
{
    if (n == 0 || !is_before(pairs[0], entry))
        return 0;
    if (is_before(pairs[n - 1], entry))
        return n;

    unsigned int low = 1, high = n - 1; /* pairs[low - 1] < entry <= pairs[high] */
    while (low < high) {
        unsigned int middle = (low + high) / 2;
        if (is_before(pairs[middle], entry))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static inline size_t leaf_bytes(unsigned int cap)
{
    return sizeof(struct leaf) + cap * sizeof(struct btree_entry);
}

/* Within a leaf or between two; the ranges may overlap. */
static inline void move_pairs(struct leaf *to, unsigned int to_at, const struct leaf *from,
    unsigned int from_at, unsigned int n)
{
    memmove(to->pairs + to_at, from->pairs + from_at, n * sizeof to->pairs[0]);
}

/* A leaf of `cap` pairs or an inner node, empty; NULL when there is no memory. */
struct btree_node *btree_node_new(bool leaf, unsigned int cap);

/*
 * Makes room in the full leaf at the end of the path, splitting what is full above it too. All
 * memory is had before anything changes. Changes the path to lead to the leaf for `entry`.
 * Errors: -ENOMEM, nothing has changed.
 */
int btree_node_make_room(
    struct btree *tree, struct path *path, struct leaf **leaf, struct btree_entry entry);

/*
 * Restores the fill of the child taken at `level` after a removal below it, with the help of a
 * sibling. Returns whether its parent lost a child.
 */
bool btree_node_refill(const struct path *path, unsigned int level);

#endif
