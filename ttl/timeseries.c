#include "ttl/timeseries_impl.h"

#include "core/dates.h"
#include "ttl/deadline.h"
#include "ttl/rules.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* MongoDB's normal range of dates in a time-series collection: 0 to 2038-01-19T03:14:07Z. */
#define NORMAL_MAX_MS (INT64_C(2147483647) * 1000)
#define NOTE_NAME DOCUMENT_NOTE_PREFIX "bucket"

/* What is noted on a document, in little endian. */
struct note {
    uint64_t collection; /* number of the collection that it is about */
    int64_t id;          /* of the bucket */
    int64_t time_ms;
    uint64_t hash; /* of the meta value */
};

struct timeseries *timeseries_of(const struct collection *c)
{
    return c->rules ? c->rules->timeseries : NULL;
}

static bool is_extended(int64_t time_ms)
{
    return time_ms < 0 || time_ms > NORMAL_MAX_MS;
}

/* Down to a multiple of the rounding, also in front of 1970. */
static int64_t round_down(const struct timeseries *ts, int64_t time_ms)
{
    int64_t unit = timeseries_round_ms(ts), rest = time_ms % unit;
    return date_subtract_saturated(time_ms, rest < 0 ? rest + unit : rest);
}

static struct ts_member *member_of(const struct timeseries *ts, struct dentry *d)
{
    const struct index_slot *slot = index_slot(d, ts->members, NULL);
    return slot ? (struct ts_member *) (intptr_t) slot->key : NULL;
}

bool timeseries_has(const struct timeseries *ts, struct dentry *d)
{
    return member_of(ts, d) != NULL;
}

int64_t timeseries_own_ms(const struct timeseries *ts, struct dentry *d)
{
    const struct ts_member *m = member_of(ts, d);
    return m ? m->time_ms : DATE_NEVER_MS;
}

int64_t timeseries_date_ms(const struct timeseries *ts, struct dentry *d)
{
    const struct ts_member *m = ts->nextended ? NULL : member_of(ts, d);
    return m ? m->bucket->newest_ms : DATE_NEVER_MS;
}

/* Buckets */

static struct ts_meta *meta_find(const struct timeseries *ts, uint64_t hash)
{
    struct btree_entry found, before = {(int64_t) hash, NULL};
    bool any = btree_next(&ts->metas, before, &found);
    return any && found.key == (int64_t) hash ? found.item : NULL;
}

static void meta_free_unused(struct timeseries *ts, struct ts_meta *meta)
{
    if (meta->nbuckets)
        return;
    btree_remove(&ts->metas, (int64_t) meta->hash, meta);
    btree_release(&meta->by_start);
    btree_release(&meta->by_id);
    free(meta);
}

static struct ts_meta *meta_make(struct timeseries *ts, uint64_t hash)
{
    struct ts_meta *meta = meta_find(ts, hash);
    if (meta)
        return meta;
    meta = calloc(1, sizeof *meta);
    if (!meta)
        return NULL;
    meta->hash = hash;
    btree_init(&meta->by_start);
    btree_init(&meta->by_id);
    if (btree_insert(&ts->metas, (int64_t) hash, meta) != 0) {
        free(meta);
        return NULL;
    }
    return meta;
}

static struct ts_bucket *bucket_by_id(const struct ts_meta *meta, int64_t id)
{
    struct btree_entry found, before = {id, NULL};
    return btree_next(&meta->by_id, before, &found) && found.key == id ? found.item : NULL;
}

/* Makes an empty bucket. NULL: no memory. */
static struct ts_bucket *bucket_open(
    struct timeseries *ts, struct ts_meta *meta, int64_t id, int64_t start_ms)
{
    struct ts_bucket *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    *b = (struct ts_bucket){
        .ts = ts, .meta = meta, .id = id, .start_ms = start_ms, .newest_ms = INT64_MIN};
    btree_init(&b->members);
    if (btree_insert(&meta->by_id, id, b) != 0) {
        free(b);
        return NULL;
    }
    if (btree_insert(&meta->by_start, ~start_ms, b) != 0) {
        btree_remove(&meta->by_id, id, b);
        free(b);
        return NULL;
    }
    meta->nbuckets++;
    ts->nbuckets++;
    return b;
}

static void bucket_close(struct ts_bucket *b)
{
    if (b->closed)
        return;
    b->closed = true;
    btree_remove(&b->meta->by_id, b->id, b);
    btree_remove(&b->meta->by_start, ~b->start_ms, b);
    timeseries_not_stale(b);
}

static void bucket_free_unused(struct ts_bucket *b)
{
    if (b->members.count)
        return;
    struct timeseries *ts = b->ts;
    struct ts_meta *meta = b->meta;
    bucket_close(b);
    btree_release(&b->members);
    free(b);
    ts->nbuckets--;
    meta->nbuckets--;
    meta_free_unused(ts, meta);
}

/* Lets a bucket's window open earlier. Without memory it stays as it is: no harm is done. */
static void bucket_widen(struct ts_bucket *b, int64_t start_ms)
{
    if (start_ms >= b->start_ms || btree_insert(&b->meta->by_start, ~start_ms, b) != 0)
        return;
    btree_remove(&b->meta->by_start, ~b->start_ms, b);
    b->start_ms = start_ms;
}

static bool is_inside(const struct ts_bucket *b, int64_t time_ms)
{
    return time_ms >= b->start_ms &&
           date_subtract_saturated(time_ms, b->start_ms) < timeseries_span_ms(b->ts);
}

/* Could a bucket take a date in front of its window and still be no longer than allowed? */
static bool could_widen(const struct ts_bucket *b, int64_t time_ms)
{
    return time_ms < b->start_ms && date_subtract_saturated(b->newest_ms,
                                        round_down(b->ts, time_ms)) < timeseries_span_ms(b->ts);
}

/* The bucket for a date: the one whose window it is in, else the next one behind, else a new one. */
static struct ts_bucket *bucket_for(struct timeseries *ts, uint64_t hash, int64_t time_ms)
{
    struct ts_meta *meta = meta_make(ts, hash);
    if (!meta)
        return NULL;
    struct ts_bucket *behind = NULL;
    struct btree_entry at = {~date_add_saturated(time_ms, timeseries_span_ms(ts)), NULL};
    while (btree_next(&meta->by_start, at, &at)) {
        struct ts_bucket *b = at.item;
        if (is_inside(b, time_ms))
            return b;
        if (b->start_ms <= time_ms)
            break;
        behind = b;
    }
    if (behind && could_widen(behind, time_ms)) {
        bucket_widen(behind, round_down(ts, time_ms));
        return behind;
    }
    int64_t start_ms = round_down(ts, time_ms), id = start_ms;
    while (bucket_by_id(meta, id))
        id++;
    struct ts_bucket *b = bucket_open(ts, meta, id, start_ms);
    if (!b)
        meta_free_unused(ts, meta);
    return b;
}

/* Members */

static void count_extended(struct timeseries *ts, int64_t time_ms, int by)
{
    if (!is_extended(time_ms))
        return;
    ts->nextended += (uint64_t) (int64_t) by;
    if (by < 0 && ts->nextended == 0)
        timeseries_goes_on(ts);
}

static void bucket_newest(struct ts_bucket *b)
{
    struct btree_entry first;
    if (!btree_first(&b->members, &first))
        return;
    int64_t before_ms = b->newest_ms;
    b->newest_ms = ~first.key;
    if (b->newest_ms < before_ms && !b->closed)
        timeseries_went_back(b);
}

static void take_out(struct ts_bucket *b, struct dentry *d, int64_t time_ms)
{
    struct timeseries *ts = b->ts;
    btree_remove(&b->members, ~time_ms, d);
    bucket_newest(b);
    bucket_free_unused(b);
    count_extended(ts, time_ms, -1);
}

void timeseries_member_left(struct index *index, struct dentry *d, int64_t key)
{
    struct ts_member *m = (struct ts_member *) (intptr_t) key;
    (void) index;
    take_out(m->bucket, d, m->time_ms);
    free(m);
}

static int put_in(struct timeseries *ts, struct dentry *d, struct ts_bucket *b, int64_t time_ms)
{
    struct ts_member *m = member_of(ts, d), *made = NULL;
    if (m && m->bucket == b && m->time_ms == time_ms)
        return 0;
    int err = btree_insert(&b->members, ~time_ms, d);
    if (!err && !m) {
        made = calloc(1, sizeof *made);
        err = made ? index_file(ts->members, d, (int64_t) (intptr_t) made, true) : -ENOMEM;
        if (err)
            btree_remove(&b->members, ~time_ms, d);
    }
    if (err) {
        free(made);
        bucket_free_unused(b);
        return err;
    }
    count_extended(ts, time_ms, 1);
    if (made) {
        *made = (struct ts_member){b, time_ms};
        bucket_newest(b);
    } else {
        struct ts_member was = *m;
        *m = (struct ts_member){b, time_ms};
        bucket_newest(b);
        take_out(was.bucket, d, was.time_ms);
    }
    return 0;
}

/* Notes on the document where it is, unless that is noted already. */
static int write_note(struct timeseries *ts, struct dentry *d)
{
    const struct ts_member *m = member_of(ts, d);
    struct note note = {htole64(d->parent->doc.ino), (int64_t) htole64((uint64_t) m->bucket->id),
        (int64_t) htole64((uint64_t) m->time_ms), htole64(m->bucket->meta->hash)};
    const struct xattr *x = document_xattr(d->doc, NOTE_NAME);
    if (x && x->value_len == sizeof note && memcmp(xattr_value(x), &note, sizeof note) == 0)
        return 0;
    int err = journal_will_change(ts->ttl->tree, d->doc);
    if (err)
        return err;
    struct xattr *made = xattr_new(NOTE_NAME, &note, sizeof note);
    if (!made)
        return -ENOMEM;
    document_xattr_put(d->doc, made);
    return 0;
}

/* Where a document was when it was noted: after a remount, or under another name. */
static int update_from_note(struct timeseries *ts, struct dentry *d)
{
    struct note note;
    const struct xattr *x = document_xattr(d->doc, NOTE_NAME);
    if (member_of(ts, d) || !x || x->value_len != sizeof note)
        return 0;
    memcpy(&note, xattr_value(x), sizeof note);
    if (le64toh(note.collection) != d->parent->doc.ino)
        return 0;
    int64_t id = (int64_t) le64toh((uint64_t) note.id);
    int64_t time_ms = (int64_t) le64toh((uint64_t) note.time_ms);
    struct ts_meta *meta = meta_make(ts, le64toh(note.hash));
    if (!meta)
        return -ENOMEM;
    int64_t start_ms = round_down(ts, time_ms);
    struct ts_bucket *b = bucket_by_id(meta, id);
    if (b)
        bucket_widen(b, start_ms);
    else
        b = bucket_open(ts, meta, id, start_ms);
    if (!b) {
        meta_free_unused(ts, meta);
        return -ENOMEM;
    }
    return put_in(ts, d, b, time_ms);
}

bool timeseries_admits(const struct timeseries *ts, const bson_t *fields)
{
    bson_iter_t iter;
    return bson_iter_init_find(&iter, fields, ts->spec.time_field) &&
           BSON_ITER_HOLDS_DATE_TIME(&iter);
}

int timeseries_update(struct timeseries *ts, struct dentry *d, const bson_t *fields)
{
    bson_iter_t iter;
    if (!fields)
        return update_from_note(ts, d);
    if (!timeseries_admits(ts, fields)) {
        d->doc->flags |= DOCUMENT_TIMELESS;
        return update_from_note(ts, d);
    }
    (void) bson_iter_init_find(&iter, fields, ts->spec.time_field);
    int64_t time_ms = bson_iter_date_time(&iter);
    uint64_t hash = timeseries_meta_hash(fields, ts->spec.meta_field);
    int err = update_from_note(ts, d);
    if (err)
        return err;
    const struct ts_member *m = member_of(ts, d);
    struct ts_bucket *b =
        m && m->bucket->meta->hash == hash && !m->bucket->closed && is_inside(m->bucket, time_ms)
            ? m->bucket
            : bucket_for(ts, hash, time_ms);
    err = b ? put_in(ts, d, b, time_ms) : -ENOMEM;
    d->doc->flags &= ~(uint32_t) DOCUMENT_REFUSED;
    return err ? err : write_note(ts, d);
}

void timeseries_expiring(struct ttl *ttl, struct dentry *d)
{
    struct timeseries *ts = timeseries_of(d->parent);
    struct ts_member *m = ts ? member_of(ts, d) : NULL;
    if (!m || m->bucket->closed)
        return;
    enum ttl_reason reason = ttl_deadline(ttl, d).reason;
    if (reason == TTL_REASON_TIMESERIES || reason == TTL_REASON_INDEX)
        bucket_close(m->bucket);
}
