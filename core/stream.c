#include "core/stream.h"

#include <stdlib.h>
#include <string.h>

struct stream_chunk {
    struct stream_chunk *next;
    unsigned int holders; /* readers who are in it */
    bool listed;          /* in the stream's list; else freed with its last holder */
    bool closed;          /* nothing more is appended */
    uint64_t first, lines;
    size_t used;
    char bytes[STREAM_CHUNK_BYTES];
};

void stream_init(struct stream *stream, size_t max_bytes,
    size_t (*tell_lost)(void *arg, uint64_t lost, char *buf, size_t size), void *arg)
{
    memset(stream, 0, sizeof *stream);
    pthread_mutex_init(&stream->lock, NULL);
    stream->max_bytes = max_bytes;
    stream->tell_lost = tell_lost;
    stream->arg = arg;
}

static void drop_first(struct stream *stream)
{
    struct stream_chunk *chunk = stream->first;
    stream->first = chunk->next;
    if (!stream->first)
        stream->last = NULL;
    stream->bytes -= sizeof *chunk;
    chunk->listed = false;
    chunk->next = NULL;
    if (!chunk->holders)
        free(chunk);
}

void stream_release(struct stream *stream)
{
    while (stream->first)
        drop_first(stream);
    pthread_mutex_destroy(&stream->lock);
}

static uint64_t end_of(const struct stream_chunk *chunk)
{
    return chunk->first + chunk->lines;
}

/* Frees the chunks that all readers have behind them. */
static void trim(struct stream *stream)
{
    while (stream->first) {
        for (const struct stream_reader *r = stream->readers; r; r = r->next)
            if ((r->chunk ? r->chunk->first : r->line) < end_of(stream->first))
                return;
        drop_first(stream);
    }
}

static struct stream_chunk *new_chunk(struct stream *stream)
{
    struct stream_chunk *chunk = malloc(sizeof *chunk);
    if (!chunk)
        return NULL;
    chunk->next = NULL;
    chunk->holders = 0;
    chunk->listed = true;
    chunk->closed = false;
    chunk->first = stream->lines;
    chunk->lines = 0;
    chunk->used = 0;
    if (stream->last)
        stream->last->next = chunk;
    else
        stream->first = chunk;
    stream->last = chunk;
    stream->bytes += sizeof *chunk;
    while (stream->bytes > stream->max_bytes && stream->first != chunk)
        drop_first(stream);
    return chunk;
}

void stream_append(struct stream *stream, const char *line, size_t len)
{
    pthread_mutex_lock(&stream->lock);
    struct stream_chunk *chunk = stream->last;
    if (stream->readers && len <= STREAM_CHUNK_BYTES &&
        (!chunk || chunk->closed || STREAM_CHUNK_BYTES - chunk->used < len))
        chunk = new_chunk(stream);
    if (stream->readers && chunk && len <= STREAM_CHUNK_BYTES) {
        memcpy(chunk->bytes + chunk->used, line, len);
        chunk->used += len;
        chunk->lines++;
    } else if (stream->last) {
        /* The numbers go on behind a gap, which only a new chunk can show. */
        stream->last->closed = true;
    }
    stream->lines++;
    pthread_mutex_unlock(&stream->lock);
}

void stream_reader_open(struct stream *stream, struct stream_reader *reader)
{
    memset(reader, 0, sizeof *reader);
    pthread_mutex_init(&reader->lock, NULL);
    pthread_mutex_lock(&stream->lock);
    reader->line = stream->lines;
    /* In the middle of a chunk there is no other way to say where. */
    if (stream->last && !stream->last->closed) {
        reader->chunk = stream->last;
        reader->chunk->holders++;
        reader->at = reader->chunk->used;
    }
    reader->next = stream->readers;
    reader->place = &stream->readers;
    if (reader->next)
        reader->next->place = &reader->next;
    stream->readers = reader;
    pthread_mutex_unlock(&stream->lock);
}

/* The stream's lock is held. */
static void leave_chunk(struct stream_reader *reader)
{
    struct stream_chunk *chunk = reader->chunk;
    if (!chunk)
        return;
    reader->line = end_of(chunk);
    reader->chunk = NULL;
    reader->at = 0;
    if (--chunk->holders == 0 && !chunk->listed)
        free(chunk);
}

void stream_reader_close(struct stream *stream, struct stream_reader *reader)
{
    pthread_mutex_lock(&stream->lock);
    leave_chunk(reader);
    *reader->place = reader->next;
    if (reader->next)
        reader->next->place = reader->place;
    trim(stream);
    pthread_mutex_unlock(&stream->lock);
    pthread_mutex_destroy(&reader->lock);
}

/* Enters the chunk with the reader's next line, or the oldest one behind it. Both locks are held. */
static void enter_chunk(struct stream *stream, struct stream_reader *reader)
{
    struct stream_chunk *chunk = stream->first;
    while (chunk && end_of(chunk) <= reader->line)
        chunk = chunk->next;
    if (!chunk)
        return;
    if (chunk->first > reader->line) {
        reader->notice_len = stream->tell_lost(
            stream->arg, chunk->first - reader->line, reader->notice, sizeof reader->notice);
        reader->notice_at = 0;
    }
    reader->line = chunk->first;
    reader->chunk = chunk;
    reader->at = 0;
    chunk->holders++;
}

/* Goes on to where there is something to read, if there is. Both locks are held. */
static bool advance(struct stream *stream, struct stream_reader *reader)
{
    if (reader->notice_at < reader->notice_len)
        return true;
    if (reader->chunk && reader->at < reader->chunk->used)
        return true;
    if (reader->chunk && (reader->chunk != stream->last || reader->chunk->closed)) {
        leave_chunk(reader);
        trim(stream);
    }
    if (!reader->chunk)
        enter_chunk(stream, reader);
    return reader->notice_at < reader->notice_len ||
           (reader->chunk && reader->at < reader->chunk->used);
}

bool stream_is_ready(struct stream *stream, struct stream_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    pthread_mutex_lock(&stream->lock);
    bool ready = advance(stream, reader);
    pthread_mutex_unlock(&stream->lock);
    pthread_mutex_unlock(&reader->lock);
    return ready;
}

/* How much of `len` bytes to hand out where `room` is left: whole lines, if any is whole. */
static size_t whole_lines(const char *bytes, size_t len, size_t room)
{
    if (len <= room)
        return len;
    const char *newline = memrchr(bytes, '\n', room);
    return newline ? (size_t) (newline - bytes) + 1 : 0;
}

size_t stream_read(struct stream *stream, struct stream_reader *reader, char *buf, size_t size)
{
    size_t done = 0;
    pthread_mutex_lock(&reader->lock);
    while (done < size) {
        pthread_mutex_lock(&stream->lock);
        bool ready = advance(stream, reader);
        /* Held by the reader, and what is in it up to here stays as it is. */
        const struct stream_chunk *chunk = reader->chunk;
        size_t used = chunk ? chunk->used : 0;
        pthread_mutex_unlock(&stream->lock);
        bool notice = reader->notice_at < reader->notice_len;
        if (!ready || (!notice && !chunk))
            break;
        const char *from = notice ? reader->notice + reader->notice_at : chunk->bytes + reader->at;
        size_t left = notice ? reader->notice_len - reader->notice_at : used - reader->at;
        size_t n = whole_lines(from, left, size - done);
        /* A line for which the buffer is too small altogether is given in pieces. */
        if (n == 0 && done == 0)
            n = size;
        if (n == 0)
            break;
        memcpy(buf + done, from, n);
        done += n;
        if (notice)
            reader->notice_at += n;
        else
            reader->at += n;
    }
    pthread_mutex_unlock(&reader->lock);
    return done;
}
