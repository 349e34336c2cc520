/*
 * core/stream: lines for several readers, with and without threads.
 */
#include "core/stream.h"
#include "tests/unit/unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

static size_t tell_lost(void *arg, uint64_t lost, char *buf, size_t size)
{
    (void) arg;
    return (size_t) snprintf(buf, size, "lost %" PRIu64 "\n", lost);
}

static void append(struct stream *s, uint64_t number)
{
    char line[64];
    int len = snprintf(line, sizeof line, "line %" PRIu64 "\n", number);
    stream_append(s, line, (size_t) len);
}

static char *read_text(struct stream *s, struct stream_reader *r, size_t size)
{
    static char buf[256];
    size_t n = stream_read(s, r, buf, size < sizeof buf - 1 ? size : sizeof buf - 1);
    buf[n] = '\0';
    return buf;
}

static void test_begins_with_what_comes(void)
{
    struct stream s;
    struct stream_reader early, late;
    stream_init(&s, 4 * STREAM_CHUNK_BYTES, tell_lost, NULL);
    append(&s, 0);
    stream_reader_open(&s, &early);
    CHECK(!stream_is_ready(&s, &early));
    CHECK_EQ(stream_read(&s, &early, (char[8]){0}, 8), 0);
    append(&s, 1);
    stream_reader_open(&s, &late);
    CHECK(stream_is_ready(&s, &early));
    CHECK(!stream_is_ready(&s, &late));
    append(&s, 2);
    CHECK_STR(read_text(&s, &early, 200), "line 1\nline 2\n");
    CHECK_STR(read_text(&s, &late, 200), "line 2\n");
    CHECK_STR(read_text(&s, &early, 200), "");
    append(&s, 3);
    CHECK_STR(read_text(&s, &early, 200), "line 3\n");
    stream_reader_close(&s, &early);
    CHECK_STR(read_text(&s, &late, 200), "line 3\n");
    stream_reader_close(&s, &late);
    CHECK_EQ(s.bytes, 0);
    stream_release(&s);
}

static void test_whole_lines(void)
{
    struct stream s;
    struct stream_reader r;
    stream_init(&s, 4 * STREAM_CHUNK_BYTES, tell_lost, NULL);
    stream_reader_open(&s, &r);
    for (uint64_t i = 0; i < 4; i++)
        append(&s, i);
    CHECK_STR(read_text(&s, &r, 10), "line 0\n");
    CHECK_STR(read_text(&s, &r, 14), "line 1\nline 2\n");
    /* Too small for any line: in pieces, and then on. */
    CHECK_STR(read_text(&s, &r, 3), "lin");
    CHECK_STR(read_text(&s, &r, 100), "e 3\n");
    stream_reader_close(&s, &r);
    stream_release(&s);
}

/* Reads all there is; adds up what was lost, checks that numbers only grow by one otherwise. */
struct account {
    uint64_t next, lines, lost;
    bool good;
    char rest[128];
    size_t nrest;
};

static void account_line(struct account *a, const char *line)
{
    char *end;
    uint64_t number = strlen(line) > 5 ? strtoull(line + 5, &end, 10) : 0;
    bool whole = strlen(line) > 5 && *end == '\0';
    if (whole && strncmp(line, "lost ", 5) == 0) {
        a->lost += number;
        a->next += number;
    } else if (whole && strncmp(line, "line ", 5) == 0) {
        a->good &= number == a->next;
        a->next = number + 1;
        a->lines++;
    } else {
        a->good = false;
    }
}

static void account_bytes(struct account *a, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n' && a->nrest < sizeof a->rest - 1) {
            a->rest[a->nrest++] = bytes[i];
            continue;
        }
        a->rest[a->nrest] = '\0';
        account_line(a, a->rest);
        a->nrest = 0;
    }
}

static size_t account_read(
    struct account *a, struct stream *s, struct stream_reader *r, size_t size)
{
    static _Thread_local char buf[128 * 1024];
    size_t n = stream_read(s, r, buf, size);
    account_bytes(a, buf, n);
    return n;
}

static void test_slow_reader_loses_the_oldest(void)
{
    struct stream s;
    struct stream_reader slow, quick;
    struct account of_slow = {.good = true}, of_quick = {.good = true};
    const uint64_t total = 50000;
    stream_init(&s, 3 * STREAM_CHUNK_BYTES, tell_lost, NULL);
    stream_reader_open(&s, &slow);
    stream_reader_open(&s, &quick);
    append(&s, 0);
    CHECK_EQ(account_read(&of_slow, &s, &slow, 3), 3); /* in the middle of a line */
    for (uint64_t i = 1; i < total; i++) {
        append(&s, i);
        if (i % 100 == 0)
            while (account_read(&of_quick, &s, &quick, 1000))
                ;
        CHECK(s.bytes <= 3 * STREAM_CHUNK_BYTES);
    }
    while (account_read(&of_slow, &s, &slow, 1000))
        ;
    while (account_read(&of_quick, &s, &quick, 1000))
        ;
    CHECK(of_slow.good);
    CHECK(of_slow.lost > 0);
    CHECK_EQ(of_slow.lost + of_slow.lines, total);
    CHECK(of_quick.good);
    CHECK_EQ(of_quick.lost, 0);
    CHECK_EQ(of_quick.lines, total);
    stream_reader_close(&s, &slow);
    stream_reader_close(&s, &quick);
    CHECK_EQ(s.bytes, 0);
    stream_release(&s);
}

static void test_line_too_long(void)
{
    struct stream s;
    struct stream_reader r;
    char *line = calloc(1, STREAM_CHUNK_BYTES + 1);
    stream_init(&s, 4 * STREAM_CHUNK_BYTES, tell_lost, NULL);
    stream_reader_open(&s, &r);
    append(&s, 0);
    if (line)
        stream_append(&s, line, STREAM_CHUNK_BYTES + 1);
    append(&s, 2);
    CHECK_STR(read_text(&s, &r, 200), "line 0\nlost 1\nline 2\n");
    stream_reader_close(&s, &r);
    stream_release(&s);
    free(line);
}

static void test_memory_is_given_back(void)
{
    struct stream s;
    struct stream_reader r;
    struct account a = {.good = true};
    stream_init(&s, (size_t) 64 * STREAM_CHUNK_BYTES, tell_lost, NULL);
    stream_reader_open(&s, &r);
    for (uint64_t i = 0; i < 100000; i++) {
        append(&s, i);
        if (i % 1000 == 0)
            while (account_read(&a, &s, &r, 65536))
                ;
        CHECK(s.bytes < 3 * (STREAM_CHUNK_BYTES + 1024));
    }
    stream_reader_close(&s, &r);
    CHECK_EQ(s.bytes, 0);
    stream_release(&s);
}

/* Threads */

#define THREAD_LINES 100000

struct shared {
    struct stream stream;
    atomic_bool ended;
    atomic_int ready;
};

struct reading {
    struct shared *shared;
    size_t size;
    struct account account;
};

static void *run_reader(void *arg)
{
    struct reading *reading = arg;
    struct shared *shared = reading->shared;
    struct stream_reader r;
    stream_reader_open(&shared->stream, &r);
    atomic_fetch_add(&shared->ready, 1);
    for (;;) {
        bool ended = atomic_load(&shared->ended);
        if (account_read(&reading->account, &shared->stream, &r, reading->size))
            continue;
        if (ended)
            break;
        sched_yield();
    }
    stream_reader_close(&shared->stream, &r);
    return NULL;
}

static void test_threads(void)
{
    struct shared shared = {0};
    struct reading readings[3];
    const size_t sizes[] = {100, 4096, 65536};
    pthread_t threads[3];
    stream_init(&shared.stream, 4 * STREAM_CHUNK_BYTES, tell_lost, NULL);
    for (int i = 0; i < 3; i++) {
        readings[i] = (struct reading){&shared, sizes[i], {.good = true}};
        CHECK_EQ(pthread_create(&threads[i], NULL, run_reader, &readings[i]), 0);
    }
    while (atomic_load(&shared.ready) < 3)
        sched_yield();
    for (uint64_t i = 0; i < THREAD_LINES; i++)
        append(&shared.stream, i);
    atomic_store(&shared.ended, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK(readings[i].account.good);
        CHECK_EQ(readings[i].account.lines + readings[i].account.lost, THREAD_LINES);
    }
    CHECK_EQ(shared.stream.bytes, 0);
    stream_release(&shared.stream);
}

int main(void)
{
    RUN(test_begins_with_what_comes);
    RUN(test_whole_lines);
    RUN(test_slow_reader_loses_the_oldest);
    RUN(test_line_too_long);
    RUN(test_memory_is_given_back);
    RUN(test_threads);
    return unit_report();
}
