"""Suites: which models the benchmarks run, at which batches, and their export to a folder.

A folder of a suite holds archives, inputs and PyTorch's outputs, and a suite.json that names them:

    {"name": "torchbench", "models": [
      {"name": "resnet50", "batch": 32, "file": "resnet50_b32.pt2",
       "inputs": {"x": "resnet50_b32_in_x.npy"}, "outputs": {"linear": "resnet50_b32_out.npy"}}]}

Paths are relative to it. Exports for peers also have "module", the pickled module, and "onnx", or
"onnx_error" with the reason why there is none. `tenon bench --suite` and bench/peers read it.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from . import models


class Entry(NamedTuple):
    """A model of a suite."""

    model: str  # its name in models.py
    batch: int = 1  # TorchBench's batch for evaluation
    small: int | None = None  # the batch where two cores would take over 10 s a run with that one
    size: int | None = None  # None: the model's own


# By TorchBench's names, where it has the model.
VISION = {
    "alexnet": Entry("alexnet", 128),
    "densenet121": Entry("densenet121", 64),
    "mnasnet1_0": Entry("mnasnet1_0", 32),
    "mobilenet_v2": Entry("mobilenet_v2", 16),
    "mobilenet_v3_large": Entry("mobilenet_v3_large", 32),
    "resnet18": Entry("resnet18", 8),
    "resnet50": Entry("resnet50", 32),
    "resnext50_32x4d": Entry("resnext50_32x4d", 8),
    "shufflenet_v2_x1_0": Entry("shufflenet_v2_x1_0", 64),
    "squeezenet1_1": Entry("squeezenet1_1", 16),
    "vgg16": Entry("vgg16", 4),
    "timm_efficientnet": Entry("efficientnet_b0", 64),
    "timm_nfnet": Entry("dm_nfnet_f0", 128, small=8),
    "timm_regnet": Entry("regnety_120", 32),
    "timm_resnest": Entry("resnest14d", 32),
    "timm_vision_transformer": Entry("vit_small_patch16_224", 32),
    "timm_vovnet": Entry("ese_vovnet39b", 32),
}
TEXT = {
    "hf_Bert": Entry("bert_base"),
    "hf_DistilBert": Entry("distilbert_base"),
    "hf_GPT2": Entry("gpt2_base"),
    "hf_Albert": Entry("albert_base"),
    "hf_T5": Entry("t5_small"),
}
# Two layers, 64 tokens.
SHORT_TEXT = {
    "hf_Bert_2x64": Entry("bert"),
    "hf_DistilBert_2x64": Entry("distilbert"),
    "hf_GPT2_2x64": Entry("gpt2"),
}
OTHERS = {"llama_small": Entry("llama"), "unet": Entry("unet")}
# In no suite.
SINGLE = {"minilm": Entry("minilm", 8)}
ENTRIES = {**VISION, **TEXT, **SHORT_TEXT, **OTHERS, **SINGLE}
SUITES = {
    "torchbench": [*VISION, *TEXT, *OTHERS],
    "short": [*VISION, *SHORT_TEXT, "llama_small"],
    "vision": list(VISION),
}
FORMS = ("module", "onnx")


def batch_of(name, batch):
    """The number that a batch of the command line is for a model: "eval" is TorchBench's, "small"
    the same or less where that takes long."""
    entry = ENTRIES[name]
    if batch == "eval":
        return entry.batch
    if batch == "small":
        return entry.small or entry.batch
    return batch


def _replace(path, save):
    """Saves under another name first, so that what stands at `path` is whole."""
    partial = path.with_name("partial-" + path.name)
    save(partial)
    os.replace(partial, path)


def _save_onnx(model, inputs, path):
    with torch.no_grad():
        program = torch.onnx.export(model, (), kwargs=inputs, dynamo=True, verbose=False)
    program.save(path, external_data=True)


def export(folder, name, batch, forms=()):
    """Writes what the folder lacks of a model with a batch; returns its entry of suite.json.
    `forms` are those that peers need beside the archive."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name}_b{batch}"
    kept = folder / f"{stem}.json"
    if kept.exists():
        entry = json.loads(kept.read_text())
        if all(form in entry or f"{form}_error" in entry for form in forms):
            return entry
    source = ENTRIES[name]
    size = source.size or models.native_size(source.model)
    inputs = models.inputs(source.model, batch, size)
    model = models.build(source.model)
    with torch.no_grad():
        program = models.export(source.model, model, models.Sample(batch, size))
        output = model(**inputs).numpy()
    (output_name,) = program.graph_signature.user_outputs
    entry = {
        "name": name,
        "batch": batch,
        "file": f"{stem}.pt2",
        "inputs": {argument: f"{stem}_in_{argument}.npy" for argument in inputs},
        "outputs": {output_name: f"{stem}_out.npy"},
    }
    for argument, value in inputs.items():
        np.save(folder / entry["inputs"][argument], value.numpy())
    np.save(folder / entry["outputs"][output_name], output)
    torch.export.save(program, folder / entry["file"])
    if "module" in forms:
        entry["module"] = f"{name}.pt"
        if not (folder / entry["module"]).exists():
            _replace(folder / entry["module"], lambda path: torch.save(model, path))
    if "onnx" in forms:
        try:
            _save_onnx(model, inputs, folder / f"{stem}.onnx")
            entry["onnx"] = f"{stem}.onnx"
        except Exception as error:  # whatever the exporter says is a result of the comparison
            entry["onnx_error"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    _replace(kept, lambda path: path.write_text(json.dumps(entry)))
    return entry


def write(folder, name, entries):
    """Writes suite.json: these entries, and those that it had of other models and batches."""
    path = Path(folder) / "suite.json"
    models_before = json.loads(path.read_text())["models"] if path.exists() else []
    merged = {(entry["name"], entry["batch"]): entry for entry in [*models_before, *entries]}
    suite = {"name": name, "models": list(merged.values())}
    _replace(path, lambda partial: partial.write_text(json.dumps(suite, indent=1) + "\n"))
    return path
