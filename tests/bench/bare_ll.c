/*
 * bare_ll.c - a bare in-memory FUSE filesystem: the floor that ttlfs is measured against.
 *
 *     bare_ll [-f] [-d] [-o opt,...] MOUNTPOINT
 *
 * One hash table of names, one mutex, contents in malloc'ed buffers, and the settings that cost
 * least: entry, attribute and negative time-outs of a day, FOPEN_NOFLUSH, FOPEN_KEEP_CACHE, direct
 * I/O for descriptors that only write, libfuse's default threads, and two flags in the INIT reply
 * that libfuse 3.14 never sends (see patch_init()). It does what fsload and fill ask for and no
 * more: no rename, no links, one xattr per file.
 *
 * Options that take one of the settings back, to see what it is worth:
 *   plain_write      no direct I/O
 *   plain_init       libfuse's INIT reply as it is
 *   no_permissions   no default_permissions: they cost a GETATTR of a directory after each change
 */
#ifndef FUSE_USE_VERSION
#define FUSE_USE_VERSION 312
#endif

#include "tests/bench/bare_nodes.h"

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static struct {
    int plain_write, plain_init, no_permissions;
} opt;

static const struct fuse_opt opts[] = {{"plain_write", offsetof(__typeof__(opt), plain_write), 1},
    {"plain_init", offsetof(__typeof__(opt), plain_init), 1},
    {"no_permissions", offsetof(__typeof__(opt), no_permissions), 1}, FUSE_OPT_END};

/* ---- operations ---- */

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct fuse_entry_param e;

    pthread_mutex_lock(&lock);
    e = entry_of(find(node_of(parent), name), 1);
    pthread_mutex_unlock(&lock);
    fuse_reply_entry(req, &e); /* with ino 0 a negative entry that may be cached */
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
    pthread_mutex_lock(&lock);
    forget_node(node_of(ino), lookups);
    pthread_mutex_unlock(&lock);
    fuse_reply_none(req);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct stat st;

    (void) fi;
    pthread_mutex_lock(&lock);
    st = node_of(ino)->st;
    pthread_mutex_unlock(&lock);
    fuse_reply_attr(req, &st, TIMEOUT_S);
}

static int make(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
    struct fuse_entry_param *ret_e)
{
    struct node *n = node_new(name, mode, fuse_req_ctx(req));
    int error = 0;

    if (!n)
        return ENOMEM;
    pthread_mutex_lock(&lock);
    if (find(node_of(parent), name)) {
        error = EEXIST;
        free(n);
    } else {
        attach(n, node_of(parent));
        *ret_e = entry_of(n, 1);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
    struct fuse_entry_param e;
    int error = make(req, parent, name, mode, &e);

    (void) rdev;
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_entry(req, &e);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
    op_mknod(req, parent, name, S_IFDIR | mode, 0);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    struct node *n;
    int error = 0;

    pthread_mutex_lock(&lock);
    n = find(node_of(parent), name);
    if (!n)
        error = ENOENT;
    else if (n->children)
        error = ENOTEMPTY;
    else {
        detach(n);
        forget_node(n, 0);
    }
    pthread_mutex_unlock(&lock);
    fuse_reply_err(req, error);
}

static void set_open(struct fuse_file_info *fi)
{
    fi->noflush = 1;
    fi->keep_cache = 1;
    fi->direct_io = !opt.plain_write && (fi->flags & O_ACCMODE) == O_WRONLY;
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    (void) ino;
    set_open(fi);
    fuse_reply_open(req, fi);
}

static void op_create(
    fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
    struct fuse_entry_param e;
    int error = make(req, parent, name, mode, &e);

    set_open(fi);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_create(req, &e, fi);
}

static void op_read(
    fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    struct node *n = node_of(ino);
    char small[4096], *buf = small;

    (void) fi;
    pthread_mutex_lock(&lock);
    if (off >= n->st.st_size)
        size = 0;
    else if (size > (size_t) (n->st.st_size - off))
        size = (size_t) (n->st.st_size - off);
    if (size > sizeof(small))
        buf = malloc(size);
    if (buf)
        memcpy(buf, n->data + off, size);
    pthread_mutex_unlock(&lock);
    if (buf)
        fuse_reply_buf(req, buf, size);
    else
        fuse_reply_err(req, ENOMEM);
    if (buf != small)
        free(buf);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size, off_t off,
    struct fuse_file_info *fi)
{
    struct node *n = node_of(ino);
    int error = 0;

    pthread_mutex_lock(&lock);
    if (fi->flags & O_APPEND)
        off = n->st.st_size;
    if (off + (off_t) size > n->st.st_size)
        error = grow(n, (size_t) off + size);
    if (!error)
        memcpy(n->data + off, buf, size);
    clock_gettime(CLOCK_REALTIME_COARSE, &n->st.st_mtim);
    pthread_mutex_unlock(&lock);
    if (error)
        fuse_reply_err(req, error);
    else
        fuse_reply_write(req, size);
}

/* An offset is the number of the last entry given; numbers rise along the ring of children. */
static size_t add_entries(
    fuse_req_t req, const struct node *dir, char *buf, size_t size, uint64_t off, bool plus)
{
    struct node *first = dir->children, *n = first;
    size_t used = 0, bytes;

    while (n && n->number <= off)
        n = n->next == first ? NULL : n->next;
    for (; n; n = n->next == first ? NULL : n->next, used += bytes) {
        struct fuse_entry_param e = entry_of(n, 0);
        bytes = plus ? fuse_add_direntry_plus(
                           req, buf + used, size - used, n->name, &e, (off_t) n->number)
                     : fuse_add_direntry(
                           req, buf + used, size - used, n->name, &n->st, (off_t) n->number);
        if (bytes > size - used)
            break;
        n->lookups += plus;
    }
    return used;
}

static void read_entries(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
    char *buf = malloc(size);
    size_t used = 0;

    if (!buf) {
        fuse_reply_err(req, ENOMEM);
        return;
    }
    pthread_mutex_lock(&lock);
    used = add_entries(req, node_of(ino), buf, size, (uint64_t) off, plus);
    pthread_mutex_unlock(&lock);
    fuse_reply_buf(req, buf, used);
    free(buf);
}

static void op_readdir(
    fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void) fi;
    read_entries(req, ino, size, off, false);
}

static void op_readdirplus(
    fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
    (void) fi;
    read_entries(req, ino, size, off, true);
}

static void op_setxattr(
    fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
    struct node *n = node_of(ino);

    (void) flags;
    if (size > XATTR_BYTES || strlen(name) >= XATTR_BYTES) {
        fuse_reply_err(req, E2BIG);
        return;
    }
    pthread_mutex_lock(&lock);
    memcpy(n->xattr_name, name, strlen(name) + 1);
    memcpy(n->xattr_value, value, size);
    n->xattr_bytes = size;
    pthread_mutex_unlock(&lock);
    fuse_reply_err(req, 0);
}

static void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
    struct node *n = node_of(ino);
    char value[XATTR_BYTES];
    size_t bytes = 0;

    pthread_mutex_lock(&lock);
    if (strcmp(n->xattr_name, name) == 0) {
        bytes = n->xattr_bytes;
        memcpy(value, n->xattr_value, bytes);
    }
    pthread_mutex_unlock(&lock);
    if (!bytes)
        fuse_reply_err(req, ENODATA);
    else if (!size)
        fuse_reply_xattr(req, bytes);
    else if (size < bytes)
        fuse_reply_err(req, ERANGE);
    else
        fuse_reply_buf(req, value, bytes);
}

static const struct fuse_lowlevel_ops operations = {.lookup = op_lookup,
    .forget = op_forget,
    .getattr = op_getattr,
    .mknod = op_mknod,
    .mkdir = op_mkdir,
    .unlink = op_unlink,
    .rmdir = op_unlink,
    .open = op_open,
    .create = op_create,
    .read = op_read,
    .write = op_write,
    .readdir = op_readdir,
    .readdirplus = op_readdirplus,
    .setxattr = op_setxattr,
    .getxattr = op_getxattr};

/* ---- between libfuse and /dev/fuse ---- */

static uint64_t init_unique; /* written and read before the second thread exists */

/* libfuse 3.14 has no flag for these in its reply though the kernel offers them; Linux takes them
 * since 4.7 and 5.12. */
static void patch_init(struct fuse_init_out *out)
{
    out->flags |= FUSE_PARALLEL_DIROPS | FUSE_HANDLE_KILLPRIV_V2;
}

static ssize_t io_writev(int fd, struct iovec *iov, int count, void *userdata)
{
    const struct fuse_out_header *out = iov[0].iov_base;

    (void) userdata;
    if (init_unique && out->unique == init_unique && count > 1 &&
        iov[1].iov_len >= sizeof(struct fuse_init_out)) {
        if (!opt.plain_init)
            patch_init(iov[1].iov_base);
        init_unique = 0;
    }
    return writev(fd, iov, count);
}

static ssize_t io_read(int fd, void *buf, size_t bytes, void *userdata)
{
    struct fuse_in_header *in = buf;
    ssize_t n = read(fd, buf, bytes);

    (void) userdata;
    if (n >= (ssize_t) sizeof(*in) && in->opcode == FUSE_INIT)
        init_unique = in->unique;
    return n;
}

int main(int argc, char **argv)
{
    static const struct fuse_custom_io io = {.writev = io_writev, .read = io_read};
    struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
    struct fuse_cmdline_opts cmd;
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    struct fuse_session *se;
    int status = 1;

    if (fuse_parse_cmdline(&args, &cmd) != 0 || !cmd.mountpoint ||
        fuse_opt_parse(&args, &opt, opts, NULL) != 0)
        return 1;
    fuse_opt_add_arg(&args, "-oallow_other,fsname=bare_ll");
    if (!opt.no_permissions)
        fuse_opt_add_arg(&args, "-odefault_permissions");
    root = node_new("", S_IFDIR | 0755, NULL);
    se = fuse_session_new(&args, &operations, sizeof(operations), NULL);
    if (!root || !se || !config)
        return 1;
    if (fuse_set_signal_handlers(se) == 0 && fuse_session_mount(se, cmd.mountpoint) == 0 &&
        fuse_session_custom_io(se, &io, fuse_session_fd(se)) == 0 &&
        fuse_daemonize(cmd.foreground) == 0) {
        fuse_loop_cfg_set_clone_fd(config, (unsigned) cmd.clone_fd);
        status = cmd.singlethread ? fuse_session_loop(se) : fuse_session_loop_mt(se, config);
        fuse_session_unmount(se);
    }
    fuse_remove_signal_handlers(se);
    fuse_session_destroy(se);
    fuse_loop_cfg_destroy(config);
    free(cmd.mountpoint);
    fuse_opt_free_args(&args);
    return status ? 1 : 0;
}
