/*
 * ops_xattr.c - extended attributes: rules, fields of documents, and everybody else's.
 */
#include "core/acl.h"
#include "fs/access.h"
#include "fs/control.h"
#include "fs/find.h"
#include "fs/fs.h"
#include "fs/kinds.h"
#include "fs/ops_acl.h"

#include "ttl/deadline.h"
#include "ttl/limbo.h"
#include "ttl/rules.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

/*
 * Is this an attribute of a kind that is kept as it is? Access control lists are not among them.
 * Errors: -EOPNOTSUPP, -EINVAL (nothing behind the kind's name).
 */
static int check_name(const char *name)
{
    static const char *const kinds[] = {"user.", "trusted.", "security."};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t len = strlen(kinds[i]);
        if (strncmp(name, kinds[i], len) == 0)
            return name[len] ? 0 : -EINVAL;
    }
    return -EOPNOTSUPP;
}

static int set_plain(struct fs *fs, struct document *doc, const char *name, const char *value,
    size_t size, int flags)
{
    bool there = document_xattr(doc, name) != NULL;
    if (flags & XATTR_CREATE && there)
        return -EEXIST;
    if (flags & XATTR_REPLACE && !there)
        return -ENODATA;
    int err = journal_will_change(fs->tree, doc);
    if (err)
        return err;
    struct xattr *x = xattr_new(name, value, size);
    if (!x)
        return -ENOMEM;
    document_xattr_put(doc, x);
    return 0;
}

static int remove_plain(struct fs *fs, struct document *doc, const char *name)
{
    if (!document_xattr(doc, name))
        return -ENODATA;
    int err = journal_will_change(fs->tree, doc);
    if (!err)
        (void) document_xattr_remove(doc, name);
    return err;
}

/* A rule of a collection is about to change: keeps what it was. Expects the lock. */
static void config_begin(
    fuse_req_t req, const struct document *doc, const char *name, struct profile_change *change)
{
    const struct xattr *x = document_is_collection(doc) ? document_xattr(doc, name) : NULL;
    profile_change_begin(change, req, x ? xattr_value(x) : NULL, x ? x->value_len : 0);
}

/* It has changed, or not. Expects the lock. */
static void config_end(
    struct fs *fs, struct document *doc, const char *name, int err, struct profile_change *change)
{
    const struct xattr *x = document_xattr(doc, name);
    if (!err && document_is_collection(doc) &&
        strncmp(name, TTL_XATTR_PREFIX, sizeof TTL_XATTR_PREFIX - 1) == 0)
        profile_changed(fs, change, document_collection(doc), name, x ? xattr_value(x) : NULL,
            x ? x->value_len : 0);
    else
        profile_change_release(change);
}

/* Replies to a change of a rule; the kernel hears of deadlines that it brought forward. */
static void reply_change(fuse_req_t req, struct document *doc, int err, bool forward)
{
    struct fs *fs = fs_of(req);
    if (forward)
        fs_deadline_came_forward(fs, doc);
    if (!err)
        err = -fs_settle(fs);
    fuse_reply_err(req, -err);
}

/* A rule cannot bring back what has expired, not even through an open descriptor. */
static bool is_gone_for(struct fs *fs, struct document *doc, const char *name, int64_t now_ms)
{
    return rules_own(name) ? ttl_document_hidden(&fs->ttl, doc, now_ms) : fs_gone(fs, doc, now_ms);
}

void op_setxattr(
    fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
    struct fs *fs = fs_of(req);
    struct reason why = {0};
    bool forward = false;
    if (acl_is_name(name)) {
        op_acl_set(req, ino, name, value, size);
        return;
    }
    int err = control_is_node(ino) ? -EOPNOTSUPP : check_name(name);
    if (err) {
        fuse_reply_err(req, -err);
        return;
    }
    struct document *doc = fs_document(fs, ino);
    struct caller caller;
    caller_init(&caller, req);
    if (rules_own(name))
        caller_prepare(&caller, req, doc);
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    if (is_gone_for(fs, doc, name, timespec_ms(now))) {
        err = -ENOENT;
    } else if (!document_xattr_fits(doc, name, size)) {
        err = -ENOSPC;
    } else if (rules_own(name)) {
        struct profile_change change;
        document_pin(doc);
        config_begin(req, doc, name, &change);
        err = access_check_rule(fs, &caller, doc, name, value, size, timespec_ms(now), &why);
        if (!err)
            kinds_prepare(fs, doc, name, now);
        if (!err)
            err = rules_set(
                &fs->ttl, doc, name, value, size, flags, timespec_ms(now), &forward, &why);
        config_end(fs, doc, name, err, &change);
        if (err)
            fs_note_refusal(doc, &why);
        else if (strcmp(name, TTL_XATTR_PREFIX "capped") == 0)
            kinds_trim(fs, document_collection(doc));
        forward |= timeseries_came_forward(&fs->ttl);
        document_unpin(fs->tree, doc);
    } else {
        err = set_plain(fs, doc, name, value, size, flags);
    }
    if (!err && journal_will_change(fs->tree, doc) == 0)
        document_set_ctime(doc, now);
    tree_unlock(fs->tree);
    caller_release(&caller);
    reply_change(req, doc, err, forward);
}

void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    struct fs *fs = fs_of(req);
    struct reason why = {0};
    bool forward = false;
    if (acl_is_name(name)) {
        op_acl_remove(req, ino, name);
        return;
    }
    int err = control_is_node(ino) ? -EOPNOTSUPP : check_name(name);
    if (err) {
        fuse_reply_err(req, -err);
        return;
    }
    struct document *doc = fs_document(fs, ino);
    struct caller caller;
    caller_init(&caller, req);
    if (rules_own(name))
        caller_prepare(&caller, req, doc);
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    if (is_gone_for(fs, doc, name, timespec_ms(now))) {
        err = -ENOENT;
    } else if (rules_own(name)) {
        struct profile_change change;
        document_pin(doc);
        config_begin(req, doc, name, &change);
        err = access_check_rule(fs, &caller, doc, name, NULL, 0, timespec_ms(now), &why);
        if (!err)
            kinds_prepare(fs, doc, name, now);
        if (!err)
            err = rules_may_end(doc, name, &why);
        if (err)
            fs_note_refusal(doc, &why);
        else
            err = rules_remove(&fs->ttl, doc, name, timespec_ms(now), &forward);
        config_end(fs, doc, name, err, &change);
        forward |= timeseries_came_forward(&fs->ttl);
        document_unpin(fs->tree, doc);
    } else {
        err = remove_plain(fs, doc, name);
    }
    if (!err && journal_will_change(fs->tree, doc) == 0)
        document_set_ctime(doc, now);
    tree_unlock(fs->tree);
    caller_release(&caller);
    reply_change(req, doc, err, forward);
}

/* Replies with a value, or with its length when the caller only asks for that. */
static void reply_value(fuse_req_t req, const void *value, size_t len, size_t size)
{
    if (size == 0)
        fuse_reply_xattr(req, len);
    else if (len > size)
        fuse_reply_err(req, ERANGE);
    else
        fuse_reply_buf(req, value, len);
}

void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    struct fs *fs = fs_of(req);
    char *value = NULL;
    size_t len = 0;
    if (acl_is_name(name)) {
        op_acl_get(req, ino, name, size);
        return;
    }
    int err = check_name(name);
    /* Why a filter was refused is told where it was asked, too. */
    bool query = find_is_node(ino) && strcmp(name, TTL_XATTR_PREFIX "error") == 0;
    if (err || (control_is_node(ino) && !query)) {
        fuse_reply_err(req, err ? -err : ENODATA);
        return;
    }
    tree_lock(fs->tree);
    int64_t now_ms = fs_now_ms(fs);
    struct document *doc = query ? find_document(ino) : fs_document(fs, ino);
    if (fs_gone(fs, doc, now_ms)) {
        err = -ENOENT;
    } else if (strncmp(name, TTL_XATTR_PREFIX, sizeof TTL_XATTR_PREFIX - 1) == 0) {
        err = rules_get(&fs->ttl, doc, name, now_ms, &value, &len);
    } else {
        const struct xattr *x = document_xattr(doc, name);
        len = x ? x->value_len : 0;
        value = x ? malloc(len + 1) : NULL;
        err = !x ? -ENODATA : !value ? -ENOMEM : 0;
        if (!err)
            memcpy(value, xattr_value(x), len);
    }
    tree_unlock(fs->tree);
    if (err)
        fuse_reply_err(req, -err);
    else
        reply_value(req, value, len, size);
    free(value);
}

void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
    struct fs *fs = fs_of(req);
    size_t len = 0, at = 0;
    if (control_is_node(ino)) {
        reply_value(req, "", 0, size);
        return;
    }
    tree_lock(fs->tree);
    struct document *doc = fs_document(fs, ino);
    int err = fs_gone(fs, doc, fs_now_ms(fs)) ? ENOENT : 0;
    bool root = fuse_req_ctx(req)->uid == 0;
    for (const struct xattr *x = doc->xattrs; x; x = x->next)
        len += x->name_len + 1U;
    char *names = len ? malloc(len) : NULL;
    if (len && !names)
        err = ENOMEM;
    for (const struct xattr *x = doc->xattrs; x && names && !err; x = x->next) {
        /* As every filesystem: trusted attributes are not there for anybody else. */
        if (!root && strncmp(x->bytes, "trusted.", 8) == 0)
            continue;
        if (strncmp(x->bytes, DOCUMENT_NOTE_PREFIX, sizeof DOCUMENT_NOTE_PREFIX - 1) == 0 ||
            (fs->options.noacl && acl_is_name(x->bytes)))
            continue;
        memcpy(names + at, x->bytes, x->name_len + 1U);
        at += x->name_len + 1U;
    }
    tree_unlock(fs->tree);
    if (err)
        fuse_reply_err(req, err);
    else
        reply_value(req, names ? names : "", at, size);
    free(names);
}
