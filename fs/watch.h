/*
 * watch.h - who watches documents of this mount with inotify or fanotify?
 *
 * The kernel tells in /proc/PID/fdinfo/FD which inodes each inotify descriptor watches, by device
 * and inode number. An unprivileged daemon sees the descriptors of its own user only.
 */
#ifndef TTLFS_FS_WATCH_H
#define TTLFS_FS_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct watch_set {
    uint64_t *inos; /* sorted */
    size_t n, cap;
    bool everything; /* a mark on the whole mount or filesystem */
};

void watch_set_init(struct watch_set *set);
void watch_set_release(struct watch_set *set);

/*
 * Looks through /proc for watches on a device; replaces what the set had. Reads files: expects no
 * lock. Errors: -ENOMEM; what cannot be read is passed over.
 */
int watch_set_scan(struct watch_set *set, dev_t device);

/* Is this inode watched? */
bool watch_set_has(const struct watch_set *set, uint64_t ino);

#endif
