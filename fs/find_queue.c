#include "fs/find_queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Innermost: nothing else is locked under it. */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static struct find_job *first, **last = &first;
static unsigned int running;

static int enqueue(const struct find_job *job)
{
    struct find_job *copy = malloc(sizeof *copy);
    if (!copy)
        return -ENOMEM;
    *copy = *job;
    copy->next = NULL;
    *last = copy;
    last = &copy->next;
    return 0;
}

/* The next job; NULL when there is none, and one less runs then. */
static struct find_job *dequeue(void)
{
    pthread_mutex_lock(&queue_lock);
    struct find_job *job = first;
    if (job)
        first = job->next;
    else
        running--;
    if (!first)
        last = &first;
    pthread_mutex_unlock(&queue_lock);
    return job;
}

void find_submit(const struct find_job *job)
{
    int err = 0;
    pthread_mutex_lock(&queue_lock);
    bool runs = running < FIND_RUNNING_MAX;
    if (runs)
        running++;
    else
        err = enqueue(job);
    pthread_mutex_unlock(&queue_lock);
    if (err)
        fuse_reply_err(job->req, -err);
    if (!runs)
        return;
    job->run(job);
    struct find_job *next;
    while ((next = dequeue())) {
        next->run(next);
        free(next);
    }
}
