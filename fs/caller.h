/*
 * caller.h - who sent a request: what the kernel does not send along.
 */
#ifndef TTLFS_FS_CALLER_H
#define TTLFS_FS_CALLER_H

#include "core/acl_permission.h"

#include <fuse_lowlevel.h>

/*
 * Finds out who sent a request: user and group are in it, capabilities and supplementary groups are
 * read from /proc, which takes some ten microseconds. Somebody who cannot be found there (a thread
 * that has ended, another pid namespace) has neither; root then has all capabilities.
 * Without the tree's lock.
 * @ret_caller  to be released with caller_release
 */
void caller_of(fuse_req_t req, struct caller *ret_caller);

#endif
