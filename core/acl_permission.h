/*
 * acl_permission.h - may a caller read, write or search a document? The kernel's own check
 * (generic_permission there), for what the kernel cannot check for us.
 */
#ifndef TTLFS_CORE_ACL_PERMISSION_H
#define TTLFS_CORE_ACL_PERMISSION_H

#include "core/document.h"

enum { MAY_EXECUTE = 1, MAY_WRITE = 2, MAY_READ = 4 };

/* Capabilities, by their numbers in <linux/capability.h>. */
enum {
    CALLER_DAC_OVERRIDE = 1,
    CALLER_DAC_READ_SEARCH = 2,
    CALLER_FOWNER = 3,
    CALLER_FSETID = 4,
};

/* Who calls. */
struct caller {
    uint32_t uid, gid;
    uint64_t capabilities; /* effective ones, bit by number */
    uint32_t *groups;      /* supplementary groups: malloc'd, NULL for none */
    size_t ngroups;
    bool loaded; /* groups and capabilities are known */
};

/* Frees what a caller holds. */
void caller_release(struct caller *caller);

static inline bool caller_can(const struct caller *caller, unsigned int capability)
{
    return caller->capabilities >> capability & 1;
}

/* Is this the caller's group, or one of the supplementary ones? */
bool caller_in_group(const struct caller *caller, uint32_t gid);

/*
 * Has the caller all the permissions of `want` (MAY_…) for a document: by its access control list,
 * its mode, or capabilities? Expects the tree's lock.
 */
bool document_permits(const struct document *doc, const struct caller *caller, unsigned int want);

/*
 * May the caller take away this name: write and search the collection, and, where that is sticky,
 * own the document or the collection? Expects the tree's lock.
 */
bool document_removable(
    const struct collection *parent, const struct document *doc, const struct caller *caller);

#endif
