/*
 * ttlctl_index.h - the parts of `ttlctl index` that only look.
 */
#ifndef TTLFS_MOUNT_HELPERS_TTLCTL_INDEX_H
#define TTLFS_MOUNT_HELPERS_TTLCTL_INDEX_H

#include "mount-helpers/ttlctl.h"

/* Options and operands begin at argv[1]. Return an exit status. */
int ctl_index_list(struct ctl *ctl, int argc, char **argv);
int ctl_index_explain(struct ctl *ctl, int argc, char **argv);

#endif
