/*
 * test_rules.c - rules on collections: inheritance, refusals, and the indexes that follow them.
 */
#include "tests/unit/unit.h"
#include "tests/unit/world.h"
#include "tests/unit/world_check.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define SET(w, doc, name, value) CHECK_EQ(world_rule(w, doc, "user.ttl." name, value, T0), 0)

static int set_flags(struct world *w, struct document *doc, const char *name, const char *value,
    int flags, struct reason *why)
{
    bool forward;
    tree_lock(w->tree);
    int err = rules_set(&w->ttl, doc, name, value, strlen(value), flags, T0, &forward, why);
    tree_unlock(w->tree);
    return err;
}

static int drop(struct world *w, struct document *doc, const char *name)
{
    bool forward;
    tree_lock(w->tree);
    int err = rules_remove(&w->ttl, doc, name, T0, &forward);
    tree_unlock(w->tree);
    return err;
}

/* getxattr; "-" when there is none. */
static const char *get(struct world *w, struct document *doc, const char *name)
{
    static char text[2000];
    char *value;
    size_t len;
    tree_lock(w->tree);
    int err = rules_get(&w->ttl, doc, name, T0, &value, &len);
    tree_unlock(w->tree);
    if (err)
        return err == -ENODATA ? "-" : "?";
    (void) snprintf(text, sizeof text, "%s", value);
    CHECK_EQ(strlen(value), len);
    free(value);
    return text;
}

static int64_t lifetime_s(struct world *w, struct document *doc)
{
    int64_t at_ms = world_deadline(w, doc).at_ms;
    return at_ms == DATE_NEVER_MS ? -1 : (at_ms - T0) / 1000;
}

static void test_inheritance(void)
{
    struct world w;
    world_open(&w, NULL);
    struct collection *root = w.tree->root, *a = world_mkdir(&w, root, "a");
    struct collection *b = world_mkdir(&w, a, "b"), *c = world_mkdir(&w, b, "c");
    struct document *in_root = world_file(&w, root, "f", "", T0)->doc;
    struct document *in_a = world_file(&w, a, "f", "", T0)->doc;
    struct document *in_c = world_file(&w, c, "f", "", T0)->doc;
    SET(&w, &root->doc, "index._ts", "100");
    SET(&w, &root->doc, "idle", "90");
    CHECK_EQ(lifetime_s(&w, in_c), 90);
    SET(&w, &b->doc, "idle", "off");
    CHECK_EQ(lifetime_s(&w, in_c), 100);
    CHECK_EQ(lifetime_s(&w, in_a), 90);
    CHECK_STR(get(&w, &c->doc, "user.ttl.idle"), "-");
    CHECK_STR(get(&w, &b->doc, "user.ttl.idle"), "off");
    CHECK_STR(get(&w, &a->doc, "user.ttl.idle"), "90");
    CHECK_STR(get(&w, in_a, "user.ttl.idle"), "90");
    SET(&w, &a->doc, "index._ts", "50");
    CHECK_EQ(lifetime_s(&w, in_c), 50);
    CHECK_EQ(lifetime_s(&w, in_root), 90);
    SET(&w, &c->doc, "index._ts", "off");
    CHECK_EQ(lifetime_s(&w, in_c), -1);
    SET(&w, &c->doc, "index.other", "{\"key\":\"_created\",\"expireAfterSeconds\":7}");
    CHECK_EQ(lifetime_s(&w, in_c), 7);
    CHECK_STR(get(&w, in_c, "user.ttl.reason"), "index other");
    CHECK_EQ(world_check(&w), 0);
    CHECK_EQ(drop(&w, &c->doc, "user.ttl.index._ts"), 0);
    CHECK_EQ(drop(&w, &c->doc, "user.ttl.index.other"), 0);
    CHECK_EQ(lifetime_s(&w, in_c), 50);
    CHECK_EQ(drop(&w, &c->doc, "user.ttl.index.other"), -ENODATA);
    CHECK_EQ(drop(&w, &c->doc, "user.ttl.idle"), -ENODATA);
    SET(&w, &root->doc, "hold", "yes");
    CHECK_EQ(lifetime_s(&w, in_c), -1);
    SET(&w, &c->doc, "hold", "no");
    CHECK_EQ(lifetime_s(&w, in_c), 50);
    CHECK_EQ(lifetime_s(&w, in_a), -1);
    CHECK_EQ(world_check(&w), 0);
    world_close(&w);
}

static void test_rulesets_are_shared(void)
{
    struct world w;
    world_open(&w, NULL);
    struct collection *root = w.tree->root, *a = world_mkdir(&w, root, "a");
    struct collection *b = world_mkdir(&w, a, "b"), *deep = b;
    SET(&w, &root->doc, "idle", "10");
    for (int i = 0; i < 3000; i++)
        deep = world_mkdir(&w, deep, "d");
    tree_lock(w.tree);
    struct ruleset *above = ruleset_of(&w.ttl, root);
    CHECK(ruleset_of(&w.ttl, deep) == above);
    CHECK(ruleset_of(&w.ttl, b) == above);
    CHECK(ruleset_of(&w.ttl, a) == above);
    uint64_t generation = w.ttl.generation;
    CHECK(above->generation == generation);
    tree_unlock(w.tree);
    SET(&w, &a->doc, "refresh", "write");
    tree_lock(w.tree);
    CHECK(w.ttl.generation > generation);
    CHECK(ruleset_of(&w.ttl, deep) == ruleset_of(&w.ttl, a));
    CHECK(ruleset_of(&w.ttl, deep) != ruleset_of(&w.ttl, root));
    CHECK(ruleset_of(&w.ttl, deep)->refresh == REFRESH_WRITE);
    CHECK(ruleset_of(&w.ttl, deep)->idle == ruleset_of(&w.ttl, root)->idle);
    tree_unlock(w.tree);
    world_close(&w);
}

/* Refused: the reason is in words, and what was in force stays. */
static void test_refusals(void)
{
    static const struct {
        const char *name, *value;
        int flags, err;
    } cases[] = {
        {"user.ttl.index._ts", "-2", 0, -EINVAL},
        {"user.ttl.index._ts", "", 0, -EINVAL},
        {"user.ttl.index._ts", "2147483648", 0, -EINVAL},
        {"user.ttl.index._ts", "5", XATTR_CREATE, -EEXIST},
        {"user.ttl.index.again", "{\"key\":\"_ts\"}", XATTR_CREATE, -EEXIST},
        {"user.ttl.index.none", "5", XATTR_REPLACE, -ENODATA},
        {"user.ttl.index.", "5", 0, -EINVAL},
        {"user.ttl.index.a,b", "5", 0, -EINVAL},
        {"user.ttl.idle", "0", 0, -EINVAL},
        {"user.ttl.idle", "1.5", 0, -EINVAL},
        {"user.ttl.idle", "7", XATTR_CREATE, -EEXIST},
        {"user.ttl.max", "7", XATTR_REPLACE, -ENODATA},
        {"user.ttl.max", "-1", 0, -EINVAL},
        {"user.ttl.refresh", "sometimes", 0, -EINVAL},
        {"user.ttl.hold", "perhaps", 0, -EINVAL},
        {"user.ttl.visibility", "maybe", 0, -EINVAL},
        {"user.ttl.jitter", "x", 0, -EINVAL},
        {"user.ttl.nonsense", "1", 0, -EINVAL},
        {"user.ttl.seconds", "1", 0, -EINVAL},
        {"user.ttl.deadline", "1", 0, -EPERM},
        {"user.doc.a", "{", 0, -EINVAL},
        {"user.doc.a..b", "1", 0, -EINVAL},
    };
    struct world w;
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir");
    struct document *doc = world_file(&w, dir, "f", "", T0)->doc;
    SET(&w, &dir->doc, "index._ts", "60");
    SET(&w, &dir->doc, "idle", "70");
    uint64_t generation = w.ttl.generation;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reason why = {0};
        int err = set_flags(&w, &dir->doc, cases[i].name, cases[i].value, cases[i].flags, &why);
        if (err != cases[i].err || !why.text[0])
            fprintf(stderr, "%s=%s:\n", cases[i].name, cases[i].value);
        CHECK_EQ(err, cases[i].err);
        CHECK(why.text[0] != '\0');
        CHECK_EQ(lifetime_s(&w, doc), 60);
    }
    CHECK_EQ(w.ttl.generation, generation);
    CHECK_STR(
        get(&w, &dir->doc, "user.ttl.index._ts"), "{\"expireAfterSeconds\":60,\"key\":\"_ts\"}");
    CHECK_STR(get(&w, &dir->doc, "user.ttl.idle"), "70");
    CHECK_STR(get(&w, &dir->doc, "user.ttl.error"), "-");
    tree_lock(w.tree);
    rules_note_error(&dir->doc, &(struct reason){"it was so"});
    rules_note_error(doc, &(struct reason){"no"});
    rules_note_error(doc, &(struct reason){"not so"});
    tree_unlock(w.tree);
    CHECK_STR(get(&w, &dir->doc, "user.ttl.error"), "it was so");
    CHECK_STR(get(&w, doc, "user.ttl.error"), "not so");
    CHECK_EQ(world_check(&w), 0);
    world_close(&w);
}

/* Creating, changing and dropping an index moves the entries of what was there before. */
static void test_indexes_follow(void)
{
    struct world w;
    char name[32], text[100];
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir"),
                      *sub = world_mkdir(&w, dir, "sub");
    for (int i = 0; i < 300; i++) {
        (void) snprintf(name, sizeof name, "%d", i);
        (void) snprintf(
            text, sizeof text, "{\"a\":{\"$date\":%" PRId64 "},\"b\":%d}", T0 + i * SECOND, i);
        world_file(&w, i % 2 ? dir : sub, name, i % 3 ? text : "no fields", T0);
    }
    SET(&w, &dir->doc, "index.a", "10");
    struct index *index = dir->rules->indexes->index;
    CHECK_EQ(index->members, 300);
    CHECK_EQ(index_entries(index), 200);
    CHECK_EQ(index->entries.count, 200);
    CHECK_EQ(world_check(&w), 0);
    /* Another threshold touches no entry. */
    SET(&w, &dir->doc, "index.a", "20");
    CHECK(dir->rules->indexes->index == index);
    CHECK_EQ(index->expire_after_ms, 20 * SECOND);
    CHECK_EQ(world_check(&w), 0);
    SET(&w, &dir->doc, "index.a",
        "{\"key\":\"b\",\"as\":\"epochSeconds\",\"expireAfterSeconds\":5,"
        "\"partialFilterExpression\":{\"b\":{\"$gte\":100}}}");
    index = dir->rules->indexes->index;
    CHECK_EQ(index->members, 134);
    CHECK_EQ(world_check(&w), 0);
    SET(&w, &sub->doc, "index.a", "off");
    CHECK_EQ(world_check(&w), 0);
    CHECK(index->members > 60 && index->members < 70);
    CHECK_EQ(drop(&w, &dir->doc, "user.ttl.index.a"), 0);
    CHECK(w.ttl.graveyard == NULL);
    CHECK_EQ(world_check(&w), 0);
    world_close(&w);
}

/* Sets plain indexes until they are refused; returns how many were taken. */
static int fill_with_indexes(struct world *w, struct collection *c, const char *name, int most)
{
    char attribute[64];
    int n = 0, err = 0;
    while (n < most && !err) {
        (void) snprintf(attribute, sizeof attribute, "user.ttl.index.%s%d", name, n);
        err = world_rule(w, &c->doc, attribute, "{\"key\":\"_created\"}", T0);
        n += !err;
    }
    CHECK(err == 0 || err == -EINVAL);
    return n;
}

/* However many indexes there are: idle, max and a document's own deadline have their places. */
static void test_many_indexes(void)
{
    struct world w;
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir"),
                      *sub = world_mkdir(&w, dir, "sub");
    struct document *doc = world_file(&w, sub, "f", "", T0)->doc;
    CHECK_EQ(fill_with_indexes(&w, sub, "a", 1000), INDEX_MAX_PER_COLLECTION - 3);
    CHECK_EQ(world_check(&w), 0);
    /* Above, there is room; below, it is used up already. */
    CHECK_EQ(fill_with_indexes(&w, dir, "b", 40), 40);
    CHECK_EQ(world_check(&w), 0);
    SET(&w, &dir->doc, "max", "50");
    CHECK_EQ(lifetime_s(&w, doc), 50);
    SET(&w, &sub->doc, "idle", "40");
    CHECK_EQ(lifetime_s(&w, doc), 40);
    SET(&w, doc, "expireAt", "+30");
    CHECK_EQ(lifetime_s(&w, doc), 30);
    CHECK_EQ(world_check(&w), 0);
    world_close(&w);
}

/* What a collection's rule changes for the deadlines that documents carry themselves. */
static void test_own_deadlines_follow(void)
{
    struct world w;
    world_open(&w, NULL);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir");
    struct document *ttl = world_file(&w, dir, "ttl", "{\"ttl\":5}", T0)->doc;
    SET(&w, &dir->doc, "index._ts", "{}");
    CHECK_EQ(world_check(&w), 0);
    SET(&w, &dir->doc, "index._ts", "100"); /* a plain index becomes a TTL index */
    CHECK_EQ(lifetime_s(&w, ttl), 5);
    CHECK_EQ(world_check(&w), 0);
    SET(&w, &dir->doc, "index._ts", "off");
    CHECK_EQ(lifetime_s(&w, ttl), -1);
    CHECK_EQ(world_check(&w), 0);
    SET(&w, &dir->doc, "idle", "100");
    struct document *refresh = world_file(&w, dir, "refresh", "", T0)->doc;
    SET(&w, refresh, "refresh", "write");
    CHECK_EQ(lifetime_s(&w, refresh), 100);
    CHECK_EQ(world_check(&w), 0);
    SET(&w, &dir->doc, "idle", "10");
    CHECK_EQ(lifetime_s(&w, refresh), 10);
    CHECK_EQ(world_check(&w), 0);
    SET(&w, &dir->doc, "idle", "1000");
    CHECK_EQ(lifetime_s(&w, refresh), 1000);
    CHECK_EQ(world_check(&w), 0);
    /* A clock that went back. */
    tree_lock(w.tree);
    filing_written(&w.ttl, refresh, T0 - 50 * SECOND, false);
    tree_unlock(w.tree);
    CHECK_EQ(lifetime_s(&w, refresh), 950);
    CHECK_EQ(world_check(&w), 0);
    world_close(&w);
}

/* An index that is dropped while a pass runs is not freed under it. */
static void test_dropped_during_a_pass(void)
{
    struct world w;
    world_open(&w, NULL);
    SET(&w, &w.tree->root->doc, "index._ts", "10");
    struct document *doc = world_file(&w, w.tree->root, "f", "", T0)->doc;
    tree_lock(w.tree);
    w.ttl.pass_running = true;
    tree_unlock(w.tree);
    CHECK_EQ(drop(&w, &w.tree->root->doc, "user.ttl.index._ts"), 0);
    CHECK(w.ttl.graveyard != NULL);
    CHECK_EQ(lifetime_s(&w, doc), -1);
    tree_lock(w.tree);
    w.ttl.pass_running = false;
    ttl_reap(&w.ttl);
    CHECK(w.ttl.graveyard == NULL);
    tree_unlock(w.tree);
    world_close(&w);
}

static void test_inherit_from_target(void)
{
    struct world w;
    world_open(&w, NULL);
    struct document *target = world_file(&w, w.tree->root, "t", "", T0)->doc;
    struct document *source = world_file(&w, w.tree->root, "s", "", T0 + SECOND)->doc;
    SET(&w, target, "max", "10");
    SET(&w, target, "idle", "9");
    SET(&w, source, "idle", "8");
    CHECK_EQ(world_rule(&w, target, "user.doc.x", "1", T0), 0);
    tree_lock(w.tree);
    CHECK_EQ(rules_inherit_from_target(&w.ttl, source, target), 0);
    CHECK_EQ(filing_update_document(&w.ttl, source, NULL), 0);
    CHECK_EQ(source->created_ms, T0);
    CHECK(!document_xattr(source, "user.doc.x"));
    tree_unlock(w.tree);
    CHECK_STR(get(&w, source, "user.ttl.max"), "10");
    CHECK_STR(get(&w, source, "user.ttl.idle"), "8");
    CHECK_EQ(world_check(&w), 0);
    world_close(&w);
}

int main(void)
{
    RUN(test_inheritance);
    RUN(test_rulesets_are_shared);
    RUN(test_refusals);
    RUN(test_indexes_follow);
    RUN(test_many_indexes);
    RUN(test_own_deadlines_follow);
    RUN(test_dropped_during_a_pass);
    RUN(test_inherit_from_target);
    return unit_report();
}
