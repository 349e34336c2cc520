/*
 * fsload.c - times small-file operations on several directories, interleaved.
 *
 *     fsload [-t threads] [-n files] [-r rounds] [-s seconds] [-l own|one] [-o op[,op...]]
 *            [-p text|json | --json] [LABEL=]DIR...
 *
 * One operation is done by all threads on one target, timed as a whole by CLOCK_MONOTONIC, then the
 * same one on the next target; the target that begins changes with every round. So what disturbs
 * the machine disturbs all targets alike. A figure is wall time / (threads * files): with several
 * threads it is the time per operation that the whole process sees, not the latency of one call.
 * Printed are the medians over the rounds and, as ratio, the median of the quotients against the
 * first target within one round. JSON has one object per line, target and operation.
 *
 * Each thread works on -n files of names never used before, in a sub-directory of its own (-l own,
 * the default) or all in one (-l one). The operations are those of enum op in fsops.h, in that
 * order; create and unlink are always done, for the others need them. An operation that a target
 * does not support (ENOTSUP, ENOSYS) has no figure there; any other failure ends the program.
 *
 * "Forgotten": a FUSE mount is remounted without a change, which takes root and DIR to be the
 * mount's root; failing that, 2 is written to /proc/sys/vm/drop_caches; failing that too, "cold" is
 * "no" in the JSON (see fsops.h).
 *
 * Bounded: no round begins after -s seconds (default 60); at four times that SIGALRM ends the
 * program. Exit status: 0, 1 a failure, 2 wrong usage.
 */
#include "tests/bench/fsops.h"

#include <pthread.h>
#include <stdlib.h>

#define MAX_TARGETS 8
#define MAX_THREADS 32
#define MAX_FILES 100000
#define MAX_ROUNDS 200
#define MAX_SECONDS 3600

struct target {
    const char *label, *path;
    char base[4096]; /* our directory on it */
    const char *cold;
    int dirfd[MAX_THREADS]; /* the directory that each thread works in */
    bool unsupported[OPS];
    double us[OPS][MAX_ROUNDS];
};

static struct {
    unsigned threads, files, rounds, seconds, targets;
    bool one_directory, json;
    bool wanted[OPS];
} opt = {.threads = 1, .files = 200, .rounds = 15, .seconds = 60};

static struct target targets[MAX_TARGETS];

/* What the workers are told; written only while they wait at the barrier. */
static struct {
    enum op op;
    struct target *target;
    bool end;
} task;

static struct worker {
    pthread_t thread;
    unsigned number;
    char (*names)[NAME_BYTES];
    int error; /* errno of the last task, or 0 */
    uint64_t done;
} workers[MAX_THREADS];

static pthread_barrier_t barrier;

static void die(const char *what, const char *where, int error)
{
    fprintf(stderr, "fsload: %s %s: %s\n", what, where, strerror(error));
    exit(1);
}

/* ---- rounds ---- */

static void *work(void *arg)
{
    struct worker *w = arg;

    for (;;) {
        pthread_barrier_wait(&barrier);
        if (task.end)
            return NULL;
        int dirfd = task.target->dirfd[w->number];
        w->error = 0;
        w->done = 0;
        if (task.op == OP_WALK)
            w->error = op_walk(dirfd, &w->done);
        else
            while (w->done < opt.files && !(w->error = op_do(task.op, dirfd, w->names[w->done])))
                w->done++;
        pthread_barrier_wait(&barrier);
    }
}

/* One task by all workers. Returns µs per operation, or -1 when the target does not support it. */
static double run(struct target *t, enum op op)
{
    uint64_t done = 0;
    double us;

    task.op = op;
    task.target = t;
    us = now_us();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    us = now_us() - us;
    for (unsigned i = 0; i < opt.threads; i++) {
        int error = workers[i].error;
        if (error == ENOTSUP || error == ENOSYS)
            return -1;
        if (error)
            die(op_names[op], t->label, error);
        done += workers[i].done;
    }
    return done ? us / (double) done : -1;
}

static void name_files(unsigned round)
{
    for (unsigned i = 0; i < opt.threads; i++)
        for (unsigned j = 0; j < opt.files; j++)
            snprintf(workers[i].names[j], NAME_BYTES, "t%02u.%04u.%07u", i % 100, round % 10000,
                j % 10000000);
}

static void round_of(unsigned round)
{
    name_files(round);
    for (int op = 0; op < OPS; op++) {
        for (unsigned i = 0; i < opt.targets; i++) {
            struct target *t = &targets[(i + round) % opt.targets];

            if (!opt.wanted[op] && op != OP_CREATE && op != OP_UNLINK)
                continue;
            if (op == OP_COLDSTAT || op == OP_READ || op == OP_WALK)
                t->cold = forget_mount(t->path);
            t->us[op][round] = run(t, (enum op) op);
            t->unsupported[op] = t->us[op][round] < 0;
            if (op == OP_MKNOD && !t->unsupported[op]) /* make room for create */
                run(t, OP_UNLINK);
        }
    }
}

/* ---- results ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *) a, y = *(const double *) b;

    return (x > y) - (x < y);
}

static double median(const double *values, unsigned n)
{
    double sorted[MAX_ROUNDS] = {0};

    memcpy(sorted, values, n * sizeof(*values));
    qsort(sorted, n, sizeof(*sorted), by_value);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double ratio(const struct target *t, int op, unsigned rounds)
{
    double quotients[MAX_ROUNDS] = {0};

    for (unsigned r = 0; r < rounds; r++)
        quotients[r] = t->us[op][r] / targets[0].us[op][r];
    return median(quotients, rounds);
}

static void print_text(unsigned rounds)
{
    printf("%u thread%s, %s, %u files each, %u rounds: us per operation (ratio to %s)\n%-9s",
        opt.threads, opt.threads > 1 ? "s" : "",
        opt.one_directory ? "one directory" : "own directories", opt.files, rounds,
        targets[0].label, "");
    for (unsigned i = 0; i < opt.targets; i++)
        printf(" %15s", targets[i].label);
    for (int op = 0; op < OPS; op++) {
        if (!opt.wanted[op])
            continue;
        printf("\n%-9s", op_names[op]);
        for (unsigned i = 0; i < opt.targets; i++) {
            const struct target *t = &targets[i];
            if (t->unsupported[op])
                printf(" %15s", "-");
            else if (i == 0 || targets[0].unsupported[op])
                printf(" %7.2f        ", median(t->us[op], rounds));
            else
                printf(" %7.2f (%5.2f)", median(t->us[op], rounds), ratio(t, op, rounds));
        }
    }
    printf("\n");
}

static void print_json(unsigned rounds)
{
    for (int op = 0; op < OPS; op++)
        for (unsigned i = 0; i < opt.targets && opt.wanted[op]; i++) {
            const struct target *t = &targets[i];
            printf("{\"target\":\"%s\",\"op\":\"%s\",\"threads\":%u,\"layout\":\"%s\",\"files\":%u,"
                   "\"rounds\":%u,\"cold\":\"%s\",",
                t->label, op_names[op], opt.threads, opt.one_directory ? "one" : "own", opt.files,
                rounds, t->cold ? t->cold : "unused");
            if (t->unsupported[op])
                printf("\"median_us\":null}\n");
            else
                printf("\"median_us\":%.3f,\"us\":[", median(t->us[op], rounds));
            for (unsigned r = 0; r < rounds && !t->unsupported[op]; r++)
                printf("%.3f%s", t->us[op][r], r + 1 < rounds ? "," : "]}\n");
        }
}

/* ---- set-up ---- */

static void open_target(struct target *t)
{
    char sub[16];
    int base;

    snprintf(t->base, sizeof(t->base), "%s/fsload.%d", t->path, (int) getpid());
    if (mkdir(t->base, 0755) < 0 || (base = open(t->base, O_RDONLY | O_DIRECTORY)) < 0)
        die("mkdir", t->base, errno);
    for (unsigned i = 0; i < opt.threads; i++) {
        snprintf(sub, sizeof(sub), "%u", opt.one_directory ? 0 : i);
        if (mkdirat(base, sub, 0755) < 0 && errno != EEXIST)
            die("mkdir", t->base, errno);
        if ((t->dirfd[i] = openat(base, sub, O_RDONLY | O_DIRECTORY)) < 0)
            die("open", t->base, errno);
    }
    close(base);
}

static void close_target(const struct target *t)
{
    char sub[sizeof(t->base) + 16];

    for (unsigned i = 0; i < opt.threads; i++) {
        close(t->dirfd[i]);
        snprintf(sub, sizeof(sub), "%s/%u", t->base, i);
        rmdir(sub);
    }
    if (rmdir(t->base) < 0)
        die("rmdir", t->base, errno);
}

static void start_workers(void)
{
    int error = pthread_barrier_init(&barrier, NULL, opt.threads + 1);

    for (unsigned i = 0; i < opt.threads && !error; i++) {
        workers[i].number = i;
        workers[i].names = calloc(opt.files, NAME_BYTES);
        error =
            workers[i].names ? pthread_create(&workers[i].thread, NULL, work, &workers[i]) : ENOMEM;
    }
    if (error)
        die("start", "threads", error);
}

static void stop_workers(void)
{
    task.end = true;
    pthread_barrier_wait(&barrier);
    for (unsigned i = 0; i < opt.threads; i++) {
        pthread_join(workers[i].thread, NULL);
        free(workers[i].names);
    }
    pthread_barrier_destroy(&barrier);
}

static unsigned do_rounds(void)
{
    double end = now_us() + opt.seconds * 1e6;
    unsigned done = 0;

    for (unsigned i = 0; i < opt.targets; i++)
        open_target(&targets[i]);
    start_workers();
    while (done < opt.rounds && (!done || now_us() < end))
        round_of(done++);
    stop_workers();
    for (unsigned i = 0; i < opt.targets; i++)
        close_target(&targets[i]);
    return done;
}

/* ---- the command line ---- */

static bool parse_number(const char *text, unsigned most, unsigned *ret_value)
{
    unsigned long value;
    char *end;

    errno = 0;
    value = strtoul(text, &end, 10);
    *ret_value = (unsigned) value;
    return !errno && end != text && !*end && value >= 1 && value <= most;
}

static bool parse_ops(const char *list)
{
    while (*list) {
        size_t n = strcspn(list, ",");
        int op = 0;
        while (op < OPS && (strlen(op_names[op]) != n || memcmp(op_names[op], list, n) != 0))
            op++;
        if (op == OPS)
            return false;
        opt.wanted[op] = true;
        list += n + (list[n] == ',');
    }
    return true;
}

static bool parse_choice(const char *value, const char *no, const char *yes, bool *ret_yes)
{
    *ret_yes = strcmp(value, yes) == 0;
    return *ret_yes || strcmp(value, no) == 0;
}

static bool parse_option(int c, const char *value)
{
    switch (c) {
    case 't':
        return parse_number(value, MAX_THREADS, &opt.threads);
    case 'n':
        return parse_number(value, MAX_FILES, &opt.files);
    case 'r':
        return parse_number(value, MAX_ROUNDS, &opt.rounds);
    case 's':
        return parse_number(value, MAX_SECONDS, &opt.seconds);
    case 'o':
        return parse_ops(value);
    case 'l':
        return parse_choice(value, "own", "one", &opt.one_directory);
    case 'p':
        return parse_choice(value, "text", "json", &opt.json);
    default:
        return false;
    }
}

static bool add_target(char *word)
{
    struct target *t = &targets[opt.targets];
    char *equals = strchr(word, '=');

    if (opt.targets++ == MAX_TARGETS)
        return false;
    t->label = t->path = word;
    if (equals) {
        *equals = '\0';
        t->path = equals + 1;
    }
    return !strpbrk(t->label, "\"\\");
}

static bool parse(int argc, char **argv)
{
    static char json[] = "-pjson";
    bool ok = true, any = false;
    int c;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") == 0)
            argv[i] = json;
    while (ok && (c = getopt(argc, argv, "t:n:r:s:o:l:p:")) != -1)
        ok = parse_option(c, optarg);
    for (; ok && optind < argc; optind++)
        ok = add_target(argv[optind]);
    for (int op = 0; op < OPS; op++)
        any |= opt.wanted[op];
    if (!any)
        parse_ops("create,coldstat,stat,read,reread,setxattr,getxattr,walk,unlink");
    return ok && opt.targets > 0;
}

int main(int argc, char **argv)
{
    unsigned rounds;

    if (!parse(argc, argv)) {
        fprintf(stderr, "usage: fsload [-t threads] [-n files] [-r rounds] [-s seconds] "
                        "[-l own|one] [-o op[,op...]]\n"
                        "              [-p text|json | --json] [LABEL=]DIR...\n");
        return 2;
    }
    alarm(opt.seconds * 4); /* a target that hangs must not hang whoever called */
    rounds = do_rounds();
    (opt.json ? print_json : print_text)(rounds);
    return 0;
}
