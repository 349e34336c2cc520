#include "ttl/ttl.h"

#include "core/dates.h"
#include "core/index.h"
#include "core/store.h"
#include "ttl/filing.h"
#include "ttl/rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void ttl_init(struct ttl *ttl)
{
    memset(ttl, 0, sizeof *ttl);
    ttl_params_init(&ttl->params);
    ttl->generation = 1;
    ttl->monitor_wakes_ms = DATE_NEVER_MS;
    btree_init(&ttl->schedule);
}

void ttl_release(struct ttl *ttl)
{
    while (ttl->graveyard) {
        struct index *index = ttl->graveyard;
        ttl->graveyard = index->grave_next;
        index_free(index);
    }
    btree_release(&ttl->schedule);
}

static void on_linked(void *arg, struct dentry *d)
{
    struct ttl *ttl = arg;
    struct document *doc = d->doc;
    bool parsed =
        document_is_collection(doc) ? document_collection(doc)->rules != NULL : doc->policy != NULL;
    int err = 0;
    if (doc->xattrs && !parsed)
        err = rules_load(ttl, doc);
    if (document_is_collection(doc)) {
        /* What was in force above it before it moved. */
        ruleset_drop(document_collection(doc));
    } else if (!err) {
        /* A name in a new place: its content is looked at for this place's indexes. */
        if ((doc->size || doc->xattrs) && S_ISREG(doc->mode))
            doc->flags |= DOCUMENT_FIELDS_STALE;
        err = filing_update(ttl, d, NULL);
    }
    if (err)
        ttl->failed = err;
}

static void on_root_loaded(void *arg, struct document *root)
{
    struct ttl *ttl = arg;
    int err = rules_load(ttl, root);
    if (err)
        ttl->failed = err;
}

static void on_freed(void *arg, struct document *doc)
{
    struct ttl *ttl = arg;
    ttl->unseen -= (doc->flags & DOCUMENT_UNSEEN) != 0;
    rules_free(ttl, doc);
}

struct tree_observer ttl_observer(struct ttl *ttl)
{
    return (struct tree_observer){
        .arg = ttl, .linked = on_linked, .root_loaded = on_root_loaded, .freed = on_freed};
}

static int load_params(struct ttl *ttl)
{
    void *value;
    size_t len;
    bson_t document;
    int err = store_get(ttl->tree->store, STORE_META, "params", 6, &value, &len);
    if (err)
        return err == -ENOENT ? 0 : err;
    if (bson_init_static(&document, value, len))
        ttl_params_decode(&ttl->params, &document);
    free(value);
    return 0;
}

int ttl_load(struct ttl *ttl, struct reason *why)
{
    struct tree *tree = ttl->tree;
    if (!tree->store)
        return 0;
    int err = load_params(ttl);
    if (err)
        return reason_set(why, -err, "the parameters cannot be read: %s", strerrordesc_np(-err));
    err = tree_load(tree, why);
    if (err)
        return err;
    tree_lock(tree);
    err = ttl->failed;
    if (!err)
        err = filing_rebuild(ttl, tree->root, INT64_MIN);
    tree_unlock(tree);
    if (err)
        return reason_set(
            why, -err, "rules and indexes cannot be built: %s", strerrordesc_np(-err));
    return 0;
}

void ttl_unschedule(struct ttl *ttl, struct index *index)
{
    if (index->scheduled_ms != DATE_NEVER_MS)
        btree_remove(&ttl->schedule, index->scheduled_ms, index);
    index->scheduled_ms = DATE_NEVER_MS;
    ttl->nfailing -= index->failing;
    index->failing = false;
}

static void schedule_at(struct ttl *ttl, struct index *index, int64_t due_ms)
{
    if (due_ms == index->scheduled_ms && !index->failing)
        return;
    ttl_unschedule(ttl, index);
    if (due_ms == DATE_NEVER_MS || btree_insert(&ttl->schedule, due_ms, index) != 0)
        return;
    index->scheduled_ms = due_ms;
    if (due_ms < ttl->monitor_wakes_ms && ttl->wake)
        ttl->wake(ttl->wake_arg);
}

/* When an entry filed under `key` may be due: never, in an index that expires nothing. */
static int64_t due_of(const struct index *index, int64_t key)
{
    if (!index->ttl || index->dropped || index->expire_after_ms < 0)
        return DATE_NEVER_MS;
    return date_add_saturated(key, index->expire_after_ms);
}

void ttl_schedule(struct ttl *ttl, struct index *index)
{
    struct btree_entry first;
    bool any = btree_first(&index->entries, &first);
    schedule_at(ttl, index, any ? due_of(index, first.key) : DATE_NEVER_MS);
}

void ttl_schedule_retry(
    struct ttl *ttl, struct index *index, struct btree_entry tried, int64_t retry_ms)
{
    struct btree_entry first, next;
    bool left = btree_first(&index->entries, &first) && due_of(index, first.key) < retry_ms;
    if (!left) {
        /* Dropped, emptied, or nothing was tried in vain. */
        ttl_schedule(ttl, index);
        return;
    }
    bool any = btree_next(&index->entries, tried, &next);
    int64_t due_ms = any ? due_of(index, next.key) : DATE_NEVER_MS;
    schedule_at(ttl, index, due_ms < retry_ms ? due_ms : retry_ms);
    index->failing = index->scheduled_ms != DATE_NEVER_MS;
    ttl->nfailing += index->failing;
}

void ttl_schedule_failing(struct ttl *ttl)
{
    struct btree_entry at;
    bool any = ttl->nfailing && btree_first(&ttl->schedule, &at);
    for (; any && ttl->nfailing; any = btree_next(&ttl->schedule, at, &at)) {
        struct index *index = at.item;
        if (index->failing)
            ttl_schedule(ttl, index);
    }
}

void ttl_schedule_key(struct ttl *ttl, struct index *index, int64_t key)
{
    int64_t due_ms = due_of(index, key);
    if (due_ms < index->scheduled_ms)
        schedule_at(ttl, index, due_ms);
}

void ttl_bury(struct ttl *ttl, struct index *index)
{
    ttl_unschedule(ttl, index);
    index->dropped = true;
    index->owner = NULL; /* which may go before it */
    index->grave_next = ttl->graveyard;
    ttl->graveyard = index;
}

void ttl_reap(struct ttl *ttl)
{
    if (ttl->pass_running || ttl->surveys)
        return;
    for (struct index **at = &ttl->graveyard; *at;) {
        struct index *index = *at;
        if (index->members) {
            at = &index->grave_next;
            continue;
        }
        *at = index->grave_next;
        index_free(index);
    }
}
