"""Indexing by tensors, scatters, searches."""
import torch

NAN, INF = float("nan"), float("inf")
DTYPES = (torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bfloat16, torch.float16, torch.float64)


def counted(*shape, dtype=torch.float32):
    n = 1
    for size in shape:
        n *= size
    return torch.arange(n).reshape(shape).to(dtype)


def index(*values):
    return torch.tensor(values)


def selects(g):
    w = counted(5, 3)
    for weight in (w, w.flip(0).contiguous().t().contiguous().t(), w[:, :1].expand(5, 3)):
        g.case("aten.embedding", weight, index(4, 0, 2))
        g.case("aten.embedding", weight, torch.tensor([[1, 1], [3, 0]], dtype=torch.int32))
    g.case("aten.embedding", w, torch.tensor(2))
    g.case("aten.embedding", w, torch.zeros(0, dtype=torch.int64))
    g.case("aten.embedding", w.bfloat16(), index(1, 2), 1)
    g.case("aten.embedding", torch.ones(3, 600), torch.zeros(70, dtype=torch.int64))
    g.error("aten.embedding", w, index(5))
    g.error("aten.embedding", w, index(0, -1))
    g.error("aten.embedding", w, torch.tensor([1.0]))
    x = counted(2, 3, 4)
    for view in (x, x.permute(2, 0, 1), x[:, ::2], x[:1].expand(3, 3, 4)):
        for dim in (0, 1, -1):
            g.case("aten.index_select", view, dim, index(1, 0, 1))
    for dtype in DTYPES:
        g.case("aten.index_select", counted(3, 2, dtype=dtype), 0, torch.tensor([2, 0], dtype=torch.int32))
    g.case("aten.index_select", x, 1, torch.tensor(2))
    g.case("aten.index_select", torch.tensor(3.0), 0, index(0))
    g.case("aten.index_select", x, 2, torch.zeros(0, dtype=torch.int64))
    g.error("aten.index_select", x, 0, index(-1))
    g.error("aten.index_select", x, 0, index(2))
    g.error("aten.index_select", x, 3, index(0))


def gathers(g):
    x = counted(3, 4)
    i = g.integers(0, 3, 2, 4)
    for view in (x, counted(4, 3).t(), x[:, :1].expand(3, 4)):
        for ind in (i, g.integers(0, 3, 4, 2).t(), i.int()):
            g.case("aten.gather", view, 0, ind)
            g.case("aten.gather", view, 1, ind[:, ::2])
    for dtype in DTYPES:
        g.case("aten.gather", counted(2, 3, dtype=dtype), -1, index([2, 0, 0, 1], [1, 1, 1, 2]))
    g.case("aten.gather", counted(2, 3, 4), 1, g.integers(0, 3, 2, 2, 3))
    g.case("aten.gather", torch.tensor(3.0), 0, torch.tensor(0))
    g.case("aten.gather", torch.tensor(3.0), 0, index(0, 0))
    g.case("aten.gather", x, 0, torch.zeros(0, 4, dtype=torch.int64))
    g.case("aten.take_along_dim", x, g.integers(0, 3, 1, 4), 0)
    g.case("aten.take_along_dim", x, g.integers(0, 4, 1, 2), 1)
    g.case("aten.take_along_dim", x, index([11, 0], [5, 1]))
    g.case("aten.take_along_dim", counted(1, 4), g.integers(0, 4, 3, 2), -1)
    for bad in (index([-1, 0, 0, 0]), index([3, 0, 0, 0])):
        g.error("aten.gather", x, 0, bad)
        g.case("aten.take_along_dim", x, bad, 0)
    g.error("aten.take_along_dim", x, index(-1))
    g.error("aten.gather", x, 0, index(0))
    g.error("aten.gather", x, 0, g.integers(0, 3, 2, 5))
    g.error("aten.gather", x, 2, i)


def by_lists(g):
    x = counted(3, 4, 5)
    a, b = index(2, 0), index(-1, 1)
    lists = ([a], [None, a], [None, None, b], [a, b], [a, None, b], [None, a, b], [a, b, a], [None, a, None],
             [index([0], [1]), b], [index([0], [1]), None, b], [torch.tensor(1), b], [torch.tensor(1)],
             [None, torch.tensor(-4), torch.tensor(2)], [a.int()], [torch.zeros(0, dtype=torch.int64)],
             [None, index([0, 3], [1, 2])], [torch.tensor([True, False, True])],
             [torch.tensor([True, False, True]), b], [None, torch.tensor([False, True, True, False]), b],
             [None, torch.arange(20).reshape(4, 5) % 3 == 0], [torch.arange(12).reshape(3, 4) % 5 == 1],
             [torch.zeros(3, dtype=torch.bool)])
    for view in (x, x.permute(2, 1, 0).contiguous().permute(2, 1, 0)):
        for indices in lists:
            g.case("aten.index.Tensor", view, indices)
    g.case("aten._unsafe_index.Tensor", x, [a, None, b])
    g.case("aten._unsafe_index_put", x, [a, b], torch.tensor(-1.0))
    g.case("aten.index.Tensor", x[:, :1].expand(3, 4, 5), [a, None, b])
    for dtype in DTYPES:
        g.case("aten.index.Tensor", counted(3, 2, dtype=dtype), [a])
        g.case("aten.index.Tensor", counted(3, 2, dtype=dtype), [None, b])
    g.case("aten.index.Tensor", x, [g.bools(3, 4, 5)])
    g.case("aten.index.Tensor", x, [torch.tensor([1, 0, 1], dtype=torch.uint8)])
    for bad in ([None], [index(3)], [index(-4)], [None, index(4)], [index(0), index(0, 1, 2), index(0, 1)], [a, a, a, a],
                [torch.tensor([True, False])], [torch.tensor([1.0])]):
        g.error("aten.index.Tensor", x, bad)
    x = counted(3, 4)
    for indices, values in (([a], torch.tensor(-1.0)), ([a], torch.tensor([-1.0, -2, -3, -4])),
                            ([a], -counted(2, 4)), ([None, b], -counted(3, 2)), ([a, b], torch.tensor([-1.0, -2])),
                            ([index(1, 1, 1)], -counted(3, 4)), ([None, b], torch.tensor([[-5.0]])),
                            ([torch.tensor([True, False, True])], torch.tensor(-1.0)),
                            ([x % 3 == 0], torch.tensor(-7.0)), ([x % 3 == 0], -counted(4)),
                            ([None, torch.tensor([True, False, True, False])], -counted(3, 2)),
                            ([x < 0], torch.tensor(1.0)), ([index([0], [2]), index(0, 3)], -counted(2, 2))):
        for accumulate in (False, True):
            if accumulate or indices[0] is None or indices[0].tolist() != [1, 1, 1]:
                g.case("aten.index_put", x, indices, values, accumulate)
    g.case("aten.index_put", x.t(), [b, a], torch.tensor(-1.0))
    g.case("aten.index_put", counted(2, 3, 4), [None, a, index(0, 3)], -counted(2, 2))
    g.case("aten.index_put", counted(2, 3, 4), [index(1, 0), None, index(0, 3)], -counted(2, 3))
    for dtype in DTYPES:
        g.case("aten.index_put", counted(3, 2, dtype=dtype), [index(1, 1, 2)], torch.ones(2, dtype=dtype), True)
    for indices, values in (([index(3)], torch.tensor(1.0)), ([a], torch.ones(3)), ([a], torch.tensor(1)),
                            ([a], torch.ones(2, 2, 4))):
        g.error("aten.index_put", x, indices, values)


def by_dimension(g):
    x = counted(3, 4)
    i, s = index(2, 0, 2), -counted(3, 3)
    g.case("aten.index_add", x, 1, i, s)
    g.case("aten.index_add", x, 1, i, s.t(), alpha=3)
    g.case("aten.index_add", x, 1, i, s, alpha=0.5)
    g.case("aten.index_add", x.t(), -2, i, s.t(), alpha=-1)
    g.case("aten.index_add", torch.tensor(3.0), 0, index(0), torch.tensor(2.0))
    for dtype in DTYPES[1:]:
        g.case("aten.index_add", counted(3, dtype=dtype), 0, index(1, 1), counted(2, dtype=dtype) + 1, alpha=2)
    g.case("aten.index_copy", x, 1, index(2, 0, 3), s)
    g.case("aten.index_copy", x.t(), 0, index(1), s[:1])
    g.case("aten.index_fill.int_Scalar", x, 1, index(2, 0, -1), 9)
    g.case("aten.index_fill.int_Scalar", x.long(), 0, index(1), 2.5)
    g.case("aten.index_fill.int_Tensor", x, 0, torch.tensor(1), torch.tensor(7))
    for bad in (index(-1, 0, 0), index(4, 0, 0)):
        g.error("aten.index_add", x, 1, bad, s)
        g.error("aten.index_copy", x, 1, bad, s)
    g.error("aten.index_fill.int_Scalar", x, 1, index(4), 1)
    g.error("aten.index_fill.int_Scalar", x, 1, index(-5), 1)
    g.error("aten.index_add", x, 1, i, torch.ones(3, 2))
    g.error("aten.index_add", x, 1, i, s.long())
    g.error("aten.index_copy", x, 1, i, torch.ones(2, 3))


def scatters(g):
    x = counted(3, 4)
    i = index([0, 2, 1, 0], [2, 0, 0, 1])
    s = -counted(2, 5) - 1
    for view in (x, counted(4, 3).t()):
        g.case("aten.scatter.src", view, 0, i, s)
        g.case("aten.scatter.src", view, 1, i, s)
        g.case("aten.scatter.value", view, -1, i, 9.5)
        g.case("aten.scatter_add", view, 0, i, s)
        g.case("aten.scatter_add", view, 1, i.flip(0), s.flip(1))
    for reduce in ("add", "multiply"):
        g.case("aten.scatter.reduce", x, 0, i, s, reduce=reduce)
        g.case("aten.scatter.value_reduce", x, 1, i, 3, reduce=reduce)
    twice = index([0, 0, 1, 0], [2, 0, 0, 2])
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            g.case("aten.scatter_reduce.two", x, 0, twice, s, reduce, include_self=include_self)
            g.case("aten.scatter_reduce.two", x.long() - 5, 1, twice, s.long(), reduce, include_self=include_self)
        g.case("aten.scatter_reduce.two", x[0], 0, index(0, 0, 1), torch.tensor([NAN, 1.0, INF]), reduce)
        g.case("aten.scatter_reduce.two", x[0].to(torch.uint8), 0, index(0, 0, 1), torch.tensor([7, 1, 3]).to(torch.uint8),
               reduce, include_self=False)
    for dtype in DTYPES:
        g.case("aten.scatter.src", counted(4, dtype=dtype), 0, index(3, 1), counted(2, dtype=dtype))
        g.case("aten.scatter.value", counted(4, dtype=dtype), 0, index(3, 1), 1)
    g.case("aten.scatter.src", torch.tensor(1.0), 0, torch.tensor(0), torch.tensor(2.0))
    g.case("aten.scatter.src", x, 0, torch.zeros(0, 4, dtype=torch.int64), s)
    for bad in (index([3]), index([-1]), index([10**9])):
        g.error("aten.scatter.src", x, 0, bad, s)
        g.error("aten.scatter.value", x, 0, bad, 1)
        g.error("aten.scatter_add", x, 0, bad, s)
    g.error("aten.scatter.src", x, 0, index([0, 0, 0, 0, 0]), s)
    g.error("aten.scatter.src", x, 0, index(0), s)
    g.error("aten.scatter.src", x, 0, i, s[:1])
    g.error("aten.scatter.src", x, 0, i, s.long())
    g.error("aten.scatter_reduce.two", x, 0, i, s, "median")
    mask = torch.tensor([[True, False, True, True]])
    g.case("aten.masked_scatter", x, x % 3 == 0, -counted(5))
    g.case("aten.masked_scatter", x.t(), x.t() % 3 == 0, -counted(2, 3))
    g.case("aten.masked_scatter", x, mask, -counted(3, 3))
    g.case("aten.masked_scatter", counted(1, 4), mask.expand(2, 4), -counted(2, 3))
    g.case("aten.masked_scatter", x.long(), x < 0, torch.zeros(0, dtype=torch.int64))
    g.error("aten.masked_scatter", x, mask, -counted(8))
    g.error("aten.masked_scatter", x, mask, -counted(3, 3).long())
    g.case("aten.one_hot", index([0, 2], [1, 1]), 4)
    g.case("aten.one_hot", torch.tensor(1), 2)
    g.error("aten.one_hot", index(0, 4), 4)
    g.error("aten.one_hot", index(-1, 0), 4)
    g.case("aten.masked_select", x, x % 3 == 0)
    g.case("aten.masked_select", x.t(), mask.t())
    g.case("aten.masked_select", x[:, :1].long(), mask)
    g.case("aten.masked_select", torch.tensor(3.0), torch.tensor(True))
    g.error("aten.masked_select", x, torch.ones(3, dtype=torch.bool))
    g.error("aten.masked_select", x, x)
    for y in (x % 3, (x % 2).bool(), torch.zeros(2, 2), torch.tensor([NAN, 0.0]), (x % 3).t()):
        g.case("aten.nonzero", y)


def parts(g):
    x = counted(3, 4)
    g.case("aten.select_scatter", x, -counted(4) - 1, 0, 1)
    g.case("aten.select_scatter", x.t(), -counted(4) - 1, 1, -1)
    g.error("aten.select_scatter", x, counted(4), 0, 3)
    g.error("aten.select_scatter", x, counted(3), 0, 0)
    g.case("aten.slice_scatter", x, -counted(2, 4) - 1, 0, 1, 3)
    g.case("aten.slice_scatter", x, -counted(3, 2) - 1, 1, 0, None, 2)
    g.case("aten.slice_scatter", x.t(), -counted(2, 3) - 1, 0, -3, -1)
    g.case("aten.slice_scatter", x, -counted(3, 4) - 1)
    g.case("aten.slice_scatter", x, torch.zeros(0, 4), 0, 3, 9)
    g.error("aten.slice_scatter", x, counted(2, 3), 0, 1, 3)
    for offset, n in ((0, 3), (1, 3), (-1, 2), (3, 1), (4, 0)):
        g.case("aten.diagonal_scatter", x, -counted(n) - 1, offset)
    g.case("aten.diagonal_scatter", counted(2, 3, 4), -counted(3, 2) - 1, 1, 0, 2)
    g.case("aten.diagonal_scatter", counted(2, 3, 4), -counted(3, 2) - 1, 0, -1, 0)
    g.error("aten.diagonal_scatter", x, counted(2))
    g.case("aten.as_strided_scatter", x, -counted(2, 2) - 1, [2, 2], [5, 2], 1)
    g.case("aten.as_strided_scatter", x, -counted(4) - 1, [4], [3])
    g.error("aten.as_strided_scatter", x, counted(4), [4], [4])


def searches(g):
    edges = torch.tensor([1.0, 2.0, 2.0, 5.0])
    values = torch.tensor([[0.0, 1.0, 2.0], [2.5, 5.0, 9.0], [NAN, INF, -INF]])
    for right in (False, True):
        g.case("aten.bucketize.Tensor", values, edges, right=right)
        g.case("aten.bucketize.Tensor", values.t(), edges, out_int32=True, right=right)
        g.case("aten.bucketize.Tensor", torch.tensor(2.0), edges, right=right)
        g.case("aten.bucketize.Tensor", index(0, 2, 7), index(2, 2, 7), right=right)
        g.case("aten.searchsorted.Tensor", edges, values, right=right)
    rows = torch.tensor([[1.0, 3.0, 5.0], [2.0, 4.0, 4.0]])
    look = torch.tensor([[3.0, 6.0], [4.0, 2.0]])
    g.case("aten.searchsorted.Tensor", rows, look)
    g.case("aten.searchsorted.Tensor", rows.t().contiguous().t(), look.t(), side="right")
    g.case("aten.searchsorted.Tensor", rows.flip(1), look, sorter=index([2, 1, 0], [2, 1, 0]))
    g.case("aten.searchsorted.Tensor", index(2**62, 2**62 + 2), index(2**62 + 1))
    g.case("aten.searchsorted.Tensor", torch.zeros(0), look)
    g.error("aten.searchsorted.Tensor", rows, torch.ones(3, 2))
    g.error("aten.searchsorted.Tensor", rows, look, sorter=index([3, 1, 0], [2, 1, 0]))


def bags(g):
    weight, places = g.randn(10, 3), index(1, 2, 4, 5, 4, 3, 9, 0)
    starts = index(0, 3, 3, 6)
    for op in ("_embedding_bag", "_embedding_bag_forward_only"):
        for mode in (0, 1, 2):
            for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
                g.case("aten." + op, weight.to(dtype), places, starts, False, mode)
                g.case("aten." + op, weight.to(dtype), places, starts, False, mode, padding_idx=4)
            g.case("aten." + op, weight, places, index(0, 3, 3, 8), False, mode, include_last_offset=True)
            g.case("aten." + op, weight, places.int(), starts.int(), False, mode, padding_idx=4)
            g.case("aten." + op, g.randn(3, 10).t(), places, starts, False, mode, padding_idx=0)
            g.case("aten." + op, weight, torch.zeros(0, dtype=torch.int64), index(0, 0), False, mode, padding_idx=4)
        g.case("aten." + op, weight, places, starts, per_sample_weights=g.randn(8))
        g.case("aten." + op, weight.double(), places, starts, per_sample_weights=g.randn(8, dtype=torch.float64))
        g.error("aten." + op, weight, places, starts, False, 1, per_sample_weights=g.randn(8))
        g.error("aten." + op, weight, index(1, 10), index(0))
        g.error("aten." + op, weight, index(1, -1), index(0))
        g.error("aten." + op, weight, places, index(1, 3))
        g.error("aten." + op, weight, places, index(0, 20))
    g.case("aten.embedding_bag", weight, places, starts)
    g.case("aten.embedding_bag.padding_idx", weight, places, starts, False, 2, False, None, False, -6)
    g.case("aten.embedding_bag.padding_idx", weight, places, starts, False, 1, False, None, False, None)


def cases(g):
    selects(g)
    gathers(g)
    by_lists(g)
    by_dimension(g)
    scatters(g)
    parts(g)
    searches(g)
    bags(g)
