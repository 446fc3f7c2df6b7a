"""Runs the same models in Tenon and in other engines, in interleaved rounds, and compares them."""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import warnings
from pathlib import Path

from bench.zoo import arguments, suite

from . import report
from .compare import Comparison
from .engines import ENGINES, forms, parse_label
from .measure import ROOT

PACKAGES = (
    "torch",
    "torchvision",
    "timm",
    "transformers",
    "onnx",
    "onnxruntime",
    "openvino",
    "numpy",
)


def labels(text):
    found = text.split(",")
    for label in found:
        try:
            parse_label(label, "fp32")
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return found


def precisions(text):
    found = text.split(",")
    if not set(found) <= {"fp32", "bf16"}:
        raise argparse.ArgumentTypeError(f"{text!r}: fp32, bf16, or both")
    return found


def find_library():
    built = [*ROOT.glob("build*/libtenon.so"), *ROOT.glob("build*/*/libtenon.so")]
    return max(built, key=lambda path: path.stat().st_mtime) if built else None


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def cpu_flags():
    """Those that decide which instructions engines use."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            flags = line.split()
            return [f for f in flags if f.startswith(("avx", "amx", "fma", "f16c"))]
    return []


def tenon_version(library):
    """What the command of that build says, with oneDNN's version; None without one."""
    command = library.parent / "src/cli/tenon" if library else None
    if command is None or not command.exists():
        return None
    return subprocess.run([command, "--version"], capture_output=True, text=True).stdout.strip()


def environ(library, cores):
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    revision = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True
    )
    return {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "flags": cpu_flags(),
        "cores": cores,
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
        "tenon": {
            "library": str(library),
            "revision": revision.stdout.strip() or None,
            "version": tenon_version(library),
        },
        "command": sys.argv[1:],
    }


def parse():
    parser = argparse.ArgumentParser(
        prog="bench/peers/run",
        description=__doc__,
        epilog="engines: " + "; ".join(f"{name}: {f.__doc__}" for name, f in ENGINES.items()),
    )
    arguments.add_models(parser)
    parser.add_argument(
        "--peers",
        type=labels,
        metavar="ENGINE,...",
        default=list(ENGINES),
        help="engines to compare, each with a precision of its own where one is given, as in "
        "tenon:fp32, and Tenon without some of its passes, as in tenon-winograd (default: all)",
    )
    parser.add_argument(
        "--baseline",
        metavar="ENGINE",
        default="jit_ofi",
        help="the engine that the others' speeds are given against (default: %(default)s)",
    )
    parser.add_argument(
        "--precision", type=precisions, default=["fp32"], help="fp32 (default), bf16"
    )
    parser.add_argument("--threads", type=int, help="cores, a thread on each (default: all)")
    parser.add_argument(
        "--seconds", type=float, default=30, help="for the rounds of a model (default: 30)"
    )
    parser.add_argument(
        "--turn", type=float, default=0.2, help="seconds of an engine's turn (default: 0.2)"
    )
    parser.add_argument(
        "--rounds", type=int, default=6, help="at least so many, whatever they take (default: 6)"
    )
    parser.add_argument("--most-rounds", type=int, default=200, help="and at most (default: 200)")
    parser.add_argument(
        "--cold",
        type=int,
        default=0,
        metavar="N",
        help="also start each engine N times afresh: time to the first output, peak memory",
    )
    parser.add_argument("--json", type=Path, help="save all samples there, after each model")
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "build" / "suite",
        help="for exported models, which are kept (default: build/suite)",
    )
    parser.add_argument("--library", type=Path, help="libtenon.so (default: the newest built one)")
    options = parser.parse_args()
    options.library = options.library or find_library()
    if options.library is None and any(label.startswith("tenon") for label in options.peers):
        parser.error("no libtenon.so: build Tenon, or give --library")
    available = sorted(os.sched_getaffinity(0))
    options.threads = options.threads or len(available)
    if not 0 < options.threads <= len(available):
        parser.error(f"--threads: this process may use {len(available)} cores")
    options.cores = available[: options.threads]
    return options


def run_model(options, name, batch, precision, log):
    """Exports where that is needed, and compares."""
    entry = suite.export(options.folder, name, batch, forms(options.peers))
    library = str(options.library.resolve()) if options.library else None
    folder = options.folder.resolve()
    with Comparison(folder, entry, options.peers, options.cores, precision, library, log) as one:
        one.load()
        rounds = one.rounds(options.turn)
        rounds.run(options.seconds, options.rounds, options.most_rounds)
        result = one.result(rounds)
    one.cold(options.cold)
    return result


def main():
    warnings.filterwarnings("ignore")
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    saved = {"environ": environ(options.library, options.cores), "results": [], "summary": {}}
    with open(options.folder / "engines.log", "w") as log:
        for precision in options.precision:
            results = []
            for name, batch in arguments.chosen(options):
                print(f"{name}, batch {batch}, {precision}", file=sys.stderr, flush=True)
                result = run_model(options, name, batch, precision, log)
                results.append(result)
                saved["results"].append(result)
                saved["summary"][precision] = report.summary(results)
                if options.json:
                    options.json.write_text(json.dumps(saved, indent=1) + "\n")
            print(report.text(results, options.peers, precision, options.baseline), flush=True)


if __name__ == "__main__":
    main()
