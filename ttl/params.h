/*
 * params.h - the monitor's parameters: names, limits, and their text.
 *
 * They are MongoDB's names where MongoDB has them. Each is one file in `.ttlfs/parameters`.
 */
#ifndef TTLFS_TTL_PARAMS_H
#define TTLFS_TTL_PARAMS_H

#include "core/reason.h"

#include <bson/bson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ttl_params {
    bool monitor_enabled;       /* ttlMonitorEnabled */
    bool wake_by_deadline;      /* ttlMonitorWake: deadline or interval */
    int64_t sleep_s;            /* ttlMonitorSleepSecs, at least 1 */
    int64_t sub_pass_target_s;  /* ttlMonitorSubPassTargetSecs, 0 for no limit */
    int64_t delete_target_docs; /* ttlIndexDeleteTargetDocs, 0 for no limit */
    int64_t delete_target_ms;   /* ttlIndexDeleteTargetTimeMS, 0 for no limit */
    int64_t clock_jump_s;       /* ttlMonitorClockJumpSecs, 0 for no guard */
    int64_t slow_op_ms;         /* slowOpThresholdMS, 0: no operation is slow */
};

/* The longest text of a value, with its NUL. */
#define PARAM_TEXT_BYTES 32

void ttl_params_init(struct ttl_params *params);

/* The name of parameter `i`, from 0; NULL behind the last. */
const char *ttl_param_name(unsigned int i);

/*
 * Sets a parameter from text, as `echo` writes it: one newline at the end is allowed.
 * @name  one of ttl_param_name
 * Errors: -ENOENT (no such parameter), -EINVAL with the reason; the old value then stays.
 */
int ttl_param_set(
    struct ttl_params *params, const char *name, const char *text, size_t len, struct reason *why);

/* The value as text, without a newline. @ret_text has PARAM_TEXT_BYTES. Errors: -ENOENT. */
int ttl_param_get(const struct ttl_params *params, const char *name, char *ret_text);

/* All parameters as a BSON document for STORE_META, and back (unknown and bad ones are left out).
 */
bool ttl_params_encode(const struct ttl_params *params, bson_t *ret_document);
void ttl_params_decode(struct ttl_params *params, const bson_t *document);

#endif
