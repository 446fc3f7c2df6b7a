/* Sessions: options, passes, and compiled shapes. */
#include "run/session.h"
#include "core/derive.h"
#include "core/fail.h"
#include "core/profile.h"
#include "fusion/bf16.h"
#include "fusion/pipeline.h"
#include "run/limits.h"
#include "run/places.h"
#include "run/threads.h"
#include "run/tune.h"
#include "run/verify.h"
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SHAPES 16
#define MAX_THREADS 1024

/* ---- Making ---- */

static tenon_status check_options(const tenon_session_options *options) {
    if (options->threads < 0 || options->threads > MAX_THREADS)
        return tn_fail(TENON_INVALID_ARGUMENT, "session options: threads is %d, not 0 to %d",
                       options->threads, MAX_THREADS);
    if (options->backend < TENON_BACKEND_AUTO || options->backend > TENON_BACKEND_REFERENCE)
        return tn_fail(TENON_INVALID_ARGUMENT, "session options: there is no backend %d",
                       (int)options->backend);
    if (options->precision < TENON_PRECISION_FP32 || options->precision > TENON_PRECISION_BF16)
        return tn_fail(TENON_INVALID_ARGUMENT, "session options: there is no precision %d",
                       (int)options->precision);
    if (options->bf16_fallback < TENON_BF16_FALLBACK_FP32 ||
        options->bf16_fallback > TENON_BF16_FALLBACK_REFUSE)
        return tn_fail(TENON_INVALID_ARGUMENT, "session options: there is no bf16_fallback %d",
                       (int)options->bf16_fallback);
    if (options->fpmath < TENON_FPMATH_STRICT || options->fpmath > TENON_FPMATH_BF16)
        return tn_fail(TENON_INVALID_ARGUMENT, "session options: there is no fpmath %d",
                       (int)options->fpmath);
    if (options->max_shapes < 0)
        return tn_fail(TENON_INVALID_ARGUMENT, "session options: max_shapes is %d, less than 0",
                       options->max_shapes);
    return TENON_OK;
}

static const tenon_passes *passes_of(const tenon_session *session) {
    return session->passes ? session->passes : session->options.passes;
}

/* Puts a list that was made of the session's in its place. */
static void use_passes(tenon_session *session, tenon_passes *passes) {
    tenon_passes_destroy(&session->passes);
    session->passes = passes;
}

static tenon_status take_precision(tenon_session *session) {
    const tenon_session_options *options = &session->options;
    tenon_passes *lower = NULL;
    if (options->precision != TENON_PRECISION_BF16)
        return TENON_OK;
    if (!tn_onednn_bfloat16(session->plan_options.isa) &&
        options->bf16_fallback != TENON_BF16_FALLBACK_EMULATE) {
        static const char why[] = "oneDNN does not compute in bfloat16 on this CPU, or within the "
                                  "ISA cap";
        if (options->bf16_fallback == TENON_BF16_FALLBACK_REFUSE)
            return tn_fail(TENON_UNSUPPORTED, "session options: %s", why);
        tn_log(TENON_LOG_WARN, "%s: the model runs in float32", why);
        return TENON_OK;
    }
    TN_TRY(tn_bf16_pipeline(passes_of(session), &lower));
    use_passes(session, lower);
    return TENON_OK;
}

static tenon_status take_options(tenon_session *session, const tenon_session_options *given) {
    tenon_session_options *options = &session->options;
    tn_isa isa = tn_isa_detect(), cap;
    if (given)
        *options = *given;
    TN_TRY(check_options(options));
    TN_TRY(tn_limits_take(&options->limits));
    if (options->isa) {
        if (!tn_isa_from_text(options->isa, &cap))
            return tn_fail(TENON_INVALID_ARGUMENT,
                           "session options: isa is '%s', not one of baseline, avx2, avx512",
                           options->isa);
        isa = cap < isa ? cap : isa;
        options->isa = NULL; /* the caller's strings need not live on */
    }
    options->tune = NULL;
    if (options->threads == 0)
        options->threads = tn_threads_available();
    if (options->max_shapes == 0)
        options->max_shapes = DEFAULT_SHAPES;
    if (!options->passes)
        TN_TRY(tenon_passes_create(&session->passes));
    session->plan_options = (tn_plan_options){.backend = options->backend,
                                              .isa = isa,
                                              .threads = options->threads,
                                              .reuse = true,
                                              .dry_run = options->dry_run,
                                              .split_ops = options->split_ops};
    session->plan_options.bf16_math = options->fpmath == TENON_FPMATH_BF16 && tn_onednn_rounds(isa);
    /* Tenon's kernels multiply in float32, which is what the caller need not have. */
    if (options->backend != TENON_BACKEND_AUTO || session->plan_options.bf16_math) {
        tenon_passes *without;
        TN_TRY(tn_passes_without_kernels(passes_of(session), &without));
        use_passes(session, without);
    }
    return take_precision(session);
}

static tenon_status find_states(tenon_session *session) {
    const tenon_graph *graph = session->graph;
    size_t count = (size_t)graph->constant_count + 1;
    session->states = calloc(count, sizeof *session->states);
    session->state_values = calloc(count, sizeof *session->state_values);
    session->written = calloc(count, sizeof *session->written);
    session->plans = calloc((size_t)session->options.max_shapes, sizeof(tn_plan *));
    if (!session->states || !session->state_values || !session->written || !session->plans)
        return tn_no_memory();
    for (int32_t i = 0; i < graph->constant_count; i++) {
        if (graph->constants[i]->kind != TENON_VALUE_BUFFER)
            continue;
        session->state_values[session->state_count] = graph->constants[i];
        session->states[session->state_count++] = graph->constants[i]->name;
    }
    for (int32_t i = 0; i < graph->write_count; i++) {
        for (int32_t s = 0; s < session->state_count; s++)
            session->written[s] |= graph->writes[i].target == session->state_values[s];
    }
    session->plan_options.states = session->states;
    session->plan_options.state_count = session->state_count;
    return TENON_OK;
}

static tenon_status make_tuner(tenon_session *session, const char *path) {
    size_t bytes = 0;
    for (int32_t i = 0; i < session->graph->constant_count; i++) {
        const tenon_view *view = &session->graph->constants[i]->tensor->view;
        bytes += (size_t)tenon_view_numel(view) * tenon_dtype_size(view->dtype);
    }
    return tn_tuner_create(path, passes_of(session), &session->plan_options,
                           session->options.keep_denormals, bytes, &session->tuner);
}

typedef struct job {
    tenon_session *session;
    tenon_graph *graph; /* in: shapes known; goes to the plan */
    const tenon_view *inputs;
    double given; /* bytes that the defaults of limits count */
    tn_budget budget;
    tn_plan *plan;
} job;

static tenon_status lower_model(void *user) {
    job *j = user;
    tn_budget *outer = tn_budget_set(&j->budget);
    tenon_status status =
        tn_passes_run(passes_of(j->session), TENON_PASS_MODEL, &j->graph, NULL, 0);
    tn_budget_set(outer);
    return status;
}

/* Weights that the passes replaced (folded batch-norm, for one) were read for the last time: their
 * pages can go. */
static void forget_replaced(const tenon_graph *before, const tenon_graph *after) {
    for (int32_t i = 0; i < before->constant_count; i++) {
        const tenon_value *constant = before->constants[i];
        const tenon_value *kept = tn_map_get(&after->names, constant->name);
        const tenon_view *view = &constant->tensor->view;
        if (constant->kind == TENON_VALUE_CONSTANT && !(kept && kept->tensor) &&
            tenon_view_is_contiguous(view))
            tn_storage_forget_pages(constant->tensor->storage, view->data,
                                    (size_t)tenon_view_numel(view) * tenon_dtype_size(view->dtype));
    }
}

static bool has_numbers(const tenon_graph *graph) {
    for (int32_t i = 0; i < graph->input_count; i++) {
        if (graph->inputs[i]->scalar != TN_TENSOR)
            return true;
    }
    return false;
}

static tenon_status compile_static(tenon_session *session) {
    const tenon_graph *graph = session->graph;
    tenon_view *inputs = calloc((size_t)graph->input_count + 1, sizeof *inputs);
    if (!inputs)
        return tn_no_memory();
    for (int32_t i = 0; i < graph->input_count; i++) {
        const tenon_value *input = graph->inputs[i];
        inputs[i] = tn_view_make(NULL, input->dtype, input->rank, input->shape);
        if (session->options.samples)
            inputs[i] = session->options.samples[i];
    }
    tenon_status status = tenon_session_compile(session, inputs, graph->input_count);
    free(inputs);
    return status;
}

tenon_status tenon_session_create(const tenon_graph *graph, const tenon_session_options *options,
                                  tenon_session **out) {
    tenon_status status;
    tenon_session *session = calloc(1, sizeof *session);
    if (!session)
        return tn_no_memory();
    atomic_init(&session->shares, 1);
    pthread_mutex_init(&session->lock, NULL);
    pthread_mutex_init(&session->compile, NULL);
    TN_GOTO(take_options(session, options));
    TN_GOTO(tn_limits_check_graph(&session->options.limits, graph));
    TN_GOTO(tenon_graph_clone(graph, &session->graph));
    session->given = tn_limits_given(graph);
    job j = {.session = session, .graph = session->graph};
    j.budget = tn_limits_budget(&session->options.limits, session->given, NULL);
    tenon_status lowered = tn_threads_run(session->options.threads, false, lower_model, &j);
    session->graph = j.graph; /* which a pass may have replaced */
    session->lowered = j.budget;
    TN_GOTO(lowered);
    tn_graph_drop_constants(session->graph);
    forget_replaced(graph, session->graph);
    if (session->graph->input_count != graph->input_count ||
        session->graph->output_count != graph->output_count)
        TN_GOTO(tn_fail(TENON_INVALID_GRAPH,
                        "a pass changed the number of inputs or outputs of '%s'", graph->name));
    TN_GOTO(find_states(session));
    if (session->options.samples && session->options.sample_count != graph->input_count)
        TN_GOTO(tn_fail(TENON_INPUT_MISMATCH,
                        "session options: %d samples, the model takes %d inputs",
                        session->options.sample_count, graph->input_count));
    if (options && options->tune)
        TN_GOTO(make_tuner(session, options->tune));
    if (tn_is_symbolic(session->graph) || has_numbers(session->graph))
        TN_GOTO(tn_partition_family_create(&session->plan_options.family));
    else
        TN_GOTO(compile_static(session));
    *out = session;
    return TENON_OK;
error:
    tenon_session_destroy(&session);
    return status;
}

void tn_session_share(tenon_session *session) {
    atomic_fetch_add(&session->shares, 1);
}

void tenon_session_destroy(tenon_session **pointer) {
    tenon_session *session = *pointer;
    *pointer = NULL;
    if (session)
        tn_session_drop(session);
}

static void trim_derived(const tenon_value *constant) {
    if (constant->tensor)
        tn_tensor_trim_derived(constant->tensor);
}

void tn_session_drop(tenon_session *session) {
    if (atomic_fetch_sub(&session->shares, 1) != 1)
        return;
    for (int32_t i = 0; i < session->plan_count; i++)
        tn_plan_drop(&session->plans[i]);
    tn_plan_drop(&session->latest);
    tn_tuner_destroy(&session->tuner);
    tn_partition_family_destroy(&session->plan_options.family);
    for (int32_t i = 0; session->graph && i < session->graph->constant_count; i++)
        trim_derived(session->graph->constants[i]);
    tenon_graph_destroy(&session->graph);
    tenon_passes_destroy(&session->passes);
    free(session->plans);
    free(session->states);
    free(session->state_values);
    free(session->written);
    pthread_mutex_destroy(&session->lock);
    pthread_mutex_destroy(&session->compile);
    free(session);
}

void tn_plan_hold(void *user) {
    tn_plan *plan = tn_plan_share(user);
    if (plan->session)
        tn_session_share(plan->session);
}

void tn_plan_let_go(void *user) {
    tn_plan *plan = user;
    tenon_session *session = plan->session;
    tn_plan_drop(&plan);
    if (session)
        tn_session_drop(session);
}

/* ---- Compiled shapes ---- */

static tn_plan *find_plan(tenon_session *session, const tenon_view *inputs) {
    tn_plan *found = NULL;
    pthread_mutex_lock(&session->lock);
    for (int32_t i = 0; i < session->plan_count && !found; i++) {
        if (tn_plan_fits(session->plans[i], inputs))
            found = tn_plan_share(session->plans[i]);
    }
    pthread_mutex_unlock(&session->lock);
    return found;
}

static void keep_plan(tenon_session *session, tn_plan *plan) {
    tn_plan *gone[2] = {NULL, NULL};
    pthread_mutex_lock(&session->lock);
    if (session->plan_count == session->options.max_shapes) {
        int32_t oldest = 0;
        for (int32_t i = 1; i < session->plan_count; i++) {
            if (session->plans[i]->last_used < session->plans[oldest]->last_used)
                oldest = i;
        }
        gone[0] = session->plans[oldest];
        session->plans[oldest] = session->plans[--session->plan_count];
        atomic_store(&gone[0]->evicted, true);
    }
    session->plans[session->plan_count++] = tn_plan_share(plan);
    gone[1] = session->latest;
    session->latest = tn_plan_share(plan);
    pthread_mutex_unlock(&session->lock);
    tn_plan_drop(&gone[0]);
    tn_plan_drop(&gone[1]);
}

/* Each list of passes that shapes are lowered with may fold as much. */
static tenon_status lower_shapes(void *user, const tenon_passes *passes, tenon_graph **graph) {
    job *j = user;
    tn_tuner *tuner = j->session->tuner;
    const tenon_limits *limits = &j->session->options.limits;
    tn_limits_fold(limits, &j->budget);
    (*graph)->chooser = tuner ? &tuner->chooser : NULL;
    TN_TRY(
        tn_passes_run(passes, TENON_PASS_SHAPES, graph, j->inputs, j->session->graph->input_count));
    TN_TRY(tn_limits_check_graph(limits, *graph));
    TN_TRY(tn_limits_check_work(limits, *graph, j->given));
    if (tuner)
        tn_tune_save(&tuner->file);
    tn_graph_drop_dead(*graph); /* kernels need memory for what they give */
    tn_graph_drop_constants(*graph);
    return TENON_OK;
}

static tenon_status compile_within(job *j) {
    const tn_plan_options *options = &j->session->plan_options;
    TN_TRY(tn_limits_check_graph(&j->session->options.limits, j->graph));
    if (j->session->options.verify && !options->dry_run)
        return tn_plan_create_verified(
            &(tn_verify){passes_of(j->session), lower_shapes, j, j->inputs, options}, j->graph,
            &j->plan);
    TN_TRY(lower_shapes(j, passes_of(j->session), &j->graph));
    return tn_plan_create(j->graph, j->inputs, options, &j->plan);
}

static tenon_status compile(void *user) {
    job *j = user;
    tn_budget *outer = tn_budget_set(&j->budget);
    tenon_status status = compile_within(j);
    tn_budget_set(outer);
    return status;
}

/* The only plan there will be has shares of all weights by now. Those that passes have made belong
 * to nobody else, and so can go when a later pass replaces them. */
static void give_weights(tenon_graph *graph) {
    for (int32_t i = 0; i < graph->constant_count; i++) {
        tenon_value *constant = graph->constants[i];
        if (constant->kind == TENON_VALUE_CONSTANT && constant->tensor &&
            atomic_load(&constant->tensor->storage->shares) == 2)
            tenon_tensor_destroy(&constant->tensor);
    }
}

static tenon_status compile_plan(tenon_session *session, const tenon_view *inputs, int input_count,
                                 tn_plan **out) {
    job j = {.session = session, .inputs = inputs, .given = session->given};
    tn_profile_token token = {0};
    for (int i = 0; i < input_count; i++)
        j.given += tn_limits_view_bytes(&inputs[i]);
    j.budget = tn_limits_budget(&session->options.limits, j.given, &session->lowered);
    TN_TRY(tn_graph_specialize(session->graph, inputs, input_count, &j.graph));
    if (!session->plan_options.family)
        give_weights(session->graph);
    if (tn_profile_on(TN_PROFILE_EVENTS))
        token = tn_profile_begin_named(TENON_EVENT_COMPILE, "compile", session->graph->name);
    tenon_status status = tn_threads_run(session->options.threads, false, compile, &j);
    tn_profile_end(token);
    if (status != TENON_OK) {
        tenon_graph_destroy(&j.graph);
        return status;
    }
    status = tn_limits_check_plan(&session->options.limits, j.plan, j.given);
    if (status != TENON_OK) {
        tn_plan_drop(&j.plan);
        return status;
    }
    j.plan->session = session;
    keep_plan(session, j.plan);
    *out = j.plan;
    return TENON_OK;
}

tenon_status tn_session_plan(tenon_session *session, const tenon_view *inputs, int input_count,
                             tn_plan **out) {
    TN_TRY(tn_graph_check_inputs(session->graph, inputs, input_count));
    tn_plan *plan = find_plan(session, inputs);
    if (!plan) {
        pthread_mutex_lock(&session->compile);
        plan = find_plan(session, inputs);
        tenon_status status = plan ? TENON_OK : compile_plan(session, inputs, input_count, &plan);
        pthread_mutex_unlock(&session->compile);
        if (status != TENON_OK)
            return status;
    }
    atomic_store(&plan->last_used, atomic_fetch_add(&session->clock, 1) + 1);
    *out = plan;
    return TENON_OK;
}

tenon_status tenon_session_compile(tenon_session *session, const tenon_view *inputs,
                                   int input_count) {
    tn_plan *plan;
    TN_TRY(tn_session_plan(session, inputs, input_count, &plan));
    tn_plan_drop(&plan);
    return TENON_OK;
}

/* ---- Inputs and outputs ---- */

int tenon_session_input_count(const tenon_session *session) {
    return session->graph->input_count;
}

static const tenon_value *input_at(const tenon_session *session, int index) {
    return tenon_graph_input(session->graph, index);
}

const char *tenon_session_input_name(const tenon_session *session, int index) {
    const tenon_value *input = input_at(session, index);
    return input ? input->name : NULL;
}

tenon_dtype tenon_session_input_dtype(const tenon_session *session, int index) {
    const tenon_value *input = input_at(session, index);
    return input ? input->dtype : TENON_DTYPE_NONE;
}

int tenon_session_input_rank(const tenon_session *session, int index) {
    const tenon_value *input = input_at(session, index);
    return input ? input->rank : -1;
}

void tenon_session_input_size_text(const tenon_session *session, int index, int dim, char *text,
                                   size_t capacity) {
    const tenon_value *input = input_at(session, index);
    if (input)
        tenon_value_size_text(input, dim, text, capacity);
    else if (capacity > 0)
        *text = 0;
}

int tenon_session_find_input(const tenon_session *session, const char *name) {
    for (int i = 0; i < session->graph->input_count; i++) {
        if (strcmp(session->graph->inputs[i]->name, name) == 0)
            return i;
    }
    return -1;
}

int tenon_session_output_count(const tenon_session *session) {
    return session->graph->output_count;
}

const char *tenon_session_output_name(const tenon_session *session, int index) {
    return tenon_graph_output_name(session->graph, index);
}

int tenon_session_find_output(const tenon_session *session, const char *name) {
    for (int i = 0; i < session->graph->output_count; i++) {
        if (strcmp(session->graph->outputs[i].name, name) == 0)
            return i;
    }
    return -1;
}
