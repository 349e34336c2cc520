/*
 * test_monitor.c - passes, sub-passes and visits under a clock of our own.
 */
#include "tests/unit/unit.h"
#include "tests/unit/world.h"

#include <errno.h>

enum { MAX_LOG = 64 };

/* What a pass finds around it. */
struct clockwork {
    struct world w;
    int64_t now_ms, monotonic_ms;
    int64_t tick_ms;      /* monotonic: what each look at the clock costs */
    bool watch_all;       /* every name is watched */
    bool refuse;          /* the remove hook removes nothing */
    int64_t clock_moves;  /* the remove hook moves the clock by this much */
    unsigned int stop_at; /* stop when asked for the n-th time; 0: never */
    unsigned int asked;   /* for stop */
    unsigned int slices;
    uint64_t removals[MAX_LOG];
    unsigned int nremovals;
    char order[MAX_LOG]; /* first letters of what was deleted directly, in order */
    unsigned int norder;
};

static int64_t hook_clock(void *arg)
{
    return ((struct clockwork *) arg)->now_ms;
}

static int64_t hook_monotonic(void *arg)
{
    struct clockwork *c = arg;
    return c->monotonic_ms += c->tick_ms;
}

static bool hook_watched(void *arg, struct dentry *d)
{
    (void) d;
    return ((struct clockwork *) arg)->watch_all;
}

static void hook_remove(void *arg, struct monitor_name *names, size_t n)
{
    struct clockwork *c = arg;
    if (c->nremovals < MAX_LOG)
        c->removals[c->nremovals++] = n;
    for (size_t i = 0; i < n && !c->refuse; i++) {
        tree_lock(c->w.tree);
        struct dentry *d = tree_find(
            c->w.tree, document_collection(names[i].parent), names[i].name, strlen(names[i].name));
        CHECK(d && ttl_expired(&c->w.ttl, d, c->now_ms));
        names[i].removed = d && monitor_expire(&c->w.ttl, d, world_time(c->now_ms), NULL) == 0;
        tree_unlock(c->w.tree);
    }
    c->now_ms += c->clock_moves;
}

static void hook_deleting(void *arg, struct dentry *d)
{
    struct clockwork *c = arg;
    if (c->norder < MAX_LOG)
        c->order[c->norder++] = d->name[0];
}

static void hook_slice(void *arg)
{
    ((struct clockwork *) arg)->slices++;
}

static bool hook_stop(void *arg)
{
    struct clockwork *c = arg;
    return c->stop_at && ++c->asked >= c->stop_at;
}

static void setup(struct clockwork *c)
{
    memset(c, 0, sizeof *c);
    c->now_ms = T0;
    world_open(&c->w, NULL);
}

static struct monitor_pass run_pass(struct clockwork *c)
{
    struct monitor_pass pass = {0};
    struct monitor_hooks hooks = {.arg = c,
        .clock_ms = hook_clock,
        .monotonic_ms = hook_monotonic,
        .watched = hook_watched,
        .remove = hook_remove,
        .deleting = hook_deleting,
        .slice_done = hook_slice,
        .stop = hook_stop};
    monitor_pass(&c->w.ttl, &hooks, &pass);
    CHECK(!pass.running);
    return pass;
}

static int64_t next_after(struct clockwork *c)
{
    tree_lock(c->w.tree);
    int64_t next_ms = monitor_next_ms(&c->w.ttl, c->now_ms);
    tree_unlock(c->w.tree);
    return next_ms;
}

/* n files, one second apart, in a directory whose files live for `rule` after their last change. */
static struct collection *folder(struct clockwork *c, const char *name, const char *rule, int n)
{
    char file[32];
    struct collection *dir = world_mkdir(&c->w, c->w.tree->root, name);
    CHECK_EQ(world_rule(&c->w, &dir->doc, "user.ttl.index._ts", rule, T0), 0);
    for (int i = 0; i < n; i++) {
        (void) snprintf(file, sizeof file, "%s%d", name, i);
        world_file(&c->w, dir, file, "", T0 + i * SECOND);
    }
    return dir;
}

static void test_nothing_due(void)
{
    struct clockwork c;
    setup(&c);
    struct monitor_pass pass = run_pass(&c);
    CHECK_EQ(pass.number, 1);
    CHECK_EQ(pass.deleted_documents, 0);
    CHECK_EQ(next_after(&c), T0 + 60 * SECOND);
    folder(&c, "a", "10", 3);
    CHECK_EQ(next_after(&c), T0 + 10 * SECOND);
    c.now_ms = T0 + 10 * SECOND - 1;
    CHECK_EQ(run_pass(&c).visits, 0);
    c.now_ms++;
    pass = run_pass(&c);
    CHECK_EQ(pass.deleted_documents, 1);
    CHECK_EQ(pass.deleted_keys, 1);
    CHECK_EQ(pass.visits, 1);
    CHECK_EQ(c.w.ttl.metrics.deleted_documents, 1);
    CHECK_EQ(next_after(&c), T0 + 11 * SECOND);
    c.w.ttl.params.wake_by_deadline = false;
    CHECK_EQ(next_after(&c), T0 + 70 * SECOND);
    world_close(&c.w);
}

/* Oldest first, ten per visit, in as many sub-passes as that takes. */
static void test_budget_by_count(void)
{
    struct clockwork c;
    setup(&c);
    struct collection *dir = folder(&c, "a", "10", 95);
    c.w.ttl.params.delete_target_docs = 10;
    c.now_ms = T0 + 1000 * SECOND;
    struct monitor_pass pass = run_pass(&c);
    CHECK_EQ(pass.deleted_documents, 95);
    CHECK_EQ(pass.visits, 10);
    CHECK_EQ(pass.sub_passes, 10);
    CHECK_EQ(dir->names.count, 0);
    CHECK(!pass.stopped);

    /* A count that comes out even needs no visit more. */
    folder(&c, "b", "10", 20);
    pass = run_pass(&c);
    CHECK_EQ(pass.deleted_documents, 20);
    CHECK_EQ(pass.visits, 2);
    c.w.ttl.params.delete_target_docs = 0;
    folder(&c, "c", "10", 3 * MONITOR_SLICE_DOCS);
    unsigned int slices = c.slices;
    pass = run_pass(&c);
    CHECK_EQ(pass.visits, 1);
    CHECK_EQ(c.slices - slices, 3);
    world_close(&c.w);
}

static void test_budget_by_time(void)
{
    struct clockwork c;
    setup(&c);
    folder(&c, "a", "10", 4 * MONITOR_SLICE_DOCS);
    c.now_ms = T0 + 10000 * SECOND;
    c.w.ttl.params.delete_target_ms = 100;
    c.tick_ms = 60; /* a slice takes 60 ms: two of them are over */
    struct monitor_pass pass = run_pass(&c);
    CHECK_EQ(pass.deleted_documents, 4 * MONITOR_SLICE_DOCS);
    CHECK(pass.visits >= 2 && pass.visits <= 4);
    CHECK_EQ(pass.visits, pass.sub_passes);
    CHECK(pass.took_ms > 0);
    world_close(&c.w);
}

/* Two indexes share each sub-pass, and one that ends early goes on with who waited longest. */
static void test_fairness(void)
{
    struct clockwork c;
    setup(&c);
    folder(&c, "a", "10", 6);
    folder(&c, "b", "10", 4);
    c.now_ms = T0 + 1000 * SECOND;
    c.w.ttl.params.delete_target_docs = 2;
    struct monitor_pass pass = run_pass(&c);
    CHECK_EQ(pass.sub_passes, 3);
    CHECK_EQ(pass.visits, 5);
    CHECK_EQ(c.norder, 10);
    for (unsigned int i = 0; i < 8; i += 4) /* two of the one, two of the other */
        CHECK(c.order[i] == c.order[i + 1] && c.order[i + 2] == c.order[i + 3] &&
              c.order[i] != c.order[i + 2]);

    folder(&c, "c", "10", 6);
    folder(&c, "d", "10", 4);
    c.w.ttl.params.sub_pass_target_s = 1;
    c.tick_ms = 1001; /* one visit per sub-pass */
    c.norder = 0;
    pass = run_pass(&c);
    CHECK_EQ(pass.visits, 5);
    CHECK_EQ(pass.sub_passes, 5);
    CHECK_EQ(c.norder, 10);
    for (unsigned int i = 0; i + 2 < 8; i += 2)
        CHECK(c.order[i] == c.order[i + 1] && c.order[i] != c.order[i + 2]);
    world_close(&c.w);
}

/* An access moves the deadline; the entry follows when the monitor meets it. */
static void test_postponed(void)
{
    struct clockwork c;
    setup(&c);
    struct collection *dir = world_mkdir(&c.w, c.w.tree->root, "a");
    CHECK_EQ(world_rule(&c.w, &dir->doc, "user.ttl.idle", "10", T0), 0);
    struct dentry *d = world_file(&c.w, dir, "f", "", T0);
    tree_lock(c.w.tree);
    filing_accessed(&c.w.ttl, d->doc, T0 + 9 * SECOND, false);
    tree_unlock(c.w.tree);
    CHECK_EQ(next_after(&c), T0 + 10 * SECOND);
    c.now_ms = T0 + 10 * SECOND;
    struct monitor_pass pass = run_pass(&c);
    CHECK_EQ(pass.deleted_documents, 0);
    CHECK_EQ(pass.errors, 0);
    CHECK_EQ(next_after(&c), T0 + 19 * SECOND);
    /* What is held waits without being met again, until the hold ends. */
    CHECK_EQ(world_rule(&c.w, d->doc, "user.ttl.hold", "yes", c.now_ms), 0);
    c.now_ms = T0 + 20 * SECOND;
    CHECK_EQ(run_pass(&c).deleted_documents, 0);
    CHECK_EQ(next_after(&c), c.now_ms + 60 * SECOND);
    CHECK_EQ(world_rule(&c.w, d->doc, "user.ttl.hold", "no", c.now_ms), 0);
    CHECK(next_after(&c) <= c.now_ms);
    CHECK_EQ(run_pass(&c).deleted_documents, 1);
    world_close(&c.w);
}

/* What was deleted by somebody else before its time must not keep the monitor awake. */
static void test_removed_before(void)
{
    struct clockwork c;
    setup(&c);
    struct collection *dir = folder(&c, "a", "10", 1);
    world_unlink(&c.w, world_find(&c.w, dir, "a0"), T0 + SECOND);
    c.now_ms = T0 + 10 * SECOND;
    CHECK_EQ(run_pass(&c).deleted_documents, 0);
    CHECK_EQ(next_after(&c), c.now_ms + 60 * SECOND);
    /* The same with another one left, which is due later. */
    world_file(&c.w, dir, "one", "", c.now_ms);
    world_file(&c.w, dir, "two", "", c.now_ms + 5 * SECOND);
    world_unlink(&c.w, world_find(&c.w, dir, "one"), c.now_ms);
    c.now_ms += 10 * SECOND;
    CHECK_EQ(run_pass(&c).deleted_documents, 0);
    CHECK_EQ(next_after(&c), c.now_ms + 5 * SECOND);
    world_close(&c.w);
}

/* Watched names go through the hook, in slices; what it does not remove is deleted directly. */
static void test_watched(void)
{
    struct clockwork c;
    setup(&c);
    c.watch_all = true;
    struct collection *dir = folder(&c, "a", "10", MONITOR_SLICE_DOCS + 5);
    c.now_ms = T0 + 1000 * SECOND;
    struct monitor_pass pass = run_pass(&c);
    CHECK_EQ(pass.deleted_documents, MONITOR_SLICE_DOCS + 5);
    CHECK_EQ(pass.errors, 0);
    CHECK_EQ(c.nremovals, 2);
    CHECK_EQ(c.removals[0], MONITOR_SLICE_DOCS);
    CHECK_EQ(c.removals[1], 5);
    CHECK_EQ(c.norder, 0);
    CHECK_EQ(dir->names.count, 0);
    CHECK_EQ(dir->doc.nopen, 0);

    c.refuse = true;
    dir = folder(&c, "b", "10", 7);
    pass = run_pass(&c);
    CHECK_EQ(pass.deleted_documents, 7);
    CHECK_EQ(c.norder, 7);
    CHECK_EQ(dir->names.count, 0);
    /* A name that was refused and is no longer expired then stays. */
    dir = folder(&c, "c", "2000", 1);
    c.now_ms = T0 + 2000 * SECOND;
    c.clock_moves = -5 * SECOND; /* the clock is put back while the hook runs */
    CHECK_EQ(run_pass(&c).deleted_documents, 0);
    CHECK_EQ(dir->names.count, 1);
    world_close(&c.w);
}

/* A journal that can take nothing more: every deletion fails. */
static void fill_journal(struct tree *tree)
{
    tree->journal.enabled = true;
    tree->journal.lists[0].n = tree->journal.lists[0].cap = SIZE_MAX / 32;
}

static void empty_journal(struct tree *tree)
{
    tree->journal.enabled = false;
    tree->journal.lists[0].n = tree->journal.lists[0].cap = 0;
}

/* What cannot be deleted is counted once per pass, holds nobody up, and is tried again later. */
static void failing(bool watched)
{
    struct clockwork c;
    setup(&c);
    c.watch_all = watched;
    c.refuse = true;
    struct collection *dir = folder(&c, "a", "10", 5);
    folder(&c, "later", "2000", 1);
    c.w.ttl.params.delete_target_docs = 2;
    c.now_ms = T0 + 1000 * SECOND;
    fill_journal(c.w.tree);
    struct monitor_pass pass = run_pass(&c);
    CHECK_EQ(pass.deleted_documents, 0);
    CHECK_EQ(pass.errors, 5);
    CHECK_EQ(c.w.ttl.metrics.errors, 5);
    CHECK_EQ(dir->names.count, 5);
    CHECK_EQ(next_after(&c), c.now_ms + 60 * SECOND);
    empty_journal(c.w.tree);
    c.now_ms += 59 * SECOND;
    CHECK_EQ(run_pass(&c).visits, 0);
    c.now_ms += SECOND;
    pass = run_pass(&c);
    CHECK_EQ(pass.deleted_documents, 5);
    CHECK_EQ(pass.errors, 0);
    CHECK_EQ(next_after(&c), c.now_ms + 60 * SECOND);
    world_close(&c.w);
}

static void test_failing(void)
{
    failing(false);
    failing(true);
}

static void test_stop(void)
{
    struct clockwork c;
    setup(&c);
    struct collection *dir = folder(&c, "a", "10", 4 * MONITOR_SLICE_DOCS);
    c.now_ms = T0 + 10000 * SECOND;
    c.stop_at = 4; /* before the pass, before two slices, then yes */
    struct monitor_pass pass = run_pass(&c);
    CHECK(pass.stopped);
    CHECK(dir->names.count > 0 && dir->names.count < 4 * MONITOR_SLICE_DOCS);
    CHECK(next_after(&c) <= c.now_ms);
    c.stop_at = 0;
    c.w.ttl.read_only = true;
    CHECK_EQ(run_pass(&c).visits, 0);
    c.w.ttl.read_only = false;
    run_pass(&c);
    CHECK_EQ(dir->names.count, 0);
    world_close(&c.w);
}

/* The impossible sizes of fill_journal are malloc's error, not the program's. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "allocator_may_return_null=1";
}

int main(void)
{
    RUN(test_nothing_due);
    RUN(test_budget_by_count);
    RUN(test_budget_by_time);
    RUN(test_fairness);
    RUN(test_postponed);
    RUN(test_removed_before);
    RUN(test_watched);
    RUN(test_failing);
    RUN(test_stop);
    return unit_report();
}
