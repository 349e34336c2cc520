/*
 * test_store.c - batches, records and blobs of the embedded store.
 * `test_store --bench [FOLDER]` prints what writing, reading and removing records costs.
 */
#include "core/store.h"
#include "tests/unit/scratch.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

static struct store *open_store(const char *path)
{
    struct store *store = NULL;
    struct reason why = {0};
    int ret = store_open(path, false, &store, &why);
    if (ret) {
        fprintf(stderr, "%s\n", why.text);
        abort();
    }
    return store;
}

static void *copy_of(const void *bytes, size_t len)
{
    void *copy = malloc(len);
    if (!copy)
        abort();
    memcpy(copy, bytes, len);
    return copy;
}

static void put(
    struct store_batch *batch, enum store_table table, const char *key, const char *value)
{
    size_t len = strlen(value);
    CHECK_EQ(
        store_batch_put(batch, table, key, strlen(key), len ? copy_of(value, len) : NULL, len), 0);
}

static void take_away(struct store_batch *batch, enum store_table table, const char *key)
{
    CHECK_EQ(store_batch_remove(batch, table, key, strlen(key)), 0);
}

static void commit(struct store *store, struct store_batch *batch)
{
    struct reason why = {0};
    store_stage(store, batch);
    int ret = store_apply(store, batch, &why);
    if (ret)
        fprintf(stderr, "%s\n", why.text);
    CHECK_EQ(ret, 0);
    CHECK(store_batch_empty(batch));
}

/* The record as text, or "-ENOENT" and the like. */
static const char *get(struct store *store, enum store_table table, const char *key)
{
    static char text[2000];
    void *value = NULL;
    size_t len = 0;
    int ret = store_get(store, table, key, strlen(key), &value, &len);
    if (ret)
        snprintf(text, sizeof text, ret == -ENOENT ? "-ENOENT" : "error %d", ret);
    else
        snprintf(text, sizeof text, "%.*s", (int) len, value ? (char *) value : "");
    CHECK((len == 0) == (value == NULL));
    free(value);
    return text;
}

static void test_batch_limits(void)
{
    struct store_batch batch;
    store_batch_init(&batch);
    CHECK(store_batch_empty(&batch));
    unsigned char key[70000] = {1};
    CHECK_EQ(store_batch_put(&batch, STORE_NODES, key, 0, NULL, 0), -EINVAL);
    CHECK_EQ(store_batch_put(&batch, STORE_NODES, key, STORE_KEY_MAX_BYTES + 1, NULL, 0), -EINVAL);
    CHECK_EQ(store_batch_put(&batch, STORE_NODES, key, 65536 + 8, copy_of("x", 1), 1), -EINVAL);
    CHECK_EQ(store_batch_remove(&batch, STORE_NODES, key, 65536 + 8), -EINVAL);
    CHECK(store_batch_empty(&batch));
    CHECK_EQ(store_batch_put(&batch, STORE_NODES, key, STORE_KEY_MAX_BYTES, copy_of("x", 1), 1), 0);
    CHECK(!store_batch_empty(&batch));
    store_batch_release(&batch);
    CHECK(store_batch_empty(&batch));
    CHECK_EQ(store_batch_dead_blob(&batch, 1), 0);
    CHECK(!store_batch_empty(&batch));
    store_batch_release(&batch);
    CHECK_EQ(store_batch_dirty_blob(&batch, 1), 0);
    CHECK(!store_batch_empty(&batch));
    store_batch_release(&batch);
}

static void test_put_get_remove(void)
{
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES];
    struct store *store = open_store(scratch_in(&scratch, "store", path));
    struct store_batch batch;
    store_batch_init(&batch);

    CHECK_STR(get(store, STORE_NODES, "a"), "-ENOENT");
    put(&batch, STORE_NODES, "a", "one");
    put(&batch, STORE_CONTENTS, "a", "other table");
    put(&batch, STORE_LINKS, "empty", "");
    take_away(&batch, STORE_NODES, "was never there");
    commit(store, &batch);
    CHECK_STR(get(store, STORE_NODES, "a"), "one");
    CHECK_STR(get(store, STORE_CONTENTS, "a"), "other table");
    CHECK_STR(get(store, STORE_LINKS, "empty"), "");
    CHECK_STR(get(store, STORE_META, "a"), "-ENOENT");

    put(&batch, STORE_NODES, "a", "two");
    put(&batch, STORE_NODES, "b", "three");
    take_away(&batch, STORE_CONTENTS, "a");
    commit(store, &batch);
    commit(store, &batch); /* an empty one */
    store_close(store);

    store = open_store(path);
    CHECK_STR(get(store, STORE_NODES, "a"), "two");
    CHECK_STR(get(store, STORE_NODES, "b"), "three");
    CHECK_STR(get(store, STORE_CONTENTS, "a"), "-ENOENT");
    CHECK_STR(get(store, STORE_LINKS, "empty"), "");
    void *value;
    size_t len;
    CHECK_EQ(store_get(store, STORE_NODES, "", 0, &value, &len), -EINVAL);
    store_close(store);
    store_close(NULL);
    scratch_remove(&scratch);
}

static void test_last_op_wins(void)
{
    struct scratch scratch = scratch_make();
    struct store *store = open_store(scratch.path);
    struct store_batch batch;
    store_batch_init(&batch);

    put(&batch, STORE_NODES, "gone", "1");
    put(&batch, STORE_NODES, "kept", "1");
    take_away(&batch, STORE_NODES, "back");
    put(&batch, STORE_NODES, "kept", "2");
    take_away(&batch, STORE_NODES, "gone");
    put(&batch, STORE_NODES, "back", "3");
    put(&batch, STORE_NODES, "kept", "4");
    store_stage(store, &batch);
    CHECK_EQ(batch.nops, 3);
    for (int durable = 0; durable < 2; durable++) {
        CHECK_STR(get(store, STORE_NODES, "gone"), "-ENOENT");
        CHECK_STR(get(store, STORE_NODES, "kept"), "4");
        CHECK_STR(get(store, STORE_NODES, "back"), "3");
        if (!durable)
            commit(store, &batch);
    }
    store_close(store);
    scratch_remove(&scratch);
}

static void test_staged(void)
{
    struct scratch scratch = scratch_make();
    struct store *store = open_store(scratch.path);
    struct store_batch batch;
    struct reason why = {0};
    store_batch_init(&batch);
    put(&batch, STORE_CONTENTS, "changed", "old");
    put(&batch, STORE_CONTENTS, "same", "same");
    put(&batch, STORE_CONTENTS, "removed", "old");
    commit(store, &batch);

    put(&batch, STORE_CONTENTS, "changed", "new");
    put(&batch, STORE_CONTENTS, "added", "");
    take_away(&batch, STORE_CONTENTS, "removed");
    CHECK_EQ(store_apply(store, &batch, &why), -EINVAL);
    CHECK_STR(get(store, STORE_CONTENTS, "changed"), "old");
    store_stage(store, &batch);
    store_stage(store, &batch);
    CHECK_STR(get(store, STORE_CONTENTS, "changed"), "new");
    CHECK_STR(get(store, STORE_CONTENTS, "same"), "same");
    CHECK_STR(get(store, STORE_CONTENTS, "added"), "");
    CHECK_STR(get(store, STORE_CONTENTS, "removed"), "-ENOENT");
    CHECK_STR(get(store, STORE_NODES, "changed"), "-ENOENT");
    commit(store, &batch);
    CHECK_STR(get(store, STORE_CONTENTS, "changed"), "new");
    CHECK_STR(get(store, STORE_CONTENTS, "added"), "");
    CHECK_STR(get(store, STORE_CONTENTS, "removed"), "-ENOENT");

    /* A batch that was staged and never written is as if it had not been. */
    put(&batch, STORE_CONTENTS, "changed", "lost");
    store_stage(store, &batch);
    store_close(store);
    store_batch_release(&batch);
    store = open_store(scratch.path);
    CHECK_STR(get(store, STORE_CONTENTS, "changed"), "new");
    store_close(store);
    scratch_remove(&scratch);
}

struct scanned {
    struct store *store;
    int stop_at;
    int visits;
    char keys[200];
};

static int scan_one(void *arg, const void *key, size_t key_len, const void *value, size_t value_len)
{
    struct scanned *scanned = arg;
    size_t used = strlen(scanned->keys);
    snprintf(
        scanned->keys + used, sizeof scanned->keys - used, "%.*s ", (int) key_len, (char *) key);
    char text[20];
    snprintf(text, sizeof text, "%.*s", (int) key_len, (char *) key);
    CHECK_EQ(strlen(get(scanned->store, STORE_LINKS, text)), value_len);
    CHECK(value_len == 0 || memcmp(value, "v", 1) == 0);
    return ++scanned->visits == scanned->stop_at ? 77 : 0;
}

static void test_scan(void)
{
    struct scratch scratch = scratch_make();
    struct store *store = open_store(scratch.path);
    struct store_batch batch;
    store_batch_init(&batch);
    struct scanned scanned = {.store = store};
    CHECK_EQ(store_scan(store, STORE_LINKS, scan_one, &scanned), 0);
    CHECK_EQ(scanned.visits, 0);

    put(&batch, STORE_LINKS, "b", "v");
    put(&batch, STORE_LINKS, "aa", "");
    put(&batch, STORE_NODES, "ab", "v");
    put(&batch, STORE_LINKS, "\377", "v2");
    put(&batch, STORE_LINKS, "a", "v");
    put(&batch, STORE_LINKS, "aab", "v");
    commit(store, &batch);
    CHECK_EQ(store_scan(store, STORE_LINKS, scan_one, &scanned), 0);
    CHECK_STR(scanned.keys, "a aa aab b \377 ");

    scanned = (struct scanned){.store = store, .stop_at = 2};
    CHECK_EQ(store_scan(store, STORE_LINKS, scan_one, &scanned), 77);
    CHECK_STR(scanned.keys, "a aa ");
    store_close(store);
    scratch_remove(&scratch);
}

static void number_key(uint32_t number, unsigned char *ret_key)
{
    memset(ret_key, 0, 8);
    for (int i = 0; i < 4; i++)
        ret_key[7 - i] = (unsigned char) (number >> 8 * i);
}

static void put_number(struct store_batch *batch, uint32_t number, uint32_t version, size_t len)
{
    unsigned char key[8];
    number_key(number, key);
    uint32_t *value = calloc(1, len);
    if (!value)
        abort();
    *value = version;
    CHECK_EQ(store_batch_put(batch, STORE_CONTENTS, key, sizeof key, value, len), 0);
}

static int get_number(struct store *store, uint32_t number, uint32_t *ret_version, size_t *ret_len)
{
    unsigned char key[8];
    number_key(number, key);
    void *value = NULL;
    int ret = store_get(store, STORE_CONTENTS, key, sizeof key, &value, ret_len);
    if (!ret)
        memcpy(ret_version, value, sizeof *ret_version);
    free(value);
    return ret;
}

enum { RANDOM_KEYS = 3000 };

static void check_numbers(struct store *store, const uint32_t *versions, const size_t *lens)
{
    int wrong = 0;
    for (uint32_t number = 0; number < RANDOM_KEYS; number++) {
        uint32_t version = 0;
        size_t len = 0;
        int ret = get_number(store, number, &version, &len);
        if (versions[number] == 0)
            wrong += ret != -ENOENT;
        else
            wrong += ret != 0 || version != versions[number] || len != lens[number];
    }
    CHECK_EQ(wrong, 0);
}

/* Batches of puts and removes of all sizes, in clusters and scattered, against an array. */
static void test_random_batches(void)
{
    static uint32_t versions[RANDOM_KEYS];
    static size_t lens[RANDOM_KEYS];
    struct scratch scratch = scratch_make();
    struct store *store = open_store(scratch.path);
    struct store_batch batch;
    store_batch_init(&batch);
    unsigned int seed = 4711;
    for (uint32_t round = 1; round <= 40; round++) {
        uint32_t from = (uint32_t) rand_r(&seed) % RANDOM_KEYS;
        for (uint32_t i = 0; i < 400; i++) {
            uint32_t number = (uint32_t) rand_r(&seed) % RANDOM_KEYS;
            if (round % 3 == 0)
                number = (from + i) % RANDOM_KEYS;
            if (round % 4 == 0 || rand_r(&seed) % 4 == 0) {
                unsigned char key[8];
                number_key(number, key);
                store_batch_remove(&batch, STORE_CONTENTS, key, sizeof key);
                versions[number] = 0;
            } else {
                versions[number] = round * 1000 + i;
                lens[number] = 4 + (size_t) rand_r(&seed) % (i % 16 ? 300 : 20000);
                put_number(&batch, number, versions[number], lens[number]);
            }
        }
        store_stage(store, &batch);
        if (round % 10 == 0)
            check_numbers(store, versions, lens);
        commit(store, &batch);
        if (round % 10 == 0)
            check_numbers(store, versions, lens);
    }
    store_close(store);
    store = open_store(scratch.path);
    check_numbers(store, versions, lens);
    store_close(store);
    scratch_remove(&scratch);
}

/* New documents have ascending numbers; their pages must not stay half empty. */
static void test_appending_is_dense(void)
{
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES];
    struct store *store = open_store(scratch.path);
    struct store_batch batch;
    store_batch_init(&batch);
    for (uint32_t number = 0; number < 20000; number++) {
        put_number(&batch, number, 1, 200);
        if (number % 5000 == 4999)
            commit(store, &batch);
    }
    struct stat st;
    CHECK_EQ(stat(scratch_in(&scratch, "data.mdb", path), &st), 0);
    CHECK(st.st_size < 20000 * (200 + 8) * 13 / 10);
    store_close(store);
    scratch_remove(&scratch);
}

static void test_refused_formats(void)
{
    /* BSON by hand: {version: 7}, {version: "1"}, {} */
    static const unsigned char seven[] = "\x12\0\0\0\x10version\0\7\0\0\0";
    static const unsigned char text[] = "\x14\0\0\0\2version\0\2\0\0\0001\0";
    static const unsigned char nothing[] = "\5\0\0\0";
    const struct {
        const void *bytes;
        size_t len;
        const char *words[2];
    } formats[] = {{seven, sizeof seven, {"version 7", "version 1"}},
        {text, sizeof text, {"no version", ""}}, {nothing, sizeof nothing, {"no version", ""}},
        {"x", 1, {"no version", ""}}, {NULL, 0, {"no version", ""}}};

    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct scratch scratch = scratch_make();
        struct store *store = open_store(scratch.path);
        struct store_batch batch;
        store_batch_init(&batch);
        if (formats[i].bytes)
            CHECK_EQ(store_batch_put(&batch, STORE_META, "format", 6,
                         copy_of(formats[i].bytes, formats[i].len), formats[i].len),
                0);
        else
            take_away(&batch, STORE_META, "format");
        commit(store, &batch);
        store_close(store);
        for (int read_only = 0; read_only < 2; read_only++) {
            struct reason why = {0};
            CHECK_EQ(store_open(scratch.path, read_only, &store, &why), -EPROTO);
            CHECK(strstr(why.text, formats[i].words[0]) && strstr(why.text, formats[i].words[1]));
        }
        scratch_remove(&scratch);
    }
}

static void test_refused_paths(void)
{
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES];
    struct store *store;
    struct reason why = {0};

    CHECK_EQ(store_open(scratch_in(&scratch, "missing/store", path), false, &store, &why), -ENOENT);
    CHECK(why.text[0]);
    int fd = open(scratch_in(&scratch, "data.mdb", path), O_CREAT | O_WRONLY, 0600);
    CHECK_EQ(write(fd, "this is no database", 19), 19);
    close(fd);
    CHECK_EQ(store_open(path, false, &store, &why), -ENOTDIR);
    CHECK(strstr(why.text, "data.mdb"));
    why.text[0] = '\0';
    CHECK_EQ(store_open(scratch.path, false, &store, &why), -EIO);
    CHECK(why.text[0]);
    scratch_remove(&scratch);
}

static bool keep_none(void *arg, uint64_t blob)
{
    (void) arg;
    (void) blob;
    return false;
}

static void test_read_only(void)
{
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES], blobs[SCRATCH_PATH_BYTES];
    struct store *store;
    struct reason why = {0};
    CHECK_EQ(store_open(scratch_in(&scratch, "none", path), true, &store, &why), -ENOENT);
    CHECK(strstr(why.text, "no store"));
    CHECK(access(path, F_OK) != 0);
    why.text[0] = '\0';
    CHECK_EQ(store_open(scratch.path, true, &store, &why), -ENOENT);
    CHECK(strstr(why.text, "no store"));
    CHECK_EQ(rmdir(scratch.path), 0); /* nothing was left in it */
    CHECK_EQ(mkdir(scratch.path, 0700), 0);

    store = open_store(scratch.path);
    struct store_batch batch;
    store_batch_init(&batch);
    put(&batch, STORE_NODES, "a", "one");
    commit(store, &batch);
    store_close(store);

    for (int round = 0; round < 2; round++) {
        CHECK_EQ(store_open(scratch.path, true, &store, &why), 0);
        CHECK_STR(get(store, STORE_NODES, "a"), "one");
        put(&batch, STORE_NODES, "a", "two");
        store_stage(store, &batch);
        CHECK_EQ(store_apply(store, &batch, &why), -EROFS);
        int fd;
        CHECK_EQ(store_blob_open(store, 1, true, &fd), -EROFS);
        CHECK_EQ(store_blob_open(store, 1, false, &fd), -ENOENT);
        CHECK_EQ(store_blob_remove(store, 1), -EROFS);
        CHECK_EQ(store_blob_sweep(store, keep_none, NULL), -EROFS);
        store_close(store);
        store_batch_release(&batch);
        rmdir(scratch_in(&scratch, "blobs", blobs)); /* a store without is read all the same */
    }
    scratch_remove(&scratch);
}

static bool blob_exists(struct store *store, uint64_t blob)
{
    int fd;
    int ret = store_blob_open(store, blob, false, &fd);
    if (ret == 0)
        close(fd);
    return ret == 0;
}

static void make_blob(struct store *store, uint64_t blob)
{
    int fd;
    CHECK_EQ(store_blob_open(store, blob, true, &fd), 0);
    CHECK_EQ(write(fd, &blob, sizeof blob), sizeof blob);
    close(fd);
}

static bool keep_even(void *arg, uint64_t blob)
{
    (*(int *) arg)++;
    return blob % 2 == 0;
}

static void test_blobs(void)
{
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES];
    struct store *store = open_store(scratch.path);
    struct store_batch batch;
    store_batch_init(&batch);
    uint64_t large = 0xfedcba9876543210;
    int fd;

    CHECK_EQ(store_blob_open(store, large, false, &fd), -ENOENT);
    make_blob(store, large);
    CHECK_EQ(store_blob_open(store, large, true, &fd), -EEXIST);
    struct stat st;
    CHECK_EQ(stat(scratch_in(&scratch, "blobs/10/fedcba9876543210", path), &st), 0);
    CHECK_EQ(st.st_mode & 07777, 0600);
    for (uint64_t blob = 1; blob <= 600; blob++)
        make_blob(store, blob);

    /* Synced with duplicates, some dead in the same batch, some gone, none in the records. */
    for (uint64_t blob = 1; blob <= 20; blob++) {
        CHECK_EQ(store_batch_dirty_blob(&batch, blob % 7), 0);
        CHECK_EQ(store_batch_dirty_blob(&batch, blob), 0);
    }
    CHECK_EQ(store_batch_dirty_blob(&batch, 123456), 0);
    for (uint64_t blob = 18; blob <= 24; blob++) {
        CHECK_EQ(store_batch_dead_blob(&batch, blob), 0);
        CHECK_EQ(store_batch_dead_blob(&batch, 23), 0);
    }
    put(&batch, STORE_NODES, "a", "one");
    store_stage(store, &batch);
    CHECK(blob_exists(store, 18));
    commit(store, &batch);
    CHECK(blob_exists(store, 17) && !blob_exists(store, 18) && !blob_exists(store, 24));
    CHECK(blob_exists(store, 25));
    CHECK_STR(get(store, STORE_NODES, "a"), "one");

    CHECK_EQ(store_batch_dead_blob(&batch, 25), 0); /* a batch of nothing else */
    commit(store, &batch);
    CHECK(!blob_exists(store, 25));
    CHECK_EQ(store_blob_remove(store, 26), 0);
    CHECK_EQ(store_blob_remove(store, 26), 0);
    CHECK(!blob_exists(store, 26));
    store_close(store);

    /* What is left: 1..17, 27..600 and the large one. Strangers are not touched. */
    const char *strangers[] = {"blobs/01/README", "blobs/01/0000000000000002",
        "blobs/01/000000000000000A", "blobs/01/00000000000000001"};
    for (size_t i = 0; i < 4; i++)
        close(open(scratch_in(&scratch, strangers[i], path), O_CREAT | O_WRONLY, 0600));
    store = open_store(scratch.path);
    int asked = 0;
    CHECK_EQ(store_blob_sweep(store, keep_even, &asked), 9 + 287);
    CHECK_EQ(asked, 17 + 574 + 1);
    CHECK(blob_exists(store, large) && blob_exists(store, 2) && !blob_exists(store, 1));
    CHECK_EQ(store_blob_sweep(store, keep_none, NULL), 8 + 287 + 1);
    for (size_t i = 0; i < 4; i++)
        CHECK_EQ(access(scratch_in(&scratch, strangers[i], path), F_OK), 0);

    struct statvfs vfs;
    CHECK_EQ(store_statvfs(store, &vfs), 0);
    CHECK(vfs.f_blocks > 0);
    store_close(store);
    scratch_remove(&scratch);
}

/* Each batch writes one version under all keys; a reader must never miss one or see time turn. */
enum { SHARED_KEYS = 20, SHARED_ROUNDS = 60 };

struct shared {
    struct store *store;
    _Atomic uint32_t staged; /* readers started from now on see at least this version */
    atomic_bool done;
    atomic_int errors;
};

static void *read_shared(void *arg)
{
    struct shared *shared = arg;
    for (uint32_t i = 0; !shared->done; i++) {
        uint32_t least = shared->staged, version = 0;
        size_t len;
        int ret = get_number(shared->store, i % SHARED_KEYS, &version, &len);
        if (ret || version < least)
            shared->errors++;
    }
    return NULL;
}

static void test_readers_beside_a_writer(void)
{
    struct scratch scratch = scratch_make();
    struct shared shared = {.store = open_store(scratch.path)};
    struct store_batch batch;
    store_batch_init(&batch);
    pthread_t readers[3];
    for (uint32_t round = 1; round <= SHARED_ROUNDS; round++) {
        for (uint32_t number = 0; number < SHARED_KEYS; number++)
            put_number(&batch, number, round, 100);
        store_stage(shared.store, &batch);
        shared.staged = round;
        commit(shared.store, &batch);
        for (int i = 0; round == 1 && i < 3; i++)
            if (pthread_create(&readers[i], NULL, read_shared, &shared))
                abort();
    }
    shared.done = true;
    for (int i = 0; i < 3; i++)
        pthread_join(readers[i], NULL);
    CHECK_EQ(shared.errors, 0);
    store_close(shared.store);
    scratch_remove(&scratch);
}

static double lap_us(struct timespec *since)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    double us =
        (double) (now.tv_sec - since->tv_sec) * 1e6 + (double) (now.tv_nsec - since->tv_nsec) / 1e3;
    *since = now;
    return us;
}

static void bench(const char *folder)
{
    enum { DOCS = 200000, BATCH_DOCS = 20000 };
    struct store *store = open_store(folder);
    struct store_batch batch;
    struct timespec since = {0};
    double build = 0, stage = 0, apply = 0;
    store_batch_init(&batch);
    for (int removing = 0; removing < 2; removing++) {
        build = stage = apply = 0;
        for (uint32_t first = 0; first < DOCS; first += BATCH_DOCS) {
            lap_us(&since);
            for (uint32_t i = 0; i < BATCH_DOCS; i++) {
                unsigned char key[8];
                uint32_t number = first + (i * 7919) % BATCH_DOCS;
                number_key(number, key);
                if (removing) {
                    store_batch_remove(&batch, STORE_NODES, key, sizeof key);
                    store_batch_remove(&batch, STORE_CONTENTS, key, sizeof key);
                } else {
                    store_batch_put(&batch, STORE_NODES, key, sizeof key, calloc(1, 150), 150);
                    put_number(&batch, number, 1, 200);
                }
            }
            build += lap_us(&since);
            store_stage(store, &batch);
            stage += lap_us(&since);
            commit(store, &batch);
            apply += lap_us(&since);
        }
        printf("%s per document of two records: build %.2f us, stage %.2f us, apply %.2f us\n",
            removing ? "removing" : "writing", build / DOCS, stage / DOCS, apply / DOCS);
        for (uint32_t i = 0; i < DOCS && !removing; i++) {
            uint32_t version;
            size_t len;
            get_number(store, (i * 7919) % DOCS, &version, &len);
        }
        if (!removing)
            printf("reading %.2f us per record\n", lap_us(&since) / DOCS);
    }
    store_close(store);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
        struct scratch scratch = scratch_make();
        bench(argc > 2 ? argv[2] : scratch.path);
        scratch_remove(&scratch);
        return 0;
    }
    RUN(test_batch_limits);
    RUN(test_put_get_remove);
    RUN(test_last_op_wins);
    RUN(test_staged);
    RUN(test_scan);
    RUN(test_random_batches);
    RUN(test_appending_is_dense);
    RUN(test_refused_formats);
    RUN(test_refused_paths);
    RUN(test_read_only);
    RUN(test_blobs);
    RUN(test_readers_beside_a_writer);
    return unit_report();
}
