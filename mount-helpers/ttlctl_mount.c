/*
 * A mount as any program sees it: where it is, its control files, extended attributes.
 */
#include "core/json.h"
#include "mount-helpers/ttlctl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define KEY_PREFIX "user.ttl."
#define JSON_DEPTH 32

char *ctl_join(const char *path, const char *name)
{
    size_t len = strlen(path);
    char *joined;
    if (asprintf(&joined, "%s%s%s", path, len && path[len - 1] == '/' ? "" : "/", name) < 0)
        abort();
    return joined;
}

static bool has_control_directory(const char *path)
{
    struct stat st;
    char *status = ctl_join(path, ".ttlfs/status.json");
    bool has = stat(status, &st) == 0 && S_ISREG(st.st_mode);
    free(status);
    return has;
}

/* By the path's real name, which is the one to show. */
static char *mount_by_name(const char *path)
{
    char *at = realpath(path, NULL);
    if (!at && errno == ENOENT) {
        /* A name that has expired, or is still to be: its directory will do. */
        const char *slash = strrchr(path, '/');
        char *parent = slash ? strndup(path, slash == path ? 1 : (size_t) (slash - path)) : NULL;
        at = realpath(parent ? parent : ".", NULL);
        free(parent);
    }
    while (at && !has_control_directory(at)) {
        char *slash = strrchr(at, '/');
        if (!slash || strcmp(at, "/") == 0) {
            free(at);
            return NULL;
        }
        slash[slash == at] = '\0';
    }
    return at;
}

/* Step by step upwards: works where the directories above the mount may not be searched. */
static char *mount_by_steps(const char *path)
{
    struct stat here, above;
    char *at = strdup(path);
    while (at && stat(at, &here) == 0 && S_ISDIR(here.st_mode)) {
        if (has_control_directory(at))
            return at;
        char *up = ctl_join(at, "..");
        free(at);
        at = up;
        if (stat(at, &above) != 0 || (here.st_dev == above.st_dev && here.st_ino == above.st_ino))
            break;
    }
    free(at);
    return NULL;
}

const char *ctl_mount_of(const char *path)
{
    char *root = mount_by_name(path);
    return ctl_keep(root ? root : mount_by_steps(path));
}

int ctl_find_mount(const struct ctl *ctl, const char *path, const char **ret_root)
{
    struct stat st;
    if (!path)
        path = ctl->mount ? ctl->mount : ".";
    *ret_root = ctl_mount_of(path);
    if (*ret_root)
        return CTL_OK;
    if (stat(path, &st) != 0) {
        ctl_error("%s: %s", path, strerror(errno));
        return CTL_FAILED;
    }
    ctl_error("%s: not on a ttlfs mount", path);
    return CTL_NO_MOUNT;
}

int ctl_check_mount(const char *path)
{
    /* Whatever may have user.* attributes there has this one. */
    if (getxattr(path, KEY_PREFIX "reason", NULL, 0) >= 0)
        return CTL_OK;
    if ((errno != ENODATA && errno != EOPNOTSUPP) || ctl_mount_of(path))
        return CTL_OK;
    ctl_error("%s: not on a ttlfs mount", path);
    return CTL_NO_MOUNT;
}

int ctl_read_file(const char *path, char **ret_text, size_t *ret_len)
{
    size_t len = 0, size = 64 * 1024;
    char *text = malloc(size);
    int fd = open(path, O_RDONLY | O_CLOEXEC), err = 0;
    ssize_t got = 0;
    if (!text)
        abort();
    if (fd < 0) {
        err = -errno;
        goto out;
    }
    while ((got = read(fd, text + len, size - len - 1)) > 0) {
        len += (size_t) got;
        if (size - len > 1)
            continue;
        size *= 2;
        char *more = realloc(text, size);
        if (!more)
            abort();
        text = more;
    }
    if (got < 0)
        err = -errno;
    close(fd);
out:
    if (err) {
        free(text);
        return err;
    }
    text[len] = '\0';
    *ret_text = text;
    *ret_len = len;
    return 0;
}

int ctl_write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC), err = 0;
    if (fd < 0)
        return -errno;
    if (write(fd, text, strlen(text)) < 0)
        err = -errno;
    if (close(fd) != 0 && !err)
        err = -errno;
    return err;
}

bool ctl_parse_json(const char *text, size_t len, bson_t *ret_doc)
{
    struct bson_buffer buffer = {0};
    bool parsed = json_read_object(text, len, JSON_DEPTH, &buffer, NULL) == 0;
    bson_init(ret_doc);
    if (parsed && bsonx_replace(ret_doc, buffer.data, buffer.len) != 0)
        abort();
    bson_buffer_release(&buffer);
    return parsed;
}

int ctl_read_json(const char *root, const char *name, bson_t *ret_doc)
{
    char *control = ctl_join(root, ".ttlfs"), *path = ctl_join(control, name), *text = NULL;
    size_t len = 0;
    int err = ctl_read_file(path, &text, &len), status = CTL_OK;
    if (err) {
        bson_init(ret_doc);
        ctl_error("%s: %s", path, strerror(-err));
        status = CTL_FAILED;
    } else if (!ctl_parse_json(text, len, ret_doc)) {
        ctl_error("%s: this is no JSON object", path);
        status = CTL_FAILED;
    }
    free(text);
    free(path);
    free(control);
    return status;
}

static bool find(const bson_t *doc, const char *path, bson_iter_t *ret_iter)
{
    bson_iter_t iter;
    return bson_iter_init(&iter, doc) && bson_iter_find_descendant(&iter, path, ret_iter);
}

double ctl_double(const bson_t *doc, const char *path, double otherwise)
{
    bson_iter_t iter;
    if (!find(doc, path, &iter))
        return otherwise;
    if (BSON_ITER_HOLDS_DATE_TIME(&iter))
        return (double) bson_iter_date_time(&iter);
    return BSON_ITER_HOLDS_NUMBER(&iter) ? bson_iter_as_double(&iter) : otherwise;
}

int64_t ctl_int(const bson_t *doc, const char *path, int64_t otherwise)
{
    bson_iter_t iter;
    if (!find(doc, path, &iter))
        return otherwise;
    if (BSON_ITER_HOLDS_DATE_TIME(&iter))
        return bson_iter_date_time(&iter);
    if (BSON_ITER_HOLDS_BOOL(&iter))
        return bson_iter_bool(&iter);
    return BSON_ITER_HOLDS_NUMBER(&iter) ? bson_iter_as_int64(&iter) : otherwise;
}

bool ctl_part_at(const bson_iter_t *iter, bson_t *ret_part)
{
    const uint8_t *data;
    uint32_t len;
    if (BSON_ITER_HOLDS_DOCUMENT(iter))
        bson_iter_document(iter, &len, &data);
    else if (BSON_ITER_HOLDS_ARRAY(iter))
        bson_iter_array(iter, &len, &data);
    else
        return false;
    return bson_init_static(ret_part, data, len);
}

bool ctl_part(const bson_t *doc, const char *path, bson_t *ret_part)
{
    bson_iter_t iter;
    return find(doc, path, &iter) && ctl_part_at(&iter, ret_part);
}

const char *ctl_string(const bson_t *doc, const char *path)
{
    bson_iter_t iter;
    return find(doc, path, &iter) && BSON_ITER_HOLDS_UTF8(&iter) ? bson_iter_utf8(&iter, NULL)
                                                                 : NULL;
}

int ctl_getxattr(const char *path, const char *name, char **ret_value)
{
    static char value[XATTR_SIZE_MAX];
    ssize_t len = getxattr(path, name, value, sizeof value);
    if (len < 0)
        return -errno;
    *ret_value = strndup(value, (size_t) len);
    if (!*ret_value)
        abort();
    return 0;
}

const char *ctl_key(const char *key)
{
    char *name;
    if (strncmp(key, "user.", 5) == 0)
        return key;
    bool field = strncmp(key, "doc.", 4) == 0;
    if (asprintf(&name, "%s%s", field ? "user." : KEY_PREFIX, key) < 0)
        abort();
    return ctl_keep(name);
}

const char *ctl_short_key(const char *name)
{
    size_t len = strlen(KEY_PREFIX);
    if (strncmp(name, KEY_PREFIX, len) == 0)
        return name + len;
    return strncmp(name, "user.doc.", 9) == 0 ? name + 5 : name;
}

int ctl_complain(const char *path, const char *key, int err)
{
    bool by_rule = err == EINVAL || err == EEXIST || err == ENODATA || err == ECANCELED;
    char *own = NULL;
    if (by_rule && ctl_getxattr(path, "user.ttl.error", &own) != 0)
        own = NULL;
    const char *why = own && own[0] ? own : strerror(err);
    if (key)
        ctl_error("%s: %s: %s", path, key, why);
    else
        ctl_error("%s: %s", path, why);
    free(own);
    return by_rule ? CTL_REFUSED : CTL_FAILED;
}
