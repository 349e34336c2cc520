/*
 * store_open.c - the store's directory: made, locked, opened, closed.
 *
 * A new database is built under another name and renamed when it is complete, so a process that
 * dies while it makes a store leaves either no database or a whole one.
 */
#include "core/store_impl.h"

#include <bson/bson.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define DATA_NAME "data.mdb"
#define FRESH_NAME "data.mdb.new"
#define FRESH_LOCK_NAME "data.mdb.new-lock"
#define FORMAT_KEY "format"

/* How many threads may read at once. */
#define READERS 1024

/* The map only reserves addresses; the file grows as it is written. */
static const size_t MAP_MOST_BYTES = (size_t) 1 << (sizeof(size_t) > 4 ? 40 : 30);
static const size_t MAP_LEAST_BYTES = (size_t) 1 << 26;

static const char *const table_names[STORE_TABLES] = {
    [STORE_NODES] = "nodes",
    [STORE_LINKS] = "links",
    [STORE_CONTENTS] = "contents",
    [STORE_META] = "meta",
};

/*
 * The stores that this process has open. An fcntl lock belongs to the process: it would neither
 * stop a second open here nor survive the second one's close.
 */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct store *registry;

static int system_error(struct reason *why, int err, const char *path, const char *name)
{
    return reason_set(why, err, "%s%s%s: %s", path, *name ? "/" : "", name, mdb_strerror(err));
}

/* A full filesystem must not keep a store from being opened: the pid is a courtesy. */
static void write_pid(int lock_fd)
{
    char text[32];
    int len = snprintf(text, sizeof text, "%ld\n", (long) getpid());
    if (ftruncate(lock_fd, 0) || pwrite(lock_fd, text, (size_t) len, 0) < 0)
        return;
}

/* Who has the lock; 0 when nobody can tell. */
static long lock_holder(int lock_fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(lock_fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0)
        return lock.l_pid;
    /* The holder lives in another pid namespace: what it wrote is better than nothing. */
    char text[32] = "";
    ssize_t len = pread(lock_fd, text, sizeof text - 1, 0);
    return len > 0 ? strtol(text, NULL, 10) : 0;
}

static int take_lock_file(struct store *store, const char *path, struct reason *why)
{
    int fd = openat(store->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == EROFS && store->read_only)
        return 0; /* nobody can change what is here */
    if (fd < 0)
        return system_error(why, errno, path, "lock");

    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLK, &lock)) {
        int err = errno;
        long holder = lock_holder(fd);
        close(fd);
        if (err != EACCES && err != EAGAIN)
            return system_error(why, err, path, "lock");
        if (holder <= 0)
            return reason_set(why, EBUSY, "the store is in use by another process: %s", path);
        return reason_set(why, EBUSY, "the store is in use by process %ld: %s", holder, path);
    }
    write_pid(fd);
    store->lock_fd = fd;
    return 0;
}

static int take_lock(struct store *store, const char *path, struct reason *why)
{
    struct stat st;
    if (fstat(store->dir_fd, &st))
        return system_error(why, errno, path, "");

    pthread_mutex_lock(&registry_lock);
    int ret = 0;
    for (const struct store *other = registry; other && !ret; other = other->next)
        if (other->dev == st.st_dev && other->ino == st.st_ino)
            ret = reason_set(why, EBUSY, "the store is in use by this very process, %ld: %s",
                (long) getpid(), path);
    if (!ret)
        ret = take_lock_file(store, path, why);
    if (!ret) {
        store->dev = st.st_dev;
        store->ino = st.st_ino;
        store->next = registry;
        registry = store;
        store->registered = true;
    }
    pthread_mutex_unlock(&registry_lock);
    return ret;
}

/* Closes the lock file before another thread can open it: a close drops all locks on a file. */
static void drop_lock(struct store *store)
{
    if (!store->registered)
        return;
    pthread_mutex_lock(&registry_lock);
    struct store **link = &registry;
    while (*link != store)
        link = &(*link)->next;
    *link = store->next;
    if (store->lock_fd >= 0) {
        if (ftruncate(store->lock_fd, 0)) {
            /* An old pid in a file that is not locked misleads nobody. */
        }
        close(store->lock_fd);
    }
    pthread_mutex_unlock(&registry_lock);
}

static int open_directory(struct store *store, const char *path, struct reason *why)
{
    bool made = false;
    if (!store->read_only) {
        made = mkdir(path, 0700) == 0;
        if (!made && errno != EEXIST)
            return system_error(why, errno, path, "");
    }
    store->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->dir_fd < 0 && errno == ENOENT)
        return reason_set(why, ENOENT, "there is no store to read: %s", path);
    if (store->dir_fd < 0)
        return system_error(why, errno, path, "");
    if (made) {
        int parent = openat(store->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (parent >= 0) { /* a parent that may not be read cannot be synced either */
            fsync(parent);
            close(parent);
        }
    }
    return 0;
}

/* What mmap says when a map is too large: of limits, and of emulators. */
static bool is_map_too_large(int rc)
{
    return rc == ENOMEM || rc == EINVAL;
}

/* Opens the database file, with a smaller map where the address space is limited. */
static int open_env(struct store *store, const char *path, const char *name, struct reason *why)
{
    char *file = NULL;
    if (asprintf(&file, "%s/%s", path, name) < 0)
        return reason_set(why, ENOMEM, "%s: no memory", path);

    unsigned int flags = MDB_NOSUBDIR | MDB_NOTLS | (store->read_only ? MDB_RDONLY : 0);
    int rc = ENOMEM;
    for (size_t bytes = MAP_MOST_BYTES; is_map_too_large(rc) && bytes >= MAP_LEAST_BYTES;
         bytes /= 4) {
        MDB_env *env;
        rc = mdb_env_create(&env);
        if (rc)
            continue;
        rc = mdb_env_set_maxdbs(env, STORE_TABLES);
        if (!rc)
            rc = mdb_env_set_maxreaders(env, READERS);
        if (!rc)
            rc = mdb_env_set_mapsize(env, bytes);
        if (!rc)
            rc = mdb_env_open(env, file, flags, 0600);
        if (rc)
            mdb_env_close(env);
        else
            store->env = env;
    }
    free(file);
    return rc ? store_lmdb_error(store, rc, "opening the database", why) : 0;
}

/* Makes the tables of an empty database and notes the format's version. */
static int fill_env(struct store *store, struct reason *why)
{
    bson_t format = BSON_INITIALIZER;
    bson_append_int32(&format, "version", -1, STORE_FORMAT_VERSION);
    MDB_val key = {sizeof FORMAT_KEY - 1, FORMAT_KEY};
    MDB_val value = {format.len, (void *) bson_get_data(&format)};

    MDB_txn *txn = NULL;
    int rc = mdb_txn_begin(store->env, NULL, 0, &txn);
    for (int table = 0; !rc && table < STORE_TABLES; table++)
        rc = mdb_dbi_open(txn, table_names[table], MDB_CREATE, &store->tables[table]);
    if (!rc)
        rc = mdb_put(txn, store->tables[STORE_META], &key, &value, 0);
    if (!rc) {
        rc = mdb_txn_commit(txn);
        txn = NULL;
    }
    if (txn)
        mdb_txn_abort(txn);
    bson_destroy(&format);
    return rc ? store_lmdb_error(store, rc, "creating the database", why) : 0;
}

static int create_database(struct store *store, const char *path, struct reason *why)
{
    /* What a process left behind that died here. */
    unlinkat(store->dir_fd, FRESH_NAME, 0);
    unlinkat(store->dir_fd, FRESH_LOCK_NAME, 0);

    int ret = open_env(store, path, FRESH_NAME, why);
    if (ret)
        return ret;
    ret = fill_env(store, why);
    mdb_env_close(store->env);
    store->env = NULL;
    if (ret)
        return ret;
    unlinkat(store->dir_fd, FRESH_NAME "-lock", 0);
    if (renameat(store->dir_fd, FRESH_NAME, store->dir_fd, DATA_NAME) || fsync(store->dir_fd))
        return system_error(why, errno, path, DATA_NAME);
    return 0;
}

static int check_format(struct store *store, MDB_txn *txn, const char *path, struct reason *why)
{
    MDB_val key = {sizeof FORMAT_KEY - 1, FORMAT_KEY}, value;
    int rc = mdb_dbi_open(txn, table_names[STORE_META], 0, &store->tables[STORE_META]);
    if (!rc)
        rc = mdb_get(txn, store->tables[STORE_META], &key, &value);
    if (rc && rc != MDB_NOTFOUND)
        return store_lmdb_error(store, rc, "reading the format's version", why);

    bson_t format;
    bson_iter_t version;
    if (rc || !bson_init_static(&format, value.mv_data, value.mv_size) ||
        !bson_iter_init_find(&version, &format, "version") || !BSON_ITER_HOLDS_INT(&version))
        return reason_set(why, EPROTO, "not a store of this program, it has no version: %s", path);
    if (bson_iter_as_int64(&version) != STORE_FORMAT_VERSION)
        return reason_set(why, EPROTO,
            "the store has format version %lld, this program knows version %d: %s",
            (long long) bson_iter_as_int64(&version), STORE_FORMAT_VERSION, path);
    return 0;
}

/* Opens the tables, once the version says that they are ours. */
static int open_tables(struct store *store, const char *path, struct reason *why)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn);
    if (rc)
        return store_lmdb_error(store, rc, "reading the database", why);
    int ret = check_format(store, txn, path, why);
    for (int table = 0; !ret && table < STORE_TABLES; table++) {
        rc = mdb_dbi_open(txn, table_names[table], 0, &store->tables[table]);
        if (rc == MDB_NOTFOUND)
            ret = reason_set(
                why, EPROTO, "the store lacks the table %s: %s", table_names[table], path);
        else if (rc)
            ret = store_lmdb_error(store, rc, "opening the tables", why);
    }
    if (ret) {
        mdb_txn_abort(txn);
        return ret;
    }
    /* Only a commit keeps the handles, even where nothing was written. */
    rc = mdb_txn_commit(txn);
    return rc ? store_lmdb_error(store, rc, "opening the tables", why) : 0;
}

static int open_blobs(struct store *store, const char *path, struct reason *why)
{
    if (!store->read_only) {
        if (mkdirat(store->dir_fd, "blobs", 0700) == 0)
            fsync(store->dir_fd);
        else if (errno != EEXIST)
            return system_error(why, errno, path, "blobs");
    }
    store->blobs_fd = openat(store->dir_fd, "blobs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->blobs_fd < 0 && !(store->read_only && errno == ENOENT))
        return system_error(why, errno, path, "blobs");
    return 0;
}

/* What an unfinished creation may have left, and what mkfs puts into an empty filesystem. */
static bool is_ours(const char *name)
{
    static const char *const names[] = {
        ".", "..", "lock", "blobs", FRESH_NAME, FRESH_LOCK_NAME, "lost+found"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* A store is not made among somebody else's files. */
static int check_empty(const struct store *store, const char *path, struct reason *why)
{
    int fd = openat(store->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        int err = errno;
        if (fd >= 0)
            close(fd);
        return system_error(why, err, path, "");
    }
    int ret = 0;
    const struct dirent *entry;
    while (!ret && (entry = readdir(dir)))
        if (!is_ours(entry->d_name))
            ret = reason_set(why, ENOTEMPTY,
                "the directory is neither empty nor a store (it has %s): %s", entry->d_name, path);
    closedir(dir);
    return ret;
}

static int open_all(struct store *store, const char *path, struct reason *why)
{
    int ret = open_directory(store, path, why);
    if (ret)
        return ret;
    bool missing = faccessat(store->dir_fd, DATA_NAME, F_OK, 0) && errno == ENOENT;
    if (missing && store->read_only)
        return reason_set(why, ENOENT, "there is no store to read: %s", path);
    if (missing)
        ret = check_empty(store, path, why);
    if (ret)
        return ret;

    ret = take_lock(store, path, why);
    if (ret)
        return ret;
    /* Looked up again: another process may have made it before the lock was taken. */
    missing = faccessat(store->dir_fd, DATA_NAME, F_OK, 0) && errno == ENOENT;
    if (missing)
        ret = create_database(store, path, why);
    if (!ret)
        ret = open_env(store, path, DATA_NAME, why);
    if (!ret)
        ret = open_tables(store, path, why);
    if (!ret) {
        int dead;
        mdb_reader_check(store->env, &dead);
        ret = open_blobs(store, path, why);
    }
    return ret;
}

int store_open(const char *path, bool read_only, struct store **ret_store, struct reason *why)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return reason_set(why, ENOMEM, "%s: no memory", path);
    store->dir_fd = store->lock_fd = store->blobs_fd = -1;
    store->read_only = read_only;
    pthread_mutex_init(&store->lock, NULL);

    int ret = open_all(store, path, why);
    if (ret) {
        store_close(store);
        return ret;
    }
    *ret_store = store;
    return 0;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    for (unsigned int i = 0; i < store->nidle; i++)
        mdb_txn_abort(store->idle[i]);
    if (store->env)
        mdb_env_close(store->env);
    if (store->blobs_fd >= 0)
        close(store->blobs_fd);
    if (store->dir_fd >= 0)
        close(store->dir_fd);
    drop_lock(store);
    pthread_mutex_destroy(&store->lock);
    free(store);
}

int store_statvfs(struct store *store, struct statvfs *ret_stat)
{
    return fstatvfs(store->dir_fd, ret_stat) ? -errno : 0;
}
