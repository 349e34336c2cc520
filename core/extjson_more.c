/*
 * The wrappers with two members, and those with an encoding of their own.
 */
#include "core/extjson_impl.h"

#include <string.h>

/* The flags of a regular expression, in the order in which BSON wants them. */
#define REGEX_OPTIONS "ilmsux"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char) (c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int base64_value(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int) (found - digits) : -1;
}

/* Base64 by RFC 4648 with its padding, added as bytes. */
static int add_base64(struct wrapper *wrapper, const char *text)
{
    size_t len = strlen(text);
    if (len % 4 != 0)
        return WRAPPER_WRONG;
    for (size_t i = 0; i < len; i += 4) {
        unsigned int padding = i + 4 < len ? 0 : (text[i + 3] == '=') + (text[i + 2] == '=');
        uint32_t bits = 0;
        for (unsigned int j = 0; j < 4; j++) {
            int value = j < 4 - padding ? base64_value(text[i + j]) : 0;
            if (value < 0)
                return WRAPPER_WRONG;
            bits = bits << 6 | (uint32_t) value;
        }
        const uint8_t bytes[3] = {(uint8_t) (bits >> 16), (uint8_t) (bits >> 8), (uint8_t) bits};
        int rc = wrapper_add(wrapper, bytes, 3 - padding);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* One or two hexadecimal digits. */
static bool subtype_of(const bson_iter_t *iter, uint8_t *ret_subtype)
{
    const char *text = wrapper_text(iter);
    size_t len = text ? strlen(text) : 0;
    if (len < 1 || len > 2)
        return false;
    int high = len == 2 ? hex_value(text[0]) : 0, low = hex_value(text[len - 1]);
    if (high < 0 || low < 0)
        return false;
    *ret_subtype = (uint8_t) (high << 4 | low);
    return true;
}

static int add_binary(
    struct wrapper *wrapper, const bson_iter_t *base64, const bson_iter_t *subtype)
{
    uint8_t type;
    const char *text = wrapper_text(base64);
    if (!text || !subtype_of(subtype, &type))
        return WRAPPER_WRONG;
    size_t offset = wrapper->out->len;
    int rc = wrapper_add_uint32(wrapper, 0);
    if (rc == 0)
        rc = wrapper_add(wrapper, &type, 1);
    /* The old generic subtype has its length inside once more. */
    if (rc == 0 && type == BSON_SUBTYPE_BINARY_DEPRECATED)
        rc = wrapper_add_uint32(wrapper, 0);
    size_t start = wrapper->out->len;
    if (rc == 0)
        rc = add_base64(wrapper, text);
    if (rc != 0)
        return rc;
    bson_buffer_set_length(wrapper->out, offset, wrapper->out->len - offset - 5);
    if (type == BSON_SUBTYPE_BINARY_DEPRECATED)
        bson_buffer_set_length(wrapper->out, offset + 5, wrapper->out->len - start);
    return 0;
}

int unwrap_binary(struct wrapper *wrapper)
{
    bson_iter_t base64, subtype;
    if (!wrapper_two_members(&wrapper->first, "base64", "subType", &base64, &subtype))
        return WRAPPER_WRONG;
    return add_binary(wrapper, &base64, &subtype);
}

int unwrap_legacy_binary(struct wrapper *wrapper)
{
    return add_binary(
        wrapper, wrapper_member(wrapper, "$binary"), wrapper_member(wrapper, "$type"));
}

int unwrap_uuid(struct wrapper *wrapper)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    uint8_t bytes[5 + 16] = {16, 0, 0, 0, BSON_SUBTYPE_UUID};
    size_t digits = 0;
    const char *text = wrapper_text(&wrapper->first);
    if (!text || strlen(text) != sizeof form - 1)
        return WRAPPER_WRONG;
    for (size_t i = 0; form[i]; i++) {
        int value = hex_value(text[i]);
        if (form[i] == '-' ? text[i] != '-' : value < 0)
            return WRAPPER_WRONG;
        if (form[i] == '-')
            continue;
        bytes[5 + digits / 2] = (uint8_t) (bytes[5 + digits / 2] << 4 | value);
        digits++;
    }
    return wrapper_add(wrapper, bytes, sizeof bytes);
}

static int add_regex(struct wrapper *wrapper, const char *pattern, const char *options)
{
    char sorted[sizeof REGEX_OPTIONS] = "";
    size_t count = 0;
    if (!pattern || !options || options[strspn(options, REGEX_OPTIONS)] != '\0')
        return WRAPPER_WRONG;
    for (const char *option = REGEX_OPTIONS; *option; option++) {
        if (strchr(options, *option))
            sorted[count++] = *option;
    }
    int rc = wrapper_add(wrapper, pattern, strlen(pattern) + 1);
    return rc != 0 ? rc : wrapper_add(wrapper, sorted, count + 1);
}

int unwrap_regex(struct wrapper *wrapper)
{
    bson_iter_t pattern, options;
    if (!wrapper_two_members(&wrapper->first, "pattern", "options", &pattern, &options))
        return WRAPPER_WRONG;
    return add_regex(wrapper, wrapper_text(&pattern), wrapper_text(&options));
}

/* $regex is an operator of filters, too: what is not a wrapper is left for them to judge. */
int unwrap_legacy_regex(struct wrapper *wrapper)
{
    const char *options =
        wrapper->count == 2 ? wrapper_text(wrapper_member(wrapper, "$options")) : "";
    int rc = add_regex(wrapper, wrapper_text(wrapper_member(wrapper, "$regex")), options);
    return rc == WRAPPER_WRONG ? WRAPPER_NONE : rc;
}

int unwrap_code_with_scope(struct wrapper *wrapper)
{
    const bson_iter_t *code = wrapper_member(wrapper, "$code");
    const bson_iter_t *scope = wrapper_member(wrapper, "$scope");
    if (!BSON_ITER_HOLDS_UTF8(code) || !BSON_ITER_HOLDS_DOCUMENT(scope))
        return WRAPPER_WRONG;
    size_t offset = wrapper->out->len;
    int rc = wrapper_add_uint32(wrapper, 0);
    if (rc == 0)
        rc = wrapper_add_value(wrapper, code);
    if (rc == 0)
        rc = wrapper_add_value(wrapper, scope);
    if (rc == 0)
        bson_buffer_set_length(wrapper->out, offset, wrapper->out->len - offset);
    return rc;
}
