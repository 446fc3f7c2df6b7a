/* Rules that shape rules and kernels share. */
#include "core/rules.h"

uint32_t tn_reduce_mask(const tenon_node *node, int index, int rank, bool empty_is_all) {
    int64_t dims[TENON_MAX_RANK];
    uint32_t all = (1u << rank) - 1, mask = 0;
    if (tn_arg_is_none(node, index))
        return all;
    int count = tn_arg_ints(node, index, dims, TENON_MAX_RANK);
    if (count == 0)
        return empty_is_all ? all : 0;
    for (int i = 0; i < count; i++)
        mask |= 1u << (dims[i] < 0 ? dims[i] + (rank ? rank : 1) : dims[i]);
    return mask & all;
}

int64_t tn_slice_range(const tenon_node *node, int index, int64_t size, int64_t *start,
                       int64_t *step) {
    int64_t end = tn_arg_int(node, index + 1, INT64_MAX);
    *start = tn_arg_int(node, index, 0);
    *step = tn_arg_int(node, index + 2, 1);
    if (*step <= 0)
        return -1;
    *start += *start < 0 ? size : 0;
    end += end < 0 ? size : 0;
    *start = *start < 0 ? 0 : *start > size ? size : *start;
    end = end < *start ? *start : end > size ? size : end;
    return (end - *start) / *step + ((end - *start) % *step != 0);
}

int64_t tn_constant_nonzero(const tenon_value *value) {
    if (value->kind != TENON_VALUE_CONSTANT || !value->tensor)
        return -1;
    const tenon_view *v = &value->tensor->view;
    int64_t count = 0, numel = tenon_view_numel(v), at[TENON_MAX_RANK] = {0};
    const char *p = v->data;
    int64_t size = (int64_t)tenon_dtype_size(v->dtype);
    for (int64_t i = 0; i < numel; i++) {
        count += tn_load_float(p, v->dtype) != 0;
        for (int d = v->rank - 1; d >= 0; d--) {
            p += v->strides[d] * size;
            if (++at[d] < v->shape[d])
                break;
            p -= v->strides[d] * size * v->shape[d];
            at[d] = 0;
        }
    }
    return count;
}
