/*
 * ops_attr.c - attributes: getattr, setattr, readlink, statfs.
 */
#include "fs/access_time.h"
#include "fs/control.h"
#include "fs/fs.h"
#include "fs/kinds.h"
#include "fs/privileges.h"
#include "fs/statx.h"

#include "core/document_acl.h"
#include "core/file.h"
#include "core/store.h"
#include "ttl/deadline.h"
#include "ttl/events.h"
#include "ttl/filing.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define ATTR_TIMEOUT_S ((double) FS_CACHE_MAX_MS / 1000)

void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    struct stat st;
    (void) fi;
    if (control_is_node(ino)) {
        control_getattr(req, ino);
        return;
    }
    tree_lock(fs->tree);
    struct document *doc = fs_document(fs, ino);
    bool gone = fs_gone(fs, doc, fs_now_ms(fs));
    if (!gone) {
        fs_stat(fs, doc, &st);
        statx_set_birth(doc->created_ms);
    }
    tree_unlock(fs->tree);
    if (gone)
        fuse_reply_err(req, ENOENT);
    else
        fuse_reply_attr(req, &st, ATTR_TIMEOUT_S);
}

static int set_size(struct fs *fs, struct document *doc, uint64_t size, const struct handle *handle,
    struct timespec now, bool *ret_times)
{
    if (document_is_collection(doc))
        return -EISDIR;
    if (!S_ISREG(doc->mode))
        return -EINVAL;
    int err = file_open(fs->tree, doc);
    if (err)
        return err;
    bool nothing = size == doc->size && document_pages(doc) == 0;
    if (doc->flags & DOCUMENT_CAPPED)
        err = kinds_grow(fs, doc, size, now);
    if (!err)
        err = file_truncate(fs->tree, doc, size);
    /* As tmpfs: truncate(2) to the size that it has, of a file without pages, leaves the times alone. */
    if (!err && nothing && !handle)
        *ret_times = false;
    if (!err) {
        if (doc->flags & DOCUMENT_CAPPED)
            kinds_grew(fs, doc, now);
        filing_written(&fs->ttl, doc, timespec_ms(now), handle && handle->creator);
        if (*ret_times)
            document_set_mtime(doc, now);
    }
    document_unpin(fs->tree, doc);
    return err;
}

static void set_times(
    struct document *doc, const struct stat *attr, int to_set, struct timespec now)
{
    if (to_set & FUSE_SET_ATTR_ATIME)
        document_set_atime(doc, to_set & FUSE_SET_ATTR_ATIME_NOW ? now : attr->st_atim);
    if (to_set & FUSE_SET_ATTR_MTIME)
        document_set_mtime(doc, to_set & FUSE_SET_ATTR_MTIME_NOW ? now : attr->st_mtim);
}

/*
 * A chown that changes nothing arrives as an empty request. So does the kernel's wish to drop the
 * privileges of a file that somebody is about to change, which the change itself sees to; the file is
 * open then.
 */
static bool is_chown(fuse_req_t req, const struct document *doc, int to_set)
{
    uid_t caller = fuse_req_ctx(req)->uid;
    if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
        return !(to_set & FUSE_SET_ATTR_MODE);
    return to_set == 0 && (caller == 0 || caller == doc->uid);
}

/* The empty request of somebody who has it open may be either; of anybody else it is a chown. */
static int may_set_nothing(const struct caller *caller, const struct document *doc)
{
    return doc->nopen || !privileges_are_strange(caller, doc) ? 0 : -EPERM;
}

static void set_owner_and_mode(
    fuse_req_t req, struct document *doc, const struct stat *attr, int to_set)
{
    if (is_chown(req, doc, to_set))
        privileges_before_chown(req, doc);
    if (to_set & FUSE_SET_ATTR_UID)
        doc->uid = attr->st_uid;
    if (to_set & FUSE_SET_ATTR_GID)
        doc->gid = attr->st_gid;
    if (to_set & FUSE_SET_ATTR_MODE)
        document_chmod(doc, attr->st_mode);
    if (to_set & FUSE_SET_ATTR_SIZE)
        (void) privileges_after_write(req, doc); /* the reply tells */
}

/* Fails, if at all, before anything but the size was changed. Expects the lock; lets go. */
static int change(fuse_req_t req, struct document *doc, const struct stat *attr, int to_set,
    const struct handle *handle, struct timespec now)
{
    struct fs *fs = fs_of(req);
    int err = 0;
    bool times = true;
    if (to_set & FUSE_SET_ATTR_SIZE)
        err = set_size(fs, doc, (uint64_t) attr->st_size, handle, now, &times);
    if (!err)
        err = journal_will_change(fs->tree, doc);
    if (err)
        return err;
    set_owner_and_mode(req, doc, attr, to_set);
    set_times(doc, attr, to_set, now);
    if (times)
        document_set_ctime(doc, to_set & FUSE_SET_ATTR_CTIME ? attr->st_ctim : now);
    return 0;
}

void op_setattr(
    fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    struct stat st;
    if (control_is_node(ino)) {
        /* O_TRUNC of `echo >` is all that may be set. */
        if (to_set & ~(FUSE_SET_ATTR_SIZE | FUSE_SET_ATTR_CTIME | FUSE_SET_ATTR_MTIME |
                         FUSE_SET_ATTR_MTIME_NOW) ||
            !(to_set & FUSE_SET_ATTR_SIZE))
            fuse_reply_err(req, EPERM);
        else
            control_getattr(req, ino);
        return;
    }
    struct handle *handle = fi ? fs_handle(fi) : NULL;
    struct caller caller;
    caller_init(&caller, req);
    if (to_set == 0)
        caller_load(&caller, req);
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    struct document *doc = fs_document(fs, ino);
    /* A truncation without a descriptor is by path; other changes may be through one. */
    bool by_path = to_set & FUSE_SET_ATTR_SIZE && !handle;
    int64_t now_ms = timespec_ms(now);
    int err = 0;
    if (by_path ? ttl_document_hidden(&fs->ttl, doc, now_ms) : fs_gone(fs, doc, now_ms))
        err = -ENOENT;
    if (!err && to_set == 0)
        err = may_set_nothing(&caller, doc);
    document_pin(doc);
    if (!err)
        err = change(req, doc, attr, to_set, handle, now);
    if (!err && handle && to_set & FUSE_SET_ATTR_SIZE)
        handle->wrote = true;
    bool forward = !err && by_path && fs_look(fs, doc, now_ms);
    forward |= timeseries_came_forward(&fs->ttl);
    if (!err && by_path && doc->links)
        ttl_tell(&fs->ttl, TTL_EVENT_CHANGED, doc->links, now_ms);
    fs_stat(fs, doc, &st);
    document_unpin(fs->tree, doc);
    tree_unlock(fs->tree);
    caller_release(&caller);
    if (forward)
        notifier_forget_names(&fs->notifier);
    if (!err)
        err = -fs_settle(fs);
    if (err)
        fuse_reply_err(req, -err);
    else
        fuse_reply_attr(req, &st, ATTR_TIMEOUT_S);
}

void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
    struct fs *fs = fs_of(req);
    char target[4096 + 1];
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    struct document *doc = control_is_node(ino) ? NULL : fs_document(fs, ino);
    int err = 0;
    if (!doc || !S_ISLNK(doc->mode) || doc->size >= sizeof target)
        err = EINVAL;
    else if (fs_gone(fs, doc, timespec_ms(now)))
        err = ENOENT;
    if (!err) {
        memcpy(target, doc->data, doc->size);
        target[doc->size] = '\0';
        /* Reading a link is access. */
        filing_accessed(&fs->ttl, doc, timespec_ms(now), false);
        access_time_touch(fs, doc, now);
    }
    tree_unlock(fs->tree);
    if (err)
        fuse_reply_err(req, err);
    else
        fuse_reply_readlink(req, target);
}

/* Room as tmpfs shows it with size=; without a limit, that of the store's filesystem. */
static void space(struct fs *fs, struct statvfs *st)
{
    int64_t used = atomic_load(&fs->tree->budget.used_pages);
    int64_t max = fs->tree->budget.max_pages;
    struct statvfs below;
    st->f_bsize = st->f_frsize = CONTENT_PAGE_BYTES;
    if (max) {
        st->f_blocks = (fsblkcnt_t) max;
        st->f_bfree = st->f_bavail = (fsblkcnt_t) (used < max ? max - used : 0);
    } else if (fs->store && store_statvfs(fs->store, &below) == 0) {
        st->f_blocks = below.f_blocks * below.f_frsize / CONTENT_PAGE_BYTES;
        st->f_bfree = below.f_bfree * below.f_frsize / CONTENT_PAGE_BYTES;
        st->f_bavail = below.f_bavail * below.f_frsize / CONTENT_PAGE_BYTES;
    }
}

/*
 * What was deleted a moment ago shall not count any more, though the kernel may not have let go of it
 * yet. What somebody has open counts, and is not waited for long. Expects the lock; lets go.
 */
static void wait_for_orphans(struct fs *fs)
{
    const struct btree *orphans = &fs->tree->orphans;
    uint64_t before = 0;
    int tries = 0;
    if (!fs->tree->budget.max_pages && !fs->tree->max_documents)
        return;
    do
        before = orphans->count;
    while (fs_room_may_come(fs, -ENOSPC, &tries) && orphans->count < before);
}

void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
    struct fs *fs = fs_of(req);
    struct statvfs st = {.f_namemax = DOCUMENT_NAME_MAX_BYTES};
    (void) ino;
    tree_lock(fs->tree);
    wait_for_orphans(fs);
    space(fs, &st);
    if (fs->tree->max_documents) {
        uint64_t max = fs->tree->max_documents, used = fs->tree->ndocuments;
        st.f_files = max;
        st.f_ffree = st.f_favail = used < max ? max - used : 0;
    }
    tree_unlock(fs->tree);
    fuse_reply_statfs(req, &st);
}
