/*
 * journal.h - what changed since the last commit, and how it becomes records.
 *
 * The journal notes which documents changed, not what changed: a document is encoded once, when
 * its batch is committed, however often it was written to. So that a batch is the state of one
 * instant although it is encoded in slices, a document that is about to change while its batch is
 * being encoded is encoded first (journal_will_change). A document that is made and removed between
 * two commits never reaches the store.
 *
 * There are at most two batches: the current one, which collects, and one that is being committed.
 * Each document is in one list at most; document.dirty says where.
 */
#ifndef TTLFS_CORE_JOURNAL_H
#define TTLFS_CORE_JOURNAL_H

#include "core/reason.h"
#include "core/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dentry;
struct document;
struct tree;

struct journal_list {
    struct document **docs; /* NULL where a document went away or moved on */
    size_t n, cap;
};

struct journal {
    bool enabled; /* false: memory:, or read-only */
    bool refuses; /* nothing may change: the store is open read-only */
    struct journal_list lists[2];
    struct store_batch batches[2];
    unsigned int current; /* 0 or 1: which of the two collects */
    bool committing;      /* the other one is being committed */
    size_t encoded;       /* how far its list has been encoded */
    uint64_t epoch;       /* number of the collecting batch, from 1 */
    int failed;           /* -errno of an encoding that failed, reported by the commit */
};

void journal_init(struct journal *journal, bool enabled);
void journal_release(struct journal *journal);

/*
 * Must be called before anything is changed that a document's record or small content holds.
 * Errors: -ENOMEM, -EROFS: then the change must not be made. Expects the tree's lock.
 */
int journal_will_change(struct tree *tree, struct document *doc);

/* A document that has lost its last name: removes its record. Expects the tree's lock. */
void journal_removed(struct tree *tree, struct document *doc);

/* A document is being freed. Expects the tree's lock. */
void journal_freed(struct tree *tree, struct document *doc);

/*
 * A name of a document with several names appeared or disappeared. Called after the change.
 * Expects the tree's lock.
 */
void journal_link_added(struct tree *tree, struct dentry *d);
void journal_link_removed(struct tree *tree, struct dentry *d);

/* Puts a record of STORE_META into the current batch. @value is taken over. Expects the lock. */
int journal_put_meta(struct tree *tree, const char *key, void *value, size_t len);

/* A blob that no record names any more. Expects the tree's lock. */
void journal_dead_blob(struct tree *tree, uint64_t blob);

/* Is there anything to commit? Expects the tree's lock. */
bool journal_pending(const struct journal *journal);

/*
 * Makes everything durable that was noted before the call: one batch. After a failure the batch
 * is kept and tried again by the next call. One thread at a time; takes the tree's lock in slices.
 * @ret_epoch  number of the batch that is durable now, or that failed; 0 when there was nothing to do
 * Errors: what store_apply reports.
 */
int journal_commit(struct tree *tree, uint64_t *ret_epoch, struct reason *why);

#endif
