/* Gathering what a plan tells, and printing it. */
#include "explain.h"
#include <stdlib.h>
#include <string.h>

static int gather_nodes(report *r) {
    const tenon_graph *graph = r->plan.graph;
    r->nodes = calloc((size_t)tenon_graph_node_count(graph) + 1, sizeof *r->nodes);
    if (!r->nodes)
        return cli_error(CLI_FAILED, "out of memory");
    for (const tenon_node *node = tenon_graph_first_node(graph); node;
         node = tenon_node_next(node)) {
        report_node *n = &r->nodes[r->node_count++];
        n->node = node;
        if (tenon_session_get_node(r->session, node, &n->info) != TENON_OK)
            return cli_failed();
    }
    return CLI_OK;
}

int report_gather(report *r) {
    if (tenon_session_get_plan(r->session, &r->plan) != TENON_OK)
        return cli_failed();
    r->steps = calloc((size_t)r->plan.step_count + 1, sizeof *r->steps);
    if (!r->steps)
        return cli_error(CLI_FAILED, "out of memory");
    for (int i = 0; i < r->plan.step_count; i++) {
        report_step *step = &r->steps[i];
        step->time = step->onednn_time = step->own_time = -1;
        if (tenon_session_get_step(r->session, i, &step->info) != TENON_OK)
            return cli_failed();
    }
    return gather_nodes(r);
}

void report_free(report *r) {
    free(r->steps);
    free(r->nodes);
}

const char *report_where(const report *r, int step) {
    static const char *const names[] = {"onednn", "kernel", "copy"};
    return step < 0 ? "view" : names[r->steps[step].info.kind];
}

const char *report_name(const tenon_node *node) {
    return tenon_node_output_count(node) > 0 ? tenon_value_name(tenon_node_output(node, 0))
                                             : tenon_node_name(node);
}

const char *report_title(const report_step *step) {
    return *step->info.fused ? step->info.fused : tenon_node_op(step->info.nodes[0]);
}

/* ---- Groups: steps that say the same ---- */

/* Steps of one kind with equal ops and kinds of reason; then by place, so that the first of a group
 * stands for it. */
static int compare(const report_step *a, const report_step *b) {
    int order = (int)a->info.kind - (int)b->info.kind;
    if (order == 0)
        order = strcmp(a->info.fused, b->info.fused);
    if (order == 0)
        order = (int)a->info.reason_kind - (int)b->info.reason_kind;
    if (order == 0)
        order = a->info.node_count - b->info.node_count;
    for (int i = 0; order == 0 && i < a->info.node_count; i++)
        order = strcmp(tenon_node_op(a->info.nodes[i]), tenon_node_op(b->info.nodes[i]));
    return order;
}

static int by_group(const void *x, const void *y) {
    const report_step *a = *(const report_step *const *)x, *b = *(const report_step *const *)y;
    int order = compare(a, b);
    return order ? order : (a > b) - (a < b);
}

/* "aten.convolution x3, aten.relu x2": the ops of a step, in order of appearance. */
static void print_ops(const tenon_step_info *step) {
    bool first = true;
    for (int i = 0; i < step->node_count; i++) {
        int before = 0, count = 0;
        for (int j = 0; j < step->node_count; j++) {
            bool same = strcmp(tenon_node_op(step->nodes[j]), tenon_node_op(step->nodes[i])) == 0;
            before += same && j < i;
            count += same;
        }
        if (before > 0)
            continue;
        printf("%s%s", first ? "" : ", ", tenon_node_op(step->nodes[i]));
        if (count > 1)
            printf(" x%d", count);
        first = false;
    }
}

static void print_places(const report_step *const *steps, int count) {
    for (int i = 0; i < count && i < 4; i++)
        printf("%s%s", i ? ", " : "", report_name(steps[i]->info.nodes[0]));
    printf(count > 4 ? ", ... (%d in all)\n" : "\n", count);
}

/* "31.5 MFLOP" */
static void flops_text(double flops, char *text, size_t room) {
    static const char *const units[] = {"FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP"};
    int unit = 0;
    for (; flops >= 1000 && unit < 4; unit++)
        flops /= 1000;
    snprintf(text, room, unit == 0 ? "%.0f %s" : "%.1f %s", flops, units[unit]);
}

static void print_costs(const report_step *const *steps, int count) {
    double moved = 0, flops = 0, time = 0;
    char bytes[64], work[64];
    for (int i = 0; i < count; i++) {
        moved += (double)(steps[i]->info.read_bytes + steps[i]->info.written_bytes);
        flops += steps[i]->info.flops;
        time += steps[i]->time;
    }
    cli_bytes_text(moved, bytes, sizeof bytes);
    flops_text(flops, work, sizeof work);
    printf("      moves: %s, %s", bytes, work);
    if (steps[0]->time >= 0)
        printf(", %.1f us", time);
    printf("\n");
}

/* What the first output is and how it lies. */
static void print_result(const report *r, const report_step *step, int count) {
    tenon_operand_info result;
    char text[256];
    if (step->info.output_count == 0 ||
        tenon_session_get_operand(r->session, (int)(step - r->steps), step->info.input_count,
                                  &result) != TENON_OK)
        return;
    cli_value_text(result.value, text, sizeof text);
    printf("      gives: %s, %s%s\n", text, result.layout, count > 1 ? " (the first)" : "");
}

static void print_measured(const report_step *step) {
    if (step->onednn_time < 0)
        return;
    printf("      measured: %.1f us here, %.1f us in oneDNN", step->own_time, step->onednn_time);
    if (step->onednn_nodes > 1)
        printf(" (for the %d nodes that it fuses there)", step->onednn_nodes);
    printf("\n");
}

static void print_group(const report *r, const report_step *const *steps, int count) {
    const report_step *step = steps[0];
    if (step->info.kind == TENON_STEP_ONEDNN) {
        if (count == 1)
            printf("  step %td: %s\n", step - r->steps, step->info.fused);
        else
            printf("  %d times: %s\n", count, step->info.fused);
        printf("      nodes: ");
        print_ops(&step->info);
        printf("\n      begins at: ");
    } else {
        printf("  %d x %s\n      nodes: ", count, tenon_node_op(step->info.nodes[0]));
    }
    print_places(steps, count);
    print_result(r, step, count);
    print_costs(steps, count);
    printf("      why: %s%s\n", step->info.reason, count > 1 ? " (the first)" : "");
    if (!strstr(step->info.reason, step->info.choice))
        printf("      chosen: %s\n", step->info.choice);
    print_measured(step);
}

/* The groups of one kind, in order of their first steps. */
static int print_kind(const report *r, tenon_step_kind kind, const char *title) {
    size_t room = (size_t)r->plan.step_count + 1;
    const report_step **sorted = malloc(room * sizeof *sorted);
    int *sizes = calloc(room, sizeof *sizes), *places = calloc(room, sizeof *places), count = 0;
    int code = sorted && sizes && places ? CLI_OK : cli_error(CLI_FAILED, "out of memory");
    for (int i = 0; i < r->plan.step_count && code == CLI_OK; i++) {
        if (r->steps[i].info.kind == kind)
            sorted[count++] = &r->steps[i];
    }
    if (count > 0) {
        qsort(sorted, (size_t)count, sizeof *sorted, by_group);
        printf("\n%s\n", title);
    }
    for (int i = 0, n; i < count; i += n) {
        for (n = 1; i + n < count && compare(sorted[i], sorted[i + n]) == 0; n++)
            ;
        sizes[sorted[i] - r->steps] = n;
        places[sorted[i] - r->steps] = i;
    }
    for (int s = 0; s < r->plan.step_count && count > 0; s++) {
        if (sizes[s] > 0)
            print_group(r, sorted + places[s], sizes[s]);
    }
    free(sorted);
    free(sizes);
    free(places);
    return code;
}

/* ---- The whole ---- */

static void print_conversions(const report *r) {
    bool some = false;
    for (int i = 0; i < r->node_count; i++) {
        const report_node *n = &r->nodes[i];
        if (n->info.conversion == TENON_CONVERSION_NONE)
            continue;
        if (!some)
            printf("\nconversions\n");
        some = true;
        const tenon_value *value = tenon_node_output(n->node, 0);
        const char *to = n->info.conversion == TENON_CONVERSION_DTYPE
                             ? tenon_dtype_text(tenon_value_dtype(value))
                             : "row-major memory of its own";
        printf("  %s: to %s, for %s%s\n", report_name(n->node), to, n->info.conversion_for,
               n->info.inserted ? "" : " (the model's own)");
    }
}

/* Each pass once, with how often it changed the graph. */
static void print_passes(const report *r) {
    const tenon_graph *graph = r->plan.graph;
    tenon_pass_record record, other;
    for (int i = 0; tenon_graph_record(graph, i, &record); i++) {
        int64_t removed = 0, added = 0;
        int before = 0, times = 0;
        for (int j = 0; tenon_graph_record(graph, j, &other); j++) {
            if (strcmp(other.name, record.name) != 0)
                continue;
            before += j < i;
            times++;
            removed += other.removed_count;
            added += other.added_count;
        }
        if (i == 0)
            printf("\npasses that changed the graph\n");
        if (before > 0)
            continue;
        printf("  %s", record.name);
        if (times > 1)
            printf(", %d times", times);
        if (removed + added == 0)
            printf(": arguments or layouts\n");
        else
            printf(": %lld removed, %lld added; %s%s%s\n", (long long)removed, (long long)added,
                   record.removed_named ? "- " : "+ ",
                   record.removed_named ? record.removed[0] : record.added[0],
                   removed + added > 1 ? " ..." : "");
    }
}

int report_print(const report *r) {
    char arena[64], weights[64], moved[64], flops[64];
    long long fused = 0;
    for (int i = 0; i < r->plan.step_count; i++)
        fused += r->steps[i].info.kind == TENON_STEP_ONEDNN ? r->steps[i].info.node_count : 0;
    cli_bytes_text((double)r->plan.arena_bytes, arena, sizeof arena);
    cli_bytes_text((double)r->plan.weight_bytes, weights, sizeof weights);
    cli_bytes_text((double)(r->plan.read_bytes + r->plan.written_bytes), moved, sizeof moved);
    flops_text(r->plan.flops, flops, sizeof flops);
    printf("%s: %lld nodes after the passes\n", r->path, (long long)r->plan.node_count);
    printf(
        "  %d oneDNN partition%s with %lld nodes, %d in Tenon's kernels, %lld views, %d copies\n",
        r->plan.partition_count, r->plan.partition_count == 1 ? "" : "s", fused,
        r->plan.kernel_count, (long long)r->plan.view_count, r->plan.copy_count);
    printf("  activations %s, weights %s; a run moves %s and takes %s\n", arena, weights, moved,
           flops);
    if (r->plan.verified_partitions + r->plan.verified_kernels + r->plan.left_out > 0)
        printf(
            "  verify mode compared %d oneDNN partition%s and %d result%s of chosen kernels; left "
            "out: %d\n",
            r->plan.verified_partitions, r->plan.verified_partitions == 1 ? "" : "s",
            r->plan.verified_kernels, r->plan.verified_kernels == 1 ? "" : "s", r->plan.left_out);
    if (r->runs > 0)
        printf("  measured over %d runs: %.1f us a run\n", r->runs, r->run_time);
    int code = print_kind(r, TENON_STEP_ONEDNN, "oneDNN partitions");
    if (code == CLI_OK)
        code = print_kind(r, TENON_STEP_KERNEL, "Tenon's kernels");
    if (code == CLI_OK)
        code = print_kind(r, TENON_STEP_COPY, "copies");
    if (code == CLI_OK)
        print_conversions(r);
    if (code == CLI_OK)
        print_passes(r);
    return code;
}
