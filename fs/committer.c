#include "fs/committer.h"

#include "fs/log.h"
#include "fs/waiters.h"

#include <errno.h>
#include <string.h>
#include <time.h>

static struct timespec in_ms(int64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += ms / 1000;
    t.tv_nsec += (long) (ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    return t;
}

/* After a failure the interval is at least this: a full disk does not get better by the
 * millisecond. */
#define RETRY_MS 1000

static void *run(void *arg)
{
    struct committer *c = arg;
    bool stop = false;
    pthread_mutex_lock(&c->lock);
    while (!stop) {
        int64_t wait_ms = c->interval_ms ? c->interval_ms : RETRY_MS;
        struct timespec until = in_ms(wait_ms);
        int timed_out = 0;
        while (!c->stop && c->asked <= c->durable && timed_out == 0)
            timed_out = pthread_cond_timedwait(&c->wanted, &c->lock, &until);
        stop = c->stop;
        int before = c->error;
        /* What is asked for from now on may be noted after the look at the journal. */
        uint64_t asked = c->asked;
        pthread_mutex_unlock(&c->lock);

        struct reason why = {0};
        uint64_t epoch;
        int err = journal_commit(c->tree, &epoch, &why);
        if (err && err != before)
            log_line(LOG_ERR, "changes cannot be made durable: %s", why.text);
        else if (!err && before)
            log_line(LOG_INFO, "changes are made durable again");

        pthread_mutex_lock(&c->lock);
        c->error = err;
        if (err && epoch > c->failed) {
            c->failed = epoch;
            c->failure = err;
        }
        if (!err && epoch > c->durable)
            c->durable = epoch;
        else if (!err && epoch == 0 && asked > c->durable)
            c->durable = asked; /* nothing had been noted */
        pthread_cond_broadcast(&c->done);
        if (err && !stop) {
            until = in_ms(RETRY_MS);
            while (!c->stop && pthread_cond_timedwait(&c->wanted, &c->lock, &until) == 0)
                ;
        }
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int committer_start(struct committer *c, struct tree *tree, int64_t interval_ms)
{
    pthread_condattr_t attr;
    memset(c, 0, sizeof *c);
    c->tree = tree;
    c->interval_ms = interval_ms;
    pthread_mutex_init(&c->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->wanted, &attr);
    pthread_cond_init(&c->done, &attr);
    pthread_condattr_destroy(&attr);
    if (!tree->store || !tree->journal.enabled)
        return 0;
    int err = pthread_create(&c->thread, NULL, run, c);
    c->running = err == 0;
    return -err;
}

int committer_stop(struct committer *c)
{
    if (!c->running)
        return 0;
    pthread_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_signal(&c->wanted);
    pthread_mutex_unlock(&c->lock);
    pthread_join(c->thread, NULL);
    c->running = false;

    /* The thread's last commit may have finished a batch that an earlier failure had left behind.
     */
    struct reason why = {0};
    uint64_t epoch;
    int err = journal_commit(c->tree, &epoch, &why);
    if (err)
        log_line(LOG_ERR, "changes are lost, they cannot be made durable: %s", why.text);
    return err;
}

static void on_interrupt(fuse_req_t req, void *arg)
{
    struct committer *c = arg;
    (void) req;
    pthread_mutex_lock(&c->lock);
    pthread_cond_broadcast(&c->done);
    pthread_mutex_unlock(&c->lock);
}

/* @req  whose caller's death ends the wait; NULL: none */
static int wait_durable(struct committer *c, fuse_req_t req)
{
    if (!c->running)
        return 0;
    tree_lock(c->tree);
    const struct journal *journal = &c->tree->journal;
    bool pending = journal_pending(journal);
    /* Nothing in the collecting batch: then the one on its way is what to wait for. */
    bool collecting = journal->lists[journal->current].n ||
                      !store_batch_empty(&journal->batches[journal->current]);
    uint64_t epoch = journal->epoch - !collecting;
    tree_unlock(c->tree);
    if (!pending)
        return 0;

    pthread_mutex_lock(&c->lock);
    if (c->asked < epoch)
        c->asked = epoch;
    pthread_cond_signal(&c->wanted);
    bool dies = false;
    while (c->durable < epoch && c->failed < epoch && !dies) {
        pthread_cond_wait(&c->done, &c->lock);
        dies = req && waiters_caller_dies(req);
    }
    int err = c->failed >= epoch ? c->failure : c->durable >= epoch ? 0 : -EINTR;
    pthread_mutex_unlock(&c->lock);
    return err;
}

int committer_wait(struct committer *c)
{
    return wait_durable(c, NULL);
}

int committer_wait_for(struct committer *c, fuse_req_t req)
{
    if (!c->running)
        return 0;
    waiters_on_interrupt(req, on_interrupt, c);
    int err = wait_durable(c, req);
    waiters_on_interrupt(req, NULL, NULL);
    return err;
}
