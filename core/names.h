/*
 * names.h - the name table of a collection: a hash table that is also a stable order.
 *
 * A split-ordered list (Shalev and Shavit, "Split-ordered lists: lock-free extensible hash tables",
 * JACM 53/3, 2006), here under a lock: all dentries of a collection form one list sorted by the
 * bit-reversed hash of their names, and buckets are marks into that list. Growing adds marks and
 * moves nothing, so no insertion ever waits for a rehash; and since a name's place in the order is
 * a function of the name alone, a readdir cookie stays good whatever is created or removed
 * meanwhile.
 *
 * The tree's lock covers every call.
 */
#ifndef TTLFS_CORE_NAMES_H
#define TTLFS_CORE_NAMES_H

#include "core/document.h"

/* Cookies up to this one are free for "." and "..". */
#define NAMES_COOKIE_RESERVED 2

void names_init(struct name_table *table);
/* Frees the marks. The table must be empty. */
void names_release(struct name_table *table);

/*
 * Finds a name.
 * @hash_seed  the tree's secret, the same in every call on one table
 * Returns NULL when there is none.
 */
struct dentry *names_find(
    struct name_table *table, uint64_t hash_seed, const char *name, size_t len);

/*
 * Inserts a dentry whose name must not be there yet; fills in d->node.
 * Errors: -ENOSPC (16 names with neighbouring hashes: not by accident). A failed growth of the
 * table is not an error, the table only gets slower.
 */
int names_insert(struct name_table *table, uint64_t hash_seed, struct dentry *d);

/* Removes a dentry that is in the table. */
void names_remove(struct name_table *table, struct dentry *d);

/* The first dentry whose cookie is greater; NULL at the end. O(1). */
struct dentry *names_after(struct name_table *table, uint64_t cookie);

/* The dentry behind d in the order, or NULL. */
struct dentry *names_next(struct dentry *d);

/* A dentry's cookie: greater than NAMES_COOKIE_RESERVED, at most INT64_MAX. */
static inline uint64_t names_cookie(const struct dentry *d)
{
    return d->node.order >> 1;
}

#endif
