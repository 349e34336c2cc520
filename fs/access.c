#include "fs/access.h"

#include "ttl/guard.h"
#include "ttl/rules.h"

#include <errno.h>
#include <string.h>

/*
 * Does it depend on the caller's supplementary groups whether he could delete this name? Not for the
 * directory's owner, and not where the group may do what others may.
 */
static bool depends_on_groups(const struct caller *caller, const struct dentry *d)
{
    const struct document *dir = &d->parent->doc;
    unsigned int differing = (dir->mode ^ dir->mode >> 3) & (MAY_WRITE | MAY_EXECUTE);
    return caller->uid != dir->uid && (differing || dir->flags & DOCUMENT_ACL) &&
           !(dir->mode & S_ISVTX && caller->uid != d->doc->uid);
}

bool access_may_unlink(const struct caller *caller, const struct dentry *d)
{
    return caller->uid == 0 || document_removable(d->parent, d->doc, caller);
}

void caller_prepare(struct caller *caller, fuse_req_t req, struct document *doc)
{
    struct fs *fs = fs_of(req);
    bool depends = false;
    if (caller->uid == 0 || caller->loaded)
        return;
    tree_lock(fs->tree);
    const struct dentry *d = document_is_collection(doc) ? NULL : doc->links;
    for (; d && !depends; d = d->link_next)
        depends = depends_on_groups(caller, d);
    tree_unlock(fs->tree);
    if (depends)
        caller_load(caller, req);
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
