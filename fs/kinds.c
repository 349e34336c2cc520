#include "fs/kinds.h"

#include "ttl/capped.h"
#include "ttl/deadline.h"
#include "ttl/events.h"
#include "ttl/filing.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* Names evicted per hold of the lock, where they can be evicted before the change that they make
 * room for. */
#define SLICE_DOCS 128

static const struct btree_entry FROM_OLDEST = {INT64_MIN, NULL};

/* Notes a refusal on a collection, and on a document that may be NULL. */
static void note(struct collection *c, struct document *doc, const struct reason *why)
{
    fs_note_refusal(&c->doc, why);
    if (doc)
        rules_note_error(doc, why);
}

/* Time series */

static int refuse_timeless(struct collection *c, struct document *doc)
{
    struct reason why = {0};
    int err = reason_set(&why, EINVAL, "the time field %s must be there and hold a BSON date",
        timeseries_of(c)->spec.time_field);
    note(c, doc, &why);
    return err;
}

int kinds_may_make(struct collection *c, uint32_t mode)
{
    if (S_ISDIR(mode) || !timeseries_of(c))
        return 0;
    return refuse_timeless(c, NULL);
}

int kinds_close(const struct handle *handle)
{
    struct document *doc = handle->doc;
    if (!handle->wrote && !handle->creator)
        return 0;
    for (struct dentry *d = doc->links; d; d = d->link_next) {
        const struct timeseries *ts = timeseries_of(d->parent);
        if (!ts)
            continue;
        bool has = timeseries_has(ts, d);
        if (has && !(doc->flags & DOCUMENT_TIMELESS))
            continue;
        /* A shell that opens, duplicates and closes has not said yet what it has to say. */
        if (doc->size)
            (void) refuse_timeless(d->parent, doc);
        if (!has)
            doc->flags |= DOCUMENT_REFUSED;
        return -EINVAL;
    }
    return 0;
}

/* Takes away the names of a refused document that nobody else has open. */
static void remove_refused(struct fs *fs, struct document *doc)
{
    struct timespec now = fs_now(fs);
    doc->flags &= ~(uint32_t) DOCUMENT_REFUSED;
    for (struct dentry *d = doc->links, *next; d; d = next) {
        next = d->link_next;
        struct collection *c = d->parent;
        if (!timeseries_refuses(d))
            continue;
        notifier_drop_name(&fs->notifier, fs_nodeid(fs, &c->doc), d->name, d->name_len);
        notifier_attributes(&fs->notifier, fs_nodeid(fs, &c->doc));
        /* Without memory to note it, it stays, as a file that no bucket has. */
        (void) ttl_unlink(&fs->ttl, d, now, TTL_EVENT_DELETED);
    }
}

/* Has somebody else the document open? What only looks at it, and holds it for that, does not count. */
static bool is_open_elsewhere(const struct fs *fs, const struct handle *handle)
{
    for (const struct handle *h = fs->handles; h; h = h->next)
        if (h != handle && h->doc == handle->doc)
            return true;
    return false;
}

void kinds_release(struct fs *fs, const struct handle *handle)
{
    struct document *doc = handle->doc;
    if (handle->creator && timeseries_lacks_time(doc))
        doc->flags |= DOCUMENT_REFUSED; /* no FLUSH was asked for */
    if (!(doc->flags & (DOCUMENT_REFUSED | DOCUMENT_TIMELESS)) || is_open_elsewhere(fs, handle))
        return;
    /* What has remained empty was refused without a word so far. */
    if (doc->size == 0 && (handle->wrote || handle->creator))
        for (const struct dentry *d = doc->links; d; d = d->link_next)
            if (timeseries_of(d->parent))
                (void) refuse_timeless(d->parent, doc);
    if (doc->flags & DOCUMENT_REFUSED)
        remove_refused(fs, doc);
}

/* Capped collections */

static void evict(struct fs *fs, struct dentry *d, struct timespec now)
{
    struct document *doc = d->doc;
    fuse_ino_t parent = fs_nodeid(fs, &d->parent->doc);
    if (doc->nlookup) {
        notifier_deleted(&fs->notifier, parent, fs_nodeid(fs, doc), d->name, d->name_len);
        if (doc->nlink > 1)
            notifier_attributes(&fs->notifier, fs_nodeid(fs, doc));
    }
    if (ttl_unlink(&fs->ttl, d, now, TTL_EVENT_DELETED) == 0)
        fs->ttl.metrics.evicted_documents++;
}

/* Evicts the oldest until a collection is within its limits, `max` names at most. Returns how many. */
static unsigned int evict_oldest(struct fs *fs, struct index *cap, const struct document *self,
    unsigned int max, struct timespec now)
{
    unsigned int n = 0;
    struct btree_entry after = FROM_OLDEST;
    while (n < max && !capped_fits(cap, 0, 0)) {
        struct dentry *d = capped_victim(&fs->ttl, cap, self, NULL, &after);
        if (!d)
            break;
        evict(fs, d, now);
        n++;
    }
    if (n)
        notifier_attributes(&fs->notifier, fs_nodeid(fs, &cap->owner->doc));
    return n;
}

void kinds_came(
    struct fs *fs, struct collection *c, const struct document *doc, struct timespec now)
{
    struct index *cap = capped_of(c);
    if (cap)
        (void) evict_oldest(fs, cap, doc, UINT_MAX, now);
}

void kinds_trim(struct fs *fs, struct collection *c)
{
    document_pin(&c->doc);
    for (;;) {
        struct index *cap = capped_of(c);
        if (!cap || evict_oldest(fs, cap, NULL, SLICE_DOCS, fs_now(fs)) < SLICE_DOCS)
            break;
        tree_unlock(fs->tree);
        tree_lock_background(fs->tree);
    }
    document_unpin(fs->tree, &c->doc);
}

/*
 * Can so much be added, if the oldest go? Evicts a slice itself when a slice is not enough.
 * Returns 0, 1 (let go: ask again), or -ENOSPC.
 */
static int make_room(struct fs *fs, struct index *cap, const struct document *self,
    const struct dentry *spare, int64_t documents, int64_t bytes, struct timespec now)
{
    struct dentry *victims[SLICE_DOCS];
    struct btree_entry after = FROM_OLDEST;
    unsigned int n = 0;
    while (!capped_fits(cap, documents, bytes) && n < SLICE_DOCS) {
        struct dentry *d = capped_victim(&fs->ttl, cap, self, spare, &after);
        if (!d)
            return -ENOSPC;
        victims[n++] = d;
        documents--;
        bytes -= (int64_t) d->doc->size;
    }
    if (n < SLICE_DOCS)
        return 0;
    for (unsigned int i = 0; i < n; i++)
        evict(fs, victims[i], now);
    tree_unlock(fs->tree);
    tree_lock_background(fs->tree);
    return 1;
}

static int refuse_large(struct collection *c, struct document *doc, uint64_t size)
{
    struct reason why = {0};
    int err = reason_set(&why, EFBIG,
        "%" PRIu64 " bytes are more than the whole capped collection may have: %" PRIu64, size,
        capped_of(c)->cap.max_bytes);
    note(c, doc, &why);
    return err;
}

static int refuse_full(struct collection *c, struct document *doc)
{
    struct reason why = {0};
    int err = reason_set(&why, ENOSPC, "the capped collection is full, and what is in it is held");
    note(c, doc, &why);
    return err;
}

static bool is_too_large(const struct collection *c, uint64_t size)
{
    uint64_t max = capped_of(c)->cap.max_bytes;
    return max && size > max;
}

int kinds_make_room(struct fs *fs, struct collection *c, struct document *doc,
    const struct dentry *spare, struct timespec now)
{
    struct index *cap = capped_of(c);
    if (!cap)
        return 0;
    uint64_t size = doc ? doc->size : 0;
    if (is_too_large(c, size))
        return refuse_large(c, doc, size);
    int64_t freed = spare && spare->parent == c ? (int64_t) spare->doc->size : 0;
    int64_t documents = spare && spare->parent == c ? 0 : 1;
    int err = make_room(fs, cap, doc, spare, documents, (int64_t) size - freed, now);
    return err == -ENOSPC ? refuse_full(c, doc) : err;
}

int kinds_arrive(struct fs *fs, struct collection *c, struct document *doc)
{
    return capped_of(c) ? capped_arrives(&fs->ttl, doc) : 0;
}

/* How many bytes a collection gets more when a document of these names has another size. */
static int64_t growth_in(const struct document *doc, const struct collection *c, uint64_t size)
{
    int64_t names = 0;
    for (const struct dentry *d = doc->links; d; d = d->link_next)
        names += d->parent == c;
    return names * ((int64_t) size - (int64_t) doc->size);
}

int kinds_grow(struct fs *fs, struct document *doc, uint64_t size, struct timespec now)
{
    for (struct dentry *d = doc->links; d;) {
        struct collection *c = d->parent;
        struct index *cap = capped_of(c);
        int err = 0;
        if (cap && size > doc->size && is_too_large(c, size))
            return refuse_large(c, doc, size);
        if (cap && size > doc->size)
            err = make_room(fs, cap, doc, NULL, 0, growth_in(doc, c, size), now);
        if (err < 0)
            return refuse_full(c, doc);
        /* From the first name again when others may have come and gone. */
        d = err > 0 ? doc->links : d->link_next;
    }
    return 0;
}

void kinds_grew(struct fs *fs, struct document *doc, struct timespec now)
{
    for (struct dentry *d = doc->links; d; d = d->link_next)
        kinds_came(fs, d->parent, doc, now);
}

struct handle *kinds_opendir(struct fs *fs, fuse_ino_t ino, int flags)
{
    struct handle *handle = NULL;
    tree_lock(fs->tree);
    struct document *doc = fs_document(fs, ino);
    if (capped_of(document_collection(doc))) {
        document_pin(doc);
        handle = fs_handle_new(fs, doc, flags);
        if (handle)
            handle->horizon = (int64_t) fs->tree->next_ino;
        else
            document_unpin(fs->tree, doc);
    }
    tree_unlock(fs->tree);
    return handle;
}

bool kinds_lists(const struct handle *handle, struct dentry *d)
{
    const struct index *cap = capped_of(document_collection(handle->doc));
    const struct index_slot *slot = cap ? index_slot(d, cap, NULL) : NULL;
    return !slot || slot->key < handle->horizon;
}

/* Both */

int kinds_admit(struct fs *fs, struct collection *c, struct document *doc)
{
    if (document_is_collection(doc))
        return 0;
    if (capped_of(c) && is_too_large(c, doc->size))
        return refuse_large(c, doc, doc->size);
    if (!timeseries_of(c))
        return 0;
    bson_t fields;
    document_pin(&c->doc);
    document_pin(doc);
    int err = 0;
    if (S_ISREG(doc->mode)) {
        err = filing_fields(&fs->ttl, doc, &fields);
        /* The rule may be gone by now. */
        const struct timeseries *ts = timeseries_of(c);
        if (!err && ts && !timeseries_admits(ts, &fields))
            err = -EINVAL;
        bson_destroy(&fields);
    } else {
        err = -EINVAL;
    }
    if (err == -EINVAL && timeseries_of(c))
        err = refuse_timeless(c, doc);
    document_unpin(fs->tree, doc);
    document_unpin(fs->tree, &c->doc);
    return err;
}

void kinds_prepare(struct fs *fs, struct document *doc, const char *name, struct timespec now)
{
    if (strcmp(name, TTL_XATTR_PREFIX "timeseries") == 0 && document_is_collection(doc))
        (void) fs_clear_expired(fs, document_collection(doc), now);
}

void kinds_figures(const struct collection *c, struct kinds_figures *ret_figures)
{
    const struct index *cap = capped_of(c);
    const struct timeseries *ts = timeseries_of(c);
    *ret_figures = (struct kinds_figures){.capped = cap != NULL, .timeseries = ts != NULL};
    if (cap) {
        ret_figures->cap = cap->cap;
        ret_figures->documents = cap->entries.count;
    }
    if (ts) {
        ret_figures->buckets = ts->nbuckets;
        ret_figures->extended = ts->nextended;
    }
}

void kinds_write(struct text *text, const struct kinds_figures *f)
{
    if (f->capped) {
        text_key(text, "capped");
        text_open(text, '{');
        if (f->cap.max_documents)
            text_member_int(text, "max", (int64_t) f->cap.max_documents);
        if (f->cap.max_bytes)
            text_member_int(text, "size", (int64_t) f->cap.max_bytes);
        text_member_int(text, "documents", (int64_t) f->documents);
        text_member_int(text, "bytes", (int64_t) f->cap.bytes);
        text_close(text, '}');
    }
    if (f->timeseries) {
        text_key(text, "timeseries");
        text_open(text, '{');
        text_member_int(text, "buckets", (int64_t) f->buckets);
        text_member_int(text, "extendedRangeDocuments", (int64_t) f->extended);
        text_member_bool(text, "ttlStopped", f->extended > 0);
        text_close(text, '}');
    }
}

const char *kinds_warning(const struct collection *c)
{
    const struct timeseries *ts = timeseries_of(c);
    return ts && ts->nextended ? "TTL deletion has stopped here: a document has a time before "
                                 "1970-01-01T00:00:00Z or "
                                 "after 2038-01-19T03:14:07Z"
                               : NULL;
}
