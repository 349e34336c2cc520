/*
 * histogram.h - how often something took how long, in the shape that Prometheus wants.
 *
 * The caller's lock covers every call.
 */
#ifndef TTLFS_FS_HISTOGRAM_H
#define TTLFS_FS_HISTOGRAM_H

#include "core/text.h"

#include <stdint.h>

#define HISTOGRAM_BUCKETS 13

/* Zeroes are an empty one. */
struct histogram {
    uint64_t buckets[HISTOGRAM_BUCKETS]; /* the last one: longer than all bounds */
    uint64_t count;
    int64_t sum_ms;
};

void histogram_observe(struct histogram *histogram, int64_t ms);

/* Appends HELP, TYPE and samples, in seconds. */
void histogram_write(
    const struct histogram *histogram, struct text *text, const char *name, const char *help);

#endif
