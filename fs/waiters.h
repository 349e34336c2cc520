/*
 * waiters.h - requests that wait for something, and the interrupts that end them early.
 *
 * A caller that waits for an answer can be killed only when the answer comes (the kernel sends
 * FUSE_INTERRUPT and goes on waiting). So whoever keeps a request for later keeps it here.
 */
#ifndef TTLFS_FS_WAITERS_H
#define TTLFS_FS_WAITERS_H

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdbool.h>

struct waiter;

/* Writes that wait for a round of something: those that came before it began, and those being served. */
struct waiters {
    pthread_mutex_t lock; /* covers what follows; innermost */
    struct waiter *waiting, *served;
    bool closed;
};

void waiters_init(struct waiters *waiters);

/*
 * Keeps a write of `size` bytes. When that cannot be it is answered at once: ENOMEM, EINTR (interrupted
 * already), ESHUTDOWN (closed). An interrupt answers it with EINTR. Returns true when it was kept.
 */
bool waiters_add(struct waiters *waiters, fuse_req_t req, size_t size);

/* A round begins: it is for all who wait now. Returns false when nobody does. */
bool waiters_begin(struct waiters *waiters);

/* The round has ended: answers those it was for. */
void waiters_end(struct waiters *waiters);

/* Answers all, and keeps nobody any more. */
void waiters_close(struct waiters *waiters);

/*
 * For a handler that waits itself: calls `wake` when the request is interrupted, from another thread or at
 * once. To be undone with NULL before the reply.
 */
void waiters_on_interrupt(fuse_req_t req, void (*wake)(fuse_req_t req, void *arg), void *arg);

/*
 * Was the request interrupted because its caller is being killed? Other signals let a disk's work be
 * finished, as everywhere.
 */
bool waiters_caller_dies(fuse_req_t req);

#endif
