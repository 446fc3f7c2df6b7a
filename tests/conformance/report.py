#!/usr/bin/env python3
"""Replays what capture.py wrote, with both backends, and says what came of it.

    report.py FOLDER --replay build/tests/replay [--table docs/conformance.md] [--subset FILE.zip]

`--table` writes the page, `--subset` the fixed choice of calls that the short tests replay: of each operator and
dtype a few that pass, the ones with the least data, among them some that PyTorch refuses.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import torch

BACKENDS = ("auto", "reference")
DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool"]
RANK = {"passed": 0, "refused": 1, "wrong": 2}
TIES = "among equal values PyTorch promises no order"
EXPLANATIONS = {  # of results that are wrong by the letter
    "aten.sort.default": TIES,
    "aten.argsort.default": TIES,
    "aten.topk.default": TIES,
    "aten.kthvalue.default": TIES,
    "aten.nanmedian.dim": TIES,
    "aten.mode.default": TIES,
    "aten.embedding_bag.padding_idx": "what only gradients read",
    "aten.convolution.default": "108 products of up to 80 each in another order; the error of PyTorch itself is as large",
    "aten.conv_transpose3d.input": "108 products of up to 80 each in another order; the error of PyTorch itself is as large",
}
SUBSET_EACH = 2
SUBSET_BYTES = 2048


def replay(command, path):
    """Results of the file's calls, in order: the worse one of both backends."""
    results = None
    with tempfile.TemporaryDirectory() as folder:
        for backend in BACKENDS:
            out = pathlib.Path(folder) / backend
            done = subprocess.run(
                [command, "--backend", backend, "--json", out, path], capture_output=True, text=True
            )
            lines = [json.loads(line) for line in out.read_text().splitlines()]
            if done.returncode not in (0, 1):
                sys.exit(f"{path}: call {len(lines)}: {done.stderr[-2000:]} (status {done.returncode})")
            for line in lines:
                line["backend"] = backend
            results = lines if results is None else [max(p, key=lambda r: RANK[r["result"]]) for p in zip(results, lines)]
    return path, results


def is_core(op):
    namespace, name, overload = op.split(".")
    try:
        return torch.Tag.core in getattr(getattr(getattr(torch.ops, namespace), name), overload).tags
    except AttributeError:
        return False


def reason(result):
    """The message without what differs from call to call."""
    text = re.sub(r"^(unsupported|unknown operator|invalid \w+|[a-z ]+): ", "", result["message"])
    text = re.sub(r"^node '[^']*' \([^)]*\): ", "", text)
    text = re.sub(r"-?\b\d+(\.\d+)?(e[+-]?\d+)?\b", "N", text)
    return f"{result['result']}: {text}".replace("|", "\\|")


def dtype_of(sample):
    part = sample.split("/")[1]
    return part if part in DTYPES else "error"


def share(passed, samples):
    return f"{100 * passed / samples:.2f} %" if samples else "-"


def table(results):
    ops = collections.defaultdict(collections.Counter)
    why = collections.defaultdict(collections.Counter)
    dtypes = {True: collections.defaultdict(collections.Counter), False: collections.defaultdict(collections.Counter)}
    core = {}
    for result in results:
        op = result["op"]
        core.setdefault(op, is_core(op))
        ops[op][result["result"]] += 1
        dtypes[core[op]][dtype_of(result["sample"])][result["result"]] += 1
        if result["result"] != "passed":
            why[op][reason(result)] += 1
    return ops, why, dtypes, core


def page(results, excluded):
    ops, why, dtypes, core = table(results)
    total = collections.Counter(r["result"] for r in results)
    lines = [
        "# Conformance",
        "",
        INTRODUCTION.format(
            version=torch.__version__.split("+")[0],
            samples=len(results),
            ops=len(ops),
            core=sum(core.values()),
            passed=total["passed"],
            excluded=sum(excluded.values()),
        ),
        "## By dtype",
        "",
        "The dtype is that of the sample; `error` is PyTorch's own list of wrong calls.",
        "",
        "| dtype | Core ATen: samples | passed | | other operators: samples | passed | |",
        "|---|---|---|---|---|---|---|",
    ]
    for dtype in [*DTYPES, "error"]:
        row = [dtype]
        for kind in (True, False):
            count = dtypes[kind][dtype]
            row += [str(sum(count.values())), str(count["passed"]), share(count["passed"], sum(count.values()))]
        lines.append("| " + " | ".join(row) + " |")
    for kind, title in ((True, "Core ATen"), (False, "Other operators")):
        lines += ["", f"## {title}", "", "| operator | samples | passed | wrong | refused | why |", "|---|---|---|---|---|---|"]
        for op in sorted(o for o in ops if core[o] == kind):
            c = ops[op]
            reasons = "; ".join(f"{text} ({n})" for text, n in why[op].most_common(3))
            if c["wrong"] and op in EXPLANATIONS:
                reasons += f": {EXPLANATIONS[op]}"
            lines.append(f"| `{op}` | {sum(c.values())} | {c['passed']} | {c['wrong']} | {c['refused']} | {reasons} |")
    return "\n".join(lines) + "\n"


INTRODUCTION = """PyTorch tests its operators with samples of its own (`op_db`). `tests/conformance/capture.py` runs all of them
eagerly, sees the ATen calls on the way, and writes operator, arguments and results; `tests/conformance/replay.c` makes a graph
of each call and runs it with both backends, `auto` and `reference`. PyTorch {version}: {samples} different calls of {ops} operators,
{core} of them Core ATen; {passed} pass. {excluded} more are left out: complex, sparse, quantized or random.

A call passes when every result has PyTorch's dtype and shape, and its values are within PyTorch's tolerances for that operator and
dtype, or as near to the result in float64 as PyTorch's are. A call that PyTorch refuses passes when
Tenon refuses it. *Refused* is a call that PyTorch takes and Tenon does not.

    python tests/conformance/capture.py build/conformance
    python tests/conformance/report.py build/conformance --replay build/tests/replay --table docs/conformance.md
"""


def choose(files):
    """The fixed choice: calls of each operator and dtype that pass, with little data."""
    taken = collections.Counter()
    lines, data = [], bytearray()
    for path, results in files:
        with zipfile.ZipFile(path) as archive:
            calls = archive.read("calls.jsonl").decode().splitlines()
            blob = archive.read("data.bin")
        found = []
        for text, result in zip(calls, results):
            call = json.loads(text)
            size = sum(t[4] for t in call["tensors"])
            if result["result"] == "passed" and size <= SUBSET_BYTES:
                found.append((size + len(text), len(found), call))
        for _, _, call in sorted(found, key=lambda f: f[:2]):
            key = call["op"], call["sample"].split("/")[1], "fails" in call
            if taken[key] >= SUBSET_EACH:
                continue
            taken[key] += 1
            for t in call["tensors"]:
                content = blob[t[3] : t[3] + t[4]]
                data += bytes(-len(data) % 8)
                t[3] = len(data)
                data += content
            lines.append(json.dumps(call, separators=(",", ":")))
    return lines, bytes(data)


def write_subset(path, files):
    lines, data = choose(files)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (("calls.jsonl", "\n".join(lines) + "\n"), ("data.bin", data)):
            entry = zipfile.ZipInfo(name)  # the time of an entry is no part of it
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content, compresslevel=9)
    print(f"{path}: {len(lines)} calls, {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--replay", type=pathlib.Path, required=True)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--subset", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, help="each call that does not pass, a line")
    options = parser.parse_args()
    paths = sorted(options.folder.glob("*.zip"))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        files = list(pool.map(lambda path: replay(options.replay, path), paths))
    results = [result for _, of_file in files for result in of_file]
    excluded = json.loads((options.folder / "excluded.json").read_text())
    if options.json:
        options.json.write_text("".join(json.dumps(r) + "\n" for r in results if r["result"] != "passed"))
    if options.table:
        options.table.write_text(page(results, excluded))
    if options.subset:
        write_subset(options.subset, files)
    _, _, dtypes, _ = table(results)
    for dtype, count in dtypes[True].items():
        print(f"{dtype:9s} Core ATen: {sum(count.values())} samples, {share(count['passed'], sum(count.values()))} passed")


if __name__ == "__main__":
    main()
