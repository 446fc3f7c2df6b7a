/* tenon explain --profile: how long the steps take, and how long oneDNN would take for what Tenon's
 * kernels do because they are faster. */
#include "explain.h"
#include <bench/bench.h>
#include <bench/stats.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_RUNS = 2, LEAST_RUNS = 5, MOST_RUNS = 50 };
#define ENOUGH 1e6 /* microseconds */

typedef struct measured {
    double *steps; /* microseconds, the medians */
    double run;
    int step_count, runs;
} measured;

typedef struct job {
    tenon_session *session;
    const tenon_view *inputs;
    int input_count;
    tenon_view *outputs;
    int output_count;
    double *samples; /* MOST_RUNS for each step, then for the whole */
} job;

static double now(void) {
    return bench_now() * 1e6;
}

static double median(double *values, int count) {
    bench_sort(values, count);
    return bench_quantile(values, count, 0.5);
}

static int run_once(job *j, tenon_context *context, int steps, int sample) {
    const int64_t *times = NULL;
    int count = 0;
    memset(j->outputs, 0, ((size_t)j->output_count + 1) * sizeof *j->outputs);
    double start = now();
    if (tenon_context_run(context, j->inputs, j->input_count, j->outputs, j->output_count) !=
            TENON_OK ||
        tenon_context_get_times(context, &times, &count) != TENON_OK)
        return cli_failed();
    if (sample < 0)
        return CLI_OK;
    for (int i = 0; i < count && i < steps; i++)
        j->samples[i * MOST_RUNS + sample] = (double)times[i] * 1e-3;
    j->samples[steps * MOST_RUNS + sample] = now() - start;
    return CLI_OK;
}

static int run_all(job *j, tenon_context *context, measured *m) {
    double start = 0;
    int code = CLI_OK;
    tenon_context_set_timing(context, true);
    for (int i = 0; i < WARM_RUNS && code == CLI_OK; i++)
        code = run_once(j, context, m->step_count, -1);
    start = now();
    while (code == CLI_OK && m->runs < MOST_RUNS &&
           (m->runs < LEAST_RUNS || now() - start < ENOUGH))
        code = run_once(j, context, m->step_count, m->runs++);
    if (code != CLI_OK)
        return code;
    for (int i = 0; i < m->step_count; i++)
        m->steps[i] = median(&j->samples[i * MOST_RUNS], m->runs);
    m->run = median(&j->samples[m->step_count * MOST_RUNS], m->runs);
    return CLI_OK;
}

/* The steps of what `session` compiled last; the caller frees m->steps. */
static int measure(tenon_session *session, const tenon_view *inputs, int input_count, measured *m) {
    tenon_plan_info plan;
    tenon_context *context = NULL;
    job j = {.session = session, .inputs = inputs, .input_count = input_count};
    *m = (measured){0};
    if (tenon_session_get_plan(session, &plan) != TENON_OK ||
        tenon_context_create(session, &context) != TENON_OK)
        return cli_failed();
    m->step_count = plan.step_count;
    j.output_count = tenon_session_output_count(session);
    j.outputs = calloc((size_t)j.output_count + 1, sizeof *j.outputs);
    j.samples = calloc(((size_t)plan.step_count + 1) * MOST_RUNS, sizeof *j.samples);
    m->steps = calloc((size_t)plan.step_count + 1, sizeof *m->steps);
    int code = j.outputs && j.samples && m->steps ? run_all(&j, context, m)
                                                  : cli_error(CLI_FAILED, "out of memory");
    free(j.outputs);
    free(j.samples);
    tenon_context_destroy(&context);
    return code;
}

/* ---- Against oneDNN: the steps of two plans that compute the same nodes ---- */

typedef struct named {
    const char *name;
    int step;
} named;

static int by_name(const void *a, const void *b) {
    return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static int root_of(int *parents, int i) {
    while (parents[i] != i)
        i = parents[i] = parents[parents[i]];
    return i;
}

/* Steps of `ours` are 0..n, those of `theirs` follow; steps that share nodes get one root. */
static int join(const report *ours, const report *theirs, int *parents) {
    named *names = calloc((size_t)theirs->node_count + 1, sizeof *names);
    if (!names)
        return cli_error(CLI_FAILED, "out of memory");
    for (int i = 0; i < theirs->node_count; i++)
        names[i] = (named){report_name(theirs->nodes[i].node), theirs->nodes[i].info.step};
    qsort(names, (size_t)theirs->node_count, sizeof *names, by_name);
    for (int i = 0; i < ours->node_count; i++) {
        named key = {report_name(ours->nodes[i].node), ours->nodes[i].info.step};
        const named *found =
            bsearch(&key, names, (size_t)theirs->node_count, sizeof *names, by_name);
        if (!found || found->step < 0 || key.step < 0)
            continue;
        int theirs_root = root_of(parents, ours->plan.step_count + found->step);
        parents[theirs_root] = root_of(parents, key.step);
    }
    free(names);
    return CLI_OK;
}

static int compare_steps(report *ours, const report *theirs) {
    size_t count = (size_t)ours->plan.step_count + (size_t)theirs->plan.step_count;
    int *parents = malloc((count + 1) * sizeof *parents);
    double *sums = calloc((count + 1) * 2, sizeof *sums);
    int *nodes = calloc(count + 1, sizeof *nodes);
    int code = parents && sums && nodes ? CLI_OK : cli_error(CLI_FAILED, "out of memory");
    for (size_t i = 0; i < count && code == CLI_OK; i++)
        parents[i] = (int)i;
    if (code == CLI_OK)
        code = join(ours, theirs, parents);
    for (int i = 0; i < (int)count && code == CLI_OK; i++) {
        int root = root_of(parents, i), own = i < ours->plan.step_count;
        const report_step *step = own ? &ours->steps[i] : &theirs->steps[i - ours->plan.step_count];
        sums[2 * root + !own] += step->time;
        nodes[root] += own ? step->info.node_count : 0;
    }
    for (int i = 0; i < ours->plan.step_count && code == CLI_OK; i++) {
        report_step *step = &ours->steps[i];
        int root = root_of(parents, i);
        if (step->info.kind != TENON_STEP_KERNEL ||
            step->info.reason_kind != TENON_REASON_KERNEL_FASTER)
            continue;
        step->own_time = sums[2 * root];
        step->onednn_time = sums[2 * root + 1];
        step->onednn_nodes = nodes[root];
    }
    free(parents);
    free(sums);
    free(nodes);
    return code;
}

static int take_times(report *r, const tenon_view *inputs, int input_count) {
    measured m;
    int code = measure(r->session, inputs, input_count, &m);
    for (int i = 0; i < m.step_count && code == CLI_OK; i++)
        r->steps[i].time = m.steps[i];
    r->runs = m.runs;
    r->run_time = m.run;
    free(m.steps);
    return code;
}

/* Another session that insists on oneDNN tells what oneDNN takes. */
static int measure_onednn(report *r, const tenon_graph *model, const tenon_view *inputs,
                          int input_count, const tenon_session_options *options) {
    tenon_session_options insist = *options;
    report other = {.path = r->path};
    insist.backend = TENON_BACKEND_ONEDNN;
    int code = CLI_OK;
    if (tenon_session_create(model, &insist, &other.session) != TENON_OK ||
        tenon_session_compile(other.session, inputs, input_count) != TENON_OK)
        code = cli_failed();
    if (code == CLI_OK)
        code = report_gather(&other);
    if (code == CLI_OK)
        code = take_times(&other, inputs, input_count);
    if (code == CLI_OK)
        code = compare_steps(r, &other);
    report_free(&other);
    tenon_session_destroy(&other.session);
    return code;
}

static bool has_faster(const report *r) {
    for (int i = 0; i < r->plan.step_count; i++) {
        if (r->steps[i].info.reason_kind == TENON_REASON_KERNEL_FASTER)
            return true;
    }
    return false;
}

int report_measure(report *r, const tenon_graph *model, const tenon_view *shapes,
                   const tenon_session_options *options) {
    int count = tenon_graph_input_count(model), code = CLI_OK;
    tenon_view *inputs = calloc((size_t)count + 1, sizeof *inputs);
    tenon_tensor **tensors = calloc((size_t)count + 1, sizeof(tenon_tensor *));
    if (!inputs || !tensors)
        code = cli_error(CLI_FAILED, "out of memory");
    for (int i = 0; i < count && code == CLI_OK; i++) {
        inputs[i] = shapes[i];
        if (shapes[i].data)
            continue; /* a number */
        code = cli_random(model, i, &shapes[i], 1, &tensors[i]);
        if (code == CLI_OK)
            inputs[i] = *tenon_tensor_view(tensors[i]);
    }
    if (code == CLI_OK)
        code = take_times(r, inputs, count);
    if (code == CLI_OK && options->backend == TENON_BACKEND_AUTO && has_faster(r))
        code = measure_onednn(r, model, inputs, count, options);
    for (int i = 0; tensors && i < count; i++)
        tenon_tensor_destroy(&tensors[i]);
    free(tensors);
    free(inputs);
    return code;
}
