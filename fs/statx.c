#include "fs/statx.h"

#include <linux/fuse.h>
#include <linux/stat.h>
#include <stdbool.h>
#include <string.h>

/* Newer than Debian 12's linux/fuse.h (protocol 7.39). */
struct birth_time {
    int64_t s;
    uint32_t ns;
    int32_t reserved;
};

struct statx_reply {
    struct fuse_out_header header;
    uint64_t valid_s;
    uint32_t valid_ns, flags;
    uint64_t spare[2];
    uint32_t mask, blksize;
    uint64_t attributes;
    uint32_t nlink, uid, gid;
    uint16_t mode, spare0;
    uint64_t ino, size, blocks, attributes_mask;
    struct birth_time atime, btime, ctime, mtime;
    uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
    uint64_t spare2[14];
};

_Static_assert(sizeof(struct statx_reply) == sizeof(struct fuse_out_header) + 32 + 256,
    "the protocol's layout");

static _Thread_local bool asked, has_birth;
static _Thread_local int64_t birth_ms;
static _Thread_local struct statx_reply reply;

void statx_take(void *request)
{
    struct fuse_in_header *in = request;
    in->opcode = FUSE_GETATTR;
    asked = true;
    has_birth = false;
}

void statx_leave(void)
{
    asked = false;
}

void statx_set_birth(int64_t ms)
{
    has_birth = true;
    birth_ms = ms;
}

static struct birth_time time_of(uint64_t s, uint32_t ns)
{
    return (struct birth_time){.s = (int64_t) s, .ns = ns};
}

static void fill(const struct fuse_attr_out *out)
{
    const struct fuse_attr *a = &out->attr;
    int64_t ms = birth_ms % 1000;
    if (ms < 0)
        ms += 1000;
    reply.valid_s = out->attr_valid;
    reply.valid_ns = out->attr_valid_nsec;
    reply.mask = STATX_BASIC_STATS | (has_birth ? STATX_BTIME : 0);
    reply.blksize = a->blksize;
    reply.nlink = a->nlink;
    reply.uid = a->uid;
    reply.gid = a->gid;
    reply.mode = (uint16_t) a->mode;
    reply.ino = a->ino;
    reply.size = a->size;
    reply.blocks = a->blocks;
    reply.atime = time_of(a->atime, a->atimensec);
    reply.mtime = time_of(a->mtime, a->mtimensec);
    reply.ctime = time_of(a->ctime, a->ctimensec);
    if (has_birth)
        reply.btime = (struct birth_time){
            .s = (birth_ms - ms) / 1000, .ns = (uint32_t) ms * UINT32_C(1000000)};
    /* The kernel's own packing of 12 and 20 bits (new_decode_dev). */
    reply.rdev_major = (a->rdev & 0xfff00) >> 8;
    reply.rdev_minor = (a->rdev & 0xff) | ((a->rdev >> 12) & 0xfff00);
}

int statx_answer(struct iovec *iov, int count)
{
    if (!asked)
        return count;
    asked = false;
    const struct fuse_out_header *header = iov[0].iov_base;
    if (header->error || count != 2 || iov[1].iov_len != sizeof(struct fuse_attr_out))
        return count;
    memset(&reply, 0, sizeof reply);
    reply.header = *header;
    reply.header.len = sizeof reply;
    fill(iov[1].iov_base);
    iov[0] = (struct iovec){.iov_base = &reply, .iov_len = sizeof reply};
    return 1;
}
