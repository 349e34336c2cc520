#include "core/file.h"

#include "core/index.h"
#include "core/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void set_size(struct document *doc, uint64_t size)
{
    if (doc->flags & DOCUMENT_CAPPED)
        index_resizing(doc, size);
    doc->size = size;
}

/* Fetches a small content that only the store has. Lets the lock go. */
static int fetch(
    struct tree *tree, struct document *doc, unsigned char **ret_bytes, size_t *ret_len)
{
    unsigned char key[RECORD_INO_BYTES];
    void *bytes = NULL;
    size_t len = 0;
    record_ino_key(doc->ino, key);
    tree_unlock(tree);
    int err = store_get(tree->store, STORE_CONTENTS, key, sizeof key, &bytes, &len);
    tree_lock(tree);
    if (err)
        return err;
    *ret_bytes = bytes;
    *ret_len = len;
    return 0;
}

static int load_cold(struct tree *tree, struct document *doc)
{
    while (doc->flags & DOCUMENT_COLD) {
        unsigned char *bytes;
        size_t len;
        int err = fetch(tree, doc, &bytes, &len);
        if (err) {
            /* Somebody else may have loaded, changed and stored it as something else meanwhile. */
            if (!(doc->flags & DOCUMENT_COLD))
                return 0;
            return err;
        }
        if (!(doc->flags & DOCUMENT_COLD) || len != doc->size) {
            free(bytes);
            if (doc->flags & DOCUMENT_COLD)
                return -EIO;
            return 0;
        }
        doc->data = bytes;
        doc->data_cap = (uint32_t) len;
        doc->flags &= ~(uint32_t) DOCUMENT_COLD;
    }
    return 0;
}

/*
 * After work on a content without the lock: was the file emptied meanwhile? An open with O_TRUNC is not
 * serialised with writes by the kernel. What was done then came first, and there is nothing to
 * note. Ends the hold on the content.
 */
static bool was_replaced(struct tree *tree, const struct document *doc, struct content *content)
{
    bool replaced = doc->content != content;
    tree_discard_content(tree, content);
    return replaced;
}

int file_open(struct tree *tree, struct document *doc)
{
    document_pin(doc);
    int err = load_cold(tree, doc);
    while (!err && doc->content && tree->store) {
        struct content *content = content_get(doc->content);
        tree_unlock(tree);
        err = content_open(content, false);
        tree_lock(tree);
        if (!was_replaced(tree, doc, content))
            break;
        err = 0;
    }
    if (err)
        document_unpin(tree, doc);
    return err;
}

/* Makes room for `size` bytes in a small content; bytes beyond the old size are zeroed. */
static int small_reserve(struct document *doc, uint64_t size)
{
    if (size > doc->data_cap) {
        /* An exact fit first, because most files are written once; then by halves. */
        uint64_t cap = doc->data_cap ? doc->data_cap + doc->data_cap / 2 : 0;
        cap = cap < size ? size : cap;
        cap = cap < CONTENT_SMALL_MAX_BYTES ? cap : CONTENT_SMALL_MAX_BYTES;
        unsigned char *more = realloc(doc->data, cap);
        if (!more)
            return -ENOMEM;
        doc->data = more;
        doc->data_cap = (uint32_t) cap;
    }
    if (size > doc->size)
        memset(doc->data + doc->size, 0, size - doc->size);
    return 0;
}

/*
 * Gives a small content another size.
 * @dense  so many of its bytes take room then: at most its last page does not
 */
static int small_resize(struct tree *tree, struct document *doc, uint64_t size, uint64_t dense)
{
    bool hole = content_pages_of(dense) < content_pages_of(size);
    int64_t pages = content_pages_of(dense) - document_pages(doc);
    int err = content_charge(document_budget(tree, doc), pages);
    if (err)
        return err;
    if (size == 0) {
        free(doc->data);
        doc->data = NULL;
        doc->data_cap = 0;
    } else {
        err = small_reserve(doc, size);
        if (err) {
            content_charge(document_budget(tree, doc), -pages);
            return err;
        }
    }
    set_size(doc, size);
    doc->flags |= DOCUMENT_CONTENT_DIRTY | DOCUMENT_FIELDS_STALE;
    doc->flags &= ~(uint32_t) DOCUMENT_TAIL_HOLE;
    if (hole)
        doc->flags |= DOCUMENT_TAIL_HOLE;
    return 0;
}

/* Makes a small content dense up to `end`, and longer if need be. */
static int small_fill(struct tree *tree, struct document *doc, uint64_t end)
{
    uint64_t size = end > doc->size ? end : doc->size;
    uint64_t dense = document_dense_bytes(doc);
    if (size == doc->size && end <= dense)
        return 0;
    /* The only page behind what is dense is the last one. */
    return small_resize(tree, doc, size, end > dense ? size : dense);
}

/* May a file of `end` bytes, with nothing between what it has and `off`, stay small? */
static bool stays_small(const struct document *doc, uint64_t off, uint64_t end)
{
    bool hole = content_pages_of(document_dense_bytes(doc)) < (int64_t) (off / CONTENT_PAGE_BYTES);
    return !doc->content && end <= CONTENT_SMALL_MAX_BYTES && !hole;
}

static uint64_t blob_number(struct tree *tree)
{
    return tree->store ? tree->next_blob++ : 0;
}

/*
 * Moves a small content into a large one. Lets the lock go while bytes are written and starts
 * again when the document changed meanwhile.
 */
static int make_large(struct tree *tree, struct document *doc)
{
    while (!doc->content) {
        uint64_t size = doc->size, dense = document_dense_bytes(doc);
        unsigned char *copy = size ? malloc(size) : NULL;
        if (size && !copy)
            return -ENOMEM;
        if (size)
            memcpy(copy, doc->data, size);
        struct content *content =
            content_new(tree->store, blob_number(tree), document_budget(tree, doc));
        tree_unlock(tree);
        int err = content ? content_open(content, true) : -ENOMEM;
        if (!err && dense)
            err = content_write(content, copy, dense, 0);
        tree_lock(tree);
        bool unchanged = !doc->content && doc->size == size && document_dense_bytes(doc) == dense &&
                         (!size || memcmp(doc->data, copy, size) == 0);
        if (!err && unchanged)
            err = journal_will_change(tree, doc);
        free(copy);
        if (err || !unchanged) {
            if (content && content_blob(content))
                journal_dead_blob(tree, content_blob(content));
            tree_discard_content(tree, content);
            if (err)
                return err;
            continue;
        }
        content_charge(document_budget(tree, doc), -document_pages(doc));
        doc->flags &= ~(uint32_t) DOCUMENT_TAIL_HOLE;
        free(doc->data);
        doc->data = NULL;
        doc->data_cap = 0;
        doc->content = content;
        doc->flags |= DOCUMENT_BLOB_DIRTY;
        doc->flags &= ~(uint32_t) DOCUMENT_CONTENT_DIRTY;
    }
    return 0;
}

ssize_t file_read(struct tree *tree, struct document *doc, void *buf, size_t len, uint64_t off)
{
    if (off >= doc->size)
        return 0;
    if (len > doc->size - off)
        len = doc->size - off;
    if (!doc->content) {
        memcpy(buf, doc->data + off, len);
        return (ssize_t) len;
    }
    struct content *content = content_get(doc->content);
    tree_unlock(tree);
    int err = content_read(content, buf, len, off);
    content_put(content);
    tree_lock(tree);
    return err ? err : (ssize_t) len;
}

ssize_t file_write(
    struct tree *tree, struct document *doc, const void *buf, size_t len, uint64_t off)
{
    if (off > (uint64_t) INT64_MAX - len)
        return -EFBIG;
    uint64_t end = off + len;
    int err = journal_will_change(tree, doc);
    if (err)
        return err;
    if (stays_small(doc, off, end > doc->size ? end : doc->size)) {
        err = small_fill(tree, doc, end);
        if (err || !doc->data) /* no data: nothing was written to an empty file */
            return err;
        memcpy(doc->data + off, buf, len);
        doc->flags |= DOCUMENT_CONTENT_DIRTY | DOCUMENT_FIELDS_STALE;
        return (ssize_t) len;
    }
    err = make_large(tree, doc);
    if (err)
        return err;
    struct content *content = content_get(doc->content);
    uint64_t behind = off > doc->size ? off : doc->size;
    tree_unlock(tree);
    err = content_write(content, buf, len, off);
    /* What got behind the end before space ran out must not show up when the file grows. */
    if (err && end > behind)
        (void) content_zero(content, behind, end - behind, true);
    tree_lock(tree);
    if (was_replaced(tree, doc, content))
        return err ? err : (ssize_t) len;
    if (err)
        return err;
    /* Noted again: a commit may have passed while the bytes were written. */
    err = journal_will_change(tree, doc);
    if (err)
        return err;
    if (end > doc->size)
        set_size(doc, end);
    doc->flags |= DOCUMENT_BLOB_DIRTY | DOCUMENT_FIELDS_STALE;
    return (ssize_t) len;
}

/* An emptied file starts over as a small one; what it had goes once that is durable. */
static void empty_large(struct tree *tree, struct document *doc)
{
    struct content *content = doc->content;
    if (content_blob(content))
        journal_dead_blob(tree, content_blob(content));
    doc->content = NULL;
    set_size(doc, 0);
    tree_discard_content(tree, content);
    doc->flags |= DOCUMENT_CONTENT_DIRTY | DOCUMENT_FIELDS_STALE;
}

int file_truncate(struct tree *tree, struct document *doc, uint64_t size)
{
    if (size > INT64_MAX)
        return -EFBIG;
    int err = journal_will_change(tree, doc);
    if (err)
        return err;
    if (doc->flags & DOCUMENT_COLD && size == 0)
        doc->flags &= ~(uint32_t) DOCUMENT_COLD;
    if (doc->content && size == 0) {
        empty_large(tree, doc);
        return 0;
    }
    if (stays_small(doc, size, size)) {
        uint64_t dense = document_dense_bytes(doc);
        return small_resize(tree, doc, size, dense < size ? dense : size);
    }
    err = make_large(tree, doc);
    if (err)
        return err;
    if (size <= doc->size) {
        struct content *content = content_get(doc->content);
        tree_unlock(tree);
        err = content_truncate(content, size);
        tree_lock(tree);
        if (was_replaced(tree, doc, content))
            return err;
        if (!err)
            err = journal_will_change(tree, doc);
        if (err)
            return err;
    }
    set_size(doc, size);
    doc->flags |= DOCUMENT_BLOB_DIRTY | DOCUMENT_FIELDS_STALE;
    return 0;
}

int file_allocate(struct tree *tree, struct document *doc, int mode, uint64_t off, uint64_t len)
{
    bool keep = mode & FALLOC_FL_KEEP_SIZE;
    bool punch = mode & FALLOC_FL_PUNCH_HOLE, zero = mode & FALLOC_FL_ZERO_RANGE;
    if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE) ||
        (punch && (zero || !keep)))
        return -EOPNOTSUPP;
    if (len == 0)
        return -EINVAL;
    if (off > (uint64_t) INT64_MAX - len)
        return -EFBIG;
    uint64_t end = off + len;
    int err = journal_will_change(tree, doc);
    if (err)
        return err;
    /* All that a small content needs: but for its last page it is dense already. */
    if (!punch && !zero && !keep && stays_small(doc, off, end > doc->size ? end : doc->size))
        return small_fill(tree, doc, end);
    err = make_large(tree, doc);
    if (err)
        return err;
    struct content *content = content_get(doc->content);
    tree_unlock(tree);
    if (punch || zero)
        err = content_zero(content, off, len, punch);
    else
        err = content_allocate(content, off, len);
    tree_lock(tree);
    if (was_replaced(tree, doc, content))
        return err;
    if (!err)
        err = journal_will_change(tree, doc);
    if (err)
        return err;
    if (!keep && end > doc->size)
        set_size(doc, end);
    doc->flags |= DOCUMENT_BLOB_DIRTY | DOCUMENT_FIELDS_STALE;
    return 0;
}

int file_seek(struct tree *tree, struct document *doc, off_t off, int whence, off_t *ret_off)
{
    if (whence != SEEK_DATA && whence != SEEK_HOLE)
        return -EINVAL;
    if (off < 0 || (uint64_t) off >= doc->size)
        return -ENXIO;
    if (!doc->content) {
        off_t dense = (off_t) document_dense_bytes(doc);
        if (off >= dense && whence == SEEK_DATA)
            return -ENXIO;
        *ret_off = whence == SEEK_DATA || off >= dense ? off : dense;
        return 0;
    }
    struct content *content = content_get(doc->content);
    uint64_t size = doc->size;
    tree_unlock(tree);
    int err = content_seek(content, size, off, whence, ret_off);
    content_put(content);
    tree_lock(tree);
    return err;
}

static int copy_large(struct tree *tree, struct document *doc, unsigned char *bytes, size_t len)
{
    struct content *content = content_get(doc->content);
    document_pin(doc);
    tree_unlock(tree);
    int err = content_open(content, false);
    if (!err)
        err = content_read(content, bytes, len, 0);
    content_put(content);
    tree_lock(tree);
    document_unpin(tree, doc);
    return err;
}

int file_copy_content(
    struct tree *tree, struct document *doc, size_t max, unsigned char **ret_bytes, size_t *ret_len)
{
    *ret_bytes = NULL;
    *ret_len = 0;
    if (doc->size > max)
        return -EFBIG;
    if (doc->size == 0)
        return 0;
    if (doc->flags & DOCUMENT_COLD)
        return fetch(tree, doc, ret_bytes, ret_len);
    unsigned char *bytes = malloc(doc->size);
    if (!bytes)
        return -ENOMEM;
    size_t len = doc->size;
    int err = 0;
    if (doc->content)
        err = copy_large(tree, doc, bytes, len);
    else
        memcpy(bytes, doc->data, len);
    if (err) {
        free(bytes);
        return err;
    }
    *ret_bytes = bytes;
    *ret_len = len;
    return 0;
}
