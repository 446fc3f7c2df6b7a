"""Parity with PyTorch on models of many kinds, raw and decomposed, on both backends.

Four small ones, of different kinds, stand in the short tier; the others are slow.
"""

import shutil

import pytest
import torch
import wider_models as wider
from conftest import largest_error

TOLERANCE = 1e-4
# bfloat16 keeps 8 bits, and errors add up over the layers: this tells what is wrong from what is
# rounded.
TOLERANCE_BF16 = 0.1
BATCH = 2
QUICK = ("mobilevit_xxs", "deberta_v2", "bart", "wav2vec2")
BF16 = ("coatnet_pico_rw_224", "mixer_s32_224", "segformer", "whisper_encoder", "modernbert", "bart", "deberta_v2")
DYNAMIC = ("mobilevit_xxs", "convnextv2_atto", "deberta_v2", "bart", "segformer", "wav2vec2")


class WiderModel:
    """A model, built once; its archives are exported when a test first asks for them."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        self.model = wider.build(name)
        self.programs = {}

    def archive(self, mode, dynamic):
        path = self.folder / f"{mode}_{'dynamic' if dynamic else 'static'}.pt2"
        if not path.exists():
            if dynamic not in self.programs:
                self.programs[dynamic] = wider.export(self.name, self.model, BATCH, dynamic)
            program = self.programs[dynamic]
            torch.export.save(program if mode == "raw" else program.run_decompositions(), path)
        return path

    def check(self, tenon, mode, *options, batch=BATCH, dynamic=False, tolerance=TOLERANCE):
        given = wider.inputs(self.name, batch)
        arrays = {name: value.numpy() for name, value in zip(("first", "second"), given)}
        got = tenon.run(self.archive(mode, dynamic), arrays, *options)
        with torch.no_grad():
            want = self.model(*given)
        assert len(got) == len(want)
        for index, right in enumerate(want):
            error = largest_error(got[str(index)], right.numpy())
            assert error <= tolerance, f"output {index}: {error:.2e} of the largest output"


def _quick_first(names, quick):
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in names]


@pytest.fixture(scope="module", params=_quick_first(wider.MODELS, QUICK))
def model(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    yield WiderModel(request.param, folder)
    shutil.rmtree(folder)


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("mode", ["raw", "core"])
def test_parity(tenon, model, mode, backend):
    model.check(tenon, mode, "--backend", backend)


@pytest.mark.slow
@pytest.mark.parametrize("name", BF16)
def test_bf16(tenon, tmp_path, name):
    WiderModel(name, tmp_path).check(tenon, "raw", "--precision", "bf16", tolerance=TOLERANCE_BF16)


@pytest.mark.slow
@pytest.mark.parametrize("name", DYNAMIC)
def test_any_batch(tenon, tmp_path, name):
    """One archive for several batches, none of them the one of the export."""
    model = WiderModel(name, tmp_path)
    for mode in ("raw", "core"):
        for batch in (1, 3):
            model.check(tenon, mode, batch=batch, dynamic=True)
