/*
 * ttlctl restore: brings archived documents back into a mount, by what every program may do.
 */
#include "mount-helpers/ttlctl_restore.h"
#include "mount-helpers/ttlctl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    const char *to;
    bool force, keep_rules, remove;
};

/* The directory and the name of a path; free() the directory. */
static char *split(const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    *ret_name = slash ? slash + 1 : path;
    char *dir = slash == path ? strdup("/")
                : slash       ? strndup(path, (size_t) (slash - path))
                              : strdup(".");
    if (!dir)
        abort();
    return dir;
}

/* The path of the file beside an archived one; free() it. */
static char *sidecar_of(const char *path)
{
    const char *name;
    char sidecar[DOCUMENT_NAME_MAX_BYTES + 1], *dir = split(path, &name);
    if (strlen(name) > DOCUMENT_NAME_MAX_BYTES)
        name = "";
    archive_sidecar_name(name, sidecar);
    char *joined = ctl_join(dir, sidecar);
    free(dir);
    return joined;
}

static bool is_inside(const char *path)
{
    while (*path) {
        size_t len = strcspn(path, "/");
        if (len == 0 || (len <= 2 && strncmp(path, "..", len) == 0))
            return false;
        path += len + (path[len] == '/');
    }
    return true;
}

/* Reads what the archive says about a file. Returns a status, after a message when not CTL_OK. */
static int read_record(struct restoring *r)
{
    struct stat st;
    char *text;
    size_t len;
    if (lstat(r->from, &st) != 0)
        return ctl_complain(r->from, NULL, errno);
    /* The sidecar first: where there is one, it has all of the attributes. */
    char *sidecar = sidecar_of(r->from);
    bool beside = ctl_read_file(sidecar, &text, &len) == 0;
    free(sidecar);
    int err = 0;
    if (!beside) {
        err = ctl_getxattr(r->from, ARCHIVE_XATTR, &text);
        len = err ? 0 : strlen(text);
    }
    if (!err) {
        err = archive_record_parse(text, len, &r->copy, NULL);
        free(text);
    }
    if (!err && !beside)
        err = restore_read_xattrs(r);
    if (!err && (!is_inside(r->copy.path) || !is_inside(r->copy.name)))
        err = -EPROTO;
    if (!err)
        return CTL_OK;
    archive_copy_release(&r->copy);
    if (err == -EACCES || err == -EPERM)
        return ctl_complain(r->from, NULL, -err);
    ctl_error("%s: is no archived document", r->from);
    return CTL_FAILED;
}

/* Makes the directories of a path that are missing. */
static int make_directories(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        int failed = mkdir(path, 0755) != 0 && errno != EEXIST ? -errno : 0;
        *at = '/';
        if (failed)
            return failed;
    }
    return mkdir(path, 0755) != 0 && errno != EEXIST ? -errno : 0;
}

/*
 * Where it goes: --to, or where it was, below --mount or the mount it was in.
 * @ret_dir  free() it
 */
static int find_target(
    const struct ctl *ctl, const struct options *o, const struct restoring *r, char **ret_dir)
{
    const char *root = o->to;
    int status = CTL_OK;
    if (!o->to && !ctl->mount && (!r->copy.mount || !ctl_mount_of(r->copy.mount))) {
        ctl_error("%s: %s is no mounted ttlfs; name one with --mount, or a directory with --to",
            r->from, r->copy.mount ? r->copy.mount : "where it was");
        return CTL_NO_MOUNT;
    }
    if (!o->to)
        status = ctl_find_mount(ctl, ctl->mount ? NULL : r->copy.mount, &root);
    else
        status = ctl_find_mount(ctl, o->to, &root);
    if (status)
        return status;
    const char *below = r->copy.path ? r->copy.path : "";
    char *dir = o->to ? strdup(o->to) : *below ? ctl_join(root, below) : strdup(root);
    if (!dir)
        abort();
    int err = o->to ? 0 : make_directories(dir);
    if (!err) {
        *ret_dir = dir;
        return CTL_OK;
    }
    status = ctl_complain(dir, NULL, -err);
    free(dir);
    return status;
}

static void print_result(const struct ctl *ctl, const struct restoring *r, const char *target)
{
    if (ctl->json) {
        putchar('{');
        ctl_json_path(stdout, "from", r->from);
        putchar(',');
        ctl_json_path(stdout, "to", target);
        printf(",\"hold\":%s}\n", r->hold ? "true" : "false");
    } else if (!ctl->quiet) {
        char *shown = ctl_escape(target);
        printf("%s%s\n", shown, r->hold ? " (held: it is due by its own content)" : "");
        free(shown);
    }
}

static int remove_archived(const char *path)
{
    char *sidecar = sidecar_of(path);
    int err = unlink(path) != 0 ? errno : 0;
    if (!err && unlink(sidecar) != 0 && errno != ENOENT)
        err = errno;
    free(sidecar);
    return err ? ctl_complain(path, NULL, err) : CTL_OK;
}

/*
 * Is it there? One whose content says that it was due long ago may be gone at once; then it is made
 * again with a hold.
 */
static int make_lasting(struct restoring *r)
{
    struct stat st;
    int err = restore_document(r);
    bool gone =
        err == -ENOENT || (!err && fstatat(r->dir, r->copy.name, &st, AT_SYMLINK_NOFOLLOW) != 0);
    if (gone && !r->hold && !r->keep_rules) {
        r->hold = true;
        err = restore_document(r);
    }
    return err;
}

static int restore_one(struct ctl *ctl, const struct options *o, const char *path)
{
    struct restoring r = {.from = path, .dir = -1, .force = o->force, .keep_rules = o->keep_rules};
    char *dir = NULL;
    int status = read_record(&r);
    if (status)
        return status;
    r.hold = r.copy.by_content && !o->keep_rules && S_ISREG(r.copy.mode);
    status = find_target(ctl, o, &r, &dir);
    if (!status && dir) {
        r.dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int err = r.dir < 0 ? -errno : make_lasting(&r);
        char *target = ctl_join(dir, r.copy.name);
        if (err == -EEXIST) {
            ctl_error("%s: exists already; --force replaces it", target);
            status = CTL_FAILED;
        } else if (err) {
            status = ctl_complain(r.dir < 0 ? dir : target, NULL, -err);
        } else {
            print_result(ctl, &r, target);
            if (r.failed)
                status = ctl_complain(target, r.failed, r.failed_errno);
            else if (o->remove)
                status = remove_archived(path);
        }
        free(target);
    }
    if (r.dir >= 0)
        close(r.dir);
    free(dir);
    archive_copy_release(&r.copy);
    return status;
}

int ctl_restore(struct ctl *ctl, int argc, char **argv)
{
    static const struct option longs[] = {{"to", required_argument, NULL, 't'},
        {"force", no_argument, NULL, 'f'}, {"keep-rules", no_argument, NULL, 'k'},
        {"remove", no_argument, NULL, 'r'}, {NULL, 0, NULL, 0}};
    struct options o = {0};
    int c, status = CTL_OK;
    while ((c = ctl_getopt(ctl, argc, argv, "", longs)) != -1) {
        if (c == CTL_GETOPT_DONE)
            return ctl_getopt_status();
        if (c == 't')
            o.to = optarg;
        o.force |= c == 'f';
        o.keep_rules |= c == 'k';
        o.remove |= c == 'r';
    }
    if (optind == argc)
        return ctl_usage(ctl, "which archived files?");
    if (o.to && ctl->mount)
        return ctl_usage(ctl, "--to and --mount say the same thing twice");
    for (; optind < argc; optind++) {
        int one = restore_one(ctl, &o, argv[optind]);
        status = status ? status : one;
    }
    return status;
}
