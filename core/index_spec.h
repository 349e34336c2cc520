/*
 * index_spec.h - what an index is, as `user.ttl.index.NAME` says it.
 */
#ifndef TTLFS_CORE_INDEX_SPEC_H
#define TTLFS_CORE_INDEX_SPEC_H

#include "core/fields.h"
#include "core/filter.h"
#include "core/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* MongoDB's largest expireAfterSeconds. */
#define INDEX_EXPIRE_AFTER_MAX_S INT32_MAX
/* Cosmos DB's default -1: documents expire by their own ttl only. For the key `_ts` alone. */
#define INDEX_EXPIRE_OWN_TTL_S (-1)
/* The longest key, with all its paths. */
#define INDEX_KEY_MAX_BYTES 1000

struct index_spec {
    char *key;              /* dotted path, one or several comma-separated; owned */
    bool ttl;               /* expireAfterSeconds is set: a TTL index */
    int32_t expire_after_s; /* 0 … INDEX_EXPIRE_AFTER_MAX_S, or -1 for `_ts`; 0 when !ttl */
    bool hidden;
    enum fields_as as;
    int32_t jitter_s;      /* 0 … INT32_MAX */
    struct filter *filter; /* partialFilterExpression; owned, NULL for none */
};

void index_spec_init(struct index_spec *spec);
void index_spec_release(struct index_spec *spec);

/*
 * Reads a value of `user.ttl.index.NAME`: seconds (`3600`, `-1`), a duration that comes out in
 * whole seconds (`90m`), or a JSON object with expireAfterSeconds, key, partialFilterExpression,
 * hidden, as, jitterSeconds. White space around a JSON object is allowed, nothing else.
 *
 * @name      the NAME, not terminated; the key's default. 1 byte at least.
 * @value     borrowed, not terminated
 * @base      NULL: the value says all (createIndex, or a plain set); the key defaults to the NAME.
 *            Otherwise an existing spec (collMod): what a JSON object leaves out, and everything
 *            but expireAfterSeconds when the value is plain seconds, is taken (deep-copied) from it
 * @ret_spec  initialised by the call whatever it returns; released with index_spec_release
 *
 * Errors, always with the reason in words: -EINVAL (empty; trailing garbage; an unknown or
 * repeated key; a wrong type: numbers must be BSON/JSON numbers without fraction, an int64 or a
 * whole double is fine; NaN, infinity, negative or too large; -1 on a key other than `_ts`;
 * expireAfterSeconds on a compound key or on `_id`; an empty key, an empty path component, a
 * component starting with `$`, a NUL byte, not UTF-8, more than INDEX_KEY_MAX_BYTES; a filter that
 * does not compile), -ENOMEM.
 */
int index_spec_parse(const char *name, size_t name_len, const char *value, size_t value_len,
    const struct index_spec *base, struct index_spec *ret_spec, struct reason *why);

/*
 * The spec as one JSON object, which parses back to the same spec: the key always, the rest where
 * it is not the default; expireAfterSeconds first when set. For example
 * {"expireAfterSeconds":3600,"key":"at"}. The filter is written as relaxed Extended JSON, or as
 * canonical where relaxed would not read back as the same types (a small int64).
 * @ret_text  malloc'd and terminated, the caller frees it
 * Errors: -ENOMEM.
 */
int index_spec_format(const struct index_spec *spec, char **ret_text);

/* "date", "iso8601", "epochSeconds" or "epochMillis": how `as` is spelt. Static storage. */
const char *index_spec_as_name(enum fields_as as);

/* Same key and same filter: what MongoDB refuses to have twice. */
bool index_spec_same_keys(const struct index_spec *a, const struct index_spec *b);

/* Deep copy. Errors: -ENOMEM (ret_copy is then initialised and empty). */
int index_spec_copy(const struct index_spec *spec, struct index_spec *ret_copy);

#endif
