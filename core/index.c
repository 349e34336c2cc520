#include "core/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct index *index_new(
    const char *name, size_t name_len, enum index_kind kind, struct index_spec *spec)
{
    struct index *index = calloc(1, sizeof *index);
    char *copy = strndup(name, name_len);
    const char *key = spec->key ? spec->key : "";
    char *path = strndup(key, strcspn(key, ","));
    if (!index || !copy || !path) {
        free(index);
        free(copy);
        free(path);
        index_spec_release(spec);
        return NULL;
    }
    index->path = path;
    index->name = copy;
    index->kind = kind;
    index->spec = *spec;
    index_spec_init(spec);
    index->ttl = index->spec.ttl;
    index->expire_after_ms = (int64_t) index->spec.expire_after_s * 1000;
    index->scheduled_ms = DATE_NEVER_MS;
    btree_init(&index->entries);
    btree_init(&index->parked);
    return index;
}

void index_free(struct index *index)
{
    if (!index)
        return;
    btree_release(&index->entries);
    btree_release(&index->parked);
    index_spec_release(&index->spec);
    free(index->path);
    free(index->name);
    free(index);
}

enum index_kind index_kind_of_key(const char *key)
{
    if (strcmp(key, "_ts") == 0)
        return INDEX_TS;
    if (strcmp(key, "_created") == 0)
        return INDEX_CREATED;
    if (strcmp(key, "_accessed") == 0)
        return INDEX_ACCESSED;
    return INDEX_FIELD;
}

struct index_slot *index_slot(struct dentry *d, const struct index *index, unsigned int *ret_at)
{
    struct index_slot *slots = dentry_slots(d);
    for (unsigned int i = 0; i < d->nslots; i++) {
        if (slots[i].index == index) {
            if (ret_at)
                *ret_at = i;
            return &slots[i];
        }
    }
    return NULL;
}

bool index_is_parked(const struct dentry *d, unsigned int at)
{
    return d->nslots > 1 ? d->slots.many->parked >> at & 1 : d->one_parked;
}

static void set_parked(struct dentry *d, unsigned int at, bool parked)
{
    if (d->nslots > 1)
        d->slots.many->parked = (d->slots.many->parked & ~(1ULL << at)) | (uint64_t) parked << at;
    else
        d->one_parked = parked;
}

/* Appends an empty slot; on failure nothing has changed. */
static int slot_add(struct dentry *d)
{
    if (d->nslots >= INDEX_MAX_PER_COLLECTION)
        return -ENOSPC;
    if (d->nslots >= 1) {
        struct index_slots *many = realloc(d->nslots > 1 ? d->slots.many : NULL,
            sizeof *many + (d->nslots + 1U) * sizeof many->at[0]);
        if (!many)
            return -ENOMEM;
        if (d->nslots == 1) {
            many->parked = d->one_parked;
            many->at[0] = d->slots.one;
        }
        d->slots.many = many;
    }
    d->nslots++;
    set_parked(d, d->nslots - 1U, false);
    return 0;
}

/* Removes slot `at` by moving the last one into its place. */
static void slot_remove(struct dentry *d, unsigned int at)
{
    struct index_slot *slots = dentry_slots(d);
    unsigned int last = d->nslots - 1U;
    slots[at] = slots[last];
    set_parked(d, at, index_is_parked(d, last));
    if (d->nslots == 2) {
        struct index_slots *many = d->slots.many;
        d->one_parked = many->parked & 1;
        d->slots.one = many->at[0];
        free(many);
    }
    d->nslots--;
}

uint64_t index_entries(const struct index *index)
{
    uint64_t misfits = btree_count_upto(&index->parked, INT64_MAX - 1) -
                       btree_count_upto(&index->parked, INDEX_KEY_MISFIT - 1);
    /* What is missing is in no tree. */
    return index->entries.count + index->parked.count - misfits;
}

/* What is missing is in no tree. */
static bool is_filed(int64_t key, bool parked)
{
    return !parked || key != INDEX_KEY_MISSING;
}

static struct btree *tree_of(struct index *index, bool parked)
{
    return parked ? &index->parked : &index->entries;
}

int index_file(struct index *index, struct dentry *d, int64_t key, bool parked)
{
    unsigned int at;
    struct index_slot *slot = index_slot(d, index, &at);
    bool added = !slot, was_parked = slot && index_is_parked(d, at);
    bool was_filed = slot && is_filed(slot->key, was_parked);

    if (slot && slot->key == key && was_parked == parked)
        return 0;
    if (added) {
        int err = slot_add(d);
        if (err)
            return err;
        at = d->nslots - 1U;
        slot = &dentry_slots(d)[at];
        *slot = (struct index_slot){.index = index, .key = key};
    }
    if (is_filed(key, parked)) {
        int err = btree_insert(tree_of(index, parked), key, d);
        if (err) {
            if (added)
                slot_remove(d, at);
            return err;
        }
    }
    if (was_filed)
        btree_remove(tree_of(index, was_parked), slot->key, d);
    index->members += added;
    if (added && index->kind == INDEX_CAPPED) {
        index->cap.bytes += d->doc->size;
        d->doc->flags |= DOCUMENT_CAPPED;
    }
    slot->key = key;
    set_parked(d, at, parked);
    return 0;
}

void index_unfile(struct index *index, struct dentry *d)
{
    unsigned int at;
    struct index_slot *slot = index_slot(d, index, &at);
    if (!slot)
        return;
    bool parked = index_is_parked(d, at);
    if (is_filed(slot->key, parked))
        btree_remove(tree_of(index, parked), slot->key, d);
    index->members--;
    if (index->kind == INDEX_CAPPED)
        index->cap.bytes -= d->doc->size;
    int64_t key = slot->key;
    slot_remove(d, at);
    if (index->left)
        index->left(index, d, key);
}

void index_unfile_all(struct dentry *d)
{
    while (d->nslots)
        index_unfile(dentry_slots(d)[d->nslots - 1].index, d);
}

void index_resizing(struct document *doc, uint64_t size)
{
    for (struct dentry *d = doc->links; d; d = d->link_next) {
        const struct index_slot *slots = dentry_slots(d);
        for (unsigned int i = 0; i < d->nslots; i++)
            if (slots[i].index->kind == INDEX_CAPPED)
                slots[i].index->cap.bytes += size - doc->size;
    }
}
