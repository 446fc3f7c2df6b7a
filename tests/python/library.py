"""libtenon through ctypes, on PyTorch's tensors: sessions of archives and of graphs in the text form."""

import ctypes
from ctypes import Structure, byref, c_bool, c_char_p, c_int, c_void_p

import torch
from session_memory import View

BACKENDS = {"auto": 0, "onednn": 1, "reference": 2}
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
]


class Options(Structure):
    _fields_ = [
        ("threads", c_int),
        ("backend", c_int),
        ("precision", c_int),
        ("isa", c_char_p),
        ("max_shapes", c_int),
        ("passes", c_void_p),
        ("keep_denormals", c_bool),
        ("bf16_fallback", c_int),
        ("dry_run", c_bool),
        ("fpmath", c_int),
        ("split_ops", c_bool),
        ("tune", c_char_p),
        ("verify", c_bool),
        ("samples", c_void_p),
        ("sample_count", c_int),
        ("limits", ctypes.c_int64 * 11),
    ]


class Refused(Exception):
    """A call that failed, with the library's message."""


def dtype_text(dtype):
    return str(dtype).removeprefix("torch.")


class Library:
    def __init__(self, path):
        self.tenon = ctypes.CDLL(str(path))
        for name in ("last_error", "context_state_name", "session_output_name"):
            getattr(self.tenon, f"tenon_{name}").restype = c_char_p
        text = self.tenon.tenon_dtype_from_text
        self.number = {dtype: text(dtype_text(dtype).encode()) for dtype in DTYPES}
        self.dtype = {number: dtype for dtype, number in self.number.items()}

    def check(self, status):
        if status != 0:
            raise Refused(self.tenon.tenon_last_error().decode())

    def load(self, path, backend="auto"):
        return Model(self, backend, "load", str(path).encode())

    def parse(self, text, backend="auto"):
        return Model(self, backend, "graph_parse", text.encode(), b"test")

    def view(self, tensor):
        view = View(tensor.data_ptr(), self.number[tensor.dtype], tensor.dim())
        view.shape[: tensor.dim()] = tensor.shape
        view.strides[: tensor.dim()] = tensor.stride()
        return view

    def tensor(self, view):
        """A copy of the elements."""
        shape, strides = list(view.shape[: view.rank]), list(view.strides[: view.rank])
        dtype = self.dtype[view.dtype]
        if 0 in shape:
            return torch.empty(shape, dtype=dtype)
        last = sum((n - 1) * s for n, s in zip(shape, strides))
        memory = ctypes.string_at(view.data, (last + 1) * dtype.itemsize)
        return torch.frombuffer(bytearray(memory), dtype=dtype).as_strided(shape, strides).clone()


class Model:
    """A session with one context."""

    def __init__(self, library, backend, source, *arguments):
        self.library, tenon = library, library.tenon
        graph, self.session, self.context = c_void_p(), c_void_p(), c_void_p()
        try:
            library.check(getattr(tenon, f"tenon_{source}")(*arguments, byref(graph)))
            options = Options(threads=2, backend=BACKENDS[backend])
            library.check(tenon.tenon_session_create(graph, byref(options), byref(self.session)))
        finally:
            tenon.tenon_graph_destroy(byref(graph))
        library.check(tenon.tenon_context_create(self.session, byref(self.context)))

    def run(self, *inputs):
        """The outputs; None where the model has none. Writes the inputs that the model writes."""
        library, tenon = self.library, self.library.tenon
        count = tenon.tenon_session_output_count(self.session)
        views = (View * max(1, len(inputs)))(*map(library.view, inputs))
        outputs = (View * max(1, count))()
        library.check(tenon.tenon_context_run(self.context, views, len(inputs), outputs, count))
        return [library.tensor(view) if view.dtype else None for view in outputs[:count]]

    def state(self):
        """Copies of the buffers, by name."""
        library, tenon, view, out = self.library, self.library.tenon, View(), {}
        for i in range(tenon.tenon_context_state_count(self.context)):
            name = tenon.tenon_context_state_name(self.context, i)
            library.check(tenon.tenon_context_get_state(self.context, name, byref(view)))
            out[name.decode()] = library.tensor(view)
        return out

    def __del__(self):
        self.library.tenon.tenon_context_destroy(byref(self.context))
        self.library.tenon.tenon_session_destroy(byref(self.session))
