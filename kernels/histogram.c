/* histc: how many elements fall into each of equal bins; the last one holds its upper edge. */
#include "kernels/block.h"
#include "kernels/product.h"
#include <math.h>

static tenon_status find_range(tn_call *call, const double *x, int64_t n, double *low,
                               double *high) {
    *low = tn_arg_float(call->node, 2, 0);
    *high = tn_arg_float(call->node, 3, 0);
    if (*low == *high && n > 0) {
        *low = *high = x[0];
        for (int64_t i = 1; i < n; i++) {
            *low = x[i] < *low || x[i] != x[i] ? x[i] : *low;
            *high = x[i] > *high || x[i] != x[i] ? x[i] : *high;
        }
    }
    if (*low == *high) {
        *low -= 1;
        *high += 1;
    }
    if (!isfinite(*low) || !isfinite(*high))
        return tn_call_fail(call, "the range from %g to %g is not finite", *low, *high);
    return TENON_OK;
}

tenon_status TN_K(histc)(tn_call *call) {
    const tenon_view *in = tn_call_in(call, 0), *out = &call->out[0];
    int64_t n = tenon_view_numel(in), bins = out->shape[0];
    double *x = tn_call_scratch(call, ((size_t)n + 1) * sizeof *x);
    double *counts = tn_call_scratch(call, (size_t)bins * sizeof *counts);
    double low, high;
    if (!x || !counts)
        return tn_no_memory();
    TN_K(load_view)(TN_CLASS_F64, x, in, call->threads);
    TN_TRY(find_range(call, x, n, &low, &high));
    for (int64_t i = 0; i < bins; i++)
        counts[i] = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!(x[i] >= low && x[i] <= high))
            continue;
        int64_t bin = (int64_t)((x[i] - low) / (high - low) * (double)bins);
        counts[bin < bins ? bin : bins - 1]++;
    }
    TN_K(store_view)(TN_CLASS_F64, out, counts, call->threads);
    return TENON_OK;
}
