/*
 * regex.h - regular expressions as MongoDB has them, with bounded effort.
 */
#ifndef TTLFS_CORE_REGEX_H
#define TTLFS_CORE_REGEX_H

#include "core/reason.h"

#include <stdbool.h>
#include <stddef.h>

/* MongoDB's limit. */
#define REGEX_MAX_PATTERN_BYTES 32764

struct regex; /* opaque, immutable: may be matched from any thread */

/*
 * Compiles a pattern of PCRE2, read as UTF-8.
 * @options  any of i (ignore case), m (lines), s (dot matches all), x (extended), u (ignored)
 * Errors: -EINVAL with the reason, -ENOMEM.
 */
int regex_new(
    const char *pattern, const char *options, struct regex **ret_regex, struct reason *why);

/* NULL is allowed. */
void regex_free(struct regex *regex);

/*
 * Is the pattern found in a text? A search that goes on for too long, or needs too much memory,
 * finds nothing.
 * @text  borrowed, not terminated; what is not UTF-8 in it matches nothing
 */
bool regex_search(const struct regex *regex, const char *text, size_t len);

/*
 * The text that whatever matches begins with, as far as the pattern says so plainly (^abc).
 * @ret_len  0 when it does not
 * Borrowed, valid as long as the expression; not terminated.
 */
const char *regex_prefix(const struct regex *regex, size_t *ret_len);

#endif
