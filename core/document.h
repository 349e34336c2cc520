/*
 * document.h - documents, their names, and the collections that hold them.
 *
 * A document is what VFS calls an inode: a file, symlink, FIFO, socket or device. A collection is a
 * directory; it begins with a document. A dentry is one name of a document in one collection:
 * deadlines belong to dentries, because two names of one document may lie under different rules.
 *
 * Everything here is memory only, compact on purpose (a million documents must cost little), and
 * covered by the tree's lock (core/tree.h).
 */
#ifndef TTLFS_CORE_DOCUMENT_H
#define TTLFS_CORE_DOCUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define DOCUMENT_NAME_MAX_BYTES 255

/* "Never" as a deadline, "no date" as an armed key. */
#define DATE_NEVER_MS INT64_MAX

struct collection;
struct content;
struct index;
struct policy;
struct rules;
struct ruleset;
struct xattr;

/* A node of a collection's name table: a dentry, or the mark at the start of a hash bucket. */
struct name_node {
    struct name_node *next;
    uint64_t order; /* odd for dentries, even for marks; see core/names.h */
};

/*
 * A dentry's place in one index. For an index on a content field `key` is the field's date. For an
 * index on something that accesses move (`_ts`, `_accessed`, idle times) it is the date under which
 * the entry was last filed, never later than the true one; the monitor files it anew when it meets
 * it.
 */
struct index_slot {
    struct index *index;
    int64_t key; /* milliseconds */
};

/* The slots of a dentry that is in several indexes. */
struct index_slots {
    uint64_t parked; /* bit i: slot i is a member of its index but not filed in its tree */
    struct index_slot at[];
};

struct dentry {
    struct name_node node; /* first: the name table casts */
    struct collection *parent;
    struct document *doc;
    struct dentry *link_next, **link_at; /* the document's other names: a file may have millions */
    union {
        struct index_slot one;    /* nslots <= 1 */
        struct index_slots *many; /* nslots > 1: malloc'd, with exactly nslots */
    } slots;
    uint8_t nslots;
    uint8_t one_parked; /* nslots == 1: what index_slots.parked says otherwise */
    uint8_t name_len;
    char name[]; /* name_len bytes and a NUL */
};

/* document.flags */
enum {
    DOCUMENT_STORED = 1 << 0,         /* the store has, or is being given, its record */
    DOCUMENT_CONTENT_STORED = 1 << 1, /* and its small content */
    DOCUMENT_CONTENT_DIRTY = 1 << 2,  /* the small content differs from the store's */
    DOCUMENT_BLOB_DIRTY = 1 << 3,     /* the blob has bytes that were not synced */
    DOCUMENT_ENCODED = 1 << 4,        /* its record is in the batch being committed */
    DOCUMENT_FIELDS_STALE = 1 << 5,   /* content changed since its fields were looked at */
    DOCUMENT_EXTENDED = 1 << 6,       /* accessed after creation: what refresh=extend asks */
    DOCUMENT_KERNEL_CACHED = 1 << 7,  /* the kernel was told a time-out for one of its names */
    DOCUMENT_LINKS_STORED = 1 << 8,   /* its names are in STORE_LINKS, not in its record */
    DOCUMENT_REMOVED = 1 << 10,       /* has lost its last name, and gets no other */
    DOCUMENT_COLD = 1 << 9,           /* the small content is in the store only */
    DOCUMENT_TAIL_HOLE = 1 << 17,     /* the last page of the small content is a hole */
    DOCUMENT_UNSEEN = 1 << 19,        /* its fields were not looked at, since it was over */
    DOCUMENT_UNCOUNTED = 1 << 18,     /* removed, open nowhere: no limit counts it any more */
    DOCUMENT_ACL = 1 << 16,           /* there may be an access control list among its xattrs */
    DOCUMENT_CAPPED = 1 << 24,        /* has, or had, a name in a capped collection */
    DOCUMENT_REFUSED = 1 << 25,       /* closed without the field that its collection asks for */
    DOCUMENT_TIMELESS = 1 << 26,      /* that field was missing when its fields were looked at */
};

struct document {
    uint64_t ino;
    uint64_t nlookup; /* references that the kernel holds */
    uint64_t size;    /* bytes */
    int64_t created_ms, ts_ms, accessed_ms;
    int64_t atime_s, mtime_s, ctime_s;
    uint32_t atime_ns, mtime_ns, ctime_ns;
    uint32_t mode, uid, gid, nlink; /* a collection's nlink is 2 and one per sub-collection */
    uint32_t nopen;    /* open descriptors and other pins: keeps content and structure alive */
    int32_t own_ttl_s; /* the content's `ttl`; 0 for none */
    uint32_t dirty;    /* the journal's mark, 0 when clean */
    uint32_t flags;
    uint32_t data_cap;    /* regular files: bytes allocated at `data` */
    struct dentry *links; /* its names; NULL when unlinked, and for the root */
    unsigned char *data;  /* regular files: small content; symlinks: the target */
    union {
        struct content *content; /* regular files: large content, NULL while small */
        uint64_t rdev;           /* devices */
    };
    struct xattr *xattrs;  /* NULL for most */
    struct policy *policy; /* own rules, parsed; owned by ttl/; NULL for most */
};

/* A collection's names: see core/names.h. */
struct name_table {
    struct name_node head; /* the mark of bucket 0 */
    struct name_node *
        *segments;  /* segment k: marks of buckets 2^(k-1) … 2^k - 1; NULL while small */
    uint64_t count; /* dentries */
    uint32_t bits;  /* log2 of the number of buckets */
};

struct collection {
    struct document doc; /* first: collections are documents */
    struct name_table names;
    struct collection *all_next, **all_at; /* the tree's list of collections */
    struct rules *rules;         /* set on this directory, parsed; owned by ttl/; NULL for most */
    struct ruleset *ruleset;     /* in force here, cached; owned by ttl/ */
    struct index *own_deadlines; /* per-document deadlines of its documents; owned by ttl/ */
};

static inline bool document_is_collection(const struct document *doc)
{
    return S_ISDIR(doc->mode);
}

/* The collection that a directory's document is. */
static inline struct collection *document_collection(struct document *doc)
{
    return (struct collection *) doc;
}

/* The slots of a dentry, as an array of d->nslots. */
static inline struct index_slot *dentry_slots(struct dentry *d)
{
    return d->nslots > 1 ? d->slots.many->at : &d->slots.one;
}

/* What VFS calls the three times; `document_set_*time` sets seconds and nanoseconds. */
static inline void document_set_mtime(struct document *doc, struct timespec t)
{
    doc->mtime_s = t.tv_sec;
    doc->mtime_ns = (uint32_t) t.tv_nsec;
}

static inline void document_set_ctime(struct document *doc, struct timespec t)
{
    doc->ctime_s = t.tv_sec;
    doc->ctime_ns = (uint32_t) t.tv_nsec;
}

static inline void document_set_atime(struct document *doc, struct timespec t)
{
    doc->atime_s = t.tv_sec;
    doc->atime_ns = (uint32_t) t.tv_nsec;
}

/* An extended attribute: a list, because few documents have any and those have few. */
struct xattr {
    struct xattr *next;
    uint32_t value_len;
    uint16_t name_len;
    char bytes[]; /* name, NUL, value */
};

static inline const char *xattr_value(const struct xattr *x)
{
    return x->bytes + x->name_len + 1;
}

/*
 * Attributes with this prefix are the filesystem's own notes on a document: kept in its record like
 * any other, shown to nobody and set by nobody else.
 */
#define DOCUMENT_NOTE_PREFIX "ttlfs."

/* The attribute with this name, or NULL. */
const struct xattr *document_xattr(const struct document *doc, const char *name);

/*
 * Makes an attribute, to be linked by document_xattr_put. Copies name and value. NULL: no memory.
 */
struct xattr *xattr_new(const char *name, const void *value, size_t len);

/*
 * Links a new attribute, freeing one of the same name. Takes `x` over. Cannot fail. Sets DOCUMENT_ACL
 * for what begins with "system.": there are no other such attributes.
 */
void document_xattr_put(struct document *doc, struct xattr *x);

/*
 * The names of a document's attributes together, as they are listed, and the values together: listxattr(2)
 * can list no more, and a document must remain one record of the store.
 */
#define DOCUMENT_XATTR_NAMES_MAX_BYTES (64 * 1024)
#define DOCUMENT_XATTR_VALUES_MAX_BYTES (16 * 1024 * 1024)

/* Is there room for this attribute, in place of one of the same name or as a new one? */
bool document_xattr_fits(const struct document *doc, const char *name, size_t value_len);

/* Removes an attribute. Returns false when there was none. */
bool document_xattr_remove(struct document *doc, const char *name);

/* Frees all attributes. */
void document_xattrs_release(struct document *doc);

#endif
