#include "fs/archive.h"

#include "core/file.h"
#include "fs/archive_file.h"
#include "fs/fs.h"
#include "fs/log.h"
#include "ttl/archive.h"
#include "ttl/deadline.h"
#include "ttl/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

/* So many files are written before the first of them is waited for. */
#define BATCH_FILES 128
#define BATCH_DIRS 16
/* How often a file that is being written is copied before it is taken as it is. */
#define MAX_TRIES 3
#define LOG_PAUSE_MS 60000
/* Fewer files are synced one by one, and all for a while when a sync of all was this slow per file. */
#define MIN_AT_ONCE 4
#define SLOW_SYNC_US 10000
#define ONE_BY_ONE_BATCHES 16
#define DAY_MS (INT64_C(24) * 3600 * 1000)

struct batch_dir {
    char *path;
    int64_t day;
    int fd, err;
};

struct batch_item {
    struct monitor_name *name;
    struct archive_copy copy;
    struct archive_file file;
    unsigned int dir;
    int err;
};

struct batch {
    struct fs *fs;
    int base;
    struct batch_dir dirs[BATCH_DIRS];
    struct batch_item items[BATCH_FILES];
    unsigned int ndirs, nitems;
    struct progress progress;
};

/* Is `path` this directory, or in it? Both are real paths. */
static bool lies_in(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0' || len == 1);
}

static bool lies_in_real(const char *path, const char *dir)
{
    char real[PATH_MAX];
    return realpath(dir, real) && lies_in(path, real);
}

int archive_prepare(struct fs_options *o, struct reason *why)
{
    struct stat st;
    if (!o->archive)
        return 0;
    if (!o->read_only && mkdir(o->archive, 0700) != 0 && errno != EEXIST)
        return reason_set(
            why, errno, "the archive %s cannot be made: %s", o->archive, strerrordesc_np(errno));
    char *real = realpath(o->archive, NULL);
    if (!real || stat(real, &st) != 0)
        st.st_mode = 0;
    if (!S_ISDIR(st.st_mode)) {
        free(real);
        return reason_set(why, ENOTDIR, "the archive %s is no directory", o->archive);
    }
    free(o->archive);
    o->archive = real;
    if (lies_in_real(real, o->mountpoint))
        return reason_set(why, EINVAL, "the archive %s lies in the mount itself", real);
    if (strcmp(o->store, "memory:") != 0 && lies_in_real(real, o->store))
        return reason_set(why, EINVAL, "the archive %s lies in the store", real);
    return 0;
}

static bool is_stopping(void *arg)
{
    return atomic_load(&((struct fs *) arg)->monitor.stop);
}

/* The batch's directory for a document's collection and day. */
static int find_dir(struct batch *b, const struct archive_copy *copy, unsigned int *ret_at)
{
    int64_t ms = copy->expired_ms, day = (ms - (ms < 0 ? DAY_MS - 1 : 0)) / DAY_MS;
    unsigned int i = b->ndirs;
    /* The latest first: neighbours in an index tend to lie in one collection. */
    while (i > 0 && (b->dirs[i - 1].day != day || strcmp(b->dirs[i - 1].path, copy->path) != 0))
        i--;
    if (i > 0) {
        *ret_at = i - 1;
        return b->dirs[i - 1].err;
    }
    struct batch_dir *dir = &b->dirs[b->ndirs];
    *dir = (struct batch_dir){.path = strdup(copy->path), .day = day, .fd = -1};
    if (!dir->path)
        return -ENOMEM;
    dir->err = archive_directory_open(b->base, copy->path, copy->expired_ms, &dir->fd);
    *ret_at = b->ndirs++;
    return dir->err;
}

/*
 * The document's state now; -ESTALE when the name is not to be archived any more. Expects the lock.
 */
static int snapshot(struct batch *b, struct batch_item *item)
{
    struct fs *fs = b->fs;
    struct monitor_name *name = item->name;
    struct collection *parent = document_collection(name->parent);
    struct dentry *d = tree_find(fs->tree, parent, name->name, strlen(name->name));
    archive_copy_release(&item->copy);
    if (!d || d->doc != name->doc || !ttl_expired(&fs->ttl, d, fs_now_ms(fs)) ||
        !archive_wanted(&fs->ttl, d))
        return -ESTALE;
    name->copied = archive_state_of(d->doc);
    int err = archive_copy_make(&fs->ttl, d, &item->copy);
    if (!err)
        item->copy.mount = strdup(fs->options.mountpoint);
    return err;
}

/* The content, as it is at one instant: while somebody writes to it, it is copied again. */
static int copy_content(struct batch *b, struct batch_item *item)
{
    struct fs *fs = b->fs;
    struct document *doc = item->name->doc;
    int err = 0;
    bool same = false;
    for (int i = 0; i < MAX_TRIES && !err && !same; i++) {
        if (i > 0 && ftruncate(item->file.fd, 0) != 0)
            return -errno;
        tree_lock(fs->tree);
        err = i > 0 ? snapshot(b, item) : 0;
        if (!err)
            err = file_copy_out(fs->tree, doc, item->file.fd, is_stopping, fs);
        struct archive_state now = archive_state_of(doc), *was = &item->name->copied;
        same =
            now.size == was->size && now.mtime_s == was->mtime_s && now.mtime_ns == was->mtime_ns;
        tree_unlock(fs->tree);
    }
    return err;
}

/* All up to the file's sync. */
static int write_item(struct batch *b, struct batch_item *item)
{
    struct fs *fs = b->fs;
    tree_lock(fs->tree);
    int err = snapshot(b, item);
    tree_unlock(fs->tree);
    if (!err)
        err = find_dir(b, &item->copy, &item->dir);
    if (err)
        return err;
    int dir = b->dirs[item->dir].fd;
    if (archive_file_exists(dir, &item->copy))
        return 0;
    err = archive_file_create(dir, &item->copy, &item->file);
    if (!err && S_ISREG(item->copy.mode))
        err = copy_content(b, item);
    if (!err)
        err = archive_file_dress(&item->file, &item->copy);
    return err;
}

/* Says it once a minute, however many there are. */
static void log_failure(struct fs *fs, const struct batch_item *item)
{
    struct archive *a = &fs->archive;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    a->failed++;
    if (timespec_ms(t) < a->quiet_until)
        return;
    log_line(LOG_ERR,
        "%llu expired documents could not be archived, the last one is /%s%s%s: %s; they are kept "
        "and tried again",
        (unsigned long long) a->failed, item->copy.path ? item->copy.path : "",
        item->copy.path && *item->copy.path ? "/" : "",
        item->copy.path ? item->copy.name : item->name->name,
        fs->options.archive ? strerrordesc_np(-item->err) : "the mount has no archive=");
    a->failed = 0;
    a->quiet_until = timespec_ms(t) + LOG_PAUSE_MS;
}

/*
 * Can all files of the archive's filesystem be synced at once, and is an error told then? Since kernel
 * 5.8, by those filesystems that have no other one below them.
 */
static bool syncs_at_once(int base)
{
    struct statfs st;
    struct utsname system;
    char *end;
    if (fstatfs(base, &st) != 0 || uname(&system) != 0)
        return false;
    unsigned long major = strtoul(system.release, &end, 10);
    unsigned long minor = *end == '.' ? strtoul(end + 1, NULL, 10) : 0;
    if (major < 5 || (major == 5 && minor < 8))
        return false;
    return st.f_type == EXT4_SUPER_MAGIC || st.f_type == XFS_SUPER_MAGIC ||
           st.f_type == BTRFS_SUPER_MAGIC || st.f_type == F2FS_SUPER_MAGIC;
}

static int64_t monotonic_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/*
 * Makes the contents durable. One sync of all costs one flush of the disk, where each fsync costs
 * one (0.1 against 3 ms per file); but it also waits for what others have written. When that is a lot
 * the next batches go file by file.
 */
static void sync_files(struct batch *b)
{
    struct archive *a = &b->fs->archive;
    unsigned int n = 0;
    for (unsigned int i = 0; i < b->nitems; i++)
        n += !b->items[i].err && b->items[i].file.fd >= 0;
    bool at_once = n >= MIN_AT_ONCE && !a->one_by_one && syncs_at_once(b->base);
    a->one_by_one -= n && a->one_by_one;
    int err = 0;
    if (at_once) {
        int64_t from_us = monotonic_us();
        err = syncfs(b->base) == 0 ? 0 : -errno;
        if (monotonic_us() - from_us > (int64_t) n * SLOW_SYNC_US)
            a->one_by_one = ONE_BY_ONE_BATCHES;
    }
    for (unsigned int i = 0; i < b->nitems; i++)
        if (!b->items[i].err && b->items[i].file.fd >= 0)
            b->items[i].err = at_once ? err : archive_file_sync(&b->items[i].file);
}

/* What was written is made durable, named, and made durable once more by that name. */
static void flush(struct batch *b)
{
    sync_files(b);
    for (unsigned int i = 0; i < b->nitems; i++) {
        struct batch_item *item = &b->items[i];
        if (!item->err && item->file.temp[0])
            item->err = archive_file_place(&item->file, &item->copy);
        archive_file_release(&item->file);
    }
    for (unsigned int i = 0; i < b->ndirs; i++)
        if (b->dirs[i].fd >= 0 && fsync(b->dirs[i].fd) != 0)
            b->dirs[i].err = -errno;
    for (unsigned int i = 0; i < b->nitems; i++) {
        struct batch_item *item = &b->items[i];
        if (!item->err)
            item->err = b->dirs[item->dir].err;
        item->name->archived = !item->err;
        item->name->interrupted = item->err == -ESTALE || item->err == -EINTR;
        if (item->err && !item->name->interrupted)
            log_failure(b->fs, item);
        archive_copy_release(&item->copy);
    }
    for (unsigned int i = 0; i < b->ndirs; i++) {
        if (b->dirs[i].fd >= 0)
            close(b->dirs[i].fd);
        free(b->dirs[i].path);
    }
    tree_lock(b->fs->tree);
    b->progress.done += b->nitems;
    tree_unlock(b->fs->tree);
    b->ndirs = b->nitems = 0;
}

static void add(struct batch *b, struct monitor_name *name)
{
    struct batch_item *item = &b->items[b->nitems++];
    *item = (struct batch_item){.name = name, .file = {.fd = -1}};
    if (is_stopping(b->fs))
        item->err = -EINTR;
    else
        item->err = b->base >= 0 ? write_item(b, item) : b->base;
    if (item->err)
        archive_file_release(&item->file);
    if (b->nitems == BATCH_FILES || b->ndirs == BATCH_DIRS)
        flush(b);
}

/* The archive's directory: not one of ours, by whatever path it is reached. */
static int open_base(struct fs *fs)
{
    struct stat st;
    if (!fs->options.archive)
        return -ENOENT;
    int fd = open(fs->options.archive, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) != 0 || (fs->monitor.device && st.st_dev == fs->monitor.device)) {
        close(fd);
        return -EXDEV;
    }
    return fd;
}

void archive_names(struct fs *fs, struct monitor_name *names, size_t n)
{
    struct batch *b = calloc(1, sizeof *b);
    if (!b)
        return;
    b->fs = fs;
    b->base = open_base(fs);
    b->progress.op = "archive";
    for (size_t i = 0; i < n; i++)
        b->progress.total += names[i].archive;
    tree_lock(fs->tree);
    b->progress.started_ms = fs_now_ms(fs);
    progress_begin(&fs->ttl, &b->progress);
    tree_unlock(fs->tree);
    for (size_t i = 0; i < n; i++)
        if (names[i].archive)
            add(b, &names[i]);
    flush(b);
    tree_lock(fs->tree);
    progress_end(&b->progress);
    tree_unlock(fs->tree);
    if (b->base >= 0)
        close(b->base);
    free(b);
}
