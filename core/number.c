#include "core/number.h"

#include "core/dates.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As many digits as a double can have, and more than an int64 or a decimal128 has. */
#define MAX_DIGITS 767

/* The first double beyond int64. */
#define TWO_TO_63 9223372036854775808.0

/* A finite number in decimal: 0.DIGITS times ten to the exponent. Zero has no digits. */
struct decimal {
    int sign; /* -1, 0 or 1 */
    int exponent;
    int count;
    char digits[MAX_DIGITS + 1]; /* neither leading nor trailing zeros; not terminated */
};

bool number_is(const bson_iter_t *value)
{
    return BSON_ITER_HOLDS_NUMBER(value) || BSON_ITER_HOLDS_DECIMAL128(value);
}

/* Reads what printf and libbson write: "-1.50E+7", "-0.001". */
static void decimal_from_text(const char *text, struct decimal *ret_decimal)
{
    bool point = false;
    ret_decimal->sign = *text == '-' ? -1 : 1;
    ret_decimal->count = 0;
    ret_decimal->exponent = 0;
    for (text += *text == '-'; *text && (*text | 0x20) != 'e'; text++) {
        if (*text < '0' || *text > '9') {
            point = true;
            continue;
        }
        bool leading = *text == '0' && ret_decimal->count == 0;
        if (!leading && ret_decimal->count < MAX_DIGITS)
            ret_decimal->digits[ret_decimal->count++] = *text;
        ret_decimal->exponent += point ? (leading ? -1 : 0) : (leading ? 0 : 1);
    }
    if (*text)
        ret_decimal->exponent += (int) strtol(text + 1, NULL, 10);
    while (ret_decimal->count > 0 && ret_decimal->digits[ret_decimal->count - 1] == '0')
        ret_decimal->count--;
    if (ret_decimal->count == 0)
        ret_decimal->sign = 0;
}

static void decimal_of(const bson_iter_t *value, struct decimal *ret_decimal)
{
    char text[MAX_DIGITS + 32];
    bson_decimal128_t decimal128;
    if (BSON_ITER_HOLDS_DECIMAL128(value) && bson_iter_decimal128(value, &decimal128))
        bson_decimal128_to_string(&decimal128, text);
    else if (BSON_ITER_HOLDS_DOUBLE(value))
        snprintf(text, sizeof text, "%.*e", MAX_DIGITS - 1, bson_iter_double(value));
    else
        snprintf(text, sizeof text, "%lld", (long long) bson_iter_as_int64(value));
    decimal_from_text(text, ret_decimal);
}

static int compare_decimals(const struct decimal *a, const struct decimal *b)
{
    if (a->sign != b->sign)
        return a->sign < b->sign ? -1 : 1;
    if (a->sign == 0)
        return 0;
    if (a->exponent != b->exponent)
        return a->exponent < b->exponent ? -a->sign : a->sign;
    int shorter = a->count < b->count ? a->count : b->count;
    int order = memcmp(a->digits, b->digits, (size_t) shorter);
    if (order == 0)
        order = (a->count > b->count) - (a->count < b->count);
    return order < 0 ? -a->sign : order > 0 ? a->sign : 0;
}

/* -INFINITY, INFINITY or NAN where a decimal128 is one of these, otherwise 0. */
static double decimal128_special(const bson_iter_t *value)
{
    char text[BSON_DECIMAL128_STRING];
    bson_decimal128_t decimal128;
    if (!bson_iter_decimal128(value, &decimal128))
        return NAN;
    bson_decimal128_to_string(&decimal128, text);
    if (strcmp(text, "NaN") == 0)
        return NAN;
    if (strcmp(text, "Infinity") == 0)
        return INFINITY;
    return strcmp(text, "-Infinity") == 0 ? -INFINITY : 0;
}

/* The same for any number. */
static double special_of(const bson_iter_t *value)
{
    if (BSON_ITER_HOLDS_DECIMAL128(value))
        return decimal128_special(value);
    if (BSON_ITER_HOLDS_DOUBLE(value) && !isfinite(bson_iter_double(value)))
        return bson_iter_double(value);
    return 0;
}

bool number_is_nan(const bson_iter_t *value)
{
    return number_is(value) && isnan(special_of(value));
}

static int compare_doubles(double a, double b)
{
    if (isnan(a) || isnan(b))
        return (isnan(b) ? 1 : 0) - (isnan(a) ? 1 : 0);
    return (a > b) - (a < b);
}

/* Converting the int64 would round it: beyond 2^53 not every one is a double. */
static int compare_double_with_int64(double a, int64_t b)
{
    if (isnan(a) || a < -TWO_TO_63)
        return -1;
    if (a >= TWO_TO_63)
        return 1;
    int64_t whole = (int64_t) a;
    if (whole != b)
        return whole < b ? -1 : 1;
    return compare_doubles(a - (double) whole, 0);
}

static int compare_through_decimals(const bson_iter_t *a, const bson_iter_t *b)
{
    double a_special = special_of(a), b_special = special_of(b);
    if (a_special != 0 || b_special != 0)
        return compare_doubles(a_special, b_special);
    struct decimal a_decimal, b_decimal;
    decimal_of(a, &a_decimal);
    decimal_of(b, &b_decimal);
    return compare_decimals(&a_decimal, &b_decimal);
}

int number_compare(const bson_iter_t *a, const bson_iter_t *b)
{
    if (BSON_ITER_HOLDS_DECIMAL128(a) || BSON_ITER_HOLDS_DECIMAL128(b))
        return compare_through_decimals(a, b);
    bool a_double = BSON_ITER_HOLDS_DOUBLE(a), b_double = BSON_ITER_HOLDS_DOUBLE(b);
    if (a_double && b_double)
        return compare_doubles(bson_iter_double(a), bson_iter_double(b));
    if (a_double)
        return compare_double_with_int64(bson_iter_double(a), bson_iter_as_int64(b));
    if (b_double)
        return -compare_double_with_int64(bson_iter_double(b), bson_iter_as_int64(a));
    int64_t a_whole = bson_iter_as_int64(a), b_whole = bson_iter_as_int64(b);
    return (a_whole > b_whole) - (a_whole < b_whole);
}

/*
 * Seconds with a fraction of whole milliseconds are mostly no doubles themselves, and cutting
 * would make 1577836800.123 s end in 122 ms: what rounding may have caused is not cut off.
 */
static int64_t floor_to_ms(double value, int64_t ms_per_unit)
{
    double ms = value * (double) ms_per_unit;
    if (ms >= TWO_TO_63)
        return INT64_MAX;
    if (ms < -TWO_TO_63)
        return INT64_MIN;
    int64_t whole = (int64_t) ms;
    double rest = ms - (double) whole;
    double rounding = ms_per_unit > 1 ? fabs(ms) * DBL_EPSILON : 0;
    if (rest < 0) {
        whole--;
        rest += 1;
    }
    /* Where doubles are coarser than this, a half may be meant. */
    return rest > 0.5 && 1 - rest <= rounding ? whole + 1 : whole;
}

static bool decimal128_to_ms(const bson_iter_t *value, int64_t ms_per_unit, int64_t *ret_ms)
{
    struct decimal decimal;
    int64_t ms = 0;
    decimal_of(value, &decimal);
    if (ms_per_unit == 1000)
        decimal.exponent += 3;
    if (decimal.sign != 0 && decimal.count > decimal.exponent)
        return false;
    /* 20 digits are beyond int64 whatever they are. */
    int whole_digits = decimal.sign == 0 ? 0 : decimal.exponent < 20 ? decimal.exponent : 20;
    for (int i = 0; i < whole_digits; i++) {
        int digit = i < decimal.count ? decimal.digits[i] - '0' : 0;
        ms = date_add_saturated(date_multiply_saturated(ms, 10), decimal.sign * digit);
    }
    *ret_ms = ms;
    return true;
}

bool number_to_ms(const bson_iter_t *value, int64_t ms_per_unit, int64_t *ret_ms)
{
    if (!number_is(value) || special_of(value) != 0)
        return false;
    if (BSON_ITER_HOLDS_DECIMAL128(value))
        return decimal128_to_ms(value, ms_per_unit, ret_ms);
    if (BSON_ITER_HOLDS_DOUBLE(value))
        *ret_ms = floor_to_ms(bson_iter_double(value), ms_per_unit);
    else
        *ret_ms = date_multiply_saturated(bson_iter_as_int64(value), ms_per_unit);
    return true;
}

bool number_equals(const bson_iter_t *value, int whole)
{
    int64_t number;
    if (BSON_ITER_HOLDS_DOUBLE(value))
        return bson_iter_double(value) == whole;
    return number_to_ms(value, 1, &number) && number == whole;
}

bool number_is_zero(const bson_iter_t *value)
{
    return number_equals(value, 0);
}
