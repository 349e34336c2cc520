/*
 * tree_documents.c - the life of documents: made, pinned, evicted, forgotten, freed.
 */
#include "core/tree_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

struct document *document_alloc(bool collection)
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
    if (!(c->doc.flags & DOCUMENT_UNCOUNTED))
        tree->ncollections--;
    *c->all_at = c->all_next;
    if (c->all_next)
        c->all_next->all_at = c->all_at;
}

void document_free(struct tree *tree, struct document *doc)
{
    tree->observer.freed(tree->observer.arg, doc);
    journal_freed(tree, doc);
    if (S_ISREG(doc->mode) && doc->content) {
        if (doc->nlink == 0 && content_blob(doc->content))
            journal_dead_blob(tree, content_blob(doc->content));
        tree_discard_content(tree, doc->content);
    } else if (S_ISREG(doc->mode)) {
        content_charge(document_budget(tree, doc), -document_pages(doc));
    }
    free(doc->data);
    document_xattrs_release(doc);
    if (document_is_collection(doc)) {
        names_release(&document_collection(doc)->names);
        delist(tree, document_collection(doc));
    }
    if (!(doc->flags & DOCUMENT_UNCOUNTED))
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

void document_uncount(struct tree *tree, struct document *doc)
{
    if (!(doc->flags & DOCUMENT_REMOVED) || doc->flags & DOCUMENT_UNCOUNTED || doc->nopen)
        return;
    tree->ndocuments--;
    if (document_is_collection(doc))
        tree->ncollections--;
    doc->flags |= DOCUMENT_UNCOUNTED;
    if (!S_ISREG(doc->mode))
        return;
    if (doc->content) {
        content_change_budget(doc->content, &tree->uncounted);
    } else {
        content_charge(&tree->budget, -document_pages(doc));
        content_charge(&tree->uncounted, document_pages(doc));
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
    document_uncount(tree, doc);
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

uint64_t document_dense_bytes(const struct document *doc)
{
    if (!(doc->flags & DOCUMENT_TAIL_HOLE))
        return doc->size;
    return (doc->size - 1) / CONTENT_PAGE_BYTES * CONTENT_PAGE_BYTES;
}

int64_t document_pages(const struct document *doc)
{
    if (!S_ISREG(doc->mode))
        return 0;
    return doc->content ? content_pages(doc->content) : content_pages_of(document_dense_bytes(doc));
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
