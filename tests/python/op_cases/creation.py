"""Copies, conversions, fills, creation and quantization."""
import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers quantized_decomposed)

NAN, INF = float("nan"), float("inf")
DTYPES = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
          torch.bfloat16, torch.float32, torch.float64)


def copies(g):
    values = torch.tensor([0.0, 1, -1, 2.5, 3.49, 100.75, 250, -0.25])
    for source in DTYPES:
        for target in DTYPES:
            x = values.abs() if source == torch.uint8 else values
            if target == torch.uint8:
                x = x.abs()
            g.case("aten._to_copy", x.clamp(-128, 127 if source == torch.int8 else 255).to(source), dtype=target)
    wild = torch.tensor([300.7, -1.5, NAN, INF, -INF, 1e20])
    for target in (torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16):
        g.case("aten._to_copy", wild, dtype=target)
    for target in (torch.float16, torch.bfloat16):  # ties, subnormal numbers, overflow
        g.case("aten._to_copy", torch.tensor([1 + 2**-9, 1 + 3 * 2**-9, 1 + 2**-11, 1 + 3 * 2**-11, 65519.0, 65520.0,
                                              3e-8, 2**-24 * 1.5, 2**-25, 1e-40, -6e-5, 3.3e38]), dtype=target,
               rtol=0, atol=0)
    g.case("aten._to_copy", torch.tensor([3e-8, 6e-5, -1e-7, 65504.0, INF, NAN], dtype=torch.float16),
           dtype=torch.float32, rtol=0, atol=0)
    g.case("aten._to_copy", torch.tensor([2**53 + 1, -(2**63), 2**62 + 1]), dtype=torch.float32)
    for dtype in (torch.float32, torch.uint8, torch.bfloat16, torch.int64):
        x = g.integers(0, 99, 2, 3, 4, 5).to(dtype)
        for view in (x, x.permute(0, 2, 3, 1), x[:, 1:, ::2], x[:, :, :, :1].expand(2, 3, 4, 5), x.t() if x.dim() == 2 else x[0, 0].t()):
            g.case("aten.clone", view)
    big = g.integers(0, 99, 37, 3, 21).to(torch.float32)
    g.case("aten.clone", big.permute(2, 0, 1))
    g.case("aten.clone", big.permute(1, 2, 0), memory_format=torch.contiguous_format)
    g.case("aten._to_copy", big.permute(2, 1, 0)[:5], dtype=torch.int32)
    g.case("aten.clone", torch.tensor(3.5))
    g.case("aten.clone", torch.zeros(0, 2))
    g.case("aten.copy", torch.zeros(2, 3), torch.tensor([1, 2, 3]))
    g.case("aten.copy", torch.zeros(2, 3, dtype=torch.int32), torch.tensor(2.75))
    g.error("aten.copy", torch.zeros(2, 3), torch.zeros(2, 2))
    g.case("aten.fill.Scalar", torch.zeros(2, 3), 2.5)
    g.case("aten.fill.Scalar", torch.zeros(2, 3, dtype=torch.int64), 2.5)
    g.case("aten.fill.Tensor", torch.zeros(2, 3).bfloat16(), torch.tensor(7))


def creation(g):
    g.case("aten.full", [2, 3], 1.5)
    g.case("aten.full", [2, 3], 2)
    g.case("aten.full", [], True)
    g.case("aten.full", [2], 2.5, dtype=torch.int32)
    g.case("aten.full", [0, 2], 1)
    g.case("aten.full", [2, 2], -INF, dtype=torch.bfloat16)
    for op in ("zeros", "ones"):
        g.case("aten." + op, [2, 3])
        g.case("aten." + op, [3], dtype=torch.bool)
        g.case("aten." + op, [], dtype=torch.int64)
    x = g.randn(2, 3)
    for like in (x, x.t(), x.half(), x.bool(), torch.tensor(2)):
        g.case("aten.full_like", like, 2.75)
        g.case("aten.zeros_like", like)
        g.case("aten.ones_like", like, dtype=torch.float64)
        g.case("aten.new_full", like, [2, 2], 1)
        g.case("aten.new_zeros", like, [3])
        g.case("aten.new_ones", like, [3], dtype=torch.int32)
    g.error("aten.full", [-1], 1)
    for args in ((5,), (0,), (2.5,), (3.0,), (True,)):
        g.case("aten.arange", *args)
    g.case("aten.arange", 5, dtype=torch.float32)
    g.case("aten.arange", 5, dtype=torch.bfloat16)
    g.case("aten.arange.start", 2, 7)
    g.case("aten.arange.start", 0.5, 4)
    for args in ((0, 10, 3), (5, 0, -2), (0, 1, 0.3), (1, 2.5, 0.5), (0, 1000, 1), (3, 3, 2)):
        g.case("aten.arange.start_step", *args)
    g.case("aten.arange.start_step", 0, 5, 2, dtype=torch.float64)
    g.case("aten.arange.start_step", 0, 2.9, 1, dtype=torch.int64)
    g.error("aten.arange", -1)
    g.error("aten.arange.start_step", 0, 5, -1)
    g.error("aten.arange.start_step", 0, 5, 0)
    for args in ((0, 1, 5), (3, 5, 1), (0, 1, 0), (-2.5, 7, 10), (5, -5, 4)):
        g.case("aten.linspace", *args)
    g.case("aten.linspace", 0, 1, 7, dtype=torch.float64)
    g.case("aten.linspace", 0, 10, 6, dtype=torch.int32)
    g.case("aten.linspace", 0, 1, 5, dtype=torch.bfloat16)
    g.error("aten.linspace", 0, 1, -1)
    g.case("aten.zero", x.t())
    for value in (2, 2.5, True):
        g.case("aten.scalar_tensor", value)
    g.case("aten.scalar_tensor", 2.7, dtype=torch.int64)
    g.case("aten.eye", 3)
    g.case("aten.eye.m", 2, 4, dtype=torch.int64)
    g.case("aten.eye.m", 4, 2)
    for op in ("tril", "triu"):
        for diagonal in (0, 1, -1, 9, -9):
            g.case("aten." + op, g.randn(2, 3, 4), diagonal)
        g.case("aten." + op, g.bools(4, 3).t())
        g.case("aten." + op, g.integers(0, 9, 3, 3).to(torch.bfloat16))
        g.case("aten." + op, torch.zeros(0, 3, 3))
        g.error("aten." + op, torch.ones(3))


def quantization(g):
    q = "quantized_decomposed."
    x = torch.tensor([[-1000.0, -0.15, -0.05, 0.0, 0.05, 0.15, 0.25], [1, 2, 3, 4.4, 5.6, 1000, 0.349]])
    for low, high, zero, dtype in ((0, 255, 128, torch.uint8), (-128, 127, 0, torch.int8), (-128, 127, -7, torch.int8)):
        g.case(q + "quantize_per_tensor", x, 0.1, zero, low, high, dtype)
        g.case(q + "quantize_per_tensor", x.bfloat16(), 0.25, zero, low, high, dtype)
        data = g.integers(low, high, 2, 3, 5).to(dtype)
        g.case(q + "dequantize_per_tensor", data, 0.1, zero, low, high, dtype)
        g.case(q + "dequantize_per_tensor", data.permute(2, 0, 1), 0.5, zero, low, high, dtype,
               out_dtype=torch.bfloat16)
        scales, zeros = torch.tensor([0.1, 0.25, 2.0]), torch.tensor([zero, zero, zero])
        for axis, view in ((1, data), (0, data.permute(1, 0, 2))):
            g.case(q + "dequantize_per_channel", view, scales, zeros, axis, low, high, dtype)
            g.case(q + "dequantize_per_channel", view, scales, None, axis, low, high, dtype)
            g.case(q + "quantize_per_channel", g.randn(*view.shape, scale=9), scales, zeros, axis, low, high, dtype)


def cases(g):
    copies(g)
    creation(g)
    quantization(g)
