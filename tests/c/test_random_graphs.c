/* Random graphs give the same with any of the optional passes left out, in any order that no
 * dependency forbids, and with every backend.
 *
 * What a graph must give is what it gives with the required passes alone and Tenon's kernels. How
 * far rounding may move that is measured on the graph itself: it runs again with noise of a few
 * roundings on every value (Parker's Monte Carlo arithmetic, 1997). An output that noise changes a
 * lot, or an integer that it changes at all, is not compared.
 *
 *   TENON_RANDOM_SEED=n    checks that one graph, and prints it
 *   TENON_RANDOM_COUNT=n   checks n graphs in place of COUNT; with TENON_RANDOM_FIRST=n from seed n
 *   TENON_RANDOM_BF16_COUNT=n   the same for sessions in bfloat16
 *   TENON_RANDOM_FORK=1    runs each comparison in a process of its own: for graphs that crash
 *   TENON_RANDOM_SHOW=1    tells how much was compared, and which graphs could not run
 *
 * A failure prints the seed, the passes, the first difference, and the smallest graph that still
 * shows it. */
#include "random_run.h"
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { COUNT = 240, MEMORY_GIB = 0 }; /* sanitizers reserve more than there is */
#else
enum { COUNT = 2000, MEMORY_GIB = 4 };
#endif

enum { CASES = 8, ONEDNN_EACH = 4 };

/* Says which graph it was when a run crashes. */
static char crash_text[64];

static void tell(int number) {
    if (write(STDERR_FILENO, crash_text, strlen(crash_text)) < 0)
        _exit(2);
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- Making a failure small ---- */

/* In a process of its own, since it may crash. */
static bool still_fails(const subject *s, const variant *v) {
    trial t;
    char text[512];
    int status = 0;
    if (tenon_graph_verify(s->graph) != TENON_OK)
        return false;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        alarm(60);
        _exit(reference(s, &t) == TENON_OK && !passes(s, &t, v, text, sizeof text));
    }
    return child > 0 && waitpid(child, &status, 0) == child && status != 0;
}

static void cut_output(tenon_graph *graph, int index) {
    if (graph->outputs[index].use)
        tn_use_unlink(graph->outputs[index].use);
    graph->output_count--;
    for (int i = index; i < graph->output_count; i++)
        graph->outputs[i] = graph->outputs[i + 1];
}

/* What a node gives becomes an input. */
static bool cut_node(tenon_graph *graph, int index) {
    tenon_node *node = graph->first;
    while (node && index-- > 0)
        node = node->next;
    if (!node || node->op->kind == TN_OP_INPLACE || graph->input_count + 4 > RG_INPUTS)
        return false;
    for (int i = 0; i < node->output_count; i++) {
        tenon_value *input = NULL, *value = node->outputs[i];
        char name[32];
        snprintf(name, sizeof name, "cut%d", graph->input_count);
        if (!value->use_count)
            continue;
        if (value->scalar || !tn_value_static(value))
            return false;
        OK(tn_graph_add_input(graph, name, TN_TENSOR, value->dtype, value->rank, value->shape, NULL,
                              &input));
        OK(tenon_value_replace(value, input));
    }
    tn_graph_drop_dead(graph);
    return true;
}

static bool try_cut(subject *s, const variant *v, int index, bool output) {
    subject smaller = *s;
    OK(tenon_graph_clone(s->graph, &smaller.graph));
    bool fails = true;
    if (output)
        cut_output(smaller.graph, index);
    else
        fails = cut_node(smaller.graph, index);
    if (output)
        tn_graph_drop_dead(smaller.graph);
    fails = fails && still_fails(&smaller, v);
    if (fails) {
        tenon_graph_destroy(&s->graph);
        s->graph = smaller.graph;
    } else {
        tenon_graph_destroy(&smaller.graph);
    }
    return fails;
}

static void shrink(subject *s, variant *v) {
    for (int i = v->count - 1; i >= 0; i--) {
        variant fewer = *v;
        if (is_required(v->passes[i]))
            continue;
        fewer.count--;
        for (int k = i; k < fewer.count; k++)
            fewer.passes[k] = fewer.passes[k + 1];
        if (still_fails(s, &fewer))
            *v = fewer;
    }
    for (int i = tenon_graph_output_count(s->graph) - 1; i >= 0; i--)
        try_cut(s, v, i, true);
    for (bool smaller = true; smaller;) {
        smaller = false;
        for (int i = (int)s->graph->node_count - 1; i >= 0; i--)
            smaller |= i < s->graph->node_count && try_cut(s, v, i, false);
    }
}

static void print(const tenon_graph *graph) {
    char *text = NULL;
    OK(tenon_graph_print(graph, &text));
    fprintf(stderr, "%s\n", text);
    tenon_string_free(text);
}

static void print_variant(const variant *v) {
    static const char *const backends[] = {"auto", "onednn", "reference"};
    fprintf(stderr, "backend %s, %d threads%s%s, passes:", backends[v->backend], v->threads,
            v->symbolic ? ", symbolic" : "", v->outside ? ", outside of a session" : "");
    for (int i = 0; i < v->count; i++)
        fprintf(stderr, " %s", v->passes[i]);
    fprintf(stderr, "\n");
}

static void report(subject *s, const variant *failed, const char *text) {
    variant v = *failed;
    fprintf(stderr, "seed %llu: %s\n", (unsigned long long)s->seed, text);
    print_variant(&v);
    print(v.symbolic && s->symbolic ? s->symbolic : s->graph);
    v.symbolic = false;
    if (!still_fails(s, &v))
        return;
    shrink(s, &v);
    fprintf(stderr, "seed %llu, made smaller:\n", (unsigned long long)s->seed);
    print_variant(&v);
    print(s->graph);
    if (getenv("TENON_RANDOM_FORK"))
        return;
    trial t;
    char less[512] = "";
    if (reference(s, &t) == TENON_OK && !passes(s, &t, &v, less, sizeof less))
        fprintf(stderr, "%s\n", less);
    drop_trial(&t);
}

/* ---- The test ---- */

static int draw_variants(rg *g, uint64_t seed, bool symbolic, variant *v) {
    int count = 0;
    if (coarse) {
        for (; count < 2; count++) {
            v[count] = draw(g, 100, false);
            v[count].backend = count ? TENON_BACKEND_AUTO : TENON_BACKEND_ONEDNN;
            v[count].bfloat16 = true;
        }
        return count;
    }
    v[count++] = draw(g, 100, false);
    v[count++] = draw(g, 50, false);
    v[count++] = draw(g, rg_chance(g, 50) ? 100 : 60, true);
    if (seed % ONEDNN_EACH == 0) {
        v[count] = draw(g, 100, false);
        v[count++].backend = TENON_BACKEND_AUTO;
        v[count] = draw(g, rg_chance(g, 50) ? 100 : 50, rg_chance(g, 40));
        v[count++].backend = TENON_BACKEND_ONEDNN;
    }
    for (int i = 0; i < count; i++) {
        v[i].symbolic = symbolic && rg_chance(g, 60);
        v[i].threads = rg_chance(g, 10) ? 2 : 1;
        if (getenv("TENON_TEST_THREADS"))
            v[i].threads = atoi(getenv("TENON_TEST_THREADS"));
        v[i].outside = rg_chance(g, 15);
    }
    return count;
}

static bool check_subject(subject *s, rg *g, bool verbose) {
    variant v[8];
    trial t;
    char text[512];
    bool good = true;
    counts.graphs++;
    if (reference(s, &t) != TENON_OK) {
        counts.refused++;
        if (verbose || getenv("TENON_RANDOM_SHOW"))
            fprintf(stderr, "seed %llu: %s\n", (unsigned long long)s->seed, tenon_last_error());
    } else {
        int count = draw_variants(g, s->seed, s->symbolic != NULL, v);
        for (int i = 0; i < count && good; i++) {
            if (getenv("TENON_RANDOM_FORK"))
                good = snprintf(text, sizeof text, "fails") && !still_fails(s, &v[i]);
            else
                good = passes(s, &t, &v[i], text, sizeof text);
            if (!good)
                report(s, &v[i], text);
        }
    }
    drop_trial(&t);
    return good;
}

/* The graph for another batch size; false when it is only right for RG_BATCH. */
static bool other_batch(const subject *s, int64_t batch, subject *out) {
    tenon_view inputs[RG_INPUTS];
    int count = tenon_graph_input_count(s->graph);
    for (int i = 0; i < count; i++) {
        const tenon_value *x = s->graph->inputs[i];
        int64_t shape[TENON_MAX_RANK];
        for (int d = 0; d < x->rank; d++)
            shape[d] = x->shape[d] % RG_BATCH == 0 ? x->shape[d] / RG_BATCH * batch : x->shape[d];
        inputs[i] = tn_view_make(NULL, x->dtype, x->rank, shape);
    }
    *out = *s;
    out->graph = NULL;
    out->before = s;
    return tn_graph_specialize(s->symbolic, inputs, count, &out->graph) == TENON_OK;
}

static bool check_graph(uint64_t seed, bool verbose) {
    static rg g;
    snprintf(crash_text, sizeof crash_text, "seed %llu: crashed\n", (unsigned long long)seed);
    signal(SIGSEGV, tell);
    rg_make(&g, seed);
    subject s = {.graph = g.graph, .seed = seed}, other;
    memcpy(s.limit, g.limit, sizeof g.limit);
    s.symbolic = g.symbolic ? rg_symbolic(g.graph) : NULL;
    if (verbose) {
        print(s.symbolic ? s.symbolic : s.graph);
        if (g.refused)
            fprintf(stderr, "%d nodes refused: %s\n", g.refused, g.why);
    }
    bool good = check_subject(&s, &g, verbose);
    if (good && s.symbolic && other_batch(&s, rg_int(&g, 1, 4), &other)) {
        good = check_subject(&other, &g, verbose);
        tenon_graph_destroy(&other.graph);
    }
    tenon_graph_destroy(&s.graph);
    tenon_graph_destroy(&s.symbolic);
    return good;
}

static long number(const char *name, long other) {
    const char *text = getenv(name);
    return text && *text ? atol(text) : other;
}

/* Part `part` of CASES of the graphs. */
static void check_graphs(long count, int part) {
    struct rlimit memory;
    ck_assert_int_eq(getrlimit(RLIMIT_AS, &memory), 0);
    if (MEMORY_GIB > 0 && memory.rlim_cur > (rlim_t)MEMORY_GIB << 30) {
        /* a compiler that loops must not take the machine with it */
        memory.rlim_cur = (rlim_t)MEMORY_GIB << 30;
        ck_assert_int_eq(setrlimit(RLIMIT_AS, &memory), 0);
    }
    OK(tenon_passes_create(&defaults));
    long one = number("TENON_RANDOM_SEED", -1), first = number("TENON_RANDOM_FIRST", 0);
    long failed = 0;
    if (one >= 0 && part == 0)
        failed = !check_graph((uint64_t)one, true);
    for (long i = first + part * count / CASES; one < 0 && i < first + (part + 1) * count / CASES;
         i++)
        failed += !check_graph((uint64_t)i, false);
    tenon_passes_destroy(&defaults);
    if (getenv("TENON_RANDOM_SHOW"))
        fprintf(stderr, "%d graphs, %d refused, %d outputs compared, %d unsteady, %d runs\n",
                counts.graphs, counts.refused, counts.outputs, counts.unsteady, counts.runs);
    ck_assert_msg(failed == 0, "%ld graphs failed", failed);
    ck_assert(one >= 0 || counts.refused * 50 <= counts.graphs + 100);
    ck_assert(one >= 0 || counts.unsteady * (coarse ? 5 : 50) <= counts.outputs + 100);
}

START_TEST(any_passes_give_the_same) {
    check_graphs(number("TENON_RANDOM_COUNT", COUNT), _i);
}
END_TEST

/* In bfloat16 sessions results are near those in float32: no op is lost, or reads elsewhere. */
START_TEST(bfloat16_is_near) {
    coarse = true;
    check_graphs(number("TENON_RANDOM_BF16_COUNT", COUNT / 5), _i);
}
END_TEST

/* What the generator makes: many kinds of ops, and work for every pass. */
START_TEST(graphs_are_of_many_kinds) {
    enum { GRAPHS = 400, LEAST_OPS = 100 };
    static rg g;
    static const char *ops[TN_OP_COUNT];
    int fired[PASSES] = {0}, op_count = 0;
    tenon_pass_record record;
    OK(tenon_passes_create(&defaults));
    for (int seed = 0; seed < GRAPHS; seed++) {
        rg_make(&g, (uint64_t)seed);
        for (tenon_node *node = tenon_graph_first_node(g.graph); node;
             node = tenon_node_next(node)) {
            int at = 0;
            while (at < op_count && strcmp(ops[at], tenon_node_op(node)) != 0)
                at++;
            if (at == op_count)
                ops[op_count++] = node->op->name;
        }
        if (g.refused && getenv("TENON_RANDOM_SHOW"))
            fprintf(stderr, "seed %d: %d nodes refused: %s\n", seed, g.refused, g.why);
        tenon_graph *graph = g.symbolic ? rg_symbolic(g.graph) : NULL;
        if (g.symbolic && !graph && getenv("TENON_RANDOM_SHOW"))
            fprintf(stderr, "seed %d: not symbolic: %s\n", seed, tenon_last_error());
        tenon_view samples[RG_INPUTS] = {{0}};
        for (int i = 0; i < g.input_count; i++) {
            const tenon_value *x = g.graph->inputs[i];
            samples[i] = tn_view_make(NULL, x->dtype, x->rank, x->shape);
        }
        tenon_graph **made = graph ? &graph : &g.graph;
        if (tenon_passes_apply(defaults, made, samples, g.input_count) == TENON_OK)
            for (int i = 0; tenon_graph_record(*made, i, &record); i++)
                if (tenon_passes_find(defaults, record.name) >= 0)
                    fired[tenon_passes_find(defaults, record.name)]++;
        tenon_graph_destroy(&graph);
        tenon_graph_destroy(&g.graph);
    }
    for (int i = 0; i < tenon_passes_count(defaults); i++) {
        const char *name = tenon_passes_get(defaults, i)->name;
        if (getenv("TENON_RANDOM_SHOW"))
            fprintf(stderr, "%4d %s\n", fired[i], name);
        /* what is dead goes after each pass that says so */
        ck_assert_msg(fired[i] > 0 || strncmp(name, "dead", 4) == 0,
                      "no graph of %d has work for the pass %s", GRAPHS, name);
    }
    tenon_passes_destroy(&defaults);
    if (getenv("TENON_RANDOM_SHOW"))
        fprintf(stderr, "%d kinds of ops\n", op_count);
    ck_assert_int_ge(op_count, LEAST_OPS);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("random_graphs");
    TCase *tests = tcase_create("graphs");
    tcase_set_timeout(tests, 280);
    tcase_add_test(tests, graphs_are_of_many_kinds);
    tcase_add_loop_test(tests, any_passes_give_the_same, 0, CASES);
    tcase_add_loop_test(tests, bfloat16_is_near, 0, CASES);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
