/*
 * access.h - who is calling, and may he delete what he is about to give an earlier end?
 *
 * Permissions to reach, read and write are the kernel's business (default_permissions). It knows nothing
 * of rules: that is here.
 */
#ifndef TTLFS_FS_ACCESS_H
#define TTLFS_FS_ACCESS_H

#include "core/reason.h"
#include "fs/caller.h"
#include "fs/fs.h"

/*
 * Asks for the supplementary groups, which costs a look into /proc, if what the caller may do to this
 * document depends on them. Expects no lock; the request keeps the document.
 */
void caller_prepare(struct caller *caller, fuse_req_t req, struct document *doc);

/*
 * Could the caller delete this name: write and search permission on the directory, and in a sticky one
 * the file or the directory is his? Root could. Access control lists count. Expects the lock and a prepared caller.
 */
bool access_may_unlink(const struct caller *caller, const struct dentry *d);

/*
 * May the caller set, or remove when `value` is NULL, this `user.ttl.*` or `user.doc.*` attribute? Of a
 * directory: its owner. Of anything else: who may delete it, and others so far as nothing ends earlier.
 * Expects the lock and a prepared caller.
 * Errors: -EPERM with the reason.
 */
int access_check_rule(struct fs *fs, const struct caller *caller, struct document *doc,
    const char *name, const char *value, size_t size, int64_t now_ms, struct reason *why);

#endif
