#include "fs/currentop.h"

#include "core/index.h"
#include "fs/path_text.h"
#include "ttl/progress.h"
#include "ttl/rules.h"

#include <string.h>

static void since(struct text *text, int64_t started_ms, int64_t now_ms)
{
    text_member_date(text, "since", started_ms);
    text_member_int(text, "runningMS", now_ms > started_ms ? now_ms - started_ms : 0);
}

static void write_pass(struct text *text, const struct monitor_pass *pass, int64_t now_ms)
{
    const struct index *index = pass->visiting;
    text_open(text, '{');
    text_member_string(text, "op", "ttlPass");
    path_text_member(text, index ? index->owner : NULL);
    text_key(text, "index");
    if (index)
        text_string(text, index->name, strlen(index->name));
    else
        text_put(text, "null");
    since(text, pass->started_ms, now_ms);
    text_member_int(text, "pass", (int64_t) pass->number);
    text_member_int(text, "subPass", (int64_t) pass->sub_passes);
    text_member_int(
        text, "documents", index ? (int64_t) (pass->deleted_documents - pass->visit_deleted) : 0);
    text_member_int(text, "deletedDocuments", (int64_t) pass->deleted_documents);
    text_member_int(text, "errors", (int64_t) pass->errors);
    text_close(text, '}');
}

static void write_progress(struct text *text, const struct progress *p, int64_t now_ms)
{
    const size_t prefix = sizeof INDEX_XATTR_PREFIX - 1;
    const char *name = p->what;
    if (name && strncmp(name, INDEX_XATTR_PREFIX, prefix) == 0)
        name += prefix;
    text_open(text, '{');
    text_member_string(text, "op", p->op);
    path_text_member(text, p->at);
    text_key(text, "index");
    if (name)
        text_string(text, name, strlen(name));
    else
        text_put(text, "null");
    since(text, p->started_ms == INT64_MIN ? now_ms : p->started_ms, now_ms);
    text_member_int(text, "done", (int64_t) p->done);
    text_member_int(text, "total", (int64_t) (p->total > p->done ? p->total : p->done));
    text_close(text, '}');
}

int currentop_text(struct fs *fs, char **ret_text, size_t *ret_len)
{
    struct text text = {0};
    text_open(&text, '{');
    text_key(&text, "inprog");
    text_open(&text, '[');
    tree_lock(fs->tree);
    int64_t now_ms = fs_now_ms(fs);
    if (fs->monitor.pass.running)
        write_pass(&text, &fs->monitor.pass, now_ms);
    for (const struct progress *p = fs->ttl.progress; p; p = p->next)
        write_progress(&text, p, now_ms);
    tree_unlock(fs->tree);
    text_close(&text, ']');
    text_close(&text, '}');
    text_put(&text, "\n");
    return text_take(&text, ret_text, ret_len);
}
