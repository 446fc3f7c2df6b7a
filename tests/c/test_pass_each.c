/* Every built-in pass: a graph before and after it, and one that looks alike and stays. What more
 * each does is in the suite of its family. */
#include "pass_test.h"
#include "suite.h"

typedef struct example {
    const char *pass, *before, *after, *stays;
} example;

#define G(rest) "graph g { input %x: float32[2, 4]\n" rest
#define O(x) "output \"o\" = %" x " }"
#define C(numbers) "const %w: float32[4, 4] = " numbers "\n"
#define IMAGE "graph g { input %x: float32[1, 2, 4, 4]\n"
#define POINTWISE "const %w: float32[3, 2, 1, 1] = random(1)\nconst %b: float32[3] = {1, 2, 3}\n"
#define CONVOLUTION(y, x, w, b) \
    "%" y " = aten.convolution(%" x ", %" w ", " b ", [1], [0], [1], false, [0], 1)\n"
#define SIGNAL "graph g { input %x: float32[1, 1, 3]\n"
#define NORM(y) \
    "%n, %s, %t = aten._native_batch_norm_legit_no_training(%" y ", %g, %h, %m, %v, 0.1, 0.0)\n"
#define STATS                                                        \
    "const %g: float32[2] = {4, 6}\nconst %h: float32[2] = {1, 2}\n" \
    "const %m: float32[2] = {0.5, 1}\nconst %v: float32[2] = {4, 9}\n"
#define HEADS                                                                  \
    "graph g { input %q: float32[1, 2, 3, 4]\ninput %k: float32[1, 2, 3, 4]\n" \
    "input %v: float32[1, 2, 3, 4]\n"
#define SCORES                                                                     \
    HEADS "%qf = aten.view(%q, [2, 3, 4])\n%kt = aten.permute(%k, [0, 1, 3, 2])\n" \
          "%kf = aten.view(%kt, [2, 4, 3])\n%vf = aten.view(%v, [2, 3, 4])\n"      \
          "%s = aten.bmm(%qf, %kf)\n%s4 = aten.view(%s, [1, 2, 3, 3])\n"
#define VALUES                                                   \
    "%pf = aten.view(%p, [2, 3, 3])\n%yf = aten.bmm(%pf, %vf)\n" \
    "%y = aten.view(%yf, [1, 2, 3, 4])\n" O("y")

#define WIDE_W "const %w: float32[64, 64, 3, 3] = zeros\n"
#define WIDE_U "const %u: float32[1, 36, 2, 64, 32] = zeros\n"
#define WIDE(y, weight, op)                                 \
    "graph g { input %x: float32[1, 64, 28, 28]\n" weight y \
    ": float32[1, 64, 28, 28] channels_last = " op "\n"
#define WIDE_CONVOLUTION(stride) \
    "aten.convolution(%x, %w, none, " stride ", [1, 1], [1, 1], false, [0, 0], 1)"
#define WIDE_RELU "%y: float32[1, 64, 28, 28] channels_last = aten.relu(%c)\n" O("y")
#define TALL \
    "graph g { input %x: float32[64, 256]\ninput %s: float32[64, 256]\n%r = aten.relu(%s)\n"
#define TALL_W "const %w: float32[256, 256] = full(0.5)\n"

#define EACH_IN "graph g { input %x: float32[1, 8, 5, 5]\n"
#define EACH_W "const %v: float32[24, 8, 1, 1] = zeros\nconst %w: float32[24, 1, 3, 3] = zeros\n"
#define EACH_P "const %q: float32[1, 9, 32] = zeros\nconst %p: float32[1, 8, 32] = zeros\n"
#define EACH_GRAPH(groups, w)                                                                  \
    EACH_IN "const %v: float32[24, 8, 1, 1] = zeros\n" w                                       \
            "%e: float32[1, 24, 5, 5] channels_last = aten.convolution(%x, %v, none, [1, 1], " \
            "[0, 0], [1, 1], false, [0, 0], 1)\n"                                              \
            "%a: float32[1, 24, 5, 5] channels_last = aten.silu(%e)\n"                         \
            "%d: float32[1, 24, 3, 3] channels_last = aten.convolution(%a, %w, none, [2, 2], " \
            "[1, 1], [1, 1], false, [0, 0], " groups ")\n"                                     \
            "%c: float32[1, 24, 3, 3] channels_last = aten.relu(%d)\n"                         \
            "%m = aten.mean.dim(%c, [2, 3], true)\n%y = aten.mul.Tensor(%c, %m)\n" O("y")
#define SE_INPUTS                                                              \
    "graph g { input %x: float32[1, 8, 5, 5]\ninput %m: float32[1, 8, 1, 1]\n" \
    "const %v: float32[4, 8, 1, 1] = zeros\nconst %w: float32[8, 4, 1, 1] = zeros\n"
#define SE_GRAPH                                                                                \
    SE_INPUTS "const %p: float32[6, 8, 1, 1] = zeros\n"                                         \
              "%h: float32[1, 4, 1, 1] channels_last = aten.convolution(%m, %v, none, [1, 1], " \
              "[0, 0], [1, 1], false, [0, 0], 1)\n"                                             \
              "%a: float32[1, 4, 1, 1] channels_last = aten.relu(%h)\n"                         \
              "%k: float32[1, 8, 1, 1] channels_last = aten.convolution(%a, %w, none, [1, 1], " \
              "[0, 0], [1, 1], false, [0, 0], 1)\n"                                             \
              "%s: float32[1, 8, 1, 1] channels_last = aten.sigmoid(%k)\n"                      \
              "%z: float32[1, 8, 5, 5] channels_last = aten.mul.Tensor(%x, %s)\n"               \
              "%y: float32[1, 6, 5, 5] channels_last = aten.convolution(%z, %p, none, [1, 1], " \
              "[0, 0], [1, 1], false, [0, 0], 1)\n" O("y")

#define PARTS_IN                                                                  \
    "graph g { input %x: float32[1, 4, 3, 3]\ninput %s: float32[1, 2, 2, 1, 1]\n" \
    "const %g: float32[8] = full(4)\nconst %m: float32[8] = full(0.5)\n"          \
    "const %v: float32[8] = full(4)\n%a: float32[1, 4, 3, 3] channels_last = aten.relu(%x)\n"
#define PARTS_OUT "output \"y\" = %y\noutput \"z\" = %z\noutput \"e\" = %e\noutput \"w\" = %w }"

/* In the order of the list. */
static const example examples[] = {
    {"functionalize", G("%a = aten.neg(%x)\n%b = aten.relu_(%a)\n" O("a")),
     G("%a = aten.neg(%x)\n%b = aten.relu(%a)\n" O("b")),
     G("%a = aten.neg(%x)\n%b = aten.relu(%a)\n" O("a"))},
    {"freeze", G("buffer %b: float32[4] = zeros\n%y = aten.add.Tensor(%x, %b)\n" O("y")),
     G("const %b: float32[4] = zeros\n%y = aten.add.Tensor(%x, %b)\n" O("y")),
     G("buffer %b: float32[2, 4] = zeros\n%y = aten.add.Tensor(%x, %b)\nwrite %b <- %y\n" O("y"))},
    {"drop", G("%a = aten.clone(%x)\n%y = aten.relu(%a)\n" O("y")),
     G("%y = aten.relu(%x)\n" O("y")),
     G("%a = aten._to_copy(%x, dtype=float64)\n%y = aten.relu(%a)\n" O("y"))},
    {"scalars", G("%y = aten.mul.Scalar(%x, 2)\n" O("y")),
     G("%y = aten.mul.Tensor(%x, 2)\n" O("y")), G("%y = aten.pow.Tensor_Scalar(%x, 2)\n" O("y"))},
    {"lower", G("%y = aten.softmax.int(%x, 1)\n" O("y")),
     G("%y = aten._softmax(%x, 1, false)\n" O("y")), G("%y, %i = aten.max.dim(%x, 1)\n" O("y"))},
    {"linear", G("input %w: float32[3, 4]\n%t = aten.t(%w)\n%y = aten.mm(%x, %t)\n" O("y")),
     G("input %w: float32[3, 4]\n%y = aten.linear(%x, %w)\n" O("y")),
     G("input %w: float32[4, 3]\n%y = aten.mm(%x, %w)\n" O("y"))},
    {"fold",
     G("const %c: float32[2] = {1, 2}\n%s = aten.neg(%c)\n%u = aten.unsqueeze(%s, 1)\n"
       "%y = aten.add.Tensor(%x, %u)\n" O("y")),
     G("const %c: float32[2] = {1, 2}\nconst %s: float32[2] = {-1, -2}\n"
       "const %u: float32[2, 1] = {-1, -2}\n%y = aten.add.Tensor(%x, %u)\n" O("y")),
     G("const %c: float32[1] = {1}\n%e = aten.add.Tensor(%x, %c)\n" O("e"))},
    {"merge", G("%a = aten.relu(%x)\n%b = aten.relu(%x)\n%y = aten.mul.Tensor(%a, %b)\n" O("y")),
     G("%a = aten.relu(%x)\n%y = aten.mul.Tensor(%a, %a)\n" O("y")),
     G("%a = aten.sum.dim_IntList(%x, [0])\n%b = aten.sum.dim_IntList(%x, [0], true)\n"
       "%y = aten.mul.Tensor(%a, %b)\n" O("y"))},
    {"fold_bn",
     SIGNAL STATS "const %w: float32[2, 1, 1] = {1, 2}\n" CONVOLUTION("c", "x", "w", "none")
         NORM("c") O("n"),
     SIGNAL STATS "const %w: float32[2, 1, 1] = {1, 2}\nconst %w1: float32[2, 1, 1] = {2, 4}\n"
                  "const %b: float32[2] = {0, 0}\n" CONVOLUTION("c", "x", "w1", "%b") O("c"),
     SIGNAL STATS "const %w: float32[2, 1, 1] = {1, 2}\n" CONVOLUTION("c", "x", "w", "none")
         NORM("c") "output \"c\" = %c\n" O("n")},
    {"scales", G(C("ones") "%a = aten.linear(%x, %w)\n%y = aten.mul.Tensor(%a, 2)\n" O("y")),
     G(C("ones") "const %v: float32[4, 4] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}\n"
                 "%y = aten.linear(%x, %v)\n" O("y")),
     G(C("ones") "%a = aten.linear(%x, %w)\n%y = aten.add.Tensor(%a, 2)\n" O("y"))},
    {"qkv",
     G("const %a: float32[2, 4] = {1, 1, 1, 1, 1, 1, 1, 1}\n"
       "const %b: float32[2, 4] = {2, 2, 2, 2, 2, 2, 2, 2}\n%q = aten.linear(%x, %a)\n"
       "%k = aten.linear(%x, %b)\n%qh = aten.view(%q, [2, 2, 1])\n%kh = aten.view(%k, [2, 2, 1])\n"
       "output \"q\" = %qh\noutput \"k\" = %kh }"),
     G("const %a: float32[2, 4] = {1, 1, 1, 1, 1, 1, 1, 1}\n"
       "const %b: float32[2, 4] = {2, 2, 2, 2, 2, 2, 2, 2}\n"
       "const %c: float32[4, 4] = {1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2}\n"
       "%y = aten.linear(%x, %c)\n%q = aten.slice.Tensor(%y, -1, 0, 2)\n"
       "%k = aten.slice.Tensor(%y, -1, 2, 4)\n%qh = aten.view(%q, [2, 2, 1])\n"
       "%kh = aten.view(%k, [2, 2, 1])\noutput \"q\" = %qh\noutput \"k\" = %kh }"),
     G("const %a: float32[2, 4] = ones\nconst %b: float32[2, 4] = ones\n%q = aten.linear(%x, %a)\n"
       "%k = aten.linear(%x, %b)\n%qh = aten.relu(%q)\n%kh = aten.sigmoid(%k)\n"
       "output \"q\" = %qh\noutput \"k\" = %kh }")},
    {"activations", G("%s = aten.sigmoid(%x)\n%y = aten.mul.Tensor(%x, %s)\n" O("y")),
     G("%y = aten.silu(%x)\n" O("y")),
     G("%s = aten.tanh(%x)\n%y = aten.mul.Tensor(%x, %s)\n" O("y"))},
    {"dead",
     G("const %c: float32[4] = ones\n%a = aten.relu(%x)\n%b = aten.add.Tensor(%a, %c)\n" O("a")),
     G("%a = aten.relu(%x)\n" O("a")),
     G("buffer %b: float32[2, 4] = zeros\n%a = aten.relu(%x)\n%c = aten.neg(%x)\nwrite %b <- "
       "%c\n" O("a"))},
    {"lower_all", G("input %z: float32[4, 5]\n%y = aten.matmul(%x, %z)\n" O("y")),
     G("input %z: float32[4, 5]\n%y = aten.mm(%x, %z)\n" O("y")),
     G("input %z: float32[4, 5]\n%y = aten.mm(%x, %z)\n" O("y"))},
    {"fold_shapes", G("%i = aten.arange(4)\n%y = aten.add.Tensor(%x, %i)\n" O("y")),
     G("const %i: int64[4] = {0, 1, 2, 3}\n%y = aten.add.Tensor(%x, %i)\n" O("y")),
     G("%i = aten.arange(5000000)\n%y = aten.sum(%i)\noutput \"i\" = %i\n" O("y"))},
    {"slices", G("%y = aten.slice.Tensor(%x, 1, -2, 9223372036854775807)\n" O("y")),
     G("%y = aten.slice.Tensor(%x, 1, 2, 4)\n" O("y")),
     G("%y = aten.slice.Tensor(%x, 1, 1, 4, 2)\n%z = aten.slice.Tensor(%x, 1, 1, 3)\n"
       "output \"z\" = %z\n" O("y"))},
    {"cats",
     G("%a, %b = aten.chunk(%x, 2, 1)\n%c = aten.cat([%a, %b], 1)\n%y = aten.relu(%c)\n" O("y")),
     G("%y = aten.relu(%x)\n" O("y")),
     G("%a, %b = aten.chunk(%x, 2, 1)\n%c = aten.cat([%a, %b], 0)\n%y = aten.relu(%c)\n" O("y"))},
    {"pads",
     IMAGE "%p = aten.constant_pad_nd(%x, [1, 1, 1, 1])\n%y = aten.avg_pool2d(%p, [2, 2])\n" O("y"),
     IMAGE "%y = aten.avg_pool2d(%x, [2, 2], [], [1, 1])\n" O("y"),
     IMAGE
     "%p = aten.constant_pad_nd(%x, [1, 1, 1, 1], 2)\n%y = aten.avg_pool2d(%p, [2, 2])\n" O("y")},
    {"views", G("%a = aten.view(%x, [8])\n%b = aten.unsqueeze(%a, 0)\n%y = aten.relu(%b)\n" O("y")),
     G("%b = aten.view(%x, [1, 8])\n%y = aten.relu(%b)\n" O("y")),
     G("%a = aten.view(%x, [8])\n%b = aten.relu(%a)\n%y = aten.view(%b, [2, 4])\n" O("y"))},
    {"linear_shapes",
     G("input %z: float32[2, 3, 4]\ninput %w: float32[5, 4]\n%f = aten.view(%z, [6, 4])\n"
       "%y = aten.linear(%f, %w)\n" O("y")),
     G("input %z: float32[2, 3, 4]\ninput %w: float32[5, 4]\n%l = aten.linear(%z, %w)\n"
       "%y = aten.view(%l, [6, 5])\n" O("y")),
     G("input %z: float32[2, 3, 4]\ninput %w: float32[5, 3]\n%f = aten.view(%z, [8, 3])\n"
       "%y = aten.linear(%f, %w)\n" O("y"))},
    {"views_linear", G("%a = aten.t(%x)\n%b = aten.t(%a)\n%y = aten.relu(%b)\n" O("y")),
     G("%y = aten.relu(%x)\n" O("y")),
     G("%a = aten.permute(%x, [1, 0])\n%y = aten.relu(%a)\n" O("y"))},
    {"norms",
     G("%a = aten.square(%x)\n%b = aten.mean.dim(%a, [-1], true)\n"
       "%c = aten.add.Tensor(%b, 1e-06)\n%d = aten.rsqrt(%c)\n"
       "%y = aten.mul.Tensor(%x, %d)\n" O("y")),
     G("%y = aten.rms_norm(%x, [4], none, 1e-06)\n" O("y")),
     G("%a = aten.square(%x)\n%b = aten.sum.dim_IntList(%a, [-1], true)\n"
       "%c = aten.add.Tensor(%b, 1e-06)\n%d = aten.rsqrt(%c)\n%y = aten.mul.Tensor(%x, %d)\n" O(
           "y"))},
    {"masks",
     G("const %k: bool[4] = {true, false, true, true}\n%m = aten.where.self(%k, %x, -inf)\n"
       "%y = aten._softmax(%m, 1, false)\n" O("y")),
     G("const %k: bool[4] = {true, false, true, true}\nconst %c: float32[4] = {0, -inf, 0, 0}\n"
       "%m = aten.add.Tensor(%x, %c)\n%y = aten._softmax(%m, 1, false)\n" O("y")),
     G("const %k: bool[4] = {true, false, true, true}\n%m = aten.where.self(%k, %x, 0.0)\n"
       "%y = aten._softmax(%m, 1, false)\n" O("y"))},
    {"attention", SCORES "%p = aten._softmax(%s4, -1, false)\n" VALUES,
     HEADS "%a = aten.scaled_dot_product_attention(%q, %k, %v, none, 0.0, false, scale=1.0)\n"
           "%b = aten.view(%a, [2, 3, 4])\n%y = aten.view(%b, [1, 2, 3, 4])\n" O("y"),
     SCORES "%p = aten.sigmoid(%s4)\n" VALUES},
    {"causal",
     HEADS "const %m: bool[3, 3] = {true, false, false, true, true, false, true, true, true}\n"
           "%y = aten.scaled_dot_product_attention(%q, %k, %v, %m)\n" O("y"),
     HEADS "const %m: bool[3, 3] = {true, false, false, true, true, false, true, true, true}\n"
           "%y = aten.scaled_dot_product_attention(%q, %k, %v, none, 0.0, true)\n" O("y"),
     HEADS "const %m: bool[3, 3] = {true, false, false, true, true, true, true, true, true}\n"
           "%y = aten.scaled_dot_product_attention(%q, %k, %v, %m)\n" O("y")},
    {"spatial", IMAGE "%y = aten.adaptive_avg_pool2d(%x, [2, 2])\n" O("y"),
     IMAGE "%y = aten.avg_pool2d(%x, [2, 2], [2, 2])\n" O("y"),
     IMAGE "%y = aten.adaptive_avg_pool2d(%x, [3, 3])\n" O("y")},
    {"pools",
     IMAGE POINTWISE "%c = aten.convolution(%x, %w, %b, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
                     "%y = aten.avg_pool2d(%c, [2, 2])\n" O("y"),
     IMAGE POINTWISE
     "%p = aten.avg_pool2d(%x, [2, 2])\n"
     "%y = aten.convolution(%p, %w, %b, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n" O("y"),
     IMAGE POINTWISE "%c = aten.convolution(%x, %w, %b, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)\n"
                     "%y = aten.avg_pool2d(%c, [2, 2], [2, 2], [1, 1])\n" O("y")},
    {"views_last", G("%a = aten.expand(%x, [2, 4])\n%y = aten.relu(%a)\n" O("y")),
     G("%y = aten.relu(%x)\n" O("y")),
     G("%a = aten.expand(%x, [3, 2, 4])\n%y = aten.relu(%a)\n" O("y"))},
    {"merge_shapes", G("%a = aten.t(%x)\n%b = aten.t(%x)\n%y = aten.mul.Tensor(%a, %b)\n" O("y")),
     G("%a = aten.t(%x)\n%y = aten.mul.Tensor(%a, %a)\n" O("y")),
     G("%a = aten.exp(%x)\n%b = aten.exp2(%x)\n%y = aten.mul.Tensor(%a, %b)\n" O("y"))},
    {"dead_shapes", G("%a = aten.t(%x)\n%b = aten.neg(%a)\n" O("a")), G("%a = aten.t(%x)\n" O("a")),
     G("%a = aten.t(%x)\n%b = aten.neg(%a)\n" O("b"))},
    {"repair", G("%a = aten.t(%x)\n" O("a")), G("%a = aten.t(%x)\n%b = aten.clone(%a)\n" O("b")),
     G("%a = aten.neg(%x)\n%b = aten.t(%a)\n" O("b"))},
    {"layout",
     IMAGE
     "const %w: float32[2, 2, 3, 3] = random(1)\n%c = aten.convolution(%x, %w, none, [1, 1], "
     "[1, 1], [1, 1], false, [0, 0], 1)\n%y = aten.relu(%c)\n%m = aten.mean.dim(%y, [2, 3])\n" O(
         "m"),
     IMAGE
     "const %w: float32[2, 2, 3, 3] = random(1)\n%c: float32[1, 2, 4, 4] channels_last = "
     "aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)\n"
     "%y: float32[1, 2, 4, 4] channels_last = aten.relu(%c)\n%m = aten.mean.dim(%y, [2, 3])\n" O(
         "m"),
     IMAGE "%a = aten.relu(%x)\n%y = aten.max_pool2d(%a, [2, 2])\n" O("y")},
    {"winograd", WIDE("%c", WIDE_W, WIDE_CONVOLUTION("[1, 1]")) WIDE_RELU,
     WIDE("%y", WIDE_W WIDE_U,
          "tenon.winograd_convolution(%x, %u, none, none, 64, 4, [1, 1], 1, \"relu\")") O("y"),
     "graph g { input %x: float32[1, 64, 56, 56]\n" WIDE_W
     "%c: float32[1, 64, 28, 28] channels_last = " WIDE_CONVOLUTION("[2, 2]") "\n" WIDE_RELU},
    {"parts",
     PARTS_IN "%c: float32[1, 8, 3, 3] channels_last = aten.cat([%a, %x], 1)\n"
              "%y: float32[1, 8, 3, 3] channels_last = aten.channel_shuffle(%c, 2)\n"
              "%d: float32[1, 8, 3, 3] channels_last = aten.cat([%x, %a], 1)\n"
              "%n: float32[1, 8, 3, 3] channels_last, %p, %q = "
              "aten._native_batch_norm_legit_no_training(%d, %g, none, %m, %v, 0.1, 0.0)\n"
              "%z: float32[1, 8, 3, 3] channels_last = aten.relu(%n)\n"
              "%f = aten.view(%a, [1, 2, 2, 3, 3])\n"
              "%u: float32[1, 2, 3, 3] channels_last = aten.sum.dim_IntList(%f, [1])\n"
              "%e = aten.mean.dim(%u, [2, 3], true)\n%k = aten.mul.Tensor(%f, %s)\n"
              "%w: float32[1, 2, 3, 3] channels_last = aten.sum.dim_IntList(%k, [1])\n" PARTS_OUT,
     PARTS_IN "const %h: float32[8] = full(2)\nconst %t: float32[8] = full(-1)\n"
              "%y: float32[1, 8, 3, 3] channels_last = tenon.interleave([%a, %x])\n"
              "%z: float32[1, 8, 3, 3] channels_last = tenon.scaled_cat([%x, %a], %h, %t, "
              "\"relu\")\n"
              "%e = tenon.split_mean(%a, 2)\n"
              "%w: float32[1, 2, 3, 3] channels_last = tenon.split_sum(%a, %s, 2)\n" PARTS_OUT,
     PARTS_IN "%c: float32[1, 12, 3, 3] channels_last = aten.cat([%a, %x, %a], 1)\n"
              "%y: float32[1, 12, 3, 3] channels_last = aten.channel_shuffle(%c, 2)\n" O("y")},
    {"packed",
     TALL TALL_W "%a = aten.linear(%x, %w)\n%b = aten.add.Tensor(%r, %a)\n"
                 "%y = aten.gelu(%b)\n" O("y"),
     TALL TALL_W "const %p: float32[8, 256, 32] = full(0.5)\n"
                 "%y = tenon.packed_linear(%x, %p, none, %r, 256, true, \"gelu\")\n" O("y"),
     "graph g { input %x: float32[4, 256]\n" TALL_W "%y = aten.linear(%x, %w)\n" O("y")},
    {"depthwise", EACH_GRAPH("24", "const %w: float32[24, 1, 3, 3] = zeros\n"),
     EACH_IN EACH_W EACH_P
     "%c: float32[1, 24, 3, 3] channels_last, %m = tenon.depthwise_convolution(%x, %p, none, "
     "\"silu\", 0.0, 0.0, %q, none, 24, [3, 3], [2, 2], [1, 1, 1, 1], \"relu\")\n"
     "%y = aten.mul.Tensor(%c, %m)\n" O("y"),
     EACH_GRAPH("12", "const %w: float32[24, 2, 3, 3] = zeros\n")},
    {"squeeze", SE_GRAPH,
     SE_INPUTS
     "const %p: float32[6, 8, 1, 1] = zeros\nconst %1: float32[1, 8, 32] = zeros\n"
     "const %2: float32[1, 4, 32] = zeros\nconst %3: float32[1, 8, 32] = zeros\n"
     "%s: float32[1, 8, 1, 1] channels_last = tenon.squeeze_excitation(%m, %1, none, 4, \"relu\", "
     "0.0, 0.0, %2, none, 8, \"sigmoid\")\n"
     "%y: float32[1, 6, 5, 5] channels_last = tenon.packed_convolution(%x, %s, %3, none, none, "
     "6, [1, 1], [1, 1], [0, 0, 0, 0])\n" O("y"),
     "graph g { input %x: float32[1, 8, 5, 5]\nconst %w: float32[8, 8, 1, 1] = zeros\n"
     "%h: float32[1, 8, 5, 5] channels_last = aten.convolution(%x, %w, none, [1, 1], [0, 0], "
     "[1, 1], false, [0, 0], 1)\n"
     "%y: float32[1, 8, 5, 5] channels_last = aten.convolution(%h, %w, none, [1, 1], [0, 0], "
     "[1, 1], false, [0, 0], 1)\n" O("y")},
    {"convolve", WIDE("%c", WIDE_W, WIDE_CONVOLUTION("[1, 1]")) WIDE_RELU,
     WIDE("%y", WIDE_W "const %p: float32[2, 576, 32] = zeros\n",
          "tenon.packed_convolution(%x, none, %p, none, none, 64, [3, 3], [1, 1], [1, 1, 1, 1], "
          "\"relu\")") O("y"),
     IMAGE "const %w: float32[2, 2, 3, 3] = random(1)\n"
           "%y: float32[1, 2, 4, 4] channels_last = aten.convolution(%x, %w, none, [1, 1], [1, 1], "
           "[1, 1], false, [0, 0], 1)\n" O("y")},
    {"weights",
     WIDE("%y",
          "const %w: float32[64, 64, 3, 3] = full(3)\n"
          "const %s: float32[64, 1, 1, 1] = full(0.5)\n%v = aten.mul.Tensor(%w, %s)\n",
          "aten.convolution(%x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)") O("y"),
     WIDE("%y",
          "const %w: float32[64, 64, 3, 3] = full(3)\n"
          "const %s: float32[64, 1, 1, 1] = full(0.5)\n"
          "const %v: float32[64, 64, 3, 3] = full(1.5)\n",
          "aten.convolution(%x, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)") O("y"),
     /* one that is small; a scale of inputs */
     IMAGE "const %w: float32[2, 2, 3, 3] = random(1)\nconst %s: float32[2, 1, 1, 1] = random(2)\n"
           "%v = aten.mul.Tensor(%w, %s)\n%y = aten.convolution(%x, %v, none, [1, 1], [1, 1], "
           "[1, 1], false, [0, 0], 1)\n" O("y")},
};

/* Passes that have examples here are all that there are. */
START_TEST(every_pass_has_an_example) {
    for (int i = 0; i < tn_default_pass_count; i++) {
        int found = 0;
        for (int k = 0; k < (int)(sizeof examples / sizeof *examples); k++)
            found += strcmp(examples[k].pass, tn_default_passes[i].pass.name) == 0;
        ck_assert_msg(found == 1, "%d examples of '%s'", found, tn_default_passes[i].pass.name);
    }
}
END_TEST

START_TEST(before_and_after) {
    const example *e = &examples[_i];
    pass_check(e->before, e->pass, e->after);
    pass_keeps(e->stays, e->pass);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("pass_each");
    TCase *tests = tcase_create("all");
    tcase_add_test(tests, every_pass_has_an_example);
    tcase_add_loop_test(tests, before_and_after, 0, (int)(sizeof examples / sizeof *examples));
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
