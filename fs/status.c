#include "fs/status.h"

#include "core/text.h"
#include "fs/figures.h"

#include <bson/bson.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#ifndef TTLFS_VERSION
#define TTLFS_VERSION "0.1"
#endif

static int to_text(bson_t *b, char **ret_text, size_t *ret_len)
{
    size_t len;
    char *json = bson_as_relaxed_extended_json(b, &len);
    bson_destroy(b);
    if (!json)
        return -ENOMEM;
    char *text = malloc(len + 2);
    if (text) {
        memcpy(text, json, len);
        memcpy(text + len, "\n", 2);
        *ret_text = text;
        *ret_len = len + 1;
    }
    bson_free(json);
    return text ? 0 : -ENOMEM;
}

static void member_duration_s(struct text *text, const char *key, int64_t ms)
{
    text_key(text, key);
    if (ms % 1000)
        text_printf(text, "%" PRId64 ".%03d", ms / 1000, (int) (ms % 1000));
    else
        text_printf(text, "%" PRId64, ms / 1000);
}

static void member_date_or_null(struct text *text, const char *key, int64_t ms)
{
    text_key(text, key);
    if (ms == DATE_NEVER_MS)
        text_put(text, "null");
    else
        text_date(text, ms);
}

static void write_metrics(struct text *text, const struct ttl_metrics *m)
{
    text_key(text, "metrics");
    text_open(text, '{');
    text_key(text, "ttl");
    text_open(text, '{');
    text_member_int(text, "passes", (int64_t) m->passes);
    text_member_int(text, "subPasses", (int64_t) m->sub_passes);
    text_member_int(text, "deletedDocuments", (int64_t) m->deleted_documents);
    text_member_int(text, "deletedKeys", (int64_t) m->deleted_keys);
    text_member_int(text, "invalidTTLIndexSkips", (int64_t) m->invalid_index_skips);
    text_member_int(text, "archivedDocuments", (int64_t) m->archived_documents);
    text_member_int(text, "errors", (int64_t) m->errors);
    text_member_int(text, "hiddenAccesses", (int64_t) m->hidden_accesses);
    text_member_int(text, "evictedDocuments", (int64_t) m->evicted_documents);
    text_member_int(text, "prunedCollections", (int64_t) m->pruned_collections);
    text_close(text, '}');
    text_close(text, '}');
}

static void write_collections(struct text *text, const struct figures *f)
{
    text_key(text, "collections");
    text_open(text, '{');
    for (size_t i = 0; i < f->n_collections; i++) {
        const struct figures_collection *c = &f->collections[i];
        text_key(text, c->path);
        text_open(text, '{');
        text_member_int(text, "documents", (int64_t) c->documents);
        text_member_int(text, "collections", (int64_t) c->collections);
        kinds_write(text, &c->kinds);
        text_close(text, '}');
    }
    text_close(text, '}');
    text_member_bool(text, "collectionsCut", f->collections_cut);
}

static void write_indexes(struct text *text, const struct figures *f)
{
    text_key(text, "indexes");
    text_open(text, '[');
    for (size_t i = 0; i < f->n_indexes; i++) {
        const struct figures_index *index = &f->indexes[i];
        text_open(text, '{');
        text_member_string(text, "collection", index->path);
        text_member_string(text, "name", index->name);
        if (index->key)
            text_member_string(text, "key", index->key);
        text_member_bool(text, "ttl", index->ttl);
        if (index->ttl)
            member_duration_s(text, "expireAfterSeconds", index->expire_after_ms);
        text_member_int(text, "documents", (int64_t) index->at.documents);
        text_member_int(text, "entries", (int64_t) index->at.entries);
        text_member_int(text, "backlog", (int64_t) index->at.backlog);
        text_member_int(text, "lagMS", index->at.lag_ms);
        member_date_or_null(text, "nextDeadline", index->at.next_ms);
        text_close(text, '}');
    }
    text_close(text, ']');
    text_member_bool(text, "indexesCut", f->indexes_cut);
}

static void write_warnings(struct text *text, const struct figures *f)
{
    text_key(text, "warnings");
    text_open(text, '[');
    for (size_t i = 0; i < f->n_warnings; i++) {
        const struct figures_warning *w = &f->warnings[i];
        text_open(text, '{');
        text_member_string(text, "collection", w->path);
        if (w->index)
            text_member_string(text, "index", w->index);
        text_member_string(text, "reason", w->reason);
        text_close(text, '}');
    }
    text_close(text, ']');
}

int status_text(struct fs *fs, char **ret_text, size_t *ret_len)
{
    struct figures f;
    struct text text = {0};
    int err = figures_take(fs, &f);
    if (err)
        return err;
    text_open(&text, '{');
    text_member_string(&text, "version", TTLFS_VERSION);
    text_member_int(&text, "pid", getpid());
    text_member_int(&text, "uptime", f.uptime_s);
    text_member_string(&text, "store", fs->options.store);
    text_member_date(&text, "now", f.now_ms);
    text_member_int(&text, "documents", (int64_t) f.documents);
    text_member_int(&text, "usedBytes", (int64_t) f.used_bytes);
    write_collections(&text, &f);
    write_metrics(&text, &f.metrics);
    member_date_or_null(&text, "nextDeadline", f.totals.next_ms);
    text_member_int(&text, "backlog", (int64_t) f.totals.backlog);
    text_member_int(&text, "lagMS", f.totals.lag_ms);
    write_indexes(&text, &f);
    write_warnings(&text, &f);
    text_member_bool(&text, "monitorEnabled", f.params.monitor_enabled);
    text_member_bool(&text, "passRunning", f.pass_running);
    text_member_bool(&text, "clockHeld", f.clock_held);
    text_close(&text, '}');
    text_put(&text, "\n");
    figures_release(&f);
    return text_take(&text, ret_text, ret_len);
}

int pass_text(struct fs *fs, char **ret_text, size_t *ret_len)
{
    bson_t b = BSON_INITIALIZER;
    tree_lock(fs->tree);
    struct monitor_pass pass = fs->monitor.pass;
    bool held = fs->monitor.clock_held;
    tree_unlock(fs->tree);
    BSON_APPEND_INT64(&b, "pass", (int64_t) pass.number);
    BSON_APPEND_BOOL(&b, "running", pass.running);
    BSON_APPEND_INT64(&b, "subPasses", (int64_t) pass.sub_passes);
    BSON_APPEND_INT64(&b, "visits", (int64_t) pass.visits);
    BSON_APPEND_INT64(&b, "deletedDocuments", (int64_t) pass.deleted_documents);
    BSON_APPEND_INT64(&b, "deletedKeys", (int64_t) pass.deleted_keys);
    BSON_APPEND_INT64(&b, "errors", (int64_t) pass.errors);
    BSON_APPEND_DATE_TIME(&b, "started", pass.started_ms);
    BSON_APPEND_DATE_TIME(&b, "ended", pass.ended_ms);
    BSON_APPEND_INT64(&b, "durationMS", pass.took_ms);
    BSON_APPEND_BOOL(&b, "stopped", pass.stopped);
    BSON_APPEND_BOOL(&b, "clockHeld", held);
    return to_text(&b, ret_text, ret_len);
}
