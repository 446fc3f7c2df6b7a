"""`tenon bench`: what it saves and prints, suites, failures, comparisons. No test looks at how fast
anything was."""

import ast
import json
import math
import os
import pty
import re
import signal
import subprocess
import time
from fractions import Fraction

import numpy as np
import pytest
import torch
from conftest import ROOT
from explain_facts import explain
from torch.utils.flop_counter import FlopCounterMode

DIGITS = ROOT / "examples" / "digits" / "digits.pt2"
# A run that is over at once.
SHORT = "--no-peaks", "--nwarmup", "1", "--niter", "8", "--rounds", "2"

MODEL = """graph "m" {
  input %x: float32[8, 64]
  const %w: float32[32, 64] = random(7, -1, 1)
  %y = aten.linear(%x, %w)
  %z = aten.relu(%y)
  output "z" = %z
}
"""
OPEN = MODEL.replace("[8, 64]", "[s0, 64]").replace(
    "  input", "  symbol s0 in [1, 64]\n  input", 1
)


@pytest.fixture
def bench(tenon, tmp_path, monkeypatch):
    """Runs the command in a folder with models, and gives its status, texts and the saved run."""
    (tmp_path / "m.txt").write_text(MODEL)
    (tmp_path / "open.txt").write_text(OPEN)
    monkeypatch.chdir(tmp_path)

    def start(*arguments, short=SHORT):
        (tmp_path / "run.json").unlink(missing_ok=True)
        result = tenon.start("bench", *arguments, *short, "--json", "run.json")
        path = tmp_path / "run.json"
        result.run = json.loads(path.read_text()) if path.exists() else None
        return result

    def succeed(*arguments, **options):
        result = start(*arguments, **options)
        assert result.returncode == 0, result.stdout + result.stderr
        assert result.stderr == ""
        return result.run

    start.ok = succeed
    start.folder = tmp_path
    return start


def refuses(result, status, *texts):
    assert result.returncode == status, result.stdout + result.stderr
    for text in texts:
        assert text in result.stderr


# ---- What is saved


def exact_interval(samples, confidence):
    """The largest k for which 1 - 2 P(B < k) is at least `confidence`, in exact arithmetic."""
    count, below, rank = len(samples), Fraction(0), 0
    for k in range(1, count // 2 + 1):
        below += Fraction(math.comb(count, k - 1), 2**count)
        if 1 - 2 * below < confidence:
            break
        rank = k
    ordered = sorted(samples)
    return (ordered[rank - 1], ordered[-rank]) if rank else (ordered[0], ordered[-1])


@pytest.mark.parametrize("rounds", [1, 3])
def test_statistics(bench, rounds):
    short = "--no-peaks", "--nwarmup", "2", "--niter", "7", "--rounds", rounds
    (result,) = bench.ok("m.txt", short=short)["results"]
    samples = np.array(result["samples_ms"])
    assert len(samples) == result["timed_runs"] == 7 * rounds
    assert (samples > 0).all()
    assert result["rounds"] == rounds
    assert result["warmup_runs"] == 2
    wanted = {
        "median_ms": np.median(samples),
        "min_ms": samples.min(),
        "max_ms": samples.max(),
        "mean_ms": samples.mean(),
        "p90_ms": np.quantile(samples, 0.9),
        "p99_ms": np.quantile(samples, 0.99),
        "iqr_ms": np.quantile(samples, 0.75) - np.quantile(samples, 0.25),
        "mad_ms": np.median(np.abs(samples - np.median(samples))),
        "throughput": 8e3 / np.median(samples),
    }
    for name, value in wanted.items():
        assert result[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
    assert result["interval_ms"] == list(exact_interval(samples.tolist(), Fraction(95, 100)))
    total = result["load_ms"] + result["compile_ms"] + result["first_run_ms"]
    assert result["ttfb_ms"] == pytest.approx(total)
    assert result["flops_per_s"] == pytest.approx(
        result["model_flops"] * 1e3 / np.median(samples)
    )


def test_torchbench_form(bench):
    """The file is what a user benchmark of TorchBench saves, and the names are those of its
    test_bench, whose regular expression this is."""
    run = bench.ok("m.txt", "open.txt", "--batch", "8")
    assert run["name"] == "tenon"
    assert isinstance(run["environ"]["pytorch_git_version"], str)
    for key in ("tenon_version", "onednn_version", "onednn_isa", "kernel_isa", "device", "date"):
        assert run["environ"][key]
    assert run["environ"]["threads"] >= 1
    names = re.compile(
        "model=(.*), test=(.*), device=(.*), bs=(.*), extra_args=(.*), metric=(.*)"
    )
    found = {}
    for name, value in run["metrics"].items():
        model, test, device, batch, extra, metric = names.fullmatch(name).groups()
        assert (test, device) == ("eval", "cpu")
        assert ast.literal_eval(batch) == 8
        assert ast.literal_eval(extra) == ["--precision", "fp32"]
        found[model, metric] = value
    assert len(found) == 10
    for result in run["results"]:
        model = result["model"]
        assert found[model, "latencies"] == pytest.approx(result["median_ms"])
        assert found[model, "throughputs"] == pytest.approx(result["throughput"])
        assert found[model, "cpu_peak_mem"] == pytest.approx(
            result["peak_memory_bytes"] / 2**30
        )
        assert found[model, "ttfb"] == pytest.approx(result["ttfb_ms"])
        assert found[model, "model_flops"] == 2 * 8 * 64 * 32


class Net(torch.nn.Module):
    """Products of each kind, and what is no product."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, stride=2, groups=1)
        self.depthwise = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm = torch.nn.BatchNorm2d(8)
        self.up = torch.nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.linear = torch.nn.Linear(4, 16)

    def forward(self, x):
        y = self.up(torch.relu(self.norm(self.depthwise(self.conv(x)))))
        z = self.linear(torch.nn.functional.softmax(y.mean((2, 3)), -1))
        return torch.mm(z, z.t()) @ z


def test_model_flops(bench):
    """TorchBench's model_flops are those of PyTorch's counter."""
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(2, 3, 21, 17)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        net(x)
    torch.export.save(torch.export.export(net, (x,)), bench.folder / "net.pt2")
    (result,) = bench.ok("net.pt2")["results"]
    assert result["model_flops"] == counter.get_total_flops()
    assert result["batch"] == 2


def test_peaks(bench):
    run = bench.ok("m.txt", "--detail", short=("--nwarmup", "1", "--rounds", "1"))
    peaks = run["environ"]["peaks"]
    (result,) = run["results"]
    assert peaks["fp32"]["flops_per_s"] > 0
    assert result["gemm_share"] == pytest.approx(
        result["flops_per_s"] / peaks["fp32"]["flops_per_s"]
    )
    sizes = [item["bytes"] for item in peaks["memory"]]
    assert sizes == sorted(sizes)
    assert all(item["bytes_per_s"] > 0 for item in peaks["memory"])
    for step in result["steps"]:
        moved = step["read_bytes"] + step["written_bytes"]
        rate = next(item["bytes_per_s"] for item in peaks["memory"] if moved <= item["bytes"])
        compute, memory = step["flops"] / peaks["fp32"]["flops_per_s"], moved / rate
        assert step["bound_us"] == pytest.approx(max(compute, memory) * 1e6)
        assert step["bound"] == ("compute" if compute >= memory else "memory")


def test_steps(bench, tenon):
    """The details are of the plan that `tenon explain` tells of."""
    run = bench.ok(DIGITS, "--batch", "8", "--detail")
    (result,) = run["results"]
    facts = explain(tenon, DIGITS, bench.folder, "--dim", "s34=8")
    assert len(result["steps"]) == len(facts["steps"]) > 3
    for step, fact in zip(result["steps"], facts["steps"], strict=True):
        assert step["title"] == fact["title"]
        assert step["kind"] == fact["where"]
        assert step["nodes"] == len(fact["nodes"])
        for name in ("flops", "read_bytes", "weight_bytes", "written_bytes"):
            assert step[name] == fact[name]
        assert step["time_us"] > 0
        assert "bound_us" not in step
    assert result["partitions"] == facts["plan"]["partitions"]
    assert result["moved_bytes"] == facts["plan"]["read_bytes"] + facts["plan"]["written_bytes"]


def test_table(bench):
    result = bench("m.txt", "--detail", "--limit", "1")
    assert result.returncode == 0
    head, row = (line for line in result.stdout.splitlines() if line[:5] in ("Model", "m    "))
    for title in ("Median ms", "p90 ms", "p99 ms", "Samples/s", "GFLOP/s", "Of GEMM", "Peak MiB"):
        assert title in head
    (facts,) = result.run["results"]
    assert f"{facts['peak_memory_bytes'] / 2**20:.1f}" in row.split()
    assert "The same by kind of step:" in result.stdout
    assert len(facts["steps"]) == 1 or f"{len(facts['steps']) - 1} more" in result.stdout


def test_many_runs(bench):
    """Of more runs than are kept, those that are kept are spread over all of them."""
    short = "--no-peaks", "--nwarmup", "1", "--niter", "11000", "--rounds", "1"
    (result,) = bench.ok("m.txt", "--threads", "1", "--time-limit", "1000", short=short)["results"]
    assert result["timed_runs"] == 11000
    assert len(result["samples_ms"]) == 11000 / 4
    assert result["median_ms"] == pytest.approx(np.median(result["samples_ms"]))


# ---- Batch sizes, precisions, instances


def test_batches(bench):
    run = bench.ok("open.txt", DIGITS, "--batch", "3,5")
    assert [(r["model"], r["batch"]) for r in run["results"]] == [
        ("open", 3),
        ("open", 5),
        ("digits", 3),
        ("digits", 5),
    ]
    flops = [r["model_flops"] for r in run["results"]]
    assert flops[0] * 5 == flops[1] * 3 > 0
    assert flops[2] * 5 == flops[3] * 3 > 0


def test_batch_by_dim_and_by_array(bench):
    (result,) = bench.ok("open.txt", "--dim", "s0=6")["results"]
    assert result["batch"] == 6
    np.save("x.npy", np.zeros((4, 64), np.float32))
    (result,) = bench.ok("open.txt", "--input", "x=x.npy")["results"]
    assert result["batch"] == 4


def test_batch_of_a_fixed_model(bench):
    (result,) = bench.ok("m.txt", "--batch", "8")["results"]
    assert result["batch"] == 8
    refuses(bench("m.txt", "--batch", "9"), 1, "the model is made for batch size 8, not 9")
    refuses(bench("open.txt"), 1, "dimension 0 of input 'x' is s0", "--dim SYMBOL=N")


def test_precisions(bench):
    result = bench("m.txt", "--precision", "fp32,bf16")
    single, half = result.run["results"]
    assert single["precision"] == "fp32"
    assert half["precision"] == "bf16"
    assert single["median_ms"] > 0
    if "error" in half:  # this CPU has no bfloat16
        assert result.returncode == 1
        assert "bfloat16" in half["error"]
        return
    assert result.returncode == 0
    names = [name for name in result.run["metrics"] if "amp_bf16" in name]
    assert len(names) == 5
    assert half["model_flops"] == single["model_flops"]


def test_no_number_for_a_precision_that_did_not_run(bench, monkeypatch):
    monkeypatch.setenv("TENON_MAX_ISA", "avx2")
    result = bench("m.txt", "--precision", "bf16")
    refuses(result, 1, "m, bf16: ", "bfloat16")
    (facts,) = result.run["results"]
    assert "median_ms" not in facts
    assert all(isinstance(value, str) for value in result.run["metrics"].values())


def test_threads(bench):
    run = bench.ok("m.txt", "--threads", "1")
    assert run["environ"]["threads"] == 1
    assert run["results"][0]["threads"] == 1


def test_instances(bench):
    cores = bench.ok("m.txt")["environ"]["cores"]
    too_many = bench("m.txt", "--instances", cores + 1)
    refuses(too_many, 2, f"--instances: {cores + 1}, but there")
    count = min(cores, 2)
    run = bench.ok("m.txt", "--instances", count, "--detail")
    (result,) = run["results"]
    assert run["environ"]["instances"] == len(result["instances"]) == count
    assert run["environ"]["threads"] == cores // count
    assert len(result["samples_ms"]) == 16 * count
    for k, instance in enumerate(result["instances"]):
        part = result["samples_ms"][16 * k : 16 * (k + 1)]
        assert instance["median_ms"] == pytest.approx(np.median(part))
        assert instance["throughput"] == pytest.approx(8e3 / np.median(part))
    assert result["throughput"] == pytest.approx(
        sum(instance["throughput"] for instance in result["instances"])
    )
    assert result["peak_memory_bytes"] == pytest.approx(
        np.mean([instance["peak_memory_bytes"] for instance in result["instances"]])
    )


# ---- Suites


@pytest.fixture
def suite(bench, tenon):
    """Two models, one of them with two batch sizes, and what they give."""
    folder = bench.folder / "suite"
    folder.mkdir()
    models = []
    generator = np.random.default_rng(0)
    for name, batch in (("one", 8), ("two", 8), ("two", 4)):
        (folder / f"{name}_{batch}.txt").write_text(MODEL.replace("[8, 64]", f"[{batch}, 64]"))
        x = generator.standard_normal((batch, 64)).astype(np.float32)
        np.save(folder / f"{name}_{batch}_x.npy", x)
        z = tenon.run(folder / f"{name}_{batch}.txt", {"x": x})["z"]
        np.save(folder / f"{name}_{batch}_z.npy", z)
        models.append(
            {
                "name": name,
                "batch": batch,
                "file": f"{name}_{batch}.txt",
                "inputs": {"x": f"{name}_{batch}_x.npy"},
                "outputs": {"z": f"{name}_{batch}_z.npy"},
            }
        )
    write_suite(folder, models)
    return folder


def write_suite(folder, models):
    (folder / "suite.json").write_text(json.dumps({"name": "mine", "models": models}))


def measured(run):
    return [(r["model"], r["batch"]) for r in run["results"]]


def test_suite(bench, suite):
    run = bench.ok("--suite", suite)
    assert measured(run) == [("one", 8), ("two", 8), ("two", 4)]
    assert all(r["output_error"] <= 1e-4 for r in run["results"])
    assert measured(bench.ok("--suite", "suite/suite.json", "--batch", "8")) == [
        ("one", 8),
        ("two", 8),
    ]
    assert measured(bench.ok("two", "--suite", suite, "--batch", "4")) == [("two", 4)]


def test_suite_without_arrays(bench, suite):
    """Inputs are random then, and outputs are not compared."""
    write_suite(suite, [{"name": "one", "batch": 8, "file": "one_8.txt"}])
    (result,) = bench.ok("--suite", suite)["results"]
    assert "output_error" not in result


def test_suite_has_it_not(bench, suite):
    refuses(bench("three", "--suite", suite), 2, "no model 'three'; it has one, two")
    refuses(bench("--suite", suite, "--batch", "4,16"), 2, "batch size 16")
    refuses(bench("one", "--suite", suite, "--batch", "4"), 2, "batch size 4")
    refuses(bench("--suite", "nowhere"), 2, "nowhere: No such file")
    refuses(bench("--suite", bench.folder), 2, "suite.json: No such file")
    refuses(bench("--suite", suite, "--dim", "s0=3"), 2, "--dim and --input")


@pytest.mark.parametrize(
    "text, says",
    [
        ("", "this is no JSON"),
        ('{"models": [}', "this is no JSON"),
        ("[]", "no list 'models'"),
        ('{"models": {}}', "no list 'models'"),
        ('{"models": []}', "has no models"),
        ('{"models": [{"file": "x"}]}', "models[0] has no 'name'"),
        ('{"models": [{"name": "x"}]}', "models[0] has no 'file'"),
        ('{"models": [{"name": "x", "file": "y", "batch": 0}]}', "models[0].batch"),
        ('{"models": [{"name": "x", "file": "y", "batch": "8"}]}', "models[0].batch"),
        ('{"models": [{"name": "x", "file": "y", "inputs": []}]}', "models[0].inputs"),
        ('{"models": [{"name": "x", "file": "y", "outputs": {"z": 1}}]}', "outputs.z"),
    ],
)
def test_broken_suite(bench, text, says):
    (bench.folder / "suite.json").write_text(text)
    result = bench("--suite", bench.folder)
    refuses(result, 2, says, "suite.json")
    assert result.stdout == ""


def test_wrong_outputs(bench, suite):
    """A model that computes something else is not measured."""
    z = np.load(suite / "two_8_z.npy")
    np.save(suite / "two_8_z.npy", np.where(z == z.max(), 1.25 * z, z))
    result = bench("--suite", suite)
    refuses(result, 1, "two, batch 8, fp32: output 'z' differs", "largest error 0.2 of")
    assert [("error" in r) for r in result.run["results"]] == [False, True, False]
    assert bench.ok("--suite", suite, "--tolerance", "0.25")["results"][1]["output_error"] > 0.19


# ---- Failures


def test_failures_stop_nothing(bench):
    (bench.folder / "broken.txt").write_text("graph {")
    (bench.folder / "unknown.txt").write_text(MODEL.replace("aten.relu", "mine.relu"))
    result = bench("nothing.pt2", "broken.txt", "m.txt", "unknown.txt")
    refuses(result, 1, "nothing, fp32: nothing.pt2: ", "3 of 4 failed")
    errors = [r.get("error", "") for r in result.run["results"]]
    assert "nothing.pt2" in errors[0]
    assert "broken.txt" in errors[1]
    assert errors[2] == ""
    assert "mine.relu" in errors[3]
    assert len(re.findall(r"^(nothing|broken|unknown) +- +fp32 +failed$", result.stdout, re.M)) == 3
    assert re.search(r"^m +8 +fp32 +\d", result.stdout, re.M)
    strings = [v for v in result.run["metrics"].values() if isinstance(v, str)]
    assert len(strings) == 15


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def overlap(pids):
    """Whether any of these processes may use the same CPU as another."""
    masks = [os.sched_getaffinity(pid) for pid in pids]
    return len(set().union(*masks)) < sum(map(len, masks))


@pytest.mark.parametrize("instances", [1, 2])
def test_a_process_that_dies(bench, tenon, instances):
    if instances > len(os.sched_getaffinity(0)):
        pytest.skip("there is one core only")
    # So many runs that it is still warming up when it is killed.
    arguments = ["m.txt", "--no-peaks", "--nwarmup", "1000000", "--instances", instances]
    arguments = [str(tenon.command), "bench", *map(str, arguments)]
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while len(found := children(process.pid)) < instances or overlap(found):
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(found[-1], signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "ended by signal 9 (Killed)" in err
    assert re.search(r"^m +- +fp32 +failed$", out, re.M)


@pytest.mark.parametrize(
    "arguments, says",
    [
        ((), "no model and no suite"),
        (("m.txt", "--precision", "fp16"), "'fp16' is not fp32 or bf16"),
        (("m.txt", "--precision", "fp32,fp32"), "given twice"),
        (("m.txt", "--batch", "0"), "--batch: '0'"),
        (("m.txt", "--batch", "1,,2"), "--batch: ''"),
        (("m.txt", "--batch", "4,4"), "--batch: 4 is given twice"),
        (("m.txt", "--instances", "0"), "--instances: '0'"),
        (("m.txt", "--niter", "0"), "--niter: '0'"),
        (("m.txt", "--rounds", "-1"), "--rounds: '-1'"),
        (("m.txt", "--interval", "0"), "--interval: '0'"),
        (("m.txt", "--time-limit", "x"), "--time-limit: 'x'"),
        (("m.txt", "--threshold", "2"), "--threshold: there is no --baseline"),
        (("m.txt", "--retries", "2"), "--retries: there is no --baseline"),
        (("m.txt", "--backend", "gpu"), "'gpu' is not auto"),
        (("m.txt", "--what"), "--what"),
        (("m.txt", "--html", ""), "--html: the path is empty"),
    ],
)
def test_usage(bench, tenon, arguments, says):
    result = tenon.start("bench", *arguments)
    refuses(result, 2, "tenon bench: ", says)
    assert result.stdout == ""


def test_files_that_cannot_be_written(bench, tenon):
    for option in ("--json", "--html"):
        result = tenon.start("bench", "m.txt", *SHORT, option, "nowhere/x")
        refuses(result, 1, f"{option}: 'nowhere/x' cannot be written")
        assert result.stdout == ""


# ---- The baseline


def scale(run, factor):
    for result in run["results"]:
        result["samples_ms"] = [time * factor for time in result["samples_ms"]]
    return run


@pytest.mark.parametrize("factor, status", [(1e-6, 1), (1e6, 0)])
def test_baseline(bench, factor, status):
    old = scale(bench.ok("m.txt", "open.txt", "--batch", "8"), factor)
    (bench.folder / "old.json").write_text(json.dumps(old))
    arguments = "m.txt", "open.txt", "--batch", "8"
    result = bench(*arguments, "--baseline", "old.json", "--threshold", "2")
    assert result.returncode == status
    assert ("2 results are slower than 2.00 times the baseline" in result.stderr) == (status == 1)
    assert result.stdout.count("SLOWER") == 2 * status
    ratios = []
    for new, before in zip(result.run["results"], old["results"], strict=True):
        a, b = new["samples_ms"], before["samples_ms"]
        ratio = np.median(a) / np.median(b)
        ratios.append(ratio)
        baseline = new["baseline"]
        assert baseline["ratio"] == pytest.approx(ratio)
        assert baseline["median_ms"] == pytest.approx(np.median(b))
        assert baseline["slower"] == (status == 1)
        assert new["attempts"] == (3 if status == 1 else 1)
        part = Fraction(975, 1000)
        low, high = exact_interval(a, part), exact_interval(b, part)
        assert baseline["ratio_interval"] == pytest.approx([low[0] / high[1], low[1] / high[0]])
    mean = np.exp(np.mean(np.log(ratios)))
    assert f"Geometric mean of 2 ratios: {mean:.3f}" in result.stdout


def test_an_interval_that_is_wide_is_no_failure(bench):
    """The median is above the threshold, but all of its interval is not."""
    old = bench.ok("m.txt")
    old["results"][0]["samples_ms"] = [1e-9] * 9 + [1e9] * 7
    (bench.folder / "old.json").write_text(json.dumps(old))
    result = bench("m.txt", "--baseline", "old.json")
    assert result.returncode == 0
    (facts,) = result.run["results"]
    assert facts["baseline"]["ratio"] > 1.1
    assert facts["baseline"]["slower"] is False


@pytest.mark.parametrize("retries", [0, 1])
def test_retries(bench, retries):
    """What seems slower is measured again, and the fastest attempt counts."""
    old = scale(bench.ok("m.txt"), 1e-6)
    (bench.folder / "old.json").write_text(json.dumps(old))
    result = bench("m.txt", "--baseline", "old.json", "--retries", retries)
    assert result.returncode == 1
    assert result.run["results"][0]["attempts"] == retries + 1
    assert result.stdout.count("SLOWER") == 1


def test_what_has_no_baseline(bench):
    old = bench.ok("m.txt")
    old["environ"]["threads"] += 1
    old["environ"]["device"] = "another"
    (bench.folder / "old.json").write_text(json.dumps(old))
    options = "--batch", "8", "--baseline", "old.json", "--threshold", 1e9
    result = bench("m.txt", "open.txt", *options)
    assert result.returncode == 0
    assert "1 of 2 results have none to compare with" in result.stdout
    assert "measured with another CPU" in result.stdout
    assert "measured with another number of threads" in result.stdout


def test_a_run_beside_itself(bench):
    """A saved run is a baseline also of the run that is written over it."""
    bench.ok("m.txt")
    saved = bench.folder / "saved.json"
    (bench.folder / "run.json").rename(saved)
    for _ in range(2):
        result = bench("m.txt", "--baseline", saved, "--threshold", 1e9)
        assert result.returncode == 0
        assert "baseline" in result.run["results"][0]
        (bench.folder / "run.json").rename(saved)


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda run: "", "this is no JSON, from line 1"),
        (lambda run: json.dumps(run)[:-3], "this is no JSON"),
        (lambda run: [], "its name is not 'tenon'"),
        (lambda run: run | {"name": "cpu"}, "its name is not 'tenon'"),
        (lambda run: {"name": "tenon", "metrics": {}}, "no list 'results'"),
        (lambda run: run | {"results": {}}, "no list 'results'"),
        (lambda run: run | {"results": [1]}, "results[0] has no text 'model'"),
        (lambda run: change_result(run, model=3), "results[0] has no text 'model'"),
        (lambda run: change_result(run, precision=""), "results[0] has no text 'precision'"),
        (lambda run: change_result(run, batch=None), "results[0] has no number 'batch'"),
        (lambda run: change_result(run, samples_ms=[]), "results[0] has no list 'samples_ms'"),
        (lambda run: change_result(run, samples_ms=3), "results[0] has no list 'samples_ms'"),
        (lambda run: change_result(run, samples_ms=[1, -1]), "samples_ms[1] is no number above 0"),
        (lambda run: change_result(run, samples_ms=[0]), "samples_ms[0] is no number above 0"),
        (lambda run: change_result(run, samples_ms=["1"]), "samples_ms[0] is no number above 0"),
    ],
)
def test_broken_baseline(bench, change, says):
    changed = change(bench.ok("m.txt"))
    text = changed if isinstance(changed, str) else json.dumps(changed)
    (bench.folder / "old.json").write_text(text)
    result = bench("m.txt", "--baseline", "old.json")
    refuses(result, 1, "--baseline: old.json: ", says)
    assert result.stdout == ""
    assert result.run is None


def change_result(run, **values):
    run["results"][0] |= values
    return run


def test_missing_baseline(bench):
    refuses(bench("m.txt", "--baseline", "old.json"), 1, "--baseline: old.json: No such file")


# ---- The progress bar


def test_progress_on_a_terminal_only(bench, tenon):
    assert bench("m.txt").stderr == ""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(tenon.command), "bench", "m.txt", *SHORT], stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # how a terminal says that it is closed
            break
        if not part:
            break
        shown += part
    out, _ = process.communicate(timeout=120)
    os.close(ours)
    assert process.returncode == 0
    assert b"1/1 m, fp32" in shown
    assert shown.endswith(b"\r\x1b[K")
    assert b"\x1b" not in out
