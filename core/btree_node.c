/*
 * btree_node.c - how the nodes of a btree are split, merged and evened out.
 */
#include "core/btree_node.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Where a full node is cut in two. */
enum split { SPLIT_MIDDLE, SPLIT_BEHIND_LAST, SPLIT_BEFORE_FIRST };

/* Is the child taken at this level the leftmost (rightmost) node of its level in the tree? */
static bool on_left_edge(const struct path *path, unsigned int levels)
{
    for (unsigned int i = 0; i < levels; i++)
        if (path->steps[i].at != 0)
            return false;
    return true;
}

static bool on_right_edge(const struct path *path, unsigned int levels)
{
    for (unsigned int i = 0; i < levels; i++)
        if (path->steps[i].at != path->steps[i].node->head.n - 1U)
            return false;
    return true;
}

struct btree_node *btree_node_new(bool leaf, unsigned int cap)
{
    struct btree_node *node = malloc(leaf ? leaf_bytes(cap) : sizeof(struct inner));
    if (!node)
        return NULL;
    node->n = 0;
    node->cap = (uint16_t) cap;
    if (leaf)
        ((struct leaf *) node)->next = NULL;
    return node;
}

/* Moves children between neighbours or within a node; the ranges may overlap. */
static void move_children(struct inner *to, unsigned int to_at, const struct inner *from,
    unsigned int from_at, unsigned int n)
{
    memmove(to->low + to_at, from->low + from_at, n * sizeof to->low[0]);
    memmove(to->counts + to_at, from->counts + from_at, n * sizeof to->counts[0]);
    memmove(to->children + to_at, from->children + from_at, n * sizeof to->children[0]);
}

/* How many pairs are below the last `n` children. */
static uint64_t count_last(const struct inner *node, unsigned int n)
{
    uint64_t count = 0;
    for (unsigned int i = node->head.n - n; i < node->head.n; i++)
        count += node->counts[i];
    return count;
}

/* Puts a child with `count` pairs behind child `at`, which held them until now. */
static void adopt(struct inner *parent, unsigned int at, struct btree_node *child,
    struct btree_entry low, uint64_t count)
{
    move_children(parent, at + 2, parent, at + 1, parent->head.n - at - 1);
    parent->low[at + 1] = low;
    parent->counts[at + 1] = count;
    parent->counts[at] -= count;
    parent->children[at + 1] = child;
    parent->head.n++;
}

/* Cuts the inner node at steps[level] in two and follows the half that the path goes through. */
static void split_inner(
    struct path *path, unsigned int level, struct btree_node *fresh, enum split split)
{
    struct inner *parent = path->steps[level - 1].node;
    struct inner *left = path->steps[level].node;
    struct inner *right = (struct inner *) fresh;
    /* The child below is going to be split as well, so one is enough to leave two. */
    unsigned int keep = split == SPLIT_BEHIND_LAST    ? INNER_CHILDREN - 1
                        : split == SPLIT_BEFORE_FIRST ? 1
                                                      : INNER_CHILDREN / 2;
    unsigned int moved = INNER_CHILDREN - keep;

    move_children(right, 0, left, keep, moved);
    right->head.n = (uint16_t) moved;
    adopt(parent, path->steps[level - 1].at, fresh, left->low[keep], count_last(left, moved));
    left->head.n = (uint16_t) keep;
    if (path->steps[level].at >= keep) {
        path->steps[level - 1].at++;
        path->steps[level].node = right;
        path->steps[level].at -= keep;
    }
}

/* The same for the leaf at the end of the path. Returns the one that `entry` belongs into. */
static struct leaf *split_leaf(struct path *path, struct leaf *left, struct btree_node *fresh,
    enum split split, struct btree_entry entry)
{
    struct leaf *right = (struct leaf *) fresh;
    unsigned int keep = split == SPLIT_BEHIND_LAST    ? LEAF_PAIRS
                        : split == SPLIT_BEFORE_FIRST ? 0
                                                      : LEAF_PAIRS / 2;
    unsigned int moved = LEAF_PAIRS - keep;

    move_pairs(right, 0, left, keep, moved);
    right->head.n = (uint16_t) moved;
    left->head.n = (uint16_t) keep;
    right->next = left->next;
    left->next = right;

    struct btree_entry low = moved ? right->pairs[0] : entry;
    adopt(path->steps[path->depth - 1].node, path->steps[path->depth - 1].at, fresh, low, moved);
    if (is_before(entry, low))
        return left;
    path->steps[path->depth - 1].at++;
    return right;
}

/* Puts an inner node above the root. */
static void raise_root(struct btree *tree, struct path *path, struct btree_node *fresh)
{
    struct inner *root = (struct inner *) fresh;
    root->head.n = 1;
    root->low[0] = (struct btree_entry){INT64_MIN, NULL};
    root->counts[0] = tree->count;
    root->children[0] = tree->root;
    tree->root = fresh;
    tree->height++;

    memmove(path->steps + 1, path->steps, path->depth * sizeof path->steps[0]);
    path->steps[0].node = root;
    path->steps[0].at = 0;
    path->depth++;
}

/* Nodes that are had before anything changes, the leaf lowest. */
struct reserve {
    struct btree_node *nodes[MAX_HEIGHT + 1];
    unsigned int n;
};

static int reserve_nodes(struct reserve *reserve, unsigned int inners)
{
    for (reserve->n = 0; reserve->n <= inners; reserve->n++) {
        bool leaf = reserve->n == 0;
        struct btree_node *node = btree_node_new(leaf, leaf ? LEAF_PAIRS : INNER_CHILDREN);
        if (!node) {
            while (reserve->n > 0)
                free(reserve->nodes[--reserve->n]);
            return -ENOMEM;
        }
        reserve->nodes[reserve->n] = node;
    }
    return 0;
}

int btree_node_make_room(
    struct btree *tree, struct path *path, struct leaf **leaf, struct btree_entry entry)
{
    unsigned int first_full = path->depth; /* from this level down all inner nodes are full */
    while (first_full > 0 && path->steps[first_full - 1].node->head.n == INNER_CHILDREN)
        first_full--;

    enum split split = SPLIT_MIDDLE;
    if (is_before((*leaf)->pairs[LEAF_PAIRS - 1], entry) && on_right_edge(path, path->depth))
        split = SPLIT_BEHIND_LAST;
    else if (is_before(entry, (*leaf)->pairs[0]) && on_left_edge(path, path->depth))
        split = SPLIT_BEFORE_FIRST;

    struct reserve fresh = {.n = 0};
    int ret = reserve_nodes(&fresh, path->depth - first_full + (first_full == 0));
    if (ret)
        return ret;

    unsigned int level = first_full;
    if (level == 0) {
        raise_root(tree, path, fresh.nodes[--fresh.n]);
        level = 1;
    }
    while (fresh.n > 1) {
        assert(level < path->depth);
        split_inner(path, level++, fresh.nodes[--fresh.n], split);
    }
    *leaf = split_leaf(path, *leaf, fresh.nodes[--fresh.n], split, entry);
    return 0;
}

/* Moves all of child at+1 into child at, which has room for it. */
static void merge(struct inner *parent, unsigned int at, bool leaves)
{
    struct btree_node *left = parent->children[at], *right = parent->children[at + 1];
    if (leaves) {
        move_pairs((struct leaf *) left, left->n, (struct leaf *) right, 0, right->n);
        ((struct leaf *) left)->next = ((struct leaf *) right)->next;
    } else {
        ((struct inner *) right)->low[0] = parent->low[at + 1];
        move_children((struct inner *) left, left->n, (struct inner *) right, 0, right->n);
    }
    left->n = (uint16_t) (left->n + right->n);
    parent->counts[at] += parent->counts[at + 1];
    move_children(parent, at + 1, parent, at + 2, parent->head.n - at - 2);
    parent->head.n--;
    free(right);
}

/* Shares out what the leaves at and at+1 hold evenly. */
static void share_pairs(struct inner *parent, unsigned int at)
{
    struct leaf *left = (struct leaf *) parent->children[at];
    struct leaf *right = (struct leaf *) parent->children[at + 1];
    unsigned int total = left->head.n + right->head.n, keep = total / 2;

    if (left->head.n < keep) {
        unsigned int moved = keep - left->head.n;
        move_pairs(left, left->head.n, right, 0, moved);
        move_pairs(right, 0, right, moved, right->head.n - moved);
    } else {
        unsigned int moved = left->head.n - keep;
        move_pairs(right, moved, right, 0, right->head.n);
        move_pairs(right, 0, left, keep, moved);
    }
    left->head.n = (uint16_t) keep;
    right->head.n = (uint16_t) (total - keep);
    parent->low[at + 1] = right->pairs[0];
    parent->counts[at] = left->head.n;
    parent->counts[at + 1] = right->head.n;
}

/* The same for inner nodes. */
static void share_children(struct inner *parent, unsigned int at)
{
    struct inner *left = (struct inner *) parent->children[at];
    struct inner *right = (struct inner *) parent->children[at + 1];
    unsigned int total = left->head.n + right->head.n, keep = total / 2;

    right->low[0] = parent->low[at + 1];
    if (left->head.n < keep) {
        unsigned int moved = keep - left->head.n;
        move_children(left, left->head.n, right, 0, moved);
        move_children(right, 0, right, moved, right->head.n - moved);
    } else {
        unsigned int moved = left->head.n - keep;
        move_children(right, moved, right, 0, right->head.n);
        move_children(right, 0, left, keep, moved);
    }
    left->head.n = (uint16_t) keep;
    right->head.n = (uint16_t) (total - keep);
    parent->low[at + 1] = right->low[0];
    uint64_t both = parent->counts[at] + parent->counts[at + 1];
    parent->counts[at + 1] = count_last(right, right->head.n);
    parent->counts[at] = both - parent->counts[at + 1];
}

bool btree_node_refill(const struct path *path, unsigned int level)
{
    struct inner *parent = path->steps[level].node;
    unsigned int at = path->steps[level].at, n = parent->children[at]->n;
    bool leaves = level == path->depth - 1;
    if (n >= (unsigned int) (leaves ? LEAF_MIN_PAIRS : INNER_MIN_CHILDREN))
        return false;

    unsigned int left = at + 1 < parent->head.n ? at : at - 1;
    unsigned int total = parent->children[left]->n + parent->children[left + 1]->n;
    if (total <= (unsigned int) (leaves ? LEAF_PAIRS : INNER_CHILDREN)) {
        merge(parent, left, leaves);
        return true;
    }
    /* An empty leaf was merged above, so what is left at an edge may stay as it is. */
    bool edge = on_left_edge(path, level + 1) || on_right_edge(path, level + 1);
    if (leaves && !edge)
        share_pairs(parent, left);
    if (!leaves && (!edge || n < EDGE_MIN_CHILDREN))
        share_children(parent, left);
    return false;
}
