/*
 * query.h - which documents of a collection match a filter now.
 *
 * A query finds documents of one collection, not of those below it, and no collections. It asks an
 * index where one fits (ttl/query_plan.h) and looks at every document otherwise. Either way each
 * document that it returns was looked at. It is no access.
 */
#ifndef TTLFS_TTL_QUERY_H
#define TTLFS_TTL_QUERY_H

#include "core/filter.h"
#include "ttl/ttl.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct query; /* compiled and immutable: may run in any thread */

/*
 * Compiles filters, find-style JSON objects, all of which must match.
 * @texts    terminated, borrowed during the call; `n` of them, at least one
 * @ret_query  freed with query_free
 * Errors: -EINVAL with the reason, -ENOMEM. Needs no lock.
 */
int query_new(const char *const *texts, size_t n, struct query **ret_query, struct reason *why);

/* NULL is allowed. */
void query_free(struct query *query);

/* The whole filter; borrowed. */
const struct filter *query_filter(const struct query *query);

/* On whose behalf a query runs. */
struct query_reader {
    void *arg;
    /*
     * May the content of this document be read? Called with the lock; NULL: everything may. What may
     * not be read matches no filter that asks for more than system fields, and is not counted.
     */
    bool (*may_read)(void *arg, const struct document *doc);
    /* Has the caller lost patience? Called without the lock. May be NULL. */
    bool (*interrupted)(void *arg);
};

#define QUERY_INDEX_NAME_BYTES 256

/* How a query was served. */
struct query_stats {
    bool by_index;
    char index_name[QUERY_INDEX_NAME_BYTES];
    char *key; /* of the index; malloc'd, NULL without */
    bool many, partial;
    uint64_t keys_examined, docs_examined;
};

struct query_result {
    uint64_t *cookies; /* of the names that match, ascending; owned */
    size_t n, cap;
    struct query_stats stats;
};

void query_result_release(struct query_result *result);

/*
 * Finds all names that match. Expects the lock; lets go, in slices. The caller has pinned the
 * collection.
 * @now_ms      what is expired and hidden then is not found
 * @ret_result  zeroed by the caller, released by it in any case
 * Errors: -ENOMEM, -EINTR, -EIO.
 */
int query_run(struct ttl *ttl, struct collection *c, const struct query *query, int64_t now_ms,
    const struct query_reader *reader, struct query_result *ret_result);

/*
 * Does one name match? Expects the lock; lets go.
 * Returns 1, 0 (also when there is no such name), or an error as query_run.
 */
int query_matches(struct ttl *ttl, struct collection *c, const struct query *query,
    const char *name, size_t len, int64_t now_ms, const struct query_reader *reader);

#endif
