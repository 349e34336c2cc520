/*
 * monitor.h - who deletes what is due: passes, sub-passes, visits.
 *
 * A pass visits every TTL index that has something due, in turn; a visit deletes, oldest first,
 * until a budget is used up or nothing is left. When all were visited the sub-pass ends, and those
 * that stopped at a budget are visited again in the next one. The pass ends when nothing due is
 * left that it has not tried. (MongoDB's TTL monitor since 6.0 works in these terms.)
 *
 * Every document is judged once more at the moment it is deleted. The tree's lock is taken in
 * slices.
 */
#ifndef TTLFS_TTL_MONITOR_H
#define TTLFS_TTL_MONITOR_H

#include "core/archive_record.h"
#include "core/reason.h"
#include "ttl/ttl.h"

#include <stdbool.h>
#include <stdint.h>

/* Documents handled per hold of the lock: about half a millisecond. */
#define MONITOR_SLICE_DOCS 256

/* A name that cannot simply be deleted under the lock. */
struct monitor_name {
    struct document *parent, *doc; /* pinned */
    bool archive;                  /* is to be archived first */
    bool watched;     /* is to be removed through the kernel, because somebody would notice */
    bool directory;   /* a collection to be pruned */
    bool archived;    /* out: the archive has it, durably */
    bool interrupted; /* out: not archived because the pass ends; nothing is wrong */
    bool removed;     /* out: the kernel has removed it */
    int error;        /* out: why it has not, an errno; 0 when it was not asked */
    struct archive_state copied; /* out: what was archived */
    char name[DOCUMENT_NAME_MAX_BYTES + 1];
};

/* What ended a visit. */
enum monitor_limit {
    MONITOR_LIMIT_NONE,
    MONITOR_LIMIT_DOCUMENTS,
    MONITOR_LIMIT_TIME,
    MONITOR_STOPPED
};

struct monitor_pass;

/* A visit that has ended. */
struct monitor_visit {
    const struct index *index; /* valid during the call */
    const struct monitor_pass *pass;
    uint64_t deleted, examined, errors;
    int64_t ended_ms; /* the filesystem's time */
    int64_t took_ms;
    int64_t lag_ms; /* how late its oldest entry was when it began */
    enum monitor_limit limit;
};

/* What a pass asks of its surroundings. All but `clock` and `monotonic` may be NULL. */
struct monitor_hooks {
    void *arg;
    int64_t (*clock_ms)(void *arg);     /* the filesystem's time */
    int64_t (*monotonic_ms)(void *arg); /* for budgets */
    /* Would somebody notice? Asked with the lock held. */
    bool (*watched)(void *arg, struct dentry *d);
    /* Removes those names that are `watched`, so that watchers are told. Called without the lock. */
    void (*remove)(void *arg, struct monitor_name *names, size_t n);
    /* Archives those names that are to be archived, durably. Called without the lock. */
    void (*archive)(void *arg, struct monitor_name *names, size_t n);
    /* A name is about to be deleted directly. Called with the lock held. */
    void (*deleting)(void *arg, struct dentry *d);
    /* A slice is over: a good moment for what needs no lock. */
    void (*slice_done)(void *arg);
    /* A visit has ended. Called with the lock held. */
    void (*visited)(void *arg, const struct monitor_visit *visit);
    /* Asked between slices: true ends the pass early. */
    bool (*stop)(void *arg);
    /* What failed is tried again now, not only when its time has come: somebody asked. */
    bool retry;
};

/* What one pass did. */
struct monitor_pass {
    uint64_t number;
    uint64_t sub_passes;
    uint64_t visits;
    uint64_t deleted_documents;
    uint64_t deleted_keys;
    uint64_t errors;
    int64_t started_ms, ended_ms; /* the filesystem's time */
    int64_t took_ms;
    bool running;
    const struct index *visiting; /* now; NULL between visits */
    uint64_t visit_deleted;       /* deleted_documents when that visit began */
    int64_t visit_started_ms;
    bool stopped; /* before everything due was tried */
};

/*
 * Runs one pass. One at a time. Expects no lock.
 * @pass  written as the pass goes on, under the tree's lock
 */
void monitor_pass(struct ttl *ttl, const struct monitor_hooks *hooks, struct monitor_pass *pass);

/*
 * Deletes an expired name and counts it. Expects the lock.
 * @pass  NULL outside of a pass
 * Errors: -ENOMEM.
 */
int monitor_expire(
    struct ttl *ttl, struct dentry *d, struct timespec now, struct monitor_pass *pass);

/*
 * May this name be deleted: is it what a pass has taken down in `name`, still expired, and in the
 * archive if it has to be? Expects the lock.
 */
bool monitor_may_delete(
    struct ttl *ttl, struct dentry *d, const struct monitor_name *name, int64_t now_ms);

/* monitor_expire of a name that monitor_may_delete. Expects the lock. Errors: -ENOMEM. */
int monitor_delete_name(struct ttl *ttl, struct dentry *d, const struct monitor_name *name,
    struct timespec now, struct monitor_pass *pass);

/*
 * When the next pass is to start by itself, given that one has just ended: after the sleeping time,
 * or at the next deadline if that is to wake the monitor. Expects the lock.
 */
int64_t monitor_next_ms(struct ttl *ttl, int64_t now_ms);

#endif
