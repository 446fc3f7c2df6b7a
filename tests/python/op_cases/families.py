"""Special functions, numbers of integers, scans with places, modes, histograms, and second names."""
import torch

NAN, INF = float("nan"), float("inf")
HALVES = (torch.float16, torch.bfloat16)
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


def special(g):
    for op in ("lgamma", "digamma", "erfinv", "special_entr", "special_ndtr", "deg2rad", "rad2deg"):
        low, high = (-0.99, 0.99) if op == "erfinv" else (-6, 6)
        for dtype in (torch.float32, torch.float64, *HALVES):
            if op == "special_ndtr" and dtype in HALVES:
                low = -0.5  # PyTorch's tail has few digits there
            x = g.uniform(low, high, 12, dtype=torch.float64) + 0.001953125
            g.case("aten." + op, x.to(dtype), rtol=2e-5 if dtype == torch.float32 else 3e-3 if dtype == torch.float16 else None)
        g.case("aten." + op, torch.tensor([NAN, 0.0, -0.0, 1.0, -1.0, INF]))
        g.case("aten." + op, torch.tensor([NAN, 0.0, -0.0, 1.0, -1.0, INF], dtype=torch.float64))
        g.case("aten." + op, torch.tensor([0, 1]))
        g.case("aten." + op, torch.tensor([True, False]))
    g.case("aten.erfinv", torch.tensor([0.999999, -0.9999999, 1e-10, 2.0, 0.5, -0.5]), rtol=1e-4)
    g.case("aten.erfinv", torch.tensor([1 - 1e-11, -1 + 1e-9, 1e-300, 2.0, 0.5], dtype=torch.float64))
    g.case("aten.digamma", torch.tensor([1e-3, 50.0, 1e6, -1e-3, -2.5, -3.0]), rtol=2e-6)
    g.case("aten.lgamma", torch.tensor([100.0, 0.5, -0.5, -3.0, 1e10]), rtol=2e-6)


def pairs(g):
    x = torch.tensor([0.0, 1.0, -1.0, 2.5, NAN, 0.0])
    y = torch.tensor([0.5, 0.25, 3.0, -0.5, 1.0, NAN])
    g.case("aten.special_xlog1py", x, y)
    g.case("aten.special_xlog1py.self_scalar", 2, y)
    g.case("aten.special_xlog1py.other_scalar", x, 0.5)
    g.case("aten.xlogy.Scalar_Self", 2, y.abs())
    g.case("aten.xlogy.Scalar_Other", x, 3)
    g.case("aten.nextafter", x, y, rtol=0, atol=0)
    g.case("aten.nextafter", torch.zeros(2).double(), torch.tensor([1.0, -1.0]).double(), rtol=0, atol=0)
    g.case("aten.nextafter", x.double(), y.double())
    g.error("aten.nextafter", torch.tensor([1]), torch.tensor([2]))
    for dtype in INTS:
        low = 0 if dtype == torch.uint8 else -12
        a, b = g.integers(low, 13, 3, 4, dtype=dtype), g.integers(low, 13, 4, dtype=dtype)
        g.case("aten.gcd", a, b)
        g.case("aten.lcm", (a % 5).to(dtype), (b % 7).to(dtype))
    g.case("aten.gcd", torch.tensor([0, 12, -8]), torch.tensor([[0], [18]]))
    g.case("aten.lcm", torch.tensor([0, 12, -8]), torch.tensor([[0], [18]], dtype=torch.int32))
    g.error("aten.gcd", x, y)
    for op in ("and", "or", "xor", "left_shift", "right_shift"):
        g.case(f"aten.bitwise_{op}.Scalar_Tensor", 13, torch.tensor([0, 1, 3, 6]))
        g.case(f"aten.bitwise_{op}.Scalar_Tensor", 13, torch.tensor([0, 1, 3, 6], dtype=torch.int8))


def scans(g):
    x = torch.tensor([[1.0, 3.0, 3.0, 2.0], [NAN, 1.0, 5.0, 5.0], [2.0, INF, NAN, INF], [-0.0, 0.0, -INF, 1.0]])
    for op in ("cummax", "cummin"):
        for y in (x, x.double(), x.bfloat16(), x.t(), g.integers(0, 5, 2, 7), g.integers(0, 5, 9, dtype=torch.uint8), g.bools(6), torch.tensor(3.0), torch.zeros(0, 3)):
            g.case("aten." + op, y, 0)
            g.case("aten." + op, y, -1)
        g.error("aten." + op, x, 2)
    for y in (x, x.double(), x.bfloat16(), g.randn(3, 20, scale=4), torch.full((4,), -INF), torch.tensor([INF, INF, -INF]), torch.tensor(2.0)):
        g.case("aten.logcumsumexp", y, 0)
        g.case("aten.logcumsumexp", y, -1)


def counts(g):
    for y in (g.integers(0, 4, 3, 7), g.integers(0, 3, 4, 5).float(), torch.tensor(2.0), torch.tensor([NAN, 1.0, NAN]), g.bools(5)):
        g.case("aten.mode", y)
        g.case("aten.mode", y, 0, True)
    for dtype in (torch.float32, torch.float64):
        y = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 2.0, 3.0, 9.0, -1.0], dtype=dtype)
        g.case("aten.histc", y, 4)
        g.case("aten.histc", y, 4, 0, 2)
        g.case("aten.histc", y.reshape(3, 3), 3, -1.5, 10)
        g.case("aten.histc", torch.ones(3, dtype=dtype), 5)
        g.case("aten.histc", torch.zeros(0, dtype=dtype), 2)
    g.case("aten.histc", torch.tensor([1.0, NAN, 2.0]), 2, 0, 4)
    g.error("aten.histc", torch.tensor([1.0, INF]), 2)
    g.error("aten.histc", torch.ones(3), 0)
    g.case("aten.bucketize.Scalar", 2.5, torch.tensor([1.0, 2.0, 3.0]))


def second_names(g):
    x = g.uniform(1, 3, 2, 3)
    for op in ("arccosh", "arcsinh", "arctan", "special_erf", "special_erfc", "special_exp2", "special_expit", "special_expm1", "special_log1p",
               "special_sinc", "special_gammaln", "special_digamma", "special_psi", "special_round"):
        g.case("aten." + op, x, rtol=1e-5)
    for op in ("arccos", "arcsin", "arctanh", "special_erfinv", "special_logit"):
        g.case("aten." + op, x / 4, rtol=1e-5)
    g.case("aten.special_softmax", x, 1)
    g.case("aten.special_log_softmax", x, 1)
    g.case("aten.special_logsumexp", x, [1])
    g.case("aten.special_xlogy", x, x)
    g.case("aten.special_xlogy.other_scalar", x, 2)
    g.case("aten.concat", [x, x], 1)
    g.case("aten.concatenate", [x, x])
    g.case("aten.row_stack", [x, x[0]])
    g.case("aten.moveaxis.int", x, 0, 1)
    g.case("aten.swapdims", x, 0, 1)
    g.case("aten.ger", x[0], x[1])
    g.case("aten.adjoint", x)
    g.case("aten.cdist", x, x[:1])
    g.case("aten.pdist", x)
    g.case("aten.native_channel_shuffle", g.randn(1, 4, 2), 2)


def cases(g):
    special(g)
    pairs(g)
    scans(g)
    counts(g)
    second_names(g)
