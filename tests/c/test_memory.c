/* Allocations: a warm run makes none, and any one that texts, sessions, passes, recordings and
 * choices make may fail. */
#include "alloc_faults.h"
#include "files.h"
#include "run_graph.h"

/* A model with most things in it: state, a written input, views and copies, weights, several
 * kernels. */
static const char model[] =
    "graph g {\n"
    "  input %x: float32[s0, 3, 8, 8]\n"
    "  input %y: float32[s0, 4]\n"
    "  const %w: float32[4, 3, 3, 3] = random(1)\n"
    "  const %b: float32[4] = {0.5, -1, 0, 2}\n"
    "  const %l: float32[4, 5] = random(2)\n"
    "  buffer %count: float32[4] = zeros\n"
    "  %c = aten.convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n"
    "  %r = aten.relu(%c)\n"
    "  %m = aten.mean.dim(%r, [2, 3])\n"
    "  %a = aten.add.Tensor(%m, %y)\n"
    "  %p = aten.mm(%a, %l)\n"
    "  %s = aten._softmax(%p, 1, false)\n"
    "  %t = aten.t(%s)\n"
    "  %v = aten.view(%t, [-1])\n"
    "  %next = aten.add.Tensor(%count, 1)\n"
    "  %twice = aten.mul.Tensor(%y, 2)\n"
    "  write %count <- %next\n"
    "  write %y <- %twice\n"
    "  output \"v\" = %v\n"
    "  output \"s\" = %s\n"
    "}\n";

typedef struct model_inputs {
    float x[2 * 3 * 8 * 8], y[2 * 4];
    tenon_view views[2];
} model_inputs;

static void fill(model_inputs *inputs, int64_t rows) {
    for (int i = 0; i < 2 * 3 * 8 * 8; i++)
        inputs->x[i] = (float)(i % 17) / 8 - 1;
    for (int i = 0; i < 2 * 4; i++)
        inputs->y[i] = (float)i / 4;
    inputs->views[0] = view_of(inputs->x, TENON_FLOAT32, rows, 3, 8, 8);
    inputs->views[1] = view_of(inputs->y, TENON_FLOAT32, rows, 4, -1, -1);
}

/* A warm run of the reference backend allocates nothing, for one shape and for two in turn. */
START_TEST(warm_runs_allocate_nothing) {
    const tenon_backend backends[] = {TENON_BACKEND_REFERENCE, TENON_BACKEND_ONEDNN};
    tenon_session *session = make_session(model, backends[_i]);
    tenon_context *context = NULL;
    model_inputs inputs;
    tenon_view outputs[2];
    OK(tenon_context_create(session, &context));
    for (int run = 0; run < 8; run++) {
        fill(&inputs, 2 - run % 2);
        memset(outputs, 0, sizeof outputs);
        start_counting(-1);
        tenon_status status = tenon_context_run(context, inputs.views, 2, outputs, 2);
        stop_counting();
        long made = allocations_of_own;
        OK(status);
        ck_assert_msg(run < 2 ? made > 0 : made == 0, "run %d makes %ld allocations", run, made);
    }
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

/* Everything from the text to the second run's outputs; the status of the first call that fails. */
static tenon_status run_life(tenon_backend backend) {
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    tenon_context *context = NULL;
    tenon_session_options options = {.backend = backend, .threads = 1};
    model_inputs inputs;
    tenon_view outputs[2] = {{0}};
    fill(&inputs, 2);
    tenon_status status = tenon_graph_parse(model, "model", &graph);
    if (status == TENON_OK)
        status = tenon_session_create(graph, &options, &session);
    if (status == TENON_OK)
        status = tenon_context_create(session, &context);
    for (int run = 0; run < 2 && status == TENON_OK; run++) {
        memset(outputs, 0, sizeof outputs);
        status = tenon_context_run(context, inputs.views, 2, outputs, 2);
    }
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    return status;
}

static tenon_status reference_life(const void *user) {
    (void)user;
    return run_life(TENON_BACKEND_REFERENCE);
}

static tenon_status onednn_life(const void *user) {
    (void)user;
    return run_life(TENON_BACKEND_ONEDNN);
}

static tenon_status twice_shape(const tenon_node *node, tenon_view *outputs, int count,
                                void *user) {
    const tenon_value *x = tenon_node_arg(node, 0).as.value;
    (void)count, (void)user;
    outputs[0].dtype = tenon_value_dtype(x);
    outputs[0].rank = tenon_value_rank(x);
    for (int d = 0; d < outputs[0].rank; d++)
        outputs[0].shape[d] = tenon_value_size(x, d);
    return TENON_OK;
}

static tenon_status twice(tenon_op_call *call, void *user) {
    (void)user;
    return tenon_fail(TENON_RUN_FAILED, "%p is not run here", (void *)call);
}

/* Rewrites a pattern into a registered op, and adds a constant. */
static tenon_status rewrite(tenon_pass_call *call) {
    tenon_pattern *pattern = NULL;
    tenon_value *constant;
    int64_t count = 0;
    tenon_status status =
        tenon_pattern_create("%y = aten.mul.Tensor(%x, 2) commutative", "life", &pattern);
    if (status == TENON_OK)
        status =
            tenon_pattern_rewrite(pattern, call->graph, "%z = life.twice(%x)", NULL, NULL, &count);
    if (status == TENON_OK)
        status = tenon_graph_make_constant(call->graph, "w", TENON_FLOAT32, 0, NULL, &(float){1},
                                           &constant);
    tenon_pattern_destroy(&pattern);
    call->changed = count > 0;
    return status;
}

/* A list with a pass of its own, applied outside a session, then printed and drawn as DOT. */
static tenon_status passes_life(const void *user) {
    (void)user;
    static const tenon_pass_option option = {"key", "value"};
    static const tenon_pass pass = {
        .name = "mine", .run = rewrite, .options = &option, .option_count = 1, .remove_dead = true};
    tenon_graph *graph = NULL;
    tenon_passes *passes = NULL;
    char *list = NULL, *dot = NULL;
    model_inputs inputs;
    fill(&inputs, 2);
    tenon_status status =
        tenon_op_register("life::twice(Tensor self) -> Tensor", twice_shape, twice, NULL);
    if (status == TENON_OK)
        status = tenon_graph_parse(model, "model", &graph);
    if (status == TENON_OK)
        status = tenon_passes_create(&passes);
    if (status == TENON_OK)
        status = tenon_passes_insert(passes, 0, &pass);
    if (status == TENON_OK)
        status = tenon_passes_set_option(passes, "mine", "key", "other");
    if (status == TENON_OK)
        status = tenon_passes_apply(passes, &graph, inputs.views, 2);
    if (status == TENON_OK)
        status = tenon_passes_dump(passes, &list);
    if (status == TENON_OK)
        status = tenon_graph_dot(graph, &dot);
    if (status == TENON_OK && !strstr(dot, "life.twice"))
        status = TENON_INTERNAL;
    tenon_string_free(list);
    tenon_string_free(dot);
    tenon_passes_destroy(&passes);
    tenon_graph_destroy(&graph);
    return status;
}

static tenon_status read_recording(tenon_profiler *profiler) {
    const tenon_group_options groups = {.by_input_shape = true, .by_stack_n = 2, .by_module = true};
    tenon_averages *averages = NULL;
    tenon_module_times *times = NULL;
    char *table = NULL, *tree = NULL;
    tenon_status status = tenon_profiler_key_averages(profiler, &groups, &averages);
    if (status == TENON_OK)
        status = tenon_averages_table(averages, &(tenon_table_options){.sort_by = "count"}, &table);
    if (status == TENON_OK)
        status = tenon_profiler_module_times(profiler, &times);
    if (status == TENON_OK)
        status = tenon_module_times_table(times, -1, &tree);
    if (status == TENON_OK)
        status = tenon_profiler_export_chrome_trace(profiler, "/dev/null");
    if (status == TENON_OK)
        status = tenon_profiler_export_stacks(profiler, "/dev/null", "cpu_time_total");
    if (status == TENON_OK)
        status = tenon_profiler_export_memory_timeline(profiler, "/dev/null");
    tenon_string_free(table);
    tenon_string_free(tree);
    tenon_averages_destroy(&averages);
    tenon_module_times_destroy(&times);
    return status;
}

/* A recorded run of a session that is there already, and all that can be read of it. */
static tenon_status profile_life(const void *user) {
    (void)user;
    static tenon_session *session;
    static tenon_context *context;
    const tenon_profiler_options options = {.record_shapes = true,
                                            .profile_memory = true,
                                            .with_stack = true,
                                            .with_flops = true,
                                            .with_modules = true};
    tenon_profiler *profiler = NULL;
    model_inputs inputs;
    tenon_view outputs[2] = {{0}};
    tenon_status status = TENON_OK;
    fill(&inputs, 2);
    if (!session) {
        session = make_session(model, TENON_BACKEND_ONEDNN);
        OK(tenon_context_create(session, &context));
    }
    status = tenon_profiler_create(&options, &profiler);
    if (status == TENON_OK)
        status = tenon_profiler_add_metadata(profiler, "key", "value");
    if (status == TENON_OK)
        status = tenon_profiler_start(profiler);
    tenon_record_function_begin("range");
    if (status == TENON_OK)
        status = tenon_context_run(context, inputs.views, 2, outputs, 2);
    tenon_record_function_end();
    if (status == TENON_OK)
        status = tenon_profiler_stop(profiler);
    if (status == TENON_OK)
        status = read_recording(profiler);
    tenon_profiler_destroy(&profiler);
    return status;
}

static void *run_recorded(void *user) {
    static model_inputs inputs;
    tenon_view outputs[2] = {{0}};
    fill(&inputs, 2);
    tenon_record_function_begin("thread");
    return tenon_context_run(user, inputs.views, 2, outputs, 2) == TENON_OK ? user : NULL;
}

/* Warm runs while steps of a schedule are recorded and an execution graph is written: events may be
 * lost, but no run fails, and what fails once goes on. */
static tenon_status recorded_runs_life(const void *user) {
    (void)user;
    static tenon_session *session;
    static tenon_context *context;
    const tenon_profiler_schedule schedule = {.warmup = 1, .active = 1};
    const tenon_profiler_options options = {
        .profile_memory = true, .with_stack = true, .schedule = &schedule};
    tenon_profiler *profiler = NULL;
    pthread_t thread;
    void *done = NULL;
    bool failed = false;
    if (!session) {
        session = make_session(model, TENON_BACKEND_REFERENCE);
        OK(tenon_context_create(session, &context));
        ck_assert_ptr_nonnull(run_recorded(context));
    }
    tenon_status trace = tenon_execution_trace_start("/dev/null"), stopped;
    tenon_status status = tenon_profiler_create(&options, &profiler);
    if (status == TENON_OK)
        status = tenon_profiler_start(profiler);
    for (int step = 0; step < 3; step++) {
        failed = failed || !run_recorded(context);
        if (step == 1 && pthread_create(&thread, NULL, run_recorded, context) == 0) {
            pthread_join(thread, &done);
            failed = failed || !done;
        } else if (step == 1 && status == TENON_OK) {
            status = tenon_fail(TENON_OUT_OF_MEMORY, "no thread could be started");
        }
        stopped = profiler ? tenon_profiler_step(profiler) : TENON_OK;
        status = status == TENON_OK ? stopped : status;
    }
    stopped = profiler ? tenon_profiler_stop(profiler) : TENON_OK;
    status = status == TENON_OK ? stopped : status;
    tenon_profiler_destroy(&profiler);
    if (trace == TENON_OK)
        trace = tenon_execution_trace_stop();
    if (failed)
        return tenon_fail(TENON_INTERNAL, "a run fails as it is recorded");
    return status == TENON_OK ? trace : status;
}

static tenon_status tuned_life(const char *file) {
    static const char text[] = "graph g { input %x: float32[32, 64]\n"
                               "const %w: float32[64, 64] = random(1)\n"
                               "%y = aten.linear(%x, %w)\n%z = aten.relu(%y)\n"
                               "output \"z\" = %z }";
    tenon_graph *graph = NULL;
    tenon_session *session = NULL;
    const tenon_session_options options = {.threads = 1, .tune = file};
    tenon_status status = tenon_graph_parse(text, "test", &graph);
    if (status == TENON_OK)
        status = tenon_session_create(graph, &options, &session);
    tenon_session_destroy(&session);
    tenon_graph_destroy(&graph);
    return status;
}

/* A session that measures, one that keeps what was measured and one that reads it. */
static tenon_status measuring_life(const void *user) {
    (void)user;
    return tuned_life("/dev/null");
}

static tenon_status keeping_life(const void *user) {
    (void)user;
    unlink(test_path("choices.json"));
    return tuned_life(test_path("choices.json"));
}

static tenon_status choosing_life(const void *user) {
    (void)user;
    return tuned_life(test_path("known.json"));
}

static const life lives[] = {
    {"reference", reference_life, .needed = 50},
    {"oneDNN", onednn_life, .needed = 50},
    {"passes", passes_life, .needed = 50},
    {"profile", profile_life, .needed = 50},
    /* Most events are lost then, and no more. */
    {"recorded runs", recorded_runs_life, .needed = 2},
    {"measuring", measuring_life, .needed = 40},
    {"keeping", keeping_life, .needed = 40},
    {"choosing", choosing_life, .needed = 40},
};
enum { LIVES = sizeof lives / sizeof *lives };

START_TEST(any_allocation_may_fail) {
    tenon_log_set(TENON_LOG_NONE, NULL, NULL);
    sweep_life(&lives[_i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("memory");
    TCase *tests = tcase_create("memory");
    tcase_set_timeout(tests, 2400); /* the whole sweep takes long */
    tcase_add_loop_test(tests, warm_runs_allocate_nothing, 0, 2);
    tcase_add_loop_test(tests, any_allocation_may_fail, 0, LIVES);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
