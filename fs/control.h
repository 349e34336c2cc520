/*
 * control.h - `.ttlfs`, the control directory at the mount's root.
 *
 * Its nodes are a fixed table (fs/control.c): a name, a mode, and how it is read and written. They
 * are found by name and never listed in the root. A file's text is made when it is opened.
 */
#ifndef TTLFS_FS_CONTROL_H
#define TTLFS_FS_CONTROL_H

#include <fuse_lowlevel.h>
#include <stdbool.h>

#define CONTROL_NAME ".ttlfs"

/* Documents lie at addresses with low bits 00, the root is 1. */
static inline bool control_is_node(fuse_ino_t ino)
{
    return (ino & 3) == 2;
}

/* Each replies to the request. `parent` is a control node, or the root with CONTROL_NAME. */
void control_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void control_getattr(fuse_req_t req, fuse_ino_t ino);
void control_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
/* Opens a file with this text, malloc'd, which the call takes over. Replies. */
void control_open_text(fuse_req_t req, struct fuse_file_info *fi, char *text, size_t len);
void control_read(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi);
void control_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size);
void control_release(fuse_req_t req, struct fuse_file_info *fi);
/* poll of any file; documents are always ready. */
void control_poll(
    fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct fuse_pollhandle *ph);
void control_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off);
void control_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off);

/* Frees what the kernel sent no RELEASE for, when the session has ended. */
void control_tear_down(void);

#endif
