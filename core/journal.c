#include "core/journal.h"

#include "core/record.h"
#include "core/tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Documents encoded, or let go, per hold of the lock. */
#define SLICE_DOCS 128

static uint32_t mark_make(unsigned int list, size_t position)
{
    return (uint32_t) (position + 1) << 1 | list;
}

static unsigned int mark_list(uint32_t mark)
{
    return mark & 1;
}

static size_t mark_position(uint32_t mark)
{
    return (mark >> 1) - 1;
}

void journal_init(struct journal *journal, bool enabled)
{
    memset(journal, 0, sizeof *journal);
    journal->enabled = enabled;
    journal->epoch = 1;
    store_batch_init(&journal->batches[0]);
    store_batch_init(&journal->batches[1]);
}

void journal_release(struct journal *journal)
{
    for (int i = 0; i < 2; i++) {
        free(journal->lists[i].docs);
        store_batch_release(&journal->batches[i]);
    }
    memset(journal, 0, sizeof *journal);
}

static struct store_batch *current_batch(struct journal *journal)
{
    return &journal->batches[journal->current];
}

/* What cannot be noted now must not be lost silently: the next commit reports it. */
static void note_failure(struct journal *journal, int err)
{
    if (err)
        journal->failed = err;
}

static int encode_content(struct store_batch *batch, struct document *doc, const unsigned char *key)
{
    bool keep = !doc->content && doc->size > 0;
    if (doc->content && doc->flags & DOCUMENT_BLOB_DIRTY) {
        int err = store_batch_dirty_blob(batch, content_blob(doc->content));
        if (err)
            return err;
    }
    if (!keep && doc->flags & DOCUMENT_CONTENT_STORED) {
        int err = store_batch_remove(batch, STORE_CONTENTS, key, RECORD_INO_BYTES);
        if (err)
            return err;
        doc->flags &= ~(uint32_t) DOCUMENT_CONTENT_STORED;
    }
    if (keep && doc->flags & DOCUMENT_CONTENT_DIRTY) {
        void *copy = malloc(doc->size);
        if (!copy)
            return -ENOMEM;
        memcpy(copy, doc->data, doc->size);
        int err = store_batch_put(batch, STORE_CONTENTS, key, RECORD_INO_BYTES, copy, doc->size);
        if (err)
            return err;
        doc->flags |= DOCUMENT_CONTENT_STORED;
    }
    doc->flags &= ~(uint32_t) (DOCUMENT_CONTENT_DIRTY | DOCUMENT_BLOB_DIRTY);
    return 0;
}

static int encode(struct store_batch *batch, struct document *doc)
{
    if (doc->flags & DOCUMENT_ENCODED)
        return 0;
    if (doc->nlink > 0) {
        unsigned char key[RECORD_INO_BYTES];
        void *value;
        size_t len;
        record_ino_key(doc->ino, key);
        if (S_ISREG(doc->mode)) {
            int err = encode_content(batch, doc, key);
            if (err)
                return err;
        }
        int err = record_encode(doc, &value, &len);
        if (!err)
            err = store_batch_put(batch, STORE_NODES, key, sizeof key, value, len);
        if (err)
            return err;
        doc->flags |= DOCUMENT_STORED;
    }
    doc->flags |= DOCUMENT_ENCODED;
    return 0;
}

int journal_will_change(struct tree *tree, struct document *doc)
{
    struct journal *journal = &tree->journal;
    struct journal_list *list = &journal->lists[journal->current];
    if (journal->refuses)
        return -EROFS;
    if (!journal->enabled || (doc->dirty && mark_list(doc->dirty) == journal->current))
        return 0;
    if (doc->ino == TREE_LIMBO_INO)
        return 0;
    if (list->n == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 256;
        struct document **more = realloc(list->docs, cap * sizeof(struct document *));
        if (!more)
            return -ENOMEM;
        list->docs = more;
        list->cap = cap;
    }
    if (doc->dirty) {
        unsigned int other = !journal->current;
        int err = encode(&journal->batches[other], doc);
        if (err)
            return err;
        journal->lists[other].docs[mark_position(doc->dirty)] = NULL;
    }
    doc->flags &= ~(uint32_t) DOCUMENT_ENCODED;
    doc->dirty = mark_make(journal->current, list->n);
    list->docs[list->n++] = doc;
    return 0;
}

void journal_removed(struct tree *tree, struct document *doc)
{
    struct journal *journal = &tree->journal;
    unsigned char key[RECORD_INO_BYTES];
    record_ino_key(doc->ino, key);
    if (!journal->enabled)
        return;
    if (doc->flags & DOCUMENT_STORED)
        note_failure(
            journal, store_batch_remove(current_batch(journal), STORE_NODES, key, sizeof key));
    if (doc->flags & DOCUMENT_CONTENT_STORED)
        note_failure(
            journal, store_batch_remove(current_batch(journal), STORE_CONTENTS, key, sizeof key));
    /* What an open descriptor still reads must be in memory from now on: see document_load. */
    doc->flags &= ~(uint32_t) (DOCUMENT_STORED | DOCUMENT_CONTENT_STORED);
}

void journal_freed(struct tree *tree, struct document *doc)
{
    if (!doc->dirty)
        return;
    tree->journal.lists[mark_list(doc->dirty)].docs[mark_position(doc->dirty)] = NULL;
    doc->dirty = 0;
}

void journal_link_added(struct tree *tree, struct dentry *d)
{
    struct journal *journal = &tree->journal;
    if (!journal->enabled)
        return;
    unsigned char key[STORE_KEY_MAX_BYTES];
    size_t len = record_link_key(d, d->doc->ino, key);
    note_failure(journal, store_batch_put(current_batch(journal), STORE_LINKS, key, len, NULL, 0));
}

void journal_link_removed(struct tree *tree, struct dentry *d)
{
    struct journal *journal = &tree->journal;
    if (!journal->enabled)
        return;
    unsigned char key[STORE_KEY_MAX_BYTES];
    size_t len = record_link_key(d, d->doc->ino, key);
    note_failure(journal, store_batch_remove(current_batch(journal), STORE_LINKS, key, len));
}

int journal_put_meta(struct tree *tree, const char *key, void *value, size_t len)
{
    if (!tree->journal.enabled) {
        free(value);
        return 0;
    }
    return store_batch_put(current_batch(&tree->journal), STORE_META, key, strlen(key), value, len);
}

void journal_dead_blob(struct tree *tree, uint64_t blob)
{
    if (tree->journal.enabled)
        note_failure(&tree->journal, store_batch_dead_blob(current_batch(&tree->journal), blob));
}

bool journal_pending(const struct journal *journal)
{
    return journal->committing || journal->lists[journal->current].n ||
           !store_batch_empty(&journal->batches[journal->current]);
}

/* Encodes what is left of the list being committed. */
static int encode_all(struct tree *tree)
{
    struct journal *journal = &tree->journal;
    int err = 0;
    for (bool more = true; more && !err;) {
        tree_lock_background(tree);
        unsigned int other = !journal->current;
        struct journal_list *list = &journal->lists[other];
        for (int i = 0; i < SLICE_DOCS && journal->encoded < list->n && !err; i++) {
            struct document *doc = list->docs[journal->encoded];
            if (doc)
                err = encode(&journal->batches[other], doc);
            journal->encoded += !err;
        }
        more = journal->encoded < list->n;
        tree_unlock(tree);
    }
    return err;
}

/* The batch is durable: its documents are clean, and contents nobody reads leave memory. */
static void finish(struct tree *tree)
{
    struct journal *journal = &tree->journal;
    struct journal_list *list = &journal->lists[!journal->current];
    for (size_t at = 0; at < list->n;) {
        tree_lock_background(tree);
        for (int i = 0; i < SLICE_DOCS && at < list->n; i++, at++) {
            struct document *doc = list->docs[at];
            if (!doc)
                continue;
            doc->dirty = 0;
            doc->flags &= ~(uint32_t) DOCUMENT_ENCODED;
            if (doc->nopen == 0)
                document_evict(tree, doc);
        }
        tree_unlock(tree);
    }
    tree_lock(tree);
    /* After a burst the list's memory goes back. */
    if (list->cap > 4096) {
        free(list->docs);
        list->docs = NULL;
        list->cap = 0;
    }
    list->n = 0;
    journal->committing = false;
    tree_unlock(tree);
}

int journal_commit(struct tree *tree, uint64_t *ret_epoch, struct reason *why)
{
    struct journal *journal = &tree->journal;
    *ret_epoch = 0;

    tree_lock(tree);
    int failed = journal->failed;
    journal->failed = 0;
    if (!journal_pending(journal)) {
        tree_unlock(tree);
        return failed ? reason_set(why, -failed, "a change could not be noted: no memory") : 0;
    }
    if (!journal->committing) {
        journal->committing = true;
        journal->encoded = 0;
        journal->current = !journal->current;
        journal->epoch++;
    }
    *ret_epoch = journal->epoch - 1;
    struct store_batch *batch = &journal->batches[!journal->current];
    tree_unlock(tree);

    int err = encode_all(tree);
    if (err)
        return reason_set(why, -err, "records could not be encoded: no memory");
    store_stage(tree->store, batch);
    err = store_apply(tree->store, batch, why);
    if (err)
        return err;
    finish(tree);
    if (failed)
        return reason_set(why, -failed, "a change could not be noted: no memory");
    return 0;
}
