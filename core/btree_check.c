/*
 * btree_check.c - what a btree weighs and whether it is sound; for reports, tests, debug builds.
 */
#include "core/btree_node.h"

/* What a walk over the nodes carries along. */
struct walk {
    const struct leaf *last; /* the leaf visited before, NULL at the first */
    bool sound;
};

/* Where a node stands: no pair below it is before `low`, all are before `high`. */
struct place {
    bool left_edge, right_edge, root;
    const struct btree_entry *low, *high; /* NULL: unbounded */
};

static size_t node_bytes(const struct btree_node *node, unsigned int height)
{
    if (height == 1)
        return leaf_bytes(node->cap);
    const struct inner *inner = (const struct inner *) node;
    size_t bytes = sizeof *inner;
    if (height == 2) /* spares touching every leaf */
        return bytes + inner->head.n * leaf_bytes(LEAF_PAIRS);
    for (unsigned int i = 0; i < inner->head.n; i++)
        bytes += node_bytes(inner->children[i], height - 1);
    return bytes;
}

size_t btree_bytes(const struct btree *tree)
{
    return tree->root ? node_bytes(tree->root, tree->height) : 0;
}

static bool leaf_sound(const struct leaf *leaf, const struct place *place, struct walk *walk)
{
    unsigned int n = leaf->head.n, cap = leaf->head.cap;
    bool edge = place->left_edge || place->right_edge;
    if (n == 0 || n > cap || cap > LEAF_PAIRS || (cap < LEAF_PAIRS && !place->root))
        return false;
    if (!edge && n < LEAF_MIN_PAIRS)
        return false;
    for (unsigned int i = 1; i < n; i++)
        if (!is_before(leaf->pairs[i - 1], leaf->pairs[i]))
            return false;
    if (place->low && is_before(leaf->pairs[0], *place->low))
        return false;
    if (place->high && !is_before(leaf->pairs[n - 1], *place->high))
        return false;
    if (walk->last ? walk->last->next != leaf : !place->left_edge)
        return false;
    walk->last = leaf;
    return true;
}

/* Returns how many pairs are below. */
static uint64_t check_node(const struct btree_node *node, unsigned int height,
    const struct place *place, struct walk *walk)
{
    if (height == 1) {
        walk->sound = walk->sound && leaf_sound((const struct leaf *) node, place, walk);
        return node->n;
    }
    const struct inner *inner = (const struct inner *) node;
    bool edge = place->left_edge || place->right_edge;
    if (node->n > INNER_CHILDREN || node->n < (edge ? EDGE_MIN_CHILDREN : INNER_MIN_CHILDREN)) {
        walk->sound = false;
        return 0;
    }
    uint64_t count = 0;
    for (unsigned int i = 0; i < node->n && walk->sound; i++) {
        bool first = i == 0, last = i + 1U == node->n;
        struct place below = {
            .left_edge = place->left_edge && first,
            .right_edge = place->right_edge && last,
            .low = first ? place->low : &inner->low[i],
            .high = last ? place->high : &inner->low[i + 1],
        };
        uint64_t below_count = check_node(inner->children[i], height - 1, &below, walk);
        walk->sound = walk->sound && below_count == inner->counts[i];
        count += below_count;
    }
    return count;
}

bool btree_check(const struct btree *tree)
{
    if (!tree->root)
        return tree->count == 0 && tree->height == 0;
    if (tree->height == 0 || tree->height > MAX_HEIGHT)
        return false;
    struct walk walk = {.sound = true};
    struct place place = {.left_edge = true, .right_edge = true, .root = true};
    uint64_t count = check_node(tree->root, tree->height, &place, &walk);
    return walk.sound && count == tree->count && walk.last && !walk.last->next;
}
