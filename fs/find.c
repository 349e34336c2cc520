#include "fs/find_impl.h"

#include "fs/control.h"
#include "fs/find_queue.h"
#include "ttl/deadline.h"
#include "ttl/events.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Inode numbers of nodes: far from those of documents and of `.ttlfs`. */
#define FIND_INO_BASE (UINT64_C(1) << 61)

static int64_t hash_of(const struct fs *fs, const struct collection *c,
    const struct find_node *parent, const char *name)
{
    uint64_t place = (uintptr_t) c ^ (uint64_t) (uintptr_t) parent << 7;
    return (int64_t) XXH3_64bits_withSeed(name, strlen(name), fs->tree->hash_seed ^ place);
}

/* The node with this name, or NULL. Expects the lock. */
static struct find_node *find_known(
    struct fs *fs, const struct collection *c, const struct find_node *parent, const char *name)
{
    int64_t hash = hash_of(fs, c, parent, name);
    struct btree_entry at = {hash, NULL};
    while (btree_copy(&fs->find_nodes, at, hash, &at, 1)) {
        struct find_node *node = at.item;
        if (node->c == c && node->parent == parent && strcmp(node->name, name) == 0)
            return node;
        at.item = (char *) at.item + 1;
    }
    return NULL;
}

/*
 * The node with this name, made when it is not there, with one more reference for the kernel: the same
 * filter must be the same node, or the kernel would throw out whoever stands in it. NULL: no memory.
 * Expects the lock.
 */
static struct find_node *find_get(struct fs *fs, struct collection *c, struct find_node *parent,
    enum find_kind kind, const char *name)
{
    struct find_node *node = find_known(fs, c, parent, name);
    if (!node) {
        size_t len = strlen(name);
        node = calloc(1, sizeof *node + len + 1);
        if (!node)
            return NULL;
        memcpy(node->name, name, len + 1);
        node->c = c;
        node->parent = parent;
        node->kind = (uint8_t) kind;
        node->depth = (uint8_t) ((parent ? parent->depth : 0) + (kind == FIND_FILTER));
        if (btree_insert(&fs->find_nodes, hash_of(fs, c, parent, name), node) != 0) {
            free(node);
            return NULL;
        }
        document_pin(&c->doc);
        if (parent)
            parent->holds++;
    }
    node->nlookup++;
    return node;
}

void find_put(struct fs *fs, struct find_node *node)
{
    while (node && !node->nlookup && !node->holds) {
        struct find_node *parent = node->parent;
        btree_remove(&fs->find_nodes, hash_of(fs, node->c, parent, node->name), node);
        document_unpin(fs->tree, &node->c->doc);
        free(node);
        if (parent)
            parent->holds--;
        node = parent;
    }
}

void find_forget(struct fs *fs, fuse_ino_t ino, uint64_t nlookup)
{
    struct find_node *node = find_node_of(ino);
    node->nlookup -= nlookup;
    find_put(fs, node);
}

void find_release(struct fs *fs)
{
    struct btree_entry first;
    while (fs->find_lists) {
        struct find_list *list = fs->find_lists;
        fs->find_lists = list->next;
        query_result_release(&list->result);
        free(list);
    }
    while (btree_first(&fs->find_nodes, &first)) {
        struct find_node *node = first.item;
        btree_remove(&fs->find_nodes, first.key, node);
        document_unpin(fs->tree, &node->c->doc);
        free(node);
    }
    btree_release(&fs->find_nodes);
}

struct document *find_document(fuse_ino_t ino)
{
    return &find_node_of(ino)->c->doc;
}

void find_stat(struct fs *fs, const struct find_node *node, struct stat *ret_stat)
{
    const struct document *dir = &node->c->doc;
    fs_stat(fs, dir, ret_stat);
    ret_stat->st_ino = FIND_INO_BASE | (uintptr_t) node;
    ret_stat->st_nlink = node->kind == FIND_EXPLAIN ? 1 : 2;
    ret_stat->st_size = 0;
    if (node->kind == FIND_EXPLAIN)
        ret_stat->st_mode = S_IFREG | (dir->mode & 0444);
}

int find_compile(
    const struct find_node *node, const char *more, struct query **ret_query, struct reason *why)
{
    const char *texts[FIND_MAX_DEPTH + 1];
    size_t n = 0;
    if (more)
        texts[n++] = more;
    for (; node->kind == FIND_FILTER && n <= FIND_MAX_DEPTH; node = node->parent)
        texts[n++] = node->name;
    return query_new(texts, n, ret_query, why);
}

static bool may_read(void *arg, const struct document *doc)
{
    const struct find_caller *caller = arg;
    return document_permits(doc, &caller->caller, MAY_READ);
}

static bool interrupted(void *arg)
{
    const struct find_caller *caller = arg;
    return fuse_req_interrupted(caller->req);
}

void find_caller_init(
    struct find_caller *ret_caller, fuse_req_t req, struct query_reader *ret_reader)
{
    ret_caller->req = req;
    caller_init(&ret_caller->caller, req);
    bool root = fuse_req_ctx(req)->uid == 0;
    if (!root)
        caller_load(&ret_caller->caller, req);
    *ret_reader = (struct query_reader){
        .arg = ret_caller, .may_read = root ? NULL : may_read, .interrupted = interrupted};
}

/* Replies with a node, which has a reference for the kernel. */
static void reply_node(fuse_req_t req, struct find_node *node)
{
    struct fs *fs = fs_of(req);
    struct fuse_entry_param e = {.ino = find_nodeid(node)};
    tree_lock(fs->tree);
    find_stat(fs, node, &e.attr);
    tree_unlock(fs->tree);
    if (fuse_reply_entry(req, &e) == 0)
        return;
    tree_lock(fs->tree);
    find_forget(fs, e.ino, 1);
    tree_unlock(fs->tree);
}

static void lookup_node(fuse_req_t req, struct collection *c, struct find_node *parent,
    enum find_kind kind, const char *name)
{
    struct fs *fs = fs_of(req);
    tree_lock(fs->tree);
    struct find_node *node = c->doc.nlink ? find_get(fs, c, parent, kind, name) : NULL;
    int err = c->doc.nlink ? ENOMEM : ENOENT;
    tree_unlock(fs->tree);
    if (node)
        reply_node(req, node);
    else
        fuse_reply_err(req, err);
}

/* A filter below `.find` or below another one. */
static void lookup_filter(fuse_req_t req, struct find_node *parent, const char *name)
{
    struct fs *fs = fs_of(req);
    struct reason why = {0};
    struct query *query = NULL;
    int err;
    if (parent->depth >= FIND_MAX_DEPTH)
        err = reason_set(&why, EINVAL, "more than %d filters below each other", FIND_MAX_DEPTH);
    else
        err = find_compile(parent, name, &query, &why);
    query_free(query);
    if (err) {
        tree_lock(fs->tree);
        fs_note_refusal(&parent->c->doc, &why);
        tree_unlock(fs->tree);
        fuse_reply_err(req, -err);
        return;
    }
    lookup_node(req, parent->c, parent, FIND_FILTER, name);
}

/* A document below a filter: 1 when it matches and was looked up, 0, or -errno. */
static int lookup_match(
    fuse_req_t req, struct find_node *parent, const char *name, struct fuse_entry_param *ret_entry)
{
    struct fs *fs = fs_of(req);
    struct query *query;
    struct query_reader reader;
    struct find_caller caller;
    int rc = find_compile(parent, NULL, &query, NULL);
    if (rc)
        return rc;
    find_caller_init(&caller, req, &reader);
    tree_lock(fs->tree);
    int64_t now_ms = fs_now_ms(fs);
    rc = query_matches(&fs->ttl, parent->c, query, name, strlen(name), now_ms, &reader);
    struct dentry *d = rc > 0 ? tree_find(fs->tree, parent->c, name, strlen(name)) : NULL;
    if (d && !document_is_collection(d->doc)) {
        uint32_t flags = d->doc->flags;
        fs_fill_entry(fs, d, now_ms, ret_entry);
        /* Whether it matches is asked every time. */
        d->doc->flags = flags;
        ret_entry->entry_timeout = 0;
    } else if (rc > 0) {
        rc = 0;
    }
    tree_unlock(fs->tree);
    caller_release(&caller.caller);
    query_free(query);
    return rc;
}

void find_lookup(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    struct fuse_entry_param e = {0};
    if (!find_is_node(ino)) {
        lookup_node(
            req, document_collection(fs_document(fs_of(req), ino)), NULL, FIND_TOP, FIND_NAME);
        return;
    }
    struct find_node *parent = find_node_of(ino);
    if (strlen(name) > DOCUMENT_NAME_MAX_BYTES) {
        fuse_reply_err(req, ENAMETOOLONG);
        return;
    }
    if (parent->kind == FIND_TOP) {
        lookup_filter(req, parent, name);
        return;
    }
    if (strcmp(name, FIND_EXPLAIN_NAME) == 0) {
        lookup_node(req, parent->c, parent, FIND_EXPLAIN, name);
        return;
    }
    /* A document may look like a filter. It is listed, so it is found. */
    int rc = lookup_match(req, parent, name, &e);
    if (rc > 0)
        fs_reply_entry(req, &e, 0);
    else if (rc < 0)
        fuse_reply_err(req, -rc);
    else if (name[0] == '{')
        lookup_filter(req, parent, name);
    else
        fuse_reply_err(req, ENOENT);
}

void find_getattr(fuse_req_t req, fuse_ino_t ino)
{
    struct fs *fs = fs_of(req);
    struct stat st;
    tree_lock(fs->tree);
    find_stat(fs, find_node_of(ino), &st);
    tree_unlock(fs->tree);
    fuse_reply_attr(req, &st, 0);
}

/* Removes a name that matches. Expects the lock; lets go. @ret_cached  does the kernel know it? */
static int unlink_match(struct fs *fs, struct collection *c, const struct query *query,
    const char *name, const struct query_reader *reader, bool *ret_cached)
{
    struct timespec now = fs_now(fs);
    size_t len = strlen(name);
    struct dentry *d = tree_find(fs->tree, c, name, len);
    if (!d)
        return -ENOENT;
    struct document *doc = d->doc;
    document_pin(doc);
    int rc = query_matches(&fs->ttl, c, query, name, len, timespec_ms(now), reader);
    /* Looked up again, since the lock was let go. */
    d = rc > 0 ? tree_find(fs->tree, c, name, len) : NULL;
    if (rc >= 0)
        rc = d && d->doc == doc ? 0 : -ENOENT;
    *ret_cached = doc->flags & DOCUMENT_KERNEL_CACHED;
    if (!rc)
        rc = ttl_unlink(&fs->ttl, d, now, TTL_EVENT_DELETED);
    document_unpin(fs->tree, doc);
    return rc;
}

void find_unlink(fuse_req_t req, fuse_ino_t ino, const char *name)
{
    struct fs *fs = fs_of(req);
    struct find_node *parent = find_node_of(ino);
    struct query_reader reader;
    struct find_caller caller;
    struct query *query;
    bool cached = false;
    if (parent->kind != FIND_FILTER || strcmp(name, FIND_EXPLAIN_NAME) == 0) {
        fuse_reply_err(req, EPERM);
        return;
    }
    int err = find_compile(parent, NULL, &query, NULL);
    if (err) {
        fuse_reply_err(req, -err);
        return;
    }
    find_caller_init(&caller, req, &reader);
    tree_lock(fs->tree);
    err = unlink_match(fs, parent->c, query, name, &reader, &cached);
    fuse_ino_t dir = fs_nodeid(fs, &parent->c->doc);
    cached |= timeseries_came_forward(&fs->ttl);
    tree_unlock(fs->tree);
    caller_release(&caller.caller);
    query_free(query);
    /* The kernel takes the name here for gone; it must not go on believing in it in the directory. */
    if (cached)
        notifier_forget_names(&fs->notifier);
    if (!err)
        notifier_attributes(&fs->notifier, dir);
    fs_reply_done(req, -err);
}

/* Explains a query. */
static void open_explanation(const struct find_job *job)
{
    char *text = NULL;
    size_t len = 0;
    struct fuse_file_info fi = job->fi;
    int err = find_explain(job->req, find_node_of(job->ino)->parent, &text, &len);
    if (err)
        fuse_reply_err(job->req, -err);
    else
        control_open_text(job->req, &fi, text, len);
}

void find_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    int err = 0;
    if (find_node_of(ino)->kind != FIND_EXPLAIN)
        err = EISDIR;
    else if ((fi->flags & O_ACCMODE) != O_RDONLY)
        err = EACCES;
    if (err) {
        fuse_reply_err(req, err);
        return;
    }
    const struct find_job job = {.run = open_explanation, .req = req, .ino = ino, .fi = *fi};
    find_submit(&job);
}
