/* Images as kernels by pixels read them: the channels of a pixel are neighbours. */
#ifndef TN_KERNEL_PIXELS_H
#define TN_KERNEL_PIXELS_H

#include "kernels/copy.h"

typedef struct tn_pixels {
    float *data;
    int64_t batch, row, pixel; /* strides in elements */
} tn_pixels;

static inline float *tn_pixel(const tn_pixels *p, int64_t batch, int64_t y, int64_t x) {
    return p->data + batch * p->batch + y * p->row + x * p->pixel;
}

/* `view` itself where it is row-major, or a copy; data NULL: memory is out. */
static inline tenon_view tn_dense(tn_call *call, const tenon_view *view) {
    if (tenon_view_is_contiguous(view))
        return *view;
    size_t size = (size_t)tenon_view_numel(view) * sizeof(float) + 1;
    tenon_view copy =
        tn_view_make(tn_call_scratch(call, size), view->dtype, view->rank, view->shape);
    if (copy.data)
        TN_K(copy_view)(call->threads, &copy, view);
    return copy;
}

static inline bool tn_view_by_pixels(const tenon_view *view, bool rows) {
    return (view->strides[1] == 1 || view->shape[1] == 1) &&
           (!rows || view->shape[2] == 1 || view->strides[2] == view->shape[3] * view->strides[3]);
}

/* Memory for the result: that of `out`, or scratch, to be copied from there; data NULL: memory is
 * out. All rows together are one row. */
static inline tenon_view tn_pixels_target(tn_call *call, const tenon_view *out) {
    tenon_view target = *out;
    if (tn_view_by_pixels(out, true))
        return target;
    tn_channels_last_strides(4, target.shape, target.strides);
    target.data = tn_call_scratch(call, (size_t)tenon_view_numel(out) * sizeof(float) + 1);
    return target;
}

/* The view [b, c, h, w] or a copy of it, where all rows together are one row if `rows` says so.
 * False: memory is out. */
static inline bool tn_pixels_read(tn_call *call, const tenon_view *view, bool rows,
                                  tn_pixels *out) {
    tenon_view copy = *view;
    if (!tn_view_by_pixels(view, rows)) {
        tn_channels_last_strides(4, copy.shape, copy.strides);
        copy.data = tn_call_scratch(call, (size_t)tenon_view_numel(view) * sizeof(float) + 1);
        if (copy.data)
            TN_K(copy_view)(call->threads, &copy, view);
    }
    *out = (tn_pixels){copy.data, copy.strides[0], copy.strides[2], copy.strides[3]};
    return copy.data;
}

#endif
