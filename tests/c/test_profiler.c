/* Recording: events, nesting, threads, schedules, memory. */
#include "profile_net.h"
#include <pthread.h>
#include <stdio.h>

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
    int first = find_event(profiler, TENON_EVENT_COMPILE, "compile: net", 0, &event);
    ck_assert_int_ge(first, 0);
    ck_assert_int_gt(find_event(profiler, TENON_EVENT_COMPILE, "compile: net", first + 1, &event),
                     0);
    int pass = find_event(profiler, TENON_EVENT_PASS, "pass: layout", first, &event);
    ck_assert_int_gt(pass, first);
    ck_assert_int_eq(event.parent, first);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_LOAD, "load: /nowhere/net.pt2", 0, &event),
                     0);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_PASS, "pass: functionalize", 0, &event), 0);
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

START_TEST(names_become_text) {
    tenon_profiler *profiler = NULL;
    tenon_event event;
    OK(tenon_profiler_create(NULL, &profiler));
    OK(tenon_profiler_start(profiler));
    tenon_record_function_begin("a\xff\xfe b \xe2\x82\xac");
    tenon_record_function_end();
    OK(tenon_profiler_stop(profiler));
    ck_assert(tenon_profiler_get_event(profiler, 0, &event));
    ck_assert_str_eq(event.name, "a\xef\xbf\xbd\xef\xbf\xbd b \xe2\x82\xac");
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

START_TEST(numbers_of_schedules_are_checked) {
    const int64_t past = (int64_t)INT32_MAX + 1;
    const struct {
        tenon_profiler_schedule schedule;
        const char *message;
    } cases[] = {{{.skip_first = -1, .active = 1}, "skip_first is -1"},
                 {{.wait = past, .active = 1}, "wait is 2147483648"},
                 {{.warmup = -7, .active = 1}, "warmup is -7"},
                 {{.active = -1}, "active is -1, not 1 to"},
                 {{.active = past}, "active is 2147483648"},
                 {{.active = 1, .repeat = INT64_MIN}, "repeat is -9223372036854775808"}};
    tenon_profiler *const none = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tenon_profiler *profiler = none;
        FAILS(tenon_profiler_create(&(tenon_profiler_options){.schedule = &cases[i].schedule},
                                    &profiler),
              TENON_INVALID_ARGUMENT, cases[i].message);
        ck_assert_ptr_eq(profiler, none);
        ck_assert_int_eq(tenon_profiler_schedule_action(&cases[i].schedule, 0),
                         TENON_PROFILER_NONE);
    }
    const tenon_profiler_schedule largest = {INT32_MAX, INT32_MAX, INT32_MAX,
                                             INT32_MAX, INT32_MAX, true};
    const tenon_profiler_schedule plain = {.active = 1};
    ck_assert_int_eq(tenon_profiler_schedule_action(&largest, INT32_MAX), TENON_PROFILER_WARMUP);
    ck_assert_int_eq(tenon_profiler_schedule_action(&largest, INT64_MAX), TENON_PROFILER_NONE);
    ck_assert_int_eq(tenon_profiler_schedule_action(&plain, INT64_MAX),
                     TENON_PROFILER_RECORD_AND_SAVE);
    ck_assert_int_eq(tenon_profiler_schedule_action(&plain, -1), TENON_PROFILER_NONE);
}
END_TEST

typedef struct handler {
    int calls;
    bool refused;
} handler;

/* What a handler may not do. */
static void try_everything(tenon_profiler *profiler, void *user) {
    handler *h = user;
    h->calls++;
    h->refused = tenon_profiler_step(profiler) == TENON_INVALID_ARGUMENT &&
                 strstr(tenon_last_error(), "on_trace_ready") &&
                 tenon_profiler_stop(profiler) == TENON_INVALID_ARGUMENT &&
                 tenon_profiler_start(profiler) == TENON_INVALID_ARGUMENT;
}

static tenon_profiler_action record_first(int64_t step, void *user) {
    ++*(int *)user;
    return step == 0 ? TENON_PROFILER_RECORD_AND_SAVE : TENON_PROFILER_NONE;
}

START_TEST(the_contract_of_a_profiler_holds) {
    int asked = 0;
    handler h = {0};
    tenon_event event;
    tenon_memory_event change;
    tenon_profiler *profiler = NULL;
    tenon_profiler_schedule schedule = {.wait = 1, .active = 1};
    tenon_profiler_destroy(&profiler); /* of none */
    /* The schedule is copied; a function stands in for it. */
    OK(tenon_profiler_create(&(tenon_profiler_options){.schedule = &schedule}, &profiler));
    schedule.wait = 0;
    OK(tenon_profiler_start(profiler));
    ck_assert_int_eq(tenon_profiler_current_action(profiler), TENON_PROFILER_NONE);
    OK(tenon_profiler_stop(profiler));
    tenon_profiler_destroy(&profiler);
    ck_assert_ptr_null(profiler);
    OK(tenon_profiler_create(&(tenon_profiler_options){.schedule = &schedule,
                                                       .schedule_fn = record_first,
                                                       .schedule_user = &asked,
                                                       .on_trace_ready = try_everything,
                                                       .ready_user = &h},
                             &profiler));
    ck_assert_int_eq(tenon_profiler_event_count(profiler), 0);
    ck_assert(!tenon_profiler_get_event(profiler, 0, &event));
    ck_assert(!tenon_profiler_get_memory(profiler, 0, &change));
    for (int round = 1; round <= 2; round++) { /* it may start again, from step 0 */
        OK(tenon_profiler_start(profiler));
        ck_assert_int_eq(tenon_profiler_step_num(profiler), 0);
        ck_assert_int_eq(tenon_profiler_current_action(profiler), TENON_PROFILER_RECORD_AND_SAVE);
        tenon_record_function_begin(NULL);
        tenon_record_function_end();
        OK(tenon_profiler_step(profiler));
        ck_assert_int_eq(tenon_profiler_step_num(profiler), 1);
        ck_assert_int_eq(tenon_profiler_current_action(profiler), TENON_PROFILER_NONE);
        ck_assert_int_eq(h.calls, round);
        ck_assert(h.refused);
        tenon_record_function_begin("not recorded");
        tenon_record_function_end();
        OK(tenon_profiler_stop(profiler));
        ck_assert_int_eq(h.calls, round);
        ck_assert_int_eq(asked, 2 * round);
        FAILS(tenon_profiler_stop(profiler), TENON_INVALID_ARGUMENT, "not started");
        ck_assert_int_eq(tenon_profiler_event_count(profiler), 2);
        ck_assert_int_eq(find_event(profiler, TENON_EVENT_USER, "", 0, &event), 1);
        ck_assert(!tenon_profiler_get_event(profiler, 2, &event));
        ck_assert(!tenon_profiler_get_event(profiler, -1, &event));
        ck_assert(!tenon_profiler_get_memory(profiler, 0, &change)); /* without profile_memory */
    }
    /* Destroying stops without a call; others may record then. */
    OK(tenon_profiler_start(profiler));
    tenon_profiler_destroy(&profiler);
    ck_assert_int_eq(h.calls, 2);
    OK(tenon_profiler_create(NULL, &profiler));
    OK(tenon_profiler_start(profiler));
    OK(tenon_profiler_stop(profiler));
    tenon_profiler_destroy(&profiler);
}
END_TEST

START_TEST(what_was_not_asked_for_is_empty) {
    static runner r;
    tenon_profiler *profiler = NULL;
    tenon_event event;
    make_runner(&r, TENON_BACKEND_REFERENCE);
    run_once(&r, 1);
    OK(tenon_profiler_create(NULL, &profiler));
    OK(tenon_profiler_start(profiler));
    run_once(&r, 1);
    OK(tenon_profiler_stop(profiler));
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_KERNEL, "aten.convolution", 0, &event), 0);
    ck_assert_str_eq(event.shapes, "");
    ck_assert_str_eq(event.strides, "");
    ck_assert_str_eq(event.module, "");
    ck_assert_str_eq(event.stack, "");
    ck_assert_double_eq(event.flops, 0);
    ck_assert_int_eq(event.memory, 0);
    ck_assert_int_eq(tenon_profiler_memory_count(profiler), 0);
    ck_assert_int_eq(event.node_count, 1);
    ck_assert_str_eq(tenon_node_op(event.nodes[0]), "aten.convolution");
    tenon_profiler_destroy(&profiler);
    drop_runner(&r);
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
    tcase_add_test(tests, names_become_text);
    tcase_add_test(tests, misuse_is_refused);
    tcase_add_test(tests, numbers_of_schedules_are_checked);
    tcase_add_test(tests, the_contract_of_a_profiler_holds);
    tcase_add_test(tests, what_was_not_asked_for_is_empty);
    tcase_add_test(tests, memory_is_recorded);
    tcase_add_test(tests, threads_have_events_of_their_own);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
