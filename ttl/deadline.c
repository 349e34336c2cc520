#include "ttl/deadline.h"

#include "core/dates.h"
#include "ttl/timeseries.h"

#include <stdio.h>
#include <string.h>

/* Fibonacci hashing: consecutive document numbers are spread over the whole span. */
int64_t ttl_jitter_ms(const struct document *doc, int64_t span_ms)
{
    if (span_ms <= 0)
        return 0;
    uint64_t spread = doc->ino * UINT64_C(0x9e3779b97f4a7c15);
    return (int64_t) ((spread >> 16) % (uint64_t) span_ms);
}

/* A date plus a duration; never stays never. */
static int64_t after(int64_t date_ms, int64_t duration_ms)
{
    return date_ms == DATE_NEVER_MS ? DATE_NEVER_MS : date_add_saturated(date_ms, duration_ms);
}

int64_t ttl_idle_base_ms(const struct document *doc, enum ttl_refresh refresh)
{
    switch (refresh) {
    case REFRESH_WRITE:
        return doc->ts_ms;
    case REFRESH_EXTEND:
        return doc->flags & DOCUMENT_EXTENDED ? DATE_NEVER_MS : doc->created_ms;
    default:
        return doc->accessed_ms;
    }
}

static bool idle_is_own(const struct policy *p)
{
    return p && (p->idle_ms || p->refresh != REFRESH_UNSET);
}

static enum ttl_refresh refresh_of(const struct policy *p, const struct ruleset *rs)
{
    return p && p->refresh != REFRESH_UNSET ? p->refresh : rs->refresh;
}

/* Does the document say itself how long it lives, so that a `_ts` index does not apply? */
static bool has_own_ttl(const struct document *doc)
{
    return doc->own_ttl_s || (doc->policy && doc->policy->seconds_ms);
}

int64_t ttl_index_date(const struct ruleset *rs, struct dentry *d, const struct index *index)
{
    const struct document *doc = d->doc;
    const struct policy *p = doc->policy;
    int64_t jitter_ms = ttl_jitter_ms(doc, (int64_t) index->spec.jitter_s * 1000);

    switch (index->kind) {
    case INDEX_TIMESERIES:
        if (!rs->timeseries)
            return DATE_NEVER_MS;
        return timeseries_key(rs->timeseries, d, timeseries_date_ms(rs->timeseries, d));
    case INDEX_FIELD: {
        /* There a TTL index is on the time field, and buckets go as a whole. */
        if (rs->timeseries && index->ttl)
            return timeseries_date_ms(rs->timeseries, d);
        const struct index_slot *slot = index_slot(d, index, NULL);
        return slot && value_key_is_date(slot->key) ? slot->key : DATE_NEVER_MS;
    }
    case INDEX_TS:
        return has_own_ttl(doc) ? DATE_NEVER_MS : after(doc->ts_ms, jitter_ms);
    case INDEX_CREATED:
        return after(doc->created_ms, jitter_ms);
    case INDEX_ACCESSED:
        return after(doc->accessed_ms, jitter_ms);
    case INDEX_IDLE:
        if (idle_is_own(p))
            return DATE_NEVER_MS;
        return after(ttl_idle_base_ms(doc, rs->refresh), ttl_jitter_ms(doc, rs->jitter_ms));
    case INDEX_MAX:
        return p && p->max_ms ? DATE_NEVER_MS : doc->created_ms;
    case INDEX_CAPPED:
    case INDEX_BUCKETS:
    case INDEX_OWN:
        break;
    }
    return DATE_NEVER_MS;
}

/*
 * Of several that set the same instant one is named, always the same: the order of a name's slots
 * depends on when which rule was set. An idle time of max or more means max.
 */
static bool is_named_before(
    const struct ttl_deadline *best, enum ttl_reason reason, const struct index *index)
{
    static const unsigned char rank[] = {
        [TTL_REASON_NONE] = 0,
        [TTL_REASON_MAX] = 1,
        [TTL_REASON_IDLE] = 2,
        [TTL_REASON_TIMESERIES] = 3,
        [TTL_REASON_INDEX] = 4,
        [TTL_REASON_TTL] = 5,
        [TTL_REASON_SECONDS] = 6,
        [TTL_REASON_EXPIRE_AT] = 7,
        [TTL_REASON_HOLD] = 8,
    };
    if (reason != best->reason)
        return rank[reason] < rank[best->reason];
    return reason == TTL_REASON_INDEX && strcmp(index->name, best->index->name) < 0;
}

static void consider(
    struct ttl_deadline *best, int64_t at_ms, enum ttl_reason reason, const struct index *index)
{
    if (at_ms < best->at_ms || (at_ms == best->at_ms && is_named_before(best, reason, index)))
        *best = (struct ttl_deadline){at_ms, reason, index};
}

/* Is the name a member of a TTL index on `_ts`: does a document's own ttl count here? */
static bool in_ts_index(struct dentry *d)
{
    const struct index_slot *slots = dentry_slots(d);
    for (unsigned int i = 0; i < d->nslots; i++)
        if (slots[i].index->kind == INDEX_TS && slots[i].index->ttl && !slots[i].index->dropped)
            return true;
    return false;
}

/* The deadlines that a document carries itself. */
static void consider_own(struct ttl_deadline *best, const struct ruleset *rs, struct dentry *d)
{
    const struct document *doc = d->doc;
    const struct policy *p = doc->policy;
    if (doc->own_ttl_s > 0 && !(p && p->seconds_ms) && in_ts_index(d))
        consider(best, after(doc->ts_ms, (int64_t) doc->own_ttl_s * 1000), TTL_REASON_TTL, NULL);
    if (!p)
        return;
    if (p->seconds_ms > 0)
        consider(best, after(doc->ts_ms, p->seconds_ms), TTL_REASON_SECONDS, NULL);
    consider(best, p->expire_at_ms, TTL_REASON_EXPIRE_AT, NULL);
    if (idle_is_own(p)) {
        int64_t idle_ms = p->idle_ms;
        if (!idle_ms)
            idle_ms = rs->idle ? rs->idle->expire_after_ms : RULE_OFF;
        if (idle_ms > 0) {
            int64_t base_ms =
                after(ttl_idle_base_ms(doc, refresh_of(p, rs)), ttl_jitter_ms(doc, rs->jitter_ms));
            consider(best, after(base_ms, idle_ms), TTL_REASON_IDLE, NULL);
        }
    }
    if (p->max_ms > 0)
        consider(best, after(doc->created_ms, p->max_ms), TTL_REASON_MAX, NULL);
}

int64_t ttl_own_deadline_ms(const struct ruleset *rs, struct dentry *d)
{
    struct ttl_deadline best = {DATE_NEVER_MS, TTL_REASON_NONE, NULL};
    consider_own(&best, rs, d);
    return best.at_ms;
}

static bool is_held(const struct document *doc, const struct ruleset *rs)
{
    if (doc->policy && doc->policy->hold != SWITCH_UNSET)
        return doc->policy->hold == SWITCH_YES;
    return rs->hold;
}

static enum ttl_reason reason_of(const struct index *index)
{
    switch (index->kind) {
    case INDEX_IDLE:
        return TTL_REASON_IDLE;
    case INDEX_MAX:
        return TTL_REASON_MAX;
    case INDEX_TIMESERIES:
        return TTL_REASON_TIMESERIES;
    default:
        return TTL_REASON_INDEX;
    }
}

/* A time-series collection's own rule; the index that files by it stands for other rules as well. */
static int64_t rule_date_ms(const struct ruleset *rs, struct dentry *d)
{
    const struct timeseries *ts = rs->timeseries;
    return ts && ts->spec.expire_after_s >= 0 ? timeseries_date_ms(ts, d) : DATE_NEVER_MS;
}

struct ttl_deadline ttl_deadline(struct ttl *ttl, struct dentry *d)
{
    struct ttl_deadline best = {DATE_NEVER_MS, TTL_REASON_NONE, NULL};
    struct document *doc = d->doc;
    if (document_is_collection(doc))
        return best;
    if (dentry_in_limbo(d)) {
        /* Whatever happens to its document, this name has expired. */
        best.at_ms = d->nslots ? d->slots.one.key : DATE_NEVER_MS;
        return best;
    }
    const struct ruleset *rs = ruleset_of(ttl, d->parent);
    /* Without memory for the rules nothing may be taken for expired. */
    if (!rs)
        return best;
    if (is_held(doc, rs)) {
        best.reason = TTL_REASON_HOLD;
        return best;
    }
    const struct index_slot *slots = dentry_slots(d);
    for (unsigned int i = 0; i < d->nslots; i++) {
        const struct index *index = slots[i].index;
        if (!index->ttl || index->dropped || index->kind == INDEX_OWN || index->expire_after_ms < 0)
            continue;
        int64_t date_ms = slots[i].key;
        if (index->kind == INDEX_TIMESERIES)
            date_ms = rule_date_ms(rs, d);
        else if (index->kind != INDEX_FIELD || rs->timeseries)
            date_ms = ttl_index_date(rs, d, index);
        else if (!value_key_is_date(date_ms))
            continue;
        consider(&best, after(date_ms, index->expire_after_ms), reason_of(index), index);
    }
    if (doc->policy || doc->own_ttl_s)
        consider_own(&best, rs, d);
    return best;
}

bool ttl_expired(struct ttl *ttl, struct dentry *d, int64_t now_ms)
{
    int64_t at_ms = ttl_deadline(ttl, d).at_ms;
    return at_ms <= now_ms && at_ms != DATE_NEVER_MS;
}

bool ttl_hidden(struct ttl *ttl, struct dentry *d, int64_t now_ms)
{
    if (dentry_in_limbo(d) || (d->doc->flags & DOCUMENT_REFUSED && timeseries_refuses(d)))
        return true;
    /* Most names are in no index and have no rules of their own. */
    if (!d->nslots && !d->doc->policy)
        return false;
    if (!ttl_expired(ttl, d, now_ms))
        return false;
    const struct ruleset *rs = ruleset_of(ttl, d->parent);
    return rs && !rs->until_deleted;
}

bool ttl_document_hidden(struct ttl *ttl, struct document *doc, int64_t now_ms)
{
    if (!doc->links || document_is_collection(doc))
        return false;
    for (struct dentry *d = doc->links; d; d = d->link_next)
        if (!ttl_hidden(ttl, d, now_ms))
            return false;
    return true;
}

struct ttl_deadline ttl_document_deadline(struct ttl *ttl, struct document *doc)
{
    struct ttl_deadline best = {DATE_NEVER_MS, TTL_REASON_NONE, NULL};
    for (struct dentry *d = doc->links; d; d = d->link_next) {
        /* Names in the limbo come last, and count for nothing beside others. */
        if (d != doc->links && dentry_in_limbo(d))
            break;
        struct ttl_deadline one = ttl_deadline(ttl, d);
        if (d == doc->links || one.at_ms < best.at_ms)
            best = one;
    }
    return best;
}

void ttl_reason_text(const struct ttl_deadline *deadline, char *ret_text)
{
    static const char *const words[] = {
        [TTL_REASON_NONE] = "none",
        [TTL_REASON_TTL] = "ttl",
        [TTL_REASON_SECONDS] = "seconds",
        [TTL_REASON_EXPIRE_AT] = "expireAt",
        [TTL_REASON_IDLE] = "idle",
        [TTL_REASON_MAX] = "max",
        [TTL_REASON_TIMESERIES] = "timeseries",
        [TTL_REASON_HOLD] = "hold",
    };
    if (deadline->reason == TTL_REASON_INDEX)
        snprintf(ret_text, TTL_REASON_BYTES, "index %s", deadline->index->name);
    else
        snprintf(ret_text, TTL_REASON_BYTES, "%s", words[deadline->reason]);
}
