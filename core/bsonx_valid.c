/*
 * Is this BSON, in every byte?
 */
#include "core/bsonx.h"

#include "core/utf8.h"

#include <string.h>

/* The smallest document: its length and a NUL. */
#define DOCUMENT_MIN_BYTES 5

/* No value is this long. */
#define INVALID SIZE_MAX

static bool valid_document(const uint8_t *data, size_t len, unsigned int depth_left);

/* The length at the begin of `data`; INVALID when `left` bytes do not even hold that. */
static size_t length_at(const uint8_t *data, size_t left)
{
    uint32_t little;
    if (left < sizeof little)
        return INVALID;
    memcpy(&little, data, sizeof little);
    return BSON_UINT32_FROM_LE(little);
}

/* Each of these gives the bytes of a value that begins at `data`, or INVALID. */

static size_t fixed_bytes(size_t bytes, size_t left)
{
    return bytes <= left ? bytes : INVALID;
}

static size_t bool_bytes(const uint8_t *data, size_t left)
{
    return left >= 1 && data[0] <= 1 ? 1 : INVALID;
}

static size_t cstring_bytes(const uint8_t *data, size_t left)
{
    const uint8_t *nul = left > 0 ? memchr(data, 0, left) : NULL;
    if (!nul || !utf8_is_valid(data, (size_t) (nul - data)))
        return INVALID;
    return (size_t) (nul - data) + 1;
}

/* A length, which counts the NUL; the text; the NUL. */
static size_t string_bytes(const uint8_t *data, size_t left)
{
    size_t len = length_at(data, left);
    if (len == INVALID || len < 1 || len > left - 4 || data[4 + len - 1] != 0 ||
        !utf8_is_valid(data + 4, len - 1))
        return INVALID;
    return 4 + len;
}

static size_t document_bytes(const uint8_t *data, size_t left, unsigned int depth_left)
{
    size_t len = length_at(data, left);
    return len <= left && valid_document(data, len, depth_left) ? len : INVALID;
}

static size_t binary_bytes(const uint8_t *data, size_t left)
{
    size_t len = length_at(data, left);
    if (len == INVALID || left < 5 || len > left - 5)
        return INVALID;
    /* The old generic subtype has its length inside once more. */
    if (data[4] == BSON_SUBTYPE_BINARY_DEPRECATED &&
        (len < 4 || length_at(data + 5, len) != len - 4))
        return INVALID;
    return 5 + len;
}

static size_t regex_bytes(const uint8_t *data, size_t left)
{
    size_t pattern = cstring_bytes(data, left);
    if (pattern == INVALID)
        return INVALID;
    size_t options = cstring_bytes(data + pattern, left - pattern);
    return options == INVALID ? INVALID : pattern + options;
}

static size_t dbpointer_bytes(const uint8_t *data, size_t left)
{
    const size_t oid = sizeof(bson_oid_t);
    size_t name = string_bytes(data, left);
    return name != INVALID && oid <= left - name ? name + oid : INVALID;
}

/* A length, which counts all; the code, a string; the scope, a document. */
static size_t code_with_scope_bytes(const uint8_t *data, size_t left, unsigned int depth_left)
{
    size_t len = length_at(data, left);
    if (len == INVALID || len < 4 || len > left)
        return INVALID;
    size_t code = string_bytes(data + 4, len - 4);
    if (code == INVALID)
        return INVALID;
    size_t scope = document_bytes(data + 4 + code, len - 4 - code, depth_left);
    return scope != INVALID && 4 + code + scope == len ? len : INVALID;
}

static size_t value_bytes(uint8_t type, const uint8_t *data, size_t left, unsigned int depth_left)
{
    switch (type) {
    case BSON_TYPE_UNDEFINED:
    case BSON_TYPE_NULL:
    case (uint8_t) BSON_TYPE_MINKEY:
    case BSON_TYPE_MAXKEY:
        return 0;
    case BSON_TYPE_BOOL:
        return bool_bytes(data, left);
    case BSON_TYPE_INT32:
        return fixed_bytes(4, left);
    case BSON_TYPE_DOUBLE:
    case BSON_TYPE_INT64:
    case BSON_TYPE_DATE_TIME:
    case BSON_TYPE_TIMESTAMP:
        return fixed_bytes(8, left);
    case BSON_TYPE_OID:
        return fixed_bytes(12, left);
    case BSON_TYPE_DECIMAL128:
        return fixed_bytes(16, left);
    case BSON_TYPE_UTF8:
    case BSON_TYPE_CODE:
    case BSON_TYPE_SYMBOL:
        return string_bytes(data, left);
    case BSON_TYPE_DOCUMENT:
    case BSON_TYPE_ARRAY:
        return document_bytes(data, left, depth_left);
    case BSON_TYPE_BINARY:
        return binary_bytes(data, left);
    case BSON_TYPE_REGEX:
        return regex_bytes(data, left);
    case BSON_TYPE_DBPOINTER:
        return dbpointer_bytes(data, left);
    case BSON_TYPE_CODEWSCOPE:
        return code_with_scope_bytes(data, left, depth_left);
    default:
        return INVALID;
    }
}

static bool valid_document(const uint8_t *data, size_t len, unsigned int depth_left)
{
    if (depth_left == 0 || len < DOCUMENT_MIN_BYTES || length_at(data, len) != len ||
        data[len - 1] != 0)
        return false;
    const uint8_t *at = data + 4, *end = data + len - 1;
    while (at < end) {
        uint8_t type = *at++;
        size_t name = cstring_bytes(at, (size_t) (end - at));
        if (name == INVALID)
            return false;
        at += name;
        size_t value = value_bytes(type, at, (size_t) (end - at), depth_left - 1);
        if (value == INVALID)
            return false;
        at += value;
    }
    return true;
}

bool bsonx_is_valid(const uint8_t *data, size_t len, unsigned int max_depth)
{
    return len <= BSON_MAX_SIZE && valid_document(data, len, max_depth);
}
