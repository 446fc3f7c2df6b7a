/* Storage, tensors and views, as the library's own code sees them. */
#ifndef TN_TENSOR_H
#define TN_TENSOR_H

#include <stdatomic.h>
#include <tenon/tensor.h>

/* A list of what was made from weights in a storage (core/derive.h). */
typedef struct tn_derived tn_derived;
void tn_derived_destroy(tn_derived **list);

/* Counted memory. */
typedef struct tn_storage {
    atomic_int shares;
    void *data;
    size_t size;
    bool mapped; /* read-only file pages: they can be dropped and come back */
    void (*release)(void *user);
    void *user;
    tn_derived *derived;
} tn_storage;

/* Takes over `user` on success only. */
tenon_status tn_storage_create(void *data, size_t size, void (*release)(void *), void *user,
                               tn_storage **out);
/* Zeroed, 64-byte aligned. */
tenon_status tn_storage_alloc(size_t size, tn_storage **out);
tn_storage *tn_storage_share(tn_storage *storage);
void tn_storage_drop(tn_storage **storage);
/* Lets the kernel take back the whole pages inside [data, data + size) of a mapped storage. */
void tn_storage_forget_pages(const tn_storage *storage, const void *data, size_t size);

struct tenon_tensor {
    tenon_view view;
    tn_storage *storage;
};

/* A tensor over part of a storage, which it shares. The view must lie within it: INVALID_ARGUMENT.
 */
tenon_status tn_tensor_over(tn_storage *storage, const tenon_view *view, tenon_tensor **out);

bool tn_dtype_is_float(tenon_dtype dtype);    /* float16, bfloat16, float32, float64 */
bool tn_dtype_is_integer(tenon_dtype dtype);  /* not bool */
bool tn_dtype_is_unsigned(tenon_dtype dtype); /* uint8, uint16, uint32, uint64 */

/* PyTorch's type promotion (c10::promoteTypes); NONE gives the other one. */
tenon_dtype tn_promote(tenon_dtype a, tenon_dtype b);
/* Whether a result may be written to a tensor of that dtype (c10::canCast): floats not to integers,
 * nothing but bools to bools; NONE to all. */
bool tn_can_cast(tenon_dtype from, tenon_dtype to);

/* Row-major strides for the shape. A size of 0 or 1 is taken as 1, as PyTorch does. */
void tn_contiguous_strides(int rank, const int64_t *shape, int64_t *strides);
/* The same with dimension 1 fastest (channels-last); rank 3 to 5. */
void tn_channels_last_strides(int rank, const int64_t *shape, int64_t *strides);
/* The number of elements; -1: a size is negative, or the sizes other than 0 overflow. */
int64_t tn_numel(int rank, const int64_t *shape);
/* A contiguous view. */
tenon_view tn_view_make(void *data, tenon_dtype dtype, int rank, const int64_t *shape);
bool tn_view_is_channels_last(const tenon_view *view);
bool tn_same_shape(const tenon_view *a, const tenon_view *b);
/* "float32[2, 3]" into `text`, without a dtype "[2, 3]"; returns `text`. */
const char *tn_shape_text(tenon_dtype dtype, int rank, const int64_t *shape, char *text,
                          size_t capacity);

/* One element as a number. For int64 and uint64 beyond 2^53 use tn_load_int. */
double tn_load_float(const void *element, tenon_dtype dtype);
int64_t tn_load_int(const void *element, tenon_dtype dtype);
void tn_store_float(void *element, tenon_dtype dtype, double value);
void tn_store_int(void *element, tenon_dtype dtype, int64_t value);
/* Seeded uniform numbers from -1 to 1 in the memory of a row-major view of floats; integers, which
 * may be indices, become 0. */
void tn_view_fill_random(const tenon_view *view, uint32_t seed);

static inline float tn_bf16_to_float(uint16_t bits) {
    union {
        uint32_t u;
        float f;
    } c = {(uint32_t)bits << 16};
    return c.f;
}
/* To nearest, ties to even; NaN stays NaN. */
static inline uint16_t tn_float_to_bf16(float value) {
    union {
        float f;
        uint32_t u;
    } c = {value};
    if ((c.u & 0x7fffffffu) > 0x7f800000u)
        return 0x7fc0;
    return (uint16_t)((c.u + 0x7fffu + ((c.u >> 16) & 1)) >> 16);
}
float tn_half_to_float(uint16_t bits);
uint16_t tn_float_to_half(float value);

#endif
