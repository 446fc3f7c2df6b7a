/* Drawings of graphs, made with Graphviz. Read status.h first. */
#ifndef TENON_DRAW_H
#define TENON_DRAW_H

#include <tenon/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes the graph in Graphviz's language DOT: inputs, outputs, nodes with op, dtype and shape, and
 * the values between them. The caller frees `*out` with tenon_string_free. */
TENON_API TENON_MUST_CHECK tenon_status tenon_graph_dot(const tenon_graph *graph, char **out);

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
