/* What the files of this folder share. */
#ifndef TN_PARTITIONS_INTERNAL_H
#define TN_PARTITIONS_INTERNAL_H

#include "core/fail.h"
#include "core/graph.h"
#include "partitions/partitions.h"
#include <oneapi/dnnl/dnnl_graph.h>

/* ---- The process's engine (engine.c)
 * ------------------------------------------------------------------------- */

/* What the oneDNN that is loaded can do; filled once. */
typedef struct tn_caps {
    int version; /* 30702 for 3.7.2 */
    int chain;   /* post-ops that fuse behind one op */
    bool gelu_tanh;
    bool rms_norm;
    bool
        right_side_safe; /* subtract and divide fuse right when the chain is their second operand */
    bool select_safe;    /* Select with a broadcast condition chooses; before 3.8 it multiplies and
                            adds, so that inf * 0 = NaN */
    bool deconv_binary;  /* ConvTranspose with a binary post-op is right */
    bool bfloat16, float16;
} tn_caps;

/* Makes the engine, when it is not there yet, with that cap on the ISA. */
tenon_status tn_engine_start(tn_isa cap, dnnl_engine_t *engine);
const tn_caps *tn_engine_caps(void); /* after tn_engine_start */
/* Sets of partitions come and go; `bytes` says about how much memory the packed weights of one
 * take. The last one to leave empties oneDNN's caches, and so does each before it, once more has
 * been left behind than is in use. */
void tn_engine_enter(void);
void tn_engine_use(size_t bytes);
void tn_engine_leave(size_t bytes);
/* A partition failed while it packed its weights: oneDNN's cache then holds a promise that nobody
 * keeps, over which emptying it would hang, so that it stays as it is from now on. */
void tn_engine_spoil(void);
/* A partition did not compile. Its entry stays in oneDNN's cache, and points at ops that go with
 * their graph (seen in 3.6): the entry has to go before they do. */
void tn_engine_compile_failed(void);
/* The first of 2^32 ids that nobody else has: equal ids would share compiled kernels, and packed
 * weights with them. */
size_t tn_engine_ids(void);
const char *tn_dnnl_text(dnnl_status_t status);
tenon_status tn_dnnl_status(dnnl_status_t status); /* OUT_OF_MEMORY, or BACKEND */

/* A reason as `tenon explain` gives it. */
typedef struct tn_why {
    tenon_reason kind;
    char text[320];
} tn_why;

/* What becomes of a node: node->mark. */
enum { TN_TAKEN = 0, TN_ALONE, TN_OUTSIDE };

/* ---- Lowering a stretch of the graph (build.c)
 * ---------------------------------------------------------------- */

/* A tensor as oneDNN Graph sees it: a value of the graph, another shape of it, a literal, or an
 * inner result of a node. */
typedef struct tn_lt {
    tenon_value *value; /* NULL: a literal or an inner result */
    void *literal;
    dnnl_data_type_t dtype;
    int32_t rank;
    int64_t shape[TENON_MAX_RANK], strides[TENON_MAX_RANK];
    bool constant;       /* an unchanging weight, worth packing */
    int32_t producer;    /* op that makes it, -1: none */
    const tn_why *apart; /* why it is kept from fusing with what reads it; NULL: it is not */
} tn_lt;

typedef struct tn_lowered {
    dnnl_graph_op_t op;
    dnnl_graph_op_kind_t kind;
    tenon_node *node;
    int32_t *in, *out; /* tensors */
    int32_t in_count, out_count;
    int32_t partition;       /* among those found; -1: none */
    int32_t item;            /* among those of the set; -1: none */
    size_t attrs, attrs_end; /* its attributes, in b->attrs: for each an attr_head, its bytes */
} tn_lowered;

#define TN_LOWERED_INPUTS 64 /* as many as Concat takes */

typedef struct tn_builder {
    tn_partitions *set; /* literals live in its arena */
    tn_arena arena;
    const tn_partition_options *options;
    const tenon_view *views;
    const tn_caps *caps;
    tn_lt *tensors;
    tn_lowered *ops;
    int32_t *tensor_of; /* by value id: its tensor, or -1 */
    int32_t tensor_count, op_count, tensor_capacity, op_capacity;
    size_t first_id;
    tenon_node *node; /* being mapped */
    tn_text attrs;    /* what was set, op by op, so that ops can be compared */
    int causal_mask;  /* the tensor made last for one, -1: none */
    bool failed;      /* memory is out */
    tn_why refusal;
} tn_builder;

/* Lowers one node; false with b->refusal when oneDNN cannot take it. */
typedef bool (*tn_map_fn)(tn_builder *b, tenon_node *node);

/* false, after noting why. */
bool tn_refuse(tn_builder *b, tenon_reason kind, const char *format, ...) TENON_PRINTF(3, 4);

/* The view in which argument `index` lies, or NULL when it is no tensor. */
const tenon_view *tn_b_view(const tn_builder *b, const tenon_node *node, int index);
const tenon_view *tn_b_out_view(const tn_builder *b, const tenon_node *node, int output);
/* Whether the view is of the dtype that output 0 has, that dtype is one that oneDNN computes in
 * here, and no size is 0. */
bool tn_b_check(tn_builder *b, const tenon_node *node, const tenon_view *view);
/* Whether nobody wants the outputs after the first one. */
bool tn_b_one_output(tn_builder *b, const tenon_node *node);

/* Tensors, by number. Those for values are made once. */
int tn_b_value(tn_builder *b, tenon_value *value);
/* The memory of an operand, or of output 0, in another shape. */
int tn_b_reshaped(tn_builder *b, tenon_value *value, int rank, const int64_t *shape,
                  const int64_t *strides);
int tn_b_reshaped_out(tn_builder *b, tenon_node *node, int rank, const int64_t *shape,
                      const int64_t *strides);
/* One element. */
int tn_b_scalar(tn_builder *b, tenon_dtype dtype, double number);
/* `count` elements, row-major, all `number`; the memory is returned for other contents. */
int tn_b_literal(tn_builder *b, tenon_dtype dtype, int rank, const int64_t *shape, double number,
                 void **memory);
/* A result within the node. */
int tn_b_inner(tn_builder *b, tenon_dtype dtype, int rank, const int64_t *shape);
/* Says that a tensor is a weight: packed when it is constant and the options want it. */
void tn_b_weight(tn_builder *b, int tensor);

/* Ops: the inputs, -1 for none at the end, then one output. Attributes are set on the op that was
 * added last. */
void tn_b_op(tn_builder *b, dnnl_graph_op_kind_t kind, int in0, int in1, int in2, int out);
void tn_b_op_list(tn_builder *b, dnnl_graph_op_kind_t kind, const int *in, int in_count, int out);
void tn_b_set_ints(tn_builder *b, dnnl_graph_op_attr_t attr, const int64_t *values, int count);
void tn_b_set_int(tn_builder *b, dnnl_graph_op_attr_t attr, int64_t value);
void tn_b_set_floats(tn_builder *b, dnnl_graph_op_attr_t attr, const float *values, int count);
void tn_b_set_float(tn_builder *b, dnnl_graph_op_attr_t attr, double value);
void tn_b_set_bool(tn_builder *b, dnnl_graph_op_attr_t attr, bool value);
void tn_b_set_string(tn_builder *b, dnnl_graph_op_attr_t attr, const char *value);
/* Makes op `index` again, with its attributes; its tensors are still to be told. */
dnnl_status_t tn_b_renew(tn_builder *b, int32_t index);

/* ---- Layouts
 * -------------------------------------------------------------------------------------------------
 */

/* No gaps and no overlap, in any order of dimensions. */
bool tn_view_dense(const tenon_view *view);
/* No two elements share memory. */
bool tn_view_disjoint(const tenon_view *view);
/* Equal strides where the size is not 1. */
bool tn_same_layout(const tenon_view *a, const tenon_view *b);

dnnl_data_type_t tn_dnnl_dtype(tenon_dtype dtype); /* undef when oneDNN Graph has none */
const char *tn_dnnl_kind_text(dnnl_graph_op_kind_t kind);

/* ---- Every mapping in ops.def: tn_map_NAME, where NAME tells the oneDNN Graph ops.
 * ----------------------------- */
#define OP(id, schema, infer, kernel, map) bool tn_map_##map(tn_builder *b, tenon_node *node);
#define VIEW(id, schema, infer, view)
#define INPLACE(id, schema)
#define LOWER(id, schema, infer)
#define SYM(id, schema, eval)
#include "core/ops.def"
#undef OP
#undef VIEW
#undef INPLACE
#undef LOWER
#undef SYM

/* Writes the tensor as oneDNN wants it. In a family sizes of activations stay open, so that one
 * partition serves all shapes. */
dnnl_status_t tn_b_logical(const tn_builder *b, int32_t tensor, dnnl_graph_logical_tensor_t *out);

/* Maps one node by the table. */
bool tn_map_node(tn_builder *b, tenon_node *node);

/* Says why `node` runs where it runs. */
tenon_status tn_set_reason(tenon_node *node, tenon_reason kind, const char *format, ...)
    TENON_PRINTF(3, 4);

#endif
