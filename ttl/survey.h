/*
 * survey.h - looking at everything without being in anybody's way: figures, dry runs, distributions.
 *
 * The walks take the tree's lock in slices and let it go in between, so what they see is not the
 * state of one instant: a name that comes or goes meanwhile may be seen or not, every other one is
 * seen once. Nothing is changed.
 */
#ifndef TTLFS_TTL_SURVEY_H
#define TTLFS_TTL_SURVEY_H

#include "ttl/deadline.h"
#include "ttl/ttl.h"

struct survey {
    void *arg;
    /* A collection that has not been removed. Returns false to end the survey here. With the lock. */
    bool (*collection)(void *arg, struct collection *c);
    /* Each name in the collection that was told last, sub-collections' too. With the lock. May be NULL. */
    void (*name)(void *arg, struct dentry *d);
};

/* Looks at all collections, newest first, and their names. Expects no lock. */
void survey_all(struct ttl *ttl, const struct survey *survey);

/*
 * Tells of every name that is expired, each once, index by index, in each oldest first. Expects no lock.
 * @name  called with the lock; returns false to end the survey
 */
void survey_due(struct ttl *ttl, int64_t now_ms,
    bool (*name)(void *arg, struct dentry *d, const struct ttl_deadline *deadline), void *arg);

/* How it stands with one index. */
struct survey_index {
    uint64_t documents; /* names that are members */
    uint64_t entries;   /* of these, filed: they can become due */
    uint64_t
        backlog; /* entries that are due; those that turn out to be alive are left out of a small one */
    int64_t lag_ms;  /* now minus the oldest date that is due; 0 when nothing is */
    int64_t next_ms; /* the first date that an entry may be due at; DATE_NEVER_MS for none */
};

/* Expects the lock, for some 30 µs at most. */
void survey_index(
    struct ttl *ttl, const struct index *index, int64_t now_ms, struct survey_index *ret_figures);

/* The same of all indexes together. */
struct survey_totals {
    uint64_t backlog;
    int64_t lag_ms, next_ms;
};

/* Expects no lock. */
void survey_totals(struct ttl *ttl, int64_t now_ms, struct survey_totals *ret_totals);

/* The indexes that a collection owns, one after the other: NULL behind the last. Expects the lock. */
const struct index *survey_index_of(const struct collection *c, unsigned int i);

/*
 * Why an index will never expire anything, in words; NULL when nothing is wrong with it: it has members,
 * or nothing to have. Expects the lock, for a millisecond at worst.
 */
const char *survey_index_warning(struct ttl *ttl, const struct index *index);

#endif
