/*
 * timeseries_meta.c - when two documents have the same meta value.
 *
 * As MongoDB compares them: numbers of all widths are one type, the order of names in a document
 * does not matter (its bucket catalogue sorts them), a missing value is not null. Instead of the
 * values their hashes are compared: 64 bits, so that two that differ fall together by an accident
 * that nobody will see, and whose worst is a bucket that goes later.
 */
#include "ttl/timeseries_impl.h"

#include "core/bsonx.h"
#include "core/compare.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#define HASH_MISSING UINT64_C(0x9ae16a3b2f90404f)
/* Doubles up to here that are whole have an int64 of the same value. */
#define INT64_LIMIT 9223372036854775808.0

static uint64_t hash_value(const bson_iter_t *value);

/* Hashes 64-bit words the same way on every machine. */
static uint64_t mix(uint64_t type, uint64_t a, uint64_t b)
{
    const uint64_t words[3] = {BSON_UINT64_TO_LE(type), BSON_UINT64_TO_LE(a), BSON_UINT64_TO_LE(b)};
    return XXH3_64bits(words, sizeof words);
}

static uint64_t hash_double(double number)
{
    if (number >= -INT64_LIMIT && number < INT64_LIMIT && number == trunc(number))
        return mix(BSON_TYPE_INT64, (uint64_t) (int64_t) number, 0);
    uint64_t bits;
    if (isnan(number))
        number = NAN;
    memcpy(&bits, &number, sizeof bits);
    return mix(BSON_TYPE_DOUBLE, bits, 0);
}

/* A document's elements in any order, an array's in its own. */
static uint64_t hash_elements(const bson_iter_t *value, bool ordered)
{
    bson_iter_t iter;
    uint64_t sum = 0;
    if (!bson_iter_recurse(value, &iter))
        return 0;
    while (bson_iter_next(&iter)) {
        uint64_t one = hash_value(&iter);
        if (ordered)
            sum = mix(BSON_TYPE_ARRAY, sum, one);
        else
            sum += mix(BSON_TYPE_DOCUMENT,
                XXH3_64bits(bson_iter_key(&iter), bson_iter_key_len(&iter)), one);
    }
    return sum;
}

static uint64_t hash_value(const bson_iter_t *value)
{
    const uint8_t *bytes;
    switch (bson_iter_type(value)) {
    case BSON_TYPE_INT32:
    case BSON_TYPE_INT64:
        return mix(BSON_TYPE_INT64, (uint64_t) bson_iter_as_int64(value), 0);
    case BSON_TYPE_DOUBLE:
        return hash_double(bson_iter_double(value));
    case BSON_TYPE_DOCUMENT:
        return mix(BSON_TYPE_DOCUMENT, hash_elements(value, false), 1);
    case BSON_TYPE_ARRAY:
        return mix(BSON_TYPE_ARRAY, hash_elements(value, true), 1);
    default: {
        size_t len = bsonx_value_bytes(value, &bytes);
        return mix((uint64_t) compare_bracket(bson_iter_type(value)) + 256,
            len ? XXH3_64bits(bytes, len) : 0, len);
    }
    }
}

uint64_t timeseries_meta_hash(const bson_t *fields, const char *meta_field)
{
    bson_iter_t iter;
    if (!meta_field || !bson_iter_init_find(&iter, fields, meta_field))
        return HASH_MISSING;
    return hash_value(&iter);
}
