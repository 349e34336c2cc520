/*
 * file.h - reading and writing the content of a regular file.
 *
 * Which of its two homes a content has (document.data while small, struct content when large or
 * with holes) is decided here and nowhere else.
 *
 * All functions expect the tree's lock and give it back held, but those marked "lets go" release it
 * in between; the document must be pinned then. The kernel sends
 * one write or truncation of a file at a time, save for write-backs of shared mappings, which never
 * change a size, and for opens with O_TRUNC, which may come at any moment.
 */
#ifndef TTLFS_CORE_FILE_H
#define TTLFS_CORE_FILE_H

#include "core/tree.h"

/*
 * Pins a document and makes its content accessible: loads a small one that is in the store only,
 * opens a large one's blob. Both stay so until the last document_unpin. Every function below but
 * file_copy_content needs it. Lets go.
 * Errors: -ENOENT (removed meanwhile), -ENOMEM, -EIO, -EMFILE; the document is then not pinned.
 */
int file_open(struct tree *tree, struct document *doc);

/*
 * Reads up to len bytes. Lets go when the content is large.
 * Returns the number of bytes, 0 at the end, or -errno.
 */
ssize_t file_read(struct tree *tree, struct document *doc, void *buf, size_t len, uint64_t off);

/*
 * Writes len bytes, extending the file when they go beyond its end. Times are the caller's. Lets go.
 * Returns len, or -ENOSPC (then nothing was written beyond the old end), -ENOMEM, -EIO, -EFBIG.
 */
ssize_t file_write(
    struct tree *tree, struct document *doc, const void *buf, size_t len, uint64_t off);

/* Sets the size. Lets go. Errors: -ENOSPC, -ENOMEM, -EIO, -EFBIG. */
int file_truncate(struct tree *tree, struct document *doc, uint64_t size);

/*
 * fallocate(2) with mode 0, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE and ZERO_RANGE [| KEEP_SIZE]. Lets
 * go. Errors: -EOPNOTSUPP (another mode), -EINVAL, -EFBIG, -ENOSPC, -ENOMEM, -EIO.
 */
int file_allocate(struct tree *tree, struct document *doc, int mode, uint64_t off, uint64_t len);

/* SEEK_DATA and SEEK_HOLE. Lets go. Errors: -ENXIO, -EINVAL. */
int file_seek(struct tree *tree, struct document *doc, off_t off, int whence, off_t *ret_off);

/*
 * A copy of the whole content, for looking at its fields. Lets go; a cold content is fetched
 * without being kept.
 * @ret_bytes  malloc'd, the caller's; NULL when empty
 * Errors: -EFBIG (larger than `max`), -ENOENT, -ENOMEM, -EIO.
 */
int file_copy_content(struct tree *tree, struct document *doc, size_t max,
    unsigned char **ret_bytes, size_t *ret_len);

/*
 * Writes the whole content of a regular file into another one, an empty one outside the tree: data
 * where there is data, holes where there are holes. Lets go. What is written to the document meanwhile
 * may be in the copy or not.
 * @stop  asked between pieces, without the lock: true ends the call; may be NULL
 * Errors: -EINTR (stop said so), -ENOENT, -ENOMEM, and what reading and pwrite(2) report.
 */
int file_copy_out(
    struct tree *tree, struct document *doc, int fd, bool (*stop)(void *arg), void *arg);

#endif
