/*
 * acl.h - POSIX access control lists in the form in which setxattr(2) has them.
 *
 * A list is a header (version 2) and entries of 8 bytes, all little-endian, exactly as in the value
 * of system.posix_acl_access and system.posix_acl_default. It is kept like that, too: documents
 * with a list are few, and nothing has to be translated when it is read. The functions here are the
 * kernel's rules for it (fs/posix_acl.c there): what is valid, how a list and a mode determine each
 * other, what a new file inherits.
 *
 * Every function but acl_check expects a list that acl_check has accepted.
 */
#ifndef TTLFS_CORE_ACL_H
#define TTLFS_CORE_ACL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACL_ACCESS_XATTR "system.posix_acl_access"
#define ACL_DEFAULT_XATTR "system.posix_acl_default"

enum acl_tag {
    ACL_TAG_USER_OBJ = 0x01,  /* the owner */
    ACL_TAG_USER = 0x02,      /* a named user */
    ACL_TAG_GROUP_OBJ = 0x04, /* the owning group */
    ACL_TAG_GROUP = 0x08,     /* a named group */
    ACL_TAG_MASK = 0x10,      /* the most that named users and all groups get */
    ACL_TAG_OTHER = 0x20,
};

struct acl_entry {
    uint16_t tag;  /* enum acl_tag */
    uint16_t perm; /* 4 read, 2 write, 1 execute */
    uint32_t id;   /* of named users and groups */
};

/* Is this the name of one of the two attributes? */
bool acl_is_name(const char *name);

/* How many entries a list has. */
size_t acl_count(size_t len);

/* An entry of a list, from 0. */
struct acl_entry acl_entry_at(const void *acl, size_t i);

/*
 * Is this a list? Entries must be in the order owner, named users, group, named groups, mask,
 * other, and a list with named entries must have a mask.
 * Errors: -EOPNOTSUPP (another version), -EINVAL (anything else).
 */
int acl_check(const void *acl, size_t len);

/*
 * The mode that a list says: returns `mode` with its nine permission bits replaced. The group's
 * bits are the mask where there is one.
 */
uint32_t acl_to_mode(const void *acl, size_t len, uint32_t mode);

/* Has a list of this length nothing that those nine bits do not say? */
bool acl_is_minimal(size_t len);

/* chmod: changes the entries of owner, group (or mask) and others to what a mode says. */
void acl_set_mode(void *acl, size_t len, uint32_t mode);

/*
 * A default list becomes the access list of something new: entries and mode are both reduced to
 * what the two have in common. Returns the new mode; `acl` is changed in place.
 */
uint32_t acl_inherit(void *acl, size_t len, uint32_t mode);

#endif
