#!/usr/bin/env python3
"""Writes replay files: the ATen calls that PyTorch makes for its own test samples.

PyTorch tests each operator with the samples of its `op_db`. This runs them eagerly, sees every ATen call on the
way (the composite operators that an undecomposed export holds, and what they come down to), and writes operator,
arguments and results for `replay.c`. Calls that PyTorch refuses are written as such.

    capture.py FOLDER [--ops NAME,...] [--dtypes NAME,...] [--jobs N]
    capture.py --subset FILE FOLDER      (a fixed choice of the calls in FOLDER, as one file)

A replay file is a zip with `calls.jsonl`, one call a line, and `data.bin`, the bytes of their tensors:

    op          "aten.add.Tensor"
    sample      the op_db entry, dtype and number it came from
    tensors     [dtype, shape, strides, first byte in data.bin, bytes, bytes before the first element]
    args        in the schema's order: {} the default, {"n":1} None, {"t":i} tensors[i], {"b"|"i"|"f"|"s"|"d": value},
                {"l":[...]} a list
    outputs     the same; {"n":1} for an output that is not computed
    changed     {argument's number: tensor after the call}, of those that the call writes
    fails       what PyTorch said, instead of outputs
    tolerances  {dtype: [rtol, atol]}, where they are not torch.testing's
    precise     for float32 and half types, the outputs of the same call in float64
    values      0 where memory is left as it was: only dtype and shape of the outputs count
"""
import argparse
import collections
import hashlib
import json
import math
import multiprocessing
import pathlib
import re
import sys
import warnings
import zipfile

import torch
from torch._C import DispatchKey
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.bool,
]
SINGLE = (torch.float32, torch.float16, torch.bfloat16)
UNINITIALISED = re.compile(r"aten::(new_)?empty(_like|_strided|_permuted|_quantized)?$|aten::resize_")
MOST_ELEMENTS = 1 << 20
MEMORY_FORMATS = [
    torch.contiguous_format,
    torch.preserve_format,
    torch.channels_last,
    torch.channels_last_3d,
]


class Excluded(Exception):
    """Complex, sparse, random: what a call holds that no conformance is asked for."""


def number(x):
    """A JSON number, or a string for what JSON cannot say."""
    if isinstance(x, int):
        return x if abs(x) < 2**53 else str(x)
    return str(x) if math.isnan(x) or math.isinf(x) else x


def dtype_text(dtype):
    return str(dtype).removeprefix("torch.")


def copied(x):
    """The same value with memory of its own, and the same strides."""
    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided:
            raise Excluded("sparse")
        if x.is_complex():
            raise Excluded("complex")
        if x.is_quantized or x.device.type != "cpu" or type(x) not in (torch.Tensor, torch.nn.Parameter):
            raise Excluded("quantized, or on another device")
        if x.dtype not in DTYPES:
            raise Excluded(f"dtype {dtype_text(x.dtype)}")
        if x.numel() > MOST_ELEMENTS:
            raise Excluded("large")
        return flat(x).detach().clone().as_strided(x.shape, x.stride(), span(x)[0])
    if isinstance(x, (list, tuple)):
        return type(x)(copied(item) for item in x) if type(x) in (list, tuple) else [copied(item) for item in x]
    return x


def span(x):
    """Elements of the storage before the first one, and after it."""
    steps = [(n - 1) * s for n, s in zip(x.shape, x.stride())] if x.numel() else []
    return -sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)


def flat(x):
    """The storage between the first and the last element."""
    before, after = span(x)
    return torch.as_strided(x, (before + after + 1,), (1,), x.storage_offset() - before) if x.numel() else x


def reaches_outside(self, size, stride, storage_offset=None):
    offset = self.storage_offset() if storage_offset is None else storage_offset
    if offset != self.storage_offset():
        return True
    steps = [(n - 1) * s for n, s in zip(size, stride)]
    return 0 not in size and sum(steps) > span(self)[1]


class Writer:
    """The calls of one replay file, each once."""

    def __init__(self):
        self.calls = []
        self.data = bytearray()
        self.seen = set()
        self.excluded = collections.Counter()

    def tensor(self, x, tensors):
        content = flat(x).contiguous().view(torch.uint8).numpy().tobytes() if x.numel() else b""
        size = x.element_size()
        self.data += bytes(-len(self.data) % 8)
        tensors.append([dtype_text(x.dtype), list(x.shape), list(x.stride()), len(self.data), len(content), span(x)[0] * size])
        self.data += content
        return {"t": len(tensors) - 1}

    def value(self, x, tensors):
        if isinstance(x, torch.Tensor):
            return self.tensor(x, tensors)
        if x is None or isinstance(x, torch.layout):
            return {"n": 1}
        if isinstance(x, torch.device):
            return {"s": str(x)}
        if isinstance(x, bool):
            return {"b": int(x)}
        if isinstance(x, int):
            return {"i": number(x)}
        if isinstance(x, float):
            return {"f": number(x)}
        if isinstance(x, complex):
            raise Excluded("complex")
        if isinstance(x, str):
            return {"s": x}
        if isinstance(x, torch.dtype):
            if x.is_complex:
                raise Excluded("complex")
            return {"d": dtype_text(x)}
        if isinstance(x, torch.memory_format):
            return {"i": MEMORY_FORMATS.index(x)}
        if isinstance(x, (list, tuple)):
            return {"l": [self.value(item, tensors) for item in x]}
        raise Excluded(type(x).__name__)

    def add(self, sample, func, given, outputs, changed, error, tolerances, precise):
        self.data += bytes(-len(self.data) % 8)
        mark = len(self.data)
        try:
            tensors = []
            call = {"op": str(func), "sample": sample, "args": []}
            for parameter in func._schema.arguments:
                known = parameter.name in given
                call["args"].append(self.value(given[parameter.name], tensors) if known else {})
            while call["args"] and not call["args"][-1]:
                call["args"].pop()
            same = hashlib.sha256(json.dumps([call["op"], call["args"]] + [t[:3] for t in tensors]).encode())
            same.update(self.data[mark:])
            if same.digest() in self.seen:
                del self.data[mark:]
                return
            self.seen.add(same.digest())
            if error:
                call["fails"] = str(error).split("\n")[0][:200]
            else:
                call["outputs"] = [self.value(x, tensors) for x in outputs]
                if changed:
                    call["changed"] = {i: self.value(x, tensors) for i, x in changed.items()}
                if precise:
                    call["precise"] = [self.value(x, tensors) for x in precise]
            if UNINITIALISED.match(func._schema.name):
                call["values"] = 0
            if tolerances:
                call["tolerances"] = tolerances
            call["tensors"] = tensors
            self.calls.append(json.dumps(call, separators=(",", ":")))
        except Excluded as reason:
            del self.data[mark:]
            self.excluded[f"{func}: {reason}"] += 1

    def write(self, path):
        if not self.calls:
            return
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            archive.writestr("calls.jsonl", "\n".join(self.calls) + "\n")
            archive.writestr("data.bin", bytes(self.data))


def by_name(func, args, kwargs):
    given = dict(zip((p.name for p in func._schema.arguments), args))
    given.update(kwargs)
    return given


def as_list(result):
    if isinstance(result, (list, tuple)):
        return list(result)
    return [] if result is None else [result]


def in_double(x):
    if isinstance(x, torch.Tensor):
        return x.double() if x.dtype in SINGLE else x
    if isinstance(x, (list, tuple)):
        return [in_double(item) for item in x]
    return torch.float64 if x in SINGLE else x


def precisely(func, given):
    """The results in float64, if the operator has any that are floats."""
    try:
        wide = as_list(func(**{name: in_double(copied(x)) for name, x in given.items()}))
        return [x if isinstance(x, torch.Tensor) and x.dtype == torch.float64 else None for x in wide]
    except Exception:
        return None


class Recorder:
    """What both modes do with a call. What it does itself, no mode records."""

    def __init__(self, writer):
        self.writer = writer
        self.sample = ""
        self.tolerances = None
        self.busy = False

    def call(self, func, args, kwargs):
        kwargs = kwargs or {}
        if self.busy or func.namespace != "aten" or func._schema.name == "aten::_has_same_storage_numel":
            return func(*args, **kwargs)
        given = by_name(func, args, kwargs)
        kept = self.quietly(func, self.keep, func, given)
        try:
            result = func(*args, **kwargs)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
            if kept:
                self.quietly(func, self.writer.add, self.sample, func, kept, None, None, error, None, None)
            raise
        if kept:
            self.quietly(func, self.add, func, given, kept, result)
        return result

    def quietly(self, func, step, *args):
        self.busy = True
        try:
            return step(*args)
        except Excluded as reason:
            self.writer.excluded[f"{func}: {reason}"] += 1
            return None
        finally:
            self.busy = False

    def keep(self, func, given):
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise Excluded("random")
        if func._schema.name in ("aten::as_strided", "aten::as_strided_") and reaches_outside(**given):
            raise Excluded("reads what its input is a view of")
        return {name: copied(x) for name, x in given.items()}

    def add(self, func, given, kept, result):
        outputs = [plain(x) if isinstance(x, torch.Tensor) else copied(x) for x in as_list(result)]
        changed = {}
        for i, parameter in enumerate(func._schema.arguments):
            written = given.get(parameter.name)
            if parameter.alias_info and parameter.alias_info.is_write and isinstance(written, torch.Tensor):
                changed[i] = plain(written)
        rounded = any(isinstance(x, torch.Tensor) and x.dtype in SINGLE for x in outputs)
        precise = precisely(func, kept) if rounded else None
        self.writer.add(self.sample, func, kept, outputs, changed, None, self.tolerances, precise)


def plain(x):
    """A result, in row-major memory."""
    copied(x)  # refuses what we do not take
    return x.detach().contiguous().clone()


class Below(TorchDispatchMode):
    """Sees what runs: below autograd and the composite operators."""

    def __init__(self, recorder):
        super().__init__()
        self.recorder = recorder

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.recorder.call(func, args, kwargs)


class Above(SchemaCheckMode):
    """Sees what is called, as torch.export does: composite operators whole. PyTorch keeps a place
    for modes of some classes there, of which this is one by name only."""

    def __init__(self, recorder):
        TorchDispatchMode.__init__(self, DispatchKey.PreDispatch)
        self.recorder = recorder

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with torch._C._DisablePythonDispatcher():
            return self.recorder.call(func, args, kwargs)


def tolerances_of(op, dtype):
    """{dtype: [rtol, atol]} that the operator's own tests ask for, where they are wider."""
    found = {}
    for info in op.decorators:
        if getattr(info, "device_type", None) not in (None, "cpu"):
            continue
        for decorator in getattr(info, "decorators", None) or [info]:
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                t = decorator.d[dtype]
                old = found.get(dtype_text(dtype), [0, 0])
                found[dtype_text(dtype)] = [max(old[0], t.rtol), max(old[1], t.atol)]
    return found


def run_sample(function, sample, modes):
    above, below = modes
    with torch.no_grad(), enable_python_dispatcher(), above, below:
        function(sample.input, *sample.args, **sample.kwargs)


def capture(op, dtypes, folder):
    name = op.name.replace(".", "_") + (f"-{op.variant_test_name}" if op.variant_test_name else "")
    writer = Writer()
    recorder = Recorder(writer)
    modes = Above(recorder), Below(recorder)
    functions = [op.op] + ([op.inplace_variant] if op.inplace_variant else [])
    for dtype in dtypes:
        if dtype not in op.supported_dtypes("cpu"):
            continue
        torch.manual_seed(0)
        recorder.tolerances = tolerances_of(op, dtype)
        for way, function in enumerate(functions):
            try:
                for i, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
                    recorder.sample = f"{name}/{dtype_text(dtype)}/{'inplace ' if way else ''}{i}"
                    try:
                        run_sample(function, sample, modes)
                    except Exception:
                        pass  # in-place variants of what changes shape; what raised is recorded
            except Exception as error:
                print(f"{name} {dtype}: {error}", file=sys.stderr)
    recorder.tolerances = None
    try:
        for i, wrong in enumerate(op.error_inputs("cpu") if op.error_inputs_func else []):
            recorder.sample = f"{name}/error/{i}"
            try:
                run_sample(op.op, wrong.sample_input, modes)
            except Exception:
                pass
    except Exception as error:
        print(f"{name} errors: {error}", file=sys.stderr)
    writer.write(folder / f"{name}.zip")
    return name, len(writer.calls), writer.excluded


def one(job):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    index, dtypes, folder = job
    return capture(op_db[index], dtypes, folder)


def capture_all(options):
    options.folder.mkdir(parents=True, exist_ok=True)
    dtypes = [d for d in DTYPES if not options.dtypes or dtype_text(d) in options.dtypes.split(",")]
    wanted = options.ops.split(",") if options.ops else None
    jobs = [(i, dtypes, options.folder) for i, op in enumerate(op_db) if not wanted or op.name in wanted]
    excluded, calls = collections.Counter(), 0
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=40) as pool:
        for name, count, left in pool.imap_unordered(one, jobs):
            calls += count
            excluded += left
            print(f"{name}: {count} calls", flush=True)
    (options.folder / "excluded.json").write_text(json.dumps(dict(sorted(excluded.items())), indent=0))
    print(f"{calls} calls; {sum(excluded.values())} left out: complex, sparse, random")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--ops")
    parser.add_argument("--dtypes")
    parser.add_argument("--jobs", type=int, default=2)
    capture_all(parser.parse_args())


if __name__ == "__main__":
    main()
