"""The engines that are compared: each takes one model from its folder and gives a function that
runs it once and gives the first output as an array.

An engine is given an entry of suite.json (see bench/zoo). Engines import what they need themselves:
a process holds one engine and nothing of the others.
"""

import warnings
from pathlib import Path
from typing import NamedTuple


class Setting:
    """What all engines are given: the suite's folder and entry, the threads, the precision, where
    libtenon is, and the passes that it leaves out."""

    def __init__(self, folder, entry, threads, precision, library, without=()):
        self.folder = Path(folder)
        self.entry = entry
        self.threads = threads
        self.precision = precision
        self.library = library
        self.without = without

    def file(self, form):
        if f"{form}_error" in self.entry:
            raise RuntimeError(self.entry[f"{form}_error"])
        return self.folder / self.entry[form]

    def inputs(self):
        import numpy as np

        return [np.load(self.folder / file) for file in self.entry["inputs"].values()]


def _torch(setting):
    """The module and its inputs, with PyTorch's threads set."""
    warnings.filterwarnings("ignore")
    import torch

    torch.set_num_threads(setting.threads)
    torch.set_num_interop_threads(1)
    from bench.zoo.models import import_torchvision

    import_torchvision()
    model = torch.load(setting.file("module"), weights_only=False, mmap=True)
    model.eval()
    return torch, model, tuple(torch.from_numpy(a) for a in setting.inputs())


def _torch_runner(torch, setting, model, inputs):
    def plain():
        with torch.inference_mode():
            return model(*inputs).numpy()

    def autocast():
        with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
            return model(*inputs).float().numpy()

    return autocast if setting.precision == "bf16" else plain


def _scripted_runner(torch, model, inputs):
    """Runs a frozen graph, which holds the casts of autocast already."""

    def run():
        with torch.inference_mode():
            return model(*inputs).float().numpy()

    return run


def _trace(torch, setting, model, inputs):
    """The traced and frozen graph. The casts of autocast become part of it."""
    with torch.no_grad():
        if setting.precision == "bf16":
            torch._C._jit_set_autocast_mode(False)
            with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
                traced = torch.jit.trace(model, inputs, check_trace=False)
        else:
            traced = torch.jit.trace(model, inputs, check_trace=False)
        return torch.jit.freeze(traced)


def eager(setting):
    """PyTorch as it is."""
    torch, model, inputs = _torch(setting)
    return _torch_runner(torch, setting, model, inputs)


def jit_optimized(setting):
    """torch.jit.optimize_for_inference"""
    torch, model, inputs = _torch(setting)
    with torch.no_grad():
        model = torch.jit.optimize_for_inference(_trace(torch, setting, model, inputs))
    return _scripted_runner(torch, model, inputs)


def jit_onednn(setting):
    """torch.jit with oneDNN Graph"""
    torch, model, inputs = _torch(setting)
    torch.jit.enable_onednn_fusion(True)
    return _scripted_runner(torch, _trace(torch, setting, model, inputs), inputs)


def inductor(setting):
    """torch.compile with frozen weights"""
    torch, model, inputs = _torch(setting)
    import torch._inductor.config

    torch._inductor.config.freezing = True
    return _torch_runner(torch, setting, torch.compile(model), inputs)


def onnxruntime(setting):
    """ONNX Runtime on the CPU"""
    import onnxruntime as ort

    if setting.precision == "bf16":
        raise RuntimeError("it has no bfloat16 on CPUs")
    options = ort.SessionOptions()
    options.intra_op_num_threads = setting.threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(
        str(setting.file("onnx")), options, providers=["CPUExecutionProvider"]
    )
    feeds = setting.inputs()
    names = [i.name for i in session.get_inputs()]
    feeds = dict(zip(names, feeds, strict=True))
    return lambda: session.run(None, feeds)[0]


def openvino(setting):
    """OpenVINO on the CPU, for latency"""
    import openvino as ov

    core = ov.Core()
    options = {
        "INFERENCE_NUM_THREADS": setting.threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[setting.precision],
    }
    model = core.compile_model(str(setting.file("onnx")), "CPU", options)
    request = model.create_infer_request()
    feeds = dict(enumerate(setting.inputs()))
    return lambda: request.infer(feeds, share_inputs=True, share_outputs=True)[0]


def tenon(setting):
    """Tenon, through its C API"""
    from bench.peers.library import Library, Model

    file = setting.file("file")
    library = Library(setting.library)
    model = Model(library, file, setting.threads, setting.precision, setting.without)
    return model.runner(setting.inputs())


# By what options and tables call them.
ENGINES = {
    "eager": eager,
    "jit_ofi": jit_optimized,
    "jit_onednn": jit_onednn,
    "compile": inductor,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "tenon": tenon,
}


class Variant(NamedTuple):
    """What a label stands for: ENGINE, ENGINE:PRECISION, and for Tenon either with -PASS for each
    pass that is left out."""

    engine: str
    precision: str
    without: tuple


def parse_label(label, precision):
    """A ValueError says what is wrong with it. `precision` is for labels without one."""
    head, *without = label.split("-")
    engine, _, own = head.partition(":")
    if engine not in ENGINES:
        raise ValueError(f"no engine {label!r}; there are {', '.join(ENGINES)}")
    if own not in ("", "fp32", "bf16"):
        raise ValueError(f"{label!r}: the precisions are fp32 and bf16")
    if without and engine != "tenon":
        raise ValueError(f"{label!r}: only Tenon's passes can be left out")
    return Variant(engine, own or precision, tuple(without))


def forms(labels):
    """What these engines read besides the archive: see bench/zoo/suite.py."""
    names = {parse_label(label, "fp32").engine for label in labels}
    onnx = names & {"onnxruntime", "openvino"}
    module = names - {"onnxruntime", "openvino", "tenon"}
    return [form for form, needed in (("module", module), ("onnx", onnx)) if needed]
