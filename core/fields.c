#include "core/fields.h"

#include "core/bsonx.h"
#include "core/json.h"

#include <errno.h>
#include <string.h>

/* The smallest BSON document: its length and a NUL. */
#define BSON_MIN_BYTES 5

static uint32_t bson_length_prefix(const uint8_t *bytes)
{
    uint32_t little;
    memcpy(&little, bytes, sizeof little);
    return BSON_UINT32_FROM_LE(little);
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

bool fields_may_have(const void *content, size_t len)
{
    const uint8_t *bytes = content;
    size_t at = 0;
    if (len == 0 || len > FIELDS_MAX_BYTES)
        return false;
    while (at < len && is_space(bytes[at]))
        at++;
    if (at == len || bytes[at] == '{')
        return true;
    if (len < BSON_MIN_BYTES)
        return false;
    /* These may be the first bytes only: the prefix is then longer than what is seen. */
    uint32_t declared = bson_length_prefix(bytes);
    return declared >= len && declared <= FIELDS_MAX_BYTES;
}

/* The document in the buffer becomes the fields; the buffer is released either way. */
static int take_buffer(struct bson_buffer *buffer, int rc, bson_t *ret_bson)
{
    if (rc == 0)
        rc = bsonx_replace(ret_bson, buffer->data, buffer->len);
    bson_buffer_release(buffer);
    return rc;
}

int fields_parse(const void *content, size_t len, bson_t *ret_fields)
{
    bson_init(ret_fields);
    if (!fields_may_have(content, len))
        return -EINVAL;
    /* A BSON document may begin with what JSON takes for a brace or a space: JSON is tried first.
     */
    struct bson_buffer buffer = {.limit = FIELDS_MAX_BYTES};
    int rc = json_read_object(content, len, FIELDS_MAX_DEPTH, &buffer, NULL);
    rc = take_buffer(&buffer, rc, ret_fields);
    if (rc != -EINVAL)
        return rc;
    if (len < BSON_MIN_BYTES || bson_length_prefix(content) != len ||
        !bsonx_is_valid(content, len, FIELDS_MAX_DEPTH))
        return -EINVAL;
    return bsonx_replace(ret_fields, content, len);
}

int fields_parse_value(const char *text, size_t len, bson_t *ret_value, struct reason *why)
{
    struct bson_buffer buffer = {.limit = FIELDS_MAX_BYTES};
    bson_init(ret_value);
    int rc = json_read_value(text, len, FIELDS_MAX_DEPTH, &buffer, why);
    return take_buffer(&buffer, rc, ret_value);
}

/* How far a dotted path exists: where a value has to be put in, and what grows by it. */
struct place {
    size_t offset;                    /* the final NUL of the deepest document on the way */
    size_t lengths[FIELDS_MAX_DEPTH]; /* offsets of the lengths of all documents on the way */
    unsigned int depth;
    const char *missing; /* the rest of the path, below that document */
};

/* The length of the first component of a path. */
static size_t component_length(const char *path)
{
    return strcspn(path, ".");
}

/* 0 when every component has a name and there are not too many, otherwise -EINVAL. */
static int check_path(const char *path)
{
    for (unsigned int depth = 1;; depth++) {
        size_t len = component_length(path);
        if (len == 0 || depth > FIELDS_MAX_DEPTH)
            return -EINVAL;
        if (path[len] == '\0')
            return 0;
        path += len + 1;
    }
}

/* Returns false when something is there already, or a value that is no document is in the way. */
static bool find_place(const bson_t *fields, const char *path, struct place *ret_place)
{
    const uint8_t *data = bson_get_data(fields), *document = data;
    uint32_t len = fields->len;
    for (unsigned int depth = 0;; depth++) {
        bson_iter_t iter;
        size_t name_len = component_length(path);
        ret_place->lengths[depth] = (size_t) (document - data);
        if (!bson_iter_init_from_data(&iter, document, len))
            return false;
        if (!bson_iter_find_w_len(&iter, path, (int) name_len)) {
            ret_place->offset = (size_t) (document - data) + len - 1;
            ret_place->depth = depth + 1;
            ret_place->missing = path;
            return true;
        }
        if (path[name_len] == '\0' || !BSON_ITER_HOLDS_DOCUMENT(&iter))
            return false;
        bson_iter_document(&iter, &len, &document);
        path += name_len + 1;
    }
}

/* The element that puts a value at a path, inside new documents where the path is dotted. */
static int add_element(
    struct bson_buffer *out, const char *path, uint8_t type, const uint8_t *value, size_t value_len)
{
    size_t lengths[FIELDS_MAX_DEPTH], depth = 0, name_len;
    int rc;
    for (;; path += name_len + 1) {
        name_len = component_length(path);
        bool last = path[name_len] == '\0';
        uint8_t element_type = last ? type : BSON_TYPE_DOCUMENT;
        rc = bson_buffer_add(out, &element_type, 1);
        if (rc == 0)
            rc = bson_buffer_add(out, path, name_len);
        if (rc == 0)
            rc = bson_buffer_add(out, "", 1);
        if (rc != 0)
            return rc;
        if (last)
            break;
        lengths[depth++] = out->len;
        rc = bson_buffer_add(out, "\0\0\0", 4);
        if (rc != 0)
            return rc;
    }
    rc = bson_buffer_add(out, value, value_len);
    while (rc == 0 && depth > 0) {
        rc = bson_buffer_add(out, "", 1);
        depth--;
        if (rc == 0)
            bson_buffer_set_length(out, lengths[depth], out->len - lengths[depth]);
    }
    return rc;
}

int fields_add(bson_t *fields, const char *path, const bson_t *value)
{
    struct place place;
    bson_iter_t iter;
    int rc = check_path(path);
    if (rc != 0)
        return rc;
    if (!bson_iter_init(&iter, value) || !bson_iter_next(&iter))
        return -EINVAL;
    if (!find_place(fields, path, &place))
        return 0;

    const uint8_t *data = bson_get_data(fields), *value_bytes;
    size_t value_len = bsonx_value_bytes(&iter, &value_bytes);
    struct bson_buffer buffer = {0};
    rc = bson_buffer_reserve(&buffer, fields->len + value_len + strlen(path) + 16);
    if (rc == 0)
        rc = bson_buffer_add(&buffer, data, place.offset);
    if (rc == 0)
        rc = add_element(
            &buffer, place.missing, (uint8_t) bson_iter_type(&iter), value_bytes, value_len);
    if (rc == 0) {
        size_t grown = buffer.len - place.offset;
        rc = bson_buffer_add(&buffer, data + place.offset, fields->len - place.offset);
        for (unsigned int i = 0; rc == 0 && i < place.depth; i++) {
            size_t at = place.lengths[i];
            bson_buffer_set_length(&buffer, at, bson_length_prefix(buffer.data + at) + grown);
        }
    }
    rc = take_buffer(&buffer, rc, fields);
    return rc == -E2BIG ? -ENOMEM : rc;
}

/* Takes every element of a name out of the fields, and sees to room for a new one. */
static int prepare_set(bson_t *fields, const char *name, size_t value_len)
{
    bson_iter_t iter;
    int rc = 0;
    if (bson_iter_init_find(&iter, fields, name)) {
        struct bson_buffer buffer = {0};
        const uint8_t *data = bson_get_data(fields);
        size_t from = 4; /* begin of what is still to be copied */
        rc = bson_buffer_add(&buffer, data, from);
        /* An element begins with its type, one byte in front of its name. */
        for (bool found = true; rc == 0 && found; found = bson_iter_find(&iter, name)) {
            const uint8_t *value;
            size_t begin = (size_t) ((const uint8_t *) bson_iter_key(&iter) - data) - 1;
            size_t len = bsonx_value_bytes(&iter, &value);
            rc = bson_buffer_add(&buffer, data + from, begin - from);
            from = (size_t) (value - data) + len;
        }
        if (rc == 0)
            rc = bson_buffer_add(&buffer, data + from, fields->len - from);
        if (rc == 0)
            bson_buffer_set_length(&buffer, 0, buffer.len);
        rc = take_buffer(&buffer, rc, fields);
    }
    if (rc == 0)
        rc = bsonx_check_memory(fields->len + strlen(name) + value_len + 16);
    return rc == -E2BIG ? -ENOMEM : rc;
}

int fields_set_date(bson_t *fields, const char *name, int64_t date_ms)
{
    int rc = prepare_set(fields, name, sizeof date_ms);
    if (rc == 0 && !bson_append_date_time(fields, name, -1, date_ms))
        rc = -ENOMEM;
    return rc;
}

int fields_set_int64(bson_t *fields, const char *name, int64_t value)
{
    int rc = prepare_set(fields, name, sizeof value);
    if (rc == 0 && !bson_append_int64(fields, name, -1, value))
        rc = -ENOMEM;
    return rc;
}

int fields_set_utf8(bson_t *fields, const char *name, const char *text, size_t len)
{
    if (len > BSON_MAX_SIZE / 2)
        return -ENOMEM;
    int rc = prepare_set(fields, name, len);
    if (rc == 0 && !bson_append_utf8(fields, name, -1, text, (int) len))
        rc = -ENOMEM;
    return rc;
}
