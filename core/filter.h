/*
 * filter.h - filter expressions, as MongoDB's find and partialFilterExpression know them.
 *
 * A filter is compiled once and then matched against documents' fields. This is the one place
 * that knows the operators; partial indexes and queries differ only in which they allow.
 */
#ifndef TTLFS_CORE_FILTER_H
#define TTLFS_CORE_FILTER_H

#include "core/reason.h"

#include <bson/bson.h>
#include <stdbool.h>

/* $eq $exists $gt $gte $lt $lte $type $and $or $in: what partialFilterExpression takes. */
#define FILTER_PARTIAL 0x0
/* Also $ne $nin $not $nor $regex: what a query takes. */
#define FILTER_QUERY 0x1

/* The deepest nesting of expressions and of the values inside; more is EINVAL. */
#define FILTER_MAX_DEPTH 32

struct filter; /* opaque, immutable once compiled: may be matched from any thread */

/*
 * Compiles a filter document, for example {"a.b": {"$gt": 5}, "$or": [ … ]}.
 * @expression   borrowed during the call only
 * @flags        FILTER_PARTIAL or FILTER_QUERY
 * @ret_filter   freed with filter_free
 * Errors: -EINVAL (an unknown operator, a wrong operand; the reason names it), -ENOMEM.
 */
int filter_new(
    const bson_t *expression, unsigned int flags, struct filter **ret_filter, struct reason *why);

/* NULL is allowed. */
void filter_free(struct filter *filter);

/*
 * Does the document match? MongoDB's rules: dotted paths walk sub-documents and arrays, an array
 * matches when it or one of its elements does, comparisons hold within one type bracket only
 * (numbers of all widths are one), {a: null} matches null and missing.
 * @fields  the document's fields, borrowed
 */
bool filter_match(const struct filter *filter, const bson_t *fields);

/* The expression it was compiled from; borrowed, valid as long as the filter. */
const bson_t *filter_expression(const struct filter *filter);

/*
 * Do two filters ask the same, written the same way but for {a: 1} and {a: {$eq: 1}}? Regular
 * expressions must be the same to the byte. NULL equals NULL only.
 */
bool filter_equal(const struct filter *a, const struct filter *b);

/*
 * Is `name`, or a path below it, one of the paths that the filter reads? For deciding which
 * changes of a document need a filter to be asked again.
 */
bool filter_reads(const struct filter *filter, const char *name);

#endif
