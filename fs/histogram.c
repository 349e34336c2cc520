#include "fs/histogram.h"

#include "core/dates.h"

#include <inttypes.h>

/* In order; as text, because a bound is a label. */
static const struct {
    int64_t ms;
    const char *seconds;
} bounds[HISTOGRAM_BUCKETS - 1] = {
    {1, "0.001"},
    {5, "0.005"},
    {10, "0.01"},
    {50, "0.05"},
    {100, "0.1"},
    {500, "0.5"},
    {1000, "1.0"},
    {5000, "5.0"},
    {10000, "10.0"},
    {60000, "60.0"},
    {600000, "600.0"},
    {3600000, "3600.0"},
};

void histogram_observe(struct histogram *histogram, int64_t ms)
{
    unsigned int i = 0;
    while (i < HISTOGRAM_BUCKETS - 1 && ms > bounds[i].ms)
        i++;
    histogram->buckets[i]++;
    histogram->count++;
    histogram->sum_ms = date_add_saturated(histogram->sum_ms, ms);
}

void histogram_write(
    const struct histogram *histogram, struct text *text, const char *name, const char *help)
{
    uint64_t upto = 0;
    text_printf(text, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        upto += histogram->buckets[i];
        text_printf(text, "%s_bucket{le=\"%s\"} %" PRIu64 "\n", name,
            i < HISTOGRAM_BUCKETS - 1 ? bounds[i].seconds : "+Inf", upto);
    }
    text_printf(text, "%s_sum %" PRId64 ".%03d\n%s_count %" PRIu64 "\n", name,
        histogram->sum_ms / 1000, (int) (histogram->sum_ms % 1000), name, histogram->count);
}
