/*
 * Which keys of an index can match a filter.
 *
 * Everything here may say too much and never too little. A document with several values at the path
 * (an array) can match each condition through another value, so VALUE_MANY belongs to every answer,
 * and so do dates that are but the earliest of several.
 */
#include "core/filter_plan.h"

#include "core/dates.h"
#include "core/filter_impl.h"
#include "core/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LEAST INT64_MIN
#define GREATEST INT64_MAX
#define LAST_DATE (INDEX_KEY_MISFIT - 1)

void key_set_release(struct key_set *set)
{
    free(set->ranges);
    *set = (struct key_set){0};
}

static int add(struct key_set *set, int64_t from, int64_t to)
{
    if (from > to)
        return 0;
    if (set->n == set->cap) {
        size_t cap = set->cap ? set->cap * 2 : 8;
        struct key_range *more = realloc(set->ranges, cap * sizeof *more);
        if (!more)
            return -ENOMEM;
        set->ranges = more;
        set->cap = cap;
    }
    set->ranges[set->n++] = (struct key_range){from, to};
    return 0;
}

static int add_range(struct key_set *set, struct key_range range)
{
    return add(set, range.from, range.to);
}

static int add_class(struct key_set *set, enum value_class class)
{
    return add_range(set, value_class_keys(class));
}

static int by_from(const void *a, const void *b)
{
    const struct key_range *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Sorts, and joins what overlaps. */
static void normalise(struct key_set *set)
{
    size_t n = 0;
    if (!set->n)
        return;
    qsort(set->ranges, set->n, sizeof *set->ranges, by_from);
    for (size_t i = 1; i < set->n; i++) {
        struct key_range *last = &set->ranges[n];
        if (set->ranges[i].from <= last->to) {
            if (set->ranges[i].to > last->to)
                last->to = set->ranges[i].to;
        } else {
            set->ranges[++n] = set->ranges[i];
        }
    }
    set->n = n + 1;
}

/* Leaves in `a` what both have; both are normalised. */
static int intersect(struct key_set *a, const struct key_set *b)
{
    struct key_set both = {0};
    int err = 0;
    for (size_t i = 0, k = 0; i < a->n && k < b->n && !err;) {
        const struct key_range *x = &a->ranges[i], *y = &b->ranges[k];
        err = add(&both, x->from > y->from ? x->from : y->from, x->to < y->to ? x->to : y->to);
        if (x->to < y->to)
            i++;
        else
            k++;
    }
    key_set_release(a);
    *a = both;
    return err;
}

/* Every document whose dates lie from `from` to `to`. */
static int add_dates(struct key_set *set, const struct key_source *source, int64_t from, int64_t to)
{
    int64_t last = value_key_of_date(date_add_saturated(to, source->jitter_ms));
    int err = 0;
    if (from > to)
        return 0;
    from = source->early || source->many_dated ? LEAST : value_key_of_date(from);
    err = add(set, from, last < LAST_DATE ? last : LAST_DATE);
    if (!err && (source->early || last == GREATEST))
        err = add(set, GREATEST, GREATEST);
    return err;
}

static int add_all_dates(struct key_set *set, const struct key_source *source)
{
    return add_dates(set, source, LEAST, GREATEST);
}

/* Documents of which nothing is known but that they are there. */
static int add_unknown(struct key_set *set, const struct key_source *source)
{
    int err = add_class(set, VALUE_MANY);
    return err || !source->many_dated ? err : add_all_dates(set, source);
}

/* Values that the index reads as dates, from one to another. NULL: no bound. */
static int add_as_dates(struct key_set *set, const struct key_source *source,
    const bson_iter_t *from, const bson_iter_t *to)
{
    int64_t from_ms = LEAST, to_ms = GREATEST;
    bool numbers = source->as == FIELDS_AS_EPOCH_SECONDS || source->as == FIELDS_AS_EPOCH_MILLIS;
    /* The order of strings is not that of dates: only a single one can be found. */
    if ((numbers || from == to) && from && !fields_value_as_date(from, source->as, &from_ms))
        from_ms = LEAST;
    if ((numbers || from == to) && to && !fields_value_as_date(to, source->as, &to_ms))
        to_ms = GREATEST;
    return add_dates(set, source, from_ms, to_ms);
}

/* Numbers and strings are dates in some indexes. */
static bool read_as_date(const struct key_source *source, const bson_iter_t *value)
{
    if (source->as == FIELDS_AS_ISO8601)
        return BSON_ITER_HOLDS_UTF8(value);
    return source->as != FIELDS_AS_DATE && number_is(value);
}

static int add_equal(
    struct key_set *set, const struct key_source *source, const bson_iter_t *operand)
{
    enum value_class class;
    bson_type_t type = bson_iter_type(operand);
    /* Null is what missing fields are, too, and those are not filed. */
    if (type == BSON_TYPE_NULL || type == BSON_TYPE_UNDEFINED)
        return 0;
    int err = add_unknown(set, source);
    if (!err && type == BSON_TYPE_DATE_TIME) {
        int64_t ms = bson_iter_date_time(operand);
        err = add_dates(set, source, ms, ms);
    } else if (!err) {
        int64_t key = value_key(operand, &class);
        err = add(set, key, key);
        if (!err && read_as_date(source, operand))
            err = add_as_dates(set, source, operand, operand);
    }
    return err ? err : 1;
}

/* $gt, $gte, $lt, $lte: what is below or above an operand, in its class. */
static int add_ordered(
    struct key_set *set, const struct key_source *source, const struct filter_node *node)
{
    const bson_iter_t *operand = &node->operand;
    bool above = node->op == FILTER_GT || node->op == FILTER_GTE;
    enum value_class class;
    bson_type_t type = bson_iter_type(operand);
    /* MinKey and MaxKey compare with everything, null with what is missing. */
    if (type == BSON_TYPE_NULL || type == BSON_TYPE_UNDEFINED || type == BSON_TYPE_MINKEY ||
        type == BSON_TYPE_MAXKEY)
        return 0;
    int err = add_unknown(set, source);
    if (!err && type == BSON_TYPE_DATE_TIME) {
        /* Dates alone are exact enough to leave the operand itself out. */
        int64_t ms = bson_iter_date_time(operand);
        if (node->op == FILTER_GT)
            err = ms == GREATEST ? 0 : add_dates(set, source, ms + 1, GREATEST);
        else if (node->op == FILTER_LT)
            err = ms == LEAST ? 0 : add_dates(set, source, LEAST, ms - 1);
        else
            err = add_dates(set, source, above ? ms : LEAST, above ? GREATEST : ms);
    } else if (!err) {
        struct key_range near = value_keys_near(operand, &class);
        struct key_range all = value_class_keys(class);
        err = add(set, above ? near.from : all.from, above ? all.to : near.to);
        if (!err && read_as_date(source, operand))
            err = add_as_dates(set, source, above ? operand : NULL, above ? NULL : operand);
    }
    return err ? err : 1;
}

static int add_regex(
    struct key_set *set, const struct key_source *source, const struct filter_node *node)
{
    int err = add_unknown(set, source);
    size_t len;
    const char *prefix = regex_prefix(node->regex, &len);
    if (!err)
        err = add_range(set, value_keys_of_prefix(prefix, len));
    /* A regular expression as a value is equal to itself. */
    if (!err)
        err = add_class(set, VALUE_OTHER);
    if (!err && source->as == FIELDS_AS_ISO8601)
        err = add_all_dates(set, source);
    return err ? err : 1;
}

static int add_in(
    struct key_set *set, const struct key_source *source, const struct filter_node *node)
{
    bson_iter_t element;
    int rc = 1;
    if (bson_iter_recurse(&node->operand, &element)) {
        while (rc > 0 && bson_iter_next(&element))
            rc = BSON_ITER_HOLDS_REGEX(&element) ? rc : add_equal(set, source, &element);
    }
    for (const struct filter_node *regex = node->child; regex && rc > 0; regex = regex->next)
        rc = add_regex(set, source, regex);
    return rc;
}

/* Everything that is there at all. */
static int add_present(struct key_set *set)
{
    int err = add(set, LEAST, LAST_DATE);
    if (!err)
        err = add(set, INDEX_KEY_MISSING + 1, GREATEST);
    return err ? err : 1;
}

static int node_keys(
    const struct filter_node *node, const struct key_source *source, struct key_set *set);

/* All of a list of conditions: each that the index knows of makes the set smaller. */
static int and_keys(
    const struct filter_node *first, const struct key_source *source, struct key_set *set)
{
    bool any = false;
    for (const struct filter_node *node = first; node; node = node->next) {
        struct key_set one = {0};
        int rc = node_keys(node, source, &one);
        if (rc > 0 && !any) {
            key_set_release(set);
            *set = one;
            any = true;
            continue;
        }
        if (rc > 0)
            rc = intersect(set, &one);
        key_set_release(&one);
        if (rc < 0)
            return rc;
    }
    return any;
}

/* Any of a list: the index must know of each. */
static int or_keys(
    const struct filter_node *first, const struct key_source *source, struct key_set *set)
{
    int rc = 1;
    for (const struct filter_node *node = first; node && rc > 0; node = node->next) {
        struct key_set one = {0};
        rc = node_keys(node, source, &one);
        for (size_t i = 0; i < one.n && rc > 0; i++) {
            int err = add_range(set, one.ranges[i]);
            rc = err ? err : rc;
        }
        key_set_release(&one);
    }
    return rc;
}

static int leaf_keys(
    const struct filter_node *node, const struct key_source *source, struct key_set *set)
{
    switch (node->op) {
    case FILTER_EQ:
        return add_equal(set, source, &node->operand);
    case FILTER_GT:
    case FILTER_GTE:
    case FILTER_LT:
    case FILTER_LTE:
        return add_ordered(set, source, node);
    case FILTER_IN:
        return add_in(set, source, node);
    case FILTER_REGEX:
        return add_regex(set, source, node);
    case FILTER_EXISTS:
    case FILTER_TYPE:
        return add_present(set);
    default:
        return 0;
    }
}

static int node_keys(
    const struct filter_node *node, const struct key_source *source, struct key_set *set)
{
    int rc = 0;
    if (node->op == FILTER_AND)
        rc = and_keys(node->child, source, set);
    else if (node->op == FILTER_OR)
        rc = or_keys(node->child, source, set);
    else if (node->path && strcmp(node->path, source->path) == 0)
        rc = leaf_keys(node, source, set);
    normalise(set);
    return rc;
}

int filter_keys(
    const struct filter *filter, const struct key_source *source, struct key_set *ret_keys)
{
    return node_keys(filter->root, source, ret_keys);
}
