/*
 * ttlctl status: how a mount stands, from status.json.
 */
#include "mount-helpers/ttlctl.h"

#include <stdlib.h>
#include <string.h>

/* So many rows are shown to people; --json has all that the mount tells. */
#define STATUS_ROWS 100

/* A bson_t may neither be copied nor stand in memory that malloc aligned. */
struct row {
    const uint8_t *data;
    uint32_t len;
    int64_t backlog;
    int64_t next_ms; /* INT64_MAX: none */
};

static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->backlog != y->backlog)
        return x->backlog > y->backlog ? -1 : 1;
    return (x->next_ms > y->next_ms) - (x->next_ms < y->next_ms);
}

void ctl_until(const bson_t *status, int64_t deadline_ms, char *ret_text, size_t size)
{
    int64_t now_ms = ctl_int(status, "now", 0);
    if (deadline_ms == INT64_MAX)
        (void) snprintf(ret_text, size, "none");
    else if (deadline_ms <= now_ms)
        (void) snprintf(ret_text, size, "due");
    else
        ctl_duration((double) (deadline_ms - now_ms) / 1000, ret_text, size);
}

static void add_row(struct ctl_table *table, const bson_t *status, const struct row *row)
{
    bson_t index;
    char text[32];
    if (!bson_init_static(&index, row->data, row->len))
        return;
    const char *collection = ctl_string(&index, "collection");
    const char *name = ctl_string(&index, "name");
    int64_t seconds = ctl_int(&index, "expireAfterSeconds", INT64_MIN);
    ctl_table_add(table, collection ? collection : "?");
    ctl_table_add(table, name ? name : "?");
    if (seconds == INT64_MIN)
        ctl_table_add(table, "-");
    else
        ctl_table_add_number(table, seconds);
    ctl_table_add_number(table, ctl_int(&index, "documents", 0));
    ctl_table_add_number(table, row->backlog);
    ctl_duration((double) ctl_int(&index, "lagMS", 0) / 1000, text, sizeof text);
    ctl_table_add(table, text);
    ctl_until(status, row->next_ms, text, sizeof text);
    ctl_table_add(table, text);
}

void ctl_print_indexes(FILE *out, const bson_t *status, size_t max_rows)
{
    static const char *const heads[] = {
        "COLLECTION", "INDEX", "E", "DOCUMENTS", "DUE", "LAG", "NEXT IN"};
    struct ctl_table table = {.columns = 7, .heads = heads, .right = 0x7C};
    struct row *rows = NULL;
    size_t n = 0;
    bson_t list, index;
    bson_iter_t iter;
    if (!ctl_part(status, "indexes", &list))
        return;
    rows = calloc(bson_count_keys(&list) + 1, sizeof *rows);
    if (!rows || !bson_iter_init(&iter, &list))
        abort();
    while (bson_iter_next(&iter)) {
        if (!ctl_part_at(&iter, &index) || !ctl_int(&index, "ttl", 1))
            continue;
        rows[n].data = bson_get_data(&index);
        rows[n].len = index.len;
        rows[n].backlog = ctl_int(&index, "backlog", 0);
        rows[n++].next_ms = ctl_int(&index, "nextDeadline", INT64_MAX);
    }
    if (n > 0)
        qsort(rows, n, sizeof *rows, compare_rows);
    for (size_t i = 0; i < n && i < max_rows; i++)
        add_row(&table, status, &rows[i]);
    if (n > 0)
        ctl_table_print(&table, out, true, max_rows);
    free(rows);
}

static void print_warnings(const bson_t *status)
{
    bson_t list, warning;
    bson_iter_t iter;
    if (!ctl_part(status, "warnings", &list) || !bson_iter_init(&iter, &list))
        return;
    while (bson_iter_next(&iter)) {
        if (!ctl_part_at(&iter, &warning))
            continue;
        const char *collection = ctl_string(&warning, "collection");
        const char *index = ctl_string(&warning, "index");
        const char *reason = ctl_string(&warning, "reason");
        char *line;
        if (asprintf(&line, "warning: %s%s%s: %s", collection ? collection : "",
                index ? ", index " : "", index ? index : "", reason ? reason : "") < 0)
            abort();
        char *escaped = ctl_escape(line);
        printf("%s\n", escaped);
        free(escaped);
        free(line);
    }
}

static const char *monitor_word(const bson_t *status)
{
    if (ctl_int(status, "clockHeld", 0))
        return "holds still: the clock has leapt and is not confirmed";
    if (ctl_int(status, "passRunning", 0))
        return "in a pass";
    return ctl_int(status, "monitorEnabled", 1) ? "waits" : "off";
}

static void print_status(const char *root, const bson_t *status)
{
    char text[40], until[32];
    bson_t collections;
    const char *store = ctl_string(status, "store"), *version = ctl_string(status, "version");
    char *mount = ctl_escape(root), *place = ctl_escape(store ? store : "?");
    ctl_duration((double) ctl_int(status, "uptime", 0), text, sizeof text);
    printf("mount      %s\n", mount);
    printf("store      %s\n", place);
    printf("version    %s, pid %lld, up %s\n", version ? version : "?",
        (long long) ctl_int(status, "pid", 0), text);
    ctl_bytes(ctl_int(status, "usedBytes", 0), text, sizeof text);
    printf("documents  %lld, %s", (long long) ctl_int(status, "documents", 0), text);
    if (ctl_part(status, "collections", &collections))
        printf(", in %u%s collections", bson_count_keys(&collections),
            ctl_int(status, "collectionsCut", 0) ? " and more" : "");
    printf("\nmonitor    %s\n", monitor_word(status));
    ctl_duration((double) ctl_int(status, "lagMS", 0) / 1000, text, sizeof text);
    printf("due        %lld, lag %s\n", (long long) ctl_int(status, "backlog", 0), text);
    int64_t next_ms = ctl_int(status, "nextDeadline", INT64_MAX);
    ctl_until(status, next_ms, until, sizeof until);
    ctl_date(next_ms, text);
    printf("next       %s%s%s%s\n", until, next_ms == INT64_MAX ? "" : " (",
        next_ms == INT64_MAX ? "" : text, next_ms == INT64_MAX ? "" : ")");
    printf("so far     %lld passes, %lld deleted, %lld archived, %lld errors\n",
        (long long) ctl_int(status, "metrics.ttl.passes", 0),
        (long long) ctl_int(status, "metrics.ttl.deletedDocuments", 0),
        (long long) ctl_int(status, "metrics.ttl.archivedDocuments", 0),
        (long long) ctl_int(status, "metrics.ttl.errors", 0));
    free(place);
    free(mount);
}

int ctl_status(struct ctl *ctl, int argc, char **argv)
{
    const char *root;
    bson_t status;
    if (ctl_getopt(ctl, argc, argv, "", NULL) == CTL_GETOPT_DONE)
        return ctl_getopt_status();
    if (argc - optind > 1)
        return ctl_usage(ctl, "one MOUNT at most");
    int result = ctl_find_mount(ctl, optind < argc ? argv[optind] : NULL, &root);
    if (result)
        return result;
    result = ctl_read_json(root, "status.json", &status);
    if (result == CTL_OK && ctl->json) {
        ctl_json_document(stdout, &status);
        putchar('\n');
    } else if (result == CTL_OK) {
        print_status(root, &status);
        print_warnings(&status);
        ctl_print_indexes(stdout, &status, STATUS_ROWS);
    }
    bson_destroy(&status);
    return result;
}
