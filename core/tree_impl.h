/*
 * tree_impl.h - what core/tree*.c share.
 */
#ifndef TTLFS_CORE_TREE_IMPL_H
#define TTLFS_CORE_TREE_IMPL_H

#include "core/tree.h"

/* A zeroed document, or collection. NULL: no memory. */
struct document *document_alloc(bool collection);

/* Frees a document that nothing holds. Expects the lock. */
void document_free(struct tree *tree, struct document *doc);

#endif
