"""The engines that are compared: each takes one model from its folder and gives a function that
runs it once and gives the first output as an array.

An engine is given an entry of suite.json (see bench/zoo). Engines import what they need themselves:
a process holds one engine and nothing of the others.
"""

import threading
import time
import warnings
from pathlib import Path
from typing import NamedTuple


class Setting:
    """What all engines are given: the suite's folder and entry, the threads, the precision, where
    libtenon is, the passes that it leaves out, and whether throughput counts: the function that
    they give then has a `burst(n)`, which runs the model n times, several at once."""

    def __init__(
        self, folder, entry, threads, precision, library, without=(), throughput=False
    ):
        self.folder = Path(folder)
        self.entry = entry
        self.threads = threads
        self.precision = precision
        self.library = library
        self.without = without
        self.throughput = throughput

    def file(self, form):
        if f"{form}_error" in self.entry:
            raise RuntimeError(self.entry[f"{form}_error"])
        return self.folder / self.entry[form]

    def inputs(self):
        import numpy as np

        return [np.load(self.folder / file) for file in self.entry["inputs"].values()]


def _torch(setting):
    """The module and its inputs, with PyTorch's threads set."""
    if setting.throughput:
        raise RuntimeError("it runs one at a time")
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


def _onnxruntime_session(setting, threads):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return ort.InferenceSession(
        str(setting.file("onnx")), options, providers=["CPUExecutionProvider"]
    )


def _run_split(sessions, feeds, count):
    """Runs them, a Python thread for each session, as many times in all."""
    left = iter(range(count))

    def work(session):
        for _ in left:
            session.run(None, feeds)

    threads = [threading.Thread(target=work, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _best_split(setting, feeds):
    """Sessions that share the threads: as many as run the most in about a second."""
    best, best_rate = None, 0.0
    for count in range(1, setting.threads + 1):
        if setting.threads % count:
            continue
        sessions = [
            _onnxruntime_session(setting, setting.threads // count) for _ in range(count)
        ]
        _run_split(sessions, feeds, 2 * count)
        done, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < 1:
            _run_split(sessions, feeds, 4 * count)
            done += 4 * count
        rate = done / (time.perf_counter() - begin)
        if rate > best_rate:
            best, best_rate = sessions, rate
    return best


def onnxruntime(setting):
    """ONNX Runtime on the CPU"""
    if setting.precision == "bf16":
        raise RuntimeError("it has no bfloat16 on CPUs")
    session = _onnxruntime_session(setting, setting.threads)
    names = [i.name for i in session.get_inputs()]
    feeds = dict(zip(names, setting.inputs(), strict=True))

    def run():
        return session.run(None, feeds)[0]

    if setting.throughput:
        sessions = _best_split(setting, feeds)
        run.burst = lambda count: _run_split(sessions, feeds, count)
    return run


def openvino(setting):
    """OpenVINO on the CPU"""
    import openvino as ov

    core = ov.Core()
    options = {
        "INFERENCE_NUM_THREADS": setting.threads,
        "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16"}[setting.precision],
        "PERFORMANCE_HINT": "THROUGHPUT" if setting.throughput else "LATENCY",
    }
    if not setting.throughput:
        options["NUM_STREAMS"] = 1
    model = core.compile_model(str(setting.file("onnx")), "CPU", options)
    request = model.create_infer_request()
    feeds = dict(enumerate(setting.inputs()))

    def run():
        return request.infer(feeds, share_inputs=True, share_outputs=True)[0]

    if setting.throughput:
        queue = ov.AsyncInferQueue(model)  # as many requests as it finds best

        def burst(count):
            for _ in range(count):
                queue.start_async(feeds, share_inputs=True)
            queue.wait_all()

        run.burst = burst
    return run


def tenon(setting):
    """Tenon, through its C API"""
    from bench.peers.library import Library, Model, Pool

    file = setting.file("file")
    kind = Pool if setting.throughput else Model
    library = Library(setting.library)
    model = kind(library, file, setting.threads, setting.precision, setting.without)
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


# Those that can run several at once.
ASYNCHRONOUS = ("onnxruntime", "openvino", "tenon")


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
