/*
 * access_time.h - which reads update st_atime.
 *
 * The kernel leaves access times of a FUSE mount to us (S_NOATIME). What it was mounted with decides,
 * as on any filesystem: noatime, relatime (the default), strictatime, nodiratime, ro.
 * `user.ttl.accessed` is another matter: it is exact, and not decided here.
 */
#ifndef TTLFS_FS_ACCESS_TIME_H
#define TTLFS_FS_ACCESS_TIME_H

#include "fs/fs.h"

/* fs.mount_flags */
enum {
    MOUNT_NOATIME = 1 << 0,
    MOUNT_STRICTATIME = 1 << 1,
    MOUNT_NODIRATIME = 1 << 2,
    MOUNT_READ_ONLY = 1 << 3,
};

/* Would a read now have to update the access time? Expects the lock. */
bool access_time_is_stale(struct fs *fs, const struct document *doc, struct timespec now);

/*
 * A document's content, names or target were read: updates the access time where that is due.
 * Expects the lock.
 */
void access_time_touch(struct fs *fs, struct document *doc, struct timespec now);

/* Does every single read update the access time, so that none may be served from a cache? */
bool access_time_is_strict(struct fs *fs);

/* Was the mount made read-only, now or from the start? */
bool fs_is_read_only(struct fs *fs);

#endif
