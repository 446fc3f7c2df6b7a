/* The float functions of kernels/vmath.h against the C library's in double, over the floats in
 * steps of a prime. */
#include "kernels/vmath.h"
#include "run_node.h"
#include "suite.h"
#include <check.h>
#include <stdio.h>
#include <tenon/tenon.h>

typedef float (*float_fn)(float);
typedef double (*double_fn)(double);

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static const struct {
    const char *name;
    float_fn fn;
    double_fn exact;
    float low, high;
    double ulp;
} cases[] = {
    {"exp", tn_expf, exp, -110, 90, 1.5},     {"expm1", tn_expm1f, expm1, -110, 90, 2},
    {"log", tn_logf, log, 0, INFINITY, 1.5},  {"log1p", tn_log1pf, log1p, -1, INFINITY, 2},
    {"tanh", tn_tanhf, tanh, -20, 20, 3},     {"sigmoid", tn_sigmoidf, sigmoid, -80, 80, 2.5},
    {"erf", tn_erff, erf, -10, 10, 1.5},      {"sin", tn_sinf, sin, -1e6f, 1e6f, 1.75},
    {"cos", tn_cosf, cos, -1e6f, 1e6f, 1.75},
};

/* The distance in units of the last place of the nearest float, subnormals included. */
static double ulps(float got, double want) {
    float nearest = (float)want;
    if (got == nearest || (isnan(got) && isnan(nearest)))
        return 0;
    if (!isfinite(got) || !isfinite(nearest))
        return INFINITY;
    int exponent;
    frexp(want, &exponent);
    return fabs((double)got - want) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

START_TEST(test_ulp) {
    double worst = 0;
    float where = 0;
    for (uint64_t u = 0; u < 1ull << 32; u += 509) {
        float x = tn_bits_float((uint32_t)u);
        if (!(x >= cases[_i].low && x <= cases[_i].high))
            continue;
        double error = ulps(cases[_i].fn(x), cases[_i].exact((double)x));
        if (error > worst) {
            worst = error;
            where = x;
        }
    }
    ck_assert_msg(worst <= cases[_i].ulp, "%s is off by %g ulp at %.9g", cases[_i].name, worst,
                  (double)where);
}
END_TEST

/* The same bounds where the compiler made vectors of them: the kernels, at every ISA level. */
START_TEST(test_ulp_of_kernels) {
    enum { STEP = 40009 };
    int64_t n = 0, room = (1ll << 32) / STEP + 1;
    float *x = malloc((size_t)room * sizeof *x);
    for (uint64_t u = 0; u < 1ull << 32; u += STEP) {
        float v = tn_bits_float((uint32_t)u);
        if (v >= cases[_i].low && v <= cases[_i].high)
            x[n++] = v;
    }
    char op[32];
    tenon_graph *graph = NULL;
    tenon_node *node = NULL;
    tenon_view view = tn_view_make(x, TENON_FLOAT32, 1, &n);
    snprintf(op, sizeof op, "aten.%s", cases[_i].name);
    ck_assert_int_eq(tenon_graph_create("vmath", &graph), TENON_OK);
    tenon_arg arg = tenon_arg_value(run_constant(graph, &view));
    ck_assert_int_eq(tenon_graph_add_node(graph, op, NULL, &arg, 1, &node), TENON_OK);
    for_each_isa(isa) {
        tenon_tensor *out = NULL;
        ck_assert_int_eq(run_node(node, isa, 1, RUN_PACKED, &out), TENON_OK);
        const float *got = tenon_tensor_view(out)->data;
        for (int64_t i = 0; i < n; i++) {
            double error = ulps(got[i], cases[_i].exact((double)x[i]));
            if (error > cases[_i].ulp)
                ck_abort_msg("%s (%s) is off by %g ulp at %.9g", op, tn_isa_text(isa), error,
                             (double)x[i]);
        }
        tenon_tensor_destroy(&out);
    }
    tenon_graph_destroy(&graph);
    free(x);
}
END_TEST

START_TEST(test_ends) {
    ck_assert(isnan(tn_expf(NAN)) && isnan(tn_expm1f(NAN)) && isnan(tn_logf(NAN)) &&
              isnan(tn_log1pf(NAN)));
    ck_assert(isnan(tn_tanhf(NAN)) && isnan(tn_sigmoidf(NAN)) && isnan(tn_erff(NAN)) &&
              isnan(tn_sinf(NAN)));
    ck_assert(tn_expf(INFINITY) == INFINITY && tn_expf(-INFINITY) == 0 &&
              tn_expf(1000) == INFINITY);
    ck_assert(tn_expm1f(INFINITY) == INFINITY && tn_expm1f(-INFINITY) == -1 &&
              tn_expm1f(1000) == INFINITY);
    ck_assert(tn_logf(0) == -INFINITY && isnan(tn_logf(-1)) && tn_logf(INFINITY) == INFINITY);
    ck_assert(tn_log1pf(-1) == -INFINITY && isnan(tn_log1pf(-2)) &&
              tn_log1pf(INFINITY) == INFINITY);
    ck_assert(tn_tanhf(INFINITY) == 1 && tn_tanhf(-INFINITY) == -1 && tn_tanhf(1e30f) == 1);
    ck_assert(tn_sigmoidf(INFINITY) == 1 && tn_sigmoidf(-INFINITY) == 0);
    ck_assert(tn_erff(INFINITY) == 1 && tn_erff(-INFINITY) == -1 && tn_erff(1e20f) == 1);
    ck_assert(isnan(tn_sinf(INFINITY)) && isnan(tn_cosf(-INFINITY)));
    ck_assert(signbit(tn_expm1f(-0.0f)) && signbit(tn_tanhf(-0.0f)) && signbit(tn_erff(-0.0f)));
    ck_assert(signbit(tn_log1pf(-0.0f)) && signbit(tn_sinf(-0.0f)));
}
END_TEST

START_TEST(test_gelu) {
    static const float x[] = {-3, -2, -1, 1, 2};
    static const float by_erf[] = {-.004050f, -.045500f, -.158655f, .841345f, 1.954500f};
    static const float by_tanh[] = {-.003637f, -.045402f, -.158808f, .841192f, 1.954598f};
    for (int i = 0; i < 5; i++) {
        ck_assert_float_eq_tol(tn_geluf(x[i]), by_erf[i], 1e-6f);
        ck_assert_float_eq_tol(tn_gelu_tanhf(x[i]), by_tanh[i], 1e-6f);
    }
    ck_assert(tn_geluf(1e20f) == 1e20f && tn_gelu_tanhf(1e20f) == 1e20f);
    ck_assert(tn_geluf(-1e20f) == 0 && tn_gelu_tanhf(-1e20f) == 0);
    ck_assert(isnan(tn_geluf(NAN)) && isnan(tn_gelu_tanhf(NAN)));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("vmath");
    TCase *tcase = tcase_create("vmath");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_ulp, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_loop_test(tcase, test_ulp_of_kernels, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_test(tcase, test_ends);
    tcase_add_test(tcase, test_gelu);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
