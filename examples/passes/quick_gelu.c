/* A pass that finds a pattern, and an op of our own to put in its place.
 *
 *     %x -- * 1.702 -- sigmoid -- * -- %y          %x -- example.quick_gelu -- %y
 *      \_________________________/
 *
 * (the fast approximation of gelu of Hendrycks and Gimpel, 2016: x * sigmoid(1.702 x))
 * docs/passes.md walks through this file.
 */
#include <math.h>
#include <tenon/tenon.h>

/* The output is like the input. */
static tenon_status shape(const tenon_node *node, tenon_view *outputs, int count, void *user) {
    const tenon_value *x = tenon_node_arg_value(node, 0);
    (void)count, (void)user;
    if (!tenon_value_view(x, &outputs[0]) || outputs[0].dtype != TENON_FLOAT32)
        return tenon_fail(TENON_INVALID_GRAPH, "needs a float32 tensor, not %s",
                          tenon_dtype_text(tenon_value_dtype(x)));
    return TENON_OK;
}

/* Inputs and outputs may have any strides: the index of an element is taken apart by the shape. */
static tenon_status kernel(tenon_op_call *call, void *user) {
    tenon_view x = tenon_op_call_input(call, 0), y = tenon_op_call_output(call, 0);
    double beta = tenon_node_arg(tenon_op_call_node(call), 1).as.f;
    (void)user;
    for (int64_t i = 0; i < tenon_view_numel(&x); i++) {
        int64_t from = 0, to = 0, rest = i;
        for (int d = x.rank - 1; d >= 0; d--) {
            from += rest % x.shape[d] * x.strides[d];
            to += rest % x.shape[d] * y.strides[d];
            rest /= x.shape[d];
        }
        double value = ((const float *)x.data)[from];
        ((float *)y.data)[to] = (float)(value / (1 + exp(-beta * value)));
    }
    return TENON_OK;
}

/* $beta may be anything but a value; the op takes a number. Other matches stay as they are. */
static bool has_number(const tenon_pattern *pattern, void *user) {
    tenon_arg beta = tenon_pattern_arg(pattern, "beta");
    (void)user;
    return beta.kind == TENON_ARG_FLOAT || beta.kind == TENON_ARG_INT;
}

static tenon_status run(tenon_pass_call *call) {
    tenon_pattern *pattern = NULL;
    int64_t count = 0;
    tenon_status status = tenon_pattern_create("value %x: float32\n"
                                               "%m = aten.mul.Tensor(%x, $beta) commutative\n"
                                               "%s = aten.sigmoid(%m)\n"
                                               "%y = aten.mul.Tensor(%x, %s) commutative\n",
                                               "quick_gelu", &pattern);
    if (status == TENON_OK)
        status = tenon_pattern_rewrite(pattern, call->graph, "%z = example.quick_gelu(%x, $beta)",
                                       has_number, NULL, &count);
    tenon_pattern_destroy(&pattern);
    call->changed = count > 0;
    return status;
}

static tenon_status setup(tenon_passes *passes) {
    const tenon_pass pass = {.name = "quick_gelu",
                             .doc = "x * sigmoid(b * x) becomes one op",
                             .phase = TENON_PASS_MODEL,
                             .run = run,
                             .remove_dead = true};
    tenon_status status = tenon_op_register(
        "example::quick_gelu(Tensor self, float beta=1.702) -> Tensor", shape, kernel, NULL);
    return status == TENON_OK ? tenon_passes_insert(passes, 0, &pass) : status;
}

TENON_PLUGIN("quick_gelu", setup)
