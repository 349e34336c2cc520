/*
 * rules_kinds.c - what makes a directory a collection of another kind: user.ttl.capped and
 * user.ttl.timeseries.
 *
 * A kind belongs to the directory that it is set on and is not inherited: what is below is a
 * collection of its own, as MongoDB's are.
 */
#include "ttl/capped.h"
#include "ttl/rules_impl.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <string.h>

bool rules_is_kind(const char *key)
{
    return strcmp(key, "capped") == 0 || strcmp(key, "timeseries") == 0;
}

int rules_kind_takes_index(
    const struct rules *rules, const struct index_spec *spec, struct reason *why)
{
    if (rules->capped && spec->ttl)
        return reason_set(why, EINVAL, "a capped collection takes no TTL index");
    return rules->timeseries ? timeseries_check_index(rules->timeseries, spec, why) : 0;
}

/* Is a TTL index in force, set here or above, that a collection of this kind would not take? */
static int check_indexes(struct ttl *ttl, struct collection *c, const struct timeseries *ts,
    const struct rule_change *change)
{
    const struct ruleset *rs = ruleset_of(ttl, c);
    if (!rs)
        return -ENOMEM;
    for (unsigned int i = 0; i < rs->nindexes; i++) {
        const struct index *index = rs->indexes[i];
        if (!index->ttl || index->kind == INDEX_IDLE || index->kind == INDEX_MAX ||
            index->kind == INDEX_TIMESERIES)
            continue;
        if (!ts)
            return reason_set(change->why, EINVAL,
                "a capped collection takes no TTL index, and %s is in force here", index->name);
        if (timeseries_check_index(ts, &index->spec, NULL) != 0)
            return reason_set(change->why, EINVAL,
                "a time-series collection takes TTL indexes on its time field only, and %s is in "
                "force here",
                index->name);
    }
    return 0;
}

static int apply_capped(struct ttl *ttl, struct collection *c, struct rule_change *change)
{
    struct rules *rules = c->rules;
    struct capped_spec spec;
    if (rules_is_off(change)) {
        change->rebuild = true;
        rules_clear_kind(ttl, rules, "capped");
        return 0;
    }
    int err = capped_spec_parse(change->value, change->len, &spec, change->why);
    if (!err && rules->timeseries)
        err = reason_set(change->why, EINVAL, "a time-series collection cannot be capped");
    if (!err && !change->loading)
        err = check_indexes(ttl, c, NULL, change);
    if (err)
        return err;
    if (!rules->capped) {
        struct index_spec none;
        index_spec_init(&none);
        rules->capped = index_new("capped", strlen("capped"), INDEX_CAPPED, &none);
        if (!rules->capped)
            return -ENOMEM;
        rules->capped->owner = c;
        change->rebuild = true;
    }
    rules->capped->cap.max_documents = (uint64_t) spec.max_documents;
    rules->capped->cap.max_bytes = (uint64_t) spec.max_bytes;
    return 0;
}

static bool same_field(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool has_ttl_indexes(struct ttl *ttl, struct collection *c)
{
    const struct ruleset *rs = ruleset_of(ttl, c);
    for (unsigned int i = 0; rs && i < rs->nindexes; i++)
        if (rs->indexes[i]->kind == INDEX_FIELD && rs->indexes[i]->ttl)
            return true;
    return !rs;
}

/* What may change once it is one: E, and the granularity to a coarser one. */
static int change_timeseries(struct timeseries *ts, struct collection *c,
    const struct ts_spec *spec, struct rule_change *change)
{
    if (!same_field(ts->spec.time_field, spec->time_field) ||
        !same_field(ts->spec.meta_field, spec->meta_field))
        return reason_set(change->why, EINVAL,
            "the time field and the meta field of a time-series collection cannot be changed");
    if (spec->granularity < ts->spec.granularity)
        return reason_set(
            change->why, EINVAL, "the granularity can only be changed to a coarser one");
    ts->spec.granularity = spec->granularity;
    /* Keys hang on both E where there are other TTL indexes, and on this one being there at all. */
    change->rebuild =
        spec->expire_after_s != ts->spec.expire_after_s &&
        (has_ttl_indexes(ts->ttl, c) || spec->expire_after_s < 0 || ts->spec.expire_after_s < 0);
    timeseries_set_expire_after(ts, spec->expire_after_s);
    return 0;
}

static int make_timeseries(
    struct ttl *ttl, struct collection *c, struct ts_spec *spec, struct rule_change *change)
{
    int err = 0;
    if (c->rules->capped)
        return reason_set(
            change->why, EINVAL, "a capped collection cannot be a time-series collection");
    if (c->names.count && !change->loading)
        return reason_set(change->why, EINVAL, "timeseries can only be set on an empty directory");
    struct timeseries *ts = timeseries_new(ttl, c, spec);
    if (!ts)
        return -ENOMEM;
    if (!change->loading)
        err = check_indexes(ttl, c, ts, change);
    if (err)
        timeseries_free(ts);
    else
        c->rules->timeseries = ts;
    return err;
}

static int apply_timeseries(struct ttl *ttl, struct collection *c, struct rule_change *change)
{
    struct rules *rules = c->rules;
    struct ts_spec spec;
    if (rules_is_off(change)) {
        int err = rules_may_end(&c->doc, TTL_XATTR_PREFIX "timeseries", change->why);
        if (!err)
            rules_clear_kind(ttl, rules, "timeseries");
        return err;
    }
    int err = ts_spec_parse(change->value, change->len, &spec, change->why);
    if (!err && rules->timeseries)
        err = change_timeseries(rules->timeseries, c, &spec, change);
    else if (!err)
        err = make_timeseries(ttl, c, &spec, change);
    ts_spec_release(&spec);
    return err;
}

int rules_apply_kind(
    struct ttl *ttl, struct collection *c, const char *key, struct rule_change *change)
{
    if (strcmp(key, "capped") == 0)
        return apply_capped(ttl, c, change);
    return apply_timeseries(ttl, c, change);
}

void rules_clear_kind(struct ttl *ttl, struct rules *rules, const char *key)
{
    if (rules->capped && (!key || strcmp(key, "capped") == 0)) {
        ttl_bury(ttl, rules->capped);
        rules->capped = NULL;
    }
    if (rules->timeseries && (!key || strcmp(key, "timeseries") == 0)) {
        timeseries_free(rules->timeseries);
        rules->timeseries = NULL;
    }
}

int rules_may_end(const struct document *doc, const char *name, struct reason *why)
{
    if (!document_is_collection(doc) || strcmp(name, TTL_XATTR_PREFIX "timeseries") != 0)
        return 0;
    const struct collection *c = (const struct collection *) doc;
    if (timeseries_of(c) && c->names.count)
        return reason_set(
            why, EINVAL, "a time-series collection stays one until its directory is empty");
    return 0;
}
