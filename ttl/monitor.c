#include "ttl/monitor.h"

#include "core/dates.h"
#include "core/index.h"
#include "ttl/deadline.h"
#include "ttl/events.h"
#include "ttl/filing.h"
#include "ttl/limbo.h"
#include "ttl/monitor_names.h"
#include "ttl/prune.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct visit {
    struct ttl *ttl;
    const struct monitor_hooks *hooks;
    struct monitor_pass *pass;
    struct index *index;
    uint64_t deleted, examined;
    int64_t target_docs, target_ms; /* as the parameters were in the latest slice */
    int64_t started_ms;             /* monotonic */
    struct monitor_name *names;     /* of this slice, that cannot simply be deleted */
    size_t nnames;
};

static int64_t clock_ms(const struct monitor_hooks *hooks)
{
    return hooks->clock_ms(hooks->arg);
}

static bool stopped(const struct monitor_hooks *hooks)
{
    return hooks->stop && hooks->stop(hooks->arg);
}

static struct timespec timespec_of_ms(int64_t ms)
{
    int64_t s = ms / 1000, rest = ms % 1000;
    if (rest < 0) {
        rest += 1000;
        s--;
    }
    return (struct timespec){.tv_sec = (time_t) s, .tv_nsec = (long) rest * 1000000};
}

/* The largest key that is due: a threshold, which no entry has to be touched for. */
static bool threshold(const struct index *index, int64_t now_ms, int64_t *ret_key)
{
    if (!index->ttl || index->dropped || index->expire_after_ms < 0)
        return false;
    *ret_key = date_subtract_saturated(now_ms, index->expire_after_ms);
    return true;
}

/* Copies what is due and was not tried in this pass. */
static size_t due_entries(const struct index *index, const struct monitor_pass *pass,
    int64_t now_ms, struct btree_entry *ret_entries, size_t max)
{
    int64_t last_key;
    if (!threshold(index, now_ms, &last_key))
        return 0;
    struct btree_entry from = {INT64_MIN, NULL};
    if (index->pass == pass->number)
        from = (struct btree_entry){index->visited.key, (char *) index->visited.item + 1};
    return btree_copy(&index->entries, from, last_key, ret_entries, max);
}

static bool has_due(const struct index *index, const struct monitor_pass *pass, int64_t now_ms)
{
    struct btree_entry one;
    return due_entries(index, pass, now_ms, &one, 1) > 0;
}

int monitor_expire(
    struct ttl *ttl, struct dentry *d, struct timespec now, struct monitor_pass *pass)
{
    timeseries_expiring(ttl, d);
    /* What is missing is a member, but no key of the index. */
    uint64_t keys = 0;
    for (unsigned int i = 0; i < d->nslots; i++)
        keys += dentry_slots(d)[i].key != INDEX_KEY_MISSING;
    int err =
        dentry_in_limbo(d) ? limbo_remove(ttl, d, now) : ttl_unlink(ttl, d, now, TTL_EVENT_EXPIRED);
    if (err)
        return err;
    ttl->metrics.deleted_documents++;
    ttl->metrics.deleted_keys += keys;
    if (pass) {
        pass->deleted_documents++;
        pass->deleted_keys += keys;
    }
    return 0;
}

static void count_error(struct visit *v)
{
    v->ttl->metrics.errors++;
    v->pass->errors++;
}

/* The entry stays where it is, and this pass does not come back to it. */
static void skip(struct visit *v, struct btree_entry entry)
{
    v->index->visited = entry;
    v->index->pass = v->pass->number;
}

/* One due entry. Returns true when it used up a place in the budget. */
static bool handle(struct visit *v, struct btree_entry entry, int64_t now_ms)
{
    struct dentry *d = entry.item;
    const struct monitor_hooks *hooks = v->hooks;
    if (!ttl_expired(v->ttl, d, now_ms)) {
        if (filing_postpone(v->ttl, v->index, d, now_ms) != 0)
            skip(v, entry);
        return false;
    }
    if (monitor_name_add(v->ttl, hooks, d, &v->names[v->nnames])) {
        v->nnames++;
        skip(v, entry);
        return true;
    }
    struct collection *parent = d->parent;
    if (hooks->deleting)
        hooks->deleting(hooks->arg, d);
    if (monitor_expire(v->ttl, d, timespec_of_ms(now_ms), v->pass) != 0) {
        count_error(v);
        skip(v, entry);
        return false;
    }
    prune_note(v->ttl, parent);
    return true;
}

static bool over_documents(const struct visit *v)
{
    return v->target_docs && v->deleted >= (uint64_t) v->target_docs;
}

static bool over_time(const struct visit *v)
{
    return v->target_ms && v->hooks->monotonic_ms(v->hooks->arg) - v->started_ms >= v->target_ms;
}

/* Files an index under the date at which this pass leaves it something to do. */
static void reschedule(
    struct ttl *ttl, struct index *index, const struct monitor_pass *pass, int64_t now_ms)
{
    if (index->pass == pass->number)
        ttl_schedule_retry(
            ttl, index, index->visited, date_add_saturated(now_ms, ttl->params.sleep_s * 1000));
    else
        ttl_schedule(ttl, index);
}

/* One hold of the lock. Returns how many entries it met. */
static size_t visit_slice(struct visit *v, bool *ret_more)
{
    struct btree_entry entries[MONITOR_SLICE_DOCS];
    struct tree *tree = v->ttl->tree;
    size_t max = MONITOR_SLICE_DOCS, n, i;

    tree_lock_background(tree);
    v->target_docs = v->ttl->params.delete_target_docs;
    v->target_ms = v->ttl->params.delete_target_ms;
    if (v->target_docs && (uint64_t) v->target_docs < v->deleted + max)
        max = (uint64_t) v->target_docs > v->deleted
                  ? (size_t) ((uint64_t) v->target_docs - v->deleted)
                  : 0;
    int64_t now_ms = clock_ms(v->hooks);
    n = due_entries(v->index, v->pass, now_ms, entries, max);
    for (i = 0; i < n; i++)
        v->deleted += handle(v, entries[i], now_ms);
    tree_unlock(tree);

    monitor_names_settle(v->ttl, v->hooks, v->pass, v->names, v->nnames);
    v->nnames = 0;
    if (v->ttl->nemptied)
        prune_run(v->ttl, v->hooks);

    tree_lock(tree);
    now_ms = clock_ms(v->hooks);
    *ret_more = has_due(v->index, v->pass, now_ms);
    reschedule(v->ttl, v->index, v->pass, now_ms);
    tree_unlock(tree);
    if (v->hooks->slice_done)
        v->hooks->slice_done(v->hooks->arg);
    return n;
}

/* Begins a visit: what it is going to be told of, when it has ended. */
static struct monitor_visit begin_visit(struct visit *v)
{
    struct ttl *ttl = v->ttl;
    struct monitor_visit told = {.index = v->index, .pass = v->pass, .errors = v->pass->errors};
    struct btree_entry first;
    v->deleted = v->examined = 0;
    v->started_ms = v->hooks->monotonic_ms(v->hooks->arg);
    tree_lock(ttl->tree);
    int64_t now_ms = clock_ms(v->hooks);
    v->pass->visiting = v->index;
    v->pass->visit_deleted = v->pass->deleted_documents;
    v->pass->visit_started_ms = now_ms;
    if (due_entries(v->index, v->pass, now_ms, &first, 1)) {
        int64_t at_ms = ttl_deadline(ttl, first.item).at_ms;
        told.lag_ms = at_ms < now_ms ? date_subtract_saturated(now_ms, at_ms) : 0;
    }
    tree_unlock(ttl->tree);
    return told;
}

static void end_visit(struct visit *v, struct monitor_visit *told, enum monitor_limit limit)
{
    struct ttl *ttl = v->ttl;
    struct monitor_pass *pass = v->pass;
    told->took_ms = v->hooks->monotonic_ms(v->hooks->arg) - v->started_ms;
    tree_lock(ttl->tree);
    pass->visits++;
    v->index->visit_number = ++ttl->visits;
    pass->visiting = NULL;
    told->deleted = pass->deleted_documents - pass->visit_deleted;
    told->examined = v->examined;
    told->errors = pass->errors - told->errors;
    told->ended_ms = clock_ms(v->hooks);
    told->limit = limit;
    if (v->hooks->visited)
        v->hooks->visited(v->hooks->arg, told);
    tree_unlock(ttl->tree);
}

static enum monitor_limit visit_slices(struct visit *v)
{
    bool more = true;
    while (more) {
        if (stopped(v->hooks))
            return MONITOR_STOPPED;
        v->examined += visit_slice(v, &more);
        if (more && over_documents(v))
            return MONITOR_LIMIT_DOCUMENTS;
        if (more && over_time(v))
            return MONITOR_LIMIT_TIME;
    }
    return MONITOR_LIMIT_NONE;
}

static enum monitor_limit visit(struct visit *v)
{
    struct monitor_visit told = begin_visit(v);
    enum monitor_limit limit = visit_slices(v);
    end_visit(v, &told, limit);
    return limit;
}

static int by_visit(const void *a, const void *b)
{
    const struct index *x = *(struct index *const *) a, *y = *(struct index *const *) b;
    return x->visit_number < y->visit_number ? -1 : x->visit_number > y->visit_number;
}

/*
 * The indexes that have something due, least recently visited first, so that a sub-pass that ends
 * early starves nobody. Returns how many, or -ENOMEM.
 */
static ssize_t collect_due(
    struct ttl *ttl, const struct monitor_pass *pass, int64_t now_ms, struct index ***ret_indexes)
{
    size_t n = 0, cap = 0;
    struct index **indexes = NULL;
    struct btree_entry at;
    bool any = btree_first(&ttl->schedule, &at);
    for (; any && at.key <= now_ms; any = btree_next(&ttl->schedule, at, &at)) {
        if (!has_due(at.item, pass, now_ms)) {
            /* The name that it was filed for has gone without the schedule being told. */
            reschedule(ttl, at.item, pass, now_ms);
            continue;
        }
        if (n == cap) {
            cap = cap ? cap * 2 : 16;
            struct index **more = realloc(indexes, cap * sizeof(struct index *));
            if (!more) {
                free(indexes);
                return -ENOMEM;
            }
            indexes = more;
        }
        indexes[n++] = at.item;
    }
    if (n)
        qsort(indexes, n, sizeof(struct index *), by_visit);
    *ret_indexes = indexes;
    return (ssize_t) n;
}

/* Returns true when there is more to do in another sub-pass. */
static bool sub_pass(struct visit *v)
{
    struct ttl *ttl = v->ttl;
    struct index **indexes = NULL;
    int64_t started_ms = v->hooks->monotonic_ms(v->hooks->arg);

    tree_lock(ttl->tree);
    ssize_t n = collect_due(ttl, v->pass, clock_ms(v->hooks), &indexes);
    ttl->metrics.sub_passes++;
    v->pass->sub_passes++;
    int64_t target_ms = ttl->params.sub_pass_target_s * 1000;
    tree_unlock(ttl->tree);

    bool more = n > 0;
    for (ssize_t i = 0; i < n; i++) {
        v->index = indexes[i];
        if (visit(v) == MONITOR_STOPPED) {
            v->pass->stopped = true;
            more = false;
            break;
        }
        if (target_ms && v->hooks->monotonic_ms(v->hooks->arg) - started_ms >= target_ms)
            break;
    }
    free(indexes);
    if (!more)
        return false;
    tree_lock(ttl->tree);
    ssize_t left = collect_due(ttl, v->pass, clock_ms(v->hooks), &indexes);
    tree_unlock(ttl->tree);
    free(left > 0 ? indexes : NULL);
    return left > 0;
}

/* What became due earlier than it is filed is filed anew before the visits. */
static void refile(struct ttl *ttl, const struct monitor_hooks *hooks)
{
    bool more = true;
    while (more && !stopped(hooks)) {
        tree_lock_background(ttl->tree);
        more = timeseries_refile(ttl);
        tree_unlock(ttl->tree);
    }
}

void monitor_pass(struct ttl *ttl, const struct monitor_hooks *hooks, struct monitor_pass *pass)
{
    struct visit v = {.ttl = ttl, .hooks = hooks, .pass = pass};
    int64_t started_ms = hooks->monotonic_ms(hooks->arg);

    tree_lock(ttl->tree);
    *pass = (struct monitor_pass){
        .number = ++ttl->metrics.passes, .started_ms = clock_ms(hooks), .running = true};
    ttl->pass_running = true;
    if (hooks->retry)
        ttl_schedule_failing(ttl);
    tree_unlock(ttl->tree);

    v.names = calloc(MONITOR_SLICE_DOCS, sizeof *v.names);
    bool possible = !ttl->read_only && v.names;
    do
        refile(ttl, hooks);
    while (possible && !stopped(hooks) && sub_pass(&v));
    free(v.names);

    tree_lock(ttl->tree);
    pass->running = false;
    pass->stopped |= stopped(hooks);
    pass->ended_ms = clock_ms(hooks);
    pass->took_ms = hooks->monotonic_ms(hooks->arg) - started_ms;
    ttl->pass_running = false;
    ttl_reap(ttl);
    tree_unlock(ttl->tree);
}

int64_t monitor_next_ms(struct ttl *ttl, int64_t now_ms)
{
    int64_t next_ms = date_add_saturated(now_ms, ttl->params.sleep_s * 1000);
    if (!ttl->params.wake_by_deadline)
        return next_ms;
    if (ttl->pending)
        return now_ms;
    struct btree_entry first;
    return btree_first(&ttl->schedule, &first) && first.key < next_ms ? first.key : next_ms;
}
