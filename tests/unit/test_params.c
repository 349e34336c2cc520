/*
 * test_params.c - the monitor's parameters as text, and as the store keeps them.
 */
#include "tests/unit/unit.h"
#include "ttl/params.h"

#include <errno.h>

static int set(struct ttl_params *p, const char *name, const char *text, struct reason *why)
{
    return ttl_param_set(p, name, text, strlen(text), why);
}

static const char *get(const struct ttl_params *p, const char *name)
{
    static char text[PARAM_TEXT_BYTES];
    return ttl_param_get(p, name, text) == 0 ? text : NULL;
}

static void test_defaults(void)
{
    static const char *const standard[][2] = {
        {"ttlMonitorEnabled", "true"},
        {"ttlMonitorWake", "deadline"},
        {"ttlMonitorSleepSecs", "60"},
        {"ttlMonitorSubPassTargetSecs", "60"},
        {"ttlIndexDeleteTargetDocs", "50000"},
        {"ttlIndexDeleteTargetTimeMS", "1000"},
        {"ttlMonitorClockJumpSecs", "3600"},
        {"slowOpThresholdMS", "100"},
    };
    struct ttl_params p;
    unsigned int n = 0;
    ttl_params_init(&p);
    for (; ttl_param_name(n); n++) {
        const char *want = NULL;
        for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++)
            if (strcmp(standard[i][0], ttl_param_name(n)) == 0)
                want = standard[i][1];
        CHECK(want != NULL);
        CHECK_STR(get(&p, ttl_param_name(n)), want ? want : "?");
    }
    CHECK_EQ(n, sizeof standard / sizeof standard[0]);
    CHECK(!ttl_param_name(UINT32_MAX));
    CHECK(!get(&p, "nonsense"));
    CHECK_EQ(p.sleep_s, 60);
    CHECK(p.monitor_enabled && p.wake_by_deadline);
}

/* What is taken, and how it reads back; what is refused leaves the old value. */
static void test_values(void)
{
    static const struct {
        const char *name, *text, *back; /* NULL: refused */
    } cases[] = {
        {"ttlMonitorEnabled", "false\n", "false"},
        {"ttlMonitorEnabled", "1", "true"},
        {"ttlMonitorEnabled", "off", "false"},
        {"ttlMonitorEnabled", "yes", "true"},
        {"ttlMonitorEnabled", "no", "false"},
        {"ttlMonitorEnabled", "True", NULL},
        {"ttlMonitorEnabled", "", NULL},
        {"ttlMonitorEnabled", "2", NULL},
        {"ttlMonitorEnabled", "true\n\n", NULL},
        {"ttlMonitorWake", "interval", "interval"},
        {"ttlMonitorWake", "deadline\n", "deadline"},
        {"ttlMonitorWake", "never", NULL},
        {"ttlMonitorSleepSecs", "1", "1"},
        {"ttlMonitorSleepSecs", "0", NULL},
        {"ttlMonitorSleepSecs", "2147483647\n", "2147483647"},
        {"ttlMonitorSleepSecs", "2147483648", NULL},
        {"ttlMonitorSleepSecs", "99999999999999999999", NULL},
        {"ttlMonitorSleepSecs", "-1", NULL},
        {"ttlMonitorSleepSecs", "+1", NULL},
        {"ttlMonitorSleepSecs", " 1", NULL},
        {"ttlMonitorSleepSecs", "1.5", NULL},
        {"ttlMonitorSleepSecs", "1s", NULL},
        {"ttlMonitorSleepSecs", "", NULL},
        {"ttlMonitorSleepSecs", "\n", NULL},
        {"ttlMonitorSleepSecs", "007", "7"},
        {"ttlMonitorSubPassTargetSecs", "0", "0"},
        {"ttlIndexDeleteTargetDocs", "0", "0"},
        {"ttlIndexDeleteTargetTimeMS", "0", "0"},
        {"ttlMonitorClockJumpSecs", "0", "0"},
    };
    struct ttl_params p;
    ttl_params_init(&p);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct reason why = {0};
        char before[PARAM_TEXT_BYTES];
        CHECK_EQ(ttl_param_get(&p, cases[i].name, before), 0);
        int err = set(&p, cases[i].name, cases[i].text, &why);
        if ((err == 0) != (cases[i].back != NULL))
            fprintf(stderr, "%s=%s:\n", cases[i].name, cases[i].text);
        CHECK_EQ(err, cases[i].back ? 0 : -EINVAL);
        CHECK((why.text[0] == '\0') == (err == 0));
        CHECK_STR(get(&p, cases[i].name), cases[i].back ? cases[i].back : before);
    }
    struct reason why = {0};
    CHECK_EQ(set(&p, "nonsense", "1", &why), -ENOENT);
    CHECK(why.text[0] != '\0');
    CHECK_EQ(ttl_param_set(&p, "ttlMonitorSleepSecs", "12345", 2, NULL), 0); /* not terminated */
    CHECK_EQ(p.sleep_s, 12);
    CHECK_EQ(ttl_param_set(&p, "ttlMonitorSleepSecs", "1\0", 2, NULL), -EINVAL);
}

static void test_stored(void)
{
    struct ttl_params p, back;
    bson_t document = BSON_INITIALIZER;
    ttl_params_init(&p);
    CHECK_EQ(set(&p, "ttlMonitorEnabled", "false", NULL), 0);
    CHECK_EQ(set(&p, "ttlMonitorWake", "interval", NULL), 0);
    CHECK_EQ(set(&p, "ttlMonitorSleepSecs", "17", NULL), 0);
    CHECK_EQ(set(&p, "ttlIndexDeleteTargetDocs", "0", NULL), 0);
    CHECK(ttl_params_encode(&p, &document));
    ttl_params_init(&back);
    ttl_params_decode(&back, &document);
    for (unsigned int i = 0; ttl_param_name(i); i++) {
        char want[PARAM_TEXT_BYTES];
        CHECK_EQ(ttl_param_get(&p, ttl_param_name(i), want), 0);
        CHECK_STR(get(&back, ttl_param_name(i)), want);
    }
    bson_destroy(&document);

    /* Unknown and bad ones are left out. */
    bson_init(&document);
    BSON_APPEND_UTF8(&document, "ttlOfTheFuture", "1");
    BSON_APPEND_UTF8(&document, "ttlMonitorSleepSecs", "0");
    BSON_APPEND_INT32(&document, "ttlIndexDeleteTargetDocs", 5);
    BSON_APPEND_UTF8(&document, "ttlMonitorClockJumpSecs", "9");
    ttl_params_init(&back);
    ttl_params_decode(&back, &document);
    CHECK_EQ(back.sleep_s, 60);
    CHECK_EQ(back.delete_target_docs, 50000);
    CHECK_EQ(back.clock_jump_s, 9);
    bson_destroy(&document);
}

int main(void)
{
    RUN(test_defaults);
    RUN(test_values);
    RUN(test_stored);
    return unit_report();
}
