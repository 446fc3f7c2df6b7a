"""Execution graphs against the plan that `tenon explain` tells of, and against PyTorch's form."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import ROOT
from explain_facts import explain
from torch import nn
from torch.profiler import ExecutionTraceObserver

DIGITS = ROOT / "examples" / "digits" / "digits.pt2"
RUN = "tenon_context_run"


class Views(nn.Module):
    """Views of views, parts of values, values used twice, state that is written."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(8, 16)
        self.register_buffer("count", torch.zeros(16))

    def forward(self, x):
        a, b = self.first(x).chunk(2, dim=-1)
        y = (a * torch.sigmoid(b)).reshape(-1, 4, 8)[:, 1:].transpose(0, 1)
        self.count += 1
        z = self.second(torch.relu(y)) + self.count
        return z, torch.softmax(z, -1).flatten(1), torch.cat([a, b, a])[2:]


@pytest.fixture(scope="module")
def views_model(tmp_path_factory):
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("views") / "views.pt2"
    torch.export.save(torch.export.export(Views().eval(), (torch.randn(6, 16),)), path)
    return path


def write_trace(tenon, model, trace, *shapes):
    script = Path(__file__).with_name("execution_run.py")
    subprocess.run([sys.executable, script, tenon.library, model, trace, *shapes], check=True)


def strict(text):
    def refuse(name):
        raise ValueError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def attributes(node):
    return {item["name"]: item["value"] for item in node["attrs"]}


def tensors(side):
    """The tensors of a side of a node, those in lists too: (value, shape, strides)."""
    for value, shape, kind, strides in zip(*(side[key] for key in ["values", "shapes", "types", "strides"])):
        if kind.startswith("Tensor("):
            yield value, shape, strides
        elif kind.startswith("GenericList[Tensor("):
            kinds = kind.removeprefix("GenericList[").removesuffix("]").split(",")
            for item in zip(value, shape, strides, kinds):
                if item[3] != "None":
                    yield item[:3]


def check_ids(trace):
    """Nodes stand in the order of their ids, below nodes that came before; what a step reads was
    made before it, or is an input of the run, or a weight. Returns the ids of weights."""
    last, seen, made, weights = 0, set(), set(), set()
    for node in trace["nodes"]:
        assert node["id"] > last
        last = node["id"]
        seen.add(node["id"])
        assert node["ctrl_deps"] in seen
        for side in [node["inputs"], node["outputs"]]:
            assert len({len(side[key]) for key in ["values", "shapes", "types", "strides"]}) == 1
        if node["name"] == RUN:
            made = {value[0] for value, *_ in tensors(node["inputs"])}
            wanted = {value[0] for value, *_ in tensors(node["outputs"])}
            continue
        weights |= {value[0] for value, *_ in tensors(node["inputs"])} - made
        made |= {value[0] for value, *_ in tensors(node["outputs"])}
    assert wanted <= made
    return weights


def runs_of(trace):
    """The steps and views below each run, in order, and what is fused below each step."""
    runs = {node["id"]: [] for node in trace["nodes"] if node["name"] == RUN}
    fused = {}
    for node in trace["nodes"]:
        if node["ctrl_deps"] in runs:
            runs[node["ctrl_deps"]].append(node)
            fused[node["id"]] = []
        elif node["ctrl_deps"] in fused:
            fused[node["ctrl_deps"]].append(node)
    return list(runs.values()), fused


def check_run(facts, nodes, fused):
    """Every step of the plan, with its nodes, and between steps the values that explain tells of."""
    steps = [node for node in nodes if attributes(node)["kind"] != "view"]
    assert len(steps) == len(facts["steps"])
    assert len(nodes) - len(steps) == facts["plan"]["views"]
    maker = {}  # by tensor: the step that computed its memory
    number = -1
    for node in nodes:
        inputs = list(tensors(node["inputs"]))
        if attributes(node)["kind"] == "view":
            source = maker.get(inputs[0][0][0], -1)
            for value, *_ in tensors(node["outputs"]):
                assert value[1] == inputs[0][0][1], "a view lies in another storage"
                maker[value[0]] = source
            continue
        number += 1
        step = facts["steps"][number]
        if step["where"] == "onednn":
            assert node["name"] == step["title"]
            assert [attributes(part)["node"] for part in fused[node["id"]]] == step["nodes"]
        else:
            assert node["name"] == step["title"].replace(".", "::", 1).split(".")[0]
            assert [attributes(node)["node"]] == step["nodes"]
        got = {(maker.get(value[0], -1), *map(tuple, rest)) for value, *rest in inputs}
        expected = {(item["from_step"], tuple(item["shape"]), tuple(item["strides"])) for item in step["inputs"]}
        assert got == expected, step["title"]
        outputs = list(tensors(node["outputs"]))
        assert [rest for _, *rest in outputs] == [[item["shape"], item["strides"]] for item in step["outputs"]]
        maker |= {value[0]: number for value, *_ in outputs}


def test_trace_of_digits(tenon, tmp_path):
    write_trace(tenon, DIGITS, tmp_path / "trace.json.gz", "2x1x8x8", "5x1x8x8", "2x1x8x8")
    trace = strict(gzip.decompress((tmp_path / "trace.json.gz").read_bytes()))
    runs, fused = runs_of(trace)
    assert len(runs) == 3
    for nodes, rows in zip(runs, [2, 5, 2]):
        check_run(explain(tenon, DIGITS, tmp_path, "--dim", f"s34={rows}"), nodes, fused)
    # Each shape's plan has its own tensors of the weights, in the same storages.
    facts = explain(tenon, DIGITS, tmp_path, "--dim", "s34=2")
    constants = {item["value"] for step in facts["steps"] for item in step["inputs"] if item["constant"]}
    assert len(check_ids(trace)) == 2 * len(constants)


def test_trace_of_views_and_state(tenon, views_model, tmp_path):
    write_trace(tenon, views_model, tmp_path / "trace.json", "6x16", "6x16")
    trace = strict((tmp_path / "trace.json").read_text())
    facts = explain(tenon, views_model, tmp_path)
    assert facts["plan"]["views"] > 2
    runs, fused = runs_of(trace)
    assert len(runs) == 2
    for nodes in runs:
        check_run(facts, nodes, fused)
    check_ids(trace)


def test_form_is_that_of_pytorch(tenon, views_model, tmp_path):
    observer = ExecutionTraceObserver().register_callback(str(tmp_path / "torch.json"))
    observer.start()
    with torch.no_grad():
        Views().eval()(torch.randn(6, 16))
    observer.stop()
    observer.unregister_callback()
    write_trace(tenon, views_model, tmp_path / "tenon.json", "6x16")
    theirs = strict((tmp_path / "torch.json").read_text())
    ours = strict((tmp_path / "tenon.json").read_text())
    assert list(ours) == list(theirs)
    assert ours["schema"] == theirs["schema"]
    for key in theirs:
        assert type(ours[key]) is type(theirs[key]), key

    def shape_of(node):
        head = [(item["name"], item["type"]) for item in node["attrs"]][:10]
        return list(node), [list(node[side]) for side in ["inputs", "outputs"]], head

    assert {json.dumps(shape_of(node)) for node in ours["nodes"]} == {
        json.dumps(shape_of(node)) for node in theirs["nodes"]
    }
    # The same op on the same operands, written by both.
    for name in ["aten::relu", "aten::sigmoid", "aten::cat"]:
        one, other = (next(node for node in trace["nodes"] if node["name"] == name) for trace in [ours, theirs])
        for key in ["shapes", "types"]:
            assert one["inputs"][key] == other["inputs"][key], name
            assert one["outputs"][key] == other["outputs"][key], name
        assert attributes(one)["op_schema"] == attributes(other)["op_schema"]
    marks = [node["name"] for node in theirs["nodes"] if node["name"].startswith("[")]
    assert sorted(marks) == sorted(node["name"] for node in ours["nodes"] if node["name"].startswith("["))
