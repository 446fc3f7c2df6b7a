"""One model in all engines: outputs first, then rounds; and starts of fresh processes."""

import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from .engines import parse_label
from .measure import ROOT, EngineFailure, Rounds, Worker, environment, pinned

COMMAND = "tenon run"

# The largest error, as a part of the largest right value, by precision. In bfloat16 PyTorch's own
# autocast is off by a ninth in MobileNetV2 with random weights.
TOLERANCE = {"fp32": 1e-4, "bf16": 0.2}


def largest_error(got, want):
    if got.shape != want.shape:
        return float("inf")
    errors = np.abs(got.astype(np.float64) - want)
    return float(np.nan_to_num(errors, nan=np.inf).max() / np.abs(want).max())


class Comparison:
    """The workers of one model; a context manager that ends them. `facts` says of each engine how
    it loaded, its error, and why it failed where it did ("failure")."""

    def __init__(self, folder, entry, labels, cores, precision, library, log, throughput=False):
        self.folder = Path(folder)
        self.entry = entry
        self.cores = cores
        self.precision = precision
        self.log = log
        self.setting = {
            "folder": str(folder),
            "entry": entry,
            "library": library,
            "throughput": throughput,
        }
        self.workers = {}
        self.facts = {label: {} for label in labels}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers.values():
            worker.close()

    def fail(self, label, reason):
        self.facts[label]["failure"] = str(reason)
        if worker := self.workers.pop(label, None):
            worker.close()

    def worker(self, label):
        return Worker(label, self.cores, self.precision, self.log, **self.setting)

    def load(self):
        """Starts the engines, one after the other, and compares their outputs with PyTorch's. One
        that fails takes no part in what follows."""
        (expected,) = self.entry["outputs"].values()
        want = np.load(self.folder / expected)
        with tempfile.TemporaryDirectory() as scratch:
            for label, facts in self.facts.items():
                try:
                    self.workers[label] = worker = self.worker(label)
                    facts.update(worker.facts)
                    file = f"{scratch}/{label}.npy"
                    worker.ask(save=file)
                    facts["error"] = largest_error(np.load(file), want)
                except EngineFailure as failure:
                    self.fail(label, failure)
                    continue
                tolerance = TOLERANCE[parse_label(label, self.precision).precision]
                if not facts["error"] <= tolerance:
                    self.fail(label, f"its output is wrong by {facts['error']:.1e} of the largest")

    def rounds(self, turn_seconds):
        return Rounds(self.workers, turn_seconds)

    def result(self, rounds):
        """What is saved of the model."""
        for label, times in rounds.times.items():
            self.facts[label]["times"] = times
        for label, failure in rounds.failures.items():
            self.facts[label]["failure"] = failure
        return {
            "model": self.entry["name"],
            "batch": self.entry["batch"],
            "precision": self.precision,
            "stray": rounds.stray,
            "engines": self.facts,
        }

    def cold(self, starts):
        """Starts of fresh processes, to the first output: seconds and the peak of the memory until
        then, into `facts`. The engines take turns, and files are in the system's cache. Tenon's
        command takes part, where it is built."""
        starters = {
            label: functools.partial(self.start_worker, label)
            for label, facts in self.facts.items()
            if "failure" not in facts
        }
        if "tenon" in starters and self.command().exists():
            starters[COMMAND] = functools.partial(self.start_command, self.command())
        for _ in range(starts):
            for label, start in list(starters.items()):
                facts = self.facts.setdefault(label, {})
                try:
                    found = start()
                except EngineFailure as failure:
                    facts["failure"] = str(failure)
                    del starters[label]
                    continue
                facts.setdefault("cold_seconds", []).append(found["start"])
                facts.setdefault("cold_peaks", []).append(found["peak"])

    def start_worker(self, label):
        worker = self.worker(label)
        worker.close()
        return worker.facts

    def command(self):
        return Path(self.setting["library"]).parent / "src/cli/tenon"

    def start_command(self, command):
        arguments = [str(command), "run", str(self.folder / self.entry["file"])]
        arguments += ["--threads", str(len(self.cores)), "--precision", self.precision]
        for name, file in self.entry["inputs"].items():
            arguments += ["--input", f"{name}={self.folder / file}"]
        found = subprocess.run(
            [sys.executable, "-m", "bench.peers.start", *pinned(self.cores), *arguments],
            stdout=subprocess.PIPE,
            stderr=self.log,
            cwd=ROOT,
            env=environment(len(self.cores)),
            check=True,
        )
        found = json.loads(found.stdout)
        if found["status"] != 0:
            raise EngineFailure(f"tenon run ended with status {found['status']}")
        return found
