/* The op table: what each op is, and where it can run; and ops of your own. Read status.h first. */
#ifndef TENON_OP_H
#define TENON_OP_H

#include <tenon/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tenon_op_info {
    const char *name;   /* "aten.add.Tensor" */
    const char *schema; /* PyTorch's: "aten::add.Tensor(Tensor self, Tensor other, *, Scalar
                           alpha=1) -> Tensor" */
    bool is_view;       /* shares its input's memory where strides allow it */
    bool is_inplace;    /* writes an argument; the first pass makes it functional */
    bool is_lowered;    /* a pass rewrites it into other ops, so it needs no kernel */
    bool has_kernel;    /* a kernel, Tenon's or a registered one, computes it */
    bool is_registered; /* by tenon_op_register */
    const char *onednn; /* the oneDNN Graph ops that it maps to, such as "MatMul"; "" when none */
    const char
        *alias_of;       /* the op of which `name` is a second name, which graphs then hold; NULL */
    const char *refused; /* why no graph holds it; NULL for all others. `name` then stands for all
                            overloads when it has none, and for the form in place, and may hold
                            * for any characters; `schema` is "" */
} tenon_op_info;

/* How many ops there are: those of the table, second names, those that are refused, and registered
 * ones. Thread-safe. */
TENON_API int tenon_op_count(void);

/* Facts of the op at `index`; false past the end. The strings live as long as the process.
 * Thread-safe. */
TENON_API bool tenon_op_get(int index, tenon_op_info *info);

/* Facts of the op of that name ("aten.relu" and "aten.relu.default" are the same); false when there
 * is none. Of one that is refused `name` is the pointer given. Thread-safe. */
TENON_API bool tenon_op_find(const char *name, tenon_op_info *info);

/* ---- Ops of your own
 * ------------------------------------------------------------------------------------------------
 * A registered op stands beside those of the table: passes may insert it, the text form and
 * archives may name it, a kernel of yours computes it. It is a pure function: equal inputs give
 * equal outputs, so equal nodes may be merged, nodes that nothing uses removed, and nodes over
 * constants computed once. In a session with TENON_PRECISION_BF16 its operands keep the dtypes that
 * they have without it. */

/* The shape rule. `outputs` has one zeroed view for each return of the schema: set its dtype, rank
 * and shape; strides and data are not looked at. The arguments are those of `node`
 * (tenon_node_arg_value, tenon_value_view, tenon_node_arg, ...); it is called only when all sizes
 * of the inputs are known: before that dtype and rank of the outputs, and of what follows, are not
 * known either. To refuse them return tenon_fail(TENON_INVALID_GRAPH, "needs ..."): node
 * and op are put before the message. Called by any thread. */
typedef tenon_status (*tenon_op_shape_fn)(const tenon_node *node, tenon_view *outputs,
                                          int output_count, void *user);

typedef struct tenon_op_call tenon_op_call;

/* The kernel. It reads its inputs, writes every element of its outputs, and keeps nothing of
 * `call`. Inputs may have any strides; outputs never overlap them. Called by any thread, by several
 * at once. On failure return tenon_fail(TENON_RUN_FAILED, ...); node and op are put before the
 * message. */
typedef tenon_status (*tenon_op_kernel_fn)(tenon_op_call *call, void *user);

/* The node that is computed; numbers, lists and the like are read from it with tenon_node_arg. */
TENON_API const tenon_node *tenon_op_call_node(const tenon_op_call *call);
/* The tensor that argument `index` (counted as in the schema) holds. dtype NONE: it is None, or of
 * another type: numbers, lists and the like are read from the node. */
TENON_API tenon_view tenon_op_call_input(const tenon_op_call *call, int index);
/* The same for item `item` of an argument that is a list of tensors. */
TENON_API tenon_view tenon_op_call_item(const tenon_op_call *call, int index, int item);
/* Output `index`, with the dtype and shape of the shape rule and dense strides of any order. dtype
 * NONE: nobody reads it, and it has no memory. */
TENON_API tenon_view tenon_op_call_output(const tenon_op_call *call, int index);
/* As many OpenMP threads as the kernel may use. */
TENON_API int tenon_op_call_threads(const tenon_op_call *call);
/* Memory that is valid until the kernel returns, 64-byte aligned, not zeroed; NULL when memory is
 * out. It is kept between runs. Not for use inside a parallel region. */
TENON_API void *tenon_op_call_scratch(tenon_op_call *call, size_t size);

/* Registers an op for the whole process, for good. `schema` is written as PyTorch writes them:
 * "mine::swish(Tensor self, float beta=1.0) -> Tensor", in any namespace, with at most 32 arguments
 * and 32 returns; it is copied. Where it says Tensor a node must give a tensor: numbers are
 * refused. `user` (may be NULL) is given to both functions and must stay. INVALID_ARGUMENT names
 * the place in the schema, or says what else is wrong: the name is taken (registering the very same
 * op again is fine), the op writes or aliases its arguments, or returns something other than
 * tensors. Thread-safe. */
TENON_API TENON_MUST_CHECK tenon_status tenon_op_register(const char *schema,
                                                          tenon_op_shape_fn shape,
                                                          tenon_op_kernel_fn kernel, void *user);

#ifdef __cplusplus
}
#endif
#endif
