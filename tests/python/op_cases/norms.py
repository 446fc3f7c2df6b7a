"""Softmax, normalizations, sorting."""
import torch

NAN, INF = float("nan"), float("inf")
HALVES = (torch.float16, torch.bfloat16)


def softmax(g):
    x = g.randn(2, 3, 4, scale=3)
    for op in ("aten._softmax", "aten._log_softmax"):
        for view in (x, x.permute(2, 0, 1), x[:, :, :1].expand(2, 3, 4)):
            for dim in (0, 1, -1):
                g.case(op, view, dim, False)
        for dtype in HALVES + (torch.float64,):
            for dim in (0, 1):  # PyTorch rounds between the steps of float16
                g.case(op, g.randn(3, 5, dtype=dtype, scale=2), dim, False, rtol=5e-3 if dtype == torch.float16 else None)
        g.case(op, torch.tensor(3.0), 0, False)
        g.case(op, torch.zeros(0, 3), 1, False)
        g.case(op, torch.zeros(3, 0), 1, False)
        rows = torch.tensor([[-INF, -INF], [-INF, 1.0], [INF, 1.0], [NAN, 1.0], [1e4, -1e4], [-3e38, -3e38]])
        g.case(op, rows, 1, False)
        g.case(op, rows.t().contiguous(), 0, False)
        g.case(op, rows.double(), 1, False)
        g.case(op, torch.zeros(512, dtype=torch.bfloat16), 0, False)
        g.case(op, torch.zeros(512), 0, False)
        long = (torch.arange(600) * 79 % 97).float() / 8
        if op == "aten._softmax":
            g.case(op, long, 0, False)
        g.case(op, long[:132].reshape(3, 2, 22), 1, False)
        g.error(op, torch.tensor([1, 2]), 0, False)
        g.error(op, torch.zeros(2), 1, False)
    g.case("aten._softmax", torch.zeros(400, 100), 1, False)


def layer_norms(g):
    x = g.randn(2, 3, 4)
    w, b = g.randn(4), g.randn(4)
    for view in (x, x.permute(1, 2, 0)[..., :1].expand(3, 4, 4), x.transpose(0, 1), g.randn(2, 4, 3).transpose(1, 2)):
        g.case("aten.native_layer_norm", view, [4], w, b, 1e-5)
        g.case("aten.native_layer_norm", view, [4], None, None, 1e-3)
        g.case("aten.rms_norm", view, [4], w, 1e-5)
    g.case("aten.native_layer_norm", x, [4], w, None, 1e-5)
    g.case("aten.native_layer_norm", x, [4], None, b, 1e-5)
    for count in (2, 3):
        shape = x.shape[3 - count:]
        for view in (x, x.permute(2, 1, 0).contiguous().permute(2, 1, 0)):
            weight = g.randn(*shape[::-1]).permute(*range(count - 1, -1, -1))
            g.case("aten.native_layer_norm", view, shape, weight, g.randn(*shape), 1e-5)
            g.case("aten.rms_norm", view, shape, weight)
    for dtype in HALVES + (torch.float64,):
        y = g.randn(3, 4, dtype=dtype)
        g.case("aten.native_layer_norm", y, [4], w.to(dtype), b.to(dtype), 1e-5)
        g.case("aten.native_layer_norm", y, [4], None, None, 1e-5)
        g.case("aten.rms_norm", y, [4], w.to(dtype))
        g.case("aten.rms_norm", y / 1024, [4])
        g.case("aten.rms_norm", y, [4], w.to(dtype), 0.5)
    g.case("aten.native_layer_norm", g.randn(3, 4, dtype=torch.bfloat16), [4], w, b, 1e-5)
    g.case("aten.native_layer_norm", torch.zeros(0, 4), [4], None, None, 1e-5)
    g.case("aten.native_layer_norm", torch.full((2, 4), 3.0), [4], None, None, 1e-5)
    g.case("aten.native_layer_norm", torch.tensor([[NAN, 1.0], [1e4, 1e4 + 1]]), [2], None, None, 1e-5)
    g.case("aten.rms_norm", torch.zeros(1, 4), [4])
    g.case("aten.native_layer_norm", torch.ones(50, 700), [700], torch.ones(700), None, 1e-5)
    g.case("aten.rms_norm", torch.ones(50, 700), [700])
    for op, tail in (("aten.native_layer_norm", (None, 1e-5)), ("aten.rms_norm", ())):
        g.error(op, x, [3], None, *tail)
        g.error(op, x, [2, 3, 4, 1], None, *tail)
        g.error(op, x, [4], g.randn(3), *tail)
    g.error("aten.native_layer_norm", x.long(), [4], None, None, 1e-5)


def group_norms(g):
    x = g.randn(2, 4, 3, 2)
    w, b = g.randn(4), g.randn(4)
    for view in (x, x.contiguous(memory_format=torch.channels_last)):
        for groups in (1, 2, 4):
            g.case("aten.native_group_norm", view, w, b, 2, 4, 6, groups, 1e-5)
        g.case("aten.native_group_norm", view, None, None, 2, 4, 6, 2, 1e-3)
    g.case("aten.native_group_norm", g.randn(3, 4), w, None, 3, 4, 1, 2, 1e-5)
    g.case("aten.native_group_norm", g.randn(2, 4, 3), None, b, 2, 4, 3, 2, 1e-5)
    for dtype in HALVES + (torch.float64,):
        g.case("aten.native_group_norm", g.randn(2, 4, 3, dtype=dtype), w.to(dtype), b.to(dtype), 2, 4, 3, 2, 1e-5)
    g.case("aten.native_group_norm", g.randn(2, 4, 3, dtype=torch.bfloat16), w, b, 2, 4, 3, 2, 1e-5)
    g.error("aten.native_group_norm", x, w, b, 2, 4, 6, 3, 1e-5)
    g.error("aten.native_group_norm", x, g.randn(3), b, 2, 4, 6, 2, 1e-5)


def batch_norms(g):
    op = "aten._native_batch_norm_legit_no_training"
    x = g.randn(2, 3, 2, 4)
    w, b, m, v = g.randn(3), g.randn(3), g.randn(3), g.uniform(0.25, 4, 3)
    for view in (x, x.contiguous(memory_format=torch.channels_last), x[:, :, ::2], x[:, :, :1].expand(2, 3, 2, 4)):
        g.case(op, view, w, b, m, v, 0.1, 1e-5)
        g.case("aten._native_batch_norm_legit.no_stats", view, w, b, True, 0.1, 1e-5)
    g.case(op, x, None, None, m, v, 0.1, 1e-3)
    g.case(op, x, w, None, m, v, 0.1, 1e-3)
    g.case("aten._native_batch_norm_legit.no_stats", x, None, b, True, 0.1, 1e-3)
    for shape in ((4, 3), (2, 3, 5), (2, 3, 1, 2, 2), (0, 3, 2)):
        g.case(op, g.randn(*shape), w, b, m, v, 0.1, 1e-5)
    g.case("aten._native_batch_norm_legit.no_stats", g.randn(1, 3, 50), None, None, True, 0.1, 1e-6)
    g.case("aten._native_batch_norm_legit.no_stats", g.randn(5, 3), w, b, True, 0.1, 1e-6)
    y = g.randn(2, 3, 2, dtype=torch.float64)
    g.case(op, y, w.double(), b.double(), m.double(), v.double(), 0.1, 1e-5)
    for dtype in HALVES:
        y = g.randn(2, 3, 2, 2, dtype=dtype)
        g.case(op, y, w, b, m, v, 0.1, 1e-5)
        g.case(op, y.contiguous(memory_format=torch.channels_last), w, b, m, v, 0.1, 1e-5)
        g.case(op, y, w.to(dtype), b.to(dtype), m.to(dtype), v.to(dtype), 0.1, 1e-5)
        g.case("aten._native_batch_norm_legit.no_stats", y, None, None, True, 0.1, 1e-5)
    g.case(op, torch.ones(1, 600, 2, 2).contiguous(memory_format=torch.channels_last), None, None, torch.ones(600),
           torch.ones(600), 0.1, 0.0)


def sorting(g):
    mixed = torch.tensor([[3.0, NAN, -1.0, 3.0, INF, 0.0, -0.0, -INF], [2.0, 2.0, 1.0, 1.0, 2.0, NAN, NAN, 0.5]])
    for descending in (False, True):
        for x in (mixed, mixed.t(), mixed.bfloat16(), mixed.half(), mixed.double(), g.integers(-3, 3, 3, 9)):
            for dim in (0, 1):
                g.case("aten.sort.stable", x, stable=True, dim=dim, descending=descending)
            g.case("aten.argsort.stable", x, stable=True, descending=descending)
        for dtype in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32):
            x = g.integers(0, 2, 7).to(dtype)
            g.case("aten.sort.stable", x, stable=True, descending=descending)
        distinct = torch.randperm(8, generator=g.random).reshape(2, 4)
        g.case("aten.sort", distinct, -1, descending)
        g.case("aten.sort", distinct.float(), 0, descending)
        g.case("aten.argsort", distinct, -1, descending)
        for x in (torch.tensor(3.0), torch.zeros(0), torch.zeros(2, 0), torch.zeros(0, 2)):
            g.case("aten.sort.stable", x, stable=True, descending=descending)
        g.case("aten.sort.stable", torch.arange(150) * 79 % 97, stable=True, descending=descending)
    g.case("aten.sort.stable", torch.tensor([2**62 + 1, 2**62, -(2**62), -(2**63), 2**63 - 1]), stable=False)
    g.error("aten.sort", torch.zeros(2), 1)
    first = torch.tensor([1, 2, -3, 4, NAN, INF])
    for x, k in ((first, 3), (first[:5], 2), (g.randn(7), 7), (torch.randperm(60, generator=g.random), 4)):
        for largest in (True, False):
            g.case("aten.topk", x, k, -1, largest)
            g.case("aten.topk", x, k, 0, largest, True)
    x = torch.randperm(40, generator=g.random).reshape(2, 20).float()
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.uint8):
        g.case("aten.topk", x.to(dtype), 2)
        g.case("aten.topk", x.to(dtype).t(), 3, 0, False)
    g.case("aten.topk", torch.tensor(1.5), 1)
    g.case("aten.topk", torch.tensor(1.5), 1, 0)
    g.case("aten.topk", x, 0)
    g.case("aten.topk", torch.zeros(0, 3), 1)
    g.error("aten.topk", x, 21)
    g.error("aten.topk", x, -1)
    g.error("aten.topk", x, 1, 2)


def cases(g):
    softmax(g)
    layer_norms(g)
    group_norms(g)
    batch_norms(g)
    sorting(g)
