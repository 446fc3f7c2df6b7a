/* A pass that changes nothing: it counts nodes over all graphs that it sees, and tells the number
 * when it goes. It has an option, and state of its own that its destructor frees.
 *
 *     tenon run model.pt2 --random 0 --pass-plugin count_ops.so \
 *         --pass-option count_ops.op=aten.relu
 *
 * docs/passes.md walks through this file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

typedef struct counter {
    char op[64]; /* "": all */
    long graphs, nodes;
} counter;

static tenon_status run(tenon_pass_call *call) {
    counter *c = call->pass->user;
    snprintf(c->op, sizeof c->op, "%s", tenon_pass_get_option(call->pass, "op"));
    c->graphs++;
    for (tenon_node *n = tenon_graph_first_node(call->graph); n; n = tenon_node_next(n))
        if (!*c->op || strcmp(tenon_node_op(n), c->op) == 0)
            c->nodes++;
    return TENON_OK;
}

static void tell(void *user) {
    counter *c = user;
    fprintf(stderr, "count_ops: %ld nodes%s%s in %ld graphs\n", c->nodes, *c->op ? " of " : "",
            c->op, c->graphs);
    free(c);
}

static tenon_status setup(tenon_passes *passes) {
    const tenon_pass_option options[] = {{"op", ""}};
    const tenon_pass pass = {.name = "count_ops",
                             .doc = "counts the nodes that are left",
                             .phase = TENON_PASS_SHAPES,
                             .run = run,
                             .user = calloc(1, sizeof(counter)),
                             .destroy = tell,
                             .options = options,
                             .option_count = 1};
    if (!pass.user)
        return tenon_fail(TENON_OUT_OF_MEMORY, "out of memory");
    tenon_status status = tenon_passes_append(passes, &pass);
    if (status != TENON_OK)
        free(pass.user); /* the list owns it on success only */
    return status;
}

TENON_PLUGIN("count_ops", setup)
