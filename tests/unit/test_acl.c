/*
 * Access control lists: what is one, lists and modes, what is inherited, who may do what.
 */
#include "core/acl.h"
#include "core/acl_permission.h"
#include "core/document_acl.h"

#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>

#define MAX_ENTRIES 16

/* A list being written: "u::rwx,u:5:r,g::rx,m::r,o::-" gives its bytes. */
struct list {
    unsigned char bytes[4 + MAX_ENTRIES * 8];
    size_t len;
};

static void put(struct list *l, unsigned int tag, unsigned int perm, uint32_t id)
{
    unsigned char e[8] = {(unsigned char) tag, (unsigned char) (tag >> 8), (unsigned char) perm,
        (unsigned char) (perm >> 8), (unsigned char) id, (unsigned char) (id >> 8),
        (unsigned char) (id >> 16), (unsigned char) (id >> 24)};
    memcpy(l->bytes + l->len, e, sizeof e);
    l->len += sizeof e;
}

static struct list list_of(const char *text)
{
    static const char letters[] = "ugmo";
    static const unsigned int plain[] = {
        ACL_TAG_USER_OBJ, ACL_TAG_GROUP_OBJ, ACL_TAG_MASK, ACL_TAG_OTHER};
    struct list l = {.bytes = {2}, .len = 4};
    while (*text) {
        size_t kind = (size_t) (strchr(letters, *text) - letters);
        char *end;
        unsigned long id = strtoul(text + 2, &end, 10);
        bool named = end != text + 2;
        unsigned int perm = 0;
        for (text = end + 1; *text && *text != ','; text++)
            perm |= *text == 'r' ? 4U : *text == 'w' ? 2U : *text == 'x' ? 1U : 0U;
        text += *text == ',';
        put(&l, named ? plain[kind] << 1 : plain[kind], perm, named ? (uint32_t) id : UINT32_MAX);
    }
    return l;
}

static int check(const char *text)
{
    struct list l = list_of(text);
    return acl_check(l.bytes, l.len);
}

static void test_valid(void)
{
    CHECK_EQ(check("u::rwx,g::rx,o::x"), 0);
    CHECK_EQ(check("u::rwx,g::rx,m::x,o::x"), 0);
    CHECK_EQ(check("u::rwx,u:1:r,u:2:w,g::rx,g:7:r,g:8:r,m::x,o::x"), 0);
    CHECK_EQ(check("u::,u:0:,g::,m::,o::"), 0);
}

static void test_invalid(void)
{
    static const char *const texts[] = {
        "",
        "u::r",
        "u::r,g::r",
        "u::r,o::r",
        "g::r,o::r", /* something is missing */
        "u::r,u:1:r,g::r,o::r",
        "u::r,g::r,g:1:r,o::r", /* no mask */
        "u::r,g::r,o::r,o::r",
        "u::r,u::r,g::r,o::r",
        "u::r,g::r,g::r,o::r",
        "u::r,g::r,m::r,m::r,o::r",
        "u::r,g::r,o::r,m::r", /* twice, wrong order */
        "u::r,g::r,u:1:r,m::r,o::r",
        "g::r,u::r,o::r",
        "u::r,g:1:r,g::r,m::r,o::r",
        "u::r,u:4294967295:r,g::r,m::r,o::r",
        "u::r,g::r,g:4294967295:r,m::r,o::r",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (check(texts[i]) != -EINVAL) {
            CHECK_STR(texts[i], "refused");
        }
}

static void test_invalid_bytes(void)
{
    struct list l = list_of("u::rwx,g::rx,o::x");
    for (size_t len = 0; len < l.len; len++)
        CHECK_EQ(acl_check(l.bytes, len), -EINVAL);
    l.bytes[0] = 1;
    CHECK_EQ(acl_check(l.bytes, l.len), -EOPNOTSUPP);
    l.bytes[0] = 2;
    l.bytes[3] = 1;
    CHECK_EQ(acl_check(l.bytes, l.len), -EOPNOTSUPP);
    l = list_of("u::rwx,g::rx,o::x");
    l.bytes[6] = 8;
    CHECK_EQ(acl_check(l.bytes, l.len), -EINVAL);
    l.bytes[6] = 7;
    l.bytes[7] = 1;
    CHECK_EQ(acl_check(l.bytes, l.len), -EINVAL);
    l.bytes[7] = 0;
    l.bytes[4] = 3; /* two tags at once */
    CHECK_EQ(acl_check(l.bytes, l.len), -EINVAL);
    l.bytes[4] = 0;
    CHECK_EQ(acl_check(l.bytes, l.len), -EINVAL);
    l.bytes[4] = 1;
    l.bytes[5] = 1;
    CHECK_EQ(acl_check(l.bytes, l.len), -EINVAL);
}

static void test_mode(void)
{
    struct list l = list_of("u::rw,g::r,o::");
    CHECK(acl_is_minimal(l.len));
    CHECK_EQ(acl_to_mode(l.bytes, l.len, S_IFREG | 04777), S_IFREG | 04640);
    l = list_of("u::rw,u:5:rwx,g::rwx,m::rx,o::x");
    CHECK(!acl_is_minimal(l.len));
    CHECK_EQ(acl_to_mode(l.bytes, l.len, S_IFDIR | 01000), S_IFDIR | 01651);
    acl_set_mode(l.bytes, l.len, 0724);
    struct list want = list_of("u::rwx,u:5:rwx,g::rwx,m::w,o::r");
    CHECK(memcmp(l.bytes, want.bytes, want.len) == 0);
    l = list_of("u::rw,g::r,o::");
    acl_set_mode(l.bytes, l.len, 0135);
    want = list_of("u::x,g::wx,o::rx");
    CHECK(memcmp(l.bytes, want.bytes, want.len) == 0);
}

static void test_chmod_keeps_what_chmod_cannot_say(void)
{
    struct document doc = {.mode = S_IFREG | 0644};
    struct list l = list_of("u::rw,u:5:rwx,g::rwx,m::rx,o::x");
    CHECK_EQ(document_acl_set(&doc, ACL_ACCESS_XATTR, l.bytes, l.len), 0);
    CHECK_EQ(doc.mode, S_IFREG | 0651);
    document_chmod(&doc, 06700);
    CHECK_EQ(doc.mode, S_IFREG | 06700);
    const struct xattr *x = document_xattr(&doc, ACL_ACCESS_XATTR);
    struct list want = list_of("u::rwx,u:5:rwx,g::rwx,m::,o::");
    CHECK(x && x->value_len == want.len && memcmp(xattr_value(x), want.bytes, want.len) == 0);
    document_xattrs_release(&doc);
    document_chmod(&doc, 0600);
    CHECK_EQ(doc.mode, S_IFREG | 0600);
}

static void test_set(void)
{
    struct document doc = {.mode = S_IFREG | 02644};
    struct list l = list_of("u::rwx,g::rx,o::");
    CHECK_EQ(document_acl_set(&doc, ACL_DEFAULT_XATTR, l.bytes, l.len), -EACCES);
    CHECK_EQ(document_acl_set(&doc, ACL_ACCESS_XATTR, l.bytes, l.len - 1), -EINVAL);
    CHECK_EQ(doc.mode, S_IFREG | 02644);
    CHECK_EQ(document_acl_set(&doc, ACL_ACCESS_XATTR, l.bytes, l.len), 0);
    CHECK_EQ(doc.mode, S_IFREG | 02750);
    CHECK(!doc.xattrs && !(doc.flags & DOCUMENT_ACL));
    struct list more = list_of("u::rwx,g::rx,m::w,o::");
    CHECK_EQ(document_acl_set(&doc, ACL_ACCESS_XATTR, more.bytes, more.len), 0);
    CHECK_EQ(doc.mode, S_IFREG | 02720);
    CHECK(doc.flags & DOCUMENT_ACL && document_xattr(&doc, ACL_ACCESS_XATTR));
    CHECK_EQ(document_acl_set(&doc, ACL_ACCESS_XATTR, l.bytes, l.len), 0);
    CHECK(!doc.xattrs);
    doc.mode = S_IFDIR | 0755;
    CHECK_EQ(document_acl_set(&doc, ACL_DEFAULT_XATTR, l.bytes, l.len), 0);
    CHECK_EQ(doc.mode, S_IFDIR | 0755);
    CHECK(document_xattr(&doc, ACL_DEFAULT_XATTR) != NULL);
    document_xattrs_release(&doc);
}

static void inherited(
    const char *list, uint32_t asked, uint32_t mask, uint32_t mode, const char *access)
{
    struct collection parent = {.doc = {.mode = S_IFDIR | 0777}};
    struct document doc = {.mode = asked};
    if (list) {
        struct list l = list_of(list);
        CHECK_EQ(document_acl_set(&parent.doc, ACL_DEFAULT_XATTR, l.bytes, l.len), 0);
    }
    CHECK_EQ(document_acl_inherit(&doc, &parent, mask), 0);
    CHECK_EQ(doc.mode, mode);
    const struct xattr *x = document_xattr(&doc, ACL_ACCESS_XATTR);
    CHECK_EQ(x != NULL, access != NULL);
    if (x && access) {
        struct list want = list_of(access);
        CHECK(x->value_len == want.len && memcmp(xattr_value(x), want.bytes, want.len) == 0);
    }
    x = document_xattr(&doc, ACL_DEFAULT_XATTR);
    CHECK_EQ(x != NULL, list && S_ISDIR(asked));
    document_xattrs_release(&doc);
    document_xattrs_release(&parent.doc);
}

static void test_inherit(void)
{
    inherited(NULL, S_IFREG | 0666, 022, S_IFREG | 0644, NULL);
    inherited(NULL, S_IFDIR | 02777, 07077, S_IFDIR | 02700, NULL);
    /* The list takes the umask's place. */
    inherited("u::rwx,g::rwx,o::rwx", S_IFREG | 0666, 077, S_IFREG | 0666, NULL);
    inherited("u::rwx,g::rx,o::", S_IFREG | 0666, 0, S_IFREG | 0640, NULL);
    inherited("u::rwx,g::rx,o::", S_IFDIR | 0777, 0, S_IFDIR | 0750, NULL);
    inherited("u::rwx,u:5:rwx,g::rwx,m::rwx,o::rx", S_IFREG | 0640, 0, S_IFREG | 0640,
        "u::rw,u:5:rwx,g::rwx,m::r,o::");
    inherited("u::rx,u:5:rwx,g::rwx,m::rx,o::rwx", S_IFDIR | 01777, 022, S_IFDIR | 01557,
        "u::rx,u:5:rwx,g::rwx,m::rx,o::rwx");
    /* A group's own entry counts only without a mask. */
    inherited("u::rwx,u:5:r,g::,m::rw,o::", S_IFREG | 0666, 022, S_IFREG | 0660,
        "u::rw,u:5:r,g::,m::rw,o::");
}

/* Permissions of a document with this owner, mode and list, for a caller. */
static unsigned int granted(const struct document *doc, const struct caller *caller)
{
    unsigned int rights = 0;
    for (unsigned int want = 1; want <= 4; want *= 2)
        rights |= document_permits(doc, caller, want) ? want : 0;
    /* A set of rights is granted when no right of it is missing, except through several groups. */
    if (!(doc->flags & DOCUMENT_ACL) && !caller->capabilities)
        CHECK(document_permits(doc, caller, rights));
    return rights;
}

static void test_permission_by_mode(void)
{
    struct document doc = {.mode = S_IFREG | 0461, .uid = 10, .gid = 20};
    uint32_t groups[] = {5, 20};
    struct caller owner = {.uid = 10, .gid = 20}, group = {.uid = 11, .gid = 20},
                  member = {.uid = 11, .gid = 1, .groups = groups, .ngroups = 2},
                  other = {.uid = 11, .gid = 1, .groups = groups, .ngroups = 1};
    CHECK_EQ(granted(&doc, &owner), 4);
    CHECK_EQ(granted(&doc, &group), 6);
    CHECK_EQ(granted(&doc, &member), 6);
    CHECK_EQ(granted(&doc, &other), 1);
    CHECK(document_permits(&doc, &other, 0));
    CHECK(!document_permits(&doc, &group, MAY_READ | MAY_EXECUTE));
}

static void test_permission_by_capability(void)
{
    struct document file = {.mode = S_IFREG | 0600, .uid = 10},
                    dir = {.mode = S_IFDIR | 0700, .uid = 10};
    struct caller root = {.capabilities = 1U << CALLER_DAC_OVERRIDE},
                  reader = {.capabilities = 1U << CALLER_DAC_READ_SEARCH};
    CHECK_EQ(granted(&file, &root), 6);
    CHECK_EQ(granted(&dir, &root), 7);
    CHECK_EQ(granted(&file, &reader), 4);
    CHECK_EQ(granted(&dir, &reader), 5);
    file.mode = S_IFREG | 0100;
    CHECK_EQ(granted(&file, &root), 7);
}

static void test_permission_by_list(void)
{
    struct document doc = {.mode = S_IFREG | 0777, .uid = 10, .gid = 20};
    struct list l = list_of("u::,u:11:rwx,u:12:,g::r,g:30:w,m::rw,o::x");
    uint32_t thirty[] = {30};
    CHECK_EQ(document_acl_set(&doc, ACL_ACCESS_XATTR, l.bytes, l.len), 0);
    struct caller callers[] = {{.uid = 10, .gid = 20}, {.uid = 11, .gid = 1},
        {.uid = 12, .gid = 20}, {.uid = 13, .gid = 20}, {.uid = 13, .gid = 30},
        {.uid = 13, .gid = 1}, {.uid = 13, .gid = 20, .groups = thirty, .ngroups = 1}};
    static const unsigned int want[] = {0, 6, 0, 4, 2, 1, 6};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        CHECK_EQ(granted(&doc, &callers[i]), want[i]);
    /* Each of two groups grants one half: neither grants both. */
    CHECK(!document_permits(&doc, &callers[6], MAY_READ | MAY_WRITE));
    /* With an empty mask the list is not looked at. */
    document_chmod(&doc, 0707);
    CHECK_EQ(granted(&doc, &callers[1]), 7);
    CHECK_EQ(granted(&doc, &callers[3]), 0);
    document_xattrs_release(&doc);
}

static void test_removable(void)
{
    struct collection dir = {.doc = {.mode = S_IFDIR | 01777, .uid = 1}};
    struct document doc = {.mode = S_IFREG | 0666, .uid = 10};
    struct caller owner = {.uid = 10}, above = {.uid = 1}, other = {.uid = 11},
                  root = {.uid = 0, .capabilities = UINT64_MAX};
    CHECK(document_removable(&dir, &doc, &owner));
    CHECK(document_removable(&dir, &doc, &above));
    CHECK(document_removable(&dir, &doc, &root));
    CHECK(!document_removable(&dir, &doc, &other));
    dir.doc.mode = S_IFDIR | 0777;
    CHECK(document_removable(&dir, &doc, &other));
    dir.doc.mode = S_IFDIR | 0755;
    CHECK(!document_removable(&dir, &doc, &owner));
    CHECK(document_removable(&dir, &doc, &above));
    CHECK(document_removable(&dir, &doc, &root));
}

int main(void)
{
    RUN(test_valid);
    RUN(test_invalid);
    RUN(test_invalid_bytes);
    RUN(test_mode);
    RUN(test_chmod_keeps_what_chmod_cannot_say);
    RUN(test_set);
    RUN(test_inherit);
    RUN(test_permission_by_mode);
    RUN(test_permission_by_capability);
    RUN(test_permission_by_list);
    RUN(test_removable);
    return unit_report();
}
