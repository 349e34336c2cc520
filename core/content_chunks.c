/*
 * content_chunks.c - large contents in memory: a sorted array of chunks.
 *
 * An array, because files are mostly written from front to end (appending is cheap) and read by
 * binary search; a file of 1 GiB has 16,384 chunks.
 */
#include "core/content_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The position of the first chunk whose number is at least `number`. */
static size_t chunk_position(const struct content *content, uint64_t number)
{
    size_t low = 0, high = content->nchunks;
    if (high && content->chunks[high - 1].number < number)
        return high;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (content->chunks[mid].number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct content_chunk *chunk_find(const struct content *content, uint64_t number)
{
    size_t at = chunk_position(content, number);
    if (at < content->nchunks && content->chunks[at].number == number)
        return &content->chunks[at];
    return NULL;
}

static int chunk_make(struct content *content, uint64_t number, struct content_chunk **ret_chunk)
{
    size_t at = chunk_position(content, number);
    if (at < content->nchunks && content->chunks[at].number == number) {
        *ret_chunk = &content->chunks[at];
        return 0;
    }
    if (content->nchunks == content->cap_chunks) {
        size_t cap = content->cap_chunks ? content->cap_chunks * 2 : 4;
        struct content_chunk *more = realloc(content->chunks, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        content->chunks = more;
        content->cap_chunks = cap;
    }
    unsigned char *bytes = malloc(CHUNK_BYTES);
    if (!bytes)
        return -ENOMEM;
    memmove(&content->chunks[at + 1], &content->chunks[at],
        (content->nchunks - at) * sizeof *content->chunks);
    content->chunks[at] = (struct content_chunk){.number = number, .bytes = bytes};
    content->nchunks++;
    *ret_chunk = &content->chunks[at];
    return 0;
}

static void chunk_remove_empty(struct content *content, size_t at)
{
    if (content->chunks[at].pages)
        return;
    free(content->chunks[at].bytes);
    content->nchunks--;
    memmove(&content->chunks[at], &content->chunks[at + 1],
        (content->nchunks - at) * sizeof *content->chunks);
}

/*
 * Gives page `page` of a chunk data. Unless the caller is going to overwrite all of it, it is
 * zeroed first.
 */
static int page_make(
    struct content *content, struct content_chunk *chunk, unsigned int page, bool overwritten)
{
    if (chunk->pages >> page & 1)
        return 0;
    int err = content_charge(content->budget, 1);
    if (err)
        return err;
    if (!overwritten)
        memset(chunk->bytes + (size_t) page * CONTENT_PAGE_BYTES, 0, CONTENT_PAGE_BYTES);
    chunk->pages |= (uint16_t) (1U << page);
    content->npages++;
    return 0;
}

static void page_drop(struct content *content, struct content_chunk *chunk, unsigned int page)
{
    if (!(chunk->pages >> page & 1))
        return;
    chunk->pages &= (uint16_t) ~(1U << page);
    content->npages--;
    content_charge(content->budget, -1);
}

/* The part of [off, off + len) that lies in the page at off. */
static size_t within_page(uint64_t off, uint64_t len)
{
    uint64_t rest = CONTENT_PAGE_BYTES - off % CONTENT_PAGE_BYTES;
    return (size_t) (len < rest ? len : rest);
}

static unsigned int page_at(uint64_t off)
{
    return (unsigned int) (off % CHUNK_BYTES / CONTENT_PAGE_BYTES);
}

void chunks_read(const struct content *content, unsigned char *buf, size_t len, uint64_t off)
{
    while (len) {
        size_t n = within_page(off, len);
        const struct content_chunk *chunk = chunk_find(content, off / CHUNK_BYTES);
        if (chunk && chunk->pages >> page_at(off) & 1)
            memcpy(buf, chunk->bytes + off % CHUNK_BYTES, n);
        else
            memset(buf, 0, n);
        buf += n;
        off += n;
        len -= n;
    }
}

int chunks_write(struct content *content, const unsigned char *buf, size_t len, uint64_t off)
{
    while (len) {
        size_t n = within_page(off, len);
        struct content_chunk *chunk;
        int err = chunk_make(content, off / CHUNK_BYTES, &chunk);
        if (!err)
            err = page_make(content, chunk, page_at(off), n == CONTENT_PAGE_BYTES);
        if (err) {
            if (chunk_find(content, off / CHUNK_BYTES))
                chunk_remove_empty(content, chunk_position(content, off / CHUNK_BYTES));
            return err;
        }
        memcpy(chunk->bytes + off % CHUNK_BYTES, buf, n);
        buf += n;
        off += n;
        len -= n;
    }
    return 0;
}

void chunks_punch(struct content *content, uint64_t off, uint64_t len)
{
    uint64_t end = len > UINT64_MAX - off ? UINT64_MAX : off + len;
    size_t at = chunk_position(content, off / CHUNK_BYTES);
    while (at < content->nchunks) {
        struct content_chunk *chunk = &content->chunks[at];
        uint64_t start = chunk->number * CHUNK_BYTES;
        if (start >= end)
            break;
        for (unsigned int page = 0; page < CHUNK_PAGES; page++) {
            uint64_t first = start + (uint64_t) page * CONTENT_PAGE_BYTES;
            uint64_t last = first + CONTENT_PAGE_BYTES;
            if (last <= off || first >= end || !(chunk->pages >> page & 1))
                continue;
            if (first >= off && last <= end) {
                page_drop(content, chunk, page);
                continue;
            }
            uint64_t from = first > off ? first : off, to = last < end ? last : end;
            memset(chunk->bytes + (from - start), 0, (size_t) (to - from));
        }
        bool emptied = !chunk->pages;
        chunk_remove_empty(content, at);
        at += !emptied;
    }
}

void chunks_truncate(struct content *content, uint64_t size)
{
    chunks_punch(content, size, UINT64_MAX - size);
}

int chunks_allocate(struct content *content, uint64_t off, uint64_t len)
{
    uint64_t end = off + len;
    while (off < end) {
        struct content_chunk *chunk;
        int err = chunk_make(content, off / CHUNK_BYTES, &chunk);
        if (err)
            return err;
        err = page_make(content, chunk, page_at(off), false);
        if (err) {
            chunk_remove_empty(content, chunk_position(content, off / CHUNK_BYTES));
            return err;
        }
        off += within_page(off, end - off);
    }
    return 0;
}

int chunks_seek(
    const struct content *content, uint64_t size, uint64_t off, bool data, uint64_t *ret_off)
{
    size_t at = chunk_position(content, off / CHUNK_BYTES);
    while (off < size) {
        while (at < content->nchunks && content->chunks[at].number < off / CHUNK_BYTES)
            at++;
        const struct content_chunk *chunk = at < content->nchunks ? &content->chunks[at] : NULL;
        bool here = chunk && chunk->number == off / CHUNK_BYTES;
        if (data && !here) {
            /* Nothing up to the next chunk. */
            if (!chunk)
                return -ENXIO;
            off = chunk->number * CHUNK_BYTES;
            continue;
        }
        bool has = here && chunk->pages >> page_at(off) & 1;
        if (has == data) {
            *ret_off = off;
            return 0;
        }
        off += within_page(off, UINT64_MAX);
    }
    if (data)
        return -ENXIO;
    *ret_off = size;
    return 0;
}

void chunks_free(struct content *content)
{
    for (size_t i = 0; i < content->nchunks; i++)
        free(content->chunks[i].bytes);
    free(content->chunks);
    content->chunks = NULL;
    content->nchunks = content->cap_chunks = 0;
}
