/*
 * test_journal.c - what was committed comes back, and nothing else: trees on a real store.
 */
#include "core/record.h"
#include "tests/unit/scratch.h"
#include "tests/unit/unit.h"
#include "tests/unit/world.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

static unsigned char large[200000];

static void fill_large(void)
{
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (unsigned char) (i * 7 + i / 251);
}

/* Commits, closes, opens again, and compares. */
static void check_reload(struct world *w, const char *path)
{
    CHECK_EQ(world_commit(w), 0);
    char *before = world_dump(w);
    world_close(w);
    world_open(w, path);
    char *after = world_dump(w);
    CHECK_STR(after, before);
    free(before);
    free(after);
}

static int count_record(
    void *arg, const void *key, size_t key_len, const void *value, size_t value_len)
{
    (void) key;
    (void) key_len;
    (void) value;
    (void) value_len;
    ++*(int *) arg;
    return 0;
}

static int records(struct world *w, enum store_table table)
{
    int n = 0;
    CHECK_EQ(store_scan(w->store, table, count_record, &n), 0);
    return n;
}

/* The mode that the store has for a document; -1 when it has no record. */
static int64_t stored_mode(struct world *w, uint64_t ino)
{
    unsigned char key[RECORD_INO_BYTES];
    void *value;
    size_t len;
    struct document doc = {0};
    struct record_place place = {0};
    uint64_t blob;
    int64_t pages;
    record_ino_key(ino, key);
    if (store_get(w->store, STORE_NODES, key, sizeof key, &value, &len) != 0)
        return -1;
    CHECK_EQ(record_decode(value, len, &doc, &place, &blob, &pages), 0);
    document_xattrs_release(&doc);
    free(doc.data);
    free(value);
    return doc.mode & 07777;
}

static void change_mode(struct world *w, struct document *doc, uint32_t mode)
{
    CHECK_EQ(journal_will_change(w->tree, doc), 0);
    doc->mode = (doc->mode & S_IFMT) | mode;
}

static void link_also(struct world *w, struct document *doc, struct collection *c, const char *name)
{
    struct dentry *d;
    tree_lock(w->tree);
    CHECK_EQ(tree_link(w->tree, doc, c, name, strlen(name), world_time(T0 + 7), &d), 0);
    tree_unlock(w->tree);
}

/* A bit of everything. */
static void build(struct world *w)
{
    struct collection *root = w->tree->root;
    struct collection *a = world_mkdir(w, root, "a"), *b = world_mkdir(w, a, "b");
    world_file(w, root, "empty", "", T0 + 1);
    world_file(w, a, "small", "{\"ttl\":5,\"at\":{\"$date\":\"2026-02-01T00:00:00Z\"}}", T0 + 2);
    struct dentry *d = world_file(w, b, "large", NULL, T0 + 3);
    world_write(w, d->doc, large, sizeof large, 0, T0 + 4, true);
    d = world_file(w, b, "sparse", NULL, T0 + 5);
    world_write(w, d->doc, "end", 3, 1000000, T0 + 6, false);
    d = world_file(w, a, "named twice", "hard", T0);
    link_also(w, d->doc, b, "other name");
    d = world_file(w, a, "named three times", "links", T0);
    link_also(w, d->doc, a, "second");
    link_also(w, d->doc, root, "third");
    world_make(w, b, "link", S_IFLNK | 0777, "some/where else", T0);
    world_make(w, b, "fifo", S_IFIFO | 0600, NULL, T0);
    world_make(w, b, "socket", S_IFSOCK | 0600, NULL, T0);
    d = world_make(w, b, "device", S_IFCHR | 0600, NULL, T0);
    tree_lock(w->tree);
    CHECK_EQ(journal_will_change(w->tree, d->doc), 0);
    d->doc->rdev = 0x1234567;
    d->doc->uid = UINT32_MAX - 1;
    d->doc->gid = 77;
    document_set_mtime(d->doc, (struct timespec){-5, 999999999});
    document_xattr_put(d->doc, xattr_new("user.bytes", "\0\1\377", 3));
    document_xattr_put(d->doc, xattr_new("user.none", "", 0));
    change_mode(w, d->doc, 06644);
    tree_unlock(w->tree);
    char longest[DOCUMENT_NAME_MAX_BYTES + 1];
    memset(longest, 0xff, sizeof longest);
    longest[DOCUMENT_NAME_MAX_BYTES] = '\0';
    d = world_file(w, b, longest, "x", T0);
    link_also(w, d->doc, a, longest);
    CHECK_EQ(world_rule(w, &a->doc, "user.ttl.index._ts", "3600", T0), 0);
    CHECK_EQ(world_rule(w, &a->doc, "user.ttl.index.at", "60", T0), 0);
    CHECK_EQ(world_rule(w, &b->doc, "user.ttl.idle", "7d", T0), 0);
    CHECK_EQ(world_rule(w, &b->doc, "user.ttl.index.at", "off", T0), 0);
    CHECK_EQ(world_rule(w, &b->doc, "user.ttl.refresh", "extend", T0), 0);
    CHECK_EQ(world_rule(w, &root->doc, "user.ttl.max", "400d", T0), 0);
    d = world_find(w, b, "sparse");
    CHECK_EQ(world_rule(w, d->doc, "user.ttl.expireAt", "+2w", T0), 0);
    CHECK_EQ(world_rule(w, d->doc, "user.doc.at", "{\"$date\":\"2026-03-01T00:00:00Z\"}", T0), 0);
    CHECK_EQ(world_rule(w, world_find(w, b, "large")->doc, "user.ttl.hold", "yes", T0), 0);
}

static void test_everything_comes_back(void)
{
    struct scratch scratch = scratch_make();
    struct world w;
    world_open(&w, scratch.path);
    build(&w);
    check_reload(&w, scratch.path);
    struct dentry *twice =
        world_find(&w, document_collection(world_find(&w, w.tree->root, "a")->doc), "named twice");
    CHECK(twice && twice->doc->nlink == 2);
    /* Nothing changed: nothing to write, and a second load is the same. */
    uint64_t epoch = 9;
    CHECK_EQ(journal_commit(w.tree, &epoch, NULL), 0);
    CHECK_EQ(epoch, 0);
    check_reload(&w, scratch.path);
    world_close(&w);
    scratch_remove(&scratch);
}

/* Contents change between small, large and empty; names move; links come and go. */
static void test_changes_come_back(void)
{
    struct scratch scratch = scratch_make();
    struct world w;
    struct dentry *d, *e;
    world_open(&w, scratch.path);
    build(&w);
    check_reload(&w, scratch.path);
    struct collection *root = w.tree->root;
    struct collection *a = document_collection(world_find(&w, root, "a")->doc);
    struct collection *b = document_collection(world_find(&w, a, "b")->doc);

    world_write(&w, world_find(&w, a, "small")->doc, large, sizeof large, 10, T0 + 50, false);
    struct document *was_large = world_find(&w, b, "large")->doc;
    tree_lock(w.tree);
    CHECK_EQ(file_open(w.tree, was_large), 0);
    CHECK_EQ(file_truncate(w.tree, was_large, 0), 0);
    document_unpin(w.tree, was_large);
    CHECK_EQ(tree_unlink(w.tree, tree_find(w.tree, b, "other name", 10), world_time(T0 + 51)), 0);
    d = tree_find(w.tree, b, "sparse", 6);
    CHECK_EQ(tree_move(w.tree, d, root, "moved", 5, world_time(T0 + 52), &d), 0);
    d = tree_find(w.tree, a, "b", 1);
    CHECK_EQ(tree_move(w.tree, d, root, "b moved", 7, world_time(T0 + 53), &d), 0);
    w.ttl.generation++; /* as a rename of a collection does */
    CHECK_EQ(filing_rebuild(&w.ttl, b, T0 + 53), 0);
    d = tree_find(w.tree, root, "third", 5);
    e = tree_find(w.tree, b, "fifo", 4);
    CHECK_EQ(tree_exchange(w.tree, d, e, world_time(T0 + 54)), 0);
    d = tree_find(w.tree, b, "device", 6);
    CHECK_EQ(journal_will_change(w.tree, d->doc), 0);
    CHECK(document_xattr_remove(d->doc, "user.bytes"));
    CHECK_EQ(tree_unlink(w.tree, tree_find(w.tree, b, "link", 4), world_time(T0 + 55)), 0);
    tree_unlock(w.tree);
    check_reload(&w, scratch.path);

    /* The names of what has one name again are in its record only: all links are those of three. */
    CHECK_EQ(records(&w, STORE_LINKS), 3 + 2);
    CHECK_EQ(records(&w, STORE_NODES), (int) w.tree->ndocuments);
    world_close(&w);
    scratch_remove(&scratch);
}

static void test_short_lived(void)
{
    struct scratch scratch = scratch_make();
    struct world w;
    world_open(&w, scratch.path);
    world_file(&w, w.tree->root, "stays", "1", T0);
    CHECK_EQ(world_commit(&w), 0);
    int nodes = records(&w, STORE_NODES), contents = records(&w, STORE_CONTENTS);
    uint64_t first = w.tree->next_ino;
    for (int i = 0; i < 50; i++) {
        struct dentry *d = world_file(&w, w.tree->root, "goes", "bytes", T0);
        if (i % 2)
            link_also(&w, d->doc, w.tree->root, "second name");
        if (i % 2)
            world_unlink(&w, world_find(&w, w.tree->root, "second name"), T0);
        world_unlink(&w, d, T0);
    }
    CHECK_EQ(world_commit(&w), 0);
    CHECK_EQ(records(&w, STORE_NODES), nodes);
    CHECK_EQ(records(&w, STORE_CONTENTS), contents);
    CHECK_EQ(records(&w, STORE_LINKS), 0);
    CHECK_EQ(stored_mode(&w, first), -1);
    check_reload(&w, scratch.path);
    world_close(&w);
    scratch_remove(&scratch);
}

enum { BATCH_DOCS = 6000 };

struct committing {
    struct world *w;
    atomic_bool started, done;
    int err;
};

static void *commit_thread(void *arg)
{
    struct committing *c = arg;
    atomic_store(&c->started, true);
    c->err = world_commit(c->w);
    atomic_store(&c->done, true);
    return NULL;
}

/* What changes while a batch is on its way is not in it, however far its encoding has come. */
static void test_changes_during_a_commit(void)
{
    struct scratch scratch = scratch_make();
    struct world w;
    static struct dentry *names[BATCH_DOCS];
    char name[32];
    int caught = 0, half_way = 0;
    world_open(&w, scratch.path);
    for (int i = 0; i < BATCH_DOCS; i++) {
        (void) snprintf(name, sizeof name, "%d", i);
        names[i] = world_make(&w, w.tree->root, name, S_IFREG | 0600, NULL, T0);
    }
    struct committing c = {.w = &w};
    pthread_t thread;
    world_must(pthread_create(&thread, NULL, commit_thread, &c) == 0, "pthread_create");
    while (!caught && !atomic_load(&c.done)) {
        tree_lock(w.tree);
        if (w.tree->journal.committing) {
            half_way = w.tree->journal.encoded < BATCH_DOCS;
            for (int i = 0; i < BATCH_DOCS; i += 500)
                change_mode(&w, names[i]->doc, 0777);
            for (int i = 1; i < BATCH_DOCS; i += 500)
                CHECK_EQ(tree_unlink(w.tree, names[i], world_time(T0)), 0);
            caught = (int) w.tree->journal.committing;
        }
        tree_unlock(w.tree);
        sched_yield();
    }
    /* As long as the commit is running the batch is the state before the changes. */
    pthread_join(thread, NULL);
    CHECK_EQ(c.err, 0);
    CHECK(caught);
    if (!half_way)
        fprintf(stderr, "note: the commit had encoded all when it was caught\n");
    for (int i = 0; i < BATCH_DOCS && caught; i += 500) {
        CHECK_EQ(stored_mode(&w, names[i]->doc->ino), 0600);
        CHECK_EQ(stored_mode(&w, names[i]->doc->ino + 1), 0600);
    }
    CHECK_EQ(world_commit(&w), 0);
    for (int i = 0; i < BATCH_DOCS; i += 500) {
        CHECK_EQ(stored_mode(&w, names[i]->doc->ino), 0777);
        CHECK_EQ(stored_mode(&w, names[i]->doc->ino + 1), -1);
    }
    check_reload(&w, scratch.path);
    world_close(&w);
    scratch_remove(&scratch);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    world_must(getrlimit(RLIMIT_FSIZE, &limit) == 0, "getrlimit");
    limit.rlim_cur = bytes;
    world_must(setrlimit(RLIMIT_FSIZE, &limit) == 0, "setrlimit");
}

/* A batch that cannot be written is kept and written later, with what was added meanwhile. */
static void test_failing_commits(void)
{
    struct scratch scratch = scratch_make();
    struct world w;
    char name[32], text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    world_open(&w, scratch.path);
    struct dentry *old = world_file(&w, w.tree->root, "old", "before", T0);
    CHECK_EQ(world_commit(&w), 0);
    signal(SIGXFSZ, SIG_IGN);
    limit_files(65536);
    for (int i = 0; i < 300; i++) {
        (void) snprintf(name, sizeof name, "%d", i);
        world_file(&w, w.tree->root, name, text, T0);
    }
    CHECK(world_commit(&w) < 0);
    CHECK(w.tree->journal.committing);
    /* Changes go on; what was evicted or handed over can be read all the same. */
    world_unlink(&w, world_find(&w, w.tree->root, "7"), T0);
    tree_lock(w.tree);
    change_mode(&w, old->doc, 0604);
    change_mode(&w, tree_find(w.tree, w.tree->root, "8", 1)->doc, 0605);
    tree_unlock(w.tree);
    world_file(&w, w.tree->root, "late", "added", T0);
    CHECK(world_commit(&w) < 0);
    char *before = world_dump(&w);
    limit_files(RLIM_INFINITY);
    CHECK_EQ(world_commit(&w), 0);
    CHECK_EQ(stored_mode(&w, old->doc->ino), 0644);
    CHECK_EQ(world_commit(&w), 0);
    CHECK_EQ(stored_mode(&w, old->doc->ino), 0604);
    char *after = world_dump(&w);
    CHECK_STR(after, before);
    free(before);
    free(after);
    check_reload(&w, scratch.path);
    CHECK(!world_find(&w, w.tree->root, "7"));
    CHECK(world_find(&w, w.tree->root, "late") != NULL);
    world_close(&w);
    scratch_remove(&scratch);
}

/* An O_TMPFILE is nobody's until it has a name; then its content goes with it. */
static void test_late_names(void)
{
    struct scratch scratch = scratch_make();
    struct world w;
    struct document_seed seed = {.mode = S_IFREG | 0600, .now = world_time(T0)};
    struct document *docs[2];
    struct dentry *d;
    world_open(&w, scratch.path);
    tree_lock(w.tree);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(tree_make(w.tree, &seed, &docs[i]), 0);
        CHECK_EQ(file_write(w.tree, docs[i], large, i ? sizeof large : 100, 0),
            i ? (ssize_t) sizeof large : 100);
    }
    tree_unlock(w.tree);
    CHECK_EQ(world_commit(&w), 0);
    CHECK_EQ(stored_mode(&w, docs[0]->ino), -1);
    CHECK_EQ(records(&w, STORE_CONTENTS), 0);
    tree_lock(w.tree);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(tree_link(w.tree, docs[i], w.tree->root, i ? "l" : "s", 1, seed.now, &d), 0);
        document_unpin(w.tree, docs[i]);
    }
    tree_unlock(w.tree);
    check_reload(&w, scratch.path);
    CHECK_EQ(world_find(&w, w.tree->root, "l")->doc->size, sizeof large);
    world_close(&w);
    scratch_remove(&scratch);
}

int main(void)
{
    fill_large();
    RUN(test_everything_comes_back);
    RUN(test_changes_come_back);
    RUN(test_short_lived);
    RUN(test_changes_during_a_commit);
    RUN(test_failing_commits);
    RUN(test_late_names);
    return unit_report();
}
