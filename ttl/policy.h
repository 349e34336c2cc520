/*
 * policy.h - the rules of a single document: user.ttl.seconds, expireAt, idle, max, refresh, hold.
 *
 * Parsing of values lives here; rules.c decides what may be set where.
 */
#ifndef TTLFS_TTL_POLICY_H
#define TTLFS_TTL_POLICY_H

#include "core/reason.h"
#include "ttl/rules.h"

/* `access`, `write`, `extend`, or `off` (which means the default). Errors: -EINVAL. */
int refresh_parse(const char *text, size_t len, enum ttl_refresh *ret_refresh, struct reason *why);

/* `yes`, `no`, or `off` (which means no). Errors: -EINVAL. */
int switch_parse(const char *text, size_t len, enum ttl_switch *ret_switch, struct reason *why);

/* A duration above 0, or `off` (RULE_OFF). Errors: -EINVAL. */
int span_parse(const char *text, size_t len, int64_t *ret_ms, struct reason *why);

/* user.ttl.seconds: a duration above 0, or -1 (RULE_OFF: never). Errors: -EINVAL. */
int seconds_parse(const char *text, size_t len, int64_t *ret_ms, struct reason *why);

/*
 * user.ttl.expireAt: RFC 3339, epoch seconds, +duration, or `never` (DATE_NEVER_MS), behind an
 * optional condition nx: xx: gt: lt: (Redis's EXPIRE options).
 * @current_ms  what is set now, DATE_NEVER_MS for none
 * Errors: -EINVAL, -ECANCELED (the condition does not hold).
 */
int expire_at_parse(const char *text, size_t len, int64_t now_ms, int64_t current_ms,
    int64_t *ret_ms, struct reason *why);

/*
 * Makes doc->policy from the document's attributes; NULL when it has no rules. The error text of
 * an earlier policy is kept. Expects the tree's lock.
 * Errors: -ENOMEM, -EINVAL (an attribute that does not parse is left out).
 */
int policy_reload(struct document *doc);

/*
 * What a policy would be after setxattr, or removexattr when `value` is NULL, of one attribute.
 * @ret_policy  without the error text
 * Errors: -EINVAL (no rule of a file, or no good value), -ECANCELED (a condition does not hold).
 */
int policy_changed(const struct policy *from, const char *name, const char *value, size_t len,
    int64_t now_ms, struct policy *ret_policy);

/* Frees doc->policy. */
void policy_free(struct document *doc);

/* doc->policy, made when missing. NULL: no memory. */
struct policy *policy_of(struct document *doc);

#endif
