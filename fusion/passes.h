/* The passes of the default pipeline: one row a pass, in the order in which they run.
 * X(name, function, phase, pinned, doc): the function is tn_pass_FUNCTION. Pinned passes stay in front and cannot be removed. */
#ifndef TN_PASSES_H
#define TN_PASSES_H

#include <tenon/pass.h>

#define TN_PASS_LIST(X)                                                                            \
    X("functionalize", functionalize, MODEL, true, "in-place ops become values and write-backs")   \
    X("freeze", freeze, MODEL, false, "buffers that no run changes become constants")              \
    X("drop", drop, MODEL, false, "copies, asserts and dropout go")                                \
    X("lower", lower, MODEL, false, "composite ops become those that have kernels")                \
    X("fold", fold, MODEL, false, "what depends on constants alone is computed")                   \
    X("merge", merge, MODEL, false, "equal nodes and equal constants become one")                  \
    X("fold_bn", fold_bn, MODEL, false, "batch norm goes into the weights before it")              \
    X("dead", dead, MODEL, false, "what nothing needs goes")                                       \
    X("lower_all", lower_all, SHAPES, false, "composite ops that needed sizes are lowered")        \
    X("fold_shapes", fold, SHAPES, false, "what depends on constants and sizes alone is computed") \
    X("merge_shapes", merge, SHAPES, false, "equal nodes become one")                              \
    X("dead_shapes", dead, SHAPES, false, "what nothing needs goes")

#define X(name, function, phase, pinned, doc)                                                      \
    tenon_status tn_pass_##function(tenon_graph *graph, bool *changed, void *user);
TN_PASS_LIST(X)
#undef X

#endif
