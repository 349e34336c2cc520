/*
 * ttlctl ls: documents with their deadlines.
 *
 * Nothing is opened, for an open is an access. Linux has no user.* attributes on symbolic links, FIFOs,
 * sockets and devices: what is known of those is their name.
 */
#include "core/dates.h"
#include "mount-helpers/ttlctl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define VALUE_BYTES 512

struct entry {
    char *path;
    int64_t deadline_ms; /* INT64_MAX: never, or not known */
    char *deadline;      /* as the attribute says it; NULL when not known */
    char *reason;
    int64_t size;
};

enum order { BY_DEADLINE, BY_NAME, BY_SIZE };

struct listing {
    struct entry *entries;
    size_t n, size;
    bool recursive;
    int status;
};

static enum order order = BY_DEADLINE;
static bool reversed;

static int compare_names(const struct entry *a, const struct entry *b)
{
    return strcmp(a->path, b->path);
}

static int compare(const void *x, const void *y)
{
    const struct entry *a = x, *b = y;
    int sign = 0;
    if (order == BY_DEADLINE) {
        sign = (a->deadline_ms > b->deadline_ms) - (a->deadline_ms < b->deadline_ms);
        /* What is not known comes last. */
        if (sign == 0)
            sign = (a->deadline == NULL) - (b->deadline == NULL);
    } else if (order == BY_SIZE) {
        sign = (a->size > b->size) - (a->size < b->size);
    }
    if (sign == 0)
        sign = compare_names(a, b);
    return reversed ? -sign : sign;
}

static int64_t parse_deadline(const char *text)
{
    int64_t ms;
    if (strcmp(text, "never") == 0)
        return INT64_MAX;
    if (date_parse(text, strlen(text), &ms) == 0)
        return ms;
    /* A year beyond what RFC 3339 has. */
    return text[0] == '-' ? INT64_MIN : INT64_MAX - 1;
}

/* An attribute of a file that is not to be followed or opened; NULL when it has none. */
static char *figure(const char *path, const char *name)
{
    char value[VALUE_BYTES];
    ssize_t len = lgetxattr(path, name, value, sizeof value);
    return len < 0 ? NULL : strndup(value, (size_t) len);
}

/*
 * Adds a document. `at` is how it is reached from here, which may be shorter than what is shown.
 * It may be gone by now; then there is nothing to add.
 */
static void add(struct listing *listing, const char *at, const char *shown, const struct stat *st)
{
    char *deadline = figure(at, "user.ttl.deadline");
    if (!deadline && errno == ENOENT)
        return;
    if (listing->n == listing->size) {
        listing->size = listing->size ? 2 * listing->size : 64;
        listing->entries = realloc(listing->entries, listing->size * sizeof *listing->entries);
        if (!listing->entries)
            abort();
    }
    struct entry *entry = &listing->entries[listing->n++];
    entry->path = strdup(shown);
    entry->deadline = deadline;
    entry->deadline_ms = deadline ? parse_deadline(deadline) : INT64_MAX;
    entry->reason = figure(at, "user.ttl.reason");
    entry->size = st->st_size;
}

static void complain(struct listing *listing, const char *path)
{
    int failed = ctl_complain(path, NULL, errno);
    listing->status = listing->status ? listing->status : failed;
}

static void add_directory(struct listing *listing, int fd, const char *shown);

static void add_child(struct listing *listing, int fd, const char *name, const char *parent)
{
    struct stat st;
    char *at, *shown = *parent ? ctl_join(parent, name) : strdup(name);
    if (!shown || asprintf(&at, "/proc/self/fd/%d/%s", fd, name) < 0)
        abort();
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT)
            complain(listing, shown);
    } else if (!S_ISDIR(st.st_mode)) {
        add(listing, at, shown, &st);
    } else if (listing->recursive) {
        int child = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (child >= 0)
            add_directory(listing, child, shown);
        else if (errno != ENOENT)
            complain(listing, shown);
    }
    free(at);
    free(shown);
}

/* Takes the descriptor. */
static void add_directory(struct listing *listing, int fd, const char *shown)
{
    DIR *dir = fdopendir(fd);
    const struct dirent *found;
    if (!dir)
        abort();
    while ((found = readdir(dir)))
        if (strcmp(found->d_name, ".") != 0 && strcmp(found->d_name, "..") != 0)
            add_child(listing, dirfd(dir), found->d_name, shown);
    closedir(dir);
}

static void add_operand(struct listing *listing, const char *path)
{
    struct stat st;
    /* A link that leads nowhere is a document itself. */
    if (stat(path, &st) != 0 && lstat(path, &st) != 0) {
        complain(listing, path);
        return;
    }
    int status = ctl_check_mount(path);
    if (status) {
        listing->status = listing->status ? listing->status : status;
    } else if (!S_ISDIR(st.st_mode)) {
        char *at = realpath(path, NULL);
        add(listing, at ? at : path, path, &st);
        free(at);
    } else {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
            complain(listing, path);
        else
            add_directory(listing, fd, strcmp(path, ".") == 0 ? "" : path);
    }
}

/* The filesystem's clock, which may not be ours (-o test-clock). */
static int64_t clock_of(const char *path)
{
    struct timespec now;
    const char *root = ctl_mount_of(path);
    char *status = root ? ctl_join(root, ".ttlfs/status.json") : NULL, *text = NULL;
    size_t len;
    bson_t doc;
    int64_t ms = 0;
    if (status && ctl_read_file(status, &text, &len) == 0) {
        if (ctl_parse_json(text, len, &doc))
            ms = ctl_int(&doc, "now", 0);
        bson_destroy(&doc);
    }
    free(text);
    free(status);
    if (ms)
        return ms;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static double remaining(const struct entry *entry, int64_t now_ms)
{
    int64_t ms = date_subtract_saturated(entry->deadline_ms, now_ms);
    return ms > 0 ? (double) ms / 1000 : 0;
}

static void print_json(const struct listing *listing, size_t shown, int64_t now_ms)
{
    putchar('[');
    for (size_t i = 0; i < shown; i++) {
        const struct entry *entry = &listing->entries[i];
        fputs(i ? ",\n{" : "\n{", stdout);
        ctl_json_path(stdout, "path", entry->path);
        fputs(",\"deadline\":", stdout);
        if (entry->deadline)
            ctl_json_string(stdout, entry->deadline);
        else
            fputs("null", stdout);
        if (entry->deadline_ms == INT64_MAX)
            printf(",\"remaining\":%s", entry->deadline ? "\"never\"" : "null");
        else
            printf(",\"remaining\":%.3f", remaining(entry, now_ms));
        fputs(",\"reason\":", stdout);
        if (entry->reason)
            ctl_json_string(stdout, entry->reason);
        else
            fputs("null", stdout);
        printf(",\"size\":%lld}", (long long) entry->size);
    }
    fputs(shown ? "\n]\n" : "]\n", stdout);
}

static void print_table(
    const struct ctl *ctl, const struct listing *listing, size_t shown, int64_t now_ms)
{
    static const char *const heads[] = {"DEADLINE", "REMAINING", "REASON", "NAME"};
    struct ctl_table table = {.columns = 4, .heads = heads, .right = 1U << 1};
    for (size_t i = 0; i < shown; i++) {
        const struct entry *entry = &listing->entries[i];
        char text[32];
        ctl_duration(remaining(entry, now_ms), text, sizeof text);
        const char *left = entry->deadline_ms != INT64_MAX ? text : entry->deadline ? "never" : "-";
        ctl_table_add(&table, entry->deadline ? entry->deadline : "-");
        ctl_table_add(&table, left);
        ctl_table_add(&table, entry->reason ? entry->reason : "-");
        ctl_table_add(&table, entry->path);
    }
    ctl_table_print(&table, stdout, shown > 0 && !ctl->quiet, SIZE_MAX);
}

static bool take_order(const char *word)
{
    static const char *const words[] = {"deadline", "name", "size"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(word, words[i]) == 0) {
            order = (enum order) i;
            return true;
        }
    }
    return false;
}

static const struct option options[] = {{"recursive", no_argument, NULL, 'r'},
    {"sort", required_argument, NULL, 's'}, {"reverse", no_argument, NULL, 'R'},
    {NULL, 0, NULL, 0}};

int ctl_ls(struct ctl *ctl, int argc, char **argv)
{
    struct listing listing = {0};
    int64_t most = INT64_MAX;
    int c;
    while ((c = ctl_getopt(ctl, argc, argv, "rn:", options)) != -1) {
        if (c == CTL_GETOPT_DONE)
            return ctl_getopt_status();
        if (c == 's' && !take_order(optarg))
            return ctl_usage(ctl, "--sort %s is not deadline, name or size", optarg);
        if (c == 'n' && !ctl_number(optarg, 1, INT64_MAX, &most))
            return ctl_usage(ctl, "-n %s is not a number above 0", optarg);
        listing.recursive = listing.recursive || c == 'r';
        reversed = reversed || c == 'R';
    }
    const char *first = optind < argc ? argv[optind] : ".";
    if (optind == argc)
        add_operand(&listing, first);
    for (; optind < argc; optind++)
        add_operand(&listing, argv[optind]);
    if (listing.n > 0)
        qsort(listing.entries, listing.n, sizeof *listing.entries, compare);
    size_t shown = (uint64_t) most < listing.n ? (size_t) most : listing.n;
    int64_t now_ms = clock_of(first);
    if (ctl->json)
        print_json(&listing, shown, now_ms);
    else
        print_table(ctl, &listing, shown, now_ms);
    for (size_t i = 0; i < listing.n; i++) {
        free(listing.entries[i].path);
        free(listing.entries[i].deadline);
        free(listing.entries[i].reason);
    }
    free(listing.entries);
    return listing.status;
}
