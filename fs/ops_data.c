/*
 * ops_data.c - open files: open, read, write, flush, release, fsync, fallocate, lseek.
 */
#include "fs/access_time.h"
#include "fs/control.h"
#include "fs/fs.h"
#include "fs/kinds.h"
#include "fs/log.h"
#include "fs/session.h"
#include "fs/privileges.h"

#include "core/file.h"
#include "ttl/deadline.h"
#include "ttl/events.h"
#include "ttl/filing.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Reads up to this size are answered from the stack. */
#define STACK_READ_BYTES (16 * 1024)

/* Of a file with more names than this the rest are taken to be under every kind of rule. */
#define OPEN_NAMES_MAX 64

/*
 * Writing through the page cache brings nothing here and costs a third more, so what cannot be
 * mapped (a descriptor for writing only) goes past it. Descriptors for reading keep what is cached,
 * unless every single read counts as an access or has to update the access time. FLUSH, a round
 * trip at each close, is asked for only where a close must be noticed at once.
 */
void fs_set_open_flags(struct fs *fs, struct document *doc, struct fuse_file_info *fi)
{
    int mode = fi->flags & O_ACCMODE;
    bool needs_fields = false, tracks_accesses = false;
    int names = 0;
    for (const struct dentry *d = doc->links; d && names < OPEN_NAMES_MAX; d = d->link_next) {
        const struct ruleset *rs =
            ++names < OPEN_NAMES_MAX ? ruleset_of(&fs->ttl, d->parent) : NULL;
        needs_fields |= !rs || rs->needs_fields;
        tracks_accesses |= !rs || rs->tracks_accesses;
    }
    if ((doc->policy && doc->policy->idle_ms > 0) || access_time_is_strict(fs))
        tracks_accesses = true;
    /* Known before INIT is answered: the first open may come before that answer's thread goes on. */
    fi->direct_io =
        mode == O_WRONLY || (tracks_accesses && (session_has_mmap_direct() || mode == O_RDONLY));
    fi->keep_cache = !tracks_accesses && !access_time_is_stale(fs, doc, fs_now(fs));
    fi->noflush = mode == O_RDONLY || !needs_fields;
}

void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    if (control_is_node(ino)) {
        control_open(req, ino, fi);
        return;
    }
    struct handle *handle = NULL;
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    int64_t now_ms = timespec_ms(now);
    struct document *doc = fs_document(fs, ino);
    bool dropped = false;
    int err = 0;
    if (ttl_document_hidden(&fs->ttl, doc, now_ms)) {
        fs->ttl.metrics.hidden_accesses++;
        /* ESTALE makes the kernel look the name up again, which then is free for O_CREAT. */
        err = -ESTALE;
    }
    /* Touched before the lock can be let go: what is open before its deadline has been refreshed.
     */
    if (!err && !(fi->flags & O_NOATIME))
        filing_accessed(&fs->ttl, doc, now_ms, false);
    if (!err)
        err = file_open(fs->tree, doc);
    if (!err) {
        handle = fs_handle_new(fs, doc, fi->flags);
        err = handle ? 0 : -ENOMEM;
        if (err)
            document_unpin(fs->tree, doc);
    }
    if (!err && fi->flags & O_TRUNC) {
        err = file_truncate(fs->tree, doc, 0);
        if (!err) {
            dropped = privileges_after_write(req, doc);
            filing_written(&fs->ttl, doc, now_ms, false);
            document_set_mtime(doc, now);
            document_set_ctime(doc, now);
            handle->wrote = true;
        } else {
            fs_handle_free(fs, handle);
        }
    }
    if (!err) {
        fi->fh = (uint64_t) (uintptr_t) handle;
        fs_set_open_flags(fs, doc, fi);
    }
    tree_unlock(fs->tree);
    if (dropped)
        privileges_tell(req, ino);
    if (err) {
        fuse_reply_err(req, -err);
        return;
    }
    if (fuse_reply_open(req, fi) != 0) {
        /* The caller is gone: no RELEASE will come. */
        tree_lock(fs->tree);
        fs_handle_free(fs, handle);
        tree_unlock(fs->tree);
    }
}

/* A buffer for large reads, kept by each thread: mapping and clearing a new one costs as much as a
 * read. */
static pthread_key_t buffer_key;
static pthread_once_t buffer_once = PTHREAD_ONCE_INIT;

struct read_buffer {
    size_t size;
    char bytes[];
};

static void buffer_make_key(void)
{
    (void) pthread_key_create(&buffer_key, free);
}

static char *thread_buffer(size_t size)
{
    pthread_once(&buffer_once, buffer_make_key);
    struct read_buffer *buffer = pthread_getspecific(buffer_key);
    if (buffer && buffer->size >= size)
        return buffer->bytes;
    free(buffer);
    buffer = malloc(sizeof *buffer + size);
    if (buffer)
        buffer->size = size;
    (void) pthread_setspecific(buffer_key, buffer);
    return buffer ? buffer->bytes : NULL;
}

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    char stack[STACK_READ_BYTES], *buf = stack;
    if (control_is_node(ino)) {
        control_read(req, size, off, fi);
        return;
    }
    if (size > sizeof stack)
        buf = thread_buffer(size);
    if (!buf) {
        fuse_reply_err(req, ENOMEM);
        return;
    }
    const struct handle *handle = fs_handle(fi);
    struct document *doc = handle->doc;
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    if (!handle->no_atime) {
        filing_accessed(&fs->ttl, doc, timespec_ms(now), handle->creator);
        access_time_touch(fs, doc, now);
    }
    ssize_t n = file_read(fs->tree, doc, buf, size, (uint64_t) off);
    tree_unlock(fs->tree);
    if (n < 0)
        fuse_reply_err(req, (int) -n);
    else
        fuse_reply_buf(req, buf, (size_t) n);
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
    struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    if (control_is_node(ino)) {
        control_write(req, ino, buf, size);
        return;
    }
    struct handle *handle = fs_handle(fi);
    struct document *doc = handle->doc;
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    bool dropped = false;
    int tries = 0;
    ssize_t n = doc->flags & DOCUMENT_CAPPED ? kinds_grow(fs, doc, (uint64_t) off + size, now) : 0;
    if (n == 0)
        do
            n = file_write(fs->tree, doc, buf, size, (uint64_t) off);
        while (fs_room_may_come(fs, (int) n, &tries));
    if (n >= 0) {
        if (doc->flags & DOCUMENT_CAPPED)
            kinds_grew(fs, doc, now);
        filing_written(&fs->ttl, doc, timespec_ms(now), handle->creator);
        document_set_mtime(doc, now);
        document_set_ctime(doc, now);
        handle->wrote = true;
        /* Not for what a shared mapping writes back: that takes no privileges away on tmpfs either. */
        if (!fi->writepage)
            dropped = privileges_after_write(req, doc);
    }
    tree_unlock(fs->tree);
    if (dropped)
        privileges_tell(req, ino);
    if (n >= 0) {
        int err = fs_settle(fs);
        n = err ? -err : n;
    }
    if (n < 0)
        fuse_reply_err(req, (int) -n);
    else
        fuse_reply_write(req, (size_t) n);
}

/*
 * A descriptor was closed or synced: looks at the document's fields, and the kernel hears of it when
 * that brought the deadline forward. Replies.
 */
static void look_and_reply(fuse_req_t req, const struct handle *handle, bool closes, int err)
{
    struct fs *fs = fs_of(req);
    struct document *doc = handle->doc;
    tree_lock(fs->tree);
    bool forward = fs_look(fs, doc, fs_now_ms(fs));
    if (closes && !err)
        err = -kinds_close(handle);
    bool all = timeseries_came_forward(&fs->ttl);
    tree_unlock(fs->tree);
    if (all)
        notifier_forget_names(&fs->notifier);
    else if (forward)
        fs_deadline_came_forward(fs, doc);
    fuse_reply_err(req, err);
}

void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    if (control_is_node(ino)) {
        fuse_reply_err(req, 0);
        return;
    }
    look_and_reply(req, fs_handle(fi), true, 0);
}

void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    if (control_is_node(ino)) {
        control_release(req, fi);
        return;
    }
    struct handle *handle = fs_handle(fi);
    struct document *doc = handle->doc;
    tree_lock(fs->tree);
    bool forward = handle->wrote && fs_look(fs, doc, fs_now_ms(fs));
    if (handle->wrote && doc->links && ttl_is_heard(&fs->ttl))
        ttl_tell(&fs->ttl, TTL_EVENT_CHANGED, doc->links, fs_now_ms(fs));
    kinds_release(fs, handle);
    forward |= timeseries_came_forward(&fs->ttl);
    fs_handle_free(fs, handle);
    tree_unlock(fs->tree);
    if (forward)
        notifier_forget_names(&fs->notifier);
    fuse_reply_err(req, 0);
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    (void) datasync;
    if (control_is_node(ino)) {
        fuse_reply_err(req, 0);
        return;
    }
    int err = -committer_wait_for(&fs->committer, req);
    look_and_reply(req, fs_handle(fi), false, err);
}

void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    (void) ino;
    (void) datasync;
    (void) fi;
    fuse_reply_err(req, -committer_wait_for(&fs->committer, req));
}

void op_fallocate(
    fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    if (control_is_node(ino) || offset < 0 || length <= 0) {
        fuse_reply_err(req, control_is_node(ino) ? EOPNOTSUPP : EINVAL);
        return;
    }
    struct handle *handle = fs_handle(fi);
    struct document *doc = handle->doc;
    tree_lock(fs->tree);
    struct timespec now = fs_now(fs);
    bool grows = doc->flags & DOCUMENT_CAPPED && !(mode & FALLOC_FL_KEEP_SIZE), dropped = false;
    int tries = 0, err = grows ? kinds_grow(fs, doc, (uint64_t) (offset + length), now) : 0;
    if (!err)
        do
            err = file_allocate(fs->tree, doc, mode, (uint64_t) offset, (uint64_t) length);
        while (fs_room_may_come(fs, err, &tries));
    if (!err && grows)
        kinds_grew(fs, doc, now);
    if (!err) {
        filing_written(&fs->ttl, doc, timespec_ms(now), handle->creator);
        document_set_mtime(doc, now);
        document_set_ctime(doc, now);
        handle->wrote = true;
        dropped = privileges_after_fallocate(req, doc);
    }
    tree_unlock(fs->tree);
    if (dropped)
        privileges_tell(req, ino);
    fs_reply_done(req, -err);
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    off_t found = 0;
    if (control_is_node(ino)) {
        fuse_reply_err(req, EINVAL);
        return;
    }
    tree_lock(fs->tree);
    int err = file_seek(fs->tree, fs_handle(fi)->doc, off, whence, &found);
    tree_unlock(fs->tree);
    if (err)
        fuse_reply_err(req, -err);
    else
        fuse_reply_lseek(req, found);
}
