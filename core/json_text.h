/*
 * json_text.h - the strings and numbers of JSON, by RFC 8259.
 */
#ifndef TTLFS_CORE_JSON_TEXT_H
#define TTLFS_CORE_JSON_TEXT_H

#include "core/bsonx.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads a string and appends its text, with the escapes resolved, and a NUL.
 * @at           at the opening quote; afterwards behind the closing one, or at the problem
 * @allow_nul    may the text hold U+0000 (a value may, a name may not)?
 * @ret_problem  on -EINVAL: what is wrong, a string that lives forever
 * Errors: -EINVAL (also text that is not UTF-8, and lone surrogates), -ENOMEM, -E2BIG.
 */
int json_read_text(const uint8_t **at, const uint8_t *end, bool allow_nul, struct bson_buffer *out,
    const char **ret_problem);

/*
 * Where the number that begins at `at` ends, or NULL when there is none.
 * @ret_whole  it has neither fraction nor exponent
 */
const uint8_t *json_number_end(const uint8_t *at, const uint8_t *end, bool *ret_whole);

/* Is this, all of it, one number? */
bool json_is_number(const char *text, size_t len);

/*
 * The value of a whole number: digits with an optional minus, at least one digit.
 * Returns false when it does not fit.
 */
bool json_whole_fits(const uint8_t *at, const uint8_t *end, int64_t *ret_value);

#endif
