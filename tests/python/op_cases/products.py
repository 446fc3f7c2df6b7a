"""Matrix products and distances."""
import torch

NAN, INF = float("nan"), float("inf")
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)


def values(g, dtype, *shape):
    if dtype.is_floating_point:
        return g.integers(-8, 9, *shape).to(dtype) / 4
    return g.integers(0, 7, *shape).to(dtype)


def matrices(g):
    for dtype in FLOATS + INTS:
        a, b = values(g, dtype, 3, 5), values(g, dtype, 5, 4)
        g.case("aten.mm", a, b)
        g.case("aten.mm", values(g, dtype, 5, 3).t(), values(g, dtype, 4, 5).t())
        g.case("aten.mm", values(g, dtype, 1, 9), values(g, dtype, 9, 6))
        g.case("aten.mm", values(g, dtype, 6, 9), values(g, dtype, 9, 1))
        g.case("aten.mm", values(g, dtype, 2, 0), values(g, dtype, 0, 3))
        g.case("aten.addmm", values(g, dtype, 4), a, b)
        g.case("aten.addmm", values(g, dtype, 3, 1), a, b, beta=2, alpha=3)
        g.case("aten.addmm", values(g, dtype, 1), values(g, dtype, 3, 0), values(g, dtype, 0, 4), beta=2)
        g.case("aten.mv", a, values(g, dtype, 5))
        g.case("aten.addmv", values(g, dtype, 3), a, values(g, dtype, 5), beta=2, alpha=2)
        g.case("aten.dot", values(g, dtype, 7), values(g, dtype, 14)[::2])
        x, y = values(g, dtype, 2, 3, 4), values(g, dtype, 2, 4, 2)
        g.case("aten.bmm", x, y)
        g.case("aten.bmm", x.transpose(1, 2), x)
        g.case("aten.bmm", x, y[:1].expand(2, 4, 2))
        g.case("aten.baddbmm", values(g, dtype, 1, 2), x, y, beta=2, alpha=2)
        g.case("aten.baddbmm", values(g, dtype, 2, 3, 2), x, y)
    for dtype in FLOATS:
        a, b = values(g, dtype, 3, 5), values(g, dtype, 5, 4)
        g.case("aten.addmm", torch.full((4,), NAN, dtype=dtype), a, b, beta=0)
        g.case("aten.baddbmm", torch.full((1,), INF, dtype=dtype), a[None], b[None], beta=0, alpha=0.5)
        g.case("aten.linear", values(g, dtype, 2, 3, 5), values(g, dtype, 4, 5), values(g, dtype, 4))
        g.case("aten.linear", values(g, dtype, 3, 2, 5).transpose(0, 1), values(g, dtype, 4, 5))
        g.case("aten.linear", values(g, dtype, 5), values(g, dtype, 4, 5), values(g, dtype, 4))
        g.case("aten.linear", values(g, dtype, 2, 5), values(g, dtype, 5))
    g.case("aten.linear", values(g, torch.float32, 0, 5), values(g, torch.float32, 4, 5))
    g.case("aten.mm", torch.ones(1, 1024, dtype=torch.bfloat16), torch.ones(1024, 1, dtype=torch.bfloat16))
    g.case("aten.mm", torch.tensor([[NAN, 1.0]]), torch.tensor([[0.0], [INF]]))
    g.case("aten.mm", values(g, torch.float32, 7, 33), values(g, torch.float32, 33, 35))
    a = values(g, torch.float32, 2, 3)
    g.error("aten.mm", a, a)
    g.error("aten.mm", a, values(g, torch.float64, 3, 2))
    g.error("aten.mm", a.bool(), a.t().bool())
    g.error("aten.mm", a, a[0])
    g.error("aten.addmm", values(g, torch.float32, 3), a, a.t())
    g.error("aten.bmm", a[None], a.t().expand(2, 3, 2))
    g.error("aten.dot", a[0], a[0, :2])
    g.error("aten.linear", a, values(g, torch.float32, 2, 4))


def distances(g):
    for dtype in (torch.float32, torch.float64):
        x, y = values(g, dtype, 2, 3, 5), values(g, dtype, 2, 4, 5)
        for p in (0.0, 0.5, 1.0, 2.0, 3.0, INF):
            g.case("aten._cdist_forward", x, y, p, 2)
    g.case("aten._cdist_forward", values(g, torch.float32, 3, 0), values(g, torch.float32, 2, 0), 2.0, 2)
    for dtype in (torch.float32, torch.float64):
        for p in (0.0, 0.5, 1.0, 2.0, 3.0, INF):
            g.case("aten._pdist_forward", values(g, dtype, 5, 3), p)
    for rows in (0, 1, 2):
        g.case("aten._pdist_forward", values(g, torch.float32, rows, 3))


def cases(g):
    matrices(g)
    distances(g)
