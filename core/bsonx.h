/*
 * bsonx.h - what this program needs of BSON beyond libbson.
 *
 * libbson ends the process when memory runs out; here a document is built in memory that may fail
 * to grow. And its bson_validate (1.23) descends until the stack is full, and takes strings that
 * are not UTF-8; here is one that does neither.
 */
#ifndef TTLFS_CORE_BSONX_H
#define TTLFS_CORE_BSONX_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A document under construction: bytes, in place. Zeroed is empty. */
struct bson_buffer {
    uint8_t *data;
    size_t len;
    size_t size;  /* allocated */
    size_t limit; /* never grows beyond; 0 means BSON_MAX_SIZE */
};

void bson_buffer_release(struct bson_buffer *buffer);

/*
 * Makes sure that `more` bytes can be added without moving the data.
 * Errors: -ENOMEM, -E2BIG (beyond the limit).
 */
int bson_buffer_reserve(struct bson_buffer *buffer, size_t more);

/* Adds bytes at the end. Errors: -ENOMEM, -E2BIG; the buffer is then as it was. */
int bson_buffer_add(struct bson_buffer *buffer, const void *bytes, size_t len);

/* Writes a 32-bit length, little-endian, over the four bytes at `offset`. */
void bson_buffer_set_length(struct bson_buffer *buffer, size_t offset, size_t length);

/*
 * Makes `bson` hold a copy of a whole document.
 * @bson  initialised; what it held is released unless the call fails
 * @data  a document whose length prefix is `len`; not part of `bson`
 * Errors: -ENOMEM.
 */
int bsonx_replace(bson_t *bson, const uint8_t *data, size_t len);

/*
 * libbson aborts when it cannot allocate: asks the allocator first whether a document of `len`
 * bytes can be held. Not a promise, but the large requests are those that fail.
 * Errors: -ENOMEM.
 */
int bsonx_check_memory(size_t len);

/*
 * Is this one complete, valid BSON document: its length prefix equal to `len`, all text UTF-8, at
 * most `max_depth` documents, arrays and code scopes inside one another (itself included)?
 */
bool bsonx_is_valid(const uint8_t *data, size_t len, unsigned int max_depth);

/*
 * The bytes of the element that an iterator is at: of the value alone, behind the name.
 * Returns their number; 0 for types that have no value.
 */
size_t bsonx_value_bytes(const bson_iter_t *iter, const uint8_t **ret_value);

#endif
