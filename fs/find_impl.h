/*
 * find_impl.h - what fs/find*.c share.
 */
#ifndef TTLFS_FS_FIND_IMPL_H
#define TTLFS_FS_FIND_IMPL_H

#include "fs/caller.h"
#include "fs/find.h"

#include "ttl/query.h"

enum find_kind {
    FIND_TOP,     /* `.find` */
    FIND_FILTER,  /* a filter */
    FIND_EXPLAIN, /* `.explain.json` below a filter */
};

struct find_node {
    struct collection *c;     /* the directory that is searched: pinned */
    struct find_node *parent; /* NULL for FIND_TOP; held */
    uint64_t nlookup;         /* references that the kernel holds */
    uint32_t holds;           /* nodes below, and listings */
    uint8_t kind;
    uint8_t depth; /* filters up to here */
    char name[];
};

/* A listing: an open directory. */
struct find_list {
    struct find_node *node;       /* held */
    struct find_list *next, **at; /* of all, under the tree's lock */
    bool ran;
    struct query_result result;
};

static inline struct find_node *find_node_of(fuse_ino_t ino)
{
    return (struct find_node *) (uintptr_t) (ino & ~(fuse_ino_t) 3);
}

static inline fuse_ino_t find_nodeid(const struct find_node *node)
{
    return (fuse_ino_t) (uintptr_t) node | 2;
}

/* Ends a hold; frees the node when that was the last thing that kept it. Expects the lock. */
void find_put(struct fs *fs, struct find_node *node);

/* A node's attributes. Expects the lock. */
void find_stat(struct fs *fs, const struct find_node *node, struct stat *ret_stat);

/*
 * Compiles all filters down to a node of the kind FIND_FILTER, and one more when `more` is not NULL. Errors: as
 * query_new. Without the lock.
 */
int find_compile(
    const struct find_node *node, const char *more, struct query **ret_query, struct reason *why);

/*
 * A query on behalf of a caller: may he read what it reads? Released with caller_release.
 * @ret_reader  refers to the caller and the request
 */
struct find_caller {
    fuse_req_t req;
    struct caller caller;
};
void find_caller_init(
    struct find_caller *ret_caller, fuse_req_t req, struct query_reader *ret_reader);

/* Runs a node's query. Expects no lock. Errors: as query_new and query_run. */
int find_run(fuse_req_t req, const struct find_node *node, struct query_result *ret_result);

/* The text of `.explain.json` below a filter. Expects no lock. Errors: as find_run. */
int find_explain(fuse_req_t req, const struct find_node *filter, char **ret_text, size_t *ret_len);

#endif
