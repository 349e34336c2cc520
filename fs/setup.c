/*
 * setup.c - see setup.h.
 */
#include "fs/setup.h"

#include "fs/archive.h"
#include "fs/find.h"
#include "fs/fs.h"
#include "fs/log.h"

#include "core/store.h"
#include "ttl/rules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int setup_failed(int status, const char *format, const char *detail)
{
    char line[512];
    (void) snprintf(line, sizeof line, format, detail);
    fprintf(stderr, "ttlfs: %s\n", line);
    return status;
}

static int64_t default_max_pages(void)
{
    /* As tmpfs: half of the memory. */
    return sysconf(_SC_PHYS_PAGES) / 2 * (sysconf(_SC_PAGESIZE) / CONTENT_PAGE_BYTES);
}

static int set_root_rule(struct fs *fs, const char *name, const char *value, struct reason *why)
{
    bool forward;
    if (!value)
        return 0;
    return rules_set(&fs->ttl, &fs->tree->root->doc, name, value, strlen(value), 0, fs_now_ms(fs),
        &forward, why);
}

/* Mount options that are the root collection's own. */
static int set_up_root(struct fs *fs, bool fresh, struct reason *why)
{
    const struct fs_options *o = &fs->options;
    struct document *root = &fs->tree->root->doc;
    tree_lock(fs->tree);
    int err = journal_will_change(fs->tree, root);
    if (!err && fresh) {
        struct timespec now = fs_now(fs);
        root->mode = S_IFDIR | (o->allow_other ? 01777 : 0755);
        root->uid = fs->owner_uid;
        root->gid = fs->owner_gid;
        document_set_atime(root, now);
        document_set_mtime(root, now);
        document_set_ctime(root, now);
        root->created_ms = root->ts_ms = root->accessed_ms = timespec_ms(now);
    }
    if (!err && o->mode >= 0)
        root->mode = S_IFDIR | (uint32_t) o->mode;
    if (!err && o->uid >= 0)
        root->uid = (uint32_t) o->uid;
    if (!err && o->gid >= 0)
        root->gid = (uint32_t) o->gid;
    if (!err)
        err = set_root_rule(fs, INDEX_XATTR_PREFIX "_ts", o->ttl, why);
    if (!err)
        err = set_root_rule(fs, TTL_XATTR_PREFIX "idle", o->idle, why);
    if (!err)
        err = set_root_rule(fs, TTL_XATTR_PREFIX "max", o->max, why);
    if (!err)
        err = set_root_rule(fs, TTL_XATTR_PREFIX "refresh", o->refresh, why);
    tree_unlock(fs->tree);
    return err;
}

static bool keep_blob(void *arg, uint64_t blob)
{
    const struct tree *tree = arg;
    return tree_has_blob(tree, blob);
}

int setup_fs(struct fs *fs)
{
    struct reason why = {0};
    int err = 0;
    const struct fs_options *o = &fs->options;
    err = archive_prepare(&fs->options, &why);
    if (err)
        return setup_failed(err == -EINVAL ? EXIT_OPTIONS : EXIT_SETUP, "%s", why.text);
    if (strcmp(o->store, "memory:") != 0)
        err = store_open(o->store, o->read_only, &fs->store, &why);
    if (err)
        return setup_failed(EXIT_SETUP, "%s", why.text[0] ? why.text : strerrordesc_np(-err));
    ttl_init(&fs->ttl);
    struct tree_observer observer = ttl_observer(&fs->ttl);
    fs->tree = tree_new(fs->store, &observer);
    if (!fs->tree)
        return setup_failed(EXIT_SETUP, "no memory%s", "");
    fs->ttl.tree = fs->tree;
    fs->ttl.read_only = o->read_only;
    fs->tree->journal.enabled = fs->store && !o->read_only;
    fs->tree->max_documents = o->max_documents;
    fs->tree->budget.max_pages = o->size_set || fs->store ? o->max_pages : default_max_pages();
    err = ttl_load(&fs->ttl, &why);
    bool fresh = fs->tree->root->doc.created_ms == 0;
    if (!err && fs->store && !o->read_only) {
        int swept = store_blob_sweep(fs->store, keep_blob, fs->tree);
        if (swept > 0)
            log_line(LOG_INFO, "%d large contents of an earlier process were removed", swept);
    }
    if (!err && (!o->read_only || fresh))
        err = set_up_root(fs, fresh, &why);
    /* A store that was opened read-only stays so, whatever the mount becomes. */
    fs->tree->journal.refuses = fs->store && o->read_only;
    fs->stored_enabled = fs->ttl.params.monitor_enabled;
    if (!err && o->monitor >= 0)
        fs->ttl.params.monitor_enabled = o->monitor;
    if (err)
        return setup_failed(EXIT_SETUP, "%s", why.text[0] ? why.text : strerrordesc_np(-err));
    return 0;
}

void setup_undo(struct fs *fs)
{
    if (fs->tree) {
        /* The kernel sends no RELEASE for what is open when the session ends. */
        tree_lock(fs->tree);
        while (fs->handles)
            fs_handle_free(fs, fs->handles);
        find_release(fs);
        tree_unlock(fs->tree);
    }
    tree_free(fs->tree);
    ttl_release(&fs->ttl);
    store_close(fs->store);
}
