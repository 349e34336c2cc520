/*
 * timeseries_spec.c - what user.ttl.timeseries says, and what else may be said beside it.
 */
#include "ttl/timeseries_impl.h"

#include "core/fields.h"
#include "core/index_spec.h"
#include "ttl/rule_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE_MS (INT64_C(60) * 1000)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)

static const struct {
    const char *name;
    int64_t span_ms, round_ms;
} granularities[] = {
    [TS_SECONDS] = {"seconds", HOUR_MS, MINUTE_MS},
    [TS_MINUTES] = {"minutes", DAY_MS, HOUR_MS},
    [TS_HOURS] = {"hours", 30 * DAY_MS, DAY_MS},
};

int64_t timeseries_span_ms(const struct timeseries *ts)
{
    return granularities[ts->spec.granularity].span_ms;
}

int64_t timeseries_round_ms(const struct timeseries *ts)
{
    return granularities[ts->spec.granularity].round_ms;
}

void ts_spec_release(struct ts_spec *spec)
{
    free(spec->time_field);
    free(spec->meta_field);
    *spec = (struct ts_spec){.expire_after_s = -1};
}

/* The name of a field at the root: what MongoDB takes for timeField and metaField. */
static int read_field(
    const bson_iter_t *value, const char *member, char **ret_field, struct reason *why)
{
    static const char *const system_fields[] = {"_id", "_ts", "_created", "_accessed", "_size"};
    uint32_t len;
    if (!BSON_ITER_HOLDS_UTF8(value))
        return reason_set(why, EINVAL, "%s must be a string", member);
    const char *name = bson_iter_utf8(value, &len);
    if (len == 0 || len > INDEX_KEY_MAX_BYTES || strlen(name) != len)
        return reason_set(why, EINVAL, "%s is no name of a field", member);
    if (name[0] == '$' || strchr(name, '.'))
        return reason_set(
            why, EINVAL, "%s must name a field at the root: no $ in front and no dot", member);
    for (size_t i = 0; i < sizeof system_fields / sizeof system_fields[0]; i++)
        if (strcmp(name, system_fields[i]) == 0)
            return reason_set(why, EINVAL, "%s must not be the system field %s", member, name);
    char *copy = strdup(name);
    if (!copy)
        return reason_set(why, ENOMEM, "out of memory");
    *ret_field = copy;
    return 0;
}

static int read_time_field(void *context, const bson_iter_t *value, struct reason *why)
{
    struct ts_spec *spec = context;
    return read_field(value, "timeField", &spec->time_field, why);
}

static int read_meta_field(void *context, const bson_iter_t *value, struct reason *why)
{
    struct ts_spec *spec = context;
    return read_field(value, "metaField", &spec->meta_field, why);
}

static int read_granularity(void *context, const bson_iter_t *value, struct reason *why)
{
    struct ts_spec *spec = context;
    const char *name = BSON_ITER_HOLDS_UTF8(value) ? bson_iter_utf8(value, NULL) : "";
    for (size_t i = 0; i < sizeof granularities / sizeof granularities[0]; i++) {
        if (strcmp(granularities[i].name, name) == 0) {
            spec->granularity = (enum ts_granularity) i;
            return 0;
        }
    }
    return reason_set(why, EINVAL, "granularity must be \"seconds\", \"minutes\" or \"hours\"");
}

static int read_expire_after(void *context, const bson_iter_t *value, struct reason *why)
{
    struct ts_spec *spec = context;
    return rule_json_whole(
        value, "expireAfterSeconds", 0, INDEX_EXPIRE_AFTER_MAX_S, &spec->expire_after_s, why);
}

int ts_spec_parse(const char *text, size_t len, struct ts_spec *ret_spec, struct reason *why)
{
    static const struct rule_member members[] = {
        {"timeField", read_time_field},
        {"metaField", read_meta_field},
        {"granularity", read_granularity},
        {"expireAfterSeconds", read_expire_after},
    };
    struct ts_spec spec = {.expire_after_s = -1};
    *ret_spec = spec;
    int err = rule_json_read(text, len, members, sizeof members / sizeof members[0], &spec, why);
    if (!err && !spec.time_field)
        err = reason_set(why, EINVAL, "timeField is missing");
    else if (!err && spec.meta_field && strcmp(spec.meta_field, spec.time_field) == 0)
        err = reason_set(why, EINVAL, "timeField and metaField are the same");
    if (err)
        ts_spec_release(&spec);
    else
        *ret_spec = spec;
    return err;
}

/* Does an expression read the meta field, or what is below it, and nothing else? */
static bool reads_only(const bson_t *expression, const char *field)
{
    bson_iter_t iter, branch;
    size_t len = strlen(field);
    if (!bson_iter_init(&iter, expression))
        return false;
    while (bson_iter_next(&iter)) {
        const char *name = bson_iter_key(&iter);
        if (strncmp(name, field, len) == 0 && (name[len] == '\0' || name[len] == '.'))
            continue;
        if (name[0] != '$' || !bson_iter_recurse(&iter, &branch))
            return false;
        while (bson_iter_next(&branch)) {
            const uint8_t *data;
            uint32_t data_len;
            bson_t one;
            if (!BSON_ITER_HOLDS_DOCUMENT(&branch))
                return false;
            bson_iter_document(&branch, &data_len, &data);
            if (!bson_init_static(&one, data, data_len) || !reads_only(&one, field))
                return false;
        }
    }
    return true;
}

int timeseries_check_index(
    const struct timeseries *ts, const struct index_spec *spec, struct reason *why)
{
    if (!spec->ttl)
        return 0;
    if (strcmp(spec->key, ts->spec.time_field) != 0)
        return reason_set(why, EINVAL,
            "in a time-series collection expireAfterSeconds needs the time field %s as its key",
            ts->spec.time_field);
    if (spec->jitter_s)
        return reason_set(
            why, EINVAL, "jitterSeconds would take a bucket of a time-series collection apart");
    if (spec->filter &&
        (!ts->spec.meta_field || !reads_only(filter_expression(spec->filter), ts->spec.meta_field)))
        return reason_set(why, EINVAL,
            "in a time-series collection the filter of a TTL index may read the meta field only");
    return 0;
}
