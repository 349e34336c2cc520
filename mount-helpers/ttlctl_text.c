/*
 * What ttlctl prints: text for people, JSON for programs.
 *
 * File names are bytes. Nothing that stands in one may move a terminal's cursor or break a line, so
 * what people see is escaped, on terminals and elsewhere alike. JSON can hold UTF-8 only.
 */
#include "core/dates.h"
#include "core/utf8.h"
#include "mount-helpers/ttlctl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct kept {
    struct kept *next;
    char *text;
};

static struct kept *kept;

char *ctl_keep(char *text)
{
    if (!text)
        return NULL;
    struct kept *one = malloc(sizeof *one);
    if (!one)
        abort();
    *one = (struct kept){kept, text};
    kept = one;
    return text;
}

char *ctl_escape(const char *text)
{
    const uint8_t *at = (const uint8_t *) text, *end = at + strlen(text);
    char *out = malloc(4 * (size_t) (end - at) + 1), *to = out;
    if (!out)
        abort();
    while (at < end) {
        size_t bytes = utf8_sequence_bytes(at, end);
        /* U+0080 to U+009F are control characters, too: terminals obey them. */
        bool control = *at < 0x20 || *at == 0x7F || (bytes == 2 && at[0] == 0xC2 && at[1] < 0xA0);
        if (bytes > 0 && !control) {
            memcpy(to, at, bytes);
            to += bytes;
            at += bytes;
            continue;
        }
        const char *letters = "\nn\tt\rr\033e";
        const char *found = *at ? strchr(letters, *at) : NULL;
        if (found && (found - letters) % 2 == 0)
            to += snprintf(to, 5, "\\%c", found[1]);
        else
            to += snprintf(to, 5, "\\x%02X", *at);
        at++;
    }
    *to = '\0';
    return out;
}

void ctl_error(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0)
        abort();
    char *escaped = ctl_escape(text);
    fprintf(stderr, "ttlctl: %s\n", escaped);
    free(escaped);
    free(text);
}

size_t ctl_width(const char *escaped)
{
    size_t width = 0;
    for (; *escaped; escaped++)
        width += ((unsigned char) *escaped & 0xC0) != 0x80;
    return width;
}

size_t ctl_columns(FILE *out, size_t otherwise)
{
    struct winsize size;
    const char *given = getenv("COLUMNS");
    int64_t columns;
    if (given && ctl_number(given, 1, 10000, &columns))
        return (size_t) columns;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return otherwise;
}

void ctl_json_string(FILE *out, const char *text)
{
    const uint8_t *at = (const uint8_t *) text, *end = at + strlen(text);
    putc('"', out);
    while (at < end) {
        size_t bytes = utf8_sequence_bytes(at, end);
        if (bytes == 0) {
            fputs("\xEF\xBF\xBD", out);
            bytes = 1;
        } else if (*at == '"' || *at == '\\') {
            fprintf(out, "\\%c", *at);
        } else if (*at < 0x20 || *at == 0x7F) {
            fprintf(out, "\\u%04x", *at);
        } else {
            fwrite(at, 1, bytes, out);
        }
        at += bytes;
    }
    putc('"', out);
}

void ctl_json_path(FILE *out, const char *name, const char *text)
{
    fprintf(out, "\"%s\":", name);
    ctl_json_string(out, text);
    if (utf8_is_valid((const uint8_t *) text, strlen(text)))
        return;
    fprintf(out, ",\"%sHex\":\"", name);
    for (; *text; text++)
        fprintf(out, "%02x", (unsigned char) *text);
    putc('"', out);
}

void ctl_duration(double seconds, char *ret_text, size_t size)
{
    static const struct {
        int64_t seconds;
        char letter;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    if (seconds < 10) {
        (void) snprintf(ret_text, size, "%.3f s", seconds);
        return;
    }
    if (seconds < 60) {
        (void) snprintf(ret_text, size, "%.1f s", seconds);
        return;
    }
    /* Beyond any calendar a double does not fit int64. */
    int64_t whole = seconds < 1e17 ? (int64_t) seconds : INT64_C(100000000000000000);
    size_t i = 0;
    while (whole < units[i].seconds)
        i++;
    (void) snprintf(ret_text, size, "%lld%c %lld%c", (long long) (whole / units[i].seconds),
        units[i].letter, (long long) (whole % units[i].seconds / units[i + 1].seconds),
        units[i + 1].letter);
}

void ctl_bytes(int64_t bytes, char *ret_text, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double) bytes;
    size_t i = 0;
    while (value >= 1024 && i + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        i++;
    }
    (void) snprintf(ret_text, size, i ? "%.1f %s" : "%.0f %s", value, units[i]);
}

void ctl_json_document(FILE *out, const bson_t *doc)
{
    char *json = bson_as_relaxed_extended_json(doc, NULL);
    fputs(json ? json : "{}", out);
    bson_free(json);
}

void ctl_date(int64_t ms, char *ret_text)
{
    if (ms == INT64_MAX)
        memcpy(ret_text, "never", sizeof "never");
    else
        date_format(ms, ret_text);
}

int ctl_finish(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (errno != EPIPE)
        ctl_error("stdout: %s", strerror(errno));
    return status ? status : CTL_FAILED;
}
