/*
 * events.h - `.ttlfs/events`: a stream of what happens to documents.
 *
 * Lines are made under the tree's lock, by whoever makes the change, and only while somebody has the
 * file open (ttl/events.h). A read that finds nothing is answered later, by a thread of its own, so
 * that neither a handler's thread nor the tree's lock ever waits for a reader.
 */
#ifndef TTLFS_FS_EVENTS_H
#define TTLFS_FS_EVENTS_H

#include "core/stream.h"
#include "core/text.h"
#include "ttl/events.h"

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct fs;

/* What is kept for slow readers, of all readers together. */
#define EVENTS_MAX_BYTES ((size_t) 32 << 20)

/* An open `.ttlfs/events`. */
struct events_reader {
    struct stream_reader stream;
    struct events_reader *next, **place; /* of all, under events.lock */
    struct fuse_pollhandle *poll;        /* somebody polls; under events.lock */
};

struct events_wait;

struct events {
    struct fs *fs;
    struct stream stream;
    struct text line; /* the line being made; under the tree's lock */
    pthread_t thread;
    atomic_bool waiting;  /* somebody waits for the next line */
    pthread_mutex_t lock; /* covers what follows; may be taken while the tree's lock is held */
    pthread_cond_t wanted;
    bool running, stop, news;
    struct events_reader *readers;
    struct events_wait *waits; /* reads that wait for an answer */
};

/* Before any other thread runs. */
void events_init(struct events *events, struct fs *fs);
/* When no request is handled any more. */
void events_release(struct events *events);

/* Errors: -EAGAIN, -ENOMEM. */
int events_start(struct events *events);
/*
 * Ends all waiting reads (they read an end of file) and the thread. More than one call does no harm.
 * Later reads find the end of the file when they have read what there is.
 */
void events_stop(struct events *events);

/* Begins to listen; what happens from now on can be read. Expects no lock. NULL: no memory. */
struct events_reader *events_open(struct events *events);
void events_close(struct events *events, struct events_reader *reader);

/* Each replies, events_read perhaps later. @flags  of the descriptor: O_NONBLOCK */
void events_read(
    struct events *events, struct events_reader *reader, fuse_req_t req, size_t size, int flags);
/* @ph  taken over; NULL when nobody is to be woken */
void events_poll(struct events *events, struct events_reader *reader, fuse_req_t req,
    struct fuse_pollhandle *ph);

#endif
