/*
 * What anybody writes into a file is parsed, and searched for dates; what anybody puts into a
 * query is compiled and matched. Input: a filter, optionally a line feed and a document.
 */
#include "core/bsonx.h"
#include "core/compare.h"
#include "core/fields.h"
#include "core/filter.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void read_dates(const bson_t *fields)
{
    static const char *const paths[] = {"a", "at", "a.b", "a.0", "a.b.c", "a.0.b", "$date", ""};
    int64_t date_ms;
    int32_t seconds;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        for (enum fields_as as = FIELDS_AS_DATE; as <= FIELDS_AS_EPOCH_MILLIS; as++)
            fields_earliest_date(fields, paths[i], as, &date_ms);
    }
    fields_ttl_seconds(fields, &seconds);
}

/* The values of a document in pairs: the order must be the same from either side. */
static void check_order(const bson_t *fields)
{
    bson_iter_t iter, previous;
    if (!bson_iter_init(&iter, fields) || !bson_iter_next(&iter))
        return;
    for (previous = iter; bson_iter_next(&iter); previous = iter) {
        int order = compare_values(&previous, &iter), reverse = compare_values(&iter, &previous);
        require((order < 0) == (reverse > 0) && (order == 0) == (reverse == 0));
        require(compare_values(&iter, &iter) == 0);
    }
}

static void match(const bson_t *expression, const bson_t *fields, unsigned int flags)
{
    struct filter *filter, *again;
    struct reason why;
    int rc = filter_new(expression, flags, &filter, &why);
    if (rc != 0) {
        require(rc == -EINVAL);
        return;
    }
    filter_match(filter, fields);
    filter_match(filter, expression);
    filter_reads(filter, "a.b");
    require(filter_new(filter_expression(filter), flags, &again, NULL) == 0);
    require(filter_equal(filter, again));
    filter_free(filter);
    filter_free(again);
}

static void parse(const uint8_t *data, size_t size, bson_t *ret_fields)
{
    bson_t again;
    int rc = fields_parse(data, size, ret_fields);
    require(rc == 0 || rc == -EINVAL);
    require(rc != 0 || fields_may_have(data, size));
    /* What came out is BSON that reads back as itself. */
    const uint8_t *bytes = bson_get_data(ret_fields);
    require(bsonx_is_valid(bytes, ret_fields->len, FIELDS_MAX_DEPTH));
    rc = fields_parse(bytes, ret_fields->len, &again);
    require(rc == 0 && bson_equal(ret_fields, &again));
    bson_destroy(&again);
}

static void change(bson_t *fields, const uint8_t *text, size_t size)
{
    bson_t value;
    struct reason why;
    if (fields_parse_value((const char *) text, size, &value, &why) == 0) {
        require(fields_add(fields, "a.b.c", &value) == 0);
        require(fields_add(fields, "x", &value) == 0);
        require(fields_add(fields, "a..b", &value) == -EINVAL);
    }
    bson_destroy(&value);
    require(fields_set_date(fields, "at", 1) == 0);
    require(fields_set_int64(fields, "a", 1) == 0);
    require(fields_set_utf8(fields, "_id", (const char *) text, size) == 0);
    require(bson_has_field(fields, "_id"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    size_t first = line ? (size_t) (line - data) : size;
    bson_t expression, fields;
    parse(data, first, &expression);
    parse(line ? line + 1 : data, line ? size - first - 1 : size, &fields);
    read_dates(&fields);
    check_order(&fields);
    match(&expression, &fields, FILTER_PARTIAL);
    match(&expression, &fields, FILTER_QUERY);
    change(&fields, data, first);
    bson_destroy(&fields);
    bson_destroy(&expression);
    return 0;
}
