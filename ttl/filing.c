#include "ttl/filing.h"

#include "core/dates.h"
#include "core/fields.h"
#include "core/file.h"
#include "ttl/capped.h"
#include "ttl/document_fields.h"
#include "ttl/timeseries.h"

#include <errno.h>
#include <stdlib.h>

/* Would the filter of an index let this name in? */
static bool filter_admits(const struct index *index, const bson_t *fields)
{
    return !index->spec.filter || filter_match(index->spec.filter, fields);
}

/* The key of a name in an index on a field. */
static int64_t field_key(struct index *index, const struct dentry *d, const bson_t *fields)
{
    struct value_at at = value_key_at(fields, index->path, index->spec.as);
    index->many |= at.many;
    if (!value_key_is_date(at.key))
        return at.key;
    index->many_dated |= at.many;
    int64_t jitter_ms = ttl_jitter_ms(d->doc, (int64_t) index->spec.jitter_s * 1000);
    return value_key_of_date(date_add_saturated(at.key, jitter_ms));
}

/* Files a name in one index; with fields unknown, what is there for their sake stays. */
static int file_in_index(struct ttl *ttl, const struct ruleset *rs, struct index *index,
    struct dentry *d, const bson_t *fields)
{
    if (index->kind == INDEX_BUCKETS || index->kind == INDEX_TIMESERIES)
        return 0; /* see file_in_series */
    if (index->kind == INDEX_CAPPED)
        return index_file(index, d, capped_order(ttl, d->doc), false);
    bool from_fields = index->kind == INDEX_FIELD || index->spec.filter;
    if (from_fields && !fields && !index_slot(d, index, NULL))
        return 0;
    if (fields && !filter_admits(index, fields)) {
        index_unfile(index, d);
        return 0;
    }
    int64_t key;
    if (index->kind != INDEX_FIELD)
        key = ttl_index_date(rs, d, index);
    else if (fields)
        key = field_key(index, d, fields);
    else /* Its key is kept; what a hold had parked is filed again. */
        key = index_slot(d, index, NULL)->key;
    bool parked = key >= INDEX_KEY_MISFIT;
    int err = index_file(index, d, key, parked);
    index->incomplete |= err != 0;
    if (!err && !parked)
        ttl_schedule_key(ttl, index, key);
    return err;
}

/*
 * A time-series collection's own index has its names by their own dates, whatever their buckets' are:
 * never too late, and right whatever becomes of a bucket. After all others, which it asks.
 */
static int file_in_series(struct ttl *ttl, struct timeseries *ts, struct dentry *d)
{
    if (!timeseries_has(ts, d)) {
        index_unfile(ts->rule, d);
        return 0;
    }
    int64_t key = timeseries_key(ts, d, timeseries_own_ms(ts, d));
    int err = index_file(ts->rule, d, key, key == DATE_NEVER_MS);
    if (!err && key != DATE_NEVER_MS)
        ttl_schedule_key(ttl, ts->rule, key);
    return err;
}

/* A collection's index of deadlines that documents carry themselves. NULL: no memory. */
static struct index *own_index(struct collection *c)
{
    struct index_spec spec;
    if (c->own_deadlines)
        return c->own_deadlines;
    index_spec_init(&spec);
    spec.ttl = true;
    c->own_deadlines = index_new("own", 3, INDEX_OWN, &spec);
    if (c->own_deadlines)
        c->own_deadlines->owner = c;
    return c->own_deadlines;
}

/* In the limbo there is one index: by the instant at which names came there. */
static int file_in_limbo(struct ttl *ttl, struct dentry *d)
{
    struct index *index = own_index(d->parent);
    struct timespec since = {(time_t) d->doc->ctime_s, (long) d->doc->ctime_ns};
    int64_t key = timespec_ms(since);
    int err = index ? index_file(index, d, key, false) : -ENOMEM;
    if (!err)
        ttl_schedule_key(ttl, index, key);
    return err;
}

/* The deadline that a document carries itself goes into its collection's own index. */
static int file_own(struct ttl *ttl, const struct ruleset *rs, struct dentry *d)
{
    struct collection *c = d->parent;
    int64_t at_ms = ttl_own_deadline_ms(rs, d);
    if (at_ms == DATE_NEVER_MS) {
        if (c->own_deadlines)
            index_unfile(c->own_deadlines, d);
        return 0;
    }
    if (!own_index(c))
        return -ENOMEM;
    int err = index_file(c->own_deadlines, d, at_ms, false);
    if (!err)
        ttl_schedule_key(ttl, c->own_deadlines, at_ms);
    return err;
}

static bool in_force(const struct ruleset *rs, const struct index *index)
{
    for (unsigned int i = 0; i < rs->nindexes; i++)
        if (rs->indexes[i] == index)
            return true;
    return false;
}

int filing_update(struct ttl *ttl, struct dentry *d, const bson_t *fields)
{
    if (document_is_collection(d->doc))
        return 0;
    if (dentry_in_limbo(d))
        return d->nslots ? 0 : file_in_limbo(ttl, d);
    struct ruleset *rs = ruleset_of(ttl, d->parent);
    if (!rs)
        return -ENOMEM;
    for (unsigned int i = d->nslots; i-- > 0;) {
        struct index *index = dentry_slots(d)[i].index;
        if (index != d->parent->own_deadlines && !in_force(rs, index))
            index_unfile(index, d);
    }
    int err = rs->timeseries ? timeseries_update(rs->timeseries, d, fields) : 0;
    for (unsigned int i = 0; i < rs->nindexes; i++) {
        int one = file_in_index(ttl, rs, rs->indexes[i], d, fields);
        err = err ? err : one;
    }
    if (rs->timeseries) {
        int one = file_in_series(ttl, rs->timeseries, d);
        err = err ? err : one;
    }
    if (d->doc->policy || d->doc->own_ttl_s || d->parent->own_deadlines) {
        int one = file_own(ttl, rs, d);
        err = err ? err : one;
    }
    return err;
}

int filing_update_document(struct ttl *ttl, struct document *doc, const bson_t *fields)
{
    int err = 0;
    for (struct dentry *d = doc->links; d; d = d->link_next) {
        int one = filing_update(ttl, d, fields);
        err = err ? err : one;
    }
    return err;
}

int filing_postpone(struct ttl *ttl, struct index *index, struct dentry *d, int64_t now_ms)
{
    const struct ruleset *rs = ruleset_of(ttl, d->parent);
    if (!rs)
        return -ENOMEM;
    if (rs->timeseries && index->kind == INDEX_FIELD) {
        /* Its key is the field's, for queries. When its bucket is due, the collection's own index says. */
        const struct index_slot *slot = index_slot(d, index, NULL);
        return slot ? index_file(index, d, slot->key, true) : 0;
    }
    int64_t key =
        index->kind == INDEX_OWN ? ttl_own_deadline_ms(rs, d) : ttl_index_date(rs, d, index);
    /* Due by this index and not expired all the same: something holds it. */
    bool held = key != DATE_NEVER_MS && date_add_saturated(key, index->expire_after_ms) <= now_ms;
    return index_file(index, d, key, held || key == DATE_NEVER_MS);
}

/* Sets one of the document's dates; entries filed later than that are filed anew. */
static void move_date(struct ttl *ttl, struct document *doc, int64_t *date, int64_t now_ms)
{
    bool back = now_ms < *date;
    *date = now_ms;
    if (back)
        (void) filing_update_document(ttl, doc, NULL);
}

/*
 * Is the document expired and hidden? One that was refused by its collection is only hidden: who has
 * it open may still make it good.
 */
static bool is_over(struct ttl *ttl, struct document *doc, int64_t now_ms)
{
    return !(doc->flags & DOCUMENT_REFUSED) && ttl_document_hidden(ttl, doc, now_ms);
}

void filing_accessed(struct ttl *ttl, struct document *doc, int64_t now_ms, bool creator)
{
    if (ttl->read_only || is_over(ttl, doc, now_ms))
        return;
    if (doc->accessed_ms == now_ms && (creator || doc->flags & DOCUMENT_EXTENDED))
        return;
    /* Without memory to note it the access goes unrecorded; nothing else is lost. */
    if (journal_will_change(ttl->tree, doc) != 0)
        return;
    if (!creator)
        doc->flags |= DOCUMENT_EXTENDED;
    move_date(ttl, doc, &doc->accessed_ms, now_ms);
}

void filing_written(struct ttl *ttl, struct document *doc, int64_t now_ms, bool creator)
{
    if (ttl->read_only || is_over(ttl, doc, now_ms))
        return;
    filing_accessed(ttl, doc, now_ms, creator);
    if (doc->ts_ms != now_ms && journal_will_change(ttl->tree, doc) == 0)
        move_date(ttl, doc, &doc->ts_ms, now_ms);
}

bool filing_name_wants_fields(struct ttl *ttl, const struct dentry *d)
{
    if (!(d->doc->flags & DOCUMENT_FIELDS_STALE) || !S_ISREG(d->doc->mode))
        return false;
    const struct ruleset *rs = ruleset_of(ttl, d->parent);
    return rs && rs->needs_fields;
}

bool filing_wants_fields(struct ttl *ttl, const struct document *doc)
{
    if (!(doc->flags & DOCUMENT_FIELDS_STALE))
        return false;
    for (const struct dentry *d = doc->links; d; d = d->link_next)
        if (filing_name_wants_fields(ttl, d))
            return true;
    return false;
}

/* The system fields that filters and indexes in force read. */
static unsigned int wanted_system_fields(const struct ruleset *rs)
{
    unsigned int set = 0;
    for (unsigned int i = 0; i < rs->nindexes; i++) {
        const struct index *index = rs->indexes[i];
        if (index->kind == INDEX_FIELD && index->spec.key[0] == '_')
            set = SYSTEM_ALL;
        set |= system_fields_read(index->spec.filter);
    }
    return set;
}

/* Files a document's names by its fields, which are complete but for the system fields. */
static int file_by_fields(struct ttl *ttl, struct document *doc, bson_t *fields)
{
    int32_t own_ttl_s = 0;
    (void) fields_ttl_seconds(fields, &own_ttl_s);
    doc->own_ttl_s = own_ttl_s;
    doc->flags &= ~(uint32_t) DOCUMENT_TIMELESS;
    int err = 0;
    for (struct dentry *d = doc->links; d; d = d->link_next) {
        const struct ruleset *rs = ruleset_of(ttl, d->parent);
        unsigned int wanted = rs ? wanted_system_fields(rs) : 0;
        if (wanted) {
            struct system_values values;
            system_values_of(d, &values);
            err = err ? err : system_fields_set(fields, wanted, &values);
        }
        int one = filing_update(ttl, d, fields);
        err = err ? err : one;
    }
    return err;
}

/*
 * The content's fields, parsed outside the lock; empty when it has none. Clears the stale mark
 * first: a write in between sets it again, and is looked at by its own close.
 */
static int parse_content(struct ttl *ttl, struct document *doc, bson_t *ret_fields)
{
    unsigned char *bytes;
    size_t len;
    doc->flags &= ~(uint32_t) DOCUMENT_FIELDS_STALE;
    int err = file_copy_content(ttl->tree, doc, FIELDS_MAX_BYTES, &bytes, &len);
    if (err == -EFBIG)
        err = 0;
    if (err) {
        bson_init(ret_fields);
        doc->flags |= DOCUMENT_FIELDS_STALE;
        return err;
    }
    tree_unlock(ttl->tree);
    err = -EINVAL;
    if (bytes && fields_may_have(bytes, len))
        err = fields_parse(bytes, len, ret_fields);
    else
        bson_init(ret_fields);
    free(bytes);
    tree_lock(ttl->tree);
    /* No fields at all is as good an answer as any. */
    return err == -ENOMEM ? err : 0;
}

/*
 * A content being parsed; a later look at the same document, at a newer content, supersedes it. One
 * that was refused because the document is over is made up for: what is being parsed may say that
 * it is not.
 */
struct look {
    const struct document *doc;
    bool superseded, again;
    struct look *next;
};

static void look_begin(struct ttl *ttl, struct look *look, const struct document *doc)
{
    for (struct look *l = ttl->looks; l; l = l->next)
        l->superseded |= l->doc == doc;
    *look = (struct look){.doc = doc, .next = ttl->looks};
    ttl->looks = look;
}

static void look_end(struct ttl *ttl, const struct look *look)
{
    struct look **at = &ttl->looks;
    while (*at != look)
        at = &(*at)->next;
    *at = look->next;
}

int filing_fields(struct ttl *ttl, struct document *doc, bson_t *ret_fields)
{
    bool stale = doc->flags & DOCUMENT_FIELDS_STALE;
    document_pin(doc);
    int err = parse_content(ttl, doc, ret_fields);
    if (!err)
        err = attribute_fields_add(ret_fields, doc->xattrs);
    /* Nobody was filed by them. */
    if (stale)
        doc->flags |= DOCUMENT_FIELDS_STALE;
    document_unpin(ttl->tree, doc);
    return err;
}

/* A document whose fields cannot be known: no index of its names has everything any more. */
static void note_incomplete(struct ttl *ttl, const struct document *doc)
{
    for (const struct dentry *d = doc->links; d; d = d->link_next) {
        const struct ruleset *rs = ruleset_of(ttl, d->parent);
        for (unsigned int i = 0; rs && i < rs->nindexes; i++)
            rs->indexes[i]->incomplete = true;
    }
}

/* One look, at the content as it is now. Returns as filing_look. */
static int look_once(struct ttl *ttl, struct document *doc, struct look *look)
{
    bson_t fields;
    int forward = 0;
    look->again = false;
    int err = parse_content(ttl, doc, &fields);
    if (!err)
        err = attribute_fields_add(&fields, doc->xattrs);
    if (!err && doc->links && !look->superseded) {
        int64_t before_ms = ttl_document_deadline(ttl, doc).at_ms;
        err = file_by_fields(ttl, doc, &fields);
        forward = ttl_document_deadline(ttl, doc).at_ms < before_ms;
    }
    bson_destroy(&fields);
    return err ? err : forward;
}

int filing_look(struct ttl *ttl, struct document *doc, int64_t now_ms)
{
    if (is_over(ttl, doc, now_ms)) {
        for (struct look *l = ttl->looks; l; l = l->next)
            l->again |= l->doc == doc;
        ttl->unseen += !(doc->flags & DOCUMENT_UNSEEN);
        doc->flags |= DOCUMENT_UNSEEN;
        return 0;
    }
    ttl->unseen -= (doc->flags & DOCUMENT_UNSEEN) != 0;
    doc->flags &= ~(uint32_t) DOCUMENT_UNSEEN;
    struct look look;
    document_pin(doc);
    look_begin(ttl, &look, doc);
    int looked = look_once(ttl, doc, &look);
    while (looked >= 0 && look.again && !look.superseded) {
        int more = look_once(ttl, doc, &look);
        looked = more < 0 ? more : looked | more;
    }
    look_end(ttl, &look);
    if (looked < 0)
        note_incomplete(ttl, doc);
    document_unpin(ttl->tree, doc);
    return looked;
}
