/* Outputs beside what was expected of them. */
#include "cli.h"
#include <math.h>

tenon_tensor *cli_converted(const tenon_view *view, tenon_dtype dtype) {
    tenon_tensor *tensor = NULL;
    if (tenon_tensor_create(dtype, view->rank, view->shape, &tensor) != TENON_OK)
        return NULL;
    if (tenon_view_copy(tenon_tensor_view(tensor), view) != TENON_OK)
        tenon_tensor_destroy(&tensor);
    return tensor;
}

static bool is_float(tenon_dtype dtype) {
    return dtype == TENON_FLOAT16 || dtype == TENON_BFLOAT16 || dtype == TENON_FLOAT32 ||
           dtype == TENON_FLOAT64;
}

/* Integers and bools must be equal, whatever the tolerance. */
static int compare_exactly(const char *name, const int64_t *x, const int64_t *y, int64_t count) {
    int64_t different = 0, first = -1;
    for (int64_t i = 0; i < count; i++) {
        if (x[i] != y[i] && different++ == 0)
            first = i;
    }
    if (different == 0)
        return CLI_OK;
    return cli_error(CLI_FAILED,
                     "output '%s' differs from what was expected: %lld of %lld elements, "
                     "the first, number %lld, is %lld instead of %lld",
                     name, (long long)different, (long long)count, (long long)first,
                     (long long)x[first], (long long)y[first]);
}

static void compare_floats(const double *x, const double *y, int64_t count, double *error,
                           double *scale) {
    *error = *scale = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(y[i]))
            *scale = fmax(*scale, fabs(y[i]));
        if (x[i] == y[i] || (isnan(x[i]) && isnan(y[i])))
            continue;
        double difference = fabs(x[i] - y[i]);
        *error = isfinite(difference) ? fmax(*error, difference) : INFINITY;
    }
}

int cli_compare(const char *name, const tenon_view *given, const tenon_view *wanted, double *error,
                double *scale) {
    bool same = given->rank == wanted->rank;
    for (int d = 0; same && d < given->rank; d++)
        same = given->shape[d] == wanted->shape[d];
    if (!same)
        return cli_error(CLI_FAILED,
                         "output '%s' differs from what was expected: its shape is another", name);
    bool floats = is_float(given->dtype) || is_float(wanted->dtype);
    tenon_dtype dtype = floats ? TENON_FLOAT64 : TENON_INT64;
    tenon_tensor *a = cli_converted(given, dtype), *b = cli_converted(wanted, dtype);
    int code = CLI_OK;
    if (!a || !b) {
        code = cli_failed();
    } else if (floats) {
        compare_floats(tenon_tensor_view(a)->data, tenon_tensor_view(b)->data,
                       tenon_view_numel(given), error, scale);
    } else {
        *error = 0;
        *scale = -1;
        code = compare_exactly(name, tenon_tensor_view(a)->data, tenon_tensor_view(b)->data,
                               tenon_view_numel(given));
    }
    tenon_tensor_destroy(&a);
    tenon_tensor_destroy(&b);
    return code;
}
