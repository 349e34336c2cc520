/*
 * currentop.h - `.ttlfs/currentOp.json`: what is in progress.
 */
#ifndef TTLFS_FS_CURRENTOP_H
#define TTLFS_FS_CURRENTOP_H

#include "fs/fs.h"

/* Expects no lock. @ret_text  malloc'd, the caller's. Errors: -ENOMEM. */
int currentop_text(struct fs *fs, char **ret_text, size_t *ret_len);

#endif
