/*
 * number.h - BSON's four kinds of number, compared and converted without losing anything.
 */
#ifndef TTLFS_CORE_NUMBER_H
#define TTLFS_CORE_NUMBER_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stdint.h>

/* Is the value an int32, int64, double or decimal128? */
bool number_is(const bson_iter_t *value);

/* Is it a number, and not a number? */
bool number_is_nan(const bson_iter_t *value);

/* Is it a number, and zero? Does it equal a small whole number? */
bool number_is_zero(const bson_iter_t *value);
bool number_equals(const bson_iter_t *value, int whole);

/*
 * Compares two numbers exactly, whatever their types. As in MongoDB's order, all NaNs are equal
 * and less than everything else, and zero has no sign.
 * Returns less than, equal to or greater than 0.
 */
int number_compare(const bson_iter_t *a, const bson_iter_t *b);

/*
 * A number of seconds or milliseconds as whole milliseconds, clamped to int64. Doubles are cut
 * towards minus infinity; a decimal128 must be exact.
 * @ms_per_unit  1000 for seconds, 1 for milliseconds; no other
 * Returns false for NaN, infinities, decimals that are no whole milliseconds, and other types.
 */
bool number_to_ms(const bson_iter_t *value, int64_t ms_per_unit, int64_t *ret_ms);

#endif
