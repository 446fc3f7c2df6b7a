/* Graphs as Graphviz's DOT, and the program that draws it. */
#include <tenon/draw.h>

#include "core/fail.h"
#include "core/graph.h"
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/load.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

#define DRAW_SECONDS 30

/* ---- DOT ---- */

static void add_quoted(tn_text *out, const char *text) {
    tn_text_put(out, "\"", 1);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            tn_text_put(out, "\\", 1);
        if (*text == '\n')
            tn_text_put(out, "\\n", 2);
        else
            tn_text_put(out, text, 1);
    }
    tn_text_put(out, "\"", 1);
}

/* "float32[s0, 3]" */
static void add_type(tn_text *out, const tenon_value *value) {
    char size[64];
    tn_text_add(out, "%s", tenon_dtype_text(value->dtype));
    if (value->rank < 0)
        return;
    for (int d = 0; d < value->rank; d++) {
        tenon_value_size_text(value, d, size, sizeof size);
        tn_text_add(out, "%s%s", d ? ", " : "[", size);
    }
    tn_text_add(out, value->rank ? "]" : "[]");
}

static void node_label(const tenon_node *node, tn_text *label) {
    tn_text_add(label, "%s\n%s", node->op->name, node->name);
    if (node->output_count > 0) {
        tn_text_add(label, "\n");
        add_type(label, node->outputs[0]);
    }
    for (int i = 0; i < node->use_count; i++) {
        const tenon_value *value = node->uses[i].value;
        if (value->kind != TENON_VALUE_CONSTANT)
            continue;
        tn_text_add(label, "\n%s ", value->name);
        add_type(label, value);
    }
}

static void add_node(tn_text *out, const tenon_node *node) {
    tn_text label = {0};
    node_label(node, &label);
    tn_text_add(out, "  n%lld [label=", (long long)node->order);
    add_quoted(out, label.data ? label.data : "");
    tn_text_add(out, "];\n");
    out->failed |= label.failed;
    tn_text_free(&label);
}

/* The name of what makes the value. */
static void add_maker(tn_text *out, const tenon_value *value) {
    if (value->node)
        tn_text_add(out, "n%lld", (long long)value->node->order);
    else
        tn_text_add(out, "%s%d", value->kind == TENON_VALUE_INPUT ? "i" : "b", value->index);
}

static void add_edges(tn_text *out, const tenon_node *node) {
    for (int i = 0; i < node->use_count; i++) {
        const tenon_value *value = node->uses[i].value;
        if (value->kind == TENON_VALUE_CONSTANT)
            continue;
        tn_text_add(out, "  ");
        add_maker(out, value);
        tn_text_add(out, " -> n%lld [tooltip=", (long long)node->order);
        add_quoted(out, value->name);
        tn_text_add(out, "];\n");
    }
}

static void add_end(tn_text *out, const char *prefix, int index, const char *name,
                    const tenon_value *value) {
    tn_text label = {0};
    tn_text_add(&label, "%s", name);
    if (value) {
        tn_text_add(&label, "\n");
        add_type(&label, value);
    }
    tn_text_add(out, "  %s%d [shape=oval, fillcolor=\"#eeeeee\", label=", prefix, index);
    add_quoted(out, label.data ? label.data : "");
    tn_text_add(out, "];\n");
    out->failed |= label.failed;
    tn_text_free(&label);
}

static void add_ends(tn_text *out, const tenon_graph *graph) {
    for (int i = 0; i < graph->input_count; i++)
        add_end(out, "i", i, graph->inputs[i]->name, graph->inputs[i]);
    for (int i = 0; i < graph->constant_count; i++)
        if (graph->constants[i]->kind == TENON_VALUE_BUFFER)
            add_end(out, "b", i, graph->constants[i]->name, graph->constants[i]);
    for (int i = 0; i < graph->output_count; i++) {
        const tn_use *use = graph->outputs[i].use;
        add_end(out, "o", i, graph->outputs[i].name, use ? use->value : NULL);
        if (!use || use->value->kind == TENON_VALUE_CONSTANT)
            continue;
        tn_text_add(out, "  ");
        add_maker(out, use->value);
        tn_text_add(out, " -> o%d;\n", i);
    }
    for (int i = 0; i < graph->write_count; i++) {
        if (graph->writes[i].use->value->kind == TENON_VALUE_CONSTANT)
            continue;
        tn_text_add(out, "  ");
        add_maker(out, graph->writes[i].use->value);
        tn_text_add(out, " -> ");
        add_maker(out, graph->writes[i].target);
        tn_text_add(out, " [style=dashed, constraint=false];\n");
    }
}

tenon_status tenon_graph_dot(const tenon_graph *graph, char **out) {
    tn_text text = {0};
    tn_graph_number((tenon_graph *)graph);
    tn_text_add(&text, "digraph ");
    add_quoted(&text, graph->name);
    tn_text_add(&text, " {\n"
                       "  bgcolor=transparent;\n"
                       "  node [shape=box, style=\"filled,rounded\", fillcolor=white, "
                       "fontname=\"sans-serif\", fontsize=11, margin=\"0.12,0.06\"];\n"
                       "  edge [arrowsize=0.6];\n");
    for (const tenon_node *node = graph->first; node; node = node->next)
        add_node(&text, node);
    add_ends(&text, graph);
    for (const tenon_node *node = graph->first; node; node = node->next)
        add_edges(&text, node);
    tn_text_add(&text, "}\n");
    if (text.failed) {
        tn_text_free(&text);
        return tn_no_memory();
    }
    *out = text.data;
    return TENON_OK;
}

/* ---- The program ---- */

/* Waits for the process, which is killed when it takes too long; whether it ended well. */
static bool wait_for(pid_t child, int seconds) {
    const struct timespec pause = {0, 5000000};
    const int64_t end = tn_clock_ns() + (int64_t)seconds * 1000000000;
    int state = 0;
    for (;;) {
        pid_t ended = waitpid(child, &state, WNOHANG);
        if (ended == child)
            return WIFEXITED(state) && WEXITSTATUS(state) == 0;
        if (ended < 0 && errno != EINTR)
            return false;
        if (tn_clock_ns() >= end) {
            kill(child, SIGKILL);
            waitpid(child, &state, 0);
            return false;
        }
        nanosleep(&pause, NULL);
    }
}

static bool run_dot(FILE *in, FILE *out, int seconds) {
    char *const arguments[] = {"dot", "-Tsvg", NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return false;
    bool ok = posix_spawn_file_actions_adddup2(&actions, fileno(in), STDIN_FILENO) == 0 &&
              posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO) == 0 &&
              posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", 1, 0) == 0 &&
              posix_spawnp(&child, "dot", &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    return ok && wait_for(child, seconds);
}

static char *read_all(FILE *file) {
    tn_text text = {0};
    char chunk[4096];
    if (fseek(file, 0, SEEK_SET) != 0)
        return NULL;
    size_t size;
    do {
        size = fread(chunk, 1, sizeof chunk, file);
        tn_text_put(&text, chunk, size);
    } while (size == sizeof chunk);
    if (text.failed || ferror(file))
        tn_text_free(&text);
    return text.data;
}

tenon_status tenon_dot_to_svg(const char *dot, int seconds, char **out) {
    FILE *in = tmpfile(), *drawn = tmpfile();
    char *svg = NULL;
    bool ok = in && drawn && fputs(dot, in) >= 0 && fflush(in) == 0;
    ok = ok && fseek(in, 0, SEEK_SET) == 0 && run_dot(in, drawn, seconds);
    if (ok)
        svg = read_all(drawn);
    if (in)
        fclose(in);
    if (drawn)
        fclose(drawn);
    if (!svg)
        return tn_fail(TENON_UNSUPPORTED,
                       "Graphviz's program 'dot' is not there, failed, or took more than %d s",
                       seconds);
    *out = svg;
    return TENON_OK;
}

tenon_status tenon_graph_draw(const tenon_graph *graph, const char *path) {
    char *dot = NULL, *drawing = NULL;
    TN_TRY(tenon_graph_dot(graph, &dot));
    tenon_status status = tenon_dot_to_svg(dot, DRAW_SECONDS, &drawing);
    free(dot);
    if (status == TENON_UNSUPPORTED) {
        tn_log(TENON_LOG_WARN, "%s: '%s' gets the text form of the graph", tenon_last_error(),
               path);
        status = tenon_graph_print(graph, &drawing);
    }
    if (status == TENON_OK)
        status = tenon_file_write(path, drawing, strlen(drawing));
    tenon_string_free(drawing);
    return status;
}
