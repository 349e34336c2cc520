/* How an index reads back; index_spec.c is the other direction. */
#include "core/index_spec.h"

#include "core/bsonx.h"
#include "core/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *index_spec_as_name(enum fields_as as)
{
    switch (as) {
    case FIELDS_AS_ISO8601:
        return "iso8601";
    case FIELDS_AS_EPOCH_SECONDS:
        return "epochSeconds";
    case FIELDS_AS_EPOCH_MILLIS:
        return "epochMillis";
    case FIELDS_AS_DATE:
        break;
    }
    return "date";
}

/* libbson puts blanks between the tokens; an index reads back as {"key":"at"}. */
static void put_compact(FILE *out, const char *json)
{
    bool in_string = false;

    for (; *json; json++) {
        if (!in_string && *json == ' ')
            continue;
        putc(*json, out);
        if (*json == '\\')
            putc(*++json, out);
        else if (*json == '"')
            in_string = !in_string;
    }
}

/* Does the text read back as the very same bytes? Returns 1, 0 or -ENOMEM. */
static int reads_back(const char *json, const bson_t *expression)
{
    struct bson_buffer again = {.limit = FIELDS_MAX_BYTES};
    int r = json_read_object(json, strlen(json), FIELDS_MAX_DEPTH, &again, NULL);

    if (r == 0)
        r = again.len == expression->len &&
            memcmp(again.data, bson_get_data(expression), again.len) == 0;
    bson_buffer_release(&again);
    return r == -ENOMEM ? r : r > 0;
}

/*
 * Relaxed JSON says 5 for an int64, too, and reads it back as an int32. Where it would change the
 * expression like that, canonical JSON is written.
 */
static int put_filter(FILE *out, const bson_t *expression)
{
    char *json = bson_as_relaxed_extended_json(expression, NULL);
    int r = json ? reads_back(json, expression) : -ENOMEM;

    if (r == 0) {
        bson_free(json);
        json = bson_as_canonical_extended_json(expression, NULL);
        r = json ? 1 : -ENOMEM;
    }
    if (r > 0)
        put_compact(out, json);
    bson_free(json);
    return r < 0 ? r : 0;
}

static int put_spec(FILE *out, const struct index_spec *spec)
{
    char *key = bson_utf8_escape_for_json(spec->key, -1);
    int r = 0;

    if (!key)
        return -ENOMEM;
    putc('{', out);
    if (spec->ttl)
        fprintf(out, "\"expireAfterSeconds\":%d,", (int) spec->expire_after_s);
    fprintf(out, "\"key\":\"%s\"", key);
    if (spec->filter) {
        fputs(",\"partialFilterExpression\":", out);
        r = put_filter(out, filter_expression(spec->filter));
    }
    if (spec->hidden)
        fputs(",\"hidden\":true", out);
    if (spec->as != FIELDS_AS_DATE)
        fprintf(out, ",\"as\":\"%s\"", index_spec_as_name(spec->as));
    if (spec->jitter_s)
        fprintf(out, ",\"jitterSeconds\":%d", (int) spec->jitter_s);
    putc('}', out);
    bson_free(key);
    return r;
}

int index_spec_format(const struct index_spec *spec, char **ret_text)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    int r;

    if (!out)
        return -ENOMEM;
    r = put_spec(out, spec);
    if (ferror(out))
        r = -ENOMEM;
    if (fclose(out) != 0)
        r = -ENOMEM;
    if (r < 0) {
        free(text);
        return r;
    }
    *ret_text = text;
    return 0;
}
