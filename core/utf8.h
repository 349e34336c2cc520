/*
 * utf8.h - is a text UTF-8?
 */
#ifndef TTLFS_CORE_UTF8_H
#define TTLFS_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How many bytes a well-formed sequence has that begins at `at`: no overlong forms, no
 * surrogates, nothing beyond U+10FFFF. Returns 0 when it is not well-formed. `at` is before `end`.
 */
size_t utf8_sequence_bytes(const uint8_t *at, const uint8_t *end);

/* Is a text well-formed from begin to end? It may hold U+0000. */
bool utf8_is_valid(const uint8_t *text, size_t len);

#endif
