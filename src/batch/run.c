/* The course of a job. */
#include "batch.h"
#include "disk.h"
#include "feed.h"
#include "identity.h"
#include "journal.h"
#include "outputs.h"
#include "progress.h"
#include "ranks.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WAIT_MILLISECONDS = 100 };
static const double CHECKPOINT_SECONDS = 1;

typedef struct run {
    const batch_job *job;
    batch_model model;
    batch_outputs outputs;
    batch_journal journal;
    cJSON *facts;
    bool goes_on;       /* an interrupted job */
    bool finished;      /* nothing is left to do */
    int64_t first, end; /* the samples of this job's shard; end is -1 when it is not known */
    tenon_pool *pool;
    batch_feed *feed;
    int64_t started;   /* samples that were done before */
    batch_state state; /* what is done; what of this is safe is in the journal */
    bool disk_failed;
    bool json_checked; /* the summary goes where nothing else is */
    batch_progress progress;
    double checkpoint;           /* when the last one was */
    int64_t batches;             /* since then */
    double seconds, rate, cores; /* in the end */
} run;

/* ---- Stopping ---- */

static volatile sig_atomic_t stopped;

void batch_stop(void) {
    stopped = 1;
}

bool batch_stopped(void) {
    return stopped;
}

/* ---- What is there already ---- */

static void say(const run *r, const char *format, ...) TENON_PRINTF(2, 3);

static void say(const run *r, const char *format, ...) {
    va_list args;
    if (r->job->quiet)
        return;
    fprintf(stderr, "tenon batch: ");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static tenon_status refuse_output(const run *r) {
    const char *path = "";
    if (r->job->overwrite || !batch_outputs_exist(&r->outputs, &path))
        return TENON_OK;
    return tenon_fail(TENON_IO, "%s: it exists%s; --overwrite replaces it", path,
                      r->job->resume ? ", and no journal tells what job it is of" : "");
}

/* Of the threads an option may tell before the pool is made. */
static tenon_status compare_early(run *r) {
    int threads = r->job->session.threads;
    if (threads > 0)
        BATCH_TRY(batch_fact(r->facts, "threads", "%d", threads));
    tenon_status status =
        batch_identity_compare(cJSON_GetObjectItemCaseSensitive(r->journal.job, "job"), r->facts,
                               threads > 0 ? NULL : "threads");
    cJSON_DeleteItemFromObjectCaseSensitive(r->facts, "threads");
    return status;
}

/* Decides whether this is a new job, one that goes on, or one that has been done. */
static tenon_status decide(run *r) {
    const batch_state *found = &r->journal.state;
    const batch_job *job = r->job;
    if (!job->resume) {
        if (!job->overwrite && (found->stage == BATCH_RUNNING || found->stage == BATCH_COMPLETE))
            return tenon_fail(
                TENON_IO,
                "%s: an interrupted job was here, %" PRId64
                " samples are done; --resume goes on with it, --overwrite starts anew",
                r->journal.path, found->samples);
        return refuse_output(r);
    }
    if (found->stage == BATCH_NOTHING)
        return refuse_output(r);
    BATCH_TRY(compare_early(r));
    if (found->stage == BATCH_DONE) {
        if (!batch_outputs_match(&r->outputs, found) && batch_outputs_exist(&r->outputs, NULL))
            return tenon_fail(TENON_INVALID_FILE,
                              "%s: the job is done, but its files were changed; --overwrite starts "
                              "anew",
                              r->journal.path);
        r->finished = batch_outputs_match(&r->outputs, found);
        return TENON_OK;
    }
    r->goes_on = true;
    r->state = *found;
    return TENON_OK;
}

/* What the job writes to `path` must not be what it reads, nor be read by the same job next time.
 */
static tenon_status refuse_read(const run *r, const char *path) {
    const batch_job *job = r->job;
    const char *name = strrchr(path, '/');
    struct stat info;
    char *weights = NULL;
    BATCH_TRY(batch_model_weights(job->model, &weights));
    const char *others[] = {job->model, weights, job->topk ? job->topk->labels : NULL,
                            job->session.tune};
    bool read = stat(path, &info) == 0 && r->model.source->reads(r->model.source, &info);
    for (size_t i = 0; i < sizeof others / sizeof *others && !read; i++)
        read = others[i] && batch_file_is_same(path, others[i]);
    free(weights);
    for (int i = 0; i < job->inputs.count; i++) {
        const char *input = job->inputs.items[i].value;
        read = read || batch_file_is_same(path, input);
        if (batch_source_is_array(name ? name + 1 : path) && batch_file_is_in(path, input))
            return tenon_fail(TENON_INVALID_ARGUMENT,
                              "%s: it lies in the folder %s, which the job reads, and would be a "
                              "sample the next time: outputs need another folder",
                              path, input);
    }
    return read ? tenon_fail(TENON_INVALID_ARGUMENT, "%s: the job reads it, and would write there",
                             path)
                : TENON_OK;
}

static tenon_status check_written(const run *r) {
    const char *json = r->job->json;
    bool taken = false;
    for (int i = 0; i < r->outputs.count; i++) {
        const batch_file *file = &r->outputs.items[i].file;
        BATCH_TRY(refuse_read(r, file->path));
        taken |= json &&
                 (batch_file_is_same(json, file->path) || batch_file_is_same(json, file->partial));
    }
    if (!json)
        return TENON_OK;
    if (taken || batch_file_is_same(json, r->outputs.journal))
        return tenon_fail(TENON_INVALID_ARGUMENT, "--json %s: the job writes something else there",
                          json);
    return refuse_read(r, json);
}

static tenon_status make_folder(const run *r) {
    const char *folder = r->outputs.folder;
    if (!folder || batch_disk_used->make_folder(folder) == 0)
        return folder ? batch_file_sync_folder(folder) : TENON_OK;
    return errno == EEXIST ? TENON_OK
                           : tenon_fail(batch_io_status(errno), "%s: the folder cannot be made: %s",
                                        folder, strerror(errno));
}

static tenon_status find_range(run *r) {
    int64_t count = r->model.source->count, batch = r->model.batch;
    const batch_job *job = r->job;
    r->end = count;
    if (job->shards == 0)
        return TENON_OK;
    if (count < 0)
        return tenon_fail(TENON_INVALID_ARGUMENT,
                          "--shard: how many samples there are must be known, which it is not for "
                          "standard input");
    /* Whole batches, so that each is what it is without shards. */
    int64_t batches = (count + batch - 1) / batch;
    r->first = batches * job->shard / job->shards * batch;
    r->end = batches * (job->shard + 1) / job->shards * batch;
    r->end = r->end < count ? r->end : count;
    return TENON_OK;
}

static tenon_status prepare(run *r) {
    BATCH_TRY(batch_model_open(r->job, &r->model));
    BATCH_TRY(find_range(r));
    BATCH_TRY(batch_outputs_plan(r->job, &r->model, &r->outputs));
    BATCH_TRY(check_written(r));
    r->json_checked = true;
    BATCH_TRY(batch_identity(r->job, &r->model, &r->outputs, &r->facts));
    if (!batch_file_exists(r->outputs.journal))
        BATCH_TRY(refuse_output(r)); /* and leaves nothing behind */
    BATCH_TRY(make_folder(r));
    BATCH_TRY(batch_journal_open(r->outputs.journal, &r->journal));
    return decide(r);
}

/* ---- Starting ---- */

static int journal_number(const run *r, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(r->journal.job, name);
    return r->goes_on && cJSON_IsNumber(item) && item->valueint > 0 ? item->valueint : 0;
}

/* What measurement chose is kept: another split would round otherwise. */
static tenon_status make_pool(run *r) {
    tenon_session_options session = r->job->session;
    tenon_pool_options options = {.instances = r->job->instances, .threads = session.threads};
    session.threads = 0;
    if (options.instances == 0 && options.threads == 0) {
        options.instances = journal_number(r, "instances");
        options.threads = journal_number(r, "threads");
        if (options.instances == 0 && r->job->shards == 0)
            options.hint = TENON_POOL_AUTO; /* shards must agree, and so follow the rule */
    }
    BATCH_TRY(tenon_pool_create(r->model.graph, &session, &options, r->model.inputs,
                                r->model.input_count, &r->pool));
    BATCH_TRY(batch_fact(r->facts, "threads", "%d", tenon_pool_threads(r->pool)));
    return batch_outputs_sinks(&r->outputs, r->job, &r->model, r->pool);
}

static tenon_status start_journal(run *r) {
    cJSON *line = cJSON_CreateObject(), *facts = cJSON_Duplicate(r->facts, true), *headers = NULL;
    bool ok = line && cJSON_AddNumberToObject(line, "journal of tenon batch", 1) &&
              cJSON_AddNumberToObject(line, "instances", tenon_pool_instances(r->pool)) &&
              cJSON_AddNumberToObject(line, "threads", tenon_pool_threads(r->pool)) &&
              (headers = cJSON_AddArrayToObject(line, "headers")) != NULL && facts &&
              cJSON_AddItemToObject(line, "job", facts);
    for (int i = 0; ok && i < r->outputs.count; i++)
        ok = cJSON_AddItemToArray(
            headers, cJSON_CreateNumber((double)r->outputs.items[i].sink->header_size));
    if (!ok) {
        cJSON_Delete(line);
        return batch_no_memory();
    }
    return batch_journal_start(&r->journal, line);
}

static tenon_status start_files(run *r) {
    if (r->goes_on) {
        BATCH_TRY(batch_identity_compare(cJSON_GetObjectItemCaseSensitive(r->journal.job, "job"),
                                         r->facts, NULL));
        BATCH_TRY(batch_journal_continue(&r->journal));
    } else {
        BATCH_TRY(start_journal(r));
    }
    if (r->state.stage == BATCH_COMPLETE)
        return TENON_OK;
    /* Before the first checkpoint nothing counts. */
    bool begun = r->goes_on && r->state.file_count > 0;
    r->state.stage = BATCH_RUNNING;
    return batch_outputs_open(&r->outputs, begun ? &r->state : NULL,
                              r->end < 0 ? -1 : r->end - r->first);
}

static tenon_status start_feed(run *r) {
    batch_feed_options options = {.first = r->first,
                                  .end = r->end,
                                  .done = r->state.samples,
                                  .digest = r->state.digest,
                                  .wanted = r->outputs.wanted,
                                  .check_nan = r->job->check_nan};
    return batch_feed_start(&r->model, r->pool, &options, &r->feed);
}

/* ---- Working ---- */

static tenon_status checkpoint(run *r) {
    if (r->batches == 0)
        return TENON_OK;
    r->disk_failed = true; /* until it has worked */
    BATCH_TRY(batch_outputs_sync(&r->outputs, &r->state));
    BATCH_TRY(batch_journal_add(&r->journal, &r->state));
    r->disk_failed = false;
    r->batches = 0;
    r->checkpoint = batch_clock();
    return TENON_OK;
}

static tenon_status checkpoint_if_due(run *r) {
    bool due = r->job->checkpoint > 0 ? r->batches >= r->job->checkpoint
                                      : batch_clock() - r->checkpoint >= CHECKPOINT_SECONDS;
    return due ? checkpoint(r) : TENON_OK;
}

static tenon_status handle_failure(run *r, batch_slot *slot) {
    if (slot->status == TENON_OK)
        return TENON_OK;
    if (slot->loaded && r->job->skip_bad && slot->status == TENON_RUN_FAILED)
        return batch_feed_isolate(r->feed, slot);
    if (!slot->loaded)
        return tenon_fail(slot->status, "%s", slot->message);
    return tenon_fail(slot->status, "samples %" PRId64 " to %" PRId64 ": %s", slot->first,
                      slot->first + slot->count - 1, slot->message);
}

static tenon_status check_outputs(const run *r, batch_slot *slot) {
    char why[BATCH_TEXT];
    for (int i = 0; r->job->check_nan && i < tenon_graph_output_count(r->model.graph); i++) {
        tenon_view row = slot->outputs[i];
        if (!r->outputs.wanted[i])
            continue;
        row.shape[0] = 1;
        size_t bytes = (size_t)tenon_view_numel(&row) * tenon_dtype_size(row.dtype);
        for (int64_t k = 0; k < slot->count; k++) {
            row.data = (char *)slot->outputs[i].data + bytes * (size_t)k;
            if (slot->bad[k] || !batch_has_nan(&row))
                continue;
            snprintf(why, sizeof why, "output '%.200s' holds NaN",
                     tenon_graph_output_name(r->model.graph, i));
            BATCH_TRY(batch_slot_blame(slot, k, why));
        }
    }
    return TENON_OK;
}

static tenon_status refuse_bad(const run *r, const batch_slot *slot) {
    char name[BATCH_TEXT];
    if (slot->bad_count == 0 || r->job->skip_bad)
        return TENON_OK;
    int64_t row = 0;
    while (!slot->bad[row])
        row++;
    r->model.source->name(r->model.source, slot->first + row, name);
    return tenon_fail(TENON_INPUT_MISMATCH,
                      "sample %" PRId64 ", %s: %s; --on-error skip leaves such "
                      "samples out",
                      slot->first + row, name, slot->why[row] ? slot->why[row] : "");
}

static tenon_status take(run *r, batch_slot *slot) {
    BATCH_TRY(handle_failure(r, slot));
    BATCH_TRY(check_outputs(r, slot));
    BATCH_TRY(refuse_bad(r, slot));
    tenon_status status = batch_outputs_add(&r->outputs, &r->model, slot->outputs, slot->first,
                                            slot->count, slot->bad, slot->why);
    r->disk_failed = status != TENON_OK;
    BATCH_TRY(status);
    r->state.samples += slot->count;
    r->state.bad += slot->bad_count;
    r->state.digest = slot->digest;
    r->batches++;
    r->progress.samples = r->state.samples;
    r->progress.bad = r->state.bad;
    return checkpoint_if_due(r);
}

/* Ranks tell the first one how far they are, and this shows all. */
static void tell(run *r) {
    batch_report all, mine = {.samples = r->state.samples,
                              .start_samples = r->started,
                              .bad = r->state.bad,
                              .total = r->end - r->first};
    if (!r->job->ranks)
        return;
    *r->job->report = mine;
    r->job->ranks->tell(&mine, &all);
    r->progress.samples = all.samples;
    r->progress.start_samples = all.start_samples;
    r->progress.bad = all.bad;
    r->progress.total = all.total;
}

static tenon_status work(run *r) {
    bool ended = false;
    tenon_status status = TENON_OK;
    while (!ended && status == TENON_OK) {
        batch_slot *slot = NULL;
        if (batch_feed_next(r->feed, WAIT_MILLISECONDS, &slot, &ended)) {
            status = take(r, slot);
            batch_feed_release(r->feed);
        }
        tell(r);
        batch_progress_show(&r->progress);
    }
    return status;
}

/* Whether all samples are done, or were when the job was interrupted. */
static bool is_whole(run *r) {
    int64_t total = batch_feed_total(r->feed);
    return total >= 0 && r->state.samples == total - r->first;
}

/* The files are whole, then the journal says so, then they get their names, then it says that. */
static tenon_status finish(run *r) {
    r->disk_failed = true;
    if (r->state.stage != BATCH_COMPLETE) {
        BATCH_TRY(batch_outputs_finish(&r->outputs, r->state.samples, &r->state));
        r->state.stage = BATCH_COMPLETE;
        BATCH_TRY(batch_journal_add(&r->journal, &r->state));
    }
    BATCH_TRY(batch_outputs_rename(&r->outputs, &r->state));
    r->state.stage = BATCH_DONE;
    return batch_journal_add(&r->journal, &r->state);
}

static tenon_status do_work(run *r, batch_end *end) {
    if (r->state.stage == BATCH_COMPLETE) {
        *end = BATCH_FINISHED;
        return finish(r);
    }
    BATCH_TRY(start_feed(r));
    r->started = r->state.samples;
    batch_progress_start(&r->progress, r->job->quiet, r->state.samples,
                         r->end < 0 ? -1 : r->end - r->first);
    r->checkpoint = batch_clock();
    tenon_status status = work(r);
    char message[1024];
    snprintf(message, sizeof message, "%s", status == TENON_OK ? "" : tenon_last_error());
    if (status != TENON_OK)
        batch_stop(); /* a loader may wait for standard input */
    bool whole = status == TENON_OK && is_whole(r);
    batch_feed_stop(&r->feed);
    batch_progress_end(&r->progress);
    if (whole) {
        *end = BATCH_FINISHED;
        return finish(r);
    }
    tenon_status safe = r->disk_failed ? TENON_OK : checkpoint(r);
    if (status == TENON_OK && safe != TENON_OK)
        return safe;
    *end = BATCH_INTERRUPTED;
    return status == TENON_OK ? TENON_OK : tenon_fail(status, "%s", message);
}

/* ---- The end ---- */

static const char *const ends[] = {"finished", "interrupted", "failed", "failed"};

static tenon_status write_summary(const run *r, batch_end end, const char *message) {
    if (!r->job->json || !r->json_checked)
        return TENON_OK;
    cJSON *s = cJSON_CreateObject(), *files = NULL;
    bool ok = s && cJSON_AddStringToObject(s, "status", ends[end]) &&
              cJSON_AddStringToObject(s, "message", message) &&
              cJSON_AddStringToObject(s, "model", r->job->model) &&
              cJSON_AddNumberToObject(s, "samples", (double)r->state.samples) &&
              cJSON_AddNumberToObject(s, "bad", (double)r->state.bad) &&
              cJSON_AddNumberToObject(s, "resumed_from", (double)r->progress.start_samples) &&
              cJSON_AddNumberToObject(s, "seconds", r->seconds) &&
              cJSON_AddNumberToObject(s, "samples_per_second", r->rate) &&
              cJSON_AddNumberToObject(s, "cores_busy", r->cores) &&
              cJSON_AddNumberToObject(s, "batch", (double)r->model.batch);
    if (ok && r->pool)
        ok = cJSON_AddNumberToObject(s, "instances", tenon_pool_instances(r->pool)) &&
             cJSON_AddNumberToObject(s, "threads", tenon_pool_threads(r->pool));
    ok = ok && (files = cJSON_AddArrayToObject(s, "files")) != NULL;
    for (int i = 0; ok && i < r->outputs.count; i++)
        if (!(r->outputs.items[i].optional && r->state.bad == 0))
            ok = cJSON_AddItemToArray(files, cJSON_CreateString(r->outputs.items[i].file.path));
    ok = ok && cJSON_AddStringToObject(s, "journal", r->outputs.journal ? r->outputs.journal : "");
    char *text = ok ? cJSON_Print(s) : NULL;
    cJSON_Delete(s);
    if (!text)
        return batch_no_memory();
    tenon_status status = tenon_file_write(r->job->json, text, strlen(text));
    cJSON_free(text);
    return status;
}

static void tell_end(run *r, batch_end end) {
    int64_t total = r->end < 0 ? -1 : r->end - r->first, safe = r->journal.state.samples;
    char of[32] = "";
    if (total >= 0)
        snprintf(of, sizeof of, " of %" PRId64, total);
    if (end == BATCH_FINISHED && r->finished)
        say(r, "the job was done before: %" PRId64 " samples", safe);
    else if (end == BATCH_FINISHED)
        say(r, "%" PRId64 " samples in %.1f s, %.1f a second, %.1f cores busy, %" PRId64 " bad",
            r->state.samples, r->seconds, r->rate, r->cores, r->state.bad);
    else if (r->journal.fd >= 0 && r->journal.state.stage != BATCH_NOTHING && r->pool)
        fprintf(stderr,
                "tenon batch: %s behind %" PRId64
                "%s samples; the same command with --resume goes on\n",
                end == BATCH_INTERRUPTED ? "interrupted" : "stopped", safe, of);
}

static tenon_status course(run *r, batch_end *end) {
    *end = BATCH_FINISHED;
    BATCH_TRY(prepare(r));
    if (r->finished) {
        r->state = r->journal.state;
        r->started = r->state.samples;
        return TENON_OK;
    }
    if (r->goes_on)
        say(r, "goes on behind %" PRId64 " samples", r->state.samples);
    BATCH_TRY(make_pool(r));
    BATCH_TRY(start_files(r));
    return do_work(r, end);
}

batch_end batch_run(const batch_job *job) {
    run r = {.job = job, .journal = {.fd = -1, .old_fd = -1}};
    batch_end end;
    char message[1024] = "";
    tenon_status status = course(&r, &end);
    if (r.progress.start > 0) {
        r.seconds = batch_progress_seconds(&r.progress);
        r.rate = batch_progress_rate(&r.progress);
        r.cores = batch_progress_cores(&r.progress);
    }
    if (status != TENON_OK) {
        end = status == TENON_INVALID_ARGUMENT ? BATCH_USAGE : BATCH_FAILURE;
        snprintf(message, sizeof message, "%s", tenon_last_error());
    }
    if (job->report)
        *job->report = (batch_report){.samples = r.state.samples,
                                      .start_samples = r.started,
                                      .bad = r.state.bad,
                                      .total = r.end - r.first};
    tell_end(&r, end);
    tenon_status written = write_summary(&r, end, message);
    batch_feed_stop(&r.feed);
    tenon_pool_destroy(&r.pool);
    batch_outputs_close(&r.outputs);
    batch_journal_close(&r.journal);
    cJSON_Delete(r.facts);
    batch_model_close(&r.model);
    stopped = 0;
    if (status != TENON_OK)
        (void)tenon_fail(status, "%s", message);
    return status == TENON_OK && written != TENON_OK ? BATCH_FAILURE : end;
}
