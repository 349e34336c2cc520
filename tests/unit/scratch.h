/*
 * scratch.h - a folder of its own for a test, below $TMPDIR or /tmp.
 */
#ifndef TTLFS_TESTS_SCRATCH_H
#define TTLFS_TESTS_SCRATCH_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SCRATCH_PATH_BYTES 512

/* In place; scratch_remove deletes the folder and all that is in it. */
struct scratch {
    char path[SCRATCH_PATH_BYTES];
};

static inline struct scratch scratch_make(void)
{
    struct scratch scratch;
    const char *base = getenv("TMPDIR");
    snprintf(scratch.path, sizeof scratch.path, "%s/ttlfs-unit-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(scratch.path)) {
        perror(scratch.path);
        abort();
    }
    return scratch;
}

static inline int scratch_remove_one(
    const char *path, const struct stat *st, int type, struct FTW *place)
{
    (void) st;
    (void) type;
    (void) place;
    return remove(path);
}

static inline void scratch_remove(const struct scratch *scratch)
{
    if (nftw(scratch->path, scratch_remove_one, 16, FTW_DEPTH | FTW_PHYS))
        perror(scratch->path);
}

/* A path in the folder. @ret_path has SCRATCH_PATH_BYTES and is given back. */
static inline const char *scratch_in(
    const struct scratch *scratch, const char *name, char *ret_path)
{
    int len = snprintf(ret_path, SCRATCH_PATH_BYTES, "%s/%s", scratch->path, name);
    if (len >= SCRATCH_PATH_BYTES)
        abort();
    return ret_path;
}

#endif
