/*
 * log.h - one line per event worth a person's attention: to stderr with -f, to syslog otherwise.
 */
#ifndef TTLFS_FS_LOG_H
#define TTLFS_FS_LOG_H

#include <syslog.h>

/* Chooses where lines go; stderr until then. Any thread may log at any time. */
void log_init(int to_syslog);

/*
 * @level  LOG_ERR, LOG_WARNING, LOG_INFO or LOG_DEBUG (the last only after log_debug(1))
 */
void log_line(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Switches LOG_DEBUG lines on. */
void log_debug(int on);

#endif
