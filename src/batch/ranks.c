#include "ranks.h"
#include "file.h"
#include "merge.h"
#include "outputs.h"
#include "progress.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

tenon_status batch_ranks_start(const batch_ranks **out) {
    const char *size = getenv("OMPI_COMM_WORLD_SIZE"); /* Open MPI's mpirun sets it */
    *out = NULL;
    if (!size || strtol(size, NULL, 10) < 2)
        return TENON_OK;
    /* Found through the command's run path. It stays loaded: MPI cannot start twice. */
    void *module = dlopen("tenon_mpi.so", RTLD_NOW | RTLD_LOCAL);
    if (!module)
        return tenon_fail(TENON_NOT_FOUND,
                          "mpirun has started %s processes, and the module for MPI cannot be "
                          "loaded (%s): build with -Dmpi=enabled, or give each its part with "
                          "--shard",
                          size, dlerror());
    batch_ranks_entry *start;
    *(void **)&start = dlsym(module, BATCH_RANKS_ENTRY);
    *out = start ? start() : NULL;
    return *out ? TENON_OK : tenon_fail(TENON_INTERNAL, "tenon_mpi.so does not start MPI");
}

static const char *const ends[] = {"finished", "interrupted", "failed", "failed"};

static tenon_status write_summary(const batch_job *job, const batch_ranks *ranks, batch_end end,
                                  const batch_report *all, double seconds, const char *message) {
    double samples = (double)(all->samples - all->start_samples);
    if (!job->json)
        return TENON_OK;
    cJSON *s = cJSON_CreateObject();
    bool ok = s && cJSON_AddStringToObject(s, "status", ends[end]) &&
              cJSON_AddStringToObject(s, "message", message) &&
              cJSON_AddStringToObject(s, "model", job->model) &&
              cJSON_AddNumberToObject(s, "samples", (double)all->samples) &&
              cJSON_AddNumberToObject(s, "bad", (double)all->bad) &&
              cJSON_AddNumberToObject(s, "resumed_from", (double)all->start_samples) &&
              cJSON_AddNumberToObject(s, "seconds", seconds) &&
              cJSON_AddNumberToObject(s, "samples_per_second", samples / seconds) &&
              cJSON_AddNumberToObject(s, "ranks", ranks->size);
    char *text = ok ? cJSON_Print(s) : NULL;
    cJSON_Delete(s);
    if (!text)
        return batch_no_memory();
    tenon_status status = tenon_file_write(job->json, text, strlen(text));
    cJSON_free(text);
    return status;
}

/* Joined files are written last, and so must be free before. */
static tenon_status check_outputs(const batch_job *job) {
    for (int i = 0; i < job->outputs.count; i++) {
        const char *path = job->outputs.items[i].value;
        if (!job->overwrite && !job->resume && batch_is_file_path(path) && batch_file_exists(path))
            return tenon_fail(TENON_IO, "%s: it exists; --overwrite replaces it", path);
    }
    return TENON_OK;
}

/* Tells the others the end of this one, and waits until they have all come to theirs, or, elsewhere
 * than on rank 0, until that lets this one go. */
static void wait_for_all(const batch_ranks *ranks, const batch_report *mine, batch_report *all) {
    const struct timespec pause = {.tv_nsec = 20000000};
    while (ranks->tell(mine, all), all->state == BATCH_RANK_RUNNING)
        nanosleep(&pause, NULL); /* MPI itself would keep a core busy */
}

batch_end batch_run_ranks(const batch_job *job, const batch_ranks *ranks) {
    batch_report mine = {0}, all;
    batch_job own = *job;
    char message[1024] = "";
    double start = batch_clock();
    own.shard = ranks->rank;
    own.shards = ranks->size;
    own.ranks = ranks;
    own.report = &mine;
    own.json = NULL;
    own.quiet = job->quiet || ranks->rank > 0;
    batch_end end = check_outputs(job) == TENON_OK ? batch_run(&own) : BATCH_FAILURE;
    if (end == BATCH_FAILURE || end == BATCH_USAGE)
        snprintf(message, sizeof message, "%s", tenon_last_error());
    mine.state = end == BATCH_FINISHED ? BATCH_RANK_FINISHED : BATCH_RANK_STOPPED;
    wait_for_all(ranks, &mine, &all);
    if (ranks->rank == 0 && end == BATCH_FINISHED) {
        own.overwrite = job->overwrite || job->resume;
        tenon_status status =
            all.state == BATCH_RANK_FINISHED
                ? batch_merge(&own)
                : tenon_fail(TENON_RUN_FAILED, "a rank was stopped: the same command with "
                                               "--resume, and as many ranks, goes on");
        if (status != TENON_OK) {
            end = BATCH_FAILURE;
            snprintf(message, sizeof message, "%s", tenon_last_error());
        }
    }
    if (ranks->rank == 0 &&
        write_summary(job, ranks, end, &all, batch_clock() - start, message) != TENON_OK) {
        end = BATCH_FAILURE;
        snprintf(message, sizeof message, "%s", tenon_last_error());
    }
    ranks->leave();
    if (end == BATCH_FAILURE || end == BATCH_USAGE)
        (void)tenon_fail(TENON_RUN_FAILED, "%s", message);
    return end;
}
