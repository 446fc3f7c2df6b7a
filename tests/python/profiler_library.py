"""The profiler of libtenon through ctypes: schedules, steps and the names of what was recorded."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_int, c_int64, c_void_p

ACTIONS = ["NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"]
STEP_EVENT = 8


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

    def step_names(self, profiler):
        """The events ProfilerStep#N of the last recording."""
        names, event = [], Event()
        for i in range(self.library.tenon_profiler_event_count(profiler)):
            assert self.library.tenon_profiler_get_event(profiler, i, byref(event))
            if event.kind == STEP_EVENT:
                names.append(event.name.decode())
        return names

    def profile(self, steps, schedule=None, function=None):
        """A profile of so many steps: the action of each, and for each call of on_trace_ready the
        step number and the names of steps."""
        actions, ready, profiler = [], [], c_void_p()

        def on_ready(pointer, _):
            pointer = c_void_p(pointer)
            number = self.library.tenon_profiler_step_num(pointer)
            ready.append((number, self.step_names(pointer)))

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
        self.call("stop", profiler)
        self.library.tenon_profiler_destroy(byref(profiler))
        return actions, ready
