/*
 * mount.ttlfs - what mount(8), fstab and systemd call to mount a ttlfs.
 *
 *     mount.ttlfs STORE MOUNTPOINT [-sfnvrw] [-N namespace] [-t type] [-o options]...
 *
 * Installed as /sbin/mount.ttlfs. It turns mount(8)'s words into those of ttlfs, runs
 *     ttlfs [-o options] STORE MOUNTPOINT
 * waits until the mount answers, and turns its exit status into one of mount(8)'s:
 *
 *     ttlfs                           mount.ttlfs
 *     0  mounted                       0  success
 *     1  bad options                   1  incorrect invocation
 *     2  no mountpoint                 1  incorrect invocation
 *     3  the store cannot be opened   32  mount failure
 *     4  the mount failed             32  mount failure
 *     others, or killed by a signal   32  mount failure
 *     (cannot be run)                  2  system error
 *
 * Options. What only mount(8), fstab and systemd understand is dropped (see `for_others`); so is
 * `rw`, the default (except for a remount). Of several `ro` and `rw`, -r and -w, the last one counts. All the rest goes to
 * ttlfs, which knows FUSE's options (nosuid, nodev, noexec, noatime, allow_other ...) and its own.
 * Several -o are merged. A comma does not end an option behind a backslash or in double quotes.
 *
 *     -f  fake: look at the arguments, mount nothing
 *     -v  print the command to stderr
 *     -N  mount in this mount namespace: a process id, or a file as /proc/PID/ns/mnt
 *     -s, -n, -t  are accepted and mean nothing here: an unknown option is always an error, there
 *         is no /etc/mtab, and there is one type only
 *
 * ttlfs is looked for beside this program (symbolic links resolved), then in TTLFS_BINDIR, then in
 * the PATH.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TTLFS_BINDIR
#define TTLFS_BINDIR "/usr/local/bin"
#endif

/* Exit statuses of mount(8). */
#define EXIT_USAGE 1
#define EXIT_SYSTEM 2
#define EXIT_MOUNT 32

/* What the child says when it could not become ttlfs, whose own statuses are 0 to 7. */
#define CHILD_FAILED 127

#define PATH_TEXT_BYTES 4096

struct request {
    char *store;
    char *mountpoint;
    const char *namespace; /* NULL: ours */
    bool fake;
    bool verbose;
    bool read_only;
    bool remount;
    bool ro_or_rw; /* one of them was said */
    FILE *options; /* what goes to ttlfs, every option with a comma behind it */
};

/* A `=` or `-` at the end stands for whatever follows. */
static const char *const for_others[] = {"auto", "noauto", "user", "user=", "nouser", "users",
    "nousers", "owner", "noowner", "group", "nogroup", "nofail", "_netdev", "comment=", "x-", "X-",
    "defaults", "helper=", "uhelper="};

#define FOR_OTHERS (sizeof for_others / sizeof *for_others)

static int usage(void)
{
    fputs("usage: mount.ttlfs STORE MOUNTPOINT [-sfnvrw] [-N namespace] [-t type] "
          "[-o options]...\n",
        stderr);
    return EXIT_USAGE;
}

static bool is_option(const char *option, size_t len, const char *name)
{
    return strlen(name) == len && memcmp(option, name, len) == 0;
}

static bool is_for_others(const char *option, size_t len)
{
    for (size_t i = 0; i < FOR_OTHERS; i++) {
        const char *name = for_others[i];
        size_t name_len = strlen(name);
        bool open_ended = name[name_len - 1] == '=' || name[name_len - 1] == '-';
        if (open_ended ? len >= name_len && memcmp(option, name, name_len) == 0
                       : is_option(option, len, name))
            return true;
    }
    return false;
}

static void take_option(struct request *request, const char *option, size_t len)
{
    request->ro_or_rw |= is_option(option, len, "ro") || is_option(option, len, "rw");
    if (is_option(option, len, "ro"))
        request->read_only = true;
    else if (is_option(option, len, "rw"))
        request->read_only = false;
    else if (is_option(option, len, "remount"))
        request->remount = true;
    else if (len > 0 && !is_for_others(option, len))
        fprintf(request->options, "%.*s,", (int) len, option);
}

static void take_options(struct request *request, const char *list)
{
    while (*list) {
        bool in_quotes = false;
        size_t len = 0;
        for (; list[len] && (list[len] != ',' || in_quotes); len++) {
            if (list[len] == '\\' && list[len + 1])
                len++;
            else if (list[len] == '"')
                in_quotes = !in_quotes;
        }
        take_option(request, list, len);
        list += len + (list[len] == ',');
    }
}

static bool take_operand(struct request *request, char *operand)
{
    if (!request->store)
        request->store = operand;
    else if (!request->mountpoint)
        request->mountpoint = operand;
    else
        return false;
    return true;
}

static bool take_arguments(struct request *request, int argc, char **argv)
{
    int c;

    /* The leading '-' gives operands in their place, whatever POSIXLY_CORRECT says. */
    // NOLINTNEXTLINE(concurrency-mt-unsafe): this program has one thread
    while ((c = getopt(argc, argv, "-sfnvrwN:t:o:")) != -1) {
        switch (c) {
        case 's':
        case 'n':
        case 't':
            break;
        case 'f':
            request->fake = true;
            break;
        case 'v':
            request->verbose = true;
            break;
        case 'r':
        case 'w':
            request->read_only = c == 'r';
            request->ro_or_rw = true;
            break;
        case 'N':
            request->namespace = optarg;
            break;
        case 'o':
            take_options(request, optarg);
            break;
        case 1:
            if (!take_operand(request, optarg))
                return false;
            break;
        default:
            return false;
        }
    }
    for (; optind < argc; optind++)
        if (!take_operand(request, argv[optind]))
            return false;
    /* ttlfs would take a leading '-' for an option. */
    return request->mountpoint && request->store[0] && request->store[0] != '-' &&
           request->mountpoint[0] && request->mountpoint[0] != '-';
}

/* Leaves a path to ttlfs in ret_path, or the bare name, which execvp looks for in the PATH. */
static void find_ttlfs(char *ret_path, size_t size)
{
    ssize_t len = readlink("/proc/self/exe", ret_path, size);
    char *slash = NULL;

    if (len > 0 && (size_t) len < size) {
        ret_path[len] = '\0';
        slash = strrchr(ret_path, '/');
    }
    if (slash) {
        size_t room = size - (size_t) (slash + 1 - ret_path);
        if ((size_t) snprintf(slash + 1, room, "ttlfs") < room && access(ret_path, X_OK) == 0)
            return;
    }
    snprintf(ret_path, size, "%s/ttlfs", TTLFS_BINDIR);
    if (access(ret_path, X_OK) != 0)
        snprintf(ret_path, size, "ttlfs");
}

/* Moves this process into a mount namespace; false with a message when that fails. */
static bool enter_namespace(const char *namespace)
{
    char path[64];
    const char *file = namespace;
    bool entered;
    int fd;

    if (namespace[0] && namespace[strspn(namespace, "0123456789")] == '\0') {
        snprintf(path, sizeof path, "/proc/%.32s/ns/mnt", namespace);
        file = path;
    }
    fd = open(file, O_RDONLY | O_CLOEXEC);
    entered = fd >= 0 && setns(fd, CLONE_NEWNS) == 0;
    if (!entered)
        fprintf(stderr, "mount.ttlfs: namespace %s: %m\n", namespace);
    if (fd >= 0)
        close(fd);
    return entered;
}

/* The child: becomes ttlfs or says why not. */
static _Noreturn void become(const struct request *request, char **command)
{
    if (!request->namespace || enter_namespace(request->namespace)) {
        execvp(command[0], command);
        fprintf(stderr, "mount.ttlfs: cannot run %s: %m\n", command[0]);
    }
    _exit(CHILD_FAILED);
}

/* Runs ttlfs and waits for it, as an exec could not turn one status into the other. */
static int run(const struct request *request, char **command)
{
    pid_t child = fork();
    int status;

    if (child == 0)
        become(request, command);
    if (child < 0) {
        perror("mount.ttlfs: fork");
        return EXIT_SYSTEM;
    }
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) {
            perror("mount.ttlfs: waitpid");
            return EXIT_SYSTEM;
        }
    }
    if (!WIFEXITED(status)) {
        fprintf(stderr, "mount.ttlfs: ttlfs was killed by signal %d\n", WTERMSIG(status));
        return EXIT_MOUNT;
    }
    switch (WEXITSTATUS(status)) {
    case 0:
        return EXIT_SUCCESS;
    case 1:
    case 2:
        return EXIT_USAGE;
    case CHILD_FAILED:
        return EXIT_SYSTEM;
    default:
        return EXIT_MOUNT;
    }
}

static int mount_ttlfs(const struct request *request, char *options)
{
    char path[PATH_TEXT_BYTES], flag[] = "-o";
    char *command[6];
    size_t words = 0;

    find_ttlfs(path, sizeof path);
    command[words++] = path;
    if (options[0]) {
        command[words++] = flag;
        command[words++] = options;
    }
    command[words++] = request->store;
    command[words++] = request->mountpoint;
    command[words] = NULL;
    if (request->verbose) {
        fputs("mount.ttlfs:", stderr);
        for (size_t i = 0; i < words; i++)
            fprintf(stderr, " %s", command[i]);
        fputc('\n', stderr);
    }
    return request->fake ? EXIT_SUCCESS : run(request, command);
}

int main(int argc, char **argv)
{
    struct request request = {.fake = false};
    char *options = NULL;
    size_t len = 0;
    bool valid;
    int status;

    request.options = open_memstream(&options, &len);
    if (!request.options) {
        perror("mount.ttlfs");
        return EXIT_SYSTEM;
    }
    valid = take_arguments(&request, argc, argv);
    if (request.remount)
        fputs("remount,", request.options);
    if (request.read_only || (request.remount && request.ro_or_rw))
        fputs(request.read_only ? "ro," : "rw,", request.options);
    if (fclose(request.options) != 0) {
        perror("mount.ttlfs");
        free(options);
        return EXIT_SYSTEM;
    }
    if (len > 0)
        options[len - 1] = '\0';
    status = valid ? mount_ttlfs(&request, options) : usage();
    free(options);
    return status;
}
