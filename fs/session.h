/*
 * session.h - what libfuse 3.14 does not do between us and the kernel.
 *
 * Requests and replies pass through our own read and writev (fuse_session_custom_io), where
 *  - the INIT reply gets the protocol features that libfuse does not ask for: parallel directory
 *    operations, HANDLE_KILLPRIV_V2 (kernel 5.12), mmap of files with direct I/O (kernel 6.6), and
 *    access control lists with what they need (SETXATTR_EXT, and umasks that are left to us);
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

/* Who checks access control lists. */
enum session_acl {
    SESSION_ACL_NONE, /* nobody: there are none (noacl) */
    SESSION_ACL_KEPT, /* nobody: they are kept, but only one user gets in, who may do everything */
    SESSION_ACL_CHECKED, /* the kernel: asks for them, and caches them */
};

/*
 * Puts our read and writev into a mounted session.
 * @answered  called once, by the thread that answered INIT, when the kernel has the answer: from
 * then on the mount works. Errors: -errno.
 */
int session_init(
    struct fuse_session *session, enum session_acl acl, void (*answered)(void *arg), void *arg);

/*
 * Does the request being handled by this thread ask for setuid, setgid and file capabilities to be
 * cleared? (WRITE, SETATTR, OPEN and CREATE under HANDLE_KILLPRIV_V2.)
 */
bool session_kills_privileges(void);

/*
 * Does the SETXATTR being handled by this thread, which sets an access list, ask for setgid to be
 * cleared: is the caller not in the file's group?
 */
bool session_clears_setgid(void);

/* Does the kernel do HANDLE_KILLPRIV_V2, mmap with direct I/O? Known once INIT was answered. */
bool session_has_killpriv(void);
bool session_has_mmap_direct(void);

/*
 * Makes every name that the kernel has cached be looked up again (FUSE_NOTIFY_INC_EPOCH, kernel
 * 6.16). Takes no lock in the kernel, so it may be called while requests wait.
 * Returns 0, or -errno when the kernel cannot (-EINVAL).
 */
int session_forget_names(struct fuse_session *session);

/*
 * Makes the kernel give back what it caches of documents that nobody uses at the moment
 * (FUSE_NOTIFY_PRUNE, kernel 6.18). Waits for no directory's lock. Numbers it does not know are skipped.
 * @n  may be 0, to ask whether the kernel can
 * Returns 0, or -errno when the kernel cannot (-EINVAL).
 */
int session_prune(struct fuse_session *session, const uint64_t *nodeids, uint32_t n);

#endif
