#include "fs/access.h"

#include "ttl/guard.h"
#include "ttl/rules.h"

#include <errno.h>
#include <string.h>

/* Of the permission bits for others, x is 1, w is 2. */
#define MAY_CHANGE_NAMES 3U

enum answer { NO, YES, DEPENDS }; /* on the supplementary groups */

void caller_init(struct caller *caller, fuse_req_t req)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);
    caller->uid = ctx->uid;
    caller->gid = ctx->gid;
    caller->groups_known = false;
    caller->ngroups = 0;
}

static void load_groups(struct caller *caller, fuse_req_t req)
{
    int n = fuse_req_getgroups(req, CALLER_GROUPS, caller->groups);
    /* A process that cannot be asked has no groups: that only forbids. */
    caller->ngroups = n < 0 ? 0 : n < CALLER_GROUPS ? n : CALLER_GROUPS;
    caller->groups_known = true;
}

static enum answer in_group(const struct caller *caller, gid_t gid)
{
    if (caller->gid == gid)
        return YES;
    for (int i = 0; i < caller->ngroups; i++)
        if (caller->groups[i] == gid)
            return YES;
    return caller->groups_known ? NO : DEPENDS;
}

/* May the caller add and remove names in a directory, the sticky bit aside? */
static enum answer may_change_names(const struct caller *caller, const struct document *dir)
{
    bool as_group = (dir->mode >> 3 & MAY_CHANGE_NAMES) == MAY_CHANGE_NAMES;
    bool as_other = (dir->mode & MAY_CHANGE_NAMES) == MAY_CHANGE_NAMES;
    if (caller->uid == dir->uid)
        return (dir->mode >> 6 & MAY_CHANGE_NAMES) == MAY_CHANGE_NAMES ? YES : NO;
    if (as_group == as_other)
        return as_group ? YES : NO;
    enum answer member = in_group(caller, dir->gid);
    if (member == DEPENDS)
        return DEPENDS;
    return (member == YES ? as_group : as_other) ? YES : NO;
}

static enum answer may_unlink(const struct caller *caller, const struct dentry *d)
{
    const struct document *dir = &d->parent->doc;
    if (caller->uid == 0)
        return YES;
    if (dir->mode & S_ISVTX && caller->uid != dir->uid && caller->uid != d->doc->uid)
        return NO;
    return may_change_names(caller, dir);
}

bool access_may_unlink(const struct caller *caller, const struct dentry *d)
{
    return may_unlink(caller, d) == YES;
}

void caller_prepare(struct caller *caller, fuse_req_t req, struct document *doc)
{
    struct fs *fs = fs_of(req);
    bool depends = false;
    if (caller->uid == 0 || caller->groups_known)
        return;
    tree_lock(fs->tree);
    const struct dentry *d = document_is_collection(doc) ? NULL : doc->links;
    for (; d && !depends; d = d->link_next)
        depends = may_unlink(caller, d) == DEPENDS;
    tree_unlock(fs->tree);
    if (depends)
        load_groups(caller, req);
}

static bool may_unlink_all(const struct caller *caller, const struct document *doc)
{
    for (const struct dentry *d = doc->links; d; d = d->link_next)
        if (!access_may_unlink(caller, d))
            return false;
    return true;
}

int access_check_rule(struct fs *fs, const struct caller *caller, struct document *doc,
    const char *name, const char *value, size_t size, int64_t now_ms, struct reason *why)
{
    if (caller->uid == 0)
        return 0;
    if (document_is_collection(doc)) {
        bool rule = strncmp(name, TTL_XATTR_PREFIX, sizeof TTL_XATTR_PREFIX - 1) == 0;
        if (rule && caller->uid != doc->uid)
            return reason_set(why, EPERM, "the rules of a directory are its owner's to set");
        return 0;
    }
    if (may_unlink_all(caller, doc))
        return 0;
    return guard_check(&fs->ttl, doc, name, value, size, now_ms, why);
}
