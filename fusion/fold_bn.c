/* Folds batch norm into the convolution, linear, mm or addmm before it: the first becomes the
 * second.
 *
 *     x -- convolution(w, b) -- batch_norm(gamma, beta, mean, var, eps)
 *
 *     x -- convolution(w', b')
 *
 *     scale = gamma / sqrt(var + eps)
 *     w'[o] = w[o] * scale[o]
 *     b'[o] = (b[o] - mean[o]) * scale[o] + beta[o]
 *
 * (Jacob et al. 2018, "Quantization and training", section 3.2.) The product's result must have no
 * other use.
 */
#include "fusion/passes.h"
#include "fusion/scaled.h"
#include <math.h>
#include <stdlib.h>

static bool match(tenon_node *norm, tn_product *p) {
    const tenon_value *y = tn_arg_value(norm, 0);
    for (int i = 1; i < norm->output_count; i++)
        if (norm->outputs[i]->use_count)
            return false;
    if (!y || y->use_count != 1 || !y->node || !tn_product_read(y->node, p))
        return false;
    /* The channels are dimension 1 of batch norm's input: of a matrix, or of an image. */
    if (p->weight->rank == 2 && y->rank != 2)
        return false;
    return tn_is_channel_vector(norm, 1, p->out, true) &&
           tn_is_channel_vector(norm, 2, p->out, true) &&
           tn_is_channel_vector(norm, 3, p->out, false) &&
           tn_is_channel_vector(norm, 4, p->out, false);
}

static tenon_status emit(tenon_node *norm, const tn_product *p, double *scale, double *bias,
                         tenon_value **with) {
    const tenon_value *gamma = tn_arg_value(norm, 1), *beta = tn_arg_value(norm, 2);
    const tenon_value *mean = tn_arg_value(norm, 3), *var = tn_arg_value(norm, 4);
    double eps = tn_arg_float(norm, 6, 0);
    for (int64_t o = 0; o < p->out; o++) {
        scale[o] = tn_channel_element(gamma, o, 1) / sqrt(tn_channel_element(var, o, 0) + eps);
        bias[o] = (tn_product_bias(p, o) - tn_channel_element(mean, o, 0)) * scale[o] +
                  tn_channel_element(beta, o, 0);
    }
    return tn_product_scaled(p, norm, NULL, scale, false, bias, with);
}

static tenon_status fold_norm(tenon_node *node, tenon_value **with) {
    tn_product p;
    if (!match(node, &p))
        return TENON_OK;
    double *scale = calloc((size_t)p.out * 2 + 1, sizeof *scale);
    if (!scale)
        return tn_no_memory();
    tenon_status status = emit(node, &p, scale, scale + p.out, with);
    free(scale);
    return status;
}

tenon_status tn_pass_fold_bn(tenon_graph *graph, bool *changed) {
    static const tn_rule rules[] = {
        {TN_OP_native_batch_norm_legit_no_training, fold_norm},
    };
    return tn_apply_rules(graph, rules, TN_COUNT(rules), changed);
}
