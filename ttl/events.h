/*
 * events.h - what happens to documents, told to whoever listens: `.ttlfs/events`.
 *
 * Nobody listens most of the time; then telling costs one relaxed load. Every function expects the
 * tree's lock.
 */
#ifndef TTLFS_TTL_EVENTS_H
#define TTLFS_TTL_EVENTS_H

#include "ttl/ttl.h"

#include <stdatomic.h>

/* Documents only: nothing is told of collections. */
enum ttl_event {
    TTL_EVENT_CREATED,  /* a document has got a name */
    TTL_EVENT_CHANGED,  /* its content changed, or a name has got another document */
    TTL_EVENT_DELETED,  /* a name was taken away, by whatever but expiry */
    TTL_EVENT_EXPIRED,  /* a name was taken away because its deadline had come */
    TTL_EVENT_ARCHIVED, /* it was copied to the archive; that it expired follows */
};

/* `created`, `changed`, … as they stand in the stream. */
const char *ttl_event_name(enum ttl_event event);

/* Does anybody listen? For callers who have something to prepare. */
static inline bool ttl_is_heard(const struct ttl *ttl)
{
    return atomic_load_explicit(&ttl->heard, memory_order_relaxed);
}

/* Tells of a name that has just come, or is about to go. */
static inline void ttl_tell(struct ttl *ttl, enum ttl_event event, struct dentry *d, int64_t now_ms)
{
    if (ttl_is_heard(ttl))
        ttl->tell(ttl->tell_arg, event, d, now_ms);
}

/*
 * tree_unlink that tells of a document's name; of a collection's it tells nothing.
 * Errors: -ENOMEM; nothing was told then.
 */
int ttl_unlink(struct ttl *ttl, struct dentry *d, struct timespec now, enum ttl_event event);

#endif
