/*
 * timeseries_collection.c - a time-series collection as a whole, and what happens when the date of a
 * bucket goes back.
 *
 * An entry may be filed earlier than it is due, never later. A bucket that grows leaves its entries
 * where they are. One that loses its newest document may leave entries too late; so it is put into a
 * list, and a pass begins with filing its members anew, in slices. What is expired is told from the
 * bucket's date itself, so nothing of this is seen outside.
 */
#include "ttl/timeseries_impl.h"

#include "core/dates.h"
#include "core/names.h"
#include "ttl/filing.h"
#include "ttl/rules.h"

#include <stdlib.h>
#include <string.h>

/* Names filed anew per hold of the lock. */
#define SLICE_DOCS 128

static void pending(struct timeseries *ts)
{
    struct ttl *ttl = ts->ttl;
    ttl->names_forward = true;
    if (ts->at_pending)
        return;
    ts->at_pending = &ttl->pending;
    ts->next_pending = ttl->pending;
    if (ts->next_pending)
        ts->next_pending->at_pending = &ts->next_pending;
    ttl->pending = ts;
    if (ttl->wake && ttl->monitor_wakes_ms != INT64_MIN)
        ttl->wake(ttl->wake_arg);
}

void timeseries_not_pending(struct timeseries *ts)
{
    if (!ts->at_pending)
        return;
    *ts->at_pending = ts->next_pending;
    if (ts->next_pending)
        ts->next_pending->at_pending = ts->at_pending;
    ts->at_pending = NULL;
}

void timeseries_went_back(struct ts_bucket *b)
{
    struct timeseries *ts = b->ts;
    b->refiled = (struct btree_entry){INT64_MIN, NULL};
    if (!b->at_stale) {
        b->at_stale = &ts->stale;
        b->next_stale = ts->stale;
        if (b->next_stale)
            b->next_stale->at_stale = &b->next_stale;
        ts->stale = b;
    }
    pending(ts);
}

void timeseries_not_stale(struct ts_bucket *b)
{
    if (!b->at_stale)
        return;
    *b->at_stale = b->next_stale;
    if (b->next_stale)
        b->next_stale->at_stale = b->at_stale;
    b->at_stale = NULL;
}

void timeseries_goes_on(struct timeseries *ts)
{
    ts->all_stale = true;
    ts->cookie = 0;
    pending(ts);
}

static void refile_all(struct timeseries *ts)
{
    for (int i = 0; i < SLICE_DOCS && ts->all_stale; i++) {
        struct dentry *d = names_after(&ts->members->owner->names, ts->cookie);
        if (!d) {
            ts->all_stale = false;
            return;
        }
        ts->cookie = names_cookie(d);
        (void) filing_update(ts->ttl, d, NULL);
    }
}

static void refile_bucket(struct ts_bucket *b)
{
    struct btree_entry entries[SLICE_DOCS];
    size_t n = btree_copy(&b->members, b->refiled, INT64_MAX, entries, SLICE_DOCS);
    struct ttl *ttl = b->ts->ttl;
    if (n < SLICE_DOCS)
        timeseries_not_stale(b);
    else
        b->refiled = (struct btree_entry){entries[n - 1].key, (char *) entries[n - 1].item + 1};
    for (size_t i = 0; i < n; i++)
        (void) filing_update(ttl, entries[i].item, NULL);
}

bool timeseries_refile(struct ttl *ttl)
{
    struct timeseries *ts = ttl->pending;
    if (!ts)
        return false;
    if (ts->all_stale)
        refile_all(ts);
    else if (ts->stale)
        refile_bucket(ts->stale);
    else
        timeseries_not_pending(ts);
    return true;
}

bool timeseries_came_forward(struct ttl *ttl)
{
    bool forward = ttl->names_forward;
    ttl->names_forward = false;
    return forward;
}

int64_t timeseries_key(const struct timeseries *ts, struct dentry *d, int64_t date_ms)
{
    const struct index_slot *slots = dentry_slots(d);
    int64_t after_ms = ts->spec.expire_after_s < 0 ? INT64_MAX : ts->spec.expire_after_s * 1000;
    for (unsigned int i = 0; i < d->nslots; i++) {
        const struct index *index = slots[i].index;
        if (index->kind == INDEX_FIELD && index->ttl && !index->dropped &&
            index->expire_after_ms < after_ms)
            after_ms = index->expire_after_ms;
    }
    if (date_ms == DATE_NEVER_MS || after_ms == INT64_MAX)
        return DATE_NEVER_MS;
    return date_add_saturated(date_ms, after_ms - ts->rule->expire_after_ms);
}

bool timeseries_refuses(struct dentry *d)
{
    const struct timeseries *ts = timeseries_of(d->parent);
    return ts && !timeseries_has(ts, d);
}

bool timeseries_lacks_time(const struct document *doc)
{
    for (struct dentry *d = doc->links; d; d = d->link_next)
        if (timeseries_refuses(d))
            return true;
    return false;
}

struct timeseries *timeseries_new(struct ttl *ttl, struct collection *owner, struct ts_spec *spec)
{
    struct index_spec none;
    index_spec_init(&none);
    struct timeseries *ts = calloc(1, sizeof *ts);
    if (!ts)
        return NULL;
    ts->members = index_new("buckets", strlen("buckets"), INDEX_BUCKETS, &none);
    none.ttl = true;
    ts->rule = index_new("timeseries", strlen("timeseries"), INDEX_TIMESERIES, &none);
    if (!ts->members || !ts->rule) {
        index_free(ts->members);
        index_free(ts->rule);
        free(ts);
        return NULL;
    }
    ts->ttl = ttl;
    ttl->ntimeseries++;
    ts->members->owner = ts->rule->owner = owner;
    ts->members->left = timeseries_member_left;
    ts->spec = *spec;
    *spec = (struct ts_spec){.expire_after_s = -1};
    btree_init(&ts->metas);
    timeseries_set_expire_after(ts, ts->spec.expire_after_s);
    return ts;
}

void timeseries_set_expire_after(struct timeseries *ts, int64_t seconds)
{
    ts->spec.expire_after_s = seconds;
    ts->rule->expire_after_ms = seconds < 0 ? 0 : seconds * 1000;
    ttl_schedule(ts->ttl, ts->rule);
}

void timeseries_free(struct timeseries *ts)
{
    if (!ts)
        return;
    timeseries_not_pending(ts);
    ts->ttl->ntimeseries--;
    ttl_bury(ts->ttl, ts->members);
    ttl_bury(ts->ttl, ts->rule);
    btree_release(&ts->metas);
    ts_spec_release(&ts->spec);
    free(ts);
}
