/* Partitions: what is found in small graphs, why it ends where it does, and that it computes what
 * the kernels compute. */
#include "run_steps.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <tenon/tenon.h>

static tenon_graph *parse(const char *text) {
    tenon_graph *graph = NULL;
    tenon_status status = tenon_graph_parse(text, "test", &graph);
    ck_assert_msg(status == TENON_OK, "%s\n%s", tenon_last_error(), text);
    return graph;
}

static float *floats(const tenon_view *view) {
    tenon_view plain = tn_view_make(NULL, TENON_FLOAT32, view->rank, view->shape);
    plain.data = calloc((size_t)tenon_view_numel(view) + 1, sizeof(float));
    ck_assert_int_eq(tenon_view_copy(&plain, view), TENON_OK);
    return plain.data;
}

/* Both within `tolerance` of the largest element. */
static void compare(const char *name, const tenon_view *got, const tenon_view *want,
                    double tolerance) {
    float *a = floats(got), *b = floats(want);
    double largest = 1e-30, worst = 0;
    int64_t count = tenon_view_numel(got), at = 0;
    for (int64_t i = 0; i < count; i++) {
        double off = a[i] == b[i] ? 0 : fabs((double)a[i] - (double)b[i]);
        largest = fmax(largest, isfinite(b[i]) ? fabs((double)b[i]) : 0);
        if (!(off <= worst)) {
            worst = off;
            at = i;
        }
    }
    ck_assert_msg(worst <= tolerance * largest, "%s: element %lld is %g instead of %g (largest %g)",
                  name, (long long)at, a[at], b[at], largest);
    free(a);
    free(b);
}

/* The partitions as text: "Convolution+ReLU | MatMul". */
static const char *found(const steps *s, char *text, size_t room) {
    text[0] = '\0';
    for (int i = 0; i < s->set->count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, room - used, i ? " | %s" : "%s", s->set->items[i].ops);
    }
    return text;
}

typedef struct test_case {
    const char *name, *text;
    const char *partitions;
    double tolerance; /* 0: 1e-5 */
    tenon_backend backend;
} test_case;

/* Computes the graph with kernels and with partitions, with inputs from `seed`. */
static void check_case(const test_case *c, int threads, bool pack, bool inplace) {
    tenon_graph *graphs[2] = {parse(c->text), parse(c->text)};
    steps *runs[2];
    char text[2048];
    for (int i = 0; i < 2; i++) {
        runs[i] = steps_make(graphs[i], i ? c->backend : TENON_BACKEND_REFERENCE, threads, pack);
        runs[i]->inplace = inplace;
    }
    ck_assert_int_eq(runs[0]->set->count, 0);
    if (c->partitions)
        ck_assert_msg(strcmp(found(runs[1], text, sizeof text), c->partitions) == 0,
                      "%s: found '%s'", c->name, text);
    for (unsigned seed = 1; seed <= 2; seed++) {
        for (int i = 0; i < 2; i++) {
            for (int k = 0; k < graphs[i]->input_count; k++)
                steps_input(runs[i], k, seed * 100 + (unsigned)k);
            steps_run(runs[i]);
        }
        for (int k = 0; k < graphs[0]->output_count; k++)
            compare(c->name, steps_output(runs[1], k), steps_output(runs[0], k),
                    c->tolerance > 0 ? c->tolerance : 1e-5);
    }
    for (int i = 0; i < 2; i++) {
        steps_free(runs[i]);
        tenon_graph_destroy(&graphs[i]);
    }
}

#define G(body) "graph g {\n" body "}\n"
#define IN(name, type) "input %" name ": " type "\n"
#define OUT(name) "output \"out\" = %" name "\n"
#define ONEDNN .backend = TENON_BACKEND_ONEDNN

/* ---- What fuses ---- */

#define CONV(y, x, w, pad)                                                   \
    "%" y " = aten.convolution(%" x ", %" w ", none, [1, 1], [" pad ", " pad \
    "], [1, 1], false, [0, 0], 1)\n"
#define WEIGHT(w, shape) "const %" w ": float32[" shape "] = random(7, -0.3, 0.3)\n"

static const test_case fusions[] = {
    {"a convolution takes its relu",
     G(IN("x", "float32[2, 16, 9, 9]") WEIGHT("w", "24, 16, 3, 3")
           CONV("y", "x", "w", "1") "%z = aten.relu(%y)\n" OUT("z")),
     "Convolution+ReLU", ONEDNN},
    {"and its residual",
     G(IN("x", "float32[2, 16, 9, 9]") IN("r", "float32[2, 24, 9, 9]") WEIGHT("w", "24, 16, 3, 3")
           CONV("y", "x", "w", "1") "%s = aten.add.Tensor(%y, %r)\n%z = aten.relu(%s)\n" OUT("z")),
     "Convolution+Add+ReLU", ONEDNN},
    {"from either side",
     G(IN("x", "float32[2, 16, 9, 9]") IN("r", "float32[2, 24, 9, 9]") WEIGHT("w", "24, 16, 3, 3")
           CONV("y", "x", "w", "1") "%s = aten.add.Tensor(%r, %y)\n%z = aten.relu(%s)\n" OUT("z")),
     "Convolution+Add+ReLU", ONEDNN},
    {"a residual that another partition made",
     G(IN("x", "float32[2, 16, 9, 9]") WEIGHT("w", "16, 16, 3, 3") WEIGHT("v", "16, 16, 1, 1")
           CONV("a", "x", "w", "1") CONV(
               "b", "a", "v", "0") "%s = aten.add.Tensor(%b, %a)\n%z = aten.relu(%s)\n" OUT("z")),
     "Convolution | Convolution+Add+ReLU", ONEDNN},
    {"silu behind a convolution",
     G(IN("x", "float32[2, 16, 9, 9]") WEIGHT("w", "24, 16, 1, 1")
           CONV("y", "x", "w", "0") "%z = aten.silu(%y)\n" OUT("z")),
     "Convolution+Sigmoid+Multiply", ONEDNN},
    {"an output in the middle ends a partition",
     G(IN("x", "float32[2, 16, 9, 9]") WEIGHT("w", "24, 16, 3, 3")
           CONV("y", "x", "w", "1") "%z = aten.relu(%y)\n" OUT("z") "output \"middle\" = %y\n"),
     "Convolution | ReLU", ONEDNN},
    {"a view between two ops does too",
     G(IN("x", "float32[4, 32]")
           WEIGHT("w", "48, 32") "%y = aten.linear(%x, %w)\n%v = aten.view(%y, [2, 2, 48])\n%z = "
                                 "aten.relu(%v)\n" OUT("z")),
     "MatMul | ReLU", ONEDNN},
    {"linear takes its bias and gelu",
     G(IN("x", "float32[4, 5, 33]") WEIGHT("w", "47, 33")
           WEIGHT("b", "47") "%y = aten.linear(%x, %w, %b)\n%z = aten.gelu(%y)\n" OUT("z")),
     "MatMul+GELU", ONEDNN},
    {"addmm is one partition",
     G(IN("x", "float32[6, 33]") WEIGHT("w", "33, 47")
           WEIGHT("b", "47") "%y = aten.addmm(%b, %x, %w)\n%z = aten.relu(%y)\n" OUT("z")),
     "MatMul+ReLU", ONEDNN},
    {"with a matrix to add and alpha",
     G(IN("x", "float32[6, 33]") WEIGHT("w", "33, 47")
           IN("b", "float32[6, 47]") "%y = aten.addmm(%b, %x, %w, beta=1, alpha=0.5)\n" OUT("y")),
     "MatMul+Multiply+Add", ONEDNN},
    {"a transposed weight is used as it lies",
     G(IN("x", "float32[6, 33]") WEIGHT("w", "47, 33")
           WEIGHT("b", "47") "%t = aten.t(%w)\n%y = aten.addmm(%b, %x, %t)\n" OUT("y")),
     "MatMul", ONEDNN},
    {"the chain is subtracted from",
     G(IN("x", "float32[6, 33]") WEIGHT("w", "47, 33")
           IN("b", "float32[6, 47]") "%y = aten.linear(%x, %w)\n%z = aten.sub.Tensor(%y, %b)\n" OUT(
               "z")),
     "MatMul+Subtract", ONEDNN},
    {"a number less",
     G(IN("x", "float32[6, 33]") WEIGHT(
         "w", "47, 33") "%y = aten.linear(%x, %w)\n%z = aten.sub.Tensor(%y, 2.5)\n" OUT("z")),
     "MatMul+Add", ONEDNN},
    {"divided by a number",
     G(IN("x", "float32[6, 33]") WEIGHT(
         "w", "47, 33") "%y = aten.linear(%x, %w)\n%z = aten.div.Tensor(%y, 3)\n" OUT("z")),
     "MatMul+Divide", ONEDNN},
    {"two products that are added",
     G(IN("x", "float32[6, 33]") WEIGHT("w", "47, 33")
           WEIGHT("v", "47, 33") "%a = aten.linear(%x, %w)\n%b = aten.linear(%x, %v)\n%z = "
                                 "aten.add.Tensor(%a, %b)\n" OUT("z")),
     "MatMul | MatMul+Add", ONEDNN},
    {"x times itself",
     G(IN("x", "float32[6, 33]") WEIGHT(
         "w", "47, 33") "%y = aten.linear(%x, %w)\n%z = aten.mul.Tensor(%y, %y)\n" OUT("z")),
     NULL, ONEDNN},
};

START_TEST(fuses) {
    check_case(&fusions[_i], 2, true, true);
    check_case(&fusions[_i], 1, false, false);
}
END_TEST

/* The wrong side of a subtraction or division: 3.7 would compute y - b for b - y. */
#define WRONG_SIDE(op)                                                                   \
    G(IN("x", "float32[6, 33]") WEIGHT("w", "47, 33")                                    \
          IN("b", "float32[6, 47]") "%m = aten.linear(%x, %w)\n%e = aten.abs(%m)\n%y = " \
                                    "aten.add.Tensor(%e, 1)\n%z = " op "\n" OUT("z"))

static const test_case wrong_sides[] = {
    {"b - y", WRONG_SIDE("aten.sub.Tensor(%b, %y)"), NULL, ONEDNN},
    {"b / y", WRONG_SIDE("aten.div.Tensor(%b, %y)"), NULL, ONEDNN},
    {"3 - y", WRONG_SIDE("aten.rsub.Scalar(%y, 3)"), NULL, ONEDNN},
    {"y - y", WRONG_SIDE("aten.sub.Tensor(%y, %y)"), NULL, ONEDNN},
    {"y / y", WRONG_SIDE("aten.div.Tensor(%y, %y)"), NULL, ONEDNN},
};

START_TEST(keeps_the_order_of_operands) {
    check_case(&wrong_sides[_i], 1, true, true);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("partitions");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, fuses, 0, TN_COUNT(fusions));
    tcase_add_loop_test(tcase, keeps_the_order_of_operands, 0, TN_COUNT(wrong_sides));
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
