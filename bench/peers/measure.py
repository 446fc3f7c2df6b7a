"""Engines side by side: a process each, whose turns alternate."""

import json
import os
import random
import select
import statistics
import subprocess
import sys
import time
from pathlib import Path

from .engines import parse_label

ROOT = Path(__file__).resolve().parents[2]
# Settings of the caller's, which would favour one engine. How OpenMP's threads wait is left at the
# default, a short spin and then sleep: a process between turns burns nothing, and one in its turn
# loses nothing.
DROPPED = ("OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_", "TENON_", "TORCH", "ORT_", "OV_")
ANSWER_SECONDS = 1200


class EngineFailure(Exception):
    """An engine cannot run a model: the text says why."""


def environment(threads):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
    kept["OMP_NUM_THREADS"] = str(threads)
    kept["PYTHONPATH"] = str(ROOT)
    # torch.compile's helpers would compete with the others after it has compiled.
    kept["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    return kept


def pinned(cores):
    """How a command line begins that runs on these cores."""
    return ["taskset", "-c", ",".join(map(str, cores))]


class Worker:
    """A process that holds one engine with one model. Raises EngineFailure where that fails."""

    def __init__(self, label, cores, precision, log, **setting):
        setting = {
            **parse_label(label, precision)._asdict(),
            "threads": len(cores),
            **setting,
        }
        self.used = 0.0
        self.begin = time.perf_counter()
        self.process = subprocess.Popen(
            [*pinned(cores), sys.executable, "-m", "bench.peers.worker", json.dumps(setting)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
            env=environment(len(cores)),
        )
        try:
            self.facts = self._answer()
        except BaseException:
            self.close()
            raise
        self.facts["start"] = time.perf_counter() - self.begin

    def _answer(self):
        ready, _, _ = select.select([self.process.stdout], [], [], ANSWER_SECONDS)
        if not ready:
            raise EngineFailure(f"no answer within {ANSWER_SECONDS} s")
        line = self.process.stdout.readline()
        if not line:
            raise EngineFailure(f"the process ended with status {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise EngineFailure(answer["error"])
        return answer

    def ask(self, **command):
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # what became of the process is read below
        return self._answer()

    def cpu_seconds(self):
        """What all its threads have used so far, from the clock that clock_getcpuclockid names."""
        try:
            self.used = time.clock_gettime((~self.process.pid << 3) | 2)
        except OSError:
            pass  # it is dead, as its next answer will tell
        return self.used

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass


class Rounds:
    """In a round each worker has one turn, in an order that is new each time. A turn begins with
    runs that are not timed, which bring back the caches; its result is the median of the timed
    ones.

    `times` has the results, by engine, as many of each; `failures` says what engines died of, which
    then have no times; `stray` is the share of the CPU time that went to workers during the turns
    of others."""

    def __init__(self, workers, turn_seconds):
        self.workers = workers
        self.order = random.Random(0)
        self.times = {label: [] for label in workers}
        self.failures = {}
        self.own = self.others = 0.0
        self.runs = {}
        for label in list(workers):
            if answer := self.ask(label, warm=3, run=3):
                usual = statistics.median(answer["times"])
                self.runs[label] = max(1, min(1000, round(turn_seconds / usual)))

    @property
    def stray(self):
        return self.others / max(self.own + self.others, 1e-9)

    def ask(self, label, **command):
        """The worker's answer; None where it failed, which ends its part."""
        try:
            return self.workers[label].ask(**command)
        except EngineFailure as failure:
            self.failures[label] = str(failure)
            self.workers.pop(label).close()
            del self.times[label]
            return None

    def turn(self, label):
        time.sleep(0.05)  # until the threads of the one before sleep: ONNX Runtime's take 40 ms
        before = {other: worker.cpu_seconds() for other, worker in self.workers.items()}
        runs = self.runs[label]
        answer = self.ask(label, warm=max(1, runs // 4), run=runs)
        if answer is None:
            return
        used = {other: w.cpu_seconds() - before[other] for other, w in self.workers.items()}
        self.own += used.pop(label)
        self.others += sum(used.values())
        self.times[label].append(statistics.median(answer["times"]))

    def run(self, seconds, least, most):
        """Rounds until so many seconds are over, but at least and at most so many."""
        begin = time.perf_counter()
        done = 0
        while done < most and (done < least or time.perf_counter() - begin < seconds):
            labels = list(self.workers)
            self.order.shuffle(labels)
            for label in labels:
                self.turn(label)
            done += 1
