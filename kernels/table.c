/* The table of kernels of one ISA level, a row of ops.def a slot. */
#include "kernels/kernels.h"

#define OP(id, schema, infer, kernel, map) tenon_status TN_K(kernel)(tn_call * call);
#define VIEW(id, schema, infer, view)
#define INPLACE(id, schema)
#define LOWER(id, schema, infer)
#define SYM(id, schema, eval)
#include "core/ops.def"
#undef OP

const tn_kernel_fn TN_K(table)[TN_OP_COUNT + 1] = {
#define OP(id, schema, infer, kernel, map) [TN_OP_##id] = TN_K(kernel),
#include "core/ops.def"
};
