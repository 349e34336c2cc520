/*
 * timeseries.h - time-series collections: documents in buckets, which expire as a whole.
 *
 * Each document of such a collection has a date in the time field. Documents with the same value in
 * the meta field whose dates lie in one window are a bucket. A bucket's date is that of its newest
 * document; its documents are due together, expireAfterSeconds behind that date. A window opens at
 * the date of its first document, rounded down; its length depends on the granularity (MongoDB's
 * rules). A document in front of all windows widens the next one as far as its length allows.
 *
 * Which bucket a name is in is noted on the document (an attribute of our own), so that a remount
 * finds the same buckets.
 *
 * A date before 1970 or after 2038-01-19T03:14:07Z stops the expiry of buckets in its collection
 * for as long as it is there (MongoDB's extended range).
 *
 * Everything here expects the tree's lock.
 */
#ifndef TTLFS_TTL_TIMESERIES_H
#define TTLFS_TTL_TIMESERIES_H

#include "core/btree.h"
#include "core/index.h"
#include "core/reason.h"
#include "ttl/ttl.h"

#include <bson/bson.h>
#include <stdbool.h>
#include <stdint.h>

struct ruleset;
struct ts_bucket;

enum ts_granularity { TS_SECONDS, TS_MINUTES, TS_HOURS };

/* What user.ttl.timeseries says. */
struct ts_spec {
    char *time_field; /* owned */
    char *meta_field; /* owned; NULL for none */
    enum ts_granularity granularity;
    int64_t expire_after_s; /* -1: nothing expires */
};

struct timeseries {
    struct ttl *ttl;
    struct ts_spec spec;
    struct index *members; /* INDEX_BUCKETS: who is in a bucket */
    struct index *rule;    /* INDEX_TIMESERIES: see timeseries_key */
    struct btree metas;    /* hash of a meta value -> struct ts_meta */
    uint64_t nbuckets;
    uint64_t nextended;      /* members outside of the normal range: more than 0 stops expiry */
    struct ts_bucket *stale; /* buckets whose date went back */
    bool all_stale;          /* expiry goes on: every name is to be filed anew */
    uint64_t cookie;         /* how far that has come */
    struct timeseries *next_pending, **at_pending; /* of those that have something stale */
};

void ts_spec_release(struct ts_spec *spec);

/*
 * Reads a value of user.ttl.timeseries.
 * @ret_spec  initialised by the call whatever it returns; released with ts_spec_release
 * Errors: -EINVAL with the reason, -ENOMEM.
 */
int ts_spec_parse(const char *text, size_t len, struct ts_spec *ret_spec, struct reason *why);

/* Makes an empty one. The spec is moved from. NULL: no memory. */
struct timeseries *timeseries_new(struct ttl *ttl, struct collection *owner, struct ts_spec *spec);

/* Frees one that has no members; buries its indexes. NULL is allowed. */
void timeseries_free(struct timeseries *ts);

/* The time-series rule of a collection itself; NULL for all others. */
struct timeseries *timeseries_of(const struct collection *c);

/*
 * Puts a name into its bucket.
 * @fields  what the document says; NULL when that is not known: then by what was noted on it, if
 *          anything. Without a date in the time field a name stays where it was, if it was in a
 *          bucket, and the document is marked DOCUMENT_TIMELESS.
 * Errors: -ENOMEM.
 */
int timeseries_update(struct timeseries *ts, struct dentry *d, const bson_t *fields);

/* Is the name in a bucket? */
bool timeseries_has(const struct timeseries *ts, struct dentry *d);

/* The name's own date; DATE_NEVER_MS when it is in no bucket. */
int64_t timeseries_own_ms(const struct timeseries *ts, struct dentry *d);

/* The date of its bucket; DATE_NEVER_MS in no bucket, and while expiry is stopped. */
int64_t timeseries_date_ms(const struct timeseries *ts, struct dentry *d);

/*
 * The key of a name in ts->rule, if its date were `date_ms`: what makes it due, with the E of that
 * index added, when the first of the collection's E and those of the TTL indexes that it is in is
 * over. So a partial rule with a smaller E has the name filed by as much earlier.
 * Returns DATE_NEVER_MS when nothing makes it due.
 */
int64_t timeseries_key(const struct timeseries *ts, struct dentry *d, int64_t date_ms);

/* Another E of the collection; -1 for none. The names must be filed anew when there are partial rules. */
void timeseries_set_expire_after(struct timeseries *ts, int64_t seconds);

/* Has a document a name in a time-series collection that is in no bucket there? */
bool timeseries_lacks_time(const struct document *doc);

/* Do these fields have a BSON date where this collection wants one? */
bool timeseries_admits(const struct timeseries *ts, const bson_t *fields);

/* Is the name in a time-series collection, but in no bucket? */
bool timeseries_refuses(struct dentry *d);

/* A name is about to be deleted because its bucket is due: nothing gets into that bucket any more. */
void timeseries_expiring(struct ttl *ttl, struct dentry *d);

/*
 * Names that a bucket's new date brought forward are filed anew: one slice of that.
 * Returns false when there was nothing to do.
 */
bool timeseries_refile(struct ttl *ttl);

/* May this index be in force here as a TTL index? Errors: -EINVAL with the reason. */
int timeseries_check_index(
    const struct timeseries *ts, const struct index_spec *spec, struct reason *why);

/*
 * Has a deadline of other names come forward since the last call? The kernel must then be told
 * before whoever caused it is answered.
 */
bool timeseries_came_forward(struct ttl *ttl);

#endif
