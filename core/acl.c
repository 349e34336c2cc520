#include "core/acl.h"

#include <errno.h>
#include <string.h>

#define ACL_VERSION 2
#define HEADER_BYTES 4
#define ENTRY_BYTES 8

bool acl_is_name(const char *name)
{
    return strcmp(name, ACL_ACCESS_XATTR) == 0 || strcmp(name, ACL_DEFAULT_XATTR) == 0;
}

static uint32_t little_endian(const unsigned char *at, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint32_t) at[i] << (8 * i);
    return value;
}

size_t acl_count(size_t len)
{
    return len < HEADER_BYTES ? 0 : (len - HEADER_BYTES) / ENTRY_BYTES;
}

struct acl_entry acl_entry_at(const void *acl, size_t i)
{
    const unsigned char *at = (const unsigned char *) acl + HEADER_BYTES + i * ENTRY_BYTES;
    return (struct acl_entry){.tag = (uint16_t) little_endian(at, 2),
        .perm = (uint16_t) little_endian(at + 2, 2),
        .id = little_endian(at + 4, 4)};
}

static void set_perm(void *acl, size_t i, uint32_t perm)
{
    unsigned char *at = (unsigned char *) acl + HEADER_BYTES + i * ENTRY_BYTES;
    at[2] = (unsigned char) perm;
    at[3] = 0;
}

/* What may stand behind what has come so far; 0 behind the last entry. */
struct order {
    unsigned int allowed;
    bool named;
};

static int check_entry(struct order *order, struct acl_entry e)
{
    if (e.perm & ~7U || !(order->allowed & e.tag))
        return -EINVAL;
    switch (e.tag) {
    case ACL_TAG_USER_OBJ:
        order->allowed = ACL_TAG_USER | ACL_TAG_GROUP_OBJ;
        return 0;
    case ACL_TAG_USER:
        order->named = true;
        return e.id == UINT32_MAX ? -EINVAL : 0;
    case ACL_TAG_GROUP_OBJ:
        order->allowed = ACL_TAG_GROUP | ACL_TAG_MASK | (order->named ? 0U : ACL_TAG_OTHER);
        return 0;
    case ACL_TAG_GROUP:
        order->named = true;
        order->allowed = ACL_TAG_GROUP | ACL_TAG_MASK;
        return e.id == UINT32_MAX ? -EINVAL : 0;
    case ACL_TAG_MASK:
        order->allowed = ACL_TAG_OTHER;
        return 0;
    case ACL_TAG_OTHER:
        order->allowed = 0;
        return 0;
    default: /* several bits at once */
        return -EINVAL;
    }
}

int acl_check(const void *acl, size_t len)
{
    struct order order = {.allowed = ACL_TAG_USER_OBJ};
    if (len < HEADER_BYTES || (len - HEADER_BYTES) % ENTRY_BYTES)
        return -EINVAL;
    if (little_endian(acl, 4) != ACL_VERSION)
        return -EOPNOTSUPP;
    for (size_t i = 0; i < acl_count(len); i++) {
        int err = check_entry(&order, acl_entry_at(acl, i));
        if (err)
            return err;
    }
    return order.allowed ? -EINVAL : 0;
}

/* The entry that the group bits of a mode stand for: the mask, or the group's own. */
static size_t group_class(const void *acl, size_t len)
{
    size_t found = 0;
    for (size_t i = 0; i < acl_count(len); i++) {
        unsigned int tag = acl_entry_at(acl, i).tag;
        if (tag == ACL_TAG_MASK)
            return i;
        if (tag == ACL_TAG_GROUP_OBJ)
            found = i;
    }
    return found;
}

uint32_t acl_to_mode(const void *acl, size_t len, uint32_t mode)
{
    uint32_t owner = acl_entry_at(acl, 0).perm;
    uint32_t group = acl_entry_at(acl, group_class(acl, len)).perm;
    uint32_t other = acl_entry_at(acl, acl_count(len) - 1).perm;
    return (mode & ~0777U) | owner << 6 | group << 3 | other;
}

bool acl_is_minimal(size_t len)
{
    /* Owner, group and other are always there; a fourth one is what the mode cannot say. */
    return acl_count(len) == 3;
}

void acl_set_mode(void *acl, size_t len, uint32_t mode)
{
    set_perm(acl, 0, mode >> 6 & 7);
    set_perm(acl, group_class(acl, len), mode >> 3 & 7);
    set_perm(acl, acl_count(len) - 1, mode & 7);
}

uint32_t acl_inherit(void *acl, size_t len, uint32_t mode)
{
    uint32_t reduced = mode & acl_to_mode(acl, len, mode);
    acl_set_mode(acl, len, reduced);
    return reduced;
}
