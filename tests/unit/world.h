/*
 * world.h - a tree with its rules, in memory or on a store, without a mount: what the tests of
 * core/ and ttl/ share.
 *
 * The helpers take the tree's lock themselves. What goes wrong in a helper ends the program.
 */
#ifndef TTLFS_TESTS_WORLD_H
#define TTLFS_TESTS_WORLD_H

#include "core/file.h"
#include "core/journal.h"
#include "core/names.h"
#include "core/store.h"
#include "core/tree.h"
#include "ttl/deadline.h"
#include "ttl/filing.h"
#include "ttl/monitor.h"
#include "ttl/rules.h"
#include "ttl/ttl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 2026-01-01T00:00:00Z: where the tests' time begins. */
#define T0 INT64_C(1767225600000)
#define SECOND INT64_C(1000)

struct world {
    struct store *store; /* NULL in memory */
    struct ttl ttl;
    struct tree *tree;
};

static inline void world_must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "the test cannot go on: %s\n", what);
        abort();
    }
}

static inline struct timespec world_time(int64_t ms)
{
    return (struct timespec){
        .tv_sec = (time_t) (ms / 1000), .tv_nsec = (long) (ms % 1000) * 1000000};
}

static inline void world_close(struct world *w)
{
    tree_free(w->tree);
    ttl_release(&w->ttl);
    store_close(w->store);
    memset(w, 0, sizeof *w);
}

/* @path NULL keeps all in memory. Returns what loading says; closed again when that is an error. */
static inline int world_try_open(struct world *w, const char *path)
{
    struct reason why = {0};
    memset(w, 0, sizeof *w);
    world_must(!path || store_open(path, false, &w->store, &why) == 0, why.text);
    ttl_init(&w->ttl);
    struct tree_observer observer = ttl_observer(&w->ttl);
    w->tree = tree_new(w->store, &observer);
    world_must(w->tree != NULL, "no tree");
    w->ttl.tree = w->tree;
    int err = ttl_load(&w->ttl, &why);
    if (err) {
        fprintf(stderr, "%s\n", why.text);
        world_close(w);
    }
    return err;
}

static inline void world_open(struct world *w, const char *path)
{
    world_must(world_try_open(w, path) == 0, "the tree cannot be loaded");
}

/* Any kind of document. @target of symlinks, else NULL. */
static inline struct dentry *world_make(struct world *w, struct collection *parent,
    const char *name, uint32_t mode, const char *target, int64_t now_ms)
{
    struct document_seed seed = {.mode = mode, .target = target, .now = world_time(now_ms)};
    struct document *doc;
    struct dentry *d;
    tree_lock(w->tree);
    world_must(tree_make(w->tree, &seed, &doc) == 0, "tree_make");
    world_must(tree_link(w->tree, doc, parent, name, strlen(name), seed.now, &d) == 0, "tree_link");
    document_unpin(w->tree, doc);
    tree_unlock(w->tree);
    return d;
}

static inline struct collection *world_mkdir(
    struct world *w, struct collection *parent, const char *name)
{
    return document_collection(world_make(w, parent, name, S_IFDIR | 0755, NULL, T0)->doc);
}

/* Writes at an offset as an open descriptor would, its fields looked at when it is closed. */
static inline void world_write(struct world *w, struct document *doc, const void *bytes, size_t len,
    uint64_t off, int64_t now_ms, bool creator)
{
    tree_lock(w->tree);
    world_must(file_open(w->tree, doc) == 0, "file_open");
    world_must(file_write(w->tree, doc, bytes, len, off) == (ssize_t) len, "file_write");
    filing_written(&w->ttl, doc, now_ms, creator);
    document_set_mtime(doc, world_time(now_ms));
    if (filing_wants_fields(&w->ttl, doc))
        world_must(filing_look(&w->ttl, doc, now_ms) >= 0, "filing_look");
    document_unpin(w->tree, doc);
    tree_unlock(w->tree);
}

/* A regular file with this text. */
static inline struct dentry *world_file(
    struct world *w, struct collection *parent, const char *name, const char *text, int64_t now_ms)
{
    struct dentry *d = world_make(w, parent, name, S_IFREG | 0644, NULL, now_ms);
    if (text && *text)
        world_write(w, d->doc, text, strlen(text), 0, now_ms, true);
    return d;
}

static inline void world_unlink(struct world *w, struct dentry *d, int64_t now_ms)
{
    tree_lock(w->tree);
    world_must(tree_unlink(w->tree, d, world_time(now_ms)) == 0, "tree_unlink");
    tree_unlock(w->tree);
}

static inline struct dentry *world_find(struct world *w, struct collection *c, const char *name)
{
    tree_lock(w->tree);
    struct dentry *d = tree_find(w->tree, c, name, strlen(name));
    tree_unlock(w->tree);
    return d;
}

/* setxattr. */
static inline int world_rule(
    struct world *w, struct document *doc, const char *name, const char *value, int64_t now_ms)
{
    bool forward;
    tree_lock(w->tree);
    int err = rules_set(&w->ttl, doc, name, value, strlen(value), 0, now_ms, &forward, NULL);
    tree_unlock(w->tree);
    return err;
}

static inline struct ttl_deadline world_deadline(struct world *w, struct document *doc)
{
    tree_lock(w->tree);
    struct ttl_deadline deadline = ttl_document_deadline(&w->ttl, doc);
    tree_unlock(w->tree);
    return deadline;
}

static inline int world_commit(struct world *w)
{
    uint64_t epoch;
    struct reason why = {0};
    return journal_commit(w->tree, &epoch, &why);
}

static inline int world_by_name(const void *a, const void *b)
{
    const struct dentry *x = *(struct dentry *const *) a, *y = *(struct dentry *const *) b;
    return strcmp(x->name, y->name);
}

static inline void world_dump_document(struct world *w, struct dentry *d, FILE *out)
{
    struct document *doc = d->doc;
    fprintf(out, " ino=%" PRIu64 " mode=%o owner=%u:%u nlink=%u", doc->ino, doc->mode, doc->uid,
        doc->gid, doc->nlink);
    fprintf(out, " atime=%" PRId64 ".%u mtime=%" PRId64 ".%u ctime=%" PRId64 ".%u", doc->atime_s,
        doc->atime_ns, doc->mtime_s, doc->mtime_ns, doc->ctime_s, doc->ctime_ns);
    fprintf(out, " created=%" PRId64 " ts=%" PRId64 " accessed=%" PRId64 " extended=%d",
        doc->created_ms, doc->ts_ms, doc->accessed_ms, !!(doc->flags & DOCUMENT_EXTENDED));
    for (const struct xattr *x = doc->xattrs; x; x = x->next) {
        fprintf(out, " %s=", x->bytes);
        for (uint32_t i = 0; i < x->value_len; i++)
            fprintf(out, "%02x", (unsigned char) xattr_value(x)[i]);
    }
    struct ttl_deadline deadline = ttl_deadline(&w->ttl, d);
    char reason[TTL_REASON_BYTES];
    ttl_reason_text(&deadline, reason);
    fprintf(out, " deadline=%" PRId64 " (%s)", deadline.at_ms, reason);
    if (S_ISLNK(doc->mode))
        fprintf(out, " -> %.*s", (int) doc->size, (char *) doc->data);
    if (S_ISBLK(doc->mode) || S_ISCHR(doc->mode))
        fprintf(out, " rdev=%" PRIu64, doc->rdev);
    if (S_ISREG(doc->mode)) {
        unsigned char *bytes = NULL;
        size_t len = 0;
        int err = file_copy_content(w->tree, doc, SIZE_MAX, &bytes, &len);
        uint64_t sum = 14695981039346656037U; /* FNV-1a */
        for (size_t i = 0; i < len && bytes; i++)
            sum = (sum ^ bytes[i]) * 1099511628211U;
        fprintf(out, " size=%" PRIu64 " err=%d len=%zu sum=%" PRIx64, doc->size, err, len, sum);
        free(bytes);
    }
    fputc('\n', out);
}

static inline void world_dump_below(struct world *w, struct collection *c, FILE *out)
{
    struct dentry **all = calloc(c->names.count + 1, sizeof(struct dentry *));
    size_t n = 0;
    if (!all)
        abort();
    for (struct dentry *d = names_after(&c->names, 0); d; d = names_next(d))
        all[n++] = d;
    if (n != c->names.count)
        fprintf(out, "%zu names, not %" PRIu64 "\n", n, c->names.count);
    qsort(all, n, sizeof(struct dentry *), world_by_name);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "in %" PRIu64 ": %s", c->doc.ino, all[i]->name);
        world_dump_document(w, all[i], out);
        if (document_is_collection(all[i]->doc))
            world_dump_below(w, document_collection(all[i]->doc), out);
    }
    free(all);
}

/* All that there is, as text: equal trees have equal texts. The caller frees it. */
static inline char *world_dump(struct world *w)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    world_must(out != NULL, "no memory");
    tree_lock(w->tree);
    const struct document *root = &w->tree->root->doc;
    fprintf(out, "%" PRIu64 " documents, root mode=%o nlink=%u mtime=%" PRId64 "\n",
        w->tree->ndocuments, root->mode, root->nlink, root->mtime_s);
    for (const struct xattr *x = root->xattrs; x; x = x->next)
        fprintf(out, "%s=%.*s\n", x->bytes, (int) x->value_len, xattr_value(x));
    world_dump_below(w, w->tree->root, out);
    tree_unlock(w->tree);
    fclose(out);
    return text;
}

#endif
