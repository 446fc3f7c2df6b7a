/* Plans bound to contexts. */
#include "core/budget.h"
#include "core/fail.h"
#include "core/profile.h"
#include "run/context.h"
#include <stdlib.h>

typedef struct binder {
    tn_instance *instance;
    const tn_plan *plan;
    int64_t *next; /* by base: where its next patch goes */
} binder;

/* The base and the bytes from its start of an operand; -1 for memory that never moves, whose
 * address is set. */
static int32_t base_of(const tn_plan *plan, const tn_operand *operand, int64_t *offset,
                       void **fixed) {
    int64_t shift;
    const tn_root *root = tn_plan_root(plan, operand->root, &shift);
    *offset = operand->offset + shift + (root->base == TN_BASE_ARENA ? root->offset : 0);
    if (root->base == TN_BASE_FIXED) {
        *fixed = (char *)root->data + *offset;
        return -1;
    }
    return tn_base_number(plan, root->base, root->index);
}

static void count_patches(binder *b, const tn_operand *operands, int count) {
    for (int i = 0; i < count; i++) {
        int64_t offset;
        void *fixed;
        if (operands[i].root < 0)
            continue;
        int32_t base = base_of(b->plan, &operands[i], &offset, &fixed);
        if (base >= 0)
            b->instance->first[base + 1]++;
    }
}

static void bind_address(binder *b, const tn_operand *operand, void **place) {
    int64_t offset;
    if (operand->root < 0)
        return;
    int32_t base = base_of(b->plan, operand, &offset, place);
    if (base >= 0)
        b->instance->patches[b->next[base]++] = (tn_patch){place, offset};
}

static tenon_view *bind_views(binder *b, const tn_operand *operands, int count) {
    tenon_view *views = tn_arena_array(&b->instance->arena, (size_t)count + 1, sizeof *views);
    for (int i = 0; views && i < count; i++) {
        if (operands[i].root < 0)
            continue; /* dtype NONE */
        views[i] = *operands[i].view;
        bind_address(b, &operands[i], &views[i].data);
    }
    return views;
}

static void **bind_addresses(binder *b, const tn_operand *operands, int count) {
    void **addresses = tn_arena_array(&b->instance->arena, (size_t)count + 1, sizeof *addresses);
    for (int i = 0; addresses && i < count; i++)
        bind_address(b, &operands[i], &addresses[i]);
    return addresses;
}

static tenon_status bind_step(binder *b, const tn_step *step, tn_bound_step *bound,
                              tn_scratch *scratch) {
    if (step->partition) {
        bound->partition = step->partition;
        bound->in = bind_addresses(b, step->in, step->in_count);
        bound->out = bind_addresses(b, step->out, step->out_count);
        return bound->in && bound->out ? TENON_OK : tn_no_memory();
    }
    bound->kernel = step->kernel;
    bound->call = (tn_call){.node = step->node,
                            .first = step->param_first,
                            .in_count = step->in_count,
                            .out_count = step->out_count,
                            .threads = b->plan->threads,
                            .scratch = scratch};
    bound->call.in = bind_views(b, step->in, step->in_count);
    bound->call.out = bind_views(b, step->out, step->out_count);
    return bound->call.in && bound->call.out ? TENON_OK : tn_no_memory();
}

static tenon_status bind_all(binder *b, tn_scratch *scratch) {
    tn_instance *instance = b->instance;
    const tn_plan *plan = b->plan;
    tn_arena *arena = &instance->arena;
    size_t bases = (size_t)instance->base_count;
    instance->first = tn_arena_array(arena, bases + 1, sizeof *instance->first);
    instance->addresses = tn_arena_array(arena, bases, sizeof *instance->addresses);
    instance->steps = tn_arena_array(arena, (size_t)plan->step_count + 1, sizeof *instance->steps);
    instance->times = tn_arena_array(arena, (size_t)plan->step_count + 1, sizeof *instance->times);
    instance->patches =
        tn_arena_array(arena, (size_t)plan->operand_count + 1, sizeof *instance->patches);
    b->next = tn_arena_array(arena, bases, sizeof *b->next);
    if (!instance->first || !instance->addresses || !instance->steps || !instance->patches ||
        !instance->times || !b->next)
        return tn_no_memory();
    for (int32_t s = 0; s < plan->step_count; s++) {
        count_patches(b, plan->steps[s].in, plan->steps[s].in_count);
        count_patches(b, plan->steps[s].out, plan->steps[s].out_count);
    }
    for (size_t i = 0; i < bases; i++) {
        instance->first[i + 1] += instance->first[i];
        b->next[i] = instance->first[i];
    }
    for (int32_t s = 0; s < plan->step_count; s++)
        TN_TRY(bind_step(b, &plan->steps[s], &instance->steps[s], scratch));
    return TENON_OK;
}

tenon_status tn_instance_create(tenon_context *context, tn_plan *plan, tn_instance **out) {
    tn_instance *instance = calloc(1, sizeof *instance);
    if (!instance)
        return tn_no_memory();
    instance->plan = tn_plan_share(plan);
    instance->base_count = tn_base_number(plan, TN_BASE_NEXT, plan->state_count);
    binder b = {.instance = instance, .plan = plan};
    tenon_status status = bind_all(&b, &context->scratch);
    if (status == TENON_OK)
        *out = instance;
    else
        tn_instance_destroy(&instance);
    return status;
}

void tn_instance_destroy(tn_instance **pointer) {
    tn_instance *instance = *pointer;
    *pointer = NULL;
    if (!instance)
        return;
    tn_plan_drop(&instance->plan);
    tn_arena_free(&instance->arena);
    free(instance);
}

void tn_instance_patch(tn_instance *instance, void *const *addresses) {
    for (int32_t base = 0; base < instance->base_count; base++) {
        if (instance->addresses[base] == addresses[base])
            continue;
        instance->addresses[base] = addresses[base];
        for (int64_t i = instance->first[base]; i < instance->first[base + 1]; i++)
            *instance->patches[i].place = (char *)addresses[base] + instance->patches[i].offset;
    }
}

/* Shows a step to who looks on, and begins its event. */
static tn_profile_token mark(tn_instance *instance, int32_t index) {
    const tn_step *step = &instance->plan->steps[index];
    if (tn_profile_on(TN_PROFILE_GRAPH))
        atomic_load (&tn_profile_observe)(instance, index);
    if (!tn_profile_on(TN_PROFILE_EVENTS) ||
        !tn_profile_hold(instance->plan, tn_plan_hold, tn_plan_let_go))
        return (tn_profile_token){0};
    return tn_profile_begin(step->partition ? TENON_EVENT_ONEDNN
                            : step->copy    ? TENON_EVENT_COPY
                                            : TENON_EVENT_KERNEL,
                            step->partition ? step->partition->ops : step->node->op->name,
                            instance->plan, index);
}

static tenon_status run_steps(tn_instance *instance, tn_scratch *scratch, bool timing) {
    bool first = !atomic_load(&instance->plan->ran);
    for (int32_t s = 0; s < instance->plan->step_count; s++) {
        tn_bound_step *step = &instance->steps[s];
        tn_profile_token token = {0};
        if (tn_profile_on(TN_PROFILE_EVENTS | TN_PROFILE_GRAPH))
            token = mark(instance, s);
        int64_t start = timing ? tn_clock_ns() : 0;
        tenon_status status = step->kernel
                                  ? step->kernel(&step->call)
                                  : tn_partition_execute(step->partition, step->in, step->out);
        if (timing)
            instance->times[s] = tn_clock_ns() - start;
        if (token.recording)
            tn_profile_end(token);
        TN_TRY(status);
        if (step->kernel)
            tn_scratch_reset(scratch);
        else if (first)
            tn_plan_forget_weights(instance->plan, s);
    }
    return TENON_OK;
}

tenon_status tn_instance_run(tn_instance *instance, tn_scratch *scratch, bool timing) {
    tn_room room = {.left = instance->plan->room};
    tn_room *outer = tn_room_set(room.left > 0 ? &room : NULL);
    tenon_status status = run_steps(instance, scratch, timing);
    tn_room_set(outer);
    if (status == TENON_OUT_OF_MEMORY && room.refused)
        return tn_fail(TENON_LIMIT,
                       "graph '%s': a run needs more scratch memory than limits.run_bytes leaves, "
                       "%.0f bytes" TN_LIMIT_HOW,
                       instance->plan->graph->name, instance->plan->room, "run_bytes", "run_bytes");
    return status;
}
