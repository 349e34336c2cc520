#include "fs/control.h"

#include "fs/currentop.h"
#include "fs/distribution.h"
#include "fs/events.h"
#include "fs/find.h"
#include "fs/fs.h"
#include "fs/log.h"
#include "fs/metrics.h"
#include "fs/slow.h"
#include "fs/status.h"

#include <bson/bson.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLOCK_OFFSET_NAME "clockOffsetMS"
#define CLOCK_CONFIRM_NAME "ttlMonitorClockConfirm"
/* Inode numbers of control nodes: far from those of documents. */
#define CONTROL_INO_BASE (UINT64_C(1) << 62)

enum {
    NODE_TOP,
    NODE_STATUS,
    NODE_METRICS,
    NODE_CURRENT_OP,
    NODE_PROFILE,
    NODE_EVENTS,
    NODE_DISTRIBUTION,
    NODE_DUE,
    NODE_PASS,
    NODE_PARAMETERS,
    NODE_FIXED
};

/* An open control file. */
struct control_text {
    struct control_text *next, **place; /* of all: their RELEASE may never come */
    size_t len;
    char *text;
    struct events_reader *events; /* `events` has no text */
};

static pthread_mutex_t texts_lock = PTHREAD_MUTEX_INITIALIZER;
static struct control_text *texts;

struct control_node {
    const char *name;
    unsigned int parent;
    mode_t mode;
    /* Makes the text that a reader sees; NULL: a parameter, or no text. Errors: -ENOMEM. */
    int (*read)(struct fs *fs, char **ret_text, size_t *ret_len);
    /* Takes what is written, and replies. */
    void (*write)(fuse_req_t req, const struct control_node *node, const char *buf, size_t size);
};

static void write_pass(
    fuse_req_t req, const struct control_node *node, const char *buf, size_t size)
{
    (void) node;
    (void) buf;
    monitor_thread_request(&fs_of(req)->monitor, req, size);
}

static int read_param(
    struct fs *fs, const struct control_node *node, char **ret_text, size_t *ret_len)
{
    char text[PARAM_TEXT_BYTES + 1];
    if (strcmp(node->name, CLOCK_OFFSET_NAME) == 0) {
        (void) snprintf(text, sizeof text, "%" PRId64, atomic_load(&fs->clock_offset_ms));
    } else if (strcmp(node->name, CLOCK_CONFIRM_NAME) == 0) {
        tree_lock(fs->tree);
        bool held = fs->monitor.clock_held;
        tree_unlock(fs->tree);
        (void) snprintf(text, sizeof text, "%s", held ? "false" : "true");
    } else {
        tree_lock(fs->tree);
        (void) ttl_param_get(&fs->ttl.params, node->name, text);
        tree_unlock(fs->tree);
    }
    size_t len = strlen(text);
    *ret_text = malloc(len + 2);
    if (!*ret_text)
        return -ENOMEM;
    memcpy(*ret_text, text, len);
    memcpy(*ret_text + len, "\n", 2);
    *ret_len = len + 1;
    return 0;
}

static bool parse_offset(const char *buf, size_t size, int64_t *ret_ms)
{
    char text[24], *end;
    if (size && buf[size - 1] == '\n')
        size--;
    if (size == 0 || size >= sizeof text)
        return false;
    memcpy(text, buf, size);
    text[size] = '\0';
    errno = 0;
    long long ms = strtoll(text, &end, 10);
    *ret_ms = ms;
    /* A hundred thousand years either way: no sum with a real clock overflows. */
    return !errno && *end == '\0' && text[0] != ' ' && ms <= INT64_C(3155760000000000) &&
           ms >= INT64_C(-3155760000000000);
}

/* Keeps the parameters over a remount. Expects the tree's lock. */
static int persist_params(struct fs *fs)
{
    bson_t b = BSON_INITIALIZER;
    int err = -ENOMEM;
    /* An option of this mount is not a parameter of the next one. */
    struct ttl_params params = fs->ttl.params;
    params.monitor_enabled = fs->stored_enabled;
    if (ttl_params_encode(&params, &b)) {
        void *value = malloc(b.len);
        if (value) {
            memcpy(value, bson_get_data(&b), b.len);
            err = journal_put_meta(fs->tree, "params", value, b.len);
        }
    }
    bson_destroy(&b);
    return err;
}

static void write_param(
    fuse_req_t req, const struct control_node *node, const char *buf, size_t size)
{
    struct fs *fs = fs_of(req);
    struct reason why = {0};
    int err = 0;
    if (strcmp(node->name, CLOCK_OFFSET_NAME) == 0) {
        int64_t ms;
        if (parse_offset(buf, size, &ms))
            atomic_store(&fs->clock_offset_ms, ms);
        else
            err = reason_set(&why, EINVAL, "%s is a whole number of milliseconds", node->name);
        /* What the kernel believes was measured by another clock. */
        notifier_forget_names(&fs->notifier);
    } else if (strcmp(node->name, CLOCK_CONFIRM_NAME) == 0) {
        monitor_thread_confirm_clock(&fs->monitor);
    } else {
        tree_lock(fs->tree);
        struct ttl_params before = fs->ttl.params;
        char old[PARAM_TEXT_BYTES], new[PARAM_TEXT_BYTES];
        struct profile_change change;
        (void) ttl_param_get(&before, node->name, old);
        profile_change_begin(&change, req, old, strlen(old));
        bool stored = fs->stored_enabled;
        err = ttl_param_set(&fs->ttl.params, node->name, buf, size, &why);
        if (strcmp(node->name, "ttlMonitorEnabled") == 0)
            fs->stored_enabled = fs->ttl.params.monitor_enabled;
        if (!err)
            err = persist_params(fs);
        if (err) {
            fs->ttl.params = before;
            fs->stored_enabled = stored;
            profile_change_release(&change);
        } else {
            (void) ttl_param_get(&fs->ttl.params, node->name, new);
            profile_changed(fs, &change, NULL, node->name, new, strlen(new));
            slow_set_threshold(fs->ttl.params.slow_op_ms);
        }
        tree_unlock(fs->tree);
    }
    if (err) {
        log_line(LOG_INFO, "%s: refused: %s", node->name, why.text);
        fuse_reply_err(req, -err);
        return;
    }
    monitor_thread_wake(&fs->monitor);
    err = fs_settle(fs);
    if (err)
        fuse_reply_err(req, err);
    else
        fuse_reply_write(req, size);
}

static const struct control_node fixed_nodes[NODE_FIXED] = {
    [NODE_TOP] = {CONTROL_NAME, NODE_TOP, S_IFDIR | 0555, NULL, NULL},
    [NODE_STATUS] = {"status.json", NODE_TOP, S_IFREG | 0444, status_text, NULL},
    [NODE_METRICS] = {"metrics", NODE_TOP, S_IFREG | 0444, metrics_text, NULL},
    [NODE_CURRENT_OP] = {"currentOp.json", NODE_TOP, S_IFREG | 0444, currentop_text, NULL},
    [NODE_PROFILE] = {"profile.jsonl", NODE_TOP, S_IFREG | 0444, profile_text, NULL},
    [NODE_EVENTS] = {"events", NODE_TOP, S_IFREG | 0444, NULL, NULL},
    [NODE_DISTRIBUTION] = {"distribution.json", NODE_TOP, S_IFREG | 0444, distribution_text, NULL},
    [NODE_DUE] = {"due.jsonl", NODE_TOP, S_IFREG | 0444, due_text, NULL},
    [NODE_PASS] = {"pass", NODE_TOP, S_IFREG | 0644, pass_text, write_pass},
    [NODE_PARAMETERS] = {"parameters", NODE_TOP, S_IFDIR | 0555, NULL, NULL},
};

/*
 * Node `i` of the table: the fixed ones, then one for each parameter, then confirming the clock,
 * then the clock itself. Returns false behind the last.
 */
static bool node_at(const struct fs *fs, unsigned int i, struct control_node *ret_node)
{
    if (i < NODE_FIXED) {
        *ret_node = fixed_nodes[i];
        return true;
    }
    unsigned int nparams = 0;
    while (ttl_param_name(nparams))
        nparams++;
    unsigned int param = i - NODE_FIXED;
    const char *name = NULL;
    if (param < nparams)
        name = ttl_param_name(param);
    else if (param == nparams)
        name = CLOCK_CONFIRM_NAME;
    else if (param == nparams + 1 && fs->options.test_clock)
        name = CLOCK_OFFSET_NAME;
    if (!name)
        return false;
    *ret_node = (struct control_node){name, NODE_PARAMETERS, S_IFREG | 0644, NULL, write_param};
    return true;
}

static fuse_ino_t nodeid_of(unsigned int i)
{
    return ((fuse_ino_t) (i + 1) << 2) | 2;
}

static unsigned int index_of(fuse_ino_t ino)
{
    return (unsigned int) (ino >> 2) - 1;
}

static void fill_stat(
    const struct fs *fs, unsigned int i, const struct control_node *node, struct stat *st)
{
    memset(st, 0, sizeof *st);
    st->st_ino = CONTROL_INO_BASE + i;
    st->st_mode = node->mode;
    st->st_nlink = S_ISDIR(node->mode) ? 2 : 1;
    st->st_uid = fs->owner_uid;
    st->st_gid = fs->owner_gid;
    st->st_blksize = 4096;
    clock_gettime(CLOCK_REALTIME, &st->st_mtim);
    st->st_atim = st->st_ctim = st->st_mtim;
}

void control_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
    const struct fs *fs = fs_of(req);
    struct control_node node;
    struct fuse_entry_param e = {0};
    for (unsigned int i = 0; node_at(fs, i, &node); i++) {
        bool top = i == NODE_TOP;
        if (top != (parent == FUSE_ROOT_ID) || strcmp(node.name, name) != 0)
            continue;
        if (!top && nodeid_of(node.parent) != parent)
            continue;
        e.ino = nodeid_of(i);
        e.attr_timeout = e.entry_timeout = (double) FS_CACHE_MAX_MS / 1000;
        fill_stat(fs, i, &node, &e.attr);
        fuse_reply_entry(req, &e);
        return;
    }
    fuse_reply_err(req, ENOENT);
}

void control_getattr(fuse_req_t req, fuse_ino_t ino)
{
    const struct fs *fs = fs_of(req);
    struct control_node node;
    struct stat st;
    if (find_is_node(ino)) {
        find_getattr(req, ino);
        return;
    }
    if (!node_at(fs, index_of(ino), &node)) {
        fuse_reply_err(req, ENOENT);
        return;
    }
    fill_stat(fs, index_of(ino), &node, &st);
    fuse_reply_attr(req, &st, (double) FS_CACHE_MAX_MS / 1000);
}

static struct control_text *text_new(void)
{
    struct control_text *text = calloc(1, sizeof *text);
    if (!text)
        return NULL;
    pthread_mutex_lock(&texts_lock);
    text->next = texts;
    text->place = &texts;
    if (text->next)
        text->next->place = &text->next;
    texts = text;
    pthread_mutex_unlock(&texts_lock);
    return text;
}

static void text_free(struct control_text *text)
{
    pthread_mutex_lock(&texts_lock);
    *text->place = text->next;
    if (text->next)
        text->next->place = text->place;
    pthread_mutex_unlock(&texts_lock);
    free(text->text);
    free(text);
}

static void close_text(struct fs *fs, struct control_text *text)
{
    if (text->events)
        events_close(&fs->events, text->events);
    text_free(text);
}

static void reply_opened(fuse_req_t req, struct fuse_file_info *fi, struct control_text *text)
{
    fi->fh = (uint64_t) (uintptr_t) text;
    fi->direct_io = 1; /* no size is known beforehand */
    fi->noflush = 1;
    if (fuse_reply_open(req, fi) != 0)
        close_text(fs_of(req), text);
}

void control_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    struct control_node node;
    int mode = fi->flags & O_ACCMODE;
    if (find_is_node(ino)) {
        find_open(req, ino, fi);
        return;
    }
    if (!node_at(fs, index_of(ino), &node) || S_ISDIR(node.mode)) {
        fuse_reply_err(req, EISDIR);
        return;
    }
    /* Asked here too: without default_permissions the kernel does not. */
    if (mode != O_RDONLY && !node.write) {
        fuse_reply_err(req, EACCES);
        return;
    }
    struct control_text *text = text_new();
    int err = text ? 0 : -ENOMEM;
    if (!err && index_of(ino) == NODE_EVENTS) {
        text->events = events_open(&fs->events);
        err = text->events ? 0 : -ENOMEM;
        fi->nonseekable = 1;
    } else if (!err && mode != O_WRONLY) {
        err = node.read ? node.read(fs, &text->text, &text->len)
                        : read_param(fs, &node, &text->text, &text->len);
    }
    if (err) {
        if (text)
            text_free(text);
        fuse_reply_err(req, -err);
        return;
    }
    reply_opened(req, fi, text);
}

void control_open_text(fuse_req_t req, struct fuse_file_info *fi, char *text, size_t len)
{
    struct control_text *opened = text_new();
    if (!opened) {
        free(text);
        fuse_reply_err(req, ENOMEM);
        return;
    }
    opened->text = text;
    opened->len = len;
    reply_opened(req, fi, opened);
}

void control_read(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi)
{
    const struct control_text *text = (struct control_text *) (uintptr_t) fi->fh;
    if (text->events) {
        events_read(&fs_of(req)->events, text->events, req, size, fi->flags);
        return;
    }
    if (!text->text || off < 0 || (size_t) off >= text->len) {
        fuse_reply_buf(req, NULL, 0);
        return;
    }
    size_t left = text->len - (size_t) off;
    fuse_reply_buf(req, text->text + off, left < size ? left : size);
}

void control_write(fuse_req_t req, fuse_ino_t ino, const char *buf, size_t size)
{
    struct control_node node;
    if (!find_is_node(ino) && node_at(fs_of(req), index_of(ino), &node) && node.write)
        node.write(req, &node, buf, size);
    else
        fuse_reply_err(req, EACCES);
}

void control_release(fuse_req_t req, struct fuse_file_info *fi)
{
    close_text(fs_of(req), (struct control_text *) (uintptr_t) fi->fh);
    fuse_reply_err(req, 0);
}

void control_poll(
    fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct fuse_pollhandle *ph)
{
    struct events_reader *reader = NULL;
    if (control_is_node(ino))
        reader = ((const struct control_text *) (uintptr_t) fi->fh)->events;
    if (reader) {
        events_poll(&fs_of(req)->events, reader, req, ph);
        return;
    }
    if (ph)
        fuse_pollhandle_destroy(ph);
    /* As the kernel says of files that know no poll. */
    fuse_reply_poll(req, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM);
}

void control_tear_down(void)
{
    for (struct control_text *text = texts; text;) {
        struct control_text *next = text->next;
        free(text->text);
        free(text);
        text = next;
    }
    texts = NULL;
}

static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
    const struct fs *fs = fs_of(req);
    struct control_node node;
    char buf[4096];
    size_t used = 0, room = size < sizeof buf ? size : sizeof buf;
    /* Offsets: 1 and 2 behind the dots, then 3 + i behind node i. */
    for (unsigned int at = (unsigned int) off;; at++) {
        struct fuse_entry_param e = {0};
        const char *name;
        if (at < 2) {
            name = at == 0 ? "." : "..";
            e.attr.st_ino = CONTROL_INO_BASE;
            e.attr.st_mode = S_IFDIR;
        } else {
            unsigned int i = at - 2;
            if (!node_at(fs, i, &node))
                break;
            if (i == NODE_TOP || nodeid_of(node.parent) != ino)
                continue;
            name = node.name;
            e.ino = nodeid_of(i);
            e.attr_timeout = e.entry_timeout = (double) FS_CACHE_MAX_MS / 1000;
            fill_stat(fs, i, &node, &e.attr);
        }
        size_t need = plus ? fuse_add_direntry_plus(req, buf + used, room - used, name, &e, at + 1)
                           : fuse_add_direntry(req, buf + used, room - used, name, &e.attr, at + 1);
        if (need > room - used)
            break;
        used += need;
    }
    fuse_reply_buf(req, buf, used);
}

void control_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off)
{
    list(req, ino, size, off, false);
}

void control_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off)
{
    list(req, ino, size, off, true);
}
