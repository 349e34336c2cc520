#include "fs/figures.h"

#include "core/index.h"
#include "core/utf8.h"
#include "fs/path_text.h"
#include "ttl/rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct taking {
    struct fs *fs;
    struct figures *f;
};

/*
 * A copy. Where it will not be shown as it is (not UTF-8, or cut) it gets a number, lest it look like
 * another one: Prometheus takes no sample twice.
 */
static char *distinct(const char *text, size_t len, uint64_t number)
{
    char *copy;
    if (len < PATH_TEXT_BYTES - DOCUMENT_NAME_MAX_BYTES - 2 &&
        utf8_is_valid((const uint8_t *) text, len))
        return strdup(text);
    return asprintf(&copy, "%s #%llu", text, (unsigned long long) number) < 0 ? NULL : copy;
}

char *figures_path(const struct collection *c)
{
    char buf[PATH_TEXT_BYTES];
    size_t len;
    const char *path = path_text(c, buf, &len);
    return distinct(path, len, c->doc.ino);
}

static void warn(
    struct figures *f, const struct collection *c, const char *index, const char *reason)
{
    if (f->n_warnings == FIGURES_WARNINGS)
        return;
    struct figures_warning *w = &f->warnings[f->n_warnings];
    w->path = figures_path(c);
    w->index = index ? strdup(index) : NULL;
    w->reason = reason;
    f->n_warnings++;
    f->failed |= !w->path || (index && !w->index);
}

static void take_index(struct taking *t, const struct collection *c, const struct index *index)
{
    struct figures *f = t->f;
    const char *reason = survey_index_warning(&t->fs->ttl, index);
    if (reason)
        warn(f, c, index->name, reason);
    if (f->n_indexes == FIGURES_INDEXES) {
        f->indexes_cut = true;
        return;
    }
    struct figures_index *i = &f->indexes[f->n_indexes++];
    i->path = figures_path(c);
    i->name = distinct(index->name, strlen(index->name), f->n_indexes);
    i->key = index->spec.key ? strdup(index->spec.key) : NULL;
    i->ttl = index->ttl;
    i->expire_after_ms = index->expire_after_ms;
    survey_index(&t->fs->ttl, index, f->now_ms, &i->at);
    f->failed |= !i->path || !i->name || (index->spec.key && !i->key);
}

static bool take_collection(void *arg, struct collection *c)
{
    struct taking *t = arg;
    struct figures *f = t->f;
    const struct index *index;
    if (c->rules && c->rules->archive == SWITCH_YES && !t->fs->options.archive)
        warn(f, c, NULL,
            "on-expire is archive, but the mount has no archive= option: expired documents stay");
    if (kinds_warning(c))
        warn(f, c, NULL, kinds_warning(c));
    for (unsigned int i = 0; (index = survey_index_of(c, i)) != NULL; i++)
        take_index(t, c, index);
    if (f->n_collections == FIGURES_COLLECTIONS) {
        f->collections_cut = true;
        return !f->failed && !f->indexes_cut;
    }
    struct figures_collection *one = &f->collections[f->n_collections++];
    one->path = figures_path(c);
    one->collections = c->doc.nlink - 2;
    one->documents = c->names.count - one->collections;
    kinds_figures(c, &one->kinds);
    f->failed |= !one->path;
    return !f->failed;
}

int figures_take(struct fs *fs, struct figures *ret_figures)
{
    struct figures *f = ret_figures;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *f = (struct figures){.now_ms = fs_now_ms(fs), .uptime_s = now.tv_sec - fs->started.tv_sec};
    f->collections = calloc(FIGURES_COLLECTIONS, sizeof *f->collections);
    f->indexes = calloc(FIGURES_INDEXES, sizeof *f->indexes);
    f->warnings = calloc(FIGURES_WARNINGS, sizeof *f->warnings);
    f->failed = !f->collections || !f->indexes || !f->warnings;
    struct taking taking = {.fs = fs, .f = f};
    struct survey survey = {.arg = &taking, .collection = take_collection};
    if (!f->failed) {
        survey_totals(&fs->ttl, f->now_ms, &f->totals);
        survey_all(&fs->ttl, &survey);
    }
    tree_lock(fs->tree);
    f->documents = fs->tree->ndocuments - fs->tree->ncollections;
    f->ncollections = fs->tree->ncollections;
    f->metrics = fs->ttl.metrics;
    f->params = fs->ttl.params;
    f->visits = fs->profile.visits;
    f->lags = fs->profile.lags;
    f->pass_running = fs->monitor.pass.running;
    f->clock_held = fs->monitor.clock_held;
    tree_unlock(fs->tree);
    f->used_bytes = (uint64_t) atomic_load(&fs->tree->budget.used_pages) * CONTENT_PAGE_BYTES;
    f->max_bytes = (uint64_t) fs->tree->budget.max_pages * CONTENT_PAGE_BYTES;
    if (!f->failed)
        return 0;
    figures_release(f);
    return -ENOMEM;
}

void figures_release(struct figures *f)
{
    for (size_t i = 0; f->collections && i < f->n_collections; i++)
        free(f->collections[i].path);
    for (size_t i = 0; f->indexes && i < f->n_indexes; i++) {
        free(f->indexes[i].path);
        free(f->indexes[i].name);
        free(f->indexes[i].key);
    }
    for (size_t i = 0; f->warnings && i < f->n_warnings; i++) {
        free(f->warnings[i].path);
        free(f->warnings[i].index);
    }
    free(f->collections);
    free(f->indexes);
    free(f->warnings);
    memset(f, 0, sizeof *f);
}
