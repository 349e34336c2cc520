#include "fs/ops_acl.h"

#include "core/acl.h"
#include "core/document_acl.h"
#include "fs/caller.h"
#include "fs/control.h"
#include "fs/find.h"
#include "fs/fs.h"
#include "fs/session.h"

#include <errno.h>
#include <string.h>

/* Larger lists are refused by the kernel, whose own buffer is a page (kernel 6.18). */
#define ACL_MAX_BYTES 4096

/*
 * Replies to a change. A kernel that checks lists throws away what it knew of the file's mode; one
 * that does not has to be told. It takes no lock for that which anybody could hold who waits for us.
 */
static void reply_changed(fuse_req_t req, fuse_ino_t ino, int err, bool mode_changed)
{
    struct fs *fs = fs_of(req);
    if (!err && mode_changed)
        (void) fuse_lowlevel_notify_inval_inode(fs->session, ino, -1, 0);
    fs_reply_done(req, -err);
}

void op_acl_set(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size)
{
    struct fs *fs = fs_of(req);
    if (control_is_node(ino) || fs->options.noacl) {
        fuse_reply_err(req, EOPNOTSUPP);
        return;
    }
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    struct document *doc = fs_document(fs, ino);
    uint32_t mode = doc->mode;
    int err = fs_gone(fs, doc, timespec_ms(now)) ? -ENOENT : S_ISLNK(mode) ? -EOPNOTSUPP : 0;
    if (!err && size > ACL_MAX_BYTES)
        err = -E2BIG;
    if (!err)
        err = journal_will_change(fs->tree, doc);
    if (!err)
        err = document_acl_set(doc, name, value, size);
    if (!err) {
        if (session_clears_setgid() && strcmp(name, ACL_ACCESS_XATTR) == 0)
            doc->mode &= ~(uint32_t) S_ISGID;
        document_set_ctime(doc, now);
    }
    bool mode_changed = doc->mode != mode;
    tree_unlock(fs->tree);
    reply_changed(req, ino, err, mode_changed);
}

/*
 * Does the removal of an access list clear setgid, as its setting does? The kernel tells us only of
 * the latter.
 */
static bool clears_setgid(const struct document *doc, const struct caller *caller)
{
    return doc->mode & S_ISGID && !caller_in_group(caller, doc->gid) &&
           !caller_can(caller, CALLER_FSETID);
}

void op_acl_remove(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    struct fs *fs = fs_of(req);
    struct caller caller;
    if (control_is_node(ino) || fs->options.noacl) {
        fuse_reply_err(req, EOPNOTSUPP);
        return;
    }
    caller_init(&caller, req);
    caller_load(&caller, req);
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    struct document *doc = fs_document(fs, ino);
    uint32_t mode = doc->mode;
    int err = fs_gone(fs, doc, timespec_ms(now)) ? -ENOENT : S_ISLNK(mode) ? -EOPNOTSUPP : 0;
    if (!err)
        err = journal_will_change(fs->tree, doc);
    if (!err) {
        /* That there was none is no error, and the rest happens all the same, as on tmpfs. */
        (void) document_xattr_remove(doc, name);
        if (strcmp(name, ACL_ACCESS_XATTR) == 0 && clears_setgid(doc, &caller))
            doc->mode &= ~(uint32_t) S_ISGID;
        document_set_ctime(doc, now);
    }
    bool mode_changed = doc->mode != mode;
    tree_unlock(fs->tree);
    caller_release(&caller);
    reply_changed(req, ino, err, mode_changed);
}

void op_acl_get(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    struct fs *fs = fs_of(req);
    char value[ACL_MAX_BYTES];
    size_t len = 0;
    /* For control nodes too: the kernel asks when it checks a permission, and takes errors for its own. */
    int err = fs->options.noacl ? EOPNOTSUPP : ENODATA;
    if ((!control_is_node(ino) || find_is_node(ino)) && !fs->options.noacl) {
        tree_lock(fs->tree);
        struct document *doc = find_is_node(ino) ? find_document(ino) : fs_document(fs, ino);
        const struct xattr *x = doc->flags & DOCUMENT_ACL ? document_xattr(doc, name) : NULL;
        /* ESTALE makes the kernel look the name up again: see op_open. */
        if (fs_gone(fs, doc, fs_now_ms(fs)))
            err = ESTALE;
        else if (x && x->value_len <= sizeof value) {
            err = 0;
            len = x->value_len;
            memcpy(value, xattr_value(x), len);
        }
        tree_unlock(fs->tree);
    }
    if (err)
        fuse_reply_err(req, err);
    else if (size == 0)
        fuse_reply_xattr(req, len);
    else if (len > size)
        fuse_reply_err(req, ERANGE);
    else
        fuse_reply_buf(req, value, len);
}
