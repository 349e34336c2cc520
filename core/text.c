#include "core/text.h"

#include "core/dates.h"
#include "core/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 256
#define REPLACEMENT "\xEF\xBF\xBD"
/* 9999-12-31T23:59:59.999Z: relaxed Extended JSON writes later and negative dates as numbers. */
#define LAST_READABLE_MS INT64_C(253402300799999)

void text_init(struct text *text)
{
    memset(text, 0, sizeof *text);
}

void text_release(struct text *text)
{
    free(text->bytes);
    text_init(text);
}

void text_clear(struct text *text)
{
    text->len = 0;
    text->failed = false;
}

static bool reserve(struct text *text, size_t more)
{
    if (text->failed)
        return false;
    if (text->cap - text->len >= more)
        return true;
    size_t cap = text->cap ? text->cap : FIRST_BYTES;
    while (cap - text->len < more)
        cap *= 2;
    char *bytes = realloc(text->bytes, cap);
    if (!bytes) {
        text->failed = true;
        return false;
    }
    text->bytes = bytes;
    text->cap = cap;
    return true;
}

void text_add(struct text *text, const void *bytes, size_t len)
{
    if (len == 0 || !reserve(text, len))
        return;
    memcpy(text->bytes + text->len, bytes, len);
    text->len += len;
}

void text_put(struct text *text, const char *string)
{
    text_add(text, string, strlen(string));
}

void text_printf(struct text *text, const char *format, ...)
{
    char some[512];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(some, sizeof some, format, args);
    va_end(args);
    if (len >= 0 && (size_t) len < sizeof some) {
        text_add(text, some, (size_t) len);
        return;
    }
    if (len < 0 || !reserve(text, (size_t) len + 1)) {
        text->failed = true;
        return;
    }
    va_start(args, format);
    (void) vsnprintf(text->bytes + text->len, (size_t) len + 1, format, args);
    va_end(args);
    text->len += (size_t) len;
}

int text_take(struct text *text, char **ret_bytes, size_t *ret_len)
{
    size_t len = text->len;
    text_add(text, "", 1);
    if (text->failed) {
        text_release(text);
        return -ENOMEM;
    }
    *ret_bytes = text->bytes;
    *ret_len = len;
    text_init(text);
    return 0;
}

/* A comma, unless this is the first one inside, or the value of a key. */
static void separate(struct text *text)
{
    char last = text->len ? text->bytes[text->len - 1] : '\n';
    if (last != '{' && last != '[' && last != ':' && last != '\n')
        text_add(text, ",", 1);
}

void text_open(struct text *text, char bracket)
{
    separate(text);
    text_add(text, &bracket, 1);
}

void text_close(struct text *text, char bracket)
{
    text_add(text, &bracket, 1);
}

void text_key(struct text *text, const char *key)
{
    separate(text);
    text_add(text, "\"", 1);
    text_string_part(text, key, strlen(key));
    text_add(text, "\":", 2);
}

/* How many bytes from `at` can stand in a JSON string as they are. */
static size_t plain_bytes(const uint8_t *at, const uint8_t *end)
{
    const uint8_t *from = at;
    while (at < end && *at >= 0x20 && *at < 0x7F && *at != '"' && *at != '\\')
        at++;
    return (size_t) (at - from);
}

void text_string_part(struct text *text, const char *bytes, size_t len)
{
    const uint8_t *at = (const uint8_t *) bytes, *end = at + len;
    while (at < end) {
        size_t n = plain_bytes(at, end);
        text_add(text, at, n);
        at += n;
        if (at == end)
            break;
        n = utf8_sequence_bytes(at, end);
        if (*at == '"' || *at == '\\')
            text_printf(text, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7F)
            text_printf(text, "\\u%04x", *at);
        else if (n == 0)
            text_put(text, REPLACEMENT);
        else
            text_add(text, at, n);
        at += n ? n : 1;
    }
}

void text_string(struct text *text, const char *bytes, size_t len)
{
    separate(text);
    text_add(text, "\"", 1);
    text_string_part(text, bytes, len);
    text_add(text, "\"", 1);
}

void text_int(struct text *text, int64_t value)
{
    separate(text);
    text_printf(text, "%" PRId64, value);
}

void text_date(struct text *text, int64_t ms)
{
    char date[DATE_TEXT_BYTES];
    separate(text);
    if (ms >= 0 && ms <= LAST_READABLE_MS) {
        date_format(ms, date);
        text_put(text, "{\"$date\":\"");
        text_put(text, date);
        text_put(text, "\"}");
    } else {
        text_printf(text, "{\"$date\":{\"$numberLong\":\"%" PRId64 "\"}}", ms);
    }
}

void text_bool(struct text *text, bool value)
{
    separate(text);
    text_put(text, value ? "true" : "false");
}

void text_member_string(struct text *text, const char *key, const char *string)
{
    text_key(text, key);
    text_string(text, string, strlen(string));
}

void text_member_int(struct text *text, const char *key, int64_t value)
{
    text_key(text, key);
    text_int(text, value);
}

void text_member_date(struct text *text, const char *key, int64_t ms)
{
    text_key(text, key);
    text_date(text, ms);
}

void text_member_bool(struct text *text, const char *key, bool value)
{
    text_key(text, key);
    text_bool(text, value);
}

void text_member_name(struct text *text, const char *name, size_t len)
{
    text_key(text, "name");
    text_string(text, name, len);
    if (utf8_is_valid((const uint8_t *) name, len))
        return;
    text_key(text, "nameHex");
    text_add(text, "\"", 1);
    for (size_t i = 0; i < len; i++)
        text_printf(text, "%02x", (unsigned char) name[i]);
    text_add(text, "\"", 1);
}
