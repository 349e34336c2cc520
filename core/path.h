/*
 * path.h - what a dotted path finds in a document, by MongoDB's rules.
 *
 * "a.b" goes through sub-documents, and through arrays of sub-documents into each of them. A
 * component unwinds one level of array only: what lies in an array in an array is found by nobody
 * but a number, which names an element of an array ("a.0"). An element so named counts as it is.
 */
#ifndef TTLFS_CORE_PATH_H
#define TTLFS_CORE_PATH_H

#include <bson/bson.h>
#include <stdbool.h>

/*
 * Sees one value that was found.
 * @value  NULL when a document on the way lacks the next name: that counts as a missing value
 * Returns true to end the search.
 */
typedef bool path_visitor(void *context, const bson_iter_t *value);

/*
 * Shows a visitor everything at a path. An array at the end of the path is shown element by
 * element, then as a whole. Where a name stands twice in a document the first one counts.
 * @path  "a" or "a.b.c"
 * Returns true when a visitor did, false when all were seen.
 */
bool path_visit(const bson_t *document, const char *path, path_visitor *visitor, void *context);

#endif
