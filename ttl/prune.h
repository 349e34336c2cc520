/*
 * prune.h - collections that expiry has emptied: `user.ttl.prune`.
 *
 * A collection goes when the monitor has deleted the last name in it, if `prune` is in force both in
 * it and in the collection above, and no hold is. So the collection on which the rule is set stays,
 * as does one with `prune=no` of its own, and one that was never anything but empty. What is left
 * empty above goes the same way.
 *
 * The kernel knows directories by name for a long time. So one that it knows is removed through the
 * kernel (monitor_hooks.remove), which also raises the events that rmdir raises and refuses what is
 * a mountpoint.
 */
#ifndef TTLFS_TTL_PRUNE_H
#define TTLFS_TTL_PRUNE_H

#include "ttl/monitor.h"

/* Is the collection empty, and to be removed for it? Expects the lock. */
bool prune_is_due(struct ttl *ttl, struct collection *c);

/*
 * The monitor has taken a name out of a collection: keeps it in mind, if it is to go. Expects the
 * lock. Without memory it stays.
 */
void prune_note(struct ttl *ttl, struct collection *c);

/* Removes the collections that were noted and still are to go. Expects no lock. */
void prune_run(struct ttl *ttl, const struct monitor_hooks *hooks);

#endif
