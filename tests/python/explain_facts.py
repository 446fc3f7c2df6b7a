"""What must hold of the facts that `tenon explain --json` gives, whatever the model."""

import json
import re

# Why a partition begins, and why a node is outside oneDNN: by kind, what its sentence must name
# beside words, so that somebody can act on it.
BEGINS = {
    "start": "inputs and constants",
    "no-pattern": r"oneDNN \d+\.\d+ has no pattern that joins \w+ to .*'.+'",
    "second-use": r"'.+' (has \d+ uses, one of them in '.+'|is read twice by|is also a result)",
    "one-chain": r"'.+' is the other operand of \w+, which is fused behind \w+",
    "chain-limit": r"at most \d+ ops behind another, and '.+' ends",
    "view-between": r"'.+' comes through aten\.\S+ from '.+'",
    "kernel-before": r"'.+' comes from a kernel \(\S+\): .+",
    "stretch": r"'.+' \(\S+\) is among those given before",
    "split-ops": r"'.+' is kept apart: split_ops was asked for",
    "accuracy": r"oneDNN",
    "onednn-slow": r"oneDNN",
    "refused": r"oneDNN",
}
OUTSIDE = {
    "not-in-op-set": r"^\S+\.\S+ is not in oneDNN Graph's op set",
    "dtype": r"\b(bool|u?int\d+|b?float\d+)\b",
    "attribute": r"\b(its|oneDNN)\b",
    "operands": r"\(.*\[|\d|oneDNN",
    "layout": r"\(.*\w+ \w+\[.*\]",
    "extra-output": r"output \d+ is used",
    "accuracy": r"PyTorch",
    "onednn-slow": r"oneDNN",
    "kernel-faster": r"\d|loop|skips",
    "kernel-pass": r"kernel of Tenon's \(tenon\.\w+\)",
    "version": r"oneDNN 3\.\d+",
    "refused": r"oneDNN",
    "split": r"oneDNN \d+\.\d+ does not fuse",
    "verify": r"error of .* is allowed",
    "circle": r"would wait for a step that waits for it",
    "backend": r"reference backend was asked for",
}
COPIES = {
    "layout-copy": r"row-major",
    "output-copy": r"output",
    "state-copy": r"state|written",
}
VIEWS = {"view": r"renames"}
FUSED = {"fused": r"oneDNN fuses it"}


def explain(tenon, model, folder, *options):
    """The facts, from a file in that folder."""
    path = folder / "facts.json"
    tenon("explain", model, "--json", path, *options)
    return json.loads(path.read_text())


def check_reason(facts, reason, kinds, place):
    kind, text = reason["kind"], reason["text"]
    assert kind in kinds, f"{place}: {reason}"
    assert re.search(kinds[kind], text), f"{place}: {reason}"
    assert facts["advice"][kind], kind


def check_reasons(facts):
    """Every step, boundary and node has a reason that somebody can act on."""
    plan = facts["plan"]
    assert len(facts["steps"]) == plan["steps"] and len(facts["nodes"]) == plan["nodes"]
    by_name = {node["name"]: node for node in facts["nodes"]}
    assert len(by_name) == len(facts["nodes"])
    for step in facts["steps"]:
        place = f"step {step['index']} {step['title']}"
        partition = step["where"] == "onednn"
        kinds = (BEGINS if partition else OUTSIDE) | COPIES
        check_reason(facts, step["reason"], kinds, place)
        for boundary in step["boundaries"]:
            assert boundary["from_step"] < step["index"], place
            check_reason(facts, boundary["reason"], kinds, f"{place}, {boundary['value']}")
        # What other steps make comes over a boundary, and nothing else does.
        made = {i["value"] for i in step["inputs"] if i["from_step"] >= 0 and not i["constant"]}
        assert {boundary["value"] for boundary in step["boundaries"]} == made, place
        for name in step["nodes"]:
            assert by_name[name]["step"] == step["index"]
    for node in facts["nodes"]:
        kinds = VIEWS if node["step"] < 0 else OUTSIDE | BEGINS | COPIES | FUSED
        check_reason(facts, node["reason"], kinds, node["name"])


def check_sums(facts):
    """The whole is the sum of its steps, and each step that of its operands."""
    plan = facts["plan"]
    for total in ("read_bytes", "written_bytes", "flops"):
        assert plan[total] == sum(step[total] for step in facts["steps"])
    for step in facts["steps"]:
        assert step["read_bytes"] == sum(operand["bytes"] for operand in step["inputs"])
        assert step["written_bytes"] == sum(operand["bytes"] for operand in step["outputs"])
        weights = sum(operand["bytes"] for operand in step["inputs"] if operand["constant"])
        assert step["weight_bytes"] == weights
        nodes = [node for node in facts["nodes"] if node["step"] == step["index"]]
        assert step["flops"] == sum(node["flops"] for node in nodes)
