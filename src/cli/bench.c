/* tenon bench: options, inputs and comparisons for the runner in bench/, and the progress bar. */
#include "cli.h"
#include <bench/bench.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BATCHES = 64, MOST = 1000000 };

typedef struct bench {
    cli_compile compile;
    char *suite, *batch_text, *precision_text, *instances_text, *warmup_text, *iterations_text;
    char *rounds_text, *interval_text, *seconds_text, *tolerance_text, *threshold_text;
    char *limit_text, *seed_text, *retries_text, *json, *html, *baseline_path;
    int detail, no_peaks;
    int64_t batches[MOST_BATCHES];
    int batch_count;
    tenon_precision precisions[2];
    int precision_count;
    uint64_t seed;
    double threshold;
    int limit, retries;
    bench_options options;
    bench_cases cases;
    cJSON *run, *baseline;
    int done, all; /* measurements */
    char now[512]; /* what is being measured, for the bar */
} bench;

/* ---- Options ---- */

static int take_int(const char *option, const char *text, long long min, long long max, int *out) {
    long long number = *out;
    int code = text ? cli_integer(option, text, min, max, &number) : CLI_OK;
    *out = (int)number;
    return code;
}

static int take_real(const char *option, const char *text, double above, double *out) {
    char *end;
    if (!text)
        return CLI_OK;
    double number = strtod(text, &end);
    if (end == text || *end != 0 || !(number > above) || !isfinite(number))
        return cli_error(CLI_USAGE, "%s: '%s' is not a number above %g", option, text, above);
    *out = number;
    return CLI_OK;
}

/* Calls `each` for the parts of "A,B,...". */
static int take_list(bench *b, const char *text, int (*each)(bench *b, const char *part)) {
    char *copy = strdup(text), *rest = copy, *part;
    int code = copy ? CLI_OK : cli_error(CLI_FAILED, "out of memory");
    while (code == CLI_OK && (part = strsep(&rest, ",")) != NULL)
        code = each(b, part);
    free(copy);
    return code;
}

static int take_batch(bench *b, const char *part) {
    long long number;
    int code = cli_integer("--batch", part, 1, INT32_MAX, &number);
    if (code == CLI_OK && b->batch_count == MOST_BATCHES)
        return cli_error(CLI_USAGE, "--batch: more than %d sizes", MOST_BATCHES);
    for (int i = 0; i < b->batch_count && code == CLI_OK; i++) {
        if (b->batches[i] == number)
            return cli_error(CLI_USAGE, "--batch: %lld is given twice", number);
    }
    if (code == CLI_OK)
        b->batches[b->batch_count++] = number;
    return code;
}

static int take_precision(bench *b, const char *part) {
    int precision = 0;
    while (precision < 2 && strcmp(part, bench_precision_text((tenon_precision)precision)) != 0)
        precision++;
    if (precision == 2)
        return cli_error(CLI_USAGE, "--precision: '%s' is not fp32 or bf16", part);
    for (int i = 0; i < b->precision_count; i++) {
        if (b->precisions[i] == (tenon_precision)precision)
            return cli_error(CLI_USAGE, "--precision: %s is given twice", part);
    }
    b->precisions[b->precision_count++] = (tenon_precision)precision;
    return CLI_OK;
}

static int check_numbers(bench *b) {
    bench_options *o = &b->options;
    double percent = 2;
    *o = (bench_options){.instances = 1, .warmup = 10, .iterations = 15, .seconds = 10};
    o->detail = b->detail;
    o->warmup_fixed = b->warmup_text != NULL;
    b->threshold = 1.10;
    b->limit = 30;
    b->retries = 2;
    long long number = 0;
    int code = b->seed_text ? cli_integer("--random", b->seed_text, 0, INT64_MAX, &number) : CLI_OK;
    b->seed = (uint64_t)number;
    if (code == CLI_OK)
        code = take_int("--instances", b->instances_text, 1, 1024, &o->instances);
    if (code == CLI_OK)
        code = take_int("--nwarmup", b->warmup_text, 0, MOST, &o->warmup);
    if (code == CLI_OK)
        code = take_int("--niter", b->iterations_text, 1, MOST, &o->iterations);
    if (code == CLI_OK)
        code = take_int("--rounds", b->rounds_text, 1, MOST, &o->rounds);
    if (code == CLI_OK)
        code = take_int("--limit", b->limit_text, -1, MOST, &b->limit);
    if (code == CLI_OK)
        code = take_int("--retries", b->retries_text, 0, MOST, &b->retries);
    if (code == CLI_OK)
        code = take_real("--interval", b->interval_text, 0, &percent);
    if (code == CLI_OK)
        code = take_real("--time-limit", b->seconds_text, 0, &o->seconds);
    if (code == CLI_OK)
        code = take_real("--tolerance", b->tolerance_text, 0, &o->tolerance);
    if (code == CLI_OK)
        code = take_real("--threshold", b->threshold_text, 0, &b->threshold);
    o->interval = percent / 100;
    if (code == CLI_OK && o->instances > bench_cores())
        code = cli_error(CLI_USAGE, "--instances: %d, but there %s %d core%s", o->instances,
                         bench_cores() == 1 ? "is" : "are", bench_cores(),
                         bench_cores() == 1 ? "" : "s");
    return code;
}

static int check_options(bench *b) {
    int code = cli_compile_check(&b->compile);
    if (code == CLI_OK)
        code = check_numbers(b);
    b->options.session = b->compile.options;
    b->options.load = cli_load_options(&b->compile);
    /* What the workers use is decided here, so that the record says so. */
    if (code == CLI_OK && b->options.session.threads == 0)
        b->options.session.threads = bench_cores() / b->options.instances;
    if (code == CLI_OK && b->batch_text)
        code = take_list(b, b->batch_text, take_batch);
    if (code == CLI_OK)
        code = take_list(b, b->precision_text ? b->precision_text : "fp32", take_precision);
    if (code == CLI_OK && (b->threshold_text || b->retries_text) && !b->baseline_path)
        code = cli_error(CLI_USAGE, "%s: there is no --baseline to compare with",
                         b->threshold_text ? "--threshold" : "--retries");
    if (code == CLI_OK && b->limit_text && !b->detail)
        code =
            cli_error(CLI_USAGE, "--limit: it is about the rows of --detail, which is not given");
    if (code == CLI_OK && b->suite && (b->compile.dims.count || b->compile.inputs.count))
        code = cli_error(CLI_USAGE, "--dim and --input are for models given by path: a suite has "
                                    "inputs of its own");
    if (code == CLI_OK && b->baseline_path &&
        (b->baseline = bench_run_read(b->baseline_path)) == NULL)
        code = cli_error(CLI_FAILED, "--baseline: %s", bench_error());
    return code;
}

static int check_files(const bench *b) {
    const cli_written files[] = {{"--json", b->json}, {"--html", b->html}};
    int count = b->cases.count;
    const char **models = calloc((size_t)count + 1, sizeof *models);
    if (!models)
        return cli_error(CLI_FAILED, "out of memory");
    for (int i = 0; i < count; i++)
        models[i] = b->cases.items[i].path;
    int code = cli_check_files(files, 2, &b->compile, models, count);
    free(models);
    return code;
}

/* The models: of the suite those that are named, or files. */
static int list_cases(bench *b, poptContext popt) {
    const char **names = poptGetArgs(popt);
    int count = 0;
    while (names && names[count])
        count++;
    if (!b->suite && count == 0)
        return cli_error(CLI_USAGE, "no model and no suite is given; see --help");
    if (b->suite)
        return bench_suite_read(b->suite, names, count, b->batches, b->batch_count, &b->cases)
                   ? CLI_OK
                   : cli_error(CLI_USAGE, "--suite: %s", bench_error());
    for (int i = 0; i < count; i++) {
        for (int j = 0; j == 0 || j < b->batch_count; j++) {
            if (!bench_cases_add(&b->cases, names[i], b->batch_count ? b->batches[j] : 0))
                return cli_error(CLI_FAILED, "%s", bench_error());
        }
    }
    return CLI_OK;
}

/* ---- What the runner asks for, in the process that measures ---- */

/* The first array among the inputs: its first dimension is the batch. NULL: there is none. */
static const tenon_value *batched_input(const tenon_graph *graph) {
    for (int i = 0; i < tenon_graph_input_count(graph); i++) {
        const tenon_value *input = tenon_graph_input(graph, i);
        if (tenon_value_is_tensor(input) && tenon_value_rank(input) > 0)
            return input;
    }
    return NULL;
}

/* Binds the symbol that is the batch, unless --dim did; `text` receives its "SYMBOL=N". */
static int bind_batch(const tenon_graph *graph, int64_t batch, cli_pairs *dims) {
    const tenon_value *input = batched_input(graph);
    char size[128], pair[160];
    if (!input)
        return cli_error(CLI_FAILED, "no input of the model has a batch dimension for --batch");
    int64_t fixed = tenon_value_size(input, 0);
    if (fixed == batch)
        return CLI_OK;
    if (fixed >= 0)
        return cli_error(CLI_FAILED, "the model is made for batch size %lld, not %lld",
                         (long long)fixed, (long long)batch);
    tenon_value_size_text(input, 0, size, sizeof size);
    for (int i = 0; i < tenon_graph_symbol_count(graph); i++) {
        const char *name;
        tenon_graph_symbol(graph, i, &name, NULL, NULL);
        if (strcmp(name, size) != 0)
            continue;
        snprintf(pair, sizeof pair, "%s=%lld", name, (long long)batch);
        return cli_pairs_find(dims, name) ? CLI_OK : cli_pairs_add(dims, "--batch", pair);
    }
    return cli_error(CLI_FAILED,
                     "the first dimension of input '%s' is %s: give its symbols with --dim "
                     "instead of --batch",
                     tenon_value_name(input), size);
}

static int copy_pairs(const bench_pairs *from, const char *option, cli_pairs *to) {
    int code = CLI_OK;
    for (int i = 0; i < from->count && code == CLI_OK; i++) {
        char *text = NULL;
        code = asprintf(&text, "%s=%s", from->items[i].name, from->items[i].value) < 0
                   ? cli_error(CLI_FAILED, "out of memory")
                   : cli_pairs_add(to, option, text);
        free(text);
    }
    return code;
}

/* What it makes lives as long as the process, which measures this one case. */
static bool make_inputs(void *user, const tenon_graph *graph, const bench_case *c,
                        tenon_view **views, int *count, int64_t *batch) {
    const bench *b = user;
    cli_compile compile = {.dims = b->compile.dims};
    cli_inputs inputs;
    int code = CLI_OK;
    if (c->from_suite)
        code = copy_pairs(&c->inputs, "suite", &compile.inputs);
    else
        compile.inputs = b->compile.inputs;
    if (code == CLI_OK && c->batch > 0 && !c->from_suite)
        code = bind_batch(graph, c->batch, &compile.dims);
    if (code == CLI_OK)
        code = cli_inputs_read(graph, &compile, &b->seed, &inputs);
    if (code != CLI_OK)
        return false;
    *views = inputs.views;
    *count = inputs.count;
    *batch = c->from_suite ? c->batch : 0;
    for (int i = 0; i < inputs.count && *batch == 0; i++)
        *batch = inputs.tensors[i] && inputs.views[i].rank > 0 ? inputs.views[i].shape[0] : 0;
    return true;
}

static bool compare_output(void *user, const tenon_view *given, const char *path, double *error) {
    tenon_tensor *wanted = NULL;
    double scale;
    (void)user;
    if (tenon_npy_load(path, &wanted) != TENON_OK)
        return cli_failed() == CLI_OK;
    int code = cli_compare(path, given, tenon_tensor_view(wanted), error, &scale);
    if (code == CLI_OK && *error > 0)
        *error /= scale > 0 ? scale : 1;
    tenon_tensor_destroy(&wanted);
    return code == CLI_OK;
}

/* ---- Progress ---- */

static void clear_bar(void) {
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

static void draw_bar(void *user, double part) {
    enum { WIDTH = 30 };
    const bench *b = user;
    char bar[WIDTH + 1] = "";
    if (!isatty(STDERR_FILENO))
        return;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    int filled = (int)((b->done + part) / b->all * WIDTH);
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < filled ? '#' : '.';
    fprintf(stderr, "\r\033[K[%s] %d/%d %.40s", bar, b->done + 1, b->all, b->now);
    fflush(stderr);
}

/* ---- Measuring ---- */

/* "tenon bench: " at the beginning of lines is said once more when they are printed. */
static void strip_prefix(char *text) {
    static const char prefix[] = "tenon bench: ";
    char *at;
    while ((at = strstr(text, prefix)) != NULL)
        memmove(at, at + sizeof prefix - 1, strlen(at + sizeof prefix - 1) + 1);
}

static cJSON *failed_result(const bench *b, const bench_case *c, tenon_precision precision,
                            const char *error) {
    cJSON *result = cJSON_CreateObject();
    cJSON_AddStringToObject(result, "model", c->name);
    cJSON_AddNumberToObject(result, "batch", (double)c->batch);
    cJSON_AddStringToObject(result, "precision", bench_precision_text(precision));
    cJSON_AddStringToObject(result, "file", c->path);
    cJSON_AddNumberToObject(result, "threads", b->options.session.threads);
    cJSON_AddStringToObject(result, "error", *error ? error : "failed");
    return result;
}

/* Runs the workers; what they printed is printed under the name of what they measured. */
static int run_workers(bench *b, bench_work work, void *user, bench_outcome *outcome) {
    draw_bar(b, 0);
    bool fine = bench_run_workers(b->options.instances, work, user, draw_bar, b, outcome);
    clear_bar();
    if (!fine)
        return cli_error(CLI_FAILED, "%s", bench_error());
    strip_prefix(outcome->errors);
    if (*outcome->errors)
        cli_error(CLI_OK, "%s: %s", b->now, outcome->errors);
    return CLI_OK;
}

static int measure_peaks(bench *b) {
    int code = CLI_OK;
    for (int i = 0; i < b->precision_count && code == CLI_OK && !b->no_peaks; i++) {
        bench_outcome outcome;
        bench_peak_job job = {&b->options, b->precisions[i], i == 0};
        snprintf(b->now, sizeof b->now, "peaks in %s", bench_precision_text(b->precisions[i]));
        code = run_workers(b, bench_measure_peaks, &job, &outcome);
        b->done++;
        if (code == CLI_OK && outcome.results) {
            if (!bench_run_add_peaks(b->run, b->precisions[i], outcome.results))
                code = cli_error(CLI_FAILED, "%s", bench_error());
            outcome.results = NULL;
        }
        bench_outcome_free(&outcome);
    }
    return code;
}

static void name_case(bench *b, const bench_case *c, tenon_precision precision) {
    char batch[32] = "";
    if (c->batch > 0)
        snprintf(batch, sizeof batch, "batch %lld, ", (long long)c->batch);
    snprintf(b->now, sizeof b->now, "%.400s, %s%s", c->name, batch,
             bench_precision_text(precision));
}

/* One result, of a failure too. */
static int attempt(bench *b, const bench_case *c, tenon_precision precision, cJSON **result,
                   bool *slower) {
    bench_host host = {make_inputs, compare_output, b};
    bench_measurement m = {c, &b->options, &host, precision};
    bench_outcome outcome;
    int code = run_workers(b, bench_measure, &m, &outcome);
    *slower = false;
    if (code == CLI_OK) {
        bool failed = !outcome.results;
        *result = failed ? failed_result(b, c, precision, outcome.errors)
                         : bench_combine(outcome.results);
        outcome.results = NULL;
        if (!*result ||
            (b->baseline && !failed && !bench_compare(*result, b->baseline, b->threshold, slower)))
            code = cli_error(CLI_FAILED, "%s", bench_error());
    }
    bench_outcome_free(&outcome);
    return code;
}

/* What seems slower than the baseline allows is measured again, in new processes, and the fastest
 * counts: a process may be unlucky with its memory, or with what else runs. */
static int measure_case(bench *b, const bench_case *c, tenon_precision precision) {
    cJSON *best = NULL;
    bool slower = true;
    int code = CLI_OK, attempts = 0;
    name_case(b, c, precision);
    for (; slower && attempts <= b->retries && code == CLI_OK; attempts++) {
        cJSON *result = NULL;
        code = attempt(b, c, precision, &result, &slower);
        if (best && !(bench_number(result, "median_ms") < bench_number(best, "median_ms"))) {
            cJSON_Delete(result);
            continue;
        }
        cJSON_Delete(best);
        best = result;
    }
    b->done++;
    if (code != CLI_OK) {
        cJSON_Delete(best);
        return code;
    }
    cJSON_AddNumberToObject(best, "attempts", attempts);
    return bench_run_add(b->run, best) ? CLI_OK : cli_error(CLI_FAILED, "%s", bench_error());
}

/* How many failed, and how many are slower than allowed. */
static void count_results(const bench *b, int *failures, int *slower) {
    const cJSON *result;
    cJSON_ArrayForEach(result, cJSON_GetObjectItemCaseSensitive(b->run, "results")) {
        const cJSON *baseline = cJSON_GetObjectItemCaseSensitive(result, "baseline");
        *failures += *bench_text(result, "error") != 0;
        *slower += cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(baseline, "slower"));
    }
}

static int finish(bench *b) {
    int slower = 0, failures = 0;
    if ((b->baseline && !bench_run_note_baseline(b->run, b->baseline, b->threshold)) ||
        !bench_run_finish(b->run) || (b->json && !bench_run_write(b->run, b->json)) ||
        (b->html && !bench_write_page(b->run, b->html)))
        return cli_error(CLI_FAILED, "%s", bench_error());
    bench_print(b->run, b->limit);
    count_results(b, &failures, &slower);
    if (slower > 0)
        cli_error(CLI_OK, "%d result%s slower than %.2f times the baseline", slower,
                  slower == 1 ? " is" : "s are", b->threshold);
    if (failures > 0)
        cli_error(CLI_OK, "%d of %d failed", failures, b->cases.count * b->precision_count);
    return slower > 0 || failures > 0 ? CLI_FAILED : CLI_OK;
}

static int execute(bench *b) {
    int code;
    b->all = (b->cases.count + !b->no_peaks) * b->precision_count;
    b->run = bench_run_create(&b->options);
    if (!b->run)
        return cli_error(CLI_FAILED, "%s", bench_error());
    code = measure_peaks(b);
    for (int i = 0; i < b->cases.count; i++) {
        for (int p = 0; p < b->precision_count && code == CLI_OK; p++)
            code = measure_case(b, &b->cases.items[i], b->precisions[p]);
    }
    return code == CLI_OK ? finish(b) : code;
}

static void clean_up(bench *b) {
    char *texts[] = {b->suite,        b->batch_text,      b->precision_text, b->instances_text,
                     b->warmup_text,  b->iterations_text, b->rounds_text,    b->interval_text,
                     b->seconds_text, b->tolerance_text,  b->threshold_text, b->limit_text,
                     b->seed_text,    b->retries_text,    b->json,           b->html,
                     b->baseline_path};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    cJSON_Delete(b->run);
    cJSON_Delete(b->baseline);
    bench_cases_free(&b->cases);
    cli_compile_free(&b->compile);
}

static const char about[] =
    "Measures each MODEL, or the models of a suite (all, or those named), in a process of its own: "
    "after a warm-up,\n"
    "rounds of runs until the 95 % interval of the median is narrow or the time is over. Inputs "
    "are "
    "the suite's, or random.\n"
    "--batch picks entries of the suite, or binds the first dimension of a model with open sizes. "
    "--json saves a run that a\n"
    "later one takes as --baseline. docs/bench.md tells what each number means.\n\n"
    "Exit status: 0 done, 1 a model failed, or is slower than the baseline allows, 2 wrong usage.";

int cli_bench(int argc, const char **argv) {
    bench b = {0};
#define TEXT(name, field, doc, value) \
    { name, 0, POPT_ARG_STRING, &b.field, 0, doc, value }
#define FLAG(name, field, doc) \
    { name, 0, POPT_ARG_NONE, &b.field, 0, doc, NULL }
    struct poptOption options[] = {
        TEXT("suite", suite, "models with inputs: a folder with suite.json, or that file", "PATH"),
        TEXT("precision", precision_text, "fp32, bf16 or both (default fp32)", "LIST"),
        TEXT("batch", batch_text, "batch sizes", "N,..."),
        {"threads", 0, POPT_ARG_STRING, &b.compile.threads, 0,
         "threads of each instance (default: one for each core that it has)", "N"},
        TEXT("instances", instances_text, "processes at once, on cores of their own (default 1)",
             "N"),
        TEXT("nwarmup", warmup_text, "runs before the first timed one (default 10)", "N"),
        TEXT("niter", iterations_text, "timed runs of a round (default 15)", "N"),
        TEXT("rounds", rounds_text, "at most so many rounds", "N"),
        TEXT("interval", interval_text, "enough: the median to so many per cent (default 2)",
             "PERCENT"),
        TEXT("time-limit", seconds_text, "rounds of a model end after this (default 10)",
             "SECONDS"),
        TEXT("json", json, "save the run", "FILE"),
        TEXT("baseline", baseline_path, "compare with a run that was saved", "FILE"),
        TEXT("threshold", threshold_text, "a ratio above this is a failure (default 1.10)",
             "RATIO"),
        TEXT("retries", retries_text,
             "measure again, so often, what seems slower than that (default 2)", "N"),
        TEXT("html", html, "write a page with plots", "FILE"),
        FLAG("detail", detail, "time each step too, beside what the machine allows"),
        TEXT("limit", limit_text, "rows of the details (default 30; -1: all)", "N"),
        FLAG("no-peaks", no_peaks, "do not measure what the machine can do"),
        TEXT("tolerance", tolerance_text,
             "of the suite's outputs (default 1e-4, in bf16 0.2, of the largest)", "R"),
        {"input", 0, POPT_ARG_STRING, NULL, CLI_OPTION_INPUT, "array for an input",
         "NAME=FILE.npy"},
        TEXT("random", seed_text, "seed of the other inputs (default 0)", "SEED"),
        {"dim", 0, POPT_ARG_STRING, NULL, CLI_OPTION_DIM,
         "size of a symbol, for models with open sizes", "SYMBOL=N"},
        {"backend", 0, POPT_ARG_STRING, &b.compile.backend, 0,
         "auto, onednn or reference (default auto)", "BACKEND"},
        CLI_TUNE_OPTIONS(b.compile),
        CLI_LOAD_OPTIONS(b.compile),
        CLI_PASS_OPTIONS,
        {"help", 'h', POPT_ARG_NONE, NULL, CLI_OPTION_HELP, "this text", NULL},
        POPT_TABLEEND};
    poptContext popt = poptGetContext("tenon bench", argc, argv, options, 0);
    int code = cli_parse_options(popt, "[MODEL...] [OPTION...]", about, cli_take_compile_option,
                                 &b.compile);
    if (code == CLI_OK)
        code = check_options(&b);
    if (code == CLI_OK)
        code = list_cases(&b, popt);
    if (code == CLI_OK)
        code = check_files(&b);
    if (code == CLI_OK)
        code = execute(&b);
    clean_up(&b);
    poptFreeContext(popt);
    return code < 0 ? CLI_OK : code;
}
