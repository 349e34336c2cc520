#include "core/fields.h"

#include "core/bsonx.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

/* Parses a content of a given length; what came out, as canonical Extended JSON, or "none". */
static const char *parse_bytes(const void *content, size_t len)
{
    static char text[8192];
    bson_t fields;
    /* An exact copy on the heap, so that a sanitizer sees reads beyond the end. */
    char *copy = malloc(len ? len : 1);
    if (len)
        memcpy(copy, content, len);
    int rc = fields_parse(copy, len, &fields);
    free(copy);
    if (rc == 0) {
        char *json = bson_as_canonical_extended_json(&fields, NULL);
        snprintf(text, sizeof text, "%s", json ? json : "unprintable");
        bson_free(json);
    } else {
        CHECK_EQ(rc, -EINVAL);
        CHECK(bson_empty(&fields));
        snprintf(text, sizeof text, "none");
    }
    bson_destroy(&fields);
    return text;
}

static const char *parse(const char *content)
{
    return parse_bytes(content, strlen(content));
}

/* The value of the field `a`. */
static void check_value(const char *value, const char *want)
{
    char content[4096], expected[4096];
    snprintf(content, sizeof content, "{\"a\":%s}", value);
    snprintf(expected, sizeof expected, "{ \"a\" : %s }", want);
    CHECK_STR(parse(content), strcmp(want, "none") == 0 ? want : expected);
}

static void test_json_objects(void)
{
    CHECK_STR(parse("{}"), "{ }");
    CHECK_STR(parse(" \t\r\n{ }\n\n"), "{ }");
    CHECK_STR(parse("{\"a\":[],\"b\":{}}"), "{ \"a\" : [  ], \"b\" : {  } }");
    CHECK_STR(parse("{ \"a\" : [ true , false , null , \"x\" ] }"),
        "{ \"a\" : [ true, false, null, \"x\" ] }");
    CHECK_STR(parse("{\"\":{\"$numberInt\":\"1\"}}"), "{ \"\" : { \"$numberInt\" : \"1\" } }");
    /* Duplicate names stay, in order. */
    CHECK_STR(parse("{\"a\":\"1\",\"a\":\"2\"}"), "{ \"a\" : \"1\", \"a\" : \"2\" }");
    /* The document itself is never a wrapper. */
    CHECK_STR(parse("{\"$oid\":\"x\"}"), "{ \"$oid\" : \"x\" }");
    char large[3000] = "{\"a\":[";
    for (int i = 0; i < 300; i++)
        strncat(large, i ? ",true" : "true", sizeof large - strlen(large) - 1);
    strncat(large, "]}", sizeof large - strlen(large) - 1);
    bson_t fields;
    CHECK_EQ(fields_parse(large, strlen(large), &fields), 0);
    bson_iter_t iter, inner;
    CHECK(bson_iter_init(&iter, &fields));
    CHECK(bson_iter_find_descendant(&iter, "a.299", &inner));
    CHECK(!bson_iter_find_descendant(&iter, "a.300", &inner));
    bson_destroy(&fields);
}

static void test_not_json(void)
{
    static const char *const contents[] = {"", " ", "x", "null", "5", "\"a\"", "[]", "[{\"a\":1}]",
        "{", "}", "{}x", "{}{}", "{} {}", "{},", "\xEF\xBB\xBF{}", "\v{}", "\f{}", "{}\f",
        "{'a':1}", "{a:1}", "{\"a\"}", "{\"a\":}", "{\"a\" 1}", "{\"a\":1,}", "{,}", "{,\"a\":1}",
        "{\"a\":1 \"b\":2}", "{\"a\":[1,]}", "{\"a\":[,1]}", "{\"a\":[1 2]}", "{\"a\":[1}",
        "{\"a\":1]", "{\"a\":1}//c", "{/*c*/}", "{\"a\":1", "{\"a\":\"", "{\"a\":\"\\", "{\"a",
        "{1:1}", "{null:1}", "{\"a\":{}", "{\"a\"::1}", "{\"a\":1}}", "{\"a\":\"x}", "{\"a\":[",
        "{\"a\x01\":1}", "{\"\\u0000\":1}", "{\"a\\u0000b\":1}"};
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++)
        CHECK_STR(parse(contents[i]), "none");
    CHECK_STR(parse_bytes("{}\0", 3), "none");
    CHECK_STR(parse_bytes("{\0}", 3), "none");
    CHECK_STR(parse_bytes("{\"a\0b\":1}", 9), "none");
    CHECK_STR(parse_bytes("{\"a\":\"x\0y\"}", 11), "none");
}

static void test_words_and_numbers(void)
{
    static const char *const wrong[] = {"tru", "True", "trueX", "nul", "NaN", "Infinity",
        "-Infinity", "undefined", "+1", "01", "-01", "00", "-", "--1", ".5", "1.", "1.e5", "1e",
        "1e+", "1E-", "0x10", "1_000", "1e999", "-1e999", "1.5.5", "1 2", "\u0661", "- 1", "1e5.5",
        "0.0.0", "0e"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_value(wrong[i], "none");
    check_value("0", "{ \"$numberInt\" : \"0\" }");
    check_value("-0", "{ \"$numberInt\" : \"0\" }");
    check_value("-1", "{ \"$numberInt\" : \"-1\" }");
    check_value("2147483647", "{ \"$numberInt\" : \"2147483647\" }");
    check_value("-2147483648", "{ \"$numberInt\" : \"-2147483648\" }");
    check_value("2147483648", "{ \"$numberLong\" : \"2147483648\" }");
    check_value("-2147483649", "{ \"$numberLong\" : \"-2147483649\" }");
    check_value("9223372036854775807", "{ \"$numberLong\" : \"9223372036854775807\" }");
    check_value("-9223372036854775808", "{ \"$numberLong\" : \"-9223372036854775808\" }");
    check_value("9223372036854775808", "{ \"$numberDouble\" : \"9223372036854775808.0\" }");
    check_value("-9223372036854775809", "{ \"$numberDouble\" : \"-9223372036854775808.0\" }");
    check_value("1e3", "{ \"$numberDouble\" : \"1000.0\" }");
    check_value("1E+3", "{ \"$numberDouble\" : \"1000.0\" }");
    check_value("0.5", "{ \"$numberDouble\" : \"0.5\" }");
    check_value("-0.0", "{ \"$numberDouble\" : \"-0.0\" }");
    check_value("1e-999", "{ \"$numberDouble\" : \"0.0\" }");
    check_value("25e-1", "{ \"$numberDouble\" : \"2.5\" }");
}

static void test_strings(void)
{
    check_value("\"\"", "\"\"");
    check_value("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
    check_value("\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "\"A\u00e9\u20ac\U0001F600\"");
    check_value("\"\u00e9\u20ac\U0001F600\x7f\"", "\"\u00e9\u20ac\U0001F600\x7f\"");
    check_value("\"x\\u0000y\"", "\"x\\u0000y\"");
    static const char *const wrong[] = {"\"\\x\"", "\"\\u\"", "\"\\u12\"", "\"\\u12g4\"",
        "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"", "\"\\ud800x\"", "\"\\ud800\\\"",
        "\"\\ud83d\\ud83d\"", "\"\t\"", "\"\n\"", "\"\x1f\"", "\"\xff\"", "\"\xc3\"", "\"\xc3(\"",
        "\"\xc0\x80\"", "\"\xe0\x80\x80\"", "\"\xed\xa0\x80\"", "\"\xf0\x80\x80\x80\"",
        "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"\x80\"", "\"\xe2\x82\"", "'x'"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_value(wrong[i], "none");
}

static void test_dates(void)
{
    static const struct {
        const char *date;
        const char *ms; /* NULL: not a date, so no fields */
    } dates[] = {
        {"123", "123"},
        {"-123", "-123"},
        {"{\"$numberLong\":\"-1\"}", "-1"},
        {"{\"$numberInt\":\"7\"}", "7"},
        {"{\"$numberLong\":\"-9223372036854775808\"}", "-9223372036854775808"},
        {"9223372036854775807", "9223372036854775807"},
        {"\"1969-12-31T23:59:59Z\"", "-1000"},
        {"\"1969-12-31T23:59:59.500Z\"", "-500"},
        {"\"1970-01-01T00:00:00Z\"", "0"},
        {"\"0001-01-01T00:00:00Z\"", "-62135596800000"},
        {"\"9999-12-31T23:59:59.999Z\"", "253402300799999"},
        {"\"2020-01-01T00:00:00.000+0100\"", "1577833200000"},
        {"\"2020-01-01T00:00:00+01:00\"", "1577833200000"},
        {"\"2020-01-01T00:00:00-0100\"", "1577840400000"},
        {"\"2020-01-01\"", "1577836800000"},
        {"\"2020-01-01T00:00:00Z\\u0000\"", NULL},
        {"\"x\"", NULL},
        {"\"\"", NULL},
        {"1.5", NULL},
        {"1e3", NULL},
        {"true", NULL},
        {"null", NULL},
        {"{}", NULL},
        {"[]", NULL},
        {"9223372036854775808", NULL},
        {"{\"$numberLong\":\"9223372036854775808\"}", NULL},
        {"{\"$numberDouble\":\"1\"}", NULL},
        {"1,\"b\":1", NULL},
        {"1,\"$date\":1", NULL},
    };
    for (size_t i = 0; i < sizeof dates / sizeof *dates; i++) {
        char value[256], want[256];
        snprintf(value, sizeof value, "{\"$date\":%s}", dates[i].date);
        snprintf(want, sizeof want, "{ \"$date\" : { \"$numberLong\" : \"%s\" } }",
            dates[i].ms ? dates[i].ms : "");
        check_value(value, dates[i].ms ? want : "none");
    }
    check_value("{\"\\u0024date\":5}", "{ \"$date\" : { \"$numberLong\" : \"5\" } }");
    check_value("[{\"$date\":1},{\"b\":{\"$date\":2}}]",
        "[ { \"$date\" : { \"$numberLong\" : \"1\" } }, "
        "{ \"b\" : { \"$date\" : { \"$numberLong\" : \"2\" } } } ]");
}

/* Wrappers that read back as they are written by libbson, apart from white space. */
static void test_type_wrappers(void)
{
    static const struct {
        const char *value;
        const char *want; /* NULL: the same */
    } wrappers[] = {
        {"{ \"$oid\" : \"5f00000000000000000000aB\" }",
            "{ \"$oid\" : \"5f00000000000000000000ab\" }"},
        {"{ \"$binary\" : { \"base64\" : \"\", \"subType\" : \"00\" } }", NULL},
        {"{ \"$binary\" : { \"base64\" : \"AA==\", \"subType\" : \"80\" } }", NULL},
        {"{ \"$binary\" : { \"base64\" : \"AAE=\", \"subType\" : \"05\" } }", NULL},
        {"{ \"$binary\" : { \"base64\" : \"AAEC+/8=\", \"subType\" : \"02\" } }", NULL},
        {"{ \"$binary\" : { \"subType\" : \"0\", \"base64\" : \"AAEC\" } }",
            "{ \"$binary\" : { \"base64\" : \"AAEC\", \"subType\" : \"00\" } }"},
        {"{ \"$binary\" : \"AAEC\", \"$type\" : \"ff\" }",
            "{ \"$binary\" : { \"base64\" : \"AAEC\", \"subType\" : \"ff\" } }"},
        {"{ \"$type\" : \"0\", \"$binary\" : \"AAEC\" }",
            "{ \"$binary\" : { \"base64\" : \"AAEC\", \"subType\" : \"00\" } }"},
        {"{ \"$uuid\" : \"73ffd264-44b3-4c69-90e8-e7d1dfc035d4\" }",
            "{ \"$binary\" : { \"base64\" : \"c//SZESzTGmQ6OfR38A11A==\", \"subType\" : \"04\" } "
            "}"},
        {"{ \"$regularExpression\" : { \"pattern\" : \"a*b\", \"options\" : \"im\" } }", NULL},
        {"{ \"$regex\" : \"x\", \"$options\" : \"mi\" }",
            "{ \"$regularExpression\" : { \"pattern\" : \"x\", \"options\" : \"im\" } }"},
        {"{ \"$options\" : \"\", \"$regex\" : \"x\" }",
            "{ \"$regularExpression\" : { \"pattern\" : \"x\", \"options\" : \"\" } }"},
        {"{ \"$regex\" : \"x\" }",
            "{ \"$regularExpression\" : { \"pattern\" : \"x\", \"options\" : \"\" } }"},
        {"{ \"$timestamp\" : { \"t\" : 4294967295, \"i\" : 2 } }", NULL},
        {"{ \"$timestamp\" : { \"i\" : 0, \"t\" : 1 } }",
            "{ \"$timestamp\" : { \"t\" : 1, \"i\" : 0 } }"},
        {"{ \"$undefined\" : true }", NULL},
        {"{ \"$minKey\" : 1 }", NULL},
        {"{ \"$maxKey\" : 1 }", NULL},
        {"{ \"$symbol\" : \"s\" }", NULL},
        {"{ \"$code\" : \"f()\" }", NULL},
        {"{ \"$code\" : \"f()\", \"$scope\" : { \"x\" : { \"$numberInt\" : \"1\" } } }", NULL},
        {"{ \"$scope\" : { }, \"$code\" : \"f()\" }", "{ \"$code\" : \"f()\", \"$scope\" : { } }"},
        {"{ \"$dbPointer\" : { \"$ref\" : \"c\", \"$id\" : { \"$oid\" : "
         "\"5f0000000000000000000000\" } } }",
            NULL},
        {"{ \"$numberInt\" : \"-5\" }", NULL},
        {"{ \"$numberLong\" : \"5\" }", NULL},
        {"{ \"$numberDouble\" : \"NaN\" }", NULL},
        {"{ \"$numberDouble\" : \"-Infinity\" }", NULL},
        {"{ \"$numberDouble\" : \"5e1\" }", "{ \"$numberDouble\" : \"50.0\" }"},
        {"{ \"$numberDecimal\" : \"1.50E+7\" }", NULL},
        {"{ \"$numberDecimal\" : \"NaN\" }", NULL},
    };
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
        check_value(wrappers[i].value, wrappers[i].want ? wrappers[i].want : wrappers[i].value);
}

static void test_wrong_wrappers(void)
{
    static const char *const wrong[] = {"{\"$oid\":\"x\"}", "{\"$oid\":5}",
        "{\"$oid\":\"5f00000000000000000000\\u0000\\u0000\"}",
        "{\"$oid\":\"5f0000000000000000000000\",\"x\":1}", "{\"$numberInt\":5}",
        "{\"$numberInt\":\"2147483648\"}", "{\"$numberInt\":\"\"}", "{\"$numberInt\":\"1.0\"}",
        "{\"$numberLong\":5}", "{\"$numberLong\":\"5x\"}", "{\"$numberLong\":\" 5\"}",
        "{\"$numberDouble\":5}", "{\"$numberDouble\":\"1x\"}", "{\"$numberDouble\":\"0x1p3\"}",
        "{\"$numberDouble\":\"1e999\"}", "{\"$numberDouble\":\"nan\"}",
        "{\"$numberDecimal\":\"x\"}", "{\"$numberDecimal\":1}",
        "{\"$binary\":\"A\",\"$type\":\"00\"}", "{\"$binary\":\"AA==\"}",
        "{\"$binary\":\"AA==\",\"$type\":0}", "{\"$binary\":\"AA==\",\"$type\":\"\"}",
        "{\"$binary\":\"AA==\",\"$type\":\"000\"}", "{\"$binary\":\"AA==\",\"$type\":\")2\"}",
        "{\"$binary\":\"AA==\",\"$type\":\"2)\"}", "{\"$binary\":\"A===\",\"$type\":\"00\"}",
        "{\"$binary\":\"AA=A\",\"$type\":\"00\"}", "{\"$binary\":\"AA==AAAA\",\"$type\":\"00\"}",
        "{\"$binary\":{\"base64\":\"AA==\"}}",
        "{\"$binary\":{\"base64\":\"AA==\",\"subType\":\"00\",\"x\":1}}",
        "{\"$uuid\":\"73ffd264-44b3-4c69-90e8-e7d1dfc035d\"}", "{\"$uuid\":1}",
        "{\"$uuid\":\"73ffd26444b3-4c69-90e8--e7d1dfc035d4\"}",
        "{\"$regularExpression\":{\"pattern\":\"x\"}}",
        "{\"$regularExpression\":{\"pattern\":\"x\",\"options\":\"q\"}}",
        "{\"$regularExpression\":{\"pattern\":\"\\u0000\",\"options\":\"\"}}", "{\"$timestamp\":5}",
        "{\"$timestamp\":{\"t\":-1,\"i\":0}}", "{\"$timestamp\":{\"t\":4294967296,\"i\":0}}",
        "{\"$timestamp\":{\"t\":1}}", "{\"$undefined\":false}", "{\"$minKey\":2}",
        "{\"$maxKey\":\"1\"}", "{\"$symbol\":1}", "{\"$code\":1}", "{\"$code\":\"x\",\"y\":1}",
        "{\"$code\":\"x\",\"$scope\":1}", "{\"$dbPointer\":5}",
        "{\"$dbPointer\":{\"$ref\":\"c\",\"$id\":1}}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        check_value(wrong[i], "none");
}

/* Documents with $ in front that are no wrappers: filters and references are made of these. */
static void test_dollar_documents(void)
{
    static const char *const same[] = {"{ \"$type\" : \"date\" }", "{ \"$gt\" : \"x\" }",
        "{ \"$type\" : [ \"date\", \"long\" ] }", "{ \"$type\" : \"date\", \"$gt\" : \"x\" }",
        "{ \"$regex\" : \"x\", \"$ne\" : \"y\" }", "{ \"$regex\" : \"x\", \"$options\" : \"q\" }",
        ("{ \"$regex\" : { \"$regularExpression\" : { \"pattern\" : \"x\", \"options\" : \"\" } }, "
         "\"$options\" : \"i\" }"),
        "{ \"$options\" : \"i\" }", "{ \"$scope\" : \"x\" }", "{ \"$exists\" : true }",
        "{ \"$ref\" : \"c\", \"$id\" : \"x\" }", "{ \"x\" : \"y\", \"$date\" : \"z\" }",
        "{ \"$\" : \"x\" }", "{ \"$dates\" : \"x\" }"};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        check_value(same[i], same[i]);
}

static void check_depth(unsigned int depth, const char *open, const char *close, int want)
{
    size_t size = depth * (strlen(open) + strlen(close)) + 16;
    char *text = calloc(1, size), *at = text;
    bson_t fields;
    at = stpcpy(at, "{\"a\":");
    for (unsigned int i = 1; i < depth; i++)
        at = stpcpy(at, open);
    at = stpcpy(at, "1");
    for (unsigned int i = 1; i < depth; i++)
        at = stpcpy(at, close);
    (void) stpcpy(at, "}");
    CHECK_EQ(fields_parse(text, strlen(text), &fields), want);
    bson_destroy(&fields);
    free(text);
}

static void test_nesting(void)
{
    check_depth(FIELDS_MAX_DEPTH, "[", "]", 0);
    check_depth(FIELDS_MAX_DEPTH + 1, "[", "]", -EINVAL);
    check_depth(FIELDS_MAX_DEPTH, "{\"a\":", "}", 0);
    check_depth(FIELDS_MAX_DEPTH + 1, "{\"a\":", "}", -EINVAL);
    check_depth(1000000, "[", "]", -EINVAL);
    check_depth(1000000, "{\"a\":", "}", -EINVAL);
    /* Without the closing brackets, too. */
    char *text = malloc(1000000);
    memset(text, '[', 1000000);
    CHECK_STR(parse_bytes(text, 1000000), "none");
    text[0] = '{';
    CHECK_STR(parse_bytes(text, 1000000), "none");
    free(text);
}

/* A BSON document with that many documents, or code scopes, inside one another. */
static uint8_t *nested_bson(unsigned int depth, bool scopes, size_t *ret_len)
{
    /* Each level in front of the next: length, type, "a"; for a scope also lengths and code. */
    const size_t front = scopes ? 4 + 3 + 4 + 5 : 4 + 3;
    size_t len = (size_t) depth * (front + 1) + 5 - (front + 1);
    uint8_t *data = calloc(1, len), *at = data;
    *ret_len = len;
    for (unsigned int i = 0; i < depth; i++, len -= front + 1) {
        uint32_t lengths[] = {(uint32_t) len, (uint32_t) (len - 8), 1};
        memcpy(at, &lengths[0], 4);
        if (i == depth - 1)
            break;
        at[4] = scopes ? BSON_TYPE_CODEWSCOPE : BSON_TYPE_DOCUMENT;
        at[5] = 'a';
        if (scopes) {
            memcpy(at + 7, &lengths[1], 4);
            memcpy(at + 11, &lengths[2], 4);
        }
        at += front;
    }
    return data;
}

static void test_bson_nesting(void)
{
    static const struct {
        unsigned int depth;
        bool scopes;
        bool valid;
    } cases[] = {{1, false, true}, {2, false, true}, {FIELDS_MAX_DEPTH, false, true},
        {FIELDS_MAX_DEPTH + 1, false, false}, {100000, false, false}, {2, true, true},
        {FIELDS_MAX_DEPTH, true, true}, {FIELDS_MAX_DEPTH + 1, true, false}, {100000, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t len;
        bson_t fields;
        uint8_t *data = nested_bson(cases[i].depth, cases[i].scopes, &len);
        CHECK_EQ(fields_parse(data, len, &fields), cases[i].valid ? 0 : -EINVAL);
        CHECK_EQ(fields.len, cases[i].valid ? len : 5);
        bson_destroy(&fields);
        free(data);
    }
}

static void test_bson(void)
{
    CHECK_STR(parse_bytes("\5\0\0\0\0", 5), "{ }");
    CHECK_STR(parse_bytes("\5\0\0\0\0\0", 6), "none");
    CHECK_STR(parse_bytes("\6\0\0\0\0\0", 6), "none");
    CHECK_STR(parse_bytes("\5\0\0\0\1", 5), "none");
    CHECK_STR(parse_bytes("\5\0\0\0", 4), "none");
    CHECK_STR(parse_bytes("\0\0\0\0", 4), "none");
    CHECK_STR(
        parse_bytes("\x0c\0\0\0\x10x\0\1\0\0\0\0", 12), "{ \"x\" : { \"$numberInt\" : \"1\" } }");
    CHECK_STR(parse_bytes("\x0c\0\0\0\x10x\0\1\0\0\0\1", 12), "none");
    CHECK_STR(parse_bytes("\x0e\0\0\0\2x\0\2\0\0\0y\0\0", 14), "{ \"x\" : \"y\" }");
    CHECK_STR(parse_bytes("\x0e\0\0\0\2x\0\2\0\0\0\xff\0\0", 14), "none"); /* UTF-8 */
    CHECK_STR(parse_bytes("\x0e\0\0\0\2\xff\0\2\0\0\0y\0\0", 14), "none");
    CHECK_STR(parse_bytes("\x0e\0\0\0\2x\0\3\0\0\0y\0\0", 14), "none"); /* a length */
    CHECK_STR(parse_bytes("\x09\0\0\0\x0ex\0\2\0", 9), "none");
    CHECK_STR(parse_bytes("\x09\0\0\0\x08x\0\2\0", 9), "none"); /* neither true nor false */
    CHECK_STR(parse_bytes("\x09\0\0\0\x08x\0\1\0", 9), "{ \"x\" : true }");
    CHECK_STR(parse_bytes("\xff\xff\xff\xff\0", 5), "none");
    CHECK_STR(parse_bytes("\0\0\0\x80\0", 5), "none");

    /* Documents whose length begins like JSON: 0x7b is a brace, 0x20 and 0x09 are white space. */
    static const uint32_t lengths[] = {0x7b, 0x20, 0x09, 0x0a, 0x0d, 0x7b20, 0x2020};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        bson_t document = BSON_INITIALIZER, fields;
        char *text = calloc(1, lengths[i] + 1);
        memset(text, 'x', lengths[i]);
        if (lengths[i] >= 13)
            bson_append_utf8(&document, "", -1, text, (int) lengths[i] - 12);
        else if (lengths[i] == 9)
            bson_append_bool(&document, "a", -1, true);
        else
            bson_append_bool(&document, "ab", -1, true);
        CHECK_EQ(document.len, lengths[i]);
        CHECK(fields_may_have(bson_get_data(&document), document.len));
        CHECK_EQ(fields_parse(bson_get_data(&document), document.len, &fields), 0);
        CHECK(bson_equal(&document, &fields));
        bson_destroy(&fields);
        bson_destroy(&document);
        free(text);
    }
}

static void test_size_limit(void)
{
    bson_t fields;
    char *content = malloc(FIELDS_MAX_BYTES + 1);
    memset(content, ' ', FIELDS_MAX_BYTES + 1);
    content[0] = '{';
    content[1] = '}';
    CHECK_EQ(fields_parse(content, FIELDS_MAX_BYTES, &fields), 0);
    bson_destroy(&fields);
    CHECK_EQ(fields_parse(content, FIELDS_MAX_BYTES + 1, &fields), -EINVAL);
    bson_destroy(&fields);
    CHECK(!fields_may_have(content, FIELDS_MAX_BYTES + 1));
    /* A short text whose BSON would be beyond the limit. */
    size_t len = 0;
    len += (size_t) snprintf(content, 16, "{\"a\":[0");
    while (len < 4 * 1024 * 1024) {
        content[len++] = ',';
        content[len++] = '0';
    }
    content[len++] = ']';
    content[len++] = '}';
    CHECK_EQ(fields_parse(content, len, &fields), -EINVAL);
    bson_destroy(&fields);
    free(content);
}

static void test_may_have(void)
{
    CHECK(!fields_may_have("", 0));
    CHECK(!fields_may_have("hello", 5));
    CHECK(!fields_may_have("[1]", 3));
    CHECK(fields_may_have("{", 1));
    CHECK(fields_may_have(" {", 2));
    CHECK(fields_may_have(" \n", 2)); /* the brace may follow */
    CHECK(!fields_may_have(" x", 2));
    /* The first bytes of a longer BSON document will do. */
    CHECK(fields_may_have("\x40\0\0\0\x10", 5));
    CHECK(!fields_may_have("\5\0\0\0\0\0", 6));
    CHECK(!fields_may_have("\1\0\0\2\0", 5));
}

static void test_parse_value(void)
{
    static const struct {
        const char *text;
        const char *want; /* NULL: refused */
    } values[] = {
        {"12", "{ \"\" : { \"$numberInt\" : \"12\" } }"},
        {" -1.5e0 ", "{ \"\" : { \"$numberDouble\" : \"-1.5\" } }"},
        {"\"text\"", "{ \"\" : \"text\" }"},
        {"null", "{ \"\" : null }"},
        {"[1,\"2\"]", "{ \"\" : [ { \"$numberInt\" : \"1\" }, \"2\" ] }"},
        {"{\"a\":true}", "{ \"\" : { \"a\" : true } }"},
        {"{\"$date\":\"2026-01-01T00:00:00Z\"}",
            "{ \"\" : { \"$date\" : { \"$numberLong\" : \"1767225600000\" } } }"},
        {"{\"$date\":{\"$numberLong\":\"-1\"}}",
            "{ \"\" : { \"$date\" : { \"$numberLong\" : \"-1\" } } }"},
        {"", NULL},
        {" ", NULL},
        {"text", NULL},
        {"12 13", NULL},
        {"{\"$date\":\"tomorrow\"}", NULL},
        {"nul", NULL},
        {"1e", NULL},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        bson_t value;
        struct reason why = {0};
        size_t len = strlen(values[i].text);
        char *copy = malloc(len + 1);
        memcpy(copy, values[i].text, len);
        int rc = fields_parse_value(copy, len, &value, &why);
        CHECK_EQ(rc, values[i].want ? 0 : -EINVAL);
        if (values[i].want) {
            char *json = bson_as_canonical_extended_json(&value, NULL);
            CHECK_STR(json, values[i].want);
            bson_free(json);
        } else {
            CHECK(why.text[0] != '\0');
            CHECK(bson_empty(&value));
        }
        bson_destroy(&value);
        free(copy);
    }
    struct reason why;
    bson_t value;
    CHECK_EQ(fields_parse_value("{\"$date\":\"x\"}", 13, &value, &why), -EINVAL);
    CHECK_STR(why.text, "not Extended JSON: $date is neither milliseconds nor an RFC 3339 date "
                        "(at byte 13)");
    bson_destroy(&value);
}

/* What becomes of fields when a value is added at a path. */
static void check_add(const char *content, const char *path, const char *text, const char *want)
{
    bson_t fields, value;
    CHECK_EQ(fields_parse(content, strlen(content), &fields), 0);
    CHECK_EQ(fields_parse_value(text, strlen(text), &value, NULL), 0);
    int rc = fields_add(&fields, path, &value);
    CHECK_EQ(rc, want ? 0 : -EINVAL);
    if (want) {
        CHECK(bson_validate(&fields, BSON_VALIDATE_UTF8, NULL));
        char *json = bson_as_canonical_extended_json(&fields, NULL);
        CHECK_STR(json, want);
        bson_free(json);
    }
    bson_destroy(&value);
    bson_destroy(&fields);
}

static void test_add(void)
{
    check_add("{}", "a", "\"x\"", "{ \"a\" : \"x\" }");
    check_add("{}", "a.b.c", "null", "{ \"a\" : { \"b\" : { \"c\" : null } } }");
    check_add("{\"b\":\"y\"}", "a", "[\"x\"]", "{ \"b\" : \"y\", \"a\" : [ \"x\" ] }");
    check_add("{\"a\":\"y\"}", "a", "\"x\"", "{ \"a\" : \"y\" }");
    check_add("{\"a\":null}", "a", "\"x\"", "{ \"a\" : null }");
    check_add("{\"a\":{\"b\":\"1\"},\"z\":\"2\"}", "a.c", "\"x\"",
        "{ \"a\" : { \"b\" : \"1\", \"c\" : \"x\" }, \"z\" : \"2\" }");
    check_add("{\"a\":{\"b\":{}},\"z\":\"2\"}", "a.b.c.d", "{\"e\":\"x\"}",
        "{ \"a\" : { \"b\" : { \"c\" : { \"d\" : { \"e\" : \"x\" } } } }, \"z\" : \"2\" }");
    check_add("{\"a\":{\"b\":\"1\"}}", "a.b", "\"x\"", "{ \"a\" : { \"b\" : \"1\" } }");
    check_add("{\"a\":\"1\"}", "a.b", "\"x\"", "{ \"a\" : \"1\" }");
    check_add("{\"a\":[{}]}", "a.0.b", "\"x\"", "{ \"a\" : [ {  } ] }");
    check_add("{\"ab\":\"1\"}", "a", "\"x\"", "{ \"ab\" : \"1\", \"a\" : \"x\" }");
    check_add("{}", "", "1", NULL);
    check_add("{}", ".", "1", NULL);
    check_add("{}", "a.", "1", NULL);
    check_add("{}", ".a", "1", NULL);
    check_add("{}", "a..b", "1", NULL);
    char path[2 * FIELDS_MAX_DEPTH + 2] = "a";
    for (int i = 1; i < FIELDS_MAX_DEPTH; i++)
        strncat(path, ".a", sizeof path - strlen(path) - 1);
    bson_t fields = BSON_INITIALIZER, value;
    CHECK_EQ(fields_parse_value("1", 1, &value, NULL), 0);
    CHECK_EQ(fields_add(&fields, path, &value), 0);
    CHECK_EQ(fields_add(&fields, path, &value), 0);
    strncat(path, ".a", sizeof path - strlen(path) - 1);
    CHECK_EQ(fields_add(&fields, path, &value), -EINVAL);
    bson_destroy(&value);
    bson_destroy(&fields);
}

static void test_set(void)
{
    static const char content[] = "{\"_ts\":\"x\",\"a\":\"1\",\"_ts\":[],\"b\":\"2\",\"_ts\":{}}";
    bson_t fields;
    CHECK_EQ(fields_parse(content, strlen(content), &fields), 0);
    CHECK_EQ(fields_set_date(&fields, "_ts", -5), 0);
    CHECK_EQ(fields_set_int64(&fields, "_size", 7), 0);
    CHECK_EQ(fields_set_utf8(&fields, "_id", "name\xff", 5), 0);
    CHECK_EQ(fields_set_utf8(&fields, "_id", "name", 4), 0);
    CHECK_EQ(fields_set_int64(&fields, "_size", 8), 0);
    char *json = bson_as_canonical_extended_json(&fields, NULL);
    CHECK_STR(json, "{ \"a\" : \"1\", \"b\" : \"2\", \"_ts\" : { \"$date\" : { \"$numberLong\" : "
                    "\"-5\" } }, \"_id\" : \"name\", \"_size\" : { \"$numberLong\" : \"8\" } }");
    bson_free(json);
    bson_destroy(&fields);
    bson_init(&fields);
    CHECK_EQ(fields_set_date(&fields, "_ts", 1), 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(fields_set_date(&fields, i % 2 ? "_a" : "_ts", i), 0);
    CHECK_EQ(bson_count_keys(&fields), 2);
    CHECK(bson_validate(&fields, BSON_VALIDATE_UTF8, NULL));
    bson_destroy(&fields);
}

#define NO_DATE INT64_C(-424242)

static int64_t earliest(const char *content, const char *path, enum fields_as as)
{
    bson_t fields;
    int64_t date_ms = NO_DATE;
    CHECK_EQ(fields_parse(content, strlen(content), &fields), 0);
    bool found = fields_earliest_date(&fields, path, as, &date_ms);
    CHECK(found == (date_ms != NO_DATE));
    bson_destroy(&fields);
    return date_ms;
}

/* D(5) is a date in JSON. */
#define D(ms) "{\"$date\":" #ms "}"

static void test_earliest_date(void)
{
    static const struct {
        const char *content;
        const char *path;
        int64_t want;
    } cases[] = {
        {"{\"a\":" D(5) "}", "a", 5},
        {"{\"a\":" D(-5) "}", "a", -5},
        {"{\"a\":5}", "a", NO_DATE},
        {"{\"a\":\"2020-01-01T00:00:00Z\"}", "a", NO_DATE},
        {"{\"a\":{\"$timestamp\":{\"t\":1,\"i\":1}}}", "a", NO_DATE},
        {"{\"b\":" D(5) "}", "a", NO_DATE},
        {"{\"a\":[" D(5) "," D(3) "," D(4) ",1,null]}", "a", 3},
        {"{\"a\":[]}", "a", NO_DATE},
        {"{\"a\":[[" D(5) "]]}", "a", NO_DATE},
        {"{\"a\":[[" D(5) "]," D(7) "]}", "a", 7},
        {"{\"a\":{\"b\":" D(5) "}}", "a", NO_DATE},
        {"{\"a\":{\"b\":" D(5) "}}", "a.b", 5},
        {"{\"a.b\":" D(5) "}", "a.b", NO_DATE},
        {"{\"a\":{\"b\":[" D(5) "," D(4) "]}}", "a.b", 4},
        {"{\"a\":[{\"b\":" D(5) "},{\"c\":" D(1) "},3,{\"b\":" D(4) "}]}", "a.b", 4},
        {"{\"a\":[{\"b\":[" D(5) "," D(4) "]},{\"b\":[" D(3) "]}]}", "a.b", 3},
        {"{\"a\":[{\"b\":[[" D(5) "]]}]}", "a.b", NO_DATE},
        {"{\"a\":[[{\"b\":" D(5) "}]]}", "a.b", NO_DATE},
        {"{\"a\":[[{\"b\":" D(5) "}]]}", "a.0.b", 5},
        {"{\"a\":[" D(5) "," D(4) "]}", "a.0", 5},
        {"{\"a\":[" D(5) "," D(4) "]}", "a.1", 4},
        {"{\"a\":[" D(5) "," D(4) "]}", "a.2", NO_DATE},
        {"{\"a\":[" D(5) "," D(4) "]}", "a.01", NO_DATE},
        {"{\"a\":[" D(5) "," D(4) "]}", "a.-1", NO_DATE},
        /* What a number names counts as it is: MongoDB's index key for this is the array. */
        {"{\"a\":[[" D(5) "]]}", "a.0", NO_DATE},
        {"{\"a\":[[" D(5) "]]}", "a.0.0", 5},
        {"{\"a\":{\"0\":" D(5) "}}", "a.0", 5},
        {"{\"a\":[{\"0\":" D(5) "}]}", "a.0", 5},
        {"{\"a\":[{\"b\":" D(5) "},{\"b\":" D(4) "}]}", "a.0.b", 5},
        {"{\"a\":[{\"b\":[" D(5) "," D(4) "]}]}", "a.b.1", 4},
        {"{\"a\":[[[{\"b\":" D(5) "}]]]}", "a.0.0.b", 5},
        {"{\"a\":[[[[{\"b\":" D(5) "}]]]]}", "a.0.0.b", NO_DATE},
        {"{\"a\":{\"b\":{\"c\":[{\"d\":" D(2) "}]}}}", "a.b.c.d", 2},
        /* Of fields with one name the first counts, as in MongoDB. */
        {"{\"a\":" D(5) ",\"a\":" D(4) "}", "a", 5},
        {"{\"a\":" D(9223372036854775807) "}", "a", INT64_MAX},
        {"{\"a\":5}", "a.b.c", NO_DATE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_EQ(earliest(cases[i].content, cases[i].path, FIELDS_AS_DATE), cases[i].want);
    /* A path of any length ends where the document does. */
    char path[4001];
    for (int i = 0; i < 4000; i += 2)
        memcpy(path + i, "a.", 2);
    path[3999] = '\0';
    CHECK_EQ(earliest("{\"a\":{\"a\":{\"a\":1}}}", path, FIELDS_AS_DATE), NO_DATE);
}

static void test_dates_from_other_types(void)
{
    static const struct {
        const char *value;
        enum fields_as as;
        int64_t want;
    } cases[] = {
        {D(5), FIELDS_AS_ISO8601, 5},
        {D(5), FIELDS_AS_EPOCH_SECONDS, 5},
        {"\"1970-01-01T00:00:01Z\"", FIELDS_AS_ISO8601, 1000},
        {"\"1970-01-01T01:00:01+01:00\"", FIELDS_AS_ISO8601, 1000},
        {"\"soon\"", FIELDS_AS_ISO8601, NO_DATE},
        {"\"\"", FIELDS_AS_ISO8601, NO_DATE},
        {"1", FIELDS_AS_ISO8601, NO_DATE},
        {"[\"x\",\"1970-01-01T00:00:01Z\",\"1969-12-31T23:59:59Z\"]", FIELDS_AS_ISO8601, -1000},
        {"\"1970-01-01T00:00:01Z\"", FIELDS_AS_EPOCH_SECONDS, NO_DATE},
        {"5", FIELDS_AS_EPOCH_SECONDS, 5000},
        {"5", FIELDS_AS_EPOCH_MILLIS, 5},
        {"-5", FIELDS_AS_EPOCH_SECONDS, -5000},
        {"3000000000", FIELDS_AS_EPOCH_SECONDS, INT64_C(3000000000000)},
        {"9223372036854775807", FIELDS_AS_EPOCH_SECONDS, INT64_MAX},
        {"-9223372036854775807", FIELDS_AS_EPOCH_SECONDS, INT64_MIN},
        {"9223372036854775807", FIELDS_AS_EPOCH_MILLIS, INT64_MAX},
        {"1.5", FIELDS_AS_EPOCH_SECONDS, 1500},
        {"1.9999", FIELDS_AS_EPOCH_SECONDS, 1999},
        {"-0.0001", FIELDS_AS_EPOCH_SECONDS, -1},
        {"1577836800.123", FIELDS_AS_EPOCH_SECONDS, INT64_C(1577836800123)},
        {"0.001", FIELDS_AS_EPOCH_SECONDS, 1},
        {"1.9", FIELDS_AS_EPOCH_MILLIS, 1},
        {"-1.1", FIELDS_AS_EPOCH_MILLIS, -2},
        {"1e300", FIELDS_AS_EPOCH_SECONDS, INT64_MAX},
        {"-1e300", FIELDS_AS_EPOCH_MILLIS, INT64_MIN},
        {"1.7e308", FIELDS_AS_EPOCH_SECONDS, INT64_MAX},
        {"{\"$numberDouble\":\"NaN\"}", FIELDS_AS_EPOCH_SECONDS, NO_DATE},
        {"{\"$numberDouble\":\"Infinity\"}", FIELDS_AS_EPOCH_SECONDS, NO_DATE},
        {"{\"$numberDecimal\":\"1.5\"}", FIELDS_AS_EPOCH_SECONDS, 1500},
        {"{\"$numberDecimal\":\"-1.234\"}", FIELDS_AS_EPOCH_SECONDS, -1234},
        {"{\"$numberDecimal\":\"1.2345\"}", FIELDS_AS_EPOCH_SECONDS, NO_DATE},
        {"{\"$numberDecimal\":\"1.2340\"}", FIELDS_AS_EPOCH_SECONDS, 1234},
        {"{\"$numberDecimal\":\"0.0\"}", FIELDS_AS_EPOCH_MILLIS, 0},
        {"{\"$numberDecimal\":\"1.5\"}", FIELDS_AS_EPOCH_MILLIS, NO_DATE},
        {"{\"$numberDecimal\":\"15E2\"}", FIELDS_AS_EPOCH_MILLIS, 1500},
        {"{\"$numberDecimal\":\"1E+6000\"}", FIELDS_AS_EPOCH_SECONDS, INT64_MAX},
        {"{\"$numberDecimal\":\"-1E+6000\"}", FIELDS_AS_EPOCH_SECONDS, INT64_MIN},
        {"{\"$numberDecimal\":\"9223372036854775807\"}", FIELDS_AS_EPOCH_MILLIS, INT64_MAX},
        {"{\"$numberDecimal\":\"-9223372036854775808\"}", FIELDS_AS_EPOCH_MILLIS, INT64_MIN},
        {"{\"$numberDecimal\":\"NaN\"}", FIELDS_AS_EPOCH_SECONDS, NO_DATE},
        {"{\"$numberDecimal\":\"-Infinity\"}", FIELDS_AS_EPOCH_SECONDS, NO_DATE},
        {"true", FIELDS_AS_EPOCH_SECONDS, NO_DATE},
        {"[7,3,\"x\"," D(4000) "]", FIELDS_AS_EPOCH_SECONDS, 3000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char content[256];
        snprintf(content, sizeof content, "{\"a\":%s}", cases[i].value);
        CHECK_EQ(earliest(content, "a", cases[i].as), cases[i].want);
    }
}

static void test_ttl(void)
{
    static const struct {
        const char *content;
        int32_t want; /* 0: none */
    } cases[] = {
        {"{\"ttl\":5}", 5},
        {"{\"ttl\":-1}", -1},
        {"{\"ttl\":2147483647}", INT32_MAX},
        {"{\"ttl\":{\"$numberLong\":\"7\"}}", 7},
        {"{\"ttl\":{\"$numberLong\":\"-1\"}}", -1},
        {"{\"ttl\":7.0}", 7},
        {"{\"ttl\":-1.0}", -1},
        {"{\"ttl\":2147483647.0}", INT32_MAX},
        {"{\"ttl\":0}", 0},
        {"{\"ttl\":0.0}", 0},
        {"{\"ttl\":-2}", 0},
        {"{\"ttl\":7.5}", 0},
        {"{\"ttl\":-0.5}", 0},
        {"{\"ttl\":2147483648}", 0},
        {"{\"ttl\":-9223372036854775808}", 0},
        {"{\"ttl\":2147483647.5}", 0},
        {"{\"ttl\":1e300}", 0},
        {"{\"ttl\":{\"$numberDouble\":\"NaN\"}}", 0},
        {"{\"ttl\":{\"$numberDouble\":\"-Infinity\"}}", 0},
        {"{\"ttl\":{\"$numberDecimal\":\"5\"}}", 0},
        {"{\"ttl\":\"5\"}", 0},
        {"{\"ttl\":null}", 0},
        {"{\"ttl\":[5]}", 0},
        {"{\"a\":{\"ttl\":5}}", 0},
        {"{}", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bson_t fields;
        int32_t seconds = 0;
        CHECK_EQ(fields_parse(cases[i].content, strlen(cases[i].content), &fields), 0);
        CHECK(fields_ttl_seconds(&fields, &seconds) == (cases[i].want != 0));
        CHECK_EQ(seconds, cases[i].want);
        bson_destroy(&fields);
    }
}

int main(void)
{
    RUN(test_json_objects);
    RUN(test_not_json);
    RUN(test_words_and_numbers);
    RUN(test_strings);
    RUN(test_dates);
    RUN(test_type_wrappers);
    RUN(test_wrong_wrappers);
    RUN(test_dollar_documents);
    RUN(test_nesting);
    RUN(test_bson_nesting);
    RUN(test_bson);
    RUN(test_size_limit);
    RUN(test_may_have);
    RUN(test_parse_value);
    RUN(test_add);
    RUN(test_set);
    RUN(test_earliest_date);
    RUN(test_dates_from_other_types);
    RUN(test_ttl);
    return unit_report();
}
