/* Dates as milliseconds and as text: what is read, what is refused, where arithmetic stops. */
#include "core/dates.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>

#define DAY_MS INT64_C(86400000)
/* 0000-01-01T00:00:00Z and 9999-12-31T23:59:59.999Z. */
#define YEAR_0_MS INT64_C(-62167219200000)
#define YEAR_9999_END_MS INT64_C(253402300799999)

/* A copy without a NUL behind it, so that ASan sees a read beyond the end. */
static char *copy_bytes(const char *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);

    memcpy(copy, bytes, len);
    return copy;
}

static int parse(const char *text, int64_t *ret_ms)
{
    size_t len = strlen(text);
    char *copy = copy_bytes(text, len);
    int r = date_parse(copy, len, ret_ms);
    free(copy);
    return r;
}

static void check_date(const char *text, int64_t want_ms)
{
    int64_t ms = 42;

    CHECK_EQ(parse(text, &ms), 0);
    if (ms != want_ms)
        fprintf(stderr, "in \"%s\":\n", text);
    CHECK_EQ(ms, want_ms);
}

static void check_refused(const char *text)
{
    int64_t ms = 42;
    int r = parse(text, &ms);

    if (r != -EINVAL || ms != 42)
        fprintf(stderr, "in \"%s\":\n", text);
    CHECK_EQ(r, -EINVAL);
    CHECK_EQ(ms, 42);
}

static void check_text(int64_t ms, const char *want)
{
    char text[DATE_TEXT_BYTES];

    date_format(ms, text);
    CHECK_STR(text, want);
}

static void test_arithmetic_saturates(void)
{
    CHECK_EQ(date_add_saturated(2, 3), 5);
    CHECK_EQ(date_add_saturated(INT64_MAX, 1), INT64_MAX);
    CHECK_EQ(date_add_saturated(1, INT64_MAX), INT64_MAX);
    CHECK_EQ(date_add_saturated(INT64_MIN, -1), INT64_MIN);
    CHECK_EQ(date_add_saturated(INT64_MIN, INT64_MAX), -1);
    CHECK_EQ(date_subtract_saturated(2, 3), -1);
    CHECK_EQ(date_subtract_saturated(INT64_MIN, 1), INT64_MIN);
    CHECK_EQ(date_subtract_saturated(INT64_MAX, -1), INT64_MAX);
    CHECK_EQ(date_subtract_saturated(0, INT64_MIN), INT64_MAX);
    CHECK_EQ(date_subtract_saturated(-1, INT64_MIN), INT64_MAX);
    CHECK_EQ(date_multiply_saturated(-4, 5), -20);
    CHECK_EQ(date_multiply_saturated(INT64_MAX, 2), INT64_MAX);
    CHECK_EQ(date_multiply_saturated(INT64_MAX, -2), INT64_MIN);
    CHECK_EQ(date_multiply_saturated(INT64_MIN, 2), INT64_MIN);
    CHECK_EQ(date_multiply_saturated(INT64_MIN, -1), INT64_MAX);
    CHECK_EQ(date_multiply_saturated(INT64_MIN, 0), 0);
}

static void test_parse_forms(void)
{
    check_date("1970-01-01T00:00:00Z", 0);
    check_date("1970-01-01t00:00:00z", 0);
    check_date("1970-01-01 00:00:00Z", 0);
    check_date("1970-01-01T00:00:00", 0);
    check_date("1970-01-01", 0);
    check_date("2026-01-01", INT64_C(1767225600000));
    check_date("2026-01-01T12:34:56.789Z", INT64_C(1767270896789));
    check_date("2026-01-01T12:34:56.789", INT64_C(1767270896789));
    check_date("1969-12-31T23:59:59.999Z", -1);
    check_date("1969-12-31T23:59:59Z", -1000);
    check_date("0000-01-01T00:00:00Z", YEAR_0_MS);
    check_date("9999-12-31T23:59:59.999Z", YEAR_9999_END_MS);
}

static void test_parse_fraction(void)
{
    check_date("1970-01-01T00:00:00.1Z", 100);
    check_date("1970-01-01T00:00:00.12Z", 120);
    check_date("1970-01-01T00:00:00.123Z", 123);
    check_date("1970-01-01T00:00:00.1239Z", 123);
    check_date("1970-01-01T00:00:00.000999999Z", 0);
    /* Before 1970, too, the cut goes towards the past: -0.0001 s is in the millisecond -1. */
    check_date("1969-12-31T23:59:59.999999999Z", -1);
    check_refused("1970-01-01T00:00:00.Z");
    check_refused("1970-01-01T00:00:00.");
    check_refused("1970-01-01T00:00:00.1234567890Z");
    check_refused("1970-01-01T00:00:00,5Z");
}

static void test_parse_offset(void)
{
    check_date("1970-01-01T02:00:00+02:00", 0);
    check_date("1970-01-01T02:00:00+0200", 0);
    check_date("1969-12-31T20:30:00-03:30", 0);
    check_date("1969-12-31T20:30:00.5-0330", 500);
    check_date("1970-01-01T00:00:00-00:00", 0);
    check_date("1970-01-01T23:59:00+23:59", 0);
    /* Offsets reach beyond the years that can be written. */
    check_date("0000-01-01T00:00:00+01:00", YEAR_0_MS - 3600000);
    check_date("9999-12-31T23:59:59.999-01:00", YEAR_9999_END_MS + 3600000);
    check_refused("1970-01-01T00:00:00+24:00");
    check_refused("1970-01-01T00:00:00+02:60");
    check_refused("1970-01-01T00:00:00+02");
    check_refused("1970-01-01T00:00:00+2:00");
    check_refused("1970-01-01T00:00:00+");
    check_refused("1970-01-01T00:00:00+02:00Z");
    check_refused("1970-01-01T00:00:00 +02:00");
    check_refused("1970-01-01Z");
    check_refused("1970-01-01+02:00");
}

static void test_parse_leap_second(void)
{
    check_date("2016-12-31T23:59:60Z", INT64_C(1483228800000));
    check_date("2016-12-31T23:59:60.25Z", INT64_C(1483228800250));
    check_date("2017-01-01T00:59:60+01:00", INT64_C(1483228800000));
    check_refused("2016-12-31T23:59:61Z");
}

static void test_parse_calendar(void)
{
    check_date("2024-02-29", INT64_C(1709164800000));
    check_date("2000-02-29", INT64_C(951782400000));
    check_date("0000-02-29", YEAR_0_MS + 59 * DAY_MS);
    check_refused("2023-02-29");
    check_refused("1900-02-29");
    check_refused("2026-04-31");
    check_refused("2026-00-01");
    check_refused("2026-13-01");
    check_refused("2026-01-00");
    check_refused("2026-01-32");
}

static void test_parse_refused(void)
{
    static const char *const texts[] = {"", " ", "Z", "T", "2026", "2026-01", "2026-01-01T",
        "2026-01-01 ", "2026-01-01T10", "2026-01-01T10:00", "2026-01-01T10:00Z",
        "2026-01-01T10:00:0", "2026-01-01T24:00:00Z", "2026-01-01T10:60:00Z",
        "2026-01-01T10:00:00Z ", "2026-01-01T10:00:00Zx", "2026-01-01T10:00:00x",
        "2026-01-01T10:00:00Z\n", " 2026-01-01T10:00:00Z", "2026-01-01  10:00:00Z",
        "2026-01-01X10:00:00Z", "20260101T100000Z", "2026-1-1T10:00:00Z", "+2026-01-01",
        "-001-01-01", "12026-01-01", "2026-W01-1", "2026-001", "2026/01/01", "2026-01-01T-1:00:00Z",
        "2026-01-01T+1:00:00Z", "1767225600", "never", "NaN"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_refused(texts[i]);
}

static void test_parse_nul(void)
{
    int64_t ms = 42;

    CHECK_EQ(date_parse(NULL, 0, &ms), -EINVAL);
    CHECK_EQ(date_parse("2026-01-01\0", 11, &ms), -EINVAL);
    CHECK_EQ(date_parse("2026-01-01T00:00:00\0", 20, &ms), -EINVAL);
    CHECK_EQ(date_parse("2026\0"
                        "01-01",
                 10, &ms),
        -EINVAL);
    CHECK_EQ(ms, 42);
}

static void test_duration(void)
{
    int64_t ms = 42;

    CHECK_EQ(date_parse_duration("90m", 3, &ms), 0);
    CHECK_EQ(ms, 5400000);
    CHECK_EQ(date_parse_duration("90mm", 4, &ms), -EINVAL);
    CHECK_EQ(date_parse_duration("9223372036854775807ms", 21, &ms), 0);
    CHECK_EQ(ms, INT64_MAX);
    CHECK_EQ(date_parse_duration("9223372036854775808ms", 21, &ms), -ERANGE);
    CHECK_EQ(date_parse_duration(NULL, 0, &ms), -EINVAL);
    CHECK_EQ(ms, INT64_MAX);
}

static void test_format(void)
{
    check_text(0, "1970-01-01T00:00:00.000Z");
    check_text(-1, "1969-12-31T23:59:59.999Z");
    check_text(-DAY_MS, "1969-12-31T00:00:00.000Z");
    check_text(INT64_C(1767270896789), "2026-01-01T12:34:56.789Z");
    check_text(INT64_C(1709164800000), "2024-02-29T00:00:00.000Z");
    check_text(YEAR_0_MS, "0000-01-01T00:00:00.000Z");
    check_text(YEAR_0_MS - 1, "-0001-12-31T23:59:59.999Z");
    check_text(YEAR_9999_END_MS, "9999-12-31T23:59:59.999Z");
    check_text(YEAR_9999_END_MS + 1, "+10000-01-01T00:00:00.000Z");
    check_text(INT64_MAX, "+292278994-08-17T07:12:55.807Z");
    check_text(INT64_MIN, "-292275055-05-16T16:47:04.192Z");
}

/* Every day of 10000 years, against a calendar that just counts. */
static void test_every_day(void)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t ms = YEAR_0_MS, parsed;
    int wrong = 0;

    for (int year = 0; year <= 9999; year++) {
        bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
        for (int month = 1; month <= 12; month++) {
            int last = days[month - 1] + (leap && month == 2);
            for (int day = 1; day <= last; day++, ms += DAY_MS) {
                char want[64], got[DATE_TEXT_BYTES];
                int len = snprintf(want, sizeof want, "%04d-%02d-%02d", year, month, day);
                date_format(ms, got);
                wrong += memcmp(got, want, (size_t) len) != 0;
                wrong += date_parse(want, (size_t) len, &parsed) != 0 || parsed != ms;
            }
        }
    }
    CHECK_EQ(wrong, 0);
    CHECK_EQ(ms, YEAR_9999_END_MS + 1);
}

static void test_round_trip(void)
{
    char text[DATE_TEXT_BYTES];
    int64_t parsed;
    int wrong = 0;

    for (int64_t ms = YEAR_0_MS; ms <= YEAR_9999_END_MS; ms += INT64_C(1234567890123)) {
        date_format(ms, text);
        wrong += date_parse(text, strlen(text), &parsed) != 0 || parsed != ms;
    }
    CHECK_EQ(wrong, 0);
}

int main(void)
{
    RUN(test_arithmetic_saturates);
    RUN(test_parse_forms);
    RUN(test_parse_fraction);
    RUN(test_parse_offset);
    RUN(test_parse_leap_second);
    RUN(test_parse_calendar);
    RUN(test_parse_refused);
    RUN(test_parse_nul);
    RUN(test_duration);
    RUN(test_format);
    RUN(test_every_day);
    RUN(test_round_trip);
    return unit_report();
}
