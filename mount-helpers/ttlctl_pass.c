/*
 * ttlctl pass: a pass of the monitor now.
 */
#include "mount-helpers/ttlctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int ctl_pass(const struct ctl *ctl, const char *root, bson_t *ret_result)
{
    char *path = ctl_join(root, ".ttlfs/pass");
    struct ctl_progress *progress = ctl_progress_begin(ctl, root, CTL_PURGING);
    int err = ctl_write_file(path, "1\n");
    ctl_progress_end(progress);
    if (err) {
        ctl_error("%s: %s%s", path, strerror(-err),
            err == -EACCES ? ": only the mount's owner and root may start a pass" : "");
        bson_init(ret_result);
        free(path);
        return CTL_FAILED;
    }
    free(path);
    return ctl_read_json(root, "pass", ret_result);
}

int ctl_run_pass(struct ctl *ctl, int argc, char **argv)
{
    const char *root;
    bson_t result;
    if (ctl_getopt(ctl, argc, argv, "", NULL) == CTL_GETOPT_DONE)
        return ctl_getopt_status();
    if (argc - optind > 1)
        return ctl_usage(ctl, "one MOUNT at most");
    int status = ctl_find_mount(ctl, optind < argc ? argv[optind] : NULL, &root);
    if (status)
        return status;
    status = ctl_pass(ctl, root, &result);
    if (status == CTL_OK && ctl->json) {
        ctl_json_document(stdout, &result);
        putchar('\n');
    } else if (status == CTL_OK && ctl_int(&result, "clockHeld", 0)) {
        ctl_error("%s: the monitor holds still because the clock has leapt: confirm it in "
                  ".ttlfs/parameters/ttlMonitorClockConfirm",
            root);
        status = CTL_FAILED;
    } else if (status == CTL_OK) {
        char took[32];
        ctl_duration((double) ctl_int(&result, "durationMS", 0) / 1000, took, sizeof took);
        printf("%lld deleted, %lld errors, %lld sub-passes, %s\n",
            (long long) ctl_int(&result, "deletedDocuments", 0),
            (long long) ctl_int(&result, "errors", 0), (long long) ctl_int(&result, "subPasses", 0),
            took);
    }
    bson_destroy(&result);
    return status;
}
