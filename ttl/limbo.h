/*
 * limbo.h - expired names that are in the way before their documents could be archived.
 *
 * An expired name can be used again at once, and a directory with nothing but expired names can be
 * removed, whether the archive has taken the documents or not. Those names move aside: into the
 * tree's limbo, a collection that no path leads to, under a name made of the document's number.
 * Where they were is noted in an attribute of the document, so that all of it is one change in the
 * journal and survives a crash. The limbo has an index, and the monitor visits it like any other.
 *
 * Every function expects the tree's lock.
 */
#ifndef TTLFS_TTL_LIMBO_H
#define TTLFS_TTL_LIMBO_H

#include "ttl/archive.h"

/* Attributes with this prefix are ours: neither listed nor to be read or set through the mount. */
#define LIMBO_XATTR_PREFIX "ttlfs.limbo."

/*
 * Moves an expired name into the limbo; its document stays as it is.
 * Errors: -ENOMEM, -ENOSPC.
 */
int limbo_take(struct ttl *ttl, struct dentry *d, struct timespec now);

/* Where a name in the limbo was. Errors: -EPROTO, -ENOMEM. */
int limbo_origin(const struct dentry *d, struct archive_origin *ret_origin);

/*
 * Is the archive still what a name in the limbo waits for? Not when the collection it was in is
 * there and deletes by now.
 */
bool limbo_wants_archive(struct ttl *ttl, struct dentry *d);

/*
 * Takes a name out of the limbo: its document has been archived, or need not be.
 * Errors: -ENOMEM.
 */
int limbo_remove(struct ttl *ttl, struct dentry *d, struct timespec now);

#endif
