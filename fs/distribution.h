/*
 * distribution.h - `.ttlfs/distribution.json`: how many documents expire when; `.ttlfs/due.jsonl`: which
 * would be deleted now.
 */
#ifndef TTLFS_FS_DISTRIBUTION_H
#define TTLFS_FS_DISTRIBUTION_H

#include "fs/fs.h"

/* At most so many lines are in due.jsonl. */
#define DUE_MAX_LINES 200000

/* Expect no lock. @ret_text  malloc'd, the caller's. Errors: -ENOMEM. */
int distribution_text(struct fs *fs, char **ret_text, size_t *ret_len);
int due_text(struct fs *fs, char **ret_text, size_t *ret_len);

#endif
