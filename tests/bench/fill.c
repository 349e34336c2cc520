/*
 * fill.c - makes many empty files fast.
 *
 *     fill [-t threads] [-d directories] [-s seconds] FILES DIR
 *
 * FILES regular files with 16-byte names, by mknod(2), spread evenly over DIR/0, DIR/1 ... (made
 * when missing). With -d a multiple of -t no two threads meet in a directory.
 * Prints how many files were made and the seconds that took; fewer than FILES only when -s seconds
 * (default 600) were over. Exit status: 0, 1 a failure, 2 wrong usage.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 32
#define MAX_DIRECTORIES 1000
#define MAX_FILES 20000000
#define MAX_SECONDS 3600
#define FILES_PER_LOOK_AT_THE_CLOCK 256

static struct {
    unsigned threads, directories, seconds, files;
} opt = {.threads = 4, .directories = 1, .seconds = 600};

static int directories[MAX_DIRECTORIES];
static double end_s;

static struct worker {
    pthread_t thread;
    unsigned number;
    int error;
    uint64_t made;
} workers[MAX_THREADS];

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

/* Thread w does the files w, w + threads ...; a file's directory follows from its number. */
static void *fill(void *arg)
{
    struct worker *w = arg;
    char name[24];

    for (unsigned i = w->number; i < opt.files && !w->error; i += opt.threads) {
        if (w->made % FILES_PER_LOOK_AT_THE_CLOCK == 0 && now_s() > end_s)
            break;
        snprintf(name, sizeof(name), "f%015u", i);
        if (mknodat(directories[i % opt.directories], name, S_IFREG | 0644, 0) < 0)
            w->error = errno;
        else
            w->made++;
    }
    return NULL;
}

static int open_directories(const char *path)
{
    char sub[4096];

    for (unsigned i = 0; i < opt.directories; i++) {
        snprintf(sub, sizeof(sub), "%s/%u", path, i);
        if (mkdir(sub, 0755) < 0 && errno != EEXIST)
            return errno;
        if ((directories[i] = open(sub, O_RDONLY | O_DIRECTORY)) < 0)
            return errno;
    }
    return 0;
}

static int run(uint64_t *ret_made)
{
    unsigned started = 0;
    int error = 0;

    for (; started < opt.threads && !error; started++) {
        workers[started].number = started;
        error = pthread_create(&workers[started].thread, NULL, fill, &workers[started]);
    }
    for (unsigned i = 0; i < started - (error != 0); i++) {
        pthread_join(workers[i].thread, NULL);
        *ret_made += workers[i].made;
        if (workers[i].error)
            error = workers[i].error;
    }
    return error;
}

static bool parse_number(const char *text, unsigned most, unsigned *ret_value)
{
    unsigned long value;
    char *end;

    errno = 0;
    value = strtoul(text, &end, 10);
    *ret_value = (unsigned) value;
    return !errno && end != text && !*end && value >= 1 && value <= most;
}

static bool parse(int argc, char **argv)
{
    bool ok = true;
    int c;

    while (ok && (c = getopt(argc, argv, "t:d:s:")) != -1)
        ok = c == 't'   ? parse_number(optarg, MAX_THREADS, &opt.threads)
             : c == 'd' ? parse_number(optarg, MAX_DIRECTORIES, &opt.directories)
             : c == 's' ? parse_number(optarg, MAX_SECONDS, &opt.seconds)
                        : false;
    return ok && argc - optind == 2 && parse_number(argv[optind], MAX_FILES, &opt.files);
}

int main(int argc, char **argv)
{
    uint64_t made = 0;
    double start;
    int error;

    if (!parse(argc, argv)) {
        fprintf(stderr, "usage: fill [-t threads] [-d directories] [-s seconds] FILES DIR\n");
        return 2;
    }
    start = now_s();
    end_s = start + opt.seconds;
    error = open_directories(argv[optind + 1]);
    if (!error)
        error = run(&made);
    if (error) {
        fprintf(stderr, "fill: %s: %s\n", argv[optind + 1], strerror(error));
        return 1;
    }
    printf("%llu %.3f\n", (unsigned long long) made, now_s() - start);
    return 0;
}
