#include "ttl/document_fields.h"

#include "core/fields.h"
#include "ttl/rules.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static const struct {
    unsigned int bit;
    const char *name;
} system_fields[] = {
    {SYSTEM_TS, "_ts"},
    {SYSTEM_CREATED, "_created"},
    {SYSTEM_ACCESSED, "_accessed"},
    {SYSTEM_SIZE, "_size"},
    {SYSTEM_ID, "_id"},
};

void system_values_of(const struct dentry *d, struct system_values *ret_values)
{
    const struct document *doc = d->doc;
    ret_values->ts_ms = doc->ts_ms;
    ret_values->created_ms = doc->created_ms;
    ret_values->accessed_ms = doc->accessed_ms;
    ret_values->size = doc->size;
    ret_values->name_len = d->name_len;
    memcpy(ret_values->name, d->name, d->name_len + 1U);
}

unsigned int system_fields_read(const struct filter *filter)
{
    unsigned int set = 0;
    for (size_t i = 0; filter && i < sizeof system_fields / sizeof system_fields[0]; i++)
        if (filter_reads(filter, system_fields[i].name))
            set |= system_fields[i].bit;
    return set;
}

bool system_field_is(const char *path)
{
    size_t len = strcspn(path, ".");
    for (size_t i = 0; i < sizeof system_fields / sizeof system_fields[0]; i++)
        if (strlen(system_fields[i].name) == len && memcmp(path, system_fields[i].name, len) == 0)
            return true;
    return false;
}

int system_fields_set(bson_t *fields, unsigned int which, const struct system_values *values)
{
    int err = 0;
    if (which & SYSTEM_TS)
        err = fields_set_date(fields, "_ts", values->ts_ms);
    if (!err && which & SYSTEM_CREATED)
        err = fields_set_date(fields, "_created", values->created_ms);
    if (!err && which & SYSTEM_ACCESSED)
        err = fields_set_date(fields, "_accessed", values->accessed_ms);
    if (!err && which & SYSTEM_SIZE)
        err = fields_set_int64(fields, "_size", (int64_t) values->size);
    if (!err && which & SYSTEM_ID)
        err = fields_set_utf8(fields, "_id", values->name, values->name_len);
    return err;
}

static bool is_bare_text(const char *text, size_t len)
{
    static const char *const words[] = {"true", "false", "null"};
    if (!len || !(isalpha((unsigned char) text[0]) || (unsigned char) text[0] >= 0x80))
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (len == strlen(words[i]) && memcmp(text, words[i], len) == 0)
            return false;
    return bson_utf8_validate(text, len, false);
}

int attribute_field_parse(const char *text, size_t len, bson_t *ret_value, struct reason *why)
{
    if (!is_bare_text(text, len))
        return fields_parse_value(text, len, ret_value, why);
    bson_init(ret_value);
    return bson_append_utf8(ret_value, "", 0, text, (int) len) ? 0 : -ENOMEM;
}

int attribute_fields_add(bson_t *fields, const struct xattr *attributes)
{
    const size_t prefix = sizeof DOC_XATTR_PREFIX - 1;
    for (const struct xattr *x = attributes; x; x = x->next) {
        if (strncmp(x->bytes, DOC_XATTR_PREFIX, prefix) != 0)
            continue;
        bson_t value;
        int err = attribute_field_parse(xattr_value(x), x->value_len, &value, NULL);
        if (!err)
            err = fields_add(fields, x->bytes + prefix, &value);
        bson_destroy(&value);
        if (err == -ENOMEM)
            return err;
    }
    return 0;
}
