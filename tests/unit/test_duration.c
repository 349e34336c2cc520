/* Durations: every unit, every limit, and what is none. */
#include "ttl/duration.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

/* A copy without a NUL behind it, so that ASan sees a read beyond the end. */
static char *copy_bytes(const char *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);

    memcpy(copy, bytes, len);
    return copy;
}

static int parse(const char *text, int64_t *ret_ms, struct reason *why)
{
    size_t len = strlen(text);
    char *copy = copy_bytes(text, len);
    int r = duration_parse(copy, len, ret_ms, why);
    free(copy);
    return r;
}

static void check_duration(const char *text, int64_t want_ms)
{
    struct reason why = {0};
    int64_t ms = 42;

    CHECK_EQ(parse(text, &ms, &why), 0);
    if (ms != want_ms)
        fprintf(stderr, "in \"%s\":\n", text);
    CHECK_EQ(ms, want_ms);
    CHECK_STR(why.text, "");
}

static void check_refused(const char *text)
{
    struct reason why = {0};
    int64_t ms = 42;
    int r = parse(text, &ms, &why);

    if (r != -EINVAL)
        fprintf(stderr, "in \"%s\":\n", text);
    CHECK_EQ(r, -EINVAL);
    CHECK_EQ(ms, 42);
    CHECK(why.text[0] != '\0');
}

static void test_units(void)
{
    check_duration("0", 0);
    check_duration("0ms", 0);
    check_duration("1", 1000);
    check_duration("3600", 3600000);
    check_duration("500ms", 500);
    check_duration("90s", 90000);
    check_duration("15m", 900000);
    check_duration("12h", 43200000);
    check_duration("30d", INT64_C(2592000000));
    check_duration("2w", INT64_C(1209600000));
    check_duration("007", 7000);
    check_duration("00000000000000000000000000000000001ms", 1);
}

static void test_limits(void)
{
    check_duration("9223372036854775807ms", INT64_MAX);
    check_duration("9223372036854775", INT64_C(9223372036854775000));
    check_duration("9223372036854775s", INT64_C(9223372036854775000));
    check_duration("15250284452w", INT64_C(15250284452) * 604800000);
    check_refused("9223372036854775808ms");
    check_refused("9223372036854776");
    check_refused("9223372036854776s");
    check_refused("153722867280913m");
    check_refused("2562047788016h");
    check_refused("106751991168d");
    check_refused("15250284453w");
    check_refused("99999999999999999999");
    check_refused("18446744073709551617ms");
}

static void test_refused(void)
{
    static const char *const texts[] = {"", " ", "-1", "+1", "-0", " 1", "1 ", "60\n", "1.5", "1.0",
        "1,5", "1e3", "0x10", "1y", "1M", "1H", "1S", "1W", "1MS", "1mS", "1min", "1 h", "1h ",
        "1h30m", "1hh", "1mms", "1sm", "ms", "s", "h", "off", "never", "NaN", "Infinity", "inf",
        "\"60\"", "{}", "1\xC2\xA0", "\xD9\xA1"};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_refused(texts[i]);
}

static void test_nul_is_no_end(void)
{
    int64_t ms = 42;

    CHECK_EQ(duration_parse("60\0", 3, &ms, NULL), -EINVAL);
    CHECK_EQ(duration_parse("\0", 1, &ms, NULL), -EINVAL);
    CHECK_EQ(duration_parse("6\0"
                            "0",
                 3, &ms, NULL),
        -EINVAL);
    CHECK_EQ(duration_parse("60m\0", 4, &ms, NULL), -EINVAL);
    CHECK_EQ(ms, 42);
    CHECK_EQ(duration_parse("60mx", 3, &ms, NULL), 0);
    CHECK_EQ(ms, 3600000);
}

static void test_positive(void)
{
    struct reason why = {0};
    int64_t ms = 42;

    CHECK_EQ(duration_parse_positive("0", 1, &ms, &why), -EINVAL);
    CHECK(strstr(why.text, "above 0") != NULL);
    CHECK_EQ(duration_parse_positive("0w", 2, &ms, NULL), -EINVAL);
    CHECK_EQ(duration_parse_positive("000ms", 5, &ms, NULL), -EINVAL);
    CHECK_EQ(duration_parse_positive("", 0, &ms, NULL), -EINVAL);
    CHECK_EQ(duration_parse_positive("x", 1, &ms, NULL), -EINVAL);
    CHECK_EQ(ms, 42);
    CHECK_EQ(duration_parse_positive("1ms", 3, &ms, NULL), 0);
    CHECK_EQ(ms, 1);
}

static void test_words(void)
{
    struct reason why = {0};
    char longest[4096];
    int64_t ms;

    CHECK_EQ(duration_parse(NULL, 0, &ms, &why), -EINVAL);
    CHECK_STR(why.text, "the duration is empty");
    CHECK_EQ(duration_parse("1y", 2, &ms, &why), -EINVAL);
    CHECK(strncmp(why.text, "\"1y\" is no duration", 19) == 0);
    memset(longest, '9', sizeof longest);
    CHECK_EQ(duration_parse(longest, sizeof longest, &ms, &why), -EINVAL);
    CHECK(strstr(why.text, "too long") != NULL);
    memset(longest, 'x', sizeof longest);
    CHECK_EQ(duration_parse(longest, sizeof longest, &ms, &why), -EINVAL);
    CHECK(strstr(why.text, "no duration") != NULL);
}

int main(void)
{
    RUN(test_units);
    RUN(test_limits);
    RUN(test_refused);
    RUN(test_nul_is_no_end);
    RUN(test_positive);
    RUN(test_words);
    return unit_report();
}
