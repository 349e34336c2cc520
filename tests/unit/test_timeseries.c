/*
 * test_timeseries.c - buckets: who is in which, when they are due, and that no entry is ever late.
 */
#include "tests/unit/scratch.h"
#include "tests/unit/unit.h"
#include "tests/unit/world.h"
#include "tests/unit/world_check.h"
#include "ttl/timeseries_impl.h"

#include <errno.h>

#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define RULE                                                                                       \
    "{\"timeField\":\"t\",\"metaField\":\"m\",\"granularity\":\"%s\",\"expireAfterSeconds\":%d}"
#define E_S 3600

struct series {
    struct world w;
    struct collection *dir;
    int64_t now_ms;
};

static int set_rule(struct series *s, const char *granularity, int e)
{
    char rule[200];
    (void) snprintf(rule, sizeof rule, RULE, granularity, e);
    return world_rule(&s->w, &s->dir->doc, "user.ttl.timeseries", rule, T0);
}

static void setup(struct series *s, const char *granularity)
{
    memset(s, 0, sizeof *s);
    s->now_ms = T0;
    world_open(&s->w, NULL);
    s->dir = world_mkdir(&s->w, s->w.tree->root, "ts");
    CHECK_EQ(set_rule(s, granularity, E_S), 0);
}

static const char *text_of(int64_t time_ms, const char *meta, char text[200])
{
    (void) snprintf(
        text, 200, "{\"t\":{\"$date\":{\"$numberLong\":\"%" PRId64 "\"}},\"m\":%s}", time_ms, meta);
    return text;
}

static struct dentry *add(struct series *s, const char *name, int64_t time_ms, const char *meta)
{
    char text[200];
    return world_file(&s->w, s->dir, name, text_of(time_ms, meta, text), T0);
}

static void rewrite(struct series *s, struct dentry *d, int64_t time_ms, const char *meta)
{
    char text[200];
    tree_lock(s->w.tree);
    CHECK_EQ(file_open(s->w.tree, d->doc), 0);
    CHECK_EQ(file_truncate(s->w.tree, d->doc, 0), 0);
    document_unpin(s->w.tree, d->doc);
    tree_unlock(s->w.tree);
    text_of(time_ms, meta, text);
    world_write(&s->w, d->doc, text, strlen(text), 0, T0, false);
}

static int64_t due(struct series *s, struct dentry *d)
{
    return world_deadline(&s->w, d->doc).at_ms;
}

/* What a pass does first. */
static void refile(struct series *s)
{
    tree_lock(s->w.tree);
    while (timeseries_refile(&s->w.ttl))
        ;
    tree_unlock(s->w.tree);
}

static int64_t hook_clock(void *arg)
{
    return ((struct series *) arg)->now_ms;
}

static int64_t hook_monotonic(void *arg)
{
    (void) arg;
    return 0;
}

static uint64_t run_pass(struct series *s, int64_t now_ms)
{
    struct monitor_pass pass = {0};
    struct monitor_hooks hooks = {.arg = s, .clock_ms = hook_clock, .monotonic_ms = hook_monotonic};
    s->now_ms = now_ms;
    monitor_pass(&s->w.ttl, &hooks, &pass);
    return pass.deleted_documents;
}

static uint64_t buckets(struct series *s)
{
    return timeseries_of(s->dir)->nbuckets;
}

/* A million pseudo-random numbers, the same in every run. */
static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static void test_windows(void)
{
    static const struct {
        const char *granularity;
        int64_t span_ms, round_ms;
    } cases[] = {{"seconds", HOUR, MINUTE}, {"minutes", 24 * HOUR, HOUR},
        {"hours", 30 * 24 * HOUR, 24 * HOUR}};
    for (size_t i = 0; i < 3; i++) {
        struct series s;
        setup(&s, cases[i].granularity);
        int64_t open_ms = T0 - T0 % cases[i].round_ms;
        struct dentry *first = add(&s, "first", open_ms + cases[i].round_ms / 2, "1");
        struct dentry *last = add(&s, "last", open_ms + cases[i].span_ms - 1, "1");
        struct dentry *next = add(&s, "next", open_ms + cases[i].span_ms, "1");
        CHECK_EQ(due(&s, first), open_ms + cases[i].span_ms - 1 + E_S * SECOND);
        CHECK_EQ(due(&s, last), due(&s, first));
        CHECK_EQ(due(&s, next), open_ms + cases[i].span_ms + E_S * SECOND);
        CHECK_EQ(buckets(&s), 2);
        CHECK_EQ(world_check(&s.w), 0);
        world_close(&s.w);
    }
}

static void test_late_comers_widen_a_window_as_far_as_it_goes(void)
{
    struct series s;
    setup(&s, "seconds");
    struct dentry *b = add(&s, "b", T0 + 30 * MINUTE, "1");
    struct dentry *a = add(&s, "a", T0, "1");
    CHECK_EQ(due(&s, a), due(&s, b));
    struct dentry *early = add(&s, "early", T0 - 30 * MINUTE, "1"); /* would make it 60:00 long */
    CHECK(due(&s, early) < due(&s, a));
    struct dentry *edge = add(&s, "edge", T0 - 29 * MINUTE, "1");
    CHECK_EQ(due(&s, edge), due(&s, early)); /* whose window it is in */
    CHECK_EQ(buckets(&s), 2);
    world_close(&s.w);
}

static void test_extreme_dates(void)
{
    struct series s;
    setup(&s, "hours");
    struct dentry *min = add(&s, "min", INT64_MIN, "1");
    struct dentry *max = add(&s, "max", INT64_MAX, "1");
    struct dentry *plain = add(&s, "plain", T0, "1");
    CHECK_EQ(due(&s, plain), DATE_NEVER_MS);
    CHECK_EQ(timeseries_of(s.dir)->nextended, 2);
    world_unlink(&s.w, min, T0);
    CHECK_EQ(due(&s, plain), DATE_NEVER_MS);
    CHECK_EQ(run_pass(&s, T0 + 100 * HOUR), 0); /* parks it */
    world_unlink(&s.w, max, T0);
    CHECK_EQ(due(&s, plain), T0 + E_S * SECOND);
    CHECK_EQ(run_pass(&s, T0 + 100 * HOUR), 1);
    CHECK_EQ(buckets(&s), 0);
    world_close(&s.w);
}

static void test_meta_values(void)
{
    static const char *const values[] = {"1", "\"1\"", "null", "true", "[1,2]", "[2,1]",
        "{\"a\":1,\"b\":2}", "{\"a\":1}", "{}", "[]", "1.5", "{\"$numberDecimal\":\"1\"}", "\"\"",
        "-1", "{\"a\":{\"b\":1}}", "{\"$date\":\"2026-01-01T00:00:00Z\"}"};
    static const char *const same[][2] = {{"1", "1.0"}, {"1", "{\"$numberLong\":\"1\"}"},
        {"{\"a\":1,\"b\":2}", "{\"b\":2.0,\"a\":1}"}, {"0", "-0.0"}};
    struct series s;
    char name[32];
    size_t n = sizeof values / sizeof values[0];
    setup(&s, "seconds");
    for (size_t i = 0; i < n; i++) {
        (void) snprintf(name, sizeof name, "v%zu", i);
        add(&s, name, T0, values[i]);
    }
    CHECK_EQ(buckets(&s), n);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        (void) snprintf(name, sizeof name, "a%zu", i);
        struct dentry *a = add(&s, name, T0 + (int64_t) i * SECOND, same[i][0]);
        (void) snprintf(name, sizeof name, "b%zu", i);
        struct dentry *b = add(&s, name, T0 + MINUTE + (int64_t) i * SECOND, same[i][1]);
        CHECK_EQ(due(&s, a), due(&s, b));
    }
    world_close(&s.w);
}

static void test_a_bucket_goes_whole_even_when_a_visit_ends_in_it(void)
{
    struct series s;
    char name[32];
    setup(&s, "seconds");
    s.w.ttl.params.delete_target_docs = 7;
    for (int i = 0; i < 50; i++) {
        (void) snprintf(name, sizeof name, "f%d", i);
        add(&s, name, T0 + i * SECOND, "1");
    }
    int64_t due_ms = T0 + 49 * SECOND + E_S * SECOND;
    CHECK_EQ(run_pass(&s, due_ms - 1), 0);
    CHECK_EQ(world_check(&s.w), 0);
    CHECK_EQ(run_pass(&s, due_ms), 50);
    CHECK_EQ(s.dir->names.count, 0);
    CHECK_EQ(buckets(&s), 0);
    world_close(&s.w);
}

static void test_nothing_joins_a_bucket_that_is_being_deleted(void)
{
    struct series s;
    setup(&s, "seconds");
    struct dentry *a = add(&s, "a", T0, "1");
    struct dentry *b = add(&s, "b", T0, "1");
    int64_t due_ms = T0 + E_S * SECOND;
    tree_lock(s.w.tree);
    CHECK_EQ(monitor_expire(&s.w.ttl, a, world_time(due_ms), NULL), 0);
    tree_unlock(s.w.tree);
    struct dentry *c = add(&s, "c", T0 + 10 * MINUTE, "1");
    CHECK_EQ(due(&s, b), due_ms); /* not saved half-way */
    CHECK_EQ(due(&s, c), due_ms + 10 * MINUTE);
    CHECK_EQ(run_pass(&s, due_ms), 1);
    world_close(&s.w);
}

static void test_the_date_goes_back_when_the_newest_goes(void)
{
    struct series s;
    char name[32];
    setup(&s, "seconds");
    for (int i = 0; i < 300; i++) {
        (void) snprintf(name, sizeof name, "f%d", i);
        add(&s, name, T0 + i, "1");
    }
    struct dentry *newest = add(&s, "newest", T0 + 50 * MINUTE, "1");
    CHECK_EQ(run_pass(&s, T0 + 40 * MINUTE + E_S * SECOND), 0); /* all filed under its date */
    CHECK_EQ(world_check(&s.w), 0);
    world_unlink(&s.w, newest, T0);
    tree_lock(s.w.tree);
    CHECK(timeseries_came_forward(&s.w.ttl));
    CHECK(!timeseries_came_forward(&s.w.ttl));
    CHECK_EQ(monitor_next_ms(&s.w.ttl, T0 + HOUR), T0 + HOUR); /* a pass is wanted now */
    tree_unlock(s.w.tree);
    refile(&s);
    CHECK_EQ(world_check(&s.w), 0);
    CHECK_EQ(run_pass(&s, T0 + 40 * MINUTE + E_S * SECOND), 300);
    world_close(&s.w);
}

static void test_partial_rules_have_their_bucket_filed_earlier(void)
{
    struct series s;
    setup(&s, "seconds");
    CHECK_EQ(world_rule(&s.w, &s.dir->doc, "user.ttl.index.short",
                 "{\"key\":\"t\",\"expireAfterSeconds\":60,"
                 "\"partialFilterExpression\":{\"m\":1}}",
                 T0),
        0);
    struct dentry *a = add(&s, "a", T0, "1"), *a2 = add(&s, "a2", T0 + MINUTE, "1");
    struct dentry *b = add(&s, "b", T0, "2");
    CHECK_EQ(due(&s, a), T0 + 2 * MINUTE);
    CHECK_EQ(due(&s, a2), T0 + 2 * MINUTE);
    CHECK_EQ(due(&s, b), T0 + E_S * SECOND);
    CHECK_EQ(world_check(&s.w), 0);
    CHECK_EQ(run_pass(&s, T0 + 2 * MINUTE - 1), 0);
    CHECK_EQ(world_check(&s.w), 0);
    /* Without the collection's own E only the partial rule is left; with another E both hold. */
    CHECK_EQ(set_rule(&s, "seconds", 30), 0);
    CHECK_EQ(due(&s, a), T0 + MINUTE + 30 * SECOND);
    CHECK_EQ(world_check(&s.w), 0);
    CHECK_EQ(set_rule(&s, "seconds", 100000), 0);
    CHECK_EQ(world_check(&s.w), 0);
    CHECK_EQ(world_rule(&s.w, &s.dir->doc, "user.ttl.timeseries",
                 "{\"timeField\":\"t\",\"metaField\":\"m\"}", T0),
        0);
    CHECK_EQ(due(&s, b), DATE_NEVER_MS);
    CHECK_EQ(due(&s, a), T0 + 2 * MINUTE);
    CHECK_EQ(world_check(&s.w), 0);
    CHECK_EQ(run_pass(&s, T0 + 2 * MINUTE), 2);
    CHECK_EQ(world_check(&s.w), 0);
    world_close(&s.w);
}

static void test_documents_without_a_date(void)
{
    struct series s;
    setup(&s, "seconds");
    struct dentry *bad = world_file(&s.w, s.dir, "bad", "{\"x\":1}", T0);
    CHECK(timeseries_lacks_time(bad->doc));
    CHECK(timeseries_refuses(bad));
    CHECK_EQ(due(&s, bad), DATE_NEVER_MS);
    struct dentry *good = add(&s, "good", T0, "1");
    CHECK(!timeseries_lacks_time(good->doc));
    CHECK_EQ(world_rule(&s.w, good->doc, "user.doc.x", "1", T0), 0);
    bad->doc->flags |= DOCUMENT_REFUSED;
    tree_lock(s.w.tree);
    CHECK(ttl_hidden(&s.w.ttl, bad, T0));
    tree_unlock(s.w.tree);
    rewrite(&s, bad, T0 + MINUTE, "1");
    CHECK_EQ(due(&s, good), T0 + MINUTE + E_S * SECOND);
    tree_lock(s.w.tree);
    CHECK(!ttl_hidden(&s.w.ttl, bad, T0));
    tree_unlock(s.w.tree);
    world_close(&s.w);
}

/* A model: any order of changes leaves each bucket's date at its newest, and no entry late. */
static void test_random_changes(void)
{
    enum { DOCS = 60, STEPS = 1500 };
    struct series s;
    struct dentry *docs[DOCS] = {NULL};
    char name[32], meta[8];
    uint64_t state = 42;
    setup(&s, "seconds");
    CHECK_EQ(world_rule(&s.w, &s.dir->doc, "user.ttl.index.short",
                 "{\"key\":\"t\",\"expireAfterSeconds\":600,"
                 "\"partialFilterExpression\":{\"m\":{\"$lt\":1}}}",
                 T0),
        0);
    for (int step = 0; step < STEPS; step++) {
        size_t i = next_random(&state) % DOCS;
        int64_t time_ms = T0 + (int64_t) (next_random(&state) % (5 * HOUR)) - HOUR;
        (void) snprintf(meta, sizeof meta, "%u", (unsigned int) (next_random(&state) % 3));
        if (!docs[i]) {
            (void) snprintf(name, sizeof name, "d%zu", i);
            docs[i] = add(&s, name, time_ms, meta);
        } else if (next_random(&state) % 3 == 0) {
            world_unlink(&s.w, docs[i], T0);
            docs[i] = NULL;
        } else {
            rewrite(&s, docs[i], time_ms, meta);
        }
        if (step % 50 == 0) {
            refile(&s);
            CHECK_EQ(world_check(&s.w), 0);
        }
    }
    for (size_t i = 0; i < DOCS; i++) {
        if (!docs[i])
            continue;
        const struct index_slot *slot = index_slot(docs[i], timeseries_of(s.dir)->members, NULL);
        const struct ts_member *m = (const struct ts_member *) (intptr_t) slot->key;
        CHECK(btree_check(&m->bucket->members));
        CHECK(m->time_ms >= m->bucket->start_ms && m->time_ms <= m->bucket->newest_ms);
        CHECK(m->bucket->newest_ms - m->bucket->start_ms < HOUR);
    }
    uint64_t left = s.dir->names.count;
    CHECK_EQ(run_pass(&s, T0 + 100 * HOUR), left);
    CHECK_EQ(s.dir->names.count, 0);
    CHECK_EQ(buckets(&s), 0);
    world_close(&s.w);
}

static void test_buckets_survive_a_remount(void)
{
    struct series s;
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES], name[32];
    int64_t before[40];
    memset(&s, 0, sizeof s);
    scratch_in(&scratch, "store", path);
    world_open(&s.w, path);
    s.dir = world_mkdir(&s.w, s.w.tree->root, "ts");
    CHECK_EQ(set_rule(&s, "seconds", E_S), 0);
    uint64_t state = 7;
    for (int i = 0; i < 40; i++) {
        (void) snprintf(name, sizeof name, "f%d", i);
        struct dentry *d =
            add(&s, name, T0 + (int64_t) (next_random(&state) % (6 * HOUR)), i % 2 ? "1" : "2");
        CHECK(d != NULL);
    }
    for (int i = 0; i < 40; i++) {
        (void) snprintf(name, sizeof name, "f%d", i);
        before[i] = due(&s, world_find(&s.w, s.dir, name));
    }
    uint64_t nbuckets = buckets(&s);
    CHECK_EQ(world_commit(&s.w), 0);
    world_close(&s.w);
    world_open(&s.w, path);
    s.dir = document_collection(world_find(&s.w, s.w.tree->root, "ts")->doc);
    CHECK_EQ(buckets(&s), nbuckets);
    for (int i = 0; i < 40; i++) {
        (void) snprintf(name, sizeof name, "f%d", i);
        CHECK_EQ(due(&s, world_find(&s.w, s.dir, name)), before[i]);
    }
    CHECK_EQ(world_check(&s.w), 0);
    world_close(&s.w);
    scratch_remove(&scratch);
}

int main(void)
{
    RUN(test_windows);
    RUN(test_late_comers_widen_a_window_as_far_as_it_goes);
    RUN(test_extreme_dates);
    RUN(test_meta_values);
    RUN(test_a_bucket_goes_whole_even_when_a_visit_ends_in_it);
    RUN(test_nothing_joins_a_bucket_that_is_being_deleted);
    RUN(test_the_date_goes_back_when_the_newest_goes);
    RUN(test_partial_rules_have_their_bucket_filed_earlier);
    RUN(test_documents_without_a_date);
    RUN(test_random_changes);
    RUN(test_buckets_survive_a_remount);
    return unit_report();
}
