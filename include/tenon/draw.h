/* Drawings of graphs, made with Graphviz. Read status.h first. */
#ifndef TENON_DRAW_H
#define TENON_DRAW_H

#include <tenon/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How nodes are drawn; each function may be NULL. */
typedef struct tenon_draw_options {
    /* The group of a node, at least 0, which is drawn as a box around its nodes; -1: none. Groups
     * whose nodes stand apart are drawn all the same. */
    int (*group)(const tenon_node *node, void *user);
    /* The title of a group; the string must live until the drawing is made. */
    const char *(*group_label)(int group, void *user);
    /* "#rrggbb", or NULL for the default. */
    const char *(*color)(const tenon_node *node, void *user);
    /* A text that the drawing shows when the pointer rests on the node; may return NULL. */
    const char *(*note)(const tenon_node *node, void *user);
    void *user;
} tenon_draw_options;

/* Writes the graph in Graphviz's language DOT: inputs, outputs, nodes with op, dtype and shape, and
 * the values between them. The i-th node in the graph's order has the id "n<i>", also in an SVG
 * that is made of it. `options` may be NULL. The caller frees `*out` with tenon_string_free. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_dot(const tenon_graph *graph,
                                                        const tenon_draw_options *options,
                                                        char **out);

/* Turns DOT into SVG with Graphviz's program `dot`, which is stopped after `seconds`. UNSUPPORTED:
 * the program is not there, takes longer, or fails. The caller frees `*out` with
 * tenon_string_free. It starts a process and waits for it. */
TENON_API TENON_MUST_CHECK tenon_status tenon_dot_to_svg(const char *dot, int seconds, char **out);

/* Draws the graph into the file `path` as SVG; without Graphviz, or when that takes longer than 30
 * seconds, as the text form, with a warning in the log. IO names the file. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_draw(const tenon_graph *graph,
                                                         const char *path);

#ifdef __cplusplus
}
#endif
#endif
