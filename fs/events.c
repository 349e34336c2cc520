#include "fs/events.h"

#include "core/dates.h"
#include "fs/fs.h"
#include "fs/path_text.h"
#include "ttl/deadline.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A read that waits. Who takes it out of the list answers it. */
struct events_wait {
    struct events_wait *next;
    struct events_reader *reader;
    fuse_req_t req;
    size_t size;
};

static size_t tell_lost(void *arg, uint64_t lost, char *buf, size_t size)
{
    struct events *events = arg;
    char date[DATE_TEXT_BYTES];
    date_format(fs_now_ms(events->fs), date);
    int len = snprintf(buf, size, "{\"ts\":{\"$date\":\"%s\"},\"event\":\"lost\",\"count\":%llu}\n",
        date, (unsigned long long) lost);
    return len > 0 && (size_t) len < size ? (size_t) len : 0;
}

/* One line. The tree's lock is held, so this is short, and nobody waits for a reader. */
static void tell(void *arg, enum ttl_event event, struct dentry *d, int64_t now_ms)
{
    struct events *events = arg;
    struct text *line = &events->line;
    text_clear(line);
    text_open(line, '{');
    text_member_date(line, "ts", now_ms);
    text_member_string(line, "event", ttl_event_name(event));
    path_text_place(line, d);
    text_member_int(line, "ino", (int64_t) d->doc->ino);
    if (event == TTL_EVENT_EXPIRED) {
        char reason[TTL_REASON_BYTES];
        struct ttl_deadline deadline = ttl_deadline(&events->fs->ttl, d);
        ttl_reason_text(&deadline, reason);
        text_member_string(line, "reason", reason);
        if (deadline.at_ms != DATE_NEVER_MS)
            text_member_date(line, "deadline", deadline.at_ms);
    }
    text_close(line, '}');
    text_put(line, "\n");
    /* A line that could not be made counts as one that was lost. */
    stream_append(&events->stream, line->bytes, line->failed ? STREAM_CHUNK_BYTES + 1 : line->len);
    if (!atomic_load(&events->waiting))
        return;
    pthread_mutex_lock(&events->lock);
    if (!events->news)
        pthread_cond_signal(&events->wanted);
    events->news = true;
    pthread_mutex_unlock(&events->lock);
}

void events_init(struct events *events, struct fs *fs)
{
    memset(events, 0, sizeof *events);
    events->fs = fs;
    stream_init(&events->stream, EVENTS_MAX_BYTES, tell_lost, events);
    pthread_mutex_init(&events->lock, NULL);
    pthread_cond_init(&events->wanted, NULL);
    fs->ttl.tell = tell;
    fs->ttl.tell_arg = events;
}

void events_release(struct events *events)
{
    while (events->readers)
        events_close(events, events->readers);
    stream_release(&events->stream);
    text_release(&events->line);
    pthread_cond_destroy(&events->wanted);
    pthread_mutex_destroy(&events->lock);
}

/*
 * Answers a read with what there is. Returns false when there is nothing (any more: somebody who shares
 * the descriptor may have been faster).
 */
static bool answer(struct events *events, struct events_reader *reader, fuse_req_t req, size_t size)
{
    char *buf = malloc(size);
    if (!buf) {
        fuse_reply_err(req, ENOMEM);
        return true;
    }
    size_t n = stream_read(&events->stream, &reader->stream, buf, size);
    if (n)
        fuse_reply_buf(req, buf, n);
    free(buf);
    return n != 0;
}

/* Answers a read that is not to wait any longer. */
static void finish(fuse_req_t req, bool was_interrupted)
{
    if (was_interrupted)
        fuse_reply_err(req, EINTR);
    else
        fuse_reply_buf(req, NULL, 0);
}

/* Takes the waits that can be answered out of the list, all of them when it ends. */
static struct events_wait *take_waits(struct events *events)
{
    struct events_wait *taken = NULL, **at = &events->waits;
    while (*at) {
        struct events_wait *wait = *at;
        if (!events->stop && !stream_is_ready(&events->stream, &wait->reader->stream)) {
            at = &wait->next;
            continue;
        }
        *at = wait->next;
        wait->next = taken;
        taken = wait;
    }
    return taken;
}

static struct fuse_pollhandle *take_poll(struct events *events)
{
    for (struct events_reader *r = events->readers; r; r = r->next) {
        struct fuse_pollhandle *ph = r->poll;
        if (ph && (events->stop || stream_is_ready(&events->stream, &r->stream))) {
            r->poll = NULL;
            return ph;
        }
    }
    return NULL;
}

static bool anybody_waits(const struct events *events)
{
    bool waiting = events->waits != NULL;
    for (const struct events_reader *r = events->readers; r; r = r->next)
        waiting |= r->poll != NULL;
    return waiting;
}

/* Answers and wakes everybody for whom there is something; the lock is let go in between. */
static void serve(struct events *events)
{
    /* First, so that what is appended from here on is told again. */
    atomic_store(&events->waiting, anybody_waits(events));
    struct events_wait *waits = take_waits(events);
    struct fuse_pollhandle *ph;
    while ((ph = take_poll(events)) != NULL) {
        pthread_mutex_unlock(&events->lock);
        (void) fuse_lowlevel_notify_poll(ph);
        fuse_pollhandle_destroy(ph);
        pthread_mutex_lock(&events->lock);
    }
    while (waits) {
        struct events_wait *wait = waits;
        waits = wait->next;
        pthread_mutex_unlock(&events->lock);
        bool done = answer(events, wait->reader, wait->req, wait->size);
        pthread_mutex_lock(&events->lock);
        if (done) {
            free(wait);
            continue;
        }
        /* What interrupted it meanwhile did not find it. */
        bool was_interrupted = fuse_req_interrupted(wait->req);
        if (!was_interrupted && !events->stop) {
            wait->next = events->waits;
            events->waits = wait;
            continue;
        }
        pthread_mutex_unlock(&events->lock);
        finish(wait->req, was_interrupted);
        free(wait);
        pthread_mutex_lock(&events->lock);
    }
    if (!anybody_waits(events))
        atomic_store(&events->waiting, false);
}

static void *run(void *arg)
{
    struct events *events = arg;
    pthread_mutex_lock(&events->lock);
    while (!events->stop) {
        while (!events->news && !events->stop)
            pthread_cond_wait(&events->wanted, &events->lock);
        events->news = false;
        serve(events);
    }
    pthread_mutex_unlock(&events->lock);
    return NULL;
}

int events_start(struct events *events)
{
    pthread_mutex_lock(&events->lock);
    int err = pthread_create(&events->thread, NULL, run, events);
    events->running = err == 0;
    pthread_mutex_unlock(&events->lock);
    return -err;
}

void events_stop(struct events *events)
{
    pthread_mutex_lock(&events->lock);
    bool running = events->running;
    events->running = false;
    events->stop = true;
    pthread_cond_signal(&events->wanted);
    pthread_mutex_unlock(&events->lock);
    if (running)
        pthread_join(events->thread, NULL);
    /* What came in while the thread was ending. */
    pthread_mutex_lock(&events->lock);
    serve(events);
    pthread_mutex_unlock(&events->lock);
}

struct events_reader *events_open(struct events *events)
{
    struct events_reader *reader = calloc(1, sizeof *reader);
    struct tree *tree = events->fs->tree;
    if (!reader)
        return NULL;
    pthread_mutex_lock(&events->lock);
    reader->next = events->readers;
    reader->place = &events->readers;
    if (reader->next)
        reader->next->place = &reader->next;
    events->readers = reader;
    pthread_mutex_unlock(&events->lock);
    tree_lock(tree);
    stream_reader_open(&events->stream, &reader->stream);
    atomic_store(&events->fs->ttl.heard, true);
    tree_unlock(tree);
    return reader;
}

void events_close(struct events *events, struct events_reader *reader)
{
    struct tree *tree = events->fs->tree;
    pthread_mutex_lock(&events->lock);
    struct fuse_pollhandle *ph = reader->poll;
    *reader->place = reader->next;
    if (reader->next)
        reader->next->place = reader->place;
    pthread_mutex_unlock(&events->lock);
    if (ph)
        fuse_pollhandle_destroy(ph);
    tree_lock(tree);
    stream_reader_close(&events->stream, &reader->stream);
    atomic_store(&events->fs->ttl.heard, events->stream.readers != NULL);
    tree_unlock(tree);
    free(reader);
}

/* The caller of a waiting read got a signal. Called by libfuse, perhaps after the answer. */
static void interrupted(fuse_req_t req, void *arg)
{
    struct events *events = arg;
    struct events_wait *found = NULL;
    pthread_mutex_lock(&events->lock);
    for (struct events_wait **at = &events->waits; *at && !found; at = &(*at)->next) {
        if ((*at)->req == req) {
            found = *at;
            *at = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&events->lock);
    if (found)
        fuse_reply_err(req, EINTR);
    free(found);
}

enum outcome { WAITS, READY, INTERRUPTED, ENDED };

/* Puts a read that finds nothing into the list. */
static enum outcome wait_for_news(struct events *events, struct events_wait *wait)
{
    enum outcome outcome;
    /* Before it is in the list: afterwards it may be answered, and gone. */
    fuse_req_interrupt_func(wait->req, interrupted, events);
    pthread_mutex_lock(&events->lock);
    /* Before we look: whoever appends behind this look finds the mark. */
    atomic_store(&events->waiting, true);
    if (stream_is_ready(&events->stream, &wait->reader->stream)) {
        outcome = READY;
    } else if (fuse_req_interrupted(wait->req)) {
        outcome = INTERRUPTED;
    } else if (events->stop) {
        outcome = ENDED;
    } else {
        outcome = WAITS;
        wait->next = events->waits;
        events->waits = wait;
    }
    pthread_mutex_unlock(&events->lock);
    return outcome;
}

void events_read(
    struct events *events, struct events_reader *reader, fuse_req_t req, size_t size, int flags)
{
    enum outcome outcome;
    if (answer(events, reader, req, size))
        return;
    if (flags & O_NONBLOCK) {
        fuse_reply_err(req, EAGAIN);
        return;
    }
    struct events_wait *wait = malloc(sizeof *wait);
    if (!wait) {
        fuse_reply_err(req, ENOMEM);
        return;
    }
    *wait = (struct events_wait){.reader = reader, .req = req, .size = size};
    while ((outcome = wait_for_news(events, wait)) == READY && !answer(events, reader, req, size))
        ;
    if (outcome == INTERRUPTED || outcome == ENDED)
        finish(req, outcome == INTERRUPTED);
    if (outcome != WAITS)
        free(wait);
}

void events_poll(
    struct events *events, struct events_reader *reader, fuse_req_t req, struct fuse_pollhandle *ph)
{
    struct fuse_pollhandle *old = NULL;
    pthread_mutex_lock(&events->lock);
    if (ph) {
        old = reader->poll;
        reader->poll = ph;
        atomic_store(&events->waiting, true);
    }
    bool stopped = events->stop;
    bool ready = stream_is_ready(&events->stream, &reader->stream);
    pthread_mutex_unlock(&events->lock);
    if (old)
        fuse_pollhandle_destroy(old);
    fuse_reply_poll(req, ready || stopped ? POLLIN | POLLRDNORM : 0);
}
