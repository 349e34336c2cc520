/*
 * value_key.h - values as 64-bit keys of an index.
 *
 * A date is its own key. What is no date has a key from INDEX_KEY_MISFIT on: a class, and what fits
 * of the value behind it. Keys keep the order of numbers and of strings, but are shorter than
 * values: different values may have the same key. So a range of keys gives candidates, all of those
 * that match and perhaps others, and whoever searches looks at the documents themselves.
 */
#ifndef TTLFS_CORE_VALUE_KEY_H
#define TTLFS_CORE_VALUE_KEY_H

#include "core/fields.h"

#include <bson/bson.h>
#include <stdbool.h>
#include <stdint.h>

/* Dates from here on (in 146 million years) are taken for "never": INT64_MAX. */
#define INDEX_KEY_MISFIT (INT64_C(1) << 62)

/* What a key below INT64_MAX says that is no date. */
enum value_class {
    VALUE_MISSING, /* nothing is there */
    VALUE_NULL,
    VALUE_NUMBER,
    VALUE_STRING,
    VALUE_DOCUMENT,
    VALUE_BINARY,
    VALUE_OID,
    VALUE_BOOL,
    VALUE_OTHER, /* timestamps, regular expressions, code, MinKey, MaxKey, … */
    VALUE_MANY,  /* an array, or several values: nothing is known about them */
};

/* An index's keys from `from` to `to`, both included. */
struct key_range {
    int64_t from, to;
};

/* The key of what is missing. */
#define INDEX_KEY_MISSING INDEX_KEY_MISFIT

/* All keys of a class. */
struct key_range value_class_keys(enum value_class class);

/* The key of a date: itself, or INT64_MAX. */
static inline int64_t value_key_of_date(int64_t date_ms)
{
    return date_ms < INDEX_KEY_MISFIT ? date_ms : INT64_MAX;
}

/* Is this the key of a date (INT64_MAX is), rather than one of a class? */
static inline bool value_key_is_date(int64_t key)
{
    return key < INDEX_KEY_MISFIT || key == INT64_MAX;
}

/*
 * The class of one value, and its key. Two values that compare as equal have the same key. Dates
 * (here: VALUE_OTHER) and arrays (VALUE_MANY) are the caller's business.
 */
int64_t value_key(const bson_iter_t *value, enum value_class *ret_class);

/*
 * The keys of a value's nearest neighbours, as far as keys are in order: what is greater has keys
 * from `from` on, what is less has keys up to `to`.
 */
struct key_range value_keys_near(const bson_iter_t *value, enum value_class *ret_class);

/* The keys of all strings that begin with a text. */
struct key_range value_keys_of_prefix(const char *text, size_t len);

/* What is at a path of a document. */
struct value_at {
    int64_t key;
    bool many; /* several values: a date is the earliest of them then */
};

/*
 * Looks at a path, as an index does.
 * @as  what counts as a date: see fields_earliest_date
 */
struct value_at value_key_at(const bson_t *fields, const char *path, enum fields_as as);

#endif
