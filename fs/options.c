#include "fs/options.h"

#include "fs/remount.h"

#include "ttl/duration.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char options_help[] =
    "usage: ttlfs [-f] [-d] [-o opt,...] STORE MOUNTPOINT\n"
    "\n"
    "STORE is memory: or a directory (created if missing).\n"
    "\n"
    "    -f                 stay in the foreground and log to stderr\n"
    "    -d                 the same, with FUSE's own debugging output\n"
    "    -h, --help         this text\n"
    "    -V, --version      the version\n"
    "\n"
    "    -o size=BYTES      ENOSPC beyond; K, M, G, T and % of memory as in tmpfs\n"
    "    -o nr_inodes=N     ENOSPC beyond; K, M, G\n"
    "    -o mode= uid= gid= of the root directory\n"
    "    -o commit=SECONDS  how much un-fsynced work a killed process may lose (1)\n"
    "    -o sync            the same as commit=0\n"
    "    -o ttl= idle= max= refresh=   rules of the root collection\n"
    "    -o monitor=on|off  whether expired documents are deleted (on)\n"
    "    -o archive=DIR     where on-expire=archive keeps what expires\n"
    "    -o notify=auto|always|never   inotify events for expired documents (auto)\n"
    "    -o noacl           no access control lists\n"
    "    -o test-clock      a settable clock, for tests\n"
    "    -o ro              read-only; nothing is deleted\n"
    "    -o remount,...     change the mount flags (ro, noatime, nosuid ...) of what is mounted\n"
    "    -o allow_other,... FUSE's own options\n";

/* Whole decimal number; returns false when anything else stands there. */
static bool parse_u64(const char *text, size_t len, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (len == 0 || len > 19)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint64_t) (text[i] - '0');
    }
    *ret_value = value;
    return true;
}

/* tmpfs's sizes: a number with K, M, G, T (1024s), or a percentage of memory. */
static bool parse_size(const char *text, bool percent, uint64_t *ret_bytes)
{
    static const char units[] = "kmgt";
    size_t len = strlen(text);
    unsigned int shift = 0;
    if (len && percent && text[len - 1] == '%') {
        uint64_t share;
        if (!parse_u64(text, len - 1, &share) || share > 1000)
            return false;
        uint64_t pages = (uint64_t) sysconf(_SC_PHYS_PAGES);
        *ret_bytes = pages * (uint64_t) sysconf(_SC_PAGESIZE) / 100 * share;
        return true;
    }
    const char *unit = len ? strchr(units, text[len - 1] | 0x20) : NULL;
    if (unit && *unit) {
        shift = 10 * (unsigned int) (unit - units + 1);
        len--;
    }
    uint64_t value;
    if (!parse_u64(text, len, &value) || value > UINT64_MAX >> shift || value << shift > INT64_MAX)
        return false;
    *ret_bytes = value << shift;
    return true;
}

static bool parse_mode(const char *text, int *ret_mode)
{
    int mode = 0;
    size_t len = strlen(text);
    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '7')
            return false;
        mode = mode * 8 + (text[i] - '0');
    }
    *ret_mode = mode;
    return mode <= 07777;
}

static bool parse_id(const char *text, int64_t *ret_id)
{
    uint64_t id;
    if (!parse_u64(text, strlen(text), &id) || id >= UINT32_MAX)
        return false;
    *ret_id = (int64_t) id;
    return true;
}

/* One thread may wait for the monitor, which may wait for an answer to its own unlink. */
#define LOOP_THREADS_MIN 2
#define LOOP_THREADS_MAX 100000

struct parsing {
    struct fs_options *options;
    struct reason *why;
    int err;
};

static int refuse(struct parsing *p, const char *arg)
{
    p->err = reason_set(p->why, EINVAL, "bad option: %s", arg);
    return -1;
}

/* The value behind "key=", or NULL when the option is another one. */
static const char *value_of(const char *arg, const char *key)
{
    size_t len = strlen(key);
    return strncmp(arg, key, len) == 0 && arg[len] == '=' ? arg + len + 1 : NULL;
}

static bool keep(char **place, const char *value)
{
    free(*place);
    *place = strdup(value);
    return *place != NULL;
}

/* A rule's value is checked now, so that a bad one is a bad option. */
static bool rule_option(struct parsing *p, const char *arg, bool *ret_ok)
{
    struct fs_options *o = p->options;
    const char *v;
    int64_t ms;
    *ret_ok = false;
    if ((v = value_of(arg, "ttl"))) {
        struct index_spec spec;
        bool minus = strcmp(v, "-1") == 0;
        int err =
            *v == '{' ? -EINVAL : index_spec_parse("_ts", 3, v, strlen(v), NULL, &spec, p->why);
        if (*v != '{')
            index_spec_release(&spec);
        *ret_ok = (!err || minus) && keep(&o->ttl, v);
        return true;
    }
    if ((v = value_of(arg, "idle"))) {
        *ret_ok = duration_parse_positive(v, strlen(v), &ms, p->why) == 0 && keep(&o->idle, v);
        return true;
    }
    if ((v = value_of(arg, "max"))) {
        *ret_ok = duration_parse_positive(v, strlen(v), &ms, p->why) == 0 && keep(&o->max, v);
        return true;
    }
    if ((v = value_of(arg, "refresh"))) {
        *ret_ok =
            (strcmp(v, "access") == 0 || strcmp(v, "write") == 0 || strcmp(v, "extend") == 0) &&
            keep(&o->refresh, v);
        return true;
    }
    return false;
}

static bool size_option(struct parsing *p, const char *arg, bool *ret_ok)
{
    struct fs_options *o = p->options;
    const char *v;
    uint64_t n;
    *ret_ok = false;
    if ((v = value_of(arg, "size"))) {
        *ret_ok = parse_size(v, true, &n);
        if (*ret_ok) {
            o->max_pages = content_pages_of(n);
            o->size_set = true;
        }
        return true;
    }
    if ((v = value_of(arg, "nr_inodes"))) {
        *ret_ok = parse_size(v, false, &n);
        if (*ret_ok)
            o->max_documents = n;
        return true;
    }
    if ((v = value_of(arg, "mode"))) {
        *ret_ok = parse_mode(v, &o->mode);
        return true;
    }
    if ((v = value_of(arg, "uid"))) {
        *ret_ok = parse_id(v, &o->uid);
        return true;
    }
    if ((v = value_of(arg, "gid"))) {
        *ret_ok = parse_id(v, &o->gid);
        return true;
    }
    if ((v = value_of(arg, "commit"))) {
        *ret_ok = parse_u64(v, strlen(v), &n) && n <= 86400;
        if (*ret_ok)
            o->commit_ms = (int64_t) n * 1000;
        return true;
    }
    return false;
}

/* FUSE's options for its loop: fuse_session_new() does not know them, fuse_main() is who would. */
static bool loop_option(struct parsing *p, const char *arg, bool *ret_ok)
{
    struct fs_options *o = p->options;
    const char *v;
    uint64_t n;
    *ret_ok = true;
    if (strcmp(arg, "clone_fd") == 0) {
        o->clone_fd = true;
        return true;
    }
    if ((v = value_of(arg, "max_threads"))) {
        *ret_ok = parse_u64(v, strlen(v), &n) && n >= LOOP_THREADS_MIN && n <= LOOP_THREADS_MAX;
        if (*ret_ok)
            o->max_threads = (unsigned) n;
        return true;
    }
    if ((v = value_of(arg, "max_idle_threads"))) {
        *ret_ok = parse_u64(v, strlen(v), &n) && n >= 1 && n <= LOOP_THREADS_MAX;
        if (*ret_ok)
            o->max_idle_threads = (unsigned) n;
        return true;
    }
    return false;
}

static bool word_option(struct parsing *p, const char *arg, bool *ret_ok)
{
    struct fs_options *o = p->options;
    const char *v;
    *ret_ok = true;
    if ((v = value_of(arg, "monitor"))) {
        o->monitor = strcmp(v, "on") == 0;
        *ret_ok = o->monitor || strcmp(v, "off") == 0;
        return true;
    }
    if ((v = value_of(arg, "notify"))) {
        static const char *const words[] = {"auto", "always", "never"};
        *ret_ok = false;
        for (int i = 0; i < 3; i++) {
            if (strcmp(v, words[i]) == 0) {
                o->notify = (enum notify_mode) i;
                *ret_ok = true;
            }
        }
        return true;
    }
    if ((v = value_of(arg, "archive"))) {
        *ret_ok = *v && keep(&o->archive, v);
        return true;
    }
    if (strcmp(arg, "acl") == 0 || strcmp(arg, "noacl") == 0) {
        o->noacl = *arg == 'n';
        return true;
    }
    if (strcmp(arg, "test-clock") == 0) {
        o->test_clock = true;
        return true;
    }
    if (strcmp(arg, "sync") == 0) {
        /* Not passed on: the kernel's own `sync` would only add round trips. */
        o->sync = true;
        return true;
    }
    return false;
}

/* Options of mount(8) and of FUSE that are passed on to libfuse. */
static bool is_fuse_option(const char *arg)
{
    static const char *const words[] = {
        "allow_other", "allow_root", "auto_unmount", "default_permissions"};
    static const char *const keys[] = {"fsname", "subtype", "max_read", "context", "fscontext",
        "defcontext", "rootcontext", "blksize"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(arg, words[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (value_of(arg, keys[i]))
            return true;
    return false;
}

static int handle(void *data, const char *arg, int key, struct fuse_args *outargs)
{
    struct parsing *p = data;
    struct fs_options *o = p->options;
    bool ok;
    (void) outargs;
    if (key == FUSE_OPT_KEY_NONOPT) {
        char **place = !o->store ? &o->store : !o->mountpoint ? &o->mountpoint : NULL;
        if (!place) {
            p->err = reason_set(p->why, EINVAL, "too many arguments: %s", arg);
            return -1;
        }
        return keep(place, arg) ? 0 : -1;
    }
    if (strcmp(arg, "-f") == 0) {
        o->foreground = true;
        return 0;
    }
    if (strcmp(arg, "-d") == 0 || strcmp(arg, "debug") == 0) {
        o->foreground = o->debug = true;
        return 1;
    }
    if (strcmp(arg, "-h") == 0 || strcmp(arg, "--help") == 0) {
        o->help = true;
        return 0;
    }
    if (strcmp(arg, "-V") == 0 || strcmp(arg, "--version") == 0) {
        o->version = true;
        return 0;
    }
    if (strcmp(arg, "ro") == 0) {
        o->read_only = true;
        (void) mount_words_add(&o->mount_words, arg);
        return 1;
    }
    if (rule_option(p, arg, &ok) || size_option(p, arg, &ok) || loop_option(p, arg, &ok) ||
        word_option(p, arg, &ok))
        return ok ? 0 : refuse(p, arg);
    if (strcmp(arg, "allow_other") == 0 || strcmp(arg, "allow_root") == 0)
        o->allow_other = true;
    if (strcmp(arg, "default_permissions") == 0)
        return 0; /* always on */
    if (strcmp(arg, "remount") == 0) {
        o->remount = true;
        return 0;
    }
    if (value_of(arg, "user_id") || value_of(arg, "group_id") || value_of(arg, "rootmode")) {
        o->kernel_words = true;
        return 0;
    }
    if (mount_words_add(&o->mount_words, arg))
        return mount_words_libfuse_knows(arg) ? 1 : 0;
    return is_fuse_option(arg) ? 1 : refuse(p, arg);
}

/* An absolute path, because the daemon changes its directory. */
static int make_absolute(char **path)
{
    if (!*path || **path == '/')
        return 0;
    char cwd[PATH_MAX], *joined = NULL;
    if (!getcwd(cwd, sizeof cwd))
        return -errno;
    size_t len = strlen(cwd) + strlen(*path) + 2;
    joined = malloc(len);
    if (!joined)
        return -ENOMEM;
    (void) snprintf(joined, len, "%s/%s", cwd, *path);
    free(*path);
    *path = joined;
    return 0;
}

int options_parse(int argc, char **argv, struct fs_options *ret_options, struct reason *why)
{
    struct fs_options *o = ret_options;
    struct parsing p = {.options = o, .why = why};
    static const struct fuse_opt opts[] = {FUSE_OPT_END};
    *o = (struct fs_options){.mode = -1, .uid = -1, .gid = -1, .monitor = -1, .commit_ms = 1000};
    o->fuse = (struct fuse_args){0};
    for (int i = 0; i < argc; i++)
        if (fuse_opt_add_arg(&o->fuse, argv[i]) != 0)
            return -ENOMEM;
    if (fuse_opt_parse(&o->fuse, &p, opts, handle) != 0)
        return p.err ? p.err : reason_set(why, EINVAL, "the options cannot be read");
    if (o->sync)
        o->commit_ms = 0;
    if (o->help || o->version)
        return 0;
    if (o->kernel_words && !o->remount)
        return reason_set(why, EINVAL, "user_id=, group_id= and rootmode= are the kernel's");
    if (!o->store || !*o->store)
        return reason_set(why, EINVAL, "STORE is missing: memory: or a directory");
    size_t scheme = strcspn(o->store, ":/");
    if (o->store[scheme] == ':' && strcmp(o->store, "memory:") != 0 &&
        strncmp(o->store, "mongodb", 7) != 0)
        return reason_set(
            why, EINVAL, "no such store: %s (for a directory write ./%s)", o->store, o->store);
    if (strncmp(o->store, "mongodb:", 8) == 0 || strncmp(o->store, "mongodb+srv:", 12) == 0)
        return reason_set(
            why, EINVAL, "this build has no MongoDB store: STORE is memory: or a directory");
    int err = strcmp(o->store, "memory:") == 0 ? 0 : make_absolute(&o->store);
    if (!err)
        err = make_absolute(&o->archive);
    return err ? err : make_absolute(&o->mountpoint);
}

void options_release(struct fs_options *options)
{
    free(options->store);
    free(options->mountpoint);
    free(options->archive);
    free(options->ttl);
    free(options->idle);
    free(options->max);
    free(options->refresh);
    fuse_opt_free_args(&options->fuse);
    *options = (struct fs_options){0};
}
