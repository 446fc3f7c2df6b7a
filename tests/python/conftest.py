import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN_SECONDS = 600


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: long; tools/check runs it with --full only")


def find_command():
    """The built command: $TENON, or the newest one under the build folders."""
    if path := os.environ.get("TENON"):
        return Path(path).resolve()
    built = [*ROOT.glob("build*/src/cli/tenon"), *ROOT.glob("build*/*/src/cli/tenon")]
    if not built:
        pytest.exit("no tenon command: build it, or set TENON", returncode=2)
    return max(built, key=lambda path: path.stat().st_mtime)


class Tenon:
    """The command, and a folder for its files."""

    def __init__(self, command, folder):
        self.command = command
        self.library = command.parents[2] / "libtenon.so"
        self.folder = folder

    def start(self, *arguments):
        command = [str(self.command), *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS)

    def __call__(self, *arguments):
        """Runs the command, which must succeed; returns its standard output."""
        result = self.start(*arguments)
        if result.returncode != 0:
            pytest.fail(
                f"{' '.join(result.args)}\nexit status {result.returncode}\n"
                f"{result.stdout[-2000:]}\n{result.stderr[-4000:]}",
                pytrace=False,
            )
        return result.stdout

    def run(self, model, inputs, *options):
        """`tenon run` on arrays: {name: array} in, {name: array} out."""
        sent = self.folder / "in"
        received = self.folder / "out"
        for folder in (sent, received):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        arguments = []
        for name, array in inputs.items():
            np.save(sent / f"{name}.npy", np.asarray(array))
            arguments += ["--input", f"{name}={sent / name}.npy"]
        self("run", model, *arguments, "--output", received, *options)
        return {path.stem: np.load(path) for path in received.glob("*.npy")}


@pytest.fixture(scope="session")
def tenon(tmp_path_factory):
    return Tenon(find_command(), tmp_path_factory.mktemp("tenon"))


def largest_error(got, want):
    """The largest error, as a part of the largest right value."""
    assert got.shape == want.shape
    assert np.isfinite(want).all()
    # A NaN in what we got must not compare as small.
    errors = np.nan_to_num(np.abs(got.astype(np.float64) - want), nan=np.inf)
    return errors.max() / np.abs(want).max()
