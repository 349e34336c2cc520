#include "ttl/events.h"

const char *ttl_event_name(enum ttl_event event)
{
    static const char *const names[] = {
        [TTL_EVENT_CREATED] = "created",
        [TTL_EVENT_CHANGED] = "changed",
        [TTL_EVENT_DELETED] = "deleted",
        [TTL_EVENT_EXPIRED] = "expired",
        [TTL_EVENT_ARCHIVED] = "archived",
    };
    return names[event];
}

int ttl_unlink(struct ttl *ttl, struct dentry *d, struct timespec now, enum ttl_event event)
{
    if (ttl_is_heard(ttl) && !document_is_collection(d->doc)) {
        /* All that can fail, first: the name is gone afterwards and could not be told of. */
        int err = journal_will_change(ttl->tree, d->doc);
        if (!err)
            err = journal_will_change(ttl->tree, &d->parent->doc);
        if (err)
            return err;
        ttl_tell(ttl, event, d, timespec_ms(now));
    }
    return tree_unlink(ttl->tree, d, now);
}
