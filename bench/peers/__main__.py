"""Runs the same models in Tenon and in other engines, in interleaved rounds, and compares them."""

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import platform
import subprocess
import sys
import warnings
from pathlib import Path

from bench.zoo import arguments, suite

from . import report
from .compare import Comparison
from .engines import ASYNCHRONOUS, ENGINES, forms, parse_label
from .library import Library
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


def number_from(least):
    def take(text):
        if not (text.isdecimal() and int(text) >= least):
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return int(text)

    return take


def seconds(text):
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return number


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


def check_tenon(parser, options):
    """The library, and the passes that labels leave out, are there."""
    variants = {label: parse_label(label, "fp32") for label in options.peers}
    ours = {label: v.without for label, v in variants.items() if v.engine == "tenon"}
    if options.library is None and ours:
        parser.error("no libtenon.so: build Tenon, or give --library")
    if options.library and not options.library.is_file():
        parser.error(f"--library: there is no file {str(options.library)!r}")
    if not ours:
        return
    try:
        library = Library(options.library.resolve())
    except (OSError, AttributeError) as error:
        parser.error(f"--library: {error}")
    for label, without in ours.items():
        try:
            library.destroy_passes(library.passes(without))
        except RuntimeError as error:
            parser.error(f"--peers: {label}: {error}")


def check_files(parser, options):
    """Results can be written: whether they can is found out before there are any."""
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.exit(1, f"{parser.prog}: --folder: {error}\n")
    path = options.json
    if path and (path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK)):
        parser.exit(1, f"{parser.prog}: --json: {str(path)!r} cannot be written\n")


def parse():
    parser = argparse.ArgumentParser(
        prog="bench/peers/run",
        description=__doc__,
        epilog="engines: "
        + "; ".join(f"{name}: {f.__doc__}" for name, f in ENGINES.items())
        + ". Exit status: 0 done, 1 an engine failed, or files cannot be written, 2 wrong usage",
    )
    arguments.add_models(parser)
    parser.add_argument(
        "--peers",
        type=labels,
        metavar="ENGINE,...",
        help="engines to compare, each with a precision of its own where one is given, as in "
        "tenon:fp32, and Tenon without some of its passes, as in tenon-winograd (default: all that can)",
    )
    parser.add_argument(
        "--baseline",
        metavar="ENGINE",
        help="the engine that the others' speeds are given against (default: jit_ofi; with "
        "--throughput onnxruntime)",
    )
    parser.add_argument(
        "--throughput",
        action="store_true",
        help="several runs at once: Tenon's pool with its best split, OpenVINO's asynchronous "
        "requests with its throughput hint, as many ONNX Runtime sessions as are best; times are "
        "those between two results",
    )
    parser.add_argument(
        "--precision", type=precisions, default=["fp32"], help="fp32 (default), bf16"
    )
    parser.add_argument(
        "--threads", type=number_from(1), help="cores, a thread on each (default: all)"
    )
    parser.add_argument(
        "--seconds", type=seconds, default=30, help="for the rounds of a model (default: 30)"
    )
    parser.add_argument(
        "--turn", type=seconds, default=0.2, help="seconds of an engine's turn (default: 0.2)"
    )
    parser.add_argument(
        "--rounds",
        type=number_from(1),
        default=6,
        help="at least so many, whatever they take (default: 6)",
    )
    parser.add_argument(
        "--most-rounds", type=number_from(1), default=200, help="and at most (default: 200)"
    )
    parser.add_argument(
        "--cold",
        type=number_from(0),
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
    options.peers = options.peers or list(ASYNCHRONOUS if options.throughput else ENGINES)
    options.baseline = options.baseline or ("onnxruntime" if options.throughput else "jit_ofi")
    check_tenon(parser, options)
    available = sorted(os.sched_getaffinity(0))
    options.threads = options.threads or len(available)
    if options.threads > len(available):
        parser.error(f"--threads: this process may use {len(available)} cores")
    check_files(parser, options)
    options.cores = available[: options.threads]
    return options


def run_model(options, name, batch, precision, log):
    """Exports where that is needed, and compares."""
    entry = suite.export(options.folder, name, batch, forms(options.peers))
    suite.write(options.folder, options.suite, [entry])
    library = str(options.library.resolve()) if options.library else None
    folder = options.folder.resolve()
    with Comparison(
        folder, entry, options.peers, options.cores, precision, library, log, options.throughput
    ) as one:
        one.load()
        rounds = one.rounds(options.turn)
        rounds.run(options.seconds, options.rounds, options.most_rounds)
        result = one.result(rounds)
    one.cold(options.cold)
    return result


def main():
    warnings.filterwarnings("ignore")
    options = parse()
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
    return 1 if any(report.failures(saved["results"])) else 0


if __name__ == "__main__":
    sys.exit(main())
