/* Runs a graph whose shapes are known step by step, for tests of partitions: with everything in
 * memory of its own, in the layouts that the graph asks for.
 *
 *     tenon_graph *graph = ...;
 *     steps *s = steps_make(graph, TENON_BACKEND_ONEDNN, 2, true);   -- compiles; NULL when that
 * fails steps_input(s, 0, seed); steps_run(s); const tenon_view *out = steps_output(s, 0);
 *     steps_free(s);
 */
#ifndef RUN_STEPS_H
#define RUN_STEPS_H

#include "core/infer.h"
#include "core/kernel.h"
#include "partitions/partitions.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

typedef struct steps {
    tenon_graph *graph;
    tn_partitions *set;
    tenon_view *views; /* by value id */
    bool *owned;       /* views[i].data is ours */
    bool *copied;      /* a view node whose output is a copy */
    tn_scratch scratch;
    int threads;
    bool inplace; /* follow the pairs where the input dies */
} steps;

/* For graphs that are made while it is set. */
static tn_partition_family *steps_family;

static inline int64_t steps_bytes(const tenon_view *view) {
    int64_t last = 0;
    for (int d = 0; d < view->rank; d++)
        last += view->strides[d] * (view->shape[d] > 0 ? view->shape[d] - 1 : 0);
    return (last + 1) * (int64_t)tenon_dtype_size(view->dtype);
}

static inline void steps_place(const tenon_value *value, tenon_view *view) {
    *view = tn_view_make(NULL, value->dtype, value->rank, value->shape);
    if (value->channels_last)
        tn_channels_last_strides(view->rank, view->shape, view->strides);
}

static inline void *steps_alloc(const tenon_view *view) {
    int64_t size = (steps_bytes(view) + 63) / 64 * 64;
    void *data = aligned_alloc(64, (size_t)size);
    ck_assert_ptr_nonnull(data);
    memset(data, 0, (size_t)size);
    return data;
}

static inline void steps_view_node(steps *s, tenon_node *node) {
    for (int i = 0; i < node->output_count; i++) {
        tenon_value *value = node->outputs[i];
        const tenon_view *in = &s->views[tn_arg_value(node, 0)->id];
        tenon_view out = tn_view_make(in->data, value->dtype, value->rank, value->shape);
        s->copied[value->id] = !node->op->view(node, i, in, &out);
        if (s->copied[value->id])
            steps_place(value, &out);
        /* Where it begins shows only in data, which is not there yet unless it is a constant's. */
        s->views[value->id] = out;
        if (s->copied[value->id] || !in->data)
            s->views[value->id].data = NULL;
    }
}

static inline steps *steps_make(tenon_graph *graph, tenon_backend backend, int threads, bool pack) {
    steps *s = calloc(1, sizeof *s);
    size_t count = (size_t)graph->value_count + 1;
    s->graph = graph;
    s->threads = threads;
    s->views = calloc(count, sizeof *s->views);
    s->owned = calloc(count, sizeof *s->owned);
    s->copied = calloc(count, sizeof *s->copied);
    for (int i = 0; i < graph->input_count; i++)
        steps_place(graph->inputs[i], &s->views[graph->inputs[i]->id]);
    for (int i = 0; i < graph->constant_count; i++)
        s->views[graph->constants[i]->id] = *tenon_tensor_view(graph->constants[i]->tensor);
    for (tenon_node *node = graph->first; node; node = node->next) {
        if (node->op->kind == TN_OP_VIEW) {
            steps_view_node(s, node);
            continue;
        }
        for (int i = 0; i < node->output_count; i++) {
            if (node->outputs[i]->dtype != TENON_DTYPE_NONE)
                steps_place(node->outputs[i], &s->views[node->outputs[i]->id]);
        }
    }
    tn_partition_options options = {.backend = backend,
                                    .threads = threads,
                                    .pack_weights = pack,
                                    .family = steps_family,
                                    .isa = TN_ISA_AVX512};
    tenon_status status = tn_partitions_create(graph, s->views, &options, &s->set);
    ck_assert_msg(status == TENON_OK, "%s", tenon_last_error());
    for (int i = 0; i < graph->value_count; i++) {
        tenon_view *view = &s->views[i];
        if (view->dtype == TENON_DTYPE_NONE || view->data)
            continue;
        s->owned[i] = true;
    }
    for (tenon_node *node = graph->first; node; node = node->next) {
        for (int i = 0; i < node->output_count && node->op->kind == TN_OP_VIEW; i++) {
            int id = node->outputs[i]->id;
            s->owned[id] = s->copied[id];
        }
    }
    for (int i = 0; i < graph->value_count; i++) {
        if (s->owned[i])
            s->views[i].data = steps_alloc(&s->views[i]);
    }
    return s;
}

/* Random numbers from -1 to 1 into input `index`. */
static inline void steps_input(steps *s, int index, unsigned seed) {
    tenon_view *view = &s->views[s->graph->inputs[index]->id];
    int64_t count = tenon_view_numel(view);
    uint32_t state = seed * 2654435761u + 1;
    tenon_view plain = tn_view_make(NULL, TENON_FLOAT32, view->rank, view->shape);
    float *data = malloc((size_t)(count + 1) * sizeof *data);
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(int32_t)state / 2147483648.0f;
        if (view->dtype == TENON_BOOL)
            data[i] = data[i] > 0;
    }
    plain.data = data;
    ck_assert_int_eq(tenon_view_copy(view, &plain), TENON_OK);
    free(data);
}

static inline void steps_kernel(steps *s, tenon_node *node) {
    static _Thread_local tenon_view in[256], out[256];
    int32_t first[64];
    int count = 0;
    for (int i = 0; i < node->op->param_count; i++) {
        const tenon_arg *arg = &node->args[i];
        first[i] = -1;
        if (arg->kind == TENON_ARG_VALUE) {
            first[i] = count;
            in[count++] = s->views[arg->as.value->id];
        } else if (arg->kind == TENON_ARG_LIST && node->op->params[i].type == TN_TYPE_TENSOR) {
            first[i] = count;
            for (int j = 0; j < arg->count; j++, count++) {
                memset(&in[count], 0, sizeof in[count]);
                if (arg->as.list[j].kind == TENON_ARG_VALUE)
                    in[count] = s->views[arg->as.list[j].as.value->id];
            }
        }
    }
    for (int i = 0; i < node->output_count; i++)
        out[i] = s->views[node->outputs[i]->id];
    tn_call call = {node, in, out, first, count, node->output_count, s->threads, &s->scratch};
    tn_kernel_fn kernel = tn_kernel_get(node->op->id, tn_isa_detect());
    tn_scratch_reset(&s->scratch);
    ck_assert_msg(kernel(&call) == TENON_OK, "%s", tenon_last_error());
}

static inline void steps_view(steps *s, tenon_node *node) {
    for (int i = 0; i < node->output_count; i++) {
        tenon_view *view = &s->views[node->outputs[i]->id];
        tenon_view in = s->views[tn_arg_value(node, 0)->id], out = *view, plain;
        if (!s->copied[node->outputs[i]->id]) {
            out.data = in.data;
            ck_assert(node->op->view(node, i, &in, &out));
            view->data = out.data;
            continue;
        }
        plain = tn_view_make(NULL, in.dtype, in.rank, in.shape);
        plain.data = steps_alloc(&plain);
        ck_assert_int_eq(tenon_view_copy(&plain, &in), TENON_OK);
        out.data = plain.data;
        ck_assert(node->op->view(node, i, &plain, &out));
        ck_assert_int_eq(tenon_view_copy(view, &out), TENON_OK);
        free(plain.data);
    }
}

/* Whether nothing after the step reads the value, and its memory is its own. */
static inline bool steps_dies(const steps *s, int64_t step, const tenon_value *value) {
    if (!s->owned[value->id] || !value->node || value->node->op->kind == TN_OP_VIEW)
        return false;
    for (const tn_use *use = value->uses; use; use = use->next) {
        if (!use->node || use->node->op->kind == TN_OP_VIEW)
            return false;
    }
    for (int64_t i = step + 1; i < s->set->step_count; i++) {
        const tn_partition_step *later = &s->set->steps[i];
        int nodes = later->partition ? later->partition->node_count : 1;
        for (int n = 0; n < nodes; n++) {
            const tenon_node *node = later->partition ? later->partition->nodes[n] : later->node;
            for (int u = 0; u < node->use_count; u++) {
                if (node->uses[u].value == value)
                    return false;
            }
        }
    }
    return true;
}

static inline void steps_run(steps *s) {
    for (int64_t i = 0; i < s->set->step_count; i++) {
        tn_partition_step *step = &s->set->steps[i];
        if (!step->partition && step->node->op->kind == TN_OP_VIEW) {
            steps_view(s, step->node);
        } else if (!step->partition) {
            steps_kernel(s, step->node);
        } else {
            tn_partition *p = step->partition;
            void *in[128], *out[128];
            ck_assert_int_le(p->input_count, 128);
            for (int k = 0; k < p->input_count; k++)
                in[k] = s->views[p->inputs[k]->id].data;
            for (int k = 0; k < p->inplace_count && s->inplace; k++) {
                tenon_value *from = p->inputs[p->inplace[k].in];
                tenon_view *to = &s->views[p->outputs[p->inplace[k].out]->id];
                if (!steps_dies(s, i, from) || to->data == s->views[from->id].data)
                    continue;
                free(to->data);
                to->data = s->views[from->id].data;
                s->owned[p->outputs[p->inplace[k].out]->id] = false;
            }
            for (int k = 0; k < p->output_count; k++)
                out[k] = s->views[p->outputs[k]->id].data;
            ck_assert_msg(tn_partition_execute(p, in, out) == TENON_OK, "%s", tenon_last_error());
        }
    }
}

static inline const tenon_view *steps_output(const steps *s, int index) {
    return &s->views[s->graph->outputs[index].arg->as.value->id];
}

static inline void steps_free(steps *s) {
    tn_partitions_destroy(&s->set);
    for (int i = 0; i < s->graph->value_count; i++) {
        if (s->owned[i])
            free(s->views[i].data);
    }
    tn_scratch_free(&s->scratch);
    free(s->views);
    free(s->owned);
    free(s->copied);
    free(s);
}

#endif
