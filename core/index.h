/*
 * index.h - an index: its specification and its entries.
 *
 * The entries of an index are dentries filed by date, not by deadline: changing expireAfterSeconds
 * moves a threshold and touches no entry. Who belongs into which index, and when an entry is due,
 * is decided in ttl/; here is only the filing.
 *
 * A member that cannot become due is parked: it has no date there, and its key says what it has
 * instead (core/value_key.h), or it has one and something holds it. Parked members are for queries;
 * the monitor never sees them. What is missing has the key INDEX_KEY_MISSING and is in no tree at
 * all.
 *
 * The tree's lock covers every call.
 */
#ifndef TTLFS_CORE_INDEX_H
#define TTLFS_CORE_INDEX_H

#include "core/btree.h"
#include "core/document.h"
#include "core/index_spec.h"
#include "core/value_key.h"

/* At most this many indexes may be in force in one collection: MongoDB's limit too. */
#define INDEX_MAX_PER_COLLECTION 64

/* Where the date of an entry comes from. */
enum index_kind {
    INDEX_FIELD,    /* a field of the document */
    INDEX_TS,       /* `_ts` */
    INDEX_CREATED,  /* `_created` */
    INDEX_ACCESSED, /* `_accessed` */
    INDEX_IDLE,     /* the collection's `user.ttl.idle` */
    INDEX_MAX,      /* the collection's `user.ttl.max` */
    INDEX_OWN,      /* deadlines that documents carry themselves */
    /* Kinds of collections: no dates of the documents' own. */
    INDEX_CAPPED,     /* the order in which names came into a capped collection */
    INDEX_BUCKETS,    /* members of a time-series collection: see ttl/timeseries.h */
    INDEX_TIMESERIES, /* a time-series collection's expireAfterSeconds, by bucket */
};

/* What a capped collection may hold, and holds; see ttl/capped.h. */
struct index_cap {
    uint64_t max_documents, max_bytes; /* 0: no limit */
    uint64_t bytes;                    /* sum of the sizes of its names */
};

struct index {
    char *name; /* NAME of user.ttl.index.NAME; "idle", "max" or "own" for the built-in ones */
    enum index_kind kind;
    struct index_spec spec;
    int64_t expire_after_ms; /* from the spec, or the idle or maximum time */
    bool ttl;                /* entries expire */
    bool dropped;            /* no longer in force anywhere; waits for its slots to be cleared */
    struct collection *owner;
    char *path;                 /* the field that keys are taken of: the first of spec.key */
    struct btree entries;       /* what may become due, by date */
    struct btree parked;        /* all other members but those whose key is INDEX_KEY_MISSING */
    uint64_t members;           /* dentries that have a slot for it, wherever they are filed */
    bool many_dated;            /* some member had several values, a date among them */
    bool many;                  /* some member had several values */
    bool incomplete;            /* a name could not be filed for want of memory: not for queries */
    struct index *grave_next;   /* dropped indexes wait in a list until nobody refers to them */
    int64_t scheduled_ms;       /* where the schedule has it; DATE_NEVER_MS when it is not there */
    struct btree_entry visited; /* how far the running pass has come; failures stay behind it */
    uint64_t visit_number;      /* of the latest visit: who waited longest comes first */
    uint64_t pass;              /* the pass that `visited` belongs to */
    bool failing;               /* scheduled for a retry, not for what is due */
    struct index_cap cap;       /* INDEX_CAPPED */
    /* Told when a name's membership has ended, whatever the reason. NULL for most. */
    void (*left)(struct index *index, struct dentry *d, int64_t key);
    void *arg; /* for whoever set `left` */
};

/*
 * Makes an index. The spec is taken over (moved from; also on failure).
 * @name  copied
 * Errors: NULL when there is no memory.
 */
struct index *index_new(
    const char *name, size_t name_len, enum index_kind kind, struct index_spec *spec);

/* Frees an index; its entries' dentries are not touched. NULL is allowed. */
void index_free(struct index *index);

/* The kind that a key path asks for. */
enum index_kind index_kind_of_key(const char *key);

/* The slot of an index in a dentry; NULL when the dentry is no member. @ret_at may be NULL. */
struct index_slot *index_slot(struct dentry *d, const struct index *index, unsigned int *ret_at);

/* How many members have a date: of a document, at the index's field. */
uint64_t index_entries(const struct index *index);

/* Is slot `at` of a dentry a member of its index that is not filed in its tree? */
bool index_is_parked(const struct dentry *d, unsigned int at);

/*
 * Makes a dentry a member of an index, filed under `key`; a member is filed anew.
 * @parked  true: nothing can make it due as things stand; always so for what is no date
 * Errors: -ENOMEM, -ENOSPC (too many indexes); the dentry is then as it was.
 */
int index_file(struct index *index, struct dentry *d, int64_t key, bool parked);

/* Ends a membership; none is no error. */
void index_unfile(struct index *index, struct dentry *d);

/* Ends all memberships of a dentry. */
void index_unfile_all(struct dentry *d);

/* A document that is DOCUMENT_CAPPED is about to have another size: its collections' sums follow. */
void index_resizing(struct document *doc, uint64_t size);

#endif
