/*
 * archive.h - the archive of expired documents: a directory outside the mount.
 *
 *     DIR/COLLECTION/YYYY-MM-DD/NAME
 *
 * The day is the one, in UTC, on which the document expired. A copy is written under a temporary
 * name, synced, renamed, and its directory is synced, before the document goes. It bears the
 * identity of its document (core/archive_record.h), by which a repeated archiving knows it again.
 * Only the monitor's thread archives; it holds no lock while it writes.
 */
#ifndef TTLFS_FS_ARCHIVE_H
#define TTLFS_FS_ARCHIVE_H

#include "core/reason.h"
#include "ttl/monitor.h"

#include <stdint.h>

struct fs;
struct fs_options;

/* The monitor thread's own. Zeroed is ready. */
struct archive {
    unsigned int one_by_one; /* so many batches are synced file by file: see archive.c */
    uint64_t failed;         /* since the last line in the log */
    int64_t quiet_until;     /* monotonic milliseconds: one line a minute is enough */
};

/*
 * Makes the archive's directory, unless it is there, and its path a real one.
 * Errors: with the reason, -EINVAL (it lies in the store or below the mountpoint), -ENOTDIR, and what mkdir and
 * realpath report.
 */
int archive_prepare(struct fs_options *options, struct reason *why);

/*
 * monitor_hooks.archive: archives those names that are to be archived; says of each what became
 * of it. Expects no lock.
 */
void archive_names(struct fs *fs, struct monitor_name *names, size_t n);

#endif
