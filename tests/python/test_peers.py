"""The comparison with other engines: its statistics, its tables, and engines on a tiny model."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from bench.peers import compare, engines, library, measure, report, stats, worker
from conftest import ROOT
from torch import nn

PACKAGES = {"onnxruntime": ("onnxruntime", "onnxscript"), "openvino": ("openvino", "onnxscript")}


# ---- Statistics


@pytest.mark.parametrize(
    "count, ranks",
    [(1, (1, 1)), (5, (1, 5)), (6, (1, 6)), (10, (2, 9)), (20, (6, 15)), (100, (40, 61))],
)
def test_median_interval(count, ranks):
    """The ranks of the tables for 95 %."""
    values = list(range(1, count + 1))
    median, low, high = stats.median_interval(values[::-1])
    assert median == (count + 1) / 2
    assert (low, high) == ranks


def test_ratio_is_paired():
    """A slow round slows both, and does not widen the interval."""
    slow = [1.0, 5.0, 2.0, 9.0, 1.5, 3.0, 7.0]
    assert stats.ratio(slow, [t / 2 for t in slow]) == (2.0, 2.0, 2.0)


def test_geometric_mean():
    assert stats.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    mean, low, high = stats.geometric_mean_interval([[2.0, 2.0, 2.0], [8.0, 8.0, 8.0]])
    assert mean == pytest.approx(4.0)
    # Of two models drawn with replacement a quarter of the draws is one of them twice.
    assert (low, high) == (pytest.approx(2.0), pytest.approx(8.0))
    same = stats.geometric_mean_interval([[1.25] * 4] * 3)
    assert same == tuple([pytest.approx(1.25)] * 3)


def test_geometric_mean_interval_covers_noise():
    """With a single model only the rounds vary: the interval is that of their median."""
    ratios = [1.0 + 0.01 * i for i in range(21)]
    mean, low, high = stats.geometric_mean_interval([ratios])
    assert mean == pytest.approx(1.10)
    assert 1.03 <= low <= 1.07 and 1.13 <= high <= 1.17


# ---- Tables


def result(model, batch=1, **times):
    facts = {}
    for label, value in times.items():
        label = label.replace("__", ":")
        facts[label] = (
            {"failure": value} if isinstance(value, str) else {"times": value, "error": 1e-6}
        )
    return {"model": model, "batch": batch, "precision": "fp32", "stray": 0.0, "engines": facts}


RESULTS = [
    result("a", jit_ofi=[2.0] * 7, openvino=[1.5] * 7, tenon=[1.0] * 7, tenon__fp32=[0.5] * 7),
    result(
        "b", jit_ofi=[3.0] * 7, openvino="no such operator", tenon=[4.0] * 7, tenon__fp32=[9.0] * 7
    ),
]


def test_lead():
    assert report.lead(RESULTS[0]) == ("openvino", [1.5] * 7)
    assert report.lead(RESULTS[1]) == ("jit_ofi", [0.75] * 7)
    assert report.lead(result("c", openvino=[1.0], tenon="fails")) is None
    assert report.lead(result("c", openvino="fails", tenon=[1.0])) is None


def test_summary():
    found = report.summary(RESULTS)
    assert found["geometric_mean"] == pytest.approx(math.sqrt(1.5 * 0.75))
    assert found["interval"] == [pytest.approx(0.75), pytest.approx(1.5)]
    assert found["worst"] == ["b", 1, 0.75]
    assert found["best"] == ["a", 1, 1.5]
    assert report.summary([]) is None


def test_text():
    labels = ["jit_ofi", "openvino", "tenon", "tenon:fp32"]
    text = report.text(RESULTS, labels, "fp32", "jit_ofi")
    lines = text.splitlines()
    (a,) = [line for line in lines if line.startswith("a, 1 ") and "2000.00" in line]
    assert re.split(r" {2,}", a) == ["a, 1", "2000.00", "1.00x", "1500.00", "1.33x"] + [
        "1000.00", "2.00x", "500.00", "4.00x"
    ]  # fmt: skip
    rows = [re.split(r" {2,}", line) for line in lines]
    over = ["2.000 [2.000, 2.000]", "1.500 [1.500, 1.500]", "0.500 [0.500, 0.500]"]
    assert ["a, 1", *over, "openvino", over[1]] in rows
    over = ["0.750 [0.750, 0.750]", "2.250 [2.250, 2.250]"]
    assert ["b, 1", *over, "jit_ofi", over[0]] in rows
    (mean,) = [row for row in rows if row[0] == "geometric mean" and "[" in row[1]]
    assert mean[1:] == [
        "1.225 [0.750, 2.000]",
        "1.500 [1.500, 1.500]",
        "1.061 [0.500, 2.250]",
        "1.061 [0.750, 1.500]",
    ]
    assert "b, 1: openvino fails: no such operator" in lines
    assert re.search(r"^geometric mean +1\.00x +1\.33x +1\.22x", text, re.MULTILINE)
    assert "worst 0.750: b, 1" in lines and "best 1.500: a, 1" in lines


def test_disturbance():
    """In words where it is more than the documented part."""
    told = [{**RESULTS[0], "stray": 0.0123}, {**RESULTS[1], "stray": 0.01}]
    lines = report.text(told, ["jit_ofi", "tenon"], "fp32", "jit_ofi").splitlines()
    assert lines[-2].endswith("in the turns of others: at most 1.23%")
    assert lines[-1] == (
        "That is more than 1%: engines disturbed each other, so do not rely on the times of a, 1"
    )
    told[0]["stray"] = 0.01
    assert report.disturbance(told) == [lines[-2].replace("1.23%", "1.00%")]


# ---- Engines


def tiny():
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1)).eval()


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """A folder with a model of two convolutions, and its entry."""
    folder = tmp_path_factory.mktemp("suite")
    model, x = tiny(), torch.randn(1, 3, 16, 16)
    program = torch.export.export(model, (x,))
    (output,) = program.graph_signature.user_outputs
    torch.export.save(program, folder / "tiny.pt2")
    torch.save(model, folder / "tiny.pt")
    np.save(folder / "x.npy", x.numpy())
    np.save(folder / "out.npy", model(x).detach().numpy())
    entry = {
        "name": "tiny",
        "batch": 1,
        "file": "tiny.pt2",
        "module": "tiny.pt",
        "inputs": {"input": "x.npy"},
        "outputs": {output: "out.npy"},
    }
    if all(map(importlib.util.find_spec, ["onnx", "onnxscript"])):
        torch.onnx.export(model, (x,), folder / "tiny.onnx", dynamo=True, verbose=False)
        entry["onnx"] = "tiny.onnx"
    return folder, entry


@pytest.fixture
def comparison(suite, tenon, tmp_path):
    """A function that makes comparisons on one core, which end with the test."""
    folder, entry = suite
    made = []

    def make(labels, precision="fp32", **changes):
        log = open(tmp_path / "log", "w")
        library = str(tenon.library)
        made.append(
            (
                compare.Comparison(
                    folder, {**entry, **changes}, labels, [0], precision, library, log
                ),
                log,
            )
        )
        return made[-1][0]

    yield make
    for one, log in made:
        one.__exit__()
        log.close()


def test_rounds(comparison):
    one = comparison(["eager", "tenon"])
    one.load()
    rounds = one.rounds(turn_seconds=0.001)
    rounds.run(seconds=0, least=3, most=10)
    assert {label: len(times) for label, times in rounds.times.items()} == {"eager": 3, "tenon": 3}
    found = one.result(rounds)
    for facts in found["engines"].values():
        assert "failure" not in facts
        assert facts["error"] <= 1e-5
        assert facts["peak"] > 1 << 20
        assert min(facts["times"]) > 0
    assert report.lead(found)[0] == "eager"
    assert 0 <= found["stray"] <= 1
    assert json.loads(json.dumps(found)) == found
    assert "tenon" in report.text([found], ["eager", "tenon"], "fp32", "eager")


def test_cold(comparison):
    one = comparison(["eager", "tenon"])
    one.cold(2)
    assert list(one.facts) == ["eager", "tenon", "tenon run"]
    for facts in one.facts.values():
        assert len(facts["cold_seconds"]) == 2 and min(facts["cold_seconds"]) > 0
    # A process with Tenon holds no PyTorch, and the command no Python.
    peaks = {label: max(facts["cold_peaks"]) for label, facts in one.facts.items()}
    assert peaks["tenon run"] < peaks["tenon"] < peaks["eager"] / 2
    found = {**result("tiny"), "engines": one.facts}
    lines = report.cold_table([found]).splitlines()
    assert re.split(r" {2,}", lines[0]) == ["model, batch", "eager", "tenon", "tenon run"]
    assert len(re.findall(r"\d s +\d+ MB", lines[1])) == 3


def test_cold_failure(comparison):
    one = comparison(["tenon"], file="missing.pt2")
    one.cold(1)
    assert "missing.pt2" in one.facts["tenon"]["failure"]
    assert one.facts["tenon run"] == {"failure": "tenon run ended with status 1"}


BENCH_ONCE = ["--no-peaks", "--rounds", "1", "--niter", "1", "--nwarmup", "0"]


def test_command_line(tenon, tmp_path):
    """The whole of it, on a model of the suite."""
    command = [sys.executable, "-m", "bench.peers", "--models", "squeezenet1_1", "--batch", "2"]
    command += ["--peers", "eager,tenon", "--baseline", "eager", "--threads", "1"]
    command += ["--rounds", "2", "--seconds", "1e-9", "--turn", "0.001"]
    command += ["--folder", tmp_path / "suite", "--library", tenon.library]
    command += ["--json", tmp_path / "found.json"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert re.search(
        r"^squeezenet1_1, 2 +[\d.]+ +1.00x +[\d.]+ +[\d.]+x$", run.stdout, re.MULTILINE
    )
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["environ"]["versions"]["torch"] == torch.__version__
    assert len(found["environ"]["cores"]) == 1
    assert "oneDNN" in found["environ"]["tenon"]["version"]
    assert found["summary"]["fp32"]["worst"][:2] == ["squeezenet1_1", 2]
    (saved,) = found["results"]
    assert [len(facts["times"]) for facts in saved["engines"].values()] == [2, 2]
    # What it exported is a suite for `tenon bench`.
    (entry,) = json.loads((tmp_path / "suite" / "suite.json").read_text())["models"]
    assert (entry["name"], entry["batch"]) == ("squeezenet1_1", 2)
    assert "squeezenet1_1" in tenon("bench", "--suite", tmp_path / "suite", *BENCH_ONCE)
    # An engine that fails is told of at the end, and by the exit status.
    (tmp_path / "suite" / entry["file"]).write_bytes(b"no archive")
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 1, run.stderr
    assert "squeezenet1_1, 2: tenon fails: " in run.stdout
    assert re.search(r"^squeezenet1_1, 2 +[\d.]+ +1.00x +fails$", run.stdout, re.MULTILINE)
    assert len(json.loads((tmp_path / "found.json").read_text())["results"]) == 1


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--peers", "tenon,none"], "no engine 'none'"),
        (["--peers", "tenon:int8"], "'tenon:int8': the precisions are fp32 and bf16"),
        (["--precision", "fp16"], "'fp16': fp32, bf16, or both"),
        (["--threads", "1000"], "--threads: this process may use"),
        (["--threads", "0"], "--threads: '0' is no whole number from 1 on"),
        (["--threads", "-1"], "--threads: '-1' is no whole number from 1 on"),
        (["--rounds", "0"], "--rounds: '0' is no whole number from 1 on"),
        (["--most-rounds", "0"], "--most-rounds: '0' is no whole number from 1 on"),
        (["--cold", "-1"], "--cold: '-1' is no whole number from 0 on"),
        (["--seconds", "0"], "--seconds: '0' is no number above 0"),
        (["--seconds", "nan"], "--seconds: 'nan' is no number above 0"),
        (["--turn", "0"], "--turn: '0' is no number above 0"),
        (["--turn", "long"], "--turn: 'long' is no number above 0"),
        (["--library", "/nope.so"], "--library: there is no file '/nope.so'"),
        (["--library", __file__], "--library: "),
        (["--peers", "eager,tenon-none"], "--peers: tenon-none: "),
    ],
)
def test_refused(tenon, arguments, message):
    command = [sys.executable, "-m", "bench.peers", "--library", tenon.library, *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert run.returncode == 2
    assert message in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--json", "none/found.json"], "--json: 'none/found.json' cannot be written"),
        (["--json", "."], "--json: '.' cannot be written"),
        (["--folder", __file__], "--folder: "),
    ],
)
def test_unwritable(tenon, tmp_path, arguments, message):
    """One line, before anything is exported."""
    command = [sys.executable, "-m", "bench.peers", "--library", tenon.library]
    command += ["--peers", "tenon", "--folder", tmp_path / "suite", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 1
    assert run.stderr.startswith(f"bench/peers/run: {message}")
    assert run.stderr.count("\n") == 1
    assert not list(tmp_path.glob("suite/*"))


def test_cold_inputs(comparison):
    one = comparison(["tenon"], inputs={"input": "missing.npy"})
    with pytest.raises(measure.EngineFailure, match="missing.npy"):
        one.start_worker("tenon")
    with pytest.raises(measure.EngineFailure, match="tenon run ended with status [1-9]"):
        one.start_command(one.command())


@pytest.mark.parametrize("label", ["jit_ofi", "jit_onednn", "compile", "onnxruntime", "openvino"])
@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.slow)])
def test_engine(comparison, label, precision):
    for package in PACKAGES.get(label, ()):
        pytest.importorskip(package)
    one = comparison([label], precision)
    one.load()
    if (label, precision) == ("onnxruntime", "bf16"):
        assert "no bfloat16" in one.facts[label]["failure"]
        return
    assert "failure" not in one.facts[label], one.facts[label]["failure"]
    error = one.facts[label]["error"]
    assert error <= (1e-5 if precision == "fp32" else 0.05)


@pytest.mark.parametrize("label", ["eager", "tenon"])
def test_bf16_is_not_fp32(comparison, tenon, label):
    """Each engine computes in the precision that it is asked for."""
    if label == "tenon" and "avx512_bf16" not in open("/proc/cpuinfo").read():
        pytest.skip("without AVX512_BF16 Tenon's sessions run in float32")
    one = comparison([label, f"{label}:fp32"], "bf16")
    one.load()
    assert one.facts[f"{label}:fp32"]["error"] <= 1e-5
    assert 1e-4 <= one.facts[label]["error"] <= 0.05


def test_failing_engine(comparison):
    """It is told why, and the others go on."""
    one = comparison(["onnxruntime", "eager"], onnx_error="ConversionError: no such operator")
    one.load()
    rounds = one.rounds(turn_seconds=0.001)
    rounds.run(seconds=0, least=2, most=2)
    found = one.result(rounds)
    wanted = "RuntimeError: ConversionError: no such operator"
    if importlib.util.find_spec("onnxruntime") is None:
        wanted = "ModuleNotFoundError: No module named 'onnxruntime'"
    assert found["engines"]["onnxruntime"] == {"failure": wanted}
    assert len(found["engines"]["eager"]["times"]) == 2
    assert f"tiny, 1: onnxruntime fails: {wanted}" in report.text(
        [found], [*one.facts], "fp32", "eager"
    )


def test_essence():
    assert worker.essence("failed\n  at a.py\n\n  no such thing\n") == "failed ... no such thing"
    assert worker.essence("failed") == "failed"
    assert worker.essence("") == ""


def test_wrong_output(comparison, suite):
    folder, entry = suite
    (name,) = entry["outputs"]
    np.save(folder / "wrong.npy", np.load(folder / entry["outputs"][name]) * 1.01)
    one = comparison(["tenon"], outputs={name: "wrong.npy"})
    one.load()
    assert re.fullmatch(
        r"its output is wrong by 9\.9e-03 of the largest", one.facts["tenon"]["failure"]
    )
    assert one.workers == {}


def test_missing_file(comparison):
    one = comparison(["tenon"], file="missing.pt2")
    one.load()
    assert "missing.pt2" in one.facts["tenon"]["failure"]


def test_killed_engine(comparison):
    """One that dies between its turns ends its part, and no more."""
    one = comparison(["eager", "tenon"])
    one.load()
    rounds = one.rounds(turn_seconds=0.001)
    rounds.run(seconds=0, least=2, most=2)
    killed = one.workers["tenon"].process
    killed.kill()
    killed.wait()
    rounds.run(seconds=0, least=2, most=2)
    found = one.result(rounds)
    assert len(found["engines"]["eager"]["times"]) == 4
    assert "times" not in found["engines"]["tenon"]
    assert "ended with status -9" in found["engines"]["tenon"]["failure"]


def test_environment(monkeypatch):
    """No setting of the caller's reaches an engine."""
    for name in (
        "OMP_NUM_THREADS",
        "GOMP_SPINCOUNT",
        "KMP_BLOCKTIME",
        "TENON_MAX_ISA",
        "ONEDNN_VERBOSE",
    ):
        monkeypatch.setenv(name, "7")
    found = measure.environment(2)
    assert found["OMP_NUM_THREADS"] == "2"
    assert not [name for name, value in found.items() if value == "7"]


def test_labels():
    assert engines.parse_label("tenon", "bf16") == ("tenon", "bf16", ())
    assert engines.parse_label("tenon:fp32", "bf16") == ("tenon", "fp32", ())
    assert engines.parse_label("tenon:fp32-winograd-layout", "bf16").without == (
        "winograd",
        "layout",
    )
    for label in ("none", "tenon:int8", "eager-winograd", ""):
        with pytest.raises(ValueError):
            engines.parse_label(label, "fp32")


def test_without_pass(comparison):
    """Passes are left out by their name."""
    one = comparison(["tenon-layout", "tenon-none"])
    one.load()
    assert one.facts["tenon-layout"]["error"] <= 1e-5
    assert "'none'" in one.facts["tenon-none"]["failure"]


def test_struct():
    """What ctypes is told of the options is how they begin."""
    header = (ROOT / "include/tenon/session.h").read_text()
    body = re.search(
        r"typedef struct tenon_session_options \{(.*?)\} tenon_session_options", header, re.S
    )
    fields = re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", body[1], flags=re.S))
    assert fields[:6] == [name for name, _ in library.Options._fields_[:6]]
    (rest,) = (kind for name, kind in library.Options._fields_ if name == "rest")
    assert len(fields) * 8 < rest._length_
