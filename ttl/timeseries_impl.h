/*
 * timeseries_impl.h - what ttl/timeseries*.c share.
 */
#ifndef TTLFS_TTL_TIMESERIES_IMPL_H
#define TTLFS_TTL_TIMESERIES_IMPL_H

#include "ttl/timeseries.h"

/* All buckets of one meta value. */
struct ts_meta {
    uint64_t hash;
    struct btree by_start; /* open buckets: ~start, so that the latest comes first */
    struct btree by_id;    /* the same */
    uint64_t nbuckets;     /* closed ones included */
};

struct ts_bucket {
    struct timeseries *ts;
    struct ts_meta *meta;
    int64_t id;           /* where its window opened at first: what is noted on documents */
    int64_t start_ms;     /* where its window opens now */
    int64_t newest_ms;    /* the date of its newest member */
    struct btree members; /* (~date, dentry): the newest first */
    bool closed;          /* being deleted: takes no more */
    struct ts_bucket *next_stale, **at_stale; /* at_stale is NULL when it is not stale */
    struct btree_entry refiled;               /* how far it has been filed anew */
};

/* What the slot of ts->members points to. */
struct ts_member {
    struct ts_bucket *bucket;
    int64_t time_ms;
};

/* MongoDB's figures for a granularity: how long a window is, and to what its begin is rounded. */
int64_t timeseries_span_ms(const struct timeseries *ts);
int64_t timeseries_round_ms(const struct timeseries *ts);

/* Equal meta values have equal hashes. The same in every version: it is kept on disk. */
uint64_t timeseries_meta_hash(const bson_t *fields, const char *meta_field);

/* A name has gone, or its collection is none of time series any more. */
void timeseries_member_left(struct index *index, struct dentry *d, int64_t key);

/* A bucket's date went back, or expiry goes on. */
void timeseries_went_back(struct ts_bucket *bucket);
void timeseries_goes_on(struct timeseries *ts);

/* A bucket is not stale any more, or about to be freed. */
void timeseries_not_stale(struct ts_bucket *bucket);

/* Takes it out of the list of those with something stale. */
void timeseries_not_pending(struct timeseries *ts);

#endif
