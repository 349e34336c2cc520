/*
 * ttlctl restore: the copying. A document is made under another name, and gets its own when it is
 * whole.
 */
#include "core/dates.h"
#include "mount-helpers/ttlctl.h"
#include "mount-helpers/ttlctl_restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define PIECE_BYTES (256 * 1024)
#define TEMP_BYTES 48
#define TTL_PREFIX "user.ttl."

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

int restore_read_xattrs(struct restoring *r)
{
    ssize_t len = llistxattr(r->from, NULL, 0);
    char *names = len > 0 ? malloc((size_t) len) : NULL, *value;
    if (len > 0 && !names)
        abort();
    if (len > 0)
        len = llistxattr(r->from, names, (size_t) len);
    for (const char *name = names; len > 0 && name < names + len; name += strlen(name) + 1) {
        if (strcmp(name, ARCHIVE_XATTR) == 0)
            continue;
        ssize_t size = lgetxattr(r->from, name, NULL, 0);
        value = size >= 0 ? malloc((size_t) size + 1) : NULL;
        size = value ? lgetxattr(r->from, name, value, (size_t) size) : -1;
        struct xattr *x = size >= 0 ? xattr_new(name, value, (size_t) size) : NULL;
        free(value);
        if (!x)
            continue;
        x->next = r->copy.xattrs;
        r->copy.xattrs = x;
    }
    free(names);
    return len < 0 && errno != ENOTSUP ? -errno : 0;
}

static int write_all(int fd, const char *bytes, size_t len, off_t off)
{
    while (len) {
        ssize_t n = pwrite(fd, bytes, len, off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        bytes += n;
        off += n;
        len -= (size_t) n;
    }
    return 0;
}

/* Data where there is data, holes where there are holes. */
static int copy_content(int from, int to)
{
    char *piece = malloc(PIECE_BYTES);
    struct stat st;
    int err = !piece                                                    ? -ENOMEM
              : fstat(from, &st) != 0 || ftruncate(to, st.st_size) != 0 ? -errno
                                                                        : 0;
    off_t at = 0;
    while (!err && at < st.st_size) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0)
            break; /* nothing but a hole */
        off_t hole = lseek(from, data, SEEK_HOLE);
        hole = hole > data ? hole : st.st_size;
        for (at = data; !err && at < hole;) {
            size_t len = hole - at < PIECE_BYTES ? (size_t) (hole - at) : PIECE_BYTES;
            ssize_t n = pread(from, piece, len, at);
            err = n > 0 ? write_all(to, piece, (size_t) n, at) : n < 0 ? -errno : -EIO;
            at += n > 0 ? n : 0;
        }
    }
    free(piece);
    return err;
}

/* Is this a rule under which the document would be due at once? */
static bool is_past(const struct restoring *r, const struct xattr *x)
{
    struct timespec now;
    int64_t at_ms;
    if (strcmp(x->bytes, TTL_PREFIX "hold") == 0)
        return r->hold;
    if (strcmp(x->bytes, TTL_PREFIX "expireAt") != 0 || r->keep_rules)
        return false;
    clock_gettime(CLOCK_REALTIME, &now);
    if (date_parse(xattr_value(x), x->value_len, &at_ms) != 0) {
        /* Beyond the year 9999, as seconds. */
        char text[32] = "";
        memcpy(text, xattr_value(x), x->value_len < sizeof text ? x->value_len : sizeof text - 1);
        at_ms = date_multiply_saturated(strtoll(text, NULL, 10), 1000);
    }
    return at_ms <= (int64_t) now.tv_sec * 1000;
}

static void note_failure(struct restoring *r, const char *name)
{
    if (!r->failed) {
        r->failed = name;
        r->failed_errno = errno;
    }
}

/* `users`: the user's and our own; else access lists, and what only root can set. */
static void set_xattrs(struct restoring *r, int fd, bool users)
{
    if (users && r->hold && fsetxattr(fd, TTL_PREFIX "hold", "yes", 3, 0) != 0)
        note_failure(r, TTL_PREFIX "hold");
    for (const struct xattr *x = r->copy.xattrs; x; x = x->next) {
        if (starts_with(x->bytes, "user.") != users || is_past(r, x))
            continue;
        int failed = fsetxattr(fd, x->bytes, xattr_value(x), x->value_len, 0);
        if (failed && (users || (errno != EPERM && errno != EOPNOTSUPP)))
            note_failure(r, x->bytes);
    }
}

/* Owner, mode and times; who may not give files away keeps them, without any setuid. */
static int set_attributes(const struct restoring *r, const char *temp)
{
    const struct archive_copy *c = &r->copy;
    const struct timespec times[] = {c->atime, c->mtime};
    mode_t mode = c->mode & 07777;
    if (fchownat(r->dir, temp, c->uid, c->gid, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != EPERM)
            return -errno;
        mode &= 0777;
    }
    if (!S_ISLNK(c->mode) && fchmodat(r->dir, temp, mode, 0) != 0)
        return -errno;
    return utimensat(r->dir, temp, times, AT_SYMLINK_NOFOLLOW) != 0 ? -errno : 0;
}

static int make_file(struct restoring *r, const char *temp)
{
    int from = open(r->from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (from < 0)
        return -errno;
    int to = openat(r->dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    int err = to < 0 ? -errno : 0;
    if (!err) {
        /* First, so that nothing expires half-way; and before the mode, which may forbid it. */
        set_xattrs(r, to, true);
        err = copy_content(from, to);
    }
    if (!err)
        err = set_attributes(r, temp);
    if (!err)
        set_xattrs(r, to, false);
    if (!err && fsync(to) != 0)
        err = -errno;
    /* Closing writes the last bytes, and may refuse the document. */
    if (to >= 0 && close(to) != 0 && !err)
        err = -errno;
    close(from);
    /* A write moves the times. */
    return err ? err : set_attributes(r, temp);
}

static int make_node(struct restoring *r, const char *temp)
{
    const struct archive_copy *c = &r->copy;
    mode_t kind = c->mode & S_IFMT;
    if (S_ISLNK(kind) && !c->target)
        return -EINVAL;
    int failed = S_ISLNK(kind) ? symlinkat(c->target, r->dir, temp)
                               : mknodat(r->dir, temp, kind | 0600, (dev_t) c->rdev);
    return failed ? -errno : set_attributes(r, temp);
}

int restore_document(struct restoring *r)
{
    static unsigned int number;
    const char *name = r->copy.name;
    char temp[TEMP_BYTES];
    struct stat st;
    r->failed = NULL;
    if (!r->force && fstatat(r->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return -EEXIST;
    (void) snprintf(temp, sizeof temp, ".ttlctl-restore.%ld.%u", (long) getpid(), number++);
    int err = S_ISREG(r->copy.mode) ? make_file(r, temp) : make_node(r, temp);
    /* Not replaced but removed: a document that replaces another takes over its age and its rules. */
    if (!err && r->force && unlinkat(r->dir, name, 0) != 0 && errno != ENOENT)
        err = -errno;
    if (!err && renameat2(r->dir, temp, r->dir, name, RENAME_NOREPLACE) != 0)
        err = -errno;
    if (err && err != -ENOENT)
        (void) unlinkat(r->dir, temp, 0);
    return err;
}
