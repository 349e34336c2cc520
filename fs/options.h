/*
 * options.h - the command line: STORE, MOUNTPOINT and -o options.
 */
#ifndef TTLFS_FS_OPTIONS_H
#define TTLFS_FS_OPTIONS_H

#include "core/reason.h"
#include "ttl/rules.h"

#include <fuse_opt.h>
#include <stdbool.h>
#include <stdint.h>

enum notify_mode { NOTIFY_AUTO, NOTIFY_ALWAYS, NOTIFY_NEVER };

/* Words of -o that became flags of mount(2), and those that they take back. */
struct mount_words {
    unsigned long set, clear; /* MS_… */
    bool access_times;        /* one of them was about access times */
};

struct fs_options {
    char *store;      /* "memory:" or an absolute path */
    char *mountpoint; /* absolute */
    char *archive;    /* absolute; NULL: not given */
    bool foreground, debug, help, version;
    bool read_only, test_clock, sync, noacl;
    bool clone_fd;
    unsigned max_threads, max_idle_threads; /* of FUSE's loop; 0: libfuse's own default */
    bool remount;                           /* change the flags of an existing mount, and end */
    bool kernel_words;                      /* options that only a mount that is there shows */
    struct mount_words mount_words;
    int monitor; /* 1 on, 0 off, -1: not given */
    bool allow_other;
    int64_t max_pages;      /* 0: no limit */
    bool size_set;          /* size= was given */
    uint64_t max_documents; /* 0: no limit */
    int mode;               /* of the root; -1: not given */
    int64_t uid, gid;       /* of the root; -1: not given */
    int64_t commit_ms;      /* 0: every change before it is answered */
    enum notify_mode notify;
    char *ttl, *idle, *max, *refresh; /* rules of the root collection; NULL: not given */
    struct fuse_args fuse;            /* what is left for libfuse */
};

/*
 * Parses a command line.
 * @ret_options  to be released with options_release, whatever the call returns
 * Errors: -EINVAL with the reason, -ENOMEM.
 */
int options_parse(int argc, char **argv, struct fs_options *ret_options, struct reason *why);

void options_release(struct fs_options *options);

/* The text that -h shows. */
extern const char options_help[];

#endif
