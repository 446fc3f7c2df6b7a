"""Operators that passes rewrite into others."""
import torch

NAN, INF = float("nan"), float("inf")


def legit_norms(g):
    x, w, b, mean, var = g.randn(2, 3, 4, 5), g.randn(3), g.randn(3), g.randn(3), g.uniform(0.5, 2, 3)
    for op in ("_native_batch_norm_legit_functional", "native_batch_norm"):
        g.case("aten." + op, x, w, b, mean, var, False, 0.1, 1e-5)
        g.case("aten." + op, x, None, None, mean, var, False, 0.1, 1e-3)
    for y in (x, x[:, :, 0], x[:, :, 0, 0], g.randn(2, 3, 2, 2, 2)):
        g.case("aten._native_batch_norm_legit_functional", y, w, b, mean, var, True, 0.1, 1e-5)
    g.case("aten._native_batch_norm_legit_functional", x, None, b, mean, var, True, 0.25, 1e-5)
    stats = [t.double() for t in (x, w, b, mean, var)]
    g.case("aten._native_batch_norm_legit_functional", *stats, True, 0.1, 1e-5)
    g.case("aten._native_batch_norm_legit_functional", x.bfloat16(), w, b, mean, var, True, 0.1, 1e-5)
    g.case("aten.native_batch_norm", x, w, b, None, None, True, 0.1, 1e-5)
    g.case("aten._native_batch_norm_legit_no_training", x, w, b, mean, var, 0.1, 1e-5)


def in_order(g):
    x = torch.tensor([[3.0, 1.0, 2.0, 5.0], [NAN, 2.0, 0.5, 7.0], [4.0, 4.5, -1.0, 0.0]])
    distinct = torch.randperm(24, generator=g.random).reshape(2, 3, 4)
    for y in (x, x.double(), x.bfloat16(), distinct, distinct.to(torch.uint8), distinct.float()[:, :, :3], torch.tensor(2.5)):
        for op in ("median.dim", "nanmedian.dim"):
            g.case("aten." + op, y, -1)
            if y.dim():
                g.case("aten." + op, y, 0, True)
        for op in ("median", "nanmedian"):
            g.case("aten." + op, y)
        g.case("aten.kthvalue", y, 1)
        if y.dim():
            g.case("aten.kthvalue", y, 2, 0, True)
        g.case("aten.aminmax", y)
        g.case("aten.aminmax", y, dim=-1, keepdim=True)
    g.case("aten.nanmedian", torch.tensor([NAN, NAN]))
    g.case("aten.nanmedian.dim", torch.tensor([[NAN, NAN], [1.0, NAN]]), 1)
    g.error("aten.kthvalue", x, 5)
    g.error("aten.kthvalue", x, 0)


def sums(g):
    x = torch.tensor([[3.0, NAN, 2.0], [NAN, NAN, NAN], [4.0, 4.5, -1.0]])
    for y in (x, x.double(), x.bfloat16(), x.t()):
        for op in ("nansum", "nanmean"):
            g.case("aten." + op, y)
            g.case("aten." + op, y, [0])
            g.case("aten." + op, y, [-1], True)
    g.case("aten.nansum", x, [0, 1], False, dtype=torch.float64)
    g.case("aten.nansum", g.integers(0, 9, 3, 4))
    g.case("aten.norm.Scalar", g.randn(3, 4), 2)
    g.case("aten.norm.Scalar", g.randn(3, 4), 1.0)
    g.case("aten.norm.ScalarOpt_dtype", g.randn(3, 4), None, dtype=torch.float64)
    g.case("aten.norm.ScalarOpt_dim_dtype", g.randn(3, 4), 3, [1], True, dtype=torch.float64)
    g.case("aten.frobenius_norm.dim", g.randn(2, 3, 4), [1, 2])
    for p in (1, 2.0, INF):
        for dim in (0, 1, -1):
            g.case("aten.renorm", g.randn(2, 3, 4), p, dim, 1.5)


def formulas(g):
    a, b = g.randn(3, 4), g.randn(4)
    g.case("aten.logaddexp2", a, b)
    g.case("aten.logaddexp2", torch.tensor([INF, -INF, NAN, 1.0]), torch.tensor([INF, -INF, 0.0, -INF]))
    for op, *args in (("Tensor_Tensor", a.abs(), b), ("Tensor_Scalar", a, 2), ("Scalar", 2, a), ("Tensor_Tensor", g.integers(1, 5, 4), b)):
        g.case("aten.float_power." + op, *args)
    g.case("aten.cross", g.randn(3, 2), g.randn(3, 2))
    g.case("aten.cross", g.randn(4, 3), g.randn(4, 3), -1)
    g.case("aten.linalg_cross", g.randn(2, 1, 3), g.randn(1, 4, 3))
    g.error("aten.linalg_cross", g.randn(2, 1, 3), g.randn(4, 3))
    g.case("aten.linalg_cross", g.integers(0, 9, 3, 2), g.integers(0, 9, 3, 2), dim=0)
    g.error("aten.linalg_cross", g.randn(2, 4), g.randn(2, 4))
    args = ([1, 1], [1, 0], [1, 1], False, [0, 0], 1, False, False, True, True)
    g.case("aten._convolution", g.randn(1, 2, 4, 4), g.randn(3, 2, 3, 3), g.randn(3), *args)


def places(g):
    x, among = g.integers(0, 6, 2, 3), torch.tensor([[1, 5], [2, 9]])
    for invert in (False, True):
        g.case("aten.isin.Tensor_Tensor", x, among, invert=invert)
        g.case("aten.isin.Tensor_Scalar", x, 3, invert=invert)
        g.case("aten.isin.Scalar_Tensor", 5, among, invert=invert)
    g.case("aten.isin.Tensor_Tensor", x.float(), torch.zeros(0))
    pooled, at = torch.ops.aten.max_pool2d_with_indices(g.randn(2, 3, 4, 6), [2, 2])
    g.case("aten.max_unpool2d", pooled, at, [4, 6])
    g.case("aten.max_unpool2d", pooled[0], at[0], [5, 6])
    pooled, at = torch.ops.aten.max_pool3d_with_indices(g.randn(1, 2, 2, 4, 2), [2, 2, 2])
    g.case("aten.max_unpool3d", pooled, at, [2, 4, 2], [2, 2, 2], [0, 0, 0])


def built(g):
    for offset in (0, 1, -2):
        g.case("aten.diag_embed", g.randn(2, 3), offset)
        g.case("aten.diag_embed", g.randn(2, 3), offset, 0, 2)
    g.case("aten.block_diag", [g.randn(2, 3), g.randn(2), torch.tensor(1.5), g.integers(0, 5, 1, 2)])
    g.case("aten.kron", g.randn(2, 3), g.randn(3, 2))
    g.case("aten.kron", g.randn(2), g.randn(3, 2, 2))
    g.case("aten.kron", g.integers(0, 5, 2), g.randn(2, 2))


def weight_norms(g):
    v, m = g.randn(3, 2, 4), g.uniform(0.5, 1.5, 3, 1, 1)
    last = g.uniform(0.5, 1.5, 1, 1, 4)
    for dtype in (torch.float32, torch.float64):
        g.case("aten._weight_norm", v.to(dtype), m.to(dtype))
        g.case("aten._weight_norm", v.to(dtype), last.to(dtype), 2)
        g.case("aten._weight_norm_interface", v.to(dtype), m.to(dtype))
        g.case("aten._weight_norm_interface", v.to(dtype), last.to(dtype), 2)
    g.case("aten._weight_norm", v, g.uniform(0.5, 1.5, 1, 2, 1), 1)
    g.case("aten._weight_norm", v, torch.tensor(1.25), -1)
    g.case("aten._weight_norm", v.transpose(0, 2), g.uniform(0.5, 1.5, 4, 1, 1))
    g.case("aten._weight_norm", g.randn(4), g.uniform(0.5, 1.5, 4), 0)
    for dtype in (torch.bfloat16, torch.float16):
        g.case("aten._weight_norm", v.to(dtype), m.to(dtype))
        g.case("aten._weight_norm", v.to(dtype), last.to(dtype), 2)
        g.case("aten.norm_except_dim", v.to(dtype))
    for dim in (-1, 0, 1, 2):
        for power in (1, 2, 3):
            g.case("aten.norm_except_dim", v, power, dim)
    g.case("aten.norm_except_dim", g.randn(5))
    g.error("aten._weight_norm", v, m, 3)


def cases(g):
    legit_norms(g)
    in_order(g)
    sums(g)
    formulas(g)
    places(g)
    built(g)
    weight_norms(g)
