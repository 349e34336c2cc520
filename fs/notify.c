#include "fs/notify.h"

#include "fs/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Notifications that only save memory or freshness are dropped beyond this many. */
#define QUEUE_MAX_JOBS 100000

/* Documents that the kernel is asked to let go of in one message. */
#define PRUNE_DOCS 512

enum notify_kind { EXPIRE_NAME, DROP_NAME, DELETED, ATTRIBUTES };

struct notify_job {
    struct notify_job *next;
    enum notify_kind kind;
    fuse_ino_t ino;   /* of the parent, for names */
    fuse_ino_t child; /* DELETED */
    uint8_t len;
    char name[];
};

static void send(struct notifier *notifier, struct notify_job *job)
{
    struct fuse_session *session = notifier->session;
    /* Whatever the kernel answers: it may not have the name any more. */
    switch (job->kind) {
    case EXPIRE_NAME:
        if (fuse_lowlevel_notify_expire_entry(
                session, job->ino, job->name, job->len, FUSE_LL_EXPIRE_ONLY) == -ENOSYS)
            (void) fuse_lowlevel_notify_inval_entry(session, job->ino, job->name, job->len);
        break;
    case DROP_NAME:
        (void) fuse_lowlevel_notify_inval_entry(session, job->ino, job->name, job->len);
        break;
    case DELETED:
        /* Raises IN_DELETE_SELF, which dropping the name would not. */
        (void) fuse_lowlevel_notify_delete(session, job->ino, job->child, job->name, job->len);
        break;
    case ATTRIBUTES:
        (void) fuse_lowlevel_notify_inval_inode(session, job->ino, -1, 0);
        break;
    }
}

/* One message of those that are gone. Expects the lock; lets go. */
static void send_gone(struct notifier *n)
{
    uint64_t some[PRUNE_DOCS];
    size_t count = n->ngone < PRUNE_DOCS ? n->ngone : PRUNE_DOCS;
    n->ngone -= count;
    memcpy(some, n->gone + n->ngone, count * sizeof some[0]);
    if (n->ngone == 0) {
        free(n->gone);
        n->gone = NULL;
        n->cap_gone = 0;
    }
    bool stop = n->stop;
    pthread_mutex_unlock(&n->lock);
    if (!stop)
        (void) session_prune(n->session, some, (uint32_t) count);
    pthread_mutex_lock(&n->lock);
}

static void *run(void *arg)
{
    struct notifier *n = arg;
    pthread_mutex_lock(&n->lock);
    for (;;) {
        while (!n->first && !n->ngone && !n->stop)
            pthread_cond_wait(&n->wanted, &n->lock);
        if (!n->first && n->ngone) {
            send_gone(n);
            continue;
        }
        struct notify_job *job = n->first;
        if (!job)
            break;
        n->first = job->next;
        if (!n->first)
            n->last = &n->first;
        n->queued--;
        bool stop = n->stop;
        pthread_mutex_unlock(&n->lock);
        if (!stop)
            send(n, job);
        free(job);
        pthread_mutex_lock(&n->lock);
    }
    pthread_mutex_unlock(&n->lock);
    return NULL;
}

int notifier_start(struct notifier *n, struct fuse_session *session)
{
    memset(n, 0, sizeof *n);
    n->session = session;
    n->last = &n->first;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->wanted, NULL);
    pthread_mutex_lock(&n->lock);
    int err = pthread_create(&n->thread, NULL, run, n);
    n->running = err == 0;
    pthread_mutex_unlock(&n->lock);
    return -err;
}

void notifier_stop(struct notifier *n)
{
    pthread_mutex_lock(&n->lock);
    bool running = n->running;
    n->running = false;
    n->stop = true;
    pthread_cond_signal(&n->wanted);
    pthread_mutex_unlock(&n->lock);
    if (running)
        pthread_join(n->thread, NULL);
}

/* Returns false when the job was not queued. */
static bool queue(struct notifier *n, const struct notify_job *from, const char *name)
{
    struct notify_job *job = malloc(sizeof *job + from->len + 1U);
    if (!job)
        return false;
    *job = *from;
    job->next = NULL;
    if (from->len)
        memcpy(job->name, name, from->len);
    job->name[from->len] = '\0';
    pthread_mutex_lock(&n->lock);
    bool fits = n->running && (job->kind == EXPIRE_NAME || n->queued < QUEUE_MAX_JOBS);
    if (fits) {
        *n->last = job;
        n->last = &job->next;
        n->queued++;
        pthread_cond_signal(&n->wanted);
    }
    pthread_mutex_unlock(&n->lock);
    if (!fits)
        free(job);
    return fits;
}

void notifier_expire_name(struct notifier *n, fuse_ino_t parent, const char *name, size_t len)
{
    struct notify_job job = {.kind = EXPIRE_NAME, .ino = parent, .len = (uint8_t) len};
    if (!queue(n, &job, name))
        notifier_forget_names(n);
}

bool notifier_let_go(struct notifier *n, fuse_ino_t document)
{
    if (!n->has_prune)
        return false;
    pthread_mutex_lock(&n->lock);
    if (n->ngone == n->cap_gone && n->running) {
        size_t cap = n->cap_gone ? n->cap_gone * 2 : PRUNE_DOCS;
        uint64_t *more = realloc(n->gone, cap * sizeof *more);
        if (more) {
            n->gone = more;
            n->cap_gone = cap;
        }
    }
    if (n->ngone < n->cap_gone && n->running) {
        n->gone[n->ngone++] = document;
        pthread_cond_signal(&n->wanted);
    }
    pthread_mutex_unlock(&n->lock);
    return true;
}

void notifier_drop_name(struct notifier *n, fuse_ino_t parent, const char *name, size_t len)
{
    struct notify_job job = {.kind = DROP_NAME, .ino = parent, .len = (uint8_t) len};
    (void) queue(n, &job, name);
}

void notifier_deleted(
    struct notifier *n, fuse_ino_t parent, fuse_ino_t child, const char *name, size_t len)
{
    struct notify_job job = {.kind = DELETED, .ino = parent, .child = child, .len = (uint8_t) len};
    (void) queue(n, &job, name);
}

void notifier_attributes(struct notifier *n, fuse_ino_t ino)
{
    struct notify_job job = {.kind = ATTRIBUTES, .ino = ino};
    (void) queue(n, &job, "");
}

void notifier_forget_names(struct notifier *n)
{
    if (n->has_epochs)
        (void) session_forget_names(n->session);
}
