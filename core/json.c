#include "core/json.h"

#include "core/extjson.h"
#include "core/json_text.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const uint8_t *start;
    const uint8_t *at;
    const uint8_t *end;
    struct bson_buffer *out;
    const char *problem; /* set with -EINVAL */
};

static int refuse(struct reader *reader, const char *problem)
{
    reader->problem = problem;
    return -EINVAL;
}

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end) {
        uint8_t c = *reader->at;
        if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            break;
        reader->at++;
    }
}

/* The next byte, or 0 at the end: no byte of JSON outside strings is 0. */
static uint8_t peek(const struct reader *reader)
{
    return reader->at < reader->end ? *reader->at : 0;
}

static int read_string(struct reader *reader, size_t type_offset)
{
    size_t offset = reader->out->len;
    int rc = bson_buffer_add(reader->out, "\0\0\0", 4);
    if (rc == 0)
        rc = json_read_text(&reader->at, reader->end, true, reader->out, &reader->problem);
    if (rc != 0)
        return rc;
    bson_buffer_set_length(reader->out, offset, reader->out->len - offset - 4);
    reader->out->data[type_offset] = BSON_TYPE_UTF8;
    return 0;
}

static int add_double(struct reader *reader, const uint8_t *end, size_t type_offset)
{
    /* strtod wants an end it can see: the text is copied to where the value will stand. */
    struct bson_buffer *out = reader->out;
    size_t offset = out->len;
    int rc = bson_buffer_add(out, reader->at, (size_t) (end - reader->at));
    if (rc == 0)
        rc = bson_buffer_add(out, "", 1);
    if (rc != 0)
        return rc;
    double value = strtod((const char *) out->data + offset, NULL);
    out->len = offset;
    if (isinf(value))
        return refuse(reader, "a number out of range");
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = BSON_UINT64_TO_LE(bits);
    out->data[type_offset] = BSON_TYPE_DOUBLE;
    return bson_buffer_add(out, &bits, sizeof bits);
}

static int read_number(struct reader *reader, size_t type_offset)
{
    bool whole;
    int64_t value;
    int rc;
    const uint8_t *end = json_number_end(reader->at, reader->end, &whole);
    if (!end)
        return refuse(reader, "not a number");
    if (!whole || !json_whole_fits(reader->at, end, &value)) {
        rc = add_double(reader, end, type_offset);
    } else if (value >= INT32_MIN && value <= INT32_MAX) {
        uint32_t bits = BSON_UINT32_TO_LE((uint32_t) value);
        reader->out->data[type_offset] = BSON_TYPE_INT32;
        rc = bson_buffer_add(reader->out, &bits, sizeof bits);
    } else {
        uint64_t bits = BSON_UINT64_TO_LE((uint64_t) value);
        reader->out->data[type_offset] = BSON_TYPE_INT64;
        rc = bson_buffer_add(reader->out, &bits, sizeof bits);
    }
    reader->at = end;
    return rc;
}

static int read_word(struct reader *reader, size_t type_offset)
{
    static const struct {
        const char *word;
        size_t len;
        uint8_t type;
        uint8_t value_bytes;
        uint8_t value;
    } words[] = {
        {"true", 4, BSON_TYPE_BOOL, 1, 1},
        {"false", 5, BSON_TYPE_BOOL, 1, 0},
        {"null", 4, BSON_TYPE_NULL, 0, 0},
    };
    size_t left = (size_t) (reader->end - reader->at);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (left >= words[i].len && memcmp(reader->at, words[i].word, words[i].len) == 0) {
            reader->at += words[i].len;
            reader->out->data[type_offset] = words[i].type;
            return bson_buffer_add(reader->out, &words[i].value, words[i].value_bytes);
        }
    }
    return refuse(reader, reader->at == reader->end ? "a value is missing" : "not a value");
}

static int read_value(struct reader *reader, size_t type_offset, unsigned int depth_left);

/* One element: its type (filled in later), its name up to the NUL, its value. */
static int read_member(struct reader *reader, unsigned int depth_left)
{
    size_t type_offset = reader->out->len;
    int rc = bson_buffer_add(reader->out, "", 1);
    if (rc != 0)
        return rc;
    if (peek(reader) != '"')
        return refuse(reader, "a name in quotes is missing");
    rc = json_read_text(&reader->at, reader->end, false, reader->out, &reader->problem);
    if (rc != 0)
        return rc;
    skip_space(reader);
    if (peek(reader) != ':')
        return refuse(reader, "a colon is missing");
    reader->at++;
    return read_value(reader, type_offset, depth_left);
}

static int read_element(struct reader *reader, uint32_t index, unsigned int depth_left)
{
    char digits[16];
    const char *name;
    size_t type_offset = reader->out->len;
    size_t name_len = bson_uint32_to_string(index, &name, digits, sizeof digits);
    int rc = bson_buffer_add(reader->out, "", 1);
    if (rc == 0)
        rc = bson_buffer_add(reader->out, name, name_len + 1);
    return rc != 0 ? rc : read_value(reader, type_offset, depth_left);
}

/* What stands between the brackets, and the closing one. */
static int read_members(struct reader *reader, bool array, unsigned int depth_left)
{
    const uint8_t closing = array ? ']' : '}';
    uint32_t index = 0;
    skip_space(reader);
    if (peek(reader) == closing) {
        reader->at++;
        return 0;
    }
    for (;;) {
        int rc =
            array ? read_element(reader, index++, depth_left) : read_member(reader, depth_left);
        if (rc != 0)
            return rc;
        skip_space(reader);
        uint8_t c = peek(reader);
        if (c != closing && c != ',')
            return refuse(reader, "a comma or a closing bracket is missing");
        reader->at++;
        if (c == closing)
            return 0;
        skip_space(reader);
    }
}

/* An object or array, at its opening bracket; depth_left counts itself. */
static int read_container(struct reader *reader, unsigned int depth_left)
{
    bool array = *reader->at++ == '[';
    size_t offset = reader->out->len;
    if (depth_left == 0)
        return refuse(reader, "nested too deeply");
    int rc = bson_buffer_add(reader->out, "\0\0\0", 4);
    if (rc == 0)
        rc = read_members(reader, array, depth_left - 1);
    if (rc == 0)
        rc = bson_buffer_add(reader->out, "", 1);
    if (rc == 0)
        bson_buffer_set_length(reader->out, offset, reader->out->len - offset);
    return rc;
}

static int read_inner_container(struct reader *reader, size_t type_offset, unsigned int depth_left)
{
    struct bson_buffer *out = reader->out;
    size_t offset = out->len;
    bool array = *reader->at == '[';
    int rc = read_container(reader, depth_left);
    if (rc != 0)
        return rc;
    out->data[type_offset] = array ? BSON_TYPE_ARRAY : BSON_TYPE_DOCUMENT;
    /* The first name stands behind the document's length and the element's type. */
    if (array || out->data[offset + 4] == 0 || out->data[offset + 5] != '$')
        return 0;
    return extjson_unwrap(out, type_offset, offset, &reader->problem);
}

static int read_value(struct reader *reader, size_t type_offset, unsigned int depth_left)
{
    skip_space(reader);
    switch (peek(reader)) {
    case '{':
    case '[':
        return read_inner_container(reader, type_offset, depth_left);
    case '"':
        return read_string(reader, type_offset);
    case '-':
    case '0':
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
    case '6':
    case '7':
    case '8':
    case '9':
        return read_number(reader, type_offset);
    default:
        return read_word(reader, type_offset);
    }
}

/* White space up to the end, and the words for whatever went wrong. */
static int finish(struct reader *reader, int rc, struct reason *why)
{
    if (rc == 0) {
        skip_space(reader);
        if (reader->at != reader->end)
            rc = refuse(reader, "something follows the value");
    }
    if (rc == -E2BIG)
        rc = refuse(reader, "too large");
    if (rc == -EINVAL)
        return reason_set(why, EINVAL, "not Extended JSON: %s (at byte %zu)", reader->problem,
            (size_t) (reader->at - reader->start));
    return rc;
}

static struct reader reader_at(const char *text, size_t len, struct bson_buffer *out)
{
    const uint8_t *start = (const uint8_t *) text;
    return (struct reader){.start = start, .at = start, .end = start + len, .out = out};
}

int json_read_object(const char *text, size_t len, unsigned int max_depth, struct bson_buffer *out,
    struct reason *why)
{
    struct reader reader = reader_at(text, len, out);
    skip_space(&reader);
    int rc = peek(&reader) == '{' ? read_container(&reader, max_depth)
                                  : refuse(&reader, "not an object");
    return finish(&reader, rc, why);
}

int json_read_value(const char *text, size_t len, unsigned int max_depth, struct bson_buffer *out,
    struct reason *why)
{
    struct reader reader = reader_at(text, len, out);
    size_t offset = out->len;
    /* Length, type and an empty name. */
    int rc = bson_buffer_add(out, "\0\0\0\0\0", 6);
    if (rc == 0)
        rc = read_value(&reader, offset + 4, max_depth);
    if (rc == 0)
        rc = bson_buffer_add(out, "", 1);
    if (rc == 0)
        bson_buffer_set_length(out, offset, out->len - offset);
    return finish(&reader, rc, why);
}
