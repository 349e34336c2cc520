/*
 * caller.h - who sent a request: what the kernel does not send along.
 */
#ifndef TTLFS_FS_CALLER_H
#define TTLFS_FS_CALLER_H

#include "core/acl_permission.h"

#include <fuse_lowlevel.h>

/*
 * Fills in what the request says: user and group. Supplementary groups and capabilities are not known
 * yet; root then has all capabilities, and others none.
 * @ret_caller  to be released with caller_release
 */
void caller_init(struct caller *ret_caller, fuse_req_t req);

/*
 * Finds out the rest, once, in /proc, which takes some ten microseconds. Who cannot be found there (a
 * thread that has ended, another pid namespace) stays as caller_init left him. Without the tree's lock.
 */
void caller_load(struct caller *caller, fuse_req_t req);

#endif
