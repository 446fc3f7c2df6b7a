/* Products with packed weights against plain sums in double: sizes around tiles, chunks and blocks,
 * odd ones, with and without Strassen's method, at every level and in every layout. */
#include "suite.h"
#include "text_node.h"
#include <check.h>
#include <math.h>
#include <tenon/tenon.h>

typedef struct product {
    int m, k, n;
    bool bias, residual, halved;
    const char *activation; /* and its two numbers; NULL: none */
} product;

static tenon_node *make(const product *p, const char *x) {
    char text[1024];
    int panels = (p->n + 31) / 32;
    panels += panels >= 8 ? panels % 2 : 0;
    snprintf(text, sizeof text,
             "const %%x: float32[%d, %d] = %s\nconst %%w: float32[%d, %d, 32] = random(2)\n"
             "const %%b: float32[%d] = random(3)\nconst %%r: float32[%d, %d] = random(4)\n"
             "%%y = tenon.packed_linear(%%x, %%w, %s, %s, %d, %s, %s)",
             p->m, p->k, x, panels, p->k, p->n, p->m, p->n, p->bias ? "%b" : "none",
             p->residual ? "%r" : "none", p->n, p->halved ? "true" : "false",
             p->activation ? p->activation : "\"none\"");
    return parse(text);
}

static const tenon_view *view_of(const tenon_node *node, int arg) {
    return tenon_tensor_view(node->args[arg].as.value->tensor);
}

/* Before the activation. */
static double sum_at(const product *p, const tenon_node *node, int i, int j) {
    const tenon_view *x = view_of(node, 0), *w = view_of(node, 1);
    double sum = 0;
    for (int k = 0; k < p->k; k++)
        sum += element(x, (int64_t)i * p->k + k) *
               element(w, ((int64_t)(j / 32) * p->k + k) * 32 + j % 32);
    sum += p->bias ? element(view_of(node, 2), j) : 0;
    return sum + (p->residual ? element(view_of(node, 3), (int64_t)i * p->n + j) : 0);
}

static double activated(const product *p, double x) {
    if (!p->activation)
        return x;
    if (strstr(p->activation, "gelu"))
        return x * 0.5 * (1 + erf(x / sqrt(2)));
    return x < -1 ? -1 : x > 2 ? 2 : x; /* the clamp below */
}

static void check(const product *p) {
    tenon_node *node = make(p, "random(1)");
    double tolerance = 4e-6 * (p->k + 10), *want = calloc((size_t)(p->m * p->n), sizeof *want);
    tolerance = tolerance > 2e-4 ? 2e-4 : tolerance;
    ck_assert_ptr_nonnull(want);
    for (int i = 0; i < p->m; i++)
        for (int j = 0; j < p->n; j++)
            want[i * p->n + j] = activated(p, sum_at(p, node, i, j));
    for_each_isa(isa) {
        for (int run = 0; run < 2 * RUN_LAYOUT_COUNT; run++) {
            tenon_tensor *out[1];
            ck_assert_int_eq(
                run_node(node, isa, 1 + run % 4, (run_layout)(run % RUN_LAYOUT_COUNT), out),
                TENON_OK);
            for (int i = 0; i < p->m * p->n; i++) {
                double got = element(tenon_tensor_view(out[0]), i);
                if (!(fabs(got - want[i]) <= tolerance))
                    ck_abort_msg("%d x %d x %d (%s): element %d is %.9g, not %.9g", p->m, p->k,
                                 p->n, tn_isa_text(isa), i, got, want[i]);
            }
            tenon_tensor_destroy(&out[0]);
        }
    }
    free(want);
}

static const product products[] = {
    {1, 1, 1, .bias = true},
    {3, 0, 5, .bias = true, .residual = true},
    {5, 7, 31, .residual = true},
    {14, 300, 33},
    {29, 64, 65, .bias = true, .activation = "\"clamp\", -1.0, 2.0"},
    {64, 520, 96, .bias = true, .residual = true, .activation = "\"gelu\""},
    {500, 9, 40, .bias = true},
    {16, 2, 256, .halved = true},
    {33, 192, 256, .bias = true, .residual = true, .halved = true},
    {47, 6, 250, .residual = true, .halved = true, .activation = "\"gelu\""},
    {97, 600, 300, .bias = true, .halved = true},
    {130, 14, 257, .bias = true, .residual = true, .halved = true},
    {515, 4, 255, .bias = true, .halved = true, .activation = "\"clamp\", -1.0, 2.0"},
    {20, 5, 300, .halved = true},  /* an odd inner size: the plain way */
    {20, 256, 64, .halved = true}, /* too few columns: the plain way */
};

START_TEST(sums_are_right) {
    check(&products[_i]);
}
END_TEST

/* A row that is NaN, infinite, huge or tiny does not touch another one. */
START_TEST(rows_stay_apart) {
    static const double odd[] = {NAN, INFINITY, 1e30, 1e-30, 0};
    const product p = {40, 200, 256, .bias = true, .halved = true};
    tenon_node *node = make(&p, "random(1)");
    float *x = view_of(node, 0)->data;
    for (int row = 3; row < 40; row += 20) {
        for (int k = 0; k < p.k; k++)
            x[row * p.k + k] = (float)odd[_i];
        for_each_isa(isa) {
            tenon_tensor *out[1];
            ck_assert_int_eq(run_node(node, isa, 1, RUN_PACKED, out), TENON_OK);
            for (int i = 0; i < p.m; i++) {
                for (int j = 0; j < p.n && i != row && (i != 3 || row == 3); j++) {
                    double got = element(tenon_tensor_view(out[0]), (int64_t)i * p.n + j);
                    double want = sum_at(&p, node, i, j);
                    if (!(fabs(got - want) <= 2e-4))
                        ck_abort_msg("%s: [%d, %d] is %.9g, not %.9g", tn_isa_text(isa), i, j, got,
                                     want);
                }
            }
            tenon_tensor_destroy(&out[0]);
        }
    }
}
END_TEST

/* The residual's memory may be the output's. */
START_TEST(adds_in_place) {
    const product p = {34, 200, 260, .bias = true, .residual = true, .halved = true};
    tenon_node *node = make(&p, "random(1)");
    for_each_isa(isa) {
        tenon_tensor *apart[1], *same[1];
        ck_assert(tn_kernel_inplace(node->op->id, 3));
        ck_assert_int_eq(run_node(node, isa, 2, RUN_PACKED, apart), TENON_OK);
        ck_assert_int_eq(run_node_inplace(node, isa, 2, 3, RUN_PACKED, same), TENON_OK);
        ck_assert(memcmp(tenon_tensor_view(apart[0])->data, tenon_tensor_view(same[0])->data,
                         (size_t)(p.m * p.n) * sizeof(float)) == 0);
        tenon_tensor_destroy(&apart[0]);
        tenon_tensor_destroy(&same[0]);
    }
}
END_TEST

START_TEST(bad_operands_are_refused) {
    static const char *const bad[] = {
        "const %x: float32[4, 8] = ones\nconst %w: float32[1, 9, 32] = ones\n"
        "%y = tenon.packed_linear(%x, %w, none, none, 20)",
        "const %x: float32[4, 8] = ones\nconst %w: float32[2, 8, 32] = ones\n"
        "%y = tenon.packed_linear(%x, %w, none, none, 20)",
        "const %x: float64[4, 8] = ones\nconst %w: float32[1, 8, 32] = ones\n"
        "%y = tenon.packed_linear(%x, %w, none, none, 20)",
        "const %x: float32[4, 8] = ones\nconst %w: float32[1, 8, 32] = ones\n"
        "const %b: float32[21] = ones\n%y = tenon.packed_linear(%x, %w, %b, none, 20)",
        "const %x: float32[4, 8] = ones\nconst %w: float32[1, 8, 32] = ones\n"
        "const %r: float32[20] = ones\n%y = tenon.packed_linear(%x, %w, none, %r, 20)",
        "const %x: float32[4, 8] = ones\nconst %w: float32[1, 8, 32] = ones\n"
        "%y = tenon.packed_linear(%x, %w, none, none, 20, false, \"swish\")",
        "const %x: float32[4, 8] = ones\nconst %w: float32[1, 8, 32] = ones\n"
        "%y = tenon.packed_linear(%x, %w, none, none, 0)"};
    char text[512];
    tenon_graph *parsed = NULL;
    snprintf(text, sizeof text, "graph g {\n%s\noutput \"y\" = %%y\n}", bad[_i]);
    ck_assert_int_ne(tenon_graph_parse(text, NULL, &parsed), TENON_OK);
    ck_assert_ptr_null(parsed);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("packed");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_loop_test(tests, sums_are_right, 0, (int)(sizeof products / sizeof *products));
    tcase_add_loop_test(tests, rows_stay_apart, 0, 5);
    tcase_add_test(tests, adds_in_place);
    tcase_add_loop_test(tests, bad_operands_are_refused, 0, 7);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
