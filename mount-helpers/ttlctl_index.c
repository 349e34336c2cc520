/*
 * ttlctl index create, modify, drop: createIndex, collMod and dropIndex on a directory.
 * What is in force: ttlctl_index_list.c.
 */
#include "core/dates.h"
#include "mount-helpers/ttlctl.h"
#include "mount-helpers/ttlctl_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

enum {
    OPTION_KEY = 'k',
    OPTION_AFTER = 'e',
    OPTION_FILTER = 'f',
    OPTION_AS = 'a',
    OPTION_JITTER = 'j',
    OPTION_HIDDEN = 'H',
    OPTION_VISIBLE = 'v',
    OPTION_WAIT = 'w'
};

static const struct option value_options[] = {{"key", required_argument, NULL, OPTION_KEY},
    {"expire-after", required_argument, NULL, OPTION_AFTER},
    {"filter", required_argument, NULL, OPTION_FILTER}, {"as", required_argument, NULL, OPTION_AS},
    {"jitter", required_argument, NULL, OPTION_JITTER},
    {"hidden", no_argument, NULL, OPTION_HIDDEN}, {"visible", no_argument, NULL, OPTION_VISIBLE},
    {"wait", no_argument, NULL, OPTION_WAIT}, {NULL, 0, NULL, 0}};

/* A value of an index under construction: JSON from options. */
struct value {
    FILE *out;
    char *text;
    size_t len;
    bool any; /* an option was given */
    bool wait;
};

static void begin_member(struct value *value, const char *name)
{
    fprintf(value->out, "%s\"%s\":", value->any ? "," : "{", name);
    value->any = true;
}

/* A duration, or what only ttlfs may judge (-1), in seconds. */
static bool add_seconds(struct value *value, const char *name, const char *text)
{
    int64_t ms, number;
    if (ctl_number(text, INT64_MIN, INT64_MAX, &number))
        ms = number;
    else if (date_parse_duration(text, strlen(text), &ms) == 0 && ms % 1000 == 0)
        ms /= 1000;
    else
        return false;
    begin_member(value, name);
    fprintf(value->out, "%lld", (long long) ms);
    return true;
}

/* Takes one option. Returns a status. */
static int take(const struct ctl *ctl, struct value *value, int c)
{
    switch (c) {
    case OPTION_KEY:
    case OPTION_AS:
        begin_member(value, c == OPTION_KEY ? "key" : "as");
        ctl_json_string(value->out, optarg);
        break;
    case OPTION_FILTER:
        begin_member(value, "partialFilterExpression");
        fputs(optarg, value->out);
        break;
    case OPTION_AFTER:
        if (!add_seconds(value, "expireAfterSeconds", optarg))
            return ctl_usage(ctl, "--expire-after %s is no whole number of seconds", optarg);
        break;
    case OPTION_JITTER:
        if (!add_seconds(value, "jitterSeconds", optarg))
            return ctl_usage(ctl, "--jitter %s is no whole number of seconds", optarg);
        break;
    case OPTION_HIDDEN:
    case OPTION_VISIBLE:
        begin_member(value, "hidden");
        fputs(c == OPTION_HIDDEN ? "true" : "false", value->out);
        break;
    default:
        value->wait = true;
        break;
    }
    return CTL_OK;
}

/* {"path":"d","index":"at","spec":{…}} */
static void print_result(
    const struct ctl *ctl, const char *path, const char *name, const char *attribute)
{
    char *text;
    if (!ctl->json)
        return;
    putchar('{');
    ctl_json_path(stdout, "path", path);
    fputs(",\"index\":", stdout);
    ctl_json_string(stdout, name);
    if (ctl_getxattr(path, attribute, &text) == 0) {
        printf(",\"spec\":%s", text);
        free(text);
    }
    fputs("}\n", stdout);
}

static int put(const struct ctl *ctl, const struct value *value, char **operands, int n, int flags)
{
    const char *path = operands[0], *name = operands[1], *root = ctl_mount_of(path);
    const char *text = n == 3 ? operands[2] : value->text;
    char *attribute;
    int status = ctl_check_mount(path);
    if (status)
        return status;
    if (asprintf(&attribute, "user.ttl.index.%s", name) < 0)
        abort();
    struct ctl_progress *progress = ctl_progress_begin(ctl, root, CTL_FILING);
    int err = setxattr(path, attribute, text, strlen(text), flags) == 0 ? 0 : errno;
    ctl_progress_end(progress);
    if (err) {
        status = ctl_complain(path, attribute + strlen("user.ttl."), err);
    } else {
        if (value->wait && (status = ctl_find_mount(ctl, path, &root)) == CTL_OK) {
            bson_t result;
            status = ctl_pass(ctl, root, &result);
            bson_destroy(&result);
        }
        print_result(ctl, path, name, attribute);
    }
    free(attribute);
    return status;
}

/* create (XATTR_CREATE) and modify (XATTR_REPLACE). */
static int create_or_modify(struct ctl *ctl, int argc, char **argv, int flags)
{
    struct value value = {0};
    int c, status = CTL_OK;
    value.out = open_memstream(&value.text, &value.len);
    if (!value.out)
        abort();
    while (status == CTL_OK && (c = ctl_getopt(ctl, argc, argv, "", value_options)) != -1)
        status = c == CTL_GETOPT_DONE ? -1 : take(ctl, &value, c);
    fputs(value.any ? "}" : "{}", value.out);
    if (fclose(value.out) != 0)
        abort();
    int n = argc - optind;
    if (status == -1)
        status = ctl_getopt_status();
    else if (status == CTL_OK && (n < 2 || n > 3))
        status = ctl_usage(ctl, "DIR and NAME are needed, and one VALUE at most");
    else if (status == CTL_OK && n == 3 && value.any)
        status = ctl_usage(ctl, "give a VALUE or options, not both");
    else if (status == CTL_OK && n == 2 && !value.any && flags == XATTR_REPLACE)
        status = ctl_usage(ctl, "a VALUE or an option is needed");
    else if (status == CTL_OK)
        status = put(ctl, &value, argv + optind, n, flags);
    free(value.text);
    return status;
}

static int drop(struct ctl *ctl, int argc, char **argv)
{
    int status = CTL_OK;
    if (ctl_getopt(ctl, argc, argv, "", NULL) == CTL_GETOPT_DONE)
        return ctl_getopt_status();
    if (argc - optind < 2)
        return ctl_usage(ctl, "DIR and NAME are needed");
    const char *path = argv[optind++];
    status = ctl_check_mount(path);
    if (status)
        return status;
    for (; optind < argc; optind++) {
        char *attribute;
        int failed = CTL_OK;
        if (asprintf(&attribute, "user.ttl.index.%s", argv[optind]) < 0)
            abort();
        if (removexattr(path, attribute) != 0) {
            failed = errno == ENODATA ? CTL_REFUSED : ctl_complain(path, argv[optind], errno);
            if (failed == CTL_REFUSED)
                ctl_error("%s: no index %s is set here", path, argv[optind]);
        } else {
            print_result(ctl, path, argv[optind], attribute);
        }
        status = status ? status : failed;
        free(attribute);
    }
    return status;
}

int ctl_index(struct ctl *ctl, int argc, char **argv)
{
    int c = ctl_getopt(ctl, argc, argv, "+", NULL);
    if (c == CTL_GETOPT_DONE)
        return ctl_getopt_status();
    if (optind == argc)
        return ctl_usage(ctl, "create, list, modify, drop or explain is missing");
    const char *verb = argv[optind];
    argc -= optind;
    argv += optind;
    optind = 0;
    if (strcmp(verb, "create") == 0)
        return create_or_modify(ctl, argc, argv, XATTR_CREATE);
    if (strcmp(verb, "modify") == 0)
        return create_or_modify(ctl, argc, argv, XATTR_REPLACE);
    if (strcmp(verb, "drop") == 0)
        return drop(ctl, argc, argv);
    if (strcmp(verb, "list") == 0)
        return ctl_index_list(ctl, argc, argv);
    if (strcmp(verb, "explain") == 0)
        return ctl_index_explain(ctl, argc, argv);
    return ctl_usage(ctl, "%s is not create, list, modify, drop or explain", verb);
}
