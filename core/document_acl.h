/*
 * document_acl.h - the access control lists of documents and collections.
 *
 * They are extended attributes (core/acl.h); the flag DOCUMENT_ACL says that there may be one, so
 * that the many documents without need no search. An access list and the mode's permission bits
 * always agree: a list that says no more than the mode is not kept.
 *
 * All functions expect the tree's lock. The journal is the caller's business.
 */
#ifndef TTLFS_CORE_DOCUMENT_ACL_H
#define TTLFS_CORE_DOCUMENT_ACL_H

#include "core/document.h"

/*
 * Sets one of the two lists. An access list changes the mode.
 * @name  ACL_ACCESS_XATTR or ACL_DEFAULT_XATTR
 * Errors: -EINVAL, -EOPNOTSUPP (acl_check), -EACCES (a default list, and not a directory), -ENOMEM.
 */
int document_acl_set(struct document *doc, const char *name, const void *value, size_t len);

/* Changes the mode's permission, setuid, setgid and sticky bits, and the access list with them. */
void document_chmod(struct document *doc, uint32_t mode);

/*
 * Something new in a collection takes over its default list: as access list, and a directory also
 * as default list. Without one the umask is taken off its mode.
 * @doc  made with the mode that was asked for; not a symlink, which inherits nothing
 * Errors: -ENOMEM.
 */
int document_acl_inherit(struct document *doc, const struct collection *parent, uint32_t mask);

#endif
