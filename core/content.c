#include "core/content_impl.h"
#include "core/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int content_charge(struct content_budget *budget, int64_t pages)
{
    int64_t used = atomic_fetch_add(&budget->used_pages, pages) + pages;
    if (pages > 0 && budget->max_pages && used > budget->max_pages) {
        atomic_fetch_sub(&budget->used_pages, pages);
        return -ENOSPC;
    }
    return 0;
}

struct content *content_new(struct store *store, uint64_t blob, struct content_budget *budget)
{
    struct content *content = calloc(1, sizeof *content);
    if (!content)
        return NULL;
    if (pthread_rwlock_init(&content->lock, NULL) != 0) {
        free(content);
        return NULL;
    }
    atomic_init(&content->holders, 1);
    content->budget = budget;
    content->store = store;
    content->blob = blob;
    content->fd = -1;
    return content;
}

void content_change_budget(struct content *content, struct content_budget *budget)
{
    int64_t pages = atomic_load(&content->npages);
    content_charge(content->budget, -pages);
    content->budget = budget;
    content_charge(budget, pages);
}

void content_set_pages(struct content *content, int64_t pages)
{
    content->npages = pages;
}

struct content *content_get(struct content *content)
{
    atomic_fetch_add(&content->holders, 1);
    return content;
}

void content_put(struct content *content)
{
    if (!content || atomic_fetch_sub(&content->holders, 1) > 1)
        return;
    chunks_free(content);
    if (content->fd >= 0)
        close(content->fd);
    content_charge(content->budget, -content->npages);
    pthread_rwlock_destroy(&content->lock);
    free(content);
}

uint64_t content_blob(const struct content *content)
{
    return content->blob;
}

int content_open(struct content *content, bool create)
{
    if (!content->store)
        return 0;
    int err = 0;
    pthread_rwlock_wrlock(&content->lock);
    if (content->fd < 0)
        err = store_blob_open(content->store, content->blob, create, &content->fd);
    pthread_rwlock_unlock(&content->lock);
    return err;
}

void content_close(struct content *content)
{
    if (!content->store)
        return;
    pthread_rwlock_wrlock(&content->lock);
    if (content->fd >= 0)
        close(content->fd);
    content->fd = -1;
    pthread_rwlock_unlock(&content->lock);
}

/* Brings the pages that are charged in line with what the blob file really takes. */
static void settle_pages(struct content *content, int64_t charged)
{
    struct stat st;
    int64_t pages = content->npages;
    if (fstat(content->fd, &st) == 0)
        pages = (int64_t) (((uint64_t) st.st_blocks * 512 + CONTENT_PAGE_BYTES - 1) /
                           CONTENT_PAGE_BYTES);
    /* Not refused here: the bytes are already there. */
    atomic_fetch_add(&content->budget->used_pages, pages - content->npages - charged);
    content->npages = pages;
}

static int blob_read(const struct content *content, unsigned char *buf, size_t len, uint64_t off)
{
    while (len) {
        ssize_t n = pread(content->fd, buf, len, (off_t) off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0) {
            memset(buf, 0, len);
            return 0;
        }
        buf += n;
        off += (uint64_t) n;
        len -= (size_t) n;
    }
    return 0;
}

static int blob_write(struct content *content, const unsigned char *buf, size_t len, uint64_t off)
{
    /* Only what lies beyond the pages it has can need new ones; holes are settled afterwards. */
    int64_t charged = 0;
    int64_t last = content_pages_of(off + len);
    if (last > content->npages)
        charged = last - content->npages < content_pages_of(len) + 1 ? last - content->npages
                                                                     : content_pages_of(len) + 1;
    int err = content_charge(content->budget, charged);
    if (err)
        return err;
    while (len) {
        ssize_t n = pwrite(content->fd, buf, len, (off_t) off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err = -errno;
            break;
        }
        buf += n;
        off += (uint64_t) n;
        len -= (size_t) n;
    }
    settle_pages(content, charged);
    return err;
}

int content_read(struct content *content, void *buf, size_t len, uint64_t off)
{
    int err = 0;
    pthread_rwlock_rdlock(&content->lock);
    if (content->store)
        err = blob_read(content, buf, len, off);
    else
        chunks_read(content, buf, len, off);
    pthread_rwlock_unlock(&content->lock);
    return err;
}

int content_write(struct content *content, const void *buf, size_t len, uint64_t off)
{
    pthread_rwlock_wrlock(&content->lock);
    int err =
        content->store ? blob_write(content, buf, len, off) : chunks_write(content, buf, len, off);
    pthread_rwlock_unlock(&content->lock);
    return err;
}

/*
 * The file may be shorter than its document: a hole at the end is nowhere. Only where pages were
 * allocated behind its end must it be as long for a moment, because a truncation to the size that
 * it has is what drops them.
 */
static int blob_truncate(const struct content *content, uint64_t size)
{
    struct stat st;
    if (fstat(content->fd, &st) != 0)
        return -errno;
    uint64_t end = (uint64_t) st.st_size;
    bool allocated_behind =
        (uint64_t) st.st_blocks * 512 > (uint64_t) content_pages_of(end) * CONTENT_PAGE_BYTES;
    if (end < size && (!allocated_behind || ftruncate(content->fd, (off_t) size) != 0))
        return 0;
    return ftruncate(content->fd, (off_t) size) == 0 ? 0 : -errno;
}

int content_truncate(struct content *content, uint64_t size)
{
    int err = 0;
    pthread_rwlock_wrlock(&content->lock);
    if (content->store) {
        err = blob_truncate(content, size);
        settle_pages(content, 0);
    } else {
        chunks_truncate(content, size);
    }
    pthread_rwlock_unlock(&content->lock);
    return err;
}

/*
 * Is it plain that a range cannot get pages? Asked first, as tmpfs does: half an allocation helps nobody,
 * and a range of exabytes would be tried for minutes. At least this much is missing.
 */
static bool lacks_room(const struct content *content, uint64_t off, uint64_t len)
{
    int64_t room = content->budget->max_pages - atomic_load(&content->budget->used_pages);
    int64_t range = content_pages_of(off + len) - (int64_t) (off / CONTENT_PAGE_BYTES);
    return content->budget->max_pages && range - content->npages > room;
}

int content_zero(struct content *content, uint64_t off, uint64_t len, bool punch)
{
    int err = 0;
    pthread_rwlock_wrlock(&content->lock);
    if (!punch && lacks_room(content, off, len)) {
        err = -ENOSPC;
    } else if (content->store) {
        if (fallocate(content->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) off,
                (off_t) len) != 0)
            err = -errno;
        if (!err && !punch &&
            fallocate(content->fd, FALLOC_FL_KEEP_SIZE, (off_t) off, (off_t) len) != 0)
            err = -errno;
        settle_pages(content, 0);
    } else {
        chunks_punch(content, off, len);
        if (!punch)
            err = chunks_allocate(content, off, len);
    }
    pthread_rwlock_unlock(&content->lock);
    return err;
}

int content_allocate(struct content *content, uint64_t off, uint64_t len)
{
    int err = 0;
    pthread_rwlock_wrlock(&content->lock);
    if (lacks_room(content, off, len)) {
        err = -ENOSPC;
    } else if (content->store) {
        if (fallocate(content->fd, FALLOC_FL_KEEP_SIZE, (off_t) off, (off_t) len) != 0)
            err = -errno;
        settle_pages(content, 0);
    } else {
        err = chunks_allocate(content, off, len);
    }
    pthread_rwlock_unlock(&content->lock);
    return err;
}

/* The end of the file's last page: the file itself ends with its last byte, pages do not. */
static int blob_end(const struct content *content, uint64_t *ret_end, uint64_t *ret_page_end)
{
    struct stat st;
    if (fstat(content->fd, &st) != 0)
        return -errno;
    *ret_end = *ret_page_end = (uint64_t) st.st_size;
    if (*ret_end % CONTENT_PAGE_BYTES &&
        lseek(content->fd, st.st_size - 1, SEEK_DATA) == st.st_size - 1)
        *ret_page_end = (uint64_t) content_pages_of(*ret_end) * CONTENT_PAGE_BYTES;
    return 0;
}

static int blob_seek(
    const struct content *content, uint64_t size, uint64_t off, bool data, uint64_t *ret_off)
{
    uint64_t end = 0, page_end = 0;
    int err = blob_end(content, &end, &page_end);
    if (err)
        return err;
    uint64_t found = off;
    if (off < end) {
        off_t at = lseek(content->fd, (off_t) off, data ? SEEK_DATA : SEEK_HOLE);
        if (at < 0 && errno != ENXIO)
            return -errno;
        /* No more data; holes there always are, if only at the end. */
        found = at < 0 ? size : (uint64_t) at;
        if (!data && found == end)
            found = page_end;
    } else if (off < page_end) {
        found = data ? off : page_end;
    } else if (data) {
        found = size; /* behind its file's end the document goes on as a hole */
    }
    if (data && found >= size)
        return -ENXIO;
    *ret_off = found < size ? found : size;
    return 0;
}

int content_seek(struct content *content, uint64_t size, off_t off, int whence, off_t *ret_off)
{
    if (whence != SEEK_DATA && whence != SEEK_HOLE)
        return -EINVAL;
    if (off < 0 || (uint64_t) off >= size)
        return -ENXIO;
    uint64_t found = 0;
    pthread_rwlock_rdlock(&content->lock);
    int err = content->store
                  ? blob_seek(content, size, (uint64_t) off, whence == SEEK_DATA, &found)
                  : chunks_seek(content, size, (uint64_t) off, whence == SEEK_DATA, &found);
    pthread_rwlock_unlock(&content->lock);
    if (!err)
        *ret_off = (off_t) found;
    return err;
}

int64_t content_pages(const struct content *content)
{
    return atomic_load(&content->npages);
}

int content_sync(struct content *content)
{
    int err = 0;
    pthread_rwlock_rdlock(&content->lock);
    if (content->store && content->fd >= 0 && fdatasync(content->fd) != 0)
        err = -errno;
    pthread_rwlock_unlock(&content->lock);
    return err;
}
