/*
 * test_query.c - queries: thousands of random filters over random documents, with and without
 * indexes, against asking every document. And by hand: which index serves what.
 */
#include "tests/unit/unit.h"
#include "tests/unit/world.h"
#include "tests/unit/world_check.h"

#include "core/fields.h"
#include "core/index.h"
#include "ttl/document_fields.h"
#include "ttl/query.h"

#include <stdarg.h>

#define TEXT_BYTES 2000

static uint64_t seed = 1;

static unsigned int any(unsigned int n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned int) (seed >> 33) % n;
}

/* Text being put together; what does not fit ends the test. */
struct text {
    char bytes[TEXT_BYTES];
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->bytes + t->len, sizeof t->bytes - t->len, format, args);
    va_end(args);
    world_must(n >= 0 && (size_t) n < sizeof t->bytes - t->len, "a longer text");
    t->len += (size_t) n;
}

/* One value out of few, so that filters meet documents. */
static void put_scalar(struct text *t)
{
    static const char *const values[] = {"null", "true", "false", "0", "-0.0", "1", "2", "2.0",
        "2.5", "-7", "1e300", "{\"$numberLong\":\"9007199254740993\"}",
        "{\"$numberLong\":\"9007199254740992\"}", "{\"$numberDecimal\":\"2.5\"}",
        "{\"$numberDecimal\":\"1E+400\"}", "{\"$numberDouble\":\"NaN\"}",
        "{\"$numberDouble\":\"-Infinity\"}", "\"\"", "\"a\"", "\"ab\"", "\"abc\"",
        "\"user-000000000000001\"", "\"user-000000000000002\"", "\"useq\"",
        "\"2026-01-01T00:00:05Z\"", "\"\\u00e9t\\u00e9\"", "{\"$date\":\"2026-01-01T00:00:05Z\"}",
        "{\"$date\":\"2026-01-01T00:00:09Z\"}", "{\"$date\":\"1969-01-01T00:00:00Z\"}",
        "{\"$date\":{\"$numberLong\":\"9223372036854775807\"}}",
        "{\"$date\":{\"$numberLong\":\"5000000000000000000\"}}", "{\"x\":1}", "{\"x\":1,\"y\":2}",
        "{\"$oid\":\"5d505646cf6d4fe581014ab2\"}", "{\"$oid\":\"5d505646cf6d4fe581014ab3\"}",
        "{\"$binary\":{\"base64\":\"AAEC\",\"subType\":\"00\"}}",
        "{\"$timestamp\":{\"t\":5,\"i\":1}}", "{\"$minKey\":1}", "{\"$maxKey\":1}", "1767225605",
        "1767225605000"};
    put(t, "%s", values[any(sizeof values / sizeof values[0])]);
}

static void put_value(struct text *t, unsigned int depth)
{
    if (depth == 0 || any(5)) {
        put_scalar(t);
        return;
    }
    unsigned int n = any(4);
    put(t, "[");
    for (unsigned int i = 0; i < n; i++) {
        put(t, i ? "," : "");
        if (any(4)) {
            put_value(t, depth - 1);
        } else {
            put(t, "{\"d\":");
            put_value(t, depth - 1);
            put(t, "}");
        }
    }
    put(t, "]");
}

/* A document with some of the fields a, b, c.d. */
static void put_document(struct text *t)
{
    put(t, "{\"z\":0");
    if (any(8)) {
        put(t, ",\"a\":");
        put_value(t, 2);
    }
    if (any(3)) {
        put(t, ",\"b\":");
        put_scalar(t);
    }
    if (any(3)) {
        put(t, ",\"c\":");
        if (any(2)) {
            put(t, "{\"d\":");
            put_value(t, 1);
            put(t, "}");
        } else {
            put_value(t, 2);
        }
    }
    put(t, "}");
}

static void put_field(struct text *t)
{
    static const char *const fields[] = {
        "a", "a", "a", "b", "c.d", "c", "a.0", "_size", "_ts", "_id"};
    put(t, "\"%s\":", fields[any(sizeof fields / sizeof fields[0])]);
}

static void put_list(struct text *t)
{
    unsigned int n = any(4);
    put(t, "[");
    for (unsigned int i = 0; i < n; i++) {
        put(t, i ? "," : "");
        put_scalar(t);
    }
    put(t, "]");
}

static void put_operator(struct text *t, bool query)
{
    static const char *const compare[] = {"$eq", "$gt", "$gte", "$lt", "$lte", "$ne"};
    static const char *const regexes[] = {"^us", "^user-0*1", "b", "^ab?", "^a|z", "^$", "^user-"};
    static const char *const types[] = {"\"string\"", "\"date\"", "\"number\"", "9", "\"array\""};
    switch (any(query ? 10 : 7)) {
    case 0:
        put(t, "\"$exists\":%s", any(3) ? "true" : "false");
        break;
    case 1:
        put(t, "\"$in\":");
        put_list(t);
        break;
    case 2:
        put(t, "\"$type\":%s", types[any(5)]);
        break;
    case 7:
        put(t, "\"$nin\":");
        put_list(t);
        break;
    case 8:
        put(t, "\"$regex\":\"%s\"", regexes[any(7)]);
        break;
    case 9:
        put(t, "\"$not\":{\"$gt\":");
        put_scalar(t);
        put(t, "}");
        break;
    default:
        put(t, "\"%s\":", compare[any(query ? 6 : 5)]);
        put_scalar(t);
        break;
    }
}

static void put_filter(struct text *t, unsigned int depth, bool query)
{
    static const char *const joints[] = {"$and", "$or", "$nor"};
    unsigned int n = 1 + any(2);
    put(t, "{");
    for (unsigned int i = 0; i < n; i++) {
        put(t, i ? "," : "");
        if (depth && !any(4)) {
            put(t, "\"%s\":[", joints[any(query ? 3 : 2)]);
            put_filter(t, depth - 1, query);
            if (any(2)) {
                put(t, ",");
                put_filter(t, depth - 1, query);
            }
            put(t, "]");
        } else if (any(3)) {
            put_field(t);
            put(t, "{");
            put_operator(t, query);
            if (any(2)) {
                put(t, ",");
                put_operator(t, query);
            }
            put(t, "}");
        } else {
            put_field(t);
            put_scalar(t);
        }
    }
    put(t, "}");
}

/* What a document says, put together without the code under test. */
static void fields_of(struct dentry *d, bson_t *ret_fields)
{
    struct system_values values;
    size_t len = d->doc->size;
    if (!S_ISREG(d->doc->mode) || fields_parse(d->doc->data, len, ret_fields) != 0) {
        if (S_ISREG(d->doc->mode))
            bson_destroy(ret_fields);
        bson_init(ret_fields);
    }
    system_values_of(d, &values);
    world_must(system_fields_set(ret_fields, SYSTEM_ALL, &values) == 0, "fields");
}

static const struct query_reader everybody = {0};

/* Runs a query and compares it with asking everybody. Returns whether an index served it. */
static bool check_query(struct world *w, struct collection *c, const char *text)
{
    struct query *query;
    struct query_result result = {0};
    struct reason why = {0};
    size_t at = 0;
    bool wrong = false;
    if (query_new(&text, 1, &query, &why) != 0) {
        CHECK(why.text[0]);
        return false;
    }
    tree_lock(w->tree);
    CHECK_EQ(query_run(&w->ttl, c, query, T0, &everybody, &result), 0);
    for (struct dentry *d = names_after(&c->names, 0); d; d = names_next(d)) {
        bson_t fields;
        if (document_is_collection(d->doc) || ttl_hidden(&w->ttl, d, T0))
            continue;
        fields_of(d, &fields);
        bool matches = filter_match(query_filter(query), &fields);
        bool found = at < result.n && result.cookies[at] == names_cookie(d);
        at += found;
        if (matches != found) {
            wrong = true;
            fprintf(stderr, "%s %s: %.*s\n", d->name, matches ? "is missing" : "does not match",
                (int) d->doc->size, (const char *) d->doc->data);
        }
        bson_destroy(&fields);
    }
    wrong |= at != result.n;
    tree_unlock(w->tree);
    CHECK(!wrong);
    if (wrong)
        fprintf(stderr, "filter %s, %s\n", text,
            result.stats.by_index ? result.stats.index_name : "by a scan");
    bool by_index = result.stats.by_index;
    query_result_release(&result);
    query_free(query);
    return by_index;
}

static void put_index(struct text *t)
{
    static const char *const keys[] = {"a", "b", "c.d", "c", "b,a", "_ts", "_accessed"};
    static const char *const as[] = {"date", "date", "iso8601", "epochSeconds", "epochMillis"};
    unsigned int key = any(7);
    put(t, "{\"key\":\"%s\",\"as\":\"%s\"", keys[key], as[any(5)]);
    if (any(2) && key != 4)
        put(t, ",\"expireAfterSeconds\":%u", 3 + any(2) * 2147483000U);
    if (!any(3))
        put(t, ",\"jitterSeconds\":%u", any(100));
    if (!any(3)) {
        put(t, ",\"partialFilterExpression\":");
        put_filter(t, 1, false);
    }
    put(t, "}");
}

static void fill(struct world *w, struct collection *dir, struct collection *sub, int n)
{
    char name[32];
    for (int i = 0; i < n; i++) {
        struct text t = {.len = 0};
        if (any(20))
            put_document(&t);
        (void) snprintf(name, sizeof name, "%c%d", 'a' + i % 3, i);
        world_file(w, any(4) ? dir : sub, name, t.bytes, T0 - any(3));
    }
    world_make(w, dir, "link", S_IFLNK | 0777, "a1", T0);
    world_make(w, dir, "fifo", S_IFIFO | 0666, NULL, T0);
}

static void test_random(void)
{
    int served = 0, asked = 0;
    for (int round = 0; round < 60; round++) {
        struct world w;
        char name[32];
        seed = (uint64_t) round * 7919 + 11;
        world_open(&w, NULL);
        struct collection *dir = world_mkdir(&w, w.tree->root, "dir"),
                          *sub = world_mkdir(&w, dir, "sub");
        bool before = any(2);
        if (before)
            fill(&w, dir, sub, 40);
        for (unsigned int i = any(5); i > 0; i--) {
            struct text t = {.len = 0};
            put_index(&t);
            (void) snprintf(name, sizeof name, "user.ttl.index.i%u", i);
            (void) world_rule(&w, &dir->doc, name, t.bytes, T0);
        }
        if (!before || any(2))
            fill(&w, dir, sub, 60);
        for (int i = 0; i < 150; i++) {
            struct text t = {.len = 0};
            put_filter(&t, 2, true);
            asked++;
            served += check_query(&w, any(4) ? dir : sub, t.bytes);
        }
        CHECK_EQ(world_check(&w), 0);
        world_close(&w);
    }
    /* Neither way may go untried. */
    CHECK(served > asked / 20);
    CHECK(served < asked);
}

/* The index that serves a filter, "" for none; how many were found and looked at. */
static const char *served_by(
    struct world *w, struct collection *c, const char *text, size_t *ret_found, uint64_t *ret_docs)
{
    static char name[QUERY_INDEX_NAME_BYTES];
    struct query *query;
    struct query_result result = {0};
    world_must(query_new(&text, 1, &query, NULL) == 0, text);
    tree_lock(w->tree);
    CHECK_EQ(query_run(&w->ttl, c, query, T0, &everybody, &result), 0);
    tree_unlock(w->tree);
    memcpy(name, result.stats.index_name, sizeof name);
    *ret_found = result.n;
    *ret_docs = result.stats.docs_examined;
    query_result_release(&result);
    query_free(query);
    return name;
}

#define CHECK_PLAN(filter, index, want_found, want_docs)                                           \
    do {                                                                                           \
        size_t found_;                                                                             \
        uint64_t docs_;                                                                            \
        CHECK_STR(served_by(&w, dir, filter, &found_, &docs_), index);                             \
        CHECK_EQ(found_, want_found);                                                              \
        CHECK_EQ(docs_, want_docs);                                                                \
    } while (0)

static void test_plans(void)
{
    struct world w;
    char name[32];
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir");
    for (int i = 0; i < 1000; i++) {
        struct text t = {.len = 0};
        put(&t, "{\"user\":\"user-with-a-long-name-%d\",\"n\":%d,\"k\":%d,", i, i, i % 10);
        put(&t, "\"at\":{\"$date\":{\"$numberLong\":\"%" PRId64 "\"}},", T0 + i * SECOND);
        put(&t, "\"tags\":[\"t%d\",\"even\"]}", i % 4);
        (void) snprintf(name, sizeof name, "%d", i);
        world_file(&w, dir, name, t.bytes, T0);
    }
    CHECK_PLAN("{\"n\":5}", "", 1, 1000);
    CHECK_EQ(world_rule(&w, &dir->doc, "user.ttl.index.user", "{}", T0), 0);
    CHECK_EQ(world_rule(&w, &dir->doc, "user.ttl.index.n", "{}", T0), 0);
    CHECK_EQ(world_rule(&w, &dir->doc, "user.ttl.index.at", "86400", T0), 0);
    CHECK_EQ(world_rule(&w, &dir->doc, "user.ttl.index.tags", "{}", T0), 0);
    CHECK_EQ(world_rule(&w, &dir->doc, "user.ttl.index.k",
                 "{\"partialFilterExpression\":{\"n\":{\"$gte\":500}}}", T0),
        0);
    /* Long strings with a common beginning are told apart. */
    CHECK_PLAN("{\"user\":\"user-with-a-long-name-77\"}", "user", 1, 1);
    CHECK_PLAN("{\"user\":{\"$in\":[\"user-with-a-long-name-1\",\"user-with-a-long-name-2\"]}}",
        "user", 2, 2);
    CHECK_PLAN("{\"user\":\"nobody\"}", "user", 0, 0);
    CHECK_PLAN("{\"user\":{\"$regex\":\"^x\"}}", "user", 0, 0);
    CHECK_PLAN("{\"n\":{\"$gte\":10,\"$lt\":20}}", "n", 10, 11);
    CHECK_PLAN("{\"n\":{\"$gte\":10},\"user\":\"user-with-a-long-name-11\"}", "user", 1, 1);
    CHECK_PLAN("{\"$or\":[{\"n\":1},{\"n\":{\"$gt\":998}}]}", "n", 2, 3);
    CHECK_PLAN("{\"$or\":[{\"n\":1},{\"k\":1}]}", "", 100, 1000);
    CHECK_PLAN("{\"at\":{\"$lt\":{\"$date\":\"2026-01-01T00:00:05Z\"}}}", "at", 5, 5);
    CHECK_PLAN("{\"tags\":\"t1\"}", "tags", 250, 1000);
    /* What is missing is in no index. */
    CHECK_PLAN("{\"n\":null}", "", 0, 1000);
    CHECK_PLAN("{\"n\":{\"$ne\":5}}", "", 999, 1000);
    /* A partial index serves those whose filter says as much. */
    CHECK_PLAN("{\"k\":1}", "", 100, 1000);
    CHECK_PLAN("{\"k\":1,\"n\":{\"$gt\":600}}", "k", 40, 50);
    CHECK_PLAN("{\"k\":1,\"n\":{\"$gt\":499}}", "n", 50, 501);
    CHECK_EQ(world_rule(&w, &dir->doc, "user.ttl.index.user", "{\"hidden\":true}", T0), 0);
    CHECK_PLAN("{\"user\":\"user-with-a-long-name-77\"}", "", 1, 1000);
    CHECK_PLAN("{}", "", 1000, 1000);
    world_close(&w);
}

static void test_refusals(void)
{
    static const char *const bad[] = {"", "x", "{", "5", "[]", "{\"a\":{\"$foo\":1}}",
        "{\"$where\":1}", "{\"a\":{\"$in\":5}}", "{\"a\":{\"$regex\":\"(\"}}", "{\"a\":1}x",
        "{\"a..b\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct query *query;
        struct reason why = {0};
        CHECK_EQ(query_new(&bad[i], 1, &query, &why), -EINVAL);
        CHECK(why.text[0]);
    }
    const char *const two[] = {"{\"a\":1}", "{\"a\":{\"$lt\":5}}"};
    struct query *query;
    CHECK_EQ(query_new(two, 2, &query, NULL), 0);
    query_free(query);
}

static bool only_uid_7(void *arg, const struct document *doc)
{
    (void) arg;
    return doc->uid == 7;
}

/* Who may not read a document learns nothing about it, in no way of being served. */
static void test_readers(void)
{
    struct world w;
    const struct query_reader reader = {.may_read = only_uid_7};
    const char *const filters[] = {"{\"a\":1}", "{\"a\":{\"$ne\":5}}", "{\"_size\":{\"$gt\":0}}"};
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir");
    world_file(&w, dir, "mine", "{\"a\":1}", T0)->doc->uid = 7;
    world_file(&w, dir, "other", "{\"a\":1}", T0);
    for (int indexed = 0; indexed < 2; indexed++) {
        for (size_t i = 0; i < 3; i++) {
            struct query *query;
            struct query_result result = {0};
            CHECK_EQ(query_new(&filters[i], 1, &query, NULL), 0);
            tree_lock(w.tree);
            CHECK_EQ(query_run(&w.ttl, dir, query, T0, &reader, &result), 0);
            CHECK_EQ(query_matches(&w.ttl, dir, query, "other", 5, T0, &reader), i == 2);
            CHECK_EQ(query_matches(&w.ttl, dir, query, "mine", 4, T0, &reader), 1);
            CHECK_EQ(query_matches(&w.ttl, dir, query, "none", 4, T0, &reader), 0);
            tree_unlock(w.tree);
            CHECK_EQ(result.n, i == 2 ? 2 : 1);
            CHECK_EQ(result.stats.docs_examined, i == 2 ? 2 : 1);
            query_result_release(&result);
            query_free(query);
        }
        CHECK_EQ(world_rule(&w, &dir->doc, "user.ttl.index.a", "{}", T0), 0);
    }
    world_close(&w);
}

static bool impatient(void *arg)
{
    int *left = arg;
    return (*left)-- <= 0;
}

static void test_interrupt(void)
{
    struct world w;
    char name[32];
    int left = 2;
    const char *text = "{\"a\":1}";
    const struct query_reader reader = {.arg = &left, .interrupted = impatient};
    struct query *query;
    struct query_result result = {0};
    world_open(&w, NULL);
    for (int i = 0; i < 1000; i++) {
        (void) snprintf(name, sizeof name, "%d", i);
        world_file(&w, w.tree->root, name, "{\"a\":1}", T0);
    }
    CHECK_EQ(query_new(&text, 1, &query, NULL), 0);
    tree_lock(w.tree);
    CHECK_EQ(query_run(&w.ttl, w.tree->root, query, T0, &reader, &result), -EINTR);
    tree_unlock(w.tree);
    query_result_release(&result);
    query_free(query);
    world_close(&w);
}

int main(void)
{
    RUN(test_random);
    RUN(test_plans);
    RUN(test_refusals);
    RUN(test_readers);
    RUN(test_interrupt);
    return unit_report();
}
