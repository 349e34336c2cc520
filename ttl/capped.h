/*
 * capped.h - capped collections: the oldest documents make room for new ones.
 *
 * The names of a capped collection are in one index (INDEX_CAPPED), in the order in which they came:
 * a document made there comes under its number, one that was moved or linked there gets a number of
 * its own, which is noted on it. The index keeps the sum of their sizes, too.
 *
 * Here is who has to go; fs/kinds.h takes them away. Everything expects the tree's lock.
 */
#ifndef TTLFS_TTL_CAPPED_H
#define TTLFS_TTL_CAPPED_H

#include "core/index.h"
#include "core/reason.h"
#include "ttl/ttl.h"

#include <stdbool.h>
#include <stdint.h>

/* The limits that user.ttl.capped sets; 0 for none. One of the two is set. */
struct capped_spec {
    int64_t max_documents, max_bytes;
};

/* Errors: -EINVAL with the reason, -ENOMEM. */
int capped_spec_parse(
    const char *text, size_t len, struct capped_spec *ret_spec, struct reason *why);

/* The index of a collection that is capped itself; NULL for all others. */
struct index *capped_of(const struct collection *c);

/* Where a document stands in the order. */
int64_t capped_order(struct ttl *ttl, const struct document *doc);

/*
 * A document is about to come into a capped collection from elsewhere: it is the newest from now on.
 * Errors: -ENOMEM.
 */
int capped_arrives(struct ttl *ttl, struct document *doc);

/* Would the collection be within its limits with so much more (or, negative, less)? */
bool capped_fits(const struct index *cap, int64_t documents, int64_t bytes);

/*
 * The oldest name behind `after` that may be evicted: not held, and not a name of `self`.
 * @self   NULL is allowed; so it is for `spare`
 * @spare  a name that will go anyway
 * @after  where the search goes on; {INT64_MIN, NULL} to begin
 * Returns NULL when there is none. Skips as many held names as there are.
 */
struct dentry *capped_victim(struct ttl *ttl, const struct index *cap, const struct document *self,
    const struct dentry *spare, struct btree_entry *after);

#endif
