/*
 * ruleset.c - which rules are in force in a collection: its parent's, overridden by its own.
 *
 * Computed when asked for and kept until any rule changes anywhere (ttl->generation). Collections
 * without rules of their own share their parent's ruleset.
 */
#include "ttl/rules_impl.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void ruleset_put(struct ruleset *rs)
{
    if (rs && --rs->holders == 0)
        free(rs);
}

struct ruleset *ruleset_get(struct ttl *ttl, struct collection *c)
{
    struct ruleset *rs = ruleset_of(ttl, c);
    if (rs)
        rs->holders++;
    return rs;
}

bool ruleset_same(const struct ruleset *a, const struct ruleset *b)
{
    return a->refresh == b->refresh && a->until_deleted == b->until_deleted && a->hold == b->hold &&
           a->jitter_ms == b->jitter_ms && a->nindexes == b->nindexes &&
           memcmp(a->indexes, b->indexes, a->nindexes * sizeof a->indexes[0]) == 0;
}

void ruleset_drop(struct collection *c)
{
    ruleset_put(c->ruleset);
    c->ruleset = NULL;
}

/* Does an index need the fields of contents to be filed or to be judged? */
static bool index_needs_fields(const struct index *index)
{
    /* `_ts` indexes: for the content's own ttl. */
    return index->kind == INDEX_FIELD || index->kind == INDEX_TS || index->spec.filter;
}

static void add_index(struct ruleset *rs, struct index *index)
{
    /* One place is kept for the index of documents' own deadlines. */
    if (rs->nindexes >= INDEX_MAX_PER_COLLECTION - 1)
        return;
    rs->indexes[rs->nindexes++] = index;
    rs->needs_fields |= index_needs_fields(index);
    rs->files_by_fields |= index->kind == INDEX_FIELD || index->spec.filter;
    rs->tracks_accesses |= index->kind == INDEX_ACCESSED || index->kind == INDEX_IDLE;
}

/* Is an index of this name set, or switched off, on the collection itself? */
static bool sets_index(const struct rules *rules, const char *name)
{
    for (const struct rule_index *r = rules->indexes; r; r = r->next)
        if (strcmp(r->name, name) == 0)
            return true;
    return false;
}

/* Makes the ruleset that of a collection of another kind, whose indexes are never inherited. */
static void add_kind(struct ruleset *rs, const struct rules *rules)
{
    rs->capped = rules->capped;
    rs->timeseries = rules->timeseries;
    if (rs->capped)
        add_index(rs, rs->capped);
    if (!rs->timeseries)
        return;
    add_index(rs, rs->timeseries->members);
    add_index(rs, rs->timeseries->rule);
    rs->needs_fields = rs->files_by_fields = true;
}

/* Has an index an effect here? A TTL index from above, or from a store, may not fit this kind. */
static bool has_effect(const struct rules *rules, const struct index *index)
{
    if (index->kind == INDEX_CAPPED || index->kind == INDEX_BUCKETS ||
        index->kind == INDEX_TIMESERIES)
        return false;
    return !rules || rules_kind_takes_index(rules, &index->spec, NULL) == 0;
}

static struct ruleset *ruleset_make(
    const struct ruleset *above, const struct rules *rules, uint64_t generation)
{
    struct ruleset *rs = calloc(1, sizeof *rs + (INDEX_MAX_PER_COLLECTION) * sizeof rs->indexes[0]);
    if (!rs)
        return NULL;
    rs->holders = 1;
    rs->generation = generation;
    rs->refresh = REFRESH_ACCESS;
    if (above) {
        rs->refresh = above->refresh;
        rs->until_deleted = above->until_deleted;
        rs->hold = above->hold;
        rs->archive = above->archive;
        rs->prune = above->prune;
        rs->jitter_ms = above->jitter_ms;
        rs->idle = above->idle;
        rs->max = above->max;
    }
    if (rules && rules->idle.set)
        rs->idle = rules->idle.index;
    if (rules && rules->max.set)
        rs->max = rules->max.index;
    if (rs->idle)
        add_index(rs, rs->idle);
    if (rs->max)
        add_index(rs, rs->max);
    if (rules)
        add_kind(rs, rules);
    for (unsigned int i = 0; above && i < above->nindexes; i++) {
        struct index *index = above->indexes[i];
        bool span = index->kind == INDEX_IDLE || index->kind == INDEX_MAX;
        if (!span && has_effect(rules, index) && !(rules && sets_index(rules, index->name)))
            add_index(rs, index);
    }
    if (rules) {
        if (rules->refresh != REFRESH_UNSET)
            rs->refresh = rules->refresh;
        if (rules->until_deleted != SWITCH_UNSET)
            rs->until_deleted = rules->until_deleted == SWITCH_YES;
        if (rules->hold != SWITCH_UNSET)
            rs->hold = rules->hold == SWITCH_YES;
        if (rules->archive != SWITCH_UNSET)
            rs->archive = rules->archive == SWITCH_YES;
        if (rules->prune != SWITCH_UNSET)
            rs->prune = rules->prune == SWITCH_YES;
        if (rules->jitter_set)
            rs->jitter_ms = rules->jitter_ms;
        for (const struct rule_index *r = rules->indexes; r; r = r->next)
            if (r->index && has_effect(rules, r->index))
                add_index(rs, r->index);
    }
    struct ruleset *fit = realloc(rs, sizeof *rs + rs->nindexes * sizeof rs->indexes[0]);
    return fit ? fit : rs;
}

static bool is_fresh(const struct ttl *ttl, const struct collection *c)
{
    return c->ruleset && c->ruleset->generation == ttl->generation;
}

/* Makes the ruleset of a collection whose parent has a fresh one. */
static struct ruleset *ruleset_renew(struct ttl *ttl, struct collection *c)
{
    struct collection *parent = collection_parent(c);
    struct ruleset *above = parent ? parent->ruleset : NULL, *rs;
    if (above && !c->rules && !above->capped && !above->timeseries) {
        above->holders++;
        rs = above;
    } else {
        rs = ruleset_make(above, c->rules, ttl->generation);
        if (!rs)
            return NULL;
    }
    ruleset_put(c->ruleset);
    c->ruleset = rs;
    return rs;
}

/* The highest collection on the way up from c that is not fresh. */
static struct collection *highest_stale(const struct ttl *ttl, struct collection *c)
{
    for (;;) {
        struct collection *parent = collection_parent(c);
        if (!parent || is_fresh(ttl, parent))
            return c;
        c = parent;
    }
}

struct ruleset *ruleset_of(struct ttl *ttl, struct collection *c)
{
    if (is_fresh(ttl, c))
        return c->ruleset;
    struct collection *parent = collection_parent(c);
    if (parent && !is_fresh(ttl, parent)) {
        /* Top down along the path, without recursion: trees may be thousands deep. */
        size_t depth = 0;
        struct collection *top = highest_stale(ttl, c);
        for (struct collection *at = c; at != top; at = collection_parent(at))
            depth++;
        struct collection **path = malloc((depth + 1) * sizeof(struct collection *));
        if (!path)
            return NULL;
        struct collection *at = c;
        for (size_t i = depth + 1; i-- > 0; at = collection_parent(at))
            path[i] = at;
        bool ok = true;
        for (size_t i = 0; i < depth && ok; i++)
            ok = ruleset_renew(ttl, path[i]) != NULL;
        free(path);
        if (!ok)
            return NULL;
    }
    return ruleset_renew(ttl, c);
}
