/* Steps in order, lifetimes, memory in place, and offsets in the arena. */
#include "run/plan.h"
#include "core/fail.h"
#include "run/offsets.h"
#include <stdlib.h>
#include <string.h>

typedef struct planner {
    tn_plan *plan;
    const tn_plan_options *options;
    tn_layout layout;
    bool *owned;   /* by value id: a partition writes it, though a view node makes it */
    int32_t *seen; /* by value id: 1 + the step that was found to read it last */
} planner;

/* ---- Roots ---- */

static int32_t add_root(planner *p, tn_base base, int32_t index, const tenon_view *view) {
    tn_root *root = &p->plan->roots[p->plan->root_count];
    *root = (tn_root){.base = base,
                      .index = index,
                      .parent = -1,
                      .first = -1,
                      .last = -1,
                      .size = tn_layout_span(view)};
    return p->plan->root_count++;
}

static int32_t find_state(const tn_plan_options *options, const char *name) {
    for (int32_t i = 0; i < options->state_count; i++) {
        if (strcmp(options->states[i], name) == 0)
            return i;
    }
    return -1;
}

static tenon_status root_leaves(planner *p) {
    const tenon_graph *graph = p->plan->graph;
    for (int32_t i = 0; i < graph->input_count; i++) {
        const tenon_value *input = graph->inputs[i];
        if (input->scalar == TN_TENSOR)
            p->plan->root_of[input->id] = add_root(p, TN_BASE_INPUT, i, &p->plan->views[input->id]);
    }
    for (int32_t i = 0; i < graph->constant_count; i++) {
        const tenon_value *constant = graph->constants[i];
        bool state = constant->kind == TENON_VALUE_BUFFER;
        int32_t index = state ? find_state(p->options, constant->name) : i;
        if (index < 0)
            return tn_fail(TENON_INTERNAL, "buffer '%s' is new to the session", constant->name);
        int32_t root = add_root(p, state ? TN_BASE_STATE : TN_BASE_FIXED, index,
                                &p->plan->views[constant->id]);
        p->plan->roots[root].data = state ? NULL : p->plan->views[constant->id].data;
        p->plan->root_of[constant->id] = root;
    }
    return TENON_OK;
}

static void root_nodes(planner *p) {
    const tenon_view *views = p->plan->views;
    for (const tenon_node *node = p->plan->graph->first; node; node = node->next) {
        const tenon_value *from = NULL;
        if (node->op->kind == TN_OP_VIEW)
            from = tn_arg_value(node, tn_layout_view_param(node->op));
        for (int i = 0; i < node->output_count; i++) {
            int32_t id = node->outputs[i]->id;
            if (from && !p->owned[id]) {
                p->plan->root_of[id] = p->plan->root_of[from->id];
                p->plan->offset_of[id] = p->plan->offset_of[from->id] + p->layout.moves[id];
            } else if (views[id].dtype != TENON_DTYPE_NONE) {
                p->plan->root_of[id] = add_root(p, TN_BASE_ARENA, -1, &views[id]);
            }
        }
    }
}

static tenon_status make_roots(planner *p) {
    int32_t count = p->plan->graph->value_count;
    p->plan->roots = tn_arena_array(&p->plan->arena, (size_t)count + 1, sizeof *p->plan->roots);
    p->plan->root_of = malloc(((size_t)count + 1) * sizeof *p->plan->root_of);
    p->plan->offset_of = calloc((size_t)count + 1, sizeof *p->plan->offset_of);
    p->owned = calloc((size_t)count + 1, sizeof *p->owned);
    p->seen = calloc((size_t)count + 1, sizeof *p->seen);
    if (!p->plan->roots || !p->plan->root_of || !p->plan->offset_of || !p->owned || !p->seen)
        return tn_no_memory();
    memset(p->plan->root_of, 0xff, ((size_t)count + 1) * sizeof *p->plan->root_of);
    const tn_partitions *set = p->plan->partitions;
    for (int32_t i = 0; i < set->count; i++) {
        for (int32_t o = 0; o < set->items[i].output_count; o++)
            p->owned[set->items[i].outputs[o]->id] = true;
    }
    TN_TRY(root_leaves(p));
    root_nodes(p);
    return TENON_OK;
}

static tn_operand operand_of(const planner *p, const tenon_value *value) {
    return (tn_operand){&p->plan->views[value->id], p->plan->offset_of[value->id],
                        p->plan->root_of[value->id]};
}

/* ---- Steps ---- */

static const tn_operand absent = {NULL, 0, -1};

/* How many tensors argument `index` may hold: the items of a list, or one. */
static int tensor_items(const tenon_node *node, int index) {
    const tenon_arg *arg = &node->args[index];
    if (node->op->params[index].type != TN_TYPE_TENSOR)
        return 0;
    return arg->kind == TENON_ARG_LIST ? arg->count : arg->kind == TENON_ARG_VALUE;
}

static tenon_status make_operands(planner *p, tn_step *step, int in_count, int out_count) {
    step->in_count = in_count;
    step->out_count = out_count;
    step->in = tn_arena_array(&p->plan->arena, (size_t)in_count + 1, sizeof *step->in);
    step->out = tn_arena_array(&p->plan->arena, (size_t)out_count + 1, sizeof *step->out);
    return step->in && step->out ? TENON_OK : tn_no_memory();
}

/* Lists what the step of a kernel reads, each value once, and which of its outputs are wanted. */
static tenon_status list_values(planner *p, tn_step *step) {
    tenon_node *node = step->node;
    int32_t mark = p->plan->step_count + 1;
    size_t room = (size_t)node->use_count + (size_t)node->output_count + 1;
    step->read = tn_arena_array(&p->plan->arena, room, sizeof(tenon_value *));
    if (!step->read)
        return tn_no_memory();
    for (int i = 0; i < node->use_count; i++) {
        tenon_value *value = node->uses[i].value;
        if (value->scalar != TN_TENSOR || p->seen[value->id] == mark)
            continue;
        p->seen[value->id] = mark;
        step->read[step->read_count++] = value;
    }
    step->written = step->read + step->read_count;
    for (int i = 0; i < node->output_count; i++) {
        if (step->out[i].root >= 0)
            step->written[step->written_count++] = node->outputs[i];
    }
    return TENON_OK;
}

static tenon_status kernel_step(planner *p, tenon_node *node, tn_step *step) {
    step->node = node;
    step->copy = node->op->id == TN_OP_clone;
    step->kernel = tn_kernel_get(node->op->id, p->options->isa);
    if (!step->kernel)
        return tn_fail(TENON_UNSUPPORTED, "node '%s': no kernel computes %s", node->name,
                       node->op->name);
    int params = node->op->param_count, count = 0;
    step->param_first =
        tn_arena_array(&p->plan->arena, (size_t)params + 1, sizeof *step->param_first);
    if (!step->param_first)
        return tn_no_memory();
    for (int i = 0; i < params; i++) {
        int items = tensor_items(node, i);
        step->param_first[i] = items > 0 ? count : -1;
        count += items;
    }
    TN_TRY(make_operands(p, step, count, node->output_count));
    for (int i = 0; i < params; i++) {
        const tenon_arg *arg = &node->args[i];
        for (int j = 0; j < tensor_items(node, i); j++) {
            const tenon_arg *item = arg->kind == TENON_ARG_LIST ? &arg->as.list[j] : arg;
            step->in[step->param_first[i] + j] =
                item->kind == TENON_ARG_VALUE ? operand_of(p, item->as.value) : absent;
        }
    }
    for (int i = 0; i < node->output_count; i++)
        step->out[i] = operand_of(p, node->outputs[i]);
    return list_values(p, step);
}

static tenon_status partition_step(planner *p, tn_partition *partition, tn_step *step) {
    step->partition = partition;
    step->node = partition->nodes[0];
    step->read = partition->inputs;
    step->read_count = partition->input_count;
    step->written = partition->outputs;
    step->written_count = partition->output_count;
    TN_TRY(make_operands(p, step, partition->input_count, partition->output_count));
    for (int i = 0; i < step->in_count; i++)
        step->in[i] = operand_of(p, partition->inputs[i]);
    for (int i = 0; i < step->out_count; i++)
        step->out[i] = operand_of(p, partition->outputs[i]);
    return TENON_OK;
}

static void find_sources(tn_plan *plan) {
    for (const tenon_node *node = plan->graph->first; node; node = node->next) {
        int32_t step = plan->step_of[node->order];
        const tenon_value *from =
            step < 0 ? tn_arg_value(node, tn_layout_view_param(node->op)) : NULL;
        plan->source_of[node->order] =
            from && from->node ? plan->source_of[from->node->order] : step;
    }
}

/* A copy of what is no activation, which a pass made for an output or a write. */
static void explain_borrowed(const tn_plan *plan, const tn_use *use, tenon_reason kind,
                             const char *reason) {
    tenon_node *node = use ? use->value->node : NULL;
    const tenon_value *from = node && node->op->id == TN_OP_clone ? tn_arg_value(node, 0) : NULL;
    if (!from || (from->node && plan->source_of[from->node->order] >= 0))
        return;
    node->reason_kind = kind;
    node->reason = reason;
}

/* Copies that outputs, state and the layout needed are there for reasons of their own, and so are
 * views of them. */
static void explain_copies(planner *p) {
    const tn_plan *plan = p->plan;
    for (int32_t i = 0; i < plan->graph->output_count; i++)
        explain_borrowed(plan, plan->graph->outputs[i].use, TENON_REASON_OUTPUT_COPY,
                         "a copy: the output is an input or constant, or a view of one, and needs "
                         "memory of its own");
    for (int32_t i = 0; i < plan->graph->write_count; i++)
        explain_borrowed(plan, plan->graph->writes[i].use, TENON_REASON_STATE_COPY,
                         "a copy: what is written is an input or state itself, or a view of one");
    for (const tn_layout_copy *copy = p->layout.copies; copy; copy = copy->next) {
        copy->node->reason_kind = copy->kind;
        copy->node->reason = copy->reason;
        for (const tn_use *use = copy->node->outputs[0]->uses; use; use = use->next) {
            if (use->node && use->node->op->kind == TN_OP_VIEW)
                use->node->reason = "it renames the memory of a copy that was made for it, as no "
                                    "strides express it on what was copied";
        }
    }
}

static tenon_status make_steps(planner *p) {
    tn_plan *plan = p->plan;
    const tn_partitions *set = plan->partitions;
    if (set->step_count >= INT32_MAX)
        return tn_fail(TENON_UNSUPPORTED, "the graph has more nodes than a plan can hold");
    plan->steps = tn_arena_array(&plan->arena, (size_t)set->step_count + 1, sizeof *plan->steps);
    size_t nodes = (size_t)plan->graph->node_count + 1;
    plan->step_of = tn_arena_array(&plan->arena, nodes, sizeof *plan->step_of);
    plan->source_of = tn_arena_array(&plan->arena, nodes, sizeof *plan->source_of);
    if (!plan->steps || !plan->step_of || !plan->source_of)
        return tn_no_memory();
    memset(plan->step_of, 0xff, nodes * sizeof *plan->step_of);
    for (int64_t i = 0; i < set->step_count; i++) {
        const tn_partition_step *from = &set->steps[i];
        tn_step *step = &plan->steps[plan->step_count];
        if (from->partition) {
            TN_TRY(partition_step(p, from->partition, step));
            for (int n = 0; n < from->partition->node_count; n++)
                plan->step_of[from->partition->nodes[n]->order] = plan->step_count;
        } else if (from->node->op->kind == TN_OP_VIEW) {
            plan->view_count++;
            continue;
        } else {
            TN_TRY(kernel_step(p, from->node, step));
            plan->step_of[from->node->order] = plan->step_count;
        }
        plan->operand_count += step->in_count + step->out_count;
        plan->step_count++;
    }
    find_sources(plan);
    explain_copies(p);
    return TENON_OK;
}

/* ---- Inputs, outputs and writes ---- */

static int64_t number_bits(const tenon_view *view) {
    int64_t bits = 0;
    if (view->data)
        memcpy(&bits, view->data, tenon_dtype_size(view->dtype));
    return bits;
}

static tenon_status make_inputs(planner *p, const tenon_view *inputs) {
    tn_plan *plan = p->plan;
    const tenon_graph *graph = plan->graph;
    plan->input_count = graph->input_count;
    plan->inputs =
        tn_arena_array(&plan->arena, (size_t)graph->input_count + 1, sizeof *plan->inputs);
    if (!plan->inputs)
        return tn_no_memory();
    for (int32_t i = 0; i < graph->input_count; i++) {
        const tenon_value *value = graph->inputs[i];
        tn_plan_input *input = &plan->inputs[i];
        input->name = value->name;
        input->view = tn_view_make(NULL, inputs[i].dtype, inputs[i].rank, inputs[i].shape);
        input->is_number = value->scalar != TN_TENSOR;
        input->read = value->use_count > 0;
        if (input->is_number)
            input->number = number_bits(&inputs[i]);
    }
    return TENON_OK;
}

static void literal_output(tn_plan_output *output, const tenon_arg *arg) {
    tenon_dtype dtype = TENON_DTYPE_NONE;
    output->place = absent;
    if (arg->kind == TENON_ARG_INT) {
        dtype = TENON_INT64;
        output->literal.i = arg->as.i;
    } else if (arg->kind == TENON_ARG_FLOAT) {
        dtype = TENON_FLOAT64;
        output->literal.f = arg->as.f;
    } else if (arg->kind == TENON_ARG_BOOL) {
        dtype = TENON_BOOL;
        output->literal.b = arg->as.b;
    }
    output->view = tn_view_make(NULL, dtype, 0, NULL);
}

/* Gives a result's memory to a base other than the arena, as tn_layout_make has seen to. */
static tenon_status claim(planner *p, tn_operand place, tn_base base, int32_t index,
                          const char *name) {
    tn_root *root = place.root < 0 ? NULL : &p->plan->roots[place.root];
    if (!root || root->base != TN_BASE_ARENA || place.offset != 0 ||
        tn_layout_span(place.view) != root->size)
        return tn_fail(TENON_INTERNAL, "'%s' has no memory of its own", name);
    root->base = base;
    root->index = index;
    return TENON_OK;
}

static tenon_status make_outputs(planner *p) {
    tn_plan *plan = p->plan;
    const tenon_graph *graph = plan->graph;
    plan->output_count = graph->output_count;
    plan->outputs =
        tn_arena_array(&plan->arena, (size_t)graph->output_count + 1, sizeof *plan->outputs);
    if (!plan->outputs)
        return tn_no_memory();
    for (int32_t i = 0; i < graph->output_count; i++) {
        tn_plan_output *output = &plan->outputs[i];
        const tenon_arg *arg = graph->outputs[i].arg;
        if (arg->kind != TENON_ARG_VALUE) {
            literal_output(output, arg);
            continue;
        }
        output->place = operand_of(p, arg->as.value);
        output->view = plan->views[arg->as.value->id];
        output->view.data = NULL;
        TN_TRY(claim(p, output->place, TN_BASE_OUTPUT, i, graph->outputs[i].name));
    }
    return TENON_OK;
}

static tenon_status make_writes(planner *p) {
    tn_plan *plan = p->plan;
    const tenon_graph *graph = plan->graph;
    plan->state_count = p->options->state_count;
    plan->writes =
        tn_arena_array(&plan->arena, (size_t)graph->write_count + 1, sizeof *plan->writes);
    plan->next_states =
        tn_arena_array(&plan->arena, (size_t)plan->state_count + 1, sizeof *plan->next_states);
    if (!plan->writes || !plan->next_states)
        return tn_no_memory();
    for (int32_t i = 0; i < graph->write_count; i++) {
        const tn_write *write = &graph->writes[i];
        tn_operand place = operand_of(p, write->arg->as.value);
        const tenon_view *from = place.view, *to = &plan->views[write->target->id];
        if (from->dtype != to->dtype || !tn_same_shape(from, to))
            return tn_fail(TENON_INVALID_GRAPH, "write to '%s': '%s' has another dtype or shape",
                           write->target->name, write->arg->as.value->name);
        if (write->target->kind == TENON_VALUE_BUFFER) {
            int32_t state = find_state(p->options, write->target->name);
            TN_TRY(claim(p, place, TN_BASE_NEXT, state, write->target->name));
            plan->next_states[state] = true;
        } else {
            plan->writes[plan->write_count++] = (tn_plan_write){write->target->index, place};
            plan->inputs[write->target->index].written = true;
        }
    }
    return TENON_OK;
}

/* ---- Lifetimes, and memory in place ---- */

static void touch(tn_plan *plan, int32_t root, int32_t step) {
    if (root < 0)
        return;
    tn_root *r = &plan->roots[root];
    if (r->first < 0)
        r->first = step;
    r->last = step;
}

static void find_lifetimes(planner *p) {
    tn_plan *plan = p->plan;
    for (int32_t s = 0; s < plan->step_count; s++) {
        const tn_step *step = &plan->steps[s];
        for (int i = 0; i < step->in_count; i++)
            touch(plan, step->in[i].root, s);
        for (int i = 0; i < step->out_count; i++)
            touch(plan, step->out[i].root, s);
    }
    for (int32_t i = 0; i < plan->output_count; i++)
        touch(plan, plan->outputs[i].place.root, plan->step_count);
    for (int32_t i = 0; i < plan->write_count; i++)
        touch(plan, plan->writes[i].place.root, plan->step_count);
    for (int32_t r = 0; r < plan->root_count; r++) {
        tn_root *root = &plan->roots[r];
        if (root->base == TN_BASE_NEXT)
            root->last = plan->step_count;
        if (!p->options->reuse && root->first >= 0) {
            root->first = 0;
            root->last = plan->step_count;
        }
    }
}

static bool same_view(const tenon_view *a, const tenon_view *b) {
    if (a->dtype != b->dtype || !tn_same_shape(a, b))
        return false;
    for (int d = 0; d < a->rank; d++) {
        if (a->shape[d] > 1 && a->strides[d] != b->strides[d])
            return false;
    }
    return true;
}

/* The root that owns an operand's memory, and the operand's place in it. */
static int32_t memory_of(const tn_plan *plan, const tn_operand *operand, int64_t *offset) {
    if (operand->root < 0)
        return -1;
    const tn_root *root = &plan->roots[operand->root];
    *offset = operand->offset + (root->parent >= 0 ? root->shift : 0);
    return root->parent >= 0 ? root->parent : operand->root;
}

/* Whether the other operands of the step allow output `out` to overwrite input `in` in root `r`: a
 * kernel's other inputs may be the very same view, where tn_kernel_inplace says so. */
static bool others_allow(const tn_plan *plan, const tn_step *step, int in, int out, int32_t r,
                         int64_t offset) {
    int64_t other = 0;
    for (int i = 0; i < step->in_count; i++) {
        if (i == in || memory_of(plan, &step->in[i], &other) != r)
            continue;
        if (step->partition || other != offset || !same_view(step->in[i].view, step->in[in].view) ||
            !tn_kernel_inplace(step->node->op->id, i))
            return false;
    }
    for (int i = 0; i < step->out_count; i++) {
        if (i != out && memory_of(plan, &step->out[i], &other) == r)
            return false;
    }
    return true;
}

/* Lets output `out` of step `s` take the memory of input `in`, if nothing else needs that. */
static bool take_memory(tn_plan *plan, int32_t s, int in, int out) {
    const tn_step *step = &plan->steps[s];
    const tn_operand *from = &step->in[in], *to = &step->out[out];
    int64_t offset = 0;
    int32_t r = memory_of(plan, from, &offset);
    if (r < 0 || to->root < 0 || plan->roots[to->root].parent >= 0)
        return false;
    tn_root *root = &plan->roots[r], *result = &plan->roots[to->root];
    bool whole = offset == 0 && root->size == result->size;
    if (root->base != TN_BASE_ARENA || root->last != s || result->first != s || to->offset != 0 ||
        !same_view(from->view, to->view) || (result->base != TN_BASE_ARENA && !whole) ||
        !others_allow(plan, step, in, out, r, offset))
        return false;
    result->parent = r;
    result->shift = offset;
    root->last = result->last;
    if (result->base != TN_BASE_ARENA) {
        root->base = result->base;
        root->index = result->index;
    }
    return true;
}

static void find_in_place(planner *p) {
    tn_plan *plan = p->plan;
    for (int32_t s = 0; s < plan->step_count && p->options->reuse; s++) {
        const tn_step *step = &plan->steps[s];
        if (step->partition) {
            for (int i = 0; i < step->partition->inplace_count; i++) {
                const tn_partition_inplace *pair = &step->partition->inplace[i];
                take_memory(plan, s, pair->in, pair->out);
            }
            continue;
        }
        for (int i = 0; i < step->in_count && step->out_count > 0; i++) {
            if (tn_kernel_inplace(step->node->op->id, i) && take_memory(plan, s, i, 0))
                break;
        }
    }
}

static bool in_arena(const tn_root *root) {
    return root->base == TN_BASE_ARENA && root->parent < 0 && root->first >= 0;
}

static tenon_status assign_offsets(planner *p) {
    tn_plan *plan = p->plan;
    int32_t count = 0;
    tn_buffer *buffers = malloc(((size_t)plan->root_count + 1) * sizeof *buffers);
    if (!buffers)
        return tn_no_memory();
    for (int32_t r = 0; r < plan->root_count; r++) {
        const tn_root *root = &plan->roots[r];
        if (in_arena(root))
            buffers[count++] = (tn_buffer){root->size, root->first, root->last, 0};
    }
    tenon_status status = tn_offsets_assign(buffers, count, &plan->arena_bytes);
    count = 0;
    for (int32_t r = 0; r < plan->root_count && status == TENON_OK; r++) {
        if (in_arena(&plan->roots[r]))
            plan->roots[r].offset = buffers[count++].offset;
    }
    free(buffers);
    return status;
}

/* ---- Plans ---- */

/* Below this many bytes of tensors a model is done sooner by one thread than two can agree to
 * begin. */
#ifndef TN_SMALL_MODEL /* a build that looks for races makes it small */
#define TN_SMALL_MODEL (256 << 10)
#endif

static int choose_threads(const planner *p) {
    int64_t bytes = 0;
    for (int32_t i = 0; i < p->layout.count && bytes < TN_SMALL_MODEL; i++) {
        if (p->layout.views[i].dtype != TENON_DTYPE_NONE)
            bytes += tn_layout_span(&p->layout.views[i]);
    }
    return bytes < TN_SMALL_MODEL ? 1 : p->options->threads;
}

static void log_steps(const tn_plan *plan) {
    for (int32_t s = 0; s < plan->step_count && tn_logs(TENON_LOG_DEBUG); s++) {
        const tn_step *step = &plan->steps[s];
        const tn_root *root = NULL;
        int64_t shift = 0;
        if (step->out_count > 0 && step->out[0].root >= 0)
            root = tn_plan_root(plan, step->out[0].root, &shift);
        tn_log(TENON_LOG_DEBUG, "step %d: %s '%s'%s%s (%s)", s,
               step->partition ? step->partition->ops : step->node->op->name, step->node->name,
               root && root->base != TN_BASE_ARENA ? " into an output or state" : "",
               step->out_count > 0 && step->out[0].root >= 0 &&
                       plan->roots[step->out[0].root].parent >= 0
                   ? " in place"
                   : "",
               step->partition      ? step->partition->reason
               : step->node->reason ? step->node->reason
                                    : "");
    }
}

static tenon_status make(planner *p, const tenon_view *inputs) {
    tn_plan *plan = p->plan;
    tn_partition_options options = {.backend = p->options->backend,
                                    .pack_weights = true,
                                    .family = p->options->family,
                                    .isa = p->options->isa,
                                    .dry_run = p->options->dry_run,
                                    .split_ops = p->options->split_ops,
                                    .bf16_math = p->options->bf16_math};
    TN_TRY(tn_layout_make(plan->graph, &p->layout));
    plan->threads = options.threads = choose_threads(p);
    plan->dry_run = options.dry_run;
    plan->split_ops = options.split_ops;
    TN_TRY(tn_partitions_create(plan->graph, p->layout.views, &options, &plan->partitions));
    plan->views = p->layout.views;
    p->layout.views = NULL;
    TN_TRY(make_roots(p));
    TN_TRY(make_steps(p));
    TN_TRY(make_inputs(p, inputs));
    TN_TRY(make_outputs(p));
    TN_TRY(make_writes(p));
    find_lifetimes(p);
    find_in_place(p);
    TN_TRY(assign_offsets(p));
    tn_log(TENON_LOG_INFO, "plan '%s': %d steps, %d of them partitions, arena %lld bytes",
           plan->graph->name, plan->step_count, plan->partitions->count,
           (long long)plan->arena_bytes);
    log_steps(plan);
    return TENON_OK;
}

static void destroy(tn_plan *plan, bool with_graph) {
    tn_partitions_destroy(&plan->partitions);
    if (with_graph)
        tenon_graph_destroy(&plan->graph);
    free(plan->views);
    free(plan->root_of);
    free(plan->offset_of);
    tn_arena_free(&plan->arena);
    free(plan);
}

tenon_status tn_plan_create(tenon_graph *graph, const tenon_view *inputs,
                            const tn_plan_options *options, tn_plan **out) {
    planner p = {.options = options};
    p.plan = calloc(1, sizeof *p.plan);
    if (!p.plan)
        return tn_no_memory();
    atomic_init(&p.plan->shares, 1);
    p.plan->graph = graph;
    tenon_status status = make(&p, inputs);
    tn_layout_free(&p.layout);
    free(p.owned);
    free(p.seen);
    if (status == TENON_OK)
        *out = p.plan;
    else
        destroy(p.plan, false);
    return status;
}

tn_plan *tn_plan_share(tn_plan *plan) {
    atomic_fetch_add(&plan->shares, 1);
    return plan;
}

void tn_plan_drop(tn_plan **pointer) {
    tn_plan *plan = *pointer;
    *pointer = NULL;
    if (plan && atomic_fetch_sub(&plan->shares, 1) == 1)
        destroy(plan, true);
}

bool tn_plan_fits(const tn_plan *plan, const tenon_view *inputs) {
    for (int32_t i = 0; i < plan->input_count; i++) {
        const tn_plan_input *input = &plan->inputs[i];
        if (inputs[i].dtype != input->view.dtype || !tn_same_shape(&inputs[i], &input->view) ||
            (input->is_number && (!inputs[i].data || number_bits(&inputs[i]) != input->number)))
            return false;
    }
    return true;
}

void tn_plan_forget_weights(const tn_plan *plan, int32_t s) {
    const tn_step *step = &plan->steps[s];
    for (int i = 0; i < step->in_count && step->partition; i++) {
        const tn_root *root = step->in[i].root < 0 ? NULL : &plan->roots[step->in[i].root];
        if (!root || root->base != TN_BASE_FIXED || root->last != s)
            continue;
        const tenon_tensor *tensor = plan->graph->constants[root->index]->tensor;
        tn_storage_forget_pages(tensor->storage, root->data, (size_t)root->size);
    }
}
