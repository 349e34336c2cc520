/*
 * setup.h - what stands between the options and a filesystem that can be mounted: the store, the tree,
 * the root's own rules; and taking it apart again. No session is needed for either.
 */
#ifndef TTLFS_FS_SETUP_H
#define TTLFS_FS_SETUP_H

struct fs;

/* The exit statuses of libfuse's fuse_main. */
enum {
    EXIT_OPTIONS = 1,
    EXIT_MOUNTPOINT = 2,
    EXIT_SETUP = 3,
    EXIT_MOUNT = 4,
    EXIT_DAEMON = 5,
    EXIT_SIGNALS = 6,
    EXIT_LOOP = 7,
};

/*
 * Says on stderr, in one line, why it did not work. `format` has one %s, which becomes `detail`.
 * Returns `status`, for the caller to return.
 */
int setup_failed(int status, const char *format, const char *detail);

/*
 * Opens the store that fs->options names, builds and loads the tree, and sets what the options say about
 * the root. Returns 0 or one of the exit statuses above, after setup_failed(); fs is then good for
 * setup_undo() and nothing else. Called once, before any thread: takes tree.lock itself.
 */
int setup_fs(struct fs *fs);

/* Ends what setup_fs() began: open files, the tree, the rules, the store. Called with no other thread left. */
void setup_undo(struct fs *fs);

#endif
