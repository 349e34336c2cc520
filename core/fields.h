/*
 * fields.h - from bytes to fields: what a document says about itself.
 *
 * A content that is one JSON object (relaxed, canonical or legacy MongoDB Extended JSON) or one
 * BSON document gives its document fields; any other content has none. Fields are a bson_t.
 */
#ifndef TTLFS_CORE_FIELDS_H
#define TTLFS_CORE_FIELDS_H

#include "core/reason.h"

#include <bson/bson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer contents have no fields: MongoDB's limit of a document. */
#define FIELDS_MAX_BYTES (16 * 1024 * 1024)
/* Deeper nesting has no fields: MongoDB's limit of nesting. */
#define FIELDS_MAX_DEPTH 100

/* How a field that is not a BSON date is read as one; FIELDS_AS_DATE reads BSON dates only. */
enum fields_as {
    FIELDS_AS_DATE,
    FIELDS_AS_ISO8601,
    FIELDS_AS_EPOCH_SECONDS,
    FIELDS_AS_EPOCH_MILLIS
};

/*
 * Cheap look at the first bytes: could this content have fields at all? False is final, true is
 * not. Used to skip reading and parsing what cannot have any.
 */
bool fields_may_have(const void *content, size_t len);

/*
 * Parses a content.
 * @content     borrowed
 * @ret_fields  initialised by the call whatever it returns; the caller bson_destroys it; empty
 *              when there are no fields
 * Returns 0, or -EINVAL when the content is neither a JSON object nor a BSON document (trailing
 * bytes other than white space, NaN or other extensions of JSON, invalid UTF-8, too long, too
 * deep), or -ENOMEM.
 */
int fields_parse(const void *content, size_t len, bson_t *ret_fields);

/*
 * Parses one Extended JSON value of any type: 12, "text", {"$date":"…"}, [1,2], null.
 * @text       borrowed, not terminated
 * @ret_value  initialised by the call whatever it returns; on success a document whose single
 *             element, named "", is the value; the caller bson_destroys it
 * Errors: -EINVAL with the reason, -ENOMEM.
 */
int fields_parse_value(const char *text, size_t len, bson_t *ret_value, struct reason *why);

/*
 * Adds a value below a dotted path to `fields` unless something is there already: content fields
 * win over `user.doc.*`. Missing sub-documents on the way are made; a path that runs into
 * something that is not a document is dropped silently.
 * @fields  rebuilt in place
 * @path    "a" or "a.b.c", no empty component
 * @value   borrowed: the single element of a document that fields_parse_value made
 * Errors: -EINVAL (empty path or component), -ENOMEM.
 */
int fields_add(bson_t *fields, const char *path, const bson_t *value);

/*
 * Sets a top-level field, replacing what is there: system fields win over content fields.
 * Errors: -ENOMEM.
 */
int fields_set_date(bson_t *fields, const char *name, int64_t date_ms);
int fields_set_int64(bson_t *fields, const char *name, int64_t value);
int fields_set_utf8(bson_t *fields, const char *name, const char *text, size_t len);

/*
 * The earliest date at a dotted path, by MongoDB's rules for multikey indexes: sub-documents and
 * arrays of sub-documents are walked, one array level is unwound per path component, a numeric
 * component also indexes an array, and elements that are not dates do not count.
 * @as      which other types count, and how: FIELDS_AS_ISO8601 reads RFC 3339 strings,
 *          FIELDS_AS_EPOCH_SECONDS and …_MILLIS read int32, int64, double (truncated towards
 *          minus infinity to milliseconds; NaN and infinities do not count) and decimal128 where
 *          it is exact; BSON dates always count
 * @ret_ms  milliseconds since 1970, saturated to int64
 * Returns false when there is no date.
 */
bool fields_earliest_date(
    const bson_t *fields, const char *path, enum fields_as as, int64_t *ret_ms);

/* One value as a date, by the same rules. Returns false when it is none. */
bool fields_value_as_date(const bson_iter_t *value, enum fields_as as, int64_t *ret_ms);

/*
 * Cosmos DB's per-document TTL: the root field `ttl` when it is an int32, or an int64 or a whole
 * double that fits one, and is positive or -1. Anything else is ignored.
 * Returns false when there is none.
 */
bool fields_ttl_seconds(const bson_t *fields, int32_t *ret_seconds);

#endif
