/*
 * ttlctl top: status.json and currentOp.json again and again, with what changed in between.
 *
 * On a terminal each page is written over the one before, line by line, so that nothing flickers.
 */
#include "mount-helpers/ttlctl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define TOP_SECONDS 2.0
#define TOP_ROWS 24
#define TOP_COLUMNS 80
#define TOP_BATCH_INDEXES 10
/* Lines of a page above the indexes. */
#define TOP_HEAD_ROWS 8

struct sample {
    bson_t status, ops;
    bool has_ops;
    double at; /* seconds, monotonic */
};

struct top {
    const struct ctl *ctl;
    const char *root;
    double seconds;
    int64_t pages;
    bool screen;              /* a terminal that is drawn on */
    struct sample samples[2]; /* a bson_t cannot be copied: they take turns */
    struct sample *now;
    struct sample *before; /* NULL on the first page */
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void) number;
    interrupted = 1;
}

/* Reads a control file as JSON, without a word: the screen is in use. Returns 0 or -errno. */
static int read_quietly(const char *root, const char *name, bson_t *ret_doc)
{
    char *path = ctl_join(root, name), *text;
    size_t len;
    int err = ctl_read_file(path, &text, &len);
    free(path);
    if (err) {
        bson_init(ret_doc);
        return err;
    }
    if (!ctl_parse_json(text, len, ret_doc))
        err = -EBADMSG;
    free(text);
    return err;
}

/* Returns 0 or -errno. */
static int take_sample(const struct top *top, struct sample *ret_sample)
{
    struct timespec now;
    int err = read_quietly(top->root, ".ttlfs/status.json", &ret_sample->status);
    clock_gettime(CLOCK_MONOTONIC, &now);
    ret_sample->at = (double) now.tv_sec + (double) now.tv_nsec / 1e9;
    ret_sample->has_ops = read_quietly(top->root, ".ttlfs/currentOp.json", &ret_sample->ops) == 0;
    return err;
}

static void sample_release(struct sample *sample)
{
    bson_destroy(&sample->status);
    bson_destroy(&sample->ops);
}

/* What a counter of metrics.ttl gains in a second. */
static double rate(const struct top *top, const char *counter)
{
    char path[64];
    if (!top->before || top->now->at <= top->before->at)
        return 0;
    (void) snprintf(path, sizeof path, "metrics.ttl.%s", counter);
    int64_t gained = ctl_int(&top->now->status, path, 0) - ctl_int(&top->before->status, path, 0);
    return gained > 0 ? (double) gained / (top->now->at - top->before->at) : 0;
}

/* One line of JSON: figures, rates, and the two files' lists as they are. */
static void print_json(const struct top *top)
{
    static const char *const counters[] = {
        "passes", "subPasses", "deletedDocuments", "archivedDocuments", "errors"};
    bson_t line = BSON_INITIALIZER, metrics, rates, part;
    bson_append_document_begin(&line, "metrics", -1, &metrics);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        char path[64];
        (void) snprintf(path, sizeof path, "metrics.ttl.%s", counters[i]);
        bson_append_int64(&metrics, counters[i], -1, ctl_int(&top->now->status, path, 0));
    }
    bson_append_document_end(&line, &metrics);
    bson_append_document_begin(&line, "perSecond", -1, &rates);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        bson_append_double(&rates, counters[i], -1, rate(top, counters[i]));
    bson_append_document_end(&line, &rates);
    bson_copy_to_excluding_noinit(
        &top->now->status, &line, "metrics", "collections", "collectionsCut", NULL);
    if (top->now->has_ops && ctl_part(&top->now->ops, "inprog", &part))
        bson_append_array(&line, "inprog", -1, &part);
    ctl_json_document(stdout, &line);
    putchar('\n');
    bson_destroy(&line);
}

static void print_ops(const struct top *top, FILE *out)
{
    bson_t list, op;
    bson_iter_t iter;
    if (!top->now->has_ops || !ctl_part(&top->now->ops, "inprog", &list) ||
        !bson_iter_init(&iter, &list))
        return;
    while (bson_iter_next(&iter)) {
        char running[32];
        if (!ctl_part_at(&iter, &op))
            continue;
        const char *kind = ctl_string(&op, "op"), *index = ctl_string(&op, "index");
        const char *collection = ctl_string(&op, "collection");
        char *place = ctl_escape(collection ? collection : "");
        ctl_duration((double) ctl_int(&op, "runningMS", 0) / 1000, running, sizeof running);
        fprintf(out, "%s %s %s, for %s", kind ? kind : "?", place, index ? index : "", running);
        if (ctl_int(&op, "total", 0) > 0)
            fprintf(out, ", %lld of %lld\n", (long long) ctl_int(&op, "done", 0),
                (long long) ctl_int(&op, "total", 0));
        else
            fprintf(out, ", %lld deleted\n", (long long) ctl_int(&op, "deletedDocuments", 0));
        free(place);
    }
}

static void print_page(const struct top *top, FILE *out, size_t indexes)
{
    const bson_t *status = &top->now->status;
    char text[40], until[32];
    char *mount = ctl_escape(top->root);
    int64_t next_ms = ctl_int(status, "nextDeadline", INT64_MAX);
    ctl_date(ctl_int(status, "now", 0), text);
    fprintf(out, "%s  %s\n", mount, text);
    fprintf(out, "passes     %lld, %.1f/s\n", (long long) ctl_int(status, "metrics.ttl.passes", 0),
        rate(top, "passes"));
    fprintf(out, "deleted    %lld, %.1f/s\n",
        (long long) ctl_int(status, "metrics.ttl.deletedDocuments", 0),
        rate(top, "deletedDocuments"));
    fprintf(out, "errors     %lld, %.1f/s\n", (long long) ctl_int(status, "metrics.ttl.errors", 0),
        rate(top, "errors"));
    ctl_duration((double) ctl_int(status, "lagMS", 0) / 1000, text, sizeof text);
    fprintf(out, "due        %lld, lag %s\n", (long long) ctl_int(status, "backlog", 0), text);
    ctl_bytes(ctl_int(status, "usedBytes", 0), text, sizeof text);
    fprintf(out, "documents  %lld, %s\n", (long long) ctl_int(status, "documents", 0), text);
    ctl_until(status, next_ms, until, sizeof until);
    fprintf(out, "next       %s\n", until);
    print_ops(top, out);
    ctl_print_indexes(out, status, indexes);
    free(mount);
}

/* Writes the page over the one before it, cut to the terminal's size. */
static void draw(const struct top *top)
{
    struct winsize size = {.ws_row = TOP_ROWS, .ws_col = TOP_COLUMNS};
    char *page = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&page, &len);
    if (!out)
        abort();
    (void) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    size_t rows = size.ws_row ? size.ws_row : TOP_ROWS;
    size_t columns = size.ws_col ? size.ws_col : TOP_COLUMNS;
    print_page(top, out, rows > TOP_HEAD_ROWS ? rows - TOP_HEAD_ROWS : 1);
    if (fclose(out) != 0)
        abort();
    fputs("\033[H", stdout);
    char *rest = page;
    const char *line;
    for (size_t row = 0; row + 1 < rows && (line = strsep(&rest, "\n")) && rest; row++) {
        size_t column = 0, bytes = 0;
        /* Bytes that go on with a character belong to its column. */
        while (line[bytes] && (column < columns || ((unsigned char) line[bytes] & 0xC0) == 0x80))
            column += ((unsigned char) line[bytes++] & 0xC0) != 0x80;
        printf("%.*s\033[K\n", (int) bytes, line);
    }
    fputs("\033[J", stdout);
    free(page);
}

/* Waits until the next page is due. Returns false when it is time to end. */
static bool wait_for_next(const struct top *top)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    int n = poll(&keys, top->screen ? 1 : 0, (int) (top->seconds * 1000));
    char key = 0;
    if (n > 0 && read(STDIN_FILENO, &key, 1) <= 0)
        return false;
    return !interrupted && key != 'q' && key != 'Q' && key != 3;
}

static void print_sample(const struct top *top)
{
    if (top->ctl->json) {
        print_json(top);
    } else if (top->screen) {
        draw(top);
    } else {
        print_page(top, stdout, TOP_BATCH_INDEXES);
        putchar('\n');
    }
}

/* Returns 0 or -errno. */
static int show(struct top *top)
{
    for (int64_t page = 0; page < top->pages && !interrupted; page++) {
        if (page > 0 && !wait_for_next(top))
            break;
        top->now = &top->samples[page % 2];
        int err = take_sample(top, top->now);
        if (!err)
            print_sample(top);
        if (top->before)
            sample_release(top->before);
        top->before = top->now;
        if (err || fflush(stdout) != 0)
            return err;
    }
    return 0;
}

/* The terminal gives single keys and shows no cursor, and is put back whatever ends it. */
static int show_on_screen(struct top *top)
{
    struct termios before, raw;
    struct sigaction action = {.sa_handler = on_signal};
    bool is_terminal = tcgetattr(STDIN_FILENO, &before) == 0;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    if (is_terminal) {
        raw = before;
        raw.c_lflag &= ~(tcflag_t) (ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs("\033[?1049h\033[?25l\033[2J", stdout);
    int err = show(top);
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    if (is_terminal)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    return err;
}

int ctl_top(struct ctl *ctl, int argc, char **argv)
{
    struct top top = {.ctl = ctl, .seconds = TOP_SECONDS, .pages = INT64_MAX};
    bool batch = false;
    int c;
    while ((c = ctl_getopt(ctl, argc, argv, "bn:d:", NULL)) != -1) {
        if (c == CTL_GETOPT_DONE)
            return ctl_getopt_status();
        if (c == 'n' && !ctl_number(optarg, 1, INT64_MAX, &top.pages))
            return ctl_usage(ctl, "-n %s is not a number above 0", optarg);
        if (c == 'd' && !ctl_seconds(optarg, &top.seconds))
            return ctl_usage(ctl, "-d %s is not a number above 0, up to 86400", optarg);
        batch = batch || c == 'b';
    }
    if (argc - optind > 1)
        return ctl_usage(ctl, "one MOUNT at most");
    int status = ctl_find_mount(ctl, optind < argc ? argv[optind] : NULL, &top.root);
    if (status)
        return status;
    top.screen = !batch && !ctl->json && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
    int err = top.screen ? show_on_screen(&top) : show(&top);
    if (err) {
        ctl_error("%s/.ttlfs/status.json: %s", top.root, strerror(-err));
        status = CTL_FAILED;
    }
    if (top.before)
        sample_release(top.before);
    return status;
}
