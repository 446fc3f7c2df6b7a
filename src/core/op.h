/* The op table as the library's own code sees it: parsed schemas with the functions that serve
 * them. */
#ifndef TN_OP_H
#define TN_OP_H

#include <tenon/graph.h>
#include <tenon/op.h>

typedef enum tn_type {
    TN_TYPE_TENSOR,
    TN_TYPE_INT, /* int and SymInt */
    TN_TYPE_FLOAT,
    TN_TYPE_BOOL,
    TN_TYPE_SCALAR, /* int, float or bool */
    TN_TYPE_STRING, /* str and Device */
    TN_TYPE_DTYPE,  /* ScalarType */
    TN_TYPE_ENUM    /* Layout and MemoryFormat: integers as PyTorch numbers them */
} tn_type;

typedef struct tn_param {
    const char *name;
    tn_type type;
    bool list;          /* Tensor[], int[], ... */
    bool optional;      /* may be None */
    bool item_optional; /* Tensor?[]: items may be None */
    bool has_default;
    bool written;     /* "(a!)" */
    bool alias;       /* "(a)" or "(a!)": the outputs may share its memory */
    int32_t fixed;    /* int[2]: one number stands for so many; 0 otherwise */
    tenon_arg preset; /* the default */
} tn_param;

typedef enum tn_op_kind {
    TN_OP_KERNEL, /* a kernel computes it */
    TN_OP_VIEW,   /* shares memory; a copy to row-major order makes it possible where strides do not
                   */
    TN_OP_INPLACE, /* writes an argument: the pass that makes the graph functional replaces it */
    TN_OP_LOWER,   /* a pass rewrites it into other ops once shapes are known */
    TN_OP_SYM      /* symbolic numbers: evaluated when symbols are bound */
} tn_op_kind;

typedef struct tn_infer tn_infer;
typedef struct tenon_op_call tn_call;

/* Sets infer->out[...] from the arguments, or fails with a message that starts with the rule
 * ("needs ...", "... is not ..."). */
typedef tenon_status (*tn_infer_fn)(tn_infer *infer);
/* `out` holds the output's shape; sets out->strides, and moves out->data (which starts as in->data)
 * to the first element. False when strides cannot express it. `index` counts the node's outputs. */
typedef bool (*tn_view_fn)(const tenon_node *node, int index, const tenon_view *in,
                           tenon_view *out);
/* Evaluates a symbolic op over literal arguments; `in` is the first tensor argument's shape, or
 * NULL. */
typedef tenon_status (*tn_sym_fn)(const tenon_node *node, const tenon_arg *args,
                                  const tenon_value *tensor, tenon_arg *out);
typedef tenon_status (*tn_kernel_fn)(tn_call *call);

typedef struct tn_op {
    const char *schema;
    const char *name; /* "aten.add.Tensor", "aten.relu" */
    int32_t id;       /* row */
    tn_op_kind kind;
    int32_t param_count, return_count;
    tn_param *params;
    tn_param *returns; /* `written` and `alias` tell whether they are the input itself */
    bool list_return;  /* one Tensor[] */
    tn_infer_fn infer;
    tn_view_fn view;
    tn_sym_fn sym;
    const struct tn_op *functional; /* INPLACE: the op without the underscore */
    tenon_op_shape_fn user_shape;   /* of registered ops, which have ids from TN_OP_COUNT on */
    tenon_op_kernel_fn user_kernel;
    void *user;
} tn_op;

/* The rows of ops.def as numbers: TN_OP_add_Tensor, ... */
enum tn_op_id {
#define OP(id, schema, infer, kernel, map) TN_OP_##id,
#define VIEW(id, schema, infer, view) TN_OP_##id,
#define INPLACE(id, schema) TN_OP_##id,
#define LOWER(id, schema, infer) TN_OP_##id,
#define SYM(id, schema, eval) TN_OP_##id,
#include "core/ops.def"
#undef OP
#undef VIEW
#undef INPLACE
#undef LOWER
#undef SYM
    TN_OP_COUNT
};

/* The op of that name: "aten.add.Tensor", "aten.relu", "aten.relu.default", "aten::relu". NULL when
 * there is none. */
const tn_op *tn_op_find(const char *name);
const tn_op *tn_op_by_id(int id);
/* Why no graph may hold the op of that name; NULL when it is not among those that are refused. */
const char *tn_op_refused(const char *name);
/* Among registered ops (op_user.c); NULL when there is none. */
const tn_op *tn_user_op_find(const char *name);
const tn_op *tn_user_op_get(int index);
int tn_user_op_count(void);
/* The kernel that calls the user's. */
tenon_status tn_user_kernel(tn_call *call);
/* The oneDNN Graph ops that op `id` maps to, "" when none (partitions/ answers). */
const char *tn_onednn_text(int id);
/* The index of the parameter of that name, or -1. */
int tn_op_param(const tn_op *op, const char *name);

#endif
