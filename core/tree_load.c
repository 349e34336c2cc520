/*
 * tree_load.c - from records back to the tree, when a store is opened.
 *
 * Two passes: documents in the order of their numbers, then their names, because a collection may
 * have a greater number than what was moved into it.
 */
#include "core/record.h"
#include "core/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct loaded {
    struct document *doc;
    uint64_t parent;
    char *name; /* NULL: none, or several in STORE_LINKS */
    size_t name_len;
};

struct load {
    struct tree *tree;
    struct loaded *docs; /* by number */
    size_t n, cap;
    struct reason *why;
};

static int loaded_add(struct load *load, const struct loaded *one)
{
    if (load->n == load->cap) {
        size_t cap = load->cap ? load->cap * 2 : 1024;
        struct loaded *more = realloc(load->docs, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        load->docs = more;
        load->cap = cap;
    }
    load->docs[load->n++] = *one;
    return 0;
}

static struct document *loaded_find(const struct load *load, uint64_t ino)
{
    size_t low = 0, high = load->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (load->docs[mid].doc->ino < ino)
            low = mid + 1;
        else
            high = mid;
    }
    return low < load->n && load->docs[low].doc->ino == ino ? load->docs[low].doc : NULL;
}

/* Gives a decoded document its content and its place in the accounts. */
static int adopt(struct tree *tree, struct document *doc, uint64_t blob, int64_t pages)
{
    doc->flags |= DOCUMENT_STORED | DOCUMENT_FIELDS_STALE;
    doc->nlink = document_is_collection(doc) ? 2 : 0;
    if (S_ISLNK(doc->mode))
        doc->size = doc->data_cap - 1;
    if (S_ISREG(doc->mode) && blob) {
        doc->content = content_new(tree->store, blob, &tree->budget);
        if (!doc->content)
            return -ENOMEM;
        content_set_pages(doc->content, pages);
        if (blob >= tree->next_blob)
            tree->next_blob = blob + 1;
    } else if (S_ISREG(doc->mode) && doc->size) {
        doc->flags |= DOCUMENT_CONTENT_STORED | DOCUMENT_COLD;
    }
    if (S_ISREG(doc->mode))
        atomic_fetch_add(&tree->budget.used_pages, document_pages(doc));
    if (doc->ino >= tree->next_ino)
        tree->next_ino = doc->ino + 1;
    return 0;
}

static int load_node(
    void *arg, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct load *load = arg;
    struct tree *tree = load->tree;
    if (key_len != RECORD_INO_BYTES)
        return reason_set(load->why, EPROTO, "a document's key has %zu bytes", key_len);
    uint64_t ino = record_ino_of_key(key);
    struct record_place place = {0};
    uint64_t blob = 0;
    int64_t pages = 0;
    bool root = ino == TREE_ROOT_INO;

    /* Decoded as a collection first: only the record says which of the two it is. */
    struct collection *c = calloc(1, sizeof *c);
    if (!c)
        return -ENOMEM;
    struct document *doc = &c->doc;
    int err = record_decode(value, value_len, doc, &place, &blob, &pages);
    if (!err && root && !document_is_collection(doc))
        err = -EPROTO;
    if (!err && root) {
        struct document *real = &tree->root->doc;
        /* Nothing is below it yet, and nothing refers to it but the tree. */
        *real = *doc;
        free(c);
        doc = real;
    } else if (!err && !document_is_collection(doc)) {
        struct document *fit = realloc(c, sizeof *fit);
        if (fit)
            doc = fit;
    }
    doc->ino = ino;
    if (!err)
        err = adopt(tree, doc, blob, pages);
    struct loaded one = {.doc = doc, .parent = place.parent, .name_len = place.name_len};
    if (!err && place.name && !root) {
        one.name = strndup(place.name, place.name_len);
        err = one.name ? 0 : -ENOMEM;
    }
    if (!err)
        err = loaded_add(load, &one);
    if (!err && !root && document_is_collection(doc))
        tree_enlist(tree, document_collection(doc));
    if (err) {
        if (doc != &tree->root->doc) {
            document_xattrs_release(doc);
            free(doc->data);
            free(one.name);
            free(doc);
        }
        return reason_set(load->why, -err, "document %llu cannot be read: %s",
            (unsigned long long) ino, strerrordesc_np(-err));
    }
    tree->ndocuments += !root;
    return 0;
}

static int load_name(
    struct load *load, struct document *doc, uint64_t parent_ino, const char *name, size_t len)
{
    struct document *parent =
        parent_ino == TREE_LIMBO_INO ? &load->tree->limbo->doc : loaded_find(load, parent_ino);
    if (!parent || !document_is_collection(parent))
        return reason_set(load->why, EPROTO, "document %llu lies in %llu, which is no collection",
            (unsigned long long) doc->ino, (unsigned long long) parent_ino);
    if (tree_find(load->tree, document_collection(parent), name, len))
        return reason_set(
            load->why, EPROTO, "collection %llu has a name twice", (unsigned long long) parent_ino);
    return tree_attach_loaded(load->tree, doc, document_collection(parent), name, len);
}

static int load_link(
    void *arg, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct load *load = arg;
    const unsigned char *bytes = key;
    (void) value;
    (void) value_len;
    if (key_len <= (size_t) 2 * RECORD_INO_BYTES)
        return reason_set(load->why, EPROTO, "a name's key has %zu bytes", key_len);
    uint64_t ino = record_ino_of_key(bytes);
    struct document *doc = loaded_find(load, ino);
    if (!doc || document_is_collection(doc))
        return reason_set(load->why, EPROTO, "there are names of document %llu, but no document",
            (unsigned long long) ino);
    doc->flags |= DOCUMENT_LINKS_STORED;
    return load_name(load, doc, record_ino_of_key(bytes + RECORD_INO_BYTES),
        (const char *) bytes + (size_t) 2 * RECORD_INO_BYTES,
        key_len - (size_t) 2 * RECORD_INO_BYTES);
}

/* Tells the observer of every name below a collection, parents first. */
static void observe_below(struct tree *tree, struct collection *top)
{
    struct collection *at = top;
    struct dentry *d = names_after(&at->names, 0);
    for (;;) {
        if (d) {
            tree->observer.linked(tree->observer.arg, d);
            if (document_is_collection(d->doc)) {
                at = document_collection(d->doc);
                d = names_after(&at->names, 0);
            } else {
                d = names_next(d);
            }
            continue;
        }
        if (at == top)
            return;
        struct dentry *up = at->doc.links;
        at = up->parent;
        d = names_next(up);
    }
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
    return x < y ? -1 : x > y;
}

/* Notes which blobs are in use, so that the others can be swept. */
static int note_blobs(struct load *load)
{
    struct tree *tree = load->tree;
    size_t n = 0;
    for (size_t i = 0; i < load->n; i++)
        n += S_ISREG(load->docs[i].doc->mode) && load->docs[i].doc->content;
    if (n == 0)
        return 0;
    tree->loaded_blobs = malloc(n * sizeof *tree->loaded_blobs);
    if (!tree->loaded_blobs)
        return -ENOMEM;
    for (size_t i = 0; i < load->n; i++) {
        const struct document *doc = load->docs[i].doc;
        if (S_ISREG(doc->mode) && doc->content)
            tree->loaded_blobs[tree->nloaded_blobs++] = content_blob(doc->content);
    }
    qsort(tree->loaded_blobs, n, sizeof *tree->loaded_blobs, by_number);
    return 0;
}

bool tree_has_blob(const struct tree *tree, uint64_t blob)
{
    return tree->nloaded_blobs &&
           bsearch(&blob, tree->loaded_blobs, tree->nloaded_blobs, sizeof blob, by_number);
}

int tree_load(struct tree *tree, struct reason *why)
{
    struct load load = {.tree = tree, .why = why};
    int err = store_scan(tree->store, STORE_NODES, load_node, &load);
    for (size_t i = 0; i < load.n && !err; i++)
        if (load.docs[i].name)
            err = load_name(&load, load.docs[i].doc, load.docs[i].parent, load.docs[i].name,
                load.docs[i].name_len);
    if (!err)
        err = store_scan(tree->store, STORE_LINKS, load_link, &load);
    if (!err)
        err = note_blobs(&load);
    for (size_t i = 0; i < load.n; i++) {
        struct document *doc = load.docs[i].doc;
        /* What has no name is nobody's: kept findable for tree_free, refused all the same. */
        if (!doc->links && doc != &tree->root->doc) {
            if (!err)
                err = reason_set(
                    why, EPROTO, "document %llu has no name", (unsigned long long) doc->ino);
            btree_insert(&tree->orphans, (int64_t) doc->ino, doc);
        }
        free(load.docs[i].name);
    }
    free(load.docs);
    if (!err) {
        tree->observer.root_loaded(tree->observer.arg, &tree->root->doc);
        observe_below(tree, tree->root);
        observe_below(tree, tree->limbo);
    }
    return err;
}
