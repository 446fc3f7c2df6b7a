/* What shape rules work with. */
#ifndef TN_INFER_H
#define TN_INFER_H

#include "core/fail.h"
#include "core/graph.h"

typedef struct tn_meta {
    tenon_dtype dtype; /* NONE: an absent output */
    int32_t rank;
    int64_t shape[TENON_MAX_RANK];
} tn_meta;

struct tn_infer {
    const tenon_node *node;
    const tn_op *op;
    tn_meta *out; /* `out_count` of them, zeroed */
    int out_count;
    int out_capacity; /* 64 at least; a list return sets out_count through tn_infer_list */
    tn_arena *arena;  /* for larger lists */
};

/* The dtype and shape of tensor argument `index`: a value's, or of a literal number rank 0. False
 * when absent. */
bool tn_infer_in(const tn_infer *infer, int index, tn_meta *meta);
/* The same for a list item. */
bool tn_infer_item(const tn_infer *infer, int index, int item, tn_meta *meta);
/* The length of list argument `index`; 0 for None. */
int tn_infer_length(const tn_infer *infer, int index);
/* Makes room for `count` outputs. */
tenon_status tn_infer_list(tn_infer *infer, int count);
/* Fails, naming node, op and rule. */
tenon_status tn_infer_fail(const tn_infer *infer, const char *format, ...) TENON_PRINTF(2, 3);
/* Broadcasts `add` into `to` by the usual rules. */
tenon_status tn_infer_broadcast(tn_infer *infer, tn_meta *to, const tn_meta *add);
/* `dim` counted from the end when negative, checked against `rank` (rank 0 counts as 1). */
tenon_status tn_infer_dim(tn_infer *infer, int64_t dim, int rank, int *out);
/* PyTorch's result type (at::result_type) of the tensor or number arguments first..last: tensors
 * with dimensions before 0-d tensors before Python numbers, category by category. */
tenon_dtype tn_result_type(const tenon_node *node, int first, int last);

/* How many outputs a node has whose op returns a list, by its shape rule. */
tenon_status tn_infer_output_count(const tenon_node *node, int *count);

/* Every shape rule in ops.def: tn_infer_NAME. */
#define OP(id, schema, infer, kernel, map) tenon_status tn_infer_##infer(tn_infer *infer_);
#define VIEW(id, schema, infer, view)                \
    tenon_status tn_infer_##infer(tn_infer *infer_); \
    bool tn_view_##view(const tenon_node *node, int index, const tenon_view *in, tenon_view *out);
#define INPLACE(id, schema)
#define LOWER(id, schema, infer) tenon_status tn_infer_##infer(tn_infer *infer_);
#define SYM(id, schema, eval)                                                 \
    tenon_status tn_sym_##eval(const tenon_node *node, const tenon_arg *args, \
                               const tenon_value *tensor, tenon_arg *out);
#include "core/ops.def"
#undef OP
#undef VIEW
#undef INPLACE
#undef LOWER
#undef SYM

#endif
