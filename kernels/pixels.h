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

/* Operand `index` as row-major floats; NULL where there is none. False: memory is out. */
static inline bool tn_dense_in(tn_call *call, int index, const float **out) {
    const tenon_view *view = tn_call_in(call, index);
    *out = view ? tn_dense(call, view).data : NULL;
    return !view || *out;
}

/* Whether the channels of a pixel are neighbours, and if `even`, all pixels of all images have one
 * distance, which is then `*distance`. */
static inline bool tn_view_by_pixels(const tenon_view *view, bool even, int64_t *distance) {
    static const int dims[] = {3, 2, 0};
    int64_t count = 1;
    *distance = even ? view->shape[1] : view->strides[3];
    for (int i = 0; even && i < 3; i++) {
        int d = dims[i];
        if (view->shape[d] == 1)
            continue;
        if (count == 1)
            *distance = view->strides[d];
        else if (view->strides[d] != *distance * count)
            return false;
        count *= view->shape[d];
    }
    return view->strides[1] == 1 || view->shape[1] == 1;
}

/* Memory for the result: that of `out`, or scratch, to be copied from there; data NULL: memory is
 * out. Pixels are even. */
static inline tenon_view tn_pixels_target(tn_call *call, const tenon_view *out) {
    tenon_view target = *out;
    int64_t distance;
    if (tn_view_by_pixels(out, true, &distance))
        return target;
    tn_channels_last_strides(4, target.shape, target.strides);
    target.data = tn_call_scratch(call, (size_t)tenon_view_numel(out) * sizeof(float) + 1);
    return target;
}

/* The view [b, c, h, w] or a copy of it, by pixels, and even ones if `even` says so. False: memory
 * is out. */
static inline bool tn_pixels_read(tn_call *call, const tenon_view *view, bool even,
                                  tn_pixels *out) {
    tenon_view copy = *view;
    int64_t distance;
    if (!tn_view_by_pixels(view, even, &distance)) {
        distance = copy.shape[1];
        tn_channels_last_strides(4, copy.shape, copy.strides);
        copy.data = tn_call_scratch(call, (size_t)tenon_view_numel(view) * sizeof(float) + 1);
        if (copy.data)
            TN_K(copy_view)(call->threads, &copy, view);
    }
    *out = (tn_pixels){copy.data, copy.strides[0], copy.strides[2], distance};
    return copy.data;
}

#endif
