/* The graph as Graphviz draws it: a box for each node, a frame for each partition. Classes and ids
 * in the SVG let the page colour it and find its parts: n12 is a node, s3 a step. */
#include "explain.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { MOST_NODES = 4000, SECONDS = 20 };

/* ---- DOT ---- */

typedef struct drawing {
    const report *report;
    FILE *out;
    const report_node **sorted; /* by address */
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

static void put_node(const drawing *d, int index) {
    const report_node *n = &d->report->nodes[index];
    const char *op = tenon_node_op(n->node), *point = strchr(op, '.');
    bool view = n->info.step < 0;
    fprintf(d->out, "n%d [id=\"n%d\", class=\"%s\", %slabel=\"", index, index,
            report_where(d->report, n->info.step), view ? "shape=ellipse, fontsize=9, " : "");
    put_text(d->out, point ? point + 1 : op);
    if (!view && tenon_node_output_count(n->node) > 0)
        put_shape(d->out, tenon_node_output(n->node, 0));
    fprintf(d->out, "\"];\n");
}

static void put_edge(const drawing *d, const tenon_value *value, const char *kind, int to) {
    const tenon_node *maker = tenon_value_node(value);
    if (maker) {
        fprintf(d->out, "n%d -> %s%d;\n", index_of(d, maker), kind, to);
        return;
    }
    if (tenon_value_get_kind(value) != TENON_VALUE_INPUT)
        return; /* weights are not drawn */
    for (int i = 0; i < tenon_graph_input_count(d->report->plan.graph); i++) {
        if (tenon_graph_input(d->report->plan.graph, i) == value)
            fprintf(d->out, "i%d -> %s%d;\n", i, kind, to);
    }
}

static void put_edges(const drawing *d, int index) {
    const tenon_node *node = d->report->nodes[index].node;
    for (int a = 0; a < tenon_node_arg_count(node); a++) {
        tenon_arg arg = tenon_node_arg(node, a);
        if (arg.kind == TENON_ARG_VALUE)
            put_edge(d, arg.as.value, "n", index);
        for (int i = 0; arg.kind == TENON_ARG_LIST && i < arg.count; i++) {
            if (arg.as.list[i].kind == TENON_ARG_VALUE)
                put_edge(d, arg.as.list[i].as.value, "n", index);
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
            put_edge(d, arg.as.value, "o", i);
    }
}

static void put_graph(const drawing *d) {
    const report *r = d->report;
    fprintf(d->out,
            "digraph g {\nbgcolor=transparent; nodesep=0.25; ranksep=0.3; nslimit=3; nslimit1=3;\n"
            "node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11, "
            "height=0.35, margin=\"0.14,0.06\"];\nedge [arrowsize=0.6];\n");
    put_ends(d);
    for (int s = 0; s < r->plan.step_count; s++) {
        const tenon_step_info *step = &r->steps[s].info;
        bool frame = step->kind == TENON_STEP_ONEDNN;
        if (frame)
            fprintf(d->out,
                    "subgraph cluster_%d {\nid=\"s%d\"; class=\"onednn\"; style=rounded; margin=8; "
                    "fontname=\"Helvetica\"; fontsize=9; labeljust=l; label=\"%d  %s\";\n",
                    s, s, s, step->fused);
        for (int n = 0; n < step->node_count; n++)
            put_node(d, index_of(d, step->nodes[n]));
        if (frame)
            fprintf(d->out, "}\n");
    }
    for (int i = 0; i < r->node_count; i++) {
        if (r->nodes[i].info.step < 0)
            put_node(d, i);
        put_edges(d, i);
    }
    fprintf(d->out, "}\n");
}

/* Writes the graph for dot to a temporary file, which is read from its start; NULL on failure. */
static FILE *write_dot(const report *r) {
    drawing d = {.report = r, .out = tmpfile()};
    d.sorted = malloc(((size_t)r->node_count + 1) * sizeof *d.sorted);
    bool done = d.out && d.sorted;
    for (int i = 0; i < r->node_count && done; i++)
        d.sorted[i] = &r->nodes[i];
    if (done) {
        qsort(d.sorted, (size_t)r->node_count, sizeof *d.sorted, by_address);
        put_graph(&d);
        done = fflush(d.out) == 0 && fseek(d.out, 0, SEEK_SET) == 0;
    }
    free(d.sorted);
    if (!done && d.out)
        fclose(d.out);
    return done ? d.out : NULL;
}

/* ---- Running dot ---- */

static pid_t start_dot(FILE *input, int output) {
    char *const arguments[] = {"dot", "-Tsvg", NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    if (posix_spawn_file_actions_adddup2(&actions, fileno(input), STDIN_FILENO) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO) != 0 ||
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) != 0 ||
        posix_spawnp(&pid, "dot", &actions, NULL, arguments, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

/* All that comes from the pipe within the time; NULL when that runs out. */
static char *read_all(int from) {
    char *text = NULL;
    size_t length = 0, room = 0;
    time_t end = time(NULL) + SECONDS;
    for (;;) {
        struct pollfd waiting = {.fd = from, .events = POLLIN};
        time_t left = end - time(NULL);
        if (room - length < 65536) {
            char *more = realloc(text, room + 262144);
            if (!more)
                break;
            text = more;
            room += 262144;
        }
        if (left <= 0 || poll(&waiting, 1, (int)left * 1000) <= 0)
            break;
        ssize_t got = read(from, text + length, room - length - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            break;
        if (got == 0) {
            text[length] = '\0';
            return text;
        }
        length += (size_t)got;
    }
    free(text);
    return NULL;
}

static char *run_dot(FILE *input) {
    int ends[2], status = 0;
    if (pipe(ends) != 0)
        return NULL;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    pid_t pid = start_dot(input, ends[1]);
    close(ends[1]);
    char *text = pid > 0 ? read_all(ends[0]) : NULL;
    close(ends[0]);
    if (pid > 0) {
        if (!text)
            kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    if (text && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) {
        free(text);
        text = NULL;
    }
    return text;
}

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
    if (r->node_count == 0 || r->node_count > MOST_NODES)
        return NULL;
    FILE *input = write_dot(r);
    char *text = input ? run_dot(input) : NULL;
    if (input)
        fclose(input);
    if (text)
        trim(text);
    if (text && !*text) {
        free(text);
        text = NULL;
    }
    return text;
}
