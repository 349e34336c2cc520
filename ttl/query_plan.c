#include "ttl/query_plan.h"

#include "ttl/document_fields.h"
#include "ttl/filing.h"
#include "ttl/rules.h"

#include <errno.h>
#include <string.h>

void query_plan_release(struct query_plan *plan)
{
    key_set_release(&plan->keys);
    plan->index = NULL;
}

/* Does an index know every name of a collection that its filter admits, under its present value? */
static bool is_reliable(const struct index *index)
{
    if (index->dropped || index->incomplete || index->spec.hidden)
        return false;
    /* A filter on system fields is asked when the content is looked at, which may be long ago. */
    if (system_fields_read(index->spec.filter))
        return false;
    switch (index->kind) {
    case INDEX_FIELD:
        return !system_field_is(index->path);
    case INDEX_TS:
    case INDEX_CREATED:
    case INDEX_ACCESSED:
        return true;
    default:
        return false;
    }
}

/* How many entries have keys of a set. */
static uint64_t count_keys(const struct index *index, const struct key_set *keys)
{
    uint64_t count = 0;
    for (size_t i = 0; i < keys->n; i++) {
        struct key_range range = keys->ranges[i];
        count += btree_count_upto(&index->entries, range.to);
        count += btree_count_upto(&index->parked, range.to);
        if (range.from > INT64_MIN) {
            count -= btree_count_upto(&index->entries, range.from - 1);
            count -= btree_count_upto(&index->parked, range.from - 1);
        }
    }
    return count;
}

/* The keys that an index offers for a filter: 1, 0 when it does not serve it, or -ENOMEM. */
static int offer(const struct index *index, const struct filter *filter, struct key_set *ret_keys)
{
    struct key_source source = {
        .path = index->path,
        .as = index->spec.as,
        .jitter_ms = (int64_t) index->spec.jitter_s * 1000,
        .many_dated = index->many_dated,
        .early = index->kind != INDEX_FIELD,
    };
    if (!is_reliable(index) || !filter_implies(filter, index->spec.filter))
        return 0;
    return filter_keys(filter, &source, ret_keys);
}

int query_plan_make(
    struct ttl *ttl, struct collection *c, const struct filter *filter, struct query_plan *ret_plan)
{
    *ret_plan = (struct query_plan){0};
    const struct ruleset *rs = ruleset_of(ttl, c);
    if (!rs)
        return -ENOMEM;
    if (filing_is_rebuilding(ttl, c))
        return 0;
    /* An index that is inherited has names of other collections, too: more than a scan has. */
    uint64_t best = c->names.count + 1;
    for (unsigned int i = 0; i < rs->nindexes; i++) {
        struct key_set keys = {0};
        int rc = offer(rs->indexes[i], filter, &keys);
        uint64_t count = rc > 0 ? count_keys(rs->indexes[i], &keys) : best;
        if (rc < 0 || count >= best) {
            key_set_release(&keys);
            if (rc < 0)
                return rc;
            continue;
        }
        query_plan_release(ret_plan);
        *ret_plan = (struct query_plan){.index = rs->indexes[i], .keys = keys};
        best = count;
    }
    return 0;
}

bool query_plan_holds(struct ttl *ttl, struct collection *c, const struct query_plan *plan)
{
    if (!is_reliable(plan->index) || filing_is_rebuilding(ttl, c))
        return false;
    const struct ruleset *rs = ruleset_of(ttl, c);
    for (unsigned int i = 0; rs && i < rs->nindexes; i++)
        if (rs->indexes[i] == plan->index)
            return true;
    return false;
}
