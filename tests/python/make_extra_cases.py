"""Makes the archives in tests/data/pt2-extra: programs that PyTorch's own conformance cases beside it leave out.

    python tests/python/make_extra_cases.py

Each case is a .pt2 and a .json in the form that tests/data/pt2-cases/README.md describes. The values in the .json are eager
PyTorch's. Inputs are seeded, so that a second run of this script writes the same values.
"""

import copy
import json
import math
import re
import zlib
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim, export

OUT = Path(__file__).resolve().parents[1] / "data" / "pt2-extra"
TOLERANCE = {"float64": [1e-7, 1e-9], "float32": [1e-5, 1e-5]}


def scalar(value):
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    return value


def describe(value):
    if isinstance(value, torch.Tensor):
        return {
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "values": [scalar(v) for v in value.detach().contiguous().flatten().tolist()],
        }
    kinds = {int: "int", float: "float", bool: "bool", str: "str", type(None): "none"}
    return {"kind": kinds[type(value)], "value": scalar(value)}


def flat(value):
    return torch.utils._pytree.tree_leaves(value)


def strip_folders(program):
    """Stack traces name files of this machine: only their last parts stay."""
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", ()):
            if node.meta.get("stack_trace"):
                node.meta["stack_trace"] = re.sub(r'File "[^"]*/', 'File "', node.meta["stack_trace"])


def case(name, topic, module, runs, *, names, kwargs=None, dynamic=None, modes=("raw", "core"), stateful=False,
         expect="run", reason=None, prepare=None):
    """`runs` lists tuples of positional inputs, the first of them for the export; a run may end in {"error": why}."""
    for mode in modes:
        program_module = copy.deepcopy(module)
        keywords = kwargs or {}
        program = export(program_module, copy.deepcopy(runs[0]), keywords, dynamic_shapes=dynamic)
        if mode == "core":
            program = program.run_decompositions()
        strip_folders(program)
        stem = OUT / f"{name}_{mode}"
        torch.export.save(program, f"{stem}.pt2")
        eager = copy.deepcopy(module)
        described = []
        for run in runs:
            error = run[-1]["error"] if run and isinstance(run[-1], dict) and "error" in run[-1] else None
            args = run[:-1] if error else run
            given = flat(args) + flat(keywords)
            item = {"inputs": [{"name": n, **describe(v)} for n, v in zip(names, given)]}
            if error:
                item["error"] = error
                described.append(item)
                continue
            if not stateful:
                eager = copy.deepcopy(module)
            before = {k: v.clone() for k, v in eager.state_dict().items()}
            args = copy.deepcopy(args)
            item["outputs"] = [describe(v) for v in flat(eager(*args, **keywords))]
            changed = {n: describe(v) for n, v, w in zip(names, flat(args), given)
                       if isinstance(v, torch.Tensor) and not torch.equal(v, w)}
            if changed:
                item["inputs_after"] = changed
            state = {k: describe(v) for k, v in eager.state_dict().items() if not torch.equal(v, before[k])}
            if state:
                item["state_after"] = state
            described.append(item)
        facts = {"topic": topic, "what": type(module).__doc__ or "", "mode": mode, "expect": expect}
        if reason:
            facts["reason"] = reason
        facts |= {"torch": torch.__version__.split("+")[0], "stateful": stateful, "tolerance": TOLERANCE, "runs": described}
        stem.with_suffix(".json").write_text(json.dumps(facts) + "\n")


class Returned(nn.Module):
    """a mutated buffer and a mutated input, returned beside other outputs; the initial value counts"""

    def __init__(self):
        super().__init__()
        self.register_buffer("c", torch.tensor([5.0, 5.0]))
        self.register_buffer("k", torch.ones(3, 2).t())

    def forward(self, x, y):
        self.c += 1
        y *= 2
        z = x + self.c
        return x, z, z, self.c, self.k


class Quarter(nn.Module):
    """an input whose size is four times a symbol that stands nowhere alone"""

    def forward(self, x):
        return x.view(4, -1).sum(0), x.reshape(-1, 4)[1:]


class Names(nn.Module):
    """a buffer, a parameter and an input of the same name; a module called twice"""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.x = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("add", torch.tensor([0.5]))

    def forward(self, x, scale=None):
        y = self.fc(self.fc(x) * self.x) + self.add
        return {"add": y, "scale": y * scale}


class Branches(nn.Module):
    """cond on a symbolic size, nested in cond on a tensor; two results, one of them a tuple"""

    def forward(self, x):
        def small(a):
            return a * 2, a - 1

        def large(a):
            return a / 2, a + 1

        def by_size(a):
            return torch.cond(a.shape[0] > 4, large, small, (a,))

        def keep(a):
            return a + 0, a * 1

        return torch.cond(x.sum() > 0, by_size, keep, (x,))


class Guarded(nn.Module):
    """no_grad around in-place writes to a buffer, through a view of it"""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2, 3))

    def forward(self, x):
        with torch.no_grad():
            self.seen[0].add_(x.sum(0))
            row = self.seen.t()[1]
            row.mul_(0.5)
        return x + self.seen


class Flags(nn.Module):
    """bool and integer state; a float input"""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False, True]))
        self.register_buffer("index", torch.tensor([2, 0, 1], dtype=torch.int32))

    def forward(self, x):
        return torch.where(self.mask, x, -x)[self.index.long()], self.mask.logical_not(), self.mask & (x > 0)


class Numbers(nn.Module):
    """sizes in arithmetic: //, %, min, max, float division, and as outputs"""

    def forward(self, x, y):
        a, b = x.shape[0], y.shape[0]
        half = a // 2 + b % 3
        most, least = torch.sym_max(a, b), torch.sym_min(a, b)
        return x.sum() * (a / b), torch.zeros(half), a + b, torch.ones(least), y.new_full((most,), 1.0 / a)


class Tied(nn.Module):
    """two buffers of one storage, one of them changed"""

    def __init__(self):
        super().__init__()
        base = torch.zeros(4)
        self.register_buffer("a", base[:2])
        self.register_buffer("b", base[1:3])

    def forward(self, x):
        self.a.add_(x)
        return self.b + x


class Outside(nn.Module):
    """autocast that is switched off, inside forward"""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        with torch.autocast("cpu", enabled=False):
            y = self.fc(x)
        return y.relu()


class Inside(nn.Module):
    """a region under autocast to bfloat16"""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.fc(x)
        return y.float()


class Dropout(nn.Module):
    """dropout in training mode"""

    def forward(self, x):
        return nn.functional.dropout(x, 0.5, training=True)


class Item(nn.Module):
    """a number read out of a tensor, with checks on it"""

    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= 4)
        return x[:2] * k


class Counted(nn.Module):
    """numbers read out of tensors as operands of several operators"""

    def forward(self, x, n, f, mask):
        k, scale = n.item() * 3 - 1, f.max().item()
        y = torch.clamp(x, max=scale) + k
        y = torch.where(mask, y, -n.item())
        n.add_(1)
        return y * scale, x.masked_fill(mask, scale), n + k


class Sized(nn.Module):
    """a number read out of a tensor as a size"""

    def forward(self, x, n):
        k = n.item()
        torch._check(k >= 0)
        return x.sum() + torch.zeros(k)


def main():
    torch.manual_seed(zlib.crc32(b"extra cases"))
    OUT.mkdir(parents=True, exist_ok=True)
    two = torch.ones(2)
    case("returned", "mutations", Returned(), [(two, two.clone()), (two * 3, two * 2)], names=["x", "y"], stateful=True)
    s = Dim("s", min=1, max=16)
    case("quarter", "symbols", Quarter(), [(torch.randn(8),), (torch.randn(20),), (torch.randn(6), {"error": "not a multiple of 4"}),
                                           (torch.randn(80), {"error": "above the maximum"})],
         names=["x"], dynamic=({0: 4 * s},), modes=("raw",))
    case("names", "names", Names(), [(torch.randn(2, 3),)], names=["x", "scale"], kwargs={"scale": torch.randn(3)})
    case("branches", "cond", Branches(), [(torch.rand(3),), (torch.rand(7),), (-torch.rand(3),), (-torch.rand(6),)],
         names=["x"], dynamic=({0: Dim("n", min=2, max=9)},))
    case("guarded", "in-place", Guarded(), [(torch.randn(2, 3),), (torch.randn(2, 3),)], names=["x"], stateful=True)
    case("flags", "dtypes", Flags(), [(torch.randn(3),), (torch.randn(3),)], names=["x"])
    case("numbers", "symbols", Numbers(), [(torch.randn(6), torch.randn(4)), (torch.randn(2), torch.randn(5)), (torch.randn(5), torch.randn(5))],
         names=["x", "y"], dynamic=({0: Dim("a", min=2, max=9)}, {0: Dim("b", min=2, max=9)}))
    case("tied", "shared state", Tied(), [(torch.randn(2),), (torch.randn(2),)], names=["x"], stateful=True, expect="may-refuse",
         reason="state that shares memory", modes=("raw",))
    case("outside", "autocast", Outside(), [(torch.randn(2, 3),)], names=["x"])
    case("inside", "autocast", Inside(), [(torch.randn(2, 3),)], names=["x"], expect="may-refuse", modes=("raw",),
         reason="a region under autocast")
    case("dropout", "must refuse: random numbers", Dropout(), [(torch.randn(3),)], names=["x"], expect="refuse", modes=("raw",),
         reason="dropout in training")
    case("item", "data-dependent", Item(), [(torch.randn(4), torch.tensor(2)), (torch.randn(4), torch.tensor(3))], names=["x", "n"])
    numbers = [(torch.randn(2, 3), torch.tensor(n), torch.randn(3), torch.rand(2, 3) > 0.5) for n in (2, -5)]
    case("counted", "data-dependent", Counted(), numbers, names=["x", "n", "f", "mask"], stateful=True)
    case("sized", "data-dependent", Sized(), [(torch.randn(4), torch.tensor(2))], names=["x", "n"], expect="refuse", modes=("raw",),
         reason="a size that data decide")


if __name__ == "__main__":
    main()
