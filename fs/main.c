/*
 * main.c - ttlfs: from the command line to a mount, and back.
 *
 * The process forks before anything else: threads and the store's lock do not survive a fork. The
 * parent waits at a pipe for one byte, the exit status: 0 when the mount answers. Exit statuses are
 * those of libfuse's fuse_main.
 */
#include "fs/control.h"
#include "fs/find.h"
#include "fs/fs.h"
#include "fs/log.h"
#include "fs/session.h"
#include "fs/setup.h"
#include "fs/slow.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TTLFS_VERSION
#define TTLFS_VERSION "0.1"
#endif

/* What libfuse said last, before the mount answers: the reason of a failure. */
static char fuse_message[256];
static atomic_bool fuse_speaks;

/* Keeps the reason on stderr one line: ours, with libfuse's words in it. */
static void on_fuse_log(enum fuse_log_level level, const char *format, va_list args)
{
    char line[sizeof fuse_message];
    (void) vsnprintf(line, sizeof line, format, args);
    line[strcspn(line, "\n")] = '\0';
    if (level == FUSE_LOG_DEBUG)
        fprintf(stderr, "%s\n", line);
    else if (atomic_load(&fuse_speaks))
        log_line((int) level, "%s", line);
    else
        (void) snprintf(fuse_message, sizeof fuse_message, "%s", line);
}

struct startup {
    struct fs *fs;
    int pipe; /* to the parent; -1 when in the foreground, or when it was told */
};

static void tell_parent(struct startup *startup, unsigned char status)
{
    if (startup->pipe < 0)
        return;
    ssize_t n;
    do
        n = write(startup->pipe, &status, 1);
    while (n < 0 && errno == EINTR);
    close(startup->pipe);
    startup->pipe = -1;
}

/* Nobody reads our terminal any more. */
static void leave_terminal(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return;
    (void) dup2(null, STDIN_FILENO);
    (void) dup2(null, STDOUT_FILENO);
    (void) dup2(null, STDERR_FILENO);
    if (null > STDERR_FILENO)
        close(null);
}

/* The mount answers: the monitor may start, and the parent may return. */
static void on_answered(void *arg)
{
    struct startup *startup = arg;
    struct fs *fs = startup->fs;
    fs->notifier.has_epochs = session_forget_names(fs->session) == 0;
    fs->notifier.has_prune = session_prune(fs->session, NULL, 0) == 0;
    int err = monitor_thread_start(&fs->monitor);
    if (err)
        log_line(LOG_ERR, "the monitor cannot be started: %s", strerrordesc_np(-err));
    if (startup->pipe >= 0) {
        tell_parent(startup, 0);
        leave_terminal();
    }
}

/*
 * Forks unless in the foreground.
 * Returns -1 in the process that goes on, or the exit status in the parent.
 */
static int daemonise(bool foreground, struct startup *startup)
{
    int ends[2];
    if (foreground)
        return -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return setup_failed(EXIT_DAEMON, "no pipe: %s", strerrordesc_np(errno));
    pid_t pid = fork();
    if (pid < 0)
        return setup_failed(EXIT_DAEMON, "cannot fork: %s", strerrordesc_np(errno));
    if (pid == 0) {
        close(ends[0]);
        startup->pipe = ends[1];
        (void) setsid();
        if (chdir("/") != 0)
            return setup_failed(EXIT_DAEMON, "cannot change to /: %s", strerrordesc_np(errno));
        return -1;
    }
    close(ends[1]);
    unsigned char status = EXIT_DAEMON;
    ssize_t n;
    do
        n = read(ends[0], &status, 1);
    while (n < 0 && errno == EINTR);
    if (n == 1)
        return status;
    return setup_failed(EXIT_DAEMON, "the daemon ended before it was ready%s", "");
}

/* Ends the session on SIGTERM, SIGINT and SIGHUP. */
struct signals {
    struct fs *fs;
    pthread_t thread, main;
    sigset_t set;
    atomic_bool loop_ended;
};

static void on_nudge(int signal)
{
    (void) signal;
}

static void *wait_for_signal(void *arg)
{
    struct signals *s = arg;
    int number = 0;
    while (number == 0 || (number == SIGUSR1 && !atomic_load(&s->loop_ended)))
        if (sigwait(&s->set, &number) != 0)
            number = 0;
    if (number == SIGUSR1)
        return NULL;
    log_line(LOG_INFO, "ending: %s", sigdescr_np(number));
    /* While requests are still answered: the monitor may be in the middle of an unlink. */
    monitor_thread_stop(&s->fs->monitor);
    notifier_stop(&s->fs->notifier);
    events_stop(&s->fs->events);
    fuse_session_exit(s->fs->session);
    /* The loop sleeps in a semaphore, which only a signal of its own thread interrupts. */
    while (!atomic_load(&s->loop_ended)) {
        struct timespec pause = {.tv_nsec = 10000000};
        pthread_kill(s->main, SIGUSR2);
        nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Must run before any thread is started: they inherit what is blocked. */
static int block_signals(struct signals *s)
{
    struct sigaction nudge = {.sa_handler = on_nudge}, ignore = {.sa_handler = SIG_IGN};
    s->main = pthread_self();
    sigemptyset(&s->set);
    sigaddset(&s->set, SIGTERM);
    sigaddset(&s->set, SIGINT);
    sigaddset(&s->set, SIGHUP);
    sigaddset(&s->set, SIGUSR1);
    /* A write beyond RLIMIT_FSIZE is an error, not a death. */
    if (sigaction(SIGUSR2, &nudge, NULL) != 0 || sigaction(SIGPIPE, &ignore, NULL) != 0 ||
        sigaction(SIGXFSZ, &ignore, NULL) != 0)
        return -errno;
    return -pthread_sigmask(SIG_BLOCK, &s->set, NULL);
}

static int serve(struct fs *fs, struct signals *signals)
{
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    if (!config)
        return EXIT_LOOP;
    monitor_thread_init(&fs->monitor, fs);
    events_init(&fs->events, fs);
    slow_init(fs);
    slow_set_threshold(fs->ttl.params.slow_op_ms);
    int err = committer_start(&fs->committer, fs->tree, fs->options.commit_ms);
    if (!err)
        err = notifier_start(&fs->notifier, fs->session);
    if (!err)
        err = events_start(&fs->events);
    if (!err)
        err = pthread_create(&signals->thread, NULL, wait_for_signal, signals);
    bool waiting = !err;
    if (!err) {
        fuse_loop_cfg_set_clone_fd(config, fs->options.clone_fd);
        if (fs->options.max_threads)
            fuse_loop_cfg_set_max_threads(config, fs->options.max_threads);
        if (fs->options.max_idle_threads)
            fuse_loop_cfg_set_idle_threads(config, fs->options.max_idle_threads);
        err = fuse_session_loop_mt(fs->session, config);
    }
    fuse_loop_cfg_destroy(config);
    atomic_store(&signals->loop_ended, true);
    if (waiting) {
        pthread_kill(signals->thread, SIGUSR1);
        pthread_join(signals->thread, NULL);
    }
    monitor_thread_stop(&fs->monitor);
    notifier_stop(&fs->notifier);
    events_stop(&fs->events);
    events_release(&fs->events);
    control_tear_down();
    fuse_session_unmount(fs->session);
    int lost = committer_stop(&fs->committer);
    /* A signal ends the loop with its number: that is a clean end. */
    return err < 0 || lost ? EXIT_LOOP : 0;
}

/* Root, alone on its mount, may do everything: then asking the kernel to check only costs. */
static bool needs_permission_checks(const struct fs_options *o)
{
    return o->allow_other || geteuid() != 0;
}

static enum session_acl acl_mode(const struct fs_options *o)
{
    if (o->noacl)
        return SESSION_ACL_NONE;
    /* Asking the kernel to check lists makes it check everything. */
    return needs_permission_checks(o) ? SESSION_ACL_CHECKED : SESSION_ACL_KEPT;
}

static int add_mount_options(struct fs_options *o)
{
    char name[512];
    (void) snprintf(name, sizeof name, "-ofsname=%s", o->store);
    /* A comma would end the option. */
    for (char *comma = strchr(name, ','); comma; comma = strchr(comma, ','))
        *comma = '_';
    int err = fuse_opt_insert_arg(&o->fuse, 1, "-osubtype=ttlfs");
    err |= fuse_opt_insert_arg(&o->fuse, 1, name);
    if (needs_permission_checks(o))
        err |= fuse_opt_add_arg(&o->fuse, "-odefault_permissions");
    if (o->debug)
        err |= fuse_opt_add_arg(&o->fuse, "-odebug");
    return err ? -ENOMEM : 0;
}

/*
 * fusermount3, which mounts for ordinary users, says on stderr why it would not. That is kept, to become
 * part of our one line. No other thread runs yet.
 */
static int mount_session(struct fs *fs)
{
    char text[sizeof fuse_message];
    int said = memfd_create("said", MFD_CLOEXEC), stderr_was = dup(STDERR_FILENO);
    bool catching = said >= 0 && stderr_was >= 0 && dup2(said, STDERR_FILENO) >= 0;
    int err = fuse_session_mount(fs->session, fs->options.mountpoint);
    if (catching) {
        (void) dup2(stderr_was, STDERR_FILENO);
        ssize_t n = pread(said, text, sizeof text - 1, 0);
        text[n > 0 ? n : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        if (text[0])
            memcpy(fuse_message, text, sizeof text);
    }
    if (stderr_was >= 0)
        close(stderr_was);
    if (said >= 0)
        close(said);
    return err;
}

static int mount_and_serve(struct fs *fs, struct startup *startup)
{
    struct signals signals = {.fs = fs};
    int status = setup_fs(fs);
    if (status)
        goto out;
    if (block_signals(&signals) != 0) {
        status =
            setup_failed(EXIT_SIGNALS, "signals cannot be handled: %s", strerrordesc_np(errno));
        goto out;
    }
    if (add_mount_options(&fs->options) == 0)
        fs->session = fuse_session_new(&fs->options.fuse, &fs_ops, sizeof fs_ops, fs);
    if (!fs->session) {
        status = setup_failed(
            EXIT_OPTIONS, "%s", fuse_message[0] ? fuse_message : "libfuse refused the options");
        goto out;
    }
    if (mount_session(fs) != 0) {
        status = fuse_message[0]
                     ? setup_failed(EXIT_MOUNT, "%s", fuse_message)
                     : setup_failed(EXIT_MOUNT, "%s cannot be mounted", fs->options.mountpoint);
        goto out;
    }
    if (session_init(fs->session, acl_mode(&fs->options), on_answered, startup) != 0) {
        fuse_session_unmount(fs->session);
        status = setup_failed(EXIT_SETUP, "%s", "libfuse takes no custom I/O");
        goto out;
    }
    log_init(!fs->options.foreground);
    atomic_store(&fuse_speaks, true);
    int err = remount_watch_start(&fs->remounts, fs);
    if (err)
        log_line(LOG_WARNING, "remounts will not be noticed: %s", strerrordesc_np(-err));
    status = serve(fs, &signals);
    remount_watch_stop(&fs->remounts);
out:
    if (fs->session)
        fuse_session_destroy(fs->session);
    setup_undo(fs);
    return status;
}

static int check_mountpoint(const struct fs_options *o)
{
    struct stat st;
    if (!o->mountpoint)
        return setup_failed(EXIT_MOUNTPOINT, "%s", "MOUNTPOINT is missing");
    if (stat(o->mountpoint, &st) != 0)
        return setup_failed(EXIT_MOUNTPOINT, "the mountpoint %s cannot be used", o->mountpoint);
    if (!S_ISDIR(st.st_mode))
        return setup_failed(EXIT_MOUNTPOINT, "the mountpoint %s is no directory", o->mountpoint);
    return 0;
}

/* Each open large file takes a descriptor. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void) setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int run(struct fs *fs)
{
    struct startup startup = {.fs = fs, .pipe = -1};
    int status = daemonise(fs->options.foreground, &startup);
    if (status >= 0)
        return status;
    raise_descriptor_limit();
    status = mount_and_serve(fs, &startup);
    tell_parent(&startup, (unsigned char) status);
    return status;
}

static int run_remount(const struct fs_options *o)
{
    int err = remount(o->mountpoint, &o->mount_words);
    return err ? setup_failed(EXIT_MOUNT, "the remount failed: %s", strerrordesc_np(-err)) : 0;
}

int main(int argc, char **argv)
{
    static struct fs fs;
    struct reason why = {0};
    int status;
    umask(0);
    fuse_set_log_func(on_fuse_log);
    clock_gettime(CLOCK_MONOTONIC, &fs.started);
    profile_init(&fs.profile);
    fs.owner_uid = geteuid();
    fs.owner_gid = getegid();
    int err = options_parse(argc, argv, &fs.options, &why);
    if (err) {
        status = setup_failed(EXIT_OPTIONS, "%s", why.text[0] ? why.text : strerrordesc_np(-err));
    } else if (fs.options.help) {
        fputs(options_help, stdout);
        status = 0;
    } else if (fs.options.version) {
        printf("ttlfs %s, libfuse %s\n", TTLFS_VERSION, fuse_pkgversion());
        status = 0;
    } else {
        log_debug(fs.options.debug);
        status = check_mountpoint(&fs.options);
        if (!status && fs.options.remount)
            status = run_remount(&fs.options);
        else if (!status)
            status = run(&fs);
    }
    options_release(&fs.options);
    profile_release(&fs.profile);
    return status;
}
