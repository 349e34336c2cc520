#include "fs/session.h"

#include "fs/slow.h"
#include "fs/statx.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Newer than Debian 12's linux/fuse.h. */
#define OPCODE_TMPFILE 51
#define NOTIFY_INC_EPOCH 8
#define NOTIFY_PRUNE 9
#define INIT_DIRECT_IO_ALLOW_MMAP (UINT64_C(1) << 36)

static atomic_bool has_killpriv, has_mmap_direct;
static _Thread_local bool kills_privileges, clears_setgid;
static _Thread_local bool answering_init;
/* What the kernel offered in INIT. */
static _Atomic uint64_t offered;
/* Set before the session starts. */
static enum session_acl acl_mode;
static atomic_bool has_setxattr_ext;
static void (*on_answered)(void *arg);
static void *on_answered_arg;

bool session_kills_privileges(void)
{
    return kills_privileges;
}

bool session_clears_setgid(void)
{
    return clears_setgid;
}

bool session_has_killpriv(void)
{
    return atomic_load(&has_killpriv);
}

bool session_has_mmap_direct(void)
{
    return atomic_load(&has_mmap_direct);
}

/*
 * SETXATTR with eight more bytes than libfuse 3.14 knows: keeps their flags and takes them out.
 * Returns the request's new length.
 */
static size_t shorten_setxattr(char *buf, size_t len)
{
    struct fuse_in_header *in = (struct fuse_in_header *) (void *) buf;
    const struct fuse_setxattr_in *arg = (const void *) (buf + sizeof *in);
    size_t more = sizeof *arg - FUSE_COMPAT_SETXATTR_IN_SIZE;
    if (!atomic_load(&has_setxattr_ext) || len < sizeof *in + sizeof *arg)
        return len;
    clears_setgid = arg->setxattr_flags & FUSE_SETXATTR_ACL_KILL_SGID;
    char *rest = buf + sizeof *in + FUSE_COMPAT_SETXATTR_IN_SIZE;
    memmove(rest, rest + more, len - sizeof *in - sizeof *arg);
    in->len -= (uint32_t) more;
    return len - more;
}

/* A request has come in: keeps what libfuse will not pass on. Returns its length. */
static size_t look_at_request(char *buf, size_t len)
{
    struct fuse_in_header *in = (struct fuse_in_header *) (void *) buf;
    const void *arg = buf + sizeof *in;
    kills_privileges = clears_setgid = answering_init = false;
    statx_leave();
    if (len < sizeof *in)
        return len;
    size_t arg_len = len - sizeof *in;
    switch (in->opcode) {
    case FUSE_WRITE:
        if (arg_len >= sizeof(struct fuse_write_in))
            kills_privileges =
                ((const struct fuse_write_in *) arg)->write_flags & FUSE_WRITE_KILL_SUIDGID;
        break;
    case FUSE_SETATTR:
        if (arg_len >= sizeof(struct fuse_setattr_in))
            kills_privileges = ((const struct fuse_setattr_in *) arg)->valid & FATTR_KILL_SUIDGID;
        break;
    case FUSE_OPEN:
        if (arg_len >= sizeof(struct fuse_open_in))
            kills_privileges =
                ((const struct fuse_open_in *) arg)->open_flags & FUSE_OPEN_KILL_SUIDGID;
        break;
    case FUSE_CREATE:
        if (arg_len >= sizeof(struct fuse_create_in))
            kills_privileges =
                ((const struct fuse_create_in *) arg)->open_flags & FUSE_OPEN_KILL_SUIDGID;
        break;
    case FUSE_SETXATTR:
        return shorten_setxattr(buf, len);
    case OPCODE_TMPFILE:
        in->opcode = FUSE_CREATE;
        break;
    case STATX_OPCODE:
        statx_take(buf);
        break;
    case FUSE_INIT:
        answering_init = true;
        if (arg_len >= sizeof(struct fuse_init_in)) {
            const struct fuse_init_in *init = arg;
            uint64_t flags = init->flags;
            if (flags & FUSE_INIT_EXT)
                flags |= (uint64_t) init->flags2 << 32;
            atomic_store(&offered, flags);
        }
        break;
    default:
        break;
    }
    return len;
}

/*
 * Who handles a request has seen what its sender's earlier replies brought: the kernel orders that.
 * Only ThreadSanitizer has to be told.
 */
#ifdef __SANITIZE_THREAD__
static atomic_ulong exchange;
#define ORDER_BEFORE_REPLY() ((void) atomic_fetch_add_explicit(&exchange, 1, memory_order_release))
#define ORDER_AFTER_REQUEST() ((void) atomic_load_explicit(&exchange, memory_order_acquire))
#else
#define ORDER_BEFORE_REPLY() ((void) 0)
#define ORDER_AFTER_REQUEST() ((void) 0)
#endif

static ssize_t read_request(int fd, void *buf, size_t len, void *userdata)
{
    (void) userdata;
    slow_end();
    ssize_t n = read(fd, buf, len);
    ORDER_AFTER_REQUEST();
    if (n > 0)
        n = (ssize_t) look_at_request(buf, (size_t) n);
    if (n >= (ssize_t) sizeof(struct fuse_in_header))
        slow_begin(buf);
    return n;
}

static void add_features(struct fuse_init_out *out)
{
    uint64_t have = atomic_load(&offered), want = 0;
    want |= have & (FUSE_PARALLEL_DIROPS | FUSE_HANDLE_KILLPRIV_V2 | INIT_DIRECT_IO_ALLOW_MMAP);
    /* A directory's default list takes the umask's place, so the kernel must not apply that. */
    if (acl_mode != SESSION_ACL_NONE)
        want |= have & FUSE_DONT_MASK;
    if (acl_mode == SESSION_ACL_CHECKED)
        want |= have & (FUSE_POSIX_ACL | FUSE_SETXATTR_EXT);
    if (want & FUSE_HANDLE_KILLPRIV_V2)
        out->flags &= ~(uint32_t) FUSE_HANDLE_KILLPRIV;
    out->flags |= (uint32_t) want;
    if (want >> 32) {
        out->flags |= FUSE_INIT_EXT;
        out->flags2 |= (uint32_t) (want >> 32);
    }
    atomic_store(&has_killpriv, (want & FUSE_HANDLE_KILLPRIV_V2) != 0);
    atomic_store(&has_setxattr_ext, (want & FUSE_SETXATTR_EXT) != 0);
    atomic_store(&has_mmap_direct, (want & INIT_DIRECT_IO_ALLOW_MMAP) != 0);
}

/*
 * writev, called past libc: AddressSanitizer looks at the buffers once more behind it, when the
 * request that the reply belongs to may have been followed by one that freed them.
 */
static ssize_t write_all(int fd, const struct iovec *iov, int count)
{
    ORDER_BEFORE_REPLY();
    return (ssize_t) syscall(SYS_writev, fd, iov, count);
}

static ssize_t write_reply(int fd, struct iovec *iov, int count, void *userdata)
{
    (void) userdata;
    if (!answering_init || count != 2 || iov[1].iov_len < sizeof(struct fuse_init_out))
        return write_all(fd, iov, statx_answer(iov, count));
    answering_init = false;
    add_features(iov[1].iov_base);
    ssize_t n = write_all(fd, iov, count);
    if (n >= 0)
        on_answered(on_answered_arg);
    return n;
}

int session_init(
    struct fuse_session *session, enum session_acl acl, void (*answered)(void *arg), void *arg)
{
    static const struct fuse_custom_io io = {.writev = write_reply, .read = read_request};
    acl_mode = acl;
    on_answered = answered;
    on_answered_arg = arg;
    return fuse_session_custom_io(session, &io, fuse_session_fd(session));
}

int session_forget_names(struct fuse_session *session)
{
    struct fuse_out_header out = {.len = sizeof out, .error = NOTIFY_INC_EPOCH};
    ssize_t n = write(fuse_session_fd(session), &out, sizeof out);
    return n < 0 ? -errno : 0;
}

/* What follows the header of a NOTIFY_PRUNE, before the numbers. */
struct prune_out {
    uint32_t count, padding;
    uint64_t spare;
};

int session_prune(struct fuse_session *session, const uint64_t *nodeids, uint32_t n)
{
    struct prune_out prune = {.count = n};
    struct fuse_out_header out = {.error = NOTIFY_PRUNE};
    struct iovec iov[] = {
        {.iov_base = &out, .iov_len = sizeof out},
        {.iov_base = &prune, .iov_len = sizeof prune},
        {.iov_base = (void *) (uintptr_t) nodeids, .iov_len = n * sizeof *nodeids},
    };
    for (size_t i = 0; i < sizeof iov / sizeof iov[0]; i++)
        out.len += (uint32_t) iov[i].iov_len;
    return writev(fuse_session_fd(session), iov, n ? 3 : 2) < 0 ? -errno : 0;
}
