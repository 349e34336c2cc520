#include "ttl/duration.h"

#include "core/dates.h"

/* The longest text that a reason quotes. */
#define QUOTED_BYTES 60

static int quoted(size_t len)
{
    return len < QUOTED_BYTES ? (int) len : QUOTED_BYTES;
}

int duration_parse(const char *text, size_t len, int64_t *ret_ms, struct reason *why)
{
    switch (date_parse_duration(text, len, ret_ms)) {
    case 0:
        return 0;
    case -ERANGE:
        return reason_set(why, EINVAL, "the duration \"%.*s\" is too long", quoted(len), text);
    default:
        break;
    }
    if (len == 0)
        return reason_set(why, EINVAL, "the duration is empty");
    return reason_set(why, EINVAL,
        "\"%.*s\" is no duration: whole seconds, or a whole number with ms, s, m, h, d or w",
        quoted(len), text);
}

int duration_parse_positive(const char *text, size_t len, int64_t *ret_ms, struct reason *why)
{
    int64_t ms;
    int r = duration_parse(text, len, &ms, why);

    if (r < 0)
        return r;
    if (ms == 0)
        return reason_set(why, EINVAL, "the duration must be above 0");
    *ret_ms = ms;
    return 0;
}
