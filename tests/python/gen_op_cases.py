#!/usr/bin/env python3
"""Makes tests/data/ops/*.json: calls of operators with the outputs that PyTorch gives.

Each module tests/python/op_cases/NAME.py has a function `cases(g)` and becomes tests/data/ops/NAME.json,
which tests/c/test_op_cases.c runs through the kernels at every ISA level, layout and thread count. A case is

    g.case("aten.add.Tensor", g.randn(2, 3), g.randn(3), alpha=2)

with tensors, numbers, strings, dtypes, None and lists of them, positional or by name. The inputs' strides are
kept: g.randn(3, 2).t() tests a transposed input, g.randn(1, 3).expand(2, 3) one of stride 0. An operator that
raises in PyTorch must fail in Tenon: g.error("aten.floor_divide", g.ints(3), 0); it may fail when the node is
made or when it runs. `rtol` and `atol` replace the tolerances of the output's dtype (torch.testing's).

    gen_op_cases.py [--check] [NAME ...]      (--check only says which files would change)
"""
import argparse
import importlib
import json
import math
import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parent
DATA = ROOT.parent / "data" / "ops"


def number(x):
    """A JSON number, or a string for what JSON's doubles cannot say."""
    if isinstance(x, bool):
        return int(x)
    if isinstance(x, int):
        return x if abs(x) < 2**53 else str(x)
    if math.isnan(x) or math.isinf(x):
        return str(x)
    return int(x) if x == int(x) and abs(x) < 2**53 and (x != 0 or math.copysign(1, x) > 0) else x


def shortest(x, dtype, most=17):
    """The shortest decimal that rounds to the same element, or `most` digits; of float64, 12 digits."""
    if not dtype.is_floating_point:
        return number(x)
    if dtype == torch.float64 and math.isfinite(x):
        x = float(f"{x:.12g}")
    if x == 0 or math.isnan(x) or math.isinf(x) or dtype == torch.float64:
        return number(x) if x != 0 or math.copysign(1, x) > 0 else "-0.0"
    for digits in range(1, 18):
        text = f"{x:.{digits}g}"
        if digits == most or torch.tensor(float(text), dtype=torch.float64).to(dtype).item() == x:
            return number(float(text))
    return x


def dtype_text(dtype):
    return str(dtype).removeprefix("torch.")


class Generator:
    def __init__(self, name):
        self.cases = []
        self.random = torch.Generator().manual_seed(sum(name.encode()))

    # ---- Inputs: few digits, so that the files stay small ----

    def randn(self, *shape, dtype=torch.float32, scale=1.0):
        x = torch.randn(shape, generator=self.random, dtype=torch.float64) * scale
        return torch.round(x * 64).div(64).to(dtype)

    def uniform(self, low, high, *shape, dtype=torch.float32):
        x = torch.rand(shape, generator=self.random, dtype=torch.float64) * (high - low) + low
        return torch.round(x * 256).div(256).to(dtype)

    def integers(self, low, high, *shape, dtype=torch.int64):
        return torch.randint(low, high, shape, generator=self.random).to(dtype)

    def bools(self, *shape):
        return torch.randint(0, 2, shape, generator=self.random).bool()

    # ---- Cases ----

    def tensor(self, x, digits=17):
        out = {"dtype": dtype_text(x.dtype), "shape": list(x.shape)}
        if x.is_contiguous():
            flat = x.reshape(-1)
        else:
            # The span of storage that the elements lie in, seen flat.
            last = sum((n - 1) * s for n, s in zip(x.shape, x.stride()))
            out["strides"] = list(x.stride())
            flat = torch.as_strided(x, (last + 1,), (1,)) if x.numel() else x.reshape(-1)
        values = flat.double().tolist() if x.dtype.is_floating_point else flat.tolist()
        values = [shortest(v, x.dtype, digits) for v in values]
        if len(values) > 1 and all(v == values[0] for v in values):
            values = values[:1]  # one value stands for all
        out["data"] = values
        return out

    def arg(self, x, tensors):
        if isinstance(x, torch.Tensor):
            tensors.append(self.tensor(x))
            return {"t": len(tensors) - 1}
        if x is None:
            return {"n": 1}
        if isinstance(x, bool):
            return {"b": int(x)}
        if isinstance(x, int):
            return {"i": number(x)}
        if isinstance(x, float):
            return {"f": number(x)}
        if isinstance(x, str):
            return {"s": x}
        if isinstance(x, torch.dtype):
            return {"d": dtype_text(x)}
        if isinstance(x, torch.memory_format):
            formats = [torch.contiguous_format, torch.preserve_format, torch.channels_last]
            return {"i": formats.index(x)}
        return {"l": [self.arg(item, tensors) for item in x]}

    def add(self, op, args, kwargs, fails, rtol, atol):
        namespace, name, *overload = op.split(".")
        packet = getattr(getattr(torch.ops, namespace), name)
        function = getattr(packet, overload[0] if overload else "default")
        given = dict(zip([p.name for p in function._schema.arguments], args))
        given.update(kwargs)
        tensors = []
        case = {"op": op, "args": []}
        for parameter in function._schema.arguments:
            if parameter.name in given:
                case["args"].append(self.arg(given.pop(parameter.name), tensors))
            else:
                case["args"].append({})  # the default
        while case["args"] and not case["args"][-1]:
            case["args"].pop()
        assert not given, f"{op} has no parameters {list(given)}"
        case["inputs"] = tensors
        try:
            outputs = function(*args, **kwargs)
        except Exception as error:
            if not fails:
                raise RuntimeError(f"{op} {args} {kwargs}") from error
            case["fails"] = 1
        else:
            assert not fails, f"{op} {args} {kwargs} does not fail"
            outputs = [outputs] if isinstance(outputs, torch.Tensor) else list(outputs)
            digits = 17 if rtol == 0 else 8
            case["outputs"] = [
                {} if o is None else self.tensor(o.detach().contiguous(), digits) for o in outputs
            ]
            if rtol is not None:
                case["rtol"] = rtol
            if atol is not None:
                case["atol"] = atol
        self.cases.append(case)

    def case(self, op, *args, rtol=None, atol=None, **kwargs):
        self.add(op, args, kwargs, False, rtol, atol)

    def error(self, op, *args, **kwargs):
        self.add(op, args, kwargs, True, None, None)


def text_of(cases):
    lines = [json.dumps(case, separators=(",", ":")) for case in cases]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say which files would change")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    names = options.names or sorted(p.stem for p in (ROOT / "op_cases").glob("[a-z]*.py"))
    differ = 0
    for name in names:
        generator = Generator(name)
        importlib.import_module(f"op_cases.{name}").cases(generator)
        text = text_of(generator.cases)
        path = DATA / f"{name}.json"
        if options.check:
            same = path.exists() and path.read_text() == text
            differ += not same
            print(f"{name}: {len(generator.cases)} cases, {'same' if same else 'DIFFERENT'}")
        else:
            path.write_text(text)
            print(f"{name}: {len(generator.cases)} cases, {len(text)} bytes")
    return differ != 0


if __name__ == "__main__":
    sys.exit(main())
