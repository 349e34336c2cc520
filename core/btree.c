/*
 * btree.c - the B+tree behind an index.
 *
 * Leaves hold the pairs and are chained; inner nodes hold, per child, a lower bound, the number of
 * pairs below and the pointer. Two habits follow from how documents expire:
 *
 *   Appending splits the last leaf behind its last pair, so ascending keys leave full leaves, and
 *   likewise for descending keys at the front.
 *
 *   The leftmost and the rightmost node of each level are exempt from the minimal fill. Purging
 *   from the front thus empties a leaf and drops it, with no borrowing from its neighbour.
 *
 * Lower bounds are not tightened when the pair they came from is removed: they only have to keep
 * the children apart, and their item pointers are compared, never followed.
 */
#include "core/btree_node.h"

#include <errno.h>
#include <stdlib.h>

/* The first of n pairs that is greater than `entry`. */
static unsigned int upper_bound(
    const struct btree_entry *pairs, unsigned int n, struct btree_entry entry)
{
    unsigned int at = lower_bound(pairs, n, entry);
    return at < n && is_same(pairs[at], entry) ? at + 1 : at;
}

/* Which child holds `entry`, if any does. */
static inline unsigned int child_index(const struct inner *node, struct btree_entry entry)
{
    return upper_bound(node->low + 1, node->head.n - 1U, entry);
}

static struct leaf *descend(
    const struct btree *tree, struct btree_entry entry, struct path *ret_path)
{
    struct btree_node *node = tree->root;
    ret_path->depth = tree->height - 1;
    for (unsigned int level = 0; level < ret_path->depth; level++) {
        struct inner *inner = (struct inner *) node;
        unsigned int at = child_index(inner, entry);
        ret_path->steps[level].node = inner;
        ret_path->steps[level].at = at;
        node = inner->children[at];
    }
    return (struct leaf *) node;
}

static struct leaf *descend_to_read(const struct btree *tree, struct btree_entry entry)
{
    struct btree_node *node = tree->root;
    for (unsigned int level = 1; level < tree->height; level++) {
        struct inner *inner = (struct inner *) node;
        node = inner->children[child_index(inner, entry)];
    }
    return (struct leaf *) node;
}

static void nodes_free(struct btree_node *node, unsigned int height)
{
    if (height > 1) {
        struct inner *inner = (struct inner *) node;
        for (unsigned int i = 0; i < inner->head.n; i++)
            nodes_free(inner->children[i], height - 1);
    }
    free(node);
}

void btree_init(struct btree *tree)
{
    *tree = (struct btree){0};
}

void btree_release(struct btree *tree)
{
    if (tree->root)
        nodes_free(tree->root, tree->height);
    btree_init(tree);
}

/* Gives a leaf that is the root another capacity. */
static int resize_root(struct btree *tree, struct leaf **leaf, unsigned int cap)
{
    struct leaf *resized = realloc(*leaf, leaf_bytes(cap));
    if (!resized)
        return -ENOMEM;
    resized->head.cap = (uint16_t) cap;
    tree->root = &resized->head;
    *leaf = resized;
    return 0;
}

int btree_insert(struct btree *tree, int64_t key, void *item)
{
    struct btree_entry entry = {key, item};
    if (!tree->root) {
        tree->root = btree_node_new(true, 1);
        if (!tree->root)
            return -ENOMEM;
        tree->height = 1;
    }

    struct path path;
    struct leaf *leaf = descend(tree, entry, &path);
    unsigned int at = lower_bound(leaf->pairs, leaf->head.n, entry);
    if (at < leaf->head.n && is_same(leaf->pairs[at], entry))
        return -EEXIST;
    if (leaf->head.n == leaf->head.cap) {
        int ret;
        if (leaf->head.cap < LEAF_PAIRS)
            ret = resize_root(tree, &leaf, leaf->head.cap * 2U);
        else
            ret = btree_node_make_room(tree, &path, &leaf, entry);
        if (ret)
            return ret;
        at = lower_bound(leaf->pairs, leaf->head.n, entry);
    }

    move_pairs(leaf, at + 1, leaf, at, leaf->head.n - at);
    leaf->pairs[at] = entry;
    leaf->head.n++;
    for (unsigned int level = 0; level < path.depth; level++)
        path.steps[level].node->counts[path.steps[level].at]++;
    tree->count++;
    return 0;
}

static void shrink_root_leaf(struct btree *tree, struct leaf *leaf)
{
    if (leaf->head.n == 0) {
        free(leaf);
        btree_init(tree);
    } else if (leaf->head.n <= leaf->head.cap / 4) {
        /* That it could not be made smaller does not matter. */
        (void) resize_root(tree, &leaf, leaf->head.cap / 2U);
    }
}

int btree_remove(struct btree *tree, int64_t key, void *item)
{
    struct btree_entry entry = {key, item};
    if (!tree->root)
        return -ENOENT;

    struct path path;
    struct leaf *leaf = descend(tree, entry, &path);
    unsigned int at = lower_bound(leaf->pairs, leaf->head.n, entry);
    if (at == leaf->head.n || !is_same(leaf->pairs[at], entry))
        return -ENOENT;

    leaf->head.n--;
    move_pairs(leaf, at, leaf, at + 1, leaf->head.n - at);
    for (unsigned int level = 0; level < path.depth; level++)
        path.steps[level].node->counts[path.steps[level].at]--;
    tree->count--;

    if (path.depth == 0) {
        shrink_root_leaf(tree, leaf);
        return 0;
    }
    unsigned int level = path.depth;
    while (level > 0 && btree_node_refill(&path, level - 1))
        level--;
    struct inner *root = path.steps[0].node;
    if (root->head.n == 1) {
        tree->root = root->children[0];
        tree->height--;
        free(root);
    }
    return 0;
}

bool btree_first(const struct btree *tree, struct btree_entry *ret_entry)
{
    return btree_copy(tree, (struct btree_entry){INT64_MIN, NULL}, INT64_MAX, ret_entry, 1) == 1;
}

bool btree_next(const struct btree *tree, struct btree_entry after, struct btree_entry *ret_entry)
{
    if (!tree->root)
        return false;
    const struct leaf *leaf = descend_to_read(tree, after);
    unsigned int at = upper_bound(leaf->pairs, leaf->head.n, after);
    if (at == leaf->head.n) {
        leaf = leaf->next;
        at = 0;
    }
    if (!leaf)
        return false;
    *ret_entry = leaf->pairs[at];
    return true;
}

size_t btree_copy(const struct btree *tree, struct btree_entry from, int64_t last_key,
    struct btree_entry *ret_entries, size_t max)
{
    size_t copied = 0;
    if (!tree->root)
        return 0;
    const struct leaf *leaf = descend_to_read(tree, from);
    unsigned int at = lower_bound(leaf->pairs, leaf->head.n, from);
    for (; leaf; leaf = leaf->next, at = 0) {
        for (; at < leaf->head.n; at++) {
            if (copied == max || leaf->pairs[at].key > last_key)
                return copied;
            ret_entries[copied++] = leaf->pairs[at];
        }
    }
    return copied;
}

uint64_t btree_count_upto(const struct btree *tree, int64_t last_key)
{
    if (!tree->root || last_key == INT64_MAX)
        return tree->count;
    struct btree_entry end = {last_key + 1, NULL};
    const struct btree_node *node = tree->root;
    uint64_t count = 0;
    for (unsigned int level = 1; level < tree->height; level++) {
        const struct inner *inner = (const struct inner *) node;
        unsigned int at = child_index(inner, end);
        for (unsigned int i = 0; i < at; i++)
            count += inner->counts[i];
        node = inner->children[at];
    }
    return count + lower_bound(((const struct leaf *) node)->pairs, node->n, end);
}
