/*
 * archive.h - what is kept of a document before expiry deletes it: `user.ttl.on-expire=archive`.
 *
 * Here is decided which names have to be archived, and what belongs into a copy; writing it is done
 * by a plug (monitor_hooks.archive), fs/archive.c in a mount. Unless a function says otherwise it
 * expects the tree's lock.
 */
#ifndef TTLFS_TTL_ARCHIVE_H
#define TTLFS_TTL_ARCHIVE_H

#include "core/archive_record.h"
#include "ttl/monitor.h"
#include "ttl/ttl.h"

#include <stdbool.h>
#include <time.h>

/* Where a name was when it expired, and why it did. */
struct archive_origin {
    char *path; /* of the collection, from the root, without a slash in front; malloc'd */
    char name[DOCUMENT_NAME_MAX_BYTES + 1];
    int64_t expired_ms;
    bool by_content;                /* a date in the content decided */
    char reason[ARCHIVE_WHY_BYTES]; /* as user.ttl.reason has it */
};

/* Must a copy be kept before this expired name goes? */
bool archive_wanted(struct ttl *ttl, struct dentry *d);

/*
 * Where a name is, or was before it came into the limbo.
 * @ret_origin  released with archive_origin_release unless the call fails
 * Errors: -ENOMEM, -EPROTO (the limbo's note about it makes no sense).
 */
int archive_origin_of(struct ttl *ttl, struct dentry *d, struct archive_origin *ret_origin);
void archive_origin_release(struct archive_origin *origin);

/* Puts an origin into a record, and takes it out. Errors: -EPROTO, -ENOMEM. */
void archive_origin_encode(const struct archive_origin *origin, bson_t *b);
int archive_origin_decode(const bson_t *b, struct archive_origin *ret_origin);

/*
 * A document's state at one instant, all but its content.
 * @ret_copy  released with archive_copy_release unless the call fails; needs no lock from then on
 * Errors: as archive_origin_of.
 */
int archive_copy_make(struct ttl *ttl, struct dentry *d, struct archive_copy *ret_copy);

/* What tells whether a document has changed since it was copied. */
struct archive_state archive_state_of(const struct document *doc);

/*
 * Is it still the document that was copied, and does its copy still say all? Where it is hidden
 * nobody can rely on what is written through a descriptor that was left open.
 */
bool archive_covers(
    struct ttl *ttl, struct dentry *d, const struct archive_state *copied, int64_t now_ms);

#endif
