/*
 * duration.h - lengths of time as text: `3600`, `500ms`, `90s`, `15m`, `12h`, `30d`, `2w`.
 */
#ifndef TTLFS_TTL_DURATION_H
#define TTLFS_TTL_DURATION_H

#include "core/reason.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Reads whole seconds or a whole number with a unit. No sign, no blank, no fraction; leading
 * zeros are allowed; larger than INT64_MAX milliseconds is refused.
 * @text    borrowed, not terminated
 * @ret_ms  milliseconds, 0 or more
 * Errors: -EINVAL with the reason.
 */
int duration_parse(const char *text, size_t len, int64_t *ret_ms, struct reason *why);

/* The same, but 0 is refused too: what `idle` and `max` take. */
int duration_parse_positive(const char *text, size_t len, int64_t *ret_ms, struct reason *why);

#endif
