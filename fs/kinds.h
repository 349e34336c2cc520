/*
 * kinds.h - what handlers have to ask where a collection may be capped or of time series.
 *
 * Other collections pay for a test of a pointer or a flag. Everything expects the tree's lock; what
 * lets go of it says so. Reasons go into user.ttl.error of the document and of its collection.
 */
#ifndef TTLFS_FS_KINDS_H
#define TTLFS_FS_KINDS_H

#include "core/index.h"
#include "core/text.h"
#include "fs/fs.h"

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
 * A directory is opened: the handle of a listing that shows a capped collection within its limits,
 * although it is read in pieces. NULL for all others, and without memory. Takes the lock itself.
 */
struct handle *kinds_opendir(struct fs *fs, fuse_ino_t ino, int flags);

/* Does such a listing show this name? What came after its begin it does not. */
bool kinds_lists(const struct handle *handle, struct dentry *d);

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

/*
 * A rule is about to be set: expired documents do not keep a directory from being empty. Lets go; the
 * document must be pinned.
 */
void kinds_prepare(struct fs *fs, struct document *doc, const char *name, struct timespec now);

/* What status.json says of a collection that is capped or of time series. */
struct kinds_figures {
    bool capped, timeseries;
    struct index_cap cap;
    uint64_t documents;         /* capped: that count */
    uint64_t buckets, extended; /* time series: buckets, documents outside of the normal range */
};

void kinds_figures(const struct collection *c, struct kinds_figures *ret_figures);

/* Its members in the object that is open. Needs no lock. */
void kinds_write(struct text *text, const struct kinds_figures *figures);

/* What is to be warned of; lives forever. NULL for nothing. */
const char *kinds_warning(const struct collection *c);

#endif
