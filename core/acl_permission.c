#include "core/acl_permission.h"

#include "core/acl.h"

#include <stdlib.h>

void caller_release(struct caller *caller)
{
    free(caller->groups);
    caller->groups = NULL;
    caller->ngroups = 0;
}

bool caller_in_group(const struct caller *caller, uint32_t gid)
{
    if (caller->gid == gid)
        return true;
    for (size_t i = 0; i < caller->ngroups; i++)
        if (caller->groups[i] == gid)
            return true;
    return false;
}

/* What a list's mask leaves of an entry's permissions. */
static bool masked_permits(const struct xattr *acl, struct acl_entry e, unsigned int want)
{
    const char *value = xattr_value(acl);
    unsigned int perm = e.perm;
    for (size_t i = 0; i < acl_count(acl->value_len); i++) {
        struct acl_entry mask = acl_entry_at(value, i);
        if (mask.tag == ACL_TAG_MASK)
            perm &= mask.perm;
    }
    return (perm & want) == want;
}

/* By an access control list, for somebody who is not the owner. */
static bool acl_permits(const struct document *doc, const struct xattr *acl,
    const struct caller *caller, unsigned int want)
{
    const char *value = xattr_value(acl);
    bool in_some_group = false;
    for (size_t i = 0; i < acl_count(acl->value_len); i++) {
        struct acl_entry e = acl_entry_at(value, i);
        switch (e.tag) {
        case ACL_TAG_USER:
            if (e.id == caller->uid)
                return masked_permits(acl, e, want);
            break;
        case ACL_TAG_GROUP_OBJ:
        case ACL_TAG_GROUP:
            if (!caller_in_group(caller, e.tag == ACL_TAG_GROUP ? e.id : doc->gid))
                break;
            /* One group that grants it all is enough; if none does, others' rights do not count. */
            in_some_group = true;
            if ((e.perm & want) == want)
                return masked_permits(acl, e, want);
            break;
        case ACL_TAG_OTHER:
            return !in_some_group && (e.perm & want) == want;
        default:
            break;
        }
    }
    return false;
}

static bool mode_or_acl_permits(
    const struct document *doc, const struct caller *caller, unsigned int want)
{
    if (doc->uid == caller->uid)
        return (doc->mode >> 6 & want) == want;
    /* With an empty group class the kernel does not look at the list at all. */
    if (doc->flags & DOCUMENT_ACL && doc->mode & 070) {
        const struct xattr *acl = document_xattr(doc, ACL_ACCESS_XATTR);
        if (acl)
            return acl_permits(doc, acl, caller, want);
    }
    unsigned int shift = caller_in_group(caller, doc->gid) ? 3 : 0;
    return (doc->mode >> shift & want) == want;
}

bool document_permits(const struct document *doc, const struct caller *caller, unsigned int want)
{
    if (mode_or_acl_permits(doc, caller, want))
        return true;
    bool directory = document_is_collection(doc);
    if (caller_can(caller, CALLER_DAC_OVERRIDE) &&
        (directory || !(want & MAY_EXECUTE) || doc->mode & 0111))
        return true;
    unsigned int search = directory ? MAY_READ | MAY_EXECUTE : MAY_READ;
    return caller_can(caller, CALLER_DAC_READ_SEARCH) && !(want & ~search);
}

bool document_removable(
    const struct collection *parent, const struct document *doc, const struct caller *caller)
{
    const struct document *dir = &parent->doc;
    if (!document_permits(dir, caller, MAY_WRITE | MAY_EXECUTE))
        return false;
    return !(dir->mode & S_ISVTX) || doc->uid == caller->uid || dir->uid == caller->uid ||
           caller_can(caller, CALLER_FOWNER);
}
