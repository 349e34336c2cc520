#include "core/document.h"

#include <stdlib.h>
#include <string.h>

const struct xattr *document_xattr(const struct document *doc, const char *name)
{
    size_t len = strlen(name);
    for (const struct xattr *x = doc->xattrs; x; x = x->next)
        if (x->name_len == len && memcmp(x->bytes, name, len) == 0)
            return x;
    return NULL;
}

struct xattr *xattr_new(const char *name, const void *value, size_t len)
{
    size_t name_len = strlen(name);
    struct xattr *x = malloc(sizeof *x + name_len + 1 + len);
    if (!x)
        return NULL;
    x->next = NULL;
    x->name_len = (uint16_t) name_len;
    x->value_len = (uint32_t) len;
    memcpy(x->bytes, name, name_len + 1);
    if (len)
        memcpy(x->bytes + name_len + 1, value, len);
    return x;
}

void document_xattr_put(struct document *doc, struct xattr *x)
{
    document_xattr_remove(doc, x->bytes);
    if (strncmp(x->bytes, "system.", 7) == 0)
        doc->flags |= DOCUMENT_ACL;
    struct xattr **end = &doc->xattrs;
    while (*end)
        end = &(*end)->next;
    *end = x;
}

bool document_xattr_fits(const struct document *doc, const char *name, size_t value_len)
{
    size_t names = strlen(name) + 1, values = value_len;
    for (const struct xattr *x = doc->xattrs; x; x = x->next) {
        if (strcmp(x->bytes, name) == 0)
            continue;
        names += x->name_len + 1U;
        values += x->value_len;
    }
    return names <= DOCUMENT_XATTR_NAMES_MAX_BYTES && values <= DOCUMENT_XATTR_VALUES_MAX_BYTES;
}

bool document_xattr_remove(struct document *doc, const char *name)
{
    size_t len = strlen(name);
    for (struct xattr **at = &doc->xattrs; *at; at = &(*at)->next) {
        struct xattr *x = *at;
        if (x->name_len == len && memcmp(x->bytes, name, len) == 0) {
            *at = x->next;
            free(x);
            return true;
        }
    }
    return false;
}

void document_xattrs_release(struct document *doc)
{
    while (doc->xattrs) {
        struct xattr *x = doc->xattrs;
        doc->xattrs = x->next;
        free(x);
    }
}
