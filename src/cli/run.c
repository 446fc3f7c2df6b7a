/* tenon run */
#include "cli.h"
#include <batch/file.h>
#include <bench/bench.h>
#include <bench/stats.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct run {
    cli_compile compile;
    cli_pairs expect;
    char *random, *output, *tolerance, *iterations;
    const char *path;
    uint64_t seed;
    double limit;
    int rounds;
    tenon_graph *graph;
    tenon_session *session;
    tenon_context *context;
    int output_count;
    cli_inputs inputs;
    tenon_view *outputs;
} run;

static int take_option(int option, const char *text, void *user) {
    run *r = user;
    return option == CLI_OPTION_EXPECT ? cli_pairs_add(&r->expect, "--expect", text)
                                       : cli_take_option(&r->compile, option, text);
}

static int check_options(run *r) {
    long long number;
    int code = cli_compile_check(&r->compile);
    if (code == CLI_OK && !r->path)
        code = cli_error(CLI_USAGE, "no model is given; see --help");
    if (code == CLI_OK && r->random) {
        code = cli_integer("--random", r->random, 0, INT64_MAX, &number);
        r->seed = code == CLI_OK ? (uint64_t)number : 0;
    }
    if (code == CLI_OK && r->iterations) {
        code = cli_integer("--iterations", r->iterations, 1, 1000000, &number);
        r->rounds = code == CLI_OK ? (int)number : 0;
    }
    if (code == CLI_OK && r->output && !*r->output)
        code = cli_error(CLI_USAGE, "--output: the path is empty");
    if (code == CLI_OK) /* of drawings */
        code = cli_check_files(NULL, 0, &r->compile, &r->path, 1);
    r->limit = 1e-4;
    if (code == CLI_OK && r->tolerance) {
        char *end;
        r->limit = strtod(r->tolerance, &end);
        if (end == r->tolerance || *end != 0 || !(r->limit >= 0))
            code = cli_error(CLI_USAGE, "--tolerance: '%s' is not a number of at least 0",
                             r->tolerance);
    }
    return code;
}

static int output_path(const run *r, int index, char *path, size_t capacity) {
    const char *name = tenon_graph_output_name(r->graph, index);
    int length = snprintf(path, capacity, "%s/%s.npy", r->output, name);
    if (length < 0 || (size_t)length >= capacity)
        return cli_error(CLI_FAILED, "the path of output '%s' is too long", name);
    for (char *c = path + strlen(r->output) + 1; *c; c++)
        *c = *c == '/' ? '_' : *c;
    return CLI_OK;
}

/* An output that is written where another is expected would be compared with itself. */
static int check_expected(const run *r) {
    char path[4096];
    for (int i = 0; r->output && i < r->output_count; i++) {
        int code = output_path(r, i, path, sizeof path);
        if (code != CLI_OK)
            return code;
        for (int k = 0; k < r->expect.count; k++)
            if (batch_file_is_same(path, r->expect.items[k].value))
                return cli_error(CLI_USAGE, "--output: '%s' is what --expect reads", path);
    }
    return CLI_OK;
}

static int prepare(run *r) {
    r->output_count = tenon_graph_output_count(r->graph);
    r->outputs = calloc((size_t)r->output_count + 1, sizeof *r->outputs);
    if (!r->outputs)
        return cli_error(CLI_FAILED, "out of memory");
    int code = cli_check_names(&r->expect, "--expect", "output", r->output_count,
                               cli_graph_output_name, r->graph);
    if (code == CLI_OK)
        code = check_expected(r);
    return code == CLI_OK
               ? cli_inputs_read(r->graph, &r->compile, r->random ? &r->seed : NULL, &r->inputs)
               : code;
}

/* ---- Outputs ---- */

/* The sign of a NaN tells nothing, and differs between CPUs. */
static double plain(double x) {
    return isnan(x) ? (double)NAN : x;
}

static void print_shape(const tenon_view *view) {
    printf("%s[", tenon_dtype_text(view->dtype));
    for (int d = 0; d < view->rank; d++)
        printf("%s%lld", d ? ", " : "", (long long)view->shape[d]);
    printf("]");
}

enum { SHOWN = 6, PART = 1 << 16 };

typedef struct summary {
    double low, high, sum, shown[SHOWN];
} summary;

/* A part of the elements, converted: an output may be much larger as float64. */
static int add_part(const tenon_view *view, int64_t from, int64_t count, summary *s) {
    tenon_view part = {.data = (char *)view->data + from * (int64_t)tenon_dtype_size(view->dtype),
                       .dtype = view->dtype,
                       .rank = 1,
                       .shape = {count},
                       .strides = {1}};
    tenon_tensor *tensor = cli_converted(&part, TENON_FLOAT64);
    if (!tensor)
        return cli_failed();
    const double *x = tenon_tensor_view(tensor)->data;
    for (int64_t i = 0; i < count; i++) {
        s->low = x[i] < s->low ? x[i] : s->low;
        s->high = x[i] > s->high ? x[i] : s->high;
        s->sum += x[i];
        if (from + i < SHOWN)
            s->shown[from + i] = x[i];
    }
    tenon_tensor_destroy(&tensor);
    return CLI_OK;
}

/* Outputs in memory of the context are row-major. */
static int print_output(const run *r, int index) {
    const tenon_view *view = &r->outputs[index];
    printf("output %s: ", tenon_graph_output_name(r->graph, index));
    if (view->dtype == TENON_DTYPE_NONE) {
        printf("None\n");
        return CLI_OK;
    }
    print_shape(view);
    int64_t count = tenon_view_numel(view);
    summary s = {.low = INFINITY, .high = -INFINITY};
    for (int64_t i = 0; i < count; i += PART) {
        int code = add_part(view, i, count - i < PART ? count - i : PART, &s);
        if (code != CLI_OK)
            return code;
    }
    if (count > 1)
        printf("  min %.6g  max %.6g  mean %.6g ", s.low, s.high, plain(s.sum / (double)count));
    printf(" ");
    for (int64_t i = 0; i < count && i < SHOWN; i++)
        printf(" %.6g", plain(s.shown[i]));
    printf(count > SHOWN ? " ...\n" : "\n");
    return CLI_OK;
}

static int save_output(const run *r, int index) {
    char path[4096];
    if (r->outputs[index].dtype == TENON_DTYPE_NONE)
        return CLI_OK;
    int code = output_path(r, index, path, sizeof path);
    if (code != CLI_OK)
        return code;
    return tenon_npy_save(path, &r->outputs[index]) == TENON_OK ? CLI_OK : cli_failed();
}

static int compare(const char *name, const tenon_view *given, const tenon_view *wanted,
                   double limit) {
    double worst, scale;
    int code = cli_compare(name, given, wanted, &worst, &scale);
    if (code != CLI_OK)
        return code;
    if (scale < 0) {
        printf("expect %s: ok, %lld elements are equal\n", name,
               (long long)tenon_view_numel(given));
        return CLI_OK;
    }
    double relative = worst == 0 ? 0 : worst / (scale > 0 ? scale : 1);
    if (!(relative <= limit))
        return cli_error(CLI_FAILED,
                         "output '%s' differs from what was expected: largest error %.3g of %.3g, "
                         "relative %.3g, "
                         "tolerance %.3g",
                         name, worst, scale, relative, limit);
    printf("expect %s: ok, largest error %.3g of %.3g, relative %.3g, tolerance %.3g\n", name,
           worst, scale, relative, limit);
    return CLI_OK;
}

static int compare_all(const run *r) {
    int worst = CLI_OK;
    for (int i = 0; i < r->expect.count; i++) {
        const char *name = r->expect.items[i].name;
        tenon_tensor *wanted;
        if (tenon_npy_load(r->expect.items[i].value, &wanted) != TENON_OK)
            return cli_error(CLI_FAILED, "--expect %s: %s", name, tenon_last_error());
        const tenon_view *given = &r->outputs[tenon_session_find_output(r->session, name)];
        int code = given->dtype == TENON_DTYPE_NONE
                       ? cli_error(CLI_FAILED, "output '%s' is None, an array was expected", name)
                       : compare(name, given, tenon_tensor_view(wanted), r->limit);
        worst = code > worst ? code : worst;
        tenon_tensor_destroy(&wanted);
    }
    return worst;
}

static int show_outputs(run *r) {
    if (r->output && mkdir(r->output, 0777) != 0 && errno != EEXIST)
        return cli_error(CLI_FAILED, "%s: %s", r->output, strerror(errno));
    for (int i = 0; i < r->output_count; i++) {
        int code = print_output(r, i);
        if (code == CLI_OK && r->output)
            code = save_output(r, i);
        if (code != CLI_OK)
            return code;
    }
    return compare_all(r);
}

/* ---- Time ---- */

static int run_once(run *r, double *milliseconds) {
    memset(r->outputs, 0, (size_t)r->output_count * sizeof *r->outputs);
    double start = bench_now();
    if (tenon_context_run(r->context, r->inputs.views, r->inputs.count, r->outputs,
                          r->output_count) != TENON_OK)
        return cli_failed();
    *milliseconds = (bench_now() - start) * 1e3;
    return CLI_OK;
}

static int measure(run *r) {
    double *times = calloc((size_t)r->rounds, sizeof *times);
    int code = times ? CLI_OK : cli_error(CLI_FAILED, "out of memory");
    for (int i = 0; i < r->rounds && code == CLI_OK; i++)
        code = run_once(r, &times[i]);
    if (code == CLI_OK) {
        bench_sort(times, r->rounds);
        printf("latency: median %.3f ms, p90 %.3f ms, of %d runs\n",
               bench_quantile(times, r->rounds, 0.5), bench_quantile(times, r->rounds, 0.9),
               r->rounds);
    }
    free(times);
    return code;
}

static int execute(run *r) {
    double first = 0;
    int code = cli_load(&r->compile, r->path, &r->graph);
    if (code == CLI_OK)
        code = prepare(r);
    if (code != CLI_OK)
        return code;
    r->compile.options.samples = r->inputs.views;
    r->compile.options.sample_count = r->inputs.count;
    if (tenon_session_create(r->graph, &r->compile.options, &r->session) != TENON_OK ||
        tenon_session_compile(r->session, r->inputs.views, r->inputs.count) != TENON_OK ||
        tenon_context_create(r->session, &r->context) != TENON_OK)
        return cli_failed();
    code = run_once(r, &first);
    if (code == CLI_OK)
        code = show_outputs(r);
    if (code != CLI_OK)
        return code;
    if (r->rounds == 0)
        printf("latency: %.3f ms (first run; --iterations N measures warm ones)\n", first);
    return r->rounds ? measure(r) : CLI_OK;
}

static void clean_up(run *r) {
    tenon_context_destroy(&r->context);
    tenon_session_destroy(&r->session);
    tenon_graph_destroy(&r->graph);
    cli_inputs_free(&r->inputs);
    free(r->outputs);
    free(r->random);
    free(r->output);
    free(r->tolerance);
    free(r->iterations);
    cli_pairs_free(&r->expect);
    cli_compile_free(&r->compile);
}

static const char about[] = "Runs MODEL (a torch.export archive .pt2, Tenon's .json form, or a "
                            "graph as text) once and prints each\n"
                            "output's dtype, shape and a summary, then the latency. Inputs are "
                            "arrays in .npy files, or random with\n"
                            "--random (normally distributed; integers stay within the tables that "
                            "they index). --input NAME=NUMBER gives\n"
                            "an input that is a plain number. An expected output may differ by the "
                            "tolerance times its largest\n"
                            "magnitude. bfloat16 arrays are written as float32.\n\n"
                            "Exit status: 0 done, 1 failed or an output differs, 2 wrong usage.";

int cli_run(int argc, const char **argv) {
    run r = {0};
    struct poptOption options[] = {
        {"input", 0, POPT_ARG_STRING, NULL, CLI_OPTION_INPUT, "array for an input",
         "NAME=FILE.npy"},
        {"random", 0, POPT_ARG_STRING, &r.random, 0, "random arrays for the other inputs", "SEED"},
        {"output", 0, POPT_ARG_STRING, &r.output, 0, "write each output to DIR/NAME.npy", "DIR"},
        {"expect", 0, POPT_ARG_STRING, NULL, CLI_OPTION_EXPECT, "compare an output",
         "NAME=FILE.npy"},
        {"tolerance", 0, POPT_ARG_STRING, &r.tolerance, 0, "of the comparison (default 1e-4)", "R"},
        {"iterations", 0, POPT_ARG_STRING, &r.iterations, 0, "time so many further runs", "N"},
        CLI_COMPILE_OPTIONS(r.compile),
        {"help", 'h', POPT_ARG_NONE, NULL, CLI_OPTION_HELP, "this text", NULL},
        POPT_TABLEEND};
    poptContext popt = poptGetContext("tenon run", argc, argv, options, 0);
    int code = cli_parse(popt, "MODEL [OPTION...]", about, take_option, &r, &r.path);
    if (code == CLI_OK)
        code = check_options(&r);
    if (code == CLI_OK)
        code = execute(&r);
    clean_up(&r);
    poptFreeContext(popt);
    return code < 0 ? CLI_OK : code;
}
