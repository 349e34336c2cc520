#include "fs/status.h"

#include "fs/kinds.h"

#include "core/dates.h"
#include "core/index.h"

#include <bson/bson.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifndef TTLFS_VERSION
#define TTLFS_VERSION "0.1"
#endif

/* At most this many collections are listed one by one. */
#define STATUS_COLLECTIONS 1000
#define STATUS_PATH_BYTES 4096

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

/* Bytes that are no UTF-8 cannot stand in JSON. */
static void make_utf8(char *text)
{
    for (char *at = text; *at;) {
        size_t good = strlen(at);
        if (bson_utf8_validate(at, good, false))
            return;
        /* Find the longest valid start, and replace the byte behind it. */
        size_t low = 0;
        while (low < good) {
            size_t step = 1;
            while (step <= 4 && low + step <= good && !bson_utf8_validate(at + low, step, false))
                step++;
            if (step > 4 || low + step > good)
                break;
            low += step;
        }
        at[low] = '?';
        at += low + 1;
    }
}

/* The path of a collection from the root; cut at the front when it is too long. */
static const char *path_of(const struct collection *c, char buf[STATUS_PATH_BYTES])
{
    size_t at = STATUS_PATH_BYTES - 1;
    buf[at] = '\0';
    if (!c->doc.links)
        return "/";
    for (const struct dentry *d = c->doc.links; d; d = d->parent->doc.links) {
        if ((size_t) d->name_len + 1 > at)
            break;
        at -= d->name_len;
        memcpy(buf + at, d->name, d->name_len);
        buf[--at] = '/';
    }
    make_utf8(buf + at);
    return buf + at;
}

static void append_metrics(bson_t *b, const struct ttl_metrics *m)
{
    bson_t metrics, ttl;
    BSON_APPEND_DOCUMENT_BEGIN(b, "metrics", &metrics);
    BSON_APPEND_DOCUMENT_BEGIN(&metrics, "ttl", &ttl);
    BSON_APPEND_INT64(&ttl, "passes", (int64_t) m->passes);
    BSON_APPEND_INT64(&ttl, "subPasses", (int64_t) m->sub_passes);
    BSON_APPEND_INT64(&ttl, "deletedDocuments", (int64_t) m->deleted_documents);
    BSON_APPEND_INT64(&ttl, "deletedKeys", (int64_t) m->deleted_keys);
    BSON_APPEND_INT64(&ttl, "invalidTTLIndexSkips", (int64_t) m->invalid_index_skips);
    BSON_APPEND_INT64(&ttl, "archivedDocuments", (int64_t) m->archived_documents);
    BSON_APPEND_INT64(&ttl, "errors", (int64_t) m->errors);
    BSON_APPEND_INT64(&ttl, "hiddenAccesses", (int64_t) m->hidden_accesses);
    BSON_APPEND_INT64(&ttl, "evictedDocuments", (int64_t) m->evicted_documents);
    bson_append_document_end(&metrics, &ttl);
    bson_append_document_end(b, &metrics);
}

static void append_collections(bson_t *b, const struct tree *tree)
{
    bson_t collections;
    char path[STATUS_PATH_BYTES];
    unsigned int n = 0;
    BSON_APPEND_DOCUMENT_BEGIN(b, "collections", &collections);
    const struct collection *c = tree->collections;
    for (; c && n < STATUS_COLLECTIONS; c = c->all_next) {
        bson_t one;
        if (c->doc.nlink == 0)
            continue;
        const char *key = path_of(c, path);
        bson_append_document_begin(&collections, key, -1, &one);
        BSON_APPEND_INT64(&one, "documents", (int64_t) (c->names.count - (c->doc.nlink - 2)));
        BSON_APPEND_INT64(&one, "collections", (int64_t) c->doc.nlink - 2);
        kinds_append_status(c, &one);
        bson_append_document_end(&collections, &one);
        n++;
    }
    bson_append_document_end(b, &collections);
    BSON_APPEND_BOOL(b, "collectionsCut", c != NULL);
}

/* The next deadline, and how many entries are due. */
static void append_deadlines(bson_t *b, const struct ttl *ttl, int64_t now_ms)
{
    struct btree_entry at;
    uint64_t backlog = 0;
    int64_t next_ms = DATE_NEVER_MS;
    bool any = btree_first(&ttl->schedule, &at);
    for (; any; any = btree_next(&ttl->schedule, at, &at)) {
        const struct index *index = at.item;
        if (next_ms == DATE_NEVER_MS)
            next_ms = at.key;
        if (at.key > now_ms)
            break;
        backlog += btree_count_upto(
            &index->entries, date_subtract_saturated(now_ms, index->expire_after_ms));
    }
    if (next_ms == DATE_NEVER_MS)
        BSON_APPEND_NULL(b, "nextDeadline");
    else
        BSON_APPEND_DATE_TIME(b, "nextDeadline", next_ms);
    BSON_APPEND_INT64(b, "backlog", (int64_t) backlog);
}

int status_text(struct fs *fs, char **ret_text, size_t *ret_len)
{
    bson_t b = BSON_INITIALIZER;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    BSON_APPEND_UTF8(&b, "version", TTLFS_VERSION);
    BSON_APPEND_INT64(&b, "pid", getpid());
    BSON_APPEND_INT64(&b, "uptime", now.tv_sec - fs->started.tv_sec);
    BSON_APPEND_UTF8(&b, "store", fs->options.store);
    tree_lock(fs->tree);
    int64_t now_ms = fs_now_ms(fs);
    BSON_APPEND_DATE_TIME(&b, "now", now_ms);
    BSON_APPEND_INT64(&b, "documents", (int64_t) (fs->tree->ndocuments - fs->tree->ncollections));
    BSON_APPEND_INT64(
        &b, "usedBytes", atomic_load(&fs->tree->budget.used_pages) * (int64_t) CONTENT_PAGE_BYTES);
    append_collections(&b, fs->tree);
    append_metrics(&b, &fs->ttl.metrics);
    append_deadlines(&b, &fs->ttl, now_ms);
    BSON_APPEND_BOOL(&b, "monitorEnabled", fs->ttl.params.monitor_enabled);
    BSON_APPEND_BOOL(&b, "passRunning", fs->monitor.pass.running);
    BSON_APPEND_BOOL(&b, "clockHeld", fs->monitor.clock_held);
    tree_unlock(fs->tree);
    return to_text(&b, ret_text, ret_len);
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
