/*
 * core/text: text that grows, and JSON.
 */
#include "core/text.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

static void check_text(struct text *text, const char *want)
{
    char *bytes = NULL;
    size_t len = 0;
    CHECK_EQ(text_take(text, &bytes, &len), 0);
    CHECK_STR(bytes, want);
    CHECK_EQ(len, strlen(want));
    free(bytes);
}

static void test_commas(void)
{
    struct text t;
    text_init(&t);
    text_open(&t, '{');
    text_member_int(&t, "a", -5);
    text_key(&t, "list");
    text_open(&t, '[');
    text_int(&t, 1);
    text_open(&t, '{');
    text_close(&t, '}');
    text_open(&t, '{');
    text_member_bool(&t, "b", true);
    text_close(&t, '}');
    text_string(&t, ":", 1);
    text_string(&t, "{", 1);
    text_close(&t, ']');
    text_member_string(&t, "c", "");
    text_close(&t, '}');
    text_put(&t, "\n");
    text_open(&t, '{');
    text_close(&t, '}');
    check_text(&t, "{\"a\":-5,\"list\":[1,{},{\"b\":true},\":\",\"{\"],\"c\":\"\"}\n{}");
}

static void test_escapes(void)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *want;
    } cases[] = {
        {"plain", 5, "\"plain\""},
        {"a\"b\\c", 5, "\"a\\\"b\\\\c\""},
        {"\n\t\x01\x7f", 4, "\"\\u000a\\u0009\\u0001\\u007f\""},
        {"\0x", 2, "\"\\u0000x\""},
        {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82", 9, "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x99\x82\""},
        {"a\xFFz", 3, "\"a\xEF\xBF\xBDz\""},
        {"\xC3", 1, "\"\xEF\xBF\xBD\""},
        {"\xED\xA0\x80", 3, "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct text t = {0};
        text_string(&t, cases[i].bytes, cases[i].len);
        check_text(&t, cases[i].want);
    }
}

static void test_names(void)
{
    struct text t = {0};
    text_open(&t, '{');
    text_member_name(&t, "good", 4);
    text_close(&t, '}');
    check_text(&t, "{\"name\":\"good\"}");
    text_open(&t, '{');
    text_member_name(&t, "b\xFF", 2);
    text_close(&t, '}');
    check_text(&t, "{\"name\":\"b\xEF\xBF\xBD\",\"nameHex\":\"62ff\"}");
}

static void test_dates(void)
{
    struct text t = {0};
    text_date(&t, 0);
    check_text(&t, "{\"$date\":\"1970-01-01T00:00:00.000Z\"}");
    text_date(&t, 253402300799999);
    check_text(&t, "{\"$date\":\"9999-12-31T23:59:59.999Z\"}");
    text_date(&t, 253402300800000);
    check_text(&t, "{\"$date\":{\"$numberLong\":\"253402300800000\"}}");
    text_date(&t, -1);
    check_text(&t, "{\"$date\":{\"$numberLong\":\"-1\"}}");
}

static void test_grows(void)
{
    struct text t = {0};
    char *bytes = NULL;
    size_t len = 0;
    char longer[2000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    for (int i = 0; i < 1000; i++)
        text_printf(&t, "%d %s\n", i, longer);
    CHECK_EQ(text_take(&t, &bytes, &len), 0);
    CHECK_EQ(len, 1000 * 2001 + 10 + 180 + 2700);
    CHECK(bytes && strncmp(bytes + len - 6, "xxxxx\n", 6) == 0);
    free(bytes);
    text_put(&t, "again");
    text_clear(&t);
    text_put(&t, "b");
    check_text(&t, "b");
    text_release(&t);
}

int main(void)
{
    RUN(test_commas);
    RUN(test_escapes);
    RUN(test_names);
    RUN(test_dates);
    RUN(test_grows);
    return unit_report();
}
