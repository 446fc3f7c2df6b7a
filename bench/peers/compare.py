"""One model in all engines: outputs first, then rounds; and starts of fresh processes."""

import statistics
import tempfile
from pathlib import Path

import numpy as np

from .measure import EngineFailure, Rounds, Worker, parse_label

# The largest error, as a part of the largest right value, by precision.
TOLERANCE = {"fp32": 1e-4, "bf16": 1e-1}


def largest_error(got, want):
    if got.shape != want.shape:
        return float("inf")
    errors = np.abs(got.astype(np.float64) - want)
    return float(np.nan_to_num(errors, nan=np.inf).max() / np.abs(want).max())


class Comparison:
    """The workers of one model; a context manager that ends them. `facts` says of each engine how
    it loaded, its error, and why it failed where it did ("failure")."""

    def __init__(self, folder, entry, labels, cores, precision, library, log):
        self.folder = Path(folder)
        self.entry = entry
        self.cores = cores
        self.precision = precision
        self.log = log
        self.setting = {"folder": str(folder), "entry": entry, "library": library}
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
                tolerance = TOLERANCE[parse_label(label, self.precision)[1]]
                if not facts["error"] <= tolerance:
                    self.fail(label, f"its output is wrong by {facts['error']:.1e} of the largest")

    def rounds(self, turn_seconds):
        return Rounds(self.workers, turn_seconds)

    def result(self, rounds):
        """What is saved of the model."""
        for label, times in rounds.times.items():
            self.facts[label]["times"] = times
        return {
            "model": self.entry["name"],
            "batch": self.entry["batch"],
            "precision": self.precision,
            "stray": rounds.stray,
            "engines": self.facts,
        }

    def cold(self, starts):
        """The median time from the start of a fresh process to its first output, and its peak
        memory until then, into `facts`. The engines take turns, and files are in the system's
        cache."""
        found = {label: [] for label, facts in self.facts.items() if "failure" not in facts}
        for _ in range(starts):
            for label, samples in found.items():
                worker = self.worker(label)
                samples.append(worker.facts)
                worker.close()
        for label, samples in found.items():
            self.facts[label]["cold_seconds"] = [sample["start"] for sample in samples]
            self.facts[label]["cold_peak"] = statistics.median(s["peak"] for s in samples)
