#include "fs/fs.h"

#include "core/dates.h"
#include "core/index.h"
#include "fs/control.h"
#include "fs/log.h"
#include "fs/session.h"
#include "ttl/deadline.h"
#include "ttl/events.h"
#include "ttl/filing.h"
#include "ttl/limbo.h"
#include "ttl/monitor.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* The block size that st_blksize suggests; st_blocks counts 512 bytes. */
#define BLOCK_BYTES 4096
/* How long, and how often, to wait for the kernel to let go of what was deleted. */
#define ROOM_PAUSE_NS 1000000
#define ROOM_TRIES 100
/* What tmpfs counts for each name in a directory's size. */
#define DIRENT_BYTES 20

struct timespec fs_now(struct fs *fs)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t offset_ms = atomic_load_explicit(&fs->clock_offset_ms, memory_order_relaxed);
    if (offset_ms) {
        now.tv_sec += (time_t) (offset_ms / 1000);
        now.tv_nsec += (long) (offset_ms % 1000) * 1000000;
        if (now.tv_nsec >= 1000000000) {
            now.tv_nsec -= 1000000000;
            now.tv_sec++;
        } else if (now.tv_nsec < 0) {
            now.tv_nsec += 1000000000;
            now.tv_sec--;
        }
    }
    return now;
}

int64_t fs_now_ms(struct fs *fs)
{
    return timespec_ms(fs_now(fs));
}

struct handle *fs_handle_new(struct fs *fs, struct document *doc, int flags)
{
    struct handle *handle = calloc(1, sizeof *handle);
    if (!handle)
        return NULL;
    handle->doc = doc;
    handle->no_atime = flags & O_NOATIME;
    handle->at = &fs->handles;
    handle->next = fs->handles;
    if (handle->next)
        handle->next->at = &handle->next;
    fs->handles = handle;
    return handle;
}

void fs_handle_free(struct fs *fs, struct handle *handle)
{
    *handle->at = handle->next;
    if (handle->next)
        handle->next->at = handle->at;
    document_unpin(fs->tree, handle->doc);
    free(handle);
}

double fs_entry_timeout(struct fs *fs, struct dentry *d, int64_t now_ms)
{
    struct document *doc = d->doc;
    if (document_is_collection(doc))
        return (double) FS_CACHE_MAX_MS / 1000;
    /*
     * Until an open file is closed nobody knows what its fields will say. What is cached now would have
     * to be forgotten then, at more cost than one more lookup.
     */
    const struct ruleset *rs = ruleset_of(&fs->ttl, d->parent);
    /* Whatever is made in a capped collection may end any other name there, at once. */
    if (rs && rs->capped)
        return 0;
    if (doc->nopen &&
        (!rs || rs->files_by_fields ||
            (doc->flags & DOCUMENT_FIELDS_STALE && filing_wants_fields(&fs->ttl, doc))))
        return 0;
    int64_t at_ms = ttl_deadline(&fs->ttl, d).at_ms;
    /* Without epochs a rule that changes above could not make the kernel forget this name. */
    if (!fs->notifier.has_epochs)
        return 0;
    int64_t left_ms = at_ms == DATE_NEVER_MS
                          ? FS_CACHE_MAX_MS
                          : date_subtract_saturated(at_ms, now_ms) - FS_CACHE_MARGIN_MS;
    if (left_ms <= 0)
        return 0;
    doc->flags |= DOCUMENT_KERNEL_CACHED;
    return (double) (left_ms < FS_CACHE_MAX_MS ? left_ms : FS_CACHE_MAX_MS) / 1000;
}

void fs_stat(struct fs *fs, const struct document *doc, struct stat *ret_stat)
{
    struct stat *st = ret_stat;
    (void) fs;
    memset(st, 0, sizeof *st);
    st->st_ino = doc->ino;
    st->st_mode = doc->mode;
    st->st_nlink = doc->nlink;
    st->st_uid = doc->uid;
    st->st_gid = doc->gid;
    st->st_blksize = BLOCK_BYTES;
    st->st_size = (off_t) doc->size;
    st->st_atim = (struct timespec){(time_t) doc->atime_s, (long) doc->atime_ns};
    st->st_mtim = (struct timespec){(time_t) doc->mtime_s, (long) doc->mtime_ns};
    st->st_ctim = (struct timespec){(time_t) doc->ctime_s, (long) doc->ctime_ns};
    if (document_is_collection(doc))
        st->st_size = (off_t) (((const struct collection *) doc)->names.count + 2) * DIRENT_BYTES;
    else if (S_ISREG(doc->mode))
        st->st_blocks = (blkcnt_t) document_pages(doc) * (CONTENT_PAGE_BYTES / 512);
    else if (S_ISBLK(doc->mode) || S_ISCHR(doc->mode))
        st->st_rdev = (dev_t) doc->rdev;
}

void fs_fill_entry(
    struct fs *fs, struct dentry *d, int64_t now_ms, struct fuse_entry_param *ret_entry)
{
    memset(ret_entry, 0, sizeof *ret_entry);
    ret_entry->ino = fs_nodeid(fs, d->doc);
    ret_entry->attr_timeout = (double) FS_CACHE_MAX_MS / 1000;
    ret_entry->entry_timeout = fs_entry_timeout(fs, d, now_ms);
    fs_stat(fs, d->doc, &ret_entry->attr);
    d->doc->nlookup++;
}

void fs_reply_entry(fuse_req_t req, const struct fuse_entry_param *entry, int err)
{
    struct fs *fs = fs_of(req);
    /* Ours until the kernel has it: the request is gone after the reply, the document may be. */
    struct document *doc = fs_document(fs, entry->ino);
    if (err)
        fuse_reply_err(req, err);
    else if (fuse_reply_entry(req, entry) == 0)
        return;
    tree_lock(fs->tree);
    document_forget(fs->tree, doc, 1);
    tree_unlock(fs->tree);
}

int fs_settle(struct fs *fs)
{
    if (fs->options.commit_ms)
        return 0;
    return -committer_wait(&fs->committer);
}

void fs_reply_done(fuse_req_t req, int err)
{
    if (!err)
        err = fs_settle(fs_of(req));
    fuse_reply_err(req, err);
}

bool fs_room_may_come(struct fs *fs, int err, int *tries)
{
    struct timespec pause = {.tv_nsec = ROOM_PAUSE_NS};
    if (err != -ENOSPC || fs->tree->orphans.count == 0 || ++*tries > ROOM_TRIES)
        return false;
    tree_unlock(fs->tree);
    (void) nanosleep(&pause, NULL);
    tree_lock(fs->tree);
    return true;
}

struct dentry *fs_find(struct fs *fs, struct collection *parent, const char *name, int64_t now_ms)
{
    struct dentry *d = tree_find(fs->tree, parent, name, strlen(name));
    if (d && ttl_hidden(&fs->ttl, d, now_ms)) {
        fs->ttl.metrics.hidden_accesses++;
        return NULL;
    }
    return d;
}

int fs_expire(struct fs *fs, struct dentry *d, struct timespec now)
{
    /* Its other names show the old link count otherwise. */
    if (d->doc->nlink > 1 && d->doc->nlookup)
        notifier_attributes(&fs->notifier, fs_nodeid(fs, d->doc));
    /* Nothing expired here: a time series did not want it. */
    if (d->doc->flags & DOCUMENT_REFUSED && timeseries_refuses(d))
        return ttl_unlink(&fs->ttl, d, now, TTL_EVENT_DELETED);
    if (archive_wanted(&fs->ttl, d))
        return limbo_take(&fs->ttl, d, now);
    return monitor_expire(&fs->ttl, d, now, NULL);
}

bool fs_gone(struct fs *fs, struct document *doc, int64_t now_ms)
{
    if (doc->nopen || !ttl_document_hidden(&fs->ttl, doc, now_ms))
        return false;
    fs->ttl.metrics.hidden_accesses++;
    return true;
}

bool fs_is_remover(fuse_req_t req)
{
    int tid = atomic_load_explicit(&fs_of(req)->monitor.tid, memory_order_relaxed);
    return tid && fuse_req_ctx(req)->pid == tid;
}

void fs_note_refusal(struct document *doc, const struct reason *why)
{
    if (!why->text[0])
        return;
    rules_note_error(doc, why);
    log_line(LOG_INFO, "document %llu: refused: %s", (unsigned long long) doc->ino, why->text);
}

bool fs_look(struct fs *fs, struct document *doc, int64_t now_ms)
{
    if (!filing_wants_fields(&fs->ttl, doc))
        return false;
    int looked = filing_look(&fs->ttl, doc, now_ms);
    if (looked < 0)
        log_line(LOG_WARNING, "document %llu: its fields cannot be looked at: %s",
            (unsigned long long) doc->ino, strerrordesc_np(-looked));
    return looked > 0 && doc->flags & DOCUMENT_KERNEL_CACHED;
}

void fs_deadline_came_forward(struct fs *fs, struct document *doc)
{
    char name[DOCUMENT_NAME_MAX_BYTES + 1];
    size_t len = 0;
    fuse_ino_t parent = 0;
    tree_lock(fs->tree);
    const struct dentry *d = doc->links;
    /* Without a name: the monitor was here already, and the kernel may not have heard of it yet. */
    bool now = document_is_collection(doc) || !d || d->link_next ||
               ttl_document_deadline(&fs->ttl, doc).at_ms <
                   date_add_saturated(fs_now_ms(fs), FS_FORWARD_SOON_MS);
    if (d && !now) {
        len = d->name_len;
        memcpy(name, d->name, len + 1);
        parent = fs_nodeid(fs, &d->parent->doc);
    }
    tree_unlock(fs->tree);
    if (now)
        notifier_forget_names(&fs->notifier);
    else if (parent)
        notifier_expire_name(&fs->notifier, parent, name, len);
}

static void op_init(void *userdata, struct fuse_conn_info *conn)
{
    (void) userdata;
    /* Contents change through the kernel only, so its caches need no check against mtime. */
    conn->want &= ~(unsigned int) FUSE_CAP_AUTO_INVAL_DATA;
    /* Our own read would get in its way, and it brings nothing here. */
    conn->want &=
        ~(unsigned int) (FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE |
                         FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_POSIX_LOCKS);
}

const struct fuse_lowlevel_ops fs_ops = {
    .init = op_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .setattr = op_setattr,
    .readlink = op_readlink,
    .mknod = op_mknod,
    .mkdir = op_mkdir,
    .unlink = op_unlink,
    .rmdir = op_rmdir,
    .symlink = op_symlink,
    .rename = op_rename,
    .link = op_link,
    .open = op_open,
    .read = op_read,
    .write = op_write,
    .flush = op_flush,
    .release = op_release,
    .fsync = op_fsync,
    .opendir = op_opendir,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .releasedir = op_releasedir,
    .fsyncdir = op_fsyncdir,
    .statfs = op_statfs,
    .setxattr = op_setxattr,
    .getxattr = op_getxattr,
    .listxattr = op_listxattr,
    .removexattr = op_removexattr,
    .create = op_create,
    .fallocate = op_fallocate,
    .lseek = op_lseek,
    .poll = control_poll,
};
