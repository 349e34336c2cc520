#include "ttl/clock_guard.h"

#include "core/dates.h"

enum clock_guard_event clock_guard_check(
    struct clock_guard *guard, int64_t wall_ms, int64_t monotonic_ms, int64_t limit_ms)
{
    int64_t offset_ms = date_subtract_saturated(wall_ms, monotonic_ms);
    int64_t leap_ms = date_subtract_saturated(offset_ms, guard->offset_ms);
    bool first = !guard->started;
    guard->started = true;
    guard->offset_ms = offset_ms;
    if (first || limit_ms == 0) {
        guard->held = false;
        return CLOCK_STEADY;
    }
    if (leap_ms > limit_ms || leap_ms < -limit_ms) {
        guard->held = true;
        guard->held_since_ms = monotonic_ms;
        guard->leap_ms = leap_ms;
        return CLOCK_LEAPT;
    }
    if (!guard->held)
        return CLOCK_STEADY;
    if (monotonic_ms - guard->held_since_ms < CLOCK_GUARD_SETTLE_MS)
        return CLOCK_HELD;
    guard->held = false;
    return CLOCK_SETTLED;
}

void clock_guard_confirm(struct clock_guard *guard, int64_t wall_ms, int64_t monotonic_ms)
{
    guard->started = true;
    guard->held = false;
    guard->offset_ms = date_subtract_saturated(wall_ms, monotonic_ms);
}
