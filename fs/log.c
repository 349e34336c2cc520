#include "fs/log.h"

#include "core/utf8.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LINE_BYTES 1024
/* What users can bring about is logged up to so many lines a second, after so many at once. */
#define LINES_PER_SECOND 100
#define LINES_AT_ONCE 1000

static atomic_int use_syslog, debug_on;

/* How much may still be logged; under its own lock, which is innermost. */
static struct {
    pthread_mutex_t lock;
    int64_t left, dropped, filled_s;
} budget = {.lock = PTHREAD_MUTEX_INITIALIZER, .left = LINES_AT_ONCE};

void log_escape(const char *text, char *ret_line, size_t size)
{
    const uint8_t *at = (const uint8_t *) text, *end = at + strlen(text);
    size_t used = 0;
    while (at < end) {
        size_t n = utf8_sequence_bytes(at, end);
        /* U+0080 to U+009F steer terminals as the ones below U+0020 do. */
        bool control =
            (n == 1 && (*at < 0x20 || *at == 0x7f)) || (n == 2 && at[0] == 0xc2 && at[1] < 0xa0);
        size_t takes = n && !control ? n : 4;
        if (used + takes >= size)
            break;
        if (n && !control) {
            memcpy(ret_line + used, at, n);
            at += n;
        } else {
            (void) snprintf(ret_line + used, takes + 1, "\\x%02x", *at++);
        }
        used += takes;
    }
    ret_line[used] = '\0';
}

static void put(int level, const char *line)
{
    if (atomic_load(&use_syslog))
        syslog(level, "%s", line);
    else
        fprintf(stderr, "ttlfs: %s\n", line);
}

/* Takes one line out of the budget. @ret_dropped  lines that were left out before this one */
static bool may_log(int64_t *ret_dropped)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    pthread_mutex_lock(&budget.lock);
    if (now.tv_sec > budget.filled_s) {
        budget.left += (now.tv_sec - budget.filled_s) * LINES_PER_SECOND;
        budget.left = budget.left < LINES_AT_ONCE ? budget.left : LINES_AT_ONCE;
        budget.filled_s = now.tv_sec;
    }
    bool may = budget.left > 0;
    *ret_dropped = may ? budget.dropped : 0;
    if (may) {
        budget.left--;
        budget.dropped = 0;
    } else {
        budget.dropped++;
    }
    pthread_mutex_unlock(&budget.lock);
    return may;
}

void log_init(int to_syslog)
{
    if (to_syslog)
        openlog("ttlfs", LOG_PID, LOG_DAEMON);
    atomic_store(&use_syslog, to_syslog);
}

void log_debug(int on)
{
    atomic_store(&debug_on, on);
}

void log_line(int level, const char *format, ...)
{
    char text[LINE_BYTES], line[LINE_BYTES];
    int64_t dropped = 0;
    va_list args;
    if (level == LOG_DEBUG && !atomic_load(&debug_on))
        return;
    if (level == LOG_INFO && !may_log(&dropped))
        return;
    va_start(args, format);
    (void) vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (dropped) {
        (void) snprintf(line, sizeof line, "%lld lines were left out", (long long) dropped);
        put(LOG_NOTICE, line);
    }
    log_escape(text, line, sizeof line);
    put(level, line);
}
