/*
 * test_deadline.c - when a document is expired, and by what: the matrix of rules in memory.
 */
#include "tests/unit/scratch.h"
#include "tests/unit/unit.h"
#include "tests/unit/world.h"

#include <errno.h>
#include <sys/stat.h>

#define NEVER DATE_NEVER_MS

/* The deadline, and what sets it. */
#define CHECK_DEADLINE(w, doc, at, word)                                                           \
    do {                                                                                           \
        char reason_[TTL_REASON_BYTES];                                                            \
        struct ttl_deadline deadline_ = world_deadline(w, doc);                                    \
        ttl_reason_text(&deadline_, reason_);                                                      \
        CHECK_EQ(deadline_.at_ms, at);                                                             \
        CHECK_STR(reason_, word);                                                                  \
    } while (0)

#define SET(w, doc, name, value) CHECK_EQ(world_rule(w, doc, "user.ttl." name, value, T0), 0)

static void access_at(struct world *w, struct document *doc, int64_t now_ms, bool creator)
{
    tree_lock(w->tree);
    filing_accessed(&w->ttl, doc, now_ms, creator);
    tree_unlock(w->tree);
}

static void write_at(struct world *w, struct document *doc, int64_t now_ms, bool creator)
{
    tree_lock(w->tree);
    filing_written(&w->ttl, doc, now_ms, creator);
    tree_unlock(w->tree);
}

static void test_indexes(void)
{
    struct world w;
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir");
    struct document *doc =
        world_file(&w, dir, "f", "{\"at\":{\"$date\":\"2026-01-01T00:01:00Z\"},\"n\":60}", T0)->doc;
    CHECK_DEADLINE(&w, doc, NEVER, "none");
    SET(&w, &dir->doc, "index.at", "30");
    CHECK_DEADLINE(&w, doc, T0 + 90 * SECOND, "index at");
    SET(&w, &dir->doc, "index.at", "0");
    CHECK_DEADLINE(&w, doc, T0 + 60 * SECOND, "index at");
    SET(&w, &dir->doc, "index.at", "{}");
    CHECK_DEADLINE(&w, doc, NEVER, "none");
    SET(&w, &dir->doc, "index.at", "2147483647");
    CHECK_DEADLINE(&w, doc, T0 + 60 * SECOND + INT32_MAX * SECOND, "index at");
    SET(&w, &dir->doc, "index._created", "50");
    CHECK_DEADLINE(&w, doc, T0 + 50 * SECOND, "index _created");
    SET(&w, &dir->doc, "index.read", "{\"key\":\"_accessed\",\"expireAfterSeconds\":40}");
    CHECK_DEADLINE(&w, doc, T0 + 40 * SECOND, "index read");
    access_at(&w, doc, T0 + 20 * SECOND, false);
    CHECK_DEADLINE(&w, doc, T0 + 50 * SECOND, "index _created");
    SET(&w, &dir->doc, "index._created", "off");
    CHECK_DEADLINE(&w, doc, T0 + 60 * SECOND, "index read");
    SET(&w, &dir->doc, "index.read",
        "{\"key\":\"n\",\"expireAfterSeconds\":0,\"as\":\"epochSeconds\"}");
    CHECK_DEADLINE(&w, doc, 60 * SECOND, "index read");
    /* A filter that does not let it in. */
    SET(&w, &dir->doc, "index.read",
        "{\"key\":\"n\",\"expireAfterSeconds\":0,\"as\":\"epochSeconds\","
        "\"partialFilterExpression\":{\"n\":{\"$gt\":60}}}");
    CHECK_DEADLINE(&w, doc, T0 + 60 * SECOND + INT32_MAX * SECOND, "index at");
    world_close(&w);
}

/* `_ts`, the content's own ttl, and user.ttl.seconds. */
static void test_ts_and_own(void)
{
    struct world w;
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir");
    struct document *own = world_file(&w, dir, "own", "{\"ttl\":5}", T0)->doc;
    struct document *never = world_file(&w, dir, "never", "{\"ttl\":-1}", T0)->doc;
    struct document *none = world_file(&w, dir, "none", "text", T0)->doc;
    CHECK_DEADLINE(&w, own, NEVER, "none");
    SET(&w, &dir->doc, "index._ts", "100");
    CHECK_DEADLINE(&w, own, T0 + 5 * SECOND, "ttl");
    CHECK_DEADLINE(&w, never, NEVER, "none");
    CHECK_DEADLINE(&w, none, T0 + 100 * SECOND, "index _ts");
    SET(&w, &dir->doc, "index._ts", "-1");
    CHECK_DEADLINE(&w, own, T0 + 5 * SECOND, "ttl");
    CHECK_DEADLINE(&w, none, NEVER, "none");
    SET(&w, own, "seconds", "7");
    CHECK_DEADLINE(&w, own, T0 + 7 * SECOND, "seconds");
    SET(&w, own, "seconds", "-1");
    CHECK_DEADLINE(&w, own, NEVER, "none");
    SET(&w, none, "seconds", "1500ms");
    CHECK_DEADLINE(&w, none, T0 + 1500, "seconds");
    write_at(&w, none, T0 + 1000, false);
    CHECK_DEADLINE(&w, none, T0 + 2500, "seconds");
    /* A plain index on _ts is no TTL: the content's own does not count, user.ttl.seconds does. */
    SET(&w, &dir->doc, "index._ts", "{}");
    struct document *plain = world_file(&w, dir, "plain", "{\"ttl\":5}", T0)->doc;
    CHECK_DEADLINE(&w, plain, NEVER, "none");
    CHECK_DEADLINE(&w, none, T0 + 2500, "seconds");
    /* What the content says changes with the content. */
    SET(&w, &dir->doc, "index._ts", "100");
    world_write(&w, plain, "{\"ttl\":9}", 9, 0, T0 + 1000, false);
    CHECK_DEADLINE(&w, plain, T0 + 10 * SECOND, "ttl");
    world_write(&w, plain, "[", 1, 0, T0 + 2000, false);
    CHECK_DEADLINE(&w, plain, T0 + 102 * SECOND, "index _ts");
    world_close(&w);
}

static void test_dual(void)
{
    struct world w;
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir");
    SET(&w, &dir->doc, "idle", "10");
    SET(&w, &dir->doc, "max", "30");
    struct document *doc = world_file(&w, dir, "f", "", T0)->doc;
    CHECK_DEADLINE(&w, doc, T0 + 10 * SECOND, "idle");
    access_at(&w, doc, T0 + 5 * SECOND, false);
    CHECK_DEADLINE(&w, doc, T0 + 15 * SECOND, "idle");
    /* An expired one is not touched any more. */
    access_at(&w, doc, T0 + 15 * SECOND, false);
    CHECK_EQ(doc->accessed_ms, T0 + 5 * SECOND);
    access_at(&w, doc, T0 + 15 * SECOND - 1, false);
    access_at(&w, doc, T0 + 24 * SECOND, false);
    CHECK_DEADLINE(&w, doc, T0 + 30 * SECOND, "max");
    SET(&w, &dir->doc, "refresh", "write");
    CHECK_DEADLINE(&w, doc, T0 + 10 * SECOND, "idle");
    write_at(&w, doc, T0 + 8 * SECOND, false);
    CHECK_DEADLINE(&w, doc, T0 + 18 * SECOND, "idle");
    SET(&w, &dir->doc, "refresh", "extend");
    CHECK_DEADLINE(&w, doc, T0 + 30 * SECOND, "max");
    struct document *fresh = world_file(&w, dir, "g", "", T0)->doc;
    write_at(&w, fresh, T0 + SECOND, true);
    CHECK_DEADLINE(&w, fresh, T0 + 10 * SECOND, "idle");
    access_at(&w, fresh, T0 + SECOND, false);
    CHECK_DEADLINE(&w, fresh, T0 + 30 * SECOND, "max");
    SET(&w, &dir->doc, "max", "off");
    CHECK_DEADLINE(&w, fresh, NEVER, "none");
    SET(&w, &dir->doc, "refresh", "off");
    /* idle >= max means max. */
    SET(&w, &dir->doc, "idle", "20");
    SET(&w, &dir->doc, "max", "20");
    CHECK_DEADLINE(&w, world_file(&w, dir, "h", "", T0)->doc, T0 + 20 * SECOND, "max");
    world_close(&w);
}

/* A file's own rules instead of its collection's. */
static void test_policies(void)
{
    struct world w;
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir");
    SET(&w, &dir->doc, "idle", "10");
    SET(&w, &dir->doc, "max", "30");
    struct document *doc = world_file(&w, dir, "f", "", T0)->doc;
    SET(&w, doc, "idle", "25");
    CHECK_DEADLINE(&w, doc, T0 + 25 * SECOND, "idle");
    SET(&w, doc, "max", "20");
    CHECK_DEADLINE(&w, doc, T0 + 20 * SECOND, "max");
    SET(&w, doc, "idle", "20");
    CHECK_DEADLINE(&w, doc, T0 + 20 * SECOND, "max");
    SET(&w, doc, "max", "off");
    SET(&w, doc, "idle", "off");
    CHECK_DEADLINE(&w, doc, NEVER, "none");
    SET(&w, doc, "expireAt", "+90");
    CHECK_DEADLINE(&w, doc, T0 + 90 * SECOND, "expireAt");
    CHECK_EQ(world_rule(&w, doc, "user.ttl.expireAt", "nx:+5", T0), -ECANCELED);
    CHECK_EQ(world_rule(&w, doc, "user.ttl.expireAt", "gt:+90", T0), -ECANCELED);
    SET(&w, doc, "expireAt", "lt:2026-01-01T00:01:00.5Z");
    CHECK_DEADLINE(&w, doc, T0 + 60500, "expireAt");
    SET(&w, doc, "expireAt", "-1");
    CHECK_DEADLINE(&w, doc, -1000, "expireAt");
    SET(&w, doc, "hold", "yes");
    CHECK_DEADLINE(&w, doc, NEVER, "hold");
    SET(&w, &dir->doc, "hold", "yes");
    SET(&w, doc, "hold", "no");
    CHECK_DEADLINE(&w, doc, -1000, "expireAt");
    SET(&w, doc, "expireAt", "never");
    CHECK_DEADLINE(&w, doc, NEVER, "none");
    CHECK_DEADLINE(&w, world_file(&w, dir, "g", "", T0)->doc, NEVER, "hold");
    /* Its own refresh with its collection's idle time. */
    SET(&w, &dir->doc, "hold", "off");
    struct document *h = world_file(&w, dir, "h", "", T0)->doc;
    SET(&w, h, "refresh", "write");
    access_at(&w, h, T0 + 5 * SECOND, false);
    CHECK_DEADLINE(&w, h, T0 + 10 * SECOND, "idle");
    SET(&w, &dir->doc, "refresh", "write");
    SET(&w, h, "refresh", "access");
    CHECK_DEADLINE(&w, h, T0 + 15 * SECOND, "idle");
    world_close(&w);
}

static void test_jitter(void)
{
    struct world w;
    char name[16];
    int64_t most = 0, different = 0, before = -1;
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir");
    SET(&w, &dir->doc, "idle", "10");
    SET(&w, &dir->doc, "jitter", "8");
    SET(&w, &dir->doc, "max", "15");
    for (int i = 0; i < 200; i++) {
        (void) snprintf(name, sizeof name, "%d", i);
        struct document *doc = world_file(&w, dir, name, "", T0)->doc;
        int64_t at_ms = world_deadline(&w, doc).at_ms;
        CHECK(at_ms >= T0 + 10 * SECOND && at_ms <= T0 + 15 * SECOND);
        CHECK_EQ(world_deadline(&w, doc).at_ms, at_ms);
        CHECK_EQ(ttl_jitter_ms(doc, 8000), ttl_jitter_ms(doc, 8000));
        CHECK(ttl_jitter_ms(doc, 1) == 0 && ttl_jitter_ms(doc, 0) == 0);
        CHECK(ttl_jitter_ms(doc, INT64_MAX) >= 0);
        different += at_ms != before;
        before = at_ms;
        most = at_ms > most ? at_ms : most;
    }
    CHECK(different > 100);
    CHECK_EQ(most, T0 + 15 * SECOND);
    world_close(&w);
}

static void test_saturation(void)
{
    struct world w;
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir");
    SET(&w, &dir->doc, "index.d", "2147483647");
    struct document *late = world_file(
        &w, dir, "late", "{\"d\":{\"$date\":{\"$numberLong\":\"9223372036854775000\"}}}", T0)
                                ->doc;
    CHECK_DEADLINE(&w, late, NEVER, "none");
    struct document *early = world_file(
        &w, dir, "early", "{\"d\":{\"$date\":{\"$numberLong\":\"-9223372036854775808\"}}}", T0)
                                 ->doc;
    CHECK_DEADLINE(&w, early, INT64_MIN + INT32_MAX * SECOND, "index d");
    struct document *long_lived = world_file(&w, dir, "g", "", T0)->doc;
    SET(&w, long_lived, "max", "9223372036854775807ms");
    CHECK_DEADLINE(&w, long_lived, NEVER, "none");
    world_close(&w);
}

/* Dates that RFC 3339 has no text for are kept, and found again by the next mount. */
static void test_far_dates(void)
{
    static const struct {
        const char *value;
        int64_t at_ms;
    } dates[] = {
        {"253402300800", INT64_C(253402300800000)}, /* the year 10000 */
        {"-99999999999", INT64_C(-99999999999000)},
        {"+110000000d", T0 + INT64_C(110000000) * 86400000},
        {"999999999999999999", NEVER},
    };
    for (size_t i = 0; i < sizeof dates / sizeof dates[0]; i++) {
        struct scratch scratch = scratch_make();
        struct world w;
        world_open(&w, scratch.path);
        struct document *doc = world_file(&w, w.tree->root, "f", "", T0)->doc;
        CHECK_EQ(world_rule(&w, doc, "user.ttl.expireAt", dates[i].value, T0), 0);
        CHECK_EQ(world_deadline(&w, doc).at_ms, dates[i].at_ms);
        CHECK_EQ(world_commit(&w), 0);
        world_close(&w);
        int err = world_try_open(&w, scratch.path);
        CHECK_EQ(err, 0);
        if (!err) {
            CHECK_EQ(
                world_deadline(&w, world_find(&w, w.tree->root, "f")->doc).at_ms, dates[i].at_ms);
            world_close(&w);
        }
        scratch_remove(&scratch);
    }
}

/* Several names: each has its own deadline; hidden is who has no name to be seen by. */
static void test_names_and_visibility(void)
{
    struct world w;
    struct dentry *second;
    world_open(&w, NULL);
    struct collection *a = world_mkdir(&w, w.tree->root, "a");
    struct collection *b = world_mkdir(&w, w.tree->root, "b");
    SET(&w, &a->doc, "index._ts", "10");
    SET(&w, &b->doc, "index._ts", "20");
    struct dentry *first = world_file(&w, a, "f", "", T0);
    tree_lock(w.tree);
    CHECK_EQ(tree_link(w.tree, first->doc, b, "g", 1, world_time(T0), &second), 0);
    CHECK_EQ(ttl_deadline(&w.ttl, first).at_ms, T0 + 10 * SECOND);
    CHECK_EQ(ttl_deadline(&w.ttl, second).at_ms, T0 + 20 * SECOND);
    CHECK(!ttl_expired(&w.ttl, first, T0 + 10 * SECOND - 1));
    CHECK(ttl_expired(&w.ttl, first, T0 + 10 * SECOND));
    CHECK(ttl_hidden(&w.ttl, first, T0 + 10 * SECOND));
    CHECK(!ttl_document_hidden(&w.ttl, first->doc, T0 + 10 * SECOND));
    CHECK(ttl_document_hidden(&w.ttl, first->doc, T0 + 20 * SECOND));
    tree_unlock(w.tree);
    SET(&w, &b->doc, "visibility", "until-deleted");
    tree_lock(w.tree);
    CHECK(ttl_expired(&w.ttl, second, T0 + 20 * SECOND));
    CHECK(!ttl_hidden(&w.ttl, second, T0 + 20 * SECOND));
    CHECK(!ttl_document_hidden(&w.ttl, first->doc, T0 + 20 * SECOND));
    CHECK_EQ(ttl_deadline(&w.ttl, a->doc.links).at_ms, NEVER);
    CHECK(!ttl_hidden(&w.ttl, a->doc.links, INT64_MAX));
    tree_unlock(w.tree);
    world_close(&w);
}

int main(void)
{
    RUN(test_indexes);
    RUN(test_ts_and_own);
    RUN(test_dual);
    RUN(test_policies);
    RUN(test_jitter);
    RUN(test_saturation);
    RUN(test_far_dates);
    RUN(test_names_and_visibility);
    return unit_report();
}
