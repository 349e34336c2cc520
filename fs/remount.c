#include "fs/remount.h"

#include "fs/access_time.h"
#include "fs/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Newer than Debian 12's linux/magic.h. */
#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

#ifndef MS_NOSYMFOLLOW
#define MS_NOSYMFOLLOW 256
#endif

/* The kernel's, for statvfs(2); glibc does not name it. */
#define SHOWN_NOSYMFOLLOW 8192

/* Access times have three modes, of which the kernel's default, relatime, is no flag. */
#define ATIME_MODES (MS_NOATIME | MS_RELATIME | MS_STRICTATIME)

struct word {
    const char *word;
    unsigned long set, clear;
    bool libfuse; /* 3.14 knows it */
};

static const struct word known_words[] = {
    {"rw", 0, MS_RDONLY, true},
    {"ro", MS_RDONLY, 0, true},
    {"suid", 0, MS_NOSUID, true},
    {"nosuid", MS_NOSUID, 0, true},
    {"dev", 0, MS_NODEV, true},
    {"nodev", MS_NODEV, 0, true},
    {"exec", 0, MS_NOEXEC, true},
    {"noexec", MS_NOEXEC, 0, true},
    {"async", 0, MS_SYNCHRONOUS, true},
    {"dirsync", MS_DIRSYNC, 0, true},
    {"atime", 0, MS_NOATIME, true},
    {"noatime", MS_NOATIME, ATIME_MODES, true},
    {"relatime", MS_RELATIME, ATIME_MODES, false},
    {"norelatime", 0, MS_RELATIME, false},
    {"strictatime", MS_STRICTATIME, ATIME_MODES, false},
    {"nostrictatime", 0, MS_STRICTATIME, false},
    {"diratime", 0, MS_NODIRATIME, false},
    {"nodiratime", MS_NODIRATIME, 0, false},
    {"symfollow", 0, MS_NOSYMFOLLOW, false},
    {"nosymfollow", MS_NOSYMFOLLOW, 0, false},
};

static const struct word *find_word(const char *word)
{
    for (size_t i = 0; i < sizeof known_words / sizeof *known_words; i++)
        if (strcmp(known_words[i].word, word) == 0)
            return &known_words[i];
    return NULL;
}

bool mount_words_add(struct mount_words *words, const char *word)
{
    const struct word *known = find_word(word);
    if (!known)
        return false;
    words->clear = (words->clear | known->clear) & ~known->set;
    words->set = (words->set & ~known->clear) | known->set;
    if ((known->set | known->clear) & (ATIME_MODES | MS_NODIRATIME))
        words->access_times = true;
    return true;
}

bool mount_words_libfuse_knows(const char *word)
{
    const struct word *known = find_word(word);
    return known && known->libfuse;
}

/* What words of -o mean for the daemon. */
static unsigned int flags_of_words(const struct mount_words *words)
{
    unsigned int flags = 0;
    if (words->set & MS_NOATIME)
        flags |= MOUNT_NOATIME;
    if (words->set & MS_STRICTATIME)
        flags |= MOUNT_STRICTATIME;
    if (words->set & MS_NODIRATIME)
        flags |= MOUNT_NODIRATIME;
    if (words->set & MS_RDONLY)
        flags |= MOUNT_READ_ONLY;
    return flags;
}

/* Is `word` one of the comma-separated words of a list? */
static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ",");
        if (n == len && memcmp(at, word, len) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

/* The table shows relatime and noatime; neither means strictatime. */
static unsigned int flags_of_table(const char *mount_options, const char *super_options)
{
    unsigned int flags = 0;
    if (has_word(mount_options, "noatime"))
        flags |= MOUNT_NOATIME;
    else if (!has_word(mount_options, "relatime"))
        flags |= MOUNT_STRICTATIME;
    if (has_word(mount_options, "nodiratime"))
        flags |= MOUNT_NODIRATIME;
    if (has_word(super_options, "ro"))
        flags |= MOUNT_READ_ONLY;
    return flags;
}

struct line {
    unsigned int dev_major, dev_minor;
    const char *mountpoint;
    unsigned int flags;
};

/* One line: "36 35 0:98 / /mnt rw,noatime master:1 - fuse.ttlfs memory: rw,user_id=0". */
static bool parse_line(char *text, struct line *ret_line)
{
    char *save = NULL, *fields[6];
    char *tail = strstr(text, " - ");
    if (!tail)
        return false;
    *tail = '\0';
    for (int i = 0; i < 6; i++) {
        fields[i] = strtok_r(i ? NULL : text, " ", &save);
        if (!fields[i])
            return false;
    }
    const char *colon = strchr(fields[2], ':');
    const char *super_options = strrchr(tail + 3, ' ');
    ret_line->dev_major = (unsigned int) strtoul(fields[2], NULL, 10);
    ret_line->dev_minor = colon ? (unsigned int) strtoul(colon + 1, NULL, 10) : 0;
    ret_line->mountpoint = fields[4];
    ret_line->flags = flags_of_table(fields[5], super_options ? super_options + 1 : "");
    return true;
}

/*
 * Is this line about our mount? At first the mountpoint says so, and of mounts on top of each other
 * the last line is meant; then the device, as the mount may be moved.
 */
static bool is_ours(const struct remount_watch *watch, const struct line *line)
{
    if (watch->found)
        return line->dev_major == watch->dev_major && line->dev_minor == watch->dev_minor;
    return strcmp(line->mountpoint, watch->mountpoint) == 0;
}

/* Reads the table. Returns true when our mount is in it. */
static bool read_table(struct remount_watch *watch, unsigned int *ret_flags)
{
    struct line line;
    unsigned int dev_major = 0, dev_minor = 0;
    bool here = false, there = false; /* at our mountpoint, or a bind mount of it */
    char *text = NULL;
    size_t cap = 0;
    FILE *table = fopen("/proc/self/mountinfo", "re");
    if (!table)
        return false;
    while (getline(&text, &cap, table) > 0) {
        text[strcspn(text, "\n")] = '\0';
        if (!parse_line(text, &line) || !is_ours(watch, &line))
            continue;
        bool at_home = strcmp(line.mountpoint, watch->mountpoint) == 0;
        if (!at_home && (here || there))
            continue;
        here |= at_home;
        there |= !at_home;
        dev_major = line.dev_major;
        dev_minor = line.dev_minor;
        *ret_flags = line.flags;
    }
    free(text);
    fclose(table);
    if (here || there) {
        watch->found = true;
        watch->dev_major = dev_major;
        watch->dev_minor = dev_minor;
    }
    return here || there;
}

static void publish(struct fs *fs, unsigned int flags)
{
    bool read_only = flags & MOUNT_READ_ONLY || fs->options.read_only;
    atomic_store(&fs->mount_flags, flags);
    tree_lock(fs->tree);
    bool changed = fs->ttl.read_only != read_only;
    fs->ttl.read_only = read_only;
    tree_unlock(fs->tree);
    if (changed)
        log_line(LOG_INFO, "remounted: %s", read_only ? "read-only" : "read-write");
    if (changed && !read_only)
        monitor_thread_wake(&fs->monitor);
}

static void look(struct remount_watch *watch)
{
    unsigned int flags;
    if (!read_table(watch, &flags) || flags == watch->seen)
        return;
    watch->seen = flags;
    publish(watch->fs, flags);
}

static void *run(void *arg)
{
    struct remount_watch *watch = arg;
    struct pollfd fds[] = {
        {.fd = watch->table, .events = POLLPRI}, {.fd = watch->stop, .events = POLLIN}};
    for (;;) {
        int n = poll(fds, 2, -1);
        if (n < 0 && errno != EINTR)
            return NULL;
        if (n > 0 && fds[1].revents)
            return NULL;
        if (n > 0)
            look(watch);
    }
}

/* As the table shows it: blanks, tabs, newlines and backslashes in octal. */
static char *escaped(const char *path)
{
    char *text = malloc(strlen(path) * 4 + 1), *at = text;
    for (; text && *path; path++) {
        if (strchr(" \t\n\\", *path))
            at += snprintf(at, 5, "\\%03o", (unsigned int) (unsigned char) *path);
        else
            *at++ = *path;
    }
    if (text)
        *at = '\0';
    return text;
}

/* Sets what libfuse did not. Only whoever may mount may; the others get it from the daemon alone. */
static void apply_words(const char *mountpoint, const struct mount_words *words)
{
    struct mount_attr attr = {0};
    if (words->set & (MS_STRICTATIME | MS_RELATIME))
        attr.attr_clr |= MOUNT_ATTR__ATIME;
    if (words->set & MS_STRICTATIME)
        attr.attr_set |= MOUNT_ATTR_STRICTATIME;
    if (words->set & MS_NODIRATIME)
        attr.attr_set |= MOUNT_ATTR_NODIRATIME;
    if (words->set & MS_NOSYMFOLLOW)
        attr.attr_set |= MOUNT_ATTR_NOSYMFOLLOW;
    if ((attr.attr_set || attr.attr_clr) &&
        mount_setattr(AT_FDCWD, mountpoint, 0, &attr, sizeof attr) != 0)
        log_line(LOG_INFO, "the kernel does not take all mount flags: %s", strerrordesc_np(errno));
}

int remount_watch_start(struct remount_watch *watch, struct fs *fs)
{
    const struct fs_options *o = &fs->options;
    char *real = realpath(o->mountpoint, NULL);
    unsigned int wanted = flags_of_words(&o->mount_words);
    *watch = (struct remount_watch){.fs = fs, .stop = -1, .table = -1};
    atomic_store(&fs->mount_flags, wanted);
    watch->mountpoint = real ? escaped(real) : NULL;
    free(real);
    if (!watch->mountpoint)
        return -errno;
    apply_words(o->mountpoint, &o->mount_words);
    /* Opened before it is read: what changes in between is told. */
    watch->table = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (watch->table < 0)
        return -errno;
    if (read_table(watch, &watch->seen) && !o->mount_words.access_times)
        atomic_store(&fs->mount_flags, watch->seen);
    if (watch->found)
        fs->mount_device = makedev(watch->dev_major, watch->dev_minor);
    watch->stop = eventfd(0, EFD_CLOEXEC);
    if (watch->stop < 0)
        return -errno;
    int err = pthread_create(&watch->thread, NULL, run, watch);
    if (err) {
        close(watch->stop);
        watch->stop = -1;
    }
    return -err;
}

void remount_watch_stop(struct remount_watch *watch)
{
    if (watch->stop >= 0) {
        (void) eventfd_write(watch->stop, 1);
        pthread_join(watch->thread, NULL);
        close(watch->stop);
    }
    if (watch->table >= 0)
        close(watch->table);
    free(watch->mountpoint);
    *watch = (struct remount_watch){.stop = -1, .table = -1};
}

/* Flags of an existing mount, in mount(2)'s words. */
static unsigned long current_flags(const struct statvfs *st)
{
    static const struct {
        unsigned long shown, flag;
    } pairs[] = {{ST_RDONLY, MS_RDONLY}, {ST_NOSUID, MS_NOSUID}, {ST_NODEV, MS_NODEV},
        {ST_NOEXEC, MS_NOEXEC}, {ST_SYNCHRONOUS, MS_SYNCHRONOUS}, {ST_NOATIME, MS_NOATIME},
        {ST_NODIRATIME, MS_NODIRATIME}, {ST_RELATIME, MS_RELATIME},
        {SHOWN_NOSYMFOLLOW, MS_NOSYMFOLLOW}};
    unsigned long flags = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (st->f_flag & pairs[i].shown)
            flags |= pairs[i].flag;
    return flags & (MS_NOATIME | MS_RELATIME) ? flags : flags | MS_STRICTATIME;
}

int remount(const char *mountpoint, const struct mount_words *words)
{
    struct statvfs st;
    struct statfs kind;
    if (statfs(mountpoint, &kind) != 0 || statvfs(mountpoint, &st) != 0)
        return -errno;
    /* Nobody shall make the root filesystem read-only by a slip. */
    if (kind.f_type != FUSE_SUPER_MAGIC)
        return -EINVAL;
    unsigned long flags = (current_flags(&st) & ~words->clear) | words->set;
    if (!(flags & ATIME_MODES))
        flags |= MS_RELATIME;
    return mount(NULL, mountpoint, NULL, MS_REMOUNT | flags, NULL) == 0 ? 0 : -errno;
}
