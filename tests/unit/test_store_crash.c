/*
 * test_store_crash.c - the store's lock, and what is left after a kill or a full disk.
 */
#include "core/store.h"
#include "tests/unit/scratch.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { KILLS = 15, RECORDS = 100, RECORD_BYTES = 700 };

/* Every record of a batch carries the same counter; each batch also swaps one blob for another. */
static int add_round(struct store_batch *batch, uint64_t counter)
{
    for (uint64_t i = 0; i < RECORDS; i++) {
        uint64_t *value = calloc(1, RECORD_BYTES);
        if (!value)
            return -ENOMEM;
        *value = counter;
        /* Half of the keys stay, the others go with the next counter. */
        uint64_t key[2] = {i, i % 2 ? 0 : counter % 5};
        int ret = store_batch_put(batch, STORE_CONTENTS, key, sizeof key, value, RECORD_BYTES);
        key[1] = (counter + 4) % 5;
        if (!ret && i % 2 == 0)
            ret = store_batch_remove(batch, STORE_CONTENTS, key, sizeof key);
        if (ret)
            return ret;
    }
    return 0;
}

static int add_blob(struct store *store, struct store_batch *batch, uint64_t counter)
{
    int fd;
    int ret = store_blob_open(store, counter, true, &fd);
    if (ret == -EEXIST) /* from a batch that did not make it */
        ret = store_blob_open(store, counter, false, &fd);
    if (ret)
        return ret;
    ret = write(fd, &counter, sizeof counter) == sizeof counter ? 0 : -EIO;
    close(fd);
    if (!ret)
        ret = store_batch_dirty_blob(batch, counter);
    if (!ret && counter > 1)
        ret = store_batch_dead_blob(batch, counter - 1);
    return ret;
}

struct seen {
    uint64_t counter;
    int records;
    int strays; /* with another counter than the first */
};

static int see(void *arg, const void *key, size_t key_len, const void *value, size_t value_len)
{
    (void) key;
    (void) key_len;
    struct seen *seen = arg;
    uint64_t counter = 0;
    if (value_len == RECORD_BYTES)
        memcpy(&counter, value, sizeof counter);
    if (seen->records++ == 0)
        seen->counter = counter;
    seen->strays += counter != seen->counter;
    return 0;
}

/* Returns the counter of the batch that the store holds; 0 for an empty store. */
static uint64_t check_whole(struct store *store)
{
    struct seen seen = {0};
    CHECK_EQ(store_scan(store, STORE_CONTENTS, see, &seen), 0);
    CHECK_EQ(seen.strays, 0);
    CHECK(seen.records == 0 || seen.records == RECORDS);
    return seen.counter;
}

/* In a child: writes batch after batch and reports each one, until it is killed. */
static void write_until_killed(const char *path, uint64_t counter, int report_fd)
{
    struct store *store;
    if (store_open(path, false, &store, NULL))
        _exit(1);
    struct store_batch batch;
    store_batch_init(&batch);
    for (;;) {
        counter++;
        if (add_round(&batch, counter) || add_blob(store, &batch, counter))
            _exit(2);
        store_stage(store, &batch);
        if (store_apply(store, &batch, NULL))
            _exit(3);
        if (write(report_fd, &counter, sizeof counter) != sizeof counter)
            _exit(4);
    }
}

static void pause_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static bool keep_one(void *arg, uint64_t blob)
{
    return blob == *(uint64_t *) arg;
}

static void test_killed_while_writing(void)
{
    struct scratch scratch = scratch_make();
    unsigned int seed = 99;
    uint64_t counter = 0;
    for (int i = 0; i < KILLS; i++) {
        int pipe_fds[2];
        if (pipe(pipe_fds))
            abort();
        pid_t child = fork();
        if (child == 0)
            write_until_killed(scratch.path, counter, pipe_fds[1]);
        close(pipe_fds[1]);
        uint64_t reported = 0, last = counter;
        if (read(pipe_fds[0], &reported, sizeof reported) == sizeof reported)
            last = reported;
        pause_us(rand_r(&seed) % 20000);
        kill(child, SIGKILL);
        while (read(pipe_fds[0], &reported, sizeof reported) == sizeof reported)
            last = reported;
        int status;
        CHECK_EQ(waitpid(child, &status, 0), child);
        CHECK(WIFSIGNALED(status));
        close(pipe_fds[0]);

        struct store *store = NULL;
        struct reason why = {0};
        CHECK_EQ(store_open(scratch.path, false, &store, &why), 0);
        CHECK_STR(why.text, "");
        counter = check_whole(store);
        CHECK(counter == last || counter == last + 1);
        /* The blob that the records name is there; what was left behind is swept. */
        CHECK(store_blob_sweep(store, keep_one, &counter) <= 2);
        int fd = -1;
        uint64_t content = 0;
        CHECK_EQ(store_blob_open(store, counter, false, &fd), 0);
        CHECK_EQ(read(fd, &content, sizeof content), sizeof content);
        CHECK_EQ(content, counter);
        close(fd);
        store_close(store);
    }
    CHECK(counter >= KILLS);
    scratch_remove(&scratch);
}

static void test_killed_while_creating(void)
{
    unsigned int seed = 5;
    for (int i = 0; i < 2 * KILLS; i++) {
        struct scratch scratch = scratch_make();
        char path[SCRATCH_PATH_BYTES];
        scratch_in(&scratch, "store", path);
        pid_t child = fork();
        if (child == 0) {
            struct store *store;
            if (store_open(path, false, &store, NULL))
                _exit(1);
            for (;;)
                pause();
        }
        pause_us(rand_r(&seed) % 4000);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        struct store *store = NULL;
        struct reason why = {0};
        CHECK_EQ(store_open(path, false, &store, &why), 0);
        CHECK_STR(why.text, "");
        store_close(store);
        scratch_remove(&scratch);
    }
}

/* What a power cut may leave of a database that was being made. */
static void test_half_made_database(void)
{
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES];
    int fd = open(scratch_in(&scratch, "data.mdb.new", path), O_CREAT | O_WRONLY, 0600);
    CHECK_EQ(ftruncate(fd, 5000), 0);
    close(fd);
    close(open(scratch_in(&scratch, "data.mdb.new-lock", path), O_CREAT | O_WRONLY, 0600));
    struct store *store = NULL;
    CHECK_EQ(store_open(scratch.path, true, &store, NULL), -ENOENT);
    CHECK_EQ(store_open(scratch.path, false, &store, NULL), 0);
    store_close(store);
    CHECK(access(scratch_in(&scratch, "data.mdb.new", path), F_OK) != 0);
    CHECK(access(scratch_in(&scratch, "data.mdb.new-lock", path), F_OK) != 0);
    scratch_remove(&scratch);
}

/* Opens a store in a child, which holds it until its end of the pipe is closed. */
static pid_t hold_in_child(const char *path, int *ret_fd)
{
    int ready[2], done[2];
    if (pipe(ready) || pipe(done))
        abort();
    pid_t child = fork();
    if (child == 0) {
        close(done[1]);
        struct store *store;
        char byte = (char) store_open(path, false, &store, NULL);
        if (write(ready[1], &byte, 1) != 1 || byte)
            _exit(1);
        if (read(done[0], &byte, 1) < 0)
            _exit(2);
        store_close(store);
        _exit(0);
    }
    char byte = 1;
    close(ready[1]);
    close(done[0]);
    CHECK_EQ(read(ready[0], &byte, 1), 1);
    CHECK_EQ(byte, 0);
    close(ready[0]);
    *ret_fd = done[1];
    return child;
}

static void test_lock_of_another_process(void)
{
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES], pid[40], text[40] = "";
    int held;
    pid_t child = hold_in_child(scratch.path, &held);
    snprintf(pid, sizeof pid, "process %d:", (int) child);
    for (int read_only = 0; read_only < 2; read_only++) {
        struct store *store;
        struct reason why = {0};
        CHECK_EQ(store_open(scratch.path, read_only, &store, &why), -EBUSY);
        CHECK(strstr(why.text, pid));
    }
    int fd = open(scratch_in(&scratch, "lock", path), O_RDONLY);
    CHECK(read(fd, text, sizeof text - 1) > 0);
    CHECK_EQ(strtol(text, NULL, 10), child);
    close(fd);

    close(held);
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    struct store *store = NULL;
    CHECK_EQ(store_open(scratch.path, false, &store, NULL), 0);
    store_close(store);
    scratch_remove(&scratch);
}

static void test_lock_of_this_process(void)
{
    struct scratch scratch = scratch_make(), other = scratch_make();
    char path[SCRATCH_PATH_BYTES], link[SCRATCH_PATH_BYTES], pid[40];
    scratch_in(&scratch, "store", path);
    scratch_in(&scratch, "link", link);
    CHECK_EQ(symlink("store", link), 0);
    snprintf(pid, sizeof pid, "%d", (int) getpid());

    struct store *store = NULL, *second = NULL;
    CHECK_EQ(store_open(path, false, &store, NULL), 0);
    for (int read_only = 0; read_only < 2; read_only++) {
        struct reason why = {0};
        CHECK_EQ(store_open(link, read_only, &second, &why), -EBUSY);
        CHECK(strstr(why.text, pid));
    }
    /* Another one is another matter. */
    CHECK_EQ(store_open(other.path, false, &second, NULL), 0);
    store_close(second);

    /* The attempts have not cost us the lock. */
    pid_t child = fork();
    if (child == 0) {
        /* A program of its own, as this one's list of open stores came along. */
        char lock[SCRATCH_PATH_BYTES];
        int fd = open(scratch_in(&scratch, "store/lock", lock), O_RDWR);
        struct flock probe = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        _exit(fd < 0 || fcntl(fd, F_GETLK, &probe) || probe.l_pid != getppid());
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);

    store_close(store);
    CHECK_EQ(store_open(link, false, &store, NULL), 0);
    store_close(store);
    scratch_remove(&scratch);
    scratch_remove(&other);
}

/* No file may grow beyond what the database has now: a commit fails half-way. */
static void test_write_fails(void)
{
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES];
    struct store *store = NULL;
    struct store_batch batch;
    store_batch_init(&batch);
    CHECK_EQ(store_open(scratch.path, false, &store, NULL), 0);
    CHECK_EQ(add_round(&batch, 1), 0);
    store_stage(store, &batch);
    CHECK_EQ(store_apply(store, &batch, NULL), 0);

    signal(SIGXFSZ, SIG_IGN);
    struct stat st;
    CHECK_EQ(stat(scratch_in(&scratch, "data.mdb", path), &st), 0);
    uint64_t counter = 1;
    struct rlimit old, tight;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    for (int pages = 0; pages < 40; pages += 3) {
        tight.rlim_cur = (rlim_t) st.st_size + (rlim_t) pages * 1000;
        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
        int ret = 0;
        while (!ret && counter < 10000) {
            struct reason why = {0};
            CHECK_EQ(add_round(&batch, ++counter), 0);
            uint64_t *large = calloc(1, 300000);
            if (!large)
                abort();
            *large = counter;
            CHECK_EQ(
                store_batch_put(&batch, STORE_NODES, &counter, sizeof counter, large, 300000), 0);
            store_stage(store, &batch);
            ret = store_apply(store, &batch, &why);
            CHECK(ret == 0 || why.text[0]);
        }
        CHECK(ret == -ENOSPC || ret == -EIO);
        CHECK(batch.nops > 0);
        CHECK_EQ(check_whole(store), counter - 1); /* nothing of it was written */
        void *value = NULL;
        size_t len = 0;
        CHECK_EQ(store_get(store, STORE_NODES, &counter, sizeof counter, &value, &len), 0);
        CHECK_EQ(len, 300000); /* but it is still found */
        free(value);
        CHECK(store_apply(store, &batch, NULL) < 0);

        CHECK_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
        CHECK_EQ(store_apply(store, &batch, NULL), 0);
        CHECK_EQ(check_whole(store), counter);
        CHECK_EQ(store_get(store, STORE_NODES, &counter, sizeof counter, &value, &len), 0);
        free(value);
        CHECK_EQ(stat(path, &st), 0);
    }
    store_close(store);
    CHECK_EQ(store_open(scratch.path, false, &store, NULL), 0);
    check_whole(store);
    store_close(store);
    scratch_remove(&scratch);
}

/* In a child with a small filesystem of its own at `path`. Returns the line that went wrong. */
static int fill_up(const char *path)
{
    struct store *store;
    struct store_batch batch;
    struct reason why = {0};
    store_batch_init(&batch);
    if (store_open(path, false, &store, NULL))
        return __LINE__;
    uint64_t counter = 0;
    for (int again = 0; again < 3; again++) {
        int ret = 0;
        while (!ret && counter < 10000) {
            counter++;
            if (store_batch_put(
                    &batch, STORE_NODES, &counter, sizeof counter, calloc(1, 50000), 50000) ||
                add_round(&batch, counter))
                return __LINE__;
            store_stage(store, &batch);
            ret = store_apply(store, &batch, &why);
        }
        if (ret != -ENOSPC || !strstr(why.text, "full"))
            return fprintf(stderr, "%d: %s\n", ret, why.text), __LINE__;
        if (check_whole(store) != counter - 1 || unit_failures)
            return __LINE__;
        const char *larger[] = {"size=8M", "size=12M", "size=16M"};
        if (mount(NULL, path, NULL, MS_REMOUNT, larger[again]))
            return __LINE__;
        if (store_apply(store, &batch, &why))
            return __LINE__;
        if (check_whole(store) != counter || unit_failures)
            return __LINE__;
    }
    store_close(store);
    return 0;
}

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t) strlen(text);
    if (fd >= 0)
        close(fd);
    return done;
}

/* Enters a mount namespace, without privileges by way of a user namespace. */
static bool enter_namespace(void)
{
    char uids[40], gids[40];
    snprintf(uids, sizeof uids, "0 %u 1", (unsigned int) geteuid());
    snprintf(gids, sizeof gids, "0 %u 1", (unsigned int) getegid());
    bool root = geteuid() == 0;
    if (unshare(CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER)))
        return false;
    return root ||
           (write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/uid_map", uids) &&
               write_text("/proc/self/gid_map", gids));
}

static void test_full_filesystem(void)
{
    struct scratch scratch = scratch_make();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!enter_namespace() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("tmpfs", scratch.path, "tmpfs", 0, "size=4M")) {
            fprintf(stderr, "test_full_filesystem: skipped, no mount is permitted here\n");
            _exit(0);
        }
        int line = fill_up(scratch.path);
        if (line)
            fprintf(stderr, "%s:%d: failed\n", __FILE__, line);
        _exit(line != 0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    scratch_remove(&scratch);
}

/* The store reserves much address space, and makes do with less. */
static void test_limited_address_space(void)
{
    const rlim_t limit = (rlim_t) 3 << 30;
    char text[40] = "";
    int fd = open("/proc/self/statm", O_RDONLY);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
        return;
    close(fd);
    if (strtoull(text, NULL, 10) * (rlim_t) sysconf(_SC_PAGESIZE) > limit / 2)
        return; /* sanitizers take more for themselves */

    struct scratch scratch = scratch_make();
    struct rlimit old, tight;
    CHECK_EQ(getrlimit(RLIMIT_AS, &old), 0);
    tight = old;
    tight.rlim_cur = limit;
    CHECK_EQ(setrlimit(RLIMIT_AS, &tight), 0);
    struct store *store = NULL;
    struct store_batch batch;
    store_batch_init(&batch);
    CHECK_EQ(store_open(scratch.path, false, &store, NULL), 0);
    CHECK_EQ(add_round(&batch, 1), 0);
    store_stage(store, &batch);
    CHECK_EQ(store_apply(store, &batch, NULL), 0);
    store_close(store);
    CHECK_EQ(setrlimit(RLIMIT_AS, &old), 0);
    CHECK_EQ(store_open(scratch.path, false, &store, NULL), 0);
    CHECK_EQ(check_whole(store), 1);
    store_close(store);
    scratch_remove(&scratch);
}

int main(void)
{
    RUN(test_half_made_database);
    RUN(test_killed_while_creating);
    RUN(test_killed_while_writing);
    RUN(test_lock_of_another_process);
    RUN(test_lock_of_this_process);
    RUN(test_write_fails);
    RUN(test_full_filesystem);
    RUN(test_limited_address_space);
    return unit_report();
}
