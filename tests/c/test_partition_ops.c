/* Every op that maps to oneDNN Graph: it becomes one partition, which computes what its kernel
 * computes, at sizes even and odd, row-major and channels-last. */
#include "partition_cases.h"
#include "suite.h"

#define C(expected, body) \
    { .name = expected, .partitions = expected, .text = G(body), ONEDNN }
/* Within a tolerance. */
#define CT(expected, limit, body) \
    { .name = expected, .partitions = expected, .text = G(body), ONEDNN, .tolerance = limit }
#define UNARY(expected, call) \
    C(expected, IN("x", "float32[3, 17, 5, 2]") "%y = aten." call "\n" OUT("y"))
/* Of positive numbers. */
#define POSITIVE(expected, call) \
    C(expected, "const %x: float32[3, 85] = random(1, 0.1, 3)\n%y = aten." call "\n" OUT("y"))
#define BINARY(expected, call)                                                                    \
    C(expected, IN("x", "float32[3, 17, 5, 2]") IN("z", "float32[3, 17, 5, 2]") "%y = aten." call \
                                                                                "\n" OUT("y"))
#define BROADCAST(expected, shape, call)                                                        \
    C(expected, IN("x", "float32[3, 17, 5, 2]") IN("z", "float32[" shape "]") "%y = aten." call \
                                                                              "\n" OUT("y"))

static const test_case pointwise[] = {
    UNARY("Abs", "abs(%x)"),
    UNARY("Exp", "exp(%x)"),
    UNARY("HardSwish", "hardswish(%x)"),
    UNARY("HardSigmoid", "hardsigmoid(%x)"),
    UNARY("Mish", "mish(%x)"),
    UNARY("ReLU", "relu(%x)"),
    UNARY("Round", "round(%x)"),
    UNARY("Sigmoid", "sigmoid(%x)"),
    UNARY("Square", "square(%x)"),
    UNARY("Tanh", "tanh(%x)"),
    UNARY("GELU", "gelu(%x)"),
    UNARY("Elu", "elu(%x, 0.7)"),
    UNARY("LeakyReLU", "leaky_relu(%x, 0.2)"),
    UNARY("SoftPlus", "softplus(%x, 2, 20)"),
    UNARY("Clamp", "relu6(%x)"),
    UNARY("Clamp", "hardtanh(%x, -0.25, 0.5)"),
    UNARY("Clamp", "clamp(%x, -0.25, 0.5)"),
    UNARY("", "clamp(%x, 0.5, -0.25)"),
    UNARY("", "sin(%x)"),
    UNARY("Clamp", "clamp(%x, none, 0.5)"),
    UNARY("Clamp", "clamp(%x, 0.25)"),
    UNARY("Clamp", "clamp_min(%x, 0.25)"),
    UNARY("Clamp", "clamp_max(%x, 0.25)"),
    UNARY("Sigmoid+Multiply", "silu(%x)"),
    UNARY("Multiply", "neg(%x)"),
    UNARY("Add", "add.Scalar(%x, 3)"),
    UNARY("Add", "add.Tensor(%x, 2.5, alpha=2)"),
    UNARY("Add", "sub.Scalar(%x, 3, 2)"),
    UNARY("Subtract", "rsub.Scalar(%x, 3)"),
    UNARY("Multiply", "mul.Tensor(%x, 3)"),
    UNARY("Divide", "div.Scalar(%x, 3)"),
    UNARY("Add", "add.Tensor(%x, %x)"),
    POSITIVE("Log", "log(%x)"),
    POSITIVE("Sqrt", "sqrt(%x)"),
    BINARY("Add", "add.Tensor(%x, %z)"),
    BINARY("Subtract", "sub.Tensor(%x, %z)"),
    BINARY("Subtract", "rsub.Tensor(%x, %z)"),
    BINARY("Multiply", "mul.Tensor(%x, %z)"),
    BINARY("Maximum", "maximum(%x, %z)"),
    BINARY("Minimum", "minimum(%x, %z)"),
    BROADCAST("Add", "17, 1, 1", "add.Tensor(%x, %z)"),
    BROADCAST("Multiply", "2", "mul.Tensor(%x, %z)"),
    BROADCAST("Multiply", "3, 17, 1, 1", "mul.Tensor(%z, %x)"),
    BROADCAST("Subtract", "1, 17, 1, 1", "sub.Tensor(%z, %x)"),
    BROADCAST("Maximum", "", "maximum(%x, %z)"),
    BROADCAST("PReLU", "17", "prelu(%x, %z)"),
    BROADCAST("PReLU", "1", "prelu(%x, %z)"),
    C("Divide", IN("x", "float32[3, 17]") "const %z: float32[3, 17] = random(1, 0.5, 2)\n"
                                          "%y = aten.div.Tensor(%x, %z)\n" OUT("y")),
    C("Select", IN("x", "float32[3, 17]") IN("z", "float32[3, 17]")
                    IN("c", "bool[3, 17]") "%y = aten.where.self(%c, %x, %z)\n" OUT("y")),
    C("Reorder", IN("x", "float32[3, 17, 5]") "%p = aten.permute(%x, [2, 0, 1])\n"
                                              "%y = aten.clone(%p, memory_format=0)\n" OUT("y")),
    CT("TypeCast", 4e-3,
       IN("x", "float32[3, 17]") "%y = aten._to_copy(%x, dtype=bfloat16)\n" OUT("y")),
    C("TypeCast", IN("x", "bfloat16[3, 17]") "%y = aten._to_copy(%x, dtype=float32)\n" OUT("y")),
};

/* Scales of 17 channels, and zero points, which oneDNN takes for whole tensors only. */
#define CHANNELS "const %s: float32[17] = random(1, 0.004, 0.01)\nconst %z: int64[17] = zeros\n"
#define BY_CHANNEL(op, x, axis, low, high, dtype)                                           \
    "%y = quantized_decomposed." op "_per_channel(%" x ", %s, %z, " axis ", " low ", " high \
    ", " dtype ")\n"
#define BY_TENSOR(op, x, zero, low, high, dtype)                                         \
    "%y = quantized_decomposed." op "_per_tensor(%" x ", 0.01, " zero ", " low ", " high \
    ", " dtype ")\n"

static const test_case quantizations[] = {
    C("Quantize",
      IN("x", "float32[3, 17, 5]") BY_TENSOR("quantize", "x", "3", "-128", "127", "int8") OUT("y")),
    C("Quantize",
      IN("x", "float32[3, 17, 5]") BY_TENSOR("quantize", "x", "120", "0", "255", "uint8") OUT("y")),
    C("Quantize", IN("x", "float32[3, 17, 5]")
                      CHANNELS BY_CHANNEL("quantize", "x", "1", "-128", "127", "int8") OUT("y")),
    C("Quantize", IN("x", "float32[17, 3]")
                      CHANNELS BY_CHANNEL("quantize", "x", "-2", "-128", "127", "int8") OUT("y")),
    C("Dequantize",
      IN("x", "int8[3, 17]") BY_TENSOR("dequantize", "x", "3", "-128", "127", "int8") OUT("y")),
    C("Dequantize",
      IN("x", "uint8[3, 17]") BY_TENSOR("dequantize", "x", "120", "0", "255", "uint8") OUT("y")),
    C("Dequantize", IN("x", "int8[3, 17]") CHANNELS BY_CHANNEL("dequantize", "x", "-1", "-128",
                                                               "127", "int8") OUT("y")),
};

#define MATMUL(expected, x, w, call) \
    C(expected, IN("x", "float32[" x "]") WEIGHT("w", w) "%y = aten." call "\n" OUT("y"))

/* 3.7.2 lacks fixes for odd sizes of packed weights (commits 7d495ae13d, e18c622a3c of oneDNN):
 * hence so many of them. */
static const test_case products[] = {
    MATMUL("MatMul", "4, 5, 33", "47, 33", "linear(%x, %w)"),
    MATMUL("MatMul", "1, 33", "47, 33", "linear(%x, %w)"),
    MATMUL("MatMul", "64, 64", "64, 64", "linear(%x, %w)"),
    MATMUL("MatMul", "7, 65", "1, 65", "linear(%x, %w)"),
    MATMUL("MatMul", "7, 1", "65, 1", "linear(%x, %w)"),
    MATMUL("MatMul", "31, 127", "129, 127", "linear(%x, %w)"),
    MATMUL("MatMul", "31, 15", "17, 15", "linear(%x, %w)"),
    MATMUL("MatMul", "130, 257", "63, 257", "linear(%x, %w)"),
    MATMUL("MatMul", "2, 3, 5, 48", "31, 48", "linear(%x, %w)"),
    MATMUL("MatMul", "31, 127", "127, 129", "mm(%x, %w)"),
    MATMUL("MatMul", "1, 127", "127, 129", "mm(%x, %w)"),
    MATMUL("MatMul", "33, 16", "16, 1", "mm(%x, %w)"),
    MATMUL("MatMul", "3, 31, 17", "3, 17, 19", "bmm(%x, %w)"),
    MATMUL("MatMul", "4, 32, 16", "4, 16, 48", "bmm(%x, %w)"),
    C("MatMul", IN("x", "float32[3, 31, 17]")
                    IN("z", "float32[3, 19, 17]") "%t = aten.transpose.int(%z, 1, 2)\n%y = "
                                                  "aten.bmm(%x, %t)\n" OUT("y")),
    C("MatMul", IN("x", "float32[3, 17, 31]")
                    IN("z", "float32[3, 17, 19]") "%t = aten.transpose.int(%x, 1, 2)\n%y = "
                                                  "aten.bmm(%t, %z)\n" OUT("y")),
    C("MatMul", IN("x", "float32[7, 33]") WEIGHT("w", "47, 33")
                    WEIGHT("b", "47") "%y = aten.linear(%x, %w, %b)\n" OUT("y")),
    C("MatMul", IN("x", "float32[7, 33]") WEIGHT("w", "33, 47")
                    WEIGHT("b", "1, 47") "%y = aten.addmm(%b, %x, %w)\n" OUT("y")),
    C("MatMul", IN("x", "float32[7, 33]") WEIGHT("w", "33, 47")
                    WEIGHT("b", "47") "%y = aten.addmm(%b, %x, %w, beta=0)\n" OUT("y")),
    C("MatMul+Multiply",
      IN("x", "float32[7, 33]") WEIGHT("w", "33, 47")
          WEIGHT("b", "47") "%y = aten.addmm(%b, %x, %w, beta=0, alpha=0.5)\n" OUT("y")),
    C("MatMul+Add", IN("x", "float32[7, 33]") WEIGHT("w", "33, 47")
                        IN("b", "float32[7, 47]") "%y = aten.addmm(%b, %x, %w)\n" OUT("y")),
    /* What oneDNN would do in its reference code stays apart. */
    C("", IN("x", "float32[7, 33]") WEIGHT("w", "33, 47")
              IN("b", "float32[7, 1]") "%y = aten.addmm(%b, %x, %w)\n" OUT("y")),
    C("MatMul | Multiply", IN("x", "float32[3, 7, 33]") WEIGHT("w", "47, 33") IN(
                               "b", "float32[3, 1, 1]") "%m = aten.linear(%x, %w)\n"
                                                        "%y = aten.mul.Tensor(%m, %b)\n" OUT("y")),
    C("MatMul+Add", IN("x", "float32[3, 7, 33]") WEIGHT("w", "3, 33, 47")
                        IN("b", "float32[3, 7, 47]") "%y = aten.baddbmm(%b, %x, %w)\n" OUT("y")),
    C("MatMul+Add", IN("x", "float32[3, 7, 33]") WEIGHT("w", "3, 33, 47")
                        IN("b", "float32[3, 1, 47]") "%y = aten.baddbmm(%b, %x, %w)\n" OUT("y")),
    C("MatMul+Multiply",
      IN("x", "float32[3, 7, 33]") WEIGHT("w", "3, 33, 47")
          IN("b",
             "float32[3, 1, 1]") "%m = aten.bmm(%x, %w)\n%y = aten.mul.Tensor(%m, %b)\n" OUT("y")),
    CT("MatMul", 1e-2,
       IN("x", "bfloat16[31, 127]") "const %w: bfloat16[65, 127] = random(3)\n"
                                    "%y = aten.linear(%x, %w)\n" OUT("y")),
    CT("MatMul", 1e-2,
       IN("x", "bfloat16[16, 64]") "const %w: bfloat16[64, 64] = random(3)\n"
                                   "%y = aten.linear(%x, %w)\n" OUT("y")),
};

#define CONVOLUTION(expected, x, w, b, call)    \
    CT(expected, 2e-5,                          \
       IN("x", "float32[" x "]") WEIGHT("w", w) \
           WEIGHT("b", b) "%y = aten.convolution(%x, %w, " call ")\n" OUT("y"))

static const test_case convolutions[] = {
    CONVOLUTION("Convolution", "2, 3, 11, 9", "16, 3, 3, 3", "16",
                "%b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1"),
    CONVOLUTION("Convolution", "2, 17, 11, 9", "15, 17, 3, 3", "15",
                "%b, [2, 2], [1, 1], [1, 1], false, [0, 0], 1"),
    CONVOLUTION("Convolution", "1, 24, 12, 12", "40, 24, 1, 1", "40",
                "none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1"),
    CONVOLUTION("Convolution", "1, 20, 12, 12", "36, 20, 1, 1", "36",
                "%b, [2, 1], [0, 0], [1, 1], false, [0, 0], 1"),
    CONVOLUTION("Convolution", "1, 16, 13, 12", "8, 16, 3, 5", "8",
                "%b, [1, 2], [2, 4], [2, 2], false, [0, 0], 1"),
    CONVOLUTION("", "1, 16, 5, 1", "8, 16, 3, 1", "8",
                "%b, [2, 2], [1, 1], [1, 1], false, [0, 0], 1"),
    CONVOLUTION("", "1, 16, 9, 9", "8, 16, 3, 2", "8",
                "%b, [1, 1], [1, 3], [1, 2], false, [0, 0], 1"),
    CONVOLUTION("Convolution", "2, 24, 9, 9", "24, 1, 3, 3", "24",
                "%b, [1, 1], [1, 1], [1, 1], false, [0, 0], 24"),
    CONVOLUTION("Convolution", "2, 21, 9, 9", "21, 1, 5, 5", "21",
                "%b, [2, 2], [2, 2], [1, 1], false, [0, 0], 21"),
    CONVOLUTION("Convolution", "1, 24, 9, 9", "48, 6, 3, 3", "48",
                "%b, [1, 1], [1, 1], [1, 1], false, [0, 0], 4"),
    CONVOLUTION("Convolution", "1, 4, 5, 5", "4, 1, 3, 3", "4",
                "%b, [1, 1], [2, 2], [2, 2], false, [0, 0], 4"),
    CONVOLUTION("Convolution", "2, 18, 40", "22, 18, 3", "22", "%b, [1], [1], [1], false, [0], 1"),
    CONVOLUTION("Convolution", "1, 6, 5, 7, 8", "10, 6, 3, 3, 3", "10",
                "%b, [1, 2, 1], [1, 1, 1], [1, 1, 1], false, [0, 0, 0], 1"),
    CONVOLUTION("ConvTranspose", "2, 18, 7, 5", "18, 12, 3, 3", "12",
                "%b, [2, 2], [1, 1], [1, 1], true, [1, 1], 1"),
    CONVOLUTION("ConvTranspose", "1, 4, 6, 6", "4, 2, 3, 3", "4",
                "%b, [1, 1], [1, 1], [1, 1], true, [0, 0], 2"),
    CONVOLUTION("ConvTranspose", "1, 3, 3, 3", "3, 1, 3, 3", "1",
                "%b, [2, 2], [2, 2], [2, 2], true, [0, 0], 1"),
    CONVOLUTION("ConvTranspose", "1, 8, 9", "8, 5, 4", "5", "none, [2], [1], [1], true, [0], 1"),
    CT("Convolution", 1e-2,
       IN("x", "bfloat16[1, 17, 9, 9]") "const %w: bfloat16[24, 17, 3, 3] = random(3)\n"
                                        "%y = aten.convolution(%x, %w, none, [1, 1], [1, 1], [1, "
                                        "1], false, [0, 0], 1)\n" OUT("y")),
    C("Convolution+ReLU", IN("x", "float32[1, 24, 9, 9]")
                              WEIGHT("w", "8, 12, 3, 3") "%s = aten.slice.Tensor(%x, 1, 12, 24)\n"
                                                         "%c = aten.convolution(%s, %w, none, [1, "
                                                         "1], [1, 1], [1, 1], false, [0, 0], 1)\n"
                                                         "%y = aten.relu(%c)\n" OUT("y")),
    C("", IN("x", "float32[1, 1, 9, 9]")
              WEIGHT("w", "8, 12, 3, 3") "%s = aten.expand(%x, [1, 12, 9, 9])\n"
                                         "%y = aten.convolution(%s, %w, none, [1, 1], [1, 1], [1, "
                                         "1], false, [0, 0], 1)\n" OUT("y")),
    CT("Convolution", 2e-5,
       IN("x", "float32[2, 17, 11, 10]") WEIGHT("w", "24, 17, 3, 3")
           WEIGHT("b", "24") "%y = tenon.padded_convolution(%x, %w, %b, [2, 2], [0, 1], [1, 1], "
                             "false, [0, 0], 1, [1, 2])\n" OUT("y")),
    CT("Convolution", 2e-5,
       IN("x", "float32[1, 24, 8, 8]") WEIGHT("w", "24, 1, 3, 3")
           WEIGHT("b", "24") "%y = tenon.padded_convolution(%x, %w, %b, [2, 2], [0, 0], [1, 1], "
                             "false, [0, 0], 24, [1, 1])\n" OUT("y")),
    /* The residual of a transposed convolution stays apart: fused, it is wrong before oneDNN 3.13.
     */
    CT("ConvTranspose | Add", 2e-5,
       IN("x", "float32[2, 18, 7, 5]") WEIGHT("w", "18, 12, 1, 1")
           IN("r", "float32[2, 12, 7, 5]") "%c = aten.convolution(%x, %w, none, [1, 1], [0, 0], "
                                           "[1, 1], true, [0, 0], 1)\n"
                                           "%y = aten.add.Tensor(%c, %r)\n" OUT("y")),
};

#define POOL(expected, x, call) \
    C(expected, IN("x", "float32[" x "]") "%y = aten." call "\n" OUT("y"))

static const test_case poolings[] = {
    POOL("MaxPool", "2, 17, 11, 9", "max_pool2d(%x, [3, 3], [2, 2], [1, 1])"),
    POOL("MaxPool", "2, 16, 11, 9", "max_pool2d(%x, [3, 2], [2, 2], [1, 0], [1, 1], true)"),
    POOL("", "2, 16, 11, 9", "max_pool2d(%x, [3, 3], [2, 2], [1, 1], [2, 2])"),
    POOL("MaxPool", "2, 16, 8, 8", "max_pool2d(%x, 2)"),
    POOL("MaxPool", "2, 17, 30", "max_pool1d(%x, [3], [2], [1])"),
    POOL("MaxPool", "1, 5, 6, 7, 8", "max_pool3d(%x, [2, 3, 2], [2, 2, 1], [1, 1, 0])"),
    C("MaxPool", IN("x", "float32[2, 17, 11, 9]") "%y, %i = aten.max_pool2d_with_indices(%x, [3, "
                                                  "3], [2, 2], [1, 1])\n" OUT("y")),
    C("", IN("x", "float32[2, 17, 11, 9]") "%y, %i = aten.max_pool2d_with_indices(%x, [3, 3], [2, "
                                           "2], [1, 1])\n" OUT("y") "output \"i\" = %i\n"),
    POOL("AvgPool", "2, 17, 11, 9", "avg_pool2d(%x, [3, 3], [2, 2], [1, 1])"),
    POOL("AvgPool", "2, 16, 11, 9",
         "avg_pool2d(%x, [3, 3], [2, 2], [1, 1], count_include_pad=false)"),
    POOL("AvgPool", "2, 16, 11, 10",
         "avg_pool2d(%x, [3, 3], [2, 2], [1, 1], ceil_mode=true, count_include_pad=false)"),
    POOL("AvgPool", "2, 16, 11, 10", "avg_pool2d(%x, [3, 3], [2, 2], [0, 0], ceil_mode=true)"),
    POOL("", "2, 16, 11, 10", "avg_pool2d(%x, [3, 3], [2, 2], [1, 1], ceil_mode=true)"),
    POOL("", "2, 16, 11, 10", "avg_pool2d(%x, [3, 3], divisor_override=5)"),
    POOL("AvgPool", "2, 16, 12, 10",
         "avg_pool2d(%x, [3, 3], [2, 2], [0, 0], ceil_mode=true, divisor_override=9)"),
    POOL("AvgPool", "2, 17, 30", "avg_pool1d(%x, [3], [2], [1])"),
    POOL("AvgPool", "1, 5, 6, 7, 8", "avg_pool3d(%x, [2, 3, 2], [2, 2, 1])"),
    POOL("AvgPool", "2, 17, 7, 7", "adaptive_avg_pool2d(%x, [1, 1])"),
    POOL("AvgPool", "2, 17, 6, 9", "adaptive_avg_pool2d(%x, [2, 3])"),
    POOL("", "2, 17, 7, 7", "adaptive_avg_pool2d(%x, [2, 2])"),
    POOL("AvgPool", "2, 17, 8", "adaptive_avg_pool1d(%x, [2])"),
};

#define NORM(expected, x, call)                    \
    CT(expected, 2e-5,                             \
       IN("x", "float32[" x "]") WEIGHT("g", "17") \
           WEIGHT("h", "17") "const %v: float32[17] = random(9, 0.5, 2)\n%y" call "\n" OUT("y"))

static const test_case norms[] = {
    NORM("SoftMax", "4, 5, 33", " = aten._softmax(%x, -1, false)"),
    NORM("SoftMax", "4, 17, 6", " = aten._softmax(%x, 1, false)"),
    NORM("SoftMax", "2, 17, 5, 6", " = aten._softmax(%x, 3, false)"),
    NORM("LogSoftmax", "4, 33", " = aten._log_softmax(%x, 1, false)"),
    NORM("GroupNorm", "2, 17, 5, 6",
         ", %m, %r = aten.native_group_norm(%x, %g, %h, 2, 17, 30, 17, 1e-05)"),
    NORM("GroupNorm", "2, 18, 5, 6",
         ", %m, %r = aten.native_group_norm(%x, none, none, 2, 18, 30, 3, 1e-05)"),
    NORM("BatchNormInference", "2, 17, 5, 6",
         ", %m, %r = aten._native_batch_norm_legit_no_training(%x, %g, %h, %h, %v, 0.1, 1e-05)"),
    NORM(
        "BatchNormInference", "2, 17, 5, 6",
        ", %m, %r = aten._native_batch_norm_legit_no_training(%x, none, none, %h, %v, 0.1, 1e-05)"),
    NORM("Concat", "2, 17, 5, 6", " = aten.cat([%x, %x, %x], 1)"),
    NORM("Concat", "4, 5", " = aten.cat([%x, %x], -2)"),
};

/* Over what lies innermost in row-major memory. */
static const test_case reductions[] = {
    NORM("ReduceSum", "4, 5, 17", " = aten.sum(%x)"),
    NORM("ReduceSum", "4, 5, 17", " = aten.sum.dim_IntList(%x, [1, -1])"),
    NORM("ReduceMean", "2, 17, 5, 6", " = aten.mean.dim(%x, [2, 3], true)"),
    NORM("ReduceMean", "2, 17, 5, 6", " = aten.mean.dim(%x, [-1, -2])"),
    NORM("ReduceMax", "4, 5, 17", " = aten.amax(%x, [2], true)"),
    NORM("ReduceMin", "4, 5, 17", " = aten.amin(%x, [2])"),
    NORM("ReduceMax", "4, 5, 17", " = aten.max(%x)"),
    NORM("ReduceProd", "4, 5, 17", " = aten.prod.dim_int(%x, -1)"),
    NORM("ReduceL2", "4, 5, 17", " = aten.norm.ScalarOpt_dim(%x, 2, [2])"),
    NORM("ReduceL1", "4, 5, 17", " = aten.linalg_vector_norm(%x, 1, [2])"),
    NORM("ReduceL2", "4, 5, 17", " = aten.linalg_vector_norm(%x)"),
    NORM("ReduceMean+Add", "2, 17, 5, 6",
         "1 = aten.mean.dim(%x, [2, 3], true)\n%y = aten.add.Tensor(%y1, 1)"),
    NORM("", "4, 5, 17", " = aten.amax(%x, [0], true)"),
    NORM("", "4, 5, 17", " = aten.linalg_vector_norm(%x, 3)"),
};

/* Of channels-last memory, whole spatial means are poolings. */
static const test_case means[] = {
    NORM("AvgPool", "2, 17, 5, 6", " = aten.mean.dim(%x, [2, 3], true)"),
    NORM("AvgPool", "2, 17, 5, 6", " = aten.mean.dim(%x, [-1, -2])"),
    NORM("AvgPool", "2, 17, 5", " = aten.mean.dim(%x, [2])"),
    NORM("AvgPool+Add", "2, 17, 5, 6",
         "1 = aten.mean.dim(%x, [2, 3], true)\n%y = aten.add.Tensor(%y1, 1)"),
    NORM("", "2, 17, 5, 6", " = aten.mean.dim(%x, [1])"),
    NORM("", "2, 17, 5, 6", " = aten.sum.dim_IntList(%x, [2, 3])"),
};

/* Over the last dimensions, which channels-last memory would scatter. */
static const test_case layer_norms[] = {
    NORM("LayerNorm", "4, 5, 17", ", %m, %r = aten.native_layer_norm(%x, [17], %g, %h, 1e-05)"),
    NORM("LayerNorm", "4, 5, 17", ", %m, %r = aten.native_layer_norm(%x, [17], none, none, 1e-05)"),
    NORM("LayerNorm", "4, 5, 17", ", %m, %r = aten.native_layer_norm(%x, [17], %g, none, 1e-05)"),
    NORM("LayerNorm", "17", ", %m, %r = aten.native_layer_norm(%x, [17], %g, %h, 1e-05)"),
    NORM("LayerNorm", "4, 5, 17",
         ", %m, %r = aten.native_layer_norm(%x, [5, 17], none, none, 1e-05)"),
};

static const test_case resizings[] = {
    POOL("Interpolate", "2, 17, 5, 4", "upsample_nearest2d.vec(%x, none, [2.0, 3.0])"),
    POOL("Interpolate", "2, 17, 5, 4", "upsample_nearest2d(%x, [10, 12])"),
    POOL("Interpolate", "2, 17, 5", "upsample_nearest1d.vec(%x, [15], none)"),
    POOL("Interpolate", "2, 16, 5, 4", "upsample_bilinear2d.vec(%x, [7, 9], false, none)"),
    POOL("Interpolate", "2, 17, 5, 4", "upsample_bilinear2d.vec(%x, none, false, [2.0, 2.0])"),
    POOL("Interpolate", "2, 17, 10, 8", "upsample_bilinear2d(%x, [5, 3], false)"),
    POOL("Interpolate", "2, 17, 5", "upsample_linear1d.vec(%x, [12], false, none)"),
    POOL("Interpolate", "1, 3, 4, 5, 6", "upsample_trilinear3d.vec(%x, [7, 5, 9], false, none)"),
    POOL("Interpolate", "2, 17, 5", "upsample_linear1d(%x, [10], false, 2.0)"),
    POOL("Interpolate", "1, 3, 4, 5, 6", "upsample_nearest3d(%x, [8, 5, 12], 2.0, 1.0, 2.0)"),
    POOL("Interpolate", "2, 17, 5, 4", "_upsample_nearest_exact2d(%x, [10, 12])"),
    POOL("Interpolate", "2, 17, 5", "_upsample_nearest_exact1d.vec(%x, none, [3.0])"),
    POOL("Interpolate", "2, 1, 1, 1", "upsample_nearest2d(%x, [10, 12])"),
    POOL("Interpolate", "2, 17, 1, 4", "upsample_nearest2d(%x, [10, 12])"),
    POOL("", "2, 17, 1, 1", "upsample_nearest2d(%x, [10, 12])"),
    POOL("", "2, 17, 1, 1", "upsample_bilinear2d(%x, [5, 3], false)"),
    POOL("", "2, 17, 1", "upsample_linear1d(%x, [5], false)"),
    POOL("", "2, 17, 5", "upsample_linear1d(%x, [10], false, 2.1)"),
    POOL("", "2, 17, 5, 4", "upsample_nearest2d.vec(%x, [7, 8], none)"),
    POOL("", "2, 17, 5, 4", "upsample_bilinear2d.vec(%x, [7, 9], true, none)"),
    POOL("", "2, 17, 5, 4", "upsample_bilinear2d.vec(%x, none, false, [1.5, 1.5])"),
    POOL("", "2, 17, 5, 4", "upsample_bicubic2d.vec(%x, [7, 9], false, none)"),
};

#define ATTENTION(expected, q, k, call)                                                       \
    CT(expected, 2e-5,                                                                        \
       IN("q", "float32[" q "]") IN("k", "float32[" k "]")                                    \
           IN("v", "float32[" k "]") "const %m: float32[1, 1, 9, 9] = random(4)\n"            \
                                     "%y = aten.scaled_dot_product_attention(%q, %k, %v" call \
                                     ")\n" OUT("y"))

static const test_case attentions[] = {
    ATTENTION("MatMul+Multiply+SoftMax+MatMul", "2, 6, 9, 16", "2, 6, 9, 16", ""),
    ATTENTION("MatMul+Multiply+SoftMax+MatMul", "2, 6, 9, 17", "2, 6, 13, 17", ", scale=0.3"),
    ATTENTION("MatMul+Multiply+Add+SoftMax+MatMul", "2, 6, 9, 16", "2, 6, 9, 16", ", %m"),
    ATTENTION("MatMul+Multiply+Add+SoftMax+MatMul", "2, 6, 9, 16", "2, 6, 9, 16",
              ", is_causal=true"),
    ATTENTION("MatMul+Multiply+Add+SoftMax+MatMul", "2, 6, 1, 16", "2, 6, 9, 16",
              ", is_causal=true"),
    /* A mask of three dimensions, and values that are wider than keys: oneDNN 3.7 is wrong. */
    CT("MatMul+Multiply+Add+SoftMax+MatMul", 2e-5,
       IN("q", "float32[2, 6, 9, 16]") IN(
           "k",
           "float32[2, 6, 13, 16]") "const %m: float32[6, 9, 13] = random(4)\n"
                                    "%y = aten.scaled_dot_product_attention(%q, %k, %k, %m)\n" OUT(
                                        "y")),
    C("",
      IN("q", "float32[2, 6, 9, 16]") IN("k", "float32[2, 6, 13, 16]") IN(
          "v",
          "float32[2, 6, 13, 48]") "%y = aten.scaled_dot_product_attention(%q, %k, %v)\n" OUT("y")),
    /* Too few heads for its kernel. */
    ATTENTION("", "1, 2, 9, 16", "1, 2, 9, 16", ""),
    /* A mask that might hide whole rows: they give 0, and NaN in oneDNN. */
    C("", IN("q", "float32[2, 6, 9, 16]")
              IN("m",
                 "bool[9, 9]") "%y = aten.scaled_dot_product_attention(%q, %q, %q, %m)\n" OUT("y")),
    C("", IN("q",
             "float32[2, 6, 2, 16]") "const %m: float32[2, 2] = {0, 0, -inf, -inf}\n"
                                     "%y = aten.scaled_dot_product_attention(%q, %q, %q, %m)\n" OUT(
                                         "y")),
    /* Heads that are views of one projection. */
    CT("MatMul+Multiply+SoftMax+MatMul", 2e-5,
       IN("p",
          "float32[2, 9, 3, 6, 16]") "%t = aten.permute(%p, [2, 0, 3, 1, 4])\n%q, %k, %v = "
                                     "aten.unbind.int(%t)\n"
                                     "%y = aten.scaled_dot_product_attention(%q, %k, %v)\n" OUT(
                                         "y")),
};

static void both_layouts(const test_case *c) {
    test_case changed = *c;
    check_case(&changed, 2, true, true);
    check_case(&changed, 1, false, false);
    changed.channels_last = true;
    check_case(&changed, 2, true, false);
}

START_TEST(computes_pointwise) {
    both_layouts(&pointwise[_i]);
}
END_TEST

START_TEST(computes_products) {
    check_case(&products[_i], 2, true, true);
    check_case(&products[_i], 1, false, false);
}
END_TEST

START_TEST(computes_convolutions) {
    both_layouts(&convolutions[_i]);
}
END_TEST

START_TEST(computes_quantizations) {
    check_case(&quantizations[_i], 2, true, true);
    check_case(&quantizations[_i], 1, false, false);
}
END_TEST

START_TEST(computes_poolings) {
    both_layouts(&poolings[_i]);
}
END_TEST

START_TEST(computes_norms) {
    both_layouts(&norms[_i]);
}
END_TEST

START_TEST(computes_layer_norms) {
    check_case(&layer_norms[_i], 2, true, true);
    check_case(&layer_norms[_i], 1, false, false);
}
END_TEST

START_TEST(computes_reductions) {
    check_case(&reductions[_i], 2, true, true);
    check_case(&reductions[_i], 1, false, false);
}
END_TEST

START_TEST(computes_means) {
    test_case changed = means[_i];
    changed.channels_last = true;
    check_case(&changed, 2, true, true);
}
END_TEST

START_TEST(computes_resizings) {
    both_layouts(&resizings[_i]);
}
END_TEST

START_TEST(computes_attentions) {
    check_case(&attentions[_i], 2, true, true);
    check_case(&attentions[_i], 2, false, false);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("partition_ops");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, computes_pointwise, 0, TN_COUNT(pointwise));
    tcase_add_loop_test(tcase, computes_products, 0, TN_COUNT(products));
    tcase_add_loop_test(tcase, computes_convolutions, 0, TN_COUNT(convolutions));
    tcase_add_loop_test(tcase, computes_quantizations, 0, TN_COUNT(quantizations));
    tcase_add_loop_test(tcase, computes_poolings, 0, TN_COUNT(poolings));
    tcase_add_loop_test(tcase, computes_norms, 0, TN_COUNT(norms));
    tcase_add_loop_test(tcase, computes_layer_norms, 0, TN_COUNT(layer_norms));
    tcase_add_loop_test(tcase, computes_reductions, 0, TN_COUNT(reductions));
    tcase_add_loop_test(tcase, computes_means, 0, TN_COUNT(means));
    tcase_add_loop_test(tcase, computes_resizings, 0, TN_COUNT(resizings));
    tcase_add_loop_test(tcase, computes_attentions, 0, TN_COUNT(attentions));
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
