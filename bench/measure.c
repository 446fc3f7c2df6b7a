/* Measures one model: runs in a process of its own, so that its times and its memory are its own.
 */
#include "bench.h"
#include "stats.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_SAMPLES = 5000, DETAIL_RUNS = 30 };
#define LEAST_SECONDS 0.5 /* of timed runs: the clock of the CPU takes time to settle */

double bench_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *bench_precision_text(tenon_precision precision) {
    return precision == TENON_PRECISION_BF16 ? "bf16" : "fp32";
}

typedef struct job {
    const bench_measurement *m;
    bench_channel *channel;
    tenon_session_options session_options;
    tenon_graph *graph;
    tenon_session *session;
    tenon_context *context;
    tenon_view *inputs, *outputs;
    int input_count, output_count;
    int64_t batch;
    double load, compile, first; /* seconds */
    int warmup, rounds, count;
    int64_t runs, stride; /* timed ones; one in `stride` is kept */
    bool converged;
    double *samples; /* milliseconds */
    double *work;    /* as many, to sort */
    double error;    /* of outputs, the largest; negative: none was compared */
    cJSON *result;
} job;

/* Says on standard error why; the parent takes it from there. */
static bool say(const char *text) {
    fprintf(stderr, "%s\n", text);
    return false;
}

static bool failed(void) {
    return say(tenon_last_error());
}

static bool out_of_memory(void) {
    return say("out of memory");
}

/* ---- Preparing ---- */

static bool run_once(job *j, double *seconds) {
    memset(j->outputs, 0, (size_t)j->output_count * sizeof *j->outputs);
    double start = bench_now();
    if (tenon_context_run(j->context, j->inputs, j->input_count, j->outputs, j->output_count) !=
        TENON_OK)
        return failed();
    *seconds = bench_now() - start;
    return true;
}

static bool prepare(job *j) {
    const bench_measurement *m = j->m;
    double start = bench_now();
    if (tenon_load_with(m->c->path, &m->options->load, &j->graph) != TENON_OK)
        return failed();
    j->load = bench_now() - start;
    if (!m->host->inputs(m->host->user, j->graph, m->c, &j->inputs, &j->input_count, &j->batch))
        return false;
    j->output_count = tenon_graph_output_count(j->graph);
    j->outputs = calloc((size_t)j->output_count + 1, sizeof *j->outputs);
    if (!j->outputs)
        return out_of_memory();
    start = bench_now();
    if (tenon_session_create(j->graph, &j->session_options, &j->session) != TENON_OK ||
        tenon_session_compile(j->session, j->inputs, j->input_count) != TENON_OK ||
        tenon_context_create(j->session, &j->context) != TENON_OK)
        return failed();
    j->compile = bench_now() - start;
    return run_once(j, &j->first);
}

static bool check_outputs(job *j) {
    const bench_measurement *m = j->m;
    double limit = m->options->tolerance;
    if (limit == 0)
        limit = m->precision == TENON_PRECISION_BF16 ? 0.2 : 1e-4;
    j->error = -1;
    for (int i = 0; i < m->c->expected.count; i++) {
        const struct bench_pair *pair = &m->c->expected.items[i];
        int index = tenon_session_find_output(j->session, pair->name);
        double error;
        if (index < 0) {
            fprintf(stderr, "the suite expects an output '%s', which the model has not\n",
                    pair->name);
            return false;
        }
        if (!m->host->compare(m->host->user, &j->outputs[index], pair->value, &error))
            return false;
        if (!(error <= limit)) {
            fprintf(stderr,
                    "output '%s' differs from %s: largest error %.3g of the largest magnitude, "
                    "tolerance %.3g\n",
                    pair->name, pair->value, error, limit);
            return false;
        }
        j->error = fmax(j->error, error);
    }
    return true;
}

/* ---- Timing ---- */

static bool warm_up(job *j) {
    const bench_options *o = j->m->options;
    double start = bench_now(), seconds;
    for (; j->warmup < o->warmup; j->warmup++) {
        if (!o->warmup_fixed && bench_now() - start > o->seconds / 2)
            break;
        if (!run_once(j, &seconds))
            return false;
    }
    return true;
}

/* Half of the median's interval against the median. */
static double uncertainty(job *j) {
    bench_interval interval;
    memcpy(j->work, j->samples, (size_t)j->count * sizeof *j->work);
    bench_sort(j->work, j->count);
    if (!bench_median_interval(j->work, j->count, 0.95, &interval))
        return INFINITY;
    return (interval.high - interval.low) / 2 / bench_quantile(j->work, j->count, 0.5);
}

/* Keeps one run in `stride`; when there is no room left, every second of those that were kept. */
static void keep(job *j, double seconds) {
    if (j->runs++ % j->stride != 0)
        return;
    j->samples[j->count++] = round(seconds * 1e9) * 1e-6;
    if (j->count < MOST_SAMPLES)
        return;
    for (int i = 0; 2 * i < j->count; i++)
        j->samples[i] = j->samples[2 * i];
    j->count = (j->count + 1) / 2;
    j->stride *= 2;
}

/* Rounds until the interval is narrow, or time or rounds are over. */
static bool measure(job *j) {
    const bench_options *o = j->m->options;
    double start = bench_now(), seconds, elapsed = 0;
    j->stride = 1;
    int64_t check = 0; /* sorting grows with the samples: it is not done after each round */
    while (!j->converged && (o->rounds == 0 || j->rounds < o->rounds)) {
        for (int i = 0; i < o->iterations; i++) {
            if (elapsed > o->seconds && j->count > 0) {
                j->converged = uncertainty(j) <= o->interval;
                return true;
            }
            if (!run_once(j, &seconds))
                return false;
            keep(j, seconds);
            elapsed = bench_now() - start;
            double part = o->rounds ? (double)j->runs / ((double)o->rounds * o->iterations) : 0;
            bench_progress(j->channel, fmax(part, elapsed / o->seconds));
        }
        j->rounds++;
        if (elapsed < LEAST_SECONDS || j->runs < check)
            continue;
        j->converged = uncertainty(j) <= o->interval;
        check = j->runs + j->runs / 4;
    }
    j->converged = uncertainty(j) <= o->interval;
    return true;
}

/* The load goes on while others still measure. */
static bool outlast(job *j) {
    double seconds;
    bench_done(j->channel);
    while (!bench_stopped(j->channel)) {
        if (j->m->options->instances > 1 && !run_once(j, &seconds))
            return false;
    }
    return true;
}

/* ---- Facts ---- */

/* The largest resident set of this process so far (VmHWM of proc(5)), in bytes; 0: not known. */
static double peak_memory(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[256];
    static const char name[] = "VmHWM:";
    long kilobytes = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, sizeof name - 1) == 0)
            kilobytes = strtol(line + sizeof name - 1, NULL, 10);
    }
    if (file)
        fclose(file);
    return (double)kilobytes * 1024;
}

/* Operators that sum products: what PyTorch's FlopCounterMode counts, and what is lowered to it.
 * The overload is left out. */
static bool is_product(const char *op) {
    static const char *const names[] = {"aten.convolution",
                                        "aten._convolution",
                                        "aten.conv1d",
                                        "aten.conv2d",
                                        "aten.conv3d",
                                        "aten.conv_transpose1d",
                                        "aten.conv_transpose2d",
                                        "aten.conv_transpose3d",
                                        "tenon.padded_convolution",
                                        "aten.linear",
                                        "aten.mm",
                                        "aten.addmm",
                                        "aten.bmm",
                                        "aten.baddbmm",
                                        "aten.mv",
                                        "aten.addmv",
                                        "aten.dot",
                                        "aten.matmul",
                                        "aten.einsum",
                                        "aten.bilinear",
                                        "aten.scaled_dot_product_attention",
                                        "aten.lstm",
                                        "aten.gru",
                                        "aten.rnn_tanh",
                                        "aten.rnn_relu"};
    const char *point = strchr(op, '.');
    point = point ? strchr(point + 1, '.') : NULL;
    size_t length = point ? (size_t)(point - op) : strlen(op);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == length && strncmp(names[i], op, length) == 0)
            return true;
    }
    return false;
}

/* Floating-point operations of the products in the model as it was exported: a plan that only the
 * required passes made. What passes save is speed, not arithmetic that would not count. */
static bool count_flops(const job *j, double *flops) {
    tenon_session_options options = j->session_options;
    tenon_passes *passes = NULL;
    tenon_session *session = NULL;
    tenon_plan_info plan;
    options.dry_run = true;
    options.precision = TENON_PRECISION_FP32;
    bool fine = tenon_passes_create_minimal(&passes) == TENON_OK;
    options.passes = passes;
    fine = fine && tenon_session_create(j->graph, &options, &session) == TENON_OK &&
           tenon_session_compile(session, j->inputs, j->input_count) == TENON_OK &&
           tenon_session_get_plan(session, &plan) == TENON_OK;
    *flops = 0;
    for (const tenon_node *n = fine ? tenon_graph_first_node(plan.graph) : NULL; n && fine;
         n = tenon_node_next(n)) {
        tenon_node_info info;
        fine = tenon_session_get_node(session, n, &info) == TENON_OK;
        *flops += fine && is_product(tenon_node_op(n)) ? info.flops : 0;
    }
    fine = fine || failed();
    tenon_session_destroy(&session);
    tenon_passes_destroy(&passes);
    return fine;
}

static cJSON *object_in(cJSON *list) {
    cJSON *object = cJSON_CreateObject();
    if (!cJSON_AddItemToArray(list, object)) {
        cJSON_Delete(object);
        return NULL;
    }
    return object;
}

static void add_step(cJSON *list, const tenon_step_info *step, int index, double microseconds) {
    static const char *const kinds[] = {"onednn", "kernel", "copy"};
    const tenon_node *first = step->node_count > 0 ? step->nodes[0] : NULL;
    const tenon_node *last = first ? step->nodes[step->node_count - 1] : NULL;
    cJSON *object = object_in(list);
    cJSON_AddNumberToObject(object, "step", index);
    cJSON_AddStringToObject(object, "kind", kinds[step->kind]);
    cJSON_AddStringToObject(object, "title",
                            *step->fused ? step->fused
                            : first      ? tenon_node_op(first)
                                         : "copy");
    cJSON_AddStringToObject(object, "name",
                            last && tenon_node_output_count(last) > 0
                                ? tenon_value_name(tenon_node_output(last, 0))
                                : "");
    cJSON_AddStringToObject(object, "module", first ? tenon_node_module_path(first) : "");
    cJSON_AddNumberToObject(object, "nodes", step->node_count);
    cJSON_AddNumberToObject(object, "time_us", round(microseconds * 1e3) * 1e-3);
    cJSON_AddNumberToObject(object, "flops", step->flops);
    cJSON_AddNumberToObject(object, "read_bytes", (double)step->read_bytes);
    cJSON_AddNumberToObject(object, "weight_bytes", (double)step->weight_bytes);
    cJSON_AddNumberToObject(object, "written_bytes", (double)step->written_bytes);
}

/* The medians of some further runs in which each step is timed. */
static bool detail(job *j, const tenon_plan_info *plan) {
    int count = plan->step_count, runs = 0, got;
    const int64_t *times;
    double *samples = calloc((size_t)count + 1, DETAIL_RUNS * sizeof *samples);
    double start = bench_now(), seconds;
    cJSON *list = cJSON_AddArrayToObject(j->result, "steps");
    bool fine = (samples && list) || out_of_memory();
    tenon_context_set_timing(j->context, true);
    for (; fine && runs < DETAIL_RUNS; runs++) {
        if (runs >= 3 && bench_now() - start > j->m->options->seconds)
            break;
        fine = run_once(j, &seconds) &&
               (tenon_context_get_times(j->context, &times, &got) == TENON_OK || failed());
        for (int i = 0; fine && i < count && i < got; i++)
            samples[i * DETAIL_RUNS + runs] = (double)times[i] * 1e-3;
    }
    for (int i = 0; i < count && fine; i++) {
        tenon_step_info step;
        fine = tenon_session_get_step(j->session, i, &step) == TENON_OK || failed();
        if (!fine)
            break;
        bench_sort(&samples[i * DETAIL_RUNS], runs);
        add_step(list, &step, i, bench_quantile(&samples[i * DETAIL_RUNS], runs, 0.5));
    }
    tenon_context_set_timing(j->context, false);
    free(samples);
    return fine;
}

static bool describe(job *j) {
    const bench_measurement *m = j->m;
    tenon_plan_info plan;
    double flops, memory = peak_memory();
    if (!count_flops(j, &flops))
        return false;
    if (tenon_session_get_plan(j->session, &plan) != TENON_OK)
        return failed();
    j->result = cJSON_CreateObject();
    cJSON *r = j->result;
    cJSON_AddStringToObject(r, "model", m->c->name);
    cJSON_AddNumberToObject(r, "batch", (double)j->batch);
    cJSON_AddStringToObject(r, "precision", bench_precision_text(m->precision));
    cJSON_AddStringToObject(r, "file", m->c->path);
    cJSON_AddNumberToObject(r, "threads", plan.threads);
    cJSON_AddNumberToObject(r, "load_ms", j->load * 1e3);
    cJSON_AddNumberToObject(r, "compile_ms", j->compile * 1e3);
    cJSON_AddNumberToObject(r, "first_run_ms", j->first * 1e3);
    cJSON_AddNumberToObject(r, "ttfb_ms", (j->load + j->compile + j->first) * 1e3);
    cJSON_AddNumberToObject(r, "peak_memory_bytes", memory);
    cJSON_AddNumberToObject(r, "model_flops", flops);
    cJSON_AddNumberToObject(r, "moved_bytes", (double)(plan.read_bytes + plan.written_bytes));
    cJSON_AddNumberToObject(r, "partitions", plan.partition_count);
    cJSON_AddNumberToObject(r, "kernels", plan.kernel_count);
    cJSON_AddNumberToObject(r, "copies", plan.copy_count);
    cJSON_AddNumberToObject(r, "warmup_runs", j->warmup);
    cJSON_AddNumberToObject(r, "rounds", j->rounds);
    cJSON_AddNumberToObject(r, "timed_runs", (double)j->runs);
    cJSON_AddBoolToObject(r, "converged", j->converged);
    if (j->error >= 0)
        cJSON_AddNumberToObject(r, "output_error", j->error);
    cJSON *samples = cJSON_CreateDoubleArray(j->samples, j->count);
    if (!cJSON_AddItemToObject(r, "samples_ms", samples)) {
        cJSON_Delete(samples);
        return out_of_memory();
    }
    return !m->options->detail || detail(j, &plan);
}

bool bench_measure(bench_channel *channel, void *user) {
    const bench_measurement *m = user;
    job j = {.m = m, .channel = channel, .session_options = m->options->session};
    j.session_options.precision = m->precision;
    /* A number for bfloat16 that was measured in float32 would deceive. */
    j.session_options.bf16_fallback = TENON_BF16_FALLBACK_REFUSE;
    j.samples = calloc(MOST_SAMPLES, sizeof *j.samples);
    j.work = calloc(MOST_SAMPLES, sizeof *j.work);
    bool fine = (j.samples && j.work) || out_of_memory();
    fine = fine && prepare(&j) && check_outputs(&j) && warm_up(&j) && bench_ready(channel) &&
           measure(&j) && outlast(&j) && describe(&j) && bench_give(channel, j.result);
    cJSON_Delete(j.result);
    free(j.samples);
    free(j.work);
    free(j.outputs);
    tenon_context_destroy(&j.context);
    tenon_session_destroy(&j.session);
    tenon_graph_destroy(&j.graph);
    return fine;
}
