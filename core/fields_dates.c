/*
 * What the fields say about time.
 */
#include "core/fields.h"

#include "core/dates.h"
#include "core/number.h"
#include "core/path.h"

struct earliest {
    enum fields_as as;
    int64_t date_ms;
    bool found;
};

bool fields_value_as_date(const bson_iter_t *value, enum fields_as as, int64_t *ret_ms)
{
    if (BSON_ITER_HOLDS_DATE_TIME(value)) {
        *ret_ms = bson_iter_date_time(value);
        return true;
    }
    uint32_t len;
    const char *text;
    switch (as) {
    case FIELDS_AS_DATE:
        return false;
    case FIELDS_AS_ISO8601:
        if (!BSON_ITER_HOLDS_UTF8(value))
            return false;
        text = bson_iter_utf8(value, &len);
        return date_parse(text, len, ret_ms) == 0;
    case FIELDS_AS_EPOCH_SECONDS:
        return number_to_ms(value, 1000, ret_ms);
    case FIELDS_AS_EPOCH_MILLIS:
        return number_to_ms(value, 1, ret_ms);
    }
    return false;
}

static bool visit_date(void *context, const bson_iter_t *value)
{
    struct earliest *earliest = context;
    int64_t date_ms;
    if (value && fields_value_as_date(value, earliest->as, &date_ms) &&
        (!earliest->found || date_ms < earliest->date_ms)) {
        earliest->date_ms = date_ms;
        earliest->found = true;
    }
    return false;
}

bool fields_earliest_date(
    const bson_t *fields, const char *path, enum fields_as as, int64_t *ret_ms)
{
    struct earliest earliest = {.as = as};
    path_visit(fields, path, visit_date, &earliest);
    if (earliest.found)
        *ret_ms = earliest.date_ms;
    return earliest.found;
}

bool fields_ttl_seconds(const bson_t *fields, int32_t *ret_seconds)
{
    bson_iter_t iter;
    int64_t seconds;
    if (!bson_iter_init_find(&iter, fields, "ttl"))
        return false;
    if (BSON_ITER_HOLDS_INT(&iter)) {
        seconds = bson_iter_as_int64(&iter);
    } else if (BSON_ITER_HOLDS_DOUBLE(&iter)) {
        double value = bson_iter_double(&iter);
        /* Also false for NaN. */
        if (!(value >= -1 && value <= INT32_MAX) || value != (double) (int32_t) value)
            return false;
        seconds = (int32_t) value;
    } else {
        return false;
    }
    if (seconds != -1 && (seconds < 1 || seconds > INT32_MAX))
        return false;
    *ret_seconds = (int32_t) seconds;
    return true;
}
