/*
 * Index specs from any bytes: nothing crashes or leaks, a refusal has words and no result, and
 * what is accepted obeys its limits and reads back as the same spec, alone and over a base.
 *
 * The input is NAME, a line break, the base's value, a line break, the value. With fewer line
 * breaks the NAME is `at` and there is no base.
 */
#include "core/index_spec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Not assert: a fuzzer checks in every build. */
static void must(bool condition)
{
    if (!condition)
        abort();
}

static bool same_spec(const struct index_spec *a, const struct index_spec *b)
{
    return index_spec_same_keys(a, b) && a->ttl == b->ttl &&
           a->expire_after_s == b->expire_after_s && a->hidden == b->hidden && a->as == b->as &&
           a->jitter_s == b->jitter_s;
}

static void check_limits(const struct index_spec *spec)
{
    must(spec->key && spec->key[0] && strlen(spec->key) <= INDEX_KEY_MAX_BYTES);
    must(spec->jitter_s >= 0);
    must(spec->ttl || spec->expire_after_s == 0);
    must(spec->expire_after_s >= 0 || strcmp(spec->key, "_ts") == 0);
    must(spec->expire_after_s >= INDEX_EXPIRE_OWN_TTL_S);
    must(!spec->ttl || (!strchr(spec->key, ',') && strcmp(spec->key, "_id") != 0));
}

static void check_round_trip(const struct index_spec *spec)
{
    struct index_spec again, copy;
    char *text, *text_again;

    must(index_spec_format(spec, &text) == 0);
    must(index_spec_parse("other", 5, text, strlen(text), NULL, &again, NULL) == 0);
    must(same_spec(spec, &again));
    must(index_spec_format(&again, &text_again) == 0);
    must(strcmp(text, text_again) == 0);
    must(index_spec_copy(spec, &copy) == 0);
    must(same_spec(spec, &copy));
    index_spec_release(&copy);
    index_spec_release(&again);
    free(text_again);
    free(text);
}

/* Returns whether the value was accepted; ret_spec is to be released in any case. */
static bool parse(const char *name, size_t name_len, const char *value, size_t value_len,
    const struct index_spec *base, struct index_spec *ret_spec)
{
    struct reason why = {""};
    int r = index_spec_parse(name, name_len, value, value_len, base, ret_spec, &why);

    if (r == 0) {
        check_limits(ret_spec);
        check_round_trip(ret_spec);
    } else {
        must(r == -EINVAL && why.text[0] != '\0');
        must(!ret_spec->key && !ret_spec->filter && !ret_spec->ttl);
    }
    return r == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *name = (const char *) data, *value = (const char *) data, *line, *second = NULL;
    struct index_spec base, spec;
    size_t name_len;

    line = size ? memchr(data, '\n', size) : NULL;
    if (line)
        second = memchr(line + 1, '\n', size - (size_t) (line + 1 - name));
    if (!second) {
        parse("at", 2, value, size, NULL, &spec);
        index_spec_release(&spec);
        return 0;
    }
    name_len = (size_t) (line - name);
    value = second + 1;
    if (parse(name, name_len, line + 1, (size_t) (second - line - 1), NULL, &base)) {
        parse(name, name_len, value, size - (size_t) (value - name), &base, &spec);
        index_spec_release(&spec);
    }
    index_spec_release(&base);
    return 0;
}
