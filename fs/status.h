/*
 * status.h - what the control files say, as JSON.
 */
#ifndef TTLFS_FS_STATUS_H
#define TTLFS_FS_STATUS_H

#include "fs/fs.h"

#include <stddef.h>

/*
 * `.ttlfs/status.json` and the result of the last pass. Expect no lock.
 * @ret_text  malloc'd, the caller frees it
 * Errors: -ENOMEM.
 */
int status_text(struct fs *fs, char **ret_text, size_t *ret_len);
int pass_text(struct fs *fs, char **ret_text, size_t *ret_len);

#endif
