/*
 * ttlctl set, unset, get, hold: rules and figures of one file or directory.
 */
#include "mount-helpers/ttlctl.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* What is worth showing although it is not listed. Rules are shown when they are in force. */
static const char *const directory_keys[] = {"idle", "max", "refresh", "jitter", "visibility",
    "capped", "timeseries", "on-expire", "prune", "hold", NULL};
static const char *const file_keys[] = {"deadline", "remaining", "reason", "created", "accessed",
    "seconds", "expireAt", "idle", "max", "refresh", "hold", NULL};

/* An attribute that was read. */
struct pair {
    char *name; /* in full */
    char *value;
};

struct pairs {
    struct pair *at;
    size_t n, size;
};

static void pairs_add(struct pairs *pairs, const char *name, char *value)
{
    if (pairs->n == pairs->size) {
        pairs->size = pairs->size ? 2 * pairs->size : 16;
        pairs->at = realloc(pairs->at, pairs->size * sizeof *pairs->at);
        if (!pairs->at)
            abort();
    }
    char *copy = strdup(name);
    if (!copy)
        abort();
    struct pair *pair = &pairs->at[pairs->n++];
    pair->name = copy;
    pair->value = value;
}

static void pairs_release(struct pairs *pairs)
{
    for (size_t i = 0; i < pairs->n; i++) {
        free(pairs->at[i].name);
        free(pairs->at[i].value);
    }
    free(pairs->at);
}

static bool pairs_have(const struct pairs *pairs, const char *name)
{
    for (size_t i = 0; i < pairs->n; i++)
        if (strcmp(pairs->at[i].name, name) == 0)
            return true;
    return false;
}

/* {"path":"…","attributes":{"user.ttl.idle":"1h"}} */
static void print_json(const char *path, const struct pairs *pairs)
{
    putchar('{');
    ctl_json_path(stdout, "path", path);
    fputs(",\"attributes\":{", stdout);
    for (size_t i = 0; i < pairs->n; i++) {
        if (i > 0)
            putchar(',');
        ctl_json_string(stdout, pairs->at[i].name);
        putchar(':');
        ctl_json_string(stdout, pairs->at[i].value);
    }
    fputs("}}\n", stdout);
}

static void print_pairs(const struct pairs *pairs)
{
    for (size_t i = 0; i < pairs->n; i++) {
        char *key = ctl_escape(ctl_short_key(pairs->at[i].name));
        char *value = ctl_escape(pairs->at[i].value);
        printf("%s=%s\n", key, value);
        free(value);
        free(key);
    }
}

/* A single value is given to programs as it is. */
static void print_value(const char *value)
{
    char *escaped = isatty(STDOUT_FILENO) ? ctl_escape(value) : NULL;
    printf("%s\n", escaped ? escaped : value);
    free(escaped);
}

static int get_named(const struct ctl *ctl, const char *path, char **keys, int n)
{
    struct pairs pairs = {0};
    int status = CTL_OK;
    for (int i = 0; i < n; i++) {
        const char *name = ctl_key(keys[i]);
        char *value;
        int err = ctl_getxattr(path, name, &value);
        if (!err) {
            pairs_add(&pairs, name, value);
            continue;
        }
        int failed = CTL_FAILED;
        if (err == -ENODATA)
            ctl_error("%s: %s is not set", path, keys[i]);
        else
            failed = ctl_complain(path, keys[i], -err);
        status = status ? status : failed;
    }
    if (ctl->json)
        print_json(path, &pairs);
    else if (n > 1)
        print_pairs(&pairs);
    else if (pairs.n == 1)
        print_value(pairs.at[0].value);
    pairs_release(&pairs);
    return status;
}

/* What is set here: the listed attributes of ours. */
static int add_listed(const char *path, struct pairs *pairs)
{
    char *names = malloc(XATTR_LIST_MAX), *value;
    if (!names)
        abort();
    ssize_t len = listxattr(path, names, XATTR_LIST_MAX);
    int err = len < 0 ? -errno : 0;
    for (const char *name = names; len > 0 && name < names + len; name += strlen(name) + 1) {
        if (ctl_short_key(name) != name && ctl_getxattr(path, name, &value) == 0)
            pairs_add(pairs, name, value);
    }
    free(names);
    return err;
}

static int get_all(const struct ctl *ctl, const char *path)
{
    struct pairs pairs = {0};
    struct stat st;
    if (stat(path, &st) != 0)
        return ctl_complain(path, NULL, errno);
    const char *const *keys = S_ISDIR(st.st_mode) ? directory_keys : file_keys;
    for (; *keys; keys++) {
        const char *name = ctl_key(*keys);
        char *value;
        if (ctl_getxattr(path, name, &value) == 0)
            pairs_add(&pairs, name, value);
    }
    struct pairs listed = {0};
    int err = add_listed(path, &listed);
    for (size_t i = 0; i < listed.n; i++) {
        if (!pairs_have(&pairs, listed.at[i].name)) {
            pairs_add(&pairs, listed.at[i].name, listed.at[i].value);
            listed.at[i].value = NULL;
        }
    }
    pairs_release(&listed);
    if (ctl->json)
        print_json(path, &pairs);
    else
        print_pairs(&pairs);
    pairs_release(&pairs);
    return err ? ctl_complain(path, NULL, -err) : CTL_OK;
}

int ctl_get(struct ctl *ctl, int argc, char **argv)
{
    if (ctl_getopt(ctl, argc, argv, "", NULL) == CTL_GETOPT_DONE)
        return ctl_getopt_status();
    if (optind == argc)
        return ctl_usage(ctl, "PATH is missing");
    const char *path = argv[optind++];
    int status = ctl_check_mount(path);
    if (status)
        return status;
    if (optind == argc)
        return get_all(ctl, path);
    return get_named(ctl, path, argv + optind, argc - optind);
}

/* {"path":"…","set":["user.ttl.idle"]} */
static void print_done(
    const struct ctl *ctl, const char *path, const char *verb, char **keys, int n)
{
    if (!ctl->json)
        return;
    putchar('{');
    ctl_json_path(stdout, "path", path);
    printf(",\"%s\":[", verb);
    for (int i = 0; i < n; i++) {
        char *key = strndup(keys[i], strcspn(keys[i], "="));
        if (i > 0)
            putchar(',');
        ctl_json_string(stdout, key ? ctl_key(key) : "");
        free(key);
    }
    fputs("]}\n", stdout);
}

/* Sets one KEY=VALUE. Returns a status. */
static int set_one(const char *path, const char *assignment)
{
    const char *value = strchr(assignment, '=') + 1;
    char *key = strndup(assignment, (size_t) (value - 1 - assignment));
    if (!key)
        abort();
    int status = CTL_OK;
    if (setxattr(path, ctl_key(key), value, strlen(value), 0) != 0)
        status = ctl_complain(path, key, errno);
    free(key);
    return status;
}

static const struct option set_options[] = {{"wait", no_argument, NULL, 'w'}, {NULL, 0, NULL, 0}};

int ctl_set(struct ctl *ctl, int argc, char **argv)
{
    bool wait = false;
    int c, status = CTL_OK, done = 0;
    while ((c = ctl_getopt(ctl, argc, argv, "", set_options)) != -1) {
        if (c == CTL_GETOPT_DONE)
            return ctl_getopt_status();
        wait = true;
    }
    if (argc - optind < 2)
        return ctl_usage(ctl, "PATH and KEY=VALUE are needed");
    const char *path = argv[optind++];
    for (int i = optind; i < argc; i++)
        if (!strchr(argv[i], '=') || argv[i][0] == '=')
            return ctl_usage(ctl, "%s is not KEY=VALUE", argv[i]);
    status = ctl_check_mount(path);
    if (status)
        return status;
    const char *root = ctl_mount_of(path);
    struct ctl_progress *progress = ctl_progress_begin(ctl, root, CTL_FILING);
    while (optind + done < argc && status == CTL_OK) {
        status = set_one(path, argv[optind + done]);
        done += status == CTL_OK;
    }
    ctl_progress_end(progress);
    if (wait && status == CTL_OK) {
        bson_t result;
        status = ctl_find_mount(ctl, path, &root);
        if (status == CTL_OK) {
            status = ctl_pass(ctl, root, &result);
            bson_destroy(&result);
        }
    }
    print_done(ctl, path, "set", argv + optind, done);
    return status;
}

int ctl_unset(struct ctl *ctl, int argc, char **argv)
{
    int status = CTL_OK, done = 0;
    if (ctl_getopt(ctl, argc, argv, "", NULL) == CTL_GETOPT_DONE)
        return ctl_getopt_status();
    if (argc - optind < 2)
        return ctl_usage(ctl, "PATH and KEY are needed");
    const char *path = argv[optind++];
    status = ctl_check_mount(path);
    if (status)
        return status;
    struct ctl_progress *progress = ctl_progress_begin(ctl, ctl_mount_of(path), CTL_FILING);
    for (; optind + done < argc && status == CTL_OK; done++) {
        const char *key = argv[optind + done];
        if (removexattr(path, ctl_key(key)) == 0)
            continue;
        if (errno == ENODATA)
            ctl_error("%s: %s is not set here", path, key);
        status = errno == ENODATA ? CTL_FAILED : ctl_complain(path, key, errno);
        break;
    }
    ctl_progress_end(progress);
    print_done(ctl, path, "unset", argv + optind, done);
    return status;
}

#define HOLD "user.ttl.hold"

static bool is_held(const char *path)
{
    char *value = NULL;
    bool held = ctl_getxattr(path, HOLD, &value) == 0 && strcmp(value, "yes") == 0;
    free(value);
    return held;
}

/*
 * Nothing here may hold `path` any more: its own rule goes, and where a directory above holds it,
 * the nearest definition wins.
 */
static int release(const char *path)
{
    if (removexattr(path, HOLD) != 0 && errno != ENODATA)
        return -errno;
    return is_held(path) && setxattr(path, HOLD, "no", 2, 0) != 0 ? -errno : 0;
}

/* Holds one path or lets it go. Returns a status. */
static int hold(const struct ctl *ctl, const char *path, bool releasing)
{
    int status = ctl_check_mount(path), err = 0;
    if (status)
        return status;
    struct ctl_progress *progress = ctl_progress_begin(ctl, ctl_mount_of(path), CTL_FILING);
    if (releasing)
        err = release(path);
    else if (setxattr(path, HOLD, "yes", 3, 0) != 0)
        err = -errno;
    ctl_progress_end(progress);
    return err ? ctl_complain(path, "hold", -err) : CTL_OK;
}

static const struct option hold_options[] = {
    {"release", no_argument, NULL, 'r'}, {NULL, 0, NULL, 0}};

int ctl_hold(struct ctl *ctl, int argc, char **argv)
{
    bool releasing = false;
    int c, status = CTL_OK;
    while ((c = ctl_getopt(ctl, argc, argv, "", hold_options)) != -1) {
        if (c == CTL_GETOPT_DONE)
            return ctl_getopt_status();
        releasing = true;
    }
    if (optind == argc)
        return ctl_usage(ctl, "PATH is missing");
    if (ctl->json)
        putchar('[');
    for (int first = optind; optind < argc; optind++) {
        const char *path = argv[optind];
        int failed = hold(ctl, path, releasing);
        status = status ? status : failed;
        if (ctl->json) {
            fputs(optind > first ? ",{" : "{", stdout);
            ctl_json_path(stdout, "path", path);
            printf(",\"hold\":%s}", is_held(path) ? "true" : "false");
        }
    }
    if (ctl->json)
        fputs("]\n", stdout);
    return status;
}
