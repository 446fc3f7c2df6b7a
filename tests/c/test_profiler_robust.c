/* What recordings survive: threads that come and go, ranges that end elsewhere, forks, and much of
 * everything. */
#include "profile_net.h"
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1, PROFILES = 500, EVENTS = 100000 };
#else
enum { SANITIZED = 0, PROFILES = 10000, EVENTS = 1000000 };
#endif

static const tenon_profiler_options everything = {.record_shapes = true,
                                                  .profile_memory = true,
                                                  .with_stack = true,
                                                  .with_flops = true,
                                                  .with_modules = true};

static tenon_profiler *make_profiler(const tenon_profiler_options *options) {
    tenon_profiler *profiler = NULL;
    OK(tenon_profiler_create(options, &profiler));
    return profiler;
}

static int count_events(const tenon_profiler *profiler, tenon_event_kind kind, const char *name) {
    tenon_event event;
    int count = 0;
    for (int at = -1; (at = find_event(profiler, kind, name, at + 1, &event)) >= 0;)
        count++;
    return count;
}

/* ---- Memory ---- */

static size_t heap_used(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static size_t resident(void) {
    unsigned long pages = 0, ignored;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lu %lu", &ignored, &pages), 2);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void *short_thread(void *user) {
    tenon_record_function_begin("thread");
    run_once(user, 1);
    tenon_record_function_end();
    return NULL;
}

static void short_profile(runner *r, int number) {
    static const tenon_profiler_schedule schedule = {.warmup = 1, .active = 1};
    tenon_profiler_options options = everything;
    options.schedule = number % 2 ? &schedule : NULL;
    tenon_profiler *profiler = make_profiler(&options);
    tenon_averages *averages = NULL;
    pthread_t thread;
    OK(tenon_profiler_start(profiler));
    OK(tenon_profiler_step(profiler));
    tenon_record_function_begin("range");
    run_once(r, 1);
    tenon_record_function_end();
    if (number % 16 == 0) {
        ck_assert_int_eq(pthread_create(&thread, NULL, short_thread, r), 0);
        pthread_join(thread, NULL);
    }
    OK(tenon_profiler_stop(profiler));
    ck_assert_int_gt(tenon_profiler_event_count(profiler), 4);
    OK(tenon_profiler_key_averages(profiler, NULL, &averages));
    tenon_averages_destroy(&averages);
    tenon_profiler_destroy(&profiler);
}

/* What the user's functions do to the profiler that calls them. */
static tenon_profiler *called;

static tenon_profiler_action meddle(int64_t step, void *user) {
    (void)step;
    if (*(int *)user == 0) {
        ck_assert_int_eq(tenon_profiler_step(called), TENON_INVALID_ARGUMENT);
        ck_assert_int_eq(tenon_profiler_stop(called), TENON_INVALID_ARGUMENT);
    } else if (step == 1) {
        tenon_profiler_destroy(&called);
    }
    return TENON_PROFILER_RECORD_AND_SAVE;
}

static void destroy_it(tenon_profiler *profiler, void *user) {
    (void)profiler, (void)user;
    tenon_profiler_destroy(&called);
}

START_TEST(functions_of_the_user_cannot_pull_it_away) {
    int how = 0;
    tenon_profiler_options options = {.schedule_fn = meddle, .schedule_user = &how};
    for (how = 0; how < 3; how++) {
        if (how == 2) /* the handler destroys it instead */
            options = (tenon_profiler_options){.on_trace_ready = destroy_it};
        OK(tenon_profiler_create(&options, &called));
        tenon_profiler *profiler = called;
        tenon_status status = tenon_profiler_start(profiler);
        if (how == 0 && status == TENON_OK) {
            OK(tenon_profiler_step(profiler));
            ck_assert_int_eq(tenon_profiler_step_num(profiler), 1);
            OK(tenon_profiler_stop(profiler));
            tenon_profiler_destroy(&called);
        } else if (how == 1 && status == TENON_OK) {
            OK(tenon_profiler_step(profiler)); /* it is gone then */
        } else {
            OK(tenon_profiler_stop(profiler));
        }
        ck_assert_ptr_null(called);
    }
    /* nothing records any more */
    OK(tenon_profiler_create(NULL, &called));
    OK(tenon_profiler_start(called));
    OK(tenon_profiler_stop(called));
    ck_assert_int_eq(tenon_profiler_schedule_action(NULL, 0), TENON_PROFILER_NONE);
    FAILS(tenon_profiler_export_stacks(called, "", NULL), TENON_IO, "the path is empty");
    FAILS(tenon_execution_trace_start(""), TENON_IO, "the path is empty");
    tenon_profiler_destroy(&called);
}
END_TEST

START_TEST(short_profiles_do_not_grow_memory) {
    static runner r;
    make_runner(&r, TENON_BACKEND_REFERENCE);
    for (int i = 0; i < PROFILES / 5; i++)
        short_profile(&r, i);
    size_t heap = heap_used(), pages = resident();
    for (int i = 0; i < PROFILES; i++)
        short_profile(&r, i);
    if (!SANITIZED) {
        ck_assert_uint_le(heap_used(), heap + 4096);
        ck_assert_uint_le(resident(), pages + (1 << 20));
    }
    drop_runner(&r);
}
END_TEST

/* A million ranges: so many bytes each, whatever is recorded of them. */
START_TEST(many_events_take_bounded_memory) {
    tenon_profiler *profiler = make_profiler(NULL);
    tenon_event event;
    size_t heap = heap_used();
    OK(tenon_profiler_start(profiler));
    for (int i = 0; i < EVENTS; i++) {
        tenon_record_function_begin("range");
        tenon_record_function_end();
    }
    size_t recorded = heap_used();
    OK(tenon_profiler_stop(profiler));
    size_t collected = heap_used();
    ck_assert_int_eq(tenon_profiler_event_count(profiler), EVENTS);
    ck_assert(tenon_profiler_get_event(profiler, EVENTS - 1, &event));
    ck_assert_int_eq(event.parent, -1);
    if (!SANITIZED) {
        ck_assert_uint_gt(recorded - heap, (size_t)EVENTS * 40);
        ck_assert_uint_lt(recorded - heap, (size_t)EVENTS * 160);
        ck_assert_uint_lt(collected - heap, (size_t)EVENTS * 360);
    }
    tenon_profiler_destroy(&profiler);
    if (!SANITIZED)
        ck_assert_uint_le(heap_used(), heap + 4096);
}
END_TEST

/* Stacks are kept once, not once an event. */
START_TEST(stacks_are_shared) {
    static runner r;
    tenon_event event, first;
    make_runner(&r, TENON_BACKEND_REFERENCE);
    tenon_profiler *profiler = make_profiler(&everything);
    OK(tenon_profiler_start(profiler));
    for (int i = 0; i < 100; i++)
        run_once(&r, 1);
    OK(tenon_profiler_stop(profiler));
    int at = find_event(profiler, TENON_EVENT_KERNEL, "aten.mean.dim", 0, &first), count = 0;
    for (; (at = find_event(profiler, TENON_EVENT_KERNEL, "aten.mean.dim", at, &event)) >= 0; at++)
        count += event.stack == first.stack;
    ck_assert_ptr_nonnull(strstr(first.stack, "test_profiler"));
    ck_assert_int_eq(count, 100);
    tenon_profiler_destroy(&profiler);
    drop_runner(&r);
}
END_TEST

/* ---- Ranges ---- */

START_TEST(deep_nesting_is_kept) {
    enum { DEPTH = 10000 };
    tenon_profiler *profiler = make_profiler(NULL);
    tenon_averages *averages = NULL;
    tenon_event event;
    tenon_average average;
    OK(tenon_profiler_start(profiler));
    for (int i = 0; i < DEPTH; i++)
        tenon_record_function_begin("deep");
    for (int i = 0; i < DEPTH; i++)
        tenon_record_function_end();
    tenon_record_function_begin("after");
    OK(tenon_profiler_stop(profiler));
    check_nesting(profiler);
    ck_assert_int_eq(tenon_profiler_event_count(profiler), DEPTH + 1);
    for (int i = 0; tenon_profiler_get_event(profiler, i, &event) && i < DEPTH; i++)
        if (event.parent != i - 1)
            ck_abort_msg("event %d lies in event %d", i, event.parent);
    ck_assert(tenon_profiler_get_event(profiler, DEPTH, &event));
    ck_assert_int_eq(event.parent, -1);
    OK(tenon_profiler_key_averages(profiler, NULL, &averages));
    ck_assert(tenon_averages_get(averages, 0, &average));
    ck_assert_int_eq(average.count, DEPTH);
    tenon_averages_destroy(&averages);
    tenon_profiler_destroy(&profiler);
}
END_TEST

static void keep_nothing(tenon_profiler *profiler, void *user) {
    (void)profiler;
    ++*(int *)user;
}

/* A range that is open when a step ends, ends with it; its own end then ends nothing else. */
START_TEST(ranges_end_with_what_they_lie_in) {
    static const tenon_profiler_schedule schedule = {.active = 3};
    int calls = 0;
    tenon_event first, second, step, late;
    tenon_profiler *profiler = make_profiler(&(tenon_profiler_options){
        .schedule = &schedule, .on_trace_ready = keep_nothing, .ready_user = &calls});
    tenon_record_function_begin("before"); /* not recorded */
    OK(tenon_profiler_start(profiler));
    tenon_record_function_begin("first");
    tenon_record_function_begin("within");
    OK(tenon_profiler_step(profiler));
    tenon_record_function_begin("second");
    tenon_record_function_end();
    tenon_record_function_end(); /* of what ended with the step */
    tenon_record_function_end();
    tenon_record_function_begin("late");
    tenon_record_function_end();
    tenon_record_function_end(); /* of what began before the recording */
    tenon_record_function_begin("open");
    OK(tenon_profiler_stop(profiler));
    tenon_record_function_end(); /* when nothing records */
    ck_assert_int_eq(calls, 1);
    check_nesting(profiler);
    ck_assert_int_eq(tenon_profiler_event_count(profiler), 7);
    ck_assert_int_eq(find_event(profiler, TENON_EVENT_STEP, "ProfilerStep#0", 0, &step), 0);
    ck_assert_int_eq(find_event(profiler, TENON_EVENT_USER, "first", 0, &first), 1);
    ck_assert_int_eq(first.parent, 0);
    ck_assert_int_eq(first.end_ns, step.end_ns);
    ck_assert_int_eq(find_event(profiler, TENON_EVENT_USER, "within", 0, &first), 2);
    ck_assert_int_eq(first.parent, 1);
    ck_assert_int_eq(find_event(profiler, TENON_EVENT_STEP, "ProfilerStep#1", 0, &step), 3);
    ck_assert_int_eq(step.child_count, 3);
    find_event(profiler, TENON_EVENT_USER, "second", 0, &second);
    ck_assert_int_eq(second.parent, 3);
    find_event(profiler, TENON_EVENT_USER, "late", 0, &late);
    ck_assert_int_eq(late.parent, 3);
    ck_assert_int_ge(step.end_ns, late.end_ns);
    /* A second recording knows nothing of the first. */
    tenon_record_function_begin("between");
    OK(tenon_profiler_start(profiler));
    tenon_record_function_end();
    OK(tenon_profiler_stop(profiler));
    ck_assert_int_eq(tenon_profiler_event_count(profiler), 1);
    tenon_profiler_destroy(&profiler);
}
END_TEST

/* A pass that begins a range and does not end it, or ends one too many. */
static tenon_status leave_ranges(tenon_pass_call *call) {
    bool begins = call->pass->user != NULL;
    if (begins)
        tenon_record_function_begin("left open");
    else
        tenon_record_function_end();
    return TENON_OK;
}

START_TEST(callbacks_cannot_break_the_nesting) {
    static const tenon_pass begins = {.name = "begins", .run = leave_ranges, .user = "yes"};
    static const tenon_pass ends = {.name = "ends", .run = leave_ranges};
    tenon_profiler *profiler = make_profiler(NULL);
    tenon_graph *graph = parse_graph(net_text);
    tenon_passes *passes = NULL;
    static float x[3 * 16 * 16];
    tenon_view sample = view_of(x, TENON_FLOAT32, 1, 3, 16, 16);
    tenon_event event, outer;
    OK(tenon_passes_create(&passes));
    OK(tenon_passes_insert(passes, 0, &ends));
    OK(tenon_passes_insert(passes, 0, &begins));
    OK(tenon_profiler_start(profiler));
    tenon_record_function_begin("outer");
    OK(tenon_passes_apply(passes, &graph, &sample, 1));
    tenon_record_function_begin("inner");
    tenon_record_function_end();
    tenon_record_function_end();
    OK(tenon_profiler_stop(profiler));
    check_nesting(profiler);
    ck_assert_int_eq(find_event(profiler, TENON_EVENT_USER, "outer", 0, &outer), 0);
    int pass = find_event(profiler, TENON_EVENT_PASS, "pass: begins", 0, &event);
    ck_assert_int_eq(find_event(profiler, TENON_EVENT_USER, "left open", 0, &event), pass + 1);
    ck_assert_int_eq(event.parent, pass);
    find_event(profiler, TENON_EVENT_PASS, "pass: ends", 0, &event);
    ck_assert_int_eq(event.parent, 0);
    find_event(profiler, TENON_EVENT_USER, "inner", 0, &event);
    ck_assert_int_eq(event.parent, 0);
    ck_assert_int_ge(outer.end_ns, event.end_ns);
    tenon_passes_destroy(&passes);
    tenon_graph_destroy(&graph);
    tenon_profiler_destroy(&profiler);
}
END_TEST

/* ---- Threads ---- */

static void *end_range(void *user) {
    tenon_record_function_end();
    tenon_record_function_begin(user);
    return NULL; /* it ends with the recording */
}

START_TEST(ranges_belong_to_their_thread) {
    tenon_profiler *profiler = make_profiler(NULL);
    tenon_event here, there;
    pthread_t thread;
    OK(tenon_profiler_start(profiler));
    tenon_record_function_begin("here");
    ck_assert_int_eq(pthread_create(&thread, NULL, end_range, "there"), 0);
    pthread_join(thread, NULL);
    tenon_record_function_begin("within");
    tenon_record_function_end();
    tenon_record_function_end();
    OK(tenon_profiler_stop(profiler));
    check_nesting(profiler);
    ck_assert_int_eq(tenon_profiler_event_count(profiler), 3);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_USER, "here", 0, &here), 0);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_USER, "there", 0, &there), 0);
    ck_assert_int_eq(here.child_count, 1);
    ck_assert_int_eq(there.parent, -1);
    ck_assert_int_ne(here.thread, there.thread);
    tenon_profiler_destroy(&profiler);
}
END_TEST

static void *step_elsewhere(void *user) {
    OK(tenon_profiler_step(user));
    tenon_record_function_begin("elsewhere");
    tenon_record_function_end();
    return NULL;
}

/* Steps may be taken by any thread: each begins on the one that takes it. */
START_TEST(steps_may_be_taken_by_another_thread) {
    static const tenon_profiler_schedule schedule = {.active = 5};
    tenon_profiler *profiler = make_profiler(&(tenon_profiler_options){.schedule = &schedule});
    tenon_event first, second, third, event;
    pthread_t thread;
    OK(tenon_profiler_start(profiler));
    tenon_record_function_begin("open");
    ck_assert_int_eq(pthread_create(&thread, NULL, step_elsewhere, profiler), 0);
    pthread_join(thread, NULL);
    OK(tenon_profiler_step(profiler));
    OK(tenon_profiler_stop(profiler));
    check_nesting(profiler);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_STEP, "ProfilerStep#0", 0, &first), 0);
    int at = find_event(profiler, TENON_EVENT_STEP, "ProfilerStep#1", 0, &second);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_STEP, "ProfilerStep#2", 0, &third), 0);
    ck_assert_int_ge(at, 0);
    ck_assert_int_eq(third.parent, -1);
    ck_assert_int_eq(first.thread, third.thread);
    ck_assert_int_ne(first.thread, second.thread);
    ck_assert_int_le(first.end_ns, second.start_ns);
    ck_assert_int_le(second.end_ns, third.start_ns);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_USER, "elsewhere", 0, &event), 0);
    ck_assert_int_eq(event.parent, at);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_USER, "open", 0, &event), 0);
    ck_assert_int_eq(event.end_ns, first.end_ns);
    tenon_profiler_destroy(&profiler);
}
END_TEST

START_TEST(threads_may_come_and_go) {
    enum { THREADS = 100 };
    static runner r;
    make_runner(&r, TENON_BACKEND_REFERENCE);
    tenon_profiler *profiler = make_profiler(&everything);
    pthread_t thread;
    tenon_event event;
    OK(tenon_profiler_start(profiler));
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&thread, NULL, short_thread, &r), 0);
        pthread_join(thread, NULL);
    }
    drop_runner(&r);
    OK(tenon_profiler_stop(profiler));
    check_nesting(profiler);
    ck_assert_int_eq(count_events(profiler, TENON_EVENT_USER, "thread"), THREADS);
    ck_assert_int_eq(count_events(profiler, TENON_EVENT_RUN, "tenon_context_run"), THREADS);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_KERNEL, "aten.convolution", 0, &event), 0);
    ck_assert_str_eq(event.module, "features.0");
    tenon_profiler_destroy(&profiler);
}
END_TEST

enum { BEFORE, STARTED, STOPPING, STOPPED, MOMENTS };

typedef struct worker {
    runner r;
    pthread_t thread;
    atomic_bool *ends;
    atomic_long runs;
    atomic_long id;      /* the kernel's, of the thread */
    long noted[MOMENTS]; /* runs, at moments of a recording */
    int steps;           /* of a run */
    bool failed;
} worker;

static void *work(void *user) {
    worker *w = user;
    atomic_store(&w->id, syscall(SYS_gettid));
    while (!atomic_load(w->ends)) {
        tenon_record_function_begin("work");
        w->failed = w->failed || try_run(&w->r, 1 + atomic_load(&w->runs) % 2) != TENON_OK;
        tenon_record_function_end();
        atomic_fetch_add(&w->runs, 1);
    }
    return NULL;
}

enum { WORKERS = 3 };

static void start_workers(worker *workers, int count, atomic_bool *ends) {
    for (int i = 0; i < count; i++) {
        make_runner(&workers[i].r, i == 0 ? TENON_BACKEND_ONEDNN : TENON_BACKEND_REFERENCE);
        workers[i].ends = ends;
        workers[i].steps = i == 0 ? 3 : 4; /* a convolution and its ReLU are one */
        ck_assert_int_eq(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
}

static void stop_workers(worker *workers, int count, atomic_bool *ends) {
    atomic_store(ends, true);
    for (int i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
        ck_assert(!workers[i].failed);
        drop_runner(&workers[i].r);
    }
}

static void wait_for_runs(worker *workers, int count, long more) {
    for (int i = 0; i < count; i++)
        for (long from = atomic_load(&workers[i].runs);
             atomic_load(&workers[i].runs) < from + more;)
            sched_yield();
}

static void note_runs(worker *workers, int moment) {
    for (int i = 0; i < WORKERS; i++)
        workers[i].noted[moment] = atomic_load(&workers[i].runs);
}

/* Every run that began and ended within the recording is there with all its steps, on its own
 * thread; what the recording's end cut off, or its beginning, is at most one run a thread. */
static void check_runs(const tenon_profiler *profiler, const worker *w, bool scheduled) {
    tenon_event run, event;
    long whole = 0, cut = 0, loose = 0;
    for (int at = -1;
         (at = find_event(profiler, TENON_EVENT_RUN, "tenon_context_run", at + 1, &run)) >= 0;) {
        int steps = 0, children = 0;
        if (run.thread != atomic_load(&w->id))
            continue;
        for (int e = at + 1; children < run.child_count; e++) {
            tenon_profiler_get_event(profiler, e, &event);
            children += event.parent == at;
            steps += event.parent == at && event.node_count > 0;
        }
        whole += steps == w->steps;
        cut += steps != w->steps;
    }
    for (int e = 0; tenon_profiler_get_event(profiler, e, &event); e++)
        loose += event.thread == atomic_load(&w->id) && event.node_count > 0 && event.parent < 0;
    ck_assert_int_le(cut, 1);
    ck_assert_int_le(loose, w->steps);
    ck_assert_int_le(whole, w->noted[STOPPED] - w->noted[BEFORE] + 1);
    ck_assert_int_ge(whole, scheduled ? 1 : w->noted[STOPPING] - w->noted[STARTED] - 1);
}

/* Recordings begin and end in the middle of runs. */
START_TEST(recordings_cut_through_runs) {
    static worker workers[WORKERS];
    static const tenon_profiler_schedule schedule = {.wait = 1, .warmup = 1, .active = 2};
    atomic_bool ends = false;
    start_workers(workers, WORKERS, &ends);
    wait_for_runs(workers, WORKERS, 3);
    for (int i = 0; i < 30; i++) {
        tenon_profiler_options options = everything;
        options.schedule = i % 2 ? &schedule : NULL;
        tenon_profiler *profiler = make_profiler(&options);
        note_runs(workers, BEFORE);
        OK(tenon_profiler_start(profiler));
        note_runs(workers, STARTED);
        for (int step = 0; step < 4; step++) {
            wait_for_runs(workers, WORKERS, 2);
            if (step < 3)
                OK(tenon_profiler_step(profiler));
        }
        note_runs(workers, STOPPING);
        OK(tenon_profiler_stop(profiler));
        note_runs(workers, STOPPED);
        check_nesting(profiler);
        for (int w = 0; w < WORKERS; w++)
            check_runs(profiler, &workers[w], options.schedule != NULL);
        tenon_profiler_destroy(&profiler);
    }
    stop_workers(workers, WORKERS, &ends);
}
END_TEST

/* Sessions that have gone are still there in what was recorded of them, from the middle of a run
 * on. */
START_TEST(sessions_may_go_while_they_are_recorded) {
    static worker workers[WORKERS];
    for (int i = 0; i < 10; i++) {
        atomic_bool ends = false;
        tenon_profiler *profiler = make_profiler(&everything);
        tenon_event event;
        start_workers(workers, WORKERS, &ends);
        wait_for_runs(workers, WORKERS, 1);
        OK(tenon_profiler_start(profiler));
        stop_workers(workers, WORKERS, &ends);
        OK(tenon_profiler_stop(profiler));
        int without = 0;
        for (int e = 0; tenon_profiler_get_event(profiler, e, &event); e++)
            without += event.kind == TENON_EVENT_KERNEL && !*event.shapes;
        ck_assert_int_eq(without, 0);
        tenon_profiler_destroy(&profiler);
    }
}
END_TEST

/* Inside a parallel region a thread of its own compiles, while the caller waits: what it does is
 * recorded as the caller's. */
#ifndef __SANITIZE_THREAD__ /* which does not see gomp's barriers */
START_TEST(work_for_another_thread_is_recorded_as_its) {
    static runner r;
    tenon_event compile, pass;
    tenon_status status = TENON_INTERNAL;
    make_runner(&r, TENON_BACKEND_REFERENCE);
    tenon_profiler *profiler = make_profiler(NULL);
    OK(tenon_profiler_start(profiler));
#pragma omp parallel num_threads(2)
#pragma omp master
    status = try_run(&r, 1);
    OK(tenon_profiler_stop(profiler));
    OK(status);
    check_nesting(profiler);
    int at = find_event(profiler, TENON_EVENT_COMPILE, "compile: net", 0, &compile);
    ck_assert_int_ge(at, 0);
    ck_assert_int_ge(find_event(profiler, TENON_EVENT_PASS, "pass: layout", 0, &pass), 0);
    ck_assert_int_eq(pass.parent, at);
    ck_assert_int_eq(pass.thread, (int64_t)getpid());
    tenon_profiler_destroy(&profiler);
    drop_runner(&r);
}
END_TEST
#endif

/* ---- Fork ---- */

/* 0 when all is right in a child of fork. */
static int child_of_fork(tenon_profiler *profiler, runner *r) {
    tenon_event event;
    alarm(60); /* for one that hangs */
    tenon_record_function_begin("child");
    tenon_record_function_end();
    if (try_run(r, 1) != TENON_OK)
        return 1;
    if (tenon_profiler_stop(profiler) != TENON_OK ||
        find_event(profiler, TENON_EVENT_USER, "parent", 0, &event) < 0)
        return 2;
    if (find_event(profiler, TENON_EVENT_USER, "child", 0, &event) >= 0)
        return 3;
    tenon_profiler_destroy(&profiler);
    if (tenon_profiler_create(NULL, &profiler) != TENON_OK ||
        tenon_profiler_start(profiler) != TENON_OK)
        return 4;
    tenon_record_function_begin("child");
    if (try_run(r, 1) != TENON_OK)
        return 5;
    tenon_record_function_end();
    if (tenon_profiler_stop(profiler) != TENON_OK ||
        find_event(profiler, TENON_EVENT_USER, "child", 0, &event) != 0 ||
        event.thread != (int64_t)getpid() || event.child_count != 1 ||
        find_event(profiler, TENON_EVENT_USER, "work", 0, &event) >= 0)
        return 6;
    tenon_profiler_destroy(&profiler);
    return 0;
}

/* AddressSanitizer's own allocator leaves a child the locks that other threads held (seen with gcc
 * 12), so that nothing else runs there. */
#ifdef __SANITIZE_ADDRESS__
enum { FORK_WORKERS = 0 };
#else
enum { FORK_WORKERS = WORKERS };
#endif

START_TEST(children_of_fork_go_on) {
    static worker workers[WORKERS];
    static runner r;
    atomic_bool ends = false;
    make_runner(&r, TENON_BACKEND_REFERENCE);
    run_once(&r, 1);
    start_workers(workers, FORK_WORKERS, &ends);
    for (int i = 0; i < 20; i++) {
        int status = -1;
        tenon_profiler *profiler = make_profiler(&everything);
        OK(tenon_profiler_start(profiler));
        tenon_record_function_begin("parent");
        wait_for_runs(workers, FORK_WORKERS, 1);
        pid_t child = fork();
        if (child == 0) /* no assertion there: another thread may have held Check's lock */
            _exit(child_of_fork(profiler, &r));
        ck_assert_int_gt(child, 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_msg(status == 0, "the child ends with status %d", status);
        tenon_record_function_end();
        OK(tenon_profiler_stop(profiler)); /* the parent's goes on, too */
        check_nesting(profiler);
        ck_assert_int_eq(count_events(profiler, TENON_EVENT_USER, "parent"), 1);
        ck_assert_int_eq(count_events(profiler, TENON_EVENT_USER, "child"), 0);
        tenon_profiler_destroy(&profiler);
    }
    stop_workers(workers, FORK_WORKERS, &ends);
    drop_runner(&r);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("profiler_robust");
    TCase *tests = tcase_create("much"), *threads = tcase_create("threads");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, functions_of_the_user_cannot_pull_it_away);
    tcase_add_test(tests, short_profiles_do_not_grow_memory);
    tcase_add_test(tests, many_events_take_bounded_memory);
    tcase_add_test(tests, stacks_are_shared);
    tcase_add_test(tests, deep_nesting_is_kept);
    tcase_add_test(tests, ranges_end_with_what_they_lie_in);
    tcase_add_test(tests, callbacks_cannot_break_the_nesting);
    tcase_set_timeout(threads, 120);
    tcase_add_test(threads, ranges_belong_to_their_thread);
    tcase_add_test(threads, steps_may_be_taken_by_another_thread);
    tcase_add_test(threads, threads_may_come_and_go);
    tcase_add_test(threads, recordings_cut_through_runs);
    tcase_add_test(threads, sessions_may_go_while_they_are_recorded);
#ifndef __SANITIZE_THREAD__
    tcase_add_test(threads, work_for_another_thread_is_recorded_as_its);
#endif
    tcase_add_test(threads, children_of_fork_go_on);
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, threads);
    return run_suite(suite);
}
