#include "fs/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int use_syslog, debug_on;

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
    va_list args;
    if (level == LOG_DEBUG && !atomic_load(&debug_on))
        return;
    va_start(args, format);
    if (atomic_load(&use_syslog)) {
        vsyslog(level, format, args);
    } else {
        char line[1024];
        vsnprintf(line, sizeof line, format, args);
        fprintf(stderr, "ttlfs: %s\n", line);
    }
    va_end(args);
}
