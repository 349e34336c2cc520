/*
 * find_queue.h - how many queries run at the same time.
 *
 * A query may look at every document of a large directory, and the threads that handle requests are few.
 * So only some of them run queries at any time. What comes beyond that waits in a queue, without a thread;
 * whoever has finished a query goes on with the next.
 */
#ifndef TTLFS_FS_FIND_QUEUE_H
#define TTLFS_FS_FIND_QUEUE_H

#include <fuse_lowlevel.h>
#include <stdbool.h>

/* Queries that run at the same time. libfuse has 10 threads unless told otherwise. */
#define FIND_RUNNING_MAX 4

/* A request that runs a query; what the handler got. */
struct find_job {
    struct find_job *next;                   /* in the queue */
    void (*run)(const struct find_job *job); /* replies */
    fuse_req_t req;
    fuse_ino_t ino;
    size_t size;
    off_t off;
    bool plus;
    struct fuse_file_info fi;
};

/* Runs a job now, or queues a copy of it. Replies when there is no memory. Expects no lock. */
void find_submit(const struct find_job *job);

#endif
