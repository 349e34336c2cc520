/*
 * filing.h - getting names into the indexes that are in force for them, and keeping them there.
 */
#ifndef TTLFS_TTL_FILING_H
#define TTLFS_TTL_FILING_H

#include "ttl/deadline.h"
#include "ttl/rules.h"
#include "ttl/ttl.h"

#include <bson/bson.h>

/*
 * Files a name in every index that is in force for it and out of all others.
 * @fields  what the document says; NULL when that did not change or is not known yet: entries of
 *          content indexes then stay as they are
 * Errors: -ENOMEM, -ENOSPC: some entries may be missing then.
 */
int filing_update(struct ttl *ttl, struct dentry *d, const bson_t *fields);

/* filing_update of all names of a document. */
int filing_update_document(struct ttl *ttl, struct document *doc, const bson_t *fields);

/*
 * An index's entry was met by the monitor, but its name is not expired: files it under the date
 * that is right by now, or parks it when the index cannot expire it as things stand. Errors:
 * -ENOMEM.
 */
int filing_postpone(struct ttl *ttl, struct index *index, struct dentry *d, int64_t now_ms);

/*
 * An access at now. Does nothing to the deadlines of a document that is expired and hidden.
 * @creator  through the descriptor that created the document
 */
void filing_accessed(struct ttl *ttl, struct document *doc, int64_t now_ms, bool creator);

/* The content changes at now: moves `_ts`. An access, too. The same exception. */
void filing_written(struct ttl *ttl, struct document *doc, int64_t now_ms, bool creator);

/*
 * What a document says: its content's fields and `user.doc.*`, without the system fields. Lets go;
 * the document must not go meanwhile.
 * @ret_fields  initialised by the call whatever it returns; the caller bson_destroys it
 * Errors: -ENOMEM, -EIO, -ENOENT.
 */
int filing_fields(struct ttl *ttl, struct document *doc, bson_t *ret_fields);

/* Has a content changed whose fields some rule wants to know? */
bool filing_wants_fields(struct ttl *ttl, const struct document *doc);

/* The same of one name and the rules in force there: costs the same however many names there are. */
bool filing_name_wants_fields(struct ttl *ttl, const struct dentry *d);

/*
 * Looks at the content of a document that filing_wants_fields, and files its names. Lets go.
 * @now_ms  documents that are expired and hidden now are left alone
 * Returns 1 when a deadline came forward, 0, or -errno.
 */
int filing_look(struct ttl *ttl, struct document *doc, int64_t now_ms);

/*
 * Files everything below a collection anew, in slices, looking at contents where needed. For rules
 * that changed and directories that moved. Lets go; the collection is pinned meanwhile.
 * Errors: the first of those met; goes on in spite of them.
 */
int filing_rebuild(struct ttl *ttl, struct collection *top, int64_t now_ms);
/* The same, listed in ttl->progress with the attribute that asked for it. @what  NULL for none */
int filing_rebuild_for(struct ttl *ttl, struct collection *top, int64_t now_ms, const char *what);

/* Is a collection's part of the tree being filed anew: may names be missing from indexes? */
bool filing_is_rebuilding(const struct ttl *ttl, const struct collection *c);

#endif
