/*
 * file_copy.c - a content into a file outside: holes stay holes.
 */
#include "core/file.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Read and written at a time; small contents take less. */
#define PIECE_BYTES (256 * 1024)

static int write_all(int fd, const unsigned char *bytes, size_t len, off_t off)
{
    while (len) {
        ssize_t n = pwrite(fd, bytes, len, off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        bytes += n;
        off += n;
        len -= (size_t) n;
    }
    return 0;
}

/* The next stretch of data at or behind `at`; false when there is none. Lets go. */
static bool next_data(
    struct tree *tree, struct document *doc, off_t at, off_t *ret_from, off_t *ret_to, int *ret_err)
{
    int err = file_seek(tree, doc, at, SEEK_DATA, ret_from);
    if (!err)
        err = file_seek(tree, doc, *ret_from, SEEK_HOLE, ret_to);
    /* Nothing but a hole up to the end, which may have come nearer meanwhile. */
    *ret_err = err == -ENXIO ? 0 : err;
    return !err;
}

int file_copy_out(
    struct tree *tree, struct document *doc, int fd, bool (*stop)(void *arg), void *arg)
{
    int err = file_open(tree, doc);
    if (err)
        return err;
    size_t piece = doc->size < PIECE_BYTES ? (size_t) doc->size : PIECE_BYTES;
    unsigned char *buf = piece ? malloc(piece) : NULL;
    if (piece && !buf)
        err = -ENOMEM;
    off_t from, to = 0;
    while (!err && piece && next_data(tree, doc, to, &from, &to, &err)) {
        while (!err && from < to) {
            size_t len = (size_t) (to - from) < piece ? (size_t) (to - from) : piece;
            ssize_t n = file_read(tree, doc, buf, len, (uint64_t) from);
            if (n <= 0) {
                err = (int) n;
                from = to;
                continue;
            }
            tree_unlock(tree);
            err = stop && stop(arg) ? -EINTR : write_all(fd, buf, (size_t) n, from);
            tree_lock(tree);
            from += n;
        }
    }
    off_t size = (off_t) doc->size;
    tree_unlock(tree);
    free(buf);
    if (!err && ftruncate(fd, size) != 0)
        err = -errno;
    tree_lock(tree);
    document_unpin(tree, doc);
    return err;
}
