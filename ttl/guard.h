/*
 * guard.h - may somebody who could not delete a document change what it says about its end?
 *
 * Whoever may write a file may set its rules, but never so as to end what he could not delete. What
 * he could delete is decided by who knows users (fs/access.h); here is decided which changes could
 * end a document earlier. Nothing here looks at today's deadline alone: a shorter idle time counts
 * although a date ends the document before, and taking a hold away counts although nothing is due
 * behind it, for both may change later.
 */
#ifndef TTLFS_TTL_GUARD_H
#define TTLFS_TTL_GUARD_H

#include "core/reason.h"
#include "ttl/rules.h"

#include <stdbool.h>
#include <stdint.h>

/* What is in force for one name, each rule for itself. */
struct guard_terms {
    bool held;
    int64_t ts_ms; /* end by `_ts` rules, a content `ttl`, user.ttl.seconds; DATE_NEVER_MS: none */
    int64_t expire_at_ms; /* DATE_NEVER_MS: none */
    int64_t idle_ms;      /* INT64_MAX: none */
    int64_t max_ms;       /* INT64_MAX: none */
    enum ttl_refresh refresh;
    int64_t idle_from_ms; /* where the idle time counts from today; DATE_NEVER_MS: no matter */
};

/* Is any of the rules after the change stricter than before? Pure. */
bool guard_shortens(const struct guard_terms *before, const struct guard_terms *after);

/*
 * Checks setxattr, or removexattr when `value` is NULL, of a `user.ttl.*` or `user.doc.*` attribute of
 * a document by a caller who could not delete all of its names. Expects the lock. Changes nothing.
 * What does not parse is let through: rules_set refuses it in better words.
 * Errors: -EPERM with the reason.
 */
int guard_check(struct ttl *ttl, struct document *doc, const char *name, const char *value,
    size_t len, int64_t now_ms, struct reason *why);

#endif
