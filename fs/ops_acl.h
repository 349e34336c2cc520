/*
 * ops_acl.h - setxattr, getxattr and removexattr of the two access control lists. The kernel has
 * checked who may do that, and what; it uses the lists where it checks permissions (fs/session.h).
 */
#ifndef TTLFS_FS_OPS_ACL_H
#define TTLFS_FS_OPS_ACL_H

#include <fuse_lowlevel.h>

/* Each replies. `name` is one of those of core/acl.h; control nodes have no lists. */
void op_acl_set(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size);
void op_acl_get(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_acl_remove(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
