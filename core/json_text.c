#include "core/json_text.h"

#include "core/utf8.h"

#include <errno.h>
#include <string.h>

/* A string while it is being read. */
struct text_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool allow_nul;
    struct bson_buffer *out;
    const char *problem; /* set with -EINVAL */
};

static int refuse(struct text_reader *reader, const char *problem)
{
    reader->problem = problem;
    return -EINVAL;
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static int hex_digit(uint8_t c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hexadecimal digits at `at`, or -1. */
static int32_t read_hex4(const struct text_reader *reader)
{
    int32_t value = 0;
    if (reader->end - reader->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(reader->at[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* Behind "\u": one UTF-16 unit or a surrogate pair, added as UTF-8. */
static int read_unicode_escape(struct text_reader *reader)
{
    int32_t point = read_hex4(reader);
    if (point < 0)
        return refuse(reader, "\\u without four hexadecimal digits");
    reader->at += 4;
    if (point >= 0xD800 && point <= 0xDFFF) {
        int32_t second = -1;
        if (point < 0xDC00 && reader->end - reader->at >= 6 && memcmp(reader->at, "\\u", 2) == 0) {
            reader->at += 2;
            second = read_hex4(reader);
        }
        if (second < 0xDC00 || second > 0xDFFF)
            return refuse(reader, "a lone surrogate");
        reader->at += 4;
        point = 0x10000 + ((point - 0xD800) << 10) + (second - 0xDC00);
    }
    if (point == 0 && !reader->allow_nul)
        return refuse(reader, "a NUL in a name");
    char bytes[6];
    uint32_t len;
    bson_utf8_from_unichar((bson_unichar_t) point, bytes, &len);
    return bson_buffer_add(reader->out, bytes, len);
}

/* Behind the backslash. */
static int read_escape(struct text_reader *reader)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    uint8_t c = reader->at < reader->end ? *reader->at : 0;
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        reader->at++;
        return bson_buffer_add(reader->out, to + (found - from), 1);
    }
    if (c != 'u')
        return refuse(reader, "an unknown escape");
    reader->at++;
    return read_unicode_escape(reader);
}

/* Up to the closing quote. */
static int read_runs(struct text_reader *reader)
{
    for (;;) {
        const uint8_t *run = reader->at;
        while (reader->at < reader->end) {
            uint8_t c = *reader->at;
            if (c == '"' || c == '\\' || c < 0x20)
                break;
            size_t len = c < 0x80 ? 1 : utf8_sequence_bytes(reader->at, reader->end);
            if (len == 0)
                return refuse(reader, "text that is not UTF-8");
            reader->at += len;
        }
        int rc = bson_buffer_add(reader->out, run, (size_t) (reader->at - run));
        if (rc != 0)
            return rc;
        if (reader->at == reader->end)
            return refuse(reader, "a string without end");
        if (*reader->at == '"')
            return 0;
        if (*reader->at != '\\')
            return refuse(reader, "a control character in a string");
        reader->at++;
        rc = read_escape(reader);
        if (rc != 0)
            return rc;
    }
}

int json_read_text(const uint8_t **at, const uint8_t *end, bool allow_nul, struct bson_buffer *out,
    const char **ret_problem)
{
    struct text_reader reader = {.at = *at + 1, .end = end, .allow_nul = allow_nul, .out = out};
    int rc = read_runs(&reader);
    if (rc == 0) {
        reader.at++;
        rc = bson_buffer_add(out, "", 1);
    }
    *at = reader.at;
    *ret_problem = reader.problem;
    return rc;
}

const uint8_t *json_number_end(const uint8_t *at, const uint8_t *end, bool *ret_whole)
{
    *ret_whole = true;
    if (at < end && *at == '-')
        at++;
    if (at == end || !is_digit(*at))
        return NULL;
    if (*at++ != '0') {
        while (at < end && is_digit(*at))
            at++;
    }
    if (at < end && *at == '.') {
        *ret_whole = false;
        if (++at == end || !is_digit(*at))
            return NULL;
        while (at < end && is_digit(*at))
            at++;
    }
    if (at < end && (*at | 0x20) == 'e') {
        *ret_whole = false;
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        if (at == end || !is_digit(*at))
            return NULL;
        while (at < end && is_digit(*at))
            at++;
    }
    return at;
}

bool json_is_number(const char *text, size_t len)
{
    const uint8_t *at = (const uint8_t *) text;
    bool whole;
    return json_number_end(at, at + len, &whole) == at + len;
}

bool json_whole_fits(const uint8_t *at, const uint8_t *end, int64_t *ret_value)
{
    bool negative = *at == '-';
    uint64_t value = 0, limit = (uint64_t) INT64_MAX + negative;
    for (at += negative; at < end; at++) {
        uint64_t digit = (uint64_t) (*at - '0');
        if (value > (limit - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret_value = negative ? (int64_t) (0 - value) : (int64_t) value;
    return true;
}
