/*
 * ttlctl_restore.h - bringing one archived document back: between the command and the copying.
 */
#ifndef TTLFS_MOUNT_HELPERS_TTLCTL_RESTORE_H
#define TTLFS_MOUNT_HELPERS_TTLCTL_RESTORE_H

#include "core/archive_record.h"

#include <stdbool.h>

struct restoring {
    const char *from;         /* the archived file */
    struct archive_copy copy; /* its record; attributes of the file itself are in it */
    int dir;                  /* where it goes, open */
    bool force, keep_rules;
    bool hold;          /* it is not to expire by what its content says */
    const char *failed; /* out: an attribute that could not be set; points into the copy */
    int failed_errno;
};

/*
 * Makes the document under its name in `dir`: as a whole or not at all.
 * Errors: -EEXIST (there is one, and no force), what open, read, write and mknod report.
 */
int restore_document(struct restoring *r);

/* Takes the file's own attributes into its record's copy. Errors: -errno. */
int restore_read_xattrs(struct restoring *r);

#endif
