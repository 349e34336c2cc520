/*
 * test_content.c - large contents, in memory and in a store, against a flat buffer.
 */
#include "core/content.h"
#include "core/store.h"
#include "tests/unit/scratch.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <sys/stat.h>

enum { FLAT_BYTES = 700000, STEPS = 3000, PAGE = CONTENT_PAGE_BYTES };

static uint64_t random_state;

static uint64_t pick(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

/* A content and what it should hold. */
struct pair {
    struct content *content;
    struct content_budget budget;
    uint64_t size;
    bool in_store;
    unsigned char flat[FLAT_BYTES], got[FLAT_BYTES];
    bool page[FLAT_BYTES / PAGE + 1]; /* has it one, for sure? In memory exactly. */
};

static void check_equal(struct pair *p, const char *after)
{
    CHECK_EQ(content_read(p->content, p->got, p->size, 0), 0);
    if (memcmp(p->got, p->flat, p->size) != 0) {
        uint64_t i = 0;
        while (p->got[i] == p->flat[i])
            i++;
        fprintf(stderr, "after %s: byte %" PRIu64 " of %" PRIu64 "\n", after, i, p->size);
        CHECK(!"the bytes are what was written");
    }
    int64_t pages = 0;
    for (size_t i = 0; i < sizeof p->page / sizeof p->page[0]; i++)
        pages += p->page[i];
    if (!p->in_store)
        CHECK_EQ(content_pages(p->content), pages);
    CHECK_EQ(p->budget.used_pages, content_pages(p->content));
}

/* SEEK_DATA never jumps over bytes that are not zero, SEEK_HOLE never names data. */
static void check_seek(struct pair *p)
{
    if (p->size == 0)
        return;
    off_t off = (off_t) pick(p->size), data = -1, hole = -1;
    int err = content_seek(p->content, p->size, off, SEEK_DATA, &data);
    CHECK(err == 0 || err == -ENXIO);
    off_t end = err ? (off_t) p->size : data;
    CHECK(end >= off && end <= (off_t) p->size);
    for (off_t i = off; i < end; i++)
        if (p->flat[i]) {
            CHECK(!"no data is skipped");
            break;
        }
    CHECK_EQ(content_seek(p->content, p->size, off, SEEK_HOLE, &hole), 0);
    CHECK(hole >= off && hole <= (off_t) p->size);
    if (hole < (off_t) p->size)
        CHECK(p->flat[hole] == 0);
    if (p->in_store)
        return;
    /* In memory it is exact. */
    bool has = p->page[off / PAGE];
    CHECK_EQ(data, err ? -1 : has ? off : (data / PAGE) * PAGE);
    if (!has)
        CHECK_EQ(hole, off);
    if (!err)
        CHECK(p->page[data / PAGE]);
    if (hole < (off_t) p->size)
        CHECK(!p->page[hole / PAGE]);
}

static void mark(struct pair *p, uint64_t off, uint64_t len)
{
    for (uint64_t i = off / PAGE; len && i <= (off + len - 1) / PAGE; i++)
        p->page[i] = true;
}

/* Whole pages in the range go. */
static void unmark(struct pair *p, uint64_t off, uint64_t end)
{
    for (uint64_t i = (off + PAGE - 1) / PAGE; (i + 1) * PAGE <= end; i++)
        p->page[i] = false;
}

static void step(struct pair *p)
{
    uint64_t off = pick(FLAT_BYTES / 2), len = pick(3) ? pick(9000) + 1 : pick(FLAT_BYTES / 3) + 1;
    if (pick(3) == 0)
        off = off / PAGE * PAGE;
    const char *what = "nothing";
    switch (pick(8)) {
    case 0:
    case 1:
    case 2:
        what = "write";
        for (uint64_t i = 0; i < len; i++)
            p->flat[off + i] = (unsigned char) pick(256);
        CHECK_EQ(content_write(p->content, p->flat + off, len, off), 0);
        mark(p, off, len);
        p->size = off + len > p->size ? off + len : p->size;
        break;
    case 3:
        what = "truncate";
        if (off < p->size) {
            CHECK_EQ(content_truncate(p->content, off), 0);
            memset(p->flat + off, 0, FLAT_BYTES - off);
            unmark(p, off, sizeof p->page / sizeof p->page[0] * PAGE);
        }
        p->size = off;
        break;
    case 4:
    case 5:
        what = "punch";
        CHECK_EQ(content_zero(p->content, off, len, true), 0);
        memset(p->flat + off, 0, len);
        unmark(p, off, off + len);
        break;
    case 6:
        what = "zero";
        CHECK_EQ(content_zero(p->content, off, len, false), 0);
        memset(p->flat + off, 0, len);
        mark(p, off, len);
        break;
    case 7:
        what = "allocate";
        CHECK_EQ(content_allocate(p->content, off, len), 0);
        mark(p, off, len);
        break;
    }
    check_seek(p);
    check_equal(p, what);
}

static void random_steps(struct store *store, uint64_t seed)
{
    static struct pair p;
    memset(&p, 0, sizeof p);
    p.in_store = store != NULL;
    p.content = content_new(store, store ? seed : 0, &p.budget);
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15);
    CHECK_EQ(content_blob(p.content), store ? seed : 0);
    CHECK_EQ(content_open(p.content, true), 0);
    for (int i = 0; i < STEPS && unit_failures < 20; i++) {
        step(&p);
        if (i % 500 == 499) {
            content_close(p.content);
            CHECK_EQ(content_open(p.content, false), 0);
        }
    }
    CHECK_EQ(content_sync(p.content), 0);
    content_put(content_get(p.content)); /* another holder for a while */
    check_equal(&p, "all");
    content_put(p.content);
    CHECK_EQ(p.budget.used_pages, 0);
}

static void test_in_memory(void)
{
    random_steps(NULL, 1);
    random_steps(NULL, 2);
}

static void test_in_a_store(void)
{
    struct scratch scratch = scratch_make();
    struct store *store = NULL;
    CHECK_EQ(store_open(scratch.path, false, &store, NULL), 0);
    random_steps(store, 3);
    store_close(store);
    scratch_remove(&scratch);
}

static void test_budget(void)
{
    struct content_budget budget = {.max_pages = 10};
    static unsigned char bytes[20 * PAGE];
    memset(bytes, 'b', sizeof bytes);
    CHECK_EQ(content_charge(&budget, 11), -ENOSPC);
    CHECK_EQ(budget.used_pages, 0);
    CHECK_EQ(content_charge(&budget, 10), 0);
    CHECK_EQ(content_charge(&budget, 1), -ENOSPC);
    CHECK_EQ(content_charge(&budget, -10), 0);
    struct content *a = content_new(NULL, 0, &budget), *b = content_new(NULL, 0, &budget);
    CHECK_EQ(content_write(a, bytes, (size_t) 8 * PAGE, 0), 0);
    CHECK_EQ(content_write(b, bytes, (size_t) 3 * PAGE, 0), -ENOSPC);
    CHECK(budget.used_pages <= 10);
    CHECK_EQ(content_write(a, bytes, (size_t) 8 * PAGE, 0), 0); /* over what is there */
    CHECK_EQ(content_truncate(b, 0), 0);
    CHECK_EQ(content_allocate(b, 0, (uint64_t) 3 * PAGE), -ENOSPC);
    CHECK_EQ(content_truncate(a, PAGE), 0);
    CHECK_EQ(content_allocate(b, 0, (uint64_t) 9 * PAGE), 0);
    content_put(a);
    content_put(b);
    content_put(NULL);
    CHECK_EQ(budget.used_pages, 0);
    CHECK_EQ(content_pages_of(0), 0);
    CHECK_EQ(content_pages_of(1), 1);
    CHECK_EQ(content_pages_of(PAGE), 1);
    CHECK_EQ(content_pages_of(PAGE + 1), 2);
}

static void test_seek_refusals(void)
{
    struct content_budget budget = {.max_pages = 0};
    struct content *c = content_new(NULL, 0, &budget);
    off_t off = 77;
    CHECK_EQ(content_write(c, "x", 1, (uint64_t) 1 << 40), 0); /* far out */
    CHECK_EQ(content_pages(c), 1);
    uint64_t size = ((uint64_t) 1 << 40) + 1;
    CHECK_EQ(content_seek(c, size, 0, SEEK_SET, &off), -EINVAL);
    CHECK_EQ(content_seek(c, size, -1, SEEK_DATA, &off), -ENXIO);
    CHECK_EQ(content_seek(c, size, (off_t) size, SEEK_HOLE, &off), -ENXIO);
    CHECK_EQ(off, 77);
    CHECK_EQ(content_seek(c, size, 5, SEEK_DATA, &off), 0);
    CHECK_EQ(off, INT64_C(1) << 40);
    CHECK_EQ(content_seek(c, size, off, SEEK_HOLE, &off), 0);
    CHECK_EQ(off, (off_t) size);
    content_put(c);
}

int main(void)
{
    RUN(test_in_memory);
    RUN(test_in_a_store);
    RUN(test_budget);
    RUN(test_seek_refusals);
    return unit_report();
}
