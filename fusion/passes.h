/* The passes of the default pipeline: one row a pass, in the order in which they run.
 * X(name, function, phase, pinned, doc): the function is tn_pass_FUNCTION. Pinned passes stay in
 * front and cannot be removed. */
#ifndef TN_PASSES_H
#define TN_PASSES_H

#include <tenon/pass.h>

#define TN_PASS_LIST(X)                                                                            \
    X("functionalize", functionalize, MODEL, true, "in-place ops become values and write-backs")   \
    X("freeze", freeze, MODEL, false, "buffers that no run changes become constants")              \
    X("drop", drop, MODEL, false, "copies, asserts and dropout go")                                \
    X("scalars", scalars, MODEL, false, "numbers and second names of ops get one form")            \
    X("lower", lower, MODEL, false, "composite ops become those that have kernels")                \
    X("linear", linear, MODEL, false, "products with transposed weights become linear layers")     \
    X("fold", fold, MODEL, false, "what depends on constants alone is computed")                   \
    X("merge", merge, MODEL, false, "equal nodes and equal constants become one")                  \
    X("fold_bn", fold_bn, MODEL, false, "batch norm goes into the weights before it")              \
    X("activations", activations, MODEL, false, "gelu, silu, hardswish, hardsigmoid are found")    \
    X("dead", dead, MODEL, false, "what nothing needs goes")                                       \
    X("lower_all", lower_all, SHAPES, false, "composite ops that needed sizes are lowered")        \
    X("fold_shapes", fold, SHAPES, false, "what depends on constants and sizes alone is computed") \
    X("slices", slices, SHAPES, false, "equal slices get one form")                                \
    X("cats", cats, SHAPES, false, "parts that are put together again are the whole")              \
    X("pads", pads, SHAPES, false, "padding goes into convolutions and pools")                     \
    X("views", views, SHAPES, false, "chains of views and casts cancel")                           \
    X("linear_shapes", linear_shapes, SHAPES, false, "linear layers behind views are found")       \
    X("views_linear", views, SHAPES, false, "views around linear layers cancel")                   \
    X("norms", norms, SHAPES, false, "layer norm and rms norm are found")                          \
    X("attention", attention, SHAPES, false, "scaled dot-product attention is found")              \
    X("causal", causal, SHAPES, false, "causal masks are found")                                   \
    X("spatial", spatial, SHAPES, false,                                                           \
      "adaptive pools become pools, channel shuffles are found")                                   \
    X("views_last", views, SHAPES, false, "what the other passes left of views cancels")           \
    X("merge_shapes", merge, SHAPES, false, "equal nodes become one")                              \
    X("dead_shapes", dead, SHAPES, false, "what nothing needs goes")                               \
    X("repair", repair, SHAPES, false, "outputs get memory of their own")                          \
    X("layout", layout, SHAPES, false, "images around convolutions become channels-last")

#define X(name, function, phase, pinned, doc) \
    tenon_status tn_pass_##function(tenon_graph *graph, bool *changed, void *user);
TN_PASS_LIST(X)
#undef X

#endif
