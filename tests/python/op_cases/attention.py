"""Scaled dot-product attention."""
import torch

NAN, INF = float("nan"), float("inf")
OP = "aten.scaled_dot_product_attention"


def cases(g):
    def heads(b, h, length, width, dtype=torch.float32):
        return g.randn(b, h, length, width, dtype=dtype)

    for dtype, tolerance in ((torch.float32, {}), (torch.float64, {}),
                             (torch.bfloat16, {"rtol": 0.05, "atol": 0.05}),
                             (torch.float16, {"rtol": 0.01, "atol": 0.01})):
        q, k, v = heads(1, 2, 3, 4, dtype), heads(1, 2, 5, 4, dtype), heads(1, 2, 5, 6, dtype)
        g.case(OP, q, k, v, **tolerance)
        g.case(OP, q, k, v, scale=0.25, is_causal=True, **tolerance)
        if dtype in (torch.float64, torch.float16):
            continue
        g.case(OP, q, k, v, g.bools(3, 5), **tolerance)
        g.case(OP, q, k, v, heads(1, 1, 3, 5, dtype), **tolerance)
    q, k, v = heads(2, 4, 3, 4), heads(2, 2, 3, 4), heads(2, 2, 3, 4)
    g.case(OP, q, k, v, enable_gqa=True)
    g.case(OP, q, k[:, :1], v, g.bools(2, 1, 1, 3), enable_gqa=True)
    g.case(OP, q[0], q[1], q[0], is_causal=True)
    g.case(OP, q[0, 0], q[1, 0], q[0, 1])
    turned = g.randn(2, 3, 2, 4).transpose(1, 2)
    g.case(OP, turned, turned, turned)
    g.case(OP, q, q, q, g.bools(2, 1, 1, 3))
    g.case(OP, q, q, q, g.bools(3)[None].expand(3, 3))
    mask = torch.zeros(3, 3)
    mask[0, 1:] = mask[1] = -INF
    g.case(OP, q, q, q, mask)
    g.case(OP, q, q, q, g.randn(3, 3), is_causal=True)
    g.case(OP, heads(1, 1, 1, 4), heads(1, 1, 7, 4), heads(1, 1, 7, 4))
    g.case(OP, heads(1, 1, 2, 3), heads(1, 1, 0, 3), heads(1, 1, 0, 5))
    g.error(OP, q, k, v)
    g.error(OP, q, q, q, torch.zeros(3, 3).double())
    g.error(OP, q, q[..., :3], q)
    g.error(OP, q, q.double(), q)
