/* tenon profile */
#include "cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USUAL_RUNS = 10, MOST = 1000000 };

typedef struct profile {
    cli_compile compile;
    char *schedule_text, *iterations_text, *limit_text, *width_text, *stack_text, *seed_text;
    char *sort, *granularity, *trace, *stacks, *timeline, *folder, *execution;
    int shapes, memory, stack, flops, by_shape, by_module, tree;
    const char *path;
    uint64_t seed;
    int64_t iterations; /* 0: as the schedule says */
    tenon_profiler_schedule schedule;
    tenon_profiler_options options;
    tenon_group_options groups;
    tenon_table_options table;
    tenon_graph *graph;
    tenon_session *session;
    tenon_context *context;
    tenon_profiler *profiler;
    cli_inputs inputs;
    tenon_view *outputs;
    int output_count;
    int cycles; /* that were recorded */
    int code;   /* of what on_trace_ready did */
} profile;

/* ---- Options ---- */

static int take_number(const char *option, const char *text, long long min, long long max,
                       int *out) {
    long long number = *out;
    int code = text ? cli_integer(option, text, min, max, &number) : CLI_OK;
    *out = (int)number;
    return code;
}

/* One "NAME=N" of a schedule. */
static int take_part(tenon_profiler_schedule *s, const char *name, size_t length, const char *text,
                     unsigned *taken) {
    int64_t skip_first_wait = s->skip_first_wait;
    const struct {
        const char *name;
        int64_t *value;
        int min, max;
    } numbers[] = {{"wait", &s->wait, 0, MOST},
                   {"warmup", &s->warmup, 0, MOST},
                   {"active", &s->active, 1, MOST},
                   {"repeat", &s->repeat, 0, MOST},
                   {"skip_first", &s->skip_first, 0, MOST},
                   {"skip_first_wait", &skip_first_wait, 0, 1}};
    char option[64];
    long long number = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (strlen(numbers[i].name) != length || strncmp(numbers[i].name, name, length) != 0)
            continue;
        snprintf(option, sizeof option, "--schedule %s", numbers[i].name);
        if (*taken & 1u << i)
            return cli_error(CLI_USAGE, "%s is given twice", option);
        *taken |= 1u << i;
        int code = cli_integer(option, text, numbers[i].min, numbers[i].max, &number);
        *numbers[i].value = number;
        s->skip_first_wait = skip_first_wait != 0;
        return code;
    }
    return cli_error(CLI_USAGE,
                     "--schedule: there is no '%.*s'; there are wait, warmup, active, repeat, "
                     "skip_first and skip_first_wait",
                     (int)length, name);
}

/* "wait=1,warmup=1,active=3,repeat=1", in any order. */
static int take_schedule(profile *p) {
    int code = CLI_OK;
    unsigned taken = 0;
    p->schedule = (tenon_profiler_schedule){.active = 1};
    char *copy = strdup(p->schedule_text), *rest = copy, *part;
    if (!copy)
        return cli_error(CLI_FAILED, "out of memory");
    while (code == CLI_OK && (part = strsep(&rest, ",")) != NULL) {
        char *equals = strchr(part, '=');
        code = equals ? take_part(&p->schedule, part, (size_t)(equals - part), equals + 1, &taken)
                      : cli_error(CLI_USAGE, "--schedule: '%s' is not NAME=N", part);
    }
    free(copy);
    return code;
}

/* What is asked of the table is checked before the model runs. */
static int check_table(const profile *p) {
    tenon_profiler *profiler = NULL;
    tenon_averages *averages = NULL;
    char *text = NULL;
    int code = CLI_OK;
    if (tenon_profiler_create(NULL, &profiler) != TENON_OK ||
        tenon_profiler_key_averages(profiler, NULL, &averages) != TENON_OK)
        code = cli_failed();
    else if (tenon_averages_table(averages, &p->table, &text) != TENON_OK)
        code = cli_error(CLI_USAGE, "--sort: %s", tenon_last_error());
    tenon_string_free(text);
    tenon_averages_destroy(&averages);
    tenon_profiler_destroy(&profiler);
    return code;
}

static int check_numbers(profile *p) {
    int code = CLI_OK, runs = 0;
    long long seed = 0;
    if (p->seed_text)
        code = cli_integer("--random", p->seed_text, 0, INT64_MAX, &seed);
    p->seed = (uint64_t)seed;
    if (code == CLI_OK)
        code = take_number("--iterations", p->iterations_text, 1, MOST, &runs);
    p->iterations = runs;
    if (code == CLI_OK)
        code = take_number("--limit", p->limit_text, -1, MOST, &p->table.row_limit);
    if (code == CLI_OK)
        code = take_number("--width", p->width_text, 4, 10000, &p->table.max_name_column_width);
    if (code == CLI_OK)
        code = take_number("--group-by-stack", p->stack_text, 1, 1000, &p->groups.by_stack_n);
    return code;
}

static int check_files(const profile *p) {
    const cli_written files[] = {{"--trace", p->trace},
                                 {"--stacks", p->stacks},
                                 {"--memory-timeline", p->timeline},
                                 {"--execution-trace", p->execution}};
    if (p->folder && !*p->folder)
        return cli_error(CLI_USAGE, "--tensorboard: the path is empty");
    return cli_check_files(files, 4, &p->compile, &p->path, 1);
}

static void on_trace_ready(tenon_profiler *profiler, void *user);

static int check_options(profile *p) {
    int code = cli_compile_check(&p->compile);
    if (code == CLI_OK && !p->path)
        code = cli_error(CLI_USAGE, "no model is given; see --help");
    if (code == CLI_OK && p->granularity && strcmp(p->granularity, "op") != 0 &&
        strcmp(p->granularity, "partition") != 0)
        code = cli_error(CLI_USAGE, "--granularity: '%s' is not op or partition", p->granularity);
    if (code == CLI_OK)
        code = check_files(p);
    if (code == CLI_OK)
        code = check_numbers(p);
    if (code == CLI_OK && p->schedule_text) {
        code = take_schedule(p);
    } else if (code == CLI_OK) {
        p->schedule = (tenon_profiler_schedule){
            .warmup = 1, .active = p->iterations ? p->iterations : USUAL_RUNS, .repeat = 1};
        p->iterations = 0;
    }
    p->table.sort_by = p->sort ? p->sort : "self_cpu_time_total";
    p->flops |= strcmp(p->table.sort_by, "flops") == 0;
    p->memory |= strstr(p->table.sort_by, "memory") != NULL;
    p->groups.by_input_shape = p->by_shape;
    p->compile.options.split_ops = p->granularity && strcmp(p->granularity, "op") == 0;
    p->options = (tenon_profiler_options){.record_shapes = p->shapes || p->by_shape,
                                          .profile_memory = p->memory || p->timeline,
                                          .with_stack = p->stack || p->stack_text || p->stacks,
                                          .with_flops = p->flops,
                                          .with_modules = true,
                                          .schedule = &p->schedule,
                                          .on_trace_ready = on_trace_ready,
                                          .ready_user = p};
    return code == CLI_OK ? check_table(p) : code;
}

/* ---- Results ---- */

static int print_table(const profile *p) {
    tenon_averages *averages = NULL;
    char *text = NULL;
    int code = CLI_OK;
    if (tenon_profiler_key_averages(p->profiler, &p->groups, &averages) != TENON_OK ||
        tenon_averages_table(averages, &p->table, &text) != TENON_OK)
        code = cli_failed();
    else
        printf("%s", text);
    tenon_string_free(text);
    tenon_averages_destroy(&averages);
    return code;
}

static int print_modules(const profile *p) {
    tenon_module_times *times = NULL;
    char *text = NULL;
    int code = CLI_OK;
    if (tenon_profiler_module_times(p->profiler, &times) != TENON_OK ||
        tenon_module_times_table(times, p->table.row_limit, &text) != TENON_OK)
        code = cli_failed();
    else
        printf("\n%s", text);
    tenon_string_free(text);
    tenon_module_times_destroy(&times);
    return code;
}

static int print_tree(const profile *p) {
    int count = tenon_profiler_event_count(p->profiler);
    int limit = p->table.row_limit == 0 ? 100 : p->table.row_limit;
    int shown = limit < 0 || count < limit ? count : limit;
    int *depths = calloc((size_t)count + 1, sizeof *depths);
    tenon_event event;
    if (!depths)
        return cli_error(CLI_FAILED, "out of memory");
    printf("\n%14s  %14s  Event\n", "CPU total", "Self CPU");
    for (int i = 0; i < shown && tenon_profiler_get_event(p->profiler, i, &event); i++) {
        depths[i] = event.parent < 0 ? 0 : depths[event.parent] + 1;
        printf("%12.3fus  %12.3fus  %*s%s\n", (double)(event.end_ns - event.start_ns) * 1e-3,
               (double)event.self_ns * 1e-3, 2 * depths[i], "", event.name);
    }
    if (shown < count)
        printf("%*s  %d more\n", 30, "", count - shown);
    free(depths);
    return CLI_OK;
}

static int write_files(const profile *p) {
    if ((p->trace && tenon_profiler_export_chrome_trace(p->profiler, p->trace) != TENON_OK) ||
        (p->stacks &&
         tenon_profiler_export_stacks(p->profiler, p->stacks, "self_cpu_time_total") != TENON_OK) ||
        (p->timeline &&
         tenon_profiler_export_memory_timeline(p->profiler, p->timeline) != TENON_OK))
        return cli_failed();
    if (!p->folder)
        return CLI_OK;
    tenon_tensorboard_trace_handler(p->profiler, &(tenon_tensorboard_options){.folder = p->folder});
    /* It has logged why a file is not there. */
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/.", p->folder);
    if (length < 0 || (size_t)length >= sizeof path || access(path, W_OK) != 0)
        return cli_error(CLI_FAILED, "--tensorboard %s: this is no folder to write into",
                         p->folder);
    return CLI_OK;
}

static void on_trace_ready(tenon_profiler *profiler, void *user) {
    profile *p = user;
    tenon_event event;
    const char *first = NULL;
    int steps = 0;
    if (p->code != CLI_OK)
        return;
    for (int i = 0; tenon_profiler_get_event(profiler, i, &event); i++) {
        if (event.kind != TENON_EVENT_STEP)
            continue;
        first = first ? first : event.name;
        steps++;
    }
    printf("%s%s: %d run%s recorded, from %s on\n", p->cycles++ ? "\n" : "", p->path, steps,
           steps == 1 ? "" : "s", first ? first : "nowhere");
    p->code = print_table(p);
    if (p->code == CLI_OK && p->by_module)
        p->code = print_modules(p);
    if (p->code == CLI_OK && p->tree)
        p->code = print_tree(p);
    if (p->code == CLI_OK)
        p->code = write_files(p);
}

/* ---- Running ---- */

static int run_once(profile *p) {
    memset(p->outputs, 0, (size_t)p->output_count * sizeof *p->outputs);
    return tenon_context_run(p->context, p->inputs.views, p->inputs.count, p->outputs,
                             p->output_count) == TENON_OK
               ? CLI_OK
               : cli_failed();
}

/* The first run is not part of it: it packs weights. */
static int prepare(profile *p) {
    int code = cli_load(&p->compile, p->path, &p->graph);
    if (code != CLI_OK)
        return code;
    p->output_count = tenon_graph_output_count(p->graph);
    p->outputs = calloc((size_t)p->output_count + 1, sizeof *p->outputs);
    if (!p->outputs)
        return cli_error(CLI_FAILED, "out of memory");
    code = cli_inputs_read(p->graph, &p->compile, &p->seed, &p->inputs);
    if (code != CLI_OK)
        return code;
    if (tenon_session_create(p->graph, &p->compile.options, &p->session) != TENON_OK ||
        tenon_session_compile(p->session, p->inputs.views, p->inputs.count) != TENON_OK ||
        tenon_context_create(p->session, &p->context) != TENON_OK)
        return cli_failed();
    return run_once(p);
}

static int record(profile *p) {
    const tenon_profiler_schedule *s = &p->schedule;
    int64_t cycles = s->repeat > 0 ? s->repeat : 1;
    int64_t runs = s->skip_first + (s->wait + s->warmup + s->active) * cycles -
                   (s->skip_first_wait ? s->wait : 0);
    if (p->iterations)
        runs = p->iterations;
    if (tenon_profiler_create(&p->options, &p->profiler) != TENON_OK ||
        tenon_profiler_add_metadata(p->profiler, "model", p->path) != TENON_OK ||
        tenon_profiler_add_metadata(p->profiler, "granularity",
                                    p->compile.options.split_ops ? "op" : "partition") !=
            TENON_OK ||
        tenon_profiler_start(p->profiler) != TENON_OK)
        return cli_failed();
    for (int64_t i = 0; i < runs && p->code == CLI_OK; i++) {
        if (i > 0 && tenon_profiler_step(p->profiler) != TENON_OK)
            return cli_failed();
        int code = run_once(p);
        if (code != CLI_OK)
            return code;
    }
    if (tenon_profiler_stop(p->profiler) != TENON_OK)
        return cli_failed();
    if (p->code == CLI_OK && p->cycles == 0)
        return cli_error(CLI_USAGE, "the schedule records none of %lld run%s", (long long)runs,
                         runs == 1 ? "" : "s");
    return p->code;
}

static int write_execution(profile *p) {
    if (tenon_execution_trace_start(p->execution) != TENON_OK)
        return cli_failed();
    int code = run_once(p);
    if (tenon_execution_trace_stop() != TENON_OK && code == CLI_OK)
        code = cli_failed();
    return code;
}

static void clean_up(profile *p) {
    tenon_profiler_destroy(&p->profiler);
    tenon_context_destroy(&p->context);
    tenon_session_destroy(&p->session);
    tenon_graph_destroy(&p->graph);
    cli_inputs_free(&p->inputs);
    free(p->outputs);
    char *texts[] = {p->schedule_text, p->iterations_text, p->limit_text, p->width_text,
                     p->stack_text,    p->seed_text,       p->sort,       p->granularity,
                     p->trace,         p->stacks,          p->timeline,   p->folder,
                     p->execution};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    cli_compile_free(&p->compile);
}

static const char about[] =
    "Runs MODEL under the profiler, and prints where the time went, as torch.profiler's tables "
    "do; docs/profiler.md\n"
    "tells how to read them. Inputs are random where --input gives none. Without --schedule 10 "
    "runs (--iterations) are\n"
    "recorded after two that are not; with it each run is a step, and each cycle has a table. "
    "Files hold the last cycle;\n"
    "a folder for TensorBoard has one for each. Keys to sort by: self_cpu_time_total (the "
    "default), cpu_time_total,\n"
    "cpu_time (the average), cpu_memory_usage, self_cpu_memory_usage, count, flops, key.\n\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage.";

int cli_profile(int argc, const char **argv) {
    profile p = {0};
#define TEXT(name, field, doc, value) \
    { name, 0, POPT_ARG_STRING, &p.field, 0, doc, value }
#define FLAG(name, field, doc) \
    { name, 0, POPT_ARG_NONE, &p.field, 0, doc, NULL }
    struct poptOption options[] = {
        {"input", 0, POPT_ARG_STRING, NULL, CLI_OPTION_INPUT, "array for an input",
         "NAME=FILE.npy"},
        TEXT("random", seed_text, "seed of the other inputs (default 0)", "SEED"),
        TEXT("iterations", iterations_text, "so many runs", "N"),
        TEXT("schedule", schedule_text,
             "wait=1,warmup=1,active=3,repeat=1, also skip_first and skip_first_wait", "PARTS"),
        FLAG("record-shapes", shapes, "record shapes, dtypes and strides"),
        FLAG("memory", memory, "record allocations"),
        FLAG("stack", stack, "record stacks of Python and C"),
        FLAG("flops", flops, "count floating-point operations"),
        TEXT("sort", sort, "order of the table, the largest first", "KEY"),
        TEXT("limit", limit_text, "rows (default 100; -1: all)", "N"),
        TEXT("width", width_text, "most characters of a name (default 55)", "N"),
        FLAG("group-by-shape", by_shape, "a row for each set of input shapes"),
        TEXT("group-by-stack", stack_text, "a row for each N innermost lines of the stack", "N"),
        FLAG("by-module", by_module, "print the modules of the source model too"),
        FLAG("tree", tree, "print all events as a tree too"),
        TEXT("granularity", granularity, "partition, or op: fuse nothing", "WHAT"),
        TEXT("trace", trace, "write Chrome's trace format (.json, .json.gz)", "FILE"),
        TEXT("stacks", stacks, "write stacks for flame graphs", "FILE"),
        TEXT("memory-timeline", timeline, "write memory over time (.html, .json)", "FILE"),
        TEXT("execution-trace", execution, "write what one run reads and writes (.json)", "FILE"),
        TEXT("tensorboard", folder, "write traces for TensorBoard", "DIR"),
        CLI_COMPILE_OPTIONS(p.compile),
        {"help", 'h', POPT_ARG_NONE, NULL, CLI_OPTION_HELP, "this text", NULL},
        POPT_TABLEEND};
    poptContext popt = poptGetContext("tenon profile", argc, argv, options, 0);
    int code =
        cli_parse(popt, "MODEL [OPTION...]", about, cli_take_compile_option, &p.compile, &p.path);
    if (code == CLI_OK)
        code = check_options(&p);
    if (code == CLI_OK)
        code = prepare(&p);
    if (code == CLI_OK)
        code = record(&p);
    if (code == CLI_OK && p.execution)
        code = write_execution(&p);
    clean_up(&p);
    poptFreeContext(popt);
    return code < 0 ? CLI_OK : code;
}
