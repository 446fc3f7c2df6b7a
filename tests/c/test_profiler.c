/* Recording: events, nesting, threads, schedules, memory. */
#include "run_graph.h"
#include <pthread.h>
#include <stdio.h>

static const char net[] = "graph net {\n"
                          "  input %x: float32[s0, 3, 16, 16]\n"
                          "  const %w: float32[8, 3, 3, 3] = random(1)\n"
                          "  const %l: float32[8, 5] = random(2)\n"
                          "  %c = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, "
                          "[0, 0], 1) in \"features.0\"\n"
                          "  %r = aten.relu(%c) in \"features.1\"\n"
                          "  %m = aten.mean.dim(%r, [2, 3])\n"
                          "  %p = aten.mm(%m, %l) in \"head\"\n"
                          "  output \"p\" = %p\n"
                          "}\n";

typedef struct runner {
    tenon_session *session;
    tenon_context *context;
    float x[4 * 3 * 16 * 16];
} runner;

static void make_runner(runner *r, tenon_backend backend) {
    r->session = make_session(net, backend);
    OK(tenon_context_create(r->session, &r->context));
    for (size_t i = 0; i < sizeof r->x / sizeof *r->x; i++)
        r->x[i] = (float)(i % 13) / 6 - 1;
}

static void run_once(runner *r, int64_t rows) {
    tenon_view input = view_of(r->x, TENON_FLOAT32, rows, 3, 16, 16), output = {0};
    OK(tenon_context_run(r->context, &input, 1, &output, 1));
}

static void drop_runner(runner *r) {
    tenon_context_destroy(&r->context);
    tenon_session_destroy(&r->session);
}

static int find_event(const tenon_profiler *profiler, tenon_event_kind kind, const char *name,
                      int from, tenon_event *out) {
    for (int i = from; tenon_profiler_get_event(profiler, i, out); i++)
        if (out->kind == kind && strcmp(out->name, name) == 0)
            return i;
    return -1;
}

/* Children lie within their parents, and self times sum to the roots' totals. */
static void check_nesting(const tenon_profiler *profiler) {
    int64_t roots = 0, self = 0;
    tenon_event event, parent;
    for (int i = 0; tenon_profiler_get_event(profiler, i, &event); i++) {
        self += event.self_ns;
        ck_assert_int_ge(event.self_ns, 0);
        ck_assert_int_le(event.start_ns, event.end_ns);
        if (event.parent < 0) {
            roots += event.end_ns - event.start_ns;
            continue;
        }
        ck_assert_int_lt(event.parent, i);
        ck_assert(tenon_profiler_get_event(profiler, event.parent, &parent));
        ck_assert_int_eq(parent.thread, event.thread);
        ck_assert_int_ge(event.start_ns, parent.start_ns);
        ck_assert_int_le(event.end_ns, parent.end_ns);
    }
    ck_assert_int_eq(self, roots);
}

START_TEST(runs_and_their_steps_are_recorded) {
    static runner r;
    tenon_profiler *profiler = NULL;
    tenon_event run, event;
    make_runner(&r, TENON_BACKEND_REFERENCE);
    run_once(&r, 2); /* not recorded */
    OK(tenon_profiler_create(
        &(tenon_profiler_options){
            .record_shapes = true, .with_flops = true, .with_modules = true, .with_stack = true},
        &profiler));
    OK(tenon_profiler_start(profiler));
    tenon_record_function_begin("outer");
    run_once(&r, 2);
    tenon_record_function_end();
    OK(tenon_profiler_stop(profiler));
    run_once(&r, 2); /* not recorded either */
    drop_runner(&r); /* what was recorded stays */
    check_nesting(profiler);
    ck_assert_int_eq(find_event(profiler, TENON_EVENT_USER, "outer", 0, &event), 0);
    ck_assert_int_eq(event.child_count, 1);
    ck_assert_int_eq(find_event(profiler, TENON_EVENT_RUN, "tenon_context_run", 0, &run), 1);
    ck_assert_int_eq(run.parent, 0);
    ck_assert_int_eq(find_event(profiler, TENON_EVENT_RUN, "tenon_context_run", 2, &event), -1);
    int at = find_event(profiler, TENON_EVENT_KERNEL, "aten.convolution", 0, &event);
    ck_assert_int_ge(at, 2);
    ck_assert_int_eq(event.parent, 1);
    ck_assert_str_eq(event.module, "features.0");
    ck_assert_str_eq(event.shapes, "float32[2, 3, 16, 16], float32[8, 3, 3, 3]");
    ck_assert_ptr_nonnull(strstr(event.strides, "[768, 256, 16, 1]"));
    ck_assert_double_eq(event.flops, 2.0 * 2 * 8 * 16 * 16 * 3 * 3 * 3);
    ck_assert_ptr_nonnull(strstr(event.stack, "test_profiler")); /* the C caller */
    ck_assert_int_eq(event.node_count, 1);
    tenon_profiler_destroy(&profiler);
}
END_TEST

START_TEST(compiling_passes_and_loading_are_recorded) {
    static runner r;
    tenon_profiler *profiler = NULL;
    tenon_graph *graph = NULL;
    tenon_event event;
    OK(tenon_profiler_create(NULL, &profiler));
    OK(tenon_profiler_start(profiler));
    make_runner(&r, TENON_BACKEND_AUTO);
    run_once(&r, 1);
    run_once(&r, 3);
    ck_assert_int_ne(tenon_load("/nowhere/net.pt2", &graph), TENON_OK);
    OK(tenon_profiler_stop(profiler));
    check_nesting(profiler);
    int first = find_event(profiler, TENON_EVENT_COMPILE, "net", 0, &event);
    ck_assert_int_ge(first, 0);
    ck_assert_int_gt(find_event(profiler, TENON_EVENT_COMPILE, "net", first + 1, &event), 0);
    int pass = find_event(profiler, TENON_EVENT_PASS, "layout", first, &event);
    ck_assert_int_gt(pass, first);
    ck_assert_int_eq(event.parent, first);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_LOAD, "/nowhere/net.pt2", 0, &event), 0);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_PASS, "functionalize", 0, &event), 0);
    tenon_profiler_destroy(&profiler);
    drop_runner(&r);
}
END_TEST

static void count_ready(tenon_profiler *profiler, void *user) {
    int *calls = user;
    tenon_event event;
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_USER, "work", 0, &event), 0);
    calls[0]++;
    calls[1] = (int)tenon_profiler_step_num(profiler);
}

START_TEST(schedules_cut_the_time_into_cycles) {
    int calls[2] = {0};
    tenon_profiler *profiler = NULL;
    tenon_event event;
    const tenon_profiler_schedule schedule = {
        .skip_first = 1, .wait = 1, .warmup = 1, .active = 2, .repeat = 2};
    OK(tenon_profiler_create(&(tenon_profiler_options){.schedule = &schedule,
                                                       .on_trace_ready = count_ready,
                                                       .ready_user = calls},
                             &profiler));
    OK(tenon_profiler_start(profiler));
    for (int i = 0; i < 12; i++) {
        tenon_record_function_begin("work");
        tenon_record_function_end();
        OK(tenon_profiler_step(profiler));
    }
    OK(tenon_profiler_stop(profiler));
    ck_assert_int_eq(calls[0], 2);
    ck_assert_int_eq(calls[1], 9);
    ck_assert_int_eq(tenon_profiler_event_count(profiler), 4);
    ck_assert_int_eq(find_event(profiler, TENON_EVENT_STEP, "ProfilerStep#7", 0, &event), 0);
    ck_assert_int_eq(find_event(profiler, TENON_EVENT_STEP, "ProfilerStep#8", 0, &event), 2);
    tenon_profiler_destroy(&profiler);
}
END_TEST

START_TEST(misuse_is_refused) {
    tenon_profiler *profiler = NULL, *other = NULL;
    const tenon_profiler_schedule bad = {.wait = -1, .active = 1}, empty = {.active = 0};
    FAILS(tenon_profiler_create(&(tenon_profiler_options){.schedule = &bad}, &profiler),
          TENON_INVALID_ARGUMENT, "wait is -1");
    FAILS(tenon_profiler_create(&(tenon_profiler_options){.schedule = &empty}, &profiler),
          TENON_INVALID_ARGUMENT, "active is 0");
    OK(tenon_profiler_create(NULL, &profiler));
    OK(tenon_profiler_create(NULL, &other));
    FAILS(tenon_profiler_stop(profiler), TENON_INVALID_ARGUMENT, "not started");
    FAILS(tenon_profiler_step(profiler), TENON_INVALID_ARGUMENT, "not started");
    OK(tenon_profiler_start(profiler));
    FAILS(tenon_profiler_start(profiler), TENON_INVALID_ARGUMENT, "runs already");
    FAILS(tenon_profiler_start(other), TENON_INVALID_ARGUMENT, "another profiler runs already");
    tenon_record_function_end(); /* of nothing */
    tenon_record_function_begin("open");
    OK(tenon_profiler_stop(profiler)); /* ends it */
    ck_assert_int_eq(tenon_profiler_event_count(profiler), 1);
    OK(tenon_profiler_start(other));
    tenon_record_function_end();    /* of the other recording */
    tenon_profiler_destroy(&other); /* stops it */
    OK(tenon_profiler_start(profiler));
    OK(tenon_profiler_stop(profiler));
    ck_assert_int_eq(tenon_profiler_event_count(profiler), 0);
    FAILS(tenon_profiler_add_metadata_json(profiler, "k", "{\"a\": }"), TENON_INVALID_ARGUMENT,
          "no JSON");
    OK(tenon_profiler_add_metadata_json(profiler, "k", "{\"a\": 1}"));
    OK(tenon_profiler_add_metadata(profiler, "k", "a \"b\""));
    tenon_profiler_destroy(&profiler);
}
END_TEST

START_TEST(memory_is_recorded) {
    static runner r;
    tenon_profiler *profiler = NULL;
    tenon_memory_event change;
    tenon_event event;
    int64_t total = 0, last = 0;
    OK(tenon_profiler_create(&(tenon_profiler_options){.profile_memory = true}, &profiler));
    OK(tenon_profiler_start(profiler));
    make_runner(&r, TENON_BACKEND_REFERENCE);
    run_once(&r, 2);
    drop_runner(&r);
    OK(tenon_profiler_stop(profiler));
    ck_assert_int_gt(tenon_profiler_memory_count(profiler), 0);
    for (int i = 0; tenon_profiler_get_memory(profiler, i, &change); i++) {
        total += change.bytes;
        ck_assert_int_eq(change.total, total);
        ck_assert_int_ge(change.time_ns, last);
        last = change.time_ns;
    }
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_RUN, "tenon_context_run", 0, &event), 0);
    ck_assert_int_gt(event.memory, 0); /* the arena of the context */
    tenon_profiler_destroy(&profiler);
}
END_TEST

static void *run_many(void *user) {
    for (int i = 0; i < 50; i++)
        run_once(user, 1);
    return NULL;
}

START_TEST(threads_have_events_of_their_own) {
    static runner r[3];
    pthread_t threads[3];
    tenon_profiler *profiler = NULL;
    tenon_event event;
    int runs = 0;
    for (int i = 0; i < 3; i++) {
        r[i].session = NULL;
        make_runner(&r[i], TENON_BACKEND_REFERENCE);
        run_once(&r[i], 1);
    }
    OK(tenon_profiler_create(NULL, &profiler));
    OK(tenon_profiler_start(profiler));
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, run_many, &r[i]), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    OK(tenon_profiler_stop(profiler));
    check_nesting(profiler);
    for (int at = -1;
         (at = find_event(profiler, TENON_EVENT_RUN, "tenon_context_run", at + 1, &event)) >= 0;)
        runs++;
    ck_assert_int_eq(runs, 150);
    tenon_profiler_destroy(&profiler);
    for (int i = 0; i < 3; i++)
        drop_runner(&r[i]);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("profiler");
    TCase *tests = tcase_create("record");
    tcase_add_test(tests, runs_and_their_steps_are_recorded);
    tcase_add_test(tests, compiling_passes_and_loading_are_recorded);
    tcase_add_test(tests, schedules_cut_the_time_into_cycles);
    tcase_add_test(tests, misuse_is_refused);
    tcase_add_test(tests, memory_is_recorded);
    tcase_add_test(tests, threads_have_events_of_their_own);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
