#include "fs/distribution.h"

#include "core/dates.h"
#include "fs/figures.h"
#include "ttl/survey.h"

#include <stdlib.h>
#include <string.h>

/* Collections that are listed one by one. */
#define LISTED_COLLECTIONS 1000
#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* In order. A name is counted in the first one that its deadline is not behind. */
static const struct {
    const char *name;
    int64_t upto_ms;
} spans[] = {
    {"1s", SECOND},
    {"10s", 10 * SECOND},
    {"1m", MINUTE},
    {"10m", 10 * MINUTE},
    {"1h", HOUR},
    {"6h", 6 * HOUR},
    {"1d", DAY},
    {"7d", 7 * DAY},
    {"30d", 30 * DAY},
    {"90d", 90 * DAY},
};

#define SPANS (sizeof spans / sizeof spans[0])
enum { LATER = SPANS, NEVER, COUNTS };

struct counts {
    uint64_t documents, due, within[COUNTS];
};

struct counting {
    struct fs *fs;
    int64_t now_ms;
    struct counts all, one; /* one: of the collection that is being looked at */
    struct text text;       /* the members of `collections` */
    size_t listed;
    bool open, cut; /* has a collection been opened in the text; were there more */
};

static void write_counts(struct text *text, const struct counts *counts)
{
    text_member_int(text, "documents", (int64_t) counts->documents);
    text_member_int(text, "due", (int64_t) counts->due);
    text_key(text, "within");
    text_open(text, '{');
    for (size_t i = 0; i < SPANS; i++)
        text_member_int(text, spans[i].name, (int64_t) counts->within[i]);
    text_member_int(text, "later", (int64_t) counts->within[LATER]);
    text_member_int(text, "never", (int64_t) counts->within[NEVER]);
    text_close(text, '}');
}

static void end_collection(struct counting *c)
{
    if (!c->open)
        return;
    write_counts(&c->text, &c->one);
    text_close(&c->text, '}');
    c->open = false;
}

static bool count_collection(void *arg, struct collection *collection)
{
    struct counting *c = arg;
    end_collection(c);
    c->one = (struct counts){0};
    if (c->listed == LISTED_COLLECTIONS) {
        c->cut = true;
        return true;
    }
    char *path = figures_path(collection);
    if (!path) {
        c->text.failed = true;
        return false;
    }
    text_string(&c->text, path, strlen(path));
    free(path);
    text_put(&c->text, ":");
    text_open(&c->text, '{');
    c->open = true;
    c->listed++;
    return true;
}

static void count(struct counts *counts, unsigned int span, bool due)
{
    counts->documents++;
    counts->due += due;
    counts->within[span]++;
}

static void count_name(void *arg, struct dentry *d)
{
    struct counting *c = arg;
    if (document_is_collection(d->doc))
        return;
    int64_t at_ms = ttl_deadline(&c->fs->ttl, d).at_ms;
    unsigned int span = NEVER;
    if (at_ms != DATE_NEVER_MS)
        for (span = 0; span < SPANS; span++)
            if (date_subtract_saturated(at_ms, c->now_ms) <= spans[span].upto_ms)
                break;
    bool due = at_ms <= c->now_ms;
    count(&c->all, span, due);
    count(&c->one, span, due);
}

int distribution_text(struct fs *fs, char **ret_text, size_t *ret_len)
{
    struct counting c = {.fs = fs, .now_ms = fs_now_ms(fs)};
    struct survey survey = {.arg = &c, .collection = count_collection, .name = count_name};
    struct text text = {0};
    survey_all(&fs->ttl, &survey);
    end_collection(&c);
    text_open(&text, '{');
    text_member_date(&text, "now", c.now_ms);
    write_counts(&text, &c.all);
    text_key(&text, "collections");
    text_open(&text, '{');
    text_add(&text, c.text.bytes, c.text.len);
    text_close(&text, '}');
    text_member_bool(&text, "collectionsCut", c.cut);
    text_close(&text, '}');
    text_put(&text, "\n");
    text.failed |= c.text.failed;
    text_release(&c.text);
    return text_take(&text, ret_text, ret_len);
}
