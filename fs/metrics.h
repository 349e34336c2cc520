/*
 * metrics.h - `.ttlfs/metrics`: text exposition format 0.0.4 of Prometheus.
 */
#ifndef TTLFS_FS_METRICS_H
#define TTLFS_FS_METRICS_H

#include "fs/fs.h"

/* Expects no lock. @ret_text  malloc'd, the caller's. Errors: -ENOMEM. */
int metrics_text(struct fs *fs, char **ret_text, size_t *ret_len);

#endif
