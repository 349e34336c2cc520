/*
 * rules_impl.h - what ttl/rules*.c share.
 */
#ifndef TTLFS_TTL_RULES_IMPL_H
#define TTLFS_TTL_RULES_IMPL_H

#include "ttl/rules.h"

/* One setxattr on its way through. */
struct rule_change {
    const char *name; /* whole attribute name */
    const char *value;
    size_t len;
    int flags; /* XATTR_CREATE, XATTR_REPLACE or 0 */
    int64_t now_ms;
    bool forward; /* out: deadlines may have come forward */
    bool rebuild; /* out: names below belong into other indexes than before */
    char *text;   /* out: what is to be kept as the attribute's value, malloc'd; NULL: as given */
    struct reason *why;
    bool loading; /* it was accepted before, maybe under other rules above */
};

/* Takes a value over into c->rules; the attribute itself is the caller's. */
int rules_apply_collection(struct ttl *ttl, struct collection *c, struct rule_change *change);

/* Ends a collection's own rule with this attribute name. */
void rules_clear_collection(
    struct ttl *ttl, struct collection *c, const char *name, struct rule_change *change);

/* The same two for user.ttl.capped and user.ttl.timeseries; `key` is the last word, NULL is both. */
bool rules_is_kind(const char *key);
int rules_apply_kind(
    struct ttl *ttl, struct collection *c, const char *key, struct rule_change *change);
void rules_clear_kind(struct ttl *ttl, struct rules *rules, const char *key);

/* May this index be set in a collection of this kind? Errors: -EINVAL with the reason. */
int rules_kind_takes_index(
    const struct rules *rules, const struct index_spec *spec, struct reason *why);

/* Is the value `off`? */
bool rules_is_off(const struct rule_change *change);

/* c->rules, made when missing. NULL: no memory. */
struct rules *rules_of(struct collection *c);

#endif
