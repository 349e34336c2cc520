/*
 * ttl/survey: walks in slices, what is due, figures of indexes, warnings; ttl/events: what is told.
 */
#include "tests/unit/unit.h"
#include "tests/unit/world.h"
#include "ttl/events.h"
#include "ttl/survey.h"

#define IDLE TTL_XATTR_PREFIX "idle"
#define MAX TTL_XATTR_PREFIX "max"

struct seen {
    size_t collections, names;
    int64_t last_ms;
    bool in_order;
    char text[512];
};

static bool see_collection(void *arg, struct collection *c)
{
    (void) c;
    ((struct seen *) arg)->collections++;
    return true;
}

static void see_name(void *arg, struct dentry *d)
{
    (void) d;
    ((struct seen *) arg)->names++;
}

static bool see_due(void *arg, struct dentry *d, const struct ttl_deadline *deadline)
{
    struct seen *seen = arg;
    seen->names++;
    seen->in_order &= deadline->at_ms >= seen->last_ms;
    seen->last_ms = deadline->at_ms;
    size_t used = strlen(seen->text);
    (void) snprintf(seen->text + used, sizeof seen->text - used, "%s ", d->name);
    return seen->names < 1000;
}

static char *make_name(char name[32], const char *format, int i)
{
    (void) snprintf(name, 32, "%s%d", format, i);
    return name;
}

static void test_all(void)
{
    struct world w;
    struct seen seen = {0};
    struct survey survey = {&seen, see_collection, see_name};
    char name[32];
    world_open(&w, NULL);
    for (int i = 0; i < 10; i++) {
        struct collection *c = world_mkdir(&w, w.tree->root, make_name(name, "c", i));
        for (int k = 0; k < 100; k++)
            world_file(&w, c, make_name(name, "d", k), NULL, T0);
    }
    survey_all(&w.ttl, &survey);
    CHECK_EQ(seen.collections, 11);
    CHECK_EQ(seen.names, 1010);
    CHECK_EQ(w.ttl.surveys, 0);
    world_close(&w);
}

static void test_due(void)
{
    struct world w;
    struct seen seen = {.in_order = true, .last_ms = INT64_MIN};
    char name[32];
    world_open(&w, NULL);
    /* Two indexes by both of which the names are due: each is told once. */
    CHECK_EQ(world_rule(&w, &w.tree->root->doc, IDLE, "10s", T0), 0);
    CHECK_EQ(world_rule(&w, &w.tree->root->doc, MAX, "15s", T0), 0);
    for (int i = 0; i < 700; i++)
        world_file(&w, w.tree->root, make_name(name, "n", i), NULL, T0 + i);
    survey_due(&w.ttl, T0 + 9 * SECOND, see_due, &seen);
    CHECK_EQ(seen.names, 0);
    survey_due(&w.ttl, T0 + 10 * SECOND + 99, see_due, &seen);
    CHECK_EQ(seen.names, 100);
    CHECK(seen.in_order);
    seen = (struct seen){.in_order = true, .last_ms = INT64_MIN};
    survey_due(&w.ttl, T0 + 3600 * SECOND, see_due, &seen);
    CHECK_EQ(seen.names, 700);
    CHECK(seen.in_order);
    CHECK_EQ(w.ttl.surveys, 0);
    world_close(&w);
}

static void test_due_asks_the_predicate(void)
{
    struct world w;
    struct seen seen = {.in_order = true, .last_ms = INT64_MIN};
    world_open(&w, NULL);
    CHECK_EQ(world_rule(&w, &w.tree->root->doc, IDLE, "10s", T0), 0);
    struct dentry *used = world_file(&w, w.tree->root, "used", NULL, T0);
    struct dentry *held = world_file(&w, w.tree->root, "held", NULL, T0);
    world_file(&w, w.tree->root, "due", NULL, T0);
    CHECK_EQ(world_rule(&w, held->doc, TTL_XATTR_PREFIX "hold", "yes", T0), 0);
    tree_lock(w.tree);
    filing_accessed(&w.ttl, used->doc, T0 + 8 * SECOND, false);
    tree_unlock(w.tree);
    survey_due(&w.ttl, T0 + 12 * SECOND, see_due, &seen);
    CHECK_STR(seen.text, "due ");

    struct survey_totals totals;
    survey_totals(&w.ttl, T0 + 12 * SECOND, &totals);
    CHECK_EQ(totals.backlog, 1);
    CHECK_EQ(totals.lag_ms, 2 * SECOND);
    CHECK_EQ(totals.next_ms, T0 + 10 * SECOND);
    world_unlink(&w, world_find(&w, w.tree->root, "due"), T0 + 12 * SECOND);
    survey_totals(&w.ttl, T0 + 12 * SECOND, &totals);
    CHECK_EQ(totals.backlog, 0);
    CHECK_EQ(totals.lag_ms, 0);
    /* Filed under 10 s, due at 18 s. */
    CHECK_EQ(totals.next_ms, T0 + 18 * SECOND);
    world_close(&w);
}

static void test_nothing_is_due(void)
{
    struct world w;
    struct survey_totals totals;
    world_open(&w, NULL);
    world_file(&w, w.tree->root, "a", "text", T0);
    survey_totals(&w.ttl, T0, &totals);
    CHECK_EQ(totals.backlog, 0);
    CHECK_EQ(totals.next_ms, DATE_NEVER_MS);
    world_close(&w);
}

static const char *warning_of(struct world *w, struct collection *c)
{
    tree_lock(w->tree);
    const struct index *index = survey_index_of(c, 0);
    const char *warning = index ? survey_index_warning(&w->ttl, index) : "no index";
    tree_unlock(w->tree);
    return warning;
}

static bool mentions(const char *text, const char *word)
{
    return text && strstr(text, word) != NULL;
}

static void test_warnings(void)
{
    struct world w;
    world_open(&w, NULL);
    struct collection *c = world_mkdir(&w, w.tree->root, "c");
    struct collection *below = world_mkdir(&w, c, "below");
    CHECK_EQ(world_rule(&w, &c->doc, INDEX_XATTR_PREFIX "at", "60", T0), 0);
    CHECK(warning_of(&w, c) == NULL); /* no documents: nothing is wrong yet */
    world_file(&w, below, "empty", NULL, T0);
    CHECK(mentions(warning_of(&w, c), "missing"));
    world_file(&w, below, "other", "{\"b\":1}", T0);
    CHECK(mentions(warning_of(&w, c), "missing"));
    struct dentry *text = world_file(&w, below, "text", "{\"at\":\"2026-01-01\"}", T0);
    CHECK(mentions(warning_of(&w, c), "never a date"));
    world_unlink(&w, text, T0);
    CHECK(mentions(warning_of(&w, c), "missing"));
    world_file(&w, c, "good", "{\"at\":{\"$date\":\"2030-01-01T00:00:00Z\"}}", T0);
    CHECK(warning_of(&w, c) == NULL);
    world_close(&w);
}

static void test_warnings_of_filters(void)
{
    struct world w;
    world_open(&w, NULL);
    const char *spec = "{\"key\":\"at\",\"expireAfterSeconds\":60,"
                       "\"partialFilterExpression\":{\"kind\":\"temp\"}}";
    CHECK_EQ(world_rule(&w, &w.tree->root->doc, INDEX_XATTR_PREFIX "at", spec, T0), 0);
    world_file(&w, w.tree->root, "other", "{\"kind\":\"kept\"}", T0);
    CHECK(warning_of(&w, w.tree->root) == NULL); /* none of its documents: that may well be */
    world_file(&w, w.tree->root, "temp", "{\"kind\":\"temp\"}", T0);
    CHECK(mentions(warning_of(&w, w.tree->root), "missing"));
    world_close(&w);
}

static void hear(void *arg, enum ttl_event event, struct dentry *d, int64_t now_ms)
{
    struct seen *seen = arg;
    size_t used = strlen(seen->text);
    (void) snprintf(seen->text + used, sizeof seen->text - used, "%s %s %d; ",
        ttl_event_name(event), d->name, (int) ((now_ms - T0) / SECOND));
}

static void test_events(void)
{
    struct world w;
    struct seen seen = {0};
    world_open(&w, NULL);
    w.ttl.tell = hear;
    w.ttl.tell_arg = &seen;
    struct dentry *a = world_file(&w, w.tree->root, "a", NULL, T0);
    struct dentry *b = world_file(&w, w.tree->root, "b", NULL, T0);
    struct dentry *c = world_file(&w, w.tree->root, "c", NULL, T0);
    struct collection *dir = world_mkdir(&w, w.tree->root, "dir");
    tree_lock(w.tree);
    CHECK_EQ(ttl_unlink(&w.ttl, a, world_time(T0 + SECOND), TTL_EVENT_DELETED), 0);
    CHECK_STR(seen.text, ""); /* nobody listens */
    atomic_store(&w.ttl.heard, true);
    CHECK_EQ(ttl_unlink(&w.ttl, b, world_time(T0 + 2 * SECOND), TTL_EVENT_DELETED), 0);
    CHECK_EQ(monitor_expire(&w.ttl, c, world_time(T0 + 3 * SECOND), NULL), 0);
    CHECK_EQ(ttl_unlink(&w.ttl, dir->doc.links, world_time(T0), TTL_EVENT_DELETED), 0);
    tree_unlock(w.tree);
    CHECK_STR(seen.text, "deleted b 2; expired c 3; ");
    world_close(&w);
}

int main(void)
{
    RUN(test_all);
    RUN(test_due);
    RUN(test_due_asks_the_predicate);
    RUN(test_nothing_is_due);
    RUN(test_warnings);
    RUN(test_warnings_of_filters);
    RUN(test_events);
    return unit_report();
}
