#include "fs/monitor_thread.h"

#include "fs/access_time.h"
#include "fs/fs.h"
#include "fs/log.h"
#include "ttl/deadline.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Watchers are looked for again after this many times what looking for them took. */
#define SCAN_PAUSE_FACTOR 20

static int64_t monotonic_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t monotonic_ms(void)
{
    return monotonic_us() / 1000;
}

static int64_t hook_clock(void *arg)
{
    return fs_now_ms(((struct monitor_thread *) arg)->fs);
}

static int64_t hook_monotonic(void *arg)
{
    (void) arg;
    return monotonic_ms();
}

static bool hook_stop(void *arg)
{
    return atomic_load(&((struct monitor_thread *) arg)->stop);
}

static bool hook_watched(void *arg, struct dentry *d)
{
    const struct monitor_thread *m = arg;
    if (m->fs->options.notify == NOTIFY_ALWAYS)
        return true;
    return watch_set_has(&m->watches, d->parent->doc.ino) ||
           watch_set_has(&m->watches, d->doc->ino);
}

/* A directory's times and size change behind the kernel's back: it is told when the slice is over. */
static void note_changed(struct monitor_thread *m, fuse_ino_t dir)
{
    for (unsigned int i = 0; i < m->nchanged; i++)
        if (m->changed[i] == dir)
            return;
    if (m->nchanged == MONITOR_CHANGED_DIRS)
        notifier_attributes(&m->fs->notifier, m->changed[--m->nchanged]);
    m->changed[m->nchanged++] = dir;
}

static void hook_deleting(void *arg, struct dentry *d)
{
    struct monitor_thread *m = arg;
    struct fs *fs = m->fs;
    m->forget_names |= document_is_collection(d->doc) && d->doc->nlookup;
    /* What is open is in use, and only a name that was dropped goes with the last close. */
    if (d->doc->nlookup && !dentry_in_limbo(d) &&
        (d->doc->nopen || !notifier_let_go(&fs->notifier, fs_nodeid(fs, d->doc))))
        notifier_drop_name(&fs->notifier, fs_nodeid(fs, &d->parent->doc), d->name, d->name_len);
    if (d->doc->nlink > 1 && d->doc->nlookup)
        notifier_attributes(&fs->notifier, fs_nodeid(fs, d->doc));
    if (d->parent->doc.nlookup || d->parent == fs->tree->root)
        note_changed(m, fs_nodeid(fs, &d->parent->doc));
}

/*
 * The device of our mount. The table of mounts told it; otherwise the kernel is asked once, through the
 * mount itself, which keeps it busy until we have answered.
 */
static dev_t mount_device(struct monitor_thread *m)
{
    struct stat st;
    if (!m->device)
        m->device = m->fs->mount_device;
    if (!m->device && stat(m->fs->options.mountpoint, &st) == 0 && st.st_ino == TREE_ROOT_INO)
        m->device = st.st_dev;
    return m->device;
}

static void scan_watches(struct monitor_thread *m)
{
    if (m->fs->options.notify != NOTIFY_AUTO)
        return;
    int64_t now_us = monotonic_us();
    if (m->scanned_ms && now_us - m->scanned_ms * 1000 < SCAN_PAUSE_FACTOR * m->scan_took_us)
        return;
    if (!mount_device(m) || watch_set_scan(&m->watches, m->device) != 0)
        return;
    int64_t end_us = monotonic_us();
    m->scan_took_us = end_us - now_us;
    m->scanned_ms = end_us / 1000;
}

static void hook_slice_done(void *arg)
{
    struct monitor_thread *m = arg;
    if (m->forget_names)
        notifier_forget_names(&m->fs->notifier);
    m->forget_names = false;
    while (m->nchanged)
        notifier_attributes(&m->fs->notifier, m->changed[--m->nchanged]);
    scan_watches(m);
}

static void hook_visited(void *arg, const struct monitor_visit *visit)
{
    profile_visit(&((struct monitor_thread *) arg)->fs->profile, visit);
}

/* The path of a collection below the mountpoint. Returns false when it is too long or removed. */
static bool path_of(struct fs *fs, struct collection *c, char *path, size_t size)
{
    size_t at = size - 1;
    path[at] = '\0';
    tree_lock(fs->tree);
    bool ok = true;
    while (ok && c != fs->tree->root) {
        struct dentry *d = c->doc.links;
        ok = d && (size_t) d->name_len + 1 <= at;
        if (ok) {
            at -= d->name_len;
            memcpy(path + at, d->name, d->name_len);
            path[--at] = '/';
            c = d->parent;
        }
    }
    tree_unlock(fs->tree);
    size_t len = strlen(fs->options.mountpoint);
    if (!ok || len > at)
        return false;
    at -= len;
    memcpy(path + at, fs->options.mountpoint, len);
    memmove(path, path + at, size - at);
    return true;
}

/*
 * Opens a collection through the kernel. That it is really ours is proved by its OPENDIR having come to
 * us: after an unmount, or below another mount, the same path names somebody else's directory, which may
 * have the same numbers.
 */
static int open_collection(struct monitor_thread *m, struct document *doc)
{
    char path[PATH_MAX];
    if (!mount_device(m) || !path_of(m->fs, document_collection(doc), path, sizeof path))
        return -1;
    atomic_store(&m->opened, 0);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && atomic_load(&m->opened) != fs_nodeid(m->fs, doc)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* The descriptor is open for one batch only: an open one would keep umount busy. */
static void hook_remove(void *arg, struct monitor_name *names, size_t n)
{
    struct monitor_thread *m = arg;
    struct document *parent = NULL;
    int fd = -1;
    atomic_store(&m->tid, (int) syscall(SYS_gettid));
    for (size_t i = 0; i < n && !atomic_load(&m->stop); i++) {
        if (!names[i].watched)
            continue;
        if (names[i].parent != parent) {
            if (fd >= 0)
                close(fd);
            parent = names[i].parent;
            fd = open_collection(m, parent);
        }
        names[i].error = EACCES;
        if (fd < 0)
            continue;
        atomic_store(&m->removing, &names[i]);
        names[i].removed = unlinkat(fd, names[i].name, names[i].directory ? AT_REMOVEDIR : 0) == 0;
        atomic_store(&m->removing, NULL);
        names[i].error = names[i].removed ? 0 : errno;
    }
    if (fd >= 0)
        close(fd);
    atomic_store(&m->tid, 0);
}

static void hook_archive(void *arg, struct monitor_name *names, size_t n)
{
    archive_names(((struct monitor_thread *) arg)->fs, names, n);
}

/* Returns true when the monitor may delete. */
static bool clock_is_good(struct monitor_thread *m)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t wall_ms = timespec_ms(wall), mono_ms = monotonic_ms();
    tree_lock(m->fs->tree);
    int64_t limit_ms = m->fs->ttl.params.clock_jump_s * 1000;
    tree_unlock(m->fs->tree);

    pthread_mutex_lock(&m->lock);
    if (m->confirm_clock)
        clock_guard_confirm(&m->guard, wall_ms, mono_ms);
    m->confirm_clock = false;
    enum clock_guard_event event = clock_guard_check(&m->guard, wall_ms, mono_ms, limit_ms);
    int64_t leap_s = m->guard.leap_ms / 1000;
    bool held = m->guard.held;
    pthread_mutex_unlock(&m->lock);

    if (event == CLOCK_LEAPT)
        log_line(LOG_WARNING,
            "the clock leapt by %lld s: nothing is deleted until it is confirmed "
            "(echo 1 > .ttlfs/parameters/ttlMonitorClockConfirm) or has stayed for 10 minutes",
            (long long) leap_s);
    else if (event == CLOCK_SETTLED)
        log_line(LOG_INFO, "the clock has stayed for 10 minutes: deleting again");
    tree_lock(m->fs->tree);
    m->clock_held = held;
    tree_unlock(m->fs->tree);
    return !held;
}

static void run_pass(struct monitor_thread *m, bool asked)
{
    struct fs *fs = m->fs;
    bool unlinks = fs->options.notify != NOTIFY_NEVER;
    struct monitor_hooks hooks = {
        .arg = m,
        .clock_ms = hook_clock,
        .monotonic_ms = hook_monotonic,
        .watched = unlinks ? hook_watched : NULL,
        .remove = hook_remove,
        .archive = hook_archive,
        .deleting = hook_deleting,
        .slice_done = hook_slice_done,
        .visited = hook_visited,
        .stop = hook_stop,
        .retry = asked,
    };
    scan_watches(m);
    monitor_pass(&fs->ttl, &hooks, &m->pass);
}

/* Is something due that the thread should delete by itself? */
static bool due(struct fs *fs, int64_t next_ms, int64_t now_ms)
{
    return fs->ttl.params.monitor_enabled && !fs_is_read_only(fs) && now_ms >= next_ms;
}

/* Sleeps until woken or until the filesystem's time is `until_ms`. The monitor's lock is held. */
static void sleep_until(struct monitor_thread *m, int64_t until_ms, int64_t now_ms)
{
    struct timespec t;
    /* A real clock is looked at once a minute at least, for the guard. */
    int64_t wait_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    wait_ms = wait_ms < 60000 ? wait_ms : 60000;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += wait_ms / 1000;
    t.tv_nsec += (long) (wait_ms % 1000) * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_nsec -= 1000000000;
        t.tv_sec++;
    }
    while (!m->woken && !atomic_load(&m->stop))
        if (pthread_cond_timedwait(&m->wanted, &m->lock, &t) == ETIMEDOUT)
            break;
    m->woken = false;
}

static void *run(void *arg)
{
    struct monitor_thread *m = arg;
    struct fs *fs = m->fs;
    /* Now, before something else is mounted over it. */
    (void) mount_device(m);
    int64_t interval_ms = INT64_MIN; /* end of the last pass; the first one comes at once */
    while (!atomic_load(&m->stop)) {
        bool asked = waiters_begin(&m->waiters);
        bool good = clock_is_good(m);
        tree_lock(fs->tree);
        int64_t now_ms = fs_now_ms(fs);
        int64_t next_ms =
            interval_ms == INT64_MIN ? now_ms : monitor_next_ms(&fs->ttl, interval_ms);
        if (now_ms < interval_ms)
            next_ms = now_ms; /* the clock went back */
        bool wanted = due(fs, next_ms, now_ms);
        tree_unlock(fs->tree);

        if (good && (asked || wanted)) {
            run_pass(m, asked);
            tree_lock(fs->tree);
            interval_ms = fs_now_ms(fs);
            tree_unlock(fs->tree);
        }
        waiters_end(&m->waiters);

        tree_lock(fs->tree);
        now_ms = fs_now_ms(fs);
        bool sleeps = !fs->ttl.params.monitor_enabled || fs_is_read_only(fs) || !good;
        /* In the hold of the lock in which it is told: what was scheduled before wakes nobody. */
        if (sleeps)
            next_ms = DATE_NEVER_MS;
        else
            next_ms = now_ms < interval_ms ? now_ms : monitor_next_ms(&fs->ttl, interval_ms);
        fs->ttl.monitor_wakes_ms = sleeps || !fs->ttl.params.wake_by_deadline ? INT64_MIN : next_ms;
        tree_unlock(fs->tree);
        pthread_mutex_lock(&m->lock);
        sleep_until(m, next_ms, now_ms);
        pthread_mutex_unlock(&m->lock);
    }
    waiters_close(&m->waiters);
    return NULL;
}

static void wake(void *arg)
{
    monitor_thread_wake(arg);
}

void monitor_thread_init(struct monitor_thread *m, struct fs *fs)
{
    pthread_condattr_t attr;
    memset(m, 0, sizeof *m);
    m->fs = fs;
    watch_set_init(&m->watches);
    waiters_init(&m->waiters);
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->wanted, &attr);
    pthread_condattr_destroy(&attr);
    fs->ttl.wake = wake;
    fs->ttl.wake_arg = m;
}

int monitor_thread_start(struct monitor_thread *m)
{
    int err = 0;
    pthread_mutex_lock(&m->lock);
    if (!atomic_load(&m->stop)) {
        err = pthread_create(&m->thread, NULL, run, m);
        m->running = err == 0;
    }
    pthread_mutex_unlock(&m->lock);
    if (err)
        waiters_close(&m->waiters);
    return -err;
}

void monitor_thread_stop(struct monitor_thread *m)
{
    pthread_mutex_lock(&m->lock);
    bool running = m->running;
    m->running = false;
    atomic_store(&m->stop, true);
    pthread_cond_signal(&m->wanted);
    pthread_mutex_unlock(&m->lock);
    if (!running) {
        waiters_close(&m->waiters);
        return;
    }
    pthread_join(m->thread, NULL);
    watch_set_release(&m->watches);
}

void monitor_thread_wake(struct monitor_thread *m)
{
    pthread_mutex_lock(&m->lock);
    m->woken = true;
    pthread_cond_signal(&m->wanted);
    pthread_mutex_unlock(&m->lock);
}

void monitor_thread_confirm_clock(struct monitor_thread *m)
{
    pthread_mutex_lock(&m->lock);
    m->confirm_clock = true;
    m->woken = true;
    pthread_cond_signal(&m->wanted);
    pthread_mutex_unlock(&m->lock);
}

void monitor_thread_request(struct monitor_thread *m, fuse_req_t req, size_t size)
{
    if (waiters_add(&m->waiters, req, size))
        monitor_thread_wake(m);
}
