#include "core/tree.h"

#include "core/index.h"
#include "core/tree_impl.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* How often background work steps aside before it insists. */
#define BACKGROUND_YIELDS 2000

void tree_lock(struct tree *tree)
{
    if (pthread_mutex_trylock(&tree->lock) == 0)
        return;
    atomic_fetch_add(&tree->waiters, 1);
    pthread_mutex_lock(&tree->lock);
    atomic_fetch_sub(&tree->waiters, 1);
}

void tree_lock_background(struct tree *tree)
{
    /* A plain mutex would go back to the thread that just let it go. */
    for (int i = 0; i < BACKGROUND_YIELDS && atomic_load(&tree->waiters) > 0; i++)
        sched_yield();
    tree_lock(tree);
}

void tree_unlock(struct tree *tree)
{
    struct content **garbage = tree->garbage;
    size_t ngarbage = tree->ngarbage;
    tree->garbage = NULL;
    tree->ngarbage = tree->cap_garbage = 0;
    pthread_mutex_unlock(&tree->lock);
    for (size_t i = 0; i < ngarbage; i++)
        content_put(garbage[i]);
    free(garbage);
}

struct tree *tree_new(struct store *store, const struct tree_observer *observer)
{
    struct tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return NULL;
    pthread_mutex_init(&tree->lock, NULL);
    journal_init(&tree->journal, store != NULL);
    tree->store = store;
    tree->observer = *observer;
    if (getrandom(&tree->hash_seed, sizeof tree->hash_seed, 0) != sizeof tree->hash_seed)
        tree->hash_seed = (uint64_t) (uintptr_t) tree;
    tree->next_ino = TREE_ROOT_INO + 1;
    tree->next_blob = 1;
    struct document *root = document_alloc(true), *limbo = document_alloc(true);
    if (!root || !limbo) {
        free(root);
        free(limbo);
        pthread_mutex_destroy(&tree->lock);
        free(tree);
        return NULL;
    }
    limbo->ino = TREE_LIMBO_INO;
    limbo->mode = S_IFDIR;
    limbo->nlink = 2;
    tree->limbo = document_collection(limbo);
    root->ino = TREE_ROOT_INO;
    root->mode = S_IFDIR | 0755;
    root->nlink = 2;
    tree->ndocuments = 1;
    tree->root = document_collection(root);
    tree_enlist(tree, tree->root);
    return tree;
}

static void dentry_free(struct dentry *d)
{
    index_unfile_all(d);
    free(d);
}

static void links_add(struct document *doc, struct dentry *d)
{
    d->doc = doc;
    d->link_next = doc->links;
    d->link_at = &doc->links;
    if (d->link_next)
        d->link_next->link_at = &d->link_next;
    doc->links = d;
}

static void links_remove(struct dentry *d)
{
    *d->link_at = d->link_next;
    if (d->link_next)
        d->link_next->link_at = d->link_at;
}

/* Frees a collection and all below it, deepest first, without recursion: trees may be deep. */
static void free_below(struct tree *tree, struct collection *top)
{
    struct collection *at = top;
    /* Going on from where the last name was: from the start all empty buckets would be in the way.
     */
    uint64_t cookie = 0;
    for (;;) {
        struct dentry *d = names_after(&at->names, cookie);
        if (d && document_is_collection(d->doc) && document_collection(d->doc)->names.count) {
            at = document_collection(d->doc);
            cookie = 0;
            continue;
        }
        if (d) {
            struct document *doc = d->doc;
            cookie = names_cookie(d);
            names_remove(&at->names, d);
            links_remove(d);
            dentry_free(d);
            if (!doc->links)
                document_free(tree, doc);
            continue;
        }
        if (at == top)
            break;
        /* Back to the name of what is empty now. */
        cookie = names_cookie(at->doc.links) - 1;
        at = collection_parent(at);
    }
}

void tree_free(struct tree *tree)
{
    if (!tree)
        return;
    /* Not a removal: nothing is journalled from here on. */
    tree->journal.enabled = false;
    tree_lock(tree);
    free_below(tree, tree->root);
    free_below(tree, tree->limbo);
    struct btree_entry orphan;
    while (btree_first(&tree->orphans, &orphan)) {
        btree_remove(&tree->orphans, orphan.key, orphan.item);
        document_free(tree, orphan.item);
    }
    document_free(tree, &tree->root->doc);
    /* Not one of the tree's documents: neither counted nor listed. */
    tree->observer.freed(tree->observer.arg, &tree->limbo->doc);
    names_release(&tree->limbo->names);
    free(tree->limbo);
    tree_unlock(tree);
    free(tree->loaded_blobs);
    journal_release(&tree->journal);
    pthread_mutex_destroy(&tree->lock);
    free(tree);
}

struct dentry *tree_find(struct tree *tree, struct collection *parent, const char *name, size_t len)
{
    return names_find(&parent->names, tree->hash_seed, name, len);
}

static struct dentry *dentry_new(
    struct document *doc, struct collection *parent, const char *name, size_t len)
{
    /* The name begins in what pads the structure. */
    size_t size = offsetof(struct dentry, name) + len + 1;
    struct dentry *d = calloc(1, size > sizeof *d ? size : sizeof *d);
    if (!d)
        return NULL;
    d->doc = doc;
    d->parent = parent;
    d->name_len = (uint8_t) len;
    memcpy(d->name, name, len);
    return d;
}

/* Puts a new dentry into its parent's table and its document's list. */
static int dentry_attach(struct tree *tree, struct dentry *d)
{
    int err = names_insert(&d->parent->names, tree->hash_seed, d);
    if (err)
        return err;
    links_add(d->doc, d);
    if (document_is_collection(d->doc)) {
        d->parent->doc.nlink++;
        d->doc->nlink = d->doc->nlink ? d->doc->nlink : 2;
    } else {
        d->doc->nlink++;
    }
    return 0;
}

static void dentry_detach(struct dentry *d)
{
    names_remove(&d->parent->names, d);
    links_remove(d);
    if (document_is_collection(d->doc))
        d->parent->doc.nlink--;
    else
        d->doc->nlink--;
}

/*
 * A document with one name has it in its record, one with several has them all in STORE_LINKS. To
 * be called after the number of names changed.
 */
static void journal_names(struct tree *tree, struct document *doc)
{
    if (!doc->links)
        return;
    bool several = doc->links->link_next != NULL;
    if (several && !(doc->flags & DOCUMENT_LINKS_STORED)) {
        for (struct dentry *d = doc->links; d; d = d->link_next)
            journal_link_added(tree, d);
        doc->flags |= DOCUMENT_LINKS_STORED;
    } else if (!several && doc->flags & DOCUMENT_LINKS_STORED) {
        journal_link_removed(tree, doc->links);
        doc->flags &= ~(uint32_t) DOCUMENT_LINKS_STORED;
    }
}

static void collection_changed(struct collection *parent, struct timespec now)
{
    document_set_mtime(&parent->doc, now);
    document_set_ctime(&parent->doc, now);
}

int tree_link(struct tree *tree, struct document *doc, struct collection *parent, const char *name,
    size_t len, struct timespec now, struct dentry **ret_dentry)
{
    if (parent->doc.nlink == 0 || doc->flags & DOCUMENT_REMOVED)
        return -ENOENT;
    if (len > DOCUMENT_NAME_MAX_BYTES)
        return -ENAMETOOLONG;
    if (doc->nlink == UINT32_MAX || parent->doc.nlink == UINT32_MAX)
        return -EMLINK;
    int err = journal_will_change(tree, doc);
    if (!err)
        err = journal_will_change(tree, &parent->doc);
    if (err)
        return err;
    struct dentry *d = dentry_new(doc, parent, name, len);
    if (!d)
        return -ENOMEM;
    bool several = doc->flags & DOCUMENT_LINKS_STORED;
    err = dentry_attach(tree, d);
    if (err) {
        free(d);
        return err;
    }
    if (doc->nlink == 1)
        btree_remove(&tree->orphans, (int64_t) doc->ino, doc); /* an O_TMPFILE gets a name */
    if (several)
        journal_link_added(tree, d);
    journal_names(tree, doc);
    collection_changed(parent, now);
    document_set_ctime(doc, now);
    tree->observer.linked(tree->observer.arg, d);
    *ret_dentry = d;
    return 0;
}

int tree_unlink(struct tree *tree, struct dentry *d, struct timespec now)
{
    struct document *doc = d->doc;
    struct collection *parent = d->parent;
    int err = journal_will_change(tree, doc);
    if (!err)
        err = journal_will_change(tree, &parent->doc);
    if (err)
        return err;
    if (doc->flags & DOCUMENT_LINKS_STORED)
        journal_link_removed(tree, d);
    dentry_detach(d);
    dentry_free(d);
    journal_names(tree, doc);
    collection_changed(parent, now);
    document_set_ctime(doc, now);
    if (!doc->links) {
        doc->nlink = 0;
        doc->flags |= DOCUMENT_REMOVED;
        journal_removed(tree, doc);
        document_uncount(tree, doc);
        if (doc->nlookup || doc->nopen)
            btree_insert(&tree->orphans, (int64_t) doc->ino, doc);
        else
            document_free(tree, doc);
    }
    return 0;
}

int tree_move(struct tree *tree, struct dentry *d, struct collection *parent, const char *name,
    size_t len, struct timespec now, struct dentry **ret_dentry)
{
    struct document *doc = d->doc;
    struct collection *from = d->parent;
    if (parent->doc.nlink == 0)
        return -ENOENT;
    if (len > DOCUMENT_NAME_MAX_BYTES)
        return -ENAMETOOLONG;
    int err = journal_will_change(tree, doc);
    if (!err)
        err = journal_will_change(tree, &parent->doc);
    if (!err)
        err = journal_will_change(tree, &from->doc);
    if (err)
        return err;
    struct dentry *moved = dentry_new(doc, parent, name, len);
    if (!moved)
        return -ENOMEM;
    err = dentry_attach(tree, moved);
    if (err) {
        free(moved);
        return err;
    }
    if (doc->flags & DOCUMENT_LINKS_STORED) {
        journal_link_added(tree, moved);
        journal_link_removed(tree, d);
    }
    dentry_detach(d);
    dentry_free(d);
    collection_changed(from, now);
    collection_changed(parent, now);
    document_set_ctime(doc, now);
    tree->observer.linked(tree->observer.arg, moved);
    *ret_dentry = moved;
    return 0;
}

int tree_exchange(struct tree *tree, struct dentry *a, struct dentry *b, struct timespec now)
{
    struct document *of_a = a->doc, *of_b = b->doc;
    struct document *changing[] = {of_a, of_b, &a->parent->doc, &b->parent->doc};
    for (int i = 0; i < 4; i++) {
        int err = journal_will_change(tree, changing[i]);
        if (err)
            return err;
    }
    struct dentry *names[] = {a, b};
    for (int i = 0; i < 2; i++) {
        if (names[i]->doc->flags & DOCUMENT_LINKS_STORED)
            journal_link_removed(tree, names[i]);
        index_unfile_all(names[i]);
        links_remove(names[i]);
    }
    if (of_a != of_b) {
        a->parent->doc.nlink += document_is_collection(of_b);
        a->parent->doc.nlink -= document_is_collection(of_a);
        b->parent->doc.nlink += document_is_collection(of_a);
        b->parent->doc.nlink -= document_is_collection(of_b);
    }
    links_add(of_b, a);
    links_add(of_a, b);
    for (int i = 0; i < 2; i++) {
        if (names[i]->doc->flags & DOCUMENT_LINKS_STORED)
            journal_link_added(tree, names[i]);
        collection_changed(names[i]->parent, now);
        document_set_ctime(names[i]->doc, now);
    }
    tree->observer.linked(tree->observer.arg, a);
    tree->observer.linked(tree->observer.arg, b);
    return 0;
}

void tree_name_last(struct dentry *d)
{
    links_remove(d);
    struct dentry **at = &d->doc->links;
    while (*at)
        at = &(*at)->link_next;
    *at = d;
    d->link_at = at;
    d->link_next = NULL;
}

bool tree_is_below(const struct collection *below, const struct collection *above)
{
    for (; below; below = collection_parent(below))
        if (below == above)
            return true;
    return false;
}

int tree_attach_loaded(struct tree *tree, struct document *doc, struct collection *parent,
    const char *name, size_t len)
{
    struct dentry *d = dentry_new(doc, parent, name, len);
    if (!d)
        return -ENOMEM;
    int err = dentry_attach(tree, d);
    if (err)
        free(d);
    return err;
}
