#include "core/value_key.h"

#include "core/number.h"
#include "core/path.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Below the mark: 4 bits of class, then what fits of the value. */
#define PAYLOAD_BITS 58
#define PAYLOAD_MASK ((UINT64_C(1) << PAYLOAD_BITS) - 1)
/* A string: its first bytes, which keep the order, then a hash, which tells long ones apart. */
#define PREFIX_BYTES 4
#define STRING_HASH_BITS (PAYLOAD_BITS - 8 * PREFIX_BYTES)
#define STRING_HASH_MASK ((UINT64_C(1) << STRING_HASH_BITS) - 1)

static int64_t make_key(enum value_class class, uint64_t payload)
{
    return INDEX_KEY_MISFIT + (int64_t) ((uint64_t) class << PAYLOAD_BITS) +
           (int64_t) (payload & PAYLOAD_MASK);
}

struct key_range value_class_keys(enum value_class class)
{
    return (struct key_range){make_key(class, 0), make_key(class, PAYLOAD_MASK)};
}

/* Rounding to the nearest double never turns the order of two numbers round. */
static double as_double(const bson_iter_t *value)
{
    bson_decimal128_t decimal;
    char text[BSON_DECIMAL128_STRING];
    switch (bson_iter_type(value)) {
    case BSON_TYPE_INT32:
        return bson_iter_int32(value);
    case BSON_TYPE_INT64:
        return (double) bson_iter_int64(value);
    case BSON_TYPE_DECIMAL128:
        bson_iter_decimal128(value, &decimal);
        bson_decimal128_to_string(&decimal, text);
        return strtod(text, NULL);
    default:
        return bson_iter_double(value);
    }
}

/* Doubles in their order as unsigned numbers; all NaNs are 0, and zero has no sign. */
static uint64_t number_payload(const bson_iter_t *value)
{
    uint64_t bits;
    if (number_is_nan(value))
        return 0;
    double number = as_double(value);
    if (number == 0)
        number = 0;
    memcpy(&bits, &number, sizeof bits);
    bits = bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
    return bits >> (64 - PAYLOAD_BITS);
}

static uint64_t prefix_payload(const char *text, size_t len, unsigned char fill)
{
    uint64_t prefix = 0;
    for (size_t i = 0; i < PREFIX_BYTES; i++)
        prefix = prefix << 8 | (i < len ? (unsigned char) text[i] : fill);
    return prefix << STRING_HASH_BITS;
}

static uint64_t string_payload(const bson_iter_t *value)
{
    uint32_t len;
    const char *text =
        BSON_ITER_HOLDS_UTF8(value) ? bson_iter_utf8(value, &len) : bson_iter_symbol(value, &len);
    return prefix_payload(text, len, 0) | (XXH3_64bits(text, len) & STRING_HASH_MASK);
}

struct key_range value_keys_of_prefix(const char *text, size_t len)
{
    return (struct key_range){make_key(VALUE_STRING, prefix_payload(text, len, 0)),
        make_key(VALUE_STRING, prefix_payload(text, len, 0xFF) | STRING_HASH_MASK)};
}

int64_t value_key(const bson_iter_t *value, enum value_class *ret_class)
{
    enum value_class class = VALUE_OTHER;
    uint64_t payload = 0;
    bson_subtype_t subtype;
    uint32_t len;
    const uint8_t *bytes;
    switch (bson_iter_type(value)) {
    case BSON_TYPE_NULL:
    case BSON_TYPE_UNDEFINED:
        class = VALUE_NULL;
        break;
    case BSON_TYPE_DOUBLE:
    case BSON_TYPE_INT32:
    case BSON_TYPE_INT64:
    case BSON_TYPE_DECIMAL128:
        class = VALUE_NUMBER;
        payload = number_payload(value);
        break;
    case BSON_TYPE_UTF8:
    case BSON_TYPE_SYMBOL:
        class = VALUE_STRING;
        payload = string_payload(value);
        break;
    case BSON_TYPE_DOCUMENT:
        class = VALUE_DOCUMENT;
        break;
    case BSON_TYPE_BINARY:
        class = VALUE_BINARY;
        bson_iter_binary(value, &subtype, &len, &bytes);
        payload = XXH3_64bits(bytes, len) ^ (uint64_t) subtype;
        break;
    case BSON_TYPE_OID:
        class = VALUE_OID;
        payload = XXH3_64bits(bson_iter_oid(value)->bytes, sizeof(bson_oid_t));
        break;
    case BSON_TYPE_BOOL:
        class = VALUE_BOOL;
        payload = bson_iter_bool(value);
        break;
    case BSON_TYPE_ARRAY:
        class = VALUE_MANY;
        break;
    default:
        break;
    }
    *ret_class = class;
    return make_key(class, payload);
}

struct key_range value_keys_near(const bson_iter_t *value, enum value_class *ret_class)
{
    int64_t key = value_key(value, ret_class);
    if (*ret_class == VALUE_NUMBER)
        return (struct key_range){key, key};
    if (*ret_class == VALUE_STRING)
        return (struct key_range){
            key & ~(int64_t) STRING_HASH_MASK, key | (int64_t) STRING_HASH_MASK};
    return value_class_keys(*ret_class);
}

struct survey {
    enum fields_as as;
    unsigned int values; /* 2 stands for more */
    bool dated;
    int64_t date_ms; /* the earliest */
    int64_t key;     /* of the latest value that is no date */
};

static bool survey_value(void *context, const bson_iter_t *value)
{
    struct survey *s = context;
    enum value_class class;
    int64_t date_ms;
    if (s->values < 2)
        s->values++;
    if (!value)
        return false;
    if (fields_value_as_date(value, s->as, &date_ms)) {
        if (!s->dated || date_ms < s->date_ms)
            s->date_ms = date_ms;
        s->dated = true;
        return false;
    }
    s->key = value_key(value, &class);
    if (class == VALUE_MANY)
        s->values = 2;
    return false;
}

struct value_at value_key_at(const bson_t *fields, const char *path, enum fields_as as)
{
    struct survey s = {.as = as, .key = INDEX_KEY_MISSING};
    path_visit(fields, path, survey_value, &s);
    struct value_at at = {.key = s.key, .many = s.values > 1};
    if (s.dated)
        at.key = value_key_of_date(s.date_ms);
    else if (at.many)
        at.key = value_class_keys(VALUE_MANY).from;
    return at;
}
