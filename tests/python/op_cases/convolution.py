"""Convolutions."""
import torch

# n, groups, channels of a group in and out, then size, kernel, stride, padding, dilation of each dimension
ORDINARY = [
    (2, 1, 3, 4, [(6, 3, 1, 1, 1)]),
    (1, 2, 2, 3, [(7, 2, 2, 0, 2)]),
    (2, 1, 3, 5, [(5, 3, 1, 1, 1), (6, 3, 1, 1, 1)]),
    (1, 1, 4, 17, [(3, 1, 1, 0, 1), (2, 1, 1, 0, 1)]),
    (1, 1, 4, 3, [(5, 1, 2, 0, 1), (4, 1, 2, 0, 1)]),
    (1, 1, 2, 2, [(9, 3, 2, 2, 2), (7, 2, 3, 1, 1)]),
    (1, 2, 2, 2, [(4, 3, 1, 1, 1), (5, 2, 1, 0, 1)]),
    (2, 5, 1, 1, [(5, 3, 1, 1, 1), (6, 3, 2, 1, 1)]),
    (1, 3, 1, 2, [(5, 3, 1, 2, 2), (5, 3, 3, 1, 1)]),
    (1, 1, 2, 3, [(4, 2, 1, 1, 1), (3, 3, 1, 1, 1), (4, 2, 2, 1, 1)]),
    (1, 2, 1, 1, [(3, 2, 1, 0, 1), (4, 3, 2, 1, 1), (3, 1, 1, 1, 1)]),
]
# the same, with output padding at the end of each dimension
TRANSPOSED = [
    (1, 1, 2, 3, [(4, 3, 2, 1, 1, 1)]),
    (2, 1, 2, 3, [(3, 3, 2, 1, 1, 1), (4, 3, 2, 1, 1, 1)]),
    (1, 2, 2, 1, [(3, 2, 1, 0, 1, 0), (2, 3, 1, 1, 1, 0)]),
    (1, 1, 2, 2, [(2, 2, 3, 0, 1, 2), (3, 1, 2, 0, 1, 1)]),
    (1, 1, 1, 2, [(4, 3, 2, 3, 3, 2), (3, 3, 1, 2, 2, 1)]),
    (1, 3, 1, 1, [(3, 3, 2, 1, 1, 0), (3, 3, 2, 1, 1, 0)]),
    (1, 1, 2, 2, [(2, 2, 2, 0, 1, 0), (2, 3, 1, 1, 1, 0), (3, 2, 2, 1, 1, 1)]),
]


def layouts(x):
    if x.dim() == 4:
        return [x, x.contiguous(memory_format=torch.channels_last)]
    return [x]


def cases(g):
    def values(dtype, *shape):
        return g.integers(-6, 7, *shape).to(dtype) / (4 if dtype.is_floating_point else 1)

    def case(spec, dtype, transposed, bias, last):
        n, groups, inner, outer, dims = spec
        size, kernel, stride, padding, dilation = (list(x) for x in list(zip(*dims))[:5])
        extra = list(list(zip(*dims))[5]) if transposed else [0] * len(dims)
        x = values(dtype, n, groups * inner, *size)
        shape = (groups * inner, outer) if transposed else (groups * outer, inner)
        w, b = values(dtype, *shape, *kernel), values(dtype, groups * outer) if bias else None
        x = layouts(x)[-1 if last else 0]
        g.case("aten.convolution", x, w, b, stride, padding, dilation, transposed, extra, groups)

    for i, spec in enumerate(ORDINARY):
        case(spec, torch.float32, False, i % 2 == 0, False)
        if len(spec[4]) == 2:
            case(spec, torch.float32, False, i % 2 == 1, True)
    for i, spec in enumerate(TRANSPOSED):
        case(spec, torch.float32, True, i % 2 == 0, i % 3 == 2)
        if i % 2:
            case(spec, torch.float64, True, True, False)
    for dtype in (torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32):
        for spec in ORDINARY[2:8:2]:
            case(spec, dtype, False, True, False)
    case(TRANSPOSED[1], torch.bfloat16, True, True, False)
    case((0, 1, 2, 2, [(4, 3, 1, 1, 1), (4, 3, 1, 1, 1)]), torch.float32, False, True, False)

    x, w = values(torch.float32, 1, 4, 5, 5), values(torch.float32, 6, 2, 3, 3)
    same = [1, 1], [0, 0], [1, 1]
    g.error("aten.convolution", x, w, None, *same, False, [0, 0], 1)
    g.error("aten.convolution", x, w, None, *same, False, [0, 0], 4)
    g.error("aten.convolution", x, w, values(torch.float32, 5), *same, False, [0, 0], 2)
    g.error("aten.convolution", x, w, None, [1, 1], [0, 0], [3, 1], False, [0, 0], 2)
    g.error("aten.convolution", x, w, None, [0, 1], [0, 0], [1, 1], False, [0, 0], 2)
    g.error("aten.convolution", x, w, None, [1, 1], [-1, 0], [1, 1], False, [0, 0], 2)
    g.error("aten.convolution", x, w[0], None, *same, False, [0, 0], 2)
