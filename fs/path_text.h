/*
 * path_text.h - where a collection is, for people: its path from the mount's root.
 */
#ifndef TTLFS_FS_PATH_TEXT_H
#define TTLFS_FS_PATH_TEXT_H

#include "core/text.h"
#include "core/tree.h"

/* A longer path is cut at its front. */
#define PATH_TEXT_BYTES 4096

/*
 * Writes the path, `/` for the root; a removed collection's is `(removed)`. Expects the tree's lock.
 * @ret_len  its length
 * Returns where it begins in `buf`; terminated. Bytes are as they are, UTF-8 or not.
 */
const char *path_text(const struct collection *c, char buf[PATH_TEXT_BYTES], size_t *ret_len);

/*
 * A copy of a name that can be told from others where each may stand only once: as it is when it will be
 * shown as it is, with ` #` and `number` behind it when it is not UTF-8 or too long a path.
 * Returns malloc'd text, the caller's; NULL: no memory.
 */
char *name_distinct(const char *text, size_t len, uint64_t number);

/* A collection's path, the same way. Expects the tree's lock. */
char *path_text_distinct(const struct collection *c);

/* Appends a member `collection`, null for none. Expects the tree's lock. */
void path_text_member(struct text *text, const struct collection *c);

/*
 * Appends `collection` and the name of a document: where it is, or was before it had to make room.
 * Expects the tree's lock.
 */
void path_text_place(struct text *text, const struct dentry *d);

#endif
