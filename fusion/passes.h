/* The passes of the default pipeline: one row a pass, in the order in which they run.
 * X(name, function, phase, kind, after, doc): the function is tn_pass_FUNCTION. Pinned passes stay
 * in front; they and required ones cannot be removed. Kernel passes choose kernels of Tenon's
 * where oneDNN has slower ones: sessions leave them out when they are to run one of the two
 * backends alone. `after` names the passes behind which
 * a pass finds more; numbers do not depend on the order. */
#ifndef TN_PASSES_H
#define TN_PASSES_H

#include <tenon/pass.h>

#define TN_PASS_LIST(X)                                                                            \
    X("functionalize", functionalize, MODEL, PINNED, "",                                           \
      "in-place ops become values and write-backs")                                                \
    X("freeze", freeze, MODEL, OPTIONAL, "", "buffers that no run changes become constants")       \
    X("drop", drop, MODEL, OPTIONAL, "", "copies and asserts go")                                  \
    X("scalars", scalars, MODEL, OPTIONAL, "", "numbers and second names of ops get one form")     \
    X("lower", lower, MODEL, REQUIRED, "", "composite ops become those that have kernels")         \
    X("linear", linear, MODEL, OPTIONAL, "lower",                                                  \
      "products with transposed weights become linear layers")                                     \
    X("fold", fold, MODEL, OPTIONAL, "", "what depends on constants alone is computed")            \
    X("merge", merge, MODEL, OPTIONAL, "", "equal nodes and equal constants become one")           \
    X("fold_bn", fold_bn, MODEL, OPTIONAL, "lower linear fold",                                    \
      "batch norm goes into the weights before it")                                                \
    X("activations", activations, MODEL, OPTIONAL, "lower",                                        \
      "gelu, silu, hardswish, hardsigmoid are found")                                              \
    X("scales", scales, MODEL, OPTIONAL, "scalars lower fold_bn activations",                      \
      "products by constants go into weights")                                                     \
    X("qkv", qkv, MODEL, OPTIONAL, "linear fold merge scales",                                     \
      "projections of one input become one")                                                       \
    X("dead", dead, MODEL, OPTIONAL, "", "what nothing needs goes")                                \
    X("lower_all", lower_all, SHAPES, REQUIRED, "", "composite ops that needed sizes are lowered") \
    X("fold_shapes", fold, SHAPES, OPTIONAL, "lower_all",                                          \
      "what depends on constants and sizes alone is computed")                                     \
    X("slices", slices, SHAPES, OPTIONAL, "lower_all fold_shapes", "equal slices get one form")    \
    X("cats", cats, SHAPES, OPTIONAL, "slices", "parts that are put together again are the whole") \
    X("pads", pads, SHAPES, OPTIONAL, "", "padding goes into convolutions and pools")              \
    X("views", views, SHAPES, OPTIONAL, "", "chains of views and casts cancel")                    \
    X("linear_shapes", linear_shapes, SHAPES, OPTIONAL, "lower_all views",                         \
      "linear layers behind views are found")                                                      \
    X("views_linear", views, SHAPES, OPTIONAL, "linear_shapes",                                    \
      "views around linear layers cancel")                                                         \
    X("norms", norms, SHAPES, OPTIONAL, "lower_all", "layer norm and rms norm are found")          \
    X("masks", masks, SHAPES, OPTIONAL, "lower_all fold_shapes",                                   \
      "masks that are chosen are added")                                                           \
    X("attention", attention, SHAPES, OPTIONAL, "lower_all views_linear masks",                    \
      "scaled dot-product attention is found")                                                     \
    X("causal", causal, SHAPES, OPTIONAL, "fold_shapes attention", "causal masks are found")       \
    X("spatial", spatial, SHAPES, OPTIONAL, "",                                                    \
      "adaptive pools become pools, channel shuffles are found")                                   \
    X("pools", pools, SHAPES, OPTIONAL, "spatial",                                                 \
      "average pools go in front of pointwise convolutions")                                       \
    X("views_last", views, SHAPES, OPTIONAL, "norms attention spatial",                            \
      "what the other passes left of views cancels")                                               \
    X("merge_shapes", merge, SHAPES, OPTIONAL, "", "equal nodes become one")                       \
    X("dead_shapes", dead, SHAPES, OPTIONAL, "", "what nothing needs goes")                        \
    X("repair", repair, SHAPES, REQUIRED, "", "outputs get memory of their own")                   \
    X("layout", layout, SHAPES, OPTIONAL, "pads norms attention spatial views_last repair",        \
      "images around convolutions become channels-last")                                           \
    X("winograd", winograd, SHAPES, KERNEL, "layout", "3x3 convolutions become Winograd's")        \
    X("parts", parts, SHAPES, KERNEL, "layout spatial",                                            \
      "images of parts: shuffled cats, batch norm of cats, split attention become one op")         \
    X("packed", packed, SHAPES, KERNEL, "layout", "linear layers take packed weights")             \
    X("depthwise", depthwise, SHAPES, KERNEL, "layout",                                            \
      "convolutions of single channels, with what is around them, become one op")                  \
    X("squeeze", squeeze, SHAPES, KERNEL, "layout depthwise",                                      \
      "squeeze-and-excitation, and convolutions of what it scales, become one op each")            \
    X("convolve", convolve, SHAPES, KERNEL, "layout winograd depthwise squeeze",                   \
      "convolutions take packed weights")                                                          \
    X("weights", weights, SHAPES, OPTIONAL, "winograd depthwise squeeze convolve",                 \
      "weights that waited to be scaled are")

#define X(name, function, phase, kind, after, doc) \
    tenon_status tn_pass_##function(tenon_graph *graph, bool *changed);
TN_PASS_LIST(X)
#undef X

#endif
