/*
 * fsops.h - the operations that fsload times, each on one file, and how the kernel is made to
 * forget a mount.
 *
 * A header with its code, because every program in this folder is one source file. Functions return
 * 0 or a positive errno.
 */
#ifndef TTLFS_TESTS_BENCH_FSOPS_H
#define TTLFS_TESTS_BENCH_FSOPS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define NAME_BYTES 17 /* 16 and the terminator */
#define CONTENT_BYTES 200
#define APPEND_BYTES 100
#define FORGET_WAIT_MS 30
#define FUSE_MAGIC 0x65735546

/* In the order in which a round does them. "Forgotten": see forget_mount(). */
enum op {
    OP_MKNOD,    /* an empty file; unlinked again, untimed, for create to make it anew */
    OP_CREATE,   /* open(O_CREAT|O_TRUNC|O_WRONLY), write 200 bytes, close */
    OP_APPEND,   /* open(O_APPEND|O_WRONLY), write 100 bytes, close */
    OP_COLDSTAT, /* stat of a name that was forgotten */
    OP_STAT,     /* the same, once it is known */
    OP_READ,     /* open, read, close of a file that was forgotten */
    OP_REREAD,   /* the same, once it is known */
    OP_SETXATTR, /* user.fsload, 16 bytes */
    OP_GETXATTR,
    OP_MISS, /* stat of a name that is not there */
    OP_WALK, /* readdir, stat of each entry, all forgotten; the figure is per entry */
    OP_UNLINK,
    OPS
};

static const char *const op_names[OPS] = {"mknod", "create", "append", "coldstat", "stat", "read",
    "reread", "setxattr", "getxattr", "miss", "walk", "unlink"};

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec / 1e3;
}

static int op_write(int dirfd, const char *name, int flags, size_t bytes)
{
    char content[CONTENT_BYTES];
    int error = 0, fd = openat(dirfd, name, flags | O_WRONLY, 0644);
    ssize_t n;

    if (fd < 0)
        return errno;
    memset(content, 'x', sizeof(content));
    n = write(fd, content, bytes);
    if (n != (ssize_t) bytes)
        error = n < 0 ? errno : EIO;
    if (close(fd) < 0 && !error)
        error = errno;
    return error;
}

static int op_read(int dirfd, const char *name)
{
    char buf[4096];
    int error = 0, fd = openat(dirfd, name, O_RDONLY);
    ssize_t n;

    if (fd < 0)
        return errno;
    n = read(fd, buf, sizeof(buf));
    if (n < CONTENT_BYTES || buf[0] != 'x' || buf[n - 1] != 'x')
        error = n < 0 ? errno : EIO;
    close(fd);
    return error;
}

/* Older kernels have no *xattrat(); the way through /proc costs the kernel alone, the same on every
 * target. */
static int op_xattr(int dirfd, const char *name, bool set)
{
    char path[64], value[16] = "0123456789abcde";

    snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", dirfd, name);
    if (set)
        return setxattr(path, "user.fsload", value, sizeof(value), 0) < 0 ? errno : 0;
    return getxattr(path, "user.fsload", value, sizeof(value)) < 0 ? errno : 0;
}

static int op_miss(int dirfd, const char *name)
{
    char missing[NAME_BYTES];
    struct stat st;

    memcpy(missing, name, NAME_BYTES);
    missing[0] = 'm';
    if (fstatat(dirfd, missing, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return EEXIST;
    return errno == ENOENT ? 0 : errno;
}

/* readdir of the whole directory and fstatat of each entry, `.` and `..` among them. */
static int op_walk(int dirfd, uint64_t *ret_entries)
{
    int error = 0, fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY);
    struct dirent *e;
    struct stat st;
    DIR *dir;

    *ret_entries = 0;
    if (fd < 0)
        return errno;
    if (!(dir = fdopendir(fd))) {
        error = errno;
        close(fd);
        return error;
    }
    while (!error && (errno = 0, e = readdir(dir))) {
        if (fstatat(dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            error = errno;
        ++*ret_entries;
    }
    if (!error)
        error = errno;
    closedir(dir);
    return error;
}

/* Every operation but the walk. */
static int op_do(enum op op, int dirfd, const char *name)
{
    struct stat st;

    switch (op) {
    case OP_MKNOD:
        return mknodat(dirfd, name, S_IFREG | 0644, 0) < 0 ? errno : 0;
    case OP_CREATE:
        return op_write(dirfd, name, O_CREAT | O_TRUNC, CONTENT_BYTES);
    case OP_APPEND:
        return op_write(dirfd, name, O_APPEND, APPEND_BYTES);
    case OP_COLDSTAT:
    case OP_STAT:
        return fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ? errno : 0;
    case OP_READ:
    case OP_REREAD:
        return op_read(dirfd, name);
    case OP_SETXATTR:
    case OP_GETXATTR:
        return op_xattr(dirfd, name, op == OP_SETXATTR);
    case OP_MISS:
        return op_miss(dirfd, name);
    case OP_UNLINK:
        return unlinkat(dirfd, name, 0) < 0 ? errno : 0;
    default:
        return EINVAL;
    }
}

static bool remount_unchanged(const char *path)
{
    static const struct {
        unsigned long vfs, mount;
    } flags[] = {{ST_RDONLY, MS_RDONLY}, {ST_NOSUID, MS_NOSUID}, {ST_NODEV, MS_NODEV},
        {ST_NOEXEC, MS_NOEXEC}, {ST_NOATIME, MS_NOATIME}, {ST_NODIRATIME, MS_NODIRATIME},
        {ST_RELATIME, MS_RELATIME}};
    unsigned long keep = 0;
    struct statvfs st;

    if (statvfs(path, &st) < 0)
        return false;
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (st.f_flag & flags[i].vfs)
            keep |= flags[i].mount;
    return mount(NULL, path, NULL, MS_REMOUNT | keep, NULL) == 0;
}

static bool drop_caches(void)
{
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY);
    bool done = fd >= 0 && write(fd, "2", 1) == 1;

    if (fd >= 0)
        close(fd);
    return done;
}

/*
 * Makes the kernel forget the names and inodes of the FUSE mount at path, and says in one word how.
 * A remount drops the unused dentries of this mount alone (reconfigure_super() calls
 * shrink_dcache_sb(), Linux 6.18), and with a dentry goes its inode and the inode's pages. Other
 * filesystems are left alone: tmpfs has nothing that it could forget.
 */
static const char *forget_mount(const char *path)
{
    struct timespec wait = {0, FORGET_WAIT_MS * 1000000L};
    const char *how = "no";
    struct statfs st;

    if (statfs(path, &st) < 0 || st.f_type != FUSE_MAGIC)
        return "not FUSE";
    if (remount_unchanged(path))
        how = "remount";
    else if (drop_caches())
        how = "drop_caches";
    nanosleep(
        &wait, NULL); /* the FORGETs that the daemon now gets are not part of what is timed next */
    return how;
}

#endif
