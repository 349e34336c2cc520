/*
 * rules.h - rules: what `user.ttl.*` and `user.doc.*` say, on collections and on documents.
 *
 * A rule is kept as the text of its extended attribute (that is what the store and getfattr see)
 * and, parsed, in struct rules (collections) or struct policy (other documents). A rule on a
 * collection holds in the collections below it until one of them sets the same key itself.
 */
#ifndef TTLFS_TTL_RULES_H
#define TTLFS_TTL_RULES_H

#include "core/index.h"
#include "core/reason.h"
#include "ttl/ttl.h"

#include <stdbool.h>
#include <stdint.h>

#define TTL_XATTR_PREFIX "user.ttl."
#define DOC_XATTR_PREFIX "user.doc."
#define INDEX_XATTR_PREFIX "user.ttl.index."

/* Which accesses push the idle deadline. RULE_UNSET: not said here. */
enum ttl_refresh { REFRESH_UNSET, REFRESH_ACCESS, REFRESH_WRITE, REFRESH_EXTEND };

/* yes, no, or not said here. */
enum ttl_switch { SWITCH_UNSET, SWITCH_NO, SWITCH_YES };

/* The rules of one document. Durations in milliseconds; 0: not said, RULE_OFF: none here. */
struct policy {
    int64_t expire_at_ms; /* DATE_NEVER_MS: none */
    int64_t seconds_ms;   /* user.ttl.seconds; RULE_OFF: never */
    int64_t idle_ms, max_ms;
    enum ttl_refresh refresh;
    enum ttl_switch hold;
    char *error; /* why the last refused rule was refused; NULL for none */
};

#define RULE_OFF INT64_C(-1)

/* An index set on a collection; `index` is NULL where the value is `off`. */
struct rule_index {
    struct rule_index *next;
    char *name;
    struct index *index;
};

/* A duration set on a collection: an index on last access or on creation. */
struct rule_span {
    bool set;            /* else inherited */
    struct index *index; /* NULL where the value is `off` */
};

/* The rules set on one collection. */
struct rules {
    struct rule_index *indexes;
    struct rule_span idle, max;
    enum ttl_refresh refresh;
    enum ttl_switch until_deleted, hold;
    enum ttl_switch archive, prune;
    bool jitter_set;
    int64_t jitter_ms;
    struct index *capped; /* INDEX_CAPPED; NULL for none. Neither of these two is inherited */
    struct timeseries *timeseries; /* NULL for none */
    char *error;
};

/* The rules in force in a collection; shared by all collections for which they are the same. */
struct ruleset {
    unsigned int holders;
    uint64_t generation;
    enum ttl_refresh refresh; /* never unset */
    bool until_deleted;       /* visibility */
    bool hold;
    bool archive;                  /* on-expire: documents are archived before they are deleted */
    bool prune;                    /* collections that expiry has emptied are removed */
    bool needs_fields;             /* some index or filter reads fields of the content */
    bool files_by_fields;          /* and decides by them alone which deadline a document has */
    bool tracks_accesses;          /* every single read matters */
    int64_t jitter_ms;             /* for idle deadlines */
    struct index *idle, *max;      /* NULL for none */
    struct index *capped;          /* what kind of collection it is: these are its own, and no */
    struct timeseries *timeseries; /* collection below shares a ruleset that has one of them */
    unsigned int nindexes;
    struct index *indexes[]; /* all, idle and max included */
};

/* The rules in force in a collection; valid until the lock is let go. NULL: no memory. */
struct ruleset *ruleset_of(struct ttl *ttl, struct collection *c);

/* The same, held until ruleset_put: for comparing what was in force with what is. NULL: no memory. */
struct ruleset *ruleset_get(struct ttl *ttl, struct collection *c);
/* NULL is allowed. */
void ruleset_put(struct ruleset *rs);

/* Are the same rules in force in both: do names belong into the same indexes under the same dates? */
bool ruleset_same(const struct ruleset *a, const struct ruleset *b);

/* Lets go of a collection's cached ruleset. */
void ruleset_drop(struct collection *c);

/* Takes over a loaded document's `user.ttl.*` attributes. Errors: -ENOMEM, -EINVAL. */
int rules_load(struct ttl *ttl, struct document *doc);

/* Frees a document's policy or a collection's rules with their indexes. */
void rules_free(struct ttl *ttl, struct document *doc);

/* Is this an attribute that set, get and remove below are for? */
bool rules_own(const char *name);

/*
 * setxattr of a `user.ttl.*` or `user.doc.*` attribute. Lets go.
 * @flags        0, XATTR_CREATE or XATTR_REPLACE
 * @now_ms       for relative values and for moving deadlines
 * @ret_forward  set to true when a deadline may have come forward (or vanished from the cache's
 *               point of view): the kernel must be told before the caller is answered
 * Errors: -EINVAL with the reason, -EEXIST, -ENODATA, -ECANCELED, -EPERM (read-only attributes),
 * -EOPNOTSUPP, -ENOMEM.
 */
int rules_set(struct ttl *ttl, struct document *doc, const char *name, const char *value,
    size_t len, int flags, int64_t now_ms, bool *ret_forward, struct reason *why);

/*
 * removexattr of the same. Lets go.
 * Errors: -ENODATA, -EPERM, -ENOMEM.
 */
int rules_remove(
    struct ttl *ttl, struct document *doc, const char *name, int64_t now_ms, bool *ret_forward);

/*
 * getxattr of the same: the rule in force, or a virtual figure.
 * @ret_text  malloc'd and terminated, the caller frees it
 * Errors: -ENODATA, -ENOMEM.
 */
int rules_get(struct ttl *ttl, struct document *doc, const char *name, int64_t now_ms,
    char **ret_text, size_t *ret_len);

/*
 * May this attribute of a document be removed? A kind of collection may not, while documents rely on
 * it. Errors: -EINVAL with the reason.
 */
int rules_may_end(const struct document *doc, const char *name, struct reason *why);

/* Puts words into `user.ttl.error`. Best effort. */
void rules_note_error(struct document *doc, const struct reason *why);

/*
 * A document is about to replace another by rename: it gets the earlier creation date of both, and
 * the target's rules where it has none itself.
 * Errors: -ENOMEM; nothing has changed then.
 */
int rules_inherit_from_target(
    struct ttl *ttl, struct document *source, const struct document *target);

#endif
