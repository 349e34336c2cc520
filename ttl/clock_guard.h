/*
 * clock_guard.h - is the wall clock to be believed?
 *
 * A wall clock that leaps ahead by a year would expire everything at once. So the distance between
 * the wall clock and the monotonic clock is watched: when it changes by more than a limit, expiry
 * is held until somebody confirms the clock or it has kept its new pace for ten minutes.
 *
 * Pure: no clock is read here. The caller's lock covers every call.
 */
#ifndef TTLFS_TTL_CLOCK_GUARD_H
#define TTLFS_TTL_CLOCK_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_GUARD_SETTLE_MS (INT64_C(10) * 60 * 1000)

struct clock_guard {
    bool started, held;
    int64_t offset_ms;     /* wall minus monotonic, as last seen */
    int64_t held_since_ms; /* monotonic */
    int64_t leap_ms;       /* what the last leap was */
};

enum clock_guard_event { CLOCK_STEADY, CLOCK_LEAPT, CLOCK_HELD, CLOCK_SETTLED };

/*
 * Looks at both clocks.
 * @limit_ms  0 switches the guard off
 * Returns CLOCK_STEADY or CLOCK_SETTLED (just now) when expiry may go on, CLOCK_LEAPT (just now) or
 * CLOCK_HELD when not.
 */
enum clock_guard_event clock_guard_check(
    struct clock_guard *guard, int64_t wall_ms, int64_t monotonic_ms, int64_t limit_ms);

/* Somebody says that the wall clock is right. */
void clock_guard_confirm(struct clock_guard *guard, int64_t wall_ms, int64_t monotonic_ms);

#endif
