"""Pooling."""
import torch

NAN, INF = float("nan"), float("inf")
# size, kernel, stride ([]: the kernel), padding, dilation, ceil
WINDOWS = [
    ([7], [3], [2], [1], [1], False),
    ([8], [2], [], [0], [1], False),
    ([9], [3], [2], [1], [2], True),
    ([6, 7], [3, 3], [2, 2], [1, 1], [1, 1], False),
    ([6, 7], [2, 3], [], [1, 0], [1, 1], True),
    ([7, 9], [2, 3], [1, 3], [0, 1], [2, 1], True),
    ([5, 5], [5, 5], [1, 1], [2, 2], [1, 1], False),
    ([3, 4, 5], [2, 3, 2], [2, 1, 2], [1, 1, 0], [1, 1, 2], False),
    ([4, 3, 4], [3, 2, 3], [], [1, 1, 1], [1, 1, 1], True),
]


def spoiled(x, g):
    """Some NaN, some minus infinity, many equal values."""
    x = x.clone()
    x.view(-1)[g.integers(0, x.numel(), x.numel() // 12)] = NAN
    x.view(-1)[g.integers(0, x.numel(), x.numel() // 8)] = -INF
    return x


def windows(g):
    for size, kernel, stride, padding, dilation, ceil in WINDOWS:
        n = len(size)
        for last in (False, True) if n == 2 else (False,):
            x = g.integers(-9, 10, 1 + (n == 1), 2, *size).to(torch.float32)
            y = spoiled(x, g)
            if last:
                x = x.contiguous(memory_format=torch.channels_last)
                y = y.contiguous(memory_format=torch.channels_last)
            name = f"aten.max_pool{n}d"
            g.case(name, x, kernel, stride, padding, dilation, ceil)
            g.case(name + "_with_indices", y, kernel, stride, padding, dilation, ceil)
            name = f"aten.avg_pool{n}d"
            g.case(name, x, kernel, stride, padding, ceil, True)
            g.case(name, x, kernel, stride, padding, ceil, False)
            if n > 1 and not last:
                g.case(name, x, kernel, stride, padding, ceil, True, 4)
        one = g.integers(-9, 10, 2, *size).to(torch.float32)
        g.case(f"aten.max_pool{n}d", one, kernel, stride, padding, dilation, ceil)
        g.case(f"aten.avg_pool{n}d", one, kernel, stride, padding, ceil, False)


def dtypes(g):
    size, kernel, stride, padding, dilation, ceil = WINDOWS[3]
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        x = g.randn(1, 2, *size, dtype=dtype)
        g.case("aten.max_pool2d_with_indices", x, kernel, stride, padding, dilation, ceil)
        g.case("aten.avg_pool2d", x, kernel, stride, padding, ceil, True)
        g.case("aten._adaptive_avg_pool2d", x, [3, 2])
        g.case("aten.adaptive_max_pool2d", x, [2, 3])
    for dtype in (torch.int64, torch.int32, torch.uint8):
        x = g.integers(0, 99, 1, 2, *size).to(dtype)
        g.case("aten.max_pool2d", x, kernel, stride, padding, dilation, ceil)
    g.case("aten.avg_pool2d", g.integers(-50, 50, 1, 2, *size), kernel, stride, padding, ceil, True)
    ones = torch.ones(1, 1, 32, 32, dtype=torch.bfloat16)
    g.case("aten.avg_pool2d", ones, [32, 32])
    g.case("aten._adaptive_avg_pool2d", ones, [1, 1])


def adaptive(g):
    x = g.integers(-9, 10, 1, 2, 5, 7).to(torch.float32)
    last = x.contiguous(memory_format=torch.channels_last)
    for size in ([1, 1], [2, 3], [6, 7]):
        for y in (x, last, x[0]):
            g.case("aten.adaptive_avg_pool2d", y, size)
            g.case("aten._adaptive_avg_pool2d", y, size)
            g.case("aten.adaptive_max_pool2d", spoiled(y, g) if y is x else y, size)
    g.case("aten.adaptive_avg_pool1d", x[0], [3])
    g.case("aten.adaptive_max_pool1d", x[0], [3])
    g.case("aten.adaptive_avg_pool3d", g.randn(1, 2, 3, 4, 5), [2, 2, 3])
    g.case("aten._adaptive_avg_pool3d", g.randn(1, 2, 3, 4, 5), [1, 1, 1])
    g.case("aten.adaptive_max_pool3d", g.randn(1, 2, 3, 4, 5), [2, 3, 2])


def errors(g):
    x = g.randn(1, 1, 4, 4)
    g.error("aten.max_pool2d", x, [3, 3], [1, 1], [2, 2])
    g.error("aten.max_pool2d", x, [0, 3])
    g.error("aten.max_pool2d", x, [5, 5], [1, 1], [0, 0])
    g.error("aten.max_pool2d", x, [2, 2], [1, 1], [0, 0], [0, 1])
    g.error("aten.avg_pool2d", x, [2, 2], [1, 1], [0, 0], False, True, 0)
    g.error("aten.avg_pool2d", x[0, 0], [2, 2])
    g.error("aten.avg_pool2d", x, [2, 2, 2])


def cases(g):
    windows(g)
    dtypes(g)
    adaptive(g)
    errors(g)
