/*
 * kinds.h - what handlers have to ask where a collection may be capped or of time series.
 *
 * Other collections pay for a test of a pointer or a flag. Everything expects the tree's lock; what
 * lets go of it says so. Reasons go into user.ttl.error of the document and of its collection.
 */
#ifndef TTLFS_FS_KINDS_H
#define TTLFS_FS_KINDS_H

#include "fs/fs.h"

#include <bson/bson.h>

/*
 * May something be made here: a node without content has no date for a time series. Errors:
 * -EINVAL.
 */
int kinds_may_make(struct collection *c, uint32_t mode);

/*
 * May a document that lies elsewhere come in? Looks at its fields where that is asked for. Lets go.
 * To be called before its names are looked at.
 * Errors: -EINVAL (no date for a time series), -EFBIG (larger than a capped collection), -ENOMEM,
 * -EIO.
 */
int kinds_admit(struct fs *fs, struct collection *c, struct document *doc);

/*
 * Sees to it that a name of `doc` (NULL: of a new, empty document) can be added to a capped collection.
 * Whoever must go is evicted by kinds_came, in the same hold of the lock, or, when they are many,
 * at once.
 * @spare  a name in it that is about to go anyway; may be NULL
 * Returns 0; 1 when the lock was let go and the caller has to look again at what it had found;
 * -ENOSPC (all are held), -EFBIG.
 */
int kinds_make_room(struct fs *fs, struct collection *c, struct document *doc,
    const struct dentry *spare, struct timespec now);

/* A document is about to get a name here that it had elsewhere. Errors: -ENOMEM. */
int kinds_arrive(struct fs *fs, struct collection *c, struct document *doc);

/* A name of `doc` has been added: the oldest make room for it. `doc` is NULL when limits shrank. */
void kinds_came(
    struct fs *fs, struct collection *c, const struct document *doc, struct timespec now);

/* The same in slices, for limits that were set. Lets go. */
void kinds_trim(struct fs *fs, struct collection *c);

/*
 * A document is about to have `size` bytes: makes room in its capped collections. Lets go; the
 * document must be pinned.
 * Errors: -EFBIG (larger than allowed there), -ENOSPC (all others are held).
 */
int kinds_grow(struct fs *fs, struct document *doc, uint64_t size, struct timespec now);

/* Its size has changed. */
void kinds_grew(struct fs *fs, struct document *doc, struct timespec now);

/*
 * A descriptor is closed, and the fields were looked at. Errors: -EINVAL: a time series wants a date
 * that is not there. A new document is hidden then, until a later close finds one or the last
 * descriptor is gone.
 */
int kinds_close(const struct handle *handle);

/* The last but one thing that holds a document, its handle, is about to go: so does a refused one. */
void kinds_release(struct fs *fs, const struct handle *handle);

/* What status.json says of a collection that is capped or of time series. */
void kinds_append_status(const struct collection *c, bson_t *b);

#endif
