/*
 * tree.h - the tree of collections: names, documents, and the one lock.
 *
 * Every name and attribute is in memory; contents are in memory or in the store. A change is made
 * here, under the lock, and noted in the journal (core/journal.h), which makes it durable later.
 *
 * The lock. tree.lock covers the namespace, all documents, all indexes and rules. Critical sections
 * are meant to stay below a microsecond; whoever has more to do works in slices and lets waiting
 * threads in between (tree_lock_background). No store call, content access, parsing or
 * kernel notification happens under it.
 *
 * Functions here expect the lock to be held unless they say otherwise, take the time as an
 * argument, and change nothing when they fail.
 */
#ifndef TTLFS_CORE_TREE_H
#define TTLFS_CORE_TREE_H

#include "core/btree.h"
#include "core/content.h"
#include "core/document.h"
#include "core/journal.h"
#include "core/names.h"
#include "core/reason.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* Number of the root; never given to another document. */
#define TREE_ROOT_INO 1

/*
 * Number of the limbo: a collection without a name, where expired names wait that had to make room
 * before their document could be archived (ttl/limbo.h). Nothing reaches it by a path, it has no
 * record of its own, and it is not in the list of collections.
 */
#define TREE_LIMBO_INO 0

/* What the rules above the tree want to know of it. Called with the lock held. */
struct tree_observer {
    void *arg;
    /* A document has got a name: a new one, or one that moved. */
    void (*linked)(void *arg, struct dentry *d);
    /* The root was loaded: it has no name to be told of. Before all names. */
    void (*root_loaded)(void *arg, struct document *root);
    /* A document is about to be freed: let go of doc->policy, and of a collection's rules. */
    void (*freed)(void *arg, struct document *doc);
};

struct tree {
    pthread_mutex_t lock;
    atomic_uint waiters; /* threads that wait for the lock in the foreground */
    struct collection *root, *limbo;
    uint64_t hash_seed;
    uint64_t next_ino;
    uint64_t next_blob;
    uint64_t ndocuments;            /* of all kinds, unlinked ones included while they are open */
    uint64_t ncollections;          /* of them; the root included */
    struct collection *collections; /* all, newest first */
    uint64_t max_documents;         /* 0: no limit */
    struct content_budget budget;
    struct content_budget uncounted; /* without a limit: of documents that are DOCUMENT_UNCOUNTED */
    struct store *store;             /* NULL for memory: */
    struct journal journal;
    struct tree_observer observer;
    uint64_t *loaded_blobs; /* sorted; only while loading */
    size_t nloaded_blobs;
    struct btree orphans;     /* documents without a name that something still holds, by number */
    struct content **garbage; /* contents to be put once the lock is let go */
    size_t ngarbage, cap_garbage;
};

/* What a new document starts with. */
struct document_seed {
    uint32_t mode, uid, gid;
    uint64_t rdev;
    const char *target; /* symlinks: borrowed, terminated */
    struct timespec now;
};

/*
 * Makes a tree with an empty root collection.
 * @store  borrowed; NULL for memory:
 * Errors: NULL when there is no memory. Needs no lock.
 */
struct tree *tree_new(struct store *store, const struct tree_observer *observer);

/* Frees everything. Nobody may use the tree any more. */
void tree_free(struct tree *tree);

/*
 * Loads what the store holds; the tree must be new. The observer hears of every name, parents
 * before children, when all of them are there.
 * Errors: -EPROTO (a record that makes no sense, with words), -ENOMEM, -EIO.
 */
int tree_load(struct tree *tree, struct reason *why);

void tree_lock(struct tree *tree);
void tree_unlock(struct tree *tree);
/* Like tree_lock, for work in slices: lets everybody who waits go first. */
void tree_lock_background(struct tree *tree);

static inline int64_t timespec_ms(struct timespec t)
{
    return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The dentry with this name, or NULL. */
struct dentry *tree_find(
    struct tree *tree, struct collection *parent, const char *name, size_t len);

/*
 * Makes a document without a name; pinned (nopen is 1), so that it stays until document_unpin.
 * Errors: -ENOSPC (nr_inodes), -ENOMEM.
 */
int tree_make(struct tree *tree, const struct document_seed *seed, struct document **ret_doc);

/*
 * Gives a document a name. A collection takes one name only.
 * Errors: -ENOENT (the parent was removed, or the document has lost its last name), -EEXIST is the caller's to check, -EMLINK, -ENOMEM,
 * -ENOSPC, -ENAMETOOLONG.
 */
int tree_link(struct tree *tree, struct document *doc, struct collection *parent, const char *name,
    size_t len, struct timespec now, struct dentry **ret_dentry);

/* Puts a collection that is being loaded into the list of all. */
void tree_enlist(struct tree *tree, struct collection *c);

/*
 * tree_link for what is being loaded: no times, no journal, no observer.
 * Errors: -ENOMEM, -ENOSPC.
 */
int tree_attach_loaded(struct tree *tree, struct document *doc, struct collection *parent,
    const char *name, size_t len);

/*
 * Takes a name away; the dentry is freed, and the document with its last name when nothing holds
 * it. A collection must be empty.
 * Errors: -ENOMEM (the journal could not note it).
 */
int tree_unlink(struct tree *tree, struct dentry *d, struct timespec now);

/*
 * Moves a name; what had the new name must be gone. The dentry is replaced by a new one.
 * Errors: as tree_link.
 */
int tree_move(struct tree *tree, struct dentry *d, struct collection *parent, const char *name,
    size_t len, struct timespec now, struct dentry **ret_dentry);

/* Exchanges the documents of two names. Errors: -ENOMEM. */
int tree_exchange(struct tree *tree, struct dentry *a, struct dentry *b, struct timespec now);

/* Puts a name behind all others of its document. Takes as long as there are names. */
void tree_name_last(struct dentry *d);

/* Is `below` the collection itself or somewhere below it? */
bool tree_is_below(const struct collection *below, const struct collection *above);

/* The collection above; NULL for the root and for removed collections. */
static inline struct collection *collection_parent(const struct collection *c)
{
    return c->doc.links ? c->doc.links->parent : NULL;
}

/* Does this name wait in the limbo? */
static inline bool dentry_in_limbo(const struct dentry *d)
{
    return d->parent->doc.ino == TREE_LIMBO_INO;
}

/* Who pays for the pages of a document. */
static inline struct content_budget *document_budget(struct tree *tree, const struct document *doc)
{
    return doc->flags & DOCUMENT_UNCOUNTED ? &tree->uncounted : &tree->budget;
}

/*
 * A document that was removed and that nobody has open takes no room any more, though the kernel
 * may hold it for a while. Does nothing to any other.
 */
void document_uncount(struct tree *tree, struct document *doc);

/* Keeps a document in memory, whatever happens to its names. */
static inline void document_pin(struct document *doc)
{
    doc->nopen++;
}

/* Ends a pin; frees the document when that was the last thing that held it. */
void document_unpin(struct tree *tree, struct document *doc);

/* The kernel forgets `n` of its references; as document_unpin. */
void document_forget(struct tree *tree, struct document *doc, uint64_t n);

/*
 * Drops a small content that the store has: reading it again is document_load's business. Does
 * nothing when it is not durable yet. The document must not be open.
 */
void document_evict(struct tree *tree, struct document *doc);

/*
 * So many bytes of a small content take room: all, or all but a last page that has never been
 * written to.
 */
uint64_t document_dense_bytes(const struct document *doc);

/* Pages that a regular file's content takes. Not for large contents of documents being written. */
int64_t document_pages(const struct document *doc);

/*
 * Does any document that was loaded keep its content in this blob? Good only between tree_load and
 * the first change.
 */
bool tree_has_blob(const struct tree *tree, uint64_t blob);

/* Hands a content over to be put by tree_unlock. */
void tree_discard_content(struct tree *tree, struct content *content);

#endif
