/*
 * text.h - text that grows, and the JSON that is written into it.
 *
 * A text remembers that memory ran out; whoever builds one asks once, at the end. JSON is written
 * as relaxed Extended JSON without blanks. Commas come by themselves: a member or an element that
 * follows another one is separated from it.
 */
#ifndef TTLFS_CORE_TEXT_H
#define TTLFS_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *bytes; /* not terminated until text_take */
    size_t len, cap;
    bool failed; /* no memory: what was added since is missing */
};

/* A text of no bytes. {0} does as well. */
void text_init(struct text *text);
void text_release(struct text *text);

/* Drops what was written, keeps the memory. */
void text_clear(struct text *text);

void text_add(struct text *text, const void *bytes, size_t len);
void text_put(struct text *text, const char *string);
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Hands the text over, terminated. The text is empty afterwards, also on failure.
 * @ret_bytes  malloc'd, the caller's
 * Errors: -ENOMEM, if memory ran out at any time.
 */
int text_take(struct text *text, char **ret_bytes, size_t *ret_len);

/* `{`, `[` and their ends; an opening one may be an element. */
void text_open(struct text *text, char bracket);
void text_close(struct text *text, char bracket);

/* The name of a member: a value must follow. */
void text_key(struct text *text, const char *key);

/* Values. Bytes that are not UTF-8 become U+FFFD. */
void text_string(struct text *text, const char *bytes, size_t len);
/* The inside of a string only, without its quotes. */
void text_string_part(struct text *text, const char *bytes, size_t len);
void text_int(struct text *text, int64_t value);
void text_date(struct text *text, int64_t ms);
void text_bool(struct text *text, bool value);

/* Whole members. */
void text_member_string(struct text *text, const char *key, const char *string);
void text_member_int(struct text *text, const char *key, int64_t value);
void text_member_date(struct text *text, const char *key, int64_t ms);
void text_member_bool(struct text *text, const char *key, bool value);
/* A file's name: where it is not UTF-8, a member `nameHex` behind it has its bytes. */
void text_member_name(struct text *text, const char *name, size_t len);

#endif
