#include "fs/waiters.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct waiter {
    struct waiter *next;
    fuse_req_t req;
    size_t written;
};

void waiters_init(struct waiters *waiters)
{
    *waiters = (struct waiters){.waiting = NULL};
    pthread_mutex_init(&waiters->lock, NULL);
}

/* Takes a request's waiter out of a list; NULL when it is not in it. */
static struct waiter *cut(struct waiter **at, fuse_req_t req)
{
    for (; *at; at = &(*at)->next) {
        struct waiter *found = *at;
        if (found->req == req) {
            *at = found->next;
            return found;
        }
    }
    return NULL;
}

/*
 * Found by its request and not by its own address: it may have been answered a moment ago. The request
 * itself lives as long as this call.
 */
static void on_interrupt(fuse_req_t req, void *arg)
{
    struct waiters *waiters = arg;
    pthread_mutex_lock(&waiters->lock);
    struct waiter *waiter = cut(&waiters->waiting, req);
    if (!waiter)
        waiter = cut(&waiters->served, req);
    pthread_mutex_unlock(&waiters->lock);
    if (waiter)
        fuse_reply_err(req, EINTR);
    free(waiter);
}

bool waiters_add(struct waiters *waiters, fuse_req_t req, size_t size)
{
    struct waiter *waiter = malloc(sizeof *waiter);
    if (!waiter) {
        fuse_reply_err(req, ENOMEM);
        return false;
    }
    *waiter = (struct waiter){.req = req, .written = size};
    /* Before it can be answered, and so gone. */
    fuse_req_interrupt_func(req, on_interrupt, waiters);
    pthread_mutex_lock(&waiters->lock);
    int err = waiters->closed ? ESHUTDOWN : fuse_req_interrupted(req) ? EINTR : 0;
    if (!err) {
        waiter->next = waiters->waiting;
        waiters->waiting = waiter;
    }
    pthread_mutex_unlock(&waiters->lock);
    if (err) {
        fuse_reply_err(req, err);
        free(waiter);
    }
    return !err;
}

bool waiters_begin(struct waiters *waiters)
{
    pthread_mutex_lock(&waiters->lock);
    waiters->served = waiters->waiting;
    waiters->waiting = NULL;
    bool any = waiters->served != NULL;
    pthread_mutex_unlock(&waiters->lock);
    return any;
}

/* Answers a whole list. No other thread knows it any more. */
static void answer(struct waiter *list)
{
    while (list) {
        struct waiter *next = list->next;
        fuse_reply_write(list->req, list->written);
        free(list);
        list = next;
    }
}

void waiters_end(struct waiters *waiters)
{
    pthread_mutex_lock(&waiters->lock);
    struct waiter *list = waiters->served;
    waiters->served = NULL;
    pthread_mutex_unlock(&waiters->lock);
    answer(list);
}

void waiters_close(struct waiters *waiters)
{
    pthread_mutex_lock(&waiters->lock);
    waiters->closed = true;
    struct waiter *served = waiters->served, *waiting = waiters->waiting;
    waiters->served = waiters->waiting = NULL;
    pthread_mutex_unlock(&waiters->lock);
    answer(served);
    answer(waiting);
}

void waiters_on_interrupt(fuse_req_t req, void (*wake)(fuse_req_t req, void *arg), void *arg)
{
    fuse_req_interrupt_func(req, wake, arg);
}

/* Is SIGKILL pending in one of the lines of /proc/PID/status? Every deadly signal becomes that one. */
static bool kill_pending(const char *status, const char *field)
{
    const char *at = strstr(status, field);
    if (!at)
        return false;
    unsigned long long set = strtoull(at + strlen(field), NULL, 16);
    return set >> (SIGKILL - 1) & 1;
}

bool waiters_caller_dies(fuse_req_t req)
{
    char path[40], status[4096];
    if (!fuse_req_interrupted(req))
        return false;
    (void) snprintf(path, sizeof path, "/proc/%d/status", (int) fuse_req_ctx(req)->pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    ssize_t n = read(fd, status, sizeof status - 1);
    close(fd);
    status[n > 0 ? n : 0] = '\0';
    return kill_pending(status, "\nSigPnd:") || kill_pending(status, "\nShdPnd:");
}
