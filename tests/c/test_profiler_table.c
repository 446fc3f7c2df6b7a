/* Averages, tables and modules: of recordings made by hand, and of runs. */
#include "profiler/profiler.h"
#include "run_graph.h"
#include <malloc.h>
#include <stdio.h>

/* ---- Recordings made by hand ---- */

#define US 1000

/* Two steps with a range of the user's in the first; and an event by itself. */
static const tenon_event made[] = {
    {.name = "ProfilerStep#2",
     .kind = TENON_EVENT_STEP,
     .end_ns = 1500 * US,
     .parent = -1,
     .memory = 3584},
    {.name = "outer",
     .kind = TENON_EVENT_USER,
     .start_ns = 1 * US,
     .end_ns = 901 * US,
     .parent = 0,
     .memory = 3072},
    {.name = "aten.mm",
     .kind = TENON_EVENT_KERNEL,
     .start_ns = 2 * US,
     .end_ns = 12500,
     .parent = 1,
     .memory = 2048,
     .flops = 2400000,
     .shapes = "float32[2, 3]",
     .module = "a.b",
     .stack = "f.py:1\ng.py:2\nmain.py:3"},
    {.name = "inner",
     .kind = TENON_EVENT_USER,
     .start_ns = 20 * US,
     .end_ns = 50 * US,
     .parent = 1,
     .memory = 1024},
    {.name = "aten.mm",
     .kind = TENON_EVENT_KERNEL,
     .start_ns = 21 * US,
     .end_ns = 31 * US,
     .parent = 3,
     .flops = 2400000,
     .shapes = "float32[2, 3]",
     .module = "a.c",
     .stack = "f.py:1\nh.py:9"},
    {.name = "aten.relu",
     .kind = TENON_EVENT_KERNEL,
     .start_ns = 60 * US,
     .end_ns = 60250,
     .parent = 1,
     .flops = 1500,
     .shapes = "float32[2, 2]",
     .module = "a.b",
     .stack = "f.py:4"},
    {.name = "aten.mm",
     .kind = TENON_EVENT_KERNEL,
     .start_ns = 1000 * US,
     .end_ns = 1200 * US,
     .parent = 0,
     .flops = 4800000,
     .shapes = "float32[4, 3]",
     .module = "a.b",
     .stack = "f.py:1\ng.py:2\nmain.py:3"},
    {.name = "ProfilerStep#3",
     .kind = TENON_EVENT_STEP,
     .start_ns = 2000 * US,
     .end_ns = 2500 * US,
     .parent = -1},
    {.name = "aten.a_name_that_is_longer_than_the_column_is_wide_by_far",
     .kind = TENON_EVENT_KERNEL,
     .start_ns = 3000 * US,
     .end_ns = 2003000 * (int64_t)US,
     .parent = -1,
     .memory = -5 * 1024 * 1024},
};

typedef struct recording {
    tenon_profiler profiler;
    tn_trace trace;
    tenon_event events[16];
} recording;

/* Self times and memory follow from the others. */
static void fill(recording *r, const tenon_event *events, int count) {
    *r = (recording){.trace = {.events = r->events, .event_count = count}};
    r->profiler.trace = &r->trace;
    r->profiler.options = (tenon_profiler_options){.profile_memory = true, .with_flops = true};
    for (int i = 0; i < count; i++) {
        tenon_event *event = &r->events[i];
        *event = events[i];
        event->shapes = event->shapes ? event->shapes : "";
        event->module = event->module ? event->module : "";
        event->stack = event->stack ? event->stack : "";
        event->self_ns = event->end_ns - event->start_ns;
        event->self_memory = event->memory;
        if (event->parent >= 0) {
            r->events[event->parent].self_ns -= event->self_ns;
            r->events[event->parent].self_memory -= event->memory;
        }
    }
}

static tenon_averages *averages_of(const tenon_profiler *profiler,
                                   const tenon_group_options *groups) {
    tenon_averages *averages = NULL;
    OK(tenon_profiler_key_averages(profiler, groups, &averages));
    return averages;
}

static tenon_averages *averages_of_made(const tenon_group_options *groups) {
    static recording r;
    fill(&r, made, sizeof made / sizeof *made);
    return averages_of(&r.profiler, groups);
}

static char *table_of(const tenon_averages *averages, const tenon_table_options *options) {
    char *text = NULL;
    OK(tenon_averages_table(averages, options, &text));
    return text;
}

static void says(const tenon_averages *averages, const tenon_table_options *options,
                 const char *what) {
    char *text = table_of(averages, options);
    if (!strstr(text, what))
        fprintf(stderr, "%s", text); /* longer than what Check takes */
    ck_assert_msg(strstr(text, what) != NULL, "\"%s\" is not in the table", what);
    tenon_string_free(text);
}

static void says_not(const tenon_averages *averages, const tenon_table_options *options,
                     const char *what) {
    char *text = table_of(averages, options);
    ck_assert_msg(strstr(text, what) == NULL, "\"%s\" is in the table", what);
    tenon_string_free(text);
}

/* PyTorch 2.13's EventList.key_averages().table() of FunctionEvents with the same numbers. */
START_TEST(the_table_is_pytorchs) {
    static char wanted[1 << 14];
    FILE *file = fopen(TEST_DATA "/profiler/table.txt", "r");
    ck_assert_ptr_nonnull(file);
    wanted[fread(wanted, 1, sizeof wanted - 1, file)] = 0;
    fclose(file);
    tenon_averages *averages = averages_of_made(NULL);
    char *text = table_of(averages, NULL);
    ck_assert_str_eq(text, wanted);
    tenon_string_free(text);
    tenon_averages_destroy(&averages);
}
END_TEST

static void check_average(const tenon_averages *averages, int index, const char *name,
                          int64_t count, int64_t self_us, int64_t us) {
    tenon_average a;
    ck_assert(tenon_averages_get(averages, index, &a));
    ck_assert_str_eq(a.name, name);
    ck_assert_int_eq(a.count, count);
    ck_assert_int_eq(a.self_cpu_ns, self_us * US);
    ck_assert_int_eq(a.cpu_ns, us * US);
}

/* An event within one of the same group is part of it; events of other threads are not. */
START_TEST(nested_events_of_a_name_count_once) {
    static recording r;
    const tenon_event events[] = {
        {.name = "a", .kind = TENON_EVENT_USER, .end_ns = 100 * US, .parent = -1, .memory = 64},
        {.name = "a", .kind = TENON_EVENT_USER, .end_ns = 60 * US, .parent = 0, .memory = 32},
        {.name = "b", .kind = TENON_EVENT_USER, .end_ns = 50 * US, .parent = 1, .memory = 16},
        {.name = "a", .kind = TENON_EVENT_USER, .end_ns = 20 * US, .parent = 2, .memory = 8},
        {.name = "b", .kind = TENON_EVENT_USER, .end_ns = 5 * US, .parent = 0},
        {.name = "a", .kind = TENON_EVENT_USER, .end_ns = 7 * US, .parent = -1},
        {.name = "b", .kind = TENON_EVENT_USER, .end_ns = 3 * US, .parent = -1},
        /* not a range of the user's */
        {.name = "a", .kind = TENON_EVENT_KERNEL, .end_ns = 1 * US, .parent = 6},
    };
    tenon_average a;
    fill(&r, events, sizeof events / sizeof *events);
    tenon_averages *averages = averages_of(&r.profiler, NULL);
    ck_assert_int_eq(tenon_averages_count(averages), 3);
    check_average(averages, 0, "a", 4, 100 - 60 - 5 + 60 - 50 + 20 + 7, 100 + 7);
    check_average(averages, 1, "b", 3, 50 - 20 + 5 + 3 - 1, 50 + 5 + 3);
    check_average(averages, 2, "a", 1, 1, 1);
    ck_assert(tenon_averages_get(averages, 0, &a));
    ck_assert_int_eq(a.memory, 64);
    ck_assert_int_eq(a.self_memory, 64 - 16 + 8);
    tenon_averages_total(averages, &a);
    ck_assert_str_eq(a.name, "Total");
    ck_assert_int_eq(a.count, 8);
    ck_assert_int_eq(a.self_cpu_ns, 110 * US);
    ck_assert_int_eq(a.cpu_ns, 110 * US);
    ck_assert_int_eq(a.memory, 64);
    ck_assert(!tenon_averages_get(averages, 3, &a));
    ck_assert(!tenon_averages_get(averages, -1, &a));
    tenon_averages_destroy(&averages);
    tenon_averages_destroy(&averages);
}
END_TEST

START_TEST(groups) {
    tenon_average a;
    tenon_averages *averages = averages_of_made(&(tenon_group_options){.by_input_shape = true});
    ck_assert_int_eq(tenon_averages_count(averages), 7);
    ck_assert(tenon_averages_get(averages, 2, &a));
    ck_assert_str_eq(a.shapes, "float32[2, 3]");
    ck_assert_int_eq(a.count, 2);
    ck_assert_double_eq(a.flops, 4800000);
    says(averages, NULL, "  Input Shapes  ");
    tenon_averages_destroy(&averages);

    averages = averages_of_made(&(tenon_group_options){.by_stack_n = 1});
    ck_assert_int_eq(tenon_averages_count(averages), 6);
    ck_assert(tenon_averages_get(averages, 2, &a));
    ck_assert_str_eq(a.stack, "f.py:1");
    ck_assert_int_eq(a.count, 3);
    says(averages, NULL, "Source Location");
    tenon_averages_destroy(&averages);

    averages = averages_of_made(&(tenon_group_options){.by_stack_n = 2});
    ck_assert_int_eq(tenon_averages_count(averages), 7);
    ck_assert(tenon_averages_get(averages, 2, &a));
    ck_assert_str_eq(a.stack, "f.py:1\ng.py:2");
    says(averages, NULL, "  f.py:1           \n");
    says(averages, NULL, "  g.py:2           \n");
    says_not(averages, NULL, "main.py");
    tenon_averages_destroy(&averages);

    averages = averages_of_made(&(tenon_group_options){.by_stack_n = 9});
    ck_assert(tenon_averages_get(averages, 2, &a));
    ck_assert_str_eq(a.stack, "f.py:1\ng.py:2\nmain.py:3");
    tenon_averages_destroy(&averages);

    averages = averages_of_made(&(tenon_group_options){.by_module = true});
    ck_assert_int_eq(tenon_averages_count(averages), 7);
    ck_assert(tenon_averages_get(averages, 4, &a));
    ck_assert_str_eq(a.module, "a.c");
    says(averages, NULL, "  Module  ");
    tenon_averages_destroy(&averages);

    averages = NULL;
    static recording r;
    fill(&r, made, 1);
    FAILS(tenon_profiler_key_averages(&r.profiler, &(tenon_group_options){.by_stack_n = -1},
                                      &averages),
          TENON_INVALID_ARGUMENT, "by_stack_n is -1");
    ck_assert_ptr_null(averages);
}
END_TEST

/* The rows' order, by a letter of each name. */
static void check_order(const tenon_averages *averages, const char *key, const char *letters) {
    char *text = table_of(averages, &(tenon_table_options){.sort_by = key});
    const char *at = text;
    for (int i = 0; i < 3; i++)
        at = strchr(at, '\n') + 1;
    for (const char *letter = letters; *letter; letter++) {
        at += strspn(at, " ");
        ck_assert_msg(*at == *letter, "%s: '%c' instead of '%c' in\n%s", key ? key : "none", *at,
                      *letter, text);
        at = strchr(at, '\n') + 1;
    }
    ck_assert_int_eq(*at, '-');
    tenon_string_free(text);
}

START_TEST(rows_are_sorted) {
    static recording r;
    const tenon_event events[] = {
        {.name = "a", .end_ns = 10 * US, .parent = -1, .memory = 5},
        {.name = "b", .end_ns = 9 * US, .parent = 0, .memory = 6, .flops = 7},
        {.name = "c", .end_ns = 30 * US, .parent = -1, .memory = -4, .flops = 9},
        {.name = "d", .end_ns = 8 * US, .parent = -1},
        {.name = "d", .end_ns = 10 * US, .parent = -1},
        {.name = "d", .end_ns = 9 * US, .parent = -1},
        {.name = "e", .end_ns = 9 * US, .parent = -1},
    };
    fill(&r, events, sizeof events / sizeof *events);
    tenon_averages *averages = averages_of(&r.profiler, NULL);
    check_order(averages, NULL, "abcde");
    check_order(averages, "cpu_time", "cabde"); /* equal ones stay in order */
    check_order(averages, "cpu_time_total", "cdabe");
    check_order(averages, "self_cpu_time_total", "cdbea");
    check_order(averages, "cpu_memory_usage", "badec");
    check_order(averages, "self_cpu_memory_usage", "bdeac");
    check_order(averages, "count", "dabce");
    check_order(averages, "flops", "cbade");
    check_order(averages, "key", "edcba");
    tenon_averages_destroy(&averages);
}
END_TEST

START_TEST(options_are_followed) {
    tenon_averages *averages = averages_of_made(NULL);
    const tenon_table_options narrow = {.max_name_column_width = 8},
                              wide = {.max_name_column_width = -1},
                              top = {.top_level_events_only = true, .header = "Of the day"};
    says(averages, &narrow, "\nProfi...  ");
    says(averages, &narrow, "\n   outer  ");
    says(averages, &wide, "\n    aten.a_name_that_is_longer_than_the_column_is_wide_by_far  ");
    says(averages, &top, "===\nOf the day\n===");
    says(averages, &top, "top-level events only\n");
    says_not(averages, &top, "outer");
    says_not(averages, &top, "aten.mm");
    says(averages, &top, "ProfilerStep*");
    says(averages, &(tenon_table_options){.time_unit = "s"}, "  0.001s  ");
    says(averages, &(tenon_table_options){.time_unit = "ms"}, "total: 2002.000ms\n");
    says(averages, &(tenon_table_options){.time_unit = "us"}, "  2000000.000us  ");
    const tenon_table_options two = {.row_limit = 2, .sort_by = "count"};
    says(averages, &two, "aten.mm");
    says(averages, &two, "ProfilerStep*");
    says_not(averages, &two, "outer");
    says(averages, &two, "Self CPU time total: 2.002s\n"); /* of all */
    tenon_averages_destroy(&averages);

    averages = averages_of_made(&(tenon_group_options){.by_input_shape = true, .by_stack_n = 3});
    const tenon_table_options small = {.max_shapes_column_width = 10, .max_src_column_width = 8};
    says(averages, &small, "  float32...  ");
    says(averages, &small, "  ....py:3  "); /* the end says more */
    tenon_averages_destroy(&averages);
}
END_TEST

START_TEST(what_cannot_be_shown_is_refused) {
    static const char *const devices[] = {"cuda_time", "self_cuda_time_total", "cuda_memory_usage",
                                          "xpu_time_total", "self_device_time_total"};
    tenon_averages *averages = averages_of_made(NULL);
    char *text = NULL;
#define REFUSED(message, ...)                                                         \
    FAILS(tenon_averages_table(averages, &(tenon_table_options){__VA_ARGS__}, &text), \
          TENON_INVALID_ARGUMENT, message)
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        REFUSED("Tenon runs on CPUs only", .sort_by = devices[i]);
        REFUSED(devices[i], .sort_by = devices[i]);
    }
    REFUSED("is about CUDA", .sort_by = "self_cuda_time_total");
    REFUSED("no key 'time'; there are: cpu_time, cpu_time_total, self_cpu_time_total, "
            "cpu_memory_usage, self_cpu_memory_usage, count, flops, key",
            .sort_by = "time");
    REFUSED("no key ''", .sort_by = "");
    REFUSED("row_limit is -2", .row_limit = -2);
    REFUSED("max_name_column_width is 3", .max_name_column_width = 3);
    REFUSED("max_shapes_column_width is -2", .max_shapes_column_width = -2);
    REFUSED("max_src_column_width is 1", .max_src_column_width = 1);
    REFUSED("time_unit is 'h'", .time_unit = "h");
    ck_assert_ptr_null(text);
    tenon_averages_destroy(&averages);
}
END_TEST

START_TEST(names_may_hold_anything) {
    static recording r;
    const tenon_event events[] = {
        {.name = "a\nb\033[1m\x7F", .end_ns = 1, .parent = -1},
        {.name = "\xC3\xA9t\xC3\xA9", .end_ns = 1, .parent = -1}, /* three characters */
        {.name = "\xFF\x80", .end_ns = 1, .parent = -1},
        {.name = "", .end_ns = 1, .parent = -1},
        {.name = "%s%n", .end_ns = 0, .parent = -1},
    };
    fill(&r, events, sizeof events / sizeof *events);
    tenon_averages *averages = averages_of(&r.profiler, NULL);
    says(averages, NULL, "\n    a b [1m   ");
    says(averages, NULL, "\n         \xC3\xA9t\xC3\xA9  ");
    says(averages, NULL, "\n        %s%n  ");
    says(averages, &(tenon_table_options){.max_name_column_width = 6}, "\na b...  ");
    tenon_averages_destroy(&averages);
    fill(&r, events, 0);
    averages = averages_of(&r.profiler, NULL);
    char *text = table_of(averages, NULL);
    ck_assert_str_eq(text, "");
    tenon_string_free(text);
    tenon_averages_destroy(&averages);
    fill(&r, &events[4], 1); /* nothing took any time */
    averages = averages_of(&r.profiler, NULL);
    says(averages, NULL, "  NaN  ");
    tenon_averages_destroy(&averages);
}
END_TEST

/* ---- Runs ---- */

#define IN(module) " in \"" module "\"\n"

static const char net[] =
    "graph net {\n"
    "  input %x: float32[1, 16, 8, 8]\n"
    "  const %w: float32[24, 16, 3, 3] = random(1)\n"
    "  const %b: float32[24] = random(2)\n"
    "  const %l: float32[24, 40] = random(3)\n"
    "  %c = aten.convolution(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, "
    "[0, 0], 1)" IN("body.0.conv") "  %r = aten.relu(%c)" IN(
        "body.0.act") "  %m = aten.mean.dim(%r, [2, 3])\n"
                      "  %p = aten.mm(%m, %l)" IN("head") "  %q = aten.sin(%p)" IN(
                          "head") "  output \"q\" = %q\n"
                                  "}\n";

typedef struct runner {
    tenon_session *session;
    tenon_context *context;
    float x[16 * 8 * 8];
} runner;

static void make_runner(runner *r, tenon_backend backend, bool split) {
    tenon_graph *graph = parse_graph(net);
    OK(tenon_session_create(
        graph, &(tenon_session_options){.backend = backend, .threads = 1, .split_ops = split},
        &r->session));
    tenon_graph_destroy(&graph);
    OK(tenon_context_create(r->session, &r->context));
    for (size_t i = 0; i < sizeof r->x / sizeof *r->x; i++)
        r->x[i] = (float)(i % 13) / 6 - 1;
}

static tenon_view run_once(runner *r) {
    tenon_view input = view_of(r->x, TENON_FLOAT32, 1, 16, 8, 8), output = {0};
    OK(tenon_context_run(r->context, &input, 1, &output, 1));
    return output;
}

static void drop_runner(runner *r) {
    tenon_context_destroy(&r->context);
    tenon_session_destroy(&r->session);
}

static tenon_profiler *record(runner *r, int runs) {
    tenon_profiler *profiler = NULL;
    OK(tenon_profiler_create(
        &(tenon_profiler_options){.record_shapes = true, .with_flops = true, .with_modules = true},
        &profiler));
    OK(tenon_profiler_start(profiler));
    for (int i = 0; i < runs; i++)
        run_once(r);
    OK(tenon_profiler_stop(profiler));
    return profiler;
}

START_TEST(reading_changes_nothing) {
    static runner r;
    make_runner(&r, TENON_BACKEND_AUTO, false);
    tenon_profiler *profiler = record(&r, 5);
    drop_runner(&r);
    tenon_averages *first = averages_of(profiler, NULL), *second = averages_of(profiler, NULL);
    char *a = table_of(first, NULL), *b = table_of(second, NULL), *again = table_of(first, NULL);
    ck_assert_str_eq(a, b);
    ck_assert_str_eq(a, again);
    int64_t roots = 0, self = 0;
    tenon_event event;
    for (int i = 0; tenon_profiler_get_event(profiler, i, &event); i++)
        roots += event.parent < 0 ? event.end_ns - event.start_ns : 0;
    tenon_profiler_destroy(&profiler); /* averages stand by themselves */
    tenon_average average;
    for (int i = 0; tenon_averages_get(first, i, &average); i++) {
        ck_assert_int_le(average.self_cpu_ns, average.cpu_ns);
        ck_assert_int_le(average.cpu_ns, roots);
        self += average.self_cpu_ns;
    }
    ck_assert_int_eq(self, roots);
    ck_assert_int_gt(roots, 0);
    says(first, NULL, "tenon_context_run");
    tenon_string_free(a);
    tenon_string_free(b);
    tenon_string_free(again);
    tenon_averages_destroy(&first);
    tenon_averages_destroy(&second);
}
END_TEST

START_TEST(short_profiles_leave_no_memory) {
    static runner r;
    size_t before = 0;
    make_runner(&r, TENON_BACKEND_REFERENCE, false);
    for (int i = 0; i < 1100; i++) {
        if (i == 100)
            before = mallinfo2().uordblks;
        tenon_profiler *profiler = record(&r, 1);
        tenon_averages *averages = averages_of(profiler, NULL);
        tenon_string_free(table_of(averages, NULL));
        tenon_averages_destroy(&averages);
        tenon_profiler_destroy(&profiler);
    }
    size_t after = mallinfo2().uordblks;
    ck_assert_msg(after <= before + 4096, "%zu bytes became %zu", before, after);
    drop_runner(&r);
}
END_TEST

static int find_module(const tenon_module_times *times, const char *path, tenon_module_time *out) {
    for (int i = 0; tenon_module_times_get(times, i, out); i++)
        if (strcmp(out->path, path) == 0)
            return i;
    ck_abort_msg("there is no module '%s'", path);
    return -1;
}

/* Self times sum up to the time of the steps, and totals to those of the modules within. */
static void check_modules(const tenon_profiler *profiler, const tenon_module_times *times) {
    tenon_module_time time, parent;
    tenon_event event;
    int64_t steps = 0, self = 0, within[16] = {0};
    for (int i = 0; tenon_profiler_get_event(profiler, i, &event); i++)
        steps += event.kind <= TENON_EVENT_COPY ? event.end_ns - event.start_ns : 0;
    ck_assert_int_le(tenon_module_times_count(times), 16);
    for (int i = 0; tenon_module_times_get(times, i, &time); i++) {
        self += time.self_ns;
        if (time.parent < 0)
            continue;
        ck_assert_int_lt(time.parent, i);
        ck_assert(tenon_module_times_get(times, time.parent, &parent));
        ck_assert_int_eq(parent.depth, time.depth - 1);
        within[time.parent] += time.total_ns;
    }
    for (int i = 0; tenon_module_times_get(times, i, &time); i++)
        ck_assert_int_eq(time.total_ns, time.self_ns + within[i]);
    ck_assert(tenon_module_times_get(times, 0, &time));
    ck_assert_int_eq(time.parent, -1);
    ck_assert_int_eq(time.total_ns, steps);
    ck_assert_int_eq(self, steps);
}

START_TEST(partitions_are_shared_out_among_modules) {
    static runner r;
    make_runner(&r, TENON_BACKEND_ONEDNN, false);
    tenon_profiler *profiler = record(&r, 3);
    tenon_module_times *times = NULL;
    tenon_module_time model, conv, act, block, head;
    tenon_event event;
    int64_t fused = 0;
    char *text = NULL;
    OK(tenon_profiler_module_times(profiler, &times));
    check_modules(profiler, times);
    ck_assert_int_eq(find_module(times, "", &model), 0);
    find_module(times, "body.0", &block);
    find_module(times, "body.0.conv", &conv);
    find_module(times, "body.0.act", &act);
    find_module(times, "head", &head);
    for (int i = 0; tenon_profiler_get_event(profiler, i, &event); i++)
        fused += strcmp(event.name, "Convolution+ReLU") == 0 ? event.end_ns - event.start_ns : 0;
    ck_assert_int_gt(fused, 0);
    ck_assert_int_eq(block.depth, 2);
    ck_assert_int_eq(block.self_ns, 0);
    ck_assert_int_eq(block.total_ns, fused);
    ck_assert_int_eq(block.estimated_ns, fused);
    ck_assert_int_eq(head.estimated_ns, 0);
    ck_assert_int_eq(model.estimated_ns, fused);
    ck_assert_int_eq(conv.count, 3);
    ck_assert_int_eq(head.count, 6);
    /* Operations, and 8 for each byte: the convolution reads, the ReLU writes. */
    double of_conv = 2.0 * 1536 * 144 + 8.0 * 4 * (16 * 8 * 8 + 24 * 144 + 24);
    double of_act = 1536 + 8.0 * 4 * 1536;
    double wanted = (double)fused * of_conv / (of_conv + of_act);
    ck_assert_double_eq_tol((double)conv.self_ns, wanted, 1);
    ck_assert_int_eq(act.self_ns, fused - conv.self_ns);
    ck_assert_double_eq(conv.flops, 3 * 2.0 * 1536 * 144);
    ck_assert_double_eq(block.flops, 3 * (2.0 * 1536 * 144 + 1536));
    ck_assert(!tenon_module_times_perturbed(times));
    OK(tenon_module_times_table(times, 0, &text));
    ck_assert_ptr_nonnull(strstr(text, "\n(model) "));
    ck_assert_ptr_nonnull(strstr(text, "\n  body "));
    ck_assert_ptr_nonnull(strstr(text, "\n    0 "));
    ck_assert_ptr_nonnull(strstr(text, "\n      conv "));
    ck_assert_ptr_nonnull(strstr(text, "\nEstimated: "));
    tenon_string_free(text);
    OK(tenon_module_times_table(times, 2, &text));
    ck_assert_ptr_null(strstr(text, "\n    0 "));
    tenon_string_free(text);
    FAILS(tenon_module_times_table(times, -2, &text), TENON_INVALID_ARGUMENT, "row_limit is -2");
    tenon_module_times_destroy(&times);
    tenon_profiler_destroy(&profiler);
    drop_runner(&r);
}
END_TEST

START_TEST(split_ops_runs_each_node_by_itself) {
    static runner fused, split;
    make_runner(&fused, TENON_BACKEND_ONEDNN, false);
    make_runner(&split, TENON_BACKEND_ONEDNN, true);
    tenon_profiler *profiler = record(&split, 2);
    tenon_module_times *times = NULL;
    tenon_module_time model;
    tenon_event event;
    tenon_step_info step;
    tenon_plan_info plan;
    char *text = NULL;
    int partitions = 0;
    for (int i = 0; tenon_profiler_get_event(profiler, i, &event); i++) {
        ck_assert_int_le(event.node_count, 1);
        partitions += event.kind == TENON_EVENT_ONEDNN;
    }
    ck_assert_int_ge(partitions, 2 * 4);
    OK(tenon_session_get_plan(split.session, &plan));
    int kept_apart = 0;
    for (int i = 0; i < plan.step_count; i++) {
        OK(tenon_session_get_step(split.session, i, &step));
        kept_apart += step.reason_kind == TENON_REASON_SPLIT_OPS;
    }
    ck_assert_int_ge(kept_apart, 1); /* the ReLU, which would be fused */
    const tenon_view a = run_once(&fused), b = run_once(&split);
    ck_assert_int_eq(tenon_view_numel(&a), 40);
    for (int i = 0; i < 40; i++)
        ck_assert_double_eq_tol(((float *)a.data)[i], ((float *)b.data)[i], 1e-5);
    OK(tenon_profiler_module_times(profiler, &times));
    check_modules(profiler, times);
    ck_assert(tenon_module_times_get(times, 0, &model));
    ck_assert_int_eq(model.estimated_ns, 0);
    ck_assert(tenon_module_times_perturbed(times));
    OK(tenon_module_times_table(times, -1, &text));
    ck_assert_ptr_nonnull(strstr(text, "perturbed: fusion is off"));
    ck_assert_ptr_null(strstr(text, "Estimated: "));
    tenon_string_free(text);
    tenon_averages *averages = averages_of(profiler, NULL);
    says(averages, NULL, "perturbed: fusion is off");
    tenon_averages_destroy(&averages);
    tenon_module_times_destroy(&times);
    tenon_profiler_destroy(&profiler);
    drop_runner(&fused);
    drop_runner(&split);
}
END_TEST

/* Paths with long and many components end somewhere. */
START_TEST(deep_modules_are_cut) {
    static char text[1 << 16];
    size_t used = (size_t)snprintf(text, sizeof text,
                                   "graph g {\n  input %%x: float32[2]\n  %%y = "
                                   "aten.sin(%%x) in \"");
    for (int i = 0; i < 5000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, i ? ".a" : "a");
    snprintf(text + used, sizeof text - used, "\"\n  output \"y\" = %%y\n}\n");
    tenon_session *session = make_session(text, TENON_BACKEND_REFERENCE);
    tenon_context *context = NULL;
    tenon_profiler *profiler = NULL;
    tenon_module_times *times = NULL;
    tenon_module_time time;
    float x[2] = {1, 2};
    OK(tenon_context_create(session, &context));
    OK(tenon_profiler_create(NULL, &profiler));
    OK(tenon_profiler_module_times(profiler, &times)); /* nothing was recorded */
    ck_assert_int_eq(tenon_module_times_count(times), 1);
    tenon_module_times_destroy(&times);
    OK(tenon_profiler_start(profiler));
    tenon_view input = floats(x, 2, -1), output = {0};
    OK(tenon_context_run(context, &input, 1, &output, 1));
    OK(tenon_profiler_stop(profiler));
    OK(tenon_profiler_module_times(profiler, &times));
    ck_assert_int_eq(tenon_module_times_count(times), 65);
    ck_assert(tenon_module_times_get(times, 64, &time));
    ck_assert_int_eq(time.depth, 64);
    ck_assert_int_eq(time.count, 1);
    ck_assert_int_eq(strlen(time.path), 64 * 2 - 1);
    tenon_module_times_destroy(&times);
    tenon_profiler_destroy(&profiler);
    tenon_context_destroy(&context);
    tenon_session_destroy(&session);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("profiler_table");
    TCase *tests = tcase_create("table");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, the_table_is_pytorchs);
    tcase_add_test(tests, nested_events_of_a_name_count_once);
    tcase_add_test(tests, groups);
    tcase_add_test(tests, rows_are_sorted);
    tcase_add_test(tests, options_are_followed);
    tcase_add_test(tests, what_cannot_be_shown_is_refused);
    tcase_add_test(tests, names_may_hold_anything);
    tcase_add_test(tests, reading_changes_nothing);
    tcase_add_test(tests, short_profiles_leave_no_memory);
    tcase_add_test(tests, partitions_are_shared_out_among_modules);
    tcase_add_test(tests, split_ops_runs_each_node_by_itself);
    tcase_add_test(tests, deep_modules_are_cut);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
