/*
 * ttlctl index list, explain: which indexes are in force, and which of them serves a query.
 */
#include "mount-helpers/ttlctl.h"
#include "mount-helpers/ttlctl_index.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#define INDEX_PREFIX "user.ttl.index."
#define NAME_BYTES_MAX 255

struct found {
    const char *name;
    const char *from; /* where it is set */
    char *text;       /* its specification, JSON, or `off` */
};

struct indexes {
    struct found *at;
    size_t n, size;
};

static bool have(const struct indexes *indexes, const char *name)
{
    for (size_t i = 0; i < indexes->n; i++)
        if (strcmp(indexes->at[i].name, name) == 0)
            return true;
    return false;
}

static void add(struct indexes *indexes, const char *name, const char *from)
{
    char *text;
    if (have(indexes, name) || ctl_getxattr(from, name, &text) != 0)
        return;
    if (indexes->n == indexes->size) {
        indexes->size = indexes->size ? 2 * indexes->size : 16;
        indexes->at = realloc(indexes->at, indexes->size * sizeof *indexes->at);
        if (!indexes->at)
            abort();
    }
    indexes->at[indexes->n++] =
        (struct found){ctl_keep(strdup(name)), ctl_keep(strdup(from)), ctl_keep(text)};
}

/* What is set in one directory. Returns 0 or -errno. */
static int add_set_in(struct indexes *indexes, const char *path)
{
    char *names = malloc(XATTR_LIST_MAX);
    if (!names)
        abort();
    ssize_t len = listxattr(path, names, XATTR_LIST_MAX);
    int err = len < 0 ? -errno : 0;
    for (const char *name = names; len > 0 && name < names + len; name += strlen(name) + 1)
        if (strncmp(name, INDEX_PREFIX, strlen(INDEX_PREFIX)) == 0)
            add(indexes, name, path);
    free(names);
    return err;
}

/* From the directory itself up to the mount's root; the nearest definition wins. */
static int collect(struct indexes *indexes, const char *path)
{
    const char *root = ctl_mount_of(path);
    char *at = realpath(path, NULL);
    int err = at ? add_set_in(indexes, at) : -errno;
    while (!err && root && at && strcmp(at, root) != 0) {
        char *slash = strrchr(at, '/');
        if (!slash || slash == at)
            break;
        *slash = '\0';
        (void) add_set_in(indexes, at);
    }
    free(at);
    return err;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct found *) a)->name, ((const struct found *) b)->name);
}

static void print_json(const struct indexes *indexes)
{
    bool any = false;
    putchar('[');
    for (size_t i = 0; i < indexes->n; i++) {
        const struct found *found = &indexes->at[i];
        if (found->text[0] != '{')
            continue;
        fputs(any ? ",\n{\"index\":" : "\n{\"index\":", stdout);
        ctl_json_string(stdout, found->name + strlen(INDEX_PREFIX));
        putchar(',');
        ctl_json_path(stdout, "from", found->from);
        printf(",\"spec\":%s}", found->text);
        any = true;
    }
    fputs(any ? "\n]\n" : "]\n", stdout);
}

/* NAME, KEY, E, the rest of the specification, and where it is set. */
static void add_line(struct ctl_table *table, const struct found *found, const char *here)
{
    bson_t spec, rest;
    ctl_table_add(table, found->name + strlen(INDEX_PREFIX));
    if (!ctl_parse_json(found->text, strlen(found->text), &spec)) {
        /* A definition that ends an inherited one, or a form that is new to this program. */
        for (int i = 0; i < 3; i++)
            ctl_table_add(table, i ? "-" : found->text);
    } else {
        const char *key = ctl_string(&spec, "key");
        int64_t seconds = ctl_int(&spec, "expireAfterSeconds", INT64_MIN);
        ctl_table_add(table, key ? key : "?");
        if (seconds == INT64_MIN)
            ctl_table_add(table, "-");
        else
            ctl_table_add_number(table, seconds);
        bson_init(&rest);
        bson_copy_to_excluding_noinit(&spec, &rest, "key", "expireAfterSeconds", NULL);
        char *json = bson_as_relaxed_extended_json(&rest, NULL);
        ctl_table_add(table, bson_empty(&rest) || !json ? "-" : json);
        bson_free(json);
        bson_destroy(&rest);
    }
    bson_destroy(&spec);
    ctl_table_add(table, strcmp(found->from, here) == 0 ? "here" : found->from);
}

int ctl_index_list(struct ctl *ctl, int argc, char **argv)
{
    static const char *const heads[] = {"NAME", "KEY", "E", "MORE", "SET"};
    struct ctl_table table = {.columns = 5, .heads = heads, .right = 1U << 2};
    struct indexes indexes = {0};
    if (ctl_getopt(ctl, argc, argv, "", NULL) == CTL_GETOPT_DONE)
        return ctl_getopt_status();
    if (argc - optind > 1)
        return ctl_usage(ctl, "one DIR at most");
    const char *path = optind < argc ? argv[optind] : ".";
    int status = ctl_check_mount(path);
    if (status)
        return status;
    int err = collect(&indexes, path);
    if (err)
        return ctl_complain(path, NULL, -err);
    if (indexes.n > 0)
        qsort(indexes.at, indexes.n, sizeof *indexes.at, compare);
    char *here = realpath(path, NULL);
    if (ctl->json) {
        print_json(&indexes);
    } else {
        for (size_t i = 0; i < indexes.n; i++)
            add_line(&table, &indexes.at[i], here ? here : path);
        ctl_table_print(&table, stdout, table.n > 0 && !ctl->quiet, SIZE_MAX);
    }
    free(here);
    free(indexes.at);
    return CTL_OK;
}

/* Every figure on a line. What is MongoDB's explain() again, in its own shape, is for programs. */
static void print_members(const bson_t *doc)
{
    bson_iter_t iter;
    if (!bson_iter_init(&iter, doc))
        return;
    while (bson_iter_next(&iter)) {
        const char *name = bson_iter_key(&iter);
        bson_t one = BSON_INITIALIZER;
        if (strcmp(name, "queryPlanner") == 0 || strcmp(name, "executionStats") == 0)
            continue;
        bson_append_iter(&one, "v", 1, &iter);
        char *json = bson_as_relaxed_extended_json(&one, NULL);
        /* { "v" : VALUE } */
        if (BSON_ITER_HOLDS_UTF8(&iter))
            printf("%-13s %s\n", name, bson_iter_utf8(&iter, NULL));
        else
            printf("%-13s %.*s\n", name, (int) strlen(json) - 10, json + 8);
        bson_free(json);
        bson_destroy(&one);
    }
}

/* Reads .explain.json. Returns a status. */
static int explain(const struct ctl *ctl, const char *dir, char **filters, int n)
{
    char *path = ctl_join(dir, ".find"), *text;
    bson_t doc;
    size_t len;
    for (int i = 0; i <= n; i++) {
        char *longer = ctl_join(path, i < n ? filters[i] : ".explain.json");
        free(path);
        path = longer;
    }
    int err = ctl_read_file(path, &text, &len), status = CTL_OK;
    free(path);
    if (err)
        return ctl_complain(dir, n == 1 ? filters[0] : "explain", -err);
    if (!ctl_parse_json(text, len, &doc)) {
        ctl_error("%s: its .explain.json is no JSON object", dir);
        status = CTL_FAILED;
    } else if (ctl->json) {
        ctl_json_document(stdout, &doc);
        putchar('\n');
    } else {
        print_members(&doc);
    }
    bson_destroy(&doc);
    free(text);
    return status;
}

int ctl_index_explain(struct ctl *ctl, int argc, char **argv)
{
    if (ctl_getopt(ctl, argc, argv, "", NULL) == CTL_GETOPT_DONE)
        return ctl_getopt_status();
    if (argc - optind < 2)
        return ctl_usage(ctl, "DIR and FILTER are needed");
    const char *dir = argv[optind++];
    for (int i = optind; i < argc; i++) {
        if (strchr(argv[i], '/'))
            return ctl_usage(ctl, "a filter cannot hold a slash: write it as \\u002f");
        if (strlen(argv[i]) > NAME_BYTES_MAX)
            return ctl_usage(ctl, "a filter has at most 255 bytes: split it, several are ANDed");
    }
    int status = ctl_check_mount(dir);
    return status ? status : explain(ctl, dir, argv + optind, argc - optind);
}
