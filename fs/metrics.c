#include "fs/metrics.h"

#include "core/utf8.h"
#include "fs/figures.h"

#include <inttypes.h>
#include <string.h>

#ifndef TTLFS_VERSION
#define TTLFS_VERSION "0.1"
#endif

/*
 * What the format asks for in a label's value; what is not UTF-8 becomes U+FFFD. So does a carriage return:
 * it has no escape, and many a reader takes it for the end of the line.
 */
static void label(struct text *text, const char *name, const char *value)
{
    const uint8_t *at = (const uint8_t *) value, *end = at + strlen(value);
    text_printf(text, "%s=\"", name);
    while (at < end) {
        size_t n = utf8_sequence_bytes(at, end);
        if (*at == '\\' || *at == '"')
            text_printf(text, "\\%c", *at);
        else if (*at == '\n')
            text_put(text, "\\n");
        else if (n == 0 || *at == '\r')
            text_put(text, "\xEF\xBF\xBD");
        else
            text_add(text, at, n);
        at += n ? n : 1;
    }
    text_put(text, "\"");
}

static void head(struct text *text, const char *name, const char *type, const char *help)
{
    text_printf(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void counter(struct text *text, const char *name, const char *help, uint64_t value)
{
    head(text, name, "counter", help);
    text_printf(text, "%s %" PRIu64 "\n", name, value);
}

static void gauge(struct text *text, const char *name, const char *help, int64_t value)
{
    head(text, name, "gauge", help);
    text_printf(text, "%s %" PRId64 "\n", name, value);
}

/* Milliseconds as seconds. */
static void seconds(struct text *text, int64_t ms)
{
    text_printf(text, "%s%" PRId64 ".%03d", ms < 0 ? "-" : "", ms < 0 ? -(ms / 1000) : ms / 1000,
        (int) (ms < 0 ? -(ms % 1000) : ms % 1000));
}

static void gauge_seconds(struct text *text, const char *name, const char *help, int64_t ms)
{
    head(text, name, "gauge", help);
    text_printf(text, "%s ", name);
    seconds(text, ms);
    text_put(text, "\n");
}

static void write_counters(struct text *text, const struct ttl_metrics *m)
{
    counter(text, "ttlfs_ttl_passes_total", "Passes of the monitor.", m->passes);
    counter(text, "ttlfs_ttl_sub_passes_total", "Sub-passes of the monitor.", m->sub_passes);
    counter(text, "ttlfs_ttl_deleted_documents_total", "Expired documents that were deleted.",
        m->deleted_documents);
    counter(text, "ttlfs_ttl_deleted_keys_total", "Index entries that went with them.",
        m->deleted_keys);
    counter(text, "ttlfs_ttl_invalid_index_skips_total",
        "Visits of a TTL index that could not be used.", m->invalid_index_skips);
    counter(text, "ttlfs_ttl_archived_documents_total",
        "Expired documents that were archived before they were deleted.", m->archived_documents);
    counter(text, "ttlfs_ttl_pruned_collections_total",
        "Collections that were removed because expiry had emptied them.", m->pruned_collections);
    counter(
        text, "ttlfs_ttl_errors_total", "Expired documents that could not be deleted.", m->errors);
    counter(text, "ttlfs_capped_evicted_documents_total",
        "Documents that made room for newer ones in capped collections.", m->evicted_documents);
    counter(text, "ttlfs_ttl_hidden_accesses_total",
        "Calls that met an expired document before it was deleted.", m->hidden_accesses);
}

static void write_gauges(struct text *text, const struct figures *f)
{
    head(text, "ttlfs_build_info", "gauge", "The version that runs; always 1.");
    text_put(text, "ttlfs_build_info{");
    label(text, "version", TTLFS_VERSION);
    text_put(text, "} 1\n");
    gauge(text, "ttlfs_uptime_seconds", "Time since the mount.", f->uptime_s);
    gauge(text, "ttlfs_documents", "Documents of all collections.", (int64_t) f->documents);
    gauge(text, "ttlfs_collections", "Collections.", (int64_t) f->ncollections);
    gauge(text, "ttlfs_used_bytes", "What contents take.", (int64_t) f->used_bytes);
    gauge(text, "ttlfs_limit_bytes", "What contents may take, 0 for no limit.",
        (int64_t) f->max_bytes);
    gauge(text, "ttlfs_ttl_backlog", "Index entries that are due.", (int64_t) f->totals.backlog);
    gauge_seconds(text, "ttlfs_ttl_lag_seconds",
        "Now minus the oldest deadline that is due, 0 when nothing is.", f->totals.lag_ms);
    if (f->totals.next_ms != DATE_NEVER_MS)
        gauge_seconds(text, "ttlfs_ttl_next_deadline_timestamp_seconds",
            "When the next document falls due, in seconds since 1970.", f->totals.next_ms);
    gauge(text, "ttlfs_ttl_monitor_enabled", "Does the monitor delete by itself?",
        f->params.monitor_enabled);
    gauge(text, "ttlfs_ttl_pass_running", "Is a pass running?", f->pass_running);
    gauge(text, "ttlfs_ttl_clock_held", "Does the clock guard hold the monitor?", f->clock_held);
    gauge(text, "ttlfs_warnings", "Warnings in status.json.", (int64_t) f->n_warnings);
    gauge(text, "ttlfs_lists_cut", "Are there more collections or indexes than are listed here?",
        f->collections_cut || f->indexes_cut);
}

static void write_collections(struct text *text, const struct figures *f)
{
    static const char name[] = "ttlfs_collection_documents";
    head(text, name, "gauge", "Documents directly in a collection.");
    for (size_t i = 0; i < f->n_collections; i++) {
        text_printf(text, "%s{", name);
        label(text, "collection", f->collections[i].path);
        text_printf(text, "} %" PRIu64 "\n", f->collections[i].documents);
    }
}

enum figure { ENTRIES, BACKLOG, LAG };

static void write_index_figure(
    struct text *text, const struct figures *f, const char *name, enum figure figure)
{
    for (size_t i = 0; i < f->n_indexes; i++) {
        const struct figures_index *index = &f->indexes[i];
        text_printf(text, "%s{", name);
        label(text, "collection", index->path);
        text_put(text, ",");
        label(text, "index", index->name);
        text_put(text, ",");
        label(text, "key", index->key ? index->key : "");
        text_put(text, "} ");
        if (figure == LAG)
            seconds(text, index->at.lag_ms);
        else
            text_printf(
                text, "%" PRIu64, figure == ENTRIES ? index->at.entries : index->at.backlog);
        text_put(text, "\n");
    }
}

static void write_indexes(struct text *text, const struct figures *f)
{
    if (!f->n_indexes)
        return;
    head(text, "ttlfs_index_entries", "gauge", "Entries of an index.");
    write_index_figure(text, f, "ttlfs_index_entries", ENTRIES);
    head(text, "ttlfs_index_backlog", "gauge", "Entries of an index that are due.");
    write_index_figure(text, f, "ttlfs_index_backlog", BACKLOG);
    head(text, "ttlfs_index_lag_seconds", "gauge",
        "Now minus the oldest deadline of an index that is due, 0 when nothing is.");
    write_index_figure(text, f, "ttlfs_index_lag_seconds", LAG);
}

int metrics_text(struct fs *fs, char **ret_text, size_t *ret_len)
{
    struct figures f;
    struct text text = {0};
    int err = figures_take(fs, &f);
    if (err)
        return err;
    write_gauges(&text, &f);
    write_counters(&text, &f.metrics);
    histogram_write(&f.visits, &text, "ttlfs_ttl_visit_duration_seconds",
        "How long visits of TTL indexes took.");
    histogram_write(&f.lags, &text, "ttlfs_ttl_visit_lag_seconds",
        "How late the oldest document was when a visit that deleted began.");
    write_collections(&text, &f);
    write_indexes(&text, &f);
    figures_release(&f);
    return text_take(&text, ret_text, ret_len);
}
