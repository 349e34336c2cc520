#include "ttl/survey.h"

#include "core/dates.h"
#include "core/index.h"
#include "ttl/rules.h"
#include "ttl/timeseries.h"

#include <string.h>

/* Names, collections or indexes looked at per hold of the lock. */
#define SLICE 256
/* Entries at the front of an index that are judged one by one. */
#define JUDGED 256
/* What an index with something due weighs in a slice, against one without. */
#define SLICE_OF_DUE 64
/* Indexes, and entries of each, that are looked at for the next deadline. */
#define FRONT 32
/* Collections looked at for documents that an index might have. */
#define SCOPE_COLLECTIONS 4096

static void let_others(struct ttl *ttl)
{
    tree_unlock(ttl->tree);
    tree_lock_background(ttl->tree);
}

static void names_of(struct ttl *ttl, const struct survey *survey, struct collection *c, size_t *n)
{
    for (struct dentry *d = names_after(&c->names, 0); d;) {
        uint64_t cookie = names_cookie(d);
        survey->name(survey->arg, d);
        if (++*n % SLICE != 0) {
            d = names_next(d);
            continue;
        }
        /* A place in the order stays good, whatever happens to the names around it. */
        let_others(ttl);
        d = names_after(&c->names, cookie);
    }
}

void survey_all(struct ttl *ttl, const struct survey *survey)
{
    struct tree *tree = ttl->tree;
    size_t n = 0;
    bool go_on = true;
    tree_lock(tree);
    for (struct collection *c = tree->collections; c && go_on;) {
        /* While it is pinned it keeps its place in the list. */
        document_pin(&c->doc);
        if (c->doc.nlink)
            go_on = survey->collection(survey->arg, c);
        if (go_on && survey->name && c->doc.nlink)
            names_of(ttl, survey, c, &n);
        /* Rules of its own may have taken a while: the figures of up to 64 indexes. */
        if (++n % SLICE == 0 || c->rules)
            let_others(ttl);
        struct collection *next = c->all_next;
        document_unpin(tree, &c->doc);
        c = next;
    }
    tree_unlock(tree);
}

/* The largest key that is due; false for an index that expires nothing. */
static bool threshold(const struct index *index, int64_t now_ms, int64_t *ret_key)
{
    if (!index->ttl || index->dropped || index->expire_after_ms < 0)
        return false;
    *ret_key = date_subtract_saturated(now_ms, index->expire_after_ms);
    return true;
}

/* Is this the first of the indexes by which the name is due? So it is told once. */
static bool is_first_due(struct dentry *d, const struct index *index, int64_t now_ms)
{
    const struct index_slot *slots = dentry_slots(d);
    for (unsigned int i = 0; i < d->nslots; i++) {
        int64_t last_key;
        if (slots[i].index == index)
            return true;
        if (!index_is_parked(d, i) && threshold(slots[i].index, now_ms, &last_key) &&
            slots[i].key <= last_key)
            return false;
    }
    return false;
}

/* Returns false when the survey is to end. */
static bool due_of_index(struct ttl *ttl, const struct index *index, int64_t now_ms,
    bool (*name)(void *arg, struct dentry *d, const struct ttl_deadline *deadline), void *arg)
{
    struct btree_entry entries[SLICE], from = {INT64_MIN, NULL};
    int64_t last_key;
    while (threshold(index, now_ms, &last_key)) {
        size_t n = btree_copy(&index->entries, from, last_key, entries, SLICE);
        for (size_t i = 0; i < n; i++) {
            struct dentry *d = entries[i].item;
            struct ttl_deadline deadline = ttl_deadline(ttl, d);
            bool expired = deadline.at_ms <= now_ms && deadline.at_ms != DATE_NEVER_MS;
            if (expired && is_first_due(d, index, now_ms) && !name(arg, d, &deadline))
                return false;
        }
        if (n < SLICE)
            break;
        from = (struct btree_entry){entries[n - 1].key, (char *) entries[n - 1].item + 1};
        let_others(ttl);
    }
    return true;
}

void survey_due(struct ttl *ttl, int64_t now_ms,
    bool (*name)(void *arg, struct dentry *d, const struct ttl_deadline *deadline), void *arg)
{
    struct btree_entry at;
    size_t n = 0;
    tree_lock(ttl->tree);
    /* All of the schedule: what could not be deleted stands there under the time of the next try. */
    ttl->surveys++;
    bool any = btree_first(&ttl->schedule, &at);
    for (; any; any = btree_next(&ttl->schedule, at, &at)) {
        if (!due_of_index(ttl, at.item, now_ms, name, arg))
            break;
        if (++n % SLICE == 0)
            let_others(ttl);
    }
    ttl->surveys--;
    ttl_reap(ttl);
    tree_unlock(ttl->tree);
}

/* When a name is due by this index alone; DATE_NEVER_MS when it is not expired. */
static int64_t due_by(struct ttl *ttl, const struct index *index, struct dentry *d, int64_t now_ms)
{
    const struct ruleset *rs = ruleset_of(ttl, d->parent);
    if (!rs || !ttl_expired(ttl, d, now_ms))
        return DATE_NEVER_MS;
    if (dentry_in_limbo(d))
        return ttl_deadline(ttl, d).at_ms;
    int64_t date_ms =
        index->kind == INDEX_OWN ? ttl_own_deadline_ms(rs, d) : ttl_index_date(rs, d, index);
    return date_ms == DATE_NEVER_MS ? date_ms : date_add_saturated(date_ms, index->expire_after_ms);
}

void survey_index(
    struct ttl *ttl, const struct index *index, int64_t now_ms, struct survey_index *ret_figures)
{
    struct btree_entry entries[JUDGED];
    int64_t last_key;
    *ret_figures = (struct survey_index){
        .documents = index->members, .entries = index->entries.count, .next_ms = DATE_NEVER_MS};
    if (!threshold(index, now_ms, &last_key))
        return;
    if (btree_first(&index->entries, &entries[0]))
        ret_figures->next_ms = date_add_saturated(entries[0].key, index->expire_after_ms);
    if (ret_figures->next_ms > now_ms)
        return;
    uint64_t due = btree_count_upto(&index->entries, last_key);
    struct btree_entry from = {INT64_MIN, NULL};
    size_t n = btree_copy(&index->entries, from, last_key, entries, JUDGED);
    for (size_t i = 0; i < n; i++) {
        int64_t due_ms = due_by(ttl, index, entries[i].item, now_ms);
        int64_t lag_ms = date_subtract_saturated(now_ms, due_ms);
        if (due_ms > now_ms)
            due--;
        else if (lag_ms > ret_figures->lag_ms)
            ret_figures->lag_ms = lag_ms;
    }
    ret_figures->backlog = due;
}

/*
 * When the first name falls due. Entries may be filed too early, never too late: those that turn out to
 * be due later than others are passed by. Approximate where there are too many of them.
 */
static int64_t next_deadline(struct ttl *ttl)
{
    struct btree_entry at, entries[FRONT];
    int64_t best_ms = DATE_NEVER_MS;
    unsigned int n_indexes = 0;
    bool any = btree_first(&ttl->schedule, &at);
    for (; any && n_indexes < FRONT; any = btree_next(&ttl->schedule, at, &at), n_indexes++) {
        const struct index *index = at.item;
        if (at.key >= best_ms)
            break;
        size_t n = btree_copy(
            &index->entries, (struct btree_entry){INT64_MIN, NULL}, INT64_MAX, entries, FRONT);
        for (size_t i = 0; i < n; i++) {
            int64_t filed_ms = date_add_saturated(entries[i].key, index->expire_after_ms);
            if (filed_ms >= best_ms)
                break;
            int64_t at_ms = ttl_deadline(ttl, entries[i].item).at_ms;
            /* What may lie behind the last one is due then at the earliest. */
            if (i == FRONT - 1)
                at_ms = filed_ms;
            best_ms = at_ms < best_ms ? at_ms : best_ms;
        }
    }
    return any && at.key < best_ms ? at.key : best_ms;
}

void survey_totals(struct ttl *ttl, int64_t now_ms, struct survey_totals *ret_totals)
{
    struct btree_entry at;
    size_t n = 0;
    *ret_totals = (struct survey_totals){0};
    tree_lock(ttl->tree);
    ret_totals->next_ms = next_deadline(ttl);
    ttl->surveys++;
    /* All of the schedule: what could not be deleted stands there under the time of the next try. */
    bool any = btree_first(&ttl->schedule, &at);
    for (; any; any = btree_next(&ttl->schedule, at, &at)) {
        struct survey_index one;
        survey_index(ttl, at.item, now_ms, &one);
        ret_totals->backlog += one.backlog;
        if (one.lag_ms > ret_totals->lag_ms)
            ret_totals->lag_ms = one.lag_ms;
        n += one.backlog ? SLICE_OF_DUE : 1;
        if (n >= SLICE) {
            n = 0;
            let_others(ttl);
        }
    }
    ttl->surveys--;
    ttl_reap(ttl);
    tree_unlock(ttl->tree);
}

const struct index *survey_index_of(const struct collection *c, unsigned int i)
{
    const struct rules *rules = c->rules;
    if (c->own_deadlines && c->own_deadlines->members && i-- == 0)
        return c->own_deadlines;
    if (!rules)
        return NULL;
    if (rules->idle.index && i-- == 0)
        return rules->idle.index;
    if (rules->max.index && i-- == 0)
        return rules->max.index;
    if (rules->timeseries && rules->timeseries->spec.expire_after_s >= 0 && i-- == 0)
        return rules->timeseries->rule;
    for (const struct rule_index *r = rules->indexes; r; r = r->next)
        if (r->index && i-- == 0)
            return r->index;
    return NULL;
}

static bool is_in_force(struct ttl *ttl, struct collection *c, const struct index *index)
{
    const struct ruleset *rs = ruleset_of(ttl, c);
    for (unsigned int i = 0; rs && i < rs->nindexes; i++)
        if (rs->indexes[i] == index)
            return true;
    return false;
}

static bool has_documents(const struct collection *c)
{
    return c->doc.nlink && c->names.count > c->doc.nlink - 2;
}

/* Are there documents where the index is in force? */
static bool has_scope(struct ttl *ttl, const struct index *index)
{
    if (index->owner && has_documents(index->owner))
        return true;
    unsigned int n = 0;
    struct collection *c = ttl->tree->collections;
    for (; c && n < SCOPE_COLLECTIONS; c = c->all_next, n++)
        if (has_documents(c) && is_in_force(ttl, c, index))
            return true;
    return false;
}

/* Does the index know of a document that could be in it? */
static bool has_candidates(struct ttl *ttl, const struct index *index)
{
    if (index->members)
        return true;
    /* Empty files, and what is no file at all. Where there is a filter it lets none of those in. */
    return !index->spec.filter && has_scope(ttl, index);
}

const char *survey_index_warning(struct ttl *ttl, const struct index *index)
{
    if (index->kind != INDEX_FIELD || index->dropped)
        return NULL;
    bool any_value = index->entries.count || index->parked.count;
    bool fits = index->ttl ? index_entries(index) > 0 : any_value;
    if (fits || !has_candidates(ttl, index))
        return NULL;
    if (!any_value)
        return "the field is missing in all documents";
    switch (index->spec.as) {
    case FIELDS_AS_DATE:
        return "the field is never a date: only BSON dates count here, unless `as` says otherwise";
    case FIELDS_AS_ISO8601:
        return "the field is never a date: only ISO 8601 texts and BSON dates count here";
    default:
        return "the field is never a date: only numbers and BSON dates count here";
    }
}
