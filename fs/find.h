/*
 * find.h - `.find`: queries as directories.
 *
 * Every directory has a `.find`, reached by name and never listed. Below it each name that is a filter
 * is a directory that lists the documents of the directory above that match; a filter below a filter is
 * ANDed. The documents in there are the documents themselves; only the directories, and `.explain.json`
 * in each, are nodes of their own: control nodes (fs/control.h) whose number is an address. They take
 * mode and owner from the directory that is searched, so that the kernel's permission checks are the
 * same in both. The kernel keeps none of it: names in here have no time-out.
 *
 * Nodes are covered by the tree's lock. Each function that takes a request replies to it.
 */
#ifndef TTLFS_FS_FIND_H
#define TTLFS_FS_FIND_H

#include "fs/control.h"
#include "fs/fs.h"

#define FIND_NAME ".find"
#define FIND_EXPLAIN_NAME ".explain.json"
/* So many filters may stand below each other. */
#define FIND_MAX_DEPTH 32

/* Fixed control nodes have small numbers, no memory lies there. */
#define FIND_LEAST_ADDRESS 0x10000

struct find_node;

static inline bool find_is_node(fuse_ino_t ino)
{
    return control_is_node(ino) && ino > FIND_LEAST_ADDRESS;
}

/* Is this name taken in every directory? */
static inline bool find_is_name(const char *name)
{
    return name[0] == '.' && strcmp(name, FIND_NAME) == 0;
}

/* The directory that is searched; valid as long as the node. */
struct document *find_document(fuse_ino_t ino);

/* `ino` is a node, or a directory where FIND_NAME was asked for. */
void find_lookup(fuse_req_t req, fuse_ino_t ino, const char *name);
void find_forget(struct fs *fs, fuse_ino_t ino, uint64_t nlookup); /* expects the lock */
void find_getattr(fuse_req_t req, fuse_ino_t ino);
/* Removes the name from the directory that is searched, if it matches. */
void find_unlink(fuse_req_t req, fuse_ino_t ino, const char *name);
void find_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

/* find_list.c: a listing shows what matched when it began, less what has gone since. */
void find_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void find_readdir(
    fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi, bool plus);
void find_releasedir(fuse_req_t req, struct fuse_file_info *fi);

/* Frees what the kernel left behind when the session ended. Expects the lock. */
void find_release(struct fs *fs);

#endif
