/* Runs one node through its kernel, for tests.
 *
 *     tenon_node *node = ...;              -- its tensors are constants of the graph, or outputs
 * made by hand for_each_isa(isa) { tenon_tensor *out[1]; ck_assert_int_eq(run_node(node, isa, 2,
 * RUN_PACKED, out), TENON_OK);
 *         ...
 *         tenon_tensor_destroy(&out[0]);
 *     }
 *
 * Constants may have any strides (tenon_tensor_wrap). */
#ifndef RUN_NODE_H
#define RUN_NODE_H

#include "core/kernel.h"
#include "core/tensor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How outputs lie in memory. */
typedef enum run_layout {
    RUN_PACKED,        /* row-major */
    RUN_CHANNELS_LAST, /* ranks 3 to 5; others row-major */
    RUN_REVERSED,      /* the first dimension is the fastest, with a gap after each row */
    RUN_LAYOUT_COUNT
} run_layout;

/* Every level that this CPU runs; TENON_MAX_ISA caps it. */
#define for_each_isa(isa) for (tn_isa isa = TN_ISA_BASELINE; isa <= tn_isa_detect(); isa++)

static tenon_status run_output(const tenon_value *value, run_layout layout, tenon_tensor **out) {
    tenon_view view = tn_view_make(NULL, value->dtype, value->rank, value->shape);
    if (layout == RUN_CHANNELS_LAST && view.rank >= 3 && view.rank <= 5)
        tn_channels_last_strides(view.rank, view.shape, view.strides);
    else if (layout == RUN_REVERSED) {
        int64_t stride = 1;
        for (int d = 0; d < view.rank; d++) {
            view.strides[d] = stride;
            stride *= (view.shape[d] > 1 ? view.shape[d] : 1) + (d == 0);
        }
    }
    int64_t last = 0;
    for (int d = 0; d < view.rank; d++)
        last += view.strides[d] * (view.shape[d] > 0 ? view.shape[d] - 1 : 0);
    size_t size = (size_t)(last + 1) * tenon_dtype_size(view.dtype);
    view.data = malloc(size);
    if (!view.data)
        return tn_no_memory();
    memset(view.data, 0xa5, size); /* what a kernel does not write shows */
    tenon_status status = tenon_tensor_wrap(&view, free, view.data, out);
    if (status != TENON_OK)
        free(view.data);
    return status;
}

static void run_input(const tenon_arg *arg, tenon_view *in, int *count) {
    memset(&in[*count], 0, sizeof in[*count]);
    if (arg->kind == TENON_ARG_VALUE)
        in[*count] = *tenon_tensor_view(arg->as.value->tensor);
    (*count)++;
}

/* The tensors among the node's arguments, as tn_call wants them. */
static void run_inputs(const tenon_node *node, tenon_view *in, int32_t *first, int *count) {
    *count = 0;
    for (int i = 0; i < node->op->param_count; i++) {
        const tenon_arg *arg = &node->args[i];
        first[i] = -1;
        if (arg->kind == TENON_ARG_VALUE) {
            first[i] = *count;
            run_input(arg, in, count);
        } else if (arg->kind == TENON_ARG_LIST && node->op->params[i].type == TN_TYPE_TENSOR) {
            first[i] = *count;
            for (int j = 0; j < arg->count; j++)
                run_input(&arg->as.list[j], in, count);
        }
    }
}

/* Computes the node at that ISA level, into new tensors: `outputs` has one place for each output
 * (NULL for an absent one). With `inplace` at least 0, output 0 is a copy of that input, and is the
 * very memory that the kernel reads for it. */
static tenon_status run_node_inplace(const tenon_node *node, tn_isa isa, int threads, int inplace,
                                     run_layout layout, tenon_tensor **outputs) {
    enum { MOST = 256 };
    static _Thread_local tenon_view in[MOST], out[MOST];
    int32_t first[64];
    tn_scratch scratch = {0};
    tn_kernel_fn kernel = tn_kernel_get(node->op->id, isa);
    if (!kernel)
        return tn_fail(TENON_UNSUPPORTED, "%s has no kernel", node->op->name);
    int in_count;
    run_inputs(node, in, first, &in_count);
    memset(outputs, 0, (size_t)node->output_count * sizeof *outputs);
    tenon_status status = TENON_OK;
    for (int i = 0; i < node->output_count && status == TENON_OK; i++) {
        memset(&out[i], 0, sizeof out[i]);
        if (node->outputs[i]->dtype == TENON_DTYPE_NONE)
            continue;
        status = run_output(node->outputs[i], layout, &outputs[i]);
        if (status == TENON_OK)
            out[i] = *tenon_tensor_view(outputs[i]);
    }
    if (status == TENON_OK && inplace >= 0) {
        status = tenon_view_copy(&out[0], &in[inplace]);
        in[inplace] = out[0];
    }
    tn_call call = {node, in, out, first, in_count, node->output_count, threads, &scratch};
    if (status == TENON_OK)
        status = kernel(&call);
    tn_scratch_free(&scratch);
    for (int i = 0; i < node->output_count && status != TENON_OK; i++)
        tenon_tensor_destroy(&outputs[i]);
    return status;
}

static inline tenon_status run_node(const tenon_node *node, tn_isa isa, int threads,
                                    run_layout layout, tenon_tensor **outputs) {
    return run_node_inplace(node, isa, threads, -1, layout, outputs);
}

/* Makes a graph of one node over constants. `args` may hold values of `graph` (see run_constant).
 */
static inline tenon_value *run_constant(tenon_graph *graph, const tenon_view *view) {
    static int number;
    char name[32];
    tenon_tensor *tensor = NULL;
    tenon_value *value = NULL;
    snprintf(name, sizeof name, "c%d", number++);
    if (tenon_tensor_wrap(view, NULL, NULL, &tensor) == TENON_OK &&
        tenon_graph_add_constant(graph, name, tensor, &value) != TENON_OK)
        value = NULL;
    tenon_tensor_destroy(&tensor);
    return value;
}

#endif
