/* Measures the ways to compute a candidate on random data: each is compiled as a session of its
 * own, and they take turns. In a model a layer finds its input in cache, since the layer before has
 * just written it, and its weights only where all the others leave them there. So memory as large
 * as all weights is read before each turn, and then the turn copies the input and computes; the
 * copies do not count. */
#include "run/tune.h"
#include "core/derive.h"
#include "core/fail.h"
#include "fusion/pipeline.h"
#include "run/context.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/version.h>

enum { WARM_ROUNDS = 2, LEAST_ROUNDS = 7, MOST_ROUNDS = 25 };
#define ENOUGH_NS 300000000      /* of rounds for a candidate, once there are LEAST_ROUNDS */
#define SAVE_INTERVAL 1000000000 /* nanoseconds; saving takes milliseconds */
#define MOST_OTHER (64 << 20)
#define LEAST_OTHER (4 << 20)
/* A way is chosen over the usual one when it is faster by this part, by the medians, and in so many
 * of the rounds: less is within what a second measurement may turn round. */
#define LEAST_GAIN 0.03
#define LEAST_WON 0.75

/* ---- One way ---- */

typedef struct contender {
    tenon_session *session; /* NULL: it does not compile here */
    tenon_context *context;
    double times[MOST_ROUNDS]; /* nanoseconds */
} contender;

typedef struct contest {
    tn_tuner *tuner;
    const tn_candidate *candidate;
    contender ways[TN_MAX_WAYS];
    const tenon_passes *passes; /* what is behind the pass that asks */
    tenon_graph *plain;         /* the candidate, way 0 */
    uint64_t *others;           /* tuner->other_bytes of memory */
    tenon_tensor **inputs;
    tenon_view *views, *outputs;
    int rounds;
} contest;

static tenon_status open_contender(contest *c, int way) {
    const tn_tuner *tuner = c->tuner;
    contender *one = &c->ways[way];
    tenon_graph *graph = NULL;
    tenon_status status;
    TN_GOTO(tn_candidate_graph(c->candidate, way, &graph));
    TN_GOTO(tenon_session_create(graph,
                                 &(tenon_session_options){.threads = tuner->plan.threads,
                                                          .isa = tn_isa_text(tuner->plan.isa),
                                                          .passes = c->passes,
                                                          .keep_denormals = tuner->keep_denormals},
                                 &one->session));
    TN_GOTO(tenon_context_create(one->session, &one->context));
    tenon_context_set_timing(one->context, true);
error:
    tenon_graph_destroy(&graph);
    if (status != TENON_OK) {
        tenon_session_destroy(&one->session);
        tn_log(TENON_LOG_DEBUG, "%s is not measured: %s", c->candidate->choice->ways[way],
               tenon_last_error());
    }
    return status;
}

static void close_contender(contender *one) {
    tenon_context_destroy(&one->context);
    tenon_session_destroy(&one->session);
}

/* Copies into and out of the layouts of the model stand outside of what is measured. */
static bool counts(const tn_step *step) {
    return step->node->op->id != TN_OP_clone ||
           (step->partition && step->partition->node_count > 1);
}

static tenon_status run_once(contest *c, int way, double *nanoseconds) {
    contender *one = &c->ways[way];
    const int64_t *times = NULL;
    int count = 0;
    memset(c->outputs, 0, ((size_t)c->plain->output_count + 1) * sizeof *c->outputs);
    TN_TRY(tenon_context_run(one->context, c->views, c->plain->input_count, c->outputs,
                             c->plain->output_count));
    TN_TRY(tenon_context_get_times(one->context, &times, &count));
    *nanoseconds = 0;
    for (int i = 0; i < count; i++) {
        if (counts(&one->context->current->plan->steps[i]))
            *nanoseconds += (double)times[i];
    }
    return TENON_OK;
}

/* ---- All of them ---- */

static tenon_status make_inputs(contest *c) {
    size_t count = (size_t)c->plain->input_count;
    c->inputs = calloc(count + 1, sizeof(tenon_tensor *));
    c->views = calloc(count + 1, sizeof *c->views);
    c->outputs = calloc((size_t)c->plain->output_count + 1, sizeof *c->outputs);
    if (!c->inputs || !c->views || !c->outputs)
        return tn_no_memory();
    for (int i = 0; i < c->plain->input_count; i++) {
        const tenon_value *input = c->plain->inputs[i];
        TN_TRY(tenon_tensor_create(input->dtype, input->rank, input->shape, &c->inputs[i]));
        c->views[i] = c->inputs[i]->view;
        tn_view_fill_random(&c->views[i], (uint32_t)i + 1);
    }
    return TENON_OK;
}

static void read_others(const contest *c) {
    int64_t count = (int64_t)(c->tuner->other_bytes / sizeof *c->others);
    uint64_t sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += c->others[i];
    __asm__ volatile("" : : "r"(sum));
}

static tenon_status run_round(contest *c, int round) {
    int count = c->candidate->choice->way_count;
    for (int i = 0; i < count; i++) {
        int way = (i + round + WARM_ROUNDS) % count;
        double time = 0;
        if (!c->ways[way].session)
            continue;
        read_others(c);
        tenon_status status = run_once(c, way, &time);
        if (status != TENON_OK && way == c->candidate->choice->usual)
            return status;
        if (status != TENON_OK)
            close_contender(&c->ways[way]);
        else if (round >= 0)
            c->ways[way].times[round] = time;
    }
    return TENON_OK;
}

static tenon_status run_rounds(contest *c) {
    for (int i = -WARM_ROUNDS; i < 0; i++)
        TN_TRY(run_round(c, i));
    int64_t end = tn_clock_ns() + ENOUGH_NS;
    while (c->rounds < MOST_ROUNDS && (c->rounds < LEAST_ROUNDS || tn_clock_ns() < end))
        TN_TRY(run_round(c, c->rounds++));
    return TENON_OK;
}

/* ---- Judging ---- */

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *times, int count) {
    double sorted[MOST_ROUNDS];
    memcpy(sorted, times, (size_t)count * sizeof *times);
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static int rounds_won(const contest *c, int way, int against) {
    int won = 0;
    for (int i = 0; i < c->rounds; i++)
        won += c->ways[way].times[i] < c->ways[against].times[i];
    return won;
}

static void judge(const contest *c, tn_tune_entry *entry) {
    int usual = c->candidate->choice->usual;
    entry->way = usual;
    for (int i = 0; i < c->candidate->choice->way_count; i++) {
        if (c->ways[i].session)
            entry->times[i] = median(c->ways[i].times, c->rounds) * 1e-3;
    }
    for (int i = 0; i < c->candidate->choice->way_count; i++) {
        if (entry->times[i] > 0 && entry->times[i] < entry->times[entry->way] &&
            entry->times[i] < (1 - LEAST_GAIN) * entry->times[usual] &&
            rounds_won(c, i, usual) >= LEAST_WON * c->rounds)
            entry->way = i;
    }
}

/* Weights that only losers read. */
static void trim(const tenon_graph *graph) {
    for (int i = 0; graph && i < graph->constant_count; i++)
        tn_tensor_trim_derived(graph->constants[i]->tensor);
}

static tenon_status measure(tn_tuner *tuner, const tn_candidate *candidate,
                            const tenon_passes *passes, tn_tune_entry *entry) {
    contest c = {.tuner = tuner, .candidate = candidate, .passes = passes};
    int count = candidate->choice->way_count, usual = candidate->choice->usual;
    tenon_status status;
    c.others = malloc(tuner->other_bytes);
    if (!c.others)
        return tn_no_memory();
    memset(c.others, 1, tuner->other_bytes);
    TN_GOTO(tn_candidate_graph(candidate, 0, &c.plain));
    TN_GOTO(make_inputs(&c));
    TN_GOTO(open_contender(&c, usual));
    for (int i = 0; i < count; i++)
        if (i != usual && open_contender(&c, i) != TENON_OK)
            continue; /* the others go on without it */
    TN_GOTO(run_rounds(&c));
    judge(&c, entry);
    tuner->measured++;
error:
    for (int i = 0; i < count; i++)
        close_contender(&c.ways[i]);
    trim(c.plain);
    for (int i = 0; c.inputs && i < c.plain->input_count; i++)
        tenon_tensor_destroy(&c.inputs[i]);
    free(c.inputs);
    free(c.views);
    free(c.outputs);
    tenon_graph_destroy(&c.plain);
    free(c.others);
    return status;
}

/* ---- The chooser ---- */

static void tell(const tn_choice *choice, const tn_tune_entry *entry, tn_text *told) {
    tn_text_add(told, "%s by measurement", choice->ways[entry->way]);
    const char *separator = ": ";
    for (int i = 0; i < choice->way_count; i++) {
        if (entry->times[i] > 0) {
            tn_text_add(told, "%s%s %.1f us", separator, choice->ways[i], entry->times[i]);
            separator = ", ";
        }
    }
}

/* What the file has, or gets now; way -1 when nothing may be measured. */
static tenon_status find_or_measure(tn_tuner *tuner, const tn_candidate *candidate,
                                    const tenon_passes *passes, tn_tune_entry *entry) {
    const tn_choice *choice = candidate->choice;
    const char *op = choice->nodes[choice->root]->op->name;
    if (tn_tune_find(&tuner->file, op, choice->ways, choice->way_count, entry))
        return TENON_OK;
    entry->way = -1;
    if (tuner->plan.dry_run)
        return TENON_OK;
    TN_TRY(measure(tuner, candidate, passes, entry));
    TN_TRY(tn_tune_add(&tuner->file, choice->ways, choice->way_count, entry));
    if (tn_clock_ns() >= tuner->save_ns) { /* so that little is lost when the process ends */
        tn_tune_save(&tuner->file);
        tuner->save_ns = tn_clock_ns() + tuner->save_interval;
    }
    return TENON_OK;
}

/* The candidate, and the passes that see what is left to them. */
static tenon_status name_candidate(const tn_candidate *candidate, const tenon_passes *passes,
                                   tn_text *text) {
    tn_text_add(text, "# before:");
    for (int i = 0; i < tenon_passes_count(passes); i++) {
        if (!tenon_passes_get(passes, i)->required)
            tn_text_add(text, " %s", tenon_passes_get(passes, i)->name);
    }
    tn_text_add(text, "\n%s", candidate->text);
    return text->failed ? tn_no_memory() : TENON_OK;
}

static tenon_status choose(tn_chooser *self, const tn_candidate *candidate, int *way,
                           tn_text *told) {
    tn_tuner *tuner = (tn_tuner *)self;
    tenon_passes *passes = NULL;
    tn_text name = {0};
    tn_tune_entry entry = {.machine = tuner->machine};
    tenon_status status;
    TN_GOTO(tn_passes_kernels_behind(tuner->passes, self->pass->name, &passes));
    TN_GOTO(name_candidate(candidate, passes, &name));
    entry.candidate = name.data;
    TN_GOTO(find_or_measure(tuner, candidate, passes, &entry));
    if (entry.way >= 0) {
        *way = entry.way;
        tell(candidate->choice, &entry, told);
    }
error:
    tenon_passes_destroy(&passes);
    tn_text_free(&name);
    return status;
}

static tenon_status describe(tn_tuner *tuner) {
    tenon_build_info build;
    tn_text text = {0};
    tenon_get_build_info(&build);
    tn_text_add(&text, "%s, %s, %d threads, Tenon %s, oneDNN %s %s, beside %zu MiB", build.cpu,
                tn_isa_text(tuner->plan.isa), tuner->plan.threads, build.version,
                build.onednn_version, build.onednn_isa, tuner->other_bytes >> 20);
    tuner->machine = text.data;
    return text.failed ? tn_no_memory() : TENON_OK;
}

tenon_status tn_tuner_create(const char *path, const tenon_passes *passes,
                             const tn_plan_options *plan, bool keep_denormals, size_t weight_bytes,
                             tn_tuner **out) {
    tenon_status status;
    tn_tuner *tuner = calloc(1, sizeof *tuner);
    if (!tuner)
        return tn_no_memory();
    tuner->chooser.choose = choose;
    tuner->passes = passes;
    tuner->plan = *plan;
    tuner->keep_denormals = keep_denormals;
    tuner->save_interval = SAVE_INTERVAL;
    tuner->save_ns = tn_clock_ns() + SAVE_INTERVAL;
    tuner->other_bytes = LEAST_OTHER;
    while (tuner->other_bytes < weight_bytes && tuner->other_bytes < MOST_OTHER)
        tuner->other_bytes *= 2;
    TN_GOTO(describe(tuner));
    TN_GOTO(tn_tune_open(&tuner->file, path));
    *out = tuner;
    return TENON_OK;
error:
    tn_tuner_destroy(&tuner);
    return status;
}

void tn_tuner_destroy(tn_tuner **pointer) {
    tn_tuner *tuner = *pointer;
    *pointer = NULL;
    if (!tuner)
        return;
    tn_tune_close(&tuner->file);
    free(tuner->machine);
    free(tuner);
}
