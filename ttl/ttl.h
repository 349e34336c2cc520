/*
 * ttl.h - the engine of expiry: what is common to rules, deadlines, filing and the monitor.
 *
 * Which rules hold where is in ttl/rules.h, when a document is expired in ttl/deadline.h, how
 * documents get into indexes in ttl/filing.h, and who deletes them in ttl/monitor.h.
 *
 * Unless a function says otherwise it expects the tree's lock.
 */
#ifndef TTLFS_TTL_TTL_H
#define TTLFS_TTL_TTL_H

#include "core/btree.h"
#include "core/tree.h"
#include "ttl/params.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct timeseries;
enum ttl_event;

/* What `.ttlfs/status.json` shows as metrics.ttl. */
struct ttl_metrics {
    uint64_t passes;
    uint64_t sub_passes;
    uint64_t deleted_documents;
    uint64_t deleted_keys;        /* index entries that went with them */
    uint64_t invalid_index_skips; /* visits of an index that could not be used */
    uint64_t archived_documents;
    uint64_t errors;          /* documents that could not be deleted */
    uint64_t hidden_accesses; /* calls that met an expired, undeleted document */
    uint64_t pruned_collections;
    uint64_t evicted_documents; /* that made room in capped collections */
};

struct ttl {
    struct tree *tree;
    struct ttl_params params;
    struct ttl_metrics metrics;
    uint64_t visits;             /* of indexes, ever */
    uint64_t generation;         /* of all rules: rulesets of an older one are made again */
    struct btree schedule;       /* (when its first entry may be due, index) of every TTL index */
    int64_t monitor_wakes_ms;    /* when the monitor will look by itself; earlier dates wake it */
    bool read_only;              /* nothing is deleted */
    bool pass_running;           /* the monitor may hold on to an index without the lock */
    struct look *looks;          /* contents being parsed without the lock: see filing.c */
    struct index *graveyard;     /* dropped indexes, until ttl_reap */
    unsigned int surveys;        /* running; they, too, hold on to indexes without the lock */
    struct progress *progress;   /* long work: see ttl/progress.h */
    unsigned int nfailing;       /* indexes that are scheduled for a retry */
    struct collection **emptied; /* pinned; to be pruned when the slice is over: see prune.c */
    size_t nemptied, cap_emptied;
    uint64_t ntimeseries;       /* time-series collections */
    struct timeseries *pending; /* those that have names to be filed anew */
    bool names_forward;         /* see timeseries_came_forward */
    uint64_t unseen; /* documents with DOCUMENT_UNSEEN: a rule that saves them has to look */
    int failed;      /* -errno of what an observer could not do; read by ttl_load */
    /* Called when the schedule's first date comes before monitor_wakes_ms. May be NULL. */
    void (*wake)(void *arg);
    void *wake_arg;
    /* Called for what happens to documents while `heard` is set: see ttl/events.h. */
    void (*tell)(void *arg, enum ttl_event event, struct dentry *d, int64_t now_ms);
    void *tell_arg;
    atomic_bool heard;
};

/* Zeroes the engine and sets every parameter to its default. Needs no lock. */
void ttl_init(struct ttl *ttl);
/* After the tree was freed. */
void ttl_release(struct ttl *ttl);

/* Makes a tree_observer that tells this engine. */
struct tree_observer ttl_observer(struct ttl *ttl);

/*
 * Reads parameters and rules of a freshly loaded tree and looks at the fields of every document
 * that an index asks for. Expects no lock.
 * @load  loads the tree (tree_load); called in between; may be NULL
 * Errors: -ENOMEM, -EIO, and what @load reports.
 */
int ttl_load(struct ttl *ttl, struct reason *why);

/* Files an index under the date of its first entry, and wakes the monitor when that is news. */
void ttl_schedule(struct ttl *ttl, struct index *index);

/*
 * The same for an index whose entries up to `tried` are due but could not be deleted: they are
 * tried again at retry_ms, unless something else is due before.
 */
void ttl_schedule_retry(
    struct ttl *ttl, struct index *index, struct btree_entry tried, int64_t retry_ms);

/* Schedules every index that waits for a retry as if nothing had been tried. */
void ttl_schedule_failing(struct ttl *ttl);

/* The same when it is known that an entry with this key was added. */
void ttl_schedule_key(struct ttl *ttl, struct index *index, int64_t key);

/* Takes an index out of the schedule. */
void ttl_unschedule(struct ttl *ttl, struct index *index);

/* Takes over an index that is no longer in force anywhere, to be freed when nobody refers to it. */
void ttl_bury(struct ttl *ttl, struct index *index);

/* Frees the buried indexes that have no members, unless a pass or a survey is running. */
void ttl_reap(struct ttl *ttl);

#endif
