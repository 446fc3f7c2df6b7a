"""Samples of PyTorch's own operator tests through a real export: the archive, the loader, the command."""

import shutil
import warnings

import numpy as np
import pytest
import torch

PARTS = 6
LEAST = 40  # operators of each part that must come through
DTYPES = (torch.float32, torch.int64)
# What docs/ops.md says of operators that are refused.
REFUSALS = (
    "unknown operator",
    "depends on",
    "complex numbers",
    "random numbers",
    "computes gradients",
    "takes a number out of",
    "singular values",
    "changes its running statistics",
)


def samples(part):
    from torch.testing._internal.common_methods_invocations import op_db

    for index, op in enumerate(op_db):
        if index % PARTS != part:
            continue
        dtype = next((d for d in DTYPES if d in op.supported_dtypes("cpu")), None)
        if dtype is None:
            continue
        torch.manual_seed(0)
        found = [s for s in op.sample_inputs("cpu", dtype, requires_grad=False) if usable(s)]
        if found:
            yield op, found[min(1, len(found) - 1)]


def usable(sample):
    return isinstance(sample.input, torch.Tensor) and sample.input.numel() <= 1 << 16 and sample.input.numel() > 0


class Call(torch.nn.Module):
    """The operator; tensors among its other arguments are inputs of the program as well."""

    def __init__(self, op, sample):
        super().__init__()
        self.op, self.sample = op, sample
        self.inputs = [sample.input, *(a for a in sample.args if isinstance(a, torch.Tensor))]

    def forward(self, *tensors):
        rest = iter(tensors[1:])
        args = [next(rest) if isinstance(a, torch.Tensor) else a for a in self.sample.args]
        result = self.op(tensors[0], *args, **self.sample.kwargs)
        return result if isinstance(result, torch.Tensor) else list(result)


def exported(op, sample, path):
    """The archive at `path`; (names, tensors, results), or None: random, complex, or not to be exported."""
    call = Call(op.op, sample)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            wanted, again = (as_list(call(*(x.clone() for x in call.inputs))) for _ in range(2))
            program = torch.export.export(call, tuple(x.clone() for x in call.inputs))
            torch.export.save(program, path)
    except Exception:
        return None
    tensors = [*wanted, *call.inputs]
    if not wanted or any(type(x) is not torch.Tensor or x.is_complex() or x.is_sparse for x in tensors):
        return None
    if not all(torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in zip(wanted, again)):
        return None
    return program.graph_signature.user_inputs, call.inputs, wanted


def as_list(result):
    return [result] if isinstance(result, torch.Tensor) else result


def run(tenon, folder, path, names, inputs, wanted):
    """Runs the archive; what is wrong with it, "" if nothing, None if Tenon refuses it."""
    arguments = []
    for name, tensor in zip(names, inputs, strict=True):
        np.save(folder / f"{name}.npy", tensor.numpy())
        arguments += ["--input", f"{name}={folder / name}.npy"]
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    result = tenon.start("run", path, *arguments, "--output", out)
    if result.returncode != 0:
        return None if any(text in result.stderr for text in REFUSALS) else result.stderr
    files = list(out.iterdir()) if len(wanted) == 1 else [out / f"{i}.npy" for i in range(len(wanted))]
    for file, want in zip(files, wanted, strict=True):
        try:
            got = torch.from_numpy(np.load(file))
            if want.dtype == torch.bfloat16:  # for which files have float32
                want = want.float()
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)
        except (AssertionError, OSError) as error:
            return str(error)
    return ""


@pytest.mark.parametrize("part", [pytest.param(i, marks=[pytest.mark.slow] * (i % 2)) for i in range(PARTS)])
def test_samples(tenon, tmp_path, part):
    passed, faults = 0, []
    path = tmp_path / "call.pt2"
    for op, sample in samples(part):
        made = exported(op, sample, path)
        fault = run(tenon, tmp_path, path, *made) if made else None
        if fault:
            faults.append(f"{op.name}: {fault}")
        passed += fault == ""
    assert not faults, "\n".join(faults)
    assert passed >= LEAST
