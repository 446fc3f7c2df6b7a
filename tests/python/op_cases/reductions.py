"""Reductions and scans."""
import torch

NAN, INF = float("nan"), float("inf")
HALVES = (torch.float16, torch.bfloat16)
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


def layouts(g, dtype=torch.float32):
    """One tensor of few digits in several layouts."""
    x = g.integers(-9, 10, 2, 3, 4).to(dtype) / 2
    return x.permute(2, 0, 1), x[:, :1].expand(2, 3, 4)


def sums(g):
    for op in ("sum", "mean", "prod"):
        dims = "prod.dim_int" if op == "prod" else op + (".dim_IntList" if op == "sum" else ".dim")
        for x in layouts(g):
            g.case("aten." + op, x)
            for dim in range(-1, 2):
                g.case("aten." + dims, x, dim if op == "prod" else [dim], dim == 0)
        for dtype in HALVES + (torch.float64,):
            x = g.randn(3, 5, dtype=dtype)
            g.case("aten." + op, x)
            g.case("aten." + dims, x, 0 if op == "prod" else [0])
        g.case("aten." + op, torch.tensor(3.0))
        g.case("aten." + dims, torch.tensor(3.0), 0 if op == "prod" else [0])
        g.case("aten." + op, torch.zeros(0))
        g.case("aten." + dims, torch.zeros(2, 0), 1 if op == "prod" else [1])
        g.case("aten." + dims, torch.zeros(2, 0), 0 if op == "prod" else [0])
        g.case("aten." + op, torch.tensor([1.0, NAN, 2.0]))
        g.case("aten." + op, torch.tensor([INF, 1.0]))
        for dtype in INTS + (torch.bool,):
            x = g.integers(0, 2 if dtype == torch.bool else 7, 2, 5).to(dtype)
            if op == "mean":
                g.error("aten." + op, x)
                g.case("aten." + op, x, dtype=torch.float32)
                g.case("aten." + dims, x, [1], dtype=torch.float64)
            else:
                g.case("aten." + op, x)
                g.case("aten." + dims, x, 0 if op == "prod" else [0])
                g.case("aten." + op, x, dtype=torch.float32)
                g.case("aten." + op, x, dtype=torch.int32)
    for op in ("sum.dim_IntList", "mean.dim"):
        x = g.integers(-9, 10, 2, 3, 2, 4).float()
        for dim in ([], None, [0, 2], [1, 3], [-1, -2], [2, 0, 1, 3]):
            g.case("aten." + op, x, dim, dim != [])
        for view in (x, x.contiguous(memory_format=torch.channels_last), x.permute(3, 1, 0, 2)):
            for dim in ([2, 3], [1], [0, 2, 3]):
                g.case("aten." + op, view, dim)
        g.error("aten." + op, x, [0, 0])
        g.error("aten." + op, x, [1, -3])
        g.error("aten." + op, x, [4])
        g.error("aten." + op, x, [-5])
        g.case("aten." + op, x, [1], dtype=torch.float64)
    # The narrow types must not be summed in themselves.
    g.case("aten.sum", torch.full((3,), 100, dtype=torch.int8))
    g.case("aten.sum", torch.ones(512, dtype=torch.bfloat16))
    g.case("aten.sum", torch.ones(4096, dtype=torch.float16))
    g.case("aten.mean", torch.ones(4096, dtype=torch.bfloat16))
    g.case("aten.mean.dim", torch.ones(2, 4096, dtype=torch.bfloat16), [1])
    g.case("aten.mean.dim", torch.ones(4096, 3, dtype=torch.bfloat16), [0])
    g.case("aten.sum", torch.tensor([1.5, 2.5, -1.5]), dtype=torch.int64)
    g.case("aten.sum", torch.tensor([2**62, 2**62, 2**62]))
    # Long rows and columns, several blocks and threads.
    row = g.integers(0, 9, 1, 700)
    for x in (row.float().expand(90, 700), row.expand(60, 700), g.integers(0, 9, 600, 1).half().expand(600, 70)):
        g.case("aten.sum.dim_IntList", x, [1])
        g.case("aten.amax", x, [0, 1])
        if x.shape[1] == 70:
            g.case("aten.sum.dim_IntList", x, [0], rtol=2e-3)


def extremes(g):
    for op in ("amax", "amin"):
        short = op[1:]
        for x in layouts(g):
            g.case("aten." + op, x, [0, 2], True)
            g.case("aten." + short, x)
            for dim in range(3):
                g.case("aten." + op, x, [dim])
                g.case(f"aten.{short}.dim", x, dim - 3, dim == 1)
        for dtype in HALVES + INTS + (torch.bool, torch.float64):
            x = g.randn(3, 4, dtype=dtype) if dtype.is_floating_point else g.integers(0, 5, 3, 4).to(dtype)
            g.case("aten." + op, x)
            g.case("aten." + op, x, [0])
            g.case("aten." + short, x)
            g.case(f"aten.{short}.dim", x, 1)
            g.case(f"aten.{short}.dim", x.t(), 1)
            if dtype != torch.bool:
                g.case("aten.arg" + short, x, 0)
        nans = torch.tensor([[1.0, NAN, 3.0, NAN], [INF, -INF, 0.0, -0.0], [2.0, 2.0, 1.0, 1.0]])
        for x in (nans, nans.t()):
            g.case("aten." + short, x)
            for dim in (0, 1):
                g.case("aten." + op, x, [dim])
                g.case(f"aten.{short}.dim", x, dim)
                g.case("aten.arg" + short, x, dim)
        g.case("aten.arg" + short, nans)
        g.case("aten.arg" + short, nans, None, True)
        g.case("aten.arg" + short, nans[2])
        g.case("aten.arg" + short, g.randn(3, 4).t())
        g.case("aten.arg" + short, g.randn(3, 4, 5), 1, True)
        g.case("aten.arg" + short, torch.tensor(3.0))
        g.case("aten.arg" + short, torch.tensor(3.0), 0)
        g.case(f"aten.{short}", torch.tensor(3.0))
        g.case(f"aten.{short}.dim", torch.tensor(3.0), 0)
        g.case("aten." + op, torch.tensor(3.0), [0])
        g.case("aten." + op, torch.tensor([-INF, -INF]) * (1 if op == "amax" else -1))
        g.case(f"aten.{short}.dim", torch.full((3, 2), -INF), 0)
        g.case("aten." + op, torch.zeros(0, 3), [1])
        g.case(f"aten.{short}.dim", torch.zeros(3, 0), 0)
        g.case("aten.arg" + short, torch.zeros(0, 3), 1)
        for x, dim in ((torch.zeros(0, 3), []), (torch.zeros(0, 3), [0]), (torch.zeros(3, 0), [1])):
            g.error("aten." + op, x, dim)
        g.error("aten." + short, torch.zeros(0))
        g.error(f"aten.{short}.dim", torch.zeros(3, 0), 1)
        g.error("aten.arg" + short, torch.zeros(0))
        g.error("aten.arg" + short, torch.zeros(3, 0), 1)
        g.error("aten.arg" + short, torch.zeros(3), 1)
        long = torch.arange(560) * 79 % 97
        g.case("aten.arg" + short, long.float())
        g.case("aten.arg" + short, long)
        g.case(f"aten.{short}.dim", long.float().reshape(112, 5), 0)
        g.case("aten." + short, torch.tensor([2**62 + 1, 2**62, -(2**62)]))
        g.case("aten.arg" + short, torch.tensor([2**62, 2**62 + 1, -(2**62) - 1, -(2**62)]))


def truths(g):
    for op in ("any", "all"):
        for x in (g.bools(2, 3), g.bools(3, 2).t(), torch.tensor([[0.0, NAN], [1.0, 0.0]]), torch.ones(2, 2).half(),
                  g.integers(0, 2, 2, 3).to(torch.uint8), g.integers(0, 2, 3, 2), torch.zeros(2, 3).bfloat16()):
            g.case("aten." + op, x)
            g.case(f"aten.{op}.dim", x, 0)
            g.case(f"aten.{op}.dim", x, -1, True)
            g.case(f"aten.{op}.dims", x, [0, 1])
            g.case(f"aten.{op}.dims", x, [])
            g.case(f"aten.{op}.dims", x)
        g.case("aten." + op, torch.tensor(True))
        g.case(f"aten.{op}.dim", torch.tensor(False), 0)
        g.case("aten." + op, torch.zeros(0))
        g.case(f"aten.{op}.dim", torch.zeros(0, 2), 0)
        g.case(f"aten.{op}.dim", torch.zeros(0, 2), 1)
        g.case(f"aten.{op}.dim", torch.ones(4, 600), 1)
    for x in (g.bools(3, 4), g.integers(0, 2, 3, 4), torch.tensor([[1.0, 0.0], [NAN, -0.0]])):
        for dim in ([], [0], [1], [0, 1]):
            g.case("aten.count_nonzero.dim_IntList", x, dim)
        g.case("aten.count_nonzero", x)
        g.case("aten.count_nonzero", x, -1)
    g.case("aten.max.other", torch.tensor([1.0, NAN, -2.0]), torch.tensor([[0.5], [NAN]]))
    g.case("aten.min.other", torch.tensor([1, 5]), torch.tensor(2))


def spread(g):
    for x in layouts(g) + (g.randn(3, 4, dtype=torch.float64),):
        for dim, correction in ((None, None), ([0], 0), ([0, 1], 2)):
            g.case("aten.var.correction", x, dim, correction=correction)
            g.case("aten.std.correction", x, dim, correction=0, keepdim=True)
            g.case("aten.var_mean.correction", x, dim, correction=1)
            g.case("aten.var.dim", x, dim, False)
            g.case("aten.std.dim", x, dim, True, True)
        for op in ("var", "std", "var_mean", "std_mean"):
            g.case("aten." + op, x)
            g.case("aten." + op, x, False)
        g.case("aten.var_mean.dim", x, [1])
        g.case("aten.std_mean.dim", x, [0], False, True)
    for dtype in HALVES:
        g.case("aten.var_mean.correction", g.randn(4, 6, dtype=dtype), [1], correction=0)
        g.case("aten.std.correction", g.randn(4, 6, dtype=dtype), [0])
    g.case("aten.var", torch.tensor(1.0))
    g.case("aten.var", torch.tensor([1.0]))
    g.case("aten.var.correction", torch.tensor([1.0, 2.0]), correction=3)
    g.case("aten.var.correction", torch.zeros(0, 2), [0])
    g.case("aten.var.correction", torch.ones(2, 3), [])
    g.case("aten.var", torch.tensor([1e4, 1e4 + 1, 1e4 + 2]))
    g.case("aten.var_mean.correction", g.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last), [0, 2, 3],
           correction=0, keepdim=True)
    g.error("aten.var", torch.tensor([1, 2]))
    g.error("aten.std.correction", torch.tensor([True]))


def logs_and_norms(g):
    for x in layouts(g):
        for dim in ([0], [1], [0, 2]):
            g.case("aten.logsumexp", x, dim, dim == [1])
    g.case("aten.logsumexp", torch.tensor([1, 2]), [0])
    for values in ([-INF, -INF], [INF, 1.0], [NAN, 1.0], [1e4, 1e4], [-1e4, 0.0]):
        g.case("aten.logsumexp", torch.tensor(values), [0])
    g.case("aten.logsumexp", torch.zeros(0, 2), [0])
    g.case("aten.logsumexp", g.randn(3, 4, dtype=torch.bfloat16), [1])
    x = torch.tensor([[1.0, -2.0, 0.0], [3.0, -0.5, 2.5]])
    for p in (0, 1, 2, 3, 0.5, -1, INF, -INF):
        for view in (x, x.t()):
            g.case("aten.linalg_vector_norm", view, p)
            g.case("aten.linalg_vector_norm", view, p, [0])
            g.case("aten.linalg_vector_norm", view, p, [1], True)
        g.case("aten.norm.ScalarOpt_dim", x, p, [1], True)
        g.case("aten.norm.ScalarOpt_dim", x, p, [0, 1])
    g.case("aten.linalg_vector_norm", x, 2, [])
    g.case("aten.linalg_vector_norm", x.half(), 2, [0])
    g.case("aten.linalg_vector_norm", x, 2, None, False, dtype=torch.float64)
    g.case("aten.linalg_vector_norm", torch.tensor([NAN, 1.0]), INF)
    g.case("aten.linalg_vector_norm", torch.zeros(0), 2)
    g.case("aten.norm.ScalarOpt_dim", x, None, [0])
    g.case("aten.norm.ScalarOpt_dim", x.bfloat16(), 2, [1])
    g.error("aten.linalg_vector_norm", torch.zeros(0), INF)
    g.error("aten.linalg_vector_norm", torch.zeros(2, 0), -1, [1])
    g.error("aten.linalg_vector_norm", torch.ones(2, dtype=torch.int64), 2)
    g.error("aten.norm.ScalarOpt_dim", torch.ones(2, dtype=torch.int64), 2, [0])


def scans(g):
    for op in ("cumsum", "cumprod"):
        for x in layouts(g):
            for dim in (0, 1, -1):
                g.case("aten." + op, x[:, :2], dim)
        for dtype in HALVES + INTS + (torch.bool, torch.float64):
            x = g.randn(3, 4, dtype=dtype) if dtype.is_floating_point else g.integers(0, 3, 3, 4).to(dtype)
            g.case("aten." + op, x, 0)
            g.case("aten." + op, x, 1)
        g.case("aten." + op, torch.tensor(3), 0)
        g.case("aten." + op, torch.zeros(0, 2), 0)
        g.case("aten." + op, torch.tensor([1.5, 2.5]), 0, dtype=torch.int64)
        g.case("aten." + op, torch.tensor([1, 2, 3]), 0, dtype=torch.float32)
        g.case("aten." + op, torch.tensor([1.0, NAN, 2.0]), 0)
        g.error("aten." + op, torch.zeros(2), 1)
    g.case("aten.cumsum", torch.tensor([200, 100, 50], dtype=torch.uint8), 0)
    g.case("aten.cumsum", torch.tensor([True, True, False]), 0)
    g.case("aten.cumsum", torch.ones(520), 0)
    g.case("aten.cumsum", torch.ones(520, 1, dtype=torch.int32), 0)


def cases(g):
    sums(g)
    extremes(g)
    truths(g)
    spread(g)
    logs_and_norms(g)
    scans(g)
