/*
 * notify.h - telling the kernel what it did not do itself.
 *
 * Two ways. All cached names can be forgotten at once, without any lock (notifier_forget_names):
 * that may be done before a request is answered. A notification about a single name is cheaper for
 * everybody else, but waits in the kernel for the lock of the directory. Its holder may wait for the
 * lock of a file, and that one's holder for our answer (a rename over a file whose setxattr we
 * handle): so no answer may ever wait for such a notification. They are sent by a thread of their
 * own, which holds no lock, handles no requests and answers none.
 */
#ifndef TTLFS_FS_NOTIFY_H
#define TTLFS_FS_NOTIFY_H

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct notify_job;

struct notifier {
    struct fuse_session *session;
    pthread_t thread;
    _Atomic bool has_epochs; /* the kernel can forget all names at once */
    _Atomic bool has_prune;  /* and can be asked to let go of documents */
    pthread_mutex_t lock;    /* covers what follows; may be taken while the tree's lock is held */
    pthread_cond_t wanted;
    struct notify_job *first, **last;
    uint32_t queued;
    uint64_t *gone; /* numbers of documents that the kernel is asked to let go of */
    size_t ngone, cap_gone;
    bool running, stop;
};

/* Errors: -EAGAIN, -ENOMEM. */
int notifier_start(struct notifier *notifier, struct fuse_session *session);
/*
 * Drops what is queued and ends the thread. Requests must still be answered, or the session be gone:
 * the kernel may make a notification wait for a request. More than one call does no harm.
 */
void notifier_stop(struct notifier *notifier);

/* A name's deadline came forward: the kernel is to look it up again, soon. */
void notifier_expire_name(
    struct notifier *notifier, fuse_ino_t parent, const char *name, size_t len);

/* A name is gone: the kernel forgets it, and gives its memory back. Left out when too much is queued. */
void notifier_drop_name(struct notifier *notifier, fuse_ino_t parent, const char *name, size_t len);

/*
 * A document has lost a name that the kernel does not believe in any more: it gives its memory back, and
 * with it our document, unless it is in use. Waits for nobody's lock, and is never left out. Returns false
 * when the kernel cannot (before 6.18): then notifier_drop_name does the same, more slowly.
 */
bool notifier_let_go(struct notifier *notifier, fuse_ino_t document);

/* The same for a name that others may still have cached, and whose watchers are to hear of it. */
void notifier_deleted(
    struct notifier *notifier, fuse_ino_t parent, fuse_ino_t child, const char *name, size_t len);

/* Attributes changed (a directory's times and size after expiry). Left out as above. */
void notifier_attributes(struct notifier *notifier, fuse_ino_t ino);

/*
 * Every cached name must be looked up again. At once, in the calling thread, which may be handling
 * a request. Without effect on kernels before 6.16: has_epochs is then false, and names of
 * documents are not cached in the first place.
 */
void notifier_forget_names(struct notifier *notifier);

#endif
