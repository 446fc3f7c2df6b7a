"""Runs a model under the profiler and writes all that it exports into a folder.

    profile_model.py LIBTENON MODEL INPUT.npy FOLDER

The input is float32. Talks to the C API directly. The folder gets trace.json, trace.json.gz,
board/ (a cycle for each two of the steps, wait 1, warmup 1, active 2), self.txt, total.txt,
memory.html, memory.json, and events.json: the events as the library tells them.
"""

import ctypes
import json
import sys
from pathlib import Path

import numpy as np

MAX_RANK = 12
STEPS = 8


class View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
    ]


class Schedule(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("skip_first", "wait", "warmup", "active", "repeat")),
        ("skip_first_wait", ctypes.c_bool),
    ]


class Options(ctypes.Structure):
    _fields_ = [
        ("record_shapes", ctypes.c_bool),
        ("profile_memory", ctypes.c_bool),
        ("with_stack", ctypes.c_bool),
        ("with_flops", ctypes.c_bool),
        ("with_modules", ctypes.c_bool),
        ("schedule", ctypes.POINTER(Schedule)),
        ("schedule_fn", ctypes.c_void_p),
        ("schedule_user", ctypes.c_void_p),
        ("on_trace_ready", ctypes.c_void_p),
        ("ready_user", ctypes.c_void_p),
    ]


class Board(ctypes.Structure):
    _fields_ = [("folder", ctypes.c_char_p), ("worker", ctypes.c_char_p), ("gzip", ctypes.c_bool)]


class Event(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kind", ctypes.c_int),
        ("thread", ctypes.c_int64),
        ("start_ns", ctypes.c_int64),
        ("end_ns", ctypes.c_int64),
        ("self_ns", ctypes.c_int64),
        ("parent", ctypes.c_int),
        ("child_count", ctypes.c_int),
        ("memory", ctypes.c_int64),
        ("self_memory", ctypes.c_int64),
        ("flops", ctypes.c_double),
        ("shapes", ctypes.c_char_p),
        ("strides", ctypes.c_char_p),
        ("module", ctypes.c_char_p),
        ("stack", ctypes.c_char_p),
        ("node_count", ctypes.c_int),
        ("nodes", ctypes.c_void_p),
    ]


class Profiler:
    def __init__(self, library):
        self.tenon = ctypes.CDLL(library)
        self.tenon.tenon_last_error.restype = ctypes.c_char_p
        self.tenon.tenon_dtype_from_text.argtypes = [ctypes.c_char_p]
        self.profiler = ctypes.c_void_p()

    def call(self, name, *arguments):
        if getattr(self.tenon, name)(*arguments):
            raise SystemExit(f"{name}: {self.tenon.tenon_last_error().decode()}")

    def load(self, model, array):
        graph, session = ctypes.c_void_p(), ctypes.c_void_p()
        self.context = ctypes.c_void_p()
        self.array = np.ascontiguousarray(array, np.float32)
        self.input = View(data=self.array.ctypes.data, rank=array.ndim)
        self.input.dtype = self.tenon.tenon_dtype_from_text(b"float32")
        self.input.shape[: array.ndim] = array.shape
        self.input.strides[: array.ndim] = [stride // 4 for stride in self.array.strides]
        self.call("tenon_load", str(model).encode(), ctypes.byref(graph))
        self.call("tenon_session_create", graph, None, ctypes.byref(session))
        self.call("tenon_context_create", session, ctypes.byref(self.context))
        self.outputs = (View * self.tenon.tenon_session_output_count(session))()

    def run(self):
        outputs = (View * len(self.outputs))()
        self.call(
            "tenon_context_run",
            self.context,
            ctypes.byref(self.input),
            1,
            outputs,
            len(outputs),
        )

    def start(self, options):
        self.tenon.tenon_profiler_destroy(ctypes.byref(self.profiler))
        self.call("tenon_profiler_create", ctypes.byref(options), ctypes.byref(self.profiler))
        self.call("tenon_profiler_start", self.profiler)

    def stop(self):
        self.call("tenon_profiler_stop", self.profiler)

    def export(self, what, path, *more):
        self.call(f"tenon_profiler_export_{what}", self.profiler, str(path).encode(), *more)

    def events(self):
        event, found = Event(), []
        while self.tenon.tenon_profiler_get_event(self.profiler, len(found), ctypes.byref(event)):
            row = {name: getattr(event, name) for name, _ in Event._fields_ if name != "nodes"}
            for name, value in row.items():
                if isinstance(value, bytes):
                    row[name] = value.decode(errors="replace")
            found.append(row)
        return found


def main():
    library, model, array, folder = sys.argv[1:]
    folder = Path(folder)
    profiler = Profiler(library)
    profiler.load(model, np.load(array))

    board = Board(str(folder / "board").encode(), None, False)
    schedule = Schedule(wait=1, warmup=1, active=2)
    handler = ctypes.cast(profiler.tenon.tenon_tensorboard_trace_handler, ctypes.c_void_p)
    every = dict(record_shapes=True, profile_memory=True, with_flops=True, with_modules=True)
    options = Options(
        schedule=ctypes.pointer(schedule),
        on_trace_ready=handler,
        ready_user=ctypes.addressof(board),
        with_stack=True,
        **every,
    )
    profiler.start(options)
    for _ in range(STEPS):
        profiler.run()
        profiler.call("tenon_profiler_step", profiler.profiler)
    profiler.stop()
    board_events = profiler.events()  # of the last cycle

    profiler.start(Options(with_stack=True, **every))
    profiler.tenon.tenon_record_function_begin(b'two "runs"; \\ \x01\xff')
    profiler.load(model, np.load(array))  # compiles, so that memory changes
    profiler.run()
    profiler.run()
    profiler.tenon.tenon_record_function_end()
    profiler.stop()
    profiler.export("chrome_trace", folder / "trace.json")
    profiler.export("chrome_trace", folder / "trace.json.gz")
    profiler.export("stacks", folder / "self.txt", b"self_cpu_time_total")
    profiler.export("stacks", folder / "total.txt", b"cpu_time_total")
    profiler.export("memory_timeline", folder / "memory.html")
    profiler.export("memory_timeline", folder / "memory.json")
    told = {"board": board_events, "trace": profiler.events()}
    (folder / "events.json").write_text(json.dumps(told))
    profiler.tenon.tenon_profiler_destroy(ctypes.byref(profiler.profiler))


if __name__ == "__main__":
    main()
