#include "ttl/guard.h"

#include "core/dates.h"
#include "ttl/deadline.h"
#include "ttl/policy.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <string.h>

/* How much longer a mode lets documents live than the others. */
static int refresh_rank(enum ttl_refresh refresh)
{
    switch (refresh) {
    case REFRESH_WRITE:
        return 0;
    case REFRESH_EXTEND:
        return 2;
    default:
        return 1;
    }
}

bool guard_shortens(const struct guard_terms *before, const struct guard_terms *after)
{
    return (before->held && !after->held) || after->ts_ms < before->ts_ms ||
           after->expire_at_ms < before->expire_at_ms || after->idle_ms < before->idle_ms ||
           after->max_ms < before->max_ms || after->idle_from_ms < before->idle_from_ms ||
           refresh_rank(after->refresh) < refresh_rank(before->refresh);
}

/* The end by `_ts` rules and by what takes their place. */
static int64_t ts_end(struct dentry *d, const struct policy *p)
{
    const struct document *doc = d->doc;
    int64_t best_ms = DATE_NEVER_MS;
    bool indexed = false;
    if (p->seconds_ms)
        return p->seconds_ms > 0 ? date_add_saturated(doc->ts_ms, p->seconds_ms) : DATE_NEVER_MS;
    const struct index_slot *slots = dentry_slots(d);
    for (unsigned int i = 0; i < d->nslots; i++) {
        const struct index *index = slots[i].index;
        if (index->kind != INDEX_TS || !index->ttl || index->dropped)
            continue;
        indexed = true;
        if (index->expire_after_ms < 0)
            continue;
        int64_t at_ms = date_add_saturated(
            doc->ts_ms, ttl_jitter_ms(doc, (int64_t) index->spec.jitter_s * 1000));
        at_ms = date_add_saturated(at_ms, index->expire_after_ms);
        best_ms = at_ms < best_ms ? at_ms : best_ms;
    }
    if (indexed && doc->own_ttl_s)
        return doc->own_ttl_s > 0 ? date_add_saturated(doc->ts_ms, (int64_t) doc->own_ttl_s * 1000)
                                  : DATE_NEVER_MS;
    return best_ms;
}

/* A length of time: the document's own, or else its collection's. */
static int64_t span(int64_t own_ms, const struct index *inherited)
{
    if (own_ms)
        return own_ms > 0 ? own_ms : INT64_MAX;
    return inherited ? inherited->expire_after_ms : INT64_MAX;
}

static struct guard_terms terms_of(
    const struct ruleset *rs, struct dentry *d, const struct policy *p)
{
    struct guard_terms terms = {
        .held = p->hold != SWITCH_UNSET ? p->hold == SWITCH_YES : rs->hold,
        .ts_ms = ts_end(d, p),
        .expire_at_ms = p->expire_at_ms,
        .idle_ms = span(p->idle_ms, rs->idle),
        .max_ms = span(p->max_ms, rs->max),
        .refresh = p->refresh != REFRESH_UNSET ? p->refresh : rs->refresh,
        .idle_from_ms = DATE_NEVER_MS,
    };
    /* `extend` lets live longest, but its first window begins with the document. */
    if (terms.idle_ms != INT64_MAX)
        terms.idle_from_ms = ttl_idle_base_ms(d->doc, terms.refresh);
    return terms;
}

static int check_rule(struct ttl *ttl, struct document *doc, const char *name, const char *value,
    size_t len, int64_t now_ms, struct reason *why)
{
    static const struct policy none = {.expire_at_ms = DATE_NEVER_MS};
    const struct policy *before = doc->policy ? doc->policy : &none;
    struct policy after;
    if (policy_changed(before, name, value, len, now_ms, &after) != 0)
        return 0;
    for (struct dentry *d = doc->links; d; d = d->link_next) {
        const struct ruleset *rs = ruleset_of(ttl, d->parent);
        struct guard_terms was, is;
        if (rs) {
            was = terms_of(rs, d, before);
            is = terms_of(rs, d, &after);
        }
        if (!rs || guard_shortens(&was, &is))
            return reason_set(
                why, EPERM, "%s could end the document earlier, and you may not delete it", name);
    }
    return 0;
}

/* Do two dotted paths begin with the same field? */
static bool same_root(const char *a, const char *b)
{
    size_t len = strcspn(a, ".");
    return len == strcspn(b, ".") && memcmp(a, b, len) == 0;
}

/* Does a TTL index look at what is below the field that a path begins with? */
static bool reads(const struct index *index, const char *path, const char *root)
{
    if (!index->ttl)
        return false;
    if (index->kind == INDEX_TS && strcmp(root, "ttl") == 0)
        return true;
    if (index->kind == INDEX_FIELD && same_root(index->spec.key, path))
        return true;
    return index->spec.filter && filter_reads(index->spec.filter, root);
}

/* Does a time-series collection decide by this field which bucket a document is in, and until when? */
static bool buckets_by(const struct timeseries *ts, const char *root)
{
    return ts && ts->spec.expire_after_s >= 0 &&
           (same_root(ts->spec.time_field, root) ||
               (ts->spec.meta_field && same_root(ts->spec.meta_field, root)));
}

/*
 * Whatever the new value is: its place among the content's fields is known only after the content was
 * parsed.
 */
static int check_field(struct ttl *ttl, struct document *doc, const char *name, struct reason *why)
{
    const char *path = name + sizeof DOC_XATTR_PREFIX - 1;
    char root[256]; /* an attribute's name is no longer */
    size_t len = strcspn(path, ".");
    if (len >= sizeof root)
        return 0;
    memcpy(root, path, len);
    root[len] = '\0';
    for (struct dentry *d = doc->links; d; d = d->link_next) {
        const struct ruleset *rs = ruleset_of(ttl, d->parent);
        if (buckets_by(timeseries_of(d->parent), root))
            return reason_set(why, EPERM,
                "%s decides when the collection lets its documents go, and you may not delete this "
                "one",
                root);
        for (unsigned int i = 0; rs && i < rs->nindexes; i++)
            if (reads(rs->indexes[i], path, root))
                return reason_set(why, EPERM,
                    "the index %s expires documents by %s, and you may not delete this one",
                    rs->indexes[i]->name, root);
        if (!rs)
            return reason_set(why, EPERM, "no memory to look at the rules");
    }
    return 0;
}

int guard_check(struct ttl *ttl, struct document *doc, const char *name, const char *value,
    size_t len, int64_t now_ms, struct reason *why)
{
    if (document_is_collection(doc))
        return 0;
    if (strncmp(name, DOC_XATTR_PREFIX, sizeof DOC_XATTR_PREFIX - 1) == 0)
        return check_field(ttl, doc, name, why);
    return check_rule(ttl, doc, name, value, len, now_ms, why);
}
