/* Traces in a folder, named as TensorBoard's profiler plugin reads them. */
#include "core/fail.h"
#include "core/io_status.h"
#include "profiler/profiler.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Makes the folder and those that it lies in. */
static tenon_status make_folder(const char *folder) {
    struct stat info;
    int error = *folder ? ENOTDIR : ENOENT;
    char *path = strdup(folder);
    if (!path)
        return tn_no_memory();
    for (char *at = path; *at; at++) {
        char next = at[1];
        if (next != '/' && next != '\0')
            continue;
        at[1] = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            error = errno;
        at[1] = next;
    }
    free(path);
    if (stat(folder, &info) == 0 && S_ISDIR(info.st_mode))
        return TENON_OK;
    return tn_fail(tn_io_status(error), "%s: the folder cannot be made: %s", folder,
                   strerror(error));
}

static tenon_status write_trace(const tenon_profiler *p, const tenon_tensorboard_options *options) {
    char host[256] = "", worker[300];
    tn_text path = {0};
    struct timespec now;
    if (options->worker && strchr(options->worker, '/'))
        return tn_fail(TENON_INVALID_ARGUMENT, "the name of a worker has no '/': '%s'",
                       options->worker);
    TN_TRY(make_folder(options->folder));
    gethostname(host, sizeof host - 1);
    snprintf(worker, sizeof worker, "%s_%ld", host, (long)getpid());
    clock_gettime(CLOCK_REALTIME, &now);
    tn_text_add(&path, "%s/%s.%lld.pt.trace.json%s", options->folder,
                options->worker && *options->worker ? options->worker : worker,
                (long long)now.tv_sec * 1000000000 + now.tv_nsec, options->gzip ? ".gz" : "");
    tenon_status status =
        path.failed ? tn_no_memory() : tenon_profiler_export_chrome_trace(p, path.data);
    tn_text_free(&path);
    return status;
}

void tenon_tensorboard_trace_handler(tenon_profiler *p, void *user) {
    if (write_trace(p, user) != TENON_OK)
        tn_log(TENON_LOG_ERROR, "profiler: %s", tenon_last_error());
}
