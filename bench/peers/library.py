"""libtenon through ctypes: load a model, run it many times."""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_void_p

MAX_RANK = 12
PRECISIONS = {"fp32": 0, "bf16": 1}


class View(ctypes.Structure):
    """tenon_view"""

    _fields_ = [
        ("data", c_void_p),
        ("dtype", c_int),
        ("rank", c_int32),
        ("shape", c_int64 * MAX_RANK),
        ("strides", c_int64 * MAX_RANK),
    ]


class Options(ctypes.Structure):
    """The head of tenon_session_options; the rest stays zero, which is each field's default."""

    _fields_ = [
        ("threads", c_int),
        ("backend", c_int),
        ("precision", c_int),
        ("isa", c_char_p),
        ("max_shapes", c_int),
        ("passes", c_void_p),
        ("rest", ctypes.c_char * 1024),
    ]


class PoolOptions(ctypes.Structure):
    """The head of tenon_pool_options, likewise."""

    _fields_ = [
        ("hint", c_int),
        ("instances", c_int),
        ("threads", c_int),
        ("rest", ctypes.c_char * 1024),
    ]


POOL_AUTO = 2


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(str(path))
        self.c.tenon_last_error.restype = c_char_p
        self.c.tenon_dtype_from_text.argtypes = [c_char_p]
        self.c.tenon_dtype_text.restype = c_char_p

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.c.tenon_last_error().decode())

    def view(self, array):
        view = View(array.ctypes.data, self.c.tenon_dtype_from_text(str(array.dtype).encode()))
        view.rank = array.ndim
        for d in range(array.ndim):
            view.shape[d], view.strides[d] = array.shape[d], array.strides[d] // array.itemsize
        return view

    def passes(self, without):
        """The default passes but these."""
        passes = c_void_p()
        self.check(self.c.tenon_passes_create(byref(passes)))
        try:
            for name in without:
                self.check(self.c.tenon_passes_remove(passes, name.encode()))
        except RuntimeError:
            self.destroy_passes(passes)
            raise
        return passes

    def destroy_passes(self, passes):
        self.c.tenon_passes_destroy(byref(passes))


class Model:
    """A session and a context, compiled without some of the default passes."""

    def __init__(self, library, path, threads, precision, without=()):
        self.library = library
        c, check = library.c, library.check
        graph, session, self.context = c_void_p(), c_void_p(), c_void_p()
        self.passes = library.passes(without)  # as long as the session, which compiles by it
        check(c.tenon_load(str(path).encode(), byref(graph)))
        options = Options(threads=threads, precision=PRECISIONS[precision], passes=self.passes)
        try:
            check(c.tenon_session_create(graph, byref(options), byref(session)))
        finally:
            c.tenon_graph_destroy(byref(graph))
        try:
            self.outputs = c.tenon_session_output_count(session)
            check(c.tenon_context_create(session, byref(self.context)))
        finally:
            c.tenon_session_destroy(byref(session))

    def runner(self, arrays):
        """A function that runs the model and gives its first output, in memory that holds until the
        next run."""
        c, check, context = self.library.c, self.library.check, self.context
        views = (View * len(arrays))(*(self.library.view(a) for a in arrays))
        outputs = (View * self.outputs)()
        count, size = len(arrays), ctypes.sizeof(outputs)
        known = {}  # an array for each place that the context put the output at, usually one

        def run():
            ctypes.memset(outputs, 0, size)
            check(c.tenon_context_run(context, views, count, outputs, self.outputs))
            place = outputs[0].data
            if place not in known:
                known[place] = self.array(outputs[0])
            return known[place]

        run.holds = arrays
        return run

    def array(self, view):
        """The view's memory as an array."""
        import numpy as np

        dtype = np.dtype(self.library.c.tenon_dtype_text(view.dtype).decode())
        shape = tuple(view.shape[: view.rank])
        strides = tuple(stride * dtype.itemsize for stride in view.strides[: view.rank])
        size = sum((d - 1) * s for d, s in zip(shape, strides)) + dtype.itemsize
        memory = ctypes.cast(view.data, POINTER(ctypes.c_char))
        return np.ndarray(shape, dtype, np.ctypeslib.as_array(memory, (size,)).data, 0, strides)


class Pool:
    """A pool that keeps the split that is best for the arrays."""

    def __init__(self, library, path, threads, precision, without=()):
        self.library = library
        self.graph = c_void_p()
        self.passes = library.passes(without)  # as long as the pool, which compiles by it
        self.options = Options(
            threads=threads, precision=PRECISIONS[precision], passes=self.passes
        )
        library.check(library.c.tenon_load(str(path).encode(), byref(self.graph)))

    def runner(self, arrays):
        """As Model's, with a `burst`."""
        import numpy as np

        c, check, pool = self.library.c, self.library.check, c_void_p()
        views = (View * len(arrays))(*(self.library.view(a) for a in arrays))
        choice = PoolOptions(hint=POOL_AUTO)
        create = (byref(self.options), byref(choice), views, len(arrays), byref(pool))
        check(c.tenon_pool_create(self.graph, *create))
        c.tenon_graph_destroy(byref(self.graph))
        count, first = 0, View()
        while c.tenon_pool_output(pool, count, byref(first)):
            count += 1
        c.tenon_pool_output(pool, 0, byref(first))
        nothing, wanted, request = (View * count)(), (View * count)(), c_void_p()
        dtype = np.dtype(c.tenon_dtype_text(first.dtype).decode())
        output = np.empty(tuple(first.shape[: first.rank]), dtype)
        wanted[0] = self.library.view(output)

        def submit(outputs, handle):
            check(c.tenon_pool_submit(pool, views, len(arrays), outputs, count, None, None, handle))

        def run():
            submit(wanted, byref(request))
            check(c.tenon_request_wait(byref(request)))
            return output

        def burst(times):
            for _ in range(times):
                submit(nothing, None)
            c.tenon_pool_drain(pool)

        run.burst = burst
        run.holds = arrays
        return run
