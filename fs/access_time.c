#include "fs/access_time.h"

#include <stdatomic.h>

/* relatime updates an access time that is older than this. */
#define RELATIME_S (24 * 60 * 60)

static unsigned int flags_of(struct fs *fs)
{
    return atomic_load_explicit(&fs->mount_flags, memory_order_relaxed);
}

/* Is the access time at or before this other one? */
static bool at_or_before(const struct document *doc, int64_t s, uint32_t ns)
{
    return doc->atime_s < s || (doc->atime_s == s && doc->atime_ns <= ns);
}

bool access_time_is_stale(struct fs *fs, const struct document *doc, struct timespec now)
{
    unsigned int flags = flags_of(fs);
    if (flags & (MOUNT_NOATIME | MOUNT_READ_ONLY))
        return false;
    if (flags & MOUNT_NODIRATIME && document_is_collection(doc))
        return false;
    if (flags & MOUNT_STRICTATIME)
        return true;
    return at_or_before(doc, doc->mtime_s, doc->mtime_ns) ||
           at_or_before(doc, doc->ctime_s, doc->ctime_ns) ||
           doc->atime_s + RELATIME_S <= now.tv_sec;
}

void access_time_touch(struct fs *fs, struct document *doc, struct timespec now)
{
    if (access_time_is_stale(fs, doc, now) && journal_will_change(fs->tree, doc) == 0)
        document_set_atime(doc, now);
}

bool access_time_is_strict(struct fs *fs)
{
    return (flags_of(fs) & (MOUNT_STRICTATIME | MOUNT_NOATIME | MOUNT_READ_ONLY)) ==
           MOUNT_STRICTATIME;
}

bool fs_is_read_only(struct fs *fs)
{
    return fs->options.read_only || flags_of(fs) & MOUNT_READ_ONLY;
}
