/* Sampling images at the places that a grid gives. */
#include "kernels/iterate.h"
#include "kernels/product.h"
#include <math.h>

enum { MODE_LINEAR, MODE_NEAREST, MODE_CUBIC };
enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };

typedef struct grid {
    int64_t mode, padding;
    bool align_corners;
    int64_t batch, channels, height, width, out_height, out_width;
    int64_t in_batch, in_channel, in_y, in_x; /* strides in elements */
} grid;

/* What one output is a sum of. */
typedef struct taps_f32 {
    int count;
    int64_t offset[16];
    float weight[16];
} taps_f32;

typedef struct taps_f64 {
    int count;
    int64_t offset[16];
    double weight[16];
} taps_f64;

#define T float
#define S(name) name##_f32
#include "kernels/grid_template.h"
#undef T
#undef S
#define T double
#define S(name) name##_f64
#include "kernels/grid_template.h"

tenon_status TN_K(grid_sampler)(tn_call *call) {
    const tenon_node *node = call->node;
    const tenon_view *in = &call->in[0], *places = &call->in[1], *out = &call->out[0];
    tn_class class = tn_class_of(in->dtype);
    grid g = {tn_arg_int(node, 2, 0), tn_arg_int(node, 3, 0), tn_arg_bool(node, 4)};
    int64_t count = places->shape[0] * places->shape[1] * places->shape[2];
    if (tenon_view_numel(out) == 0)
        return TENON_OK;
    const void *from = TN_K(packed)(call, class, in), *at = TN_K(packed)(call, class, places);
    void *to = tn_call_scratch(call, (size_t)tenon_view_numel(out) * tn_class_size(class));
    if (!from || !at || !to)
        return tn_no_memory();
    g.batch = in->shape[0];
    g.channels = in->shape[1];
    g.height = in->shape[2];
    g.width = in->shape[3];
    g.out_height = places->shape[1];
    g.out_width = places->shape[2];
    g.in_x = 1;
    g.in_y = g.width;
    g.in_channel = g.height * g.width;
    g.in_batch = g.channels * g.in_channel;
#pragma omp parallel for num_threads(call->threads) if (count * g.channels > TN_PARALLEL_WORK / 4)
    for (int64_t i = 0; i < count; i++) {
        if (class == TN_CLASS_F32)
            sample_f32(&g, i, from, at, to);
        else
            sample_f64(&g, i, from, at, to);
    }
    TN_K(store_view)(class, out, to, call->threads);
    return TENON_OK;
}
