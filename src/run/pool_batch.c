/* Batches of requests: which inputs and outputs have a batch dimension, and how rows of several
 * requests become one run of the compiled batch. */
#include "core/fail.h"
#include "run/pool.h"
#include <stdlib.h>
#include <string.h>

/* ---- Which inputs and outputs have rows ---- */

static bool named(const tenon_pool_options *options, const char *name) {
    for (int i = 0; i < options->unbatched_count; i++) {
        if (strcmp(options->unbatched[i], name) == 0)
            return true;
    }
    return false;
}

static tenon_status check_names(const tenon_graph *graph, const tenon_pool_options *options) {
    for (int i = 0; i < options->unbatched_count; i++) {
        bool found = false;
        for (int k = 0; k < graph->input_count && !found; k++)
            found = strcmp(graph->inputs[k]->name, options->unbatched[i]) == 0;
        if (!found)
            return tn_fail(TENON_NOT_FOUND, "pool options: the model has no input '%s'",
                           options->unbatched[i]);
    }
    return TENON_OK;
}

/* The first size, as text, of which "?" means that memory is out. */
static tenon_status rows_text(const tenon_value *input, char *text, size_t capacity) {
    tenon_value_size_text(input, 0, text, capacity);
    return input->dims && strcmp(text, "?") == 0 ? tn_no_memory() : TENON_OK;
}

/* Inputs whose first size is the symbol that the first of them has, or, where no first size is one,
 * is the batch. */
static tenon_status find_batched(const tenon_graph *graph, const tenon_pool_options *options,
                                 bool *batched) {
    char symbol[256] = "", text[256];
    for (int32_t i = 0; i < graph->input_count; i++) {
        const tenon_value *input = graph->inputs[i];
        if (!*symbol && input->rank > 0 && tenon_value_size(input, 0) < 0 &&
            !named(options, input->name))
            TN_TRY(rows_text(input, symbol, sizeof symbol));
    }
    for (int32_t i = 0; i < graph->input_count; i++) {
        const tenon_value *input = graph->inputs[i];
        batched[i] = input->rank > 0 && !named(options, input->name);
        if (batched[i] && *symbol) {
            TN_TRY(rows_text(input, text, sizeof text));
            batched[i] = strcmp(text, symbol) == 0;
        } else if (batched[i]) {
            batched[i] = tenon_value_size(input, 0) == options->batch;
        }
    }
    return TENON_OK;
}

static tenon_view with_rows(const tenon_view *view, int64_t rows) {
    int64_t shape[TENON_MAX_RANK];
    memcpy(shape, view->shape, sizeof shape);
    shape[0] = rows;
    return tn_view_make(NULL, view->dtype, view->rank, shape);
}

/* The value that all runs have of an input without rows. */
static tenon_status keep_value(tn_batching *b, int index, const char *name,
                               const tenon_view *sample) {
    if (!sample->data && tenon_view_numel(sample) > 0)
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "input '%s' has no batch dimension, so its sample must have the value that "
                       "all requests share",
                       name);
    TN_TRY(tenon_tensor_create(sample->dtype, sample->rank, sample->shape, &b->values[index]));
    b->inputs[index] = *tenon_tensor_view(b->values[index]);
    return tenon_view_copy(&b->inputs[index], sample);
}

tenon_status tn_batch_init(tn_batching *b, const tenon_graph *graph,
                           const tenon_pool_options *options, const tenon_view *samples,
                           int sample_count) {
    size_t count = (size_t)graph->input_count + 1;
    if (sample_count != graph->input_count)
        return tn_fail(TENON_INPUT_MISMATCH, "%d sample inputs given, the model takes %d",
                       sample_count, (int)graph->input_count);
    TN_TRY(check_names(graph, options));
    b->size = options->batch;
    b->wait = options->batch_wait_us * 1000;
    b->input_count = sample_count;
    b->inputs = calloc(count, sizeof *b->inputs);
    b->values = calloc(count, sizeof *b->values);
    b->batched = calloc(count, sizeof *b->batched);
    if (!b->inputs || !b->values || !b->batched)
        return tn_no_memory();
    TN_TRY(find_batched(graph, options, b->batched));
    bool any = false;
    for (int i = 0; i < sample_count; i++) {
        any |= b->batched[i];
        if (!b->batched[i])
            TN_TRY(keep_value(b, i, graph->inputs[i]->name, &samples[i]));
        else if (samples[i].rank != graph->inputs[i]->rank)
            return tn_fail(TENON_INPUT_MISMATCH, "input '%s': the sample has %d dimensions, not %d",
                           graph->inputs[i]->name, (int)samples[i].rank,
                           (int)graph->inputs[i]->rank);
        else
            b->inputs[i] = with_rows(&samples[i], b->size);
    }
    return any ? TENON_OK
               : tn_fail(TENON_UNSUPPORTED,
                         "no input has a batch dimension: the first size of none is open, or %d",
                         b->size);
}

void tn_batch_free(tn_batching *b) {
    for (int i = 0; b->values && i < b->input_count; i++)
        tenon_tensor_destroy(&b->values[i]);
    free(b->inputs);
    free(b->values);
    free(b->batched);
    *b = (tn_batching){0};
}

/* The first sizes of outputs with so many rows of inputs; -1 where there is none. */
static bool first_sizes(const tn_batching *b, const tenon_graph *graph, int64_t rows,
                        int64_t *sizes) {
    tenon_view *inputs = calloc((size_t)b->input_count + 1, sizeof *inputs);
    tenon_graph *known = NULL;
    for (int i = 0; inputs && i < b->input_count; i++)
        inputs[i] = b->batched[i] ? with_rows(&b->inputs[i], rows) : b->inputs[i];
    bool done = inputs && rows > 0 &&
                tn_graph_specialize(graph, inputs, b->input_count, &known) == TENON_OK;
    for (int32_t i = 0; done && i < known->output_count; i++) {
        const tenon_value *value = known->outputs[i].use ? known->outputs[i].arg->as.value : NULL;
        sizes[i] = value && value->rank > 0 ? tenon_value_size(value, 0) : -1;
    }
    tenon_graph_destroy(&known);
    free(inputs);
    return done;
}

tenon_status tn_batch_check_outputs(const tn_batching *b, const tenon_session *session,
                                    const tenon_view *outputs) {
    const tenon_graph *graph = session->graph;
    tenon_status status = TENON_OK;
    char text[160];
    int64_t *sizes = calloc((size_t)graph->output_count + 1, sizeof *sizes);
    if (!sizes)
        return tn_no_memory();
    /* Where another number of rows is possible, sizes that only happen to be the batch show. */
    int64_t other = b->size + 1;
    bool probed = tn_is_symbolic(graph) && first_sizes(b, graph, other, sizes);
    if (!probed && tn_is_symbolic(graph))
        probed = first_sizes(b, graph, other = b->size - 1, sizes);
    for (int32_t i = 0; i < graph->output_count && status == TENON_OK; i++) {
        const tenon_view *view = &outputs[i];
        if (view->dtype == TENON_DTYPE_NONE)
            continue;
        if (view->rank == 0 || view->shape[0] != b->size || (probed && sizes[i] != other))
            status = tn_fail(TENON_UNSUPPORTED,
                             "output '%s' has no batch dimension, so that a batch of several "
                             "requests cannot be split: it is %s for a batch of %d",
                             graph->outputs[i].name,
                             tn_shape_text(view->dtype, view->rank, view->shape, text, sizeof text),
                             b->size);
    }
    free(sizes);
    return status;
}

/* ---- Requests ---- */

static bool fits(const tenon_view *given, const tenon_view *want, int64_t rows) {
    tenon_view rowed = with_rows(want, rows);
    return given->dtype == rowed.dtype && tn_same_shape(given, &rowed) &&
           (tenon_view_numel(given) == 0 ||
            (given->data && (uintptr_t)given->data % tenon_dtype_size(given->dtype) == 0));
}

static tenon_status misfit(tenon_status status, const char *what, const char *name,
                           const tenon_view *given, const tenon_view *want, int rows) {
    char have[160], wanted[160];
    tenon_view rowed = with_rows(want, rows);
    return tn_fail(status, "%s '%s': %s%s given, %s expected", what, name,
                   tn_shape_text(given->dtype, given->rank, given->shape, have, sizeof have),
                   given->data ? "" : " without data",
                   tn_shape_text(rowed.dtype, rowed.rank, rowed.shape, wanted, sizeof wanted));
}

static tenon_status check_request(tenon_request *request) {
    const tenon_pool *pool = request->pool;
    const tn_batching *b = &pool->batching;
    const tenon_session *session = pool->sessions[0];
    int rows = 0;
    for (int i = 0; i < b->input_count; i++) {
        const tenon_view *given = &request->inputs[i];
        const char *name = tenon_session_input_name(session, i);
        if (!b->batched[i]) {
            if (given->dtype != TENON_DTYPE_NONE)
                return tn_fail(TENON_INPUT_MISMATCH,
                               "input '%s' has no batch dimension: requests leave it out, it keeps "
                               "the sample's value",
                               name);
            continue;
        }
        if (rows == 0 && given->rank > 0 && given->shape[0] >= 1 && given->shape[0] <= b->size)
            rows = (int)given->shape[0];
        if (rows == 0)
            return tn_fail(TENON_INPUT_MISMATCH, "input '%s': a request has 1 to %d rows", name,
                           b->size);
        if (!fits(given, &b->inputs[i], rows))
            return misfit(TENON_INPUT_MISMATCH, "input", name, given, &b->inputs[i], rows);
    }
    for (int i = 0; i < request->output_count; i++) {
        const tenon_view *given = &request->outputs[i];
        if (given->data &&
            (pool->outputs[i].dtype == TENON_DTYPE_NONE || !fits(given, &pool->outputs[i], rows)))
            return misfit(TENON_INVALID_ARGUMENT, "output", tenon_session_output_name(session, i),
                          given, &pool->outputs[i], rows);
    }
    request->rows = rows;
    return TENON_OK;
}

void tn_batch_check(tenon_request *request) {
    request->rows = request->pool->batching.size;
    tn_request_fail(request, check_request(request));
}

/* ---- Runs ---- */

tenon_status tn_batch_prepare(tn_pool_instance *instance) {
    const tn_batching *b = &instance->pool->batching;
    instance->rooms = calloc((size_t)b->input_count + 1, sizeof(tenon_tensor *));
    if (!instance->rooms)
        return tn_no_memory();
    for (int i = 0; i < b->input_count; i++) {
        const tenon_view *view = &b->inputs[i];
        if (b->batched[i])
            TN_TRY(tenon_tensor_create(view->dtype, view->rank, view->shape, &instance->rooms[i]));
    }
    return TENON_OK;
}

static tenon_view rows_of(const tenon_view *view, int64_t from, int64_t count) {
    tenon_view part = *view;
    part.shape[0] = count;
    part.data =
        (char *)view->data + from * view->strides[0] * (int64_t)tenon_dtype_size(view->dtype);
    return part;
}

/* Rows of the requests, one after another; what is left gets the first row, so that no kernel sees
 * numbers that no request has. */
static tenon_status gather(tn_pool_instance *instance, tenon_request **requests, int count) {
    const tn_batching *b = &instance->pool->batching;
    for (int i = 0; i < b->input_count; i++) {
        if (!b->batched[i])
            continue;
        const tenon_view *room = &instance->inputs[i];
        int64_t at = 0;
        for (int r = 0; r < count; r++) {
            tenon_view to = rows_of(room, at, requests[r]->rows);
            TN_TRY(tenon_view_copy(&to, &requests[r]->inputs[i]));
            at += requests[r]->rows;
        }
        tenon_view first = rows_of(room, 0, 1);
        for (; at < b->size; at++) {
            tenon_view to = rows_of(room, at, 1);
            TN_TRY(tenon_view_copy(&to, &first));
        }
    }
    return TENON_OK;
}

static tenon_status scatter(tn_pool_instance *instance, tenon_request **requests, int count) {
    for (int i = 0; i < instance->pool->output_count; i++) {
        int64_t at = 0;
        for (int r = 0; r < count; at += requests[r++]->rows) {
            if (instance->outputs[i].dtype == TENON_DTYPE_NONE)
                continue;
            tenon_view from = rows_of(&instance->outputs[i], at, requests[r]->rows);
            if (requests[r]->outputs[i].data)
                TN_TRY(tenon_view_copy(&requests[r]->outputs[i], &from));
            else
                requests[r]->outputs[i] = from;
        }
    }
    return TENON_OK;
}

static tenon_status run_rows(tn_pool_instance *instance, tenon_request **requests, int count) {
    tenon_pool *pool = instance->pool;
    const tn_batching *b = &pool->batching;
    bool whole = count == 1 && requests[0]->rows == b->size;
    for (int i = 0; i < b->input_count; i++)
        instance->inputs[i] = !b->batched[i] ? b->inputs[i]
                              : whole        ? requests[0]->inputs[i]
                                             : *tenon_tensor_view(instance->rooms[i]);
    tenon_view *outputs = whole ? requests[0]->outputs : instance->outputs;
    if (!whole) {
        memset(outputs, 0, (size_t)pool->output_count * sizeof *outputs);
        TN_TRY(gather(instance, requests, count));
    }
    TN_TRY(tenon_context_run(instance->context, instance->inputs, b->input_count, outputs,
                             pool->output_count));
    return whole ? TENON_OK : scatter(instance, requests, count);
}

tenon_status tn_batch_run(tn_pool_instance *instance, tenon_request **requests, int count) {
    /* One that cannot run fills a batch, and so is alone. */
    return requests[0]->status == TENON_OK
               ? run_rows(instance, requests, count)
               : tn_fail(requests[0]->status, "%s",
                         requests[0]->message ? requests[0]->message : "");
}
