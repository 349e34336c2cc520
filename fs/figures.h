/*
 * figures.h - what `.ttlfs/status.json` and `.ttlfs/metrics` have in common: how it all stands.
 *
 * Taken in slices of the tree's lock. Lists are cut, so that neither file grows without limit.
 */
#ifndef TTLFS_FS_FIGURES_H
#define TTLFS_FS_FIGURES_H

#include "fs/fs.h"
#include "fs/kinds.h"
#include "ttl/survey.h"

/* At most so many collections and indexes are listed one by one, and so many warnings. */
#define FIGURES_COLLECTIONS 1000
#define FIGURES_INDEXES 1000
#define FIGURES_WARNINGS 100

/* Texts are malloc'd; paths and names are bytes, UTF-8 or not, and terminated. */
struct figures_collection {
    char *path;
    uint64_t documents, collections; /* directly in it */
    struct kinds_figures kinds;
};

struct figures_index {
    char *path, *name, *key; /* key: NULL for built-in ones */
    bool ttl;
    int64_t expire_after_ms;
    struct survey_index at;
};

struct figures_warning {
    char *path, *index; /* index: NULL when it is not about one */
    const char *reason; /* lives forever */
};

struct figures {
    int64_t now_ms, uptime_s;
    uint64_t documents, ncollections, used_bytes, max_bytes;
    struct ttl_metrics metrics;
    struct survey_totals totals;
    struct ttl_params params;
    struct histogram visits, lags;
    bool pass_running, clock_held;
    struct figures_collection *collections;
    struct figures_index *indexes;
    struct figures_warning *warnings;
    size_t n_collections, n_indexes, n_warnings;
    bool collections_cut, indexes_cut;
    bool failed; /* no memory for all of it */
};

/*
 * Where a collection is, as no other's path is shown. Expects the tree's lock.
 * Returns what free() takes, or NULL without memory.
 */
char *figures_path(const struct collection *c);

/* Expects no lock. Errors: -ENOMEM; nothing is left to release then. */
int figures_take(struct fs *fs, struct figures *ret_figures);
void figures_release(struct figures *figures);

#endif
