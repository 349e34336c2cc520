/*
 * archive_file.h - one archived document: its directory, its files, their names.
 *
 * Everything is relative to open directories: an archived path may be longer than PATH_MAX. All
 * functions return 0 or -errno.
 */
#ifndef TTLFS_FS_ARCHIVE_FILE_H
#define TTLFS_FS_ARCHIVE_FILE_H

#include "core/archive_record.h"

#include <stdbool.h>

#define ARCHIVE_TEMP_BYTES 32

/* A copy on its way: its file has a temporary name. */
struct archive_file {
    int dir;                       /* borrowed */
    int fd;                        /* of a regular file; -1 otherwise */
    bool sidecar;                  /* attributes did not fit, or cannot be had */
    char temp[ARCHIVE_TEMP_BYTES]; /* empty: there is none */
};

/*
 * Opens DIR/PATH/DAY, making what is missing (mode 0700). Where a file of an archived document has a
 * directory's name, the directory has a `~` behind it.
 * @base     the archive's directory, open
 * @ret_dir  the caller closes it
 * Errors: -EXDEV (another filesystem is mounted there), -ENOSPC, -EACCES, …
 */
int archive_directory_open(int base, const char *path, int64_t expired_ms, int *ret_dir);

/* Is there a copy of this document already? */
bool archive_file_exists(int dir, const struct archive_copy *copy);

/* Makes the file, still empty, under a temporary name. */
int archive_file_create(int dir, const struct archive_copy *copy, struct archive_file *ret_file);

/* Gives it the document's attributes, once it has its content. */
int archive_file_dress(struct archive_file *file, const struct archive_copy *copy);

/* Makes it durable, all but its name. */
int archive_file_sync(const struct archive_file *file);

/* Gives it its name: NAME, or NAME.NUMBER where another document has that. It must be durable. */
int archive_file_place(struct archive_file *file, const struct archive_copy *copy);

/* Closes it, and removes what has no name yet. */
void archive_file_release(struct archive_file *file);

#endif
