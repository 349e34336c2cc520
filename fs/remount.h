/*
 * remount.h - flags of the mount itself: how it was mounted, and `mount -o remount`.
 *
 * The kernel keeps these flags and enforces most of them. Two concern us: which reads update access
 * times, and whether the mount is read-only, so that the monitor rests. A thread of the daemon reads
 * them from /proc/self/mountinfo whenever the mount table changes.
 *
 * mount(8) asks for a remount by running `ttlfs STORE MOUNTPOINT -o remount,...` (through
 * mount.ttlfs or fuse's mount.fuse): that process makes the system call and ends.
 */
#ifndef TTLFS_FS_REMOUNT_H
#define TTLFS_FS_REMOUNT_H

#include "fs/options.h"

#include <pthread.h>
#include <stdbool.h>

struct fs;

struct remount_watch {
    struct fs *fs;
    pthread_t thread;
    int stop; /* an eventfd; -1 when the thread does not run */
    int table;
    char *mountpoint;  /* as in the table: symlinks resolved, blanks escaped */
    unsigned int seen; /* MOUNT_… flags that the table showed last */
    bool found;        /* then the device is known */
    unsigned int dev_major, dev_minor;
};

/*
 * Takes a word of -o into account; later words win.
 * Returns false when it is no mount flag.
 */
bool mount_words_add(struct mount_words *words, const char *word);

/* Does libfuse 3.14 (and its fusermount3) know this mount flag? The others are ours to apply. */
bool mount_words_libfuse_knows(const char *word);

/*
 * Applies the flags that libfuse does not know to a mount that was just made, and starts to watch
 * it. What the kernel does not let this user set is honoured by the daemon alone.
 * Returns 0 or -errno; remount_watch_stop is to be called in either case.
 */
int remount_watch_start(struct remount_watch *watch, struct fs *fs);

void remount_watch_stop(struct remount_watch *watch);

/*
 * The command `ttlfs -o remount,... STORE MOUNTPOINT`: changes the flags of an existing mount to
 * those that the words name; what they leave out stays.
 * Returns 0 or -errno.
 */
int remount(const char *mountpoint, const struct mount_words *words);

#endif
