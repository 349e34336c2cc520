#include "fs/path_text.h"

#include "core/utf8.h"
#include "ttl/limbo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *path_text(const struct collection *c, char buf[PATH_TEXT_BYTES], size_t *ret_len)
{
    size_t at = PATH_TEXT_BYTES - 1;
    buf[at] = '\0';
    if (!c->doc.links) {
        const char *text = c->doc.ino == TREE_ROOT_INO ? "/" : "(removed)";
        *ret_len = strlen(text);
        return text;
    }
    for (const struct dentry *d = c->doc.links; d; d = d->parent->doc.links) {
        if ((size_t) d->name_len + 1 > at)
            break;
        at -= d->name_len;
        memcpy(buf + at, d->name, d->name_len);
        buf[--at] = '/';
    }
    *ret_len = PATH_TEXT_BYTES - 1 - at;
    return buf + at;
}

char *name_distinct(const char *text, size_t len, uint64_t number)
{
    char *copy;
    if (len < PATH_TEXT_BYTES - DOCUMENT_NAME_MAX_BYTES - 2 &&
        utf8_is_valid((const uint8_t *) text, len))
        return strdup(text);
    return asprintf(&copy, "%s #%llu", text, (unsigned long long) number) < 0 ? NULL : copy;
}

char *path_text_distinct(const struct collection *c)
{
    char buf[PATH_TEXT_BYTES];
    size_t len;
    const char *path = path_text(c, buf, &len);
    return name_distinct(path, len, c->doc.ino);
}

void path_text_member(struct text *text, const struct collection *c)
{
    char buf[PATH_TEXT_BYTES];
    size_t len;
    text_key(text, "collection");
    if (!c) {
        text_put(text, "null");
        return;
    }
    const char *path = path_text(c, buf, &len);
    text_string(text, path, len);
}

void path_text_place(struct text *text, const struct dentry *d)
{
    struct archive_origin origin;
    if (!dentry_in_limbo(d) || limbo_origin(d, &origin) != 0) {
        path_text_member(text, d->parent);
        text_member_name(text, d->name, d->name_len);
        return;
    }
    text_key(text, "collection");
    text_put(text, "\"/");
    text_string_part(text, origin.path, strlen(origin.path));
    text_put(text, "\"");
    text_member_name(text, origin.name, strlen(origin.name));
    archive_origin_release(&origin);
}
