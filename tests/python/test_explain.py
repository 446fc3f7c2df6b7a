"""`tenon explain`: reasons for everything, on all models here; dry runs; measured steps."""

import functools
import json
import os
import re
import subprocess

import pytest
from conftest import ROOT
from explain_facts import (
    BEGINS,
    COPIES,
    FUSED,
    OUTSIDE,
    VIEWS,
    check_reasons,
    check_sums,
    explain,
)

DIGITS = ROOT / "examples" / "digits" / "digits.pt2"
CASES = ROOT / "tests" / "data"


def archives():
    """Those that load, with a size for each symbol."""
    for path in [DIGITS, *sorted(CASES.glob("pt2-*/*.pt2"))]:
        facts = path.with_suffix(".json")
        if facts.exists() and json.loads(facts.read_text()).get("expect", "run") != "run":
            continue
        yield path


@functools.cache
def sizes(tenon, path):
    """--dim and --input for a model that leaves sizes or numbers open."""
    text = tenon("info", path)
    options = []
    symbols = re.search(r"^ *symbols\n((?: +\w+: .*\n)+)", text, re.MULTILINE)
    for symbol, low in re.findall(r"(\w+): (\d+)", symbols[1]) if symbols else []:
        options += ["--dim", f"{symbol}={max(int(low), 4)}"]
    inputs = text.partition("inputs\n")[2].partition("outputs\n")[0]
    for name in re.findall(r"(\w+): \w+ number", inputs):
        options += ["--input", f"{name}=2"]
    return options


@pytest.mark.parametrize("backend", ["auto", "onednn", "reference"])
@pytest.mark.parametrize("path", archives(), ids=lambda path: path.stem)
def test_reasons(tenon, tmp_path, path, backend):
    options = ["--backend", backend, *sizes(tenon, path)]
    facts = explain(tenon, path, tmp_path, *options)
    check_reasons(facts)
    check_sums(facts)
    assert facts["plan"]["dry_run"] is True


def test_every_kind_is_documented(tenon, tmp_path):
    facts = explain(tenon, DIGITS, tmp_path, *sizes(tenon, DIGITS))
    page = (ROOT / "docs" / "explain.md").read_text()
    documented = re.findall(r"^\| `([a-z-]+)` \| ", page, re.MULTILINE)
    assert set(facts["advice"]) <= set(documented)
    assert set(facts["advice"]) == {*BEGINS, *OUTSIDE, *COPIES, *VIEWS, *FUSED}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_conversions(tenon, tmp_path, precision):
    """bfloat16 inserts casts, and each tells whom it is for."""
    facts = explain(tenon, DIGITS, tmp_path, *sizes(tenon, DIGITS), "--precision", precision)
    check_reasons(facts)
    assert facts["precision"] == precision
    casts = [c for c in facts["conversions"] if c["kind"] == "dtype" and c["inserted"]]
    text = tenon("--version")
    if precision == "fp32":
        assert not casts
    elif "AVX512_CORE_BF16" in text or "AMX" in text:
        assert casts
    for conversion in facts["conversions"]:
        assert re.match(r"(\w+\.\S+|output|buffer|input) '.+'", conversion["for"])


def test_passes(tenon, tmp_path):
    """What fired: batch norms folded into convolutions."""
    facts = explain(tenon, DIGITS, tmp_path, *sizes(tenon, DIGITS))
    folded = [record for record in facts["passes"] if record["name"] == "fold_bn"]
    assert len(folded) == 1 and folded[0]["phase"] == "model"
    assert folded[0]["removed_count"] > folded[0]["added_count"] > 0
    assert folded[0]["nodes_after"] < folded[0]["nodes_before"]
    assert re.match(r"\w+ \(aten\.\S+\)", folded[0]["removed"][0])
    assert "fold_bn" in tenon("explain", DIGITS, *sizes(tenon, DIGITS))


def test_graph(tenon, tmp_path):
    """The lowered graph in the text form."""
    facts = explain(tenon, DIGITS, tmp_path, *sizes(tenon, DIGITS))
    assert facts["graph"].startswith("graph")
    ops = re.findall(r"= (\S+?)\(", facts["graph"])
    assert ops == [node["op"] for node in facts["nodes"]]


def compiled(tenon, *options):
    """How many partitions oneDNN says that it compiled."""
    command = [tenon.command, "explain", DIGITS, *sizes(tenon, DIGITS), *options]
    environment = os.environ | {"ONEDNN_VERBOSE": "all"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    lines = result.stdout.splitlines()
    return sum(",graph,compile" in line or ",primitive,create" in line for line in lines)


def test_dry_run_compiles_nothing(tenon):
    assert compiled(tenon, "--profile") > 0
    assert compiled(tenon) == 0


def test_profile(tenon, tmp_path):
    options = sizes(tenon, DIGITS)
    dry = explain(tenon, DIGITS, tmp_path, *options)
    facts = explain(tenon, DIGITS, tmp_path, *options, "--profile")
    check_reasons(facts)
    assert facts["plan"]["dry_run"] is False and facts["plan"]["runs"] >= 5
    assert facts["plan"]["run_us"] > 0
    assert [s["title"] for s in facts["steps"]] == [s["title"] for s in dry["steps"]]
    for step in facts["steps"]:
        assert step["time_us"] > 0
        against = step.get("against_onednn")
        assert (against is not None) == (step["reason"]["kind"] == "kernel-faster")
        if against:
            assert against["own_us"] > 0 and against["onednn_us"] > 0 and against["nodes"] >= 1
    assert any("against_onednn" in step for step in facts["steps"])
    text = tenon("explain", DIGITS, *options, "--profile")
    assert re.search(r"measured: [\d.]+ us here, [\d.]+ us in oneDNN", text)


def test_refuses_paths(tenon):
    options = sizes(tenon, DIGITS)
    for option in ("--json", "--html"):
        result = tenon.start("explain", DIGITS, *options, option, "/no/such/folder/file")
        assert result.returncode == 1
        assert f"{option}: '/no/such/folder/file' cannot be written: No such file" in result.stderr
