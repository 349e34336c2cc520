/*
 * fs.h - what the handlers of kernel requests share.
 *
 * A handler decodes its request, does its work under the tree's lock with one reading of the clock,
 * and replies exactly once. Node numbers: 1 is the root; numbers whose two low bits are 10 are
 * control nodes (fs/control.h); all others are addresses of documents, which stay valid because a
 * document lives as long as the kernel refers to it (nlookup).
 */
#ifndef TTLFS_FS_FS_H
#define TTLFS_FS_FS_H

#include "core/tree.h"
#include "fs/archive.h"
#include "fs/committer.h"
#include "fs/events.h"
#include "fs/monitor_thread.h"
#include "fs/notify.h"
#include "fs/options.h"
#include "fs/profile.h"
#include "fs/remount.h"
#include "ttl/ttl.h"

#include <fuse_lowlevel.h>
#include <stdatomic.h>
#include <stdbool.h>

/* What the kernel may keep without asking, when nothing is going to expire. */
#define FS_CACHE_MAX_MS (INT64_C(3600) * 1000)
/* Kernel time-outs end on a clock tick: up to 10 ms late with HZ=100, so they are set this early.
 */
#define FS_CACHE_MARGIN_MS 20

/* A deadline nearer than this cannot wait for a notification that is sent behind the answer. */
#define FS_FORWARD_SOON_MS 2000

struct fs {
    struct fs_options options;
    struct store *store;
    struct tree *tree;
    struct ttl ttl;
    struct fuse_session *session;
    struct committer committer;
    struct monitor_thread monitor;
    struct notifier notifier;
    struct remount_watch remounts;
    struct events events; /* `.ttlfs/events` */
    struct profile profile;
    struct archive archive;
    _Atomic int64_t clock_offset_ms; /* -o test-clock */
    struct timespec started;
    struct handle *handles;           /* all open files: their RELEASE may never come */
    struct btree find_nodes;          /* of `.find`, by a hash of their place: see fs/find.c */
    struct find_list *find_lists;     /* all open directories of `.find` */
    uint32_t owner_uid, owner_gid;    /* who mounted */
    bool stored_enabled;              /* ttlMonitorEnabled without the mount's monitor= */
    _Atomic unsigned int mount_flags; /* MOUNT_…, see fs/access_time.h */
    dev_t mount_device;               /* 0: not known; set before any thread runs */
};

/* An open file. */
struct handle {
    struct document *doc;      /* pinned */
    struct handle *next, **at; /* of all open ones, under the tree's lock */
    bool creator;              /* this descriptor created the document */
    bool no_atime;             /* opened with O_NOATIME: not an access */
    bool wrote;
    int64_t horizon; /* a listing of a capped collection: names that came later are left out */
};

static inline struct fs *fs_of(fuse_req_t req)
{
    return fuse_req_userdata(req);
}

static inline struct document *fs_document(struct fs *fs, fuse_ino_t ino)
{
    return ino == FUSE_ROOT_ID ? &fs->tree->root->doc : (struct document *) (uintptr_t) ino;
}

static inline fuse_ino_t fs_nodeid(const struct fs *fs, const struct document *doc)
{
    return doc == &fs->tree->root->doc ? FUSE_ROOT_ID : (fuse_ino_t) (uintptr_t) doc;
}

static inline struct handle *fs_handle(const struct fuse_file_info *fi)
{
    return (struct handle *) (uintptr_t) fi->fh;
}

/* A handle for a document that the caller has pinned. NULL: no memory. Expects the lock. */
struct handle *fs_handle_new(struct fs *fs, struct document *doc, int flags);
/* Frees a handle and unpins its document. Expects the lock. */
void fs_handle_free(struct fs *fs, struct handle *handle);

/* The filesystem's time: the real clock, plus the offset of -o test-clock. */
struct timespec fs_now(struct fs *fs);
int64_t fs_now_ms(struct fs *fs);

/* How long the kernel may believe in a name, in seconds. Expects the lock. */
double fs_entry_timeout(struct fs *fs, struct dentry *d, int64_t now_ms);

/* A document's attributes as stat(2) has them. Expects the lock. */
void fs_stat(struct fs *fs, const struct document *doc, struct stat *ret_stat);

/* Fills in the reply that gives a name to the kernel; counts the reference. Expects the lock. */
void fs_fill_entry(
    struct fs *fs, struct dentry *d, int64_t now_ms, struct fuse_entry_param *ret_entry);

/*
 * Sends that reply; takes the reference back when the kernel did not get it. Without the lock.
 * @err  a positive errno, sent instead; 0 for none
 */
void fs_reply_entry(fuse_req_t req, const struct fuse_entry_param *entry, int err);

/* Replies to a request that changed something: with -o sync once it is durable. Without the lock.
 */
void fs_reply_done(fuse_req_t req, int err);

/* With -o sync, waits until everything noted so far is durable. Returns 0 or a positive errno. */
int fs_settle(struct fs *fs);

/*
 * What was deleted takes its room until it is open nowhere, which the kernel tells a moment after
 * close has returned. So before anybody hears that there is no room: waits a moment for
 * that, if it can help. Expects the lock; lets go when it returns true.
 * @tries  of the caller; 0 at first
 * Returns true when the work is to be tried again.
 */
bool fs_room_may_come(struct fs *fs, int err, int *tries);

/*
 * A visible name in a collection, or NULL; expired ones are counted as hidden accesses. Expects the
 * lock.
 */
struct dentry *fs_find(struct fs *fs, struct collection *parent, const char *name, int64_t now_ms);

/*
 * Deletes an expired name that is in the way of a request, or moves it aside until it is archived.
 * Expects the lock. Errors: -ENOMEM, -ENOSPC.
 */
int fs_expire(struct fs *fs, struct dentry *d, struct timespec now);

/* Is this document, asked for by node number, gone for everybody who has no descriptor? */
bool fs_gone(struct fs *fs, struct document *doc, int64_t now_ms);

/* Is the caller the thread that removes expired names through the kernel? */
bool fs_is_remover(fuse_req_t req);

/* Logs a refusal and puts it into user.ttl.error. Expects the lock. */
void fs_note_refusal(struct document *doc, const struct reason *why);

/*
 * Looks at a document's fields if its content changed and somebody asks for them. Returns true when
 * the kernel must be told that a deadline came forward. Expects the lock; lets go.
 */
bool fs_look(struct fs *fs, struct document *doc, int64_t now_ms);

/*
 * A document's deadline came forward: sees to it that the kernel does not go on believing in its names.
 * Before the request is answered when that is a matter of a moment, soon after otherwise. Expects
 * no lock.
 */
void fs_deadline_came_forward(struct fs *fs, struct document *doc);

/* The table of handlers. */
extern const struct fuse_lowlevel_ops fs_ops;

/* ops_name.c */
void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t nlookup);
void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_create(
    fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
/*
 * Removes the expired documents of a collection that is about to go. Expects the lock; lets go.
 * Errors: -ENOTEMPTY when anything else is in it, -ENOMEM.
 */
int fs_clear_expired(struct fs *fs, struct collection *c, struct timespec now);
/* ops_rename.c */
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
    const char *newname, unsigned int flags);
/* ops_data.c */
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
    struct fuse_file_info *fi);
void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
    struct fuse_file_info *fi);
void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t off, int whence, struct fuse_file_info *fi);
/* How a file is opened: what the kernel may cache and skip. Expects the lock. */
void fs_set_open_flags(struct fs *fs, struct document *doc, struct fuse_file_info *fi);
/* ops_attr.c */
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_setattr(
    fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi);
void op_readlink(fuse_req_t req, fuse_ino_t ino);
void op_statfs(fuse_req_t req, fuse_ino_t ino);
/* ops_dir.c */
void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_readdirplus(
    fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi);
void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
/* ops_xattr.c */
void op_setxattr(
    fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
