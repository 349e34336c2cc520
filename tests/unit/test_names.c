/*
 * test_names.c - the name table: against a reference, under change, with colliding hashes.
 */
#include "core/names.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

#define SEED UINT64_C(0x0123456789abcdef)

enum { MANY = 120000 };

static uint64_t random_state = 88172645463325252U;

static uint64_t pick(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

static struct dentry *dentry_of(const void *name, size_t len)
{
    struct dentry *d = calloc(1, sizeof *d + len + 1);
    if (!d)
        abort();
    d->name_len = (uint8_t) len;
    memcpy(d->name, name, len);
    return d;
}

static struct dentry *dentry_number(uint64_t i)
{
    char name[32];
    int len = snprintf(name, sizeof name, "%" PRIu64 "-name", i);
    return dentry_of(name, (size_t) len);
}

static bool has(struct name_table *table, const struct dentry *d)
{
    return names_find(table, SEED, d->name, d->name_len) == d;
}

/* Walks all in order: cookies go up, both ways of going on agree. Returns how many there are. */
static uint64_t walk(struct name_table *table)
{
    uint64_t n = 0, cookie = 0;
    for (struct dentry *d = names_after(table, 0); d; d = names_next(d)) {
        uint64_t next = names_cookie(d);
        bool good = next > cookie && next > NAMES_COOKIE_RESERVED && next <= INT64_MAX &&
                    names_after(table, cookie) == d && names_after(table, next - 1) == d;
        if (!good)
            CHECK(!"cookies are in order");
        cookie = next;
        n++;
    }
    CHECK(!names_after(table, cookie));
    CHECK(!names_after(table, INT64_MAX));
    return n;
}

static void release(struct name_table *table)
{
    /* Going on from where the last name was: from the start all empty buckets would be in the way. */
    uint64_t cookie = 0;
    for (struct dentry *d; (d = names_after(table, cookie));) {
        cookie = names_cookie(d);
        names_remove(table, d);
        free(d);
    }
    CHECK_EQ(table->count, 0);
    names_release(table);
}

static void test_against_a_reference(void)
{
    static struct dentry *there[MANY];
    struct name_table table;
    uint64_t count = 0;
    names_init(&table);
    CHECK(!names_after(&table, 0));
    CHECK(!names_find(&table, SEED, "x", 1));
    for (int i = 0; i < MANY; i++) {
        there[i] = dentry_number((uint64_t) i);
        CHECK_EQ(names_insert(&table, SEED, there[i]), 0);
        if (i % 20011 == 0)
            CHECK_EQ(walk(&table), (uint64_t) i + 1);
    }
    CHECK_EQ(table.count, MANY);
    CHECK(table.bits >= 16);
    CHECK_EQ(walk(&table), MANY);
    count = MANY;
    for (int i = 0; i < 2 * MANY; i++) {
        uint64_t k = pick(MANY);
        char name[32];
        int len = snprintf(name, sizeof name, "%" PRIu64 "-name", k);
        struct dentry *found = names_find(&table, SEED, name, (size_t) len);
        if (found != there[k])
            CHECK(!"the table has what the reference has");
        if (there[k]) {
            names_remove(&table, there[k]);
            free(there[k]);
            there[k] = NULL;
            count--;
        } else if (pick(3) == 0) { /* fewer and fewer */
            there[k] = dentry_number(k);
            CHECK_EQ(names_insert(&table, SEED, there[k]), 0);
            count++;
        }
    }
    CHECK_EQ(table.count, count);
    CHECK_EQ(walk(&table), count);
    release(&table);
    /* Emptied: nothing of its size is left, and it can be used again. */
    CHECK(!table.segments && table.bits == 0);
    struct dentry *d = dentry_number(1);
    CHECK_EQ(names_insert(&table, SEED, d), 0);
    CHECK(has(&table, d));
    CHECK_EQ(walk(&table), 1);
    release(&table);
}

/* What is there from beginning to end of an enumeration is met exactly once. */
static void enumerate_under_change(unsigned int initial, unsigned int changes)
{
    enum { MOST = 30000 };
    static struct dentry *stays[MOST], *comes[MOST];
    static unsigned char met[MOST];
    struct name_table table;
    uint64_t next = 1000000;
    unsigned int ncomes = 0;
    names_init(&table);
    memset(met, 0, sizeof met);
    for (unsigned int i = 0; i < initial; i++) {
        stays[i] = dentry_number(i);
        CHECK_EQ(names_insert(&table, SEED, stays[i]), 0);
    }
    uint64_t cookie = 0;
    for (struct dentry *d; (d = names_after(&table, cookie));) {
        uint64_t number = strtoull(d->name, NULL, 10);
        if (number < initial)
            met[number]++;
        cookie = names_cookie(d);
        for (unsigned int i = 0; i < changes; i++) {
            if (ncomes && pick(5) < 2) {
                unsigned int k = (unsigned int) pick(ncomes);
                names_remove(&table, comes[k]);
                free(comes[k]);
                comes[k] = comes[--ncomes];
            } else if (ncomes < MOST) {
                comes[ncomes] = dentry_number(next++);
                CHECK_EQ(names_insert(&table, SEED, comes[ncomes]), 0);
                ncomes++;
            }
        }
    }
    unsigned int wrong = 0;
    for (unsigned int i = 0; i < initial; i++)
        wrong += met[i] != 1;
    CHECK_EQ(wrong, 0);
    release(&table);
}

static void test_enumeration(void)
{
    enumerate_under_change(1, 1);
    enumerate_under_change(7, 3);
    enumerate_under_change(500, 20); /* grows many times over meanwhile */
    enumerate_under_change(20000, 1);
}

/*
 * The hash backwards: XXH3 of eight bytes is a permutation of them (xxhash 0.8, "rrmxmx"), so names
 * for any hash can be made. The multiplier is xxhash's.
 */
#define XXH_MULTIPLIER UINT64_C(0x9fb21c651e98df25)

static uint64_t rotated(uint64_t x, unsigned int by)
{
    return x << by | x >> (64 - by);
}

static uint64_t unmixed(uint64_t h, uint64_t len)
{
    uint64_t inverse = XXH_MULTIPLIER; /* Newton: each step doubles the bits that are right */
    for (int i = 0; i < 6; i++)
        inverse *= 2 - XXH_MULTIPLIER * inverse;
    h = h ^ h >> 28 ^ h >> 56;
    h *= inverse;
    h ^= (h >> 35) + len;
    h *= inverse;
    /* The map x ^ x<<<49 ^ x<<<24 has order 64. */
    for (int i = 0; i < 63; i++)
        h = h ^ rotated(h, 49) ^ rotated(h, 24);
    return h;
}

/* Eight bytes with this hash; false when they would be no name. */
static bool name_with_hash(uint64_t hash, char *ret_name)
{
    char probe[8] = "abcdefgh";
    uint64_t input, flip, low, high;
    memcpy(&low, probe, 4 + 4);
    input = low << 32 | low >> 32;
    flip = unmixed(XXH3_64bits_withSeed(probe, 8, SEED), 8) ^ input;
    high = unmixed(hash, 8) ^ flip;
    low = high << 32 | high >> 32;
    memcpy(ret_name, &low, 8);
    return !memchr(ret_name, 0, 8) && !memchr(ret_name, '/', 8) &&
           XXH3_64bits_withSeed(ret_name, 8, SEED) == hash;
}

/* Names whose places in the order are the same, or next to each other. */
static void test_collisions(void)
{
    struct name_table table;
    struct dentry *inside[32], *refused = NULL;
    unsigned int n = 0, made = 0;
    names_init(&table);
    for (uint64_t i = 0; i < 5000; i++)
        CHECK_EQ(names_insert(&table, SEED, dentry_number(i)), 0);
    /* The lowest bits of the order are the highest of the hash; its lowest bit is always 1. */
    for (uint64_t base = 1; made < 20 && base < 100; base++) {
        made = 0;
        for (uint64_t top = 0; top < 32; top++) {
            char name[8];
            made +=
                name_with_hash(base * UINT64_C(0x3bcdef9876543) % (1ULL << 59) | top << 59, name);
        }
        if (made < 20)
            continue;
        for (uint64_t top = 0; top < 32; top++) {
            char name[8];
            if (!name_with_hash(base * UINT64_C(0x3bcdef9876543) % (1ULL << 59) | top << 59, name))
                continue;
            struct dentry *d = dentry_of(name, 8);
            int err = names_insert(&table, SEED, d);
            CHECK(err == 0 || err == -ENOSPC);
            if (err == 0)
                inside[n++] = d;
            else if (refused)
                free(d);
            else
                refused = d;
        }
    }
    CHECK(made >= 20);
    CHECK(n >= 4);
    CHECK(refused != NULL); /* more names than places */
    CHECK_EQ(walk(&table), 5000 + n);
    for (unsigned int i = 0; i < n; i++)
        CHECK(has(&table, inside[i]));
    CHECK(!refused || !names_find(&table, SEED, refused->name, 8));
    /* A name in the middle goes: those behind it are found as before, and there is room again. */
    for (unsigned int gone = 0; gone < n; gone += 3) {
        names_remove(&table, inside[gone]);
        for (unsigned int i = 0; i < n; i++)
            CHECK(i == gone || has(&table, inside[i]));
        CHECK(!names_find(&table, SEED, inside[gone]->name, 8));
        CHECK_EQ(names_insert(&table, SEED, inside[gone]), 0);
        CHECK(has(&table, inside[gone]));
    }
    CHECK_EQ(walk(&table), 5000 + n);
    free(refused);
    release(&table);
}

/* Any bytes, one to 255 of them. */
static void test_bytes(void)
{
    struct name_table table;
    unsigned char name[DOCUMENT_NAME_MAX_BYTES];
    names_init(&table);
    memset(name, 0xff, sizeof name);
    for (size_t len = 1; len <= sizeof name; len++)
        CHECK_EQ(names_insert(&table, SEED, dentry_of(name, len)), 0);
    for (size_t len = 1; len <= sizeof name; len++) {
        struct dentry *d = names_find(&table, SEED, (char *) name, len);
        CHECK(d && d->name_len == len);
    }
    CHECK_EQ(walk(&table), sizeof name);
    release(&table);
}

int main(void)
{
    RUN(test_against_a_reference);
    RUN(test_enumeration);
    RUN(test_collisions);
    RUN(test_bytes);
    return unit_report();
}
