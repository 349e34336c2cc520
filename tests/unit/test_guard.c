/*
 * test_guard.c - which changes of a document's rules could end it earlier.
 */
#include "ttl/guard.h"

#include "tests/unit/unit.h"
#include "tests/unit/world.h"

#include <errno.h>

static const struct guard_terms never = {.ts_ms = DATE_NEVER_MS,
    .expire_at_ms = DATE_NEVER_MS,
    .idle_ms = INT64_MAX,
    .max_ms = INT64_MAX,
    .refresh = REFRESH_ACCESS};

static void test_terms_one_by_one(void)
{
    struct guard_terms a = never, b = never;
    CHECK(!guard_shortens(&a, &b));
    b.held = true;
    CHECK(!guard_shortens(&a, &b));
    CHECK(guard_shortens(&b, &a));

    int64_t *dates[] = {&b.ts_ms, &b.expire_at_ms, &b.idle_ms, &b.max_ms};
    for (int i = 0; i < 4; i++) {
        b = never;
        *dates[i] = 1000;
        CHECK(guard_shortens(&a, &b));
        CHECK(!guard_shortens(&b, &a));
        CHECK(!guard_shortens(&b, &b));
        struct guard_terms longer = b;
        *dates[i] = 999;
        CHECK(guard_shortens(&longer, &b));
        CHECK(!guard_shortens(&b, &longer));
    }
}

static void test_one_longer_does_not_buy_another_shorter(void)
{
    struct guard_terms before = never, after = never;
    before.idle_ms = 1000;
    before.max_ms = 5000;
    after.idle_ms = 4000;
    after.max_ms = 4999;
    CHECK(guard_shortens(&before, &after));
    before = after = never;
    before.ts_ms = 10;
    after.expire_at_ms = 20;
    CHECK(guard_shortens(&before, &after));
}

static void test_refresh(void)
{
    static const enum ttl_refresh order[] = {REFRESH_WRITE, REFRESH_ACCESS, REFRESH_EXTEND};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++) {
            struct guard_terms before = never, after = never;
            before.refresh = order[i];
            after.refresh = order[k];
            CHECK_EQ(guard_shortens(&before, &after), k < i);
        }
    }
}

/* setxattr, or removexattr when `value` is NULL, as guard_check sees it. */
static int check(struct world *w, struct document *doc, const char *name, const char *value)
{
    struct reason why = {0};
    tree_lock(w->tree);
    int err = guard_check(&w->ttl, doc, name, value, value ? strlen(value) : 0, T0 + SECOND, &why);
    tree_unlock(w->tree);
    CHECK_EQ(err != 0, why.text[0] != '\0');
    return err;
}

static void test_own_rules(void)
{
    struct world w;
    world_open(&w, NULL);
    struct document *doc = world_file(&w, w.tree->root, "f", "", T0)->doc;
    static const char *const strict[][2] = {{"user.ttl.seconds", "5"}, {"user.ttl.idle", "5"},
        {"user.ttl.max", "5"}, {"user.ttl.expireAt", "+5s"}, {"user.ttl.refresh", "write"}};
    for (size_t i = 0; i < sizeof strict / sizeof strict[0]; i++)
        CHECK_EQ(check(&w, doc, strict[i][0], strict[i][1]), -EPERM);
    CHECK_EQ(check(&w, doc, "user.ttl.hold", "yes"), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.hold", NULL), 0);
    /* What makes no sense is for rules_set to refuse. */
    CHECK_EQ(check(&w, doc, "user.ttl.seconds", "x"), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.unknown", "5"), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.unknown", NULL), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.expireAt", "xx:+5s"), 0);

    CHECK_EQ(world_rule(&w, doc, "user.ttl.expireAt", "1767225700", T0), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.expireAt", "1767225699"), -EPERM);
    CHECK_EQ(check(&w, doc, "user.ttl.expireAt", "1767225700"), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.expireAt", "1767225701"), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.expireAt", NULL), 0);
    CHECK_EQ(world_rule(&w, doc, "user.ttl.hold", "yes", T0), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.hold", NULL), -EPERM);
    CHECK_EQ(check(&w, doc, "user.ttl.expireAt", "1"), -EPERM);
    world_close(&w);
}

static void test_rules_of_the_collection(void)
{
    struct world w;
    world_open(&w, NULL);
    struct document *root = &w.tree->root->doc;
    struct document *doc = world_file(&w, w.tree->root, "f", "{\"ttl\":50}", T0)->doc;
    CHECK_EQ(check(&w, doc, "user.ttl.seconds", "1000000"), -EPERM); /* nothing is in force yet */
    CHECK_EQ(world_rule(&w, root, "user.ttl.index._ts", "10", T0), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.seconds", "49"), -EPERM); /* the content's ttl is */
    CHECK_EQ(check(&w, doc, "user.ttl.seconds", "50"), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.seconds", "-1"), 0);
    CHECK_EQ(world_rule(&w, doc, "user.ttl.seconds", "-1", T0), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.seconds", NULL), -EPERM);

    CHECK_EQ(world_rule(&w, root, "user.ttl.idle", "100", T0), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.idle", "99"), -EPERM);
    CHECK_EQ(check(&w, doc, "user.ttl.idle", "off"), 0);
    CHECK_EQ(world_rule(&w, doc, "user.ttl.idle", "off", T0), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.idle", NULL), -EPERM);
    world_close(&w);
}

/* Who writes a log through the descriptor that created it keeps it alive, but not under `extend`. */
static void test_extend_before_the_first_access(void)
{
    struct world w;
    world_open(&w, NULL);
    struct document *doc = world_file(&w, w.tree->root, "log", "", T0)->doc;
    doc->flags &= ~(uint32_t) DOCUMENT_EXTENDED;
    tree_lock(w.tree);
    filing_written(&w.ttl, doc, T0 + SECOND, true);
    tree_unlock(w.tree);
    CHECK_EQ(check(&w, doc, "user.ttl.refresh", "extend"), 0);
    CHECK_EQ(world_rule(&w, &w.tree->root->doc, "user.ttl.idle", "100", T0), 0);
    CHECK_EQ(check(&w, doc, "user.ttl.refresh", "extend"), -EPERM);
    CHECK_EQ(check(&w, doc, "user.ttl.refresh", "access"), 0);
    tree_lock(w.tree);
    filing_accessed(&w.ttl, doc, T0 + SECOND, false);
    tree_unlock(w.tree);
    CHECK_EQ(check(&w, doc, "user.ttl.refresh", "extend"), 0);
    world_close(&w);
}

static void test_each_name(void)
{
    struct world w;
    world_open(&w, NULL);
    struct collection *strict = world_mkdir(&w, w.tree->root, "strict");
    struct collection *mild = world_mkdir(&w, w.tree->root, "mild");
    CHECK_EQ(world_rule(&w, &strict->doc, "user.ttl.max", "10", T0), 0);
    CHECK_EQ(world_rule(&w, &mild->doc, "user.ttl.max", "1000", T0), 0);
    struct document *doc = world_file(&w, strict, "f", "", T0)->doc;
    CHECK_EQ(check(&w, doc, "user.ttl.max", "500"), 0);
    struct dentry *d;
    tree_lock(w.tree);
    CHECK_EQ(tree_link(w.tree, doc, mild, "g", 1, world_time(T0), &d), 0);
    tree_unlock(w.tree);
    CHECK_EQ(check(&w, doc, "user.ttl.max", "500"), -EPERM);
    CHECK_EQ(check(&w, doc, "user.ttl.max", "1000"), 0);
    world_close(&w);
}

static void test_fields(void)
{
    struct world w;
    world_open(&w, NULL);
    struct document *root = &w.tree->root->doc;
    struct document *doc = world_file(&w, w.tree->root, "f", "", T0)->doc;
    CHECK_EQ(check(&w, doc, "user.doc.a", "1"), 0);
    CHECK_EQ(world_rule(&w, root, "user.ttl.index.plain", "{\"key\":\"a\"}", T0), 0);
    CHECK_EQ(check(&w, doc, "user.doc.a", "1"), 0);
    CHECK_EQ(world_rule(&w, root, "user.ttl.index.i",
                 "{\"key\":\"a.b\",\"expireAfterSeconds\":5,"
                 "\"partialFilterExpression\":{\"k.l\":1}}",
                 T0),
        0);
    static const char *const read[] = {"a", "a.b", "a.c", "a.b.c", "k", "k.l", "k.m"};
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++) {
        char name[64];
        (void) snprintf(name, sizeof name, "user.doc.%s", read[i]);
        CHECK_EQ(check(&w, doc, name, "1"), -EPERM);
        CHECK_EQ(check(&w, doc, name, NULL), -EPERM);
    }
    CHECK_EQ(check(&w, doc, "user.doc.ab", "1"), 0);
    CHECK_EQ(check(&w, doc, "user.doc.ttl", "1"), 0);
    CHECK_EQ(world_rule(&w, root, "user.ttl.index._ts", "-1", T0), 0);
    CHECK_EQ(check(&w, doc, "user.doc.ttl", "1"), -EPERM);
    world_close(&w);
}

int main(void)
{
    RUN(test_terms_one_by_one);
    RUN(test_one_longer_does_not_buy_another_shorter);
    RUN(test_refresh);
    RUN(test_own_rules);
    RUN(test_rules_of_the_collection);
    RUN(test_extend_before_the_first_access);
    RUN(test_each_name);
    RUN(test_fields);
    return unit_report();
}
