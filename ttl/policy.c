#include "ttl/policy.h"

#include "core/dates.h"
#include "ttl/duration.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

int refresh_parse(const char *text, size_t len, enum ttl_refresh *ret_refresh, struct reason *why)
{
    if (is_word(text, len, "access") || is_word(text, len, "off"))
        *ret_refresh = REFRESH_ACCESS;
    else if (is_word(text, len, "write"))
        *ret_refresh = REFRESH_WRITE;
    else if (is_word(text, len, "extend"))
        *ret_refresh = REFRESH_EXTEND;
    else
        return reason_set(why, EINVAL, "refresh is access, write or extend");
    return 0;
}

int switch_parse(const char *text, size_t len, enum ttl_switch *ret_switch, struct reason *why)
{
    if (is_word(text, len, "yes"))
        *ret_switch = SWITCH_YES;
    else if (is_word(text, len, "no") || is_word(text, len, "off"))
        *ret_switch = SWITCH_NO;
    else
        return reason_set(why, EINVAL, "the value is yes or no");
    return 0;
}

int span_parse(const char *text, size_t len, int64_t *ret_ms, struct reason *why)
{
    if (is_word(text, len, "off")) {
        *ret_ms = RULE_OFF;
        return 0;
    }
    return duration_parse_positive(text, len, ret_ms, why);
}

int seconds_parse(const char *text, size_t len, int64_t *ret_ms, struct reason *why)
{
    if (is_word(text, len, "-1")) {
        *ret_ms = RULE_OFF;
        return 0;
    }
    return duration_parse_positive(text, len, ret_ms, why);
}

/* Seconds since 1970, with a sign: what `date +%s` prints. */
static bool epoch_parse(const char *text, size_t len, int64_t *ret_ms)
{
    bool negative = len && text[0] == '-';
    int64_t seconds = 0;
    size_t i = negative;
    if (len == i || len > 18)
        return false;
    for (; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        seconds = seconds * 10 + (text[i] - '0');
    }
    *ret_ms = date_multiply_saturated(negative ? -seconds : seconds, 1000);
    return true;
}

enum condition { ALWAYS, IF_NONE, IF_ANY, IF_LATER, IF_EARLIER };

static enum condition condition_cut(const char **text, size_t *len)
{
    static const struct {
        const char prefix[4];
        enum condition condition;
    } prefixes[] = {{"nx:", IF_NONE}, {"xx:", IF_ANY}, {"gt:", IF_LATER}, {"lt:", IF_EARLIER}};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (*len >= 3 && memcmp(*text, prefixes[i].prefix, 3) == 0) {
            *text += 3;
            *len -= 3;
            return prefixes[i].condition;
        }
    }
    return ALWAYS;
}

/* None counts as never, and never is DATE_NEVER_MS: plain comparisons are right. */
static bool condition_holds(enum condition condition, int64_t current_ms, int64_t new_ms)
{
    switch (condition) {
    case IF_NONE:
        return current_ms == DATE_NEVER_MS;
    case IF_ANY:
        return current_ms != DATE_NEVER_MS;
    case IF_LATER:
        return new_ms > current_ms;
    case IF_EARLIER:
        return new_ms < current_ms;
    default:
        return true;
    }
}

int expire_at_parse(const char *text, size_t len, int64_t now_ms, int64_t current_ms,
    int64_t *ret_ms, struct reason *why)
{
    enum condition condition = condition_cut(&text, &len);
    int64_t at_ms;
    if (is_word(text, len, "never")) {
        at_ms = DATE_NEVER_MS;
    } else if (len && text[0] == '+') {
        int err = duration_parse(text + 1, len - 1, &at_ms, why);
        if (err)
            return err;
        at_ms = date_add_saturated(now_ms, at_ms);
    } else if (!epoch_parse(text, len, &at_ms) && date_parse(text, len, &at_ms) != 0) {
        return reason_set(
            why, EINVAL, "expireAt is an RFC 3339 date, seconds since 1970, +DURATION or never");
    }
    if (!condition_holds(condition, current_ms, at_ms))
        return reason_set(why, ECANCELED, "the condition does not hold");
    *ret_ms = at_ms;
    return 0;
}

struct policy *policy_of(struct document *doc)
{
    if (!doc->policy) {
        doc->policy = calloc(1, sizeof *doc->policy);
        if (doc->policy)
            doc->policy->expire_at_ms = DATE_NEVER_MS;
    }
    return doc->policy;
}

void policy_free(struct document *doc)
{
    if (!doc->policy)
        return;
    free(doc->policy->error);
    free(doc->policy);
    doc->policy = NULL;
}

static int parse_one(
    struct policy *p, const char *name, const char *text, size_t len, int64_t now_ms)
{
    const char *key = name + sizeof TTL_XATTR_PREFIX - 1;
    if (strcmp(key, "seconds") == 0)
        return seconds_parse(text, len, &p->seconds_ms, NULL);
    if (strcmp(key, "expireAt") == 0)
        return expire_at_parse(text, len, now_ms, p->expire_at_ms, &p->expire_at_ms, NULL);
    if (strcmp(key, "idle") == 0)
        return span_parse(text, len, &p->idle_ms, NULL);
    if (strcmp(key, "max") == 0)
        return span_parse(text, len, &p->max_ms, NULL);
    if (strcmp(key, "refresh") == 0)
        return refresh_parse(text, len, &p->refresh, NULL);
    if (strcmp(key, "hold") == 0)
        return switch_parse(text, len, &p->hold, NULL);
    return -EINVAL;
}

/* Forgets one rule. Errors: -EINVAL when there is none of that name. */
static int clear_one(struct policy *p, const char *name)
{
    const char *key = name + sizeof TTL_XATTR_PREFIX - 1;
    if (strcmp(key, "seconds") == 0)
        p->seconds_ms = 0;
    else if (strcmp(key, "expireAt") == 0)
        p->expire_at_ms = DATE_NEVER_MS;
    else if (strcmp(key, "idle") == 0)
        p->idle_ms = 0;
    else if (strcmp(key, "max") == 0)
        p->max_ms = 0;
    else if (strcmp(key, "refresh") == 0)
        p->refresh = REFRESH_UNSET;
    else if (strcmp(key, "hold") == 0)
        p->hold = SWITCH_UNSET;
    else
        return -EINVAL;
    return 0;
}

int policy_changed(const struct policy *from, const char *name, const char *value, size_t len,
    int64_t now_ms, struct policy *ret_policy)
{
    *ret_policy = *from;
    ret_policy->error = NULL;
    return value ? parse_one(ret_policy, name, value, len, now_ms) : clear_one(ret_policy, name);
}

int policy_reload(struct document *doc)
{
    struct policy p = {.expire_at_ms = DATE_NEVER_MS};
    bool any = false;
    int err = 0;
    for (const struct xattr *x = doc->xattrs; x; x = x->next) {
        if (strncmp(x->bytes, TTL_XATTR_PREFIX, sizeof TTL_XATTR_PREFIX - 1) != 0)
            continue;
        int one = parse_one(&p, x->bytes, xattr_value(x), x->value_len, 0);
        any |= one == 0;
        err = err ? err : one;
    }
    if (!any && (!doc->policy || !doc->policy->error)) {
        policy_free(doc);
        return err;
    }
    struct policy *place = policy_of(doc);
    if (!place)
        return -ENOMEM;
    p.error = place->error;
    *place = p;
    return err;
}
