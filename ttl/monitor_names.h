/*
 * monitor_names.h - names of a monitor's slice that cannot simply be deleted under the lock: those
 * to be archived first, those to be removed through the kernel, and collections that expiry emptied.
 */
#ifndef TTLFS_TTL_MONITOR_NAMES_H
#define TTLFS_TTL_MONITOR_NAMES_H

#include "ttl/monitor.h"

/*
 * Must an expired name go the long way? Then fills in what monitor_names_settle needs and pins the
 * documents. Expects the lock.
 */
bool monitor_name_add(struct ttl *ttl, const struct monitor_hooks *hooks, struct dentry *d,
    struct monitor_name *name);

/*
 * Archives what has to be archived, has the kernel remove what somebody watches, and deletes the
 * rest; what the kernel would not remove (a directory that the mount's owner may not write to, say)
 * is deleted directly. What could not be archived stays and is counted. Ends the names' pins.
 * Expects no lock.
 */
void monitor_names_settle(struct ttl *ttl, const struct monitor_hooks *hooks,
    struct monitor_pass *pass, struct monitor_name *names, size_t n);

#endif
