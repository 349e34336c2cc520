#include "ttl/rules.h"

#include "core/dates.h"
#include "core/fields.h"
#include "ttl/deadline.h"
#include "ttl/document_fields.h"
#include "ttl/filing.h"
#include "ttl/policy.h"
#include "ttl/rules_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

static bool starts_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

bool rules_own(const char *name)
{
    return starts_with(name, TTL_XATTR_PREFIX) || starts_with(name, DOC_XATTR_PREFIX);
}

static bool is_virtual(const char *name)
{
    static const char *const keys[] = {
        "deadline", "remaining", "created", "accessed", "reason", "error"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(name + sizeof TTL_XATTR_PREFIX - 1, keys[i]) == 0)
            return true;
    return false;
}

void rules_note_error(struct document *doc, const struct reason *why)
{
    char *text = strdup(why->text), **place = NULL;
    if (document_is_collection(doc)) {
        struct rules *rules = rules_of(document_collection(doc));
        place = rules ? &rules->error : NULL;
    } else {
        struct policy *p = policy_of(doc);
        place = p ? &p->error : NULL;
    }
    if (!place || !text) {
        free(text);
        return;
    }
    free(*place);
    *place = text;
}

void rules_free(struct ttl *ttl, struct document *doc)
{
    policy_free(doc);
    if (!document_is_collection(doc))
        return;
    struct collection *c = document_collection(doc);
    ruleset_drop(c);
    if (c->own_deadlines)
        ttl_bury(ttl, c->own_deadlines);
    c->own_deadlines = NULL;
    struct rules *rules = c->rules;
    c->rules = NULL;
    if (rules) {
        struct rule_span *spans[] = {&rules->idle, &rules->max};
        for (int i = 0; i < 2; i++)
            if (spans[i]->index)
                ttl_bury(ttl, spans[i]->index);
        while (rules->indexes) {
            struct rule_index *r = rules->indexes;
            rules->indexes = r->next;
            if (r->index)
                ttl_bury(ttl, r->index);
            free(r->name);
            free(r);
        }
        rules_clear_kind(ttl, rules, NULL);
        free(rules->error);
        free(rules);
        ttl->generation++;
    }
    ttl_reap(ttl);
}

int rules_load(struct ttl *ttl, struct document *doc)
{
    /* A rule that makes no sense to this version must not keep all the others from being mounted.
     */
    if (!document_is_collection(doc)) {
        int err = policy_reload(doc);
        return err == -EINVAL ? 0 : err;
    }
    for (const struct xattr *x = doc->xattrs; x; x = x->next) {
        if (!starts_with(x->bytes, TTL_XATTR_PREFIX))
            continue;
        struct rule_change change = {
            .name = x->bytes, .value = xattr_value(x), .len = x->value_len, .loading = true};
        int err = rules_apply_collection(ttl, document_collection(doc), &change);
        free(change.text);
        if (err && err != -EINVAL)
            return err;
    }
    return 0;
}

static int check_flags(const struct document *doc, const struct rule_change *change)
{
    bool there = document_xattr(doc, change->name) != NULL;
    if (change->flags & XATTR_CREATE && there)
        return reason_set(change->why, EEXIST, "%s is set already", change->name);
    if (change->flags & XATTR_REPLACE && !there)
        return reason_set(change->why, ENODATA, "%s is not set here", change->name);
    return 0;
}

static int set_on_collection(struct ttl *ttl, struct collection *c, struct rule_change *change)
{
    struct xattr *x = NULL;
    int err = check_flags(&c->doc, change);
    if (!err)
        err = journal_will_change(ttl->tree, &c->doc);
    if (err)
        return err;
    err = rules_apply_collection(ttl, c, change);
    if (err)
        return err;
    const char *text = change->text ? change->text : change->value;
    x = xattr_new(change->name, text, change->text ? strlen(change->text) : change->len);
    free(change->text);
    change->text = NULL;
    if (!x)
        return -ENOMEM;
    document_xattr_put(&c->doc, x);
    if (change->rebuild)
        err = filing_rebuild_for(ttl, c, change->now_ms, change->name);
    ttl_reap(ttl);
    return err;
}

/* Checks a value for a document's rule; for expireAt, the instant that is to be kept. */
static int check_policy_value(
    const struct document *doc, const struct rule_change *change, int64_t *ret_expire_at_ms)
{
    const char *key = change->name + sizeof TTL_XATTR_PREFIX - 1;
    int64_t ms;
    enum ttl_refresh refresh;
    enum ttl_switch hold;
    if (strcmp(key, "seconds") == 0)
        return seconds_parse(change->value, change->len, &ms, change->why);
    if (strcmp(key, "idle") == 0 || strcmp(key, "max") == 0)
        return span_parse(change->value, change->len, &ms, change->why);
    if (strcmp(key, "refresh") == 0)
        return refresh_parse(change->value, change->len, &refresh, change->why);
    if (strcmp(key, "hold") == 0)
        return switch_parse(change->value, change->len, &hold, change->why);
    if (strcmp(key, "expireAt") == 0)
        return expire_at_parse(change->value, change->len, change->now_ms,
            doc->policy ? doc->policy->expire_at_ms : DATE_NEVER_MS, ret_expire_at_ms, change->why);
    return reason_set(change->why, EINVAL, "%s is no rule of a file", change->name);
}

/* Files a document after its rules changed, and sees whether its deadline came forward. */
static int refile_document(
    struct ttl *ttl, struct document *doc, int64_t before_ms, struct rule_change *change)
{
    int err = filing_update_document(ttl, doc, NULL);
    if (ttl_document_deadline(ttl, doc).at_ms < before_ms)
        change->forward = true;
    return err;
}

/* As RFC 3339, or as seconds since 1970 where that ends: what expire_at_parse reads back. */
static void format_instant(int64_t at_ms, char text[DATE_TEXT_BYTES])
{
    int64_t again_ms;
    date_format(at_ms, text);
    if (date_parse(text, strlen(text), &again_ms) != 0)
        snprintf(text, DATE_TEXT_BYTES, "%" PRId64, at_ms / 1000 + (at_ms % 1000 > 0));
}

static int set_on_document(struct ttl *ttl, struct document *doc, struct rule_change *change)
{
    int64_t expire_at_ms = 0, before_ms = ttl_document_deadline(ttl, doc).at_ms;
    char date[DATE_TEXT_BYTES];
    const char *text = change->value;
    size_t len = change->len;
    int err = check_policy_value(doc, change, &expire_at_ms);
    if (!err)
        err = check_flags(doc, change);
    if (!err)
        err = journal_will_change(ttl->tree, doc);
    if (err)
        return err;
    if (strcmp(change->name, TTL_XATTR_PREFIX "expireAt") == 0) {
        format_instant(expire_at_ms, date);
        text = date;
        len = strlen(date);
    }
    if (text == date && expire_at_ms == DATE_NEVER_MS) {
        document_xattr_remove(doc, change->name);
    } else {
        struct xattr *x = xattr_new(change->name, text, len);
        if (!x)
            return -ENOMEM;
        document_xattr_put(doc, x);
    }
    err = policy_reload(doc);
    return err ? err : refile_document(ttl, doc, before_ms, change);
}

/* Looks at the document's fields again because an attribute field changed. Lets go. */
static int look_again(struct ttl *ttl, struct document *doc, struct rule_change *change)
{
    doc->flags |= DOCUMENT_FIELDS_STALE;
    if (!filing_wants_fields(ttl, doc))
        return 0;
    int looked = filing_look(ttl, doc, change->now_ms);
    change->forward |= looked > 0;
    return looked < 0 ? looked : 0;
}

static int set_field(struct ttl *ttl, struct document *doc, struct rule_change *change)
{
    bson_t value, probe = BSON_INITIALIZER;
    int err = attribute_field_parse(change->value, change->len, &value, change->why);
    if (!err) {
        err = fields_add(&probe, change->name + sizeof DOC_XATTR_PREFIX - 1, &value);
        if (err == -EINVAL)
            reason_set(change->why, EINVAL, "%s is no path of a field", change->name);
    }
    bson_destroy(&value);
    bson_destroy(&probe);
    if (!err)
        err = check_flags(doc, change);
    if (!err)
        err = journal_will_change(ttl->tree, doc);
    if (err)
        return err;
    struct xattr *x = xattr_new(change->name, change->value, change->len);
    if (!x)
        return -ENOMEM;
    document_xattr_put(doc, x);
    return look_again(ttl, doc, change);
}

int rules_set(struct ttl *ttl, struct document *doc, const char *name, const char *value,
    size_t len, int flags, int64_t now_ms, bool *ret_forward, struct reason *why)
{
    struct rule_change change = {
        .name = name, .value = value, .len = len, .flags = flags, .now_ms = now_ms, .why = why};
    int err;
    if (starts_with(name, DOC_XATTR_PREFIX))
        err = set_field(ttl, doc, &change);
    else if (is_virtual(name))
        err = reason_set(why, EPERM, "%s can only be read", name);
    else if (document_is_collection(doc))
        err = set_on_collection(ttl, document_collection(doc), &change);
    else
        err = set_on_document(ttl, doc, &change);
    *ret_forward = change.forward;
    return err;
}

int rules_remove(
    struct ttl *ttl, struct document *doc, const char *name, int64_t now_ms, bool *ret_forward)
{
    struct rule_change change = {.name = name, .now_ms = now_ms};
    *ret_forward = false;
    if (starts_with(name, TTL_XATTR_PREFIX) && is_virtual(name))
        return -EPERM;
    if (!document_xattr(doc, name))
        return -ENODATA;
    if (rules_may_end(doc, name, NULL) != 0)
        return -EINVAL;
    int64_t before_ms = ttl_document_deadline(ttl, doc).at_ms;
    int err = journal_will_change(ttl->tree, doc);
    if (err)
        return err;
    document_xattr_remove(doc, name);
    if (starts_with(name, DOC_XATTR_PREFIX)) {
        err = look_again(ttl, doc, &change);
    } else if (document_is_collection(doc)) {
        struct collection *c = document_collection(doc);
        rules_clear_collection(ttl, c, name, &change);
        err = filing_rebuild_for(ttl, c, now_ms, name);
        ttl_reap(ttl);
    } else {
        err = policy_reload(doc);
        if (!err)
            err = refile_document(ttl, doc, before_ms, &change);
    }
    *ret_forward = change.forward;
    return err;
}

int rules_inherit_from_target(
    struct ttl *ttl, struct document *source, const struct document *target)
{
    int err = journal_will_change(ttl->tree, source);
    if (err)
        return err;
    struct xattr *added = NULL;
    for (const struct xattr *x = target->xattrs; x; x = x->next) {
        if (!starts_with(x->bytes, TTL_XATTR_PREFIX) || document_xattr(source, x->bytes))
            continue;
        struct xattr *copy = xattr_new(x->bytes, xattr_value(x), x->value_len);
        if (!copy) {
            while (added) {
                struct xattr *next = added->next;
                free(added);
                added = next;
            }
            return -ENOMEM;
        }
        copy->next = added;
        added = copy;
    }
    bool any = added != NULL;
    while (added) {
        struct xattr *next = added->next;
        added->next = NULL;
        document_xattr_put(source, added);
        added = next;
    }
    if (target->created_ms < source->created_ms)
        source->created_ms = target->created_ms;
    err = any ? policy_reload(source) : 0;
    /* Its other names, too: no entry may be filed later than the truth. */
    return err ? err : filing_update_document(ttl, source, NULL);
}
