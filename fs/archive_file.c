#include "fs/archive_file.h"

#include "core/dates.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <xxhash.h>

#define DAY_BYTES 10
#define MAX_NAMES 1000
#define MAX_TILDES 3
/* So much of a name is there whatever is added to make it another one. */
#define KEPT_NAME_BYTES 200
#define PATH_BYTES (sizeof "/proc/self/fd/" + 16 + DOCUMENT_NAME_MAX_BYTES + 1)

/* A path of a name in an open directory, for calls that take no descriptor. */
static const char *path_in(int dir, const char *name, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "/proc/self/fd/%d/%s", dir, name);
    return path;
}

static int write_all(int fd, const char *bytes, size_t len)
{
    while (len) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno != EINTR)
            return -errno;
        bytes += n > 0 ? n : 0;
        len -= n > 0 ? (size_t) n : 0;
    }
    return 0;
}

/* Directories */

static int open_directory(int above, const char *name)
{
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT)
        return fd >= 0 ? fd : -errno;
    if (mkdirat(above, name, 0700) != 0 && errno != EEXIST)
        return -errno;
    /* Its name must be as durable as what comes to lie in it. */
    if (fsync(above) != 0)
        return -errno;
    fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

/* The directory below; takes `above` over. */
static int descend(int above, const char *name, size_t len)
{
    char text[DOCUMENT_NAME_MAX_BYTES + MAX_TILDES + 1];
    struct stat here, there;
    int fd = -ENAMETOOLONG;
    if (len <= DOCUMENT_NAME_MAX_BYTES) {
        memcpy(text, name, len);
        text[len] = '\0';
        fd = open_directory(above, text);
    }
    for (int i = 0; i < MAX_TILDES && (fd == -ENOTDIR || fd == -ELOOP); i++) {
        memcpy(text + len + i, "~", 2);
        fd = open_directory(above, text);
    }
    if (fd >= 0 && (fstat(above, &here) != 0 || fstat(fd, &there) != 0)) {
        close(fd);
        fd = -EIO;
    } else if (fd >= 0 && here.st_dev != there.st_dev) {
        close(fd);
        fd = -EXDEV;
    }
    close(above);
    return fd;
}

int archive_directory_open(int base, const char *path, int64_t expired_ms, int *ret_dir)
{
    char day[DATE_TEXT_BYTES];
    int fd = fcntl(base, F_DUPFD_CLOEXEC, 3);
    if (fd < 0)
        return -errno;
    while (*path && fd >= 0) {
        size_t len = strcspn(path, "/");
        fd = descend(fd, path, len);
        path += len + (path[len] == '/');
    }
    date_format(expired_ms, day);
    if (fd >= 0)
        fd = descend(fd, day, DAY_BYTES);
    *ret_dir = fd;
    return fd >= 0 ? 0 : fd;
}

/* Names */

/* The i-th name that a copy may have: NAME, NAME.NUMBER, NAME.NUMBER.2 … */
static void candidate(const struct archive_copy *copy, unsigned int i, char *ret_name)
{
    char end[48] = "";
    if (i == 1)
        snprintf(end, sizeof end, ".%" PRIu64, copy->ino);
    else if (i > 1)
        snprintf(end, sizeof end, ".%" PRIu64 ".%u", copy->ino, i);
    snprintf(ret_name, DOCUMENT_NAME_MAX_BYTES + 1, "%.*s%s",
        (int) (DOCUMENT_NAME_MAX_BYTES - strlen(end)), copy->name, end);
}

/* Reads a whole file, or an attribute where `attribute` is given. NULL: not there, or not to be read.
 */
static char *read_text(int dir, const char *name, const char *attribute, size_t *ret_len)
{
    char path[PATH_BYTES];
    struct stat st;
    ssize_t len = -1;
    path_in(dir, name, path);
    if (attribute)
        len = lgetxattr(path, attribute, NULL, 0);
    else if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= ARCHIVE_RECORD_MAX_BYTES)
        len = st.st_size;
    char *text = len >= 0 ? malloc((size_t) len + 1) : NULL;
    if (!text)
        return NULL;
    if (attribute) {
        len = lgetxattr(path, attribute, text, (size_t) len);
    } else {
        int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        len = fd >= 0 ? read(fd, text, (size_t) len) : -1;
        if (fd >= 0)
            close(fd);
    }
    if (len < 0) {
        free(text);
        return NULL;
    }
    text[len] = '\0';
    *ret_len = (size_t) len;
    return text;
}

/* The record of an archived file, malloc'd; NULL when it has none. */
static char *read_record(int dir, const char *name, size_t *ret_len)
{
    char sidecar[DOCUMENT_NAME_MAX_BYTES + 1];
    char *text = read_text(dir, name, ARCHIVE_XATTR, ret_len);
    if (text)
        return text;
    archive_sidecar_name(name, sidecar);
    return read_text(dir, sidecar, NULL, ret_len);
}

/*
 * Does this name belong to an archived document, rather than to what an interrupted archiving left
 * behind? That may have its record, too, but not its name yet.
 */
static bool is_document(int dir, const char *name)
{
    size_t len;
    struct archive_copy found;
    char *text = read_record(dir, name, &len);
    if (!text)
        return false;
    bool own = archive_record_parse(text, len, &found, NULL) == 0;
    free(text);
    if (!own)
        return false;
    /* Behind a long name something may stand in the place of its end. */
    own = strncmp(name, found.name, strnlen(found.name, KEPT_NAME_BYTES)) == 0;
    archive_copy_release(&found);
    return own;
}

static bool is_copy_of(
    int dir, const char *name, const struct stat *st, const struct archive_copy *copy)
{
    char id[ARCHIVE_ID_BYTES], found[ARCHIVE_ID_BYTES] = "";
    size_t len;
    struct archive_copy other;
    archive_copy_id(copy, id);
    char *text = read_record(dir, name, &len);
    if (text) {
        if (archive_record_parse(text, len, &other, found) == 0)
            archive_copy_release(&other);
        free(text);
        return strcmp(id, found) == 0;
    }
    /* Ours, but not to be read by ourselves: the document's mode is the copy's, too. */
    return faccessat(dir, name, R_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) != 0 && errno == EACCES &&
           (uint64_t) st->st_size == copy->size && st->st_mtim.tv_sec == copy->mtime.tv_sec &&
           st->st_mtim.tv_nsec == copy->mtime.tv_nsec;
}

bool archive_file_exists(int dir, const struct archive_copy *copy)
{
    char name[DOCUMENT_NAME_MAX_BYTES + 1];
    struct stat st;
    for (unsigned int i = 0; i < MAX_NAMES; i++) {
        candidate(copy, i, name);
        if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            if (is_copy_of(dir, name, &st, copy))
                return true;
        } else if (i > 0) {
            break;
        }
    }
    return false;
}

/* Files */

/* The same again for the same document: what an interrupted archiving left is used again. */
static void temp_name(const struct archive_copy *copy, char *ret_name)
{
    char id[ARCHIVE_ID_BYTES];
    archive_copy_id(copy, id);
    XXH64_hash_t hash =
        XXH3_64bits_withSeed(copy->name, strlen(copy->name), XXH3_64bits(id, strlen(id)));
    snprintf(ret_name, ARCHIVE_TEMP_BYTES, ".ttlfs-%016" PRIx64, (uint64_t) hash);
}

static int make_node(int dir, const char *name, const struct archive_copy *copy)
{
    mode_t kind = copy->mode & S_IFMT;
    int failed = S_ISLNK(kind) ? symlinkat(copy->target, dir, name)
                               : mknodat(dir, name, kind | 0600, (dev_t) copy->rdev);
    /* Who may not make devices keeps their place: the record says what they are. */
    if (failed && errno == EPERM)
        failed = mknodat(dir, name, S_IFREG | 0600, 0);
    return failed ? -errno : 0;
}

static int make_file(int dir, const char *name, const struct archive_copy *copy, int *ret_fd)
{
    *ret_fd = -1;
    if (!S_ISREG(copy->mode))
        return make_node(dir, name, copy);
    *ret_fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return *ret_fd >= 0 ? 0 : -errno;
}

int archive_file_create(int dir, const struct archive_copy *copy, struct archive_file *ret_file)
{
    struct archive_file file = {.dir = dir, .fd = -1, .sidecar = !S_ISREG(copy->mode)};
    temp_name(copy, file.temp);
    int err = make_file(dir, file.temp, copy, &file.fd);
    if (err == -EEXIST && !is_document(dir, file.temp) && unlinkat(dir, file.temp, 0) == 0)
        err = make_file(dir, file.temp, copy, &file.fd);
    if (err)
        return err;
    *ret_file = file;
    return 0;
}

static bool is_users(const struct xattr *x)
{
    return strncmp(x->bytes, "user.", 5) == 0;
}

/* The document's attributes of one kind. What cannot be set goes into the sidecar. */
static void set_xattrs(struct archive_file *file, const struct archive_copy *copy, bool users)
{
    for (const struct xattr *x = copy->xattrs; x && !file->sidecar; x = x->next)
        if (is_users(x) == users &&
            fsetxattr(file->fd, x->bytes, xattr_value(x), x->value_len, 0) != 0)
            file->sidecar = true;
}

static int set_record(struct archive_file *file, const struct archive_copy *copy)
{
    char *text;
    size_t len;
    int err = archive_record_format(copy, false, &text, &len);
    if (err)
        return err;
    if (fsetxattr(file->fd, ARCHIVE_XATTR, text, len, 0) != 0)
        file->sidecar = true;
    free(text);
    return 0;
}

int archive_file_dress(struct archive_file *file, const struct archive_copy *copy)
{
    struct timespec times[] = {copy->atime, copy->mtime};
    int err = file->sidecar ? 0 : set_record(file, copy);
    if (err)
        return err;
    /* Before the mode, which may forbid it. */
    if (!file->sidecar)
        set_xattrs(file, copy, true);
    /* Who may not give files away keeps them: the record says whose they were. */
    if (fchownat(file->dir, file->temp, copy->uid, copy->gid, AT_SYMLINK_NOFOLLOW) != 0 &&
        errno != EPERM && errno != EINVAL)
        return -errno;
    if (!S_ISLNK(copy->mode) && fchmodat(file->dir, file->temp, copy->mode & 07777, 0) != 0)
        return -errno;
    /* Behind the owner, whose change clears capabilities. */
    if (!file->sidecar)
        set_xattrs(file, copy, false);
    return utimensat(file->dir, file->temp, times, AT_SYMLINK_NOFOLLOW) != 0 ? -errno : 0;
}

/* Writes the sidecar of what is going to be called `name`, over one that was left behind. */
static int write_sidecar(
    const struct archive_file *file, const struct archive_copy *copy, const char *name)
{
    char sidecar[DOCUMENT_NAME_MAX_BYTES + 1], temp[ARCHIVE_TEMP_BYTES + 1], *text;
    size_t len;
    archive_sidecar_name(name, sidecar);
    int err = archive_record_format(copy, true, &text, &len);
    if (err)
        return err;
    snprintf(temp, sizeof temp, "%s~", file->temp);
    int fd = openat(file->dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    err = fd >= 0 ? write_all(fd, text, len) : -errno;
    if (!err && fsync(fd) != 0)
        err = -errno;
    if (fd >= 0)
        close(fd);
    if (!err && renameat(file->dir, temp, file->dir, sidecar) != 0)
        err = -errno;
    if (err)
        (void) unlinkat(file->dir, temp, 0);
    free(text);
    return err;
}

/* Is a name free, and its sidecar's, too? */
static bool is_free(const struct archive_file *file, const char *name)
{
    char sidecar[DOCUMENT_NAME_MAX_BYTES + 1];
    struct stat st;
    if (fstatat(file->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return false;
    archive_sidecar_name(name, sidecar);
    return !file->sidecar || !is_document(file->dir, sidecar);
}

int archive_file_sync(const struct archive_file *file)
{
    return file->fd >= 0 && fsync(file->fd) != 0 ? -errno : 0;
}

int archive_file_place(struct archive_file *file, const struct archive_copy *copy)
{
    char name[DOCUMENT_NAME_MAX_BYTES + 1];
    int err = 0;
    for (unsigned int i = 0; !err; i++) {
        if (i == MAX_NAMES)
            return -EEXIST;
        candidate(copy, i, name);
        if (!is_free(file, name))
            continue;
        if (file->sidecar)
            err = write_sidecar(file, copy, name);
        /* Nobody else makes files here: what is free stays free. */
        if (!err && renameat(file->dir, file->temp, file->dir, name) != 0)
            err = -errno;
        if (!err)
            file->temp[0] = '\0';
        break;
    }
    return err;
}

void archive_file_release(struct archive_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
    if (file->temp[0])
        (void) unlinkat(file->dir, file->temp, 0);
    file->temp[0] = '\0';
}
