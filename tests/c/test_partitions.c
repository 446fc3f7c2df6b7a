/* Partitions: what is found in small graphs, and that it computes what the kernels compute. */
#include "partition_cases.h"
#include "suite.h"

/* ---- What fuses ---- */

#define CONV(y, x, w, pad)                                                   \
    "%" y " = aten.convolution(%" x ", %" w ", none, [1, 1], [" pad ", " pad \
    "], [1, 1], false, [0, 0], 1)\n"

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
    /* An elementwise primitive with another op behind it is slow; oneDNN alone would fuse them. */
    {"a unary op leaves the chain",
     G(IN("x", "float32[6, 33]")
           IN("z", "float32[6, 33]") "%a = aten.tanh(%x)\n%b = aten.mul.Tensor(%a, %z)\n%y = "
                                     "aten.relu(%b)\n" OUT("y")),
     "Tanh | Multiply+ReLU", ONEDNN},
    /* 3.7 would not come to an end. */
    {"batch norm of a convolution that is used again",
     G(IN("x", "float32[2, 8, 9, 9]") WEIGHT("w", "8, 8, 3, 3") WEIGHT("g", "8") WEIGHT(
         "h", "8") "const %v: float32[8] = ones\n"
                   "%c = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n"
                   "%n, %a, %b = aten._native_batch_norm_legit_no_training(%c, %g, %h, %g, %v, "
                   "0.1, 1e-5)\n"
                   "%z = aten.add.Tensor(%c, %n)\n" OUT("z")),
     "Convolution | BatchNormInference | Add", ONEDNN},
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

/* What 3.7 loses, or reads elsewhere, when it is fused. */
#define BEHIND(first, call) \
    G(IN("x", "float32[2, 8, 6, 6]") IN("z", "float32[2, 8, 6, 6]") first call OUT("y"))
#define NORMED       \
    WEIGHT("w", "6") \
    WEIGHT("v", "6") \
    "%n, %m, %r = aten.native_layer_norm(%x, [6], %w, %v, 1e-05)\n"
#define MAX_POOLED "%n = aten.max_pool2d(%x, [3, 3], [1, 1], [1, 1])\n"
#define AVG_POOLED "%n = aten.avg_pool2d(%x, [3, 3], [1, 1], [1, 1])\n"

static const test_case second_operands[] = {
    {"layer norm + z", BEHIND(NORMED, "%y = aten.add.Tensor(%n, %z)\n"), "LayerNorm | Add", ONEDNN},
    {"z + layer norm", BEHIND(NORMED, "%y = aten.add.Tensor(%z, %n)\n"), "LayerNorm | Add", ONEDNN},
    {"layer norm * z", BEHIND(NORMED, "%y = aten.mul.Tensor(%n, %z)\n"), NULL, ONEDNN},
    {"max pool + z", BEHIND(MAX_POOLED, "%y = aten.add.Tensor(%n, %z)\n"), "MaxPool | Add", ONEDNN},
    {"max pool * x", BEHIND(MAX_POOLED, "%y = aten.mul.Tensor(%n, %x)\n"), "MaxPool | Multiply",
     ONEDNN},
    {"average pool - x", BEHIND(AVG_POOLED, "%y = aten.sub.Tensor(%n, %x)\n"), NULL, ONEDNN},
    {"average pool * 2 + z",
     BEHIND(AVG_POOLED, "%t = aten.mul.Tensor(%n, 2)\n%y = aten.add.Tensor(%t, %z)\n"),
     "AvgPool+Multiply | Add", ONEDNN},
    {"a sum behind a convolution behind a pool",
     G(IN("x", "float32[2, 8, 6, 6]") IN("z", "float32[2, 8, 6, 6]") WEIGHT("w", "8, 8, 1, 1")
           MAX_POOLED
       "%c = aten.convolution(%n, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
       "%y = aten.add.Tensor(%c, %z)\n" OUT("y")),
     "MaxPool | Convolution+Add", ONEDNN},
    {"z + (z * average pool)",
     BEHIND(AVG_POOLED, "%t = aten.mul.Tensor(%z, %n)\n%y = aten.add.Tensor(%z, %t)\n"), NULL,
     ONEDNN},
    /* The size of 1 keeps a stride that fits no layout. */
    {"a batch of one that was turned",
     G(IN("x", "float32[1, 5, 2, 33]") "%t = aten.transpose.int(%x, 0, 1)\n"
                                       "%y = aten.mul.Tensor(%t, 0.5)\n" OUT("y")),
     "Multiply", ONEDNN},
    {"a narrow image that was turned",
     G(IN("x", "float32[1, 4, 2, 1]") "%t = aten.transpose.int(%x, 1, 2)\n"
                                      "%y = aten.upsample_nearest2d(%t, [8, 2])\n" OUT("y")),
     "Interpolate", ONEDNN},
    {"an operand for each channel of one pixel",
     G(IN("x", "float32[2, 8, 1, 1]") IN("z", "float32[2, 8, 1, 1]") WEIGHT(
         "w", "8, 1, 1") "%n = aten.add.Tensor(%x, %z)\n%y = aten.add.Tensor(%n, %w)\n" OUT("y")),
     "Add | Add", ONEDNN},
    {"an operand for each channel behind a softmax",
     G(IN("x", "float32[2, 8, 1]") WEIGHT(
         "w", "8, 1") "%n = aten._softmax(%x, 1, false)\n%y = aten.mul.Tensor(%n, %w)\n" OUT("y")),
     "SoftMax | Multiply", ONEDNN},
    {"an operand for each matrix of a linear layer",
     G(IN("x", "float32[2, 3, 4, 33]") WEIGHT("w", "47, 33")
           IN("z", "float32[4, 47]") "%n = aten.linear(%x, %w)\n%y = aten.add.Tensor(%n, %z)\n" OUT(
               "y")),
     "MatMul | Add", ONEDNN},
    {"an operand for each of a batch",
     G(IN("x", "float32[2, 3, 33]") WEIGHT("w", "47, 33")
           IN("z", "float32[2, 1, 47]") "%n = aten.linear(%x, %w)\n%r = aten.relu(%n)\n%y = "
                                        "aten.mul.Tensor(%z, %r)\n" OUT("y")),
     "MatMul+ReLU | Multiply", ONEDNN},
    {"an operand for each row and column",
     G(IN("x", "float32[1, 3, 33]") WEIGHT("w", "47, 33")
           IN("z", "float32[3, 47]") "%n = aten.linear(%x, %w)\n%y = aten.mul.Tensor(%n, %z)\n" OUT(
               "y")),
     "MatMul+Multiply", ONEDNN},
    {"an operand for each column",
     G(IN("x", "float32[2, 3, 33]") WEIGHT("w", "47, 33")
           IN("z", "float32[1, 47]") "%n = aten.linear(%x, %w)\n%y = aten.mul.Tensor(%n, %z)\n" OUT(
               "y")),
     "MatMul+Multiply", ONEDNN},
};

START_TEST(keeps_the_second_operand) {
    check_case(&second_operands[_i], 1, true, true);
}
END_TEST

START_TEST(keeps_the_order_of_operands) {
    check_case(&wrong_sides[_i], 1, true, true);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("partitions");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, fuses, 0, TN_COUNT(fusions));
    tcase_add_loop_test(tcase, keeps_the_second_operand, 0, TN_COUNT(second_operands));
    tcase_add_loop_test(tcase, keeps_the_order_of_operands, 0, TN_COUNT(wrong_sides));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
