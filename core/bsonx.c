#include "core/bsonx.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_FIRST_BYTES 1024

/* Up to here a bson_t holds its document inside itself. */
#define BSON_INLINE_BYTES 120

void bson_buffer_release(struct bson_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct bson_buffer){0};
}

static int buffer_grow(struct bson_buffer *buffer, size_t more)
{
    size_t limit = buffer->limit ? buffer->limit : BSON_MAX_SIZE;
    if (more > limit || buffer->len > limit - more)
        return -E2BIG;
    size_t needed = buffer->len + more;
    size_t size = buffer->size ? buffer->size : BUFFER_FIRST_BYTES;
    while (size < needed)
        size *= 2;
    uint8_t *data = realloc(buffer->data, size);
    if (!data)
        return -ENOMEM;
    buffer->data = data;
    buffer->size = size;
    return 0;
}

int bson_buffer_reserve(struct bson_buffer *buffer, size_t more)
{
    if (more <= buffer->size - buffer->len)
        return 0;
    return buffer_grow(buffer, more);
}

int bson_buffer_add(struct bson_buffer *buffer, const void *bytes, size_t len)
{
    int rc = bson_buffer_reserve(buffer, len);
    if (rc == 0 && len > 0) {
        memcpy(buffer->data + buffer->len, bytes, len);
        buffer->len += len;
    }
    return rc;
}

void bson_buffer_set_length(struct bson_buffer *buffer, size_t offset, size_t length)
{
    uint32_t little = BSON_UINT32_TO_LE((uint32_t) length);
    memcpy(buffer->data + offset, &little, sizeof little);
}

int bsonx_check_memory(size_t len)
{
    if (len <= BSON_INLINE_BYTES)
        return 0;
    if (len > BSON_MAX_SIZE)
        return -ENOMEM;
    /* libbson rounds up to a power of two and keeps its old buffer while it moves. */
    size_t size = 2 * BSON_INLINE_BYTES;
    while (size < len)
        size *= 2;
    void *probe = malloc(2 * size);
    if (!probe)
        return -ENOMEM;
    free(probe);
    return 0;
}

int bsonx_replace(bson_t *bson, const uint8_t *data, size_t len)
{
    int rc = bsonx_check_memory(len);
    if (rc != 0)
        return rc;
    bson_destroy(bson);
    bson_init(bson);
    uint8_t *copy = bson_reserve_buffer(bson, (uint32_t) len);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, data, len);
    return 0;
}

size_t bsonx_value_bytes(const bson_iter_t *iter, const uint8_t **ret_value)
{
    /* The name ends where the value begins, and the next element begins where it ends. */
    const char *name = bson_iter_key(iter);
    const uint8_t *value = (const uint8_t *) name + strlen(name) + 1;
    *ret_value = value;
    return (size_t) (iter->raw + iter->next_off - value);
}
