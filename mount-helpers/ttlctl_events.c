/*
 * ttlctl events: what happens to documents, as it happens.
 */
#include "mount-helpers/ttlctl.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Without -f, so long is listened. */
#define EVENTS_SECONDS 1.0
#define EVENTS_READ_BYTES (64 * 1024)

struct watch {
    const char *kinds;      /* --event: a list with commas; NULL: all */
    const char *collection; /* --collection: this one and those below; NULL: all */
    int64_t most;           /* -n */
    double seconds;         /* 0: until interrupted */
    int64_t shown;
};

static bool is_listed(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (; *list; list += strcspn(list, ","), list += *list == ',')
        if (strcspn(list, ",") == len && memcmp(list, word, len) == 0)
            return true;
    return false;
}

static bool is_below(const char *collection, const char *path)
{
    size_t len = strlen(collection);
    while (len > 0 && collection[len - 1] == '/')
        len--;
    return strncmp(path, collection, len) == 0 &&
           (path[len] == '\0' || path[len] == '/' || len == 0);
}

/* What was lost is always told. */
static bool is_wanted(const struct watch *watch, const bson_t *event)
{
    const char *kind = ctl_string(event, "event"), *collection = ctl_string(event, "collection");
    if (kind && strcmp(kind, "lost") == 0)
        return true;
    if (watch->kinds && !(kind && is_listed(watch->kinds, kind)))
        return false;
    return !watch->collection || (collection && is_below(watch->collection, collection));
}

/* 2026-01-01T00:00:00.000Z  expired   sessions/ann  (index lastSeen) */
static void print_event(const bson_t *event)
{
    char when[40];
    const char *kind = ctl_string(event, "event"), *reason = ctl_string(event, "reason");
    const char *collection = ctl_string(event, "collection"), *name = ctl_string(event, "name");
    ctl_date(ctl_int(event, "ts", 0), when);
    if (!name) {
        printf("%s  %-8s  %lld events\n", when, kind ? kind : "?",
            (long long) ctl_int(event, "count", 0));
        return;
    }
    bool in_root = !collection || strcmp(collection, "/") == 0;
    char *path = in_root ? NULL : ctl_join(collection + (collection[0] == '/'), name);
    char *escaped = ctl_escape(path ? path : name);
    printf("%s  %-8s  %s%s%s%s\n", when, kind ? kind : "?", escaped, reason ? "  (" : "",
        reason ? reason : "", reason ? ")" : "");
    free(escaped);
    free(path);
}

static void show(const struct ctl *ctl, struct watch *watch, const char *line, size_t len)
{
    bson_t event;
    if (ctl_parse_json(line, len, &event) && is_wanted(watch, &event)) {
        if (ctl->json)
            printf("%.*s\n", (int) len, line);
        else
            print_event(&event);
        watch->shown++;
    }
    bson_destroy(&event);
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* How long to wait at most: -1 for ever. */
static int patience_ms(const struct watch *watch, double began)
{
    if (watch->seconds <= 0)
        return -1;
    double left = began + watch->seconds - seconds_now();
    return left > 0 ? (int) (left * 1000) + 1 : 0;
}

/* Shows the whole lines in a buffer, and moves the rest to its front. */
static size_t show_lines(const struct ctl *ctl, struct watch *watch, char *text, size_t len)
{
    char *line = text, *end;
    while (watch->shown < watch->most && (end = memchr(line, '\n', len - (size_t) (line - text)))) {
        show(ctl, watch, line, (size_t) (end - line));
        line = end + 1;
    }
    len -= (size_t) (line - text);
    memmove(text, line, len);
    return len;
}

/* Returns 0 or -errno. */
static int follow(const struct ctl *ctl, struct watch *watch, int fd)
{
    size_t len = 0, size = 2 * EVENTS_READ_BYTES;
    char *text = malloc(size);
    double began = seconds_now();
    int err = 0;
    if (!text)
        abort();
    while (!err && watch->shown < watch->most && !ferror(stdout)) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int n = poll(&ready, 1, patience_ms(watch, began));
        if (n == 0)
            break;
        ssize_t got = n < 0 ? -1 : read(fd, text + len, size - len);
        if (got == 0)
            break;
        if (got < 0) {
            err = errno == EAGAIN || errno == EINTR ? 0 : -errno;
            continue;
        }
        len = show_lines(ctl, watch, text, len + (size_t) got);
        fflush(stdout);
        if (size - len < EVENTS_READ_BYTES) {
            size *= 2;
            char *more = realloc(text, size);
            if (!more)
                abort();
            text = more;
        }
    }
    free(text);
    return err;
}

static const struct option options[] = {{"follow", no_argument, NULL, 'f'},
    {"event", required_argument, NULL, 'e'}, {"collection", required_argument, NULL, 'c'},
    {"seconds", required_argument, NULL, 's'}, {NULL, 0, NULL, 0}};

static int take_options(struct ctl *ctl, int argc, char **argv, struct watch *watch)
{
    int c;
    while ((c = ctl_getopt(ctl, argc, argv, "fn:", options)) != -1) {
        switch (c) {
        case CTL_GETOPT_DONE:
            return -1;
        case 'f':
            watch->seconds = 0;
            break;
        case 'e':
            watch->kinds = optarg;
            break;
        case 'c':
            watch->collection = optarg[0] == '/' ? optarg : ctl_keep(ctl_join("/", optarg));
            break;
        case 's':
            if (!ctl_seconds(optarg, &watch->seconds))
                return ctl_usage(ctl, "--seconds %s is not a number above 0, up to 86400", optarg);
            break;
        default:
            if (!ctl_number(optarg, 1, INT64_MAX, &watch->most))
                return ctl_usage(ctl, "-n %s is not a number above 0", optarg);
            break;
        }
    }
    return CTL_OK;
}

int ctl_events(struct ctl *ctl, int argc, char **argv)
{
    struct watch watch = {.most = INT64_MAX, .seconds = EVENTS_SECONDS};
    const char *root;
    int status = take_options(ctl, argc, argv, &watch);
    if (status)
        return status < 0 ? ctl_getopt_status() : status;
    if (argc - optind > 1)
        return ctl_usage(ctl, "one MOUNT at most");
    status = ctl_find_mount(ctl, optind < argc ? argv[optind] : NULL, &root);
    if (status)
        return status;
    char *path = ctl_join(root, ".ttlfs/events");
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int err = fd < 0 ? -errno : follow(ctl, &watch, fd);
    if (fd >= 0)
        close(fd);
    if (err) {
        ctl_error("%s: %s", path, strerror(-err));
        status = CTL_FAILED;
    }
    free(path);
    return status;
}
