"""Resizing and grid sampling."""
import torch

LINEAR = {1: "upsample_linear1d", 2: "upsample_bilinear2d", 3: "upsample_trilinear3d"}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def nearest(g):
    for n, size, to, scale in ((1, [5], [8], [1.6]), (2, [3, 5], [5, 3], [1.6, 0.5]), (2, [2, 3], [4, 6], [2.0, 2.0]),
                               (3, [2, 2, 3], [3, 3, 2], [1.6, 2.0, 0.75])):
        x = g.integers(-9, 10, 1, 2, *size).to(torch.float32)
        for name in (f"upsample_nearest{n}d", f"_upsample_nearest_exact{n}d"):
            g.case(f"aten.{name}", x, to)
            g.case(f"aten.{name}.vec", x, to, None)
            g.case(f"aten.{name}.vec", x, None, scale)
            if n == 2:
                g.case(f"aten.{name}.vec", x.contiguous(memory_format=torch.channels_last), None, scale)
                g.case(f"aten.{name}.vec", g.integers(0, 255, 1, 2, *size).to(torch.uint8), None, scale)
                for dtype in DTYPES[1:]:
                    g.case(f"aten.{name}", x.to(dtype), to)
    x = torch.arange(4.0)[None, None]
    g.case("aten.upsample_nearest1d.vec", x, None, [1.6])
    g.case("aten.upsample_nearest1d.vec", x, [6], None)
    g.case("aten._upsample_nearest_exact1d.vec", x, [6], None)


def weighted(g):
    for n, size, to, scale in ((1, [5], [8], [1.6]), (2, [3, 5], [5, 3], [1.6, 0.75]), (2, [2, 3], [4, 6], [2.0, 2.0]),
                               (2, [6, 4], [2, 4], [0.5, 1.1]), (3, [2, 2, 3], [3, 3, 2], [1.6, 2.0, 0.75])):
        x = g.integers(-9, 10, 1, 2, *size).to(torch.float32)
        names = [LINEAR[n]] + (["upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"] if n == 2 else [])
        for name in names:
            for align in (False, True):
                g.case(f"aten.{name}", x, to, align)
                g.case(f"aten.{name}.vec", x, None, align, scale)
            if n == 2:
                g.case(f"aten.{name}.vec", x.contiguous(memory_format=torch.channels_last), None, False, scale)
    for name in ("upsample_bilinear2d", "upsample_bicubic2d"):
        for dtype in DTYPES[1:]:
            g.case(f"aten.{name}", g.randn(1, 2, 4, 5, dtype=dtype), [7, 3], False)
    x = g.randn(1, 2, 4, 5)
    g.error("aten.upsample_bilinear2d", x, [0, 3], False)
    g.error("aten.upsample_bilinear2d.vec", x, [3, 3], False, [2.0, 2.0])
    g.error("aten.upsample_bilinear2d.vec", x, None, False, None)
    g.error("aten.upsample_bilinear2d", x[0], [3, 3], False)
    g.error("aten.upsample_nearest2d", x.long(), [3, 3])


def grids(g):
    x, grid = g.integers(-9, 10, 1, 2, 4, 5).to(torch.float32), g.uniform(-1.4, 1.4, 1, 2, 3, 2)
    for mode in range(3):
        for padding in range(3):
            for align in (False, True):
                g.case("aten.grid_sampler_2d", x, grid, mode, padding, align)
    for dtype in DTYPES[1:2]:
        g.case("aten.grid_sampler_2d", x.to(dtype), grid.to(dtype), 0, 0, False)
    g.case("aten.grid_sampler", x.permute(0, 1, 3, 2), grid, 0, 0, True)
    g.error("aten.grid_sampler_2d", x, grid[..., :1], 0, 0, False)


def cases(g):
    nearest(g)
    weighted(g)
    grids(g)
