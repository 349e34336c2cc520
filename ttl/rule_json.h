/*
 * rule_json.h - rules that are written as one JSON object: strict about members, types and numbers.
 */
#ifndef TTLFS_TTL_RULE_JSON_H
#define TTLFS_TTL_RULE_JSON_H

#include "core/reason.h"

#include <bson/bson.h>
#include <stddef.h>
#include <stdint.h>

/* A member that an object may have, and what takes its value over. */
struct rule_member {
    const char *name;
    /* Errors: -EINVAL with the reason, -ENOMEM. */
    int (*read)(void *context, const bson_iter_t *value, struct reason *why);
};

/*
 * Reads a JSON object whose members are all among `members`, each at most once. White space around
 * the object is allowed, nothing else.
 * @text     borrowed, not terminated
 * @context  handed to each `read`
 * Errors: -EINVAL with the reason, -ENOMEM, and what `read` reports. Needs no lock.
 */
int rule_json_read(const char *text, size_t len, const struct rule_member *members, size_t nmembers,
    void *context, struct reason *why);

/*
 * A whole number from `min` to `max`: an int32, an int64, or a double without a fraction.
 * @name  the member's, for the reason
 * Errors: -EINVAL with the reason.
 */
int rule_json_whole(const bson_iter_t *value, const char *name, int64_t min, int64_t max,
    int64_t *ret_number, struct reason *why);

#endif
