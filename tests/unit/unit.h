/*
 * unit.h - the little that a unit test needs: named cases, checks that go on, one closing line.
 *
 *     static void test_empty(void) { CHECK(1 + 1 == 2); CHECK_EQ(f(), 0); }
 *     int main(void) { RUN(test_empty); return unit_report(); }
 */
#ifndef TTLFS_TESTS_UNIT_H
#define TTLFS_TESTS_UNIT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdint.h>
#include <string.h>

static int unit_cases, unit_failed_cases, unit_failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            unit_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s: failed: %s\n", __FILE__, __LINE__, __func__, #condition);  \
        }                                                                                          \
    } while (0)

/* Integers of any width: both sides are printed when they differ. */
#define CHECK_EQ(got, want)                                                                        \
    do {                                                                                           \
        int64_t got_ = (int64_t) (got), want_ = (int64_t) (want);                                  \
        if (got_ != want_) {                                                                       \
            unit_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s: %s is %" PRId64 ", not %" PRId64 "\n", __FILE__, __LINE__, \
                __func__, #got, got_, want_);                                                      \
        }                                                                                          \
    } while (0)

#define CHECK_STR(got, want)                                                                       \
    do {                                                                                           \
        const char *got_ = (got), *want_ = (want);                                                 \
        if (!got_ || strcmp(got_, want_) != 0) {                                                   \
            unit_failures++;                                                                       \
            fprintf(stderr, "%s:%d: %s: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, __func__, \
                #got, got_ ? got_ : "(null)", want_);                                              \
        }                                                                                          \
    } while (0)

#define RUN(test)                                                                                  \
    do {                                                                                           \
        int before_ = unit_failures;                                                               \
        test();                                                                                    \
        unit_cases++;                                                                              \
        unit_failed_cases += unit_failures > before_;                                              \
    } while (0)

/* The closing line; returns main's exit status. A program that ran no case fails. */
static inline int unit_report(void)
{
    printf("%d passed, %d failed\n", unit_cases - unit_failed_cases, unit_failed_cases);
    return unit_failed_cases || !unit_cases;
}

#endif
