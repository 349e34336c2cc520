/*
 * query_plan.h - which index serves a query.
 */
#ifndef TTLFS_TTL_QUERY_PLAN_H
#define TTLFS_TTL_QUERY_PLAN_H

#include "core/filter_plan.h"
#include "core/index.h"
#include "ttl/ttl.h"

struct query_plan {
    struct index *index; /* NULL: every document is looked at */
    struct key_set keys; /* of the index: all that can match */
};

void query_plan_release(struct query_plan *plan);

/*
 * Chooses the index of a collection that has the fewest keys to look at. Expects the lock.
 * @ret_plan  initialised by the call; released by the caller in any case
 * Errors: -ENOMEM.
 */
int query_plan_make(struct ttl *ttl, struct collection *c, const struct filter *filter,
    struct query_plan *ret_plan);

/*
 * May a plan that was made before the lock was let go still be followed? Not when its index was
 * dropped, or names are being filed anew.
 */
bool query_plan_holds(struct ttl *ttl, struct collection *c, const struct query_plan *plan);

#endif
