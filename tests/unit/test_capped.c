/*
 * test_capped.c - capped collections: order, sums, and who would have to go.
 */
#include "core/index.h"
#include "tests/unit/scratch.h"
#include "tests/unit/unit.h"
#include "tests/unit/world.h"
#include "tests/unit/world_check.h"
#include "ttl/capped.h"

#include <errno.h>

static const struct btree_entry FROM_OLDEST = {INT64_MIN, NULL};

struct box {
    struct world w;
    struct collection *dir;
};

static void setup(struct box *b, const char *rule)
{
    memset(b, 0, sizeof *b);
    world_open(&b->w, NULL);
    b->dir = world_mkdir(&b->w, b->w.tree->root, "c");
    CHECK_EQ(world_rule(&b->w, &b->dir->doc, "user.ttl.capped", rule, T0), 0);
}

static const struct index *cap_of(struct box *b)
{
    return capped_of(b->dir);
}

/* The names in the order in which they would go, as one string. */
static const char *order(struct box *b, const struct document *self, const struct dentry *spare)
{
    static char text[256];
    struct btree_entry at = FROM_OLDEST;
    const struct dentry *d;
    size_t len = 0;
    tree_lock(b->w.tree);
    while ((d = capped_victim(&b->w.ttl, cap_of(b), self, spare, &at)) != NULL)
        len += (size_t) snprintf(text + len, sizeof text - len, "%s ", d->name);
    tree_unlock(b->w.tree);
    text[len ? len - 1 : 0] = '\0';
    return text;
}

static void resize(struct box *b, const struct dentry *d, uint64_t size)
{
    tree_lock(b->w.tree);
    CHECK_EQ(file_open(b->w.tree, d->doc), 0);
    CHECK_EQ(file_truncate(b->w.tree, d->doc, size), 0);
    document_unpin(b->w.tree, d->doc);
    tree_unlock(b->w.tree);
}

static struct dentry *move(struct box *b, struct dentry *d, struct collection *to, const char *name)
{
    struct dentry *moved = NULL;
    tree_lock(b->w.tree);
    if (capped_of(to))
        CHECK_EQ(capped_arrives(&b->w.ttl, d->doc), 0);
    CHECK_EQ(tree_move(b->w.tree, d, to, name, strlen(name), world_time(T0), &moved), 0);
    tree_unlock(b->w.tree);
    return moved;
}

static void test_values(void)
{
    static const struct {
        const char *text;
        int err;
        int64_t documents, bytes;
    } cases[] = {{"{\"max\":3}", 0, 3, 0}, {" {\"size\":7,\"max\":1} ", 0, 1, 7},
        {"{\"max\":{\"$numberLong\":\"9\"}}", 0, 9, 0}, {"{\"size\":1e3}", 0, 0, 1000},
        {"{\"max\":9007199254740991}", 0, 9007199254740991, 0},
        {"{\"max\":9007199254740992}", -EINVAL, 0, 0}, {"{}", -EINVAL, 0, 0}, {"", -EINVAL, 0, 0},
        {"{\"max\":0}", -EINVAL, 0, 0}, {"{\"max\":0.5}", -EINVAL, 0, 0},
        {"{\"max\":1,\"max\":1}", -EINVAL, 0, 0}, {"{\"maximum\":1}", -EINVAL, 0, 0},
        {"{\"size\":\"1\"}", -EINVAL, 0, 0}, {"3", -EINVAL, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct capped_spec spec = {0};
        struct reason why = {0};
        CHECK_EQ(
            capped_spec_parse(cases[i].text, strlen(cases[i].text), &spec, &why), cases[i].err);
        CHECK_EQ(spec.max_documents, cases[i].documents);
        CHECK_EQ(spec.max_bytes, cases[i].bytes);
        CHECK((cases[i].err != 0) == (why.text[0] != '\0'));
    }
}

static void test_order_is_that_of_arrival(void)
{
    struct box b;
    setup(&b, "{\"max\":10}");
    struct dentry *outside = world_file(&b.w, b.w.tree->root, "outside", "x", T0);
    struct dentry *a = world_file(&b.w, b.dir, "a", "x", T0 + SECOND);
    world_file(&b.w, b.dir, "b", "x", T0); /* the clock does not matter */
    CHECK_STR(order(&b, NULL, NULL), "a b");
    move(&b, outside, b.dir, "moved");
    CHECK_STR(order(&b, NULL, NULL), "a b moved");
    struct dentry *c = world_file(&b.w, b.dir, "c", "x", T0);
    CHECK_STR(order(&b, NULL, NULL), "a b moved c");
    CHECK_STR(order(&b, a->doc, NULL), "b moved c");
    CHECK_STR(order(&b, a->doc, c), "b moved");
    CHECK_EQ(world_rule(&b.w, a->doc, "user.ttl.hold", "yes", T0), 0);
    CHECK_STR(order(&b, NULL, NULL), "b moved c");
    /* A name of its own in the same collection is no arrival. */
    tree_lock(b.w.tree);
    CHECK_EQ(tree_move(b.w.tree, c, b.dir, "z", 1, world_time(T0), &c), 0);
    tree_unlock(b.w.tree);
    CHECK_STR(order(&b, NULL, NULL), "b moved z");
    CHECK_EQ(world_check(&b.w), 0);
    world_close(&b.w);
}

static void test_sums_follow_sizes(void)
{
    struct box b;
    setup(&b, "{\"size\":1000000}");
    struct dentry *a = world_file(&b.w, b.dir, "a", "12345", T0);
    struct dentry *c = world_file(&b.w, b.dir, "c", "123", T0), *a2;
    CHECK_EQ(cap_of(&b)->cap.bytes, 8);
    resize(&b, a, 100);
    CHECK_EQ(cap_of(&b)->cap.bytes, 103);
    resize(&b, a, 100000); /* becomes a large content */
    CHECK_EQ(cap_of(&b)->cap.bytes, 100003);
    tree_lock(b.w.tree);
    CHECK_EQ(tree_link(b.w.tree, a->doc, b.dir, "a2", 2, world_time(T0), &a2), 0);
    tree_unlock(b.w.tree);
    CHECK_EQ(cap_of(&b)->cap.bytes, 200003);
    resize(&b, a, 50000);
    CHECK_EQ(cap_of(&b)->cap.bytes, 100003);
    world_write(&b.w, a->doc, "x", 1, 60000, T0, false);
    CHECK_EQ(cap_of(&b)->cap.bytes, 120005);
    resize(&b, a, 0);
    CHECK_EQ(cap_of(&b)->cap.bytes, 3);
    world_unlink(&b.w, a2, T0);
    resize(&b, a, 7);
    CHECK_EQ(cap_of(&b)->cap.bytes, 10);
    struct dentry *out = move(&b, a, b.w.tree->root, "out");
    CHECK_EQ(cap_of(&b)->cap.bytes, 3);
    resize(&b, out, 70);
    CHECK_EQ(cap_of(&b)->cap.bytes, 3);
    tree_lock(b.w.tree);
    CHECK_EQ(tree_exchange(b.w.tree, out, c, world_time(T0)), 0);
    tree_unlock(b.w.tree);
    CHECK_EQ(cap_of(&b)->cap.bytes, 70);
    CHECK_EQ(cap_of(&b)->entries.count, 1);
    CHECK_EQ(world_check(&b.w), 0);
    world_close(&b.w);
}

static void test_fits(void)
{
    struct box b;
    setup(&b, "{\"max\":2,\"size\":10}");
    world_file(&b.w, b.dir, "a", "12345", T0);
    CHECK(capped_fits(cap_of(&b), 1, 5));
    CHECK(!capped_fits(cap_of(&b), 2, 0));
    CHECK(!capped_fits(cap_of(&b), 0, 6));
    CHECK(capped_fits(cap_of(&b), 2 - 1, 6 - 5));
    CHECK(!capped_fits(cap_of(&b), 0, INT64_MAX / 2));
    world_close(&b.w);
}

static void test_kinds_are_not_inherited_and_keep_ttl_indexes_out(void)
{
    struct box b;
    setup(&b, "{\"max\":2}");
    struct collection *below = world_mkdir(&b.w, b.dir, "below");
    world_file(&b.w, below, "f", "x", T0);
    CHECK(capped_of(below) == NULL);
    CHECK_EQ(cap_of(&b)->entries.count, 0);
    CHECK_EQ(world_rule(&b.w, &b.dir->doc, "user.ttl.index._ts", "5", T0), -EINVAL);
    struct dentry *f = world_file(&b.w, b.dir, "f", "x", T0);
    CHECK_EQ(world_rule(&b.w, &b.w.tree->root->doc, "user.ttl.index._ts", "5", T0), 0);
    CHECK_EQ(world_deadline(&b.w, f->doc).at_ms, DATE_NEVER_MS);
    CHECK_EQ(world_rule(&b.w, &b.dir->doc, "user.ttl.capped", "off", T0), 0);
    CHECK_EQ(world_deadline(&b.w, f->doc).at_ms, T0 + 5 * SECOND);
    CHECK_EQ(world_rule(&b.w, &b.dir->doc, "user.ttl.capped", "{\"max\":2}", T0), -EINVAL);
    CHECK_EQ(world_check(&b.w), 0);
    world_close(&b.w);
}

static void test_order_survives_a_remount(void)
{
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES];
    struct box b;
    memset(&b, 0, sizeof b);
    scratch_in(&scratch, "store", path);
    world_open(&b.w, path);
    struct dentry *outside = world_file(&b.w, b.w.tree->root, "outside", "x", T0);
    b.dir = world_mkdir(&b.w, b.w.tree->root, "c");
    CHECK_EQ(world_rule(&b.w, &b.dir->doc, "user.ttl.capped", "{\"max\":9}", T0), 0);
    world_file(&b.w, b.dir, "a", "x", T0);
    world_file(&b.w, b.dir, "b", "x", T0);
    move(&b, outside, b.dir, "moved"); /* takes a number behind all that are stored */
    CHECK_EQ(world_commit(&b.w), 0);
    world_close(&b.w);
    world_open(&b.w, path);
    b.dir = document_collection(world_find(&b.w, b.w.tree->root, "c")->doc);
    CHECK_STR(order(&b, NULL, NULL), "a b moved");
    world_file(&b.w, b.dir, "new", "x", T0);
    CHECK_STR(order(&b, NULL, NULL), "a b moved new");
    CHECK_EQ(cap_of(&b)->cap.bytes, 4);
    CHECK_EQ(world_check(&b.w), 0);
    world_close(&b.w);
    scratch_remove(&scratch);
}

int main(void)
{
    RUN(test_values);
    RUN(test_order_is_that_of_arrival);
    RUN(test_sums_follow_sizes);
    RUN(test_fits);
    RUN(test_kinds_are_not_inherited_and_keep_ttl_indexes_out);
    RUN(test_order_survives_a_remount);
    return unit_report();
}
