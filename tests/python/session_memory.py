"""Prints the memory, in KiB, that a model takes in this process after one run of each shape.

    session_memory.py LIBTENON MODEL BATCHxTOKENS...

The model takes two int64 inputs of (batch, tokens). Talks to the C API directly, so that the
process holds nothing else.
"""

import ctypes
import sys

MAX_RANK = 12


class View(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int),
        ("rank", ctypes.c_int32),
        ("shape", ctypes.c_int64 * MAX_RANK),
        ("strides", ctypes.c_int64 * MAX_RANK),
    ]


def resident():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    raise RuntimeError("no VmRSS")


def main():
    library, path, *shapes = sys.argv[1:]
    tenon = ctypes.CDLL(library)
    tenon.tenon_last_error.restype = ctypes.c_char_p
    tenon.tenon_dtype_from_text.argtypes = [ctypes.c_char_p]
    int64 = tenon.tenon_dtype_from_text(b"int64")

    def check(status):
        if status:
            raise SystemExit(tenon.tenon_last_error().decode())

    before = resident()
    graph, session, context = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(tenon.tenon_load(path.encode(), ctypes.byref(graph)))
    check(tenon.tenon_session_create(graph, None, ctypes.byref(session)))
    check(tenon.tenon_context_create(session, ctypes.byref(context)))
    outputs = tenon.tenon_session_output_count(session)
    for shape in shapes:
        batch, tokens = map(int, shape.split("x"))
        ones = (ctypes.c_int64 * (batch * tokens))(*[1] * (batch * tokens))
        inputs = (View * 2)()
        for view in inputs:
            view.data = ctypes.addressof(ones)
            view.dtype, view.rank = int64, 2
            view.shape[:2] = batch, tokens
            view.strides[:2] = tokens, 1
        check(tenon.tenon_context_run(context, inputs, 2, (View * outputs)(), outputs))
    print(resident() - before)


if __name__ == "__main__":
    main()
