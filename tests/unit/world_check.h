/*
 * world_check.h - what must hold of names, slots and indexes at any moment.
 */
#ifndef TTLFS_TESTS_WORLD_CHECK_H
#define TTLFS_TESTS_WORLD_CHECK_H

#include "core/dates.h"
#include "core/index.h"
#include "tests/unit/world.h"

enum { WORLD_MAX_INDEXES = 512 };

struct world_census {
    const struct index *indexes[WORLD_MAX_INDEXES];
    uint64_t members[WORLD_MAX_INDEXES], filed[WORLD_MAX_INDEXES];
    uint64_t parked[WORLD_MAX_INDEXES];
    size_t n;
    int wrong;
};

static inline void world_wrong(
    struct world_census *census, const struct dentry *d, const char *what)
{
    census->wrong++;
    fprintf(stderr, "%s: %s\n", d ? d->name : "(an index)", what);
}

static inline size_t world_index_number(struct world_census *census, const struct index *index)
{
    size_t i = 0;
    while (i < census->n && census->indexes[i] != index)
        i++;
    world_must(i < WORLD_MAX_INDEXES, "too many indexes");
    if (i == census->n)
        census->indexes[census->n++] = index;
    return i;
}

/* One name: its slots are those in force, and no deadline comes before the monitor hears of it. */
static inline void world_check_name(struct world *w, struct world_census *census, struct dentry *d)
{
    const struct ruleset *rs = ruleset_of(&w->ttl, d->parent);
    int64_t heard_ms = DATE_NEVER_MS;
    struct index_slot *slots = dentry_slots(d);
    for (unsigned int i = 0; i < d->nslots; i++) {
        const struct index *index = slots[i].index;
        size_t number = world_index_number(census, index);
        bool in_force = index == d->parent->own_deadlines;
        for (unsigned int k = 0; k < rs->nindexes; k++)
            in_force |= rs->indexes[k] == index;
        if (!in_force || index->dropped)
            world_wrong(census, d, "is in an index that is not in force");
        census->members[number]++;
        struct btree_entry found, before = {slots[i].key, (char *) d - 1};
        bool there = btree_next(&index->entries, before, &found) && found.item == d &&
                     found.key == slots[i].key;
        bool parked = index_is_parked(d, i);
        bool there_parked = btree_next(&index->parked, before, &found) && found.item == d &&
                            found.key == slots[i].key;
        if (there == parked)
            world_wrong(census, d, parked ? "is parked and filed" : "is not filed under its key");
        if (there_parked != (parked && slots[i].key != INDEX_KEY_MISSING))
            world_wrong(census, d, "is in the wrong tree");
        if (!parked && slots[i].key >= INDEX_KEY_MISFIT)
            world_wrong(census, d, "has no date and may become due");
        census->filed[number] += !parked;
        census->parked[number] += there_parked;
        if (parked || !index->ttl || index->expire_after_ms < 0)
            continue;
        int64_t due_ms = date_add_saturated(slots[i].key, index->expire_after_ms);
        /* The schedule may be early, never late. */
        if (index->scheduled_ms > due_ms)
            world_wrong(census, d, "is due before its index is scheduled");
        heard_ms = due_ms < heard_ms ? due_ms : heard_ms;
    }
    struct ttl_deadline deadline = ttl_deadline(&w->ttl, d);
    if (deadline.at_ms < heard_ms)
        world_wrong(census, d, "has a deadline that no index knows of");
}

/* Returns how many things are wrong, having said which. */
static inline int world_check(struct world *w)
{
    struct world_census census = {.n = 0};
    uint64_t documents = 0;
    tree_lock(w->tree);
    for (struct collection *c = w->tree->collections; c; c = c->all_next) {
        uint32_t subs = 0;
        documents++;
        for (struct dentry *d = names_after(&c->names, 0); d; d = names_next(d)) {
            subs += document_is_collection(d->doc);
            if (d->parent != c)
                world_wrong(&census, d, "has another parent");
            if (document_is_collection(d->doc))
                continue;
            uint32_t links = 0;
            for (struct dentry *l = d->doc->links; l; l = l->link_next)
                links++;
            if (links != d->doc->nlink)
                world_wrong(&census, d, "has another number of names than nlink");
            documents += d == d->doc->links;
            world_check_name(w, &census, d);
        }
        if (c->doc.nlink && c->doc.nlink != subs + 2)
            world_wrong(&census, c->doc.links, "has another nlink than sub-collections + 2");
        if (c->own_deadlines)
            (void) world_index_number(&census, c->own_deadlines);
        const struct ruleset *rs = c->doc.nlink ? ruleset_of(&w->ttl, c) : NULL;
        for (unsigned int i = 0; rs && i < rs->nindexes; i++)
            (void) world_index_number(&census, rs->indexes[i]);
    }
    for (size_t i = 0; i < census.n; i++) {
        const struct index *index = census.indexes[i];
        if (!btree_check(&index->entries) || !btree_check(&index->parked))
            world_wrong(&census, NULL, "the tree of an index is broken");
        if (index->members != census.members[i] || index->entries.count != census.filed[i] ||
            index->parked.count != census.parked[i])
            world_wrong(&census, NULL, "an index has other members than names say");
    }
    documents += w->tree->orphans.count;
    for (struct collection *c = w->tree->collections; c; c = c->all_next)
        documents -= c->doc.nlink == 0; /* an orphan, counted already */
    if (documents != w->tree->ndocuments)
        world_wrong(&census, NULL, "the tree has another number of documents");
    tree_unlock(w->tree);
    return census.wrong;
}

#endif
