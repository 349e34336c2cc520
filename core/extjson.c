#include "core/extjson.h"

#include "core/dates.h"
#include "core/extjson_impl.h"
#include "core/json_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Room that no converted value needs beyond the length of its document. */
#define VALUE_SPARE_BYTES 64

int wrapper_add(struct wrapper *wrapper, const void *bytes, size_t len)
{
    return bson_buffer_add(wrapper->out, bytes, len);
}

int wrapper_add_uint32(struct wrapper *wrapper, uint32_t value)
{
    value = BSON_UINT32_TO_LE(value);
    return wrapper_add(wrapper, &value, sizeof value);
}

int wrapper_add_uint64(struct wrapper *wrapper, uint64_t value)
{
    value = BSON_UINT64_TO_LE(value);
    return wrapper_add(wrapper, &value, sizeof value);
}

int wrapper_add_value(struct wrapper *wrapper, const bson_iter_t *iter)
{
    const uint8_t *value;
    size_t len = bsonx_value_bytes(iter, &value);
    return wrapper_add(wrapper, value, len);
}

const char *wrapper_text(const bson_iter_t *iter)
{
    uint32_t len;
    if (!BSON_ITER_HOLDS_UTF8(iter))
        return NULL;
    const char *text = bson_iter_utf8(iter, &len);
    return strlen(text) == len ? text : NULL;
}

const bson_iter_t *wrapper_member(const struct wrapper *wrapper, const char *name)
{
    return strcmp(bson_iter_key(&wrapper->first), name) == 0 ? &wrapper->first : &wrapper->second;
}

bool wrapper_two_members(const bson_iter_t *document, const char *a, const char *b,
    bson_iter_t *ret_a, bson_iter_t *ret_b)
{
    bson_iter_t inner;
    if (!BSON_ITER_HOLDS_DOCUMENT(document) || !bson_iter_recurse(document, &inner) ||
        !bson_iter_next(&inner) || !bson_iter_next(&inner) || bson_iter_next(&inner))
        return false;
    return bson_iter_recurse(document, ret_a) && bson_iter_find(ret_a, a) &&
           bson_iter_recurse(document, ret_b) && bson_iter_find(ret_b, b);
}

static int whole_of_text(const bson_iter_t *iter, int64_t *ret_value)
{
    bool whole;
    const char *text = wrapper_text(iter);
    if (!text)
        return WRAPPER_WRONG;
    const uint8_t *at = (const uint8_t *) text, *end = at + strlen(text);
    if (json_number_end(at, end, &whole) != end || !whole)
        return WRAPPER_WRONG;
    return json_whole_fits(at, end, ret_value) ? 0 : WRAPPER_WRONG;
}

static int unwrap_oid(struct wrapper *wrapper)
{
    bson_oid_t oid;
    const char *text = wrapper_text(&wrapper->first);
    if (!text || strlen(text) != 24 || !bson_oid_is_valid(text, 24))
        return WRAPPER_WRONG;
    bson_oid_init_from_string(&oid, text);
    return wrapper_add(wrapper, oid.bytes, sizeof oid.bytes);
}

/* Milliseconds, as a number (legacy) or a wrapped int64 (canonical); or a text (relaxed). */
static int unwrap_date(struct wrapper *wrapper)
{
    int64_t date_ms;
    const char *text = wrapper_text(&wrapper->first);
    if (text) {
        if (date_parse(text, strlen(text), &date_ms) != 0)
            return WRAPPER_WRONG;
    } else if (BSON_ITER_HOLDS_INT(&wrapper->first)) {
        date_ms = bson_iter_as_int64(&wrapper->first);
    } else {
        return WRAPPER_WRONG;
    }
    return wrapper_add_uint64(wrapper, (uint64_t) date_ms);
}

static int unwrap_int32(struct wrapper *wrapper)
{
    int64_t value;
    if (whole_of_text(&wrapper->first, &value) != 0 || value < INT32_MIN || value > INT32_MAX)
        return WRAPPER_WRONG;
    return wrapper_add_uint32(wrapper, (uint32_t) value);
}

static int unwrap_int64(struct wrapper *wrapper)
{
    int64_t value;
    if (whole_of_text(&wrapper->first, &value) != 0)
        return WRAPPER_WRONG;
    return wrapper_add_uint64(wrapper, (uint64_t) value);
}

static int unwrap_double(struct wrapper *wrapper)
{
    uint64_t bits;
    double value;
    const char *text = wrapper_text(&wrapper->first);
    if (!text)
        return WRAPPER_WRONG;
    if (strcmp(text, "NaN") == 0) {
        value = NAN;
    } else if (strcmp(text, "Infinity") == 0) {
        value = INFINITY;
    } else if (strcmp(text, "-Infinity") == 0) {
        value = -INFINITY;
    } else {
        if (!json_is_number(text, strlen(text)))
            return WRAPPER_WRONG;
        value = strtod(text, NULL);
        if (isinf(value))
            return WRAPPER_WRONG;
    }
    memcpy(&bits, &value, sizeof bits);
    return wrapper_add_uint64(wrapper, bits);
}

static int unwrap_decimal128(struct wrapper *wrapper)
{
    bson_decimal128_t value;
    const char *text = wrapper_text(&wrapper->first);
    if (!text || !bson_decimal128_from_string(text, &value))
        return WRAPPER_WRONG;
    int rc = wrapper_add_uint64(wrapper, value.low);
    return rc != 0 ? rc : wrapper_add_uint64(wrapper, value.high);
}

static bool fits_uint32(const bson_iter_t *iter)
{
    return BSON_ITER_HOLDS_INT(iter) && bson_iter_as_int64(iter) >= 0 &&
           bson_iter_as_int64(iter) <= UINT32_MAX;
}

static int unwrap_timestamp(struct wrapper *wrapper)
{
    bson_iter_t seconds, counter;
    if (!wrapper_two_members(&wrapper->first, "t", "i", &seconds, &counter) ||
        !fits_uint32(&seconds) || !fits_uint32(&counter))
        return WRAPPER_WRONG;
    return wrapper_add_uint64(wrapper,
        (uint64_t) bson_iter_as_int64(&seconds) << 32 | (uint64_t) bson_iter_as_int64(&counter));
}

static int unwrap_true(struct wrapper *wrapper)
{
    bool is = BSON_ITER_HOLDS_BOOL(&wrapper->first) && bson_iter_bool(&wrapper->first);
    return is ? 0 : WRAPPER_WRONG;
}

static int unwrap_one(struct wrapper *wrapper)
{
    bool is = BSON_ITER_HOLDS_INT(&wrapper->first) && bson_iter_as_int64(&wrapper->first) == 1;
    return is ? 0 : WRAPPER_WRONG;
}

static int unwrap_string(struct wrapper *wrapper)
{
    if (!BSON_ITER_HOLDS_UTF8(&wrapper->first))
        return WRAPPER_WRONG;
    return wrapper_add_value(wrapper, &wrapper->first);
}

static int unwrap_db_pointer(struct wrapper *wrapper)
{
    bson_iter_t ref, id;
    if (!wrapper_two_members(&wrapper->first, "$ref", "$id", &ref, &id) || !wrapper_text(&ref) ||
        !BSON_ITER_HOLDS_OID(&id))
        return WRAPPER_WRONG;
    int rc = wrapper_add_value(wrapper, &ref);
    return rc != 0 ? rc : wrapper_add_value(wrapper, &id);
}

/*
 * Every shape. A first name without a row of exactly its shape is refused with the words of its
 * last row, or left alone when that has none.
 */
static const struct shape {
    const char *first;
    const char *second; /* NULL: it has one member only */
    uint8_t type;
    int (*unwrap)(struct wrapper *wrapper);
    const char *problem;
} shapes[] = {
    {"$date", NULL, BSON_TYPE_DATE_TIME, unwrap_date,
        "$date is neither milliseconds nor an RFC 3339 date"},
    {"$oid", NULL, BSON_TYPE_OID, unwrap_oid, "$oid is not 24 hexadecimal digits"},
    {"$numberInt", NULL, BSON_TYPE_INT32, unwrap_int32,
        "$numberInt is not a 32-bit number in quotes"},
    {"$numberLong", NULL, BSON_TYPE_INT64, unwrap_int64,
        "$numberLong is not a 64-bit number in quotes"},
    {"$numberDouble", NULL, BSON_TYPE_DOUBLE, unwrap_double,
        "$numberDouble is not a number in quotes"},
    {"$numberDecimal", NULL, BSON_TYPE_DECIMAL128, unwrap_decimal128,
        "$numberDecimal is not a decimal number in quotes"},
    {"$timestamp", NULL, BSON_TYPE_TIMESTAMP, unwrap_timestamp,
        "$timestamp is not {\"t\": seconds, \"i\": counter}"},
    {"$binary", NULL, BSON_TYPE_BINARY, unwrap_binary,
        "$binary has not exactly base64 and subType"},
    {"$binary", "$type", BSON_TYPE_BINARY, unwrap_legacy_binary,
        "$binary has neither base64 and subType inside nor $type beside it"},
    {"$type", "$binary", BSON_TYPE_BINARY, unwrap_legacy_binary, NULL},
    {"$uuid", NULL, BSON_TYPE_BINARY, unwrap_uuid, "$uuid is not a UUID"},
    {"$regularExpression", NULL, BSON_TYPE_REGEX, unwrap_regex,
        "$regularExpression has not exactly pattern and options"},
    {"$regex", NULL, BSON_TYPE_REGEX, unwrap_legacy_regex, NULL},
    {"$regex", "$options", BSON_TYPE_REGEX, unwrap_legacy_regex, NULL},
    {"$options", "$regex", BSON_TYPE_REGEX, unwrap_legacy_regex, NULL},
    {"$code", "$scope", BSON_TYPE_CODEWSCOPE, unwrap_code_with_scope, NULL},
    {"$code", NULL, BSON_TYPE_CODE, unwrap_string, "$code is not a string, alone or with $scope"},
    {"$scope", "$code", BSON_TYPE_CODEWSCOPE, unwrap_code_with_scope, NULL},
    {"$symbol", NULL, BSON_TYPE_SYMBOL, unwrap_string, "$symbol is not a string"},
    {"$dbPointer", NULL, BSON_TYPE_DBPOINTER, unwrap_db_pointer,
        "$dbPointer has not exactly $ref and $id"},
    {"$undefined", NULL, BSON_TYPE_UNDEFINED, unwrap_true, "$undefined is not true"},
    {"$minKey", NULL, BSON_TYPE_MINKEY, unwrap_one, "$minKey is not 1"},
    {"$maxKey", NULL, BSON_TYPE_MAXKEY, unwrap_one, "$maxKey is not 1"},
};

/* The row that fits; otherwise NULL, with the words if that is an error. */
static const struct shape *find_shape(const struct wrapper *wrapper, const char **ret_problem)
{
    const char *first = bson_iter_key(&wrapper->first);
    *ret_problem = NULL;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const struct shape *shape = &shapes[i];
        if (strcmp(shape->first, first) != 0)
            continue;
        *ret_problem = shape->problem;
        if (wrapper->count == (shape->second ? 2 : 1) &&
            (!shape->second || strcmp(shape->second, bson_iter_key(&wrapper->second)) == 0))
            return shape;
    }
    return NULL;
}

static bool open_wrapper(struct wrapper *wrapper, size_t value_offset)
{
    bson_iter_t iter;
    size_t len = wrapper->out->len - value_offset;
    if (!bson_iter_init_from_data(&iter, wrapper->out->data + value_offset, len))
        return false;
    while (wrapper->count < 3 && bson_iter_next(&iter)) {
        if (wrapper->count == 0)
            wrapper->first = iter;
        else if (wrapper->count == 1)
            wrapper->second = iter;
        wrapper->count++;
    }
    return wrapper->count > 0;
}

int extjson_unwrap(
    struct bson_buffer *buffer, size_t type_offset, size_t value_offset, const char **ret_problem)
{
    struct wrapper wrapper = {.out = buffer};
    /* From here on the data must not move: iterators point into it. */
    size_t end = buffer->len;
    int rc = bson_buffer_reserve(buffer, end - value_offset + VALUE_SPARE_BYTES);
    if (rc != 0)
        return rc;
    if (!open_wrapper(&wrapper, value_offset))
        return 0;
    const struct shape *shape = find_shape(&wrapper, ret_problem);
    if (!shape)
        return *ret_problem ? -EINVAL : 0;
    rc = shape->unwrap(&wrapper);
    if (rc == 0) {
        size_t value_len = buffer->len - end;
        memmove(buffer->data + value_offset, buffer->data + end, value_len);
        buffer->data[type_offset] = shape->type;
        end = value_offset + value_len;
    }
    buffer->len = end;
    if (rc == WRAPPER_WRONG && !shape->problem)
        *ret_problem = "a type wrapper of the wrong shape";
    return rc == WRAPPER_NONE ? 0 : rc;
}
