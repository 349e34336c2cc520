/*
 * profile.h - `.ttlfs/profile.jsonl`: the last TTL visits, configuration changes and slow operations.
 *
 * A ring of lines, the oldest of which goes when a new one comes. Any lock may be held when a line is
 * added, but the profile's own.
 */
#ifndef TTLFS_FS_PROFILE_H
#define TTLFS_FS_PROFILE_H

#include "core/tree.h"
#include "fs/histogram.h"
#include "ttl/monitor.h"

#include <fuse_lowlevel.h>
#include <pthread.h>

struct fs;

#define PROFILE_LINES 1000
/* Longer old and new values are cut. */
#define PROFILE_VALUE_BYTES 1000

struct profile {
    pthread_mutex_t lock;       /* covers what follows; innermost */
    char *lines[PROFILE_LINES]; /* terminated, with their newlines; NULL: none yet */
    unsigned int next;          /* where the next line goes: the oldest one */
    /* under the tree's lock */
    struct histogram visits, lags;
};

/* Who asked for a change, and the value that it ends. */
struct profile_change {
    uint32_t uid;
    int32_t pid;
    char *old; /* NULL for none */
    size_t old_len;
};

/* Before any other thread runs. */
void profile_init(struct profile *profile);
void profile_release(struct profile *profile);

/* All lines, oldest first. Errors: -ENOMEM. @ret_text  malloc'd, the caller's */
int profile_text(struct fs *fs, char **ret_text, size_t *ret_len);

/* A visit has ended. Expects the tree's lock. */
void profile_visit(struct profile *profile, const struct monitor_visit *visit);

/*
 * A rule of a collection, or a parameter, is about to change; ended by profile_changed or
 * profile_change_release. Without memory the old value is not known.
 * @old  copied; NULL for none
 */
void profile_change_begin(
    struct profile_change *change, fuse_req_t req, const char *old, size_t old_len);
void profile_change_release(struct profile_change *change);

/*
 * It has changed: adds a line and releases the change. Expects the tree's lock when c is given.
 * @c    the collection whose rule it is; NULL for a parameter
 * @new  borrowed; NULL for none
 */
void profile_changed(struct fs *fs, struct profile_change *change, const struct collection *c,
    const char *what, const char *new, size_t new_len);

/* A request took long. @op  its name */
void profile_slow(
    struct fs *fs, const char *op, uint64_t ino, uint32_t uid, uint32_t pid, int64_t ms);

#endif
