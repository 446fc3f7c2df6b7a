/* Compares partitions with kernels. All nodes run in kernels once, with memory of its own for each
 * value; then each partition gets the operands from there, and its results are held against what
 * lies there. So an error of one partition does not spread to those behind it. */
#include "run/verify.h"
#include "core/fail.h"
#include "run/context.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct verifier {
    const tenon_view *inputs;
    tn_plan *expected;     /* kernels only */
    tenon_context scratch; /* of which kernels use the scratch memory only */
    void **bases;          /* of `expected`: see tn_base_number */
    int32_t base_count;
} verifier;

/* ---- What is expected ---- */

static tenon_status reserve(verifier *v, tn_base base, int32_t index, int64_t size) {
    void *memory = calloc(1, (size_t)size + 1);
    v->bases[tn_base_number(v->expected, base, index)] = memory;
    return memory ? TENON_OK : tn_no_memory();
}

static tenon_status reserve_input(verifier *v, int32_t index) {
    const tenon_view *given = &v->inputs[index];
    tenon_view view = v->expected->inputs[index].view;
    TN_TRY(reserve(v, TN_BASE_INPUT, index,
                   tenon_view_numel(&view) * (int64_t)tenon_dtype_size(view.dtype)));
    view.data = v->bases[tn_base_number(v->expected, TN_BASE_INPUT, index)];
    if (given->data)
        return tenon_view_copy(&view, given);
    tn_view_fill_random(&view, (uint32_t)index + 1);
    return TENON_OK;
}

static tenon_status reserve_state(verifier *v, const tenon_value *buffer, int32_t index) {
    tenon_view view = buffer->tensor->view;
    int64_t size = tenon_view_numel(&view) * (int64_t)tenon_dtype_size(view.dtype);
    TN_TRY(reserve(v, TN_BASE_STATE, index, size));
    TN_TRY(reserve(v, TN_BASE_NEXT, index, size));
    view = tn_view_make(v->bases[tn_base_number(v->expected, TN_BASE_STATE, index)], view.dtype,
                        view.rank, view.shape);
    return tenon_view_copy(&view, &buffer->tensor->view);
}

static tenon_status reserve_all(verifier *v, const tn_plan_options *options) {
    const tn_plan *plan = v->expected;
    v->base_count = tn_base_number(plan, TN_BASE_NEXT, plan->state_count);
    v->bases = calloc((size_t)v->base_count + 1, sizeof *v->bases);
    if (!v->bases)
        return tn_no_memory();
    TN_TRY(reserve(v, TN_BASE_ARENA, 0, plan->arena_bytes));
    for (int32_t i = 0; i < plan->input_count; i++) {
        if (!plan->inputs[i].is_number)
            TN_TRY(reserve_input(v, i));
    }
    for (int32_t i = 0; i < plan->output_count; i++) {
        const tenon_view *view = &plan->outputs[i].view;
        TN_TRY(reserve(v, TN_BASE_OUTPUT, i,
                       tenon_view_numel(view) * (int64_t)tenon_dtype_size(view->dtype)));
    }
    for (int32_t i = 0; i < plan->state_count; i++) {
        const tenon_value *buffer = tn_map_get(&plan->graph->names, options->states[i]);
        if (buffer) /* otherwise this plan does not use it */
            TN_TRY(reserve_state(v, buffer, i));
    }
    return TENON_OK;
}

static tenon_status compute_expected(verifier *v, const tenon_graph *graph,
                                     const tn_plan_options *options) {
    tn_plan_options kernels = *options;
    tenon_graph *copy = NULL;
    tn_instance *instance = NULL;
    kernels.backend = TENON_BACKEND_REFERENCE;
    kernels.family = NULL;
    kernels.reuse = false;
    TN_TRY(tenon_graph_clone(graph, &copy));
    tenon_status status = tn_plan_create(copy, v->inputs, &kernels, &v->expected);
    if (status != TENON_OK) {
        tenon_graph_destroy(&copy);
        return status;
    }
    TN_GOTO(reserve_all(v, options));
    TN_GOTO(tn_instance_create(&v->scratch, v->expected, &instance));
    tn_instance_patch(instance, v->bases);
    TN_GOTO(tn_instance_run(instance, &v->scratch.scratch, false));
error:
    tn_instance_destroy(&instance);
    return status;
}

/* The value of that name as kernels computed it. */
static bool find_expected(const verifier *v, const tenon_value *value, tenon_view *out) {
    const tn_plan *plan = v->expected;
    const tenon_value *found = tn_map_get(&plan->graph->names, value->name);
    if (!found || plan->root_of[found->id] < 0)
        return false;
    int64_t shift;
    const tn_root *root = tn_plan_root(plan, plan->root_of[found->id], &shift);
    char *base = root->base == TN_BASE_FIXED
                     ? root->data
                     : v->bases[tn_base_number(plan, root->base, root->index)];
    *out = plan->views[found->id];
    out->data = base + plan->offset_of[found->id] + shift +
                (root->base == TN_BASE_ARENA ? root->offset : 0);
    return true;
}

/* ---- Comparing ---- */

/* How far a result may be from what kernels give, as a part of the largest magnitude: sums in
 * another order, and with 16 bits results that are rounded once in a partition and after each node
 * in kernels. Integers come from rounding such results, and may be one apart. */
static double tolerance(const tn_partition *partition, tenon_dtype dtype, bool bf16_math) {
    bool low = bf16_math || dtype == TENON_BFLOAT16;
    for (int i = 0; i < partition->input_count; i++)
        low |= partition->inputs[i]->dtype == TENON_BFLOAT16;
    return low ? 0.03 : dtype == TENON_FLOAT16 ? 0.005 : 1e-4;
}

/* The largest difference as a part of the largest magnitude; infinite where only one of two is
 * finite, or two infinities differ. */
static tenon_status difference(const tenon_view *given, const tenon_view *wanted, double *out) {
    tenon_tensor *both[2] = {NULL, NULL};
    const tenon_view *const views[2] = {given, wanted};
    double worst = 0, scale = 0, slack = tn_dtype_is_float(given->dtype) ? 0 : 1;
    tenon_status status = TENON_OK;
    for (int i = 0; i < 2; i++) {
        TN_GOTO(tenon_tensor_create(TENON_FLOAT64, given->rank, given->shape, &both[i]));
        TN_GOTO(tenon_view_copy(&both[i]->view, views[i]));
    }
    const double *a = both[0]->view.data, *b = both[1]->view.data;
    for (int64_t i = 0; i < tenon_view_numel(given); i++) {
        if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i])))
            continue;
        double apart = isfinite(a[i]) && isfinite(b[i]) ? fabs(a[i] - b[i]) - slack : INFINITY;
        worst = fmax(worst, apart);
    }
    for (int64_t i = 0; i < tenon_view_numel(given); i++) {
        if (isfinite(b[i]))
            scale = fmax(scale, fabs(b[i]));
    }
    *out = worst == 0 ? 0 : worst / (scale > 0 ? scale : 1);
error:
    tenon_tensor_destroy(&both[0]);
    tenon_tensor_destroy(&both[1]);
    return status;
}

typedef struct trial {
    void **in, **out;
    void **memory; /* to be freed */
    int32_t memory_count;
} trial;

static tenon_status operand(trial *t, const tenon_view *laid_out, void **place) {
    *place = t->memory[t->memory_count] = calloc(1, (size_t)tn_layout_span(laid_out) + 1);
    return t->memory[t->memory_count++] ? TENON_OK : tn_no_memory();
}

/* Sets *out to a text that says how `partition` differs, or to NULL. */
static tenon_status judge(const verifier *v, const tn_plan *plan, tn_partition *partition,
                          bool bf16_math, trial *t, tn_text *out) {
    for (int i = 0; i < partition->input_count; i++) {
        tenon_view wanted, view = plan->views[partition->inputs[i]->id];
        t->in[i] = view.data;
        if (view.data)
            continue; /* a constant, which it may have packed */
        TN_TRY(operand(t, &view, &t->in[i]));
        view.data = t->in[i];
        if (!find_expected(v, partition->inputs[i], &wanted)) {
            tn_text_add(out, "no kernel computes its operand '%s'", partition->inputs[i]->name);
            return TENON_OK;
        }
        TN_TRY(tenon_view_copy(&view, &wanted));
    }
    for (int i = 0; i < partition->output_count; i++)
        TN_TRY(operand(t, &plan->views[partition->outputs[i]->id], &t->out[i]));
    TN_TRY(tn_partition_execute(partition, t->in, t->out));
    for (int i = 0; i < partition->output_count; i++) {
        tenon_view wanted, view = plan->views[partition->outputs[i]->id];
        double apart = INFINITY, limit = tolerance(partition, view.dtype, bf16_math);
        view.data = t->out[i];
        if (find_expected(v, partition->outputs[i], &wanted))
            TN_TRY(difference(&view, &wanted, &apart));
        if (!(apart <= limit)) {
            tn_text_add(out,
                        "verify mode: the oneDNN partition %s gave '%s' with an error of %.3g of "
                        "the largest magnitude, %.3g is allowed",
                        partition->ops, partition->outputs[i]->name, apart, limit);
            return TENON_OK;
        }
    }
    return TENON_OK;
}

static tenon_status try_partition(const verifier *v, const tn_plan *plan, tn_partition *partition,
                                  bool bf16_math, tn_text *out) {
    size_t count = (size_t)partition->input_count + (size_t)partition->output_count + 1;
    trial t = {calloc(count, sizeof(void *)), calloc(count, sizeof(void *)),
               calloc(count, sizeof(void *)), 0};
    tenon_status status = t.in && t.out && t.memory ? TENON_OK : tn_no_memory();
    if (status == TENON_OK)
        status = judge(v, plan, partition, bf16_math, &t, out);
    for (int32_t i = 0; i < t.memory_count; i++)
        free(t.memory[i]);
    free(t.in);
    free(t.out);
    free(t.memory);
    return status == TENON_OK && out->failed ? tn_no_memory() : status;
}

/* Keeps the nodes of partitions that differ from oneDNN; `*barred` is how many partitions. */
static tenon_status bar_wrong(const verifier *v, const tn_plan *plan, bool bf16_math,
                              int32_t *barred) {
    for (int32_t p = 0; p < plan->partitions->count; p++) {
        tn_partition *partition = &plan->partitions->items[p];
        tn_text text = {0};
        tenon_status status = try_partition(v, plan, partition, bf16_math, &text);
        if (status == TENON_OK && text.length > 0) {
            tn_log(TENON_LOG_WARN, "node '%s': %s; its nodes run in Tenon's kernels",
                   partition->nodes[0]->name, text.data);
            const char *kept = tn_arena_strdup(&plan->graph->arena, text.data);
            if (!kept)
                status = tn_no_memory();
            for (int32_t n = 0; n < partition->node_count && kept; n++)
                partition->nodes[n]->barred = kept;
            (*barred)++;
        }
        tn_text_free(&text);
        TN_TRY(status);
    }
    return TENON_OK;
}

static void destroy(verifier *v) {
    for (int32_t i = 0; v->bases && i < v->base_count; i++)
        free(v->bases[i]);
    free(v->bases);
    tn_plan_drop(&v->expected);
    tn_scratch_free(&v->scratch.scratch);
}

tenon_status tn_plan_create_verified(tenon_graph *graph, const tenon_view *inputs,
                                     const tn_plan_options *options, tn_plan **out) {
    verifier v = {.inputs = inputs};
    tn_plan *plan = NULL;
    int32_t barred = 1;
    tenon_status status = compute_expected(&v, graph, options);
    while (status == TENON_OK && barred > 0) {
        if (plan)
            plan->graph = NULL; /* it goes into the next plan */
        tn_plan_drop(&plan);
        status = tn_plan_create(graph, inputs, options, &plan);
        barred = 0;
        if (status == TENON_OK)
            status = bar_wrong(&v, plan, options->bf16_math, &barred);
    }
    destroy(&v);
    if (status == TENON_OK) {
        *out = plan;
        return TENON_OK;
    }
    if (plan)
        plan->graph = NULL; /* it stays the caller's */
    tn_plan_drop(&plan);
    return status;
}
