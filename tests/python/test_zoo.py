"""Parity with PyTorch: every model of the zoo, raw and decomposed, on both backends."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from bench.zoo import models as zoo
from conftest import largest_error
from explain_facts import check_reasons, check_sums, explain
from bench.zoo.models import Sample

TOLERANCE = 1e-4

# By model: how many oneDNN partitions the small archives give with that oneDNN, and how many
# nodes are in them.
PARTITIONS = json.loads((Path(__file__).parents[1] / "data" / "partitions.json").read_text())


class ZooModel:
    """A model, built once; its archives are exported when a test first asks for them."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        self.model = zoo.build(name)
        self.sample = self.program = None  # the export that came last
        self.wanted = {}

    def archive(self, mode, sample):
        path = self.folder / f"{mode}_{sample.label()}.pt2"
        if not path.exists():
            if self.sample != sample:
                self.sample, self.program = sample, zoo.export(self.name, self.model, sample)
            program = self.program if mode == "raw" else zoo.decompose(self.name, self.program)
            torch.export.save(program, path)
        return path

    def expected(self, batch, size):
        key = batch, size
        if key not in self.wanted:
            self.wanted[key] = zoo.expected(self.name, self.model, batch, size)
        return self.wanted[key]


@pytest.fixture(scope="module", params=zoo.MODELS)
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    yield ZooModel(request.param, folder)
    shutil.rmtree(folder)  # the archives of all models together take 15 GB


def check(tenon, model, mode, sample, batch, backend):
    inputs = zoo.inputs(model.name, batch, sample.size)
    arrays = {name: value.numpy() for name, value in inputs.items()}
    got = tenon.run(model.archive(mode, sample), arrays, "--backend", backend)
    assert len(got) == 1
    error = largest_error(*got.values(), model.expected(batch, sample.size))
    assert error <= TOLERANCE, f"largest error {error:.2e} of the largest output"


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("mode", zoo.MODES)
def test_any_batch(tenon, model, mode, batch):
    """One archive for both batches, at the model's own size."""
    check(tenon, model, mode, Sample(2, zoo.native_size(model.name), dynamic=True), batch, "auto")


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("mode", zoo.MODES)
def test_small(tenon, model, mode, backend):
    """Static archives, small images."""
    check(tenon, model, mode, Sample(2, zoo.small_size(model.name)), 2, backend)


def check_resnet50(text):
    """Each convolution of ResNet-50 runs in oneDNN, with its ReLU and its residual."""
    partitions, _, kernels = text.partition("Tenon's kernels\n")
    lines = re.findall(r"^  (?:step \d+|(\d+) times): (\S+)$", partitions, re.MULTILINE)
    groups = [group for times, group in lines for _ in range(int(times or 1))]
    fused = " ".join(groups)
    counts = {kind: len(re.findall(rf"\b{kind}\b", fused)) for kind in ("Convolution", "ReLU", "Add")}
    assert counts == {"Convolution": 53, "ReLU": 49, "Add": 16}
    for group in groups:
        assert group.startswith("Convolution") or not re.search("ReLU|Add", group), group
    assert "convolution" not in kernels


@pytest.mark.parametrize("mode", zoo.MODES)
def test_partitions(tenon, model, mode):
    """As many partitions as recorded: fewer nodes in them is work that left oneDNN unnoticed."""
    onednn = PARTITIONS["onednn"]
    if not re.search(rf"oneDNN {re.escape(onednn)}\.", tenon("--version")):
        pytest.skip(f"the counts are those of oneDNN {onednn}")
    archive = model.archive(mode, Sample(2, zoo.small_size(model.name)))
    text = tenon("explain", archive, "--threads", 2)
    found = re.search(r"(\d+) oneDNN partitions? with (\d+) nodes?", text)
    assert [int(number) for number in found.groups()] == PARTITIONS["counts"][model.name]
    if model.name == "resnet50":
        check_resnet50(tenon("explain", archive, "--threads", 2, "--backend", "onednn"))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("mode", zoo.MODES)
def test_reasons(tenon, model, mode, precision):
    """Each step, boundary and node outside oneDNN has a reason that somebody can act on."""
    archive = model.archive(mode, Sample(2, zoo.small_size(model.name)))
    facts = explain(tenon, archive, model.folder, "--precision", precision)
    check_reasons(facts)
    check_sums(facts)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["auto", "onednn"])
@pytest.mark.parametrize("mode", zoo.MODES)
def test_reasons_at_size(tenon, model, mode, backend):
    """The same at the model's own size; what is compiled is what a dry run told."""
    archive = model.archive(mode, Sample(1, zoo.native_size(model.name)))
    dry = explain(tenon, archive, model.folder, "--backend", backend)
    check_reasons(dry)
    check_sums(dry)
    real = explain(tenon, archive, model.folder, "--backend", backend, "--profile")
    check_reasons(real)
    assert [s["title"] for s in real["steps"]] == [s["title"] for s in dry["steps"]]


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("mode", zoo.MODES)
def test_static(tenon, model, mode, batch):
    """Static archives, at the model's own size."""
    check(tenon, model, mode, Sample(batch, zoo.native_size(model.name)), batch, "auto")


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("mode", zoo.MODES)
def test_reference(tenon, model, mode, batch):
    """The reference kernels at both batches."""
    sample = Sample(2, zoo.small_size(model.name), dynamic=True)
    check(tenon, model, mode, sample, batch, "reference")
