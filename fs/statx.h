/*
 * statx.h - STATX (kernel 6.6), which libfuse 3.14 does not know: st_btime.
 *
 * The request becomes a GETATTR, whose arguments are a prefix of its own; the reply that the handler
 * makes is turned into a STATX reply on its way out. Both happen on the thread that handles it.
 */
#ifndef TTLFS_FS_STATX_H
#define TTLFS_FS_STATX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define STATX_OPCODE 52

/* A STATX request, header included, has come in: makes a GETATTR of it. */
void statx_take(void *request);

/* Any other request has come in. */
void statx_leave(void);

/* The birth of the document that this thread's GETATTR is about. */
void statx_set_birth(int64_t ms);

/*
 * Turns the reply to a GETATTR into one to the STATX that it was, when it was one.
 * @iov, @count  the reply; its parts may be replaced by others that live until the next request
 * Returns the number of parts.
 */
int statx_answer(struct iovec *iov, int count);

#endif
