"""Parity with PyTorch: every model of the zoo, raw and decomposed, on both backends."""

import shutil

import pytest
import zoo
from conftest import largest_error
from zoo import Variant

TOLERANCE = 1e-4


class ZooModel:
    """A model, built once; its archives are exported when a test first asks for them."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = folder
        self.model = zoo.build(name)
        self.wanted = {}

    def archive(self, variant):
        path = self.folder / f"{self.name}_{variant.label()}.pt2"
        if not path.exists():
            zoo.save_archive(self.name, self.model, variant, path)
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
    shutil.rmtree(folder)  # the archives of all models together take 10 GB


def check(tenon, model, variant, batch, backend):
    inputs = zoo.inputs(model.name, batch, variant.size)
    arrays = {name: value.numpy() for name, value in inputs.items()}
    got = tenon.run(model.archive(variant), arrays, "--backend", backend)
    assert len(got) == 1
    error = largest_error(*got.values(), model.expected(batch, variant.size))
    assert error <= TOLERANCE, f"largest error {error:.2e} of the largest output"


# Static and dynamic archives take turns, so that each mode and each batch sees both.
@pytest.mark.parametrize(
    "mode, batch, dynamic",
    [("raw", 1, False), ("raw", 4, True), ("core", 1, True), ("core", 4, False)],
)
def test_auto(tenon, model, mode, batch, dynamic):
    sample_batch = 2 if dynamic else batch
    variant = Variant(mode, sample_batch, zoo.native_size(model.name), dynamic)
    check(tenon, model, variant, batch, "auto")


@pytest.mark.parametrize("mode", zoo.MODES)
def test_reference(tenon, model, mode):
    check(tenon, model, Variant(mode, 2, zoo.small_size(model.name)), 2, "reference")
