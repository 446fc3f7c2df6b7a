/* Contexts: memory, state, and the checks and commits around a run. */
#include "run/context.h"
#include "core/fail.h"
#include "core/pages.h"
#include "core/profile.h"
#include "run/offsets.h"
#include "run/threads.h"
#include <stdlib.h>
#include <string.h>

/* ---- Memory ---- */

static void memory_release(tn_memory *memory) {
    if (memory->data)
        tn_profile_memory(-(int64_t)memory->size);
    free(memory->data);
    *memory = (tn_memory){0};
}

/* Makes room; what was there is lost. */
static tenon_status memory_reserve(tn_memory *memory, int64_t size) {
    size_t bytes = ((size_t)size + TN_ALIGN) / TN_ALIGN * TN_ALIGN;
    if (memory->data && memory->size >= bytes)
        return TENON_OK;
    memory_release(memory);
    memory->data = aligned_alloc(TN_ALIGN, bytes);
    if (!memory->data)
        return tn_no_memory();
    tn_pages_large(memory->data, bytes);
    memory->size = bytes;
    tn_profile_memory((int64_t)bytes);
    return TENON_OK;
}

static int64_t view_bytes(const tenon_view *view) {
    return tenon_view_numel(view) * (int64_t)tenon_dtype_size(view->dtype);
}

static tenon_status state_create(const tenon_value *value, bool written, tn_state *state) {
    const tenon_view *initial = &value->tensor->view;
    size_t bytes = (size_t)view_bytes(initial);
    TN_TRY(tn_storage_alloc(bytes > 0 ? bytes : 1, &state->current));
    if (written)
        TN_TRY(tn_storage_alloc(bytes > 0 ? bytes : 1, &state->next));
    state->view = tn_view_make(state->current->data, initial->dtype, initial->rank, initial->shape);
    return tenon_view_copy(&state->view, initial);
}

tenon_status tenon_context_create(tenon_session *session, tenon_context **out) {
    tenon_status status;
    const tenon_graph *graph = session->graph;
    size_t inputs = (size_t)graph->input_count, outputs = (size_t)graph->output_count;
    size_t states = (size_t)session->state_count;
    tenon_context *context = calloc(1, sizeof *context);
    if (!context)
        return tn_no_memory();
    context->session = session;
    tn_session_share(session);
    context->states = calloc(states + 1, sizeof *context->states);
    context->inputs = calloc(inputs + 1, sizeof *context->inputs);
    context->outputs = calloc(outputs + 1, sizeof *context->outputs);
    context->direct = calloc(outputs + 1, sizeof *context->direct);
    context->wanted = calloc(1 + inputs + outputs + 2 * states, sizeof *context->wanted);
    if (!context->states || !context->inputs || !context->outputs || !context->direct ||
        !context->wanted)
        TN_GOTO(tn_no_memory());
    for (size_t i = 0; i < states; i++)
        TN_GOTO(state_create(session->state_values[i], session->written[i], &context->states[i]));
    *out = context;
    return TENON_OK;
error:
    tenon_context_destroy(&context);
    return status;
}

void tenon_context_destroy(tenon_context **pointer) {
    tenon_context *context = *pointer;
    *pointer = NULL;
    if (!context)
        return;
    for (int32_t i = 0; i < context->instance_count; i++)
        tn_instance_destroy(&context->instances[i]);
    for (int32_t i = 0; context->states && i < context->session->state_count; i++) {
        tn_storage_drop(&context->states[i].current);
        tn_storage_drop(&context->states[i].next);
    }
    for (int32_t i = 0; context->inputs && i < context->session->graph->input_count; i++)
        memory_release(&context->inputs[i]);
    for (int32_t i = 0; context->outputs && i < context->session->graph->output_count; i++)
        memory_release(&context->outputs[i]);
    free(context->instances);
    free(context->states);
    free(context->inputs);
    free(context->outputs);
    free(context->direct);
    free(context->wanted);
    memory_release(&context->arena);
    tn_scratch_free(&context->scratch);
    tenon_session *session = context->session;
    free(context);
    tn_session_drop(session);
}

/* ---- Views of the caller ---- */

/* The bytes that a view spans; empty when it has no elements. */
static void view_range(const tenon_view *view, uintptr_t *from, uintptr_t *to) {
    int64_t size = (int64_t)tenon_dtype_size(view->dtype), low = 0, high = size;
    for (int d = 0; d < view->rank; d++) {
        int64_t reach = (view->shape[d] - 1) * view->strides[d] * size;
        if (view->shape[d] == 0)
            low = high = reach = 0;
        *(reach < 0 ? &low : &high) += reach;
    }
    *from = (uintptr_t)view->data + (uintptr_t)low;
    *to = tenon_view_numel(view) == 0 ? *from : (uintptr_t)view->data + (uintptr_t)high;
}

static bool views_overlap(const tenon_view *a, const tenon_view *b) {
    uintptr_t a_from, a_to, b_from, b_to;
    if (!a->data || !b->data)
        return false;
    view_range(a, &a_from, &a_to);
    view_range(b, &b_from, &b_to);
    return a_from < b_to && b_from < a_to;
}

/* Whether two indices may name the same element, which nothing can be written through. */
static bool overlaps_itself(const tenon_view *view) {
    int64_t strides[TENON_MAX_RANK], sizes[TENON_MAX_RANK], reach = 0;
    int count = 0;
    for (int d = 0; d < view->rank; d++) {
        int64_t stride = view->strides[d] < 0 ? -view->strides[d] : view->strides[d];
        if (view->shape[d] == 0)
            return false;
        if (view->shape[d] == 1)
            continue;
        int at = count++;
        for (; at > 0 && strides[at - 1] > stride; at--) {
            strides[at] = strides[at - 1];
            sizes[at] = sizes[at - 1];
        }
        strides[at] = stride;
        sizes[at] = view->shape[d];
    }
    for (int i = 0; i < count; i++) {
        if (strides[i] <= reach)
            return true;
        reach += (sizes[i] - 1) * strides[i];
    }
    return false;
}

static tenon_status check_memory(const char *what, const char *name, const tenon_view *view,
                                 bool written) {
    if (tenon_view_numel(view) == 0)
        return TENON_OK;
    if (!view->data)
        return tn_fail(TENON_INPUT_MISMATCH, "%s '%s': it has no data", what, name);
    if ((uintptr_t)view->data % tenon_dtype_size(view->dtype) != 0)
        return tn_fail(TENON_INPUT_MISMATCH, "%s '%s': its data is not aligned to its elements",
                       what, name);
    if (written && overlaps_itself(view))
        return tn_fail(TENON_INPUT_MISMATCH,
                       "%s '%s' is written, but its strides name some element twice", what, name);
    return TENON_OK;
}

static tenon_status check_output(const tn_plan *plan, int index, const tenon_view *given) {
    const tenon_view *view = &plan->outputs[index].view;
    const char *name = plan->graph->outputs[index].name;
    char have[160], want[160];
    if (!given->data)
        return TENON_OK;
    if (view->dtype == TENON_DTYPE_NONE)
        return tn_fail(TENON_INVALID_ARGUMENT, "output '%s' is None, it cannot be stored", name);
    if (given->dtype != view->dtype || !tn_same_shape(given, view))
        return tn_fail(TENON_INVALID_ARGUMENT,
                       "output '%s': the memory given is for %s, the model gives %s", name,
                       tn_shape_text(given->dtype, given->rank, given->shape, have, sizeof have),
                       tn_shape_text(view->dtype, view->rank, view->shape, want, sizeof want));
    return check_memory("output", name, given, true);
}

/* ---- Preparing a run ---- */

/* Lets bound plans go that the session no longer keeps. */
static void drop_evicted(tenon_context *context) {
    int32_t kept = 0;
    for (int32_t i = 0; i < context->instance_count; i++) {
        if (atomic_load(&context->instances[i]->plan->evicted))
            tn_instance_destroy(&context->instances[i]);
        else
            context->instances[kept++] = context->instances[i];
    }
    context->instance_count = kept;
    context->current = NULL;
}

static tenon_status bind_plan(tenon_context *context, tn_plan *plan) {
    drop_evicted(context);
    if (context->instance_count == context->instance_capacity) {
        int32_t capacity = context->instance_capacity * 2 + 4;
        tn_instance **instances =
            realloc(context->instances, (size_t)capacity * sizeof(tn_instance *));
        if (!instances)
            return tn_no_memory();
        context->instances = instances;
        context->instance_capacity = capacity;
    }
    TN_TRY(tn_instance_create(context, plan, &context->current));
    context->instances[context->instance_count++] = context->current;
    return TENON_OK;
}

static tenon_status find_instance(tenon_context *context, const tenon_view *inputs,
                                  int input_count) {
    tenon_session *session = context->session;
    if (input_count != session->graph->input_count)
        return tn_fail(TENON_INPUT_MISMATCH, "%d inputs given, the model takes %d", input_count,
                       session->graph->input_count);
    tn_instance *found =
        context->current && tn_plan_fits(context->current->plan, inputs) ? context->current : NULL;
    for (int32_t i = 0; i < context->instance_count && !found; i++) {
        if (tn_plan_fits(context->instances[i]->plan, inputs))
            found = context->instances[i];
    }
    if (found) {
        atomic_store(&found->plan->last_used, atomic_fetch_add(&session->clock, 1) + 1);
        context->current = found;
        return TENON_OK;
    }
    tn_plan *plan;
    TN_TRY(tn_session_plan(session, inputs, input_count, &plan));
    tenon_status status = bind_plan(context, plan);
    tn_plan_drop(&plan);
    return status;
}

/* Whether an input lies in memory that this run may write: what an earlier run gave as an output.
 */
static bool lies_in_outputs(const tenon_context *context, const tn_plan *plan,
                            const tenon_view *input) {
    for (int32_t i = 0; i < plan->output_count; i++) {
        const tn_memory *memory = &context->outputs[i];
        tenon_view whole = {memory->data, TENON_UINT8, 1, {(int64_t)memory->size}, {1}};
        if (views_overlap(input, &whole))
            return true;
    }
    return false;
}

static tenon_status prepare_inputs(tenon_context *context, const tn_plan *plan,
                                   const tenon_view *inputs) {
    for (int32_t i = 0; i < plan->input_count; i++) {
        const tn_plan_input *input = &plan->inputs[i];
        void **address = &context->wanted[tn_base_number(plan, TN_BASE_INPUT, i)];
        if (input->is_number)
            continue;
        TN_TRY(check_memory("input", input->name, &inputs[i], input->written));
        *address = inputs[i].data;
        if (input->read &&
            (!tenon_view_is_contiguous(&inputs[i]) || lies_in_outputs(context, plan, &inputs[i]))) {
            tenon_view copy = input->view;
            TN_TRY(memory_reserve(&context->inputs[i], view_bytes(&copy)));
            copy.data = *address = context->inputs[i].data;
            TN_TRY(tenon_view_copy(&copy, &inputs[i]));
        }
    }
    return TENON_OK;
}

/* Results may be computed in the caller's memory when they lie there as the plan has them, and
 * nothing else is there. */
static bool can_write_directly(const tn_plan *plan, int32_t index, const tenon_view *inputs,
                               const tenon_view *outputs) {
    const tenon_view *view = &outputs[index];
    if (!view->data || plan->outputs[index].place.root < 0 || !tenon_view_is_contiguous(view))
        return false;
    for (int32_t i = 0; i < plan->input_count; i++) {
        if (!plan->inputs[i].is_number && views_overlap(view, &inputs[i]))
            return false;
    }
    for (int32_t i = 0; i < plan->output_count; i++) {
        if (i != index && views_overlap(view, &outputs[i]))
            return false;
    }
    return true;
}

static tenon_status prepare_outputs(tenon_context *context, const tn_plan *plan,
                                    const tenon_view *inputs, const tenon_view *outputs) {
    for (int32_t i = 0; i < plan->output_count; i++) {
        TN_TRY(check_output(plan, i, &outputs[i]));
        context->direct[i] = can_write_directly(plan, i, inputs, outputs);
        if (plan->outputs[i].view.dtype == TENON_DTYPE_NONE)
            continue;
        if (!context->direct[i])
            TN_TRY(memory_reserve(&context->outputs[i], view_bytes(&plan->outputs[i].view)));
        context->wanted[tn_base_number(plan, TN_BASE_OUTPUT, i)] =
            context->direct[i] ? outputs[i].data : context->outputs[i].data;
    }
    return TENON_OK;
}

static tenon_status prepare(tenon_context *context, const tenon_view *inputs, int input_count,
                            const tenon_view *outputs, int output_count) {
    TN_TRY(find_instance(context, inputs, input_count));
    const tn_plan *plan = context->current->plan;
    if (output_count != plan->output_count)
        return tn_fail(TENON_INVALID_ARGUMENT, "room for %d outputs given, the model has %d",
                       output_count, plan->output_count);
    TN_TRY(prepare_inputs(context, plan, inputs));
    TN_TRY(prepare_outputs(context, plan, inputs, outputs));
    TN_TRY(memory_reserve(&context->arena, plan->arena_bytes));
    context->wanted[tn_base_number(plan, TN_BASE_ARENA, 0)] = context->arena.data;
    for (int32_t i = 0; i < plan->state_count; i++) {
        const tn_state *state = &context->states[i];
        context->wanted[tn_base_number(plan, TN_BASE_STATE, i)] = state->current->data;
        context->wanted[tn_base_number(plan, TN_BASE_NEXT, i)] =
            state->next ? state->next->data : NULL;
    }
    tn_instance_patch(context->current, context->wanted);
    return TENON_OK;
}

/* ---- Committing ---- */

static void *address_of(const tenon_context *context, const tn_plan *plan,
                        const tn_operand *place) {
    int64_t shift;
    const tn_root *root = tn_plan_root(plan, place->root, &shift);
    char *start = root->base == TN_BASE_FIXED
                      ? root->data
                      : (char *)context->wanted[tn_base_number(plan, root->base, root->index)] +
                            (root->base == TN_BASE_ARENA ? root->offset : 0);
    return start + shift + place->offset;
}

static tenon_status commit_outputs(tenon_context *context, const tn_plan *plan,
                                   const tenon_view *outputs) {
    for (int32_t i = 0; i < plan->output_count; i++) {
        const tn_plan_output *output = &plan->outputs[i];
        tenon_view from = output->view;
        if (from.dtype == TENON_DTYPE_NONE)
            continue;
        from.data = context->outputs[i].data;
        if (output->place.root < 0)
            memcpy(from.data, &output->literal, tenon_dtype_size(from.dtype));
        if (outputs[i].data && !context->direct[i])
            TN_TRY(tenon_view_copy(&outputs[i], &from));
    }
    return TENON_OK;
}

static tenon_status commit_writes(const tenon_context *context, const tn_plan *plan,
                                  const tenon_view *inputs) {
    for (int32_t i = 0; i < plan->write_count; i++) {
        const tn_plan_write *write = &plan->writes[i];
        tenon_view from = *write->place.view;
        from.data = address_of(context, plan, &write->place);
        TN_TRY(tenon_view_copy(&inputs[write->input], &from));
    }
    return TENON_OK;
}

static void commit_states(tenon_context *context, const tn_plan *plan) {
    for (int32_t i = 0; i < plan->state_count; i++) {
        tn_state *state = &context->states[i];
        if (!plan->next_states[i])
            continue;
        tn_storage *old = state->current;
        state->current = state->next;
        state->next = old;
        state->view.data = state->current->data;
    }
}

static tenon_status run_steps(void *user) {
    tenon_context *context = user;
    return tn_instance_run(context->current, &context->scratch, context->timing);
}

static tenon_status run(tenon_context *context, const tenon_view *inputs, int input_count,
                        tenon_view *outputs, int output_count) {
    context->timed = false;
    if (context->session->options.dry_run)
        return tn_fail(TENON_UNSUPPORTED,
                       "the session was made with the option dry_run, so nothing is compiled that "
                       "could run");
    TN_TRY(prepare(context, inputs, input_count, outputs, output_count));
    tn_plan *plan = context->current->plan;
    tenon_status status = tn_threads_run(plan->threads, !context->session->options.keep_denormals,
                                         run_steps, context);
    tn_scratch_reset(&context->scratch);
    TN_TRY(status);
    TN_TRY(commit_outputs(context, plan, outputs));
    TN_TRY(commit_writes(context, plan, inputs));
    commit_states(context, plan);
    context->timed = context->timing;
    for (int32_t i = 0; i < plan->output_count; i++) {
        if (outputs[i].data)
            continue;
        outputs[i] = plan->outputs[i].view;
        outputs[i].data = outputs[i].dtype == TENON_DTYPE_NONE ? NULL : context->outputs[i].data;
    }
    atomic_store(&plan->ran, true);
    return TENON_OK;
}

tenon_status tenon_context_run(tenon_context *context, const tenon_view *inputs, int input_count,
                               tenon_view *outputs, int output_count) {
    if (!tn_profile_on(TN_PROFILE_EVENTS))
        return run(context, inputs, input_count, outputs, output_count);
    tn_profile_token token = tn_profile_begin(TENON_EVENT_RUN, "tenon_context_run", NULL, 0);
    tenon_status status = run(context, inputs, input_count, outputs, output_count);
    tn_profile_end(token);
    return status;
}

/* ---- State ---- */

int tenon_context_state_count(const tenon_context *context) {
    return context->session->state_count;
}

const char *tenon_context_state_name(const tenon_context *context, int index) {
    return index >= 0 && index < context->session->state_count ? context->session->states[index]
                                                               : NULL;
}

static tenon_status find_state(tenon_context *context, const char *name, tn_state **out) {
    for (int32_t i = 0; i < context->session->state_count; i++) {
        if (strcmp(context->session->states[i], name) == 0) {
            *out = &context->states[i];
            return TENON_OK;
        }
    }
    return tn_fail(TENON_NOT_FOUND, "the model has no buffer '%s'", name);
}

tenon_status tenon_context_get_state(tenon_context *context, const char *name, tenon_view *out) {
    tn_state *state = NULL;
    TN_TRY(find_state(context, name, &state));
    *out = state->view;
    return TENON_OK;
}

tenon_status tenon_context_set_state(tenon_context *context, const char *name,
                                     const tenon_view *value) {
    tn_state *state = NULL;
    char have[160], want[160];
    TN_TRY(find_state(context, name, &state));
    if (value->dtype != state->view.dtype || !tn_same_shape(value, &state->view))
        return tn_fail(TENON_INPUT_MISMATCH, "buffer '%s': the value is %s, the model has %s", name,
                       tn_shape_text(value->dtype, value->rank, value->shape, have, sizeof have),
                       tn_shape_text(state->view.dtype, state->view.rank, state->view.shape, want,
                                     sizeof want));
    TN_TRY(check_memory("buffer", name, value, false));
    return value->data == state->view.data ? TENON_OK : tenon_view_copy(&state->view, value);
}

tenon_status tenon_context_reset_state(tenon_context *context) {
    for (int32_t i = 0; i < context->session->state_count; i++)
        TN_TRY(tenon_view_copy(&context->states[i].view,
                               &context->session->state_values[i]->tensor->view));
    return TENON_OK;
}
