/*
 * Filters from any bytes, asked of documents from any bytes: nothing crashes or leaks, a refusal has
 * words, and what an index offers for a filter has every document that matches.
 *
 * The input is the filter, a line break, the filter of a partial index, a line break, the document. With
 * fewer line breaks what is missing is empty.
 */
#include "core/fields.h"
#include "core/filter_plan.h"
#include "ttl/document_fields.h"
#include "ttl/query.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzzer checks in every build. */
static void must(bool condition)
{
    if (!condition)
        abort();
}

static bool holds(const struct key_set *keys, int64_t key)
{
    bool found = false;
    for (size_t i = 0; i < keys->n; i++) {
        must(keys->ranges[i].from <= keys->ranges[i].to);
        must(i == 0 || keys->ranges[i].from > keys->ranges[i - 1].to);
        found |= key >= keys->ranges[i].from && key <= keys->ranges[i].to;
    }
    return found;
}

/* One index: does it know the document, if that matches? */
static void check_index(
    const struct filter *filter, const bson_t *fields, const char *path, enum fields_as as)
{
    bool matches = filter_match(filter, fields);
    struct value_at at = value_key_at(fields, path, as);
    for (int many = at.many && value_key_is_date(at.key); many < 2; many++) {
        struct key_source source = {.path = path, .as = as, .many_dated = many};
        struct key_set keys = {0};
        int rc = filter_keys(filter, &source, &keys);
        must(rc == 0 || rc == 1);
        bool found = at.key != INDEX_KEY_MISSING && holds(&keys, at.key);
        must(!rc || !matches || found);
        key_set_release(&keys);
    }
}

static struct query *compile(const char *text)
{
    struct query *query;
    struct reason why = {""};
    int err = query_new(&text, 1, &query, &why);
    must(err == 0 || (err == -EINVAL && why.text[0]));
    return err ? NULL : query;
}

static void check(const char *text, const char *partial_text, const char *document, size_t len)
{
    static const char *const paths[] = {"a", "a.b", "b", "a.0"};
    bson_t fields;
    struct query *query = compile(text);
    if (!query)
        return;
    (void) filter_reads_other(query_filter(query), system_field_is);
    if (fields_parse(document, len, &fields) == 0) {
        struct query *partial = compile(partial_text);
        if (partial && filter_implies(query_filter(query), query_filter(partial)))
            must(!filter_match(query_filter(query), &fields) ||
                 filter_match(query_filter(partial), &fields));
        query_free(partial);
        for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
            for (int as = FIELDS_AS_DATE; as <= FIELDS_AS_EPOCH_MILLIS; as++)
                check_index(query_filter(query), &fields, paths[i], (enum fields_as) as);
    }
    bson_destroy(&fields);
    query_free(query);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    char *partial = memchr(text, '\n', size);
    char *document =
        partial ? memchr(partial + 1, '\n', size - (size_t) (partial + 1 - text)) : NULL;
    if (partial)
        *partial++ = '\0';
    if (document)
        *document++ = '\0';
    check(text, partial ? partial : "", document ? document : "",
        document ? size - (size_t) (document - text) : 0);
    free(text);
    return 0;
}
