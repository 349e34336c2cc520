/*
 * notify.h - telling the kernel what it did not do itself.
 *
 * Notifications about single names wait in the kernel for the lock of the directory, which a
 * request in flight may hold; so they are sent by a thread of their own, which holds no lock and
 * handles no requests. A reply that must not come before a notification is handed over with it.
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
    pthread_mutex_t lock;    /* covers what follows; may be taken while the tree's lock is held */
    pthread_cond_t wanted;
    struct notify_job *first, **last;
    uint32_t queued;
    bool running, stop;
};

/* Errors: -EAGAIN, -ENOMEM. */
int notifier_start(struct notifier *notifier, struct fuse_session *session);
/*
 * Sends what somebody waits for, drops the rest, ends the thread. Requests must still be answered, or
 * the session be gone: the kernel may make a notification wait for a request. More than one call does
 * no harm.
 */
void notifier_stop(struct notifier *notifier);

/*
 * A name's deadline came forward: the kernel must look it up again. Then replies `err` to the
 * request, if one is given. Without memory the reply comes at once.
 */
void notifier_expire_name(struct notifier *notifier, fuse_ino_t parent, const char *name,
    size_t len, fuse_req_t req, int err);

/* A name is gone: lets the kernel give its memory back. Left out when too much is queued. */
void notifier_drop_name(struct notifier *notifier, fuse_ino_t parent, const char *name, size_t len);

/* Attributes changed (a directory's times and size after expiry). Left out as above. */
void notifier_attributes(struct notifier *notifier, fuse_ino_t ino);

/*
 * Every cached name must be looked up again. At once, in the calling thread, which may be handling
 * a request. Without effect on kernels before 6.16: has_epochs is then false, and names of
 * documents are not cached in the first place.
 */
void notifier_forget_names(struct notifier *notifier);

#endif
