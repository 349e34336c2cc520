/*
 * ttlctl - looks at a mounted ttlfs and sets its rules. ttlctl(1) describes it.
 */
#include "mount-helpers/ttlctl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 16
#define SHORTS_BYTES 64

/* Above what a subcommand may use for its own long options. */
enum { OPTION_JSON = 1000, OPTION_MOUNT };

static const struct ctl_command commands[] = {
    {"status", ctl_status, "how a mount stands: documents, deadlines, indexes, warnings",
        "status [MOUNT]\n"},
    {"top", ctl_top, "the same, live: passes, deletions per second, lag, next deadlines",
        "top [-b] [-n N] [-d SECONDS] [MOUNT]\n"
        "\n"
        "On a terminal it draws a page anew every 2 seconds; q ends it.\n"
        "\n"
        "    -b             batch: one page behind the other, as when the output is no terminal\n"
        "    -n N           end after N pages\n"
        "    -d SECONDS     from one page to the next (2)\n"},
    {"ls", ctl_ls, "documents with their deadline, the time that is left, and the reason",
        "ls [-r] [-n N] [--sort deadline|name|size] [--reverse] [PATH...]\n"
        "\n"
        "    -r, --recursive    the directories below, too\n"
        "    -n N               the first N only\n"
        "    --sort ORDER       deadline (default, the earliest first), name or size\n"
        "    --reverse          the other way round\n"},
    {"get", ctl_get, "shows rules and figures of a file or directory",
        "get PATH [KEY...]\n"
        "\n"
        "One KEY: its value alone. Several, or none, which means all: one line each.\n"},
    {"set", ctl_set, "sets rules of a file or directory",
        "set [--wait] PATH KEY=VALUE...\n"
        "\n"
        "KEY is idle, max, expireAt, index.NAME, hold ... or a whole attribute name; doc.FIELD "
        "sets\n"
        "a field of a document. The order counts; the first value that is refused ends it.\n"
        "\n"
        "    --wait         start a pass and wait until what is due has been deleted\n"},
    {"unset", ctl_unset, "removes rules of a file or directory", "unset PATH KEY...\n"},
    {"index", ctl_index, "creates, lists, modifies, drops and explains indexes",
        "index create DIR NAME [VALUE | OPTION...]\n"
        "       ttlctl index list [DIR]\n"
        "       ttlctl index modify DIR NAME VALUE | OPTION...\n"
        "       ttlctl index drop DIR NAME...\n"
        "       ttlctl index explain DIR FILTER...\n"
        "\n"
        "VALUE is seconds, a duration or JSON, as user.ttl.index.NAME takes it. create refuses "
        "what\n"
        "exists, modify what does not. explain tells which index serves a query.\n"
        "\n"
        "    --key FIELD            the field (default: NAME)\n"
        "    --expire-after TIME    seconds or a duration; without it a plain index is made\n"
        "    --filter JSON          partialFilterExpression\n"
        "    --as TYPE              date, iso8601, epochSeconds or epochMillis\n"
        "    --jitter TIME          jitterSeconds\n"
        "    --hidden, --visible    hide it from queries, or not\n"
        "    --wait                 start a pass and wait until what is due has been deleted\n"},
    {"hold", ctl_hold, "keeps files from expiring, or lets them go",
        "hold [--release] PATH...\n"
        "\n"
        "    --release      let it expire again\n"},
    {"due", ctl_due, "what a pass would delete now",
        "due [-n N] [MOUNT]\n"
        "\n"
        "    -n N           the first N only\n"},
    {"histogram", ctl_histogram, "how many documents expire when, as bars",
        "histogram [--collection PATH] [MOUNT]\n"
        "\n"
        "    --collection PATH  only the documents directly in this directory, named from the\n"
        "                       mount's root\n"},
    {"events", ctl_events, "documents created, changed, deleted, expired, archived",
        "events [-f] [-n N] [--seconds S] [--event KIND,...] [--collection PATH] [MOUNT]\n"
        "\n"
        "    -f, --follow       until interrupted; otherwise it ends after a second\n"
        "    -n N               end after N events\n"
        "    --seconds S        end after S seconds\n"
        "    --event KIND,...   only created, changed, deleted, expired, archived\n"
        "    --collection PATH  only in this directory and below, named from the mount's root\n"},
    {"restore", ctl_restore, "brings archived documents back",
        "restore [--to DIR] [--force] [--keep-rules] [--remove] FILE...\n"
        "\n"
        "Each FILE is one below a mount's archive= directory. It goes where it was, or below "
        "--mount.\n"
        "\n"
        "    --to DIR       into this directory\n"
        "    --force        in place of what has its name\n"
        "    --keep-rules   all of its rules, even if it is due at once\n"
        "    --remove       take it out of the archive\n"},
    {"pass", ctl_run_pass, "deletes what is due, and tells how much that was",
        "pass [MOUNT]\n"
        "\n"
        "For the mount's owner and root only.\n"},
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static const struct option common_options[] = {{"json", no_argument, NULL, OPTION_JSON},
    {"mount", required_argument, NULL, OPTION_MOUNT}, {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};

static int getopt_status = CTL_OK;

static void print_common_options(FILE *out)
{
    fputs("\n"
          "    --json         answer in JSON\n"
          "    --mount PATH   the mount that PATH is on (default: that of the operand, or of the\n"
          "                   current directory)\n"
          "    -q, --quiet    say nothing but answers and errors\n"
          "    -h, --help     this text\n"
          "    -V, --version  the version\n",
        out);
}

static void print_help(const struct ctl *ctl)
{
    if (ctl->name) {
        printf("usage: ttlctl %s", ctl->usage);
        print_common_options(stdout);
        return;
    }
    fputs("usage: ttlctl [OPTION...] SUBCOMMAND [OPTION...] [OPERAND...]\n\n", stdout);
    for (size_t i = 0; i < COMMANDS; i++)
        printf("    %-12s %s\n", commands[i].name, commands[i].summary);
    print_common_options(stdout);
    fputs("\n"
          "ttlctl SUBCOMMAND --help tells more, ttlctl(1) all.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage, 3 not on a ttlfs, 4 refused by ttlfs.\n",
        stdout);
}

int ctl_usage(const struct ctl *ctl, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void) vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ctl_error("%s (see ttlctl %s%s--help)", text, ctl->name ? ctl->name : "", ctl->name ? " " : "");
    return CTL_USAGE;
}

/* Says what is wrong with the option that getopt_long stopped at. */
static int bad_option(const struct ctl *ctl, int c, char **argv)
{
    const char *missing = c == ':' ? "needs a value" : "is no option here, or takes no value";
    if (optopt && optopt < OPTION_JSON)
        return ctl_usage(ctl, "-%c %s", optopt, missing);
    return ctl_usage(ctl, "%s %s", argv[optind - 1], missing);
}

int ctl_getopt(
    struct ctl *ctl, int argc, char **argv, const char *shorts, const struct option *longs)
{
    struct option all[OPTIONS_MAX + sizeof common_options / sizeof common_options[0]];
    char letters[SHORTS_BYTES];
    size_t n = 0;
    for (; longs && longs[n].name && n < OPTIONS_MAX; n++)
        all[n] = longs[n];
    memcpy(all + n, common_options, sizeof common_options);
    bool plus = shorts[0] == '+';
    (void) snprintf(letters, sizeof letters, "%s:%sqhV", plus ? "+" : "", shorts + plus);
    opterr = 0;
    for (;;) {
        optopt = 0;
        int c = getopt_long(argc, argv, letters, all, NULL);
        switch (c) {
        case OPTION_JSON:
            ctl->json = true;
            break;
        case OPTION_MOUNT:
            ctl->mount = optarg;
            break;
        case 'q':
            ctl->quiet = true;
            break;
        case 'h':
            print_help(ctl);
            getopt_status = CTL_OK;
            return CTL_GETOPT_DONE;
        case 'V':
            printf("ttlctl %s\n", TTLFS_VERSION);
            getopt_status = CTL_OK;
            return CTL_GETOPT_DONE;
        case ':':
        case '?':
            getopt_status = bad_option(ctl, c, argv);
            return CTL_GETOPT_DONE;
        default:
            return c;
        }
    }
}

int ctl_getopt_status(void)
{
    return getopt_status;
}

bool ctl_number(const char *text, int64_t min, int64_t max, int64_t *ret_value)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < min || value > max)
        return false;
    *ret_value = value;
    return true;
}

bool ctl_seconds(const char *text, double *ret_seconds)
{
    char *end;
    double value = strtod(text, &end);
    /* The comparison is false for what is not a number. */
    if (end == text || *end || !(value > 0 && value <= 86400))
        return false;
    *ret_seconds = value;
    return true;
}

int main(int argc, char **argv)
{
    struct ctl ctl = {.usage = ""};
    int c = ctl_getopt(&ctl, argc, argv, "+", NULL);
    if (c == CTL_GETOPT_DONE)
        return ctl_finish(ctl_getopt_status());
    if (optind == argc)
        return ctl_usage(&ctl, "the subcommand is missing");
    const char *name = argv[optind];
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) != 0)
            continue;
        ctl.name = name;
        ctl.usage = commands[i].usage;
        argc -= optind;
        argv += optind;
        optind = 0; /* starts getopt anew */
        return ctl_finish(commands[i].run(&ctl, argc, argv));
    }
    return ctl_usage(&ctl, "%s is no subcommand", name);
}
