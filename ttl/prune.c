#include "ttl/prune.h"

#include "core/names.h"
#include "ttl/rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool prune_is_due(struct ttl *ttl, struct collection *c)
{
    struct collection *parent = collection_parent(c);
    if (c->names.count || !parent)
        return false;
    const struct ruleset *rs = ruleset_of(ttl, c);
    if (!rs || !rs->prune || rs->hold)
        return false;
    rs = ruleset_of(ttl, parent);
    return rs && rs->prune;
}

void prune_note(struct ttl *ttl, struct collection *c)
{
    if (!prune_is_due(ttl, c))
        return;
    /* A slice takes many names from one collection; only the last one empties it. */
    if (ttl->nemptied && ttl->emptied[ttl->nemptied - 1] == c)
        return;
    if (ttl->nemptied == ttl->cap_emptied) {
        size_t cap = ttl->cap_emptied ? ttl->cap_emptied * 2 : 16;
        struct collection **more = realloc(ttl->emptied, cap * sizeof(struct collection *));
        if (!more)
            return;
        ttl->emptied = more;
        ttl->cap_emptied = cap;
    }
    document_pin(&c->doc);
    ttl->emptied[ttl->nemptied++] = c;
}

/* Takes the latest one that is noted; the caller has its pin then. */
static struct collection *next_emptied(struct ttl *ttl)
{
    return ttl->nemptied ? ttl->emptied[--ttl->nemptied] : NULL;
}

/*
 * Has the kernel remove a collection that it knows. Lets go; the collection is pinned.
 * Returns true when the kernel has an answer: what it refuses stays.
 */
static bool asked_kernel(struct ttl *ttl, const struct monitor_hooks *hooks, struct collection *c)
{
    const struct dentry *d = c->doc.links;
    struct monitor_name name = {
        .parent = &d->parent->doc, .doc = &c->doc, .watched = true, .directory = true};
    if (!c->doc.nlookup || !hooks->remove)
        return false;
    memcpy(name.name, d->name, d->name_len + 1U);
    document_pin(name.parent);
    tree_unlock(ttl->tree);
    hooks->remove(hooks->arg, &name, 1);
    tree_lock(ttl->tree);
    document_unpin(ttl->tree, name.parent);
    return name.removed || name.error == EBUSY || name.error == ENOTEMPTY;
}

/* One collection and what is left empty above it. Expects the lock; lets go. Ends its pin. */
static void prune_upwards(struct ttl *ttl, const struct monitor_hooks *hooks, struct collection *c)
{
    while (prune_is_due(ttl, c)) {
        struct collection *parent = collection_parent(c);
        document_pin(&parent->doc);
        /* The mount's owner may not be allowed to ask; then it is done directly, if it still is due. */
        if (!asked_kernel(ttl, hooks, c) && prune_is_due(ttl, c)) {
            int64_t now_ms = hooks->clock_ms(hooks->arg);
            struct timespec now = {(time_t) (now_ms / 1000), (long) (now_ms % 1000) * 1000000};
            if (hooks->deleting)
                hooks->deleting(hooks->arg, c->doc.links);
            (void) tree_unlink(ttl->tree, c->doc.links, now);
        }
        bool gone = !c->doc.links;
        ttl->metrics.pruned_collections += gone;
        document_unpin(ttl->tree, &c->doc);
        c = parent;
        if (!gone)
            break;
    }
    document_unpin(ttl->tree, &c->doc);
}

void prune_run(struct ttl *ttl, const struct monitor_hooks *hooks)
{
    tree_lock_background(ttl->tree);
    struct collection *c;
    while ((c = next_emptied(ttl)) != NULL) {
        prune_upwards(ttl, hooks, c);
        tree_unlock(ttl->tree);
        tree_lock_background(ttl->tree);
    }
    free(ttl->emptied);
    ttl->emptied = NULL;
    ttl->cap_emptied = 0;
    tree_unlock(ttl->tree);
}
