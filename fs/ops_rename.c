/*
 * ops_rename.c - rename in its three forms.
 *
 * A document that replaces another inherits from it: editors and session stores save this way, and
 * saving must neither drop a rule nor lengthen a maximum age.
 */
#include "fs/control.h"
#include "fs/find.h"
#include "fs/fs.h"
#include "fs/kinds.h"

#include "ttl/deadline.h"
#include "ttl/events.h"
#include "ttl/filing.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct rename {
    struct fs *fs;
    struct collection *from, *to;
    const char *name, *newname;
    unsigned int flags;
    struct timespec now;
    int64_t now_ms;
    const struct fuse_ctx *caller;
    bool forward; /* out: a deadline came forward, or may have */
};

/*
 * What RENAME_WHITEOUT leaves in place of the old name: a character device 0:0, as overlayfs reads
 * it. Made before anything moves, for that can fail; pinned.
 */
static int make_whiteout(struct rename *r, struct document **ret_doc)
{
    struct document_seed seed = {
        .mode = S_IFCHR, .uid = r->caller->uid, .gid = r->caller->gid, .now = r->now};
    if (r->from->doc.mode & S_ISGID)
        seed.gid = r->from->doc.gid;
    return tree_make(r->fs->tree, &seed, ret_doc);
}

/* Moves a name, which changes its dentry; leaves the whiteout, if there is one, in its place. */
static int move(struct rename *r, struct dentry **d, struct document *whiteout)
{
    struct tree *tree = r->fs->tree;
    struct dentry *left;
    int err = tree_move(tree, *d, r->to, r->newname, strlen(r->newname), r->now, d);
    if (!err && whiteout)
        err = tree_link(tree, whiteout, r->from, r->name, strlen(r->name), r->now, &left);
    if (!err && whiteout)
        ttl_tell(&r->fs->ttl, TTL_EVENT_CREATED, left, r->now_ms);
    return err;
}

/*
 * What is in force may have changed for everything below a collection that moved. Lets go.
 * @before  what was in force in it
 */
static int refile_collection(struct rename *r, struct collection *c, const struct ruleset *before)
{
    struct ttl *ttl = &r->fs->ttl;
    ttl->generation++;
    const struct ruleset *after = ruleset_of(ttl, c);
    if (before && after && ruleset_same(before, after))
        return 0;
    r->forward = true;
    return filing_rebuild(ttl, c, r->now_ms);
}

/* What holds for a document before it moves. */
struct departure {
    struct document *doc;
    int64_t deadline_ms;
    struct ruleset *rules; /* of a collection; held */
};

static struct departure departs(struct rename *r, struct document *doc)
{
    struct ttl *ttl = &r->fs->ttl;
    struct departure from = {.doc = doc};
    if (document_is_collection(doc))
        from.rules = ruleset_get(ttl, document_collection(doc));
    else
        from.deadline_ms = ttl_document_deadline(ttl, doc).at_ms;
    return from;
}

/* A name has arrived where other rules may hold; ends its departure. Lets go. */
static int arrived(struct rename *r, struct departure *from)
{
    struct document *doc = from->doc;
    int err = 0;
    document_pin(doc);
    if (document_is_collection(doc)) {
        err = refile_collection(r, document_collection(doc), from->rules);
    } else {
        if (fs_look(r->fs, doc, r->now_ms) ||
            ttl_document_deadline(&r->fs->ttl, doc).at_ms < from->deadline_ms)
            r->forward = true;
    }
    document_unpin(r->fs->tree, doc);
    ruleset_put(from->rules);
    return err;
}

/*
 * Before anything changes: is there room for a document in the capped collection that it goes to?
 * Returns 1 when the lock was let go and all has to be looked at again.
 */
static int reserve(
    struct rename *r, struct collection *to, struct document *doc, const struct dentry *target)
{
    if (r->from == r->to || document_is_collection(doc))
        return 0;
    return kinds_make_room(r->fs, to, doc, target, r->now);
}

/* It is the newest there. To be called in the same hold of the lock, before it moves. */
static int arrive(struct rename *r, struct collection *to, struct document *doc)
{
    if (r->from == r->to || document_is_collection(doc))
        return 0;
    return kinds_arrive(r->fs, to, doc);
}

static int exchange(struct rename *r, struct dentry *a, struct dentry *b)
{
    struct document *of_a = a->doc, *of_b = b->doc;
    if (of_a == of_b)
        return 0;
    if ((document_is_collection(of_a) && tree_is_below(r->to, document_collection(of_a))) ||
        (document_is_collection(of_b) && tree_is_below(r->from, document_collection(of_b))))
        return -EINVAL;
    int err = reserve(r, r->to, of_a, b);
    if (!err)
        err = reserve(r, r->from, of_b, a);
    if (!err)
        err = arrive(r, r->to, of_a);
    if (!err)
        err = arrive(r, r->from, of_b);
    if (err)
        return err;
    struct departure from_a = departs(r, of_a), from_b = departs(r, of_b);
    err = tree_exchange(r->fs->tree, a, b, r->now);
    if (!err) {
        kinds_came(r->fs, r->to, of_a, r->now);
        kinds_came(r->fs, r->from, of_b, r->now);
    }
    if (err) {
        ruleset_put(from_a.rules);
        ruleset_put(from_b.rules);
        return err;
    }
    if (!document_is_collection(of_b))
        ttl_tell(&r->fs->ttl, TTL_EVENT_CHANGED, a, r->now_ms);
    if (!document_is_collection(of_a))
        ttl_tell(&r->fs->ttl, TTL_EVENT_CHANGED, b, r->now_ms);
    document_pin(of_b);
    err = arrived(r, &from_a);
    int second = arrived(r, &from_b);
    document_unpin(r->fs->tree, of_b);
    return err ? err : second;
}

/* May `doc` take the place of `target`? Lets go when the target is a collection. */
static int check_target(struct rename *r, const struct document *doc, struct dentry *target)
{
    bool from_dir = document_is_collection(doc), to_dir = document_is_collection(target->doc);
    if (from_dir && !to_dir)
        return -ENOTDIR;
    if (!from_dir && to_dir)
        return -EISDIR;
    return to_dir ? fs_clear_expired(r->fs, document_collection(target->doc), r->now) : 0;
}

/*
 * Replaces the target. What can fail is done before the target goes; the move itself can only fail
 * for lack of memory.
 */
static int replace(struct rename *r, struct dentry *d, struct dentry *target)
{
    struct fs *fs = r->fs;
    struct document *doc = d->doc;
    if (target->doc == doc)
        return 0; /* two names of one document: POSIX says nothing happens */
    int err = check_target(r, doc, target);
    if (err)
        return err;
    /* Looked up again: the lock may have been let go. */
    d = tree_find(fs->tree, r->from, r->name, strlen(r->name));
    target = tree_find(fs->tree, r->to, r->newname, strlen(r->newname));
    if (!d || d->doc != doc || !target)
        return -ENOENT;
    if (!document_is_collection(doc)) {
        err = rules_inherit_from_target(&fs->ttl, doc, target->doc);
        if (err)
            return err;
    }
    return tree_unlink(fs->tree, target, r->now);
}

/* May what is renamed be where it is to be? Lets go. */
static int admit(struct rename *r)
{
    struct fs *fs = r->fs;
    if (r->from == r->to)
        return 0;
    const struct dentry *d = fs_find(fs, r->from, r->name, r->now_ms);
    int err = d ? kinds_admit(fs, r->to, d->doc) : -ENOENT;
    if (err || !(r->flags & RENAME_EXCHANGE))
        return err;
    d = fs_find(fs, r->to, r->newname, r->now_ms);
    return d ? kinds_admit(fs, r->from, d->doc) : -ENOENT;
}

/* Returns 1 when it has changed nothing and must be called again. */
static int rename_locked(struct rename *r)
{
    struct fs *fs = r->fs;
    struct dentry *d = fs_find(fs, r->from, r->name, r->now_ms);
    if (strlen(r->newname) > DOCUMENT_NAME_MAX_BYTES)
        return -ENAMETOOLONG;
    if (!d)
        return -ENOENT;
    struct dentry *target = tree_find(fs->tree, r->to, r->newname, strlen(r->newname));
    bool hidden = target && ttl_hidden(&fs->ttl, target, r->now_ms);
    if (r->flags & RENAME_EXCHANGE)
        return target && !hidden ? exchange(r, d, target) : -ENOENT;

    struct document *doc = d->doc;
    if (document_is_collection(doc) && tree_is_below(r->to, document_collection(doc)))
        return -EINVAL;
    if (target && !hidden && r->flags & RENAME_NOREPLACE)
        return -EEXIST;
    int err = 0;
    bool same = target && target->doc == doc;
    if (same && !hidden)
        return 0;
    err = reserve(r, r->to, doc, target);
    if (!err && r->flags & RENAME_WHITEOUT)
        err = kinds_may_make(r->from, S_IFCHR);
    if (err)
        return err;
    struct document *whiteout = NULL;
    if (r->flags & RENAME_WHITEOUT) {
        err = make_whiteout(r, &whiteout);
        if (err)
            return err;
    }
    struct departure from = departs(r, doc);
    if (target && hidden)
        err = fs_expire(fs, target, r->now);
    else if (target)
        err = replace(r, d, target);
    /* Looked up again: the lock may have been let go. */
    d = err ? NULL : tree_find(fs->tree, r->from, r->name, strlen(r->name));
    if (!err && (!d || d->doc != doc))
        err = -ENOENT;
    bool told = !err && !document_is_collection(doc);
    if (told)
        ttl_tell(&fs->ttl, TTL_EVENT_DELETED, d, r->now_ms);
    if (!err)
        err = arrive(r, r->to, doc);
    if (!err)
        err = move(r, &d, whiteout);
    if (whiteout)
        document_unpin(fs->tree, whiteout);
    /* Where it could not be moved it is back at once. */
    if (told)
        ttl_tell(&fs->ttl, target && !hidden && !err ? TTL_EVENT_CHANGED : TTL_EVENT_CREATED, d,
            r->now_ms);
    if (err) {
        ruleset_put(from.rules);
        return err;
    }
    kinds_came(fs, r->to, doc, r->now);
    if (r->flags & RENAME_WHITEOUT && r->from != r->to)
        kinds_came(fs, r->from, doc, r->now);
    return arrived(r, &from);
}

void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
    const char *newname, unsigned int flags)
{
    struct fs *fs = fs_of(req);
    bool control = control_is_node(parent) || control_is_node(newparent) ||
                   (parent == FUSE_ROOT_ID && strcmp(name, CONTROL_NAME) == 0) ||
                   (newparent == FUSE_ROOT_ID && strcmp(newname, CONTROL_NAME) == 0) ||
                   find_is_name(name) || find_is_name(newname);
    const unsigned int known = RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT;
    /* Out of a query: mv(1) then copies and unlinks. */
    if (find_is_node(parent) && !control_is_node(newparent) && !find_is_name(newname)) {
        fuse_reply_err(req, EXDEV);
        return;
    }
    if (control || flags & ~known) {
        fuse_reply_err(req, control ? EPERM : EINVAL);
        return;
    }
    tree_lock(fs->tree);
    struct rename r = {.fs = fs,
        .from = document_collection(fs_document(fs, parent)),
        .to = document_collection(fs_document(fs, newparent)),
        .name = name,
        .newname = newname,
        .flags = flags,
        .caller = fuse_req_ctx(req),
        .now = fs_now(fs)};
    r.now_ms = timespec_ms(r.now);
    int err = strlen(newname) > DOCUMENT_NAME_MAX_BYTES ? -ENAMETOOLONG : admit(&r);
    while (!err && (err = rename_locked(&r)) > 0)
        err = 0;
    r.forward |= timeseries_came_forward(&fs->ttl);
    tree_unlock(fs->tree);
    /*
     * Before the reply, because the kernel moves its cached name, with the old time-out, as soon as
     * it has it. Only all names at once can be forgotten now: the directories are locked.
     */
    if (r.forward)
        notifier_forget_names(&fs->notifier);
    fs_reply_done(req, -err);
}
