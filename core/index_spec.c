#include "core/index_spec.h"

#include "core/bsonx.h"
#include "core/dates.h"
#include "core/json.h"
#include "core/utf8.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The longest foreign text that a reason quotes. */
#define QUOTED_BYTES 60
/* 2 to the 53rd. */
#define WHOLE_FROM 9007199254740992.0

static int quoted(size_t len)
{
    return len < QUOTED_BYTES ? (int) len : QUOTED_BYTES;
}

static int out_of_memory(struct reason *why)
{
    return reason_set(why, ENOMEM, "out of memory");
}

static bool is_key(const struct index_spec *spec, const char *key)
{
    return strcmp(spec->key, key) == 0;
}

void index_spec_init(struct index_spec *spec)
{
    memset(spec, 0, sizeof *spec);
    spec->as = FIELDS_AS_DATE;
}

void index_spec_release(struct index_spec *spec)
{
    free(spec->key);
    filter_free(spec->filter);
    index_spec_init(spec);
}

int index_spec_copy(const struct index_spec *spec, struct index_spec *ret_copy)
{
    int r;

    index_spec_init(ret_copy);
    if (spec->filter) {
        r = filter_new(filter_expression(spec->filter), FILTER_PARTIAL, &ret_copy->filter, NULL);
        if (r < 0) {
            ret_copy->filter = NULL;
            return r;
        }
    }
    if (spec->key) {
        ret_copy->key = strdup(spec->key);
        if (!ret_copy->key) {
            index_spec_release(ret_copy);
            return -ENOMEM;
        }
    }
    ret_copy->ttl = spec->ttl;
    ret_copy->expire_after_s = spec->expire_after_s;
    ret_copy->hidden = spec->hidden;
    ret_copy->as = spec->as;
    ret_copy->jitter_s = spec->jitter_s;
    return 0;
}

bool index_spec_same_keys(const struct index_spec *a, const struct index_spec *b)
{
    return is_key(a, b->key) && filter_equal(a->filter, b->filter);
}

/* Are all dotted components of all comma-separated paths names that a field can have? */
static int check_key(const char *key, size_t len, struct reason *why)
{
    bool at_start = true;

    if (len == 0)
        return reason_set(why, EINVAL, "the key is empty");
    if (len > INDEX_KEY_MAX_BYTES)
        return reason_set(why, EINVAL, "the key is longer than %d bytes", INDEX_KEY_MAX_BYTES);
    if (memchr(key, '\0', len))
        return reason_set(why, EINVAL, "the key holds a NUL byte");
    if (!utf8_is_valid((const uint8_t *) key, len))
        return reason_set(why, EINVAL, "the key is not UTF-8");
    for (size_t i = 0; i <= len; i++) {
        bool at_end = i == len || key[i] == '.' || key[i] == ',';
        if (at_start && at_end)
            return reason_set(
                why, EINVAL, "an empty component in the key \"%.*s\"", quoted(len), key);
        if (at_start && key[i] == '$')
            return reason_set(why, EINVAL, "a component that starts with $ in the key \"%.*s\"",
                quoted(len), key);
        at_start = at_end;
    }
    return 0;
}

static int set_key(struct index_spec *spec, const char *key, size_t len, struct reason *why)
{
    char *copy;
    int r = check_key(key, len, why);

    if (r < 0)
        return r;
    copy = strndup(key, len);
    if (!copy)
        return out_of_memory(why);
    free(spec->key);
    spec->key = copy;
    return 0;
}

/* What depends on more than one member; asked when all of them are known. */
static int check_whole(const struct index_spec *spec, struct reason *why)
{
    assert(spec->key);
    if (!spec->ttl)
        return 0;
    if (strchr(spec->key, ','))
        return reason_set(why, EINVAL, "expireAfterSeconds needs one key, \"%.*s\" is compound",
            quoted(strlen(spec->key)), spec->key);
    if (is_key(spec, "_id"))
        return reason_set(why, EINVAL, "the key _id takes no expireAfterSeconds");
    if (spec->expire_after_s == INDEX_EXPIRE_OWN_TTL_S && !is_key(spec, "_ts"))
        return reason_set(why, EINVAL, "expireAfterSeconds is -1, which is for the key _ts only");
    return 0;
}

/* A BSON number without fraction in int64; NaN, infinities and 1.5 are none. */
static int read_whole(
    const bson_iter_t *value, const char *name, int64_t *ret_number, struct reason *why)
{
    double number;

    switch (bson_iter_type(value)) {
    case BSON_TYPE_INT32:
        *ret_number = bson_iter_int32(value);
        return 0;
    case BSON_TYPE_INT64:
        *ret_number = bson_iter_int64(value);
        return 0;
    case BSON_TYPE_DOUBLE:
        break;
    default:
        return reason_set(why, EINVAL, "%s must be a number: an int, a long or a double", name);
    }
    number = bson_iter_double(value);
    /* Beyond, every double is whole, and far outside of what any member takes. */
    if (fabs(number) > WHOLE_FROM && isfinite(number))
        number = copysign(WHOLE_FROM, number);
    if (!isfinite(number) || number != (double) (int64_t) number)
        return reason_set(why, EINVAL, "%s must be a whole number, not %g", name, number);
    *ret_number = (int64_t) number;
    return 0;
}

static int set_expire_after(struct index_spec *spec, int64_t seconds, struct reason *why)
{
    if (seconds < INDEX_EXPIRE_OWN_TTL_S)
        return reason_set(why, EINVAL, "expireAfterSeconds is negative");
    if (seconds > INDEX_EXPIRE_AFTER_MAX_S)
        return reason_set(
            why, EINVAL, "expireAfterSeconds is larger than %d", INDEX_EXPIRE_AFTER_MAX_S);
    spec->ttl = true;
    spec->expire_after_s = (int32_t) seconds;
    return 0;
}

static int read_expire_after(struct index_spec *spec, const bson_iter_t *value, struct reason *why)
{
    int64_t seconds = 0;
    int r = read_whole(value, "expireAfterSeconds", &seconds, why);

    return r < 0 ? r : set_expire_after(spec, seconds, why);
}

static int read_key(struct index_spec *spec, const bson_iter_t *value, struct reason *why)
{
    const char *key;
    uint32_t len;

    if (!BSON_ITER_HOLDS_UTF8(value))
        return reason_set(why, EINVAL, "key must be a string");
    key = bson_iter_utf8(value, &len);
    return set_key(spec, key, len, why);
}

static int read_filter(struct index_spec *spec, const bson_iter_t *value, struct reason *why)
{
    struct filter *filter;
    const uint8_t *data;
    uint32_t len;
    bson_t expression;
    int r;

    if (!BSON_ITER_HOLDS_DOCUMENT(value))
        return reason_set(why, EINVAL, "partialFilterExpression must be an object");
    bson_iter_document(value, &len, &data);
    if (!bson_init_static(&expression, data, len))
        return reason_set(why, EINVAL, "partialFilterExpression is not a document");
    r = filter_new(&expression, FILTER_PARTIAL, &filter, why);
    if (r < 0)
        return r;
    filter_free(spec->filter);
    spec->filter = filter;
    return 0;
}

static int read_hidden(struct index_spec *spec, const bson_iter_t *value, struct reason *why)
{
    if (!BSON_ITER_HOLDS_BOOL(value))
        return reason_set(why, EINVAL, "hidden must be true or false");
    spec->hidden = bson_iter_bool(value);
    return 0;
}

static int read_as(struct index_spec *spec, const bson_iter_t *value, struct reason *why)
{
    const char *name = "";
    uint32_t len = 0;

    if (BSON_ITER_HOLDS_UTF8(value))
        name = bson_iter_utf8(value, &len);
    for (enum fields_as as = FIELDS_AS_DATE; as <= FIELDS_AS_EPOCH_MILLIS; as++) {
        const char *known = index_spec_as_name(as);
        if (strlen(known) == len && memcmp(known, name, len) == 0) {
            spec->as = as;
            return 0;
        }
    }
    return reason_set(
        why, EINVAL, "as must be \"date\", \"iso8601\", \"epochSeconds\" or \"epochMillis\"");
}

static int read_jitter(struct index_spec *spec, const bson_iter_t *value, struct reason *why)
{
    int64_t seconds = 0;
    int r = read_whole(value, "jitterSeconds", &seconds, why);

    if (r < 0)
        return r;
    if (seconds < 0 || seconds > INT32_MAX)
        return reason_set(why, EINVAL, "jitterSeconds must be 0 to %d", INT32_MAX);
    spec->jitter_s = (int32_t) seconds;
    return 0;
}

static const struct member {
    const char *name;
    int (*read)(struct index_spec *spec, const bson_iter_t *value, struct reason *why);
} members[] = {
    {"expireAfterSeconds", read_expire_after},
    {"key", read_key},
    {"partialFilterExpression", read_filter},
    {"hidden", read_hidden},
    {"as", read_as},
    {"jitterSeconds", read_jitter},
};

#define MEMBERS (sizeof members / sizeof *members)

static int read_members(struct index_spec *spec, const bson_t *object, struct reason *why)
{
    bool seen[MEMBERS] = {false};
    bson_iter_t iter;
    size_t i;
    int r;

    if (!bson_iter_init(&iter, object))
        return reason_set(why, EINVAL, "the value is not a document");
    while (bson_iter_next(&iter)) {
        const char *name = bson_iter_key(&iter);
        for (i = 0; i < MEMBERS && strcmp(members[i].name, name) != 0;)
            i++;
        if (i == MEMBERS)
            return reason_set(
                why, EINVAL, "the key \"%.*s\" is unknown", quoted(strlen(name)), name);
        if (seen[i])
            return reason_set(why, EINVAL, "%s stands there twice", name);
        seen[i] = true;
        r = members[i].read(spec, &iter, why);
        if (r < 0)
            return r;
    }
    return 0;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Is it meant to be JSON? A BSON document is not, even where its first byte is a '{'. */
static bool is_object(const char *text, size_t len)
{
    size_t start = 0;

    while (start < len && is_blank(text[start]))
        start++;
    return start < len && text[start] == '{';
}

static int read_object(struct index_spec *spec, const char *text, size_t len, struct reason *why)
{
    struct bson_buffer buffer = {.limit = FIELDS_MAX_BYTES};
    bson_t object;
    int r = json_read_object(text, len, FIELDS_MAX_DEPTH, &buffer, why);

    if (r == -ENOMEM)
        out_of_memory(why);
    else if (r == 0 && bson_init_static(&object, buffer.data, buffer.len))
        r = read_members(spec, &object, why);
    else if (r == 0)
        r = reason_set(why, EINVAL, "the value is not a document");
    bson_buffer_release(&buffer);
    return r;
}

static int read_plain(struct index_spec *spec, const char *text, size_t len, struct reason *why)
{
    int64_t ms;

    if (len == 0)
        return reason_set(why, EINVAL, "the value is empty");
    if (len == 2 && memcmp(text, "-1", 2) == 0)
        return set_expire_after(spec, INDEX_EXPIRE_OWN_TTL_S, why);
    switch (date_parse_duration(text, len, &ms)) {
    case 0:
        break;
    case -ERANGE:
        return set_expire_after(spec, INT64_MAX, why);
    default:
        return reason_set(why, EINVAL,
            "\"%.*s\" is neither seconds, nor a duration, nor a JSON object", quoted(len), text);
    }
    if (ms % 1000 != 0)
        return reason_set(
            why, EINVAL, "\"%.*s\" does not come out in whole seconds", quoted(len), text);
    return set_expire_after(spec, ms / 1000, why);
}

int index_spec_parse(const char *name, size_t name_len, const char *value, size_t value_len,
    const struct index_spec *base, struct index_spec *ret_spec, struct reason *why)
{
    struct index_spec spec;
    int r;

    index_spec_init(&spec);
    index_spec_init(ret_spec);
    if (base) {
        r = index_spec_copy(base, &spec);
        if (r < 0)
            return r == -ENOMEM ? out_of_memory(why)
                                : reason_set(why, -r, "the index cannot be copied");
    }
    if (is_object(value, value_len))
        r = read_object(&spec, value, value_len, why);
    else
        r = read_plain(&spec, value, value_len, why);
    if (r == 0 && !spec.key)
        r = set_key(&spec, name, name_len, why);
    if (r == 0)
        r = check_whole(&spec, why);
    if (r < 0)
        index_spec_release(&spec);
    else
        *ret_spec = spec;
    return r;
}
