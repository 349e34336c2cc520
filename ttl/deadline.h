/*
 * deadline.h - when a document is expired: the one predicate, and its reasons.
 *
 * Lookup, readdir, the monitor, dry runs and queries all ask here. Nothing is cached: a deadline is
 * computed from the rules in force and the document's dates at every call, in well under a
 * microsecond.
 */
#ifndef TTLFS_TTL_DEADLINE_H
#define TTLFS_TTL_DEADLINE_H

#include "core/document.h"
#include "ttl/rules.h"
#include "ttl/ttl.h"

enum ttl_reason {
    TTL_REASON_NONE,
    TTL_REASON_INDEX,
    TTL_REASON_TTL,
    TTL_REASON_SECONDS,
    TTL_REASON_EXPIRE_AT,
    TTL_REASON_IDLE,
    TTL_REASON_MAX,
    TTL_REASON_TIMESERIES,
    TTL_REASON_HOLD,
};

struct ttl_deadline {
    int64_t at_ms; /* DATE_NEVER_MS: never */
    enum ttl_reason reason;
    const struct index *index; /* TTL_REASON_INDEX: which; valid under the lock */
};

/* The instant from which a name is expired, and what sets it. Collections never expire. */
struct ttl_deadline ttl_deadline(struct ttl *ttl, struct dentry *d);

/* Is it expired: deadline <= now. */
bool ttl_expired(struct ttl *ttl, struct dentry *d, int64_t now_ms);

/* Is it expired and not to be seen any more (visibility hidden). */
bool ttl_hidden(struct ttl *ttl, struct dentry *d, int64_t now_ms);

/*
 * Has the document no name left that is to be seen? False for collections, and for documents that
 * are unlinked but open.
 */
bool ttl_document_hidden(struct ttl *ttl, struct document *doc, int64_t now_ms);

/* The earliest deadline among a document's names. */
struct ttl_deadline ttl_document_deadline(struct ttl *ttl, struct document *doc);

/* `index NAME`, `ttl`, … as user.ttl.reason shows it. @ret_text has TTL_REASON_BYTES. */
#define TTL_REASON_BYTES 300
void ttl_reason_text(const struct ttl_deadline *deadline, char *ret_text);

/*
 * The date under which a name belongs into an index: what, with the index's expireAfterSeconds
 * added, gives that index's share of the deadline. For an index on a content field this is the
 * slot's key, which is exact.
 * Returns DATE_NEVER_MS when the index cannot expire the name as things stand.
 */
int64_t ttl_index_date(const struct ruleset *rs, struct dentry *d, const struct index *index);

/*
 * The earliest deadline that a document carries itself: explicit rules, a content ttl, and dual
 * TTL where it overrides its collection's. What its collection's index of own deadlines files.
 */
int64_t ttl_own_deadline_ms(const struct ruleset *rs, struct dentry *d);

/* What an idle time counts from under a refresh mode: DATE_NEVER_MS when it has ended for good. */
int64_t ttl_idle_base_ms(const struct document *doc, enum ttl_refresh refresh);

/* How much later than its date a document is due in an index with jitterSeconds: stable. */
int64_t ttl_jitter_ms(const struct document *doc, int64_t span_ms);

#endif
