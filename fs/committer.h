/*
 * committer.h - the thread that makes changes durable: every commit= seconds, and when asked.
 *
 * Group commit: whoever waits for durability waits for the batch that holds its changes; all that
 * came in meanwhile goes into the next batch together.
 */
#ifndef TTLFS_FS_COMMITTER_H
#define TTLFS_FS_COMMITTER_H

#include "core/tree.h"

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct committer {
    struct tree *tree;
    int64_t interval_ms;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* covers what follows; taken after the tree's lock, if both */
    pthread_cond_t wanted, done;
    bool stop;
    uint64_t asked;   /* the newest batch that somebody waits for */
    uint64_t durable; /* the newest batch that is durable */
    uint64_t failed;  /* the newest batch that could not be written at once */
    int failure;      /* -errno of that */
    int error;        /* -errno of the last try; 0 when it went well */
};

/*
 * Starts the thread. A tree without a store needs none: then every wait succeeds at once.
 * @interval_ms  0: only when asked
 * Errors: -ENOMEM, -EAGAIN.
 */
int committer_start(struct committer *committer, struct tree *tree, int64_t interval_ms);

/* Commits what is left and ends the thread. Returns 0 or the error of the last commit. */
int committer_stop(struct committer *committer);

/*
 * Waits until everything is durable that was noted before the call. Expects no lock.
 * Errors: -EIO, -ENOSPC: the batch could not be written at the first try. It is kept and tried again, but
 * a later success proves nothing: after a failed sync the kernel takes lost pages for clean.
 */
int committer_wait(struct committer *committer);

/*
 * The same for a handler that changed nothing itself. Errors: also -EINTR, when the caller is being killed:
 * nobody is there to be told, and only the answer lets him die.
 */
int committer_wait_for(struct committer *committer, fuse_req_t req);

#endif
