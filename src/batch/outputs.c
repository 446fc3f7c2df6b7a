#include "outputs.h"
#include "disk.h"
#include "topk.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Names ---- */

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length > tail && strcmp(text + length - tail, end) == 0;
}

bool batch_is_array_path(const char *path) {
    return ends_with(path, ".npy") || ends_with(path, ".safetensors");
}

bool batch_is_file_path(const char *path) {
    return batch_is_array_path(path) || ends_with(path, ".csv");
}

tenon_status batch_shard_path(const char *path, int shard, int shards, char **out) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t stem = dot && dot != name ? (size_t)(dot - path) : strlen(path);
    int length = shards > 0
                     ? asprintf(out, "%.*s.%d-of-%d%s", (int)stem, path, shard, shards, path + stem)
                     : asprintf(out, "%s", path);
    return length < 0 ? batch_no_memory() : TENON_OK;
}

static const char *output_name(const batch_model *m, int index) {
    return tenon_graph_output_name(m->graph, index);
}

/* Adds a file for an output. */
static tenon_status add(batch_outputs *o, const batch_job *job, int index, const char *path) {
    char *own = NULL;
    if (o->count == BATCH_MOST_FILES)
        return tenon_fail(TENON_UNSUPPORTED, "more than %d files", BATCH_MOST_FILES);
    BATCH_TRY(batch_shard_path(path, job->shard, job->shards, &own));
    batch_output *item = &o->items[o->count];
    tenon_status status = batch_file_name(own, &item->file);
    free(own);
    BATCH_TRY(status);
    item->index = index;
    item->sink = NULL;
    o->count++;
    for (int i = 0; i < o->count - 1; i++)
        if (batch_file_is_same(o->items[i].file.path, item->file.path))
            return tenon_fail(TENON_INVALID_ARGUMENT,
                              index < 0 ? "--errors: an output goes to '%s'"
                                        : "--output: two outputs go to '%s'",
                              item->file.path);
    if (index >= 0)
        o->wanted[index] = true;
    return TENON_OK;
}

static tenon_status add_named(batch_outputs *o, const batch_job *job, const batch_model *m,
                              const batch_pair *pair) {
    if (!batch_is_file_path(pair->value))
        return tenon_fail(TENON_INVALID_ARGUMENT,
                          "--output %s: '%s' does not end in .npy, .safetensors or .csv",
                          pair->name, pair->value);
    for (int i = 0; i < tenon_graph_output_count(m->graph); i++)
        if (strcmp(output_name(m, i), pair->name) == 0)
            return add(o, job, i, pair->value);
    return tenon_fail(TENON_INVALID_ARGUMENT, "--output: the model has no output '%s'", pair->name);
}

/* The only output that is an array; -1: there are none, or several. */
static int only_output(const batch_model *m) {
    int found = -1, count = 0;
    for (int i = 0; i < tenon_graph_output_count(m->graph); i++) {
        if (tenon_graph_output(m->graph, i).kind == TENON_ARG_NONE)
            continue;
        found = i;
        count++;
    }
    return count == 1 ? found : -1;
}

static tenon_status add_folder(batch_outputs *o, const batch_job *job, const batch_model *m,
                               const char *folder) {
    o->folder = strdup(folder);
    if (!o->folder)
        return batch_no_memory();
    for (char *end = o->folder + strlen(o->folder); end - o->folder > 1 && end[-1] == '/';)
        *--end = '\0';
    for (int i = 0; i < tenon_graph_output_count(m->graph); i++) {
        char *path = NULL;
        if (tenon_graph_output(m->graph, i).kind == TENON_ARG_NONE)
            continue;
        if (asprintf(&path, "%s/%s.npy", o->folder, output_name(m, i)) < 0)
            return batch_no_memory();
        for (char *c = path + strlen(o->folder) + 1; *c; c++)
            *c = *c == '/' ? '_' : *c;
        tenon_status status = add(o, job, i, path);
        free(path);
        BATCH_TRY(status);
    }
    return TENON_OK;
}

static tenon_status add_outputs(batch_outputs *o, const batch_job *job, const batch_model *m) {
    for (int i = 0; i < job->outputs.count; i++) {
        const batch_pair *pair = &job->outputs.items[i];
        if (!pair->name && job->outputs.count > 1)
            return tenon_fail(TENON_INVALID_ARGUMENT,
                              "--output: with several, each is NAME=PATH; '%s' has no name",
                              pair->value);
        if (pair->name)
            BATCH_TRY(add_named(o, job, m, pair));
        else if (!batch_is_file_path(pair->value))
            BATCH_TRY(add_folder(o, job, m, pair->value));
        else if (only_output(m) < 0)
            return tenon_fail(TENON_INVALID_ARGUMENT,
                              "--output: the model has not one output but %d: give a folder, or "
                              "NAME=FILE for each",
                              tenon_graph_output_count(m->graph));
        else
            BATCH_TRY(add(o, job, only_output(m), pair->value));
    }
    return o->count > 0 ? TENON_OK
                        : tenon_fail(TENON_INVALID_ARGUMENT, "no output is given: --output PATH");
}

static tenon_status check_topk(const batch_outputs *o, const batch_job *job) {
    bool used = !job->topk;
    for (int i = 0; i < o->count; i++)
        used = used || ends_with(o->items[i].file.path, ".csv");
    return used ? TENON_OK
                : tenon_fail(TENON_INVALID_ARGUMENT,
                             "--topk, --labels and --softmax are for outputs in .csv files: "
                             "--output FILE.csv");
}

/* The journal, and bad samples where no file was named for them, go beside the first output, whose
 * name tells the shard, or into the folder. */
static tenon_status beside(const char *file, const char *folder, int shard, int shards,
                           const char *name, char **out) {
    char *path = NULL;
    int length =
        folder ? asprintf(&path, "%s/batch.%s", folder, name) : asprintf(out, "%s.%s", file, name);
    if (length < 0)
        return batch_no_memory();
    tenon_status status = path ? batch_shard_path(path, shard, shards, out) : TENON_OK;
    free(path);
    return status;
}

tenon_status batch_journal_path(const char *file, const char *folder, int shard, int shards,
                                char **out) {
    return beside(file, folder, shard, shards, "journal", out);
}

static tenon_status add_errors(batch_outputs *o, const batch_job *job) {
    char *path = NULL;
    if (job->errors && !ends_with(job->errors, ".csv") && !ends_with(job->errors, ".jsonl"))
        return tenon_fail(TENON_INVALID_ARGUMENT,
                          "--errors: '%s' ends neither in .csv nor in .jsonl", job->errors);
    if (job->errors)
        return add(o, job, -1, job->errors);
    BATCH_TRY(
        beside(o->items[0].file.path, o->folder, job->shard, job->shards, "errors.csv", &path));
    const batch_job plain = {.shards = 0}; /* the shard is in the name */
    tenon_status status = add(o, &plain, -1, path);
    free(path);
    if (status == TENON_OK)
        o->items[o->count - 1].optional = true;
    return status;
}

tenon_status batch_outputs_plan(const batch_job *job, const batch_model *model,
                                batch_outputs *out) {
    *out = (batch_outputs){0};
    out->wanted = calloc((size_t)tenon_graph_output_count(model->graph) + 1, sizeof *out->wanted);
    if (!out->wanted)
        return batch_no_memory();
    BATCH_TRY(add_outputs(out, job, model));
    BATCH_TRY(check_topk(out, job));
    BATCH_TRY(batch_journal_path(out->items[0].file.path, out->folder, job->shard, job->shards,
                                 &out->journal));
    return add_errors(out, job);
}

/* ---- Sinks ---- */

tenon_status batch_outputs_sinks(batch_outputs *outputs, const batch_job *job,
                                 const batch_model *model, const tenon_pool *pool) {
    for (int i = 0; i < outputs->count; i++) {
        batch_output *o = &outputs->items[i];
        tenon_view row;
        if (o->index < 0) {
            BATCH_TRY(batch_sink_errors(ends_with(o->file.path, ".jsonl"), &o->sink));
            continue;
        }
        const char *name = output_name(model, o->index);
        if (!tenon_pool_output(pool, o->index, &row) || row.rank < 1 ||
            row.shape[0] != model->batch)
            return tenon_fail(TENON_UNSUPPORTED,
                              "the first size of output '%s' is not the batch; --output NAME=FILE "
                              "takes others",
                              name);
        row.rank--;
        memmove(row.shape, row.shape + 1, (size_t)row.rank * sizeof *row.shape);
        if (ends_with(o->file.path, ".csv"))
            BATCH_TRY(batch_sink_topk(name, &row, job->topk, &o->sink));
        else if (ends_with(o->file.path, ".npy"))
            BATCH_TRY(batch_sink_npy(name, &row, &o->sink));
        else
            BATCH_TRY(batch_sink_safetensors(name, &row, &o->sink));
    }
    return TENON_OK;
}

/* ---- Files ---- */

static tenon_status add_header(batch_output *o, int64_t rows, bool again) {
    if (o->sink->header_size == 0)
        return TENON_OK;
    char *header = malloc(o->sink->header_size);
    if (!header)
        return batch_no_memory();
    tenon_status status = o->sink->header(o->sink, rows, header);
    if (status == TENON_OK)
        status = again ? batch_file_patch(&o->file, header, o->sink->header_size)
                       : batch_file_append(&o->file, header, o->sink->header_size);
    free(header);
    return status;
}

tenon_status batch_outputs_open(batch_outputs *outputs, const batch_state *state, int64_t rows) {
    if (state && state->file_count != outputs->count)
        return tenon_fail(TENON_INVALID_FILE, "%s: it tells of %d files, the job has %d",
                          outputs->journal, state->file_count, outputs->count);
    for (int i = 0; i < outputs->count; i++) {
        batch_output *o = &outputs->items[i];
        BATCH_TRY(batch_file_open(&o->file, state ? state->sizes[i] : 0));
        if (!state) {
            BATCH_TRY(add_header(o, rows < 0 ? 0 : rows, false));
            BATCH_TRY(batch_file_sync(&o->file));
        }
    }
    for (int i = 0; i < outputs->count; i++)
        BATCH_TRY(batch_file_sync_folder(outputs->items[i].file.path));
    return TENON_OK;
}

tenon_status batch_outputs_add(batch_outputs *outputs, const batch_model *model,
                               const tenon_view *views, int64_t first, int64_t count,
                               const bool *bad, char *const *why) {
    batch_bytes *bytes = &outputs->bytes;
    for (int i = 0; i < outputs->count; i++) {
        batch_output *o = &outputs->items[i];
        batch_rows rows = {
            .first = first, .count = count, .bad = bad, .why = why, .source = model->source};
        if (o->index >= 0) {
            rows.view = views[o->index];
            rows.view.shape[0] = count;
        }
        bytes->size = 0;
        BATCH_TRY(o->sink->encode(o->sink, &rows, bytes));
        BATCH_TRY(batch_file_append(&o->file, bytes->data, bytes->size));
    }
    return TENON_OK;
}

tenon_status batch_outputs_sync(batch_outputs *outputs, batch_state *state) {
    state->file_count = outputs->count;
    for (int i = 0; i < outputs->count; i++) {
        BATCH_TRY(batch_file_sync(&outputs->items[i].file));
        state->sizes[i] = outputs->items[i].file.size;
    }
    return TENON_OK;
}

tenon_status batch_outputs_finish(batch_outputs *outputs, int64_t rows, batch_state *state) {
    for (int i = 0; i < outputs->count; i++)
        BATCH_TRY(add_header(&outputs->items[i], rows, true));
    return batch_outputs_sync(outputs, state);
}

/* Without bad samples nobody wants a file of them that was not asked for. */
static bool is_left_out(const batch_output *output, const batch_state *state) {
    return output->optional && state->bad == 0;
}

tenon_status batch_outputs_rename(batch_outputs *outputs, const batch_state *state) {
    for (int i = 0; i < outputs->count; i++) {
        batch_output *o = &outputs->items[i];
        if (batch_file_exists(o->file.partial))
            BATCH_TRY(is_left_out(o, state) ? batch_file_remove(&o->file)
                                            : batch_file_rename(&o->file));
    }
    for (int i = 0; i < outputs->count; i++)
        BATCH_TRY(batch_file_sync_folder(outputs->items[i].file.path));
    return TENON_OK;
}

bool batch_outputs_exist(const batch_outputs *outputs, const char **path) {
    for (int i = 0; i < outputs->count; i++) {
        if (outputs->items[i].optional || !batch_file_exists(outputs->items[i].file.path))
            continue;
        if (path)
            *path = outputs->items[i].file.path;
        return true;
    }
    return false;
}

bool batch_outputs_match(const batch_outputs *outputs, const batch_state *state) {
    if (state->file_count != outputs->count)
        return false;
    for (int i = 0; i < outputs->count; i++) {
        struct stat info;
        if (is_left_out(&outputs->items[i], state))
            continue;
        if (stat(outputs->items[i].file.path, &info) != 0 || info.st_size != state->sizes[i])
            return false;
    }
    return true;
}

void batch_outputs_close(batch_outputs *outputs) {
    for (int i = 0; i < outputs->count; i++) {
        batch_file_close(&outputs->items[i].file);
        batch_sink_destroy(&outputs->items[i].sink);
    }
    batch_bytes_free(&outputs->bytes);
    free(outputs->journal);
    free(outputs->folder);
    free(outputs->wanted);
    *outputs = (batch_outputs){0};
}
