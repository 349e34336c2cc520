/*
 * test_archive.c - archiving with an archive that is faked, names that make room, pruning, records.
 */
#include "tests/unit/scratch.h"
#include "tests/unit/unit.h"
#include "tests/unit/world.h"

#include "core/archive_record.h"
#include "ttl/archive.h"
#include "ttl/limbo.h"

#include <errno.h>
#include <fcntl.h>

enum { MAX_COPIES = 64 };

/* What a pass finds around it. */
struct vault {
    struct world w;
    int64_t now_ms;
    bool refuses, touches; /* the archive takes nothing; somebody writes while it copies */
    bool retry;
    unsigned int ncopies;
    struct archive_copy copies[MAX_COPIES];
};

static int64_t hook_clock(void *arg)
{
    return ((struct vault *) arg)->now_ms;
}

static int64_t hook_monotonic(void *arg)
{
    (void) arg;
    return 0;
}

static void hook_archive(void *arg, struct monitor_name *names, size_t n)
{
    struct vault *v = arg;
    for (size_t i = 0; i < n; i++) {
        if (!names[i].archive || v->refuses || v->ncopies == MAX_COPIES)
            continue;
        tree_lock(v->w.tree);
        struct dentry *d = tree_find(
            v->w.tree, document_collection(names[i].parent), names[i].name, strlen(names[i].name));
        world_must(d != NULL, "no name");
        CHECK(d->doc == names[i].doc);
        names[i].copied = archive_state_of(names[i].doc);
        CHECK_EQ(archive_copy_make(&v->w.ttl, d, &v->copies[v->ncopies++]), 0);
        if (v->touches)
            document_set_mtime(names[i].doc, world_time(v->now_ms + 1));
        tree_unlock(v->w.tree);
        names[i].archived = true;
    }
}

static void setup(struct vault *v, const char *path)
{
    memset(v, 0, sizeof *v);
    v->now_ms = T0;
    world_open(&v->w, path);
}

static void close_vault(struct vault *v)
{
    for (unsigned int i = 0; i < v->ncopies; i++)
        archive_copy_release(&v->copies[i]);
    world_close(&v->w);
}

static struct monitor_pass run_pass(struct vault *v)
{
    struct monitor_pass pass = {0};
    struct monitor_hooks hooks = {.arg = v,
        .clock_ms = hook_clock,
        .monotonic_ms = hook_monotonic,
        .archive = hook_archive,
        .retry = v->retry};
    monitor_pass(&v->w.ttl, &hooks, &pass);
    return pass;
}

/* A directory whose files live for ten seconds and are archived. */
static struct collection *folder(struct vault *v, struct collection *parent, const char *name)
{
    struct collection *dir = world_mkdir(&v->w, parent, name);
    CHECK_EQ(world_rule(&v->w, &dir->doc, "user.ttl.max", "10", T0), 0);
    CHECK_EQ(world_rule(&v->w, &dir->doc, "user.ttl.on-expire", "archive", T0), 0);
    return dir;
}

static void test_archived_then_deleted(void)
{
    struct vault v;
    setup(&v, NULL);
    struct collection *dir = folder(&v, v.w.tree->root, "a"), *below = world_mkdir(&v.w, dir, "b");
    struct dentry *d = world_file(&v.w, below, "doc", "content", T0);
    CHECK_EQ(world_rule(&v.w, d->doc, "user.ttl.seconds", "5", T0), 0);
    v.now_ms = T0 + 20 * SECOND;
    struct monitor_pass pass = run_pass(&v);
    CHECK_EQ(pass.deleted_documents, 1);
    CHECK_EQ(pass.errors, 0);
    CHECK_EQ(v.w.ttl.metrics.archived_documents, 1);
    CHECK_EQ(v.ncopies, 1);
    CHECK_STR(v.copies[0].path, "a/b");
    CHECK_STR(v.copies[0].name, "doc");
    CHECK_STR(v.copies[0].reason, "seconds");
    CHECK_EQ(v.copies[0].expired_ms, T0 + 5 * SECOND);
    CHECK_EQ(v.copies[0].size, 7);
    CHECK(v.copies[0].xattrs && strcmp(v.copies[0].xattrs->bytes, "user.ttl.seconds") == 0);
    CHECK_EQ(below->names.count, 0);
    close_vault(&v);
}

/* It stays as long as the archive refuses it, and is tried again when its time has come, or when asked. */
static void test_refused(void)
{
    struct vault v;
    setup(&v, NULL);
    struct collection *dir = folder(&v, v.w.tree->root, "a");
    world_file(&v.w, dir, "doc", "x", T0);
    v.now_ms = T0 + 20 * SECOND;
    v.refuses = true;
    struct monitor_pass pass = run_pass(&v);
    CHECK_EQ(pass.deleted_documents, 0);
    CHECK_EQ(pass.errors, 1);
    pass = run_pass(&v); /* not yet */
    CHECK_EQ(pass.visits, 0);
    v.retry = true;
    CHECK_EQ(run_pass(&v).errors, 1);
    v.retry = false;
    v.now_ms += 60 * SECOND;
    CHECK_EQ(run_pass(&v).errors, 1);
    v.refuses = false;
    v.now_ms += 60 * SECOND;
    pass = run_pass(&v);
    CHECK_EQ(pass.deleted_documents, 1);
    CHECK_EQ(v.w.ttl.metrics.errors, 3);
    close_vault(&v);
}

/* What is visible and changes while it is copied has not been archived. */
static void test_changed_meanwhile(void)
{
    struct vault v;
    setup(&v, NULL);
    struct collection *dir = folder(&v, v.w.tree->root, "a");
    CHECK_EQ(world_rule(&v.w, &dir->doc, "user.ttl.visibility", "until-deleted", T0), 0);
    world_file(&v.w, dir, "doc", "x", T0);
    v.now_ms = T0 + 20 * SECOND;
    v.touches = true;
    CHECK_EQ(run_pass(&v).deleted_documents, 0);
    CHECK_EQ(dir->names.count, 1);
    v.touches = false;
    v.retry = true;
    CHECK_EQ(run_pass(&v).deleted_documents, 1);
    CHECK_EQ(v.ncopies, 2);
    close_vault(&v);
}

static void take(struct vault *v, struct dentry *d)
{
    tree_lock(v->w.tree);
    CHECK_EQ(limbo_take(&v->w.ttl, d, world_time(v->now_ms)), 0);
    tree_unlock(v->w.tree);
}

/* Names that made room wait through a restart, and are archived as what they were. */
static void test_limbo(void)
{
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES];
    struct vault v;
    setup(&v, scratch_in(&scratch, "store", path));
    struct collection *dir = folder(&v, v.w.tree->root, "a");
    struct dentry *one = world_file(&v.w, dir, "doc", "first", T0), *other;
    tree_lock(v.w.tree);
    CHECK_EQ(tree_link(v.w.tree, one->doc, dir, "second", 6, world_time(T0), &other), 0);
    tree_unlock(v.w.tree);
    v.now_ms = T0 + 20 * SECOND;
    take(&v, one);
    CHECK_EQ(dir->names.count, 1);
    CHECK_EQ(v.w.tree->limbo->names.count, 1);
    tree_lock(v.w.tree);
    other = tree_find(v.w.tree, dir, "second", 6);
    world_must(other != NULL, "no second name");
    CHECK(other->doc->links == other); /* the limbo comes last */
    CHECK(ttl_document_hidden(&v.w.ttl, other->doc, v.now_ms));
    tree_unlock(v.w.tree);
    take(&v, other);
    world_file(&v.w, dir, "doc", "new", v.now_ms);
    CHECK_EQ(world_commit(&v.w), 0);
    char *before = world_dump(&v.w);
    close_vault(&v);

    setup(&v, path);
    char *after = world_dump(&v.w);
    CHECK_STR(after, before);
    free(before);
    free(after);
    CHECK_EQ(v.w.tree->limbo->names.count, 2);
    v.now_ms = T0 + 21 * SECOND;
    v.refuses = true;
    CHECK_EQ(run_pass(&v).errors, 2);
    v.refuses = false;
    v.retry = true;
    CHECK_EQ(run_pass(&v).deleted_documents, 2);
    CHECK_EQ(v.w.tree->limbo->names.count, 0);
    CHECK_EQ(v.ncopies, 2);
    for (unsigned int i = 0; i < v.ncopies; i++) {
        CHECK_STR(v.copies[i].path, "a");
        CHECK(strcmp(v.copies[i].name, "doc") == 0 || strcmp(v.copies[i].name, "second") == 0);
        CHECK_EQ(v.copies[i].size, 5);
        CHECK(v.copies[i].xattrs == NULL);
    }
    CHECK(world_find(&v.w, document_collection(world_find(&v.w, v.w.tree->root, "a")->doc),
              "doc") != NULL);
    CHECK_EQ(world_commit(&v.w), 0);
    close_vault(&v);
    setup(&v, path);
    CHECK_EQ(v.w.tree->limbo->names.count, 0);
    close_vault(&v);
    scratch_remove(&scratch);
}

static void test_prune(void)
{
    struct vault v;
    setup(&v, NULL);
    struct collection *top = folder(&v, v.w.tree->root, "top"), *at = top;
    CHECK_EQ(world_rule(&v.w, &top->doc, "user.ttl.prune", "yes", T0), 0);
    for (int i = 0; i < 5; i++)
        at = world_mkdir(&v.w, at, "below");
    world_mkdir(&v.w, top, "empty");
    world_file(&v.w, at, "doc", "x", T0);
    v.now_ms = T0 + 20 * SECOND;
    CHECK_EQ(run_pass(&v).deleted_documents, 1);
    CHECK_EQ(v.w.ttl.metrics.pruned_collections, 5);
    CHECK_EQ(top->names.count, 1);
    CHECK_EQ(v.w.tree->ncollections, 3);
    close_vault(&v);
}

static struct archive_copy sample(void)
{
    struct archive_copy copy = {.mount = strdup("/mnt"),
        .path = strdup("a/\xff/c"),
        .target = strdup("where"),
        .expired_ms = T0,
        .created_ms = -1,
        .by_content = true,
        .ino = 17,
        .size = UINT32_MAX + UINT64_C(1),
        .rdev = 5,
        .mode = S_IFREG | 0640,
        .uid = UINT32_MAX - 1,
        .atime = {-5, 999999999},
        .mtime = {5, 1},
        .xattrs = xattr_new("user.x", "\0\xff", 2)};
    memcpy(copy.name, "li\nne", 6);
    memcpy(copy.reason, "index \"x\"", 10);
    return copy;
}

static void test_record(void)
{
    struct archive_copy copy = sample(), again;
    char id[ARCHIVE_ID_BYTES], found[ARCHIVE_ID_BYTES], *text;
    size_t len;
    archive_copy_id(&copy, id);
    CHECK_EQ(archive_record_format(&copy, true, &text, &len), 0);
    CHECK_EQ(archive_record_parse(text, len, &again, found), 0);
    CHECK_STR(found, id);
    CHECK_STR(again.mount, "/mnt");
    CHECK_STR(again.path, "a/\xff/c");
    CHECK_STR(again.name, "li\nne");
    CHECK_STR(again.reason, "index \"x\"");
    CHECK_STR(again.target, "where");
    CHECK(again.by_content && again.expired_ms == T0 && again.created_ms == -1);
    CHECK(again.ino == 17 && again.size == copy.size && again.rdev == 5);
    CHECK(again.mode == copy.mode && again.uid == copy.uid && again.gid == 0);
    CHECK(again.atime.tv_sec == -5 && again.atime.tv_nsec == 999999999 && again.mtime.tv_nsec == 1);
    CHECK(again.xattrs && again.xattrs->value_len == 2);
    CHECK(again.xattrs && memcmp(xattr_value(again.xattrs), "\0\xff", 2) == 0);
    archive_copy_id(&again, found);
    CHECK_STR(found, id);
    archive_copy_release(&again);
    /* Whatever the archive's file says, it is refused or read, and nothing else happens. */
    for (size_t i = 0; i < len; i++) {
        char was = text[i];
        text[i] = '\0';
        if (archive_record_parse(text, i, &again, NULL) == 0)
            archive_copy_release(&again);
        text[i] = was == '"' ? '1' : '"';
        if (archive_record_parse(text, len, &again, NULL) == 0)
            archive_copy_release(&again);
        text[i] = was;
    }
    CHECK_EQ(archive_record_parse("{}", 2, &again, NULL), -EPROTO);
    CHECK_EQ(archive_record_parse("", 0, &again, NULL), -EPROTO);
    static const char slash[] = "{\"path\":\"\",\"name\":\"a/b\"}";
    CHECK_EQ(archive_record_parse(slash, sizeof slash - 1, &again, NULL), -EPROTO);
    free(text);
    archive_copy_release(&copy);
}

static void test_sidecar_names(void)
{
    char name[DOCUMENT_NAME_MAX_BYTES + 1], one[sizeof name], other[sizeof name];
    archive_sidecar_name("doc", one);
    CHECK_STR(one, ".doc.ttlfs");
    for (size_t len = 240; len <= DOCUMENT_NAME_MAX_BYTES; len++) {
        memset(name, 'n', len);
        name[len] = '\0';
        archive_sidecar_name(name, one);
        name[len - 1] = 'm';
        archive_sidecar_name(name, other);
        CHECK(strlen(one) <= DOCUMENT_NAME_MAX_BYTES && strcmp(one, other) != 0);
    }
}

static bool stop_at_once(void *arg)
{
    (void) arg;
    return true;
}

static void test_copy_out(void)
{
    struct scratch scratch = scratch_make();
    char path[SCRATCH_PATH_BYTES];
    struct vault v;
    setup(&v, NULL);
    struct dentry *d = world_file(&v.w, v.w.tree->root, "doc", "begin", T0);
    world_write(&v.w, d->doc, "end", 3, 1000000, T0, false);
    int fd = open(scratch_in(&scratch, "copy", path), O_RDWR | O_CREAT, 0600);
    struct stat st;
    char bytes[8] = "";
    tree_lock(v.w.tree);
    CHECK_EQ(file_copy_out(v.w.tree, d->doc, fd, stop_at_once, NULL), -EINTR);
    CHECK_EQ(file_copy_out(v.w.tree, d->doc, fd, NULL, NULL), 0);
    CHECK_EQ(d->doc->nopen, 0);
    tree_unlock(v.w.tree);
    CHECK(fstat(fd, &st) == 0 && st.st_size == 1000003 && st.st_blocks * 512 < 200000);
    CHECK(pread(fd, bytes, 5, 0) == 5 && memcmp(bytes, "begin", 5) == 0);
    CHECK(pread(fd, bytes, 5, 999998) == 5 && memcmp(bytes, "\0\0end", 5) == 0);
    close(fd);
    close_vault(&v);
    scratch_remove(&scratch);
}

int main(void)
{
    RUN(test_archived_then_deleted);
    RUN(test_refused);
    RUN(test_changed_meanwhile);
    RUN(test_limbo);
    RUN(test_prune);
    RUN(test_record);
    RUN(test_sidecar_names);
    RUN(test_copy_out);
    return unit_report();
}
