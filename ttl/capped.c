#include "ttl/capped.h"

#include "ttl/deadline.h"
#include "ttl/rule_json.h"
#include "ttl/rules.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOTE_NAME DOCUMENT_NOTE_PREFIX "order"
/* Below 2 to the 53rd: what every reader of JSON can tell from its neighbours. */
#define LIMIT_MAX ((INT64_C(1) << 53) - 1)

static int read_max(void *context, const bson_iter_t *value, struct reason *why)
{
    struct capped_spec *spec = context;
    return rule_json_whole(value, "max", 1, LIMIT_MAX, &spec->max_documents, why);
}

static int read_size(void *context, const bson_iter_t *value, struct reason *why)
{
    struct capped_spec *spec = context;
    return rule_json_whole(value, "size", 1, LIMIT_MAX, &spec->max_bytes, why);
}

int capped_spec_parse(
    const char *text, size_t len, struct capped_spec *ret_spec, struct reason *why)
{
    static const struct rule_member members[] = {{"max", read_max}, {"size", read_size}};
    struct capped_spec spec = {0};
    int err = rule_json_read(text, len, members, sizeof members / sizeof members[0], &spec, why);
    if (!err && !spec.max_documents && !spec.max_bytes)
        err = reason_set(why, EINVAL, "a capped collection needs max or size");
    if (!err)
        *ret_spec = spec;
    return err;
}

struct index *capped_of(const struct collection *c)
{
    return c->rules ? c->rules->capped : NULL;
}

int64_t capped_order(struct ttl *ttl, const struct document *doc)
{
    const struct xattr *x = doc->xattrs ? document_xattr(doc, NOTE_NAME) : NULL;
    uint64_t order = doc->ino;
    if (x && x->value_len == sizeof order) {
        memcpy(&order, xattr_value(x), sizeof order);
        order = le64toh(order);
        /* It was taken from the documents' numbers: after a remount they go on behind it. */
        if (order >= ttl->tree->next_ino)
            ttl->tree->next_ino = order + 1;
    }
    return (int64_t) order;
}

int capped_arrives(struct ttl *ttl, struct document *doc)
{
    int err = journal_will_change(ttl->tree, doc);
    if (err)
        return err;
    uint64_t order = htole64(ttl->tree->next_ino);
    struct xattr *x = xattr_new(NOTE_NAME, &order, sizeof order);
    if (!x)
        return -ENOMEM;
    ttl->tree->next_ino++;
    document_xattr_put(doc, x);
    return 0;
}

static bool is_within(uint64_t have, int64_t more, uint64_t max)
{
    return max == 0 || (int64_t) have + more <= (int64_t) max;
}

bool capped_fits(const struct index *cap, int64_t documents, int64_t bytes)
{
    return is_within(cap->entries.count, documents, cap->cap.max_documents) &&
           is_within(cap->cap.bytes, bytes, cap->cap.max_bytes);
}

struct dentry *capped_victim(struct ttl *ttl, const struct index *cap, const struct document *self,
    const struct dentry *spare, struct btree_entry *after)
{
    while (btree_next(&cap->entries, *after, after)) {
        struct dentry *d = after->item;
        if (d->doc != self && d != spare && ttl_deadline(ttl, d).reason != TTL_REASON_HOLD)
            return d;
    }
    return NULL;
}
