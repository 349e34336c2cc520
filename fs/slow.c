#include "fs/slow.h"

#include "fs/control.h"
#include "fs/fs.h"

#include <stdatomic.h>
#include <time.h>

/* What this thread is handling; opcode 0: nothing. */
struct handled {
    int64_t since_ms; /* monotonic */
    uint64_t ino;
    uint32_t opcode, uid, pid;
};

static _Thread_local struct handled handled;
static struct fs *told;
static _Atomic int64_t threshold_ms;

static const char *const names[] = {
    [FUSE_LOOKUP] = "lookup",
    [FUSE_GETATTR] = "getattr",
    [FUSE_SETATTR] = "setattr",
    [FUSE_READLINK] = "readlink",
    [FUSE_SYMLINK] = "symlink",
    [FUSE_MKNOD] = "mknod",
    [FUSE_MKDIR] = "mkdir",
    [FUSE_UNLINK] = "unlink",
    [FUSE_RMDIR] = "rmdir",
    [FUSE_RENAME] = "rename",
    [FUSE_LINK] = "link",
    [FUSE_OPEN] = "open",
    [FUSE_READ] = "read",
    [FUSE_WRITE] = "write",
    [FUSE_STATFS] = "statfs",
    [FUSE_RELEASE] = "release",
    [FUSE_FSYNC] = "fsync",
    [FUSE_SETXATTR] = "setxattr",
    [FUSE_GETXATTR] = "getxattr",
    [FUSE_LISTXATTR] = "listxattr",
    [FUSE_REMOVEXATTR] = "removexattr",
    [FUSE_FLUSH] = "flush",
    [FUSE_OPENDIR] = "opendir",
    [FUSE_READDIR] = "readdir",
    [FUSE_RELEASEDIR] = "releasedir",
    [FUSE_FSYNCDIR] = "fsyncdir",
    [FUSE_CREATE] = "create",
    [FUSE_POLL] = "poll",
    [FUSE_FALLOCATE] = "fallocate",
    [FUSE_READDIRPLUS] = "readdirplus",
    [FUSE_RENAME2] = "rename",
    [FUSE_LSEEK] = "lseek",
    [FUSE_COPY_FILE_RANGE] = "copy_file_range",
};

static int64_t coarse_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void slow_init(struct fs *fs)
{
    told = fs;
}

void slow_set_threshold(int64_t ms)
{
    atomic_store(&threshold_ms, ms);
}

static const char *name_of(uint32_t opcode)
{
    return opcode < sizeof names / sizeof names[0] ? names[opcode] : NULL;
}

void slow_begin(const struct fuse_in_header *header)
{
    handled.opcode = name_of(header->opcode) ? header->opcode : 0;
    if (!handled.opcode)
        return;
    handled.since_ms = coarse_ms();
    handled.uid = header->uid;
    handled.pid = header->pid;
    /* Afterwards the document may be gone; now the request itself keeps it. */
    handled.ino = 0;
    if (header->nodeid && told && !control_is_node(header->nodeid))
        handled.ino = fs_document(told, header->nodeid)->ino;
}

void slow_end(void)
{
    if (!handled.opcode)
        return;
    const char *name = name_of(handled.opcode);
    handled.opcode = 0;
    int64_t limit_ms = atomic_load_explicit(&threshold_ms, memory_order_relaxed);
    if (!limit_ms || !told)
        return;
    int64_t ms = coarse_ms() - handled.since_ms;
    if (ms >= limit_ms)
        profile_slow(told, name, handled.ino, handled.uid, handled.pid, ms);
}
