/*
 * compare.h - the order of BSON values, as MongoDB has it.
 *
 * Types come in brackets: MinKey, undefined, null, numbers, strings and symbols, documents,
 * arrays, binary data, ObjectIds, booleans, dates, timestamps, regular expressions, DBPointers,
 * code, code with scope, MaxKey. Within a bracket the values decide.
 */
#ifndef TTLFS_CORE_COMPARE_H
#define TTLFS_CORE_COMPARE_H

#include <bson/bson.h>
#include <stdbool.h>

/* The bracket of a type: values of one bracket compare with each other. Ordered as above. */
int compare_bracket(bson_type_t type);

/*
 * The order of any two values, across brackets too. Documents are compared element by element:
 * by bracket, name, then value; a document that ends first is less.
 * Returns less than, equal to or greater than 0.
 */
int compare_values(const bson_iter_t *a, const bson_iter_t *b);

#endif
