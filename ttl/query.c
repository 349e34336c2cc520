#include "ttl/query.h"

#include "core/bsonx.h"
#include "core/fields.h"
#include "core/file.h"
#include "core/filter_plan.h"
#include "ttl/deadline.h"
#include "ttl/document_fields.h"
#include "ttl/query_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Documents looked at between two holds of the lock, and how large they may be together. */
#define BATCH_DOCS 64
#define BATCH_BYTES (1024 * 1024)
/* Names passed by in one hold of the lock. */
#define BATCH_NAMES 256
/* Documents between two looks at whether the caller still waits. */
#define INTERRUPT_DOCS 8

struct query {
    struct filter *filter;
    unsigned int system; /* the system fields that it reads */
    bool content;        /* it reads others, too */
};

/* A document being looked at. */
struct candidate {
    struct document *doc; /* pinned */
    uint64_t cookie;
    unsigned char *bytes; /* its content */
    size_t len;
    struct xattr *attributes; /* copies of user.doc.* */
    bool matches;
    struct system_values values;
};

struct search {
    struct ttl *ttl;
    struct collection *c;
    const struct query *query;
    const struct query_reader *reader;
    int64_t now_ms;
    struct query_result *result;
    uint64_t bytes; /* of the batch */
    size_t n;
    struct candidate batch[BATCH_DOCS];
};

static int parse_filter(const char *text, bson_t *ret_value, struct reason *why)
{
    bson_iter_t iter;
    int err = fields_parse_value(text, strlen(text), ret_value, why);
    if (!err && !(bson_iter_init_find(&iter, ret_value, "") && BSON_ITER_HOLDS_DOCUMENT(&iter)))
        err = reason_set(why, EINVAL, "a filter is a JSON object: %s", text);
    return err;
}

/* One filter as it is, several as {"$and": […]}. */
static int combine(const char *const *texts, size_t n, bson_t *expression, struct reason *why)
{
    bson_t list;
    int err = 0;
    if (n > 1)
        bson_append_array_begin(expression, "$and", 4, &list);
    for (size_t i = 0; i < n && !err; i++) {
        bson_t value, filter;
        bson_iter_t iter;
        err = parse_filter(texts[i], &value, why);
        if (!err && bson_iter_init_find(&iter, &value, "")) {
            const uint8_t *data;
            uint32_t len;
            bson_iter_document(&iter, &len, &data);
            if (!bson_init_static(&filter, data, len) ||
                !(n > 1 ? bson_append_document(&list, "", 0, &filter)
                        : bson_concat(expression, &filter)))
                err = -ENOMEM;
        }
        bson_destroy(&value);
    }
    if (n > 1)
        bson_append_array_end(expression, &list);
    return err;
}

int query_new(const char *const *texts, size_t n, struct query **ret_query, struct reason *why)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += strlen(texts[i]) + 1;
    /* libbson ends the process when there is no memory. BSON takes a few times what JSON takes. */
    int err = bsonx_check_memory(16 * bytes + 1024);
    if (err)
        return err;
    struct query *query = calloc(1, sizeof *query);
    if (!query)
        return -ENOMEM;
    bson_t expression = BSON_INITIALIZER;
    err = combine(texts, n, &expression, why);
    if (!err)
        err = filter_new(&expression, FILTER_QUERY, &query->filter, why);
    bson_destroy(&expression);
    if (err) {
        free(query);
        return err;
    }
    query->system = system_fields_read(query->filter);
    query->content = filter_reads_other(query->filter, system_field_is);
    *ret_query = query;
    return 0;
}

void query_free(struct query *query)
{
    if (!query)
        return;
    filter_free(query->filter);
    free(query);
}

const struct filter *query_filter(const struct query *query)
{
    return query->filter;
}

void query_result_release(struct query_result *result)
{
    free(result->cookies);
    free(result->stats.key);
    *result = (struct query_result){0};
}

/* Copies what is outside the content. */
static int copy_attributes(const struct document *doc, struct xattr **ret_copies)
{
    for (const struct xattr *x = doc->xattrs; x; x = x->next) {
        if (strncmp(x->bytes, DOC_XATTR_PREFIX, sizeof DOC_XATTR_PREFIX - 1) != 0)
            continue;
        struct xattr *copy = xattr_new(x->bytes, xattr_value(x), x->value_len);
        if (!copy)
            return -ENOMEM;
        copy->next = *ret_copies;
        *ret_copies = copy;
    }
    return 0;
}

/* May this name be found at all, by this reader and at this time? */
static bool is_eligible(const struct search *s, struct dentry *d)
{
    if (document_is_collection(d->doc) || ttl_hidden(s->ttl, d, s->now_ms))
        return false;
    return !s->query->content || !s->reader->may_read ||
           s->reader->may_read(s->reader->arg, d->doc);
}

static bool batch_is_full(const struct search *s)
{
    return s->n == BATCH_DOCS || s->bytes >= BATCH_BYTES;
}

/* Puts a name into the batch, which has room. */
static int gather(struct search *s, struct dentry *d)
{
    struct document *doc = d->doc;
    struct candidate *one = &s->batch[s->n];
    one->doc = doc;
    one->cookie = names_cookie(d);
    one->bytes = NULL;
    one->len = 0;
    one->attributes = NULL;
    one->matches = false;
    system_values_of(d, &one->values);
    document_pin(doc);
    s->n++;
    s->result->stats.docs_examined++;
    if (!s->query->content)
        return 0;
    if (S_ISREG(doc->mode) && doc->size <= FIELDS_MAX_BYTES)
        s->bytes += doc->size;
    return copy_attributes(doc, &one->attributes);
}

/* The contents of a batch. Lets go where one is not at hand. */
static int fetch(struct search *s)
{
    for (size_t i = 0; i < s->n && s->query->content; i++) {
        struct candidate *one = &s->batch[i];
        if (!S_ISREG(one->doc->mode) || !one->doc->size)
            continue;
        int err =
            file_copy_content(s->ttl->tree, one->doc, FIELDS_MAX_BYTES, &one->bytes, &one->len);
        /* Too long for fields, or gone meanwhile. */
        if (err && err != -EFBIG && err != -ENOENT)
            return err;
    }
    return 0;
}

/* Asks the filter. Without the lock. */
static int judge(const struct query *query, struct candidate *one)
{
    bson_t fields;
    int err = -EINVAL;
    if (one->bytes && fields_may_have(one->bytes, one->len))
        err = fields_parse(one->bytes, one->len, &fields);
    else
        bson_init(&fields);
    err = err == -ENOMEM ? err : attribute_fields_add(&fields, one->attributes);
    if (!err)
        err = system_fields_set(&fields, query->system, &one->values);
    if (!err)
        one->matches = filter_match(query->filter, &fields);
    bson_destroy(&fields);
    return err;
}

static int judge_all(struct search *s)
{
    const struct query_reader *reader = s->reader;
    int err = 0;
    for (size_t i = 0; i < s->n && !err; i++) {
        /* A regular expression may take its time. */
        if (i % INTERRUPT_DOCS == 0 && reader->interrupted && reader->interrupted(reader->arg))
            err = -EINTR;
        else
            err = judge(s->query, &s->batch[i]);
    }
    return err;
}

static int take(struct query_result *result, uint64_t cookie)
{
    if (result->n == result->cap) {
        size_t cap = result->cap ? result->cap * 2 : 16;
        uint64_t *more = realloc(result->cookies, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        result->cookies = more;
        result->cap = cap;
    }
    result->cookies[result->n++] = cookie;
    return 0;
}

/* Looks at the batch and empties it. Lets go, always. */
static int look_at_batch(struct search *s)
{
    struct tree *tree = s->ttl->tree;
    int err = fetch(s);
    tree_unlock(tree);
    if (!err)
        err = judge_all(s);
    for (size_t i = 0; i < s->n; i++) {
        free(s->batch[i].bytes);
        for (struct xattr *x = s->batch[i].attributes; x;) {
            struct xattr *next = x->next;
            free(x);
            x = next;
        }
    }
    tree_lock_background(tree);
    for (size_t i = 0; i < s->n; i++) {
        if (s->batch[i].matches && !err)
            err = take(s->result, s->batch[i].cookie);
        document_unpin(tree, s->batch[i].doc);
    }
    s->n = 0;
    s->bytes = 0;
    return err;
}

static int scan_collection(struct search *s)
{
    uint64_t cookie = 0;
    int err = 0;
    bool more = true;
    while (more && !err) {
        struct dentry *d = names_after(&s->c->names, cookie);
        for (int i = 0; d && i < BATCH_NAMES && !batch_is_full(s) && !err; i++) {
            cookie = names_cookie(d);
            if (is_eligible(s, d))
                err = gather(s, d);
            d = names_next(d);
        }
        more = d != NULL;
        int looked = look_at_batch(s);
        err = err ? err : looked;
    }
    return err;
}

/* One range of an index's entries. -ESTALE: the plan does not hold any more. */
static int scan_range(struct search *s, const struct query_plan *plan, const struct btree *entries,
    struct key_range range)
{
    struct btree_entry found[BATCH_NAMES], from = {range.from, NULL};
    for (;;) {
        size_t n = btree_copy(entries, from, range.to, found, BATCH_NAMES), i = 0;
        int err = 0;
        for (; i < n && !batch_is_full(s) && !err; i++) {
            struct dentry *d = found[i].item;
            from = (struct btree_entry){found[i].key, (char *) found[i].item + 1};
            if (d->parent != s->c || !is_eligible(s, d))
                continue;
            s->result->stats.keys_examined++;
            err = gather(s, d);
        }
        bool end = n < BATCH_NAMES && i == n;
        int looked = n ? look_at_batch(s) : 0;
        err = err ? err : looked;
        if (!err && n && !query_plan_holds(s->ttl, s->c, plan))
            err = -ESTALE;
        if (err || end)
            return err;
    }
}

static int by_cookie(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
    return (x > y) - (x < y);
}

/* A name that was filed anew meanwhile may have been met twice. */
static void sort_result(struct query_result *result)
{
    size_t n = 0;
    if (result->n)
        qsort(result->cookies, result->n, sizeof *result->cookies, by_cookie);
    for (size_t i = 0; i < result->n; i++)
        if (!n || result->cookies[n - 1] != result->cookies[i])
            result->cookies[n++] = result->cookies[i];
    result->n = n;
}

static int scan_index(struct search *s, const struct query_plan *plan)
{
    struct ttl *ttl = s->ttl;
    struct index *index = plan->index;
    int err = 0;
    ttl->surveys++;
    for (size_t i = 0; i < plan->keys.n && !err; i++) {
        err = scan_range(s, plan, &index->entries, plan->keys.ranges[i]);
        if (!err)
            err = scan_range(s, plan, &index->parked, plan->keys.ranges[i]);
    }
    if (--ttl->surveys == 0)
        ttl_reap(ttl);
    sort_result(s->result);
    return err;
}

static int describe(const struct index *index, struct query_stats *stats)
{
    stats->by_index = true;
    stats->many = index->many;
    stats->partial = index->spec.filter != NULL;
    size_t len = strnlen(index->name, sizeof stats->index_name - 1);
    memcpy(stats->index_name, index->name, len);
    stats->index_name[len] = '\0';
    stats->key = strdup(index->spec.key);
    return stats->key ? 0 : -ENOMEM;
}

static struct search *search_new(struct ttl *ttl, struct collection *c, const struct query *query,
    int64_t now_ms, const struct query_reader *reader, struct query_result *result)
{
    struct search *s = malloc(sizeof *s);
    if (!s)
        return NULL;
    s->ttl = ttl;
    s->c = c;
    s->query = query;
    s->reader = reader;
    s->now_ms = now_ms;
    s->result = result;
    s->n = 0;
    s->bytes = 0;
    return s;
}

int query_run(struct ttl *ttl, struct collection *c, const struct query *query, int64_t now_ms,
    const struct query_reader *reader, struct query_result *ret_result)
{
    struct query_plan plan;
    struct search *s = search_new(ttl, c, query, now_ms, reader, ret_result);
    if (!s)
        return -ENOMEM;
    int err = query_plan_make(ttl, c, query->filter, &plan);
    if (!err && plan.index) {
        err = describe(plan.index, &ret_result->stats);
        if (!err)
            err = scan_index(s, &plan);
        if (err == -ESTALE) {
            query_result_release(ret_result);
            plan.index = NULL;
            err = 0;
        }
    }
    if (!err && !plan.index)
        err = scan_collection(s);
    query_plan_release(&plan);
    free(s);
    return err;
}

int query_matches(struct ttl *ttl, struct collection *c, const struct query *query,
    const char *name, size_t len, int64_t now_ms, const struct query_reader *reader)
{
    struct query_result result = {0};
    struct search *s = search_new(ttl, c, query, now_ms, reader, &result);
    if (!s)
        return -ENOMEM;
    struct dentry *d = tree_find(ttl->tree, c, name, len);
    int rc = 0;
    if (d && is_eligible(s, d)) {
        rc = gather(s, d);
        int looked = look_at_batch(s);
        rc = rc ? rc : looked;
    }
    if (!rc)
        rc = result.n > 0;
    query_result_release(&result);
    free(s);
    return rc;
}
