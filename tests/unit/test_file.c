/*
 * test_file.c - contents of files: small, large, sparse, cold, and on their way between these.
 */
#include "tests/unit/scratch.h"
#include "tests/unit/unit.h"
#include "tests/unit/world.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

enum { FLAT_BYTES = 120000, PAGE = CONTENT_PAGE_BYTES };

static unsigned char flat[FLAT_BYTES];
static uint64_t random_state = 1234567;

static uint64_t pick(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

static struct document *new_file(struct world *w, const char *name)
{
    return world_make(w, w->tree->root, name, S_IFREG | 0600, NULL, T0)->doc;
}

static void open_file(struct world *w, struct document *doc)
{
    tree_lock(w->tree);
    CHECK_EQ(file_open(w->tree, doc), 0);
    tree_unlock(w->tree);
}

static void close_file(struct world *w, struct document *doc)
{
    tree_lock(w->tree);
    document_unpin(w->tree, doc);
    tree_unlock(w->tree);
}

static ssize_t write_at(
    struct world *w, struct document *doc, const void *b, size_t n, uint64_t off)
{
    tree_lock(w->tree);
    ssize_t done = file_write(w->tree, doc, b, n, off);
    tree_unlock(w->tree);
    return done;
}

static int truncate_to(struct world *w, struct document *doc, uint64_t size)
{
    tree_lock(w->tree);
    int err = file_truncate(w->tree, doc, size);
    tree_unlock(w->tree);
    return err;
}

static int allocate(struct world *w, struct document *doc, int mode, uint64_t off, uint64_t len)
{
    tree_lock(w->tree);
    int err = file_allocate(w->tree, doc, mode, off, len);
    tree_unlock(w->tree);
    return err;
}

/* Both ways of reading give what the flat buffer says. */
static void check_file(struct world *w, struct document *doc, uint64_t size)
{
    static unsigned char got[FLAT_BYTES + 10];
    unsigned char *copy;
    size_t len;
    CHECK_EQ(doc->size, size);
    tree_lock(w->tree);
    CHECK_EQ(file_read(w->tree, doc, got, sizeof got, 0), (ssize_t) size);
    CHECK(memcmp(got, flat, size) == 0);
    uint64_t off = pick(FLAT_BYTES);
    ssize_t rest = off < size ? (ssize_t) (size - off) : 0;
    CHECK_EQ(file_read(w->tree, doc, got, 100, off), rest < 100 ? rest : 100);
    CHECK(rest == 0 || memcmp(got, flat + off, rest < 100 ? (size_t) rest : 100) == 0);
    CHECK_EQ(file_copy_content(w->tree, doc, FLAT_BYTES, &copy, &len), 0);
    CHECK_EQ(len, size);
    CHECK(size == 0 ? copy == NULL : memcmp(copy, flat, size) == 0);
    free(copy);
    if (size) {
        CHECK_EQ(file_copy_content(w->tree, doc, size - 1, &copy, &len), -EFBIG);
    }
    tree_unlock(w->tree);
}

/* One random operation on the file and on the buffer. */
static void step(struct world *w, struct document *doc, uint64_t *size)
{
    uint64_t range = pick(4) ? 20000 : FLAT_BYTES / 2;
    uint64_t off = pick(range), len = pick(range) + 1;
    unsigned char byte = (unsigned char) (pick(255) + 1);
    uint64_t end = off + len > *size ? off + len : *size;
    switch (pick(9)) {
    case 0:
        off = *size < FLAT_BYTES / 2 ? *size : off; /* at the end */
        /* fall through */
    case 1:
    case 2:
    case 3:
        end = off + len > *size ? off + len : *size;
        memset(flat + off, byte, len);
        CHECK_EQ(write_at(w, doc, flat + off, len, off), (ssize_t) len);
        *size = end;
        break;
    case 4:
        off = pick(3) ? off : 0;
        CHECK_EQ(truncate_to(w, doc, off), 0);
        if (off < *size)
            memset(flat + off, 0, *size - off);
        *size = off;
        break;
    case 5:
        CHECK_EQ(allocate(w, doc, 0, off, len), 0);
        *size = end;
        break;
    case 6:
        CHECK_EQ(allocate(w, doc, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len), 0);
        memset(flat + off, 0, len);
        break;
    case 7:
        CHECK_EQ(allocate(w, doc, FALLOC_FL_ZERO_RANGE, off, len), 0);
        memset(flat + off, 0, len);
        *size = end;
        break;
    case 8:
        CHECK_EQ(allocate(w, doc, FALLOC_FL_KEEP_SIZE, off, len), 0);
        break;
    }
}

/* @path NULL: in memory; else with commits and new starts in between. */
static void random_steps(const char *path)
{
    struct world w;
    uint64_t size = 0;
    memset(flat, 0, sizeof flat);
    world_open(&w, path);
    struct document *doc = new_file(&w, "f");
    open_file(&w, doc);
    for (int i = 0; i < 2000 && unit_failures < 20; i++) {
        step(&w, doc, &size);
        check_file(&w, doc, size);
        if (i % 10 == 9 && path)
            CHECK_EQ(world_commit(&w), 0);
        if (i % 50 == 49) {
            close_file(&w, doc);
            if (path && i % 100 == 99) {
                CHECK_EQ(world_commit(&w), 0);
                world_close(&w);
                world_open(&w, path);
                doc = world_find(&w, w.tree->root, "f")->doc;
            }
            open_file(&w, doc);
            check_file(&w, doc, size);
        }
    }
    close_file(&w, doc);
    world_unlink(&w, doc->links, T0);
    CHECK_EQ(w.tree->budget.used_pages, 0);
    world_close(&w);
}

static void test_random_in_memory(void)
{
    random_steps(NULL);
}

static void test_random_in_a_store(void)
{
    struct scratch scratch = scratch_make();
    random_steps(scratch.path);
    scratch_remove(&scratch);
}

/* Where a content lives. */
static void test_transitions(void)
{
    struct world w;
    off_t off;
    world_open(&w, NULL);
    struct document *doc = new_file(&w, "f");
    open_file(&w, doc);
    memset(flat, 'x', sizeof flat);
    CHECK_EQ(write_at(&w, doc, flat, CONTENT_SMALL_MAX_BYTES, 0), CONTENT_SMALL_MAX_BYTES);
    CHECK(!doc->content && doc->data);
    CHECK_EQ(w.tree->budget.used_pages, CONTENT_SMALL_MAX_BYTES / PAGE);
    CHECK_EQ(document_pages(doc), CONTENT_SMALL_MAX_BYTES / PAGE);
    check_file(&w, doc, CONTENT_SMALL_MAX_BYTES);
    CHECK_EQ(write_at(&w, doc, flat, 1, CONTENT_SMALL_MAX_BYTES), 1);
    CHECK(doc->content && !doc->data);
    CHECK_EQ(w.tree->budget.used_pages, CONTENT_SMALL_MAX_BYTES / PAGE + 1);
    check_file(&w, doc, CONTENT_SMALL_MAX_BYTES + 1);
    CHECK_EQ(truncate_to(&w, doc, 0), 0);
    CHECK(!doc->content);
    CHECK_EQ(w.tree->budget.used_pages, 0);
    CHECK_EQ(truncate_to(&w, doc, 100), 0); /* starts over as a small one */
    CHECK(!doc->content && doc->data);

    /* The last page may be a hole, until something is written to it. */
    CHECK_EQ(document_pages(doc), 0);
    tree_lock(w.tree);
    CHECK_EQ(file_seek(w.tree, doc, 10, SEEK_DATA, &off), -ENXIO);
    CHECK_EQ(file_seek(w.tree, doc, 10, SEEK_HOLE, &off), 0);
    CHECK_EQ(off, 10);
    tree_unlock(w.tree);
    CHECK_EQ(write_at(&w, doc, flat, 1, 50), 1);
    CHECK_EQ(w.tree->budget.used_pages, 1);
    CHECK_EQ(truncate_to(&w, doc, PAGE + 1), 0);
    CHECK_EQ(document_pages(doc), 1);
    CHECK_EQ(truncate_to(&w, doc, PAGE + 9), 0);
    CHECK(!doc->content);
    CHECK_EQ(document_pages(doc), 1);
    CHECK_EQ(allocate(&w, doc, 0, PAGE + 2, 1), 0);
    CHECK_EQ(document_pages(doc), 2);
    CHECK_EQ(truncate_to(&w, doc, 100), 0);
    CHECK_EQ(w.tree->budget.used_pages, 1);

    /* A hole makes it sparse at once. */
    CHECK_EQ(truncate_to(&w, doc, (uint64_t) 1 << 40), 0);
    CHECK(doc->content != NULL);
    CHECK_EQ(document_pages(doc), 1);
    tree_lock(w.tree);
    CHECK_EQ(file_seek(w.tree, doc, 0, SEEK_HOLE, &off), 0);
    CHECK_EQ(off, PAGE);
    CHECK_EQ(file_seek(w.tree, doc, PAGE, SEEK_DATA, &off), -ENXIO);
    CHECK_EQ(file_seek(w.tree, doc, -1, SEEK_DATA, &off), -ENXIO);
    CHECK_EQ(file_seek(w.tree, doc, 0, SEEK_CUR, &off), -EINVAL);
    tree_unlock(w.tree);
    CHECK_EQ(write_at(&w, doc, "x", 1, INT64_MAX), -EFBIG);
    CHECK_EQ(truncate_to(&w, doc, (uint64_t) INT64_MAX + 1), -EFBIG);
    CHECK_EQ(allocate(&w, doc, 0, INT64_MAX, 2), -EFBIG);
    CHECK_EQ(allocate(&w, doc, 0, 0, 0), -EINVAL);
    CHECK_EQ(allocate(&w, doc, FALLOC_FL_PUNCH_HOLE, 0, 1), -EOPNOTSUPP);
    CHECK_EQ(allocate(&w, doc, FALLOC_FL_COLLAPSE_RANGE, 0, PAGE), -EOPNOTSUPP);
    CHECK_EQ(doc->size, (uint64_t) 1 << 40);
    close_file(&w, doc);
    world_close(&w);
}

/* Small contents that are durable leave memory with their last descriptor and come back. */
static void test_cold(void)
{
    struct scratch scratch = scratch_make();
    struct world w;
    unsigned char *copy;
    size_t len;
    world_open(&w, scratch.path);
    struct document *doc = world_file(&w, w.tree->root, "f", "hello", T0)->doc;
    CHECK(doc->data && !(doc->flags & DOCUMENT_COLD));
    CHECK_EQ(world_commit(&w), 0);
    CHECK(!doc->data && doc->flags & DOCUMENT_COLD);
    CHECK_EQ(document_pages(doc), 1);
    tree_lock(w.tree);
    CHECK_EQ(file_copy_content(w.tree, doc, 100, &copy, &len), 0);
    CHECK(len == 5 && memcmp(copy, "hello", 5) == 0);
    free(copy);
    CHECK(doc->flags & DOCUMENT_COLD);
    tree_unlock(w.tree);
    open_file(&w, doc);
    CHECK(doc->data && !(doc->flags & DOCUMENT_COLD));
    CHECK_EQ(world_commit(&w), 0);
    CHECK(doc->data != NULL); /* open */
    CHECK_EQ(write_at(&w, doc, "J", 1, 0), 1);
    close_file(&w, doc);
    CHECK(doc->data != NULL); /* not durable yet */
    CHECK_EQ(world_commit(&w), 0);
    CHECK(!doc->data);
    /* Unlinked while it is open: it stays readable though its record goes. */
    open_file(&w, doc);
    world_unlink(&w, doc->links, T0);
    CHECK_EQ(world_commit(&w), 0);
    memcpy(flat, "Jello", 5);
    check_file(&w, doc, 5);
    close_file(&w, doc);
    world_close(&w);
    scratch_remove(&scratch);
}

/* What did not fit leaves no trace: not in the size, and not behind the end. */
static void no_space(const char *path)
{
    struct world w;
    world_open(&w, path);
    w.tree->budget.max_pages = 20;
    struct document *doc = new_file(&w, "f"), *other = new_file(&w, "g");
    open_file(&w, doc);
    open_file(&w, other);
    memset(flat, 'y', sizeof flat);
    CHECK_EQ(write_at(&w, other, flat, (size_t) 5 * PAGE, 0), 5 * PAGE);
    CHECK_EQ(write_at(&w, doc, flat, (size_t) 5 * PAGE, 0), 5 * PAGE);
    ssize_t n = write_at(&w, doc, flat, (size_t) 20 * PAGE, (uint64_t) 5 * PAGE);
    CHECK(n == -ENOSPC || (n > 0 && n < 20 * PAGE)); /* short writes are good, too */
    uint64_t size = 5 * PAGE + (n > 0 ? (uint64_t) n : 0);
    check_file(&w, doc, size);
    CHECK(w.tree->budget.used_pages <= 20);
    CHECK_EQ(truncate_to(&w, other, 0), 0);
    w.tree->budget.max_pages = 0;
    CHECK_EQ(truncate_to(&w, doc, FLAT_BYTES), 0);
    memset(flat + size, 0, FLAT_BYTES - size);
    check_file(&w, doc, FLAT_BYTES);
    close_file(&w, doc);
    close_file(&w, other);
    world_close(&w);
}

static void test_no_space(void)
{
    struct scratch scratch = scratch_make();
    no_space(NULL);
    no_space(scratch.path);
    scratch_remove(&scratch);
}

int main(void)
{
    RUN(test_transitions);
    RUN(test_random_in_memory);
    RUN(test_random_in_a_store);
    RUN(test_cold);
    RUN(test_no_space);
    return unit_report();
}
