#include "ttl/monitor_names.h"

#include "core/names.h"
#include "ttl/deadline.h"
#include "ttl/events.h"
#include "ttl/limbo.h"
#include "ttl/prune.h"

#include <errno.h>
#include <string.h>

bool monitor_name_add(
    struct ttl *ttl, const struct monitor_hooks *hooks, struct dentry *d, struct monitor_name *name)
{
    bool archive = archive_wanted(ttl, d), limbo = dentry_in_limbo(d);
    bool watched = !limbo && hooks->watched && hooks->remove && hooks->watched(hooks->arg, d);
    if (!archive && !watched && !limbo)
        return false;
    *name = (struct monitor_name){
        .parent = &d->parent->doc, .doc = d->doc, .archive = archive, .watched = watched};
    memcpy(name->name, d->name, d->name_len + 1U);
    document_pin(name->parent);
    document_pin(name->doc);
    return true;
}

bool monitor_may_delete(
    struct ttl *ttl, struct dentry *d, const struct monitor_name *name, int64_t now_ms)
{
    if (d->doc != name->doc || !ttl_expired(ttl, d, now_ms))
        return false;
    if (!archive_wanted(ttl, d))
        return true;
    return name->archived && archive_covers(ttl, d, &name->copied, now_ms);
}

int monitor_delete_name(struct ttl *ttl, struct dentry *d, const struct monitor_name *name,
    struct timespec now, struct monitor_pass *pass)
{
    if (name->archived)
        ttl_tell(ttl, TTL_EVENT_ARCHIVED, d, timespec_ms(now));
    int err = monitor_expire(ttl, d, now, pass);
    ttl->metrics.archived_documents += !err && name->archived;
    return err;
}

static void count_error(struct ttl *ttl, struct monitor_pass *pass)
{
    ttl->metrics.errors++;
    pass->errors++;
}

static struct timespec time_of_ms(int64_t ms)
{
    int64_t s = ms / 1000, rest = ms % 1000;
    return rest < 0 ? (struct timespec){(time_t) s - 1, (long) (rest + 1000) * 1000000}
                    : (struct timespec){(time_t) s, (long) rest * 1000000};
}

/* Deletes a name that is still there, unless the archive has not taken it. */
static void settle_one(struct ttl *ttl, const struct monitor_hooks *hooks,
    struct monitor_pass *pass, struct monitor_name *name, int64_t now_ms)
{
    struct collection *parent = document_collection(name->parent);
    bool gone = name->removed;
    if (name->removed) {
        pass->deleted_documents++;
    } else {
        struct dentry *d = tree_find(ttl->tree, parent, name->name, strlen(name->name));
        if (d && monitor_may_delete(ttl, d, name, now_ms)) {
            if (hooks->deleting)
                hooks->deleting(hooks->arg, d);
            gone = monitor_delete_name(ttl, d, name, time_of_ms(now_ms), pass) == 0;
            if (!gone)
                count_error(ttl, pass);
        } else if (name->archive && !name->archived && !name->interrupted) {
            count_error(ttl, pass);
        }
    }
    if (gone)
        prune_note(ttl, parent);
    document_unpin(ttl->tree, name->doc);
    document_unpin(ttl->tree, name->parent);
}

void monitor_names_settle(struct ttl *ttl, const struct monitor_hooks *hooks,
    struct monitor_pass *pass, struct monitor_name *names, size_t n)
{
    bool archive = false, watched = false;
    for (size_t i = 0; i < n; i++)
        archive |= names[i].archive;
    if (archive && hooks->archive)
        hooks->archive(hooks->arg, names, n);
    for (size_t i = 0; i < n; i++) {
        names[i].watched &= !names[i].archive || names[i].archived;
        watched |= names[i].watched;
    }
    if (watched)
        hooks->remove(hooks->arg, names, n);
    if (!n)
        return;
    tree_lock(ttl->tree);
    int64_t now_ms = hooks->clock_ms(hooks->arg);
    for (size_t i = 0; i < n; i++)
        settle_one(ttl, hooks, pass, &names[i], now_ms);
    tree_unlock(ttl->tree);
}
