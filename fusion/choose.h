/* Choosing between ways to compute the same nodes: by a rule from sizes, or, where the graph has a
 * chooser, by what that one knows of this machine. */
#ifndef TN_CHOOSE_H
#define TN_CHOOSE_H

#include "core/graph.h"
#include <tenon/pass.h>

#define TN_MAX_WAYS 8

typedef struct tn_choice {
    tenon_node *const *nodes; /* what any of the ways computes, each behind what it reads */
    int node_count;
    int root;                /* among them: the node that `apply` takes */
    const char *const *ways; /* names; way 0 leaves the nodes to who comes after the pass */
    int way_count;           /* up to TN_MAX_WAYS */
    int usual;               /* the way that the rule from sizes takes */
    /* Rewrites the nodes around `node`; `way` is not 0. */
    tenon_status (*apply)(tenon_graph *graph, tenon_node *node, int way);
} tn_choice;

typedef struct tn_candidate {
    const tn_choice *choice;
    /* The names of the ways and the nodes as a graph in the text form: equal for nodes that are
     * computed alike, in whatever model. */
    const char *text;
} tn_candidate;

typedef struct tn_chooser tn_chooser;
struct tn_chooser {
    const tenon_pass *pass; /* that runs; set around each */
    /* Chooses. `told` gets a clause about it when the choice does not come from the rule. */
    tenon_status (*choose)(tn_chooser *self, const tn_candidate *candidate, int *way,
                           tn_text *told);
};

/* The way to go: the usual one, unless the graph's chooser knows better. What that told stays at
 * the nodes (node->choice). */
tenon_status tn_choose(tenon_graph *graph, const tn_choice *choice, int *way);

/* The candidate as a graph of its own, rewritten for `way`. What it reads of other nodes are
 * inputs, copied (aten.clone) into the layout that they have in the model. It shares the constants.
 */
tenon_status tn_candidate_graph(const tn_candidate *candidate, int way, tenon_graph **out);

#endif
