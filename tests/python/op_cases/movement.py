"""Rearrangements and padding."""
import torch

INF = float("inf")
DTYPES = (torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bfloat16, torch.float16, torch.float64)


def counted(*shape, dtype=torch.float32):
    n = 1
    for size in shape:
        n *= size
    return torch.arange(n).reshape(shape).to(dtype)


def joins(g):
    a, b = counted(2, 3), -counted(2, 2)
    g.case("aten.cat", [a, b], 1)
    g.case("aten.cat", [a, b], -1)
    g.case("aten.cat", [a.t(), b.t(), a.t()])
    g.case("aten.cat", [a])
    g.case("aten.cat", [a[:1].expand(2, 3), a.t().contiguous().t()], 0)
    x = counted(1, 2, 2, 3).contiguous(memory_format=torch.channels_last)
    g.case("aten.cat", [x, x + 20], 1)
    g.case("aten.cat", [x, x.contiguous(), x[:, :1]], 1)
    g.case("aten.cat", [torch.zeros(0), a, torch.zeros(0), torch.zeros(0, 3)])
    g.case("aten.cat", [torch.zeros(0), torch.zeros(0)])
    g.case("aten.cat", [torch.zeros(0, dtype=torch.float64), a])
    g.case("aten.cat", [torch.ones(0, 2), torch.ones(0, 3)], 1)
    for one, two in ((torch.int32, torch.float32), (torch.bool, torch.int64), (torch.bfloat16, torch.float32),
                     (torch.float16, torch.bfloat16), (torch.uint8, torch.int8), (torch.int64, torch.float16),
                     (torch.float32, torch.float64), (torch.bool, torch.bool)):
        g.case("aten.cat", [counted(2, dtype=one), counted(3, dtype=two)])
        g.case("aten.stack", [counted(2, dtype=one), counted(2, dtype=two)])
    g.case("aten.cat", [torch.ones(300, 70), torch.ones(300, 50)], 1)
    g.error("aten.cat", [a, b])
    g.error("aten.cat", [a, counted(3)])
    g.error("aten.cat", [a, a], 2)
    g.error("aten.cat", [torch.tensor(1.0)])
    g.error("aten.cat", [])
    for dim in (0, 1, 2, -1):
        g.case("aten.stack", [a, -a.t().contiguous().t()], dim)
    g.case("aten.stack", [torch.tensor(1.0), torch.tensor(2.0)])
    g.case("aten.stack", [torch.zeros(0, 2)] * 2, 1)
    g.error("aten.stack", [a, b])
    g.error("aten.stack", [a, a], 3)
    g.error("aten.stack", [])
    for indexing in ("ij", "xy"):
        g.case("aten.meshgrid.indexing", [counted(2), counted(3), torch.tensor(7.0)], indexing=indexing)
        g.case("aten.meshgrid.indexing", [counted(3, dtype=torch.int64)], indexing=indexing)
    g.case("aten.meshgrid", [counted(2), counted(3)])
    g.error("aten.meshgrid.indexing", [counted(2), counted(2, 2)], indexing="ij")


def turns(g):
    x = counted(2, 3, 4)
    for view in (x, x.permute(2, 0, 1), x[:, :1].expand(2, 3, 4), x[:, ::2]):
        g.case("aten.flip", view, [0])
        g.case("aten.flip", view, [-1, 0])
        g.case("aten.roll", view, [1], [1])
        g.case("aten.roll", view, [-1, 2], [0, -1])
        g.case("aten.roll", view, [5])
        g.case("aten.repeat", view, [2, 1, 2])
        g.case("aten.repeat_interleave.self_int", view, 2, 1)
        g.case("aten.repeat_interleave.self_int", view, 3)
    for dtype in DTYPES:
        y = counted(2, 3, dtype=dtype)
        g.case("aten.flip", y, [1])
        g.case("aten.roll", y, [1], [1])
        g.case("aten.repeat", y, [1, 2])
    g.case("aten.flip", x, [])
    g.case("aten.flip", torch.tensor(1.0), [])
    g.case("aten.flip", torch.zeros(0, 2), [0])
    g.error("aten.flip", x, [0, 0])
    g.error("aten.flip", x, [3])
    g.case("aten.roll", counted(4), [9])
    g.case("aten.roll", counted(4), [-9], [0])
    g.case("aten.roll", counted(2, 3), [1, 1, 1], [0, 1, 1])
    g.case("aten.roll", torch.zeros(0, 2), [1], [0])
    g.case("aten.roll", torch.tensor(2.0), [1])
    g.error("aten.roll", x, [1, 2], [0])
    g.error("aten.roll", x, [1, 2])
    g.error("aten.roll", x, [1], [3])
    g.case("aten.repeat", counted(3), [2, 2])
    g.case("aten.repeat", torch.tensor(5.0), [2, 3])
    g.case("aten.repeat", torch.tensor(5.0), [])
    g.case("aten.repeat", counted(3), [0])
    g.case("aten.repeat", counted(1, 3, 1), [2, 2, 3])
    g.case("aten.repeat", torch.ones(1, 300), [150, 1])
    g.error("aten.repeat", x, [2])
    g.error("aten.repeat", x, [-1, 1, 1])
    g.case("aten.tile", counted(2, 3), [2])
    g.case("aten.tile", counted(3), [2, 1, 2])
    g.case("aten.repeat_interleave.self_int", torch.tensor(3.0), 2)
    g.case("aten.repeat_interleave.self_int", counted(3), 0, 0)
    g.case("aten.repeat_interleave.self_int", counted(3), 2, 0, output_size=6)
    g.error("aten.repeat_interleave.self_int", counted(3), -1, 0)
    g.error("aten.repeat_interleave.self_int", counted(3), 2, 1)


def pads(g):
    x = counted(1, 2, 3, 4)
    cl = x.contiguous(memory_format=torch.channels_last)
    for view in (x, cl, x.permute(0, 1, 3, 2)):
        g.case("aten.constant_pad_nd", view, [1, 2])
        g.case("aten.constant_pad_nd", view, [1, -1, -2, 1], 7)
        g.case("aten.constant_pad_nd", view, [0, 0, 0, 0, 1, 0], -1.5)
    g.case("aten.constant_pad_nd", x, [-1, 0, 0, -2])
    g.case("aten.constant_pad_nd", x, [-1, 2, -3, 5])
    g.case("aten.constant_pad_nd", x, [])
    g.case("aten.constant_pad_nd", x, [1, 0, 0, 0, 0, 0, 0, 1], -INF)
    for dtype in DTYPES:
        g.case("aten.constant_pad_nd", counted(3, dtype=dtype), [1, 1], 1)
    g.case("aten.constant_pad_nd", torch.zeros(0, 2), [1, 0, 1, 1], 2)
    g.case("aten.constant_pad_nd", torch.ones(200, 100), [50, 50], 1)
    g.error("aten.constant_pad_nd", x, [1])
    g.error("aten.constant_pad_nd", x, [-3, -2])
    g.error("aten.constant_pad_nd", counted(2), [1, 1, 1, 1])
    for op in ("reflection_pad", "replication_pad"):
        g.case(f"aten.{op}1d", counted(2, 4), [1, 3])
        g.case(f"aten.{op}1d", counted(1, 2, 4).permute(0, 2, 1), [1, 0])
        g.case(f"aten.{op}1d", counted(2, 4), [-1, 2])
        for view in (x, cl, x[0], x.permute(0, 1, 3, 2)):
            g.case(f"aten.{op}2d", view, [2, 1, 1, 2])
        g.case(f"aten.{op}2d", x, [0, -1, 1, 0])
        g.case(f"aten.{op}3d", counted(1, 1, 2, 3, 2), [1, 1, 2, 0, 0, 1])
        g.case(f"aten.{op}3d", counted(1, 2, 3, 2), [1, 1, 0, 1, 1, 0])
        for dtype in (torch.float64, torch.bfloat16, torch.float16):
            g.case(f"aten.{op}1d", counted(1, 3, dtype=dtype), [1, 2])
        g.error(f"aten.{op}1d", counted(3), [1, 1])
        g.error(f"aten.{op}1d", counted(2, 3), [-2, -2])
        g.error(f"aten.{op}2d", counted(2, 3), [1, 1, 1, 1])
    g.error("aten.reflection_pad1d", counted(2, 3), [3, 0])
    g.error("aten.reflection_pad2d", x, [0, 0, 3, 0])
    g.case("aten.replication_pad1d", counted(1, 2), [5, 0])


def shuffles(g):
    x = counted(1, 8, 2, 3)
    for view in (x, x.contiguous(memory_format=torch.channels_last), x[0]):
        g.case("aten.pixel_shuffle", view, 2)
    y = counted(1, 2, 4, 6)
    for view in (y, y.contiguous(memory_format=torch.channels_last), y[0].transpose(1, 2)):
        g.case("aten.pixel_unshuffle", view, 2)
    g.case("aten.pixel_shuffle", counted(2, 1, 9, 1, 1, dtype=torch.int64), 3)
    g.case("aten.pixel_shuffle", x, 1)
    g.error("aten.pixel_shuffle", x, 3)
    g.error("aten.pixel_unshuffle", y, 4)
    for groups in (1, 2, 3, 6):
        g.case("aten.channel_shuffle", counted(1, 6, 1, 2), groups)
    g.case("aten.channel_shuffle", counted(2, 6, 2).contiguous(), 2)
    g.error("aten.channel_shuffle", counted(1, 6, 2, 2), 4)


def windows(g):
    x = counted(1, 2, 4, 5)
    settings = (([2, 2], [1, 1], [0, 0], [1, 1]), ([2, 3], [1, 1], [1, 0], [2, 2]), ([2, 2], [2, 1], [1, 2], [1, 3]))
    for view in (x, x.contiguous(memory_format=torch.channels_last), x[0], x.bfloat16()):
        for kernel, dilation, padding, stride in settings:
            g.case("aten.im2col", view, kernel, dilation, padding, stride)
            columns = torch.ops.aten.im2col(view, kernel, dilation, padding, stride)
            g.case("aten.col2im", columns, [4, 5], kernel, dilation, padding, stride)
    g.case("aten.im2col", x.double(), [3, 3], [1, 1], [0, 0], [1, 1])
    g.error("aten.im2col", x, [6, 2], [1, 1], [0, 0], [1, 1])
    g.error("aten.im2col", x, [2, 2], [0, 1], [0, 0], [1, 1])
    g.error("aten.im2col", counted(4, 5), [2, 2], [1, 1], [0, 0], [1, 1])
    g.error("aten.col2im", counted(1, 8, 13), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1])
    g.error("aten.col2im", counted(1, 7, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1])


def cases(g):
    joins(g)
    turns(g)
    pads(g)
    shuffles(g)
    windows(g)
