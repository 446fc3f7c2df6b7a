/* tenon explain */
#include "cli.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct explain {
    cli_compile compile;
    const char *path;
    tenon_graph *graph;
    tenon_session *session;
    tenon_view *inputs;
    int64_t *numbers;
    tenon_step_info *steps;
    int step_count;
} explain;

static int take_option(int option, const char *text, void *user) {
    explain *e = user;
    if (option == CLI_OPTION_DIM)
        return cli_pairs_add(&e->compile.dims, "--dim", text);
    return cli_pairs_add(&e->compile.inputs, "--input", text);
}

/* ---- Steps ---- */

/* A node's op as people say it: "aten.convolution". */
static const char *op_of(const tenon_node *node) {
    return tenon_node_op(node);
}

/* "aten.convolution x3, aten.relu x2": the ops of a step, in order of appearance. */
static void print_step_ops(const tenon_step_info *step) {
    bool first = true;
    for (int i = 0; i < step->node_count; i++) {
        int before = 0, count = 0;
        for (int j = 0; j < step->node_count; j++) {
            bool same = strcmp(op_of(step->nodes[j]), op_of(step->nodes[i])) == 0;
            before += same && j < i;
            count += same;
        }
        if (before > 0)
            continue;
        printf("%s%s", first ? "" : ", ", op_of(step->nodes[i]));
        if (count > 1)
            printf(" x%d", count);
        first = false;
    }
}

/* Steps of one group: the same kind, ops and reason. */
static bool same_group(const tenon_step_info *a, const tenon_step_info *b) {
    if (a->kind != b->kind || strcmp(a->reason, b->reason) != 0 || strcmp(a->fused, b->fused) != 0)
        return false;
    if (a->kind == TENON_STEP_KERNEL)
        return strcmp(op_of(a->nodes[0]), op_of(b->nodes[0])) == 0;
    if (a->kind == TENON_STEP_COPY)
        return true;
    if (a->node_count != b->node_count)
        return false;
    for (int i = 0; i < a->node_count; i++) {
        if (strcmp(op_of(a->nodes[i]), op_of(b->nodes[i])) != 0)
            return false;
    }
    return true;
}

/* Steps by kind, reason, ops, then place, so that groups stand together. */
static int by_group(const void *x, const void *y) {
    const tenon_step_info *a = *(const tenon_step_info *const *)x,
                          *b = *(const tenon_step_info *const *)y;
    int order = (int)a->kind - (int)b->kind;
    if (order == 0)
        order = strcmp(a->fused, b->fused);
    if (order == 0)
        order = strcmp(a->reason, b->reason);
    for (int i = 0;
         order == 0 && a->kind != TENON_STEP_COPY && i < a->node_count && i < b->node_count; i++)
        order = strcmp(op_of(a->nodes[i]), op_of(b->nodes[i]));
    if (order == 0 && a->kind != TENON_STEP_COPY)
        order = a->node_count - b->node_count;
    return order ? order : (a > b) - (a < b);
}

static void print_places(const tenon_step_info *const *steps, int count) {
    for (int i = 0; i < count && i < 4; i++)
        printf("%s%s", i ? ", " : "", tenon_node_name(steps[i]->nodes[0]));
    printf(count > 4 ? ", ... (%d in all)\n" : "\n", count);
}

static void print_group(const explain *e, const tenon_step_info *const *steps, int count) {
    const tenon_step_info *step = steps[0];
    if (step->kind == TENON_STEP_ONEDNN) {
        if (count == 1)
            printf("  step %td: %s\n", step - e->steps, step->fused);
        else
            printf("  %d times: %s\n", count, step->fused);
        printf("      nodes: ");
        print_step_ops(step);
        printf("\n      begins at: ");
    } else {
        printf("  %d x %s\n      nodes: ", count,
               step->kind == TENON_STEP_COPY ? "copy" : op_of(step->nodes[0]));
    }
    print_places(steps, count);
    if (*step->reason)
        printf("      why: %s\n", step->reason);
}

/* The groups of one kind, in order of their first steps. */
static int print_kind(const explain *e, tenon_step_kind kind, const char *title) {
    const tenon_step_info **sorted = malloc(((size_t)e->step_count + 1) * sizeof *sorted);
    int *starts = malloc(((size_t)e->step_count + 1) * sizeof *starts), count = 0;
    if (!sorted || !starts) {
        free(sorted);
        free(starts);
        return cli_error(CLI_FAILED, "out of memory");
    }
    for (int i = 0; i < e->step_count; i++) {
        if (e->steps[i].kind == kind)
            sorted[count++] = &e->steps[i];
    }
    qsort(sorted, (size_t)count, sizeof *sorted, by_group);
    if (count > 0)
        printf("\n%s\n", title);
    /* Sizes of groups, at the index in `starts` of the step that each begins with. */
    memset(starts, 0, ((size_t)e->step_count + 1) * sizeof *starts);
    int *place = calloc((size_t)e->step_count + 1, sizeof *place);
    for (int i = 0, n; place && i < count; i += n) {
        for (n = 1; i + n < count && same_group(sorted[i], sorted[i + n]); n++)
            ;
        starts[sorted[i] - e->steps] = n;
        place[sorted[i] - e->steps] = i;
    }
    for (int s = 0; place && s < e->step_count; s++) {
        if (starts[s] > 0)
            print_group(e, sorted + place[s], starts[s]);
    }
    int code = place ? CLI_OK : cli_error(CLI_FAILED, "out of memory");
    free(place);
    free(sorted);
    free(starts);
    return code;
}

static int print_plan(explain *e) {
    tenon_plan_info plan;
    char arena[64], weights[64];
    if (tenon_session_get_plan(e->session, &plan) != TENON_OK)
        return cli_failed();
    e->step_count = plan.step_count;
    e->steps = calloc((size_t)plan.step_count + 1, sizeof *e->steps);
    if (!e->steps)
        return cli_error(CLI_FAILED, "out of memory");
    int64_t fused = 0, kernels = 0, copies = 0;
    for (int i = 0; i < plan.step_count; i++) {
        if (tenon_session_get_step(e->session, i, &e->steps[i]) != TENON_OK)
            return cli_failed();
        fused += e->steps[i].kind == TENON_STEP_ONEDNN ? e->steps[i].node_count : 0;
        kernels += e->steps[i].kind == TENON_STEP_KERNEL;
        copies += e->steps[i].kind == TENON_STEP_COPY;
    }
    cli_bytes_text((double)plan.arena_bytes, arena, sizeof arena);
    cli_bytes_text((double)plan.weight_bytes, weights, sizeof weights);
    printf("%s: %lld nodes after the passes\n", e->path, (long long)plan.node_count);
    printf("  %d oneDNN partition%s with %lld nodes, %lld in Tenon's kernels, %lld views, %lld "
           "copies\n",
           plan.partition_count, plan.partition_count == 1 ? "" : "s", (long long)fused,
           (long long)kernels, (long long)plan.view_count, (long long)copies);
    printf("  activations %s, weights %s\n", arena, weights);
    int code = print_kind(e, TENON_STEP_ONEDNN, "oneDNN partitions");
    if (code == CLI_OK)
        code = print_kind(e, TENON_STEP_KERNEL, "Tenon's kernels");
    return code == CLI_OK ? print_kind(e, TENON_STEP_COPY, "copies") : code;
}

static int execute(explain *e) {
    if (tenon_load(e->path, &e->graph) != TENON_OK)
        return cli_failed();
    int count = tenon_graph_input_count(e->graph);
    int64_t *symbols = NULL;
    e->inputs = calloc((size_t)count + 1, sizeof *e->inputs);
    e->numbers = calloc((size_t)count + 1, sizeof *e->numbers);
    if (!e->inputs || !e->numbers)
        return cli_error(CLI_FAILED, "out of memory");
    int code = cli_check_names(&e->compile.inputs, "--input", "input", count, cli_graph_input_name,
                               e->graph);
    if (code == CLI_OK)
        code = cli_symbols(e->graph, &e->compile.dims, NULL, &symbols);
    for (int i = 0; i < count && code == CLI_OK; i++) {
        const tenon_value *input = tenon_graph_input(e->graph, i);
        if (tenon_value_is_tensor(input))
            code = cli_input_shape(e->graph, i, symbols, &e->inputs[i]);
        else
            code = cli_number(input, cli_pairs_find(&e->compile.inputs, tenon_value_name(input)),
                              &e->numbers[i], &e->inputs[i]);
    }
    free(symbols);
    if (code != CLI_OK)
        return code;
    if (tenon_session_create(e->graph, &e->compile.options, &e->session) != TENON_OK ||
        tenon_session_compile(e->session, e->inputs, count) != TENON_OK)
        return cli_failed();
    return print_plan(e);
}

static const char about[] = "Compiles MODEL and tells where each part of it runs: the oneDNN Graph "
                            "partitions with their nodes, what was\n"
                            "fused, and why each begins where it does; the nodes that Tenon's own "
                            "kernels compute, and why; and copies.";

int cli_explain(int argc, const char **argv) {
    explain e = {0};
    struct poptOption options[] = {
        {"input", 0, POPT_ARG_STRING, NULL, CLI_OPTION_INPUT, "value of an input that is a number",
         "NAME=NUMBER"},
        CLI_COMPILE_OPTIONS(e.compile),
        {"help", 'h', POPT_ARG_NONE, NULL, CLI_OPTION_HELP, "this text", NULL},
        POPT_TABLEEND};
    poptContext popt = poptGetContext("tenon explain", argc, argv, options, 0);
    int code = cli_parse(popt, "MODEL [OPTION...]", about, take_option, &e, &e.path);
    if (code == CLI_OK)
        code = cli_compile_check(&e.compile);
    if (code == CLI_OK && !e.path)
        code = cli_error(CLI_USAGE, "no model is given; see --help");
    if (code == CLI_OK)
        code = execute(&e);
    tenon_session_destroy(&e.session);
    tenon_graph_destroy(&e.graph);
    free(e.inputs);
    free(e.numbers);
    free(e.steps);
    cli_compile_free(&e.compile);
    poptFreeContext(popt);
    return code < 0 ? CLI_OK : code;
}
