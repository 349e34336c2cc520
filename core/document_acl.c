#include "core/document_acl.h"

#include "core/acl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int set_access(struct document *doc, const void *value, size_t len)
{
    uint32_t mode = acl_to_mode(value, len, doc->mode);
    if (acl_is_minimal(len)) {
        (void) document_xattr_remove(doc, ACL_ACCESS_XATTR);
    } else {
        struct xattr *x = xattr_new(ACL_ACCESS_XATTR, value, len);
        if (!x)
            return -ENOMEM;
        document_xattr_put(doc, x);
    }
    doc->mode = mode;
    return 0;
}

int document_acl_set(struct document *doc, const char *name, const void *value, size_t len)
{
    bool access = strcmp(name, ACL_ACCESS_XATTR) == 0;
    if (!access && !document_is_collection(doc))
        return -EACCES;
    int err = acl_check(value, len);
    if (err)
        return err;
    if (access)
        return set_access(doc, value, len);
    struct xattr *x = xattr_new(name, value, len);
    if (!x)
        return -ENOMEM;
    document_xattr_put(doc, x);
    return 0;
}

/* The value of a list that is about to be changed in place. */
static char *list_of(struct document *doc, const char *name, size_t *ret_len)
{
    for (struct xattr *x = doc->xattrs; x; x = x->next)
        if (strcmp(x->bytes, name) == 0) {
            *ret_len = x->value_len;
            return x->bytes + x->name_len + 1;
        }
    return NULL;
}

void document_chmod(struct document *doc, uint32_t mode)
{
    size_t len;
    char *acl = doc->flags & DOCUMENT_ACL ? list_of(doc, ACL_ACCESS_XATTR, &len) : NULL;
    doc->mode = (doc->mode & S_IFMT) | (mode & 07777);
    if (acl)
        acl_set_mode(acl, len, mode);
}

int document_acl_inherit(struct document *doc, const struct collection *parent, uint32_t mask)
{
    const struct xattr *inherited =
        parent->doc.flags & DOCUMENT_ACL ? document_xattr(&parent->doc, ACL_DEFAULT_XATTR) : NULL;
    if (!inherited) {
        doc->mode &= ~(mask & 0777);
        return 0;
    }
    const char *value = xattr_value(inherited);
    size_t len = inherited->value_len;
    struct xattr *access = xattr_new(ACL_ACCESS_XATTR, value, len);
    if (!access)
        return -ENOMEM;
    if (document_is_collection(doc)) {
        struct xattr *copy = xattr_new(ACL_DEFAULT_XATTR, value, len);
        if (!copy) {
            free(access);
            return -ENOMEM;
        }
        document_xattr_put(doc, copy);
    }
    doc->mode = acl_inherit(access->bytes + access->name_len + 1, len, doc->mode);
    if (acl_is_minimal(len))
        free(access);
    else
        document_xattr_put(doc, access);
    return 0;
}
