"""Elementwise operators of one, two and three tensors."""
import torch

NAN, INF = float("nan"), float("inf")
HALVES = (torch.float16, torch.bfloat16)
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)

FLOAT_OPS = """acos acosh asin asinh atan atanh cos cosh erf erfc exp exp2 expm1 log log10 log1p log2 reciprocal
rsqrt sigmoid sin sinh sqrt tan tanh logit sinc""".split()
FLOATING_OPS = "frac gelu silu hardswish hardsigmoid elu leaky_relu softplus mish selu celu".split()
SAME_OPS = "abs neg sign sgn ceil floor round trunc square relu relu6 nan_to_num".split()
SPECIAL = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 1e20, -1e20, 88.0, -104.0, 1e-30, 3e-39]


def unary(g):
    for op in FLOAT_OPS + FLOATING_OPS + SAME_OPS + ["log_sigmoid"]:
        name = "aten." + ("log_sigmoid" if op == "log_sigmoid" else op)
        tolerance = {"rtol": 1e-5} if op in ("sinh", "cosh", "tan", "exp", "exp2", "expm1", "mish") else {}
        if op == "log_sigmoid":
            g.error(name, torch.tensor([1, 2]))
        # reductions of huge arguments differ in the last places
        special = [v for v in SPECIAL if op not in ("sin", "cos", "tan", "sinc") or abs(v) < 1e10 or v != v]
        if op == "gelu":
            special.remove(INF)  # eager's erf of infinity depends on the row's length
        g.case(name, torch.tensor(special), **tolerance)
        g.case(name, g.randn(2, 3, scale=2), **tolerance)
        g.case(name, g.randn(3, 4, scale=2)[:, ::2].t(), **tolerance)
        g.case(name, g.randn(5, dtype=torch.float64), **tolerance)
        for dtype in HALVES:
            g.case(name, g.randn(4, dtype=dtype))
        if op in SAME_OPS:
            g.case(name, torch.tensor([-3, 0, 7]))
            g.case(name, torch.tensor([-128, 5, 127], dtype=torch.int8))
            g.case(name, torch.tensor([0, 5, 250], dtype=torch.uint8))
        elif op in FLOAT_OPS:
            g.case(name, torch.tensor([-1, 0, 1, 3]))
            g.case(name, torch.tensor([True, False]))
        else:
            g.error(name, torch.tensor([1, 2]))
        g.case(name, torch.tensor(0.75) if op > "m" else torch.zeros(0, 3))
    big = g.integers(-9, 9, 3, 7, 61)[:, :, :41]  # rows of a view, and more than one chunk of another dtype
    g.case("aten.relu", big.float())
    g.case("aten.exp", big[0].float())
    g.case("aten.neg", big.bfloat16())
    g.case("aten.abs", big.to(torch.int16))
    for x in (torch.tensor([-3, -2, -1, 1, 2.0]), torch.tensor([1e20, -1e20, NAN])):
        for form in ("none", "tanh"):
            g.case("aten.gelu", x, approximate=form)
            g.case("aten.gelu", x.double(), approximate=form)
    g.error("aten.gelu", torch.ones(2), approximate="other")
    x = torch.tensor([-7.5, -1.0, -0.0, 0.25, 2.5, 30.0, NAN, INF])
    g.case("aten.hardtanh", x, -0.5, 2)
    g.case("aten.hardtanh", x)
    g.case("aten.hardtanh", torch.tensor([-9, 0, 9]), -2, 3)
    g.case("aten.elu", x, 1.5, 2.0, 0.5)
    g.case("aten.celu", x, 2.0)
    g.case("aten.leaky_relu", x, 0.2)
    g.case("aten.softplus", x, 2, 10)
    g.case("aten.threshold", x, 0.5, -3)
    g.case("aten.threshold", torch.tensor([1, 5]), 3, 9)
    g.case("aten.logit", torch.tensor([0.0, 1.0, 2.0, -1.0, 0.3]), 1e-3)
    g.case("aten.nan_to_num", x, 1.5, 7.0, -7.0)
    g.case("aten.nan_to_num", torch.tensor([INF, -INF], dtype=torch.bfloat16))
    g.case("aten.round.decimals", torch.tensor([1.2345, -1.275, 1250.0]), decimals=2)
    g.case("aten.round.decimals", torch.tensor([1.2345, -125.0, 1250.0]), decimals=-2)
    for op in ("isnan", "isinf", "isfinite", "logical_not"):
        g.case("aten." + op, torch.tensor(SPECIAL))
        g.case("aten." + op, torch.tensor([NAN, INF, 0.0], dtype=torch.float64))
        g.case("aten." + op, torch.tensor([NAN, INF, 0.0], dtype=torch.bfloat16))
        g.case("aten." + op, torch.tensor([0, 3]))
        g.case("aten." + op, torch.tensor([True, False]))
    for dtype in INTS:
        g.case("aten.bitwise_not", torch.tensor([0, 1, 100], dtype=dtype))
    g.case("aten.bitwise_not", torch.tensor([True, False]))
    g.error("aten.bitwise_not", torch.tensor([1.0]))
    for op in ("abs", "neg", "relu", "ceil", "round"):
        g.error("aten." + op, torch.tensor([True]))
    g.case("aten.square", torch.tensor([True, False]))
    g.case("aten.sign", torch.tensor([True, False]))
    g.case("aten.prelu", g.randn(2, 3, 4), torch.tensor([0.1, 0.2, 0.3]))
    g.case("aten.prelu", g.randn(2, 3, 4), torch.tensor([0.25]))
    g.case("aten.prelu", g.randn(5), torch.tensor([0.25]))
    g.error("aten.prelu", g.randn(3), torch.tensor([0.1, 0.2, 0.3]))


def binary(g):
    arithmetic = ["add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "maximum", "minimum", "atan2",
                  "remainder.Tensor", "fmod.Tensor", "floor_divide", "true_divide.Tensor", "pow.Tensor_Tensor"]
    for name in arithmetic:
        op = "aten." + name
        power = name.startswith("pow")
        x, y = g.randn(2, 3, 4), g.randn(3, 1, scale=2)
        y[y == 0] = 1
        if power:
            x, y = x.abs(), y
        g.case(op, x, y)
        g.case(op, x.permute(2, 0, 1), x.permute(2, 0, 1) + 1.25)
        g.case(op, x.double(), y.double())
        for dtype in HALVES:
            g.case(op, x[0].to(dtype), y.to(dtype))
        g.case(op, torch.tensor([NAN, 1.0, INF, -INF, 3.0]), torch.tensor([1.0, NAN, 2.0, INF, -2.0]))
        # eager takes Python numbers for tensors in some of the operators only
        wrapped = (lambda v: v) if name.split(".")[0] in ("add", "sub", "mul", "div") else torch.tensor
        g.case(op, x[0], wrapped(1.5))
        g.case(op, x[0].to(torch.bfloat16), torch.tensor(1.25))
        a = torch.tensor([-7, 7, -7, 7, 0, 5])
        b = torch.tensor([3, -3, -3, 3, 4, 1])
        g.case(op, a, b.abs() if power else b)
        g.case(op, a.to(torch.int32), wrapped(3))
        g.case(op, a, wrapped(2.5))
        g.case(op, torch.tensor(2), x[0])  # a 0-d integer among floats
        g.case(op, a.to(torch.int8), b.abs().to(torch.uint8))
        g.case(op, torch.zeros(0, 3), torch.ones(1, 3))
        g.case(op, torch.tensor(2.0), torch.tensor(0.5))
        g.error(op, torch.ones(2), torch.ones(3))
    for alpha in (2, 1):
        g.case("aten.add.Tensor", torch.tensor([1, 2]), torch.tensor([3, 4]), alpha=alpha)
        g.case("aten.sub.Tensor", g.randn(4), g.randn(4), alpha=alpha)
        g.case("aten.rsub.Tensor", g.randn(4), g.randn(4), alpha=alpha)
        g.case("aten.rsub.Scalar", g.randn(4), 2.5, alpha)
        g.case("aten.add.Scalar", g.randn(4), 2.5, alpha)
    g.case("aten.add.Tensor", g.randn(4), g.randn(4), alpha=0.5)
    g.case("aten.add.Tensor", g.randn(4).bfloat16(), torch.tensor([1, 2, 3, 257]), alpha=0.5)
    g.case("aten.add.Tensor", torch.tensor([True, False]), torch.tensor([True, False]))
    g.case("aten.mul.Tensor", torch.tensor([True, False]), torch.tensor([True, True]))
    g.case("aten.mul.Tensor", torch.tensor([True, False]), g.randn(3, 2))
    g.case("aten.mul.Tensor", g.integers(0, 255, 6, dtype=torch.uint8), g.integers(0, 255, 6, dtype=torch.uint8))
    g.error("aten.add.Tensor", torch.tensor([1]), torch.tensor([2]), alpha=1.5)
    g.error("aten.sub.Tensor", torch.tensor([True]), torch.tensor([True]))
    for op in ("sub.Scalar", "mul.Scalar", "div.Scalar", "floor_divide.Scalar", "remainder.Scalar", "fmod.Scalar"):
        g.case("aten." + op, g.randn(5), 1.5)
        g.case("aten." + op, torch.tensor([5, -5]), 3)
    g.case("aten.remainder.Scalar_Tensor", 5, torch.tensor([3, -3]))
    for mode in (None, "trunc", "floor"):
        g.case("aten.div.Tensor_mode", torch.tensor([-7, 7, 8]), torch.tensor([2, -2, 4]), rounding_mode=mode)
        g.case("aten.div.Tensor_mode", torch.tensor([-7.5, 7, 0, 5]), torch.tensor([2.0, -2, 3, 0]),
               rounding_mode=mode)
        g.case("aten.div.Scalar_mode", g.randn(4, dtype=torch.float64), 0.25, rounding_mode=mode)
    g.error("aten.div.Tensor_mode", torch.ones(2), torch.ones(2), rounding_mode="ceil")
    # signs, zero divisors and the smallest integers
    a, b = torch.tensor([-7, 7, -7, 7]), torch.tensor([3, -3, -3, 3])
    for op in ("remainder", "fmod"):
        g.case(f"aten.{op}.Tensor", a, b)
        g.case(f"aten.{op}.Tensor", torch.tensor([-7.5, 7.5]), torch.tensor([2.0, -2.0]))
        g.case(f"aten.{op}.Tensor", torch.tensor([5.0, -5, 0, 5]), torch.tensor([INF, INF, INF, 0.0]))
    for op in ("floor_divide", "remainder.Tensor", "fmod.Tensor"):
        for dtype in INTS:
            g.error("aten." + op, torch.tensor([1, 2], dtype=dtype), torch.tensor([0, 1], dtype=dtype))
        for dtype in (torch.int8, torch.int32, torch.int64):
            if op != "fmod.Tensor":  # eager takes the remainder of the processor there
                g.case("aten." + op, torch.tensor([torch.iinfo(dtype).min], dtype=dtype),
                       torch.tensor([-1], dtype=dtype))
    for mode in ("trunc", "floor"):
        g.error("aten.div.Tensor_mode", torch.tensor([1]), torch.tensor([0]), rounding_mode=mode)
    for exponent in (2, 3, 0.5, -0.5, -1, -2, 1.7, 0, 10):
        g.case("aten.pow.Tensor_Scalar", torch.tensor([0.0, 1.5, 2.25, INF, NAN, 7.0]), exponent)
        g.case("aten.pow.Tensor_Scalar", torch.tensor([0.5, 1.5, 2.25, 7.0], dtype=torch.bfloat16), exponent)
    g.case("aten.pow.Tensor_Scalar", torch.tensor([-3, 2, 0]), 3)
    g.case("aten.pow.Tensor_Scalar", torch.tensor([True, False]), 2)
    g.case("aten.pow.Scalar", 2, torch.tensor([0.0, 3.0, -1.0]))
    g.case("aten.pow.Tensor_Tensor", torch.tensor([2, 0, 1, -1, 3]), torch.tensor([-1, -1, -3, -3, 40]))
    g.error("aten.pow.Tensor_Scalar", torch.tensor([2]), -1)
    g.case("aten.hypot", g.randn(4), g.randn(4))
    g.error("aten.hypot", torch.tensor([1]), torch.tensor([2]))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        x = torch.tensor([1.0, 2.0, NAN, -0.0, INF])
        g.case(f"aten.{name}.Tensor", x, torch.tensor([2.0, 2.0, NAN, 0.0, 1.0]))
        g.case(f"aten.{name}.Scalar", x, 2)
        g.case(f"aten.{name}.Tensor", torch.tensor([1, 2, 3]), torch.tensor([[2], [3]]))
        g.case(f"aten.{name}.Scalar", torch.tensor([0.1, 0.3], dtype=torch.bfloat16), 0.1)
        g.case(f"aten.{name}.Scalar", torch.tensor([1, 100], dtype=torch.int8), 300)
        g.case(f"aten.{name}.Tensor", torch.tensor([True, False]), torch.tensor([True, True]))
        g.case(f"aten.{name}.Tensor", torch.tensor([2**53 + 1]), torch.tensor([2**53]))
        g.case(f"aten.{name}.Tensor", torch.tensor([1, 2]), torch.tensor([1.5, 2.0]))
    for name in ("logical_and", "logical_or", "logical_xor"):
        g.case("aten." + name, torch.tensor([0.0, NAN, 2.0, -0.0]), torch.tensor([1, 0, 2, 0]))
        g.case("aten." + name, g.bools(2, 1, 4), g.bools(3, 1))
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__", "__xor__"):
        g.case(f"aten.{name}.Tensor", torch.tensor([12, -1, 7]), torch.tensor([10, 6, 3], dtype=torch.int8))
        g.case(f"aten.{name}.Tensor", g.bools(2, 3), g.bools(3))
        g.case(f"aten.{name}.Tensor", g.bools(1, 6).expand(5, 6), g.bools(5, 1))
        if name != "__xor__":
            g.case(f"aten.{name}.Scalar", torch.tensor([12, -1]), 6)
            g.case(f"aten.{name}.Scalar", torch.tensor([True]), True)
        g.error(f"aten.{name}.Tensor", torch.tensor([1.0]), torch.tensor([1]))
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        g.case(f"aten.{name}.Tensor", torch.tensor([5, -5, 5, -5]), torch.tensor([1, 2, 64, -1]))
        g.case(f"aten.{name}.Tensor", torch.tensor([5, 200], dtype=torch.uint8), torch.tensor([9, 1], dtype=torch.uint8))
        g.case(f"aten.{name}.Tensor", torch.tensor([-5, 100], dtype=torch.int8), torch.tensor([9, 1], dtype=torch.int8))
    # an SE block's scale, a bias along channels, packed and channels-last
    x = g.integers(-9, 9, 2, 5, 3, 4).float()
    for y in (g.integers(-9, 9, 2, 5, 1, 1).float(), g.randn(5, 1, 1), g.integers(-9, 9, 2, 1, 3, 4).double()):
        g.case("aten.mul.Tensor", x, y)
        g.case("aten.mul.Tensor", x.to(memory_format=torch.channels_last), y)


def others(g):
    """Other names of the above, and rarer ones."""
    a, b = torch.tensor([1.5, -2.0, NAN, 0.0, -0.0]), torch.tensor([-1.0, 2.0, 3.0, NAN, 5.0])
    for name in ("negative", "absolute", "fix", "signbit", "hardshrink", "softshrink"):
        g.case("aten." + name, torch.cat([a, b]))
        g.case("aten." + name, torch.tensor([-INF, 0.25, 7.75], dtype=torch.bfloat16))
    for name in ("negative", "absolute", "fix", "signbit"):
        g.case("aten." + name, torch.tensor([-3, 0, 3]))
    g.case("aten.softshrink", a, 1.25)
    for name in ("multiply", "subtract", "divide", "greater", "greater_equal", "less", "less_equal", "not_equal"):
        g.case(f"aten.{name}.Tensor", a, b)
        g.case(f"aten.{name}.Scalar", a, 2)
        g.case(f"aten.{name}.Tensor", torch.tensor([4, -5]), torch.tensor([[-5], [6]]))
    g.case("aten.subtract.Tensor", a, b, alpha=3)
    g.error("aten.subtract.Tensor", torch.tensor([True]), torch.tensor([True]))
    g.case("aten.divide.Tensor_mode", torch.tensor([-7]), torch.tensor([2]), rounding_mode="floor")
    g.case("aten.divide.Scalar_mode", torch.tensor([-7]), 2, rounding_mode="trunc")
    g.case("aten.true_divide.Scalar", torch.tensor([-7]), 2)
    for name in ("fmax", "fmin", "arctan2", "copysign.Tensor", "xlogy.Tensor", "heaviside"):
        g.case("aten." + name, a, b)
        g.case("aten." + name, a.double(), b.double())
        g.case("aten." + name, torch.tensor([-3, 0, 3]), torch.tensor([2, 7, -2]))
    g.case("aten.copysign.Scalar", a, -1)
    g.case("aten.__xor__.Scalar", torch.tensor([12, -1]), 6)
    for name in ("bitwise_left_shift.Tensor_Scalar", "bitwise_right_shift.Tensor_Scalar", "__lshift__.Scalar",
                 "__rshift__.Scalar"):
        g.case("aten." + name, torch.tensor([12, -1], dtype=torch.int32), 3)
    g.case("aten.__lshift__.Tensor", torch.tensor([12, -1]), torch.tensor([1, 2]))
    g.case("aten.__rshift__.Tensor", torch.tensor([12, -1]), torch.tensor([1, 2]))
    g.case("aten.clip", torch.tensor([0.0, 5, 10]), 2, 6)
    g.case("aten.clip.Tensor", torch.tensor([0.0, 5, 10]), torch.tensor(2.0), torch.tensor(6))


def ternary(g):
    cond = g.bools(2, 1, 4)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, *INTS, torch.bool):
        a, b = g.integers(0, 2 if dtype == torch.bool else 9, 3, 4).to(dtype), g.integers(0, 2, 1, 4).to(dtype)
        g.case("aten.where.self", cond, a, b)
    g.case("aten.where.self", cond, g.randn(4), torch.tensor(3))
    g.case("aten.where.self", cond, torch.tensor(2), torch.tensor(2.5))
    g.case("aten.where.self", cond, torch.tensor([1, 2, 3, 4]), g.randn(1, 4).double())
    g.case("aten.where.self", cond.to(torch.uint8), g.randn(4), g.randn(4))
    g.case("aten.where.self", cond, torch.tensor(-INF), torch.tensor(0.0))
    g.case("aten.where.ScalarSelf", cond, 1, g.randn(4))
    g.case("aten.where.ScalarOther", cond, torch.tensor([1, 2, 3, 4]), 2.5)
    g.case("aten.where.Scalar", cond, 1, 2)
    g.case("aten.where.Scalar", cond, 1.0, 2)
    g.case("aten.where.Scalar", cond, True, False)
    g.error("aten.where.self", torch.tensor([1, 0]), torch.ones(2), torch.ones(2))
    x = torch.tensor([0.0, 5, 10, NAN, INF, -INF])
    for low, high in ((1, 6), (None, 3), (2, None), (6, 3), (NAN, 1.0), (0.0, NAN), (2.5, 7)):
        g.case("aten.clamp", x, low, high)
        g.case("aten.clamp", x.bfloat16(), low, high)
        if low == low and high == high:
            g.case("aten.clamp", torch.tensor([0, 5, 10]), low, high)
    g.case("aten.clamp_min", x, 1.5)
    g.case("aten.clamp_max", x, 1.5)
    g.case("aten.clamp_min", torch.tensor([1, 5]), 2.5)
    g.error("aten.clamp", x, None, None)
    low, high = torch.tensor([6.0, 1, 1, 1, NAN, 0]), torch.tensor([3.0, 2, NAN, 2, 5, 3])
    g.case("aten.clamp.Tensor", x, low, high)
    g.case("aten.clamp.Tensor", x, low)
    g.case("aten.clamp.Tensor", x, None, high)
    g.case("aten.clamp.Tensor", g.integers(-9, 9, 3, 4), torch.tensor([[-2], [0], [1]]), torch.tensor(3))
    g.case("aten.clamp_min.Tensor", x, low)
    g.case("aten.clamp_max.Tensor", x, torch.tensor(2))
    mask = g.bools(3, 1)
    g.case("aten.masked_fill.Scalar", g.randn(3, 4), mask, -INF)
    g.case("aten.masked_fill.Scalar", torch.tensor([1, 2]), torch.tensor([True, False]), 2.5)
    g.case("aten.masked_fill.Scalar", g.randn(4), mask, 1)
    g.case("aten.masked_fill.Tensor", g.randn(3, 4).half(), mask, torch.tensor(7))
    g.error("aten.masked_fill.Scalar", torch.tensor([1, 2]), torch.tensor([1, 0]), 2)
    a, b, c = g.randn(3, 4), g.randn(4), g.uniform(0.5, 2, 3, 1)
    for op in ("addcmul", "addcdiv"):
        g.case("aten." + op, a, b, c)
        g.case("aten." + op, a.double(), b.double(), c.double(), value=-0.5)
        g.case("aten." + op, a.bfloat16(), b.bfloat16(), c.bfloat16(), value=2, atol=0.02)
    g.case("aten.addcmul", torch.tensor([1, 2]), torch.tensor([3, 4]), torch.tensor([5]), value=2)
    g.error("aten.addcdiv", torch.tensor([1]), torch.tensor([2]), torch.tensor([3]))
    for weight in (0.0, 0.25, 0.75, 1.0):
        g.case("aten.lerp.Scalar", a, b, weight)
    g.case("aten.lerp.Tensor", a, b, c)
    g.case("aten.lerp.Scalar", a.half(), b.half(), 0.3)
    g.error("aten.lerp.Scalar", torch.tensor([1.0]), torch.tensor([2]), 0.5)


def cases(g):
    unary(g)
    binary(g)
    ternary(g)
    others(g)
