/*
 * content.h - large contents: sparse bytes, in memory or in a blob file of the store.
 *
 * Small contents live in their document (document.data); beyond CONTENT_SMALL_MAX_BYTES, or as soon
 * as they have a hole, they move into one of these. A content has a lock of its own: bytes are
 * never copied under the tree's lock. Lock order: the tree's lock is never taken while a content's
 * is held, and a content's lock is not waited for while the tree's is held.
 *
 * The size of a file is its document's; a content only knows which pages it has. Reading where it
 * has none gives zeros.
 */
#ifndef TTLFS_CORE_CONTENT_H
#define TTLFS_CORE_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CONTENT_PAGE_BYTES 4096
/* Larger files, and files with holes, have a struct content. */
#define CONTENT_SMALL_MAX_BYTES (16 * 1024)

struct store;

/* What all contents of a mount may take together, and take. */
struct content_budget {
    _Atomic int64_t used_pages;
    int64_t max_pages; /* 0: no limit */
};

/* Takes pages from the budget; gives them back when `pages` is negative. Errors: -ENOSPC. */
int content_charge(struct content_budget *budget, int64_t pages);

/* How many pages hold `bytes` bytes. */
static inline int64_t content_pages_of(uint64_t bytes)
{
    return (int64_t) (bytes / CONTENT_PAGE_BYTES + (bytes % CONTENT_PAGE_BYTES != 0));
}

struct content; /* opaque */

/*
 * Makes an empty content.
 * @store   NULL keeps it in memory; else a blob file `blob` of the store, made at the first
 *          content_open
 * @budget  charged for every page; must outlive the content
 * Returns NULL when there is no memory. Needs no lock.
 */
struct content *content_new(struct store *store, uint64_t blob, struct content_budget *budget);

/* Has another budget pay for its pages from now on. Nobody else may be using the content. */
void content_change_budget(struct content *content, struct content_budget *budget);

/* Tells an existing blob's pages (already charged) when it is found again at the start. */
void content_set_pages(struct content *content, int64_t pages);

/*
 * Another holder of a content: whoever uses one without the tree's lock, because a truncation may
 * take it from its document meanwhile.
 */
struct content *content_get(struct content *content);

/*
 * One holder fewer; the last one frees the content and gives its pages back. The blob file stays.
 * NULL is allowed.
 */
void content_put(struct content *content);

/* The blob's number, 0 in memory. */
uint64_t content_blob(const struct content *content);

/*
 * Opens the blob file unless it is open, and closes it. Everything below needs it open; in memory
 * both do nothing. Open is called without the tree's lock; whoever closes knows that nobody uses
 * the content (its document is not pinned).
 * @create  the blob is new: make the file
 * Errors: what store_blob_open reports.
 */
int content_open(struct content *content, bool create);
void content_close(struct content *content);

/* Reads up to len bytes at off; the caller has cut the range to the file's size. 0 or -errno. */
int content_read(struct content *content, void *buf, size_t len, uint64_t off);

/* Writes len bytes at off. Errors: -ENOSPC, -ENOMEM, -EIO; some bytes may then be written. */
int content_write(struct content *content, const void *buf, size_t len, uint64_t off);

/* Drops everything at and beyond `size`, so that a later extension reads as zeros. */
int content_truncate(struct content *content, uint64_t size);

/*
 * Makes a range read as zeros: by dropping its pages (punch) or by filling them. Errors: -ENOSPC, -ENOMEM.
 */
int content_zero(struct content *content, uint64_t off, uint64_t len, bool punch);

/* Makes sure that a range has pages, as fallocate does. Errors: -ENOSPC, -ENOMEM. */
int content_allocate(struct content *content, uint64_t off, uint64_t len);

/*
 * SEEK_DATA and SEEK_HOLE within a file of `size` bytes.
 * Errors: -ENXIO, -EINVAL (another whence).
 */
int content_seek(struct content *content, uint64_t size, off_t off, int whence, off_t *ret_off);

/* Pages that it has. Takes no lock. */
int64_t content_pages(const struct content *content);

/* Syncs the blob's bytes; in memory 0. */
int content_sync(struct content *content);

#endif
