#include "fs/privileges.h"

#include "fs/fs.h"
#include "fs/session.h"

#include <sys/stat.h>

/* More groups than this count as not being in the file's: the bit goes, which is the safe side. */
#define GROUPS_MAX 1024

static bool has_any(const struct document *doc)
{
    return !S_ISDIR(doc->mode) && (doc->mode & (S_ISUID | S_ISGID) || doc->xattrs);
}

/* Asks /proc, so only where a mode without group execution makes it matter. */
static bool caller_is_in_group(fuse_req_t req, uint32_t gid)
{
    gid_t groups[GROUPS_MAX];
    if (fuse_req_ctx(req)->gid == gid)
        return true;
    int n = fuse_req_getgroups(req, GROUPS_MAX, groups);
    for (int i = 0; i < n && i < GROUPS_MAX; i++)
        if (groups[i] == gid)
            return true;
    return false;
}

/*
 * Set-group-ID without group execution is a mark for mandatory locks of old: it stays, for members
 * of the group.
 */
static void drop_ids(fuse_req_t req, struct document *doc)
{
    if (doc->mode & S_ISGID && (doc->mode & S_IXGRP || !caller_is_in_group(req, doc->gid)))
        doc->mode &= ~(uint32_t) S_ISGID;
    doc->mode &= ~(uint32_t) S_ISUID;
}

static void drop_capabilities(struct document *doc)
{
    if (doc->xattrs)
        (void) document_xattr_remove(doc, "security.capability");
}

bool privileges_after_write(fuse_req_t req, struct document *doc)
{
    uint32_t mode = doc->mode;
    if (!has_any(doc))
        return false;
    /* Capabilities go whoever writes. */
    if (session_has_killpriv())
        drop_capabilities(doc);
    if (session_kills_privileges())
        drop_ids(req, doc);
    return doc->mode != mode;
}

bool privileges_after_fallocate(fuse_req_t req, struct document *doc)
{
    uint32_t mode = doc->mode;
    if (!has_any(doc) || !session_has_killpriv())
        return false;
    drop_capabilities(doc);
    /* Root is who has CAP_FSETID. */
    if (fuse_req_ctx(req)->uid != 0)
        drop_ids(req, doc);
    return doc->mode != mode;
}

void privileges_before_chown(fuse_req_t req, struct document *doc)
{
    if (!has_any(doc) || !session_has_killpriv())
        return;
    drop_capabilities(doc);
    uint32_t mode = doc->mode;
    drop_ids(req, doc);
    /* Set-user-ID goes whoever calls; a lone set-group-ID stays for root, too. */
    if (fuse_req_ctx(req)->uid == 0 && !(mode & S_IXGRP))
        doc->mode |= mode & S_ISGID;
}

bool privileges_are_strange(const struct caller *caller, const struct document *doc)
{
    if (S_ISDIR(doc->mode) || caller->uid == doc->uid || caller_can(caller, CALLER_FOWNER))
        return false;
    bool member = caller_in_group(caller, doc->gid) || caller_can(caller, CALLER_FSETID);
    return doc->mode & S_ISUID || (doc->mode & S_ISGID && (doc->mode & S_IXGRP || !member));
}

void privileges_tell(fuse_req_t req, fuse_ino_t ino)
{
    /* Takes no lock in the kernel that a writer might hold. */
    (void) fuse_lowlevel_notify_inval_inode(fs_of(req)->session, ino, -1, 0);
}
