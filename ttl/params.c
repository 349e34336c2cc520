#include "ttl/params.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum param_kind { PARAM_BOOL, PARAM_WAKE, PARAM_NUMBER };

/* Large enough for anything that makes sense, small enough never to overflow as milliseconds. */
#define NUMBER_MAX INT32_MAX

static const struct param {
    const char *name;
    enum param_kind kind;
    size_t offset;
    int64_t min, standard;
} params_table[] = {
    {"ttlMonitorEnabled", PARAM_BOOL, offsetof(struct ttl_params, monitor_enabled), 0, 1},
    {"ttlMonitorWake", PARAM_WAKE, offsetof(struct ttl_params, wake_by_deadline), 0, 1},
    {"ttlMonitorSleepSecs", PARAM_NUMBER, offsetof(struct ttl_params, sleep_s), 1, 60},
    {"ttlMonitorSubPassTargetSecs", PARAM_NUMBER, offsetof(struct ttl_params, sub_pass_target_s), 0,
        60},
    {"ttlIndexDeleteTargetDocs", PARAM_NUMBER, offsetof(struct ttl_params, delete_target_docs), 0,
        50000},
    {"ttlIndexDeleteTargetTimeMS", PARAM_NUMBER, offsetof(struct ttl_params, delete_target_ms), 0,
        1000},
    {"ttlMonitorClockJumpSecs", PARAM_NUMBER, offsetof(struct ttl_params, clock_jump_s), 0, 3600},
    {"slowOpThresholdMS", PARAM_NUMBER, offsetof(struct ttl_params, slow_op_ms), 0, 100},
};

#define PARAMS (sizeof params_table / sizeof params_table[0])

static const struct param *param_find(const char *name)
{
    for (size_t i = 0; i < PARAMS; i++)
        if (strcmp(params_table[i].name, name) == 0)
            return &params_table[i];
    return NULL;
}

static void *param_place(struct ttl_params *params, const struct param *param)
{
    return (char *) params + param->offset;
}

static void param_store(struct ttl_params *params, const struct param *param, int64_t value)
{
    if (param->kind == PARAM_NUMBER)
        *(int64_t *) param_place(params, param) = value;
    else
        *(bool *) param_place(params, param) = value != 0;
}

static int64_t param_load(const struct ttl_params *params, const struct param *param)
{
    const char *place = (const char *) params + param->offset;
    if (param->kind == PARAM_NUMBER)
        return *(const int64_t *) (const void *) place;
    return *(const bool *) (const void *) place;
}

void ttl_params_init(struct ttl_params *params)
{
    memset(params, 0, sizeof *params);
    for (size_t i = 0; i < PARAMS; i++)
        param_store(params, &params_table[i], params_table[i].standard);
}

const char *ttl_param_name(unsigned int i)
{
    return i < PARAMS ? params_table[i].name : NULL;
}

static bool word_is(const char *text, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(text, word, len) == 0;
}

static bool parse_number(const char *text, size_t len, int64_t *ret_value)
{
    int64_t value = 0;
    if (len == 0 || len > 10)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (text[i] - '0');
    }
    *ret_value = value;
    return value <= NUMBER_MAX;
}

static bool parse_bool(const char *text, size_t len, int64_t *ret_value)
{
    static const char *const words[][4] = {
        {"false", "0", "no", "off"},
        {"true", "1", "yes", "on"},
    };
    for (int value = 0; value < 2; value++) {
        for (int i = 0; i < 4; i++) {
            if (word_is(text, len, words[value][i])) {
                *ret_value = value;
                return true;
            }
        }
    }
    return false;
}

int ttl_param_set(
    struct ttl_params *params, const char *name, const char *text, size_t len, struct reason *why)
{
    const struct param *param = param_find(name);
    int64_t value = 0;
    if (!param)
        return reason_set(why, ENOENT, "there is no parameter %s", name);
    if (len && text[len - 1] == '\n')
        len--;
    switch (param->kind) {
    case PARAM_BOOL:
        if (!parse_bool(text, len, &value))
            return reason_set(why, EINVAL, "%s is true or false", name);
        break;
    case PARAM_WAKE:
        value = word_is(text, len, "deadline");
        if (!value && !word_is(text, len, "interval"))
            return reason_set(why, EINVAL, "%s is deadline or interval", name);
        break;
    case PARAM_NUMBER:
        if (!parse_number(text, len, &value) || value < param->min)
            return reason_set(why, EINVAL, "%s is a whole number from %" PRId64 " to %d", name,
                param->min, NUMBER_MAX);
        break;
    }
    param_store(params, param, value);
    return 0;
}

int ttl_param_get(const struct ttl_params *params, const char *name, char *ret_text)
{
    const struct param *param = param_find(name);
    if (!param)
        return -ENOENT;
    int64_t value = param_load(params, param);
    switch (param->kind) {
    case PARAM_BOOL:
        snprintf(ret_text, PARAM_TEXT_BYTES, "%s", value ? "true" : "false");
        break;
    case PARAM_WAKE:
        snprintf(ret_text, PARAM_TEXT_BYTES, "%s", value ? "deadline" : "interval");
        break;
    case PARAM_NUMBER:
        snprintf(ret_text, PARAM_TEXT_BYTES, "%" PRId64, value);
        break;
    }
    return 0;
}

bool ttl_params_encode(const struct ttl_params *params, bson_t *ret_document)
{
    char text[PARAM_TEXT_BYTES];
    for (size_t i = 0; i < PARAMS; i++) {
        ttl_param_get(params, params_table[i].name, text);
        if (!bson_append_utf8(ret_document, params_table[i].name, -1, text, -1))
            return false;
    }
    return true;
}

void ttl_params_decode(struct ttl_params *params, const bson_t *document)
{
    bson_iter_t it;
    if (!bson_iter_init(&it, document))
        return;
    while (bson_iter_next(&it)) {
        if (!BSON_ITER_HOLDS_UTF8(&it))
            continue;
        uint32_t len;
        const char *text = bson_iter_utf8(&it, &len);
        /* A parameter of another version is left at its default. */
        (void) ttl_param_set(params, bson_iter_key(&it), text, len, NULL);
    }
}
