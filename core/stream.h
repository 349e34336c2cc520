/*
 * stream.h - lines for several readers, each of whom reads at a pace of his own.
 *
 * Lines are appended in order and numbered. A reader gets every line that is appended after he came, each
 * once, unless he falls so far behind that the oldest lines have to go: then he is told how many he lost.
 * What all have read is freed at once.
 *
 * Lines lie in chunks. What was written into a chunk never changes, so it is copied out without the
 * stream's lock: an append never waits for a reader's copying.
 *
 * Any thread may call anything; a reader is used by one thread at a time, or by several who then
 * share its lines. Locks here are innermost.
 */
#ifndef TTLFS_CORE_STREAM_H
#define TTLFS_CORE_STREAM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* No line may be longer; longer ones are lost. */
#define STREAM_CHUNK_BYTES ((size_t) 64 * 1024)

/* Long enough for what tells of lost lines. */
#define STREAM_NOTICE_BYTES 160

struct stream_chunk;

struct stream_reader {
    struct stream_reader *next, **place; /* of all, under the stream's lock */
    pthread_mutex_t lock;                /* covers what follows; taken before the stream's */
    struct stream_chunk *chunk;          /* held; NULL: at the start of line `line` */
    size_t at;                           /* bytes of the chunk that were read */
    uint64_t line;
    char notice[STREAM_NOTICE_BYTES];
    size_t notice_len, notice_at;
};

struct stream {
    pthread_mutex_t lock;
    struct stream_chunk *first, *last;
    struct stream_reader *readers;
    uint64_t lines;          /* appended, ever */
    size_t bytes, max_bytes; /* of all chunks that are kept for somebody */
    /* Writes the line that tells of lost ones; returns its length. */
    size_t (*tell_lost)(void *arg, uint64_t lost, char *buf, size_t size);
    void *arg;
};

/*
 * @max_bytes  how much is kept for readers who are behind; at least two chunks
 * @tell_lost  makes a line, with its newline, of at most `size` bytes; called with both
 *             locks held
 * @arg        for it
 */
void stream_init(struct stream *stream, size_t max_bytes,
    size_t (*tell_lost)(void *arg, uint64_t lost, char *buf, size_t size), void *arg);
/* There must be no readers. */
void stream_release(struct stream *stream);

/* Appends a line that ends with a newline. Without memory, or when nobody reads, it is lost. */
void stream_append(struct stream *stream, const char *line, size_t len);

/* A reader who begins with the next line. */
void stream_reader_open(struct stream *stream, struct stream_reader *reader);
void stream_reader_close(struct stream *stream, struct stream_reader *reader);

/* Is there anything to read? */
bool stream_is_ready(struct stream *stream, struct stream_reader *reader);

/*
 * Copies out what there is, in whole lines if at least one fits. Returns the number of bytes, 0
 * when there is nothing.
 */
size_t stream_read(struct stream *stream, struct stream_reader *reader, char *buf, size_t size);

#endif
