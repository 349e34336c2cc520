/*
 * extjson.h - the type wrappers of MongoDB Extended JSON: {"$date": …}, {"$oid": …} and so on.
 *
 * All three dialects are read: canonical and relaxed (v2), and legacy (v1, strict mode).
 */
#ifndef TTLFS_CORE_EXTJSON_H
#define TTLFS_CORE_EXTJSON_H

#include "core/bsonx.h"

#include <stddef.h>

/*
 * Replaces a document by the value it stands for, when it is a type wrapper. The document is the
 * last thing in the buffer; wrappers inside it have been replaced already. The first name decides:
 * with a name that belongs to a type the document must have exactly that type's shape. Only
 * $type, $regex, $options and $scope also live elsewhere (in filters): a document of theirs that
 * is not a wrapper is left alone, as is one whose first name means nothing here.
 * @buffer        holds the value when the call succeeds
 * @type_offset   where the type byte of the document's element is
 * @value_offset  where the document begins
 * @ret_problem   on -EINVAL: what is wrong, a string that lives forever
 * Errors: -EINVAL, -ENOMEM, -E2BIG.
 */
int extjson_unwrap(
    struct bson_buffer *buffer, size_t type_offset, size_t value_offset, const char **ret_problem);

#endif
