/*
 * content_impl.h - what core/content*.c share: the two kinds of large contents.
 */
#ifndef TTLFS_CORE_CONTENT_IMPL_H
#define TTLFS_CORE_CONTENT_IMPL_H

#include "core/content.h"

#include <pthread.h>
#include <stdatomic.h>

/* Memory is taken in chunks of this many pages; which of them hold data is a bit each. */
#define CHUNK_PAGES 16
#define CHUNK_BYTES ((uint64_t) CHUNK_PAGES * CONTENT_PAGE_BYTES)

struct content_chunk {
    uint64_t number; /* offset / CHUNK_BYTES */
    unsigned char *bytes;
    uint16_t pages; /* bit i: page i has data; a page without is not initialised */
};

struct content {
    pthread_rwlock_t lock;
    atomic_uint holders;
    struct content_budget *budget;
    _Atomic int64_t npages;
    /* in memory: chunks by number */
    struct content_chunk *chunks;
    size_t nchunks, cap_chunks;
    /* in a store */
    struct store *store;
    uint64_t blob;
    int fd; /* -1 while closed */
};

/* The operations on chunks; the content's lock is held (for writing, unless the content is const).
 */
void chunks_read(const struct content *content, unsigned char *buf, size_t len, uint64_t off);
int chunks_write(struct content *content, const unsigned char *buf, size_t len, uint64_t off);
void chunks_truncate(struct content *content, uint64_t size);
/* Drops whole pages of the range, zeroes the rest of it. */
void chunks_punch(struct content *content, uint64_t off, uint64_t len);
/* Makes zeroed pages where the range has none. */
int chunks_allocate(struct content *content, uint64_t off, uint64_t len);
int chunks_seek(
    const struct content *content, uint64_t size, uint64_t off, bool data, uint64_t *ret_off);
void chunks_free(struct content *content);

#endif
