/* What stands behind a convolution or a product, and can be computed with it. */
#ifndef TN_POST_OPS_H
#define TN_POST_OPS_H

#include "core/activation.h"

/* Arguments of a fused op in front of those of its activation, at most, and three. */
#define TN_MAX_FUSED_ARGS 16

typedef struct tn_post_ops {
    tenon_value *residual; /* added before the activation; NULL: none */
    tn_activation activation;
    tenon_node
        *nodes[3]; /* the node and what joins it; the fused op gives what the last one gives */
    int count;
} tn_post_ops;

/* Follows values of one dtype, float32 or bfloat16, that nothing else uses, from output 0 of
 * `node` on:
 *
 *     node --.-- [ add(residual) ] --.-- [ activation ] --.--
 *
 * A residual has the very dtype, shape and layout of the output. Without any, it is alone. */
tn_post_ops tn_post_ops_of(tenon_node *node);

/* Makes the fused node where `the last node stands, with name and source of that, and puts it in
 * its place. The arguments are `args` and then `str activation, float alpha, float beta`. All the
 * nodes are erased. */
tenon_status tn_fuse(enum tn_op_id op, const tn_post_ops *post, const tenon_arg *args, int count);

#endif
