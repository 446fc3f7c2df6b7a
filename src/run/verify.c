/* Two comparisons. All nodes run in plain kernels first, as the passes leave them that choose no
 * kernels of their own, with memory for each value. Then, in the graph that the session is to run,
 * each node gets its operands from there; what a chosen kernel gives is held against what lies
 * there, and so, at last, is what each partition gives. So an error of one does not spread to those
 * behind it. */
#include "run/verify.h"
#include "core/budget.h"
#include "core/fail.h"
#include "fusion/pipeline.h"
#include "run/context.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A graph computed in kernels, with the values of all nodes. */
typedef struct computed {
    tn_plan *plan;
    tn_instance *instance;
    tenon_context scratch; /* of which kernels use the scratch memory only */
    void **bases;          /* see tn_base_number */
    int32_t base_count;
    tn_map values; /* of nodes, by key_of; `shared` where two have the same */
} computed;

static tenon_value shared;

typedef struct verifier {
    const tn_verify *verify;
    computed plain;                    /* without passes that choose kernels */
    computed chosen;                   /* with those that are left */
    tenon_passes *passes;              /* those that are left */
    tn_arena arena;                    /* of the notes */
    tn_map notes;                      /* by name of a node: what its kernel did wrong */
    int partitions, kernels, left_out; /* see tenon_plan_info */
} verifier;

/* ---- Computing ---- */

static tenon_status reserve(computed *c, tn_base base, int32_t index, int64_t size) {
    TN_TRY(tn_budget_bytes((double)size));
    void *memory = calloc(1, (size_t)size + 1);
    c->bases[tn_base_number(c->plan, base, index)] = memory;
    return memory ? TENON_OK : tn_no_memory();
}

static tenon_status reserve_input(computed *c, const tenon_view *given, int32_t index) {
    tenon_view view = c->plan->inputs[index].view;
    TN_TRY(reserve(c, TN_BASE_INPUT, index,
                   tenon_view_numel(&view) * (int64_t)tenon_dtype_size(view.dtype)));
    view.data = c->bases[tn_base_number(c->plan, TN_BASE_INPUT, index)];
    if (given->data)
        return tenon_view_copy(&view, given);
    tn_view_fill_random(&view, (uint32_t)index + 1);
    return TENON_OK;
}

static tenon_status reserve_state(computed *c, const tenon_value *buffer, int32_t index) {
    tenon_view view = buffer->tensor->view;
    int64_t size = tenon_view_numel(&view) * (int64_t)tenon_dtype_size(view.dtype);
    TN_TRY(reserve(c, TN_BASE_STATE, index, size));
    TN_TRY(reserve(c, TN_BASE_NEXT, index, size));
    view = tn_view_make(c->bases[tn_base_number(c->plan, TN_BASE_STATE, index)], view.dtype,
                        view.rank, view.shape);
    return tenon_view_copy(&view, &buffer->tensor->view);
}

static tenon_status reserve_all(computed *c, const tn_verify *verify) {
    const tn_plan *plan = c->plan;
    c->base_count = tn_base_number(plan, TN_BASE_NEXT, plan->state_count);
    c->bases = calloc((size_t)c->base_count + 1, sizeof *c->bases);
    if (!c->bases)
        return tn_no_memory();
    TN_TRY(reserve(c, TN_BASE_ARENA, 0, plan->arena_bytes));
    for (int32_t i = 0; i < plan->input_count; i++) {
        if (!plan->inputs[i].is_number)
            TN_TRY(reserve_input(c, &verify->inputs[i], i));
    }
    for (int32_t i = 0; i < plan->output_count; i++) {
        const tenon_view *view = &plan->outputs[i].view;
        TN_TRY(reserve(c, TN_BASE_OUTPUT, i,
                       tenon_view_numel(view) * (int64_t)tenon_dtype_size(view->dtype)));
    }
    for (int32_t i = 0; i < plan->state_count; i++) {
        const tenon_value *buffer = tn_map_get(&plan->graph->names, verify->options->states[i]);
        if (buffer) /* otherwise this plan does not use it */
            TN_TRY(reserve_state(c, buffer, i));
    }
    return TENON_OK;
}

static void release(computed *c) {
    for (int32_t i = 0; c->bases && i < c->base_count; i++)
        free(c->bases[i]);
    free(c->bases);
    tn_instance_destroy(&c->instance);
    tn_plan_drop(&c->plan);
    tn_scratch_free(&c->scratch.scratch);
    tn_map_free(&c->values);
    *c = (computed){0};
}

/* What a value has in common with its like in another graph over the same model: passes that
 * replace a node hand on its name, and so do casts. */
static const char *key_of(const tenon_value *value, char *key, size_t room) {
    char shape[256];
    snprintf(key, room, "%d %s %s", value->index,
             tn_shape_text(value->dtype, value->rank, value->shape, shape, sizeof shape),
             value->node->name);
    return key;
}

static tenon_status note_values(computed *c) {
    char key[512];
    tenon_graph *graph = c->plan->graph;
    for (tenon_node *node = graph->first; node; node = node->next) {
        for (int i = 0; i < node->output_count; i++) {
            tenon_value *value = node->outputs[i];
            const char *kept = tn_arena_strdup(&graph->arena, key_of(value, key, sizeof key));
            if (!kept)
                return tn_no_memory();
            TN_TRY(tn_map_put(&c->values, kept, tn_map_get(&c->values, kept) ? &shared : value));
        }
    }
    return TENON_OK;
}

/* Plans a copy of `graph` for kernels only, and binds it. */
static tenon_status prepare(const tn_verify *verify, const tenon_graph *graph, computed *c) {
    tn_plan_options kernels = *verify->options;
    tenon_graph *copy = NULL;
    kernels.backend = TENON_BACKEND_REFERENCE;
    kernels.family = NULL;
    kernels.reuse = false;
    TN_TRY(tenon_graph_clone(graph, &copy));
    tenon_status status = tn_plan_create(copy, verify->inputs, &kernels, &c->plan);
    if (status != TENON_OK) {
        tenon_graph_destroy(&copy);
        return status;
    }
    TN_TRY(reserve_all(c, verify));
    if (tn_budget_get())
        c->plan->room = fmax(1, tn_budget_get()->most_bytes - tn_budget_get()->bytes);
    TN_TRY(tn_instance_create(&c->scratch, c->plan, &c->instance));
    tn_instance_patch(c->instance, c->bases);
    return note_values(c);
}

/* Where a value of the plan's graph lies: in which root, or NULL when it has no memory. */
static const tn_root *locate(const computed *c, const tenon_value *value, tenon_view *out) {
    const tn_plan *plan = c->plan;
    if (!value || plan->root_of[value->id] < 0)
        return NULL;
    int64_t shift;
    const tn_root *root = tn_plan_root(plan, plan->root_of[value->id], &shift);
    char *base = root->base == TN_BASE_FIXED
                     ? root->data
                     : c->bases[tn_base_number(plan, root->base, root->index)];
    *out = plan->views[value->id];
    out->data = base + plan->offset_of[value->id] + shift +
                (root->base == TN_BASE_ARENA ? root->offset : 0);
    return root;
}

/* What plain kernels computed for a value of the chosen graph. */
static bool find_plain(const verifier *v, const tenon_value *value, tenon_view *out) {
    char key[512];
    if (!value->node || !v->plain.plan)
        return false;
    const tenon_value *found = tn_map_get(&v->plain.values, key_of(value, key, sizeof key));
    return found && found != &shared && tn_map_get(&v->chosen.values, key) != &shared &&
           locate(&v->plain, found, out);
}

/* ---- Comparing ---- */

/* How far a result may be from what kernels give, as a part of the largest magnitude: sums in
 * another order, and with 16 bits results that are rounded once in a partition and after each node
 * in kernels, through up to `products` products. Integers come from rounding such results, and may
 * be one apart. */
static double tolerance(tenon_value *const *operands, int count, tenon_dtype dtype, bool bf16_math,
                        int products) {
    bool low = bf16_math || dtype == TENON_BFLOAT16;
    for (int i = 0; i < count; i++)
        low |= operands[i]->dtype == TENON_BFLOAT16;
    return products * (low ? 0.03 : dtype == TENON_FLOAT16 ? 0.005 : 1e-4);
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

/* ---- Chosen kernels ---- */

/* The kernel pass that made the node of the value of that name, or NULL. */
static const tenon_pass *kernel_pass(const verifier *v, const tenon_graph *graph,
                                     const char *name) {
    const tenon_value *value = tn_map_get(&graph->names, name);
    const char *maker = value && value->node ? tn_record_of(graph, value->node) : NULL;
    int index = maker ? tenon_passes_find(v->verify->passes, maker) : -1;
    const tenon_pass *pass = index < 0 ? NULL : tenon_passes_get(v->verify->passes, index);
    return pass && tn_pass_is_kernel(pass) ? pass : NULL;
}

static tenon_status feed(const verifier *v, const tn_step *step) {
    for (int32_t i = 0; i < step->read_count; i++) {
        tenon_view from, to;
        const tn_root *root = locate(&v->chosen, step->read[i], &to);
        if (root && root->base != TN_BASE_FIXED && find_plain(v, step->read[i], &from))
            TN_TRY(tenon_view_copy(&to, &from));
    }
    return TENON_OK;
}

static tenon_status drop_pass(verifier *v, const tenon_pass *pass, const tn_step *step,
                              const char *value, double apart, double limit) {
    tn_text text = {0};
    tn_text_add(&text,
                "verify mode: the kernel %s gave '%s' with an error of %.3g of the largest "
                "magnitude, %.3g is allowed; the pass %s, which chose it, is left out",
                step->node->op->name, value, apart, limit, pass->name);
    tn_log(TENON_LOG_WARN, "node '%s': %s", step->node->name, text.data ? text.data : "");
    const char *name = tn_arena_strdup(&v->arena, step->node->name);
    char *note = text.failed ? NULL : tn_arena_strdup(&v->arena, text.data);
    tn_text_free(&text);
    if (!name || !note)
        return tn_no_memory();
    TN_TRY(tn_map_put(&v->notes, name, note));
    int index = tenon_passes_find(v->passes, pass->name);
    if (index < 0)
        return TENON_OK;
    v->left_out++;
    return tenon_passes_remove_at(v->passes, index);
}

/* Holds what a kernel that was chosen in `graph` gave against what plain kernels give. */
static tenon_status judge_kernel(verifier *v, const tenon_graph *graph, const tn_step *step,
                                 bool *wrong) {
    for (int32_t i = 0; i < step->written_count; i++) {
        const tenon_value *value = step->written[i];
        const tenon_pass *pass = kernel_pass(v, graph, value->name);
        tenon_view given, wanted;
        double apart, limit = tolerance(step->read, step->read_count, value->dtype,
                                        v->verify->options->bf16_math, 2);
        if (!pass || !locate(&v->chosen, value, &given) || !find_plain(v, value, &wanted))
            continue;
        TN_TRY(difference(&given, &wanted, &apart));
        v->kernels++;
        if (apart <= limit)
            continue;
        *wrong = true;
        return drop_pass(v, pass, step, value->name, apart, limit);
    }
    return TENON_OK;
}

static tenon_status compute_chosen(verifier *v, const tenon_graph *graph, bool *wrong) {
    TN_TRY(prepare(v->verify, graph, &v->chosen));
    tn_instance *instance = v->chosen.instance;
    for (int32_t s = 0; s < instance->plan->step_count; s++) {
        const tn_step *step = &instance->plan->steps[s];
        if (v->plain.plan)
            TN_TRY(feed(v, step));
        TN_TRY(instance->steps[s].kernel(&instance->steps[s].call));
        tn_scratch_reset(&v->chosen.scratch.scratch);
        if (v->plain.plan)
            TN_TRY(judge_kernel(v, graph, step, wrong));
    }
    return TENON_OK;
}

static tenon_status compute_plain(verifier *v, const tenon_graph *graph) {
    tenon_passes *without = NULL;
    tenon_graph *copy = NULL;
    tenon_status status;
    TN_GOTO(tn_passes_copy(v->verify->passes, &v->passes));
    TN_GOTO(tn_passes_without_kernels(v->passes, &without));
    if (tenon_passes_count(without) < tenon_passes_count(v->passes)) {
        TN_GOTO(tenon_graph_clone(graph, &copy));
        TN_GOTO(v->verify->lower(v->verify->user, without, &copy));
        TN_GOTO(prepare(v->verify, copy, &v->plain));
        TN_GOTO(tn_instance_run(v->plain.instance, &v->plain.scratch.scratch, false));
    }
error:
    tenon_graph_destroy(&copy);
    tenon_passes_destroy(&without);
    return status;
}

static tenon_status note_choices(const verifier *v, tenon_graph *graph) {
    for (tenon_node *node = graph->first; node; node = node->next) {
        const char *note = tn_map_get(&v->notes, node->name);
        if (note && !(node->choice = tn_arena_strdup(&graph->arena, note)))
            return tn_no_memory();
    }
    return TENON_OK;
}

/* Lowers a copy of `graph` until all chosen kernels are right. */
static tenon_status lower_verified(verifier *v, const tenon_graph *graph, tenon_graph **out) {
    bool wrong = true;
    TN_TRY(compute_plain(v, graph));
    while (wrong) {
        wrong = false;
        v->kernels = 0;
        tenon_graph_destroy(out);
        release(&v->chosen);
        TN_TRY(tenon_graph_clone(graph, out));
        TN_TRY(v->verify->lower(v->verify->user, v->passes, out));
        TN_TRY(compute_chosen(v, *out, &wrong));
    }
    release(&v->plain);
    return note_choices(v, *out);
}

/* ---- Partitions ---- */

typedef struct trial {
    void **in, **out;
    void **memory; /* to be freed */
    int32_t memory_count;
} trial;

static tenon_status operand(trial *t, const tenon_view *laid_out, void **place) {
    *place = t->memory[t->memory_count] = calloc(1, (size_t)tn_layout_span(laid_out) + 1);
    return t->memory[t->memory_count++] ? TENON_OK : tn_no_memory();
}

/* The value of that name as kernels computed it. */
static bool find_chosen(const verifier *v, const tenon_value *value, tenon_view *out) {
    return locate(&v->chosen, tn_map_get(&v->chosen.plan->graph->names, value->name), out);
}

/* Sets *out to a text that says how `partition` differs, or to NULL. */
static tenon_status judge(const verifier *v, const tn_plan *plan, tn_partition *partition, trial *t,
                          tn_text *out) {
    for (int i = 0; i < partition->input_count; i++) {
        tenon_view wanted, view = plan->views[partition->inputs[i]->id];
        t->in[i] = view.data;
        if (view.data)
            continue; /* a constant, which it may have packed */
        TN_TRY(operand(t, &view, &t->in[i]));
        view.data = t->in[i];
        if (!find_chosen(v, partition->inputs[i], &wanted)) {
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
        double apart = INFINITY, limit = tolerance(partition->inputs, partition->input_count,
                                                   view.dtype, v->verify->options->bf16_math, 1);
        view.data = t->out[i];
        if (find_chosen(v, partition->outputs[i], &wanted))
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
                                  tn_text *out) {
    size_t count = (size_t)partition->input_count + (size_t)partition->output_count + 1;
    trial t = {calloc(count, sizeof(void *)), calloc(count, sizeof(void *)),
               calloc(count, sizeof(void *)), 0};
    tenon_status status = t.in && t.out && t.memory ? TENON_OK : tn_no_memory();
    if (status == TENON_OK)
        status = judge(v, plan, partition, &t, out);
    for (int32_t i = 0; i < t.memory_count; i++)
        free(t.memory[i]);
    free(t.in);
    free(t.out);
    free(t.memory);
    return status == TENON_OK && out->failed ? tn_no_memory() : status;
}

/* Keeps the nodes of partitions that differ from oneDNN; `*barred` is how many partitions. */
static tenon_status bar_wrong(verifier *v, const tn_plan *plan, int32_t *barred) {
    v->partitions = plan->partitions->count;
    for (int32_t p = 0; p < plan->partitions->count; p++) {
        tn_partition *partition = &plan->partitions->items[p];
        tn_text text = {0};
        tenon_status status = try_partition(v, plan, partition, &text);
        if (status == TENON_OK && text.length > 0) {
            tn_log(TENON_LOG_WARN, "node '%s': %s; its nodes run in Tenon's kernels",
                   partition->nodes[0]->name, text.data);
            const char *kept = tn_arena_strdup(&plan->graph->arena, text.data);
            if (!kept)
                status = tn_no_memory();
            for (int32_t n = 0; n < partition->node_count && kept; n++)
                partition->nodes[n]->barred = kept;
            (*barred)++;
            v->left_out++;
        }
        tn_text_free(&text);
        TN_TRY(status);
    }
    return TENON_OK;
}

/* Plans `*graph` until all partitions are right; the plan takes it over. */
static tenon_status plan_verified(verifier *v, tenon_graph **graph, tn_plan **out) {
    tn_plan *plan = NULL;
    int32_t barred = 1;
    tenon_status status = TENON_OK;
    while (status == TENON_OK && barred > 0) {
        if (plan)
            plan->graph = NULL; /* it goes into the next plan */
        tn_plan_drop(&plan);
        status = tn_plan_create(*graph, v->verify->inputs, v->verify->options, &plan);
        barred = 0;
        if (status == TENON_OK)
            status = bar_wrong(v, plan, &barred);
    }
    if (status == TENON_OK) {
        *graph = NULL;
        *out = plan;
        return TENON_OK;
    }
    if (plan)
        plan->graph = NULL; /* it stays the caller's */
    tn_plan_drop(&plan);
    return status;
}

tenon_status tn_plan_create_verified(const tn_verify *verify, tenon_graph *graph, tn_plan **out) {
    verifier v = {.verify = verify};
    tenon_graph *lowered = NULL;
    tenon_status status = lower_verified(&v, graph, &lowered);
    if (status == TENON_OK)
        status = plan_verified(&v, &lowered, out);
    if (status == TENON_OK) {
        (*out)->verified_partitions = v.partitions;
        (*out)->verified_kernels = v.kernels;
        (*out)->left_out = v.left_out;
        tenon_graph_destroy(&graph);
    }
    tenon_graph_destroy(&lowered);
    release(&v.plain);
    release(&v.chosen);
    tenon_passes_destroy(&v.passes);
    tn_map_free(&v.notes);
    tn_arena_free(&v.arena);
    return status;
}
