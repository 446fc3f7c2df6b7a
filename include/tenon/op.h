/* The op table: what each op is, and where it can run. Read status.h first. */
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
    bool has_kernel;    /* one of Tenon's kernels computes it */
    const char *onednn; /* the oneDNN Graph ops that it maps to, such as "MatMul"; "" when none */
} tenon_op_info;

/* How many ops there are. Thread-safe. */
TENON_API int tenon_op_count(void);

/* Facts of the op at `index`; false past the end. The strings live as long as the process.
 * Thread-safe. */
TENON_API bool tenon_op_get(int index, tenon_op_info *info);

/* Facts of the op of that name ("aten.relu" and "aten.relu.default" are the same); false when there
 * is none. Thread-safe. */
TENON_API bool tenon_op_find(const char *name, tenon_op_info *info);

#ifdef __cplusplus
}
#endif
#endif
