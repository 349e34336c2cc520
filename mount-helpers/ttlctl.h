/*
 * ttlctl.h - what the subcommands of ttlctl share.
 *
 * ttlctl uses a mount as any program can: extended attributes, `.ttlfs` and `.find`. One file per
 * group of subcommands; the table is in ttlctl.c. The program has one thread, but for the one that
 * draws progress (ttlctl_progress.c). Memory
 * runs out only where everything ends: then it aborts.
 *
 * A subcommand prints its answer to stdout, either for people or, with --json, as one JSON document
 * (streams: one document per line). Messages go to stderr, one line each, with "ttlctl: " in front.
 */
#ifndef TTLFS_MOUNT_HELPERS_TTLCTL_H
#define TTLFS_MOUNT_HELPERS_TTLCTL_H

#include <bson/bson.h>
#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses. Of several operands all are tried; the first failure decides. */
enum ctl_status {
    CTL_OK = 0,
    CTL_FAILED = 1,   /* a file is not there, may not be read, … */
    CTL_USAGE = 2,    /* unknown subcommand or option, operands missing */
    CTL_NO_MOUNT = 3, /* the path is on no ttlfs */
    CTL_REFUSED = 4,  /* ttlfs did not take a value, or a condition did not hold */
};

/* The common options. */
struct ctl {
    bool json;
    bool quiet;        /* says nothing that is not an answer or an error */
    const char *mount; /* --mount PATH, or NULL */
    const char *name;  /* of the subcommand */
    const char *usage; /* its help text */
};

struct ctl_command {
    const char *name;
    /* Options and operands begin at argv[1]. Returns an exit status. */
    int (*run)(struct ctl *ctl, int argc, char **argv);
    const char *summary; /* one line */
    const char *usage;   /* the lines behind "usage: ttlctl " */
};

/* ttlctl.c: options */

/* What ctl_getopt gives when it has said all that is to be said: return ctl_getopt_status(). */
#define CTL_GETOPT_DONE (-2)

/*
 * getopt_long(3) that takes the common options by itself.
 * @shorts  of the subcommand; begins with '+' to stop at the first operand
 * @longs   of the subcommand, ended by zeros; at most 16; NULL for none
 * Returns an option, -1 at the end (operands begin at optind), or CTL_GETOPT_DONE after --help and
 * after an option that does not exist.
 */
int ctl_getopt(
    struct ctl *ctl, int argc, char **argv, const char *shorts, const struct option *longs);

/* The status to end with after CTL_GETOPT_DONE. */
int ctl_getopt_status(void);

/* Complains about the command line and points to --help. Returns CTL_USAGE. */
int ctl_usage(const struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A whole number from min to max; false when the text is anything else. */
bool ctl_number(const char *text, int64_t min, int64_t max, int64_t *ret_value);

/* A positive number of seconds, also with a fraction, up to a day; false for anything else. */
bool ctl_seconds(const char *text, double *ret_seconds);

/* ttlctl_mount.c: the mount, its control files, attributes */

/*
 * The directory that has `.ttlfs`: `path`, or the nearest one above it.
 * @path      NULL: --mount, or else the current directory
 * @ret_root  lives as long as the program
 * Returns CTL_OK, or CTL_NO_MOUNT or CTL_FAILED after a message.
 */
int ctl_find_mount(const struct ctl *ctl, const char *path, const char **ret_root);

/* The same without any message: NULL when there is none. */
const char *ctl_mount_of(const char *path);

/*
 * Is a file or directory on a ttlfs? Elsewhere a `user.ttl.*` would be taken, and do nothing. A part
 * of a mount that was bound to another place is one, too.
 * Returns CTL_OK, also for what cannot be looked at (what is done next tells why), or CTL_NO_MOUNT
 * after a message.
 */
int ctl_check_mount(const char *path);

/*
 * Reads a whole file.
 * @ret_text  a NUL stands behind it; free() it
 * Returns 0 or -errno, without any message.
 */
int ctl_read_file(const char *path, char **ret_text, size_t *ret_len);

/* Writes a text to a file that exists, in one write. Returns 0 or -errno, without any message. */
int ctl_write_file(const char *path, const char *text);

/*
 * Reads `.ttlfs/NAME` of a mount as one JSON object.
 * @ret_doc   bson_destroy() it
 * Returns a status, after a message when it is not CTL_OK.
 */
int ctl_read_json(const char *root, const char *name, bson_t *ret_doc);

/* One JSON object as BSON; false when the text is none. bson_destroy() it. */
bool ctl_parse_json(const char *text, size_t len, bson_t *ret_doc);

/* Reads "a.b.c" from a document as a number; `otherwise` when there is none. */
int64_t ctl_int(const bson_t *doc, const char *path, int64_t otherwise);
double ctl_double(const bson_t *doc, const char *path, double otherwise);
/* An object or array inside; `ret_part` is a view of it. */
bool ctl_part(const bson_t *doc, const char *path, bson_t *ret_part);
/* The object that an iterator is at; `ret_part` is a view of it. */
bool ctl_part_at(const bson_iter_t *iter, bson_t *ret_part);
/* A string, or NULL; lives as long as the document. */
const char *ctl_string(const bson_t *doc, const char *path);

/* path/name; free() it. */
char *ctl_join(const char *path, const char *name);

/*
 * An extended attribute's value, with a NUL behind it.
 * @ret_value  free() it
 * Returns 0 or -errno.
 */
int ctl_getxattr(const char *path, const char *name, char **ret_value);

/*
 * The full name of an attribute: `idle` is user.ttl.idle, `doc.a.b` is user.doc.a.b, and what
 * begins with `user.` is that. Lives as long as the program.
 */
const char *ctl_key(const char *key);

/* The reverse, the short name: a part of `name`. */
const char *ctl_short_key(const char *name);

/*
 * Says why something failed, in ttlfs's own words where it has some (`user.ttl.error`).
 * @err  a positive errno
 * Returns CTL_REFUSED when ttlfs refused it by its rules, else CTL_FAILED.
 */
int ctl_complain(const char *path, const char *key, int err);

/* ttlctl_text.c: what goes out */

/* Keeps an allocated text until the program ends, and gives it back. NULL stays NULL. */
char *ctl_keep(char *text);

/* "ttlctl: " and a message on stderr, as one line whatever is in it. */
void ctl_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A text for people: control bytes and what is no UTF-8 as \n, \t, \xNN; free() it. */
char *ctl_escape(const char *text);

/* How many columns an escaped text takes, more or less: its code points. */
size_t ctl_width(const char *escaped);

/* Columns of the terminal behind a stream, or `otherwise`. COLUMNS overrides. */
size_t ctl_columns(FILE *out, size_t otherwise);

/* A JSON string, in quotes. Bytes that are no UTF-8 become U+FFFD. */
void ctl_json_string(FILE *out, const char *text);

/*
 * "NAME":"text" of a path or name; where bytes were lost, also "NAMEHex", which has them all.
 */
void ctl_json_path(FILE *out, const char *name, const char *text);

/* A length of time for people: 0.250 s, 59.9 s, 12m 5s, 3h 20m, 40d 2h. At least 32 bytes. */
void ctl_duration(double seconds, char *ret_text, size_t size);

/* "1.5 KiB". At least 32 bytes. */
void ctl_bytes(int64_t bytes, char *ret_text, size_t size);

/* Writes a document as relaxed Extended JSON on one line, without its end. */
void ctl_json_document(FILE *out, const bson_t *doc);

/* A date as RFC 3339 in UTC, "never" for what is beyond any calendar; at least 40 bytes. */
void ctl_date(int64_t ms, char *ret_text);

/* Were all answers written? Returns `status`, or CTL_FAILED after a message. */
int ctl_finish(int status);

/* ttlctl_table.c: columns */

#define CTL_TABLE_COLUMNS 8

/* Zeroed with `columns` and `heads` set is empty. */
struct ctl_table {
    size_t columns;           /* at most CTL_TABLE_COLUMNS */
    const char *const *heads; /* one for each column */
    unsigned int right;       /* bit i: column i holds numbers */
    char **cells;             /* escaped */
    size_t n, size;
};

/* Adds a cell; a row is full after `columns` of them. */
void ctl_table_add(struct ctl_table *table, const char *text);
void ctl_table_add_number(struct ctl_table *table, int64_t number);

/*
 * Prints the rows, the heads first if asked to, and forgets them.
 * @max_rows  what is beyond is left out
 */
void ctl_table_print(struct ctl_table *table, FILE *out, bool with_heads, size_t max_rows);

/* ttlctl_status.c: also for `top` */

/*
 * Prints the indexes of status.json that expire something, those with the largest backlog first,
 * then by their next deadline.
 */
void ctl_print_indexes(FILE *out, const bson_t *status, size_t max_rows);

/* "3m 5s" until the next deadline, or "none". */
void ctl_until(const bson_t *status, int64_t deadline_ms, char *ret_text, size_t size);

/* ttlctl_progress.c: long work */

struct ctl_progress;

/* What goes on: documents are filed under a rule (currentOp.json), or deleted (the backlog). */
enum ctl_work { CTL_FILING, CTL_PURGING };

/*
 * Shows on stderr how far long work has come, if stderr is a terminal and --quiet was not given.
 * Work that is done at once shows nothing.
 * @root  of the mount; NULL: nothing is shown
 * Returns NULL when nothing is shown; ctl_progress_end takes that as well.
 */
struct ctl_progress *ctl_progress_begin(
    const struct ctl *ctl, const char *root, enum ctl_work work);

/* Clears the line away. */
void ctl_progress_end(struct ctl_progress *progress);

/*
 * ttlctl_pass.c: starts a pass and waits for its end, with progress.
 * @ret_result  what `.ttlfs/pass` tells about it; bson_destroy() it
 * Returns a status, after a message when it is not CTL_OK.
 */
int ctl_pass(const struct ctl *ctl, const char *root, bson_t *ret_result);

/* The subcommands. */
int ctl_status(struct ctl *ctl, int argc, char **argv);
int ctl_top(struct ctl *ctl, int argc, char **argv);
int ctl_ls(struct ctl *ctl, int argc, char **argv);
int ctl_set(struct ctl *ctl, int argc, char **argv);
int ctl_unset(struct ctl *ctl, int argc, char **argv);
int ctl_get(struct ctl *ctl, int argc, char **argv);
int ctl_hold(struct ctl *ctl, int argc, char **argv);
int ctl_index(struct ctl *ctl, int argc, char **argv);
int ctl_due(struct ctl *ctl, int argc, char **argv);
int ctl_histogram(struct ctl *ctl, int argc, char **argv);
int ctl_events(struct ctl *ctl, int argc, char **argv);
int ctl_run_pass(struct ctl *ctl, int argc, char **argv);
int ctl_restore(struct ctl *ctl, int argc, char **argv);

#endif
