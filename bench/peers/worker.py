"""One engine with one model, in a process of its own. It takes its setting as JSON from the command
line, answers when the model is loaded and has run once, and then answers commands, one JSON object
a line:

    {"warm": N, "run": K}  N runs, then K timed ones: "times", in seconds; where the engine runs
                           several at once, the mean of a burst
    {"save": PATH}         one run, whose output goes to a .npy file

Each answer has the peak of the resident memory so far ("peak", VmHWM, in bytes), or what went wrong
("error"), after which the process ends.
"""

import json
import os
import sys
import time
import traceback


def peak_memory():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("no VmHWM in /proc/self/status")


def start(setting):
    """The function that runs the model once, and how long loading and the first run took."""
    from bench.peers.engines import ENGINES, Setting

    clock = time.perf_counter
    begin = clock()
    run = ENGINES[setting.pop("engine")](Setting(**setting))
    loaded = clock()
    run()
    return run, {"load": loaded - begin, "first": clock() - loaded}


def obey(run, command):
    clock = time.perf_counter
    times = []
    burst = getattr(run, "burst", None)
    if burst and command.get("run"):
        burst(command.get("warm", 0))
        begin = clock()
        burst(command["run"])
        return {"times": [(clock() - begin) / command["run"]]}
    for _ in range(command.get("warm", 0)):
        run()
    for _ in range(command.get("run", 0)):
        begin = clock()
        run()
        times.append(clock() - begin)
    if "save" in command:
        import numpy as np

        np.save(command["save"], run())
    return {"times": times}


def essence(text):
    """The first and the last line: engines put a traceback between them."""
    lines = [line.strip()[:200] for line in text.splitlines() if line.strip()]
    return " ... ".join(dict.fromkeys([*lines[:1], *lines[-1:]]))


def main():
    # Whatever engines print must not come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(fields):
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    try:
        run, fields = start(json.loads(sys.argv[1]))
        answer({**fields, "peak": peak_memory()})
        for line in sys.stdin:
            fields = obey(run, json.loads(line))
            answer({**fields, "peak": peak_memory()})
    except Exception as error:
        traceback.print_exc()
        answer({"error": f"{type(error).__name__}: {essence(str(error))}"})


if __name__ == "__main__":
    main()
