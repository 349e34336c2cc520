/*
 * session.h - what libfuse 3.14 does not do between us and the kernel.
 *
 * Requests and replies pass through our own read and writev (fuse_session_custom_io), where
 *  - the INIT reply gets the protocol features that libfuse does not ask for: parallel directory
 *    operations, HANDLE_KILLPRIV_V2 (kernel 5.12), and mmap of files with direct I/O (kernel 6.6);
 *  - STATX (kernel 6.6) becomes a GETATTR (fs/statx.h);
 *  - O_TMPFILE (kernel 6.1) becomes a CREATE, whose name "/" no other request can have;
 *  - flags that libfuse drops from a request are kept for its handler.
 */
#ifndef TTLFS_FS_SESSION_H
#define TTLFS_FS_SESSION_H

#include <fuse_lowlevel.h>
#include <stdbool.h>
#include <stdint.h>

/* The name of an O_TMPFILE in op_create. */
#define SESSION_TMPFILE_NAME "/"

/*
 * Puts our read and writev into a mounted session.
 * @answered  called once, by the thread that answered INIT, when the kernel has the answer: from
 * then on the mount works Errors: -errno.
 */
int session_init(struct fuse_session *session, void (*answered)(void *arg), void *arg);

/*
 * Does the request being handled by this thread ask for setuid, setgid and file capabilities to be
 * cleared? (WRITE, SETATTR, OPEN and CREATE under HANDLE_KILLPRIV_V2.)
 */
bool session_kills_privileges(void);

/* Does the kernel do HANDLE_KILLPRIV_V2, mmap with direct I/O? Known once INIT was answered. */
bool session_has_killpriv(void);
bool session_has_mmap_direct(void);

/*
 * Makes every name that the kernel has cached be looked up again (FUSE_NOTIFY_INC_EPOCH, kernel
 * 6.16). Takes no lock in the kernel, so it may be called while requests wait.
 * Returns 0, or -errno when the kernel cannot (-EINVAL).
 */
int session_forget_names(struct fuse_session *session);

#endif
