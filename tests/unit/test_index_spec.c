/* Index specs: what is an index, what is refused, and that what is read back is what was set. */
#include "core/index_spec.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

/* A spec as a test wants it; NULL and 0 are the defaults. */
struct want {
    const char *key;
    bool ttl;
    int32_t expire_after_s;
    bool hidden;
    enum fields_as as;
    int32_t jitter_s;
};

/* A copy without a NUL behind it, so that ASan sees a read beyond the end. */
static char *copy_bytes(const char *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1);

    memcpy(copy, bytes, len);
    return copy;
}

static int parse_bytes(const char *name, const char *value, size_t len,
    const struct index_spec *base, struct index_spec *ret_spec, struct reason *why)
{
    size_t name_len = strlen(name);
    char *name_copy = copy_bytes(name, name_len), *copy = copy_bytes(value, len);
    int r = index_spec_parse(name_copy, name_len, copy, len, base, ret_spec, why);
    free(name_copy);
    free(copy);
    return r;
}

static int parse(const char *name, const char *value, const struct index_spec *base,
    struct index_spec *ret_spec, struct reason *why)
{
    return parse_bytes(name, value, strlen(value), base, ret_spec, why);
}

static void check_spec(const struct index_spec *spec, struct want want)
{
    CHECK_STR(spec->key, want.key);
    CHECK_EQ(spec->ttl, want.ttl);
    CHECK_EQ(spec->expire_after_s, want.expire_after_s);
    CHECK_EQ(spec->hidden, want.hidden);
    CHECK_EQ(spec->as, want.as);
    CHECK_EQ(spec->jitter_s, want.jitter_s);
}

static void check_same(const struct index_spec *a, const struct index_spec *b)
{
    check_spec(a, (struct want){b->key, b->ttl, b->expire_after_s, b->hidden, b->as, b->jitter_s});
    CHECK(filter_equal(a->filter, b->filter));
    CHECK(index_spec_same_keys(a, b));
}

/* The formatted text parses to the same spec, under any name, and formats to the same text. */
static void check_round_trip(const struct index_spec *spec)
{
    struct index_spec again;
    char *text = NULL, *text_again = NULL;

    CHECK_EQ(index_spec_format(spec, &text), 0);
    CHECK_EQ(parse("another name", text, NULL, &again, NULL), 0);
    check_same(&again, spec);
    CHECK_EQ(index_spec_format(&again, &text_again), 0);
    CHECK_STR(text_again, text);
    free(text);
    free(text_again);
    index_spec_release(&again);
}

static void check_ok(const char *name, const char *value, struct want want)
{
    struct index_spec spec;
    struct reason why = {0};
    int r = parse(name, value, NULL, &spec, &why);

    if (r != 0)
        fprintf(stderr, "in %s=%s: %s\n", name, value, why.text);
    CHECK_EQ(r, 0);
    if (r == 0) {
        check_spec(&spec, want);
        check_round_trip(&spec);
    }
    index_spec_release(&spec);
}

/* Refused, with words in which `word` is, and with nothing in the result. */
static void check_bytes_refused(const char *name, const char *value, size_t len, const char *word)
{
    struct index_spec spec;
    struct reason why = {0};
    int r = parse_bytes(name, value, len, NULL, &spec, &why);

    if (r != -EINVAL || !strstr(why.text, word))
        fprintf(stderr, "in %s=%.*s: reason \"%s\"\n", name, (int) len, value, why.text);
    CHECK_EQ(r, -EINVAL);
    CHECK(why.text[0] != '\0');
    CHECK(strstr(why.text, word) != NULL);
    CHECK(!spec.key && !spec.filter && !spec.ttl);
    index_spec_release(&spec);
    CHECK_EQ(parse_bytes(name, value, len, NULL, &spec, NULL), -EINVAL);
    index_spec_release(&spec);
}

static void check_refused(const char *name, const char *value, const char *word)
{
    check_bytes_refused(name, value, strlen(value), word);
}

static void check_format(const char *name, const char *value, const char *want)
{
    struct index_spec spec;
    char *text = NULL;

    CHECK_EQ(parse(name, value, NULL, &spec, NULL), 0);
    CHECK_EQ(index_spec_format(&spec, &text), 0);
    CHECK_STR(text, want);
    check_round_trip(&spec);
    free(text);
    index_spec_release(&spec);
}

static void test_plain_ok(void)
{
    static const struct {
        const char *value;
        int32_t want_s;
    } cases[] = {{"0", 0}, {"60", 60}, {"3600", 3600}, {"2147483647", INT32_MAX}, {"007", 7},
        {"2000ms", 2}, {"0ms", 0}, {"90s", 90}, {"90m", 5400}, {"1h", 3600}, {"30d", 2592000},
        {"2w", 1209600}, {"2147483647000ms", INT32_MAX}, {"24855d", 2147472000}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_ok("at", cases[i].value,
            (struct want){.key = "at", .ttl = true, .expire_after_s = cases[i].want_s});
}

static void test_plain_refused(void)
{
    static const char *const values[] = {" ", "\n", "60 ", " 60", "60\n", "\t60", "+60", "-0",
        "--1", "-1 ", "1y", "1.5", "1.0", "0x10", "1e3", "60,", "60;", "60 60", "1h30m", "off",
        "none", "null", "true", "NaN", "nan", "Infinity", "inf", "-Infinity", "\"60\"", "'60'",
        "[60]", "[]", "60}", "}", "x{}", "s", "ms", "\xEF\xBC\x91"};

    check_refused("at", "", "empty");
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        check_refused("at", values[i], "neither seconds");
    check_refused("at", "1500ms", "whole seconds");
    check_refused("at", "1ms", "whole seconds");
    check_refused("at", "2147483648", "larger than 2147483647");
    check_refused("at", "2147483648000ms", "larger than 2147483647");
    check_refused("at", "24856d", "larger than 2147483647");
    check_refused("at", "9223372036854775807", "larger than 2147483647");
    check_refused("at", "99999999999999999999", "larger than 2147483647");
    check_bytes_refused("at", "60\0", 3, "neither seconds");
    check_bytes_refused("at", "\0", 1, "neither seconds");
}

static void test_own_ttl_is_for_ts(void)
{
    const struct want want = {.key = "_ts", .ttl = true, .expire_after_s = -1};

    check_ok("_ts", "-1", want);
    check_ok("_ts", "{\"expireAfterSeconds\":-1}", want);
    check_ok("_ts", "{\"expireAfterSeconds\":-1.0}", want);
    check_ok("x", "{\"expireAfterSeconds\":-1,\"key\":\"_ts\"}", want);
    check_ok("x", "{\"key\":\"_ts\",\"expireAfterSeconds\":-1}", want);
    check_ok("_ts", "60", (struct want){.key = "_ts", .ttl = true, .expire_after_s = 60});
    check_refused("_ts", "-2", "");
    check_refused("_ts", "{\"expireAfterSeconds\":-2}", "negative");
    check_refused("at", "-1", "_ts");
    check_refused("_ts2", "-1", "_ts");
    check_refused("_ts.a", "-1", "_ts");
    check_refused("_t", "-1", "_ts");
    check_refused("at", "{\"expireAfterSeconds\":-1}", "_ts");
    check_refused("_ts", "{\"expireAfterSeconds\":-1,\"key\":\"at\"}", "_ts");
    check_refused("_ts,a", "-1", "compound");
}

static void test_json_expire_after_ok(void)
{
    static const struct {
        const char *number;
        int32_t want_s;
    } cases[] = {{"0", 0}, {"-0", 0}, {"1", 1}, {"1.0", 1}, {"60.000", 60}, {"1e3", 1000},
        {"1.5e1", 15}, {"0.0", 0}, {"-0.0", 0}, {"2147483647", INT32_MAX},
        {"2147483647.0", INT32_MAX}, {"{\"$numberLong\":\"60\"}", 60},
        {"{\"$numberLong\":\"2147483647\"}", INT32_MAX}, {"{\"$numberInt\":\"60\"}", 60},
        {"{\"$numberDouble\":\"60.0\"}", 60}, {" 60 ", 60}};
    char value[128];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(value, sizeof value, "{\"expireAfterSeconds\":%s}", cases[i].number);
        check_ok("at", value,
            (struct want){.key = "at", .ttl = true, .expire_after_s = cases[i].want_s});
    }
}

static void test_json_expire_after_refused(void)
{
    static const char *const numbers[] = {"2147483648", "2147483648.0", "-2", "-2.0", "1.5", "-0.5",
        "2147483647.5", "1e400", "-1e400", "1e300", "-1e300", "1e-3", "9223372036854775807",
        "9223372036854775808", "-9223372036854775808", "99999999999999999999", "\"60\"", "\"\"",
        "\"1h\"", "{\"$numberLong\":\"2147483648\"}", "{\"$numberLong\":\"-2\"}",
        "{\"$numberLong\":\"-9223372036854775808\"}", "{\"$numberLong\":\"x\"}",
        "{\"$numberLong\":\"1.5\"}", "{\"$numberLong\":\"60 \"}", "{\"$numberInt\":\"2147483648\"}",
        "{\"$numberDouble\":\"NaN\"}", "{\"$numberDouble\":\"Infinity\"}",
        "{\"$numberDouble\":\"-Infinity\"}", "{\"$numberDouble\":\"1.5\"}",
        "{\"$numberDecimal\":\"NaN\"}", "{\"$numberDecimal\":\"60\"}",
        "{\"$date\":\"2026-01-01T00:00:00Z\"}", "{\"$date\":{\"$numberLong\":\"60\"}}", "NaN",
        "Infinity", "-Infinity", "true", "false", "null", "{}", "{\"a\":60}", "[]", "[60]",
        "undefined", "{\"$undefined\":true}", "{\"$minKey\":1}", "", "0x10", "+60", "060", "60.",
        ".5", "1e", "60s", "1h", "'60'", "60 60", "60,", "60}", "60/**/"};
    char value[128];

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        snprintf(value, sizeof value, "{\"expireAfterSeconds\":%s}", numbers[i]);
        check_refused("at", value, "");
        snprintf(value, sizeof value, "{\"key\":\"_ts\",\"expireAfterSeconds\":%s}", numbers[i]);
        check_refused("at", value, "");
    }
    check_refused("at", "{\"expireAfterSeconds\":1.5}", "whole number, not 1.5");
    check_refused("at", "{\"expireAfterSeconds\":\"60\"}", "must be a number");
    check_refused("at", "{\"expireAfterSeconds\":null}", "must be a number");
    check_refused("at", "{\"expireAfterSeconds\":2147483648}", "larger than 2147483647");
    check_refused("at", "{\"expireAfterSeconds\":-2}", "negative");
    check_refused("at", "{\"expireAfterSeconds\":1e300}", "larger than");
    check_refused("at", "{\"expireAfterSeconds\":-1e300}", "negative");
}

static void test_json_is_strict(void)
{
    static const char *const values[] = {"{", "{}}", "{}x", "{} {}", "{}{}", "{},", "{}0", "{}\n60",
        "{\"hidden\":true}garbage", "{\"hidden\":true", "{\"hidden\":true,}", "{,}",
        "{hidden:true}", "{'hidden':true}", "{\"hidden\":tru}", "{\"hidden\":TRUE}",
        "{\"hidden\" true}", "{\"hidden\"}", "{\"hidden\":}", "{\"hidden\":true \"as\":\"date\"}",
        "{/**/}", "{}//", "//\n{}", "{\"hidden\":true}//}", "{#\n}", "[{}]", "{\"as\":\"date}",
        "{\"as\":\"da\nte\"}", "{\"key\":\"\xFF\"}", "{\"key\":\"\xC0\x80\"}",
        "{\"key\":\"\xED\xA0\x80\"}", "{\"key\":\"\\ud800\"}", "{\"key\":\"\\x41\"}",
        "{\"key\":\"\\u12\"}", "\xEF\xBB\xBF{}", "\v{}", "\f{}", "{}\f", "{\"\\u0000\":1}",
        "{\"hidden\\u0000x\":true}"};
    struct index_spec spec;

    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        check_refused("at", values[i], "");
    check_bytes_refused("at", "{}\0", 3, "");
    check_bytes_refused("at", "\0{}", 3, "");
    check_bytes_refused("at", "{\0}", 3, "");
    check_bytes_refused("at", "{}\0}", 4, "");
    check_bytes_refused("at", "{\"hidden\":true}\0\0}", 17, "");
    check_ok("at", " \t\r\n{ \t\r\n} \t\r\n", (struct want){.key = "at"});
    CHECK_EQ(parse("at", "{\n \"expireAfterSeconds\" : 60 ,\n\t\"hidden\":true\r\n}\n", NULL, &spec,
                 NULL),
        0);
    check_spec(
        &spec, (struct want){.key = "at", .ttl = true, .expire_after_s = 60, .hidden = true});
    index_spec_release(&spec);
}

/* A BSON document is a content, but no index: even where its first byte looks like JSON. */
static void test_bson_is_refused(void)
{
    bson_t document;

    bson_init(&document);
    check_bytes_refused("at", (const char *) bson_get_data(&document), document.len, "");
    bson_destroy(&document);
    for (int64_t filler = 50; filler < 128; filler++) {
        char text[128];
        memset(text, 'a', sizeof text);
        bson_init(&document);
        bson_append_utf8(&document, "key", 3, text, (int) filler);
        if (document.len == '{' || document.len == ' ')
            check_bytes_refused("at", (const char *) bson_get_data(&document), document.len, "");
        bson_destroy(&document);
    }
}

static void test_json_members(void)
{
    check_ok("at", "{}", (struct want){.key = "at"});
    check_ok("at", "{\"key\":\"a.b\"}", (struct want){.key = "a.b"});
    check_ok("at", "{\"hidden\":true}", (struct want){.key = "at", .hidden = true});
    check_ok("at", "{\"hidden\":false}", (struct want){.key = "at"});
    check_ok("at", "{\"as\":\"date\"}", (struct want){.key = "at"});
    check_ok("at", "{\"as\":\"iso8601\"}", (struct want){.key = "at", .as = FIELDS_AS_ISO8601});
    check_ok("at", "{\"as\":\"epochSeconds\"}",
        (struct want){.key = "at", .as = FIELDS_AS_EPOCH_SECONDS});
    check_ok(
        "at", "{\"as\":\"epochMillis\"}", (struct want){.key = "at", .as = FIELDS_AS_EPOCH_MILLIS});
    check_ok("at", "{\"jitterSeconds\":0}", (struct want){.key = "at"});
    check_ok(
        "at", "{\"jitterSeconds\":2147483647}", (struct want){.key = "at", .jitter_s = INT32_MAX});
    check_ok("at", "{\"jitterSeconds\":30.0}", (struct want){.key = "at", .jitter_s = 30});
    check_ok("n",
        "{\"jitterSeconds\":5,\"as\":\"iso8601\",\"hidden\":true,\"key\":\"k\","
        "\"expireAfterSeconds\":9}",
        (struct want){"k", true, 9, true, FIELDS_AS_ISO8601, 5});
}

static void test_json_members_refused(void)
{
    static const char *const hidden[] = {"0", "1", "null", "\"true\"", "\"\"", "{}", "[]", "1.0"};
    static const char *const as[] = {"\"\"", "\"Date\"", "\"ISO8601\"", "\"epochseconds\"",
        "\"date \"", "\"epochMillisX\"", "\"dat\"", "\"date\\u0000\"", "0", "1", "null", "true",
        "{}", "[]", "{\"$date\":0}"};
    static const char *const jitter[] = {"-1", "-1.0", "2147483648", "1.5", "1e400", "1e300",
        "\"5\"", "\"5s\"", "null", "true", "{}", "[]", "{\"$numberDouble\":\"NaN\"}"};
    static const char *const key[] = {"0", "null", "true", "{}", "[]", "[\"a\"]", "{\"a\":1}"};
    char value[128];

    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        snprintf(value, sizeof value, "{\"hidden\":%s}", hidden[i]);
        check_refused("at", value, "hidden must be");
    }
    for (size_t i = 0; i < sizeof as / sizeof *as; i++) {
        snprintf(value, sizeof value, "{\"as\":%s}", as[i]);
        check_refused("at", value, "");
    }
    for (size_t i = 0; i < sizeof jitter / sizeof *jitter; i++) {
        snprintf(value, sizeof value, "{\"jitterSeconds\":%s}", jitter[i]);
        check_refused("at", value, "");
    }
    for (size_t i = 0; i < sizeof key / sizeof *key; i++) {
        snprintf(value, sizeof value, "{\"key\":%s}", key[i]);
        check_refused("at", value, "key must be a string");
    }
    check_refused("at", "{\"as\":\"Date\"}", "epochMillis");
    check_refused("at", "{\"jitterSeconds\":-1}", "jitterSeconds must be 0 to");
}

static void test_unknown_and_repeated(void)
{
    check_refused("at", "{\"expireafterseconds\":60}", "\"expireafterseconds\" is unknown");
    check_refused("at", "{\"unique\":true}", "unknown");
    check_refused("at", "{\"\":1}", "unknown");
    check_refused("at", "{\"expireAfterSeconds\":60,\"x\":1}", "unknown");
    check_refused("at", "{\"expireAfterSeconds \":60}", "unknown");
    check_refused("at", "{\"$expireAfterSeconds\":60}", "");
    check_refused("at", "{\"expireAfterSeconds\":60,\"expireAfterSeconds\":60}", "twice");
    check_refused("at", "{\"expireAfterSeconds\":60,\"key\":\"a\",\"expireAfterSeconds\":70}", "");
    check_refused("at", "{\"hidden\":true,\"hidden\":false}", "twice");
    check_refused("at", "{\"key\":\"a\",\"\\u006bey\":\"b\"}", "twice");
}

static void test_keys(void)
{
    char name[INDEX_KEY_MAX_BYTES + 2];

    check_ok("a.b.c", "{}", (struct want){.key = "a.b.c"});
    check_ok("a,b", "{}", (struct want){.key = "a,b"});
    check_ok("n", "{\"key\":\"a.x,b.y,_id\"}", (struct want){.key = "a.x,b.y,_id"});
    check_ok("_id", "{}", (struct want){.key = "_id"});
    check_ok("n", "{\"key\":\"a$b\"}", (struct want){.key = "a$b"});
    check_ok("a b", "60", (struct want){.key = "a b", .ttl = true, .expire_after_s = 60});
    check_ok("n", "{\"key\":\"\\u00e9\\\"\\\\\\n\"}", (struct want){.key = "\xC3\xA9\"\\\n"});
    check_ok("$n", "{\"key\":\"a\"}", (struct want){.key = "a"});
    check_ok("\xFF", "{\"key\":\"a\"}", (struct want){.key = "a"});

    check_refused("", "{}", "empty");
    check_refused("n", "{\"key\":\"\"}", "empty");
    check_refused("n", "{\"key\":\".\"}", "empty component");
    check_refused("n", "{\"key\":\".a\"}", "empty component");
    check_refused("n", "{\"key\":\"a.\"}", "empty component");
    check_refused("n", "{\"key\":\"a..b\"}", "empty component");
    check_refused("n", "{\"key\":\",\"}", "empty component");
    check_refused("n", "{\"key\":\",a\"}", "empty component");
    check_refused("n", "{\"key\":\"a,\"}", "empty component");
    check_refused("n", "{\"key\":\"a,,b\"}", "empty component");
    check_refused("n", "{\"key\":\"a.,b\"}", "empty component");
    check_refused("n", "{\"key\":\"a,.b\"}", "empty component");
    check_refused("n", "{\"key\":\"$a\"}", "starts with $");
    check_refused("n", "{\"key\":\"a.$b\"}", "starts with $");
    check_refused("n", "{\"key\":\"a,$b\"}", "starts with $");
    check_refused("n", "{\"key\":\"a\\u0000b\"}", "");
    check_refused("$a", "60", "starts with $");
    check_refused("a.", "60", "empty component");
    check_refused("\xFF", "60", "UTF-8");
    check_refused("\xC3", "{}", "UTF-8");
    check_refused("\xED\xA0\x80", "{}", "UTF-8");
    check_refused("\xC0\xAF", "{}", "UTF-8");

    memset(name, 'k', sizeof name);
    name[INDEX_KEY_MAX_BYTES] = '\0';
    check_ok(name, "{}", (struct want){.key = name});
    name[INDEX_KEY_MAX_BYTES] = 'k';
    name[INDEX_KEY_MAX_BYTES + 1] = '\0';
    check_refused(name, "{}", "longer than 1000 bytes");
}

static void test_keys_without_expire_after(void)
{
    check_refused("a,b", "60", "compound");
    check_refused("a,b", "{\"expireAfterSeconds\":60}", "compound");
    check_refused("n", "{\"expireAfterSeconds\":60,\"key\":\"a,b\"}", "compound");
    check_refused("n", "{\"key\":\"a,b\",\"expireAfterSeconds\":0}", "compound");
    check_refused("_id", "60", "_id");
    check_refused("_id", "{\"expireAfterSeconds\":0}", "_id");
    check_refused("n", "{\"expireAfterSeconds\":60,\"key\":\"_id\"}", "_id");
    check_ok("_id", "{\"expireAfterSeconds\":60,\"key\":\"at\"}",
        (struct want){.key = "at", .ttl = true, .expire_after_s = 60});
    check_ok("_ids", "60", (struct want){.key = "_ids", .ttl = true, .expire_after_s = 60});
}

static void test_filter(void)
{
    struct index_spec spec;

    CHECK_EQ(parse("at",
                 "{\"expireAfterSeconds\":60,\"partialFilterExpression\":"
                 "{\"state\":\"done\",\"n\":{\"$gt\":5}}}",
                 NULL, &spec, NULL),
        0);
    CHECK(spec.filter != NULL);
    check_round_trip(&spec);
    index_spec_release(&spec);

    check_refused("at", "{\"partialFilterExpression\":null}", "must be an object");
    check_refused("at", "{\"partialFilterExpression\":[]}", "must be an object");
    check_refused("at", "{\"partialFilterExpression\":\"{}\"}", "must be an object");
    check_refused("at", "{\"partialFilterExpression\":1}", "must be an object");
    check_refused("at", "{\"partialFilterExpression\":{\"a\":{\"$bad\":1}}}", "$bad");
    check_refused("at", "{\"partialFilterExpression\":{\"a\":{\"$ne\":1}}}", "$ne");
    check_refused("at", "{\"partialFilterExpression\":{\"a\":{\"$nin\":[1]}}}", "$nin");
    check_refused("at", "{\"partialFilterExpression\":{\"a\":{\"$regex\":\"x\"}}}", "");
    check_refused("at", "{\"partialFilterExpression\":{\"a\":1},\"hidden\":0}", "hidden");
    check_refused(
        "at", "{\"partialFilterExpression\":{\"a\":1},\"partialFilterExpression\":{}}", "twice");
}

/* Every type of value that a filter can hold comes back as the type that it was. */
static void test_filter_round_trip(void)
{
    static const char *const filters[] = {"{}", "{\"a\":1}", "{\"a\":1.0}", "{\"a\":1.5}",
        "{\"a\":0.1}", "{\"a\":-0.0}", "{\"a\":1e300}", "{\"a\":{\"$numberLong\":\"5\"}}",
        "{\"a\":{\"$numberLong\":\"9007199254740993\"}}", "{\"a\":9007199254740993}",
        "{\"a\":{\"$gt\":{\"$numberLong\":\"5\"}}}", "{\"a\":{\"$numberDouble\":\"NaN\"}}",
        "{\"a\":{\"$numberDouble\":\"-Infinity\"}}", "{\"a\":{\"$numberDecimal\":\"1.50\"}}",
        "{\"a\":\"  two  blanks \"}", "{\"a\":\"q\\\" b\\\\ \\u0001 \\n {\\\" : \"}",
        "{\"a  b\":true}", "{\"a\":null}", "{\"a\":{\"$exists\":true}}",
        "{\"a\":{\"$exists\":false}}", "{\"a\":{\"$date\":\"2026-01-01T00:00:00Z\"}}",
        "{\"a\":{\"$date\":\"2026-01-01T00:00:00.5Z\"}}",
        "{\"a\":{\"$date\":{\"$numberLong\":\"-1\"}}}",
        "{\"a\":{\"$date\":{\"$numberLong\":\"9223372036854775807\"}}}",
        "{\"a\":{\"$oid\":\"0123456789abcdef01234567\"}}", "{\"a\":{\"$in\":[1,2.0,\"x\",null]}}",
        "{\"a\":{\"$gte\":1,\"$lt\":5}}", "{\"a\":{\"$eq\":{\"b\":{\"c\":[1,[2]]}}}}",
        "{\"$or\":[{\"a\":1},{\"b\":{\"$lte\":2}}]}", "{\"$and\":[{\"a\":1},{\"a\":{\"$gt\":0}}]}",
        "{\"a\":{\"$type\":\"date\"}}", "{\"a\":{\"$type\":9}}", "{\"a\":{\"$type\":[\"int\",2]}}",
        "{\"a\":{\"$eq\":[]}}", "{\"a\":{\"$eq\":{}}}", "{\"a\":1,\"a\":2}",
        "{\"a\":{\"$timestamp\":{\"t\":5,\"i\":1}}}", "{\"a\":{\"$minKey\":1}}",
        "{\"a\":{\"$maxKey\":1}}",
        "{\"a\":{\"$binary\":{\"base64\":\"AAEC\",\"subType\":\"00\"}}}"};
    char value[256];

    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        struct index_spec spec;
        struct reason why = {0};
        int r;
        snprintf(value, sizeof value, "{\"key\":\"k\",\"partialFilterExpression\":%s}", filters[i]);
        r = parse("at", value, NULL, &spec, &why);
        if (r != 0)
            fprintf(stderr, "in %s: %s\n", value, why.text);
        CHECK_EQ(r, 0);
        if (r == 0) {
            int before = unit_failures;
            check_round_trip(&spec);
            if (unit_failures > before)
                fprintf(stderr, "in %s\n", value);
        }
        index_spec_release(&spec);
    }
}

static void test_format(void)
{
    check_format("at", "3600", "{\"expireAfterSeconds\":3600,\"key\":\"at\"}");
    check_format("at", "{}", "{\"key\":\"at\"}");
    check_format("_ts", "-1", "{\"expireAfterSeconds\":-1,\"key\":\"_ts\"}");
    check_format("a\"b", "0", "{\"expireAfterSeconds\":0,\"key\":\"a\\\"b\"}");
    check_format("at", "{\"partialFilterExpression\":{\"a\":{\"$gt\":5},\"s\":\"x  y \\\" :\"}}",
        "{\"key\":\"at\",\"partialFilterExpression\":{\"a\":{\"$gt\":5},\"s\":\"x  y \\\" :\"}}");
    check_format("at", "{\"partialFilterExpression\":{\"a\":{\"$numberLong\":\"5\"}}}",
        "{\"key\":\"at\",\"partialFilterExpression\":{\"a\":{\"$numberLong\":\"5\"}}}");
    check_format("at",
        "{\"jitterSeconds\":7,\"as\":\"epochMillis\",\"hidden\":true,\"key\":\"x.y\","
        "\"expireAfterSeconds\":1.0}",
        "{\"expireAfterSeconds\":1,\"key\":\"x.y\",\"hidden\":true,\"as\":\"epochMillis\","
        "\"jitterSeconds\":7}");
    CHECK_STR(index_spec_as_name(FIELDS_AS_DATE), "date");
    CHECK_STR(index_spec_as_name(FIELDS_AS_ISO8601), "iso8601");
    CHECK_STR(index_spec_as_name(FIELDS_AS_EPOCH_SECONDS), "epochSeconds");
    CHECK_STR(index_spec_as_name(FIELDS_AS_EPOCH_MILLIS), "epochMillis");
}

/* Parses on top of base; checks the result, and the filter as JSON unless NULL. */
static void check_merged(const struct index_spec *base, const char *value, struct want want,
    const struct index_spec *want_filter_of)
{
    struct index_spec merged;
    struct reason why = {0};

    CHECK_EQ(parse("ignored", value, base, &merged, &why), 0);
    CHECK_STR(why.text, "");
    if (merged.key) {
        check_spec(&merged, want);
        CHECK(filter_equal(merged.filter, want_filter_of ? want_filter_of->filter : NULL));
        CHECK(!merged.filter || !base->filter || merged.filter != base->filter);
    }
    index_spec_release(&merged);
}

static void test_merge(void)
{
    struct index_spec base, other;
    const struct want all = {"k", true, 60, true, FIELDS_AS_ISO8601, 5};
    struct want want;

    CHECK_EQ(parse("n",
                 "{\"expireAfterSeconds\":60,\"key\":\"k\",\"hidden\":true,\"as\":\"iso8601\","
                 "\"jitterSeconds\":5,\"partialFilterExpression\":{\"a\":1}}",
                 NULL, &base, NULL),
        0);
    CHECK_EQ(parse("n", "{\"partialFilterExpression\":{\"b\":2}}", NULL, &other, NULL), 0);
    check_merged(&base, "{}", all, &base);
    want = all, want.expire_after_s = 90;
    check_merged(&base, "90", want, &base);
    check_merged(&base, "{\"expireAfterSeconds\":90}", want, &base);
    want = all, want.expire_after_s = 0;
    check_merged(&base, "0", want, &base);
    want = all, want.hidden = false;
    check_merged(&base, "{\"hidden\":false}", want, &base);
    want = all, want.as = FIELDS_AS_DATE;
    check_merged(&base, "{\"as\":\"date\"}", want, &base);
    want = all, want.jitter_s = 0;
    check_merged(&base, "{\"jitterSeconds\":0}", want, &base);
    want = all, want.key = "z";
    check_merged(&base, "{\"key\":\"z\"}", want, &base);
    check_merged(&base, "{\"partialFilterExpression\":{\"b\":2}}", all, &other);
    check_spec(&base, all);
    index_spec_release(&base);
    index_spec_release(&other);
}

static void test_merge_validates_the_whole(void)
{
    static const struct {
        const char *name, *value, *change, *word; /* word NULL: allowed */
    } cases[] = {{"a,b", "{}", "60", "compound"},
        {"a,b", "{}", "{\"expireAfterSeconds\":60}", "compound"},
        {"a,b", "{}", "{\"expireAfterSeconds\":60,\"key\":\"a\"}", NULL},
        {"_id", "{}", "60", "_id"}, {"a", "60", "{\"key\":\"a,b\"}", "compound"},
        {"a", "60", "{\"key\":\"_id\"}", "_id"}, {"a", "{}", "{\"key\":\"_id\"}", NULL},
        {"_ts", "-1", "{\"key\":\"a\"}", "_ts"}, {"_ts", "60", "-1", NULL},
        {"a", "60", "-1", "_ts"}, {"a", "60", "{\"expireAfterSeconds\":-1}", "_ts"},
        {"a", "60", "", "empty"}, {"a", "60", "1.5", "neither"}, {"a", "{}", "60", NULL},
        {"a", "60", "{\"expireAfterSeconds\":null}", "number"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct index_spec base, merged;
        struct reason why = {0};
        int r;
        CHECK_EQ(parse(cases[i].name, cases[i].value, NULL, &base, NULL), 0);
        r = parse("_ts", cases[i].change, &base, &merged, &why);
        CHECK_EQ(r, cases[i].word ? -EINVAL : 0);
        CHECK(!cases[i].word || strstr(why.text, cases[i].word));
        CHECK(r == 0 || !merged.key);
        index_spec_release(&merged);
        index_spec_release(&base);
    }
}

static void test_copy_and_same_keys(void)
{
    struct index_spec a, b, c, copy;

    index_spec_init(&a);
    CHECK_EQ(index_spec_copy(&a, &copy), 0);
    CHECK(!copy.key && !copy.filter);
    index_spec_release(&copy);
    index_spec_release(&a);

    CHECK_EQ(parse("k", "{\"partialFilterExpression\":{\"x\":1}}", NULL, &a, NULL), 0);
    CHECK_EQ(parse("n",
                 "{\"expireAfterSeconds\":1,\"key\":\"k\",\"hidden\":true,"
                 "\"partialFilterExpression\":{\"x\":1}}",
                 NULL, &b, NULL),
        0);
    CHECK_EQ(parse("k", "60", NULL, &c, NULL), 0);
    CHECK(index_spec_same_keys(&a, &b));
    CHECK(!index_spec_same_keys(&a, &c));
    CHECK(!index_spec_same_keys(&c, &a));
    CHECK(index_spec_same_keys(&c, &c));
    CHECK_EQ(index_spec_copy(&b, &copy), 0);
    check_same(&copy, &b);
    CHECK(copy.key != b.key && copy.filter != b.filter);
    index_spec_release(&b);
    check_spec(&copy, (struct want){.key = "k", .ttl = true, .expire_after_s = 1, .hidden = true});
    index_spec_release(&copy);
    index_spec_release(&copy);
    index_spec_release(&c);
    index_spec_release(&a);
}

static void test_long_values(void)
{
    static char value[70000];

    memset(value, 'x', sizeof value);
    check_bytes_refused("at", value, sizeof value, "neither");
    memset(value, '9', sizeof value);
    check_bytes_refused("at", value, sizeof value, "larger");
    memset(value, '{', sizeof value);
    check_bytes_refused("at", value, sizeof value, "");
    memset(value, ' ', sizeof value);
    check_bytes_refused("at", value, sizeof value, "");
    value[60000] = '{';
    value[69999] = '}';
    {
        struct index_spec spec;
        CHECK_EQ(parse_bytes("at", value, sizeof value, NULL, &spec, NULL), 0);
        index_spec_release(&spec);
    }
}

int main(void)
{
    RUN(test_plain_ok);
    RUN(test_plain_refused);
    RUN(test_own_ttl_is_for_ts);
    RUN(test_json_expire_after_ok);
    RUN(test_json_expire_after_refused);
    RUN(test_json_is_strict);
    RUN(test_bson_is_refused);
    RUN(test_json_members);
    RUN(test_json_members_refused);
    RUN(test_unknown_and_repeated);
    RUN(test_keys);
    RUN(test_keys_without_expire_after);
    RUN(test_filter);
    RUN(test_filter_round_trip);
    RUN(test_format);
    RUN(test_merge);
    RUN(test_merge_validates_the_whole);
    RUN(test_copy_and_same_keys);
    RUN(test_long_values);
    return unit_report();
}
