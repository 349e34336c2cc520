/*
 * dates.h - dates as milliseconds since 1970-01-01T00:00:00Z, and as RFC 3339 text.
 *
 * Dates are signed 64-bit milliseconds as in BSON. Arithmetic on them saturates: a deadline that
 * overflows is a deadline that is never (or always) reached, not one in the wrong century.
 */
#ifndef TTLFS_CORE_DATES_H
#define TTLFS_CORE_DATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "-292275055-05-16T16:47:04.192Z" and its NUL fit. */
#define DATE_TEXT_BYTES 40

/* a + b and a - b, clamped to int64. */
int64_t date_add_saturated(int64_t a, int64_t b);
int64_t date_subtract_saturated(int64_t a, int64_t b);
/* a * b, clamped to int64. */
int64_t date_multiply_saturated(int64_t a, int64_t b);

/*
 * Reads an RFC 3339 date-time (section 5.6), also with a lower-case t or z, a blank for the T, and
 * 1 to 9 digits of fraction, of which the first three count (cut towards the past). Seconds of 60
 * are read as the first second of the next minute. A plain date ("2026-01-01") is midnight UTC.
 * Years 0000 to 9999. The offset may be Z, ±hh:mm or ±hhmm; without one the time is UTC (ISO 8601
 * strings in documents often lack it). Proleptic Gregorian calendar (Hinnant's days_from_civil).
 * @text  borrowed, not terminated
 * Returns 0 or -EINVAL (nothing may stand before or behind it).
 */
int date_parse(const char *text, size_t len, int64_t *ret_ms);

/*
 * Reads a length of time: whole seconds (`3600`) or a whole number with one of the units ms s m h
 * d w (`90m`). No sign, no blank, no fraction; leading zeros are allowed. It stands here because
 * index specs take durations too; ttl/duration.h is the same with reasons in words.
 * @text    borrowed, not terminated
 * @ret_ms  milliseconds, 0 or more
 * Errors: -EINVAL (no such thing), -ERANGE (one, but more than INT64_MAX milliseconds); ret_ms is
 * then untouched.
 */
int date_parse_duration(const char *text, size_t len, int64_t *ret_ms);

/*
 * Writes "2026-01-01T00:00:00.000Z". Years beyond 9999 or before 0000 get a sign and as many
 * digits as they need, as ISO 8601 expands them.
 * @ret_text  at least DATE_TEXT_BYTES
 */
void date_format(int64_t ms, char *ret_text);

#endif
