/*
 * test_clock_guard.c - a wall clock that leaps is not believed at once.
 */
#include "tests/unit/unit.h"
#include "ttl/clock_guard.h"

#define MINUTE INT64_C(60000)
#define LIMIT (60 * MINUTE)
#define WALL INT64_C(1767225600000)

static struct clock_guard started(void)
{
    struct clock_guard guard = {0};
    CHECK_EQ(clock_guard_check(&guard, WALL, 0, LIMIT), CLOCK_STEADY);
    return guard;
}

static void test_steady(void)
{
    struct clock_guard guard = started();
    for (int64_t t = 0; t < 100 * MINUTE; t += MINUTE)
        CHECK_EQ(clock_guard_check(&guard, WALL + t, t, LIMIT), CLOCK_STEADY);
    /* Within the limit, either way: a clock that is being set right. */
    CHECK_EQ(
        clock_guard_check(&guard, WALL + 100 * MINUTE + LIMIT, 100 * MINUTE, LIMIT), CLOCK_STEADY);
    CHECK_EQ(clock_guard_check(&guard, WALL + 101 * MINUTE, 101 * MINUTE, LIMIT), CLOCK_STEADY);
    CHECK(!guard.held);
}

static void test_leap(void)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        struct clock_guard guard = started();
        int64_t wall = WALL + sign * (LIMIT + 1);
        CHECK_EQ(clock_guard_check(&guard, wall, 0, LIMIT), CLOCK_LEAPT);
        CHECK_EQ(guard.leap_ms, sign * (LIMIT + 1));
        CHECK(guard.held);
        CHECK_EQ(clock_guard_check(&guard, wall + 1, 1, LIMIT), CLOCK_HELD);
        int64_t last = CLOCK_GUARD_SETTLE_MS - 1;
        CHECK_EQ(clock_guard_check(&guard, wall + last, last, LIMIT), CLOCK_HELD);
        CHECK_EQ(clock_guard_check(&guard, wall + last + 1, last + 1, LIMIT), CLOCK_SETTLED);
        CHECK(!guard.held);
        CHECK_EQ(clock_guard_check(&guard, wall + last + 2, last + 2, LIMIT), CLOCK_STEADY);
    }
}

/* A second leap starts the ten minutes again, also when it is the way back. */
static void test_second_leap(void)
{
    struct clock_guard guard = started();
    int64_t leap = 365 * 24 * LIMIT;
    CHECK_EQ(clock_guard_check(&guard, WALL + leap, 0, LIMIT), CLOCK_LEAPT);
    CHECK_EQ(clock_guard_check(&guard, WALL + 9 * MINUTE, 9 * MINUTE, LIMIT), CLOCK_LEAPT);
    CHECK_EQ(clock_guard_check(&guard, WALL + 18 * MINUTE, 18 * MINUTE, LIMIT), CLOCK_HELD);
    CHECK_EQ(clock_guard_check(&guard, WALL + 19 * MINUTE, 19 * MINUTE, LIMIT), CLOCK_SETTLED);
}

static void test_confirm(void)
{
    struct clock_guard guard = started();
    int64_t wall = WALL + 10 * LIMIT;
    CHECK_EQ(clock_guard_check(&guard, wall, 0, LIMIT), CLOCK_LEAPT);
    clock_guard_confirm(&guard, wall, 1);
    CHECK_EQ(clock_guard_check(&guard, wall, 1, LIMIT), CLOCK_STEADY);
    /* Before the first look, too. */
    struct clock_guard fresh = {0};
    clock_guard_confirm(&fresh, WALL, 0);
    CHECK_EQ(clock_guard_check(&fresh, WALL + LIMIT, 0, LIMIT), CLOCK_STEADY);
    CHECK_EQ(clock_guard_check(&fresh, WALL - LIMIT, 0, LIMIT), CLOCK_LEAPT);
}

static void test_off(void)
{
    struct clock_guard guard = started();
    CHECK_EQ(clock_guard_check(&guard, WALL + 10 * LIMIT, 0, LIMIT), CLOCK_LEAPT);
    /* Switched off: what was held goes on, and leaps are followed silently. */
    CHECK_EQ(clock_guard_check(&guard, WALL + 10 * LIMIT, 1, 0), CLOCK_STEADY);
    CHECK_EQ(clock_guard_check(&guard, WALL + 90 * LIMIT, 2, 0), CLOCK_STEADY);
    CHECK_EQ(clock_guard_check(&guard, WALL + 90 * LIMIT, 3, LIMIT), CLOCK_STEADY);
}

static void test_extremes(void)
{
    struct clock_guard guard = {0};
    CHECK_EQ(clock_guard_check(&guard, INT64_MIN, 1000, LIMIT), CLOCK_STEADY);
    CHECK_EQ(clock_guard_check(&guard, INT64_MAX, 1001, LIMIT), CLOCK_LEAPT);
    CHECK_EQ(guard.leap_ms, INT64_MAX);
    CHECK_EQ(clock_guard_check(&guard, INT64_MIN, 1002, INT64_MAX), CLOCK_LEAPT);
}

int main(void)
{
    RUN(test_steady);
    RUN(test_leap);
    RUN(test_second_leap);
    RUN(test_confirm);
    RUN(test_off);
    RUN(test_extremes);
    return unit_report();
}
