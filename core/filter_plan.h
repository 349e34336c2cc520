/*
 * filter_plan.h - what a filter has to do with an index: which of its keys can match at all, and
 * whether a partial index has everything that the filter can match.
 */
#ifndef TTLFS_CORE_FILTER_PLAN_H
#define TTLFS_CORE_FILTER_PLAN_H

#include "core/filter.h"
#include "core/value_key.h"

#include <stdbool.h>
#include <stddef.h>

/* A set of keys: disjoint ranges, in order. Zero it to initialise. */
struct key_set {
    struct key_range *ranges; /* owned */
    size_t n, cap;
};

void key_set_release(struct key_set *set);

/* What an index's keys are made of. */
struct key_source {
    const char *path;
    enum fields_as as;
    int64_t jitter_ms; /* dates have keys up to this much later */
    bool many_dated;   /* some dates are the earliest of several values */
    bool early;        /* a system date: keys are never later than it, or INT64_MAX */
};

/*
 * The keys of an index under which documents that match the filter can be. Documents that are
 * missing from the index altogether (or filed as INDEX_KEY_MISSING) do not match then.
 * @ret_keys  an empty set; what it holds afterwards is the caller's, whatever is returned
 * Returns 1, 0 when the filter asks nothing that this index could answer, or -ENOMEM.
 */
int filter_keys(
    const struct filter *filter, const struct key_source *source, struct key_set *ret_keys);

/*
 * Does every document that matches `filter` also match `partial`? A false answer may be wrong, a
 * true one is not.
 */
bool filter_implies(const struct filter *filter, const struct filter *partial);

/* Does a filter read anything but the named paths' tops: for telling content from system fields. */
bool filter_reads_other(const struct filter *filter, bool (*known)(const char *path));

#endif
