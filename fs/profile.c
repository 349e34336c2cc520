#include "fs/profile.h"

#include "core/index.h"
#include "fs/fs.h"
#include "fs/path_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void profile_init(struct profile *profile)
{
    memset(profile, 0, sizeof *profile);
    pthread_mutex_init(&profile->lock, NULL);
}

void profile_release(struct profile *profile)
{
    for (unsigned int i = 0; i < PROFILE_LINES; i++)
        free(profile->lines[i]);
    pthread_mutex_destroy(&profile->lock);
}

/* Ends a line and puts it into the ring. Without memory there is one line less. */
static void add(struct profile *profile, struct text *text)
{
    char *line;
    size_t len;
    text_close(text, '}');
    text_put(text, "\n");
    if (text_take(text, &line, &len) != 0)
        return;
    pthread_mutex_lock(&profile->lock);
    char *oldest = profile->lines[profile->next];
    profile->lines[profile->next] = line;
    profile->next = (profile->next + 1) % PROFILE_LINES;
    pthread_mutex_unlock(&profile->lock);
    free(oldest);
}

int profile_text(struct fs *fs, char **ret_text, size_t *ret_len)
{
    struct profile *profile = &fs->profile;
    struct text text = {0};
    pthread_mutex_lock(&profile->lock);
    for (unsigned int i = 0; i < PROFILE_LINES; i++) {
        const char *line = profile->lines[(profile->next + i) % PROFILE_LINES];
        if (line)
            text_put(&text, line);
    }
    pthread_mutex_unlock(&profile->lock);
    return text_take(&text, ret_text, ret_len);
}

static void begin(struct text *text, const char *type, int64_t now_ms)
{
    text_open(text, '{');
    text_member_date(text, "ts", now_ms);
    text_member_string(text, "type", type);
}

void profile_visit(struct profile *profile, const struct monitor_visit *visit)
{
    static const char *const limits[] = {
        [MONITOR_LIMIT_NONE] = "none",
        [MONITOR_LIMIT_DOCUMENTS] = "documents",
        [MONITOR_LIMIT_TIME] = "time",
        [MONITOR_STOPPED] = "stopped",
    };
    struct text text = {0};
    histogram_observe(&profile->visits, visit->took_ms);
    if (visit->deleted)
        histogram_observe(&profile->lags, visit->lag_ms);
    begin(&text, "visit", visit->ended_ms);
    text_member_string(&text, "stage", "BATCHED_DELETE");
    text_member_int(&text, "pass", (int64_t) visit->pass->number);
    text_member_int(&text, "subPass", (int64_t) visit->pass->sub_passes);
    path_text_member(&text, visit->index->owner);
    text_member_string(&text, "index", visit->index->name);
    text_member_int(&text, "documents", (int64_t) visit->deleted);
    text_member_int(&text, "examined", (int64_t) visit->examined);
    text_member_int(&text, "errors", (int64_t) visit->errors);
    text_member_int(&text, "durationMS", visit->took_ms);
    text_member_int(&text, "lagMS", visit->lag_ms);
    text_member_string(&text, "limit", limits[visit->limit]);
    add(profile, &text);
}

void profile_change_begin(
    struct profile_change *change, fuse_req_t req, const char *old, size_t old_len)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);
    *change = (struct profile_change){.uid = ctx->uid, .pid = ctx->pid};
    if (!old)
        return;
    change->old_len = old_len < PROFILE_VALUE_BYTES ? old_len : PROFILE_VALUE_BYTES;
    change->old = malloc(change->old_len + 1);
    if (change->old)
        memcpy(change->old, old, change->old_len);
}

void profile_change_release(struct profile_change *change)
{
    free(change->old);
    change->old = NULL;
}

static void member_value(struct text *text, const char *key, const char *value, size_t len)
{
    text_key(text, key);
    if (value)
        text_string(text, value, len < PROFILE_VALUE_BYTES ? len : PROFILE_VALUE_BYTES);
    else
        text_put(text, "null");
}

void profile_changed(struct fs *fs, struct profile_change *change, const struct collection *c,
    const char *what, const char *new, size_t new_len)
{
    struct text text = {0};
    begin(&text, "config", fs_now_ms(fs));
    text_member_int(&text, "uid", change->uid);
    text_member_int(&text, "pid", change->pid);
    text_member_string(&text, "what", what);
    if (c)
        path_text_member(&text, c);
    member_value(&text, "old", change->old, change->old_len);
    member_value(&text, "new", new, new_len);
    add(&fs->profile, &text);
    profile_change_release(change);
}

void profile_slow(
    struct fs *fs, const char *op, uint64_t ino, uint32_t uid, uint32_t pid, int64_t ms)
{
    struct text text = {0};
    begin(&text, "slow", fs_now_ms(fs));
    text_member_string(&text, "op", op);
    text_member_int(&text, "ino", (int64_t) ino);
    text_member_int(&text, "uid", uid);
    text_member_int(&text, "pid", pid);
    text_member_int(&text, "durationMS", ms);
    add(&fs->profile, &text);
}
