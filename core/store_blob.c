/*
 * store_blob.c - large contents: one file each, in 256 folders made when first needed.
 */
#include "core/store_impl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "XX/" and 16 digits; the folder alone is the first two bytes. */
#define BLOB_PATH_BYTES 20

static unsigned int folder_of(uint64_t blob)
{
    return blob % STORE_BLOB_FOLDERS;
}

static void blob_path(uint64_t blob, char *ret_path)
{
    snprintf(ret_path, BLOB_PATH_BYTES, "%02x/%016" PRIx64, folder_of(blob), blob);
}

static void folder_path(unsigned int folder, char *ret_path)
{
    snprintf(ret_path, 3, "%02x", folder % STORE_BLOB_FOLDERS);
}

static int create_blob(struct store *store, uint64_t blob, const char *path)
{
    int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(store->blobs_fd, path, flags, 0600);
    if (fd < 0 && errno == ENOENT) {
        char folder[3];
        folder_path(folder_of(blob), folder);
        if (mkdirat(store->blobs_fd, folder, 0700) && errno != EEXIST)
            return -errno;
        fd = openat(store->blobs_fd, path, flags, 0600);
    }
    if (fd < 0)
        return -errno;
    /* After the creation: a sync that clears the mark from now on covers this name. */
    pthread_mutex_lock(&store->lock);
    store->new_in_folder[folder_of(blob)] = true;
    pthread_mutex_unlock(&store->lock);
    return fd;
}

int store_blob_open(struct store *store, uint64_t blob, bool create, int *ret_fd)
{
    if (create && store->read_only)
        return -EROFS;
    if (store->blobs_fd < 0)
        return -ENOENT;
    char path[BLOB_PATH_BYTES];
    blob_path(blob, path);

    int fd;
    if (create) {
        fd = create_blob(store, blob, path);
        if (fd < 0)
            return fd;
    } else {
        fd = openat(
            store->blobs_fd, path, (store->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
            return -errno;
    }
    *ret_fd = fd;
    return 0;
}

int store_blob_remove(struct store *store, uint64_t blob)
{
    if (store->read_only)
        return -EROFS;
    char path[BLOB_PATH_BYTES];
    blob_path(blob, path);
    return unlinkat(store->blobs_fd, path, 0) && errno != ENOENT ? -errno : 0;
}

static int compare_blobs(const void *a_blob, const void *b_blob)
{
    const uint64_t *a = a_blob, *b = b_blob;
    return (*a > *b) - (*a < *b);
}

static size_t sort_and_deduplicate(uint64_t *blobs, size_t n)
{
    if (n < 2)
        return n;
    qsort(blobs, n, sizeof *blobs, compare_blobs);
    size_t kept = 1;
    for (size_t i = 1; i < n; i++)
        if (blobs[i] != blobs[kept - 1])
            blobs[kept++] = blobs[i];
    return kept;
}

/* Starts the writing of a blob, or waits until it is on the disk. */
static int flush_blob(const struct store *store, uint64_t blob, bool wait)
{
    char path[BLOB_PATH_BYTES];
    blob_path(blob, path);
    int fd = openat(store->blobs_fd, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno; /* removed meanwhile: no record will name it */
    int ret = 0;
    if (wait && fdatasync(fd))
        ret = -errno;
    if (!wait)
        sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* only a hint, errors come later */
    close(fd);
    return ret;
}

static int flush_directory(const struct store *store, const char *path)
{
    int fd = openat(store->blobs_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int ret = fd < 0 || fsync(fd) ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return ret;
}

/* Makes the names in blobs/XX durable if there are new ones. */
static int flush_folder(struct store *store, unsigned int folder)
{
    pthread_mutex_lock(&store->lock);
    bool marked = store->new_in_folder[folder];
    store->new_in_folder[folder] = false;
    pthread_mutex_unlock(&store->lock);
    if (!marked)
        return 0;

    char path[3];
    folder_path(folder, path);
    int ret = flush_directory(store, path);
    if (ret) {
        pthread_mutex_lock(&store->lock);
        store->new_in_folder[folder] = true;
        pthread_mutex_unlock(&store->lock);
    }
    return ret;
}

static int flush_names(struct store *store, const uint64_t *blobs, size_t n)
{
    bool unknown = false;
    for (size_t i = 0; i < n; i++) {
        int ret = flush_folder(store, folder_of(blobs[i]));
        if (ret)
            return ret;
        unknown |= !store->durable_folder[folder_of(blobs[i])];
    }
    /* Whichever thread made a folder, its first blob sees to the folder's own name. */
    int ret = unknown ? flush_directory(store, ".") : 0;
    for (size_t i = 0; i < n && !ret; i++)
        store->durable_folder[folder_of(blobs[i])] = true;
    return ret;
}

int store_blob_sync(struct store *store, struct store_batch *batch, struct reason *why)
{
    batch->ndead = sort_and_deduplicate(batch->dead_blobs, batch->ndead);
    batch->ndirty = sort_and_deduplicate(batch->dirty_blobs, batch->ndirty);
    size_t kept = 0;
    for (size_t i = 0; i < batch->ndirty; i++) {
        const uint64_t *blob = &batch->dirty_blobs[i];
        if (!batch->ndead ||
            !bsearch(blob, batch->dead_blobs, batch->ndead, sizeof *blob, compare_blobs))
            batch->dirty_blobs[kept++] = *blob;
    }
    batch->ndirty = kept;

    /* All are started before the first is waited for, so the disk has them all at once. */
    for (size_t i = 0; i < batch->ndirty && batch->ndirty > 1; i++)
        flush_blob(store, batch->dirty_blobs[i], false);
    for (size_t i = 0; i < batch->ndirty; i++) {
        int ret = flush_blob(store, batch->dirty_blobs[i], true);
        if (ret)
            return reason_set(why, -ret, "making blob %016" PRIx64 " durable: %s",
                batch->dirty_blobs[i], mdb_strerror(-ret));
    }
    int ret = flush_names(store, batch->dirty_blobs, batch->ndirty);
    return ret ? reason_set(why, -ret, "making names of blobs durable: %s", mdb_strerror(-ret)) : 0;
}

/* Reads exactly `digits` lower-case hex digits. */
static bool parse_hex(const char *text, size_t digits, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (size_t i = 0; i < digits; i++) {
        const char *all = "0123456789abcdef", *at = text[i] ? strchr(all, text[i]) : NULL;
        if (!at)
            return false;
        value = value << 4 | (uint64_t) (at - all);
    }
    *ret_value = value;
    return text[digits] == '\0';
}

/* Returns how many were removed, or -errno. */
static int sweep_folder(
    struct store *store, unsigned int folder, bool (*keep)(void *arg, uint64_t blob), void *arg)
{
    char path[3];
    folder_path(folder, path);
    int fd = openat(store->blobs_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int err = errno;
        close(fd);
        return -err;
    }
    int ret = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            ret = errno ? -errno : ret;
            break;
        }
        /* Whatever else somebody put here is not ours to remove. */
        uint64_t blob;
        if (!parse_hex(entry->d_name, 16, &blob) || folder_of(blob) != folder || keep(arg, blob))
            continue;
        if (unlinkat(fd, entry->d_name, 0)) {
            ret = -errno;
            break;
        }
        ret++;
    }
    closedir(dir);
    return ret;
}

int store_blob_sweep(struct store *store, bool (*keep)(void *arg, uint64_t blob), void *arg)
{
    if (store->read_only)
        return -EROFS;
    int removed = 0;
    for (unsigned int folder = 0; folder < STORE_BLOB_FOLDERS; folder++) {
        int ret = sweep_folder(store, folder, keep, arg);
        if (ret < 0)
            return ret;
        removed += ret;
    }
    return removed;
}
