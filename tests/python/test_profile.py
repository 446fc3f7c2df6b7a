"""`tenon profile` beside torch.profiler: operations, and the order of the rows."""

import json
import re

import pytest
import torch
from conftest import ROOT
from torch.profiler import ProfilerActivity, profile

STEPS = "onednn", "kernel", "copy"
DIGITS = ROOT / "examples" / "digits" / "digits.pt2"


class Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def conv(*arguments, **options):
    return torch.nn.Conv2d(*arguments, **options).eval(), torch.randn(2, arguments[0], 17, 15)


# torch.profiler knows convolutions in two dimensions, products of matrices, add and mul.
MODELS = {
    "conv": lambda: conv(3, 8, 3),
    "conv without bias": lambda: conv(3, 8, (3, 5), padding=(1, 2), bias=False),
    "conv strided": lambda: conv(4, 6, 3, stride=(2, 3), padding=1),
    "conv dilated": lambda: conv(4, 6, 3, dilation=2),
    "conv grouped": lambda: conv(8, 12, 3, groups=4),
    "conv depthwise": lambda: conv(8, 8, 3, groups=8, padding=1, bias=False),
    "convs": lambda: (
        torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.Conv2d(16, 8, 1)).eval(),
        torch.randn(1, 3, 20, 20),
    ),
    "linear": lambda: (torch.nn.Linear(40, 30).eval(), torch.randn(7, 40)),
    "linear of three dimensions": lambda: (torch.nn.Linear(40, 30).eval(), torch.randn(2, 5, 40)),
    "mm": lambda: (Call(torch.mm), torch.randn(5, 6), torch.randn(6, 7)),
    "bmm": lambda: (Call(torch.bmm), torch.randn(3, 5, 6), torch.randn(3, 6, 7)),
    "addmm": lambda: (Call(torch.addmm), torch.randn(5, 7), torch.randn(5, 6), torch.randn(6, 7)),
    "baddbmm": lambda: (
        Call(torch.baddbmm),
        *(torch.randn(3, 5, 7), torch.randn(3, 5, 6), torch.randn(3, 6, 7)),
    ),
    "matmul broadcast": lambda: (Call(torch.matmul), torch.randn(4, 5, 6), torch.randn(6, 7)),
    "add and mul": lambda: (
        Call(lambda x, y: (x + y) * y),
        *(torch.randn(3, 50, 40), torch.randn(3, 50, 40)),
    ),
}


@pytest.mark.parametrize("backend", ["auto", "onednn", "reference"])
@pytest.mark.parametrize("granularity", ["partition", "op"])
@pytest.mark.parametrize("name", MODELS)
def test_flops(tenon, tmp_path, name, granularity, backend):
    torch.manual_seed(0)
    module, *inputs = MODELS[name]()
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], with_flops=True) as profiler:
        module(*inputs)
    wanted = sum(average.flops for average in profiler.key_averages())
    assert wanted > 0
    archive, trace = tmp_path / "model.pt2", tmp_path / "trace.json"
    torch.export.save(torch.export.export(module, tuple(inputs)), archive)
    tenon(
        *("profile", archive, "--iterations", 1, "--flops", "--trace", trace),
        *("--granularity", granularity, "--backend", backend),
    )
    events = json.loads(trace.read_text())["traceEvents"]
    steps = [event["args"] for event in events if event.get("args", {}).get("Kind") in STEPS]
    assert sum(step["flops"] for step in steps) == wanted


def rows(text):
    """The table's rows: {title: text} each."""
    lines = text.splitlines()
    rule = next(line for line in lines if line.startswith("-----"))
    spans = [match.span() for match in re.finditer("-+", rule)]
    begin, middle, end = [i for i, line in enumerate(lines) if line == rule]
    assert middle == begin + 2
    titles = [lines[begin + 1][a:b].strip() for a, b in spans]
    cells = [[line[a:b].strip() for a, b in spans] for line in lines[middle + 1 : end]]
    return [dict(zip(titles, row)) for row in cells]


def number(text):
    """"1.5ms" in microseconds, "-2 KB" in bytes, counts as they are; "--" is nothing."""
    scales = {"us": 1, "ms": 1e3, "s": 1e6, "B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "": 1}
    if text == "--":
        return 0
    value, unit = re.fullmatch(r"(-?[\d.]+) ?(\w*)", text).groups()
    return float(value) * scales[unit]


SORTED = {
    "cpu_time": "CPU time avg",
    "cpu_time_total": "CPU total",
    "self_cpu_time_total": "Self CPU",
    "cpu_memory_usage": "CPU Mem",
    "self_cpu_memory_usage": "Self CPU Mem",
    "count": "# of Calls",
    "flops": None,
}


@pytest.mark.parametrize("key", SORTED)
def test_sort(tenon, key):
    symbol = re.search(r"symbols\n +(\w+):", tenon("info", DIGITS))[1]
    text = tenon(
        *("profile", DIGITS, "--dim", f"{symbol}=5", "--iterations", 3, "--memory", "--flops"),
        *("--sort", key, "--limit", -1, "--width", 200),
    )
    table = rows(text)
    title = SORTED[key] or next(title for title in table[0] if title.endswith("FLOPs"))
    values = [number(row[title]) for row in table]
    assert values == sorted(values, reverse=True)
    assert len(values) > 4 and values[0] > 0 or "memory" in key
    # torch.profiler has the same key.
    options = {"with_flops": True, "profile_memory": True}
    with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
        torch.mm(torch.ones(3, 3), torch.ones(3, 3))
    assert profiler.key_averages().table(sort_by=key)


def test_the_numbers_add_up(tenon):
    symbol = re.search(r"symbols\n +(\w+):", tenon("info", DIGITS))[1]
    text = tenon("profile", DIGITS, "--dim", f"{symbol}=5", "--limit", -1, "--width", 200)
    table = {row["Name"]: row for row in rows(text)}
    total = number(re.search(r"Self CPU time total: (\S+)", text)[1])
    assert sum(number(row["Self CPU"]) for row in table.values()) == pytest.approx(total, rel=1e-3)
    assert number(table["ProfilerStep*"]["CPU total"]) == pytest.approx(total, rel=1e-3)
    assert table["ProfilerStep*"]["# of Calls"] == table["tenon_context_run"]["# of Calls"] == "10"
    for row in table.values():
        assert number(row["Self CPU"]) <= number(row["CPU total"])
        average = number(row["CPU total"]) / number(row["# of Calls"])
        assert number(row["CPU time avg"]) == pytest.approx(average, rel=1e-2, abs=1e-3)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.act = torch.nn.ReLU()

    def forward(self, x):
        return x + self.act(self.conv(x))


def module_paths(text):
    """The tree of modules by path, with the numbers of each."""
    rows = text[text.index("\n(model) ") :].splitlines()[2:]
    path, found = [], {}
    for line in rows:
        if line.startswith("---"):
            break
        depth = (len(line) - len(line.lstrip())) // 2
        name, *numbers = line.split()
        path[depth - 1 :] = [name]
        found[".".join(path)] = numbers
    return found


@pytest.mark.parametrize("granularity", ["partition", "op"])
def test_modules(tenon, tmp_path, granularity):
    model = torch.nn.Sequential(Block(), Block(), torch.nn.Flatten(), torch.nn.Linear(512, 4))
    archive = tmp_path / "model.pt2"
    program = torch.export.export(model.eval(), (torch.randn(1, 8, 8, 8),))
    torch.export.save(program, archive)
    text = tenon(
        *("profile", archive, "--by-module", "--limit", -1, "--backend", "onednn"),
        *("--granularity", granularity),
    )
    found = module_paths(text)
    assert set(found) <= {name for name, _ in model.named_modules()}
    assert {"0.conv", "0.act", "1.conv", "1.act", "3"} <= set(found)
    assert ("perturbed" in text) == (granularity == "op")
    assert ("\nEstimated: " in text) == (granularity == "partition")
    assert (found["0.conv"][4] == "--") == (granularity == "op")
