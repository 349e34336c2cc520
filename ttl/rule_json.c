#include "ttl/rule_json.h"

#include "core/fields.h"
#include "core/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* The longest foreign text that a reason quotes. */
#define QUOTED_BYTES 60
#define MAX_MEMBERS 16
/* 2 to the 53rd: beyond, every double is whole, and larger than any member takes. */
#define WHOLE_FROM 9007199254740992.0

static int read_members(const bson_t *object, const struct rule_member *members, size_t nmembers,
    void *context, struct reason *why)
{
    bool seen[MAX_MEMBERS] = {false};
    bson_iter_t iter;
    if (!bson_iter_init(&iter, object))
        return reason_set(why, EINVAL, "the value is not a document");
    while (bson_iter_next(&iter)) {
        const char *name = bson_iter_key(&iter);
        size_t i = 0;
        while (i < nmembers && strcmp(members[i].name, name) != 0)
            i++;
        if (i == nmembers)
            return reason_set(why, EINVAL, "the key \"%.*s\" is unknown", QUOTED_BYTES, name);
        if (seen[i])
            return reason_set(why, EINVAL, "%s stands there twice", name);
        seen[i] = true;
        int err = members[i].read(context, &iter, why);
        if (err)
            return err;
    }
    return 0;
}

int rule_json_read(const char *text, size_t len, const struct rule_member *members, size_t nmembers,
    void *context, struct reason *why)
{
    struct bson_buffer buffer = {.limit = FIELDS_MAX_BYTES};
    bson_t object;
    int err = json_read_object(text, len, FIELDS_MAX_DEPTH, &buffer, why);
    if (err == -ENOMEM)
        reason_set(why, ENOMEM, "out of memory");
    else if (!err && bson_init_static(&object, buffer.data, buffer.len))
        err = read_members(&object, members, nmembers, context, why);
    else if (!err)
        err = reason_set(why, EINVAL, "the value is not a document");
    bson_buffer_release(&buffer);
    return err;
}

int rule_json_whole(const bson_iter_t *value, const char *name, int64_t min, int64_t max,
    int64_t *ret_number, struct reason *why)
{
    int64_t number;
    if (BSON_ITER_HOLDS_INT32(value)) {
        number = bson_iter_int32(value);
    } else if (BSON_ITER_HOLDS_INT64(value)) {
        number = bson_iter_int64(value);
    } else if (BSON_ITER_HOLDS_DOUBLE(value)) {
        double real = bson_iter_double(value);
        if (isfinite(real) && fabs(real) > WHOLE_FROM)
            real = copysign(WHOLE_FROM, real);
        if (!isfinite(real) || real != (double) (int64_t) real)
            return reason_set(why, EINVAL, "%s must be a whole number, not %g", name, real);
        number = (int64_t) real;
    } else {
        return reason_set(why, EINVAL, "%s must be a number", name);
    }
    if (number < min || number > max)
        return reason_set(why, EINVAL, "%s must be %" PRId64 " to %" PRId64, name, min, max);
    *ret_number = number;
    return 0;
}
