#include "fs/watch.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

void watch_set_init(struct watch_set *set)
{
    memset(set, 0, sizeof *set);
}

void watch_set_release(struct watch_set *set)
{
    free(set->inos);
    watch_set_init(set);
}

static int add(struct watch_set *set, uint64_t ino)
{
    if (set->n == set->cap) {
        size_t cap = set->cap ? set->cap * 2 : 32;
        uint64_t *more = realloc(set->inos, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        set->inos = more;
        set->cap = cap;
    }
    set->inos[set->n++] = ino;
    return 0;
}

/*
 * One line of an inotify or fanotify descriptor's fdinfo, for example
 *     inotify wd:1 ino:2 sdev:2f mask:300 ignored_mask:0 …
 *     fanotify ino:2 sdev:2f mflags:0 mask:…      fanotify mnt_id:12 …      fanotify sdev:2f …
 */
static int parse_line(struct watch_set *set, const char *line, dev_t device)
{
    if (strncmp(line, "inotify ", 8) != 0 && strncmp(line, "fanotify ", 9) != 0)
        return 0;
    /* A mark on a mount names no device: taken for ours, which costs time and loses nothing. */
    if (strncmp(line, "fanotify mnt_id:", 16) == 0) {
        set->everything = true;
        return 0;
    }
    const char *sdev = strstr(line, "sdev:"), *ino = strstr(line, "ino:");
    if (!sdev)
        return 0;
    /* The kernel's own encoding: major << 20 | minor. */
    uint64_t number = strtoull(sdev + 5, NULL, 16);
    if (number != ((uint64_t) major(device) << 20 | minor(device)))
        return 0;
    if (!ino) {
        set->everything = true;
        return 0;
    }
    return add(set, strtoull(ino + 4, NULL, 16));
}

static int scan_fdinfo(struct watch_set *set, int fd_dir, const char *fd, dev_t device)
{
    char path[64], line[512];
    int err = 0;
    if (snprintf(path, sizeof path, "fdinfo/%s", fd) >= (int) sizeof path)
        return 0;
    int file = openat(fd_dir, path, O_RDONLY | O_CLOEXEC);
    FILE *in = file >= 0 ? fdopen(file, "r") : NULL;
    if (!in) {
        if (file >= 0)
            close(file);
        return 0;
    }
    while (!err && fgets(line, sizeof line, in))
        err = parse_line(set, line, device);
    (void) fclose(in);
    return err;
}

static bool is_number(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text);
}

/* All descriptors of one process: only those that are inotify or fanotify are opened. */
static int scan_process(struct watch_set *set, int proc, const char *pid, dev_t device)
{
    int err = 0;
    int process = openat(proc, pid, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (process < 0)
        return 0;
    int fds = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fds >= 0 ? fdopendir(fds) : NULL;
    if (!dir && fds >= 0)
        close(fds);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e && !err; e = readdir(dir)) {
        char target[64];
        if (!is_number(e->d_name))
            continue;
        ssize_t len = readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1);
        if (len <= 0)
            continue;
        target[len] = '\0';
        if (strcmp(target, "anon_inode:inotify") != 0 &&
            strcmp(target, "anon_inode:[fanotify]") != 0)
            continue;
        err = scan_fdinfo(set, process, e->d_name, device);
    }
    if (dir)
        closedir(dir);
    close(process);
    return err;
}

static int by_ino(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
    return x < y ? -1 : x > y;
}

int watch_set_scan(struct watch_set *set, dev_t device)
{
    int err = 0;
    set->n = 0;
    set->everything = false;
    DIR *proc = opendir("/proc");
    if (!proc)
        return 0;
    for (struct dirent *e = readdir(proc); e && !err; e = readdir(proc))
        if (is_number(e->d_name))
            err = scan_process(set, dirfd(proc), e->d_name, device);
    closedir(proc);
    if (set->n)
        qsort(set->inos, set->n, sizeof *set->inos, by_ino);
    return err;
}

bool watch_set_has(const struct watch_set *set, uint64_t ino)
{
    if (set->everything)
        return true;
    return set->n && bsearch(&ino, set->inos, set->n, sizeof *set->inos, by_ino) != NULL;
}
