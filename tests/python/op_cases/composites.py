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


def cases(g):
    legit_norms(g)
