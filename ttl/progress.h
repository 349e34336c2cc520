/*
 * progress.h - long work that somebody may want to watch: what `.ttlfs/currentOp.json` lists beside
 * the monitor's pass.
 *
 * Whoever does the work keeps the record on its stack and counts as it goes. All of it is under the
 * tree's lock.
 */
#ifndef TTLFS_TTL_PROGRESS_H
#define TTLFS_TTL_PROGRESS_H

#include "ttl/ttl.h"

struct progress {
    struct progress *next, **place; /* of all */
    const char *op;                 /* `indexBuild`, `archive`, … */
    const char *what;               /* the attribute or index it is about; NULL for none */
    const struct collection *at;    /* stays while the record is listed; NULL for none */
    uint64_t done, total;           /* names; 0 in total: not known */
    int64_t started_ms;             /* the filesystem's time; INT64_MIN: not known */
};

/* Lists a record whose other members are filled in; until progress_end. */
static inline void progress_begin(struct ttl *ttl, struct progress *p)
{
    p->next = ttl->progress;
    p->place = &ttl->progress;
    if (p->next)
        p->next->place = &p->next;
    ttl->progress = p;
}

static inline void progress_end(struct progress *p)
{
    *p->place = p->next;
    if (p->next)
        p->next->place = p->place;
}

#endif
