"""The export of the benchmarks' models: suites, batches, and what the published models are."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from bench.zoo import models, suite
from conftest import ROOT, largest_error

NAMES = ("squeezenet1_1", "hf_GPT2_2x64")


def export(*arguments):
    command = [sys.executable, "-m", "bench.zoo", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def read(folder):
    return json.loads((folder / "suite.json").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    result = export(folder, "--models", ",".join(NAMES), "--batch", "2")
    assert result.returncode == 0, result.stderr
    return folder


def run_entry(tenon, folder, entry):
    inputs = {name: np.load(folder / file) for name, file in entry["inputs"].items()}
    got = tenon.run(folder / entry["file"], inputs)
    assert got.keys() == entry["outputs"].keys()
    for name, file in entry["outputs"].items():
        assert got[name].shape[0] == entry["batch"]
        assert largest_error(got[name], np.load(folder / file)) <= 1e-4


def test_suite(tenon, folder):
    found = read(folder)
    assert found["name"] == "torchbench"
    assert [(e["name"], e["batch"]) for e in found["models"]] == [(name, 2) for name in NAMES]
    for entry in found["models"]:
        run_entry(tenon, folder, entry)


def test_again(folder):
    """What is there is kept; other batches come to it."""
    archive = folder / "squeezenet1_1_b2.pt2"
    before = archive.stat().st_mtime_ns
    result = export(folder, "--models", "squeezenet1_1", "--batch", "2,1")
    assert result.returncode == 0, result.stderr
    assert archive.stat().st_mtime_ns == before
    pairs = {(entry["name"], entry["batch"]) for entry in read(folder)["models"]}
    assert pairs == {(name, 2) for name in NAMES} | {("squeezenet1_1", 1)}


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("--models", "resnet5"), "no model 'resnet5'"),
        (("--batch", "0"), "'0' is no batch"),
        (("--batch", "1,train"), "'train' is no batch"),
        (("--suite", "none"), "invalid choice"),
    ],
)
def test_refused(tmp_path, arguments, message):
    result = export(tmp_path / "suite", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert not (tmp_path / "suite").exists()


def test_batches():
    """TorchBench's own batches for evaluation."""
    wanted = {
        **{"alexnet": 128, "densenet121": 64, "mnasnet1_0": 32, "mobilenet_v2": 16},
        **{"mobilenet_v3_large": 32, "resnet18": 8, "resnet50": 32, "resnext50_32x4d": 8},
        **{"shufflenet_v2_x1_0": 64, "squeezenet1_1": 16, "vgg16": 4, "timm_efficientnet": 64},
        **{"timm_nfnet": 128, "timm_regnet": 32, "timm_resnest": 32, "timm_vovnet": 32},
        **{"timm_vision_transformer": 32, "hf_Bert": 1, "hf_DistilBert": 1, "hf_GPT2": 1},
        **{"hf_Albert": 1, "hf_T5": 1, "llama_small": 1, "unet": 1},
    }
    names = suite.SUITES["torchbench"]
    assert {name: suite.batch_of(name, "eval") for name in names} == wanted
    small = {name: suite.batch_of(name, "small") for name in names}
    assert {name for name in names if small[name] != wanted[name]} == {"timm_nfnet"}
    assert small["timm_nfnet"] == 8
    assert suite.batch_of("resnet50", 7) == 7


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("bert_base", 109_514_298),
        ("distilbert_base", 66_985_530),
        ("gpt2_base", 124_439_808),
        ("albert_base", 11_221_680),
        ("t5_small", 60_506_624),
        ("unet", 31_037_698),
    ],
)
def test_published(name, parameters):
    """As many parameters as the published models have."""
    models.import_torchvision()
    with torch.device("meta"):
        model = models.UNet() if name == "unet" else models._published_model(name)
    assert sum(p.numel() for p in model.parameters()) == parameters


@pytest.mark.slow
@pytest.mark.parametrize("name", [*suite.TEXT, *suite.OTHERS])
def test_runs(tenon, tmp_path, name):
    run_entry(tenon, tmp_path, suite.export(tmp_path, name, 1))
