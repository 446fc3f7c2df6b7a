#include "core/tensor.h"
#include "core/budget.h"
#include "core/fail.h"
#include "core/pages.h"
#include "core/profile.h"
#include "core/util.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Dtypes ---- */

static const struct {
    const char *text;
    size_t size;
} dtypes[TENON_DTYPE_COUNT] = {{"none", 0},
#define X(name, text, bytes) {text, bytes},
                               TENON_DTYPE_LIST(X)
#undef X
};

const char *tenon_dtype_text(tenon_dtype dtype) {
    return dtypes[(unsigned)dtype < TENON_DTYPE_COUNT ? dtype : TENON_DTYPE_NONE].text;
}

tenon_dtype tenon_dtype_from_text(const char *text) {
    for (int i = 1; i < TENON_DTYPE_COUNT; i++)
        if (strcmp(text, dtypes[i].text) == 0)
            return (tenon_dtype)i;
    return TENON_DTYPE_NONE;
}

size_t tenon_dtype_size(tenon_dtype dtype) {
    return dtypes[(unsigned)dtype < TENON_DTYPE_COUNT ? dtype : TENON_DTYPE_NONE].size;
}

bool tn_dtype_is_float(tenon_dtype dtype) {
    return dtype >= TENON_FLOAT16 && dtype <= TENON_FLOAT64;
}

bool tn_dtype_is_integer(tenon_dtype dtype) {
    return dtype >= TENON_UINT8 && dtype <= TENON_UINT64;
}

bool tn_dtype_is_unsigned(tenon_dtype dtype) {
    return dtype == TENON_UINT8 || (dtype >= TENON_UINT16 && dtype <= TENON_UINT64);
}

tenon_dtype tn_promote(tenon_dtype a, tenon_dtype b) {
    if (a == b || b == TENON_DTYPE_NONE)
        return a;
    if (a == TENON_DTYPE_NONE)
        return b;
    if (a > b) {
        tenon_dtype t = a;
        a = b;
        b = t;
    }
    if (tn_dtype_is_float(b)) /* float16 with bfloat16 gives float32; otherwise the wider float */
        return a == TENON_FLOAT16 && b == TENON_BFLOAT16 ? TENON_FLOAT32 : b;
    if (a == TENON_BOOL)
        return b;
    bool ua = tn_dtype_is_unsigned(a), ub = tn_dtype_is_unsigned(b);
    size_t sa = tenon_dtype_size(a), sb = tenon_dtype_size(b);
    if (ua == ub)
        return sa >= sb ? a : b;
    /* An unsigned with a signed type: the signed type that holds both. PyTorch refuses wider
     * unsigned types here; int64 is as near. */
    size_t su = ua ? sa : sb, ss = ua ? sb : sa;
    if (ss > su)
        return ua ? b : a;
    return su == 1 ? TENON_INT16 : su == 2 ? TENON_INT32 : TENON_INT64;
}

bool tn_can_cast(tenon_dtype from, tenon_dtype to) {
    return !(tn_dtype_is_float(from) && !tn_dtype_is_float(to)) &&
           !(to == TENON_BOOL && from != TENON_BOOL && from != TENON_DTYPE_NONE);
}

/* ---- Elements ---- */

float tn_half_to_float(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = (bits >> 10) & 31,
             fraction = bits & 0x3ff;
    union {
        uint32_t u;
        float f;
    } c;
    if (exponent == 0) {
        c.f = (float)fraction * 0x1p-24f;
        c.u |= sign;
    } else if (exponent == 31) {
        c.u = sign | 0x7f800000u | fraction << 13;
    } else {
        c.u = sign | (exponent + 112) << 23 | fraction << 13;
    }
    return c.f;
}

uint16_t tn_float_to_half(float value) {
    union {
        float f;
        uint32_t u;
    } c = {value};
    uint16_t sign = (uint16_t)(c.u >> 16 & 0x8000);
    c.u &= 0x7fffffffu;
    if (c.u > 0x7f800000u)
        return sign | 0x7e00;
    if (c.u >= 0x477ff000u) /* 65520 and more round to infinity */
        return sign | 0x7c00;
    if (c.u < 0x38800000u) { /* subnormal: let the float adder round */
        c.f += 0.5f;
        return (uint16_t)(sign | (c.u - 0x3f000000u));
    }
    uint32_t rounded = c.u + 0xfffu + ((c.u >> 13) & 1) - (112u << 23);
    return (uint16_t)(sign | rounded >> 13);
}

/* Floats are left to the functions of floats, which leave them to no other, and integers likewise.
 * NOLINTBEGIN(misc-no-recursion) */

double tn_load_float(const void *element, tenon_dtype dtype) {
    switch (dtype) {
    case TENON_FLOAT64:
        return *(const double *)element;
    case TENON_FLOAT32:
        return *(const float *)element;
    case TENON_BFLOAT16:
        return tn_bf16_to_float(*(const uint16_t *)element);
    case TENON_FLOAT16:
        return tn_half_to_float(*(const uint16_t *)element);
    case TENON_UINT64:
        return (double)*(const uint64_t *)element;
    default:
        return (double)tn_load_int(element, dtype);
    }
}

/* Toward zero; what does not fit saturates, NaN gives 0 (both undefined in C). */
static int64_t int_of_double(double value) {
    if (isnan(value))
        return 0;
    if (value >= 0x1p63)
        return INT64_MAX;
    if (value < -0x1p63)
        return INT64_MIN;
    return (int64_t)value;
}

int64_t tn_load_int(const void *element, tenon_dtype dtype) {
    switch (dtype) {
    case TENON_BOOL:
    case TENON_UINT8:
        return *(const uint8_t *)element;
    case TENON_INT8:
        return *(const int8_t *)element;
    case TENON_INT16:
        return *(const int16_t *)element;
    case TENON_INT32:
        return *(const int32_t *)element;
    case TENON_INT64:
        return *(const int64_t *)element;
    case TENON_UINT16:
        return *(const uint16_t *)element;
    case TENON_UINT32:
        return *(const uint32_t *)element;
    case TENON_UINT64:
        return (int64_t)(*(const uint64_t *)element);
    case TENON_FLOAT64:
    case TENON_FLOAT32:
    case TENON_BFLOAT16:
    case TENON_FLOAT16:
        return int_of_double(tn_load_float(element, dtype));
    default:
        return 0; /* no dtype */
    }
}

void tn_store_float(void *element, tenon_dtype dtype, double value) {
    switch (dtype) {
    case TENON_FLOAT64:
        *(double *)element = value;
        break;
    case TENON_FLOAT32:
        *(float *)element = (float)value;
        break;
    case TENON_BFLOAT16:
        *(uint16_t *)element = tn_float_to_bf16((float)value);
        break;
    case TENON_FLOAT16:
        *(uint16_t *)element = tn_float_to_half((float)value);
        break;
    case TENON_BOOL:
        *(uint8_t *)element = value != 0;
        break;
    case TENON_UINT64:
        *(uint64_t *)element =
            value >= 0x1p63 && value < 0x1p64 ? (uint64_t)value : (uint64_t)int_of_double(value);
        break;
    default:
        tn_store_int(element, dtype, int_of_double(value));
    }
}

void tn_store_int(void *element, tenon_dtype dtype, int64_t value) {
    switch (dtype) {
    case TENON_BOOL:
        *(uint8_t *)element = value != 0;
        break;
    case TENON_UINT8:
    case TENON_INT8:
        *(uint8_t *)element = (uint8_t)value;
        break;
    case TENON_INT16:
    case TENON_UINT16:
        *(uint16_t *)element = (uint16_t)value;
        break;
    case TENON_INT32:
    case TENON_UINT32:
        *(uint32_t *)element = (uint32_t)value;
        break;
    case TENON_INT64:
    case TENON_UINT64:
        *(uint64_t *)element = (uint64_t)value;
        break;
    case TENON_FLOAT64:
    case TENON_FLOAT32:
    case TENON_BFLOAT16:
    case TENON_FLOAT16:
        tn_store_float(element, dtype, (double)value);
        break;
    default:
        break; /* no dtype */
    }
}

/* NOLINTEND(misc-no-recursion) */

/* ---- Shapes and views ---- */

int64_t tn_numel(int rank, const int64_t *shape) {
    int64_t count = 1;
    bool empty = false, overflow = false;
    for (int d = 0; d < rank; d++) {
        if (shape[d] < 0)
            return -1;
        if (shape[d] == 0)
            empty = true;
        else if (!tn_mul(count, shape[d], &count))
            overflow = true;
    }
    return overflow ? -1 : empty ? 0 : count; /* strides of empty ones must be numbers too */
}

void tn_contiguous_strides(int rank, const int64_t *shape, int64_t *strides) {
    int64_t stride = 1;
    for (int d = rank - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= shape[d] > 1 ? shape[d] : 1;
    }
}

void tn_channels_last_strides(int rank, const int64_t *shape, int64_t *strides) {
    int64_t stride = 1;
    strides[1] = 1;
    stride = shape[1] > 1 ? shape[1] : 1;
    for (int d = rank - 1; d >= 2; d--) {
        strides[d] = stride;
        stride *= shape[d] > 1 ? shape[d] : 1;
    }
    strides[0] = stride;
}

tenon_view tn_view_make(void *data, tenon_dtype dtype, int rank, const int64_t *shape) {
    tenon_view view = {data, dtype, rank, {0}, {0}};
    if (rank > 0)
        memcpy(view.shape, shape, (size_t)rank * sizeof *shape);
    tn_contiguous_strides(rank, view.shape, view.strides);
    return view;
}

int64_t tenon_view_numel(const tenon_view *view) {
    return tn_numel(view->rank, view->shape);
}

/* Sizes of 1 may have any stride, and so may all of an empty array. */
static bool has_strides(const tenon_view *view, const int64_t *strides) {
    for (int d = 0; d < view->rank; d++)
        if (view->shape[d] == 0)
            return true;
    for (int d = 0; d < view->rank; d++)
        if (view->shape[d] > 1 && view->strides[d] != strides[d])
            return false;
    return true;
}

bool tenon_view_is_contiguous(const tenon_view *view) {
    int64_t strides[TENON_MAX_RANK];
    tn_contiguous_strides(view->rank, view->shape, strides);
    return has_strides(view, strides);
}

bool tn_view_is_channels_last(const tenon_view *view) {
    if (view->rank < 3 || view->rank > 5)
        return false;
    int64_t strides[TENON_MAX_RANK];
    tn_channels_last_strides(view->rank, view->shape, strides);
    return has_strides(view, strides);
}

bool tn_same_shape(const tenon_view *a, const tenon_view *b) {
    return a->rank == b->rank &&
           (a->rank == 0 || memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0);
}

const char *tn_shape_text(tenon_dtype dtype, int rank, const int64_t *shape, char *text,
                          size_t capacity) {
    const char *name = dtype == TENON_DTYPE_NONE ? "" : tenon_dtype_text(dtype);
    size_t used = (size_t)snprintf(text, capacity, "%s[", name);
    for (int d = 0; d < rank && used < capacity; d++)
        used += (size_t)snprintf(text + used, capacity - used, shape[d] < 0 ? "%s?" : "%s%lld",
                                 d ? ", " : "", (long long)shape[d]);
    if (used < capacity)
        snprintf(text + used, capacity - used, "]");
    return text;
}

/* ---- Storage ---- */

#define STORAGE_ALIGN 64

tenon_status tn_storage_create(void *data, size_t size, void (*release)(void *), void *user,
                               tn_storage **out) {
    tn_storage *storage = calloc(1, sizeof *storage);
    if (!storage)
        return tn_no_memory();
    atomic_init(&storage->shares, 1);
    storage->data = data;
    storage->size = size;
    storage->release = release;
    storage->user = user;
    *out = storage;
    return TENON_OK;
}

/* calloc knows which of its memory is zero: what comes fresh from the kernel it does not touch. */
tenon_status tn_storage_alloc(size_t size, tn_storage **out) {
    TN_TRY(tn_budget_bytes((double)size));
    char *block = size < SIZE_MAX - STORAGE_ALIGN ? calloc(1, size + STORAGE_ALIGN) : NULL;
    if (!block)
        return tn_fail(TENON_OUT_OF_MEMORY, "out of memory: %zu bytes for a tensor", size);
    tn_pages_large(block, size + STORAGE_ALIGN);
    char *data = block + (STORAGE_ALIGN - (uintptr_t)block % STORAGE_ALIGN) % STORAGE_ALIGN;
    tenon_status status = tn_storage_create(data, size, free, block, out);
    if (status != TENON_OK)
        free(block);
    else
        tn_profile_memory((int64_t)size);
    return status;
}

tn_storage *tn_storage_share(tn_storage *storage) {
    atomic_fetch_add(&storage->shares, 1);
    return storage;
}

void tn_storage_drop(tn_storage **storage) {
    tn_storage *s = *storage;
    *storage = NULL;
    if (s && atomic_fetch_sub(&s->shares, 1) == 1) {
        tn_derived_destroy(&s->derived);
        if (s->release == free)
            tn_profile_memory(-(int64_t)s->size);
        if (s->release)
            s->release(s->user);
        free(s);
    }
}

void tn_storage_forget_pages(const tn_storage *storage, const void *data, size_t size) {
    if (!storage->mapped)
        return;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)data + page - 1) & ~(page - 1);
    uintptr_t last = ((uintptr_t)data + size) & ~(page - 1);
    if (first < last)
        madvise((void *)first, last - first, MADV_DONTNEED);
}

/* ---- Tensors ---- */

static tenon_status check_view(const tenon_view *view) {
    if (view->dtype <= TENON_DTYPE_NONE || view->dtype >= TENON_DTYPE_COUNT)
        return tn_fail(TENON_INVALID_ARGUMENT, "tensor: %d is no dtype", (int)view->dtype);
    if (view->rank < 0 || view->rank > TENON_MAX_RANK)
        return tn_fail(TENON_INVALID_ARGUMENT, "tensor: rank %d is not in 0..%d", view->rank,
                       TENON_MAX_RANK);
    int64_t count = tn_numel(view->rank, view->shape), bytes;
    if (count < 0 || !tn_mul(count, (int64_t)tenon_dtype_size(view->dtype), &bytes)) {
        char text[256];
        return tn_fail(TENON_INVALID_ARGUMENT, "tensor: a size of %s is negative or too large",
                       tn_shape_text(view->dtype, view->rank, view->shape, text, sizeof text));
    }
    return TENON_OK;
}

/* The bytes that the elements of a view take, counted from its data: from `first` to below `end`.
 */
static tenon_status reach_of(const tenon_view *view, int64_t *first, int64_t *end) {
    int64_t size = (int64_t)tenon_dtype_size(view->dtype), low = 0, high = 0, reach;
    *first = *end = 0;
    if (tenon_view_numel(view) == 0)
        return TENON_OK;
    for (int d = 0; d < view->rank; d++)
        if (!tn_mul(view->shape[d] - 1, view->strides[d], &reach) ||
            !tn_add(reach < 0 ? low : high, reach, reach < 0 ? &low : &high))
            return tn_fail(TENON_INVALID_ARGUMENT, "tensor: the strides overflow");
    if (!tn_mul(low, size, first) || !tn_mul(high, size, end) || !tn_add(*end, size, end))
        return tn_fail(TENON_INVALID_ARGUMENT, "tensor: the strides overflow");
    return TENON_OK;
}

tenon_status tn_tensor_over(tn_storage *storage, const tenon_view *view, tenon_tensor **out) {
    TN_TRY(check_view(view));
    if (tenon_view_numel(view) > 0) {
        int64_t offset = (const char *)view->data - (const char *)storage->data, first, last;
        TN_TRY(reach_of(view, &first, &last));
        if (!tn_add(first, offset, &first) || !tn_add(last, offset, &last) || first < 0 ||
            last > (int64_t)storage->size)
            return tn_fail(TENON_INVALID_ARGUMENT,
                           "tensor: its elements lie outside its %zu bytes of memory",
                           storage->size);
    }
    tenon_tensor *tensor = calloc(1, sizeof *tensor);
    if (!tensor)
        return tn_no_memory();
    tensor->view = *view;
    tensor->storage = tn_storage_share(storage);
    *out = tensor;
    return TENON_OK;
}

tenon_status tenon_tensor_create(tenon_dtype dtype, int rank, const int64_t *shape,
                                 tenon_tensor **out) {
    tenon_view view = {NULL, dtype, rank, {0}, {0}};
    if (rank > 0 && rank <= TENON_MAX_RANK)
        memcpy(view.shape, shape, (size_t)rank * sizeof *shape);
    TN_TRY(check_view(&view));
    tn_storage *storage;
    TN_TRY(tn_storage_alloc((size_t)tenon_view_numel(&view) * tenon_dtype_size(dtype), &storage));
    view = tn_view_make(storage->data, dtype, rank, shape);
    tenon_status status = tn_tensor_over(storage, &view, out);
    tn_storage_drop(&storage);
    return status;
}

tenon_status tenon_tensor_wrap(const tenon_view *view, void (*release)(void *user), void *user,
                               tenon_tensor **out) {
    TN_TRY(check_view(view));
    if (!view->data && tenon_view_numel(view) > 0)
        return tn_fail(TENON_INVALID_ARGUMENT, "tensor: data is NULL");
    int64_t first, end;
    TN_TRY(reach_of(view, &first, &end));
    tenon_tensor *tensor = calloc(1, sizeof *tensor);
    if (!tensor)
        return tn_no_memory();
    assert(view->data || end == first);
    tenon_status status = tn_storage_create(end > first ? (char *)view->data + first : view->data,
                                            (size_t)(end - first), release, user, &tensor->storage);
    if (status != TENON_OK) {
        free(tensor);
        return status;
    }
    tensor->view = *view;
    *out = tensor;
    return TENON_OK;
}

tenon_status tenon_tensor_share(const tenon_tensor *tensor, tenon_tensor **out) {
    tenon_tensor *copy = calloc(1, sizeof *copy);
    if (!copy)
        return tn_no_memory();
    copy->view = tensor->view;
    copy->storage = tn_storage_share(tensor->storage);
    *out = copy;
    return TENON_OK;
}

void tenon_tensor_destroy(tenon_tensor **tensor) {
    if (*tensor) {
        tn_storage_drop(&(*tensor)->storage);
        free(*tensor);
        *tensor = NULL;
    }
}

const tenon_view *tenon_tensor_view(const tenon_tensor *tensor) {
    return &tensor->view;
}

tenon_status tenon_view_copy(const tenon_view *to, const tenon_view *from) {
    TN_TRY(check_view(to));
    TN_TRY(check_view(from));
    if (!tn_same_shape(to, from)) {
        char a[256], b[256];
        return tn_fail(TENON_INVALID_ARGUMENT, "copy: the shapes differ: %s and %s",
                       tn_shape_text(to->dtype, to->rank, to->shape, a, sizeof a),
                       tn_shape_text(from->dtype, from->rank, from->shape, b, sizeof b));
    }
    int64_t count = tenon_view_numel(to);
    size_t size = tenon_dtype_size(to->dtype), from_size = tenon_dtype_size(from->dtype);
    if (count == 0)
        return TENON_OK;
    if (to->dtype == from->dtype && tenon_view_is_contiguous(to) &&
        tenon_view_is_contiguous(from)) {
        memcpy(to->data, from->data, (size_t)count * size);
        return TENON_OK;
    }
    int64_t index[TENON_MAX_RANK] = {0};
    char *t = to->data;
    const char *f = from->data;
    bool as_float = tn_dtype_is_float(from->dtype);
    for (int64_t n = 0; n < count; n++) {
        if (to->dtype == from->dtype)
            memcpy(t, f, size);
        else if (as_float)
            tn_store_float(t, to->dtype, tn_load_float(f, from->dtype));
        else
            tn_store_int(t, to->dtype, tn_load_int(f, from->dtype));
        for (int d = to->rank - 1; d >= 0; d--) {
            t += to->strides[d] * (int64_t)size;
            f += from->strides[d] * (int64_t)from_size;
            if (++index[d] < to->shape[d])
                break;
            t -= to->shape[d] * to->strides[d] * (int64_t)size;
            f -= to->shape[d] * from->strides[d] * (int64_t)from_size;
            index[d] = 0;
        }
    }
    return TENON_OK;
}

void tn_view_fill_random(const tenon_view *view, uint32_t seed) {
    int64_t count = tenon_view_numel(view);
    size_t size = tenon_dtype_size(view->dtype);
    char *to = view->data;
    if (!tn_dtype_is_float(view->dtype)) {
        memset(to, 0, (size_t)count * size);
        return;
    }
    for (int64_t i = 0; i < count; i++, to += size) {
        seed = seed * 1664525u + 1013904223u; /* Knuth, The Art of Computer Programming, 3.3.4 */
        tn_store_float(to, view->dtype, (double)(seed >> 8) / (1 << 23) - 1);
    }
}
