#include "core/compare.h"

#include "core/bsonx.h"
#include "core/number.h"

#include <string.h>

/* Indexed by type; MinKey's type is 0xFF. */
static const int8_t brackets[UINT8_MAX + 1] = {
    [BSON_TYPE_MINKEY] = -1,
    [BSON_TYPE_UNDEFINED] = 0,
    [BSON_TYPE_NULL] = 5,
    [BSON_TYPE_DOUBLE] = 10,
    [BSON_TYPE_INT32] = 10,
    [BSON_TYPE_INT64] = 10,
    [BSON_TYPE_DECIMAL128] = 10,
    [BSON_TYPE_UTF8] = 15,
    [BSON_TYPE_SYMBOL] = 15,
    [BSON_TYPE_DOCUMENT] = 20,
    [BSON_TYPE_ARRAY] = 25,
    [BSON_TYPE_BINARY] = 30,
    [BSON_TYPE_OID] = 35,
    [BSON_TYPE_BOOL] = 40,
    [BSON_TYPE_DATE_TIME] = 45,
    [BSON_TYPE_TIMESTAMP] = 47,
    [BSON_TYPE_REGEX] = 50,
    [BSON_TYPE_DBPOINTER] = 55,
    [BSON_TYPE_CODE] = 60,
    [BSON_TYPE_CODEWSCOPE] = 65,
    [BSON_TYPE_MAXKEY] = 127,
};

int compare_bracket(bson_type_t type)
{
    return brackets[(uint8_t) type];
}

static int compare_int64(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare_bytes(const void *a, size_t a_len, const void *b, size_t b_len)
{
    size_t shorter = a_len < b_len ? a_len : b_len;
    int order = shorter > 0 ? memcmp(a, b, shorter) : 0;
    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

/* Strings, symbols and code are stored alike: a length, the text, a NUL. */
static int compare_text(const bson_iter_t *a, const bson_iter_t *b)
{
    const uint8_t *a_value, *b_value;
    size_t a_len = bsonx_value_bytes(a, &a_value), b_len = bsonx_value_bytes(b, &b_value);
    return compare_bytes(a_value + 4, a_len - 5, b_value + 4, b_len - 5);
}

static int compare_binary(const bson_iter_t *a, const bson_iter_t *b)
{
    bson_subtype_t a_subtype, b_subtype;
    uint32_t a_len, b_len;
    const uint8_t *a_bytes, *b_bytes;
    bson_iter_binary(a, &a_subtype, &a_len, &a_bytes);
    bson_iter_binary(b, &b_subtype, &b_len, &b_bytes);
    if (a_len != b_len)
        return a_len < b_len ? -1 : 1;
    if (a_subtype != b_subtype)
        return a_subtype < b_subtype ? -1 : 1;
    return compare_bytes(a_bytes, a_len, b_bytes, b_len);
}

static int compare_timestamp(const bson_iter_t *a, const bson_iter_t *b)
{
    uint32_t a_seconds, a_counter, b_seconds, b_counter;
    bson_iter_timestamp(a, &a_seconds, &a_counter);
    bson_iter_timestamp(b, &b_seconds, &b_counter);
    int order = compare_int64(a_seconds, b_seconds);
    return order != 0 ? order : compare_int64(a_counter, b_counter);
}

static int compare_regex(const bson_iter_t *a, const bson_iter_t *b)
{
    const char *a_options, *b_options;
    const char *a_pattern = bson_iter_regex(a, &a_options);
    const char *b_pattern = bson_iter_regex(b, &b_options);
    int order = strcmp(a_pattern, b_pattern);
    return order != 0 ? order : strcmp(a_options, b_options);
}

static int compare_raw(const bson_iter_t *a, const bson_iter_t *b)
{
    const uint8_t *a_value, *b_value;
    size_t a_len = bsonx_value_bytes(a, &a_value), b_len = bsonx_value_bytes(b, &b_value);
    if (a_len != b_len)
        return a_len < b_len ? -1 : 1;
    return memcmp(a_value, b_value, a_len);
}

/* Both stand in front of their first element. Names do not count in arrays. */
static int compare_members(bson_iter_t *a, bson_iter_t *b, bool names)
{
    for (;;) {
        bool a_more = bson_iter_next(a), b_more = bson_iter_next(b);
        if (!a_more || !b_more)
            return (int) a_more - (int) b_more;
        int order = compare_bracket(bson_iter_type(a)) - compare_bracket(bson_iter_type(b));
        if (order == 0 && names)
            order = strcmp(bson_iter_key(a), bson_iter_key(b));
        if (order == 0)
            order = compare_values(a, b);
        if (order != 0)
            return order;
    }
}

static int compare_documents(const bson_iter_t *a, const bson_iter_t *b, bool names)
{
    bson_iter_t a_inner, b_inner;
    bool a_opened = bson_iter_recurse(a, &a_inner), b_opened = bson_iter_recurse(b, &b_inner);
    if (!a_opened || !b_opened)
        return (int) a_opened - (int) b_opened;
    return compare_members(&a_inner, &b_inner, names);
}

static int compare_code_with_scope(const bson_iter_t *a, const bson_iter_t *b)
{
    const uint8_t *a_scope, *b_scope;
    uint32_t a_len, b_len, a_scope_len, b_scope_len;
    const char *a_code = bson_iter_codewscope(a, &a_len, &a_scope_len, &a_scope);
    const char *b_code = bson_iter_codewscope(b, &b_len, &b_scope_len, &b_scope);
    int order = compare_bytes(a_code, a_len, b_code, b_len);
    bson_iter_t a_inner, b_inner;
    if (order != 0 || !bson_iter_init_from_data(&a_inner, a_scope, a_scope_len) ||
        !bson_iter_init_from_data(&b_inner, b_scope, b_scope_len))
        return order;
    return compare_members(&a_inner, &b_inner, true);
}

int compare_values(const bson_iter_t *a, const bson_iter_t *b)
{
    bson_type_t type = bson_iter_type(a);
    int order = compare_bracket(type) - compare_bracket(bson_iter_type(b));
    if (order != 0)
        return order;
    switch (type) {
    case BSON_TYPE_DOUBLE:
    case BSON_TYPE_INT32:
    case BSON_TYPE_INT64:
    case BSON_TYPE_DECIMAL128:
        return number_compare(a, b);
    case BSON_TYPE_UTF8:
    case BSON_TYPE_SYMBOL:
    case BSON_TYPE_CODE:
        return compare_text(a, b);
    case BSON_TYPE_DOCUMENT:
        return compare_documents(a, b, true);
    case BSON_TYPE_ARRAY:
        return compare_documents(a, b, false);
    case BSON_TYPE_BINARY:
        return compare_binary(a, b);
    case BSON_TYPE_BOOL:
        return (int) bson_iter_bool(a) - (int) bson_iter_bool(b);
    case BSON_TYPE_DATE_TIME:
        return compare_int64(bson_iter_date_time(a), bson_iter_date_time(b));
    case BSON_TYPE_TIMESTAMP:
        return compare_timestamp(a, b);
    case BSON_TYPE_REGEX:
        return compare_regex(a, b);
    case BSON_TYPE_CODEWSCOPE:
        return compare_code_with_scope(a, b);
    case BSON_TYPE_OID:
    case BSON_TYPE_DBPOINTER:
        return compare_raw(a, b);
    default: /* null, undefined, MinKey, MaxKey: one value each */
        return 0;
    }
}
