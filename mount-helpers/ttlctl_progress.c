/*
 * How far long work has come, drawn on a terminal by a thread of its own while the program waits in
 * a system call.
 */
#include "mount-helpers/ttlctl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Nothing is drawn before this: most work is done by then. */
#define PROGRESS_FIRST_MS 300
#define PROGRESS_EVERY_MS 100
#define PROGRESS_COLUMNS 80
#define PROGRESS_TEXT_COLUMNS 44

struct ctl_progress {
    const char *root;
    enum ctl_work work;
    int64_t most_due; /* the largest backlog that was seen */
    struct timespec began;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool end; /* under the lock */
    bool drawn;
};

/* A control file without any message: the work goes on, whatever can be shown of it. */
static bool look(const struct ctl_progress *progress, const char *name, bson_t *ret_doc)
{
    char *path = ctl_join(progress->root, name), *text;
    size_t len;
    bool good = ctl_read_file(path, &text, &len) == 0;
    free(path);
    if (!good)
        return false;
    good = ctl_parse_json(text, len, ret_doc);
    free(text);
    if (!good)
        bson_destroy(ret_doc);
    return good;
}

/* The operation that has most before it. */
static bool measure_filing(
    const struct ctl_progress *progress, int64_t *ret_done, int64_t *ret_total)
{
    bson_t doc, list, one;
    bson_iter_t iter;
    *ret_total = 0;
    if (!look(progress, ".ttlfs/currentOp.json", &doc))
        return false;
    if (ctl_part(&doc, "inprog", &list) && bson_iter_init(&iter, &list)) {
        while (bson_iter_next(&iter)) {
            int64_t total = ctl_part_at(&iter, &one) ? ctl_int(&one, "total", 0) : 0;
            if (total > *ret_total) {
                *ret_total = total;
                *ret_done = ctl_int(&one, "done", 0);
            }
        }
    }
    bson_destroy(&doc);
    return *ret_total > 0;
}

static bool measure_purging(struct ctl_progress *progress, int64_t *ret_done, int64_t *ret_total)
{
    bson_t doc;
    if (!look(progress, ".ttlfs/status.json", &doc))
        return false;
    int64_t due = ctl_int(&doc, "backlog", 0);
    bson_destroy(&doc);
    if (due > progress->most_due)
        progress->most_due = due;
    *ret_total = progress->most_due;
    *ret_done = progress->most_due - due;
    return progress->most_due > 0;
}

/* 50%  [##########----------]  deleting 1200 of 2400 */
static void draw(struct ctl_progress *progress)
{
    static const char full[] = "################################################################"
                               "################################################################";
    static const char empty[] = "----------------------------------------------------------------"
                                "----------------------------------------------------------------";
    const char *verb = progress->work == CTL_FILING ? "filing" : "deleting";
    int64_t done = 0, total = 0;
    bool known = progress->work == CTL_FILING ? measure_filing(progress, &done, &total)
                                              : measure_purging(progress, &done, &total);
    progress->drawn = true;
    if (!known) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        fprintf(stderr, "\r%s, for %lld s\033[K", verb,
            (long long) (now.tv_sec - progress->began.tv_sec));
        return;
    }
    if (done > total)
        done = total;
    size_t columns = ctl_columns(stderr, PROGRESS_COLUMNS);
    int width = columns > PROGRESS_TEXT_COLUMNS + 10 ? (int) columns - PROGRESS_TEXT_COLUMNS : 10;
    if (width > (int) sizeof full - 1)
        width = (int) sizeof full - 1;
    int filled = (int) (width * done / total);
    fprintf(stderr, "\r%3d%%  [%.*s%.*s]  %s %lld of %lld\033[K", (int) (100 * done / total),
        filled, full, width - filled, empty, verb, (long long) done, (long long) total);
}

/* Waits under the lock; true when the work has ended. */
static bool wait_ms(struct ctl_progress *progress, int64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    int err = 0;
    while (!progress->end && err == 0)
        err = pthread_cond_timedwait(&progress->ended, &progress->lock, &until);
    return progress->end;
}

static void *show(void *data)
{
    struct ctl_progress *progress = data;
    pthread_mutex_lock(&progress->lock);
    for (int64_t ms = PROGRESS_FIRST_MS; !wait_ms(progress, ms); ms = PROGRESS_EVERY_MS) {
        pthread_mutex_unlock(&progress->lock);
        draw(progress);
        pthread_mutex_lock(&progress->lock);
    }
    pthread_mutex_unlock(&progress->lock);
    return NULL;
}

struct ctl_progress *ctl_progress_begin(const struct ctl *ctl, const char *root, enum ctl_work work)
{
    pthread_condattr_t monotonic;
    if (!root || ctl->quiet || !isatty(STDERR_FILENO))
        return NULL;
    struct ctl_progress *progress = calloc(1, sizeof *progress);
    if (!progress)
        abort();
    progress->root = root;
    progress->work = work;
    clock_gettime(CLOCK_MONOTONIC, &progress->began);
    pthread_mutex_init(&progress->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&progress->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&progress->thread, NULL, show, progress) == 0)
        return progress;
    pthread_cond_destroy(&progress->ended);
    pthread_mutex_destroy(&progress->lock);
    free(progress);
    return NULL;
}

void ctl_progress_end(struct ctl_progress *progress)
{
    if (!progress)
        return;
    pthread_mutex_lock(&progress->lock);
    progress->end = true;
    pthread_cond_signal(&progress->ended);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    if (progress->drawn)
        fputs("\r\033[K", stderr);
    pthread_cond_destroy(&progress->ended);
    pthread_mutex_destroy(&progress->lock);
    free(progress);
}
