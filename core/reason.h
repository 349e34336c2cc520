/*
 * reason.h - why something was refused, in words.
 *
 * The errno says what kind of refusal it is; the reason is what a person reads in
 * `user.ttl.error` and in the log.
 */
#ifndef TTLFS_CORE_REASON_H
#define TTLFS_CORE_REASON_H

#include <errno.h>

#define REASON_TEXT_BYTES 256

/* In place, no resources: zero it to initialise. */
struct reason {
    char text[REASON_TEXT_BYTES];
};

/*
 * Writes the reason and gives back the error, so that a refusal is one statement:
 *     return reason_set(why, EINVAL, "expireAfterSeconds is negative: %lld", n);
 *
 * @why  where to write, cut to REASON_TEXT_BYTES - 1 bytes; NULL drops the text
 * @err  a positive errno
 * Returns -err. Needs no lock.
 */
int reason_set(struct reason *why, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
