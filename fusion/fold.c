/* Computes at compile time what depends on constants alone.
 *
 *     const %w                                  const %w
 *     %t = aten.permute(%w, [1, 0])      ->     const %t     the same memory, with other strides
 *     %s = aten.mul.Tensor(%t, 2)               const %s     new memory, from the op's kernel
 *
 * A result that is larger than both what it is made of and FREE_BYTES is left to the run: expanded
 * zeros would fill the memory. So is what goes past the budget.
 */
#include "core/budget.h"
#include "core/kernel.h"
#include "fusion/passes.h"
#include "fusion/rewrite.h"
#include "fusion/weights.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FREE_BYTES = 1 << 24, LARGE_BYTES = 1 << 16 };

static size_t bytes_of(const tenon_value *value) {
    return (size_t)tn_value_numel(value) * tenon_dtype_size(value->dtype);
}

static bool can_fold(const tenon_node *node) {
    const tn_op *op = node->op;
    if (node->output_count == 0 || (op->kind != TN_OP_KERNEL && op->kind != TN_OP_VIEW) ||
        op->id == TN_OP_empty_memory_format || op->id == TN_OP_empty_like ||
        op->id == TN_OP_new_empty || op->id == TN_OP_clone)
        return false;
    for (int i = 0; i < node->use_count; i++)
        if (!tn_is_constant(node->uses[i].value))
            return false;
    if (tn_weight_waits(node))
        return false;
    bool used = false; /* kernels compute what is used; a dead node has nothing for them */
    for (int i = 0; i < node->output_count; i++) {
        used |= node->outputs[i]->use_count > 0;
        if (!tn_value_static(node->outputs[i]) || node->outputs[i]->dtype == TENON_DTYPE_NONE)
            return false;
    }
    return used;
}

static bool fits(const tenon_node *node) {
    size_t in = FREE_BYTES, out = 0;
    for (int i = 0; i < node->use_count; i++) {
        /* By memory, not by elements: an expanded constant is small. */
        size_t size = node->uses[i].value->tensor->storage->size;
        size_t elements = bytes_of(node->uses[i].value);
        in += size < elements ? size : elements;
    }
    for (int i = 0; i < node->output_count; i++) {
        size_t size = bytes_of(node->outputs[i]);
        out = out + size < out ? SIZE_MAX : out + size;
    }
    if (out > in)
        return false;
    tn_budget *budget = tn_budget_get();
    in -= FREE_BYTES;
    int64_t growth = out > in ? (int64_t)(out - in) : 0;
    if (!budget)
        return true;
    double flops = tn_node_flops(node), work = tn_node_work(node);
    if (growth > budget->folded_bytes || flops > budget->folded_flops ||
        work > budget->folded_work || (double)out > (budget->most_bytes - budget->bytes) / 2)
        return false;
    budget->folded_bytes -= growth;
    budget->folded_flops -= flops;
    budget->folded_work -= work;
    return true;
}

/* ---- Views ---- */

static tenon_status fold_view(const tenon_node *node, int index, tenon_tensor **out, bool *done) {
    const tenon_value *value = node->outputs[index];
    const tenon_tensor *base = node->uses[0].value->tensor;
    tenon_view view = {.data = base->view.data, .dtype = value->dtype, .rank = value->rank};
    if (value->rank)
        memcpy(view.shape, value->shape, (size_t)value->rank * sizeof *view.shape);
    *done = true;
    if (node->op->view(node, index, &base->view, &view))
        return tn_tensor_over(base->storage, &view, out);
    *done = fits(node);
    if (!*done)
        return TENON_OK;
    tenon_tensor *dense = NULL;
    TN_TRY(tenon_tensor_create(base->view.dtype, base->view.rank, base->view.shape, &dense));
    tenon_status status = tenon_view_copy(&dense->view, &base->view);
    view.data = dense->view.data;
    if (status == TENON_OK && !node->op->view(node, index, &dense->view, &view)) {
        *done = false;
    } else if (status == TENON_OK) {
        status = tn_tensor_over(dense->storage, &view, out);
    }
    tenon_tensor_destroy(&dense);
    return status;
}

/* ---- Kernels ---- */

typedef struct job {
    tenon_view *in, *out;
    int32_t *first;
    tenon_tensor **made; /* by output; NULL where nobody uses it */
    int in_count;
} job;

static int count_inputs(const tenon_node *node) {
    int count = 1;
    for (int i = 0; i < node->op->param_count; i++)
        count += node->args[i].kind == TENON_ARG_LIST ? node->args[i].count : 1;
    return count;
}

static void add_input(job *j, const tenon_arg *arg) {
    j->in[j->in_count] = (tenon_view){0};
    if (arg->kind == TENON_ARG_VALUE)
        j->in[j->in_count] = arg->as.value->tensor->view;
    j->in_count++;
}

static void gather(job *j, const tenon_node *node) {
    for (int i = 0; i < node->op->param_count; i++) {
        const tenon_arg *arg = &node->args[i];
        j->first[i] = -1;
        if (node->op->params[i].type == TN_TYPE_TENSOR && arg->kind == TENON_ARG_LIST) {
            j->first[i] = j->in_count;
            for (int k = 0; k < arg->count; k++)
                add_input(j, &arg->as.list[k]);
        } else if (arg->kind == TENON_ARG_VALUE) {
            j->first[i] = j->in_count;
            add_input(j, arg);
        }
    }
}

static tenon_status allocate(job *j, const tenon_node *node) {
    for (int i = 0; i < node->output_count; i++) {
        const tenon_value *value = node->outputs[i];
        if (!value->use_count)
            continue;
        TN_TRY(tenon_tensor_create(value->dtype, value->rank, value->shape, &j->made[i]));
        j->out[i] = j->made[i]->view;
    }
    return TENON_OK;
}

/* `done` stays false when the kernel refuses (an index out of range, say): the run will tell. */
static tenon_status evaluate(job *j, const tenon_node *node, bool *done) {
    tn_kernel_fn kernel = tn_kernel_get(node->op->id, tn_isa_detect());
    tn_scratch scratch = {0};
    if (!kernel)
        return TENON_OK;
    gather(j, node);
    TN_TRY(allocate(j, node));
    tn_call call = {.node = node,
                    .in = j->in,
                    .out = j->out,
                    .first = j->first,
                    .in_count = j->in_count,
                    .out_count = node->output_count,
                    .threads = 1,
                    .scratch = &scratch};
    tn_room room = {.left = tn_budget_get() ? tn_budget_get()->most_bytes : INFINITY};
    tn_room *outer = tn_room_set(&room);
    tenon_status status = kernel(&call);
    tn_room_set(outer);
    tn_scratch_free(&scratch);
    *done = status == TENON_OK;
    return status == TENON_OUT_OF_MEMORY && !room.refused ? status : TENON_OK;
}

static tenon_status run_kernel(const tenon_node *node, tenon_tensor **made, bool *done) {
    job j = {.made = made};
    j.in = calloc((size_t)count_inputs(node), sizeof *j.in);
    j.out = calloc((size_t)node->output_count, sizeof *j.out);
    j.first = calloc((size_t)node->op->param_count + 1, sizeof *j.first);
    tenon_status status = j.in && j.out && j.first ? evaluate(&j, node, done) : tn_no_memory();
    free(j.in);
    free(j.out);
    free(j.first);
    return status;
}

/* ---- The pass ---- */

static tenon_status compute(const tenon_node *node, tenon_tensor **made, bool *done) {
    if (node->op->kind == TN_OP_VIEW) {
        for (int i = 0; i < node->output_count; i++) {
            TN_TRY(fold_view(node, i, &made[i], done));
            if (!*done)
                return TENON_OK;
        }
        return TENON_OK;
    }
    return fits(node) ? run_kernel(node, made, done) : TENON_OK;
}

/* The file's pages of what was read once more than likely are not needed again; if they are, they
 * come back. */
static void forget_inputs(const tenon_node *node) {
    for (int i = 0; i < node->use_count; i++) {
        const tenon_tensor *tensor = node->uses[i].value->tensor;
        size_t size = bytes_of(node->uses[i].value);
        if (tensor->storage->mapped && size >= LARGE_BYTES &&
            tenon_view_is_contiguous(&tensor->view))
            tn_storage_forget_pages(tensor->storage, tensor->view.data, size);
    }
}

static tenon_status fold(tenon_node *node, tenon_tensor **made, bool *changed) {
    bool done = false;
    TN_TRY(compute(node, made, &done));
    if (!done)
        return TENON_OK;
    for (int i = 0; i < node->output_count; i++) {
        tenon_value *constant;
        if (!made[i] || !node->outputs[i]->use_count)
            continue;
        tenon_tensor *tensor = made[i];
        made[i] = NULL;
        TN_TRY(tn_graph_new_constant(node->graph, node->outputs[i]->name, tensor, &constant));
        TN_TRY(tenon_value_replace(node->outputs[i], constant));
    }
    if (node->op->kind == TN_OP_KERNEL)
        forget_inputs(node);
    *changed = true;
    return tenon_node_erase(node);
}

static tenon_status try_fold(tenon_node *node, bool *changed) {
    tenon_tensor **made = calloc((size_t)node->output_count, sizeof *made);
    if (!made)
        return tn_no_memory();
    tenon_status status = fold(node, made, changed);
    int count = node->output_count;
    for (int i = 0; i < count; i++)
        tenon_tensor_destroy(&made[i]);
    free(made);
    return status;
}

tenon_status tn_pass_fold(tenon_graph *graph, bool *changed) {
    for (tenon_node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (can_fold(node))
            TN_TRY(try_fold(node, changed));
    }
    return TENON_OK;
}
