/*
 * due.c - `.ttlfs/due.jsonl`: what the next pass would delete now.
 */
#include "fs/distribution.h"

#include "fs/path_text.h"
#include "ttl/limbo.h"
#include "ttl/survey.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A line in the text, to be put in order. */
struct line {
    int64_t at_ms;
    size_t from, len;
};

struct gathering {
    struct line *lines;
    size_t n, cap;
    struct text text;
    bool cut, failed;
};

/* Twice what will be shown is gathered, for index comes after index and each is in order of its own. */
#define GATHERED_MAX ((size_t) 2 * DUE_MAX_LINES)

static bool room_for_one(struct gathering *g)
{
    if (g->n < g->cap)
        return true;
    size_t cap = g->cap ? g->cap * 2 : 256;
    struct line *lines = realloc(g->lines, cap * sizeof *lines);
    if (!lines)
        return false;
    g->lines = lines;
    g->cap = cap;
    return true;
}

/* Why a name is due; one in the limbo has been since before it came there. */
static void write_reason(
    struct text *text, const struct dentry *d, const struct ttl_deadline *deadline)
{
    char reason[TTL_REASON_BYTES];
    struct archive_origin origin;
    if (dentry_in_limbo(d) && limbo_origin(d, &origin) == 0) {
        text_member_string(text, "reason", origin.reason);
        archive_origin_release(&origin);
        return;
    }
    ttl_reason_text(deadline, reason);
    text_member_string(text, "reason", reason);
}

static bool gather(void *arg, struct dentry *d, const struct ttl_deadline *deadline)
{
    struct gathering *g = arg;
    if (g->n == GATHERED_MAX) {
        g->cut = true;
        return false;
    }
    g->failed |= !room_for_one(g);
    if (g->failed)
        return false;
    size_t from = g->text.len;
    text_open(&g->text, '{');
    text_member_date(&g->text, "deadline", deadline->at_ms);
    write_reason(&g->text, d, deadline);
    path_text_place(&g->text, d);
    text_member_int(&g->text, "ino", (int64_t) d->doc->ino);
    text_close(&g->text, '}');
    text_put(&g->text, "\n");
    g->lines[g->n++] = (struct line){deadline->at_ms, from, g->text.len - from};
    return true;
}

static int by_deadline(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    if (x->at_ms != y->at_ms)
        return x->at_ms < y->at_ms ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

int due_text(struct fs *fs, char **ret_text, size_t *ret_len)
{
    struct gathering g = {0};
    struct text text = {0};
    survey_due(&fs->ttl, fs_now_ms(fs), gather, &g);
    if (g.n)
        qsort(g.lines, g.n, sizeof *g.lines, by_deadline);
    if (g.n > DUE_MAX_LINES) {
        g.n = DUE_MAX_LINES;
        g.cut = true;
    }
    for (size_t i = 0; i < g.n; i++)
        text_add(&text, g.text.bytes + g.lines[i].from, g.lines[i].len);
    if (g.cut)
        text_put(&text, "{\"cut\":true}\n");
    text.failed |= g.failed || g.text.failed;
    free(g.lines);
    text_release(&g.text);
    return text_take(&text, ret_text, ret_len);
}
