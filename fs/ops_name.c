/*
 * ops_name.c - names: lookup and forget, making and removing documents and collections.
 */
#include "fs/control.h"
#include "fs/find.h"
#include "fs/fs.h"
#include "fs/kinds.h"
#include "fs/session.h"

#include "core/document_acl.h"
#include "core/file.h"
#include "ttl/deadline.h"
#include "ttl/events.h"
#include "ttl/filing.h"
#include "ttl/monitor.h"
#include "ttl/prune.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Expired names removed per hold of the lock, when a directory is about to go. */
#define RMDIR_SLICE_DOCS 256

/* Control nodes have fixed contents: nothing is made, removed or renamed there. */
static bool refused_by_control(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    if (control_is_node(parent)) {
        fuse_reply_err(req, EPERM);
        return true;
    }
    if (find_is_name(name) || (parent == FUSE_ROOT_ID && strcmp(name, CONTROL_NAME) == 0)) {
        fuse_reply_err(req, EPERM);
        return true;
    }
    return false;
}

void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fs *fs = fs_of(req);
    struct fuse_entry_param e = {0};
    if (find_is_node(parent) || (find_is_name(name) && !control_is_node(parent))) {
        find_lookup(req, parent, name);
        return;
    }
    if (control_is_node(parent) || (parent == FUSE_ROOT_ID && strcmp(name, CONTROL_NAME) == 0)) {
        control_lookup(req, parent, name);
        return;
    }
    if (strlen(name) > DOCUMENT_NAME_MAX_BYTES) {
        fuse_reply_err(req, ENAMETOOLONG);
        return;
    }
    tree_lock(fs->tree);
    int64_t now_ms = fs_now_ms(fs);
    struct collection *c = document_collection(fs_document(fs, parent));
    struct dentry *d = tree_find(fs->tree, c, name, strlen(name));
    bool hidden = d && ttl_hidden(&fs->ttl, d, now_ms);
    bool remover = hidden && fs_is_remover(req);
    fs->ttl.metrics.hidden_accesses += hidden && !remover;
    if (d && (!hidden || remover))
        fs_fill_entry(fs, d, now_ms, &e);
    if (remover)
        e.entry_timeout = 0; /* for this caller's very next call only */
    tree_unlock(fs->tree);
    if (e.ino) {
        fs_reply_entry(req, &e, 0);
    } else if (hidden) {
        /* Not to be remembered: a larger E would bring it back. */
        fuse_reply_err(req, ENOENT);
    } else {
        e.entry_timeout = (double) FS_CACHE_MAX_MS / 1000;
        fuse_reply_entry(req, &e);
    }
}

static void forget_one(struct fs *fs, fuse_ino_t ino, uint64_t nlookup)
{
    if (find_is_node(ino))
        find_forget(fs, ino, nlookup);
    else if (ino != FUSE_ROOT_ID && !control_is_node(ino))
        document_forget(fs->tree, fs_document(fs, ino), nlookup);
}

void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup)
{
    struct fs *fs = fs_of(req);
    tree_lock(fs->tree);
    forget_one(fs, ino, nlookup);
    tree_unlock(fs->tree);
    fuse_reply_none(req);
}

void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
    struct fs *fs = fs_of(req);
    tree_lock(fs->tree);
    for (size_t i = 0; i < count; i++)
        forget_one(fs, forgets[i].ino, forgets[i].nlookup);
    tree_unlock(fs->tree);
    fuse_reply_none(req);
}

/*
 * Makes sure that a name is free: an expired document that still has it goes now. Expects the lock.
 * Errors: -EEXIST, -ENAMETOOLONG, -ENOENT (the collection was removed), -ENOMEM.
 */
static int claim_name(struct fs *fs, struct collection *c, const char *name, struct timespec now)
{
    if (strlen(name) > DOCUMENT_NAME_MAX_BYTES)
        return -ENAMETOOLONG;
    if (c->doc.nlink == 0)
        return -ENOENT;
    struct dentry *d = tree_find(fs->tree, c, name, strlen(name));
    if (!d)
        return 0;
    if (!ttl_hidden(&fs->ttl, d, timespec_ms(now)))
        return -EEXIST;
    return fs_expire(fs, d, now);
}

/*
 * The same, and room for it where the collection is capped. Lets go, when many have to make room.
 * @doc  gets the name; NULL: a new, empty one
 * Errors: also -ENOSPC, -EFBIG.
 */
static int claim_place(struct fs *fs, struct collection *c, const char *name, struct document *doc,
    struct timespec now)
{
    int err;
    do {
        err = claim_name(fs, c, name, now);
        if (!err)
            err = kinds_make_room(fs, c, doc, NULL, now);
    } while (err > 0);
    return err;
}

/* Who owns what is made in a collection: the caller, or the group of a setgid directory. */
static struct document_seed seed_for(fuse_req_t req, const struct collection *c, mode_t mode,
    dev_t rdev, const char *target, struct timespec now)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);
    struct document_seed seed = {
        .mode = mode, .uid = ctx->uid, .gid = ctx->gid, .rdev = rdev, .target = target, .now = now};
    if (c->doc.mode & S_ISGID) {
        seed.gid = c->doc.gid;
        if (S_ISDIR(mode))
            seed.mode |= S_ISGID;
    }
    return seed;
}

/* What a new document takes over from its collection, or the caller's umask. Errors: -ENOMEM. */
static int inherit(fuse_req_t req, struct document *doc, const struct collection *c)
{
    uint32_t mask = fuse_req_ctx(req)->umask;
    if (!fs_of(req)->options.noacl)
        return document_acl_inherit(doc, c, mask);
    doc->mode &= ~(mask & 0777);
    return 0;
}

/* mknod, mkdir and symlink. */
static void make(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev,
    const char *target)
{
    struct fs *fs = fs_of(req);
    struct fuse_entry_param e = {0};
    if (refused_by_control(req, parent, name))
        return;
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    struct collection *c = document_collection(fs_document(fs, parent));
    struct document_seed seed = seed_for(req, c, mode, rdev, target, now);
    struct document *doc = NULL;
    struct dentry *d;
    int tries = 0, err;
    do {
        err = S_ISDIR(mode) ? claim_name(fs, c, name, now) : claim_place(fs, c, name, NULL, now);
        if (!err)
            err = kinds_may_make(c, mode);
        if (!err)
            err = tree_make(fs->tree, &seed, &doc);
    } while (fs_room_may_come(fs, err, &tries));
    if (!err && !S_ISLNK(mode))
        err = inherit(req, doc, c);
    if (!err)
        err = tree_link(fs->tree, doc, c, name, strlen(name), now, &d);
    if (!err)
        fs_fill_entry(fs, d, timespec_ms(now), &e);
    if (!err && !S_ISDIR(mode))
        ttl_tell(&fs->ttl, TTL_EVENT_CREATED, d, timespec_ms(now));
    if (!err)
        kinds_came(fs, c, doc, now);
    if (doc)
        document_unpin(fs->tree, doc);
    tree_unlock(fs->tree);
    if (err)
        fuse_reply_err(req, -err);
    else
        fs_reply_entry(req, &e, fs_settle(fs));
}

void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
    make(req, parent, name, mode, rdev, NULL);
}

void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    make(req, parent, name, (mode & 07777) | S_IFDIR, 0, NULL);
}

void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
    make(req, parent, name, S_IFLNK | 0777, 0, target);
}

void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
    struct fs *fs = fs_of(req);
    struct fuse_entry_param e = {0};
    if (refused_by_control(req, parent, name))
        return;
    if (control_is_node(ino)) {
        fuse_reply_err(req, EPERM);
        return;
    }
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    int64_t now_ms = timespec_ms(now);
    struct collection *c = document_collection(fs_document(fs, parent));
    struct document *doc = fs_document(fs, ino);
    struct dentry *d;
    bool gone = doc->flags & DOCUMENT_REMOVED || ttl_document_hidden(&fs->ttl, doc, now_ms);
    int err = gone ? -ENOENT : kinds_admit(fs, c, doc);
    if (!err)
        err = claim_place(fs, c, name, doc, now);
    if (!err)
        err = kinds_arrive(fs, c, doc);
    if (!err)
        err = tree_link(fs->tree, doc, c, name, strlen(name), now, &d);
    if (!err) {
        kinds_came(fs, c, doc, now);
        fs_fill_entry(fs, d, now_ms, &e);
        ttl_tell(&fs->ttl, TTL_EVENT_CREATED, d, now_ms);
        /*
         * What its fields say under this collection's rules is not known before the reply is made. Its
         * other names, of which there may be a million, are not asked.
         */
        if (filing_name_wants_fields(&fs->ttl, d)) {
            e.entry_timeout = 0;
            (void) fs_look(fs, doc, now_ms);
        }
    }
    tree_unlock(fs->tree);
    if (err)
        fuse_reply_err(req, -err);
    else
        fs_reply_entry(req, &e, fs_settle(fs));
}

/* The monitor's own UNLINK and RMDIR: removes what the monitor means, if it still may go. */
static int unlink_expired(
    struct fs *fs, struct collection *c, const char *name, struct timespec now)
{
    const struct monitor_name *meant = atomic_load(&fs->monitor.removing);
    struct dentry *d = tree_find(fs->tree, c, name, strlen(name));
    if (!d || !meant || d->doc != meant->doc)
        return -ENOENT;
    if (meant->directory)
        return prune_is_due(&fs->ttl, document_collection(d->doc)) ? tree_unlink(fs->tree, d, now)
                                                                   : -ENOTEMPTY;
    if (!monitor_may_delete(&fs->ttl, d, meant, timespec_ms(now)))
        return -ENOENT;
    return monitor_delete_name(&fs->ttl, d, meant, now, NULL);
}

void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fs *fs = fs_of(req);
    if (find_is_node(parent)) {
        find_unlink(req, parent, name);
        return;
    }
    if (refused_by_control(req, parent, name))
        return;
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    struct collection *c = document_collection(fs_document(fs, parent));
    int err;
    if (fs_is_remover(req)) {
        err = unlink_expired(fs, c, name, now);
    } else {
        struct dentry *d = fs_find(fs, c, name, timespec_ms(now));
        if (!d)
            err = -ENOENT;
        else if (document_is_collection(d->doc))
            err = -EISDIR;
        else
            err = ttl_unlink(&fs->ttl, d, now, TTL_EVENT_DELETED);
    }
    bool forward = timeseries_came_forward(&fs->ttl);
    tree_unlock(fs->tree);
    if (forward)
        notifier_forget_names(&fs->notifier);
    fs_reply_done(req, -err);
}

int fs_clear_expired(struct fs *fs, struct collection *c, struct timespec now)
{
    int64_t now_ms = timespec_ms(now);
    uint64_t cookie = 0;
    struct dentry *d = names_after(&c->names, cookie);
    int err = 0;
    document_pin(&c->doc);
    for (int i = 1; d && !err; i++) {
        cookie = names_cookie(d);
        err = ttl_hidden(&fs->ttl, d, now_ms) ? fs_expire(fs, d, now) : -ENOTEMPTY;
        if (i % RMDIR_SLICE_DOCS == 0) {
            tree_unlock(fs->tree);
            tree_lock_background(fs->tree);
        }
        d = names_after(&c->names, cookie);
    }
    if (!err && c->names.count)
        err = -ENOTEMPTY;
    document_unpin(fs->tree, &c->doc);
    return err;
}

void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fs *fs = fs_of(req);
    if (refused_by_control(req, parent, name))
        return;
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    struct collection *c = document_collection(fs_document(fs, parent));
    bool remover = fs_is_remover(req);
    struct dentry *d = fs_find(fs, c, name, timespec_ms(now));
    int err = !d ? -ENOENT : !document_is_collection(d->doc) ? -ENOTDIR : 0;
    if (!err && remover)
        err = unlink_expired(fs, c, name, now);
    else if (!err)
        err = fs_clear_expired(fs, document_collection(d->doc), now);
    if (!err && !remover) {
        /* Looked up again: the lock may have been let go. */
        d = tree_find(fs->tree, c, name, strlen(name));
        err = d ? tree_unlink(fs->tree, d, now) : -ENOENT;
    }
    tree_unlock(fs->tree);
    fs_reply_done(req, -err);
}

/* Opens a document that was just made; takes its pin over. Expects the lock. */
static int open_new(struct fs *fs, struct document *doc, struct fuse_file_info *fi)
{
    struct handle *handle = fs_handle_new(fs, doc, fi->flags);
    if (!handle)
        return -ENOMEM;
    handle->creator = true;
    fi->fh = (uint64_t) (uintptr_t) handle;
    fs_set_open_flags(fs, doc, fi);
    return 0;
}

/* An entry for a document without a name: O_TMPFILE. */
static void fill_tmpfile(struct fs *fs, struct document *doc, struct fuse_entry_param *e)
{
    e->ino = fs_nodeid(fs, doc);
    e->attr_timeout = (double) FS_CACHE_MAX_MS / 1000;
    fs_stat(fs, doc, &e->attr);
    doc->nlookup++;
    /* Found by tree_free, should the session end before the descriptor is closed. */
    (void) btree_insert(&fs->tree->orphans, (int64_t) doc->ino, doc);
}

void op_create(
    fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    struct fuse_entry_param e = {0};
    bool tmpfile = strcmp(name, SESSION_TMPFILE_NAME) == 0;
    if (refused_by_control(req, parent, name))
        return;
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    struct collection *c = document_collection(fs_document(fs, parent));
    struct document_seed seed = seed_for(req, c, (mode & 07777) | S_IFREG, 0, NULL, now);
    struct document *doc = NULL;
    struct dentry *d = NULL;
    int tries = 0, err;
    do {
        err = tmpfile ? 0 : claim_place(fs, c, name, NULL, now);
        if (!err)
            err = tree_make(fs->tree, &seed, &doc);
    } while (fs_room_may_come(fs, err, &tries));
    if (!err)
        err = inherit(req, doc, c);
    if (!err && !tmpfile)
        err = tree_link(fs->tree, doc, c, name, strlen(name), now, &d);
    if (!err)
        err = open_new(fs, doc, fi);
    if (!err && tmpfile)
        fill_tmpfile(fs, doc, &e);
    else if (!err)
        fs_fill_entry(fs, d, timespec_ms(now), &e);
    if (!err && d)
        ttl_tell(&fs->ttl, TTL_EVENT_CREATED, d, timespec_ms(now));
    if (err && d)
        (void) tree_unlink(fs->tree, d, now);
    else if (d)
        kinds_came(fs, c, doc, now);
    if (err && doc)
        document_unpin(fs->tree, doc);
    tree_unlock(fs->tree);
    if (err) {
        fuse_reply_err(req, -err);
        return;
    }
    err = fs_settle(fs);
    if (err)
        fuse_reply_err(req, err);
    if (err || fuse_reply_create(req, &e, fi) != 0) {
        /* The caller is gone: no RELEASE and no FORGET will come. */
        tree_lock(fs->tree);
        fs_handle_free(fs, fs_handle(fi));
        document_forget(fs->tree, doc, 1);
        tree_unlock(fs->tree);
    }
}
