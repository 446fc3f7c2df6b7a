/* Tensors: dtype, shape, strides, and memory of the library or of the caller. Read status.h first.
 */
#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENON_MAX_RANK 12

/* X(NAME, text, bytes): one row a dtype. The texts are PyTorch's names. */
#define TENON_DTYPE_LIST(X)    \
    X(BOOL, "bool", 1)         \
    X(UINT8, "uint8", 1)       \
    X(INT8, "int8", 1)         \
    X(INT16, "int16", 2)       \
    X(INT32, "int32", 4)       \
    X(INT64, "int64", 8)       \
    X(UINT16, "uint16", 2)     \
    X(UINT32, "uint32", 4)     \
    X(UINT64, "uint64", 8)     \
    X(FLOAT16, "float16", 2)   \
    X(BFLOAT16, "bfloat16", 2) \
    X(FLOAT32, "float32", 4)   \
    X(FLOAT64, "float64", 8)

typedef enum tenon_dtype {
    TENON_DTYPE_NONE = 0,
#define X(name, text, bytes) TENON_##name,
    TENON_DTYPE_LIST(X)
#undef X
        TENON_DTYPE_COUNT
} tenon_dtype;

/* "float32" and so on; "none" for TENON_DTYPE_NONE and for what is no dtype. Thread-safe. */
TENON_API const char *tenon_dtype_text(tenon_dtype dtype);

/* The dtype of that name, or TENON_DTYPE_NONE. Thread-safe. */
TENON_API tenon_dtype tenon_dtype_from_text(const char *text);

/* Bytes of one element; 0 for TENON_DTYPE_NONE. Thread-safe. */
TENON_API size_t tenon_dtype_size(tenon_dtype dtype);

/* A strided array. `data` points at the element with index zero everywhere; strides are in elements
 * and may be 0 or negative. A bool is one byte, 0 or 1. Element [i0, i1, ...] lies at data + (i0 *
 * strides[0] + ...) * size. */
typedef struct tenon_view {
    void *data;
    tenon_dtype dtype;
    int32_t rank;
    int64_t shape[TENON_MAX_RANK];
    int64_t strides[TENON_MAX_RANK];
} tenon_view;

/* The number of elements: 1 for rank 0. Thread-safe. */
TENON_API int64_t tenon_view_numel(const tenon_view *view);

/* Whether the elements lie row-major without gaps. Thread-safe. */
TENON_API bool tenon_view_is_contiguous(const tenon_view *view);

typedef struct tenon_tensor tenon_tensor;

/* Makes a zeroed, row-major tensor whose memory (64-byte aligned) belongs to the library. `shape`
 * has `rank` sizes of at least 0, and may be NULL for rank 0. INVALID_ARGUMENT for a bad dtype,
 * rank or size; OUT_OF_MEMORY. */
TENON_API TENON_MUST_CHECK tenon_status tenon_tensor_create(tenon_dtype dtype, int rank,
                                                            const int64_t *shape,
                                                            tenon_tensor **out);

/* Makes a tensor over the caller's memory, which must stay as long as the tensor, or anything made
 * from it, lives. `release` (may be NULL) is called once with `user` when the last of them has
 * gone; not on failure. */
TENON_API TENON_MUST_CHECK tenon_status tenon_tensor_wrap(const tenon_view *view,
                                                          void (*release)(void *user), void *user,
                                                          tenon_tensor **out);

/* Another handle on the same memory; each handle is destroyed on its own. */
TENON_API TENON_MUST_CHECK tenon_status tenon_tensor_share(const tenon_tensor *tensor,
                                                           tenon_tensor **out);

TENON_API void tenon_tensor_destroy(tenon_tensor **tensor);

/* The tensor's dtype, shape, strides and data; lives as long as the tensor. */
TENON_API const tenon_view *tenon_tensor_view(const tenon_tensor *tensor);

/* Copies elements of `from` to `to`, converting the dtype as PyTorch does (floats to integers
 * toward zero, to bfloat16 and float16 to nearest even, to bool by != 0). Shapes must be equal; the
 * memory must not overlap. INVALID_ARGUMENT otherwise. */
TENON_API TENON_MUST_CHECK tenon_status tenon_view_copy(const tenon_view *to,
                                                        const tenon_view *from);

#ifdef __cplusplus
}
#endif
#endif
