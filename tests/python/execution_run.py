"""Runs a model of one float32 input and writes the execution graph of its runs.

    execution_run.py LIBTENON MODEL TRACE SHAPE...

one run for each SHAPE, such as 2x1x8x8. Talks to the C API directly, in a process of its own, where
no other OpenMP is loaded.
"""

import ctypes
import math
import sys

from session_memory import View


def main():
    library, model, trace, *shapes = sys.argv[1:]
    tenon = ctypes.CDLL(library)
    tenon.tenon_last_error.restype = ctypes.c_char_p
    tenon.tenon_dtype_from_text.argtypes = [ctypes.c_char_p]

    def check(status):
        if status:
            raise SystemExit(tenon.tenon_last_error().decode())

    graph, session, context = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(tenon.tenon_load(model.encode(), ctypes.byref(graph)))
    check(tenon.tenon_session_create(graph, None, ctypes.byref(session)))
    check(tenon.tenon_context_create(session, ctypes.byref(context)))
    check(tenon.tenon_execution_trace_start(trace.encode()))
    for text in shapes:
        shape = list(map(int, text.split("x")))
        data = (ctypes.c_float * math.prod(shape))()
        view = View(ctypes.addressof(data), tenon.tenon_dtype_from_text(b"float32"), len(shape))
        for d in range(len(shape)):
            view.shape[d], view.strides[d] = shape[d], math.prod(shape[d + 1 :])
        outputs = (View * tenon.tenon_session_output_count(session))()
        check(tenon.tenon_context_run(context, ctypes.byref(view), 1, outputs, len(outputs)))
    check(tenon.tenon_execution_trace_stop())


if __name__ == "__main__":
    main()
