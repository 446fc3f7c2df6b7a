"""The profiler of libtenon through ctypes: schedules, steps and the names of what was recorded."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_int, c_int64, c_void_p

import numpy as np
from session_memory import View

ACTIONS = ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"]
RUN_EVENT, STEP_EVENT = 3, 8


class Schedule(Structure):
    _fields_ = [(name, c_int64) for name in ["skip_first", "wait", "warmup", "active", "repeat"]]
    _fields_ += [("skip_first_wait", c_bool)]


ScheduleFn = CFUNCTYPE(c_int, c_int64, c_void_p)
ReadyFn = CFUNCTYPE(None, c_void_p, c_void_p)


class Options(Structure):
    _fields_ = [
        *((name, c_bool) for name in ["record_shapes", "memory", "stack", "flops", "modules"]),
        ("schedule", POINTER(Schedule)),
        ("schedule_fn", ScheduleFn),
        ("schedule_user", c_void_p),
        ("on_trace_ready", ReadyFn),
        ("ready_user", c_void_p),
    ]


class Event(Structure):
    _fields_ = [("name", c_char_p), ("kind", c_int), ("rest", c_char * 512)]


class Library:
    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.tenon_last_error.restype = c_char_p
        self.library.tenon_profiler_step_num.restype = c_int64
        self.library.tenon_profiler_get_event.restype = c_bool

    def call(self, name, *arguments):
        status = getattr(self.library, f"tenon_profiler_{name}")(*arguments)
        assert status == 0, f"{name}: {self.library.tenon_last_error().decode()}"

    def action(self, schedule, step):
        return self.library.tenon_profiler_schedule_action(byref(schedule), c_int64(step))

    def recorded(self, profiler):
        """Of the last recording: the events ProfilerStep#N, and how many runs there are."""
        names, runs, event = [], 0, Event()
        for i in range(self.library.tenon_profiler_event_count(profiler)):
            assert self.library.tenon_profiler_get_event(profiler, i, byref(event))
            if event.kind == STEP_EVENT:
                names.append(event.name.decode())
            runs += event.kind == RUN_EVENT
        return names, runs

    def profile(self, steps, schedule=None, function=None, work=lambda: None):
        """A profile of so many steps, each of which does `work`: the action of each, and for each
        call of on_trace_ready the step number, the names of steps, and the number of runs."""
        actions, ready, profiler = [], [], c_void_p()

        def on_ready(pointer, _):
            pointer = c_void_p(pointer)
            number = self.library.tenon_profiler_step_num(pointer)
            ready.append((number, *self.recorded(pointer)))

        options = Options(
            schedule=ctypes.pointer(schedule) if schedule else None,
            schedule_fn=ScheduleFn(lambda step, _: function(step)) if function else ScheduleFn(),
            on_trace_ready=ReadyFn(on_ready),
        )
        self.call("create", byref(options), byref(profiler))
        self.call("start", profiler)
        for step in range(steps):
            if step > 0:
                self.call("step", profiler)
            assert self.library.tenon_profiler_step_num(profiler) == step
            actions.append(self.library.tenon_profiler_current_action(profiler))
            work()
        self.call("stop", profiler)
        self.library.tenon_profiler_destroy(byref(profiler))
        return actions, ready

    def runner(self, path, x):
        """A function that runs the model on the float32 array `x` and returns its output."""
        graph, session, context = c_void_p(), c_void_p(), c_void_p()
        tenon = self.library
        tenon.tenon_dtype_from_text.argtypes = [c_char_p]

        def check(status):
            assert status == 0, tenon.tenon_last_error().decode()

        check(tenon.tenon_load(str(path).encode(), byref(graph)))
        check(tenon.tenon_session_create(graph, None, byref(session)))
        check(tenon.tenon_context_create(session, byref(context)))
        x = np.ascontiguousarray(x)
        view = View(x.ctypes.data, tenon.tenon_dtype_from_text(b"float32"), x.ndim)
        for d in range(x.ndim):
            view.shape[d], view.strides[d] = x.shape[d], x.strides[d] // x.itemsize

        def run():
            output = View()
            check(tenon.tenon_context_run(context, byref(view), 1, byref(output), 1))
            shape = output.shape[: output.rank]
            memory = ctypes.cast(output.data, POINTER(ctypes.c_float))
            return np.ctypeslib.as_array(memory, shape).copy()

        run.holds = x
        return run
