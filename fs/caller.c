#include "fs/caller.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Groups: NGROUPS_MAX of them, each with up to ten digits and a blank. */
#define STATUS_MAX_BYTES (65536 * 11 + 8192)
#define STATUS_FIRST_BYTES 4096

/* The whole of a small file in /proc, terminated; NULL when it cannot be read. */
static char *read_all(const char *path)
{
    size_t size = STATUS_FIRST_BYTES, len = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd >= 0 ? malloc(size) : NULL;
    while (text) {
        ssize_t n = read(fd, text + len, size - len - 1);
        if (n <= 0)
            break;
        len += (size_t) n;
        if (len + 1 < size)
            continue;
        char *more = size < STATUS_MAX_BYTES ? realloc(text, size * 2) : NULL;
        if (!more)
            break;
        text = more;
        size *= 2;
    }
    if (fd >= 0)
        close(fd);
    if (text)
        text[len] = '\0';
    return text;
}

/*
 * What stands behind a key at the start of a line; NULL when it is not there. The first line has the name
 * that the process gave itself, which may look like a key.
 */
static const char *value_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    while (at && (at == text || at[-1] != '\n'))
        at = strstr(at + 1, key);
    return at ? at + strlen(key) : NULL;
}

static void read_groups(const char *at, struct caller *caller)
{
    size_t cap = 0;
    for (;;) {
        char *end;
        unsigned long gid = strtoul(at, &end, 10);
        const char *line_end = strchr(at, '\n');
        if (end == at || (line_end && end > line_end))
            return;
        if (caller->ngroups == cap) {
            size_t more = cap ? cap * 2 : 16;
            uint32_t *groups = realloc(caller->groups, more * sizeof *groups);
            if (!groups)
                return;
            caller->groups = groups;
            cap = more;
        }
        caller->groups[caller->ngroups++] = (uint32_t) gid;
        at = end;
    }
}

void caller_init(struct caller *ret_caller, fuse_req_t req)
{
    const struct fuse_ctx *ctx = fuse_req_ctx(req);
    *ret_caller = (struct caller){
        .uid = ctx->uid, .gid = ctx->gid, .capabilities = ctx->uid == 0 ? UINT64_MAX : 0};
}

void caller_load(struct caller *caller, fuse_req_t req)
{
    int pid = (int) fuse_req_ctx(req)->pid;
    char path[32];
    if (caller->loaded)
        return;
    caller->loaded = true;
    (void) snprintf(path, sizeof path, "/proc/%d/status", pid);
    char *text = pid > 0 ? read_all(path) : NULL;
    if (!text)
        return;
    const char *value = value_of(text, "CapEff:");
    if (value)
        caller->capabilities = strtoull(value, NULL, 16);
    value = value_of(text, "Groups:");
    if (value)
        read_groups(value, caller);
    free(text);
}
