#include "core/filter.h"

#include "core/compare.h"
#include "core/fields.h"
#include "tests/unit/unit.h"

#include <stdlib.h>

static bson_t *bson_of(const char *json)
{
    bson_t fields, *copy;
    int rc = fields_parse(json, strlen(json), &fields);
    if (rc != 0) {
        fprintf(stderr, "not parsed: %s\n", json);
        CHECK_EQ(rc, 0);
    }
    copy = bson_copy(&fields);
    bson_destroy(&fields);
    return copy;
}

/* 1 or 0: matches or not; -1: the filter was refused. */
static int match(const char *expression, const char *document, unsigned int flags)
{
    struct filter *filter = NULL;
    struct reason why = {0};
    int result = -1;
    bson_t *parsed = bson_of(expression), *fields = bson_of(document);
    int rc = filter_new(parsed, flags, &filter, &why);
    bson_destroy(parsed); /* borrowed during the call only */
    if (rc == 0) {
        result = filter_match(filter, fields);
    } else {
        CHECK_EQ(rc, -EINVAL);
        CHECK(why.text[0] != '\0');
        CHECK(filter == NULL);
    }
    filter_free(filter);
    bson_destroy(fields);
    return result;
}

struct match_case {
    const char *expression;
    const char *document;
    int want;
};

static void check_cases(const struct match_case *cases, size_t count, unsigned int flags)
{
    for (size_t i = 0; i < count; i++) {
        int got = match(cases[i].expression, cases[i].document, flags);
        if (got != cases[i].want)
            fprintf(stderr, "%s on %s:\n", cases[i].expression, cases[i].document);
        CHECK_EQ(got, cases[i].want);
    }
}

#define CHECK_CASES(cases, flags) check_cases(cases, sizeof(cases) / sizeof *(cases), flags)

static void test_equality(void)
{
    static const struct match_case cases[] = {
        {"{}", "{}", 1},
        {"{}", "{\"a\":1}", 1},
        {"{\"a\":5}", "{\"a\":5}", 1},
        {"{\"a\":5}", "{\"a\":6}", 0},
        {"{\"a\":5}", "{\"b\":5}", 0},
        {"{\"a\":5}", "{\"a\":\"5\"}", 0},
        {"{\"a\":5}", "{\"a\":[4,5]}", 1},
        {"{\"a\":5}", "{\"a\":[[5]]}", 0},
        {"{\"a\":[5]}", "{\"a\":[5]}", 1},
        {"{\"a\":[5]}", "{\"a\":[[5],6]}", 1},
        {"{\"a\":[5]}", "{\"a\":[5,6]}", 0},
        {"{\"a\":[5]}", "{\"a\":5}", 0},
        {"{\"a\":{\"$eq\":[5,6]}}", "{\"a\":[5,6]}", 1},
        {"{\"a\":[]}", "{\"a\":[]}", 1},
        {"{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"b\":1,\"c\":2}}", 1},
        {"{\"a\":{\"b\":1,\"c\":2}}", "{\"a\":{\"c\":2,\"b\":1}}", 0},
        {"{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1,\"c\":2}}", 0},
        {"{\"a\":{\"b\":1}}", "{\"a\":{\"b\":1.0}}", 1},
        {"{\"a\":{\"b\":1}}", "{\"a\":[{\"b\":1}]}", 1},
        {"{\"a\":{}}", "{\"a\":{}}", 1},
        {"{\"a\":{}}", "{\"a\":{\"b\":1}}", 0},
        {"{\"a\":{\"b\":1,\"$gt\":2}}", "{\"a\":{\"b\":1,\"$gt\":2}}", 1},
        {"{\"a\":{\"$ref\":\"c\",\"$id\":1}}", "{\"a\":{\"$ref\":\"c\",\"$id\":1}}", 1},
        {"{\"a\":true}", "{\"a\":true}", 1},
        {"{\"a\":true}", "{\"a\":1}", 0},
        {"{\"a\":\"x\\u0000y\"}", "{\"a\":\"x\\u0000y\"}", 1},
        {"{\"a\":\"x\"}", "{\"a\":\"x\\u0000y\"}", 0},
        {"{\"a\":\"x\"}", "{\"a\":{\"$symbol\":\"x\"}}", 1},
        {"{\"a\":{\"$date\":5}}", "{\"a\":{\"$date\":\"1970-01-01T00:00:00.005Z\"}}", 1},
        {"{\"a\":{\"$date\":5}}", "{\"a\":5}", 0},
        {"{\"a\":{\"$eq\":{\"$date\":-5}}}", "{\"a\":{\"$date\":-5}}", 1},
        {"{\"a\":{\"$oid\":\"5f0000000000000000000001\"}}",
            "{\"a\":{\"$oid\":\"5f0000000000000000000001\"}}", 1},
        {"{\"a\":{\"$oid\":\"5f0000000000000000000001\"}}",
            "{\"a\":{\"$oid\":\"5f0000000000000000000002\"}}", 0},
        {"{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":2}", 1},
        {"{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":3}", 0},
        {"{\"a\":1,\"a\":2}", "{\"a\":[1,2]}", 1},
        {"{\"a\":1,\"a\":2}", "{\"a\":[1]}", 0},
        {"{\"a.b\":1}", "{\"a\":{\"b\":1}}", 1},
        {"{\"a.b\":1}", "{\"a.b\":1}", 0},
        {"{\"a.b\":1}", "{\"a\":[{\"b\":2},{\"b\":[3,1]}]}", 1},
        {"{\"a.b\":1}", "{\"a\":[[{\"b\":1}]]}", 0},
        {"{\"a.0\":1}", "{\"a\":[1,2]}", 1},
        {"{\"a.1\":1}", "{\"a\":[1,2]}", 0},
        {"{\"a.0\":1}", "{\"a\":[[1]]}", 0},
        {"{\"a.0\":[1]}", "{\"a\":[[1]]}", 1},
        {"{\"a.0.b\":1}", "{\"a\":[{\"b\":1}]}", 1},
        {"{\"a.0\":1}", "{\"a\":[{\"0\":1}]}", 1},
    };
    CHECK_CASES(cases, FILTER_PARTIAL);
    CHECK_CASES(cases, FILTER_QUERY);
}

static void test_null_and_missing(void)
{
    static const struct match_case cases[] = {
        {"{\"a\":null}", "{\"a\":null}", 1},
        {"{\"a\":null}", "{}", 1},
        {"{\"a\":null}", "{\"a\":{\"$undefined\":true}}", 1},
        {"{\"a\":null}", "{\"a\":0}", 0},
        {"{\"a\":null}", "{\"a\":[]}", 0},
        {"{\"a\":null}", "{\"a\":[1,null]}", 1},
        {"{\"a.b\":null}", "{}", 1},
        {"{\"a.b\":null}", "{\"a\":{}}", 1},
        {"{\"a.b\":null}", "{\"a\":5}", 1},
        {"{\"a.b\":null}", "{\"a\":[{}]}", 1},
        {"{\"a.b\":null}", "{\"a\":[{\"b\":1},{\"c\":1}]}", 1},
        {"{\"a.b\":null}", "{\"a\":[]}", 0},
        {"{\"a.b\":null}", "{\"a\":[null]}", 0},
        {"{\"a.b\":null}", "{\"a\":[1,2]}", 0},
        {"{\"a.b\":null}", "{\"a\":{\"b\":4}}", 0},
        {"{\"a.b\":null}", "{\"a\":{\"b\":{}}}", 0},
        {"{\"a\":{\"$gte\":null}}", "{}", 1},
        {"{\"a\":{\"$lte\":null}}", "{\"a\":null}", 1},
        {"{\"a\":{\"$gt\":null}}", "{\"a\":null}", 0},
        {"{\"a\":{\"$lt\":null}}", "{}", 0},
        {"{\"a\":{\"$in\":[1,null]}}", "{}", 1},
        {"{\"a\":{\"$exists\":true}}", "{\"a\":null}", 1},
        {"{\"a\":{\"$exists\":true}}", "{\"a\":[]}", 1},
        {"{\"a\":{\"$exists\":true}}", "{}", 0},
        {"{\"a\":{\"$exists\":false}}", "{}", 1},
        {"{\"a\":{\"$exists\":false}}", "{\"a\":1}", 0},
        {"{\"a\":{\"$exists\":1}}", "{\"a\":1}", 1},
        {"{\"a\":{\"$exists\":0}}", "{\"a\":1}", 0},
        {"{\"a\":{\"$exists\":0.0}}", "{}", 1},
        {"{\"a\":{\"$exists\":null}}", "{}", 1},
        {"{\"a\":{\"$exists\":{\"$numberDecimal\":\"0E+3\"}}}", "{}", 1},
        {"{\"a\":{\"$exists\":{\"$numberDecimal\":\"NaN\"}}}", "{}", 0},
        {"{\"a\":{\"$exists\":\"x\"}}", "{\"a\":1}", 1},
        {"{\"a.b\":{\"$exists\":true}}", "{\"a\":[{},{\"b\":1}]}", 1},
        {"{\"a.b\":{\"$exists\":true}}", "{\"a\":[]}", 0},
        {"{\"a.b\":{\"$exists\":false}}", "{\"a\":[{\"b\":1},{}]}", 0},
    };
    CHECK_CASES(cases, FILTER_PARTIAL);
}

static void test_ranges(void)
{
    static const struct match_case cases[] = {
        {"{\"a\":{\"$gt\":5}}", "{\"a\":6}", 1}, {"{\"a\":{\"$gt\":5}}", "{\"a\":5}", 0},
        {"{\"a\":{\"$gte\":5}}", "{\"a\":5}", 1}, {"{\"a\":{\"$lt\":5}}", "{\"a\":4.5}", 1},
        {"{\"a\":{\"$lte\":5}}", "{\"a\":5.0}", 1}, {"{\"a\":{\"$gt\":5}}", "{}", 0},
        {"{\"a\":{\"$gt\":5}}", "{\"a\":\"6\"}", 0}, {"{\"a\":{\"$gt\":5}}", "{\"a\":[1,6]}", 1},
        {"{\"a\":{\"$gt\":5}}", "{\"a\":[1,2]}", 0},
        {"{\"a\":{\"$gt\":2,\"$lt\":5}}", "{\"a\":3}", 1},
        {"{\"a\":{\"$gt\":2,\"$lt\":5}}", "{\"a\":[1,9]}", 1}, /* different elements */
        {"{\"a\":{\"$gt\":2,\"$lt\":5}}", "{\"a\":7}", 0},
        {"{\"a\":{\"$gt\":\"b\"}}", "{\"a\":\"c\"}", 1},
        {"{\"a\":{\"$gt\":\"b\"}}", "{\"a\":\"ba\"}", 1},
        {"{\"a\":{\"$gt\":\"b\"}}", "{\"a\":\"\"}", 0},
        {"{\"a\":{\"$gt\":{\"$date\":5}}}", "{\"a\":{\"$date\":6}}", 1},
        {"{\"a\":{\"$gt\":{\"$date\":-5}}}", "{\"a\":{\"$date\":-6}}", 0},
        {"{\"a\":{\"$gt\":{\"$date\":5}}}", "{\"a\":6}", 0},
        {"{\"a\":{\"$lt\":{\"$date\":\"2026-01-01T00:00:00Z\"}}}", "{\"a\":{\"$date\":-1}}", 1},
        {"{\"a\":{\"$gt\":false}}", "{\"a\":true}", 1},
        {"{\"a\":{\"$gt\":[1,2]}}", "{\"a\":[1,3]}", 1},
        {"{\"a\":{\"$gt\":[1,2]}}", "{\"a\":[1]}", 0},
        {"{\"a\":{\"$gt\":{\"b\":1}}}", "{\"a\":{\"b\":2}}", 1},
        {"{\"a\":{\"$gt\":{\"b\":1}}}", "{\"a\":{\"c\":0}}", 1},
        {"{\"a\":{\"$gt\":{\"b\":1}}}", "{\"a\":{\"b\":\"\"}}", 1}, /* a later bracket */
        {"{\"a\":{\"$gt\":{\"b\":1}}}", "{\"a\":{}}", 0},
        {"{\"a\":{\"$gt\":{\"$minKey\":1}}}", "{\"a\":\"x\"}", 1},
        {"{\"a\":{\"$lt\":{\"$minKey\":1}}}", "{\"a\":\"x\"}", 0},
        {"{\"a\":{\"$lte\":{\"$maxKey\":1}}}", "{\"a\":5}", 1},
        {"{\"a\":{\"$maxKey\":1}}", "{\"a\":5}", 0},
        {"{\"a\":{\"$maxKey\":1}}", "{\"a\":{\"$maxKey\":1}}", 1},
        {"{\"a\":{\"$gt\":{\"$timestamp\":{\"t\":1,\"i\":5}}}}",
            "{\"a\":{\"$timestamp\":{\"t\":2,\"i\":0}}}", 1},
        {"{\"a\":{\"$gt\":{\"$timestamp\":{\"t\":1,\"i\":5}}}}",
            "{\"a\":{\"$timestamp\":{\"t\":1,\"i\":5}}}", 0},
        {"{\"a\":{\"$gt\":{\"$binary\":{\"base64\":\"/w==\",\"subType\":\"00\"}}}}",
            "{\"a\":{\"$binary\":{\"base64\":\"AAA=\",\"subType\":\"00\"}}}", 1}, /* longer */
    };
    CHECK_CASES(cases, FILTER_PARTIAL);
}

static void test_numbers(void)
{
    static const struct match_case cases[] = {
        /* Neighbours that are one double. */
        {"{\"a\":{\"$gt\":9007199254740992.0}}", "{\"a\":9007199254740993}", 1},
        {"{\"a\":9007199254740992.0}", "{\"a\":9007199254740993}", 0},
        {"{\"a\":9007199254740993}", "{\"a\":9007199254740992.0}", 0},
        {"{\"a\":9223372036854775807}", "{\"a\":9223372036854775808.0}", 0},
        {"{\"a\":{\"$lt\":9223372036854775808.0}}", "{\"a\":9223372036854775807}", 1},
        {"{\"a\":-9223372036854775808}", "{\"a\":-9223372036854775808.0}", 1},
        {"{\"a\":{\"$gt\":-1e300}}", "{\"a\":-9223372036854775808}", 1},
        {"{\"a\":{\"$gt\":1}}", "{\"a\":1.0000001}", 1},
        {"{\"a\":{\"$lt\":-1}}", "{\"a\":-1.0000001}", 1},
        {"{\"a\":{\"$gt\":-1.5}}", "{\"a\":-1}", 1},
        {"{\"a\":0}", "{\"a\":-0.0}", 1},
        {"{\"a\":{\"$gte\":0.0}}", "{\"a\":-0.0}", 1},
        {"{\"a\":{\"$numberDouble\":\"NaN\"}}", "{\"a\":{\"$numberDouble\":\"NaN\"}}", 1},
        {"{\"a\":{\"$numberDouble\":\"NaN\"}}", "{\"a\":{\"$numberDecimal\":\"NaN\"}}", 1},
        {"{\"a\":{\"$numberDouble\":\"NaN\"}}", "{\"a\":5}", 0},
        {"{\"a\":{\"$gte\":{\"$numberDouble\":\"NaN\"}}}", "{\"a\":{\"$numberDouble\":\"NaN\"}}",
            1},
        {"{\"a\":{\"$gt\":{\"$numberDouble\":\"NaN\"}}}", "{\"a\":5}", 0},
        {"{\"a\":{\"$lt\":5}}", "{\"a\":{\"$numberDouble\":\"NaN\"}}", 0},
        {"{\"a\":{\"$lt\":5}}", "{\"a\":{\"$numberDouble\":\"-Infinity\"}}", 1},
        {"{\"a\":{\"$numberDouble\":\"Infinity\"}}", "{\"a\":{\"$numberDecimal\":\"Infinity\"}}",
            1},
        {"{\"a\":{\"$gt\":{\"$numberDecimal\":\"1E+6000\"}}}",
            "{\"a\":{\"$numberDouble\":\"Infinity\"}}", 1},
        {"{\"a\":{\"$numberDecimal\":\"5.00\"}}", "{\"a\":5}", 1},
        {"{\"a\":{\"$numberDecimal\":\"50E-1\"}}", "{\"a\":{\"$numberDecimal\":\"5\"}}", 1},
        {"{\"a\":{\"$numberDecimal\":\"-0\"}}", "{\"a\":0}", 1},
        {"{\"a\":{\"$numberDecimal\":\"0.5\"}}", "{\"a\":0.5}", 1},
        {"{\"a\":{\"$numberDecimal\":\"0.1\"}}", "{\"a\":0.1}", 0},
        {"{\"a\":{\"$gt\":{\"$numberDecimal\":\"0.1\"}}}", "{\"a\":0.1}", 1},
        {"{\"a\":{\"$gt\":{\"$numberDecimal\":\"0.1000000000000000055511151231257827\"}}}",
            "{\"a\":0.1}", 1},
        {"{\"a\":{\"$lt\":{\"$numberDecimal\":\"9223372036854775807.5\"}}}",
            "{\"a\":9223372036854775807}", 1},
        {"{\"a\":{\"$lt\":{\"$numberDecimal\":\"-1.5\"}}}", "{\"a\":-2}", 1},
        {"{\"a\":{\"$gt\":{\"$numberDecimal\":\"-1E-6176\"}}}", "{\"a\":0}", 1},
        {"{\"a\":{\"$lt\":{\"$numberDecimal\":\"1E-6176\"}}}", "{\"a\":5e-324}", 0},
    };
    CHECK_CASES(cases, FILTER_PARTIAL);
}

static void test_in_and_type(void)
{
    static const struct match_case cases[] = {
        {"{\"a\":{\"$in\":[1,\"x\"]}}", "{\"a\":\"x\"}", 1},
        {"{\"a\":{\"$in\":[1,\"x\"]}}", "{\"a\":1.0}", 1},
        {"{\"a\":{\"$in\":[1,\"x\"]}}", "{\"a\":2}", 0},
        {"{\"a\":{\"$in\":[1,\"x\"]}}", "{\"a\":[3,\"x\"]}", 1},
        {"{\"a\":{\"$in\":[[1]]}}", "{\"a\":[1]}", 1},
        {"{\"a\":{\"$in\":[]}}", "{\"a\":1}", 0},
        {"{\"a\":{\"$in\":[]}}", "{}", 0},
        {"{\"a\":{\"$in\":[{\"b\":1}]}}", "{\"a\":{\"b\":1}}", 1},
        {"{\"a\":{\"$in\":1}}", "{}", -1},
        {"{\"a\":{\"$in\":[{\"$gt\":1}]}}", "{}", -1},
        {"{\"a\":{\"$in\":[{\"$undefined\":true}]}}", "{}", -1},
        {"{\"a\":{\"$type\":\"date\"}}", "{\"a\":{\"$date\":1}}", 1},
        {"{\"a\":{\"$type\":9}}", "{\"a\":{\"$date\":1}}", 1},
        {"{\"a\":{\"$type\":9.0}}", "{\"a\":{\"$date\":1}}", 1},
        {"{\"a\":{\"$type\":{\"$numberLong\":\"9\"}}}", "{\"a\":{\"$date\":1}}", 1},
        {"{\"a\":{\"$type\":\"date\"}}", "{\"a\":1}", 0},
        {"{\"a\":{\"$type\":\"date\"}}", "{}", 0},
        {"{\"a\":{\"$type\":[\"string\",9]}}", "{\"a\":{\"$date\":1}}", 1},
        {"{\"a\":{\"$type\":\"number\"}}", "{\"a\":1}", 1},
        {"{\"a\":{\"$type\":\"number\"}}", "{\"a\":1.5}", 1},
        {"{\"a\":{\"$type\":\"number\"}}", "{\"a\":{\"$numberDecimal\":\"1\"}}", 1},
        {"{\"a\":{\"$type\":\"number\"}}", "{\"a\":\"1\"}", 0},
        {"{\"a\":{\"$type\":\"int\"}}", "{\"a\":3000000000}", 0},
        {"{\"a\":{\"$type\":\"long\"}}", "{\"a\":3000000000}", 1},
        {"{\"a\":{\"$type\":\"string\"}}", "{\"a\":[1,\"x\"]}", 1},
        {"{\"a\":{\"$type\":\"array\"}}", "{\"a\":[]}", 1},
        {"{\"a\":{\"$type\":\"array\"}}", "{\"a\":1}", 0},
        {"{\"a\":{\"$type\":\"object\"}}", "{\"a\":{}}", 1},
        {"{\"a\":{\"$type\":\"null\"}}", "{\"a\":null}", 1},
        {"{\"a\":{\"$type\":-1}}", "{\"a\":{\"$minKey\":1}}", 1},
        {"{\"a\":{\"$type\":127}}", "{\"a\":{\"$maxKey\":1}}", 1},
        {"{\"a\":{\"$type\":\"javascriptWithScope\"}}", "{\"a\":{\"$code\":\"x\",\"$scope\":{}}}",
            1},
        {"{\"a\":{\"$type\":0}}", "{}", -1},
        {"{\"a\":{\"$type\":20}}", "{}", -1},
        {"{\"a\":{\"$type\":9.5}}", "{}", -1},
        {"{\"a\":{\"$type\":\"Date\"}}", "{}", -1},
        {"{\"a\":{\"$type\":[]}}", "{}", -1},
        {"{\"a\":{\"$type\":[[9]]}}", "{}", -1},
        {"{\"a\":{\"$type\":null}}", "{}", -1},
    };
    CHECK_CASES(cases, FILTER_PARTIAL);
}

static void test_logic(void)
{
    static const struct match_case cases[] = {
        {"{\"$and\":[{\"a\":1},{\"b\":2}]}", "{\"a\":1,\"b\":2}", 1},
        {"{\"$and\":[{\"a\":1},{\"b\":2}]}", "{\"a\":1}", 0},
        {"{\"$or\":[{\"a\":1},{\"b\":2}]}", "{\"b\":2}", 1},
        {"{\"$or\":[{\"a\":1},{\"b\":2}]}", "{}", 0},
        {"{\"$or\":[{}]}", "{}", 1},
        {"{\"c\":3,\"$or\":[{\"a\":1},{\"$and\":[{\"b\":2},{\"d\":4}]}]}",
            "{\"b\":2,\"c\":3,\"d\":4}", 1},
        {"{\"c\":3,\"$or\":[{\"a\":1},{\"$and\":[{\"b\":2},{\"d\":4}]}]}", "{\"b\":2,\"c\":3}", 0},
        {"{\"$and\":[]}", "{}", -1},
        {"{\"$or\":[]}", "{}", -1},
        {"{\"$and\":{}}", "{}", -1},
        {"{\"$and\":[1]}", "{}", -1},
        {"{\"$or\":[{\"a\":1},{\"$where\":\"x\"}]}", "{}", -1},
        {"{\"$foo\":1}", "{}", -1},
        {"{\"$expr\":{}}", "{}", -1},
        {"{\"$not\":{}}", "{}", -1},
        {"{\"a\":{\"$foo\":1}}", "{}", -1},
        {"{\"a\":{\"$gt\":1,\"b\":1}}", "{}", -1},
        {"{\"a\":{\"$and\":[]}}", "{}", -1},
        {"{\"a\":{\"$elemMatch\":{}}}", "{}", -1},
        {"{\"a\":{\"$undefined\":true}}", "{}", -1},
        {"{\"a\":{\"$gt\":{\"$undefined\":true}}}", "{}", -1},
        {"{\"\":1}", "{}", -1},
        {"{\".\":1}", "{}", -1},
        {"{\"a.\":1}", "{}", -1},
        {"{\".a\":1}", "{}", -1},
        {"{\"a..b\":1}", "{}", -1},
        {"{\"a.$b\":1}", "{}", -1},
        {"{\"$a\":1}", "{}", -1},
        {"{\"$ref\":1}", "{}", -1},
        {"{\"a\":{\"$ref\":1}}", "{}", -1},
    };
    CHECK_CASES(cases, FILTER_PARTIAL);
    CHECK_CASES(cases, FILTER_QUERY);
}

static void test_query_operators(void)
{
    static const struct match_case cases[] = {
        {"{\"a\":{\"$ne\":1}}", "{\"a\":2}", 1},
        {"{\"a\":{\"$ne\":1}}", "{\"a\":1}", 0},
        {"{\"a\":{\"$ne\":1}}", "{}", 1},
        {"{\"a\":{\"$ne\":1}}", "{\"a\":[1,2]}", 0},
        {"{\"a\":{\"$ne\":null}}", "{}", 0},
        {"{\"a\":{\"$nin\":[1,2]}}", "{\"a\":3}", 1},
        {"{\"a\":{\"$nin\":[1,2]}}", "{\"a\":[3,2]}", 0},
        {"{\"a\":{\"$nin\":[]}}", "{}", 1},
        {"{\"a\":{\"$not\":{\"$gt\":5}}}", "{\"a\":5}", 1},
        {"{\"a\":{\"$not\":{\"$gt\":5}}}", "{}", 1},
        {"{\"a\":{\"$not\":{\"$gt\":5}}}", "{\"a\":[1,6]}", 0},
        {"{\"a\":{\"$not\":{\"$gt\":5,\"$lt\":9}}}", "{\"a\":12}", 1},
        {"{\"a\":{\"$not\":{\"$gt\":5,\"$lt\":9}}}", "{\"a\":7}", 0},
        {"{\"a\":{\"$not\":{\"$not\":{\"$gt\":5}}}}", "{\"a\":7}", 1},
        {"{\"a\":{\"$not\":{\"$regex\":\"^x\"}}}", "{\"a\":\"xy\"}", 0},
        {"{\"a\":{\"$not\":{\"$regex\":\"^x\"}}}", "{\"a\":\"yx\"}", 1},
        {"{\"a\":{\"$not\":{\"$regex\":\"^x\",\"$ne\":\"z\"}}}", "{\"a\":\"xy\"}", 0},
        {"{\"a\":{\"$not\":{}}}", "{}", -1},
        {"{\"a\":{\"$not\":1}}", "{}", -1},
        {"{\"a\":{\"$not\":{\"b\":1}}}", "{}", -1},
        {"{\"$nor\":[{\"a\":1},{\"b\":2}]}", "{\"a\":2}", 1},
        {"{\"$nor\":[{\"a\":1},{\"b\":2}]}", "{\"b\":2}", 0},
        {"{\"$nor\":[]}", "{}", -1},
    };
    CHECK_CASES(cases, FILTER_QUERY);
}

static void test_regex(void)
{
    static const struct match_case cases[] = {
        {"{\"a\":{\"$regex\":\"b+c\"}}", "{\"a\":\"abbcd\"}", 1},
        {"{\"a\":{\"$regex\":\"b+c\"}}", "{\"a\":\"abd\"}", 0},
        {"{\"a\":{\"$regex\":\"b+c\"}}", "{\"a\":[1,\"bc\"]}", 1},
        {"{\"a\":{\"$regex\":\"b+c\"}}", "{\"a\":5}", 0},
        {"{\"a\":{\"$regex\":\"b+c\"}}", "{}", 0},
        {"{\"a\":{\"$regex\":\"b\"}}", "{\"a\":{\"$symbol\":\"abc\"}}", 1},
        {"{\"a\":{\"$regex\":\"B\",\"$options\":\"i\"}}", "{\"a\":\"abc\"}", 1},
        {"{\"a\":{\"$regex\":\"\\u00c9\",\"$options\":\"i\"}}", "{\"a\":\"\\u00e9\"}", 1},
        {"{\"a\":{\"$regex\":\"^b\",\"$options\":\"m\"}}", "{\"a\":\"a\\nb\"}", 1},
        {"{\"a\":{\"$regex\":\"^b\"}}", "{\"a\":\"a\\nb\"}", 0},
        {"{\"a\":{\"$regex\":\"a.b\",\"$options\":\"s\"}}", "{\"a\":\"a\\nb\"}", 1},
        {"{\"a\":{\"$regex\":\"a b # c\",\"$options\":\"x\"}}", "{\"a\":\"ab\"}", 1},
        {"{\"a\":{\"$regex\":\"x\\\\x00y\"}}", "{\"a\":\"x\\u0000y\"}", 1},
        {"{\"a\":{\"$regularExpression\":{\"pattern\":\"^x\",\"options\":\"\"}}}", "{\"a\":\"xy\"}",
            1},
        /* A regular expression finds itself, too. */
        {"{\"a\":{\"$regex\":\"^x\"}}", "{\"a\":{\"$regex\":\"^x\"}}", 1},
        {"{\"a\":{\"$regex\":\"^x\"}}", "{\"a\":{\"$regex\":\"^y\"}}", 0},
        {"{\"a\":{\"$eq\":{\"$regex\":\"x\"}}}", "{\"a\":\"x\"}", 0},
        {"{\"a\":{\"$eq\":{\"$regex\":\"x\"}}}", "{\"a\":{\"$regex\":\"x\"}}", 1},
        {"{\"a\":{\"$in\":[1,{\"$regex\":\"^x\"}]}}", "{\"a\":\"xy\"}", 1},
        {"{\"a\":{\"$in\":[1,{\"$regex\":\"^x\"}]}}", "{\"a\":\"yx\"}", 0},
        {"{\"a\":{\"$in\":[1,{\"$regex\":\"^x\"}]}}", "{}", 0},
        {"{\"a\":{\"$nin\":[{\"$regex\":\"^x\"}]}}", "{\"a\":\"xy\"}", 0},
        {"{\"a\":{\"$regex\":\"x\",\"$ne\":\"xx\"}}", "{\"a\":\"xx\"}", 0},
        {"{\"a\":{\"$regex\":\"x\",\"$ne\":\"xx\"}}", "{\"a\":\"xxx\"}", 1},
        {"{\"a\":{\"$ne\":\"xx\",\"$options\":\"i\",\"$regex\":\"X\"}}", "{\"a\":\"x\"}", 1},
        {"{\"a\":{\"$regex\":{\"$regex\":\"X\"},\"$options\":\"i\"}}", "{\"a\":\"x\"}", 1},
        {"{\"a\":{\"$regex\":{\"$regex\":\"X\",\"$options\":\"i\"},\"$options\":\"i\"}}", "{}", -1},
        {"{\"a\":{\"$regex\":\"(\"}}", "{}", -1},
        {"{\"a\":{\"$regex\":\"\\\\C\"}}", "{}", -1},
        {"{\"a\":{\"$regex\":5}}", "{}", -1},
        {"{\"a\":{\"$regex\":\"x\",\"$options\":\"q\"}}", "{}", -1},
        {"{\"a\":{\"$regex\":\"x\",\"$options\":5}}", "{}", -1},
        {"{\"a\":{\"$regex\":\"x\\u0000\"}}", "{}", -1},
        {"{\"a\":{\"$options\":\"i\"}}", "{}", -1},
        {"{\"a\":{\"$gt\":{\"$regex\":\"x\"}}}", "{}", -1},
        {"{\"a\":{\"$ne\":{\"$regex\":\"x\"}}}", "{}", -1},
        /* Backtracking without end finds nothing. */
        {"{\"a\":{\"$regex\":\"^(a+)+$\"}}", "{\"a\":\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab\"}",
            0},
        {"{\"a\":{\"$regex\":\"(x+x+)+y\"}}", "{\"a\":\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}",
            0},
    };
    CHECK_CASES(cases, FILTER_QUERY);

    /* A file's name need not be UTF-8. */
    bson_t fields = BSON_INITIALIZER, *expression = bson_of("{\"a\":{\"$regex\":\"b.$\"}}");
    struct filter *filter = NULL;
    CHECK_EQ(filter_new(expression, FILTER_QUERY, &filter, NULL), 0);
    CHECK_EQ(fields_set_utf8(&fields, "a",
                 "\xff\xfe"
                 "bc",
                 4),
        0);
    CHECK(filter_match(filter, &fields));
    CHECK_EQ(fields_set_utf8(&fields, "a", "bc\xff", 3), 0);
    CHECK(!filter_match(filter, &fields));
    filter_free(filter);
    bson_destroy(expression);
    bson_destroy(&fields);
}

static void test_partial_refusals(void)
{
    static const struct {
        const char *expression;
        const char *names; /* what the reason must name */
    } cases[] = {
        {"{\"a\":{\"$ne\":1}}", "$ne"},
        {"{\"a\":{\"$nin\":[1]}}", "$nin"},
        {"{\"a\":{\"$not\":{\"$gt\":1}}}", "$not"},
        {"{\"$nor\":[{\"a\":1}]}", "$nor"},
        {"{\"a\":{\"$regex\":\"x\"}}", "regular expression"},
        {"{\"a\":{\"$regex\":\"x\",\"$gt\":1}}", "regular expression"},
        {"{\"a\":{\"$eq\":{\"$regex\":\"x\"}}}", "regular expression"},
        {"{\"a\":{\"$in\":[{\"$regex\":\"x\"}]}}", "regular expression"},
        {"{\"a\":{\"$gt\":{\"$regex\":\"x\"}}}", "regular expression"},
        {"{\"$or\":[{\"a\":1},{\"b\":{\"$ne\":1}}]}", "$ne"},
        {"{\"$expr\":{\"$gt\":[1,2]}}", "$expr"},
        {"{\"$where\":\"true\"}", "$where"},
        {"{\"a\":{\"$size\":1}}", "$size"},
        {"{\"a\":{\"$mod\":[1,2]}}", "$mod"},
        {"{\"$and\":[]}", "$and"},
        {"{\"a\":{\"$type\":\"Date\"}}", "Date"},
        {"{\"x..y\":1}", "x..y"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct filter *filter = NULL;
        struct reason why = {0};
        bson_t *expression = bson_of(cases[i].expression);
        CHECK_EQ(filter_new(expression, FILTER_PARTIAL, &filter, &why), -EINVAL);
        CHECK_EQ(filter_new(expression, FILTER_PARTIAL, &filter, NULL), -EINVAL);
        if (!strstr(why.text, cases[i].names))
            fprintf(stderr, "%s: \"%s\"\n", cases[i].expression, why.text);
        CHECK(strstr(why.text, cases[i].names));
        bson_destroy(expression);
    }
}

static void test_depth(void)
{
    for (int depth = FILTER_MAX_DEPTH - 1; depth <= FILTER_MAX_DEPTH + 1; depth++) {
        char text[1024] = "{\"a\":";
        struct filter *filter = NULL;
        for (int i = 1; i < depth; i++)
            strncat(text, "[", sizeof text - strlen(text) - 1);
        for (int i = 1; i < depth; i++)
            strncat(text, "]", sizeof text - strlen(text) - 1);
        strncat(text, "}", sizeof text - strlen(text) - 1);
        bson_t *expression = bson_of(text);
        int want = depth <= FILTER_MAX_DEPTH ? 0 : -EINVAL;
        CHECK_EQ(filter_new(expression, FILTER_PARTIAL, &filter, NULL), want);
        filter_free(filter);
        bson_destroy(expression);
    }
}

static bool same_filter(const char *a, const char *b)
{
    struct filter *x = NULL, *y = NULL;
    bson_t *of_x = bson_of(a), *of_y = bson_of(b);
    CHECK_EQ(filter_new(of_x, FILTER_PARTIAL, &x, NULL), 0);
    CHECK_EQ(filter_new(of_y, FILTER_PARTIAL, &y, NULL), 0);
    bool same = filter_equal(x, y);
    filter_free(x);
    filter_free(y);
    bson_destroy(of_x);
    bson_destroy(of_y);
    return same;
}

static void test_equal_means_the_same_question(void)
{
    CHECK(same_filter("{\"a\":1}", "{\"a\":{\"$eq\":1}}"));
    CHECK(same_filter("{\"a\":{\"$gt\":1}}", "{\"a\":{\"$gt\":1}}"));
    CHECK(!same_filter("{\"a\":1}", "{\"a\":{\"$gte\":1}}"));
    CHECK(!same_filter("{\"a\":1}", "{\"b\":1}"));
    CHECK(!same_filter("{\"a\":1}", "{\"a\":1,\"b\":1}"));
    CHECK(!same_filter("{\"a\":{\"$exists\":true}}", "{\"a\":{\"$exists\":false}}"));
    CHECK(!same_filter("{\"a\":{\"$type\":\"date\"}}", "{\"a\":{\"$type\":\"string\"}}"));
    CHECK(!same_filter("{\"a\":{\"$in\":[1,2]}}", "{\"a\":{\"$in\":[1,3]}}"));
    CHECK(!same_filter("{\"$or\":[{\"a\":1},{\"b\":1}]}", "{\"$and\":[{\"a\":1},{\"b\":1}]}"));
}

static void test_other_calls(void)
{
    struct filter *filter = NULL, *same = NULL, *other = NULL;
    bson_t *expression =
        bson_of("{\"a.b\":1,\"$or\":[{\"c\":{\"$exists\":false}},{\"d\":{\"$gt\":1}}]}");
    bson_t *second = bson_of("{\"a.b\":1.0}");
    CHECK_EQ(filter_new(expression, FILTER_PARTIAL, &filter, NULL), 0);
    CHECK_EQ(filter_new(expression, FILTER_QUERY, &same, NULL), 0);
    CHECK_EQ(filter_new(second, FILTER_PARTIAL, &other, NULL), 0);
    CHECK(bson_equal(filter_expression(filter), expression));
    CHECK(filter_equal(filter, same));
    CHECK(!filter_equal(filter, other));
    CHECK(!filter_equal(filter, NULL));
    CHECK(!filter_equal(NULL, filter));
    CHECK(filter_equal(NULL, NULL));
    CHECK(filter_reads(filter, "a"));
    CHECK(filter_reads(filter, "a.b"));
    CHECK(filter_reads(filter, "a.b.c"));
    CHECK(filter_reads(filter, "c"));
    CHECK(filter_reads(filter, "d"));
    CHECK(!filter_reads(filter, "a.c"));
    CHECK(!filter_reads(filter, "ab"));
    CHECK(!filter_reads(filter, "b"));
    CHECK(!filter_reads(filter, "_ts"));
    filter_free(filter);
    filter_free(same);
    filter_free(other);
    filter_free(NULL);
    bson_destroy(expression);
    bson_destroy(second);
}

/* Each value is less than the next, however the two are compared. */
static void test_order(void)
{
    bson_t *values =
        bson_of("{\"v\":["
                "{\"$minKey\":1},{\"$undefined\":true},null,"
                "{\"$numberDouble\":\"NaN\"},{\"$numberDouble\":\"-Infinity\"},"
                "{\"$numberDecimal\":\"-1E+400\"},-1e300,-9223372036854775808,-1.5,-1,"
                "0,5e-324,{\"$numberDecimal\":\"0.1\"},0.1,1,1.5,2,3000000000,"
                "9007199254740992.0,9007199254740993,9223372036854775807,"
                "{\"$numberDecimal\":\"9223372036854775807.5\"},9223372036854775808.0,"
                "1e300,{\"$numberDecimal\":\"1E+400\"},"
                "{\"$numberDouble\":\"Infinity\"},"
                "\"\",\"a\",\"a\\u0000\",{\"$symbol\":\"aa\"},\"b\",\"\\u00e9\","
                "{},{\"a\":1},{\"a\":1,\"b\":1},{\"a\":2},{\"b\":0},{\"a\":\"\"},"
                "[],[1],[1,2],[2],[\"\"],"
                "{\"$binary\":{\"base64\":\"\",\"subType\":\"05\"}},"
                "{\"$binary\":{\"base64\":\"/w==\",\"subType\":\"00\"}},"
                "{\"$binary\":{\"base64\":\"AA==\",\"subType\":\"80\"}},"
                "{\"$binary\":{\"base64\":\"AAA=\",\"subType\":\"00\"}},"
                "{\"$oid\":\"5f0000000000000000000000\"},"
                "{\"$oid\":\"ff0000000000000000000000\"},false,true,"
                "{\"$date\":-1},{\"$date\":0},{\"$date\":1},"
                "{\"$timestamp\":{\"t\":0,\"i\":9}},"
                "{\"$timestamp\":{\"t\":4294967295,\"i\":0}},"
                "{\"$regex\":\"a\"},{\"$regex\":\"a\",\"$options\":\"i\"},"
                "{\"$regex\":\"b\"},"
                "{\"$dbPointer\":{\"$ref\":\"c\",\"$id\":"
                "{\"$oid\":\"5f0000000000000000000000\"}}},"
                "{\"$code\":\"a\"},{\"$code\":\"b\"},"
                "{\"$code\":\"a\",\"$scope\":{}},{\"$code\":\"a\",\"$scope\":{\"a\":1}},"
                "{\"$code\":\"b\",\"$scope\":{}},{\"$maxKey\":1}"
                "]}");
    bson_iter_t array, a, b;
    CHECK(bson_iter_init_find(&array, values, "v"));
    CHECK(bson_iter_recurse(&array, &a));
    for (int i = 0; bson_iter_next(&a); i++) {
        CHECK(bson_iter_recurse(&array, &b));
        for (int j = 0; bson_iter_next(&b); j++) {
            int order = compare_values(&a, &b);
            int want = i < j ? -1 : i > j;
            if ((order > 0) - (order < 0) != want)
                fprintf(stderr, "values %d and %d: ", i, j);
            CHECK_EQ((order > 0) - (order < 0), want);
        }
    }
    bson_destroy(values);
}

int main(void)
{
    RUN(test_equality);
    RUN(test_null_and_missing);
    RUN(test_ranges);
    RUN(test_numbers);
    RUN(test_in_and_type);
    RUN(test_logic);
    RUN(test_query_operators);
    RUN(test_regex);
    RUN(test_partial_refusals);
    RUN(test_depth);
    RUN(test_equal_means_the_same_question);
    RUN(test_other_calls);
    RUN(test_order);
    return unit_report();
}
