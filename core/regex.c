#include "core/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/*
 * Filters come from users: backtracking ends here. A step costs some 5 to 50 ns, so this is
 * well below a second at worst.
 */
#define MATCH_STEPS_MAX 1000000
#define MATCH_HEAP_MAX_KIB 4096

#define ERROR_TEXT_BYTES 120
/* More of it would help nobody: keys of strings have four bytes. */
#define PREFIX_MAX_BYTES 16

struct regex {
    pcre2_code *code;
    pcre2_match_context *context;
    size_t prefix_len;
    char prefix[PREFIX_MAX_BYTES]; /* what every match begins with */
};

static int options_to_flags(const char *options, uint32_t *ret_flags, struct reason *why)
{
    uint32_t flags = PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_NEVER_BACKSLASH_C;
    for (; *options; options++) {
        switch (*options) {
        case 'i':
            flags |= PCRE2_CASELESS;
            break;
        case 'm':
            flags |= PCRE2_MULTILINE;
            break;
        case 's':
            flags |= PCRE2_DOTALL;
            break;
        case 'x':
            flags |= PCRE2_EXTENDED;
            break;
        case 'u':
            break;
        default:
            return reason_set(why, EINVAL, "unknown option %c of $regex", *options);
        }
    }
    *ret_flags = flags;
    return 0;
}

static int compile(struct regex *regex, const char *pattern, uint32_t flags, struct reason *why)
{
    int error;
    size_t offset;
    regex->code =
        pcre2_compile((PCRE2_SPTR) pattern, strlen(pattern), flags, &error, &offset, NULL);
    if (!regex->code) {
        char text[ERROR_TEXT_BYTES];
        if (error == PCRE2_ERROR_HEAP_FAILED)
            return -ENOMEM;
        pcre2_get_error_message(error, (PCRE2_UCHAR *) text, sizeof text);
        return reason_set(why, EINVAL, "$regex: %s (at byte %zu)", text, offset);
    }
    regex->context = pcre2_match_context_create(NULL);
    if (!regex->context)
        return -ENOMEM;
    pcre2_set_match_limit(regex->context, MATCH_STEPS_MAX);
    pcre2_set_heap_limit(regex->context, MATCH_HEAP_MAX_KIB);
    return 0;
}

static bool is_plain(char c)
{
    return isascii((unsigned char) c) &&
           (isalnum((unsigned char) c) || (c != '\0' && strchr(" _-/:@%,;=<>~!\"'&", c)));
}

static void find_prefix(struct regex *regex, const char *pattern, uint32_t flags)
{
    const char *text = pattern + 1;
    size_t len = 0;
    /* Other options change what plain text means, or where ^ holds. */
    if (pattern[0] != '^' || strchr(pattern, '|') ||
        flags & (PCRE2_CASELESS | PCRE2_MULTILINE | PCRE2_EXTENDED))
        return;
    while (len < PREFIX_MAX_BYTES && is_plain(text[len]))
        len++;
    /* The last one may be repeated any number of times, also never. */
    if (len && text[len] != '\0' && strchr("*?{", text[len]))
        len--;
    memcpy(regex->prefix, text, len);
    regex->prefix_len = len;
}

const char *regex_prefix(const struct regex *regex, size_t *ret_len)
{
    *ret_len = regex->prefix_len;
    return regex->prefix;
}

int regex_new(
    const char *pattern, const char *options, struct regex **ret_regex, struct reason *why)
{
    uint32_t flags = 0;
    int rc = options_to_flags(options, &flags, why);
    if (rc != 0)
        return rc;
    if (strlen(pattern) > REGEX_MAX_PATTERN_BYTES)
        return reason_set(why, EINVAL, "$regex is longer than %d bytes", REGEX_MAX_PATTERN_BYTES);
    struct regex *regex = calloc(1, sizeof *regex);
    if (!regex)
        return -ENOMEM;
    rc = compile(regex, pattern, flags, why);
    if (rc != 0) {
        regex_free(regex);
        return rc;
    }
    find_prefix(regex, pattern, flags);
    *ret_regex = regex;
    return 0;
}

void regex_free(struct regex *regex)
{
    if (!regex)
        return;
    pcre2_match_context_free(regex->context);
    pcre2_code_free(regex->code);
    free(regex);
}

bool regex_search(const struct regex *regex, const char *text, size_t len)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    if (!data)
        return false;
    int rc = pcre2_match(regex->code, (PCRE2_SPTR) text, len, 0, 0, data, regex->context);
    pcre2_match_data_free(data);
    return rc >= 0;
}
