/*
 * privileges.h - when a file loses its set-user-ID and set-group-ID bits and its capabilities.
 *
 * Under HANDLE_KILLPRIV_V2 (fs/session.h) the kernel leaves all of this to us: it says whether the
 * caller of a write or a truncation lacks CAP_FSETID, and nothing at a chown or an fallocate. The
 * rules are those of the kernel's own filesystems (setattr_should_drop_suidgid).
 */
#ifndef TTLFS_FS_PRIVILEGES_H
#define TTLFS_FS_PRIVILEGES_H

#include "core/document.h"
#include "fs/caller.h"

#include <fuse_lowlevel.h>
#include <stdbool.h>

/*
 * A write, a truncation or an open with O_TRUNC has changed a content. To be called between
 * journal_will_change and letting the lock go; expects the lock.
 * Returns true when the mode has changed: privileges_tell is then to be called, unless the reply has
 * the attributes in it.
 */
bool privileges_after_write(fuse_req_t req, struct document *doc);

/* The same after an fallocate, where the kernel does not say whether the caller has CAP_FSETID. */
bool privileges_after_fallocate(fuse_req_t req, struct document *doc);

/* An owner or a group is about to be set, be it the one it has. As above. */
void privileges_before_chown(fuse_req_t req, struct document *doc);

/*
 * Would a chown that sets neither owner nor group take away what only the owner may take away?
 * Expects the lock, and a caller whose groups and capabilities were asked for (caller_load).
 */
bool privileges_are_strange(const struct caller *caller, const struct document *doc);

/*
 * Makes the kernel forget a mode that has lost bits. After a write it asks for size and times anew, but
 * runs a program by the mode that it knew before (6.18). To be called before the reply, without the lock.
 */
void privileges_tell(fuse_req_t req, fuse_ino_t ino);

#endif
