/*
 * monitor_thread.h - the thread that runs the monitor's passes, and what passes need of the mount.
 *
 * It sleeps until the next deadline or interval, until somebody writes to `.ttlfs/pass`, or until a
 * nearer deadline appears. Documents that somebody watches are unlinked through the mount itself,
 * so that the kernel raises the events that rm would raise; the handler of UNLINK knows this thread
 * and lets it remove what is expired, and only that.
 */
#ifndef TTLFS_FS_MONITOR_THREAD_H
#define TTLFS_FS_MONITOR_THREAD_H

#include "fs/waiters.h"
#include "fs/watch.h"
#include "ttl/clock_guard.h"
#include "ttl/monitor.h"

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct fs;

/* Directories whose attributes are told to the kernel once per slice; more are told at once. */
#define MONITOR_CHANGED_DIRS 8

struct monitor_thread {
    struct fs *fs;
    pthread_t thread;
    atomic_int tid; /* the thread's number, by which UNLINK knows it; 0 while it removes nothing */
    _Atomic(const struct monitor_name *) removing; /* what it removes right now */
    _Atomic fuse_ino_t opened; /* the directory that OPENDIR last opened for this thread */
    atomic_bool stop;
    pthread_mutex_t lock; /* covers what follows; may be taken while the tree's lock is held */
    pthread_cond_t wanted;
    bool running;
    bool woken;
    bool confirm_clock;
    struct clock_guard guard;
    /* writes to `.ttlfs/pass`, each until the end of a pass that began after it; has its own lock */
    struct waiters waiters;
    /* the thread's own */
    dev_t device; /* of the mount; 0 until it was asked for */
    struct watch_set watches;
    fuse_ino_t
        changed[MONITOR_CHANGED_DIRS]; /* directories of this slice, to be told to the kernel */
    unsigned int nchanged;
    bool forget_names; /* a directory went behind the kernel's back */
    int64_t scanned_ms, scan_took_us;
    /* under the tree's lock */
    struct monitor_pass pass; /* the running or the last one */
    bool clock_held;
};

/* Makes it ready to be woken, started and stopped. Before any other thread runs. */
void monitor_thread_init(struct monitor_thread *monitor, struct fs *fs);
/* Starts the thread, unless it was stopped already. Errors: -EAGAIN, -ENOMEM. */
int monitor_thread_start(struct monitor_thread *monitor);
/*
 * Ends a running pass early, replies to waiters, ends the thread. The session must still answer, or
 * be gone. More than one call does no harm.
 */
void monitor_thread_stop(struct monitor_thread *monitor);

/* Looks at deadlines and parameters again. Any lock may be held but the monitor's own. */
void monitor_thread_wake(struct monitor_thread *monitor);

/* Somebody says that the clock is right. */
void monitor_thread_confirm_clock(struct monitor_thread *monitor);

/* Runs a pass and then replies to the write of `size` bytes; with EINTR when that is interrupted. */
void monitor_thread_request(struct monitor_thread *monitor, fuse_req_t req, size_t size);

#endif
