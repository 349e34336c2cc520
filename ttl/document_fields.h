/*
 * document_fields.h - the fields of a document beyond its content: `user.doc.*` and system fields.
 */
#ifndef TTLFS_TTL_DOCUMENT_FIELDS_H
#define TTLFS_TTL_DOCUMENT_FIELDS_H

#include "core/document.h"
#include "core/filter.h"
#include "core/reason.h"

#include <bson/bson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets of system fields. */
enum {
    SYSTEM_TS = 1 << 0,
    SYSTEM_CREATED = 1 << 1,
    SYSTEM_ACCESSED = 1 << 2,
    SYSTEM_SIZE = 1 << 3,
    SYSTEM_ID = 1 << 4,
    SYSTEM_ALL = (1 << 5) - 1,
};

/* What the system fields of a name say: a copy, good without the lock. */
struct system_values {
    int64_t ts_ms, created_ms, accessed_ms;
    uint64_t size;
    uint8_t name_len;
    char name[DOCUMENT_NAME_MAX_BYTES + 1];
};

/* Copies them. Expects the tree's lock. */
void system_values_of(const struct dentry *d, struct system_values *ret_values);

/* Which system fields a filter reads. NULL reads none. */
unsigned int system_fields_read(const struct filter *filter);

/* Is a path, dotted or not, that of a system field or of something below one? */
bool system_field_is(const char *path);

/*
 * Adds system fields; they are stronger than content fields of the same name.
 * @which  a set
 * Errors: -ENOMEM.
 */
int system_fields_set(bson_t *fields, unsigned int which, const struct system_values *values);

/*
 * Adds `user.doc.*` where the content has no such field.
 * @attributes  a document's, or copies of them
 * Errors: -ENOMEM.
 */
int attribute_fields_add(bson_t *fields, const struct xattr *attributes);

/*
 * The value of a `user.doc.*` attribute: an Extended JSON value, or a bare word or text that begins
 * with a letter, which is a string: setfattr takes the quotes of "text" for its own and strips them.
 * @ret_value  as fields_parse_value
 * Errors: -EINVAL with the reason, -ENOMEM.
 */
int attribute_field_parse(const char *text, size_t len, bson_t *ret_value, struct reason *why);

#endif
