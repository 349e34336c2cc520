/*
 * ops_dir.c - reading directories.
 *
 * A place in a directory is the cookie of the last name returned (core/names.h): names that exist
 * throughout a walk come exactly once, whatever else happens.
 */
#include "fs/access_time.h"
#include "fs/control.h"
#include "fs/find.h"
#include "fs/fs.h"
#include "fs/kinds.h"

#include "ttl/deadline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define COOKIE_DOT 1
#define COOKIE_DOTDOT 2

/* fi->fh of an open directory: this, or the handle of a listing that kinds_opendir made. */
#define DIR_NOATIME 1

static struct handle *listing_of(const struct fuse_file_info *fi)
{
    return fi->fh > DIR_NOATIME ? fs_handle(fi) : NULL;
}

static bool is_noatime(const struct fuse_file_info *fi)
{
    return fi->fh == DIR_NOATIME || (listing_of(fi) && listing_of(fi)->no_atime);
}

static void close_listing(struct fs *fs, struct handle *handle)
{
    tree_lock(fs->tree);
    fs_handle_free(fs, handle);
    tree_unlock(fs->tree);
}

void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    if (fs_is_remover(req))
        atomic_store(&fs_of(req)->monitor.opened, ino);
    if (find_is_node(ino)) {
        find_opendir(req, ino, fi);
        return;
    }
    /* The flags come with this request only. */
    fi->fh = fi->flags & O_NOATIME ? DIR_NOATIME : 0;
    struct fs *fs = fs_of(req);
    struct handle *handle = control_is_node(ino) ? NULL : kinds_opendir(fs, ino, fi->flags);
    if (handle)
        fi->fh = (uint64_t) (uintptr_t) handle;
    if (fuse_reply_open(req, fi) != 0 && handle)
        close_listing(fs, handle);
}

void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    if (find_is_node(ino)) {
        find_releasedir(req, fi);
        return;
    }
    if (listing_of(fi))
        close_listing(fs_of(req), listing_of(fi));
    fuse_reply_err(req, 0);
}

struct listing {
    fuse_req_t req;
    struct fs *fs;
    bool plus;
    struct handle *handle; /* capped collections */
    char *buf;
    size_t size, used;
    struct document **given; /* documents that the kernel gets a reference to */
    size_t ngiven;
};

/* Adds a name. Returns false when it does not fit any more. */
static bool add(
    struct listing *l, const char *name, const struct fuse_entry_param *e, uint64_t cookie)
{
    char *at = l->buf + l->used;
    size_t room = l->size - l->used, need;
    if (l->plus)
        need = fuse_add_direntry_plus(l->req, at, room, name, e, (off_t) cookie);
    else
        need = fuse_add_direntry(l->req, at, room, name, &e->attr, (off_t) cookie);
    if (need > room)
        return false;
    l->used += need;
    return true;
}

static bool add_dots(struct listing *l, struct collection *c, uint64_t *off)
{
    struct fuse_entry_param e = {0};
    struct collection *parent = collection_parent(c);
    if (*off < COOKIE_DOT) {
        fs_stat(l->fs, &c->doc, &e.attr);
        if (!add(l, ".", &e, COOKIE_DOT))
            return false;
        *off = COOKIE_DOT;
    }
    if (*off < COOKIE_DOTDOT) {
        fs_stat(l->fs, parent ? &parent->doc : &c->doc, &e.attr);
        if (!add(l, "..", &e, COOKIE_DOTDOT))
            return false;
        *off = COOKIE_DOTDOT;
    }
    return true;
}

static void add_names(struct listing *l, struct collection *c, uint64_t off, int64_t now_ms)
{
    struct fs *fs = l->fs;
    for (struct dentry *d = names_after(&c->names, off); d; d = names_next(d)) {
        struct fuse_entry_param e = {0};
        if (ttl_hidden(&fs->ttl, d, now_ms) || (l->handle && !kinds_lists(l->handle, d)))
            continue;
        if (l->plus) {
            fs_fill_entry(fs, d, now_ms, &e);
        } else {
            e.attr.st_ino = d->doc->ino;
            e.attr.st_mode = d->doc->mode;
        }
        if (!add(l, d->name, &e, names_cookie(d))) {
            if (l->plus)
                document_forget(fs->tree, d->doc, 1);
            break;
        }
        if (l->plus)
            l->given[l->ngiven++] = d->doc;
    }
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
    const struct fuse_file_info *fi, bool plus)
{
    struct fs *fs = fs_of(req);
    /* The shortest entry of a listing with attributes has 152 bytes. */
    struct listing l = {.req = req,
        .fs = fs,
        .plus = plus,
        .handle = listing_of(fi),
        .size = size,
        .buf = malloc(size),
        .given = plus ? malloc((size / 128 + 1) * sizeof(struct document *)) : NULL};
    if (!l.buf || (plus && !l.given)) {
        fuse_reply_err(req, ENOMEM);
        goto out;
    }
    tree_lock(fs->tree);
    struct collection *c = document_collection(fs_document(fs, ino));
    uint64_t off = (uint64_t) offset;
    if (l.handle && off == 0)
        l.handle->horizon = (int64_t) fs->tree->next_ino;
    struct timespec now = fs_now(fs);
    if (add_dots(&l, c, &off))
        add_names(&l, c, off, timespec_ms(now));
    if (!is_noatime(fi) && !fs_is_remover(req))
        access_time_touch(fs, &c->doc, now);
    tree_unlock(fs->tree);
    if (fuse_reply_buf(req, l.buf, l.used) != 0 && l.ngiven) {
        tree_lock(fs->tree);
        for (size_t i = 0; i < l.ngiven; i++)
            document_forget(fs->tree, l.given[i], 1);
        tree_unlock(fs->tree);
    }
out:
    free(l.buf);
    free(l.given);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    if (find_is_node(ino))
        find_readdir(req, ino, size, off, fi, false);
    else if (control_is_node(ino))
        control_readdir(req, ino, size, off);
    else
        list(req, ino, size, off, fi, false);
}

void op_readdirplus(
    fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    if (find_is_node(ino))
        find_readdir(req, ino, size, off, fi, true);
    else if (control_is_node(ino))
        control_readdirplus(req, ino, size, off);
    else
        list(req, ino, size, off, fi, true);
}
