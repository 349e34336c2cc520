#include "core/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct index *index_new(
    const char *name, size_t name_len, enum index_kind kind, struct index_spec *spec)
{
    struct index *index = calloc(1, sizeof *index);
    char *copy = strndup(name, name_len);
    if (!index || !copy) {
        free(index);
        free(copy);
        index_spec_release(spec);
        return NULL;
    }
    index->name = copy;
    index->kind = kind;
    index->spec = *spec;
    index_spec_init(spec);
    index->ttl = index->spec.ttl;
    index->expire_after_ms = (int64_t) index->spec.expire_after_s * 1000;
    index->scheduled_ms = DATE_NEVER_MS;
    btree_init(&index->entries);
    return index;
}

void index_free(struct index *index)
{
    if (!index)
        return;
    btree_release(&index->entries);
    index_spec_release(&index->spec);
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

/* Appends an empty slot; on failure nothing has changed. */
static int slot_add(struct dentry *d)
{
    if (d->nslots >= INDEX_MAX_PER_COLLECTION)
        return -ENOSPC;
    if (d->nslots >= 1) {
        struct index_slot *many =
            realloc(d->nslots > 1 ? d->slots.many : NULL, (d->nslots + 1U) * sizeof *many);
        if (!many)
            return -ENOMEM;
        if (d->nslots == 1)
            many[0] = d->slots.one;
        d->slots.many = many;
    }
    d->nslots++;
    d->parked &= ~(1ULL << (d->nslots - 1));
    return 0;
}

/* Removes slot `at` by moving the last one into its place. */
static void slot_remove(struct dentry *d, unsigned int at)
{
    struct index_slot *slots = dentry_slots(d);
    unsigned int last = d->nslots - 1U;
    slots[at] = slots[last];
    d->parked = (d->parked & ~(1ULL << at)) | (d->parked >> last & 1) << at;
    d->parked &= ~(1ULL << last);
    d->nslots--;
    if (d->nslots == 1) {
        struct index_slot one = slots[0];
        free(slots);
        d->slots.one = one;
    }
}

int index_file(struct index *index, struct dentry *d, int64_t key, bool parked)
{
    unsigned int at;
    struct index_slot *slot = index_slot(d, index, &at);
    bool added = !slot, was_filed = slot && !(d->parked >> at & 1);

    if (slot && was_filed && !parked && slot->key == key)
        return 0;
    if (added) {
        int err = slot_add(d);
        if (err)
            return err;
        at = d->nslots - 1U;
        slot = &dentry_slots(d)[at];
        *slot = (struct index_slot){.index = index, .key = key};
    }
    if (!parked) {
        int err = btree_insert(&index->entries, key, d);
        if (err) {
            if (added)
                slot_remove(d, at);
            return err;
        }
    }
    if (was_filed)
        btree_remove(&index->entries, slot->key, d);
    index->members += added;
    if (added && index->kind == INDEX_CAPPED) {
        index->cap.bytes += d->doc->size;
        d->doc->flags |= DOCUMENT_CAPPED;
    }
    slot->key = key;
    d->parked = (d->parked & ~(1ULL << at)) | (uint64_t) parked << at;
    return 0;
}

void index_unfile(struct index *index, struct dentry *d)
{
    unsigned int at;
    struct index_slot *slot = index_slot(d, index, &at);
    if (!slot)
        return;
    if (!(d->parked >> at & 1))
        btree_remove(&index->entries, slot->key, d);
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
