#include "core/dates.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MS_PER_SECOND INT64_C(1000)
#define MS_PER_MINUTE (60 * MS_PER_SECOND)
#define MS_PER_HOUR (60 * MS_PER_MINUTE)
#define MS_PER_DAY (24 * MS_PER_HOUR)
#define MS_PER_WEEK (7 * MS_PER_DAY)

/* The calendar repeats after 400 years; day numbers are counted in such eras from 0000-03-01. */
#define DAYS_PER_ERA INT64_C(146097)
/* Days from 0000-03-01 to 1970-01-01. */
#define DAYS_BEFORE_1970 INT64_C(719468)

/* What is still unread of a text. */
struct scan {
    const char *at;
    const char *end;
};

int64_t date_add_saturated(int64_t a, int64_t b)
{
    int64_t sum;

    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

int64_t date_subtract_saturated(int64_t a, int64_t b)
{
    int64_t difference;

    if (__builtin_sub_overflow(a, b, &difference))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return difference;
}

int64_t date_multiply_saturated(int64_t a, int64_t b)
{
    int64_t product;

    if (__builtin_mul_overflow(a, b, &product))
        return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
    return product;
}

/*
 * Days from 1970-01-01 to a day of the proleptic Gregorian calendar, after Howard Hinnant: years
 * begin in March, so the leap day is the last of its year and needs no case of its own.
 */
static int64_t days_from_civil(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t month_from_march = (month + 9) % 12;
    int64_t day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

    return era * DAYS_PER_ERA + day_of_era - DAYS_BEFORE_1970;
}

/* The inverse. */
static void civil_from_days(int64_t days, int64_t *ret_year, int *ret_month, int *ret_day)
{
    int64_t z = days + DAYS_BEFORE_1970;
    int64_t era = (z >= 0 ? z : z - DAYS_PER_ERA + 1) / DAYS_PER_ERA;
    int64_t day_of_era = z - era * DAYS_PER_ERA;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_year + 2) / 153;

    *ret_day = (int) (day_of_year - (153 * month_from_march + 2) / 5 + 1);
    *ret_month = (int) (month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
    *ret_year = year_of_era + era * 400 + (*ret_month <= 2);
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && leap);
}

/* Takes one of `chars`; false when something else, or nothing, stands there. */
static bool take_char(struct scan *scan, const char *chars)
{
    if (scan->at == scan->end || *scan->at == '\0' || !strchr(chars, *scan->at))
        return false;
    scan->at++;
    return true;
}

/* Takes exactly `digits` digits that make a number from `min` to `max`. */
static bool take_number(struct scan *scan, int digits, int min, int max, int *ret_number)
{
    int number = 0;

    if (scan->end - scan->at < digits)
        return false;
    for (int i = 0; i < digits; i++) {
        if (!is_digit(*scan->at))
            return false;
        number = number * 10 + (*scan->at++ - '0');
    }
    *ret_number = number;
    return number >= min && number <= max;
}

/* ".5", ".123456789": 1 to 9 digits, or nothing at all. */
static bool take_fraction(struct scan *scan, int *ret_ms)
{
    int weight = 100, digits = 0;

    *ret_ms = 0;
    if (!take_char(scan, "."))
        return true;
    for (; scan->at < scan->end && is_digit(*scan->at); digits++, weight /= 10)
        *ret_ms += (*scan->at++ - '0') * weight;
    return digits >= 1 && digits <= 9;
}

/* "Z", "+02:00", "-0330", or nothing at all. */
static bool take_offset(struct scan *scan, int64_t *ret_ms)
{
    int hours, minutes, sign;

    *ret_ms = 0;
    if (scan->at == scan->end || take_char(scan, "Zz"))
        return true;
    sign = *scan->at == '-' ? -1 : 1;
    if (!take_char(scan, "+-") || !take_number(scan, 2, 0, 23, &hours))
        return false;
    take_char(scan, ":");
    if (!take_number(scan, 2, 0, 59, &minutes))
        return false;
    *ret_ms = sign * (hours * MS_PER_HOUR + minutes * MS_PER_MINUTE);
    return true;
}

static bool take_day(struct scan *scan, int64_t *ret_days)
{
    int year, month, day;

    if (!take_number(scan, 4, 0, 9999, &year) || !take_char(scan, "-") ||
        !take_number(scan, 2, 1, 12, &month) || !take_char(scan, "-") ||
        !take_number(scan, 2, 1, days_of_month(year, month), &day))
        return false;
    *ret_days = days_from_civil(year, month, day);
    return true;
}

/* The time behind a day, in milliseconds since that day's midnight UTC. */
static bool take_time(struct scan *scan, int64_t *ret_ms)
{
    int hour, minute, second, fraction_ms;
    int64_t offset_ms;

    if (!take_number(scan, 2, 0, 23, &hour) || !take_char(scan, ":") ||
        !take_number(scan, 2, 0, 59, &minute) || !take_char(scan, ":") ||
        !take_number(scan, 2, 0, 60, &second) || !take_fraction(scan, &fraction_ms) ||
        !take_offset(scan, &offset_ms))
        return false;
    *ret_ms = hour * MS_PER_HOUR + minute * MS_PER_MINUTE + second * MS_PER_SECOND + fraction_ms -
              offset_ms;
    return true;
}

int date_parse(const char *text, size_t len, int64_t *ret_ms)
{
    struct scan scan;
    int64_t days, time_ms = 0;

    if (len == 0)
        return -EINVAL;
    scan = (struct scan){.at = text, .end = text + len};
    if (!take_day(&scan, &days))
        return -EINVAL;
    if (scan.at < scan.end && (!take_char(&scan, "Tt ") || !take_time(&scan, &time_ms)))
        return -EINVAL;
    if (scan.at < scan.end)
        return -EINVAL;
    *ret_ms = days * MS_PER_DAY + time_ms;
    return 0;
}

/* How many milliseconds a unit has; 0 for what is no unit. No unit at all is seconds. */
static int64_t unit_ms(const char *unit, size_t len)
{
    if (len == 2 && unit[0] == 'm' && unit[1] == 's')
        return 1;
    if (len > 1)
        return 0;
    switch (len == 0 ? 's' : *unit) {
    case 's':
        return MS_PER_SECOND;
    case 'm':
        return MS_PER_MINUTE;
    case 'h':
        return MS_PER_HOUR;
    case 'd':
        return MS_PER_DAY;
    case 'w':
        return MS_PER_WEEK;
    default:
        return 0;
    }
}

int date_parse_duration(const char *text, size_t len, int64_t *ret_ms)
{
    int64_t number = 0, unit;
    bool overflow = false;
    size_t digits = 0;

    for (; digits < len && is_digit(text[digits]); digits++) {
        overflow |= __builtin_mul_overflow(number, 10, &number);
        overflow |= __builtin_add_overflow(number, text[digits] - '0', &number);
    }
    if (digits == 0)
        return -EINVAL;
    unit = unit_ms(text + digits, len - digits);
    if (unit == 0)
        return -EINVAL;
    if (overflow || __builtin_mul_overflow(number, unit, &number))
        return -ERANGE;
    *ret_ms = number;
    return 0;
}

void date_format(int64_t ms, char *ret_text)
{
    int64_t days = ms / MS_PER_DAY, rest_ms = ms % MS_PER_DAY, year;
    int month, day;

    if (rest_ms < 0) {
        rest_ms += MS_PER_DAY;
        days--;
    }
    civil_from_days(days, &year, &month, &day);
    snprintf(ret_text, DATE_TEXT_BYTES,
        year < 0 || year > 9999 ? "%+05lld-%02d-%02dT%02d:%02d:%02d.%03dZ"
                                : "%04lld-%02d-%02dT%02d:%02d:%02d.%03dZ",
        (long long) year, month, day, (int) (rest_ms / MS_PER_HOUR),
        (int) (rest_ms / MS_PER_MINUTE % 60), (int) (rest_ms / MS_PER_SECOND % 60),
        (int) (rest_ms % MS_PER_SECOND));
}
