#include "core/tree.h"

#include "core/index.h"
#include "core/record.h"

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

void tree_discard_content(struct tree *tree, struct content *content)
{
    if (tree->ngarbage == tree->cap_garbage) {
        size_t cap = tree->cap_garbage ? tree->cap_garbage * 2 : 8;
        struct content **more = realloc(tree->garbage, cap * sizeof(struct content *));
        if (!more) {
            content_put(content);
            return;
        }
        tree->garbage = more;
        tree->cap_garbage = cap;
    }
    tree->garbage[tree->ngarbage++] = content;
}

static struct document *document_alloc(bool collection)
{
    return calloc(1, collection ? sizeof(struct collection) : sizeof(struct document));
}

void tree_enlist(struct tree *tree, struct collection *c)
{
    c->all_next = tree->collections;
    c->all_at = &tree->collections;
    if (c->all_next)
        c->all_next->all_at = &c->all_next;
    tree->collections = c;
    tree->ncollections++;
}

static void delist(struct tree *tree, struct collection *c)
{
    tree->ncollections--;
    *c->all_at = c->all_next;
    if (c->all_next)
        c->all_next->all_at = c->all_at;
}

/* Frees a document that nothing holds. */
static void document_free(struct tree *tree, struct document *doc)
{
    tree->observer.freed(tree->observer.arg, doc);
    journal_freed(tree, doc);
    if (S_ISREG(doc->mode) && doc->content) {
        if (doc->nlink == 0 && content_blob(doc->content))
            journal_dead_blob(tree, content_blob(doc->content));
        tree_discard_content(tree, doc->content);
    } else if (S_ISREG(doc->mode)) {
        content_charge(&tree->budget, -document_pages(doc));
    }
    free(doc->data);
    document_xattrs_release(doc);
    if (document_is_collection(doc)) {
        names_release(&document_collection(doc)->names);
        delist(tree, document_collection(doc));
    }
    tree->ndocuments--;
    free(doc);
}

static void free_if_unheld(struct tree *tree, struct document *doc)
{
    if (doc->nlink == 0 && doc->nlookup == 0 && doc->nopen == 0) {
        btree_remove(&tree->orphans, (int64_t) doc->ino, doc);
        document_free(tree, doc);
    }
}

void document_unpin(struct tree *tree, struct document *doc)
{
    if (--doc->nopen > 0)
        return;
    if (S_ISREG(doc->mode) && doc->content)
        content_close(doc->content);
    else if (doc->nlink > 0 && !doc->dirty)
        document_evict(tree, doc);
    free_if_unheld(tree, doc);
}

void document_forget(struct tree *tree, struct document *doc, uint64_t n)
{
    doc->nlookup = n < doc->nlookup ? doc->nlookup - n : 0;
    if (doc->nlookup == 0)
        doc->flags &= ~(uint32_t) DOCUMENT_KERNEL_CACHED;
    free_if_unheld(tree, doc);
}

void document_evict(struct tree *tree, struct document *doc)
{
    if (!tree->store || !S_ISREG(doc->mode) || !doc->data ||
        !(doc->flags & DOCUMENT_CONTENT_STORED) || doc->flags & DOCUMENT_CONTENT_DIRTY)
        return;
    free(doc->data);
    doc->data = NULL;
    doc->data_cap = 0;
    doc->flags |= DOCUMENT_COLD;
}

int64_t document_pages(const struct document *doc)
{
    if (!S_ISREG(doc->mode))
        return 0;
    return doc->content ? content_pages(doc->content) : content_pages_of(doc->size);
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
    struct document *root = document_alloc(true);
    if (!root) {
        pthread_mutex_destroy(&tree->lock);
        free(tree);
        return NULL;
    }
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

static void links_remove(struct document *doc, struct dentry *d)
{
    struct dentry **at = &doc->links;
    while (*at != d)
        at = &(*at)->link_next;
    *at = d->link_next;
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
            links_remove(doc, d);
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
    struct btree_entry orphan;
    while (btree_first(&tree->orphans, &orphan)) {
        btree_remove(&tree->orphans, orphan.key, orphan.item);
        document_free(tree, orphan.item);
    }
    document_free(tree, &tree->root->doc);
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

int tree_make(struct tree *tree, const struct document_seed *seed, struct document **ret_doc)
{
    if (tree->max_documents && tree->ndocuments >= tree->max_documents)
        return -ENOSPC;
    struct document *doc = document_alloc(S_ISDIR(seed->mode));
    if (!doc)
        return -ENOMEM;
    if (S_ISLNK(seed->mode)) {
        doc->size = strlen(seed->target);
        doc->data = (unsigned char *) strdup(seed->target);
        if (!doc->data) {
            free(doc);
            return -ENOMEM;
        }
        doc->data_cap = (uint32_t) doc->size + 1;
    }
    if (S_ISBLK(seed->mode) || S_ISCHR(seed->mode))
        doc->rdev = seed->rdev;
    doc->mode = seed->mode;
    doc->uid = seed->uid;
    doc->gid = seed->gid;
    doc->ino = tree->next_ino++;
    doc->nopen = 1;
    document_set_atime(doc, seed->now);
    document_set_mtime(doc, seed->now);
    document_set_ctime(doc, seed->now);
    doc->created_ms = doc->ts_ms = doc->accessed_ms = timespec_ms(seed->now);
    tree->ndocuments++;
    if (document_is_collection(doc))
        tree_enlist(tree, document_collection(doc));
    *ret_doc = doc;
    return 0;
}

static struct dentry *dentry_new(
    struct document *doc, struct collection *parent, const char *name, size_t len)
{
    struct dentry *d = malloc(sizeof *d + len + 1);
    if (!d)
        return NULL;
    memset(d, 0, sizeof *d);
    d->doc = doc;
    d->parent = parent;
    d->name_len = (uint8_t) len;
    memcpy(d->name, name, len);
    d->name[len] = '\0';
    return d;
}

/* Puts a new dentry into its parent's table and its document's list. */
static int dentry_attach(struct tree *tree, struct dentry *d)
{
    int err = names_insert(&d->parent->names, tree->hash_seed, d);
    if (err)
        return err;
    d->link_next = d->doc->links;
    d->doc->links = d;
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
    links_remove(d->doc, d);
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

/* Gives dentry `d` another document, as half of an exchange. */
static void dentry_take(struct dentry *d, struct document *doc)
{
    d->doc = doc;
    d->link_next = doc->links;
    doc->links = d;
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
        links_remove(names[i]->doc, names[i]);
    }
    if (of_a != of_b) {
        a->parent->doc.nlink += document_is_collection(of_b);
        a->parent->doc.nlink -= document_is_collection(of_a);
        b->parent->doc.nlink += document_is_collection(of_a);
        b->parent->doc.nlink -= document_is_collection(of_b);
    }
    dentry_take(a, of_b);
    dentry_take(b, of_a);
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
