/*
 * find_list.c - listing and explaining queries.
 *
 * A listing keeps the cookies of the names that matched (core/names.h): eight bytes each, and a place in
 * the listing stays good whatever happens to the names. Whether a name is still there and to be seen is
 * asked when it is handed out.
 */
#include "fs/find_impl.h"
#include "fs/find_queue.h"

#include "ttl/deadline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define COOKIE_DOT 1
#define COOKIE_DOTDOT 2

int find_run(fuse_req_t req, const struct find_node *node, struct query_result *ret_result)
{
    struct fs *fs = fs_of(req);
    struct query_reader reader;
    struct find_caller caller;
    struct query *query;
    int err = find_compile(node, NULL, &query, NULL);
    if (err)
        return err;
    find_caller_init(&caller, req, &reader);
    tree_lock(fs->tree);
    err = query_run(&fs->ttl, node->c, query, fs_now_ms(fs), &reader, ret_result);
    tree_unlock(fs->tree);
    caller_release(&caller.caller);
    query_free(query);
    return err;
}

static void list_free(struct fs *fs, struct find_list *list)
{
    tree_lock(fs->tree);
    *list->at = list->next;
    if (list->next)
        list->next->at = list->at;
    list->node->holds--;
    find_put(fs, list->node);
    tree_unlock(fs->tree);
    query_result_release(&list->result);
    free(list);
}

void find_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
    struct fs *fs = fs_of(req);
    struct find_list *list = calloc(1, sizeof *list);
    if (!list) {
        fuse_reply_err(req, ENOMEM);
        return;
    }
    tree_lock(fs->tree);
    list->node = find_node_of(ino);
    list->node->holds++;
    list->at = &fs->find_lists;
    list->next = fs->find_lists;
    if (list->next)
        list->next->at = &list->next;
    fs->find_lists = list;
    tree_unlock(fs->tree);
    fi->fh = (uint64_t) (uintptr_t) list;
    if (fuse_reply_open(req, fi) != 0)
        list_free(fs, list);
}

void find_releasedir(fuse_req_t req, struct fuse_file_info *fi)
{
    list_free(fs_of(req), (struct find_list *) (uintptr_t) fi->fh);
    fuse_reply_err(req, 0);
}

/* Evaluates the query when a listing begins, and anew when it is rewound. */
static int refresh(fuse_req_t req, struct find_list *list)
{
    struct fs *fs = fs_of(req);
    struct query_result result = {0}, old;
    int err = find_run(req, list->node, &result);
    if (err) {
        query_result_release(&result);
        return err;
    }
    /* Others may be reading through the same descriptor. */
    tree_lock(fs->tree);
    old = list->result;
    list->result = result;
    list->ran = true;
    tree_unlock(fs->tree);
    query_result_release(&old);
    return 0;
}

struct page {
    fuse_req_t req;
    bool plus;
    char *buf;
    size_t size, used;
};

/* Adds a name; no reference goes to the kernel. Returns false when it does not fit. */
static bool add(struct page *page, const char *name, uint64_t ino, uint32_t mode, uint64_t cookie)
{
    /* With attributes, an entry without a node number says that there are none (kernel 3.9). */
    struct fuse_entry_param e = {.attr = {.st_ino = ino, .st_mode = mode}};
    char *at = page->buf + page->used;
    size_t room = page->size - page->used;
    size_t need = page->plus
                      ? fuse_add_direntry_plus(page->req, at, room, name, &e, (off_t) cookie)
                      : fuse_add_direntry(page->req, at, room, name, &e.attr, (off_t) cookie);
    if (need > room)
        return false;
    page->used += need;
    return true;
}

static bool add_dots(struct page *page, struct fs *fs, const struct find_node *node, uint64_t *off)
{
    struct stat st;
    if (*off < COOKIE_DOT) {
        find_stat(fs, node, &st);
        if (!add(page, ".", st.st_ino, S_IFDIR, COOKIE_DOT))
            return false;
        *off = COOKIE_DOT;
    }
    if (*off < COOKIE_DOTDOT) {
        if (node->parent)
            find_stat(fs, node->parent, &st);
        else
            fs_stat(fs, &node->c->doc, &st);
        if (!add(page, "..", st.st_ino, S_IFDIR, COOKIE_DOTDOT))
            return false;
        *off = COOKIE_DOTDOT;
    }
    return true;
}

/* The first match behind a cookie. */
static size_t first_after(const struct query_result *result, uint64_t cookie)
{
    size_t low = 0, high = result->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (result->cookies[middle] <= cookie)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_matches(
    struct page *page, struct fs *fs, const struct find_list *list, uint64_t off, int64_t now_ms)
{
    const struct query_result *result = &list->result;
    for (size_t i = first_after(result, off); i < result->n; i++) {
        uint64_t cookie = result->cookies[i];
        struct dentry *d = names_after(&list->node->c->names, cookie - 1);
        if (!d || names_cookie(d) != cookie || document_is_collection(d->doc) ||
            ttl_hidden(&fs->ttl, d, now_ms))
            continue;
        if (!add(page, d->name, d->doc->ino, d->doc->mode, cookie))
            return;
    }
}

static void reply_page(
    fuse_req_t req, const struct find_list *list, size_t size, off_t off, bool plus)
{
    struct fs *fs = fs_of(req);
    struct page page = {.req = req, .plus = plus, .size = size, .buf = malloc(size)};
    if (!page.buf) {
        fuse_reply_err(req, ENOMEM);
        return;
    }
    uint64_t cookie = (uint64_t) off;
    tree_lock(fs->tree);
    if (add_dots(&page, fs, list->node, &cookie))
        add_matches(&page, fs, list, cookie, fs_now_ms(fs));
    tree_unlock(fs->tree);
    fuse_reply_buf(req, page.buf, page.used);
    free(page.buf);
}

/* Evaluates the query, and replies with the first page. */
static void begin_listing(const struct find_job *job)
{
    struct find_list *list = (struct find_list *) (uintptr_t) job->fi.fh;
    int err = refresh(job->req, list);
    if (err)
        fuse_reply_err(job->req, -err);
    else
        reply_page(job->req, list, job->size, job->off, job->plus);
}

void find_readdir(
    fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi, bool plus)
{
    struct fs *fs = fs_of(req);
    const struct find_list *list = (const struct find_list *) (uintptr_t) fi->fh;
    tree_lock(fs->tree);
    bool begins = list->node->kind == FIND_FILTER && (off == 0 || !list->ran);
    tree_unlock(fs->tree);
    if (!begins) {
        reply_page(req, list, size, off, plus);
        return;
    }
    const struct find_job job = {.run = begin_listing,
        .req = req,
        .ino = ino,
        .size = size,
        .off = off,
        .plus = plus,
        .fi = *fi};
    find_submit(&job);
}
