/*
 * rules_collection.c - rules on collections: from the text of an attribute to indexes and switches.
 */
#include "ttl/policy.h"
#include "ttl/rules_impl.h"

#include "core/fields.h"
#include "ttl/duration.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

struct rules *rules_of(struct collection *c)
{
    if (!c->rules)
        c->rules = calloc(1, sizeof *c->rules);
    return c->rules;
}

bool rules_is_off(const struct rule_change *change)
{
    return change->len == 3 && memcmp(change->value, "off", 3) == 0;
}

static struct rule_index *find_index(const struct rules *rules, const char *name)
{
    struct rule_index *r = rules->indexes;
    while (r && strcmp(r->name, name) != 0)
        r = r->next;
    return r;
}

/* Puts an index, or NULL for `off`, into force under a name; what was there is buried. */
static int install_index(
    struct ttl *ttl, struct rules *rules, const char *name, struct index *index)
{
    struct rule_index *r = find_index(rules, name);
    if (!r) {
        r = calloc(1, sizeof *r);
        char *copy = strdup(name);
        if (!r || !copy) {
            free(r);
            free(copy);
            return -ENOMEM;
        }
        r->name = copy;
        r->next = rules->indexes;
        rules->indexes = r;
    }
    if (r->index)
        ttl_bury(ttl, r->index);
    r->index = index;
    return 0;
}

/* Do two specs file the same names under the same dates, so that only thresholds differ? */
static bool same_filing(const struct index_spec *a, const struct index_spec *b)
{
    return index_spec_same_keys(a, b) && a->as == b->as && a->jitter_s == b->jitter_s;
}

static void change_in_place(struct ttl *ttl, struct index *index, struct index_spec *spec)
{
    struct index_spec old = index->spec;
    index->spec = *spec;
    index_spec_init(spec);
    index_spec_release(&old);
    index->ttl = index->spec.ttl;
    index->expire_after_ms = (int64_t) index->spec.expire_after_s * 1000;
    ttl_schedule(ttl, index);
}

static int check_new_index(struct ttl *ttl, struct collection *c, const struct index_spec *spec,
    const struct rule_change *change)
{
    const struct ruleset *rs = ruleset_of(ttl, c);
    if (!rs)
        return -ENOMEM;
    for (const struct rule_index *r = c->rules->indexes; r; r = r->next) {
        if (change->flags & XATTR_CREATE && r->index && index_spec_same_keys(&r->index->spec, spec))
            return reason_set(
                change->why, EEXIST, "index %s has the same key and the same filter", r->name);
    }
    unsigned int count = rs->nindexes - (rs->idle != NULL) - (rs->max != NULL);
    /* Three places are kept: for idle, max and documents' own deadlines. */
    if (count >= INDEX_MAX_PER_COLLECTION - 3)
        return reason_set(change->why, EINVAL, "a collection has at most %d indexes",
            INDEX_MAX_PER_COLLECTION - 3);
    return 0;
}

/* Is the value a JSON object, rather than plain seconds? */
static bool is_json(const struct rule_change *change)
{
    size_t i = 0;
    while (i < change->len && strchr(" \t\r\n", change->value[i]) && change->value[i])
        i++;
    return i < change->len && change->value[i] == '{';
}

static int apply_index(struct ttl *ttl, struct collection *c, struct rule_change *change)
{
    const char *name = change->name + sizeof INDEX_XATTR_PREFIX - 1;
    if (!*name)
        return reason_set(change->why, EINVAL, "an index needs a name");
    struct rules *rules = rules_of(c);
    if (!rules)
        return -ENOMEM;
    struct rule_index *r = find_index(rules, name);
    struct index *index = r ? r->index : NULL;
    if (rules_is_off(change)) {
        change->rebuild = true;
        return install_index(ttl, rules, name, NULL);
    }

    /* createIndex and a plain set say all; collMod, and plain seconds, change what is there. */
    bool merge = index && (change->flags & XATTR_REPLACE || !is_json(change));
    struct index_spec spec;
    int err = index_spec_parse(name, strlen(name), change->value, change->len,
        merge ? &index->spec : NULL, &spec, change->why);
    if (!err && !change->loading)
        err = rules_kind_takes_index(rules, &spec, change->why);
    if (!err && !r)
        err = check_new_index(ttl, c, &spec, change);
    if (!err)
        err = index_spec_format(&spec, &change->text);
    if (err)
        goto out;
    if (index && same_filing(&index->spec, &spec)) {
        /* Whether documents' own ttl counts hangs on it. */
        change->rebuild = index->kind == INDEX_TS && index->ttl != spec.ttl;
        /* And so does where time-series collections file their names. */
        change->rebuild |= ttl->ntimeseries && index->kind == INDEX_FIELD;
        change_in_place(ttl, index, &spec);
    } else {
        struct index *made = index_new(name, strlen(name), index_kind_of_key(spec.key), &spec);
        if (!made) {
            err = -ENOMEM;
            goto out;
        }
        made->owner = c;
        err = install_index(ttl, rules, name, made);
        if (err) {
            index_free(made);
            goto out;
        }
        change->rebuild = true;
    }
out:
    index_spec_release(&spec);
    if (err) {
        free(change->text);
        change->text = NULL;
    }
    return err;
}

static bool any_own(const struct ttl *ttl)
{
    for (const struct collection *c = ttl->tree->collections; c; c = c->all_next)
        if (c->own_deadlines && c->own_deadlines->members)
            return true;
    return false;
}

static int apply_span(struct ttl *ttl, struct collection *c, struct rule_span *span,
    enum index_kind kind, struct rule_change *change)
{
    int64_t ms;
    int err = span_parse(change->value, change->len, &ms, change->why);
    if (err)
        return err;
    if (ms > 0 && span->index) {
        /* Documents with a refresh of their own have the idle time in their own deadlines. */
        change->rebuild = kind == INDEX_IDLE && ms < span->index->expire_after_ms && any_own(ttl);
        span->index->expire_after_ms = ms;
        ttl_schedule(ttl, span->index);
        return 0;
    }
    struct index *index = NULL;
    if (ms > 0) {
        struct index_spec spec;
        index_spec_init(&spec);
        spec.ttl = true;
        index = kind == INDEX_IDLE ? index_new("idle", 4, kind, &spec)
                                   : index_new("max", 3, kind, &spec);
        if (!index)
            return -ENOMEM;
        index->expire_after_ms = ms;
        index->owner = c;
    }
    if (span->index)
        ttl_bury(ttl, span->index);
    span->set = true;
    span->index = index;
    change->rebuild = true;
    return 0;
}

static int apply_visibility(struct rules *rules, const struct rule_change *change)
{
    if (rules_is_off(change) || (change->len == 6 && memcmp(change->value, "hidden", 6) == 0))
        rules->until_deleted = SWITCH_NO;
    else if (change->len == 13 && memcmp(change->value, "until-deleted", 13) == 0)
        rules->until_deleted = SWITCH_YES;
    else
        return reason_set(change->why, EINVAL, "visibility is hidden or until-deleted");
    return 0;
}

static int apply_on_expire(struct rules *rules, const struct rule_change *change)
{
    if (rules_is_off(change) || (change->len == 6 && memcmp(change->value, "delete", 6) == 0))
        rules->archive = SWITCH_NO;
    else if (change->len == 7 && memcmp(change->value, "archive", 7) == 0)
        rules->archive = SWITCH_YES;
    else
        return reason_set(change->why, EINVAL, "on-expire is delete or archive");
    return 0;
}

static int apply_jitter(struct rules *rules, struct rule_change *change)
{
    int64_t ms = 0;
    if (!rules_is_off(change)) {
        int err = duration_parse(change->value, change->len, &ms, change->why);
        if (err)
            return err;
    }
    rules->jitter_set = true;
    rules->jitter_ms = ms;
    change->rebuild = true;
    return 0;
}

int rules_apply_collection(struct ttl *ttl, struct collection *c, struct rule_change *change)
{
    const char *key = change->name + sizeof TTL_XATTR_PREFIX - 1;
    struct rules *rules = rules_of(c);
    int err;
    if (!rules)
        return -ENOMEM;
    if (strncmp(change->name, INDEX_XATTR_PREFIX, sizeof INDEX_XATTR_PREFIX - 1) == 0) {
        err = apply_index(ttl, c, change);
    } else if (strcmp(key, "idle") == 0) {
        err = apply_span(ttl, c, &rules->idle, INDEX_IDLE, change);
    } else if (strcmp(key, "max") == 0) {
        err = apply_span(ttl, c, &rules->max, INDEX_MAX, change);
    } else if (strcmp(key, "refresh") == 0) {
        err = refresh_parse(change->value, change->len, &rules->refresh, change->why);
        change->rebuild = true;
    } else if (strcmp(key, "hold") == 0) {
        err = switch_parse(change->value, change->len, &rules->hold, change->why);
        change->rebuild = true;
    } else if (strcmp(key, "visibility") == 0) {
        err = apply_visibility(rules, change);
    } else if (strcmp(key, "jitter") == 0) {
        err = apply_jitter(rules, change);
    } else if (strcmp(key, "on-expire") == 0) {
        err = apply_on_expire(rules, change);
    } else if (strcmp(key, "prune") == 0) {
        err = switch_parse(change->value, change->len, &rules->prune, change->why);
    } else if (rules_is_kind(key)) {
        err = rules_apply_kind(ttl, c, key, change);
    } else {
        err = reason_set(change->why, EINVAL, "%s is no rule of a directory", change->name);
    }
    if (err)
        return err;
    change->forward = true;
    /* What is over may not be so by the new rule, and nobody has looked at its fields. */
    change->rebuild |= ttl->unseen > 0;
    ttl->generation++;
    return 0;
}

void rules_clear_collection(
    struct ttl *ttl, struct collection *c, const char *name, struct rule_change *change)
{
    const char *key = name + sizeof TTL_XATTR_PREFIX - 1;
    struct rules *rules = c->rules;
    change->forward = true;
    change->rebuild = true;
    ttl->generation++;
    if (!rules)
        return;
    if (strncmp(name, INDEX_XATTR_PREFIX, sizeof INDEX_XATTR_PREFIX - 1) == 0) {
        const char *index_name = name + sizeof INDEX_XATTR_PREFIX - 1;
        for (struct rule_index **at = &rules->indexes; *at; at = &(*at)->next) {
            struct rule_index *r = *at;
            if (strcmp(r->name, index_name) != 0)
                continue;
            *at = r->next;
            if (r->index)
                ttl_bury(ttl, r->index);
            free(r->name);
            free(r);
            return;
        }
    } else if (strcmp(key, "idle") == 0 || strcmp(key, "max") == 0) {
        struct rule_span *span = strcmp(key, "idle") == 0 ? &rules->idle : &rules->max;
        if (span->index)
            ttl_bury(ttl, span->index);
        *span = (struct rule_span){0};
    } else if (strcmp(key, "refresh") == 0) {
        rules->refresh = REFRESH_UNSET;
    } else if (strcmp(key, "hold") == 0) {
        rules->hold = SWITCH_UNSET;
    } else if (strcmp(key, "visibility") == 0) {
        rules->until_deleted = SWITCH_UNSET;
    } else if (strcmp(key, "jitter") == 0) {
        rules->jitter_set = false;
        rules->jitter_ms = 0;
    } else if (strcmp(key, "on-expire") == 0) {
        rules->archive = SWITCH_UNSET;
    } else if (strcmp(key, "prune") == 0) {
        rules->prune = SWITCH_UNSET;
    } else if (rules_is_kind(key)) {
        rules_clear_kind(ttl, rules, key);
    }
}
