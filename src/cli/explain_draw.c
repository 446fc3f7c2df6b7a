/* The graph as Graphviz draws it: a box for each node, a frame for each partition; or, where that
 * takes it too long, a box for each partition. Classes and ids in the SVG let the page colour it
 * and find its parts: n12 is a node, s3 a step. */
#include "explain.h"
#include <stdlib.h>
#include <string.h>
#include <tenon/draw.h>

enum { MOST_NODES = 4000, SECONDS_FRAMES = 10, SECONDS_BOXES = 10 };

/* ---- DOT ---- */

typedef struct drawing {
    const report *report;
    FILE *out;
    const report_node **sorted; /* by address */
    bool frames;
} drawing;

static int by_address(const void *a, const void *b) {
    const tenon_node *x = (*(const report_node *const *)a)->node,
                     *y = (*(const report_node *const *)b)->node;
    return (x > y) - (x < y);
}

static int index_of(const drawing *d, const tenon_node *node) {
    const report_node key = {.node = node}, *wanted = &key;
    const report_node *const *found =
        bsearch(&wanted, d->sorted, (size_t)d->report->node_count, sizeof *d->sorted, by_address);
    return found ? (int)(*found - d->report->nodes) : -1;
}

/* A quoted string of DOT. */
static void put_text(FILE *out, const char *text) {
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', out);
        fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
}

static void put_shape(FILE *out, const tenon_value *value) {
    if (tenon_value_dtype(value) == TENON_DTYPE_NONE)
        return;
    fprintf(out, "\\n%s", tenon_dtype_text(tenon_value_dtype(value)));
    for (int d = 0; d < tenon_value_rank(value); d++)
        fprintf(out, d ? "\xc3\x97%lld" : " %lld", (long long)tenon_value_size(value, d));
}

static void put_op(FILE *out, const tenon_node *node) {
    const char *op = tenon_node_op(node), *point = strchr(op, '.');
    put_text(out, point ? point + 1 : op);
}

static void put_node(const drawing *d, int index) {
    const report_node *n = &d->report->nodes[index];
    bool view = n->info.step < 0;
    fprintf(d->out, "n%d [id=\"n%d\", class=\"%s\", %slabel=\"", index, index,
            report_where(d->report, n->info.step), view ? "shape=ellipse, fontsize=9, " : "");
    put_op(d->out, n->node);
    if (!view && tenon_node_output_count(n->node) > 0)
        put_shape(d->out, tenon_node_output(n->node, 0));
    fprintf(d->out, "\"];\n");
}

/* What stands for a node in the drawing. */
typedef struct spot {
    char kind; /* 'n' node, 's' step, 'i' input, 'o' output */
    int index;
} spot;

static spot spot_of(const drawing *d, int index) {
    int step = d->report->nodes[index].info.step;
    if (!d->frames && step >= 0 && d->report->steps[step].info.kind == TENON_STEP_ONEDNN)
        return (spot){'s', step};
    return (spot){'n', index};
}

static void put_arrow(const drawing *d, spot from, spot to) {
    if (from.kind != to.kind || from.index != to.index)
        fprintf(d->out, "%c%d -> %c%d;\n", from.kind, from.index, to.kind, to.index);
}

static void put_edge(const drawing *d, const tenon_value *value, spot to) {
    const tenon_node *maker = tenon_value_node(value);
    if (maker) {
        put_arrow(d, spot_of(d, index_of(d, maker)), to);
        return;
    }
    if (tenon_value_get_kind(value) != TENON_VALUE_INPUT)
        return; /* weights are not drawn */
    for (int i = 0; i < tenon_graph_input_count(d->report->plan.graph); i++) {
        if (tenon_graph_input(d->report->plan.graph, i) == value)
            put_arrow(d, (spot){'i', i}, to);
    }
}

static void put_edges(const drawing *d, int index) {
    const tenon_node *node = d->report->nodes[index].node;
    spot to = spot_of(d, index);
    for (int a = 0; a < tenon_node_arg_count(node); a++) {
        tenon_arg arg = tenon_node_arg(node, a);
        if (arg.kind == TENON_ARG_VALUE)
            put_edge(d, arg.as.value, to);
        for (int i = 0; arg.kind == TENON_ARG_LIST && i < arg.count; i++) {
            if (arg.as.list[i].kind == TENON_ARG_VALUE)
                put_edge(d, arg.as.list[i].as.value, to);
        }
    }
}

static void put_ends(const drawing *d) {
    const tenon_graph *graph = d->report->plan.graph;
    for (int i = 0; i < tenon_graph_input_count(graph); i++) {
        const tenon_value *input = tenon_graph_input(graph, i);
        fprintf(d->out, "i%d [id=\"i%d\", class=\"end\", shape=box, style=filled, label=\"", i, i);
        put_text(d->out, tenon_value_name(input));
        put_shape(d->out, input);
        fprintf(d->out, "\"];\n");
    }
    for (int i = 0; i < tenon_graph_output_count(graph); i++) {
        tenon_arg arg = tenon_graph_output(graph, i);
        fprintf(d->out, "o%d [id=\"o%d\", class=\"end\", shape=box, style=filled, label=\"", i, i);
        put_text(d->out, tenon_graph_output_name(graph, i));
        fprintf(d->out, "\"];\n");
        if (arg.kind == TENON_ARG_VALUE)
            put_edge(d, arg.as.value, (spot){'o', i});
    }
}

/* A partition as a frame around its nodes, or as one box that names them. */
static void put_partition(const drawing *d, int index) {
    const tenon_step_info *step = &d->report->steps[index].info;
    const tenon_node *last = step->nodes[step->node_count - 1];
    if (d->frames) {
        fprintf(d->out,
                "subgraph cluster_%d {\nid=\"s%d\"; class=\"onednn\"; style=rounded; margin=8; "
                "fontname=\"Helvetica\"; fontsize=9; labeljust=l; label=\"%d  %s\";\n",
                index, index, index, step->fused);
        for (int n = 0; n < step->node_count; n++)
            put_node(d, index_of(d, step->nodes[n]));
        fprintf(d->out, "}\n");
        return;
    }
    fprintf(d->out, "s%d [id=\"s%d\", class=\"onednn\", label=\"", index, index);
    for (int n = 0; n < step->node_count; n++) {
        fputs(n ? "\\n" : "", d->out);
        put_op(d->out, step->nodes[n]);
    }
    if (tenon_node_output_count(last) > 0)
        put_shape(d->out, tenon_node_output(last, 0));
    fprintf(d->out, "\"];\n");
}

static void put_graph(const drawing *d) {
    const report *r = d->report;
    fprintf(d->out,
            "strict digraph g {\nbgcolor=transparent; newrank=true; nslimit=2; mclimit=0.5; "
            "nodesep=0.25; ranksep=0.3;\n"
            "node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11, "
            "height=0.35, margin=\"0.14,0.06\"];\nedge [arrowsize=0.6];\n");
    put_ends(d);
    for (int s = 0; s < r->plan.step_count; s++) {
        if (r->steps[s].info.kind == TENON_STEP_ONEDNN)
            put_partition(d, s);
        else
            put_node(d, index_of(d, r->steps[s].info.nodes[0]));
    }
    for (int i = 0; i < r->node_count; i++) {
        if (r->nodes[i].info.step < 0)
            put_node(d, i);
        put_edges(d, i);
    }
    fprintf(d->out, "}\n");
}

/* The caller frees it; NULL when memory is out. */
static char *write_dot(const report *r, bool frames) {
    char *text = NULL;
    size_t length = 0;
    drawing d = {.report = r, .frames = frames, .out = open_memstream(&text, &length)};
    d.sorted = malloc(((size_t)r->node_count + 1) * sizeof *d.sorted);
    bool done = d.out && d.sorted;
    for (int i = 0; i < r->node_count && done; i++)
        d.sorted[i] = &r->nodes[i];
    if (done) {
        qsort(d.sorted, (size_t)r->node_count, sizeof *d.sorted, by_address);
        put_graph(&d);
    }
    free(d.sorted);
    if (d.out && fclose(d.out) != 0)
        done = false;
    if (!done) {
        free(text);
        text = NULL;
    }
    return text;
}

/* ---- SVG ---- */

/* Leaves the element itself: what stands before it, and the names of XML's namespaces, a page needs
 * not. */
static void trim(char *text) {
    char *start = strstr(text, "<svg"), *end = start ? strchr(start, '>') : NULL, *name;
    if (!end) {
        *text = '\0';
        return;
    }
    memmove(text, start, strlen(start) + 1);
    while ((name = strstr(text, " xmlns")) && name < strchr(text, '>')) {
        char *quote = strchr(name, '"');
        quote = quote ? strchr(quote + 1, '"') : NULL;
        if (!quote)
            break;
        memmove(name, quote + 1, strlen(quote + 1) + 1);
    }
}

char *report_draw(const report *r) {
    char *svg = NULL;
    for (int boxes = 0; boxes < 2 && !svg && r->node_count > 0 && r->node_count <= MOST_NODES;
         boxes++) {
        char *dot = write_dot(r, !boxes);
        if (!dot || tenon_dot_to_svg(dot, boxes ? SECONDS_BOXES : SECONDS_FRAMES, &svg) != TENON_OK)
            svg = NULL; /* the page draws the steps itself */
        free(dot);
    }
    if (svg)
        trim(svg);
    return svg;
}
