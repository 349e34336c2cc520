/*
 * test_btree.c - the tree against a sorted array, its weight, and what a failing malloc does.
 * `test_btree --bench` prints how long a million of each operation take.
 */
#include "core/btree.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* The tree is compiled in here once more, with an allocator that can be made to fail. */
static int64_t mallocs_left = INT64_MAX;

static void *failing_malloc(size_t size)
{
    return mallocs_left-- > 0 ? malloc(size) : NULL;
}

static void *failing_realloc(void *old, size_t size)
{
    return mallocs_left-- > 0 ? realloc(old, size) : NULL;
}

#define malloc failing_malloc
#define realloc failing_realloc
/* NOLINTBEGIN(bugprone-suspicious-include) */
#include "core/btree.c"
#include "core/btree_check.c"
#include "core/btree_node.c"
/* NOLINTEND(bugprone-suspicious-include) */
#undef malloc
#undef realloc

enum { MODEL_PAIRS = 8000, MILLION = 1000000 };

static uint64_t random_state = 88172645463325252ULL;

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* A key that looks random but can be had again from its number. */
static int64_t scattered(uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
    return (int64_t) (number ^ (number >> 31));
}

/* Made-up addresses: the tree only compares them. */
static void *item_at(uintptr_t number)
{
    return (void *) (number * 16);
}

/* What the tree should hold: a sorted array. */
struct model {
    struct btree_entry pairs[MODEL_PAIRS];
    size_t n;
};

static size_t model_find(const struct model *model, struct btree_entry entry)
{
    size_t low = 0, high = model->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (is_before(model->pairs[middle], entry))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool model_has(const struct model *model, struct btree_entry entry)
{
    size_t at = model_find(model, entry);
    return at < model->n && is_same(model->pairs[at], entry);
}

static void both_insert(struct btree *tree, struct model *model, int64_t key, void *item)
{
    struct btree_entry entry = {key, item};
    size_t at = model_find(model, entry);
    if (model_has(model, entry)) {
        CHECK_EQ(btree_insert(tree, key, item), -EEXIST);
        return;
    }
    CHECK_EQ(btree_insert(tree, key, item), 0);
    memmove(model->pairs + at + 1, model->pairs + at, (model->n - at) * sizeof entry);
    model->pairs[at] = entry;
    model->n++;
}

static void both_remove(struct btree *tree, struct model *model, int64_t key, void *item)
{
    struct btree_entry entry = {key, item};
    size_t at = model_find(model, entry);
    if (!model_has(model, entry)) {
        CHECK_EQ(btree_remove(tree, key, item), -ENOENT);
        return;
    }
    CHECK_EQ(btree_remove(tree, key, item), 0);
    model->n--;
    memmove(model->pairs + at, model->pairs + at + 1, (model->n - at) * sizeof entry);
}

static void check_walks(const struct btree *tree, const struct model *model)
{
    struct btree_entry *copy = calloc(model->n + 1, sizeof *copy);
    if (!copy)
        abort();
    struct btree_entry least = {INT64_MIN, NULL};
    CHECK_EQ(btree_copy(tree, least, INT64_MAX, copy, model->n + 1), model->n);
    bool same = true;
    for (size_t i = 0; i < model->n; i++)
        same = same && is_same(copy[i], model->pairs[i]);
    CHECK(same);
    free(copy);

    struct btree_entry entry;
    size_t walked = 0;
    for (bool more = btree_first(tree, &entry); more; more = btree_next(tree, entry, &entry)) {
        same = same && walked < model->n && is_same(entry, model->pairs[walked]);
        walked++;
    }
    CHECK(same);
    CHECK_EQ(walked, model->n);
}

/* Questions about places that are in the tree, near what is, and beyond both ends. */
static void check_probes(const struct btree *tree, const struct model *model)
{
    for (int i = 0; i < 200; i++) {
        struct btree_entry probe = {(int64_t) (random_next() % 3000) - 1000, NULL};
        if (model->n && i % 4)
            probe = model->pairs[random_next() % model->n];
        if (i == 4)
            probe = (struct btree_entry){INT64_MAX, (void *) UINTPTR_MAX};
        if (i == 8)
            probe = (struct btree_entry){INT64_MIN, NULL};

        size_t from = model_find(model, probe);
        size_t after = from + (from < model->n && is_same(model->pairs[from], probe));
        struct btree_entry got = {0};
        CHECK_EQ(btree_next(tree, probe, &got), after < model->n);
        if (after < model->n)
            CHECK(is_same(got, model->pairs[after]));

        size_t upto = from;
        while (upto < model->n && model->pairs[upto].key <= probe.key)
            upto++;
        CHECK_EQ(btree_count_upto(tree, probe.key), upto);

        struct btree_entry some[100];
        int64_t last_key = probe.key < INT64_MAX - 50 ? probe.key + 50 : INT64_MAX;
        size_t want = 0;
        while (want < 100 && from + want < model->n && model->pairs[from + want].key <= last_key)
            want++;
        CHECK_EQ(btree_copy(tree, probe, last_key, some, 100), want);
        if (want)
            CHECK(is_same(some[want - 1], model->pairs[from + want - 1]));
    }
}

static void check_against(const struct btree *tree, const struct model *model)
{
    CHECK(btree_check(tree));
    CHECK_EQ(tree->count, model->n);
    check_walks(tree, model);
    check_probes(tree, model);
}

enum order { RANDOM, ASCENDING, DESCENDING, SAME_KEY, FEW_KEYS, ORDERS };

static struct btree_entry nth_pair(enum order order, size_t i)
{
    switch (order) {
    case ASCENDING:
        return (struct btree_entry){(int64_t) i / 2, item_at(i)};
    case DESCENDING:
        return (struct btree_entry){-(int64_t) i / 2, item_at(MODEL_PAIRS - i)};
    case SAME_KEY:
        return (struct btree_entry){7, item_at(random_next() % (4 * MODEL_PAIRS))};
    case FEW_KEYS:
        return (struct btree_entry){(int64_t) (random_next() % 20), item_at(random_next() % 4000)};
    default:
        return (struct btree_entry){
            (int64_t) (random_next() % 100000) - 50000, item_at(random_next() % 8)};
    }
}

/* Removes down to `left` pairs: anywhere, from the front or from the back. */
static void both_shrink(struct btree *tree, struct model *model, enum order order, size_t left)
{
    while (model->n > left) {
        size_t at = random_next() % model->n;
        if (order == ASCENDING)
            at = 0;
        else if (order == DESCENDING)
            at = model->n - 1;
        both_remove(tree, model, model->pairs[at].key, model->pairs[at].item);
    }
}

static void test_against_model(void)
{
    struct model *model = calloc(1, sizeof *model);
    if (!model)
        abort();
    for (enum order grow = RANDOM; grow < ORDERS; grow++) {
        for (enum order shrink = RANDOM; shrink <= DESCENDING; shrink++) {
            struct btree tree;
            btree_init(&tree);
            model->n = 0;
            for (size_t i = 0; i < MODEL_PAIRS; i++) {
                struct btree_entry entry = nth_pair(grow, i);
                both_insert(&tree, model, entry.key, entry.item);
            }
            check_against(&tree, model);
            both_shrink(&tree, model, shrink, model->n / 3);
            check_against(&tree, model);
            for (size_t i = model->n; i < MODEL_PAIRS / 2; i++) {
                struct btree_entry entry = nth_pair(grow, i);
                both_insert(&tree, model, entry.key, entry.item);
                both_remove(&tree, model, entry.key + 1, entry.item);
            }
            check_against(&tree, model);
            both_shrink(&tree, model, shrink, 0);
            check_against(&tree, model);
            CHECK_EQ(btree_bytes(&tree), 0);
            CHECK(!tree.root);
        }
    }
    free(model);
}

/* Sizes around those at which leaves and levels appear and vanish, checked at every step. */
static void test_every_step(void)
{
    struct model *model = calloc(1, sizeof *model);
    if (!model)
        abort();
    for (enum order order = RANDOM; order < ORDERS; order++) {
        struct btree tree;
        btree_init(&tree);
        model->n = 0;
        for (size_t i = 0; i < 300; i++) {
            struct btree_entry entry = nth_pair(order, i);
            both_insert(&tree, model, entry.key, entry.item);
            CHECK(btree_check(&tree));
        }
        while (model->n) {
            both_shrink(&tree, model, order, model->n - 1);
            CHECK(btree_check(&tree));
        }
        CHECK_EQ(btree_bytes(&tree), 0);
    }
    free(model);
}

/* A queue: documents come at the end and expire at the front, for long. */
static void test_queue(void)
{
    struct btree tree;
    btree_init(&tree);
    size_t most = 0;
    for (uintptr_t i = 0; i < 300000; i++) {
        CHECK_EQ(btree_insert(&tree, (int64_t) i, item_at(i)), 0);
        if (i >= 5000)
            CHECK_EQ(btree_remove(&tree, (int64_t) i - 5000, item_at(i - 5000)), 0);
        if (i % 9973 == 0) {
            CHECK(btree_check(&tree));
            if (btree_bytes(&tree) > most)
                most = btree_bytes(&tree);
        }
    }
    CHECK_EQ(tree.count, 5000);
    CHECK(most < 5000 * 20 + 4096);
    btree_release(&tree);
    CHECK_EQ(btree_bytes(&tree), 0);
}

static void test_empty_and_extremes(void)
{
    struct btree tree;
    btree_init(&tree);
    struct btree_entry entry = {1, NULL};
    CHECK(!btree_first(&tree, &entry));
    CHECK(!btree_next(&tree, entry, &entry));
    CHECK_EQ(btree_remove(&tree, 0, NULL), -ENOENT);
    CHECK_EQ(btree_copy(&tree, entry, INT64_MAX, &entry, 1), 0);
    CHECK_EQ(btree_count_upto(&tree, INT64_MAX), 0);
    CHECK(btree_check(&tree));

    void *last = (void *) UINTPTR_MAX;
    CHECK_EQ(btree_insert(&tree, INT64_MAX, last), 0);
    CHECK_EQ(btree_insert(&tree, INT64_MIN, NULL), 0);
    CHECK_EQ(btree_insert(&tree, INT64_MIN, NULL), -EEXIST);
    CHECK_EQ(btree_count_upto(&tree, INT64_MIN), 1);
    CHECK_EQ(btree_count_upto(&tree, INT64_MAX - 1), 1);
    CHECK_EQ(btree_count_upto(&tree, INT64_MAX), 2);
    CHECK(btree_first(&tree, &entry) && entry.key == INT64_MIN);
    CHECK(btree_next(&tree, entry, &entry) && entry.key == INT64_MAX && entry.item == last);
    CHECK(!btree_next(&tree, entry, &entry));
    CHECK_EQ(btree_copy(&tree, (struct btree_entry){0, NULL}, INT64_MAX, &entry, 0), 0);
    btree_release(&tree);
    CHECK(btree_check(&tree));
    CHECK_EQ(tree.count, 0);
}

static void test_small_weight(void)
{
    struct btree tree;
    btree_init(&tree);
    for (uintptr_t i = 1; i <= 8; i++) {
        CHECK_EQ(btree_insert(&tree, (int64_t) i, item_at(i)), 0);
        CHECK(btree_bytes(&tree) <= 16 + 32 * i);
    }
    CHECK_EQ(btree_bytes(&tree), 16 + 8 * 16);
    for (uintptr_t i = 9; i <= 2000; i++)
        CHECK_EQ(btree_insert(&tree, (int64_t) i, item_at(i)), 0);
    for (uintptr_t i = 2000; i > 4; i--)
        CHECK_EQ(btree_remove(&tree, (int64_t) i, item_at(i)), 0);
    CHECK(btree_check(&tree));
    CHECK(btree_bytes(&tree) <= 16 + 16 * 16); /* a tree that was large weighs little again */
    btree_release(&tree);
}

static int64_t large_key(enum order order, uint64_t number)
{
    if (order == ASCENDING)
        return (int64_t) number;
    return order == DESCENDING ? -(int64_t) number : scattered(number);
}

static void fill_and_purge(enum order grow, enum order shrink, size_t max_bytes)
{
    struct btree tree;
    btree_init(&tree);
    int errors = 0;
    for (uintptr_t i = 0; i < MILLION; i++)
        errors += btree_insert(&tree, large_key(grow, i), item_at(i)) != 0;
    CHECK_EQ(tree.count, MILLION);
    CHECK(btree_bytes(&tree) <= max_bytes);
    CHECK(btree_check(&tree));

    for (uintptr_t i = 0; i < MILLION; i++) {
        uintptr_t number = shrink == DESCENDING ? MILLION - 1 - i : i;
        if (shrink == RANDOM) /* a prime factor makes this a permutation */
            number = (i * 7368787 + 1) % MILLION;
        errors += btree_remove(&tree, large_key(grow, number), item_at(number)) != 0;
        if (i % 60000 == 0 || (tree.count < 4000 && i % 100 == 0))
            CHECK(btree_check(&tree));
    }
    CHECK_EQ(errors, 0);
    CHECK_EQ(tree.count, 0);
    CHECK_EQ(btree_bytes(&tree), 0);
    btree_release(&tree);
}

static void test_large_weight(void)
{
    fill_and_purge(ASCENDING, ASCENDING, 20UL * MILLION);
    fill_and_purge(ASCENDING, RANDOM, 20UL * MILLION);
    fill_and_purge(ASCENDING, DESCENDING, 20UL * MILLION);
    fill_and_purge(DESCENDING, ASCENDING, 20UL * MILLION);
    fill_and_purge(RANDOM, ASCENDING, 28UL * MILLION);
}

/* Every allocation of a growing tree fails once; the tree must be as it was, then go on. */
static void test_malloc_fails(void)
{
    for (enum order order = RANDOM; order <= DESCENDING; order++) {
        struct btree tree;
        btree_init(&tree);
        uint64_t failures = 0;
        for (size_t i = 0; i < 20000; i++) {
            struct btree_entry entry = nth_pair(order, i);
            int64_t allowed = 0;
            int ret;
            do {
                uint64_t count = tree.count;
                mallocs_left = allowed++;
                ret = btree_insert(&tree, entry.key, entry.item);
                if (ret == -ENOMEM) {
                    failures++;
                    CHECK_EQ(tree.count, count);
                    if (count < 100 || failures % 64 == 0)
                        CHECK(btree_check(&tree));
                }
            } while (ret == -ENOMEM);
            CHECK(ret == 0 || ret == -EEXIST);
        }
        CHECK(failures > 250);
        CHECK(btree_check(&tree));

        mallocs_left = 0; /* removing needs none */
        struct btree_entry entry;
        while (btree_first(&tree, &entry))
            CHECK_EQ(btree_remove(&tree, entry.key, entry.item), 0);
        mallocs_left = INT64_MAX;
        CHECK_EQ(btree_bytes(&tree), 0);
    }
}

static double lap_ms(struct timespec *since)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double ms =
        (double) (now.tv_sec - since->tv_sec) * 1e3 + (double) (now.tv_nsec - since->tv_nsec) / 1e6;
    *since = now;
    return ms;
}

static void bench(void)
{
    struct btree tree;
    struct timespec since = {0};
    btree_init(&tree);
    lap_ms(&since);
    for (uintptr_t i = 0; i < MILLION; i++)
        btree_insert(&tree, (int64_t) i, item_at(i));
    printf("ascending inserts %.0f ms, %.1f bytes per pair\n", lap_ms(&since),
        (double) btree_bytes(&tree) / MILLION);
    for (uintptr_t i = 0; i < MILLION; i++)
        btree_remove(&tree, (int64_t) i, item_at(i));
    printf("removals from the front %.0f ms\n", lap_ms(&since));
    for (uintptr_t i = 0; i < MILLION; i++)
        btree_insert(&tree, scattered(i), item_at(i));
    printf("random inserts %.0f ms, %.1f bytes per pair\n", lap_ms(&since),
        (double) btree_bytes(&tree) / MILLION);
    for (uintptr_t i = 0; i < MILLION; i++)
        btree_remove(&tree, scattered(i), item_at(i));
    printf("random removals %.0f ms\n", lap_ms(&since));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
        bench();
        return 0;
    }
    RUN(test_empty_and_extremes);
    RUN(test_every_step);
    RUN(test_against_model);
    RUN(test_queue);
    RUN(test_small_weight);
    RUN(test_large_weight);
    RUN(test_malloc_fails);
    return unit_report();
}
