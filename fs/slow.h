/*
 * slow.h - requests that took long to handle, for `.ttlfs/profile.jsonl`.
 *
 * A thread that reads its next request has handled the one before: two readings of a coarse clock
 * (about 20 ns each, right to a few milliseconds) are all that a request pays. A request that
 * is answered later by another thread (a read of `events`, a write to `pass`) counts as what it is
 * here: quickly handled.
 */
#ifndef TTLFS_FS_SLOW_H
#define TTLFS_FS_SLOW_H

#include <linux/fuse.h>
#include <stddef.h>
#include <stdint.h>

struct fs;

/* Where slow requests are told of. Before any request is handled. */
void slow_init(struct fs *fs);

/* Requests that take so long or longer are told of; 0: none are. Any thread. */
void slow_set_threshold(int64_t ms);

/* The calling thread has got a request. @header  valid during the call */
void slow_begin(const struct fuse_in_header *header);

/* The calling thread has handled its request, if it had one. */
void slow_end(void);

#endif
