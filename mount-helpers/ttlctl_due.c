/*
 * ttlctl due, histogram: what expires now, and how many expire when.
 */
#include "mount-helpers/ttlctl.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#define HISTOGRAM_COLUMNS 80
#define HISTOGRAM_BAR_MIN 10

/* COLLECTION and NAME of a line as a path from the mount's root. */
static char *path_of(const bson_t *line)
{
    const char *collection = ctl_string(line, "collection"), *name = ctl_string(line, "name");
    if (!name)
        name = "?";
    if (!collection || strcmp(collection, "/") == 0)
        return ctl_keep(strdup(name));
    return ctl_keep(ctl_join(collection[0] == '/' ? collection + 1 : collection, name));
}

/* One line of due.jsonl for people. Returns false when it says that more are left out. */
static bool add_due(struct ctl_table *table, const bson_t *line)
{
    char text[40];
    const char *reason = ctl_string(line, "reason");
    if (ctl_int(line, "cut", 0))
        return false;
    ctl_date(ctl_int(line, "deadline", INT64_MAX), text);
    ctl_table_add(table, text);
    ctl_table_add(table, reason ? reason : "?");
    ctl_table_add(table, path_of(line));
    return true;
}

static int print_due(const struct ctl *ctl, char *text, int64_t max_lines)
{
    static const char *const heads[] = {"DEADLINE", "REASON", "NAME"};
    struct ctl_table table = {.columns = 3, .heads = heads};
    bool cut = false;
    int64_t n = 0;
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        bson_t doc;
        if (!line[0])
            continue;
        if (n++ == max_lines) {
            cut = true;
            break;
        }
        if (ctl->json)
            printf("%s\n", line);
        else if (ctl_parse_json(line, strlen(line), &doc))
            cut = !add_due(&table, &doc) || cut;
        if (!ctl->json)
            bson_destroy(&doc);
    }
    bool any = table.n > 0;
    if (!ctl->json)
        ctl_table_print(&table, stdout, any && !ctl->quiet, SIZE_MAX);
    if (!ctl->json && !ctl->quiet && (cut || !any))
        fputs(cut ? "and more\n" : "nothing is due\n", stdout);
    return CTL_OK;
}

int ctl_due(struct ctl *ctl, int argc, char **argv)
{
    int64_t max_lines = INT64_MAX;
    const char *root;
    int c;
    while ((c = ctl_getopt(ctl, argc, argv, "n:", NULL)) != -1) {
        if (c == CTL_GETOPT_DONE)
            return ctl_getopt_status();
        if (!ctl_number(optarg, 1, INT64_MAX, &max_lines))
            return ctl_usage(ctl, "-n %s is not a number above 0", optarg);
    }
    if (argc - optind > 1)
        return ctl_usage(ctl, "one MOUNT at most");
    int status = ctl_find_mount(ctl, optind < argc ? argv[optind] : NULL, &root);
    if (status)
        return status;
    char *path = ctl_join(root, ".ttlfs/due.jsonl"), *text;
    size_t len;
    int err = ctl_read_file(path, &text, &len);
    if (err) {
        ctl_error("%s: %s", path, strerror(-err));
        status = CTL_FAILED;
    } else {
        status = print_due(ctl, text, max_lines);
        free(text);
    }
    free(path);
    return status;
}

/* The bars. A label stands for what expires later than the one above it. */
struct bars {
    bson_t within;
    int64_t most;
    size_t bar_columns, number_columns;
    const char *mark;
};

static void measure(struct bars *bars)
{
    bson_iter_t iter;
    bars->most = 0;
    if (!bson_iter_init(&iter, &bars->within))
        return;
    while (bson_iter_next(&iter)) {
        int64_t count = bson_iter_as_int64(&iter);
        if (count > bars->most)
            bars->most = count;
    }
    char text[32];
    bars->number_columns = (size_t) snprintf(text, sizeof text, "%lld", (long long) bars->most);
    size_t columns = ctl_columns(stdout, HISTOGRAM_COLUMNS);
    /* A label takes 7, a blank stands on either side of the bar. */
    size_t others = 7 + 2 + bars->number_columns;
    bars->bar_columns = columns > others + HISTOGRAM_BAR_MIN ? columns - others : HISTOGRAM_BAR_MIN;
    bars->mark = strcmp(nl_langinfo(CODESET), "UTF-8") == 0 ? "\xE2\x96\x88" : "#";
}

static void draw(const struct bars *bars)
{
    bson_iter_t iter;
    if (!bson_iter_init(&iter, &bars->within))
        return;
    while (bson_iter_next(&iter)) {
        const char *label = bson_iter_key(&iter);
        int64_t count = bson_iter_as_int64(&iter);
        double share = bars->most > 0 ? (double) count / (double) bars->most : 0;
        size_t filled = (size_t) (share * (double) bars->bar_columns);
        if (count > 0 && filled == 0)
            filled = 1;
        bool timed = strcmp(label, "later") != 0 && strcmp(label, "never") != 0;
        printf("%s%-*s ", timed ? "<= " : "", timed ? 4 : 7, label);
        for (size_t i = 0; i < bars->bar_columns; i++)
            fputs(i < filled ? bars->mark : " ", stdout);
        printf(" %*lld\n", (int) bars->number_columns, (long long) count);
    }
}

/* The part of distribution.json that is about one collection, by its path from the root. */
static bool part_of_collection(const bson_t *all, const char *path, bson_t *ret_part)
{
    bson_t collections;
    bson_iter_t iter;
    /* A path may hold dots, so it is not looked for as a dotted one. */
    return ctl_part(all, "collections", &collections) &&
           bson_iter_init_find(&iter, &collections, path) && ctl_part_at(&iter, ret_part);
}

static const struct option histogram_options[] = {
    {"collection", required_argument, NULL, 'c'}, {NULL, 0, NULL, 0}};

/* Prints the part that was asked for. Returns a status. */
static int print_histogram(const struct ctl *ctl, const bson_t *all, const char *collection)
{
    struct bars bars;
    bson_t part;
    if (collection && !part_of_collection(all, collection, &part)) {
        ctl_error(
            "%s: no such collection, or not among those that distribution.json lists", collection);
        return CTL_FAILED;
    }
    const bson_t *shown = collection ? &part : all;
    if (ctl->json) {
        ctl_json_document(stdout, shown);
        putchar('\n');
        return CTL_OK;
    }
    if (!ctl_part(shown, "within", &bars.within)) {
        ctl_error("distribution.json: nothing is said of deadlines");
        return CTL_FAILED;
    }
    measure(&bars);
    draw(&bars);
    if (!ctl->quiet)
        printf("%lld documents, %lld due\n", (long long) ctl_int(shown, "documents", 0),
            (long long) ctl_int(shown, "due", 0));
    return CTL_OK;
}

int ctl_histogram(struct ctl *ctl, int argc, char **argv)
{
    const char *root, *collection = NULL;
    bson_t all;
    int c;
    setlocale(LC_CTYPE, "");
    while ((c = ctl_getopt(ctl, argc, argv, "", histogram_options)) != -1) {
        if (c == CTL_GETOPT_DONE)
            return ctl_getopt_status();
        collection = optarg;
    }
    if (argc - optind > 1)
        return ctl_usage(ctl, "one MOUNT at most");
    int status = ctl_find_mount(ctl, optind < argc ? argv[optind] : NULL, &root);
    if (status)
        return status;
    char *joined = collection && collection[0] != '/' ? ctl_join("/", collection) : NULL;
    status = ctl_read_json(root, "distribution.json", &all);
    if (status == CTL_OK)
        status = print_histogram(ctl, &all, joined ? joined : collection);
    bson_destroy(&all);
    free(joined);
    return status;
}
