/*
 * find_explain.c - `.explain.json`: how a query is served, in the words of MongoDB's explain.
 *
 * What counts comes first and flat, for grep and jq; behind it the same as MongoDB nests it.
 */
#include "fs/find_impl.h"

#include "core/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void append_key_pattern(bson_t *b, const char *key)
{
    bson_t pattern;
    BSON_APPEND_DOCUMENT_BEGIN(b, "keyPattern", &pattern);
    while (*key) {
        size_t len = strcspn(key, ",");
        bson_append_int32(&pattern, key, (int) len, 1);
        key += len + (key[len] == ',');
    }
    bson_append_document_end(b, &pattern);
}

/* An index may be called anything; what is not UTF-8 becomes U+FFFD. */
static void append_name(bson_t *b, const char *name)
{
    char shown[3 * QUERY_INDEX_NAME_BYTES];
    const uint8_t *at = (const uint8_t *) name, *end = at + strlen(name);
    size_t used = 0;
    while (at < end) {
        size_t n = utf8_sequence_bytes(at, end);
        memcpy(shown + used, n ? (const char *) at : "\xEF\xBF\xBD", n ? n : 3);
        used += n ? n : 3;
        at += n ? n : 1;
    }
    bson_append_utf8(b, "indexName", -1, shown, (int) used);
}

/* {"stage": "IXSCAN", …} */
static void append_index(bson_t *b, const struct query_stats *stats)
{
    BSON_APPEND_UTF8(b, "stage", "IXSCAN");
    append_name(b, stats->index_name);
    append_key_pattern(b, stats->key);
    BSON_APPEND_BOOL(b, "isMultiKey", stats->many);
    BSON_APPEND_BOOL(b, "isPartial", stats->partial);
}

static void append_plan(bson_t *b, const char *name, const struct query_stats *stats)
{
    bson_t plan, input;
    bson_append_document_begin(b, name, -1, &plan);
    if (stats->by_index) {
        BSON_APPEND_UTF8(&plan, "stage", "FETCH");
        BSON_APPEND_DOCUMENT_BEGIN(&plan, "inputStage", &input);
        append_index(&input, stats);
        bson_append_document_end(&plan, &input);
    } else {
        BSON_APPEND_UTF8(&plan, "stage", "COLLSCAN");
    }
    bson_append_document_end(b, &plan);
}

static void append_explanation(
    bson_t *b, const struct query *query, const struct query_result *result, int64_t took_ms)
{
    const struct query_stats *stats = &result->stats;
    bson_t planner, execution;
    if (stats->by_index)
        append_index(b, stats);
    else
        BSON_APPEND_UTF8(b, "stage", "COLLSCAN");
    BSON_APPEND_INT64(b, "keysExamined", (int64_t) stats->keys_examined);
    BSON_APPEND_INT64(b, "docsExamined", (int64_t) stats->docs_examined);
    BSON_APPEND_INT64(b, "nReturned", (int64_t) result->n);
    BSON_APPEND_DOCUMENT_BEGIN(b, "queryPlanner", &planner);
    BSON_APPEND_DOCUMENT(&planner, "parsedQuery", filter_expression(query_filter(query)));
    append_plan(&planner, "winningPlan", stats);
    bson_append_document_end(b, &planner);
    BSON_APPEND_DOCUMENT_BEGIN(b, "executionStats", &execution);
    BSON_APPEND_BOOL(&execution, "executionSuccess", true);
    BSON_APPEND_INT64(&execution, "nReturned", (int64_t) result->n);
    BSON_APPEND_INT64(&execution, "executionTimeMillis", took_ms);
    BSON_APPEND_INT64(&execution, "totalKeysExamined", (int64_t) stats->keys_examined);
    BSON_APPEND_INT64(&execution, "totalDocsExamined", (int64_t) stats->docs_examined);
    append_plan(&execution, "executionStages", stats);
    bson_append_document_end(b, &execution);
}

static int64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return timespec_ms(now);
}

int find_explain(fuse_req_t req, const struct find_node *filter, char **ret_text, size_t *ret_len)
{
    struct query_result result = {0};
    struct query *query;
    bson_t b = BSON_INITIALIZER;
    int err = find_compile(filter, NULL, &query, NULL);
    if (err)
        return err;
    int64_t began_ms = monotonic_ms();
    err = find_run(req, filter, &result);
    if (!err)
        append_explanation(&b, query, &result, monotonic_ms() - began_ms);
    query_result_release(&result);
    query_free(query);
    char *json = err ? NULL : bson_as_relaxed_extended_json(&b, ret_len);
    bson_destroy(&b);
    if (!err && !json)
        return -ENOMEM;
    if (!err) {
        *ret_text = malloc(*ret_len + 2);
        err = *ret_text ? 0 : -ENOMEM;
    }
    if (!err) {
        memcpy(*ret_text, json, *ret_len);
        memcpy(*ret_text + *ret_len, "\n", 2);
        (*ret_len)++;
    }
    bson_free(json);
    return err;
}
