/*
 * extjson_impl.h - a document on its way to become a value; shared by extjson*.c alone.
 */
#ifndef TTLFS_CORE_EXTJSON_IMPL_H
#define TTLFS_CORE_EXTJSON_IMPL_H

#include "core/bsonx.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The value is written behind the document, where nothing that is still to be read can be
 * overwritten, and moved down at the end.
 */
struct wrapper {
    struct bson_buffer *out;
    bson_iter_t first;  /* its first element */
    bson_iter_t second; /* its second, when count is 2 */
    unsigned int count; /* of elements; 3 for more */
};

/*
 * What a converter returns besides 0, -ENOMEM and -E2BIG: the document's names are right, but not
 * what they hold. Or: this is no wrapper after all, leave the document as it is.
 */
#define WRAPPER_WRONG (-EINVAL)
#define WRAPPER_NONE 1

int wrapper_add(struct wrapper *wrapper, const void *bytes, size_t len);
int wrapper_add_uint32(struct wrapper *wrapper, uint32_t value);
int wrapper_add_uint64(struct wrapper *wrapper, uint64_t value);
/* The value of an element as it stands: how strings and documents are taken over. */
int wrapper_add_value(struct wrapper *wrapper, const bson_iter_t *iter);

/* The text of a string element; NULL when it is something else, or holds a NUL. */
const char *wrapper_text(const bson_iter_t *iter);

/* Of the two elements, the one of this name. */
const bson_iter_t *wrapper_member(const struct wrapper *wrapper, const char *name);

/*
 * Finds the two members of a document that has exactly these two.
 * Returns false when it has others, or is no document.
 */
bool wrapper_two_members(const bson_iter_t *document, const char *a, const char *b,
    bson_iter_t *ret_a, bson_iter_t *ret_b);

/* {"$binary": {"base64": …, "subType": …}}, {"$binary": …, "$type": …}, {"$uuid": …} */
int unwrap_binary(struct wrapper *wrapper);
int unwrap_legacy_binary(struct wrapper *wrapper);
int unwrap_uuid(struct wrapper *wrapper);
/* {"$regularExpression": {"pattern": …, "options": …}}, {"$regex": …, "$options": …} */
int unwrap_regex(struct wrapper *wrapper);
int unwrap_legacy_regex(struct wrapper *wrapper);
/* {"$code": …, "$scope": {…}} */
int unwrap_code_with_scope(struct wrapper *wrapper);

#endif
