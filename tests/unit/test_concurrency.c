/*
 * test_concurrency.c - everything at once, as a mount does it: workers that make, write, move and
 * remove documents, the monitor, and the committer. For ThreadSanitizer above all.
 * `test_concurrency SECONDS [SEED]` runs longer, or again.
 */
#include "tests/unit/scratch.h"
#include "tests/unit/unit.h"
#include "tests/unit/world.h"
#include "tests/unit/world_check.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

enum { WORKERS = 4, DIRS = 4, NAMES = 60, LARGE_BYTES = 40000 };

static unsigned int run_seconds = 2;
static uint64_t first_seed = 1;

struct shared {
    struct world w;
    struct collection *dirs[DIRS];
    atomic_bool stop;
    atomic_uint commits, passes;
    atomic_uint_least64_t deleted;
};

struct worker {
    struct shared *s;
    uint64_t number, random;
    uint64_t operations, made, removed, moved;
    unsigned char bytes[LARGE_BYTES];
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return timespec_ms(t);
}

static uint64_t pick(struct worker *k, uint64_t n)
{
    k->random ^= k->random << 13;
    k->random ^= k->random >> 7;
    k->random ^= k->random << 17;
    return k->random % n;
}

/* A directory and a name in it. */
static struct dentry *pick_name(struct worker *k, struct collection **ret_dir, char *ret_name)
{
    *ret_dir = k->s->dirs[pick(k, DIRS)];
    (void) snprintf(ret_name, 16, "%d", (int) pick(k, NAMES));
    return tree_find(k->s->w.tree, *ret_dir, ret_name, strlen(ret_name));
}

/* Looks at the fields of a document that is pinned and has a new content or a new place. */
static void look(struct worker *k, struct document *doc)
{
    struct ttl *ttl = &k->s->w.ttl;
    if (filing_wants_fields(ttl, doc))
        CHECK(filing_look(ttl, doc, now_ms()) >= 0);
}

/* Writes into a document that only this worker writes to, as the kernel sees to. Lets go. */
static void write_some(struct worker *k, struct document *doc, bool creator)
{
    struct world *w = &k->s->w;
    size_t len = pick(k, 4) ? pick(k, 600) + 1 : LARGE_BYTES;
    uint64_t off = pick(k, 3) ? 0 : pick(k, 30000);
    int n =
        snprintf((char *) k->bytes, sizeof k->bytes, "{\"ttl\":%d,\"at\":{\"$date\":%" PRId64 "}}",
            (int) pick(k, 3), now_ms() + (int64_t) pick(k, 50));
    memset(k->bytes + n, ' ', sizeof k->bytes - (size_t) n);
    if (pick(k, 5) == 0)
        CHECK_EQ(file_truncate(w->tree, doc, pick(k, 2) ? 0 : 20000), 0);
    CHECK_EQ(file_write(w->tree, doc, k->bytes, len, off), (ssize_t) len);
    filing_written(&w->ttl, doc, now_ms(), creator);
    look(k, doc);
}

static void make(struct worker *k)
{
    struct world *w = &k->s->w;
    struct collection *dir;
    char name[16];
    struct dentry *d = pick_name(k, &dir, name);
    struct document *doc;
    struct document_seed seed = {.mode = S_IFREG | 0600, .now = world_time(now_ms())};
    if (d && ttl_hidden(&w->ttl, d, now_ms())) {
        CHECK_EQ(monitor_expire(&w->ttl, d, seed.now, NULL), 0);
    } else if (d) {
        return;
    }
    CHECK_EQ(tree_make(w->tree, &seed, &doc), 0);
    CHECK_EQ(tree_link(w->tree, doc, dir, name, strlen(name), seed.now, &d), 0);
    k->made++;
    if (doc->ino % WORKERS == k->number)
        write_some(k, doc, true);
    document_unpin(w->tree, doc);
}

/* Opens, reads all of it, perhaps writes, closes. */
static void use(struct worker *k)
{
    struct world *w = &k->s->w;
    struct collection *dir;
    char name[16];
    struct dentry *d = pick_name(k, &dir, name);
    if (!d || ttl_hidden(&w->ttl, d, now_ms()))
        return;
    struct document *doc = d->doc;
    filing_accessed(&w->ttl, doc, now_ms(), false);
    if (!S_ISREG(doc->mode))
        return;
    int err = file_open(w->tree, doc);
    CHECK(err == 0 || err == -ENOENT);
    if (err)
        return;
    CHECK(file_read(w->tree, doc, k->bytes, sizeof k->bytes, 0) >= 0);
    if (doc->ino % WORKERS == k->number)
        write_some(k, doc, false);
    document_unpin(w->tree, doc);
}

static void remove_name(struct worker *k)
{
    struct world *w = &k->s->w;
    struct collection *dir;
    char name[16];
    struct dentry *d = pick_name(k, &dir, name);
    if (!d)
        return;
    CHECK_EQ(tree_unlink(w->tree, d, world_time(now_ms())), 0);
    k->removed++;
}

/* Moves a name, gives it a second one, or exchanges two. */
static void move(struct worker *k)
{
    struct world *w = &k->s->w;
    struct collection *from, *to;
    char name[16], target[16];
    struct dentry *d = pick_name(k, &from, name), *e = pick_name(k, &to, target);
    struct timespec now = world_time(now_ms());
    if (!d || d == e)
        return;
    struct document *doc = d->doc, *other = e ? e->doc : NULL;
    document_pin(doc);
    if (other)
        document_pin(other);
    if (other && other != doc) {
        CHECK_EQ(tree_exchange(w->tree, d, e, now), 0);
    } else if (!other && pick(k, 3) == 0) {
        CHECK_EQ(tree_link(w->tree, doc, to, target, strlen(target), now, &e), 0);
    } else if (!other) {
        CHECK_EQ(tree_move(w->tree, d, to, target, strlen(target), now, &e), 0);
    }
    k->moved++;
    look(k, doc);
    if (other) {
        look(k, other);
        document_unpin(w->tree, other);
    }
    document_unpin(w->tree, doc);
}

/* Rules change, too. */
static void change_rule(struct worker *k)
{
    struct world *w = &k->s->w;
    struct collection *dir = k->s->dirs[pick(k, DIRS - 1)];
    bool forward;
    const char *values[] = {"5ms", "40ms", "1", "off"};
    const char *value = values[pick(k, 4)];
    int err = rules_set(
        &w->ttl, &dir->doc, "user.ttl.idle", value, strlen(value), 0, now_ms(), &forward, NULL);
    CHECK_EQ(err, 0);
}

static void *work(void *arg)
{
    struct worker *k = arg;
    struct tree *tree = k->s->w.tree;
    while (!atomic_load(&k->s->stop)) {
        uint64_t what = pick(k, 100);
        tree_lock(tree);
        if (what < 30)
            make(k);
        else if (what < 60)
            use(k);
        else if (what < 75)
            remove_name(k);
        else if (what < 99)
            move(k);
        else if (k->number == 0)
            change_rule(k);
        tree_unlock(tree);
        k->operations++;
    }
    return NULL;
}

static void *commit_loop(void *arg)
{
    struct shared *s = arg;
    while (!atomic_load(&s->stop)) {
        CHECK_EQ(world_commit(&s->w), 0);
        atomic_fetch_add(&s->commits, 1);
    }
    return NULL;
}

static int64_t hook_ms(void *arg)
{
    (void) arg;
    return now_ms();
}

static uint64_t run_pass(struct shared *s)
{
    struct monitor_pass pass = {0};
    struct monitor_hooks hooks = {.arg = s, .clock_ms = hook_ms, .monotonic_ms = hook_ms};
    monitor_pass(&s->w.ttl, &hooks, &pass);
    CHECK_EQ(pass.errors, 0);
    return pass.deleted_documents;
}

static void *monitor_loop(void *arg)
{
    struct shared *s = arg;
    while (!atomic_load(&s->stop)) {
        atomic_fetch_add(&s->deleted, run_pass(s));
        atomic_fetch_add(&s->passes, 1);
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return NULL;
}

static void set_up(struct shared *s, const char *path)
{
    static const char *const rules[DIRS][2] = {{"user.ttl.index._ts", "1"},
        {"user.ttl.idle", "20ms"}, {"user.ttl.index.at", "0"}, {"user.ttl.max", "30ms"}};
    memset(s, 0, sizeof *s);
    world_open(&s->w, path);
    s->w.ttl.params.delete_target_docs = 20;
    for (int i = 0; i < DIRS; i++) {
        char name[16];
        (void) snprintf(name, sizeof name, "dir%d", i);
        s->dirs[i] = world_mkdir(&s->w, s->w.tree->root, name);
        CHECK_EQ(world_rule(&s->w, &s->dirs[i]->doc, rules[i][0], rules[i][1], T0), 0);
    }
    CHECK_EQ(
        world_rule(&s->w, &s->dirs[DIRS - 1]->doc, "user.ttl.visibility", "until-deleted", T0), 0);
}

/* Nothing is lost, nothing is left over, and the store has it all. */
static void check_end(struct shared *s, const char *path)
{
    run_pass(s);
    CHECK_EQ(world_check(&s->w), 0);
    CHECK_EQ(s->w.tree->orphans.count, 0);
    CHECK_EQ(world_commit(&s->w), 0);
    CHECK(!journal_pending(&s->w.tree->journal));
    char *before = world_dump(&s->w);
    world_close(&s->w);
    world_open(&s->w, path);
    char *after = world_dump(&s->w);
    CHECK_STR(after, before);
    CHECK_EQ(world_check(&s->w), 0);
    free(before);
    free(after);
}

static void test_everything_at_once(void)
{
    struct scratch scratch = scratch_make();
    static struct shared s;
    static struct worker workers[WORKERS];
    pthread_t threads[WORKERS + 2];
    uint64_t operations = 0, moved = 0;
    set_up(&s, scratch.path);
    for (unsigned int i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){
            .s = &s, .number = i, .random = (first_seed + i) * UINT64_C(0x9e3779b97f4a7c15)};
        world_must(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "pthread_create");
    }
    world_must(pthread_create(&threads[WORKERS], NULL, commit_loop, &s) == 0, "pthread_create");
    world_must(
        pthread_create(&threads[WORKERS + 1], NULL, monitor_loop, &s) == 0, "pthread_create");
    nanosleep(&(struct timespec){.tv_sec = (time_t) run_seconds}, NULL);
    atomic_store(&s.stop, true);
    for (unsigned int i = 0; i < WORKERS + 2; i++)
        pthread_join(threads[i], NULL);
    for (unsigned int i = 0; i < WORKERS; i++) {
        operations += workers[i].operations;
        moved += workers[i].moved;
    }
    printf("%" PRIu64 " operations, %" PRIu64 " moves, %u commits, %u passes, %" PRIu64
           " documents expired\n",
        operations, moved, atomic_load(&s.commits), atomic_load(&s.passes),
        (uint64_t) atomic_load(&s.deleted));
    CHECK(operations > 0 && atomic_load(&s.commits) > 0 && atomic_load(&s.passes) > 0);
    check_end(&s, scratch.path);
    world_close(&s.w);
    scratch_remove(&scratch);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        run_seconds = (unsigned int) strtoul(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = strtoull(argv[2], NULL, 10);
    RUN(test_everything_at_once);
    return unit_report();
}
