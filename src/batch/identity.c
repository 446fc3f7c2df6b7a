#include "identity.h"
#include "hash.h"
#include "sink.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tenon_status batch_fact(cJSON *facts, const char *name, const char *format, ...) {
    char text[BATCH_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return cJSON_AddStringToObject(facts, name, text) ? TENON_OK : batch_no_memory();
}

tenon_status batch_model_weights(const char *model, char **out) {
    size_t length = strlen(model);
    char *path = NULL;
    if (length >= 5 && strcmp(model + length - 5, ".json") == 0 &&
        asprintf(&path, "%.*s.safetensors", (int)(length - 5), model) < 0)
        return batch_no_memory();
    *out = path;
    return TENON_OK;
}

static tenon_status add_model(cJSON *facts, const char *path) {
    char text[128], *weights = NULL;
    BATCH_TRY(batch_file_hash(path, text, sizeof text));
    BATCH_TRY(batch_fact(facts, "model", "%s", text));
    BATCH_TRY(batch_model_weights(path, &weights));
    if (!weights)
        return TENON_OK;
    tenon_status status = batch_file_hash(weights, text, sizeof text);
    free(weights);
    return status == TENON_OK ? batch_fact(facts, "weights", "%s", text) : TENON_OK;
}

static tenon_status add_inputs(cJSON *facts, const batch_model *model) {
    cJSON *inputs = cJSON_AddObjectToObject(facts, "inputs");
    if (!inputs)
        return batch_no_memory();
    BATCH_TRY(model->source->identify(model->source, inputs));
    for (int i = 0; i < model->input_count; i++) {
        const tenon_value *input = tenon_graph_input(model->graph, i);
        if (!tenon_value_is_tensor(input))
            BATCH_TRY(batch_fact(inputs, tenon_value_name(input), "%" PRId64, model->numbers[i]));
    }
    cJSON *shapes = cJSON_AddObjectToObject(facts, "samples");
    if (!shapes)
        return batch_no_memory();
    for (int k = 0; k < model->field_count; k++) { /* sizes may come from options */
        const batch_field *field = &model->fields[k];
        char text[BATCH_TEXT];
        size_t used = (size_t)snprintf(text, sizeof text, "%s", tenon_dtype_text(field->row.dtype));
        for (int d = 0; d < field->row.rank && used < sizeof text; d++)
            used +=
                (size_t)snprintf(text + used, sizeof text - used, " %" PRId64, field->row.shape[d]);
        BATCH_TRY(batch_fact(shapes, field->name, "%s", text));
    }
    return TENON_OK;
}

/* Without folders: a job may be resumed from another one. */
static tenon_status add_files(cJSON *facts, const batch_outputs *outputs) {
    cJSON *files = cJSON_AddArrayToObject(facts, "files");
    for (int i = 0; i < outputs->count; i++) {
        const char *path = outputs->items[i].file.path, *slash = strrchr(path, '/');
        cJSON *name = cJSON_CreateString(slash ? slash + 1 : path);
        if (!name || !cJSON_AddItemToArray(files, name)) {
            cJSON_Delete(name);
            return batch_no_memory();
        }
    }
    return files ? TENON_OK : batch_no_memory();
}

static tenon_status add_all(cJSON *facts, const batch_job *job, const batch_model *model,
                            const batch_outputs *outputs) {
    tenon_build_info info;
    const cJSON *option;
    tenon_get_build_info(&info);
    BATCH_TRY(batch_fact(facts, "version of Tenon", "%s", info.version));
    BATCH_TRY(batch_fact(facts, "version of oneDNN", "%s", info.onednn_version));
    BATCH_TRY(batch_fact(facts, "CPU", "%s", info.cpu));
    BATCH_TRY(batch_fact(facts, "ISA", "%s, oneDNN %s", info.kernel_isa, info.onednn_isa));
    BATCH_TRY(add_model(facts, job->model));
    BATCH_TRY(batch_fact(facts, "batch", "%" PRId64, model->batch));
    BATCH_TRY(batch_fact(facts, "shard", "%d of %d", job->shard, job->shards));
    BATCH_TRY(batch_fact(facts, "NaN is checked", job->check_nan ? "yes" : "no"));
    cJSON_ArrayForEach(option, job->facts) {
        cJSON *copy = cJSON_Duplicate(option, true);
        if (!copy || !cJSON_AddItemToObject(facts, option->string, copy)) {
            cJSON_Delete(copy);
            return batch_no_memory();
        }
    }
    BATCH_TRY(add_files(facts, outputs));
    return add_inputs(facts, model);
}

tenon_status batch_identity(const batch_job *job, const batch_model *model,
                            const batch_outputs *outputs, cJSON **out) {
    cJSON *facts = cJSON_CreateObject();
    tenon_status status = facts ? add_all(facts, job, model, outputs) : batch_no_memory();
    if (status == TENON_OK)
        *out = facts;
    else
        cJSON_Delete(facts);
    return status;
}

/* ---- Comparing ---- */

typedef struct comparison {
    batch_bytes *text;
    const char *where, *other; /* behind the values */
    int count;
} comparison;

enum { MOST_TOLD = 8 };

static const char *text_of(const cJSON *fact) {
    if (!fact)
        return "nothing";
    return cJSON_IsString(fact) ? fact->valuestring : "(several)";
}

static tenon_status tell(comparison *c, const char *name, const cJSON *before, const cJSON *now) {
    if (c->count++ >= MOST_TOLD)
        return TENON_OK;
    return batch_bytes_print(c->text, "\n  %s: %s %s, %s %s", name, text_of(before), c->where,
                             text_of(now), c->other);
}

static bool is_listed(const char *name, const char *const *list) {
    for (; list && *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* NOLINTNEXTLINE(misc-no-recursion): `now` is ours, with inputs in inputs, no deeper than two */
static tenon_status compare(comparison *c, const cJSON *before, const cJSON *now,
                            const char *const *except) {
    const cJSON *item;
    cJSON_ArrayForEach(item, now) {
        const cJSON *other = cJSON_GetObjectItemCaseSensitive(before, item->string);
        if (is_listed(item->string, except))
            continue;
        if (cJSON_IsObject(item) && cJSON_IsObject(other))
            BATCH_TRY(compare(c, other, item, NULL));
        else if (!cJSON_Compare(item, other, true))
            BATCH_TRY(tell(c, item->string, other, item));
    }
    cJSON_ArrayForEach(item, before) {
        if (!is_listed(item->string, except) &&
            !cJSON_GetObjectItemCaseSensitive(now, item->string))
            BATCH_TRY(tell(c, item->string, item, NULL));
    }
    return TENON_OK;
}

tenon_status batch_identity_differs(const cJSON *a, const cJSON *b, const char *const *except,
                                    const char *where, const char *other, bool *differs,
                                    batch_bytes *text) {
    comparison c = {.where = where, .other = other, .text = text};
    BATCH_TRY(compare(&c, a, b, except));
    *differs = c.count > 0;
    return c.count > MOST_TOLD ? batch_bytes_print(text, "\n  and more") : TENON_OK;
}

tenon_status batch_identity_compare(const cJSON *journal, const cJSON *now, const char *except) {
    const char *const list[] = {except, NULL};
    batch_bytes text = {0};
    bool differs;
    tenon_status status =
        batch_identity_differs(journal, now, list, "in the journal", "now", &differs, &text);
    if (status == TENON_OK && differs)
        status = tenon_fail(TENON_INPUT_MISMATCH,
                            "the interrupted job was another one:%s\n--overwrite starts anew",
                            text.data);
    batch_bytes_free(&text);
    return status;
}
