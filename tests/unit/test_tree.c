/*
 * test_tree.c - names and documents: links, moves, exchanges, orphans, limits, times.
 */
#include "core/tree.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { LOG_BYTES = 1000 };

/* What the observer heard: "+name" for a name, "-number" for a document that is freed. */
struct record {
    char log[LOG_BYTES];
    size_t len;
    bool quiet;
};

static void record(struct record *r, const char *format, const char *name, uint64_t ino)
{
    if (!r->quiet && r->len < LOG_BYTES - 50)
        r->len += (size_t) snprintf(
            r->log + r->len, LOG_BYTES - r->len, format, name, (unsigned long long) ino);
}

static void on_linked(void *arg, struct dentry *d)
{
    record(arg, "+%s(%llu) ", d->name, d->doc->ino);
}

static void on_root_loaded(void *arg, struct document *root)
{
    record(arg, "root%s(%llu) ", "", root->ino);
}

static void on_freed(void *arg, struct document *doc)
{
    record(arg, "-%s%llu ", "", doc->ino);
}

static struct record heard;

static struct tree *tree_for_test(void)
{
    struct tree_observer observer = {&heard, on_linked, on_root_loaded, on_freed};
    heard = (struct record){.quiet = false};
    struct tree *tree = tree_new(NULL, &observer);
    if (!tree)
        abort();
    tree_lock(tree);
    return tree;
}

/* Frees a tree that is locked, without hearing of it. */
static void end(struct tree *tree)
{
    heard.quiet = true;
    tree_unlock(tree);
    tree_free(tree);
}

/* What was heard since the last call. */
static const char *news(void)
{
    static char copy[LOG_BYTES];
    memcpy(copy, heard.log, sizeof copy);
    copy[heard.len] = '\0';
    heard.len = 0;
    return copy;
}

static struct timespec at(int64_t s)
{
    return (struct timespec){.tv_sec = s, .tv_nsec = 5000000};
}

static int try_link(struct tree *tree, struct document *doc, struct collection *c, const char *name,
    int64_t s, struct dentry **ret_dentry)
{
    return tree_link(tree, doc, c, name, strlen(name), at(s), ret_dentry);
}

static struct dentry *make(
    struct tree *tree, struct collection *c, const char *name, uint32_t mode, int64_t s)
{
    struct document_seed seed = {
        .mode = mode, .uid = 5, .gid = 6, .target = "target", .now = at(s)};
    struct document *doc = NULL;
    struct dentry *d = NULL;
    CHECK_EQ(tree_make(tree, &seed, &doc), 0);
    CHECK_EQ(try_link(tree, doc, c, name, s, &d), 0);
    document_unpin(tree, doc);
    return d;
}

static struct collection *make_dir(struct tree *tree, struct collection *c, const char *name)
{
    return document_collection(make(tree, c, name, S_IFDIR | 0755, 1)->doc);
}

static struct dentry *find(struct tree *tree, struct collection *c, const char *name)
{
    return tree_find(tree, c, name, strlen(name));
}

static void test_link_and_unlink(void)
{
    struct tree *tree = tree_for_test();
    CHECK_EQ(tree->root->doc.ino, TREE_ROOT_INO);
    CHECK_EQ(tree->root->doc.nlink, 2);
    CHECK_EQ(tree->ndocuments, 1);
    struct dentry *d = make(tree, tree->root, "f", S_IFREG | 0640, 10);
    CHECK_STR(news(), "+f(2) ");
    CHECK(find(tree, tree->root, "f") == d);
    CHECK(!find(tree, tree->root, "g"));
    CHECK_EQ(d->doc->nlink, 1);
    CHECK_EQ(d->doc->mode, S_IFREG | 0640);
    CHECK_EQ(d->doc->uid, 5);
    CHECK_EQ(d->doc->gid, 6);
    CHECK_EQ(d->doc->created_ms, 10005);
    CHECK_EQ(d->doc->ts_ms, 10005);
    CHECK_EQ(d->doc->accessed_ms, 10005);
    CHECK_EQ(d->doc->mtime_s, 10);
    CHECK_EQ(d->doc->mtime_ns, 5000000);
    CHECK_EQ(tree->root->doc.mtime_s, 10);
    CHECK_EQ(tree->root->doc.ctime_s, 10);
    CHECK_EQ(tree->ndocuments, 2);
    struct dentry *link = make(tree, tree->root, "l", S_IFLNK | 0777, 11);
    CHECK_EQ(link->doc->size, 6);
    CHECK(memcmp(link->doc->data, "target", 6) == 0);
    news();
    CHECK_EQ(tree_unlink(tree, d, at(20)), 0);
    CHECK_STR(news(), "-2 ");
    CHECK(!find(tree, tree->root, "f"));
    CHECK_EQ(tree->root->doc.mtime_s, 20);
    CHECK_EQ(tree->ndocuments, 2);
    /* A number is not given again. */
    CHECK_EQ(make(tree, tree->root, "f", S_IFREG, 1)->doc->ino, 4);
    end(tree);
}

static void test_hard_links(void)
{
    struct tree *tree = tree_for_test();
    struct collection *dir = make_dir(tree, tree->root, "dir");
    struct dentry *a = make(tree, tree->root, "a", S_IFREG, 10), *b, *c;
    struct document *doc = a->doc;
    news();
    CHECK_EQ(try_link(tree, doc, dir, "b", 20, &b), 0);
    CHECK_EQ(try_link(tree, doc, tree->root, "c", 30, &c), 0);
    CHECK_STR(news(), "+b(3) +c(3) ");
    CHECK_EQ(doc->nlink, 3);
    CHECK_EQ(doc->ctime_s, 30);
    CHECK_EQ(doc->mtime_s, 10);
    CHECK_EQ(dir->doc.mtime_s, 20);
    CHECK_EQ(dir->doc.nlink, 2);
    CHECK_EQ(tree_unlink(tree, a, at(40)), 0);
    CHECK_EQ(doc->ctime_s, 40);
    CHECK_EQ(tree_unlink(tree, c, at(41)), 0);
    CHECK_STR(news(), "");
    CHECK_EQ(doc->nlink, 1);
    CHECK(doc->links == b && !b->link_next);
    CHECK_EQ(tree_unlink(tree, b, at(42)), 0);
    CHECK_STR(news(), "-3 ");
    end(tree);
}

static void test_directories(void)
{
    struct tree *tree = tree_for_test();
    struct collection *a = make_dir(tree, tree->root, "a"), *b = make_dir(tree, a, "b");
    struct collection *c = make_dir(tree, b, "c");
    make(tree, a, "file", S_IFREG, 1);
    CHECK_EQ(tree->root->doc.nlink, 3);
    CHECK_EQ(a->doc.nlink, 3);
    CHECK_EQ(c->doc.nlink, 2);
    CHECK(collection_parent(c) == b && !collection_parent(tree->root));
    CHECK(tree_is_below(c, a) && tree_is_below(a, a) && tree_is_below(a, tree->root));
    CHECK(!tree_is_below(a, c) && !tree_is_below(tree->root, a));
    struct dentry *moved;
    CHECK_EQ(tree_move(tree, c->doc.links, tree->root, "c", 1, at(50), &moved), 0);
    CHECK_EQ(b->doc.nlink, 2);
    CHECK_EQ(tree->root->doc.nlink, 4);
    CHECK_EQ(b->doc.mtime_s, 50);
    CHECK(collection_parent(c) == tree->root);
    /* One that was removed but is still in use: nothing can be made in it. */
    document_pin(&c->doc);
    CHECK_EQ(tree_unlink(tree, moved, at(60)), 0);
    CHECK_EQ(c->doc.nlink, 0);
    CHECK_EQ(tree->root->doc.nlink, 3);
    CHECK(!collection_parent(c));
    struct dentry *f = find(tree, a, "file"), *d;
    CHECK_EQ(try_link(tree, f->doc, c, "x", 1, &d), -ENOENT);
    CHECK_EQ(tree_move(tree, f, c, "x", 1, at(1), &d), -ENOENT);
    CHECK(find(tree, a, "file") == f);
    news();
    document_unpin(tree, &c->doc);
    CHECK_STR(news(), "-4 ");
    unsigned int n = 0;
    for (struct collection *each = tree->collections; each; each = each->all_next)
        n++;
    CHECK_EQ(n, 3);
    end(tree);
}

static void test_move_and_exchange(void)
{
    struct tree *tree = tree_for_test();
    struct collection *a = make_dir(tree, tree->root, "a"), *b = make_dir(tree, tree->root, "b");
    struct collection *sub = make_dir(tree, a, "sub");
    struct dentry *f = make(tree, a, "f", S_IFREG, 10), *g;
    struct document *doc = f->doc;
    char long_name[DOCUMENT_NAME_MAX_BYTES + 2];
    memset(long_name, 'n', sizeof long_name);
    news();
    CHECK_EQ(tree_move(tree, f, b, long_name, sizeof long_name - 1, at(20), &g), -ENAMETOOLONG);
    CHECK_EQ(tree_move(tree, f, b, long_name, sizeof long_name - 2, at(20), &f), 0);
    CHECK_EQ(f->name_len, DOCUMENT_NAME_MAX_BYTES);
    CHECK_EQ(doc->nlink, 1);
    CHECK_EQ(doc->ctime_s, 20);
    CHECK_EQ(doc->mtime_s, 10);
    CHECK(a->doc.mtime_s == 20 && b->doc.mtime_s == 20);
    CHECK_EQ(tree_move(tree, f, b, "g", 1, at(21), &f), 0);
    CHECK_EQ(b->names.count, 1);
    news();

    /* A file with a directory, then back. */
    CHECK_EQ(tree_exchange(tree, sub->doc.links, f, at(30)), 0);
    CHECK_STR(news(), "+sub(5) +g(4) ");
    CHECK(find(tree, a, "sub")->doc == doc && find(tree, b, "g")->doc == &sub->doc);
    CHECK_EQ(a->doc.nlink, 2);
    CHECK_EQ(b->doc.nlink, 3);
    CHECK(collection_parent(sub) == b);
    CHECK_EQ(doc->ctime_s, 30);
    CHECK_EQ(tree_exchange(tree, find(tree, a, "sub"), find(tree, b, "g"), at(31)), 0);
    CHECK_EQ(a->doc.nlink, 3);
    CHECK_EQ(b->doc.nlink, 2);
    /* Two names of one document, and one of several names. */
    CHECK_EQ(try_link(tree, doc, a, "h", 40, &g), 0);
    CHECK_EQ(tree_exchange(tree, g, find(tree, b, "g"), at(41)), 0);
    CHECK_EQ(doc->nlink, 2);
    struct dentry *other = make(tree, a, "other", S_IFREG, 42);
    struct document *other_doc = other->doc;
    CHECK_EQ(tree_exchange(tree, find(tree, a, "h"), other, at(43)), 0);
    CHECK(find(tree, a, "h")->doc == other_doc && find(tree, a, "other")->doc == doc);
    CHECK(other_doc->nlink == 1 && doc->nlink == 2);
    end(tree);
}

/* Documents without a name stay as long as something holds them. */
static void test_orphans(void)
{
    struct tree *tree = tree_for_test();
    struct dentry *d = make(tree, tree->root, "open", S_IFREG, 1);
    struct document *doc = d->doc, *temporary;
    document_pin(doc);
    doc->nlookup = 3;
    news();
    CHECK_EQ(tree_unlink(tree, d, at(2)), 0);
    CHECK_EQ(tree->orphans.count, 1);
    CHECK_EQ(doc->nlink, 0);
    CHECK_EQ(tree->ndocuments, 2);
    document_unpin(tree, doc);
    CHECK_EQ(tree->ndocuments, 1); /* open nowhere: it counts no more */
    document_forget(tree, doc, 2);
    CHECK_STR(news(), "");
    document_forget(tree, doc, 1);
    CHECK_STR(news(), "-2 ");
    CHECK_EQ(tree->orphans.count, 0);
    CHECK_EQ(tree->ndocuments, 1);

    /* O_TMPFILE: made without a name, perhaps given one, perhaps not. */
    struct document_seed seed = {.mode = S_IFREG, .now = at(1)};
    for (int named = 0; named < 2; named++) {
        CHECK_EQ(tree_make(tree, &seed, &temporary), 0);
        if (named)
            CHECK_EQ(try_link(tree, temporary, tree->root, "named", 1, &d), 0);
        news();
        document_unpin(tree, temporary);
        CHECK_STR(news(), named ? "" : "-3 ");
    }
    /* What the kernel still knows when the tree ends is freed with it. */
    d->doc->nlookup = 1;
    CHECK_EQ(tree_unlink(tree, d, at(9)), 0);
    CHECK_EQ(tree->orphans.count, 1);
    end(tree);
}

static void test_limits(void)
{
    struct tree *tree = tree_for_test();
    struct document_seed seed = {.mode = S_IFREG, .now = at(1)};
    struct document *doc = NULL;
    struct dentry *d;
    tree->max_documents = 3;
    make(tree, tree->root, "1", S_IFREG, 1);
    make(tree, tree->root, "2", S_IFDIR, 1);
    CHECK_EQ(tree_make(tree, &seed, &doc), -ENOSPC);
    CHECK(!doc);
    CHECK_EQ(tree->ndocuments, 3);
    struct document *one = find(tree, tree->root, "1")->doc;
    CHECK_EQ(try_link(tree, one, tree->root, "another name is no document", 1, &d), 0);
    CHECK_EQ(tree_unlink(tree, find(tree, tree->root, "2"), at(1)), 0);
    make(tree, tree->root, "3", S_IFREG, 1);
    one->nlink = UINT32_MAX;
    CHECK_EQ(try_link(tree, one, tree->root, "too many", 1, &d), -EMLINK);
    one->nlink = 2;
    end(tree);
}

/* A tree of any depth and width is freed; leak checkers look on. */
static void test_free_deep_and_wide(void)
{
    struct tree *tree = tree_for_test();
    struct collection *at_dir = tree->root;
    struct dentry *d;
    char name[32];
    heard.quiet = true;
    for (int i = 0; i < 5000; i++) {
        make(tree, at_dir, "file", S_IFREG, 1);
        at_dir = make_dir(tree, at_dir, "d");
    }
    for (int i = 0; i < 5000; i++) {
        (void) snprintf(name, sizeof name, "%d", i);
        struct document *doc = make(tree, at_dir, name, S_IFREG, 1)->doc;
        if (i % 100 == 0)
            CHECK_EQ(try_link(tree, doc, tree->root, name, 1, &d), 0);
    }
    CHECK_EQ(tree->ndocuments, 1 + 15000);
    end(tree);
}

static void test_xattrs(void)
{
    struct document doc = {0};
    document_xattr_put(&doc, xattr_new("user.a", "one", 3));
    document_xattr_put(&doc, xattr_new("user.ab", "\0", 1));
    document_xattr_put(&doc, xattr_new("user.a", "", 0));
    CHECK_EQ(document_xattr(&doc, "user.a")->value_len, 0);
    CHECK_EQ(document_xattr(&doc, "user.ab")->value_len, 1);
    CHECK(!document_xattr(&doc, "user."));
    CHECK(document_xattr_remove(&doc, "user.a") && !document_xattr_remove(&doc, "user.a"));
    CHECK_STR(doc.xattrs->bytes, "user.ab");
    document_xattrs_release(&doc);
    CHECK(!doc.xattrs);
}

int main(void)
{
    RUN(test_link_and_unlink);
    RUN(test_hard_links);
    RUN(test_directories);
    RUN(test_move_and_exchange);
    RUN(test_orphans);
    RUN(test_limits);
    RUN(test_free_deep_and_wide);
    RUN(test_xattrs);
    return unit_report();
}
