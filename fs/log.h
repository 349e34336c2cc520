/*
 * log.h - one line per event worth a person's attention: to stderr with -f, to syslog otherwise.
 */
#ifndef TTLFS_FS_LOG_H
#define TTLFS_FS_LOG_H

#include <stddef.h>
#include <syslog.h>

/* Chooses where lines go; stderr until then. Any thread may log at any time. */
void log_init(int to_syslog);

/*
 * Always one line of printable UTF-8, whatever names and values are in it (log_escape). Of LOG_INFO lines,
 * which any user can bring about, those that come too fast are left out and counted.
 * @level  LOG_ERR, LOG_WARNING, LOG_INFO or LOG_DEBUG (the last only after log_debug(1))
 */
void log_line(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Writes control characters and bytes that are no UTF-8 as \xNN; cuts what does not fit. */
void log_escape(const char *text, char *ret_line, size_t size);

/* Switches LOG_DEBUG lines on. */
void log_debug(int on);

#endif
