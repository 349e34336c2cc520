/*
 * rules_get.c - reading rules back: the ones in force, and the virtual figures.
 */
#include "core/dates.h"
#include "ttl/deadline.h"
#include "ttl/rules_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rules that a file has from its collection when it has none itself. */
static bool files_inherit(const char *key)
{
    return strcmp(key, "idle") == 0 || strcmp(key, "max") == 0 || strcmp(key, "refresh") == 0 ||
           strcmp(key, "hold") == 0;
}

/* The attribute that says what is in force: the nearest on the way up. */
static const struct xattr *rule_in_force(const struct document *doc, const char *name)
{
    const struct xattr *x = document_xattr(doc, name);
    /* What kind of collection a directory is concerns that directory only. */
    if (x || rules_is_kind(name + sizeof TTL_XATTR_PREFIX - 1))
        return x;
    const struct collection *c = NULL;
    if (document_is_collection(doc))
        c = collection_parent((const struct collection *) doc);
    else if (doc->links && files_inherit(name + sizeof TTL_XATTR_PREFIX - 1))
        c = doc->links->parent;
    for (; c; c = collection_parent(c)) {
        x = document_xattr(&c->doc, name);
        if (!x)
            continue;
        /* Switched off above: nothing is in force here. */
        if (x->value_len == 3 && memcmp(xattr_value(x), "off", 3) == 0)
            return NULL;
        return x;
    }
    return NULL;
}

static const char *error_of(const struct document *doc)
{
    if (document_is_collection(doc)) {
        const struct collection *c = (const struct collection *) doc;
        return c->rules ? c->rules->error : NULL;
    }
    return doc->policy ? doc->policy->error : NULL;
}

/* A figure into `text`; returns false when the key is no virtual figure. */
static bool virtual_figure(struct ttl *ttl, struct document *doc, const char *key, int64_t now_ms,
    char text[TTL_REASON_BYTES])
{
    if (strcmp(key, "created") == 0) {
        date_format(doc->created_ms, text);
        return true;
    }
    if (strcmp(key, "accessed") == 0) {
        date_format(doc->accessed_ms, text);
        return true;
    }
    bool deadline = strcmp(key, "deadline") == 0, remaining = strcmp(key, "remaining") == 0;
    if (!deadline && !remaining && strcmp(key, "reason") != 0)
        return false;
    struct ttl_deadline d = ttl_document_deadline(ttl, doc);
    if (!deadline && !remaining) {
        ttl_reason_text(&d, text);
    } else if (d.at_ms == DATE_NEVER_MS) {
        snprintf(text, TTL_REASON_BYTES, "never");
    } else if (deadline) {
        date_format(d.at_ms, text);
    } else {
        int64_t left_ms = date_subtract_saturated(d.at_ms, now_ms);
        left_ms = left_ms < 0 ? 0 : left_ms;
        snprintf(
            text, TTL_REASON_BYTES, "%" PRId64 ".%03d", left_ms / 1000, (int) (left_ms % 1000));
    }
    return true;
}

int rules_get(struct ttl *ttl, struct document *doc, const char *name, int64_t now_ms,
    char **ret_text, size_t *ret_len)
{
    const char *key = name + sizeof TTL_XATTR_PREFIX - 1, *text;
    char figure[TTL_REASON_BYTES];
    size_t len;
    if (strcmp(key, "error") == 0) {
        text = error_of(doc);
        len = text ? strlen(text) : 0;
    } else if (virtual_figure(ttl, doc, key, now_ms, figure)) {
        text = figure;
        len = strlen(figure);
    } else {
        const struct xattr *x = rule_in_force(doc, name);
        text = x ? xattr_value(x) : NULL;
        len = x ? x->value_len : 0;
    }
    if (!text)
        return -ENODATA;
    char *copy = malloc(len + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, text, len);
    copy[len] = '\0';
    *ret_text = copy;
    *ret_len = len;
    return 0;
}
