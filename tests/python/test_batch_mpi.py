"""`tenon batch` under mpirun: four ranks share a job, and one is killed. Without MPI the command
works as before."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/images"))
RANKS = 4
SAMPLES = 600


@pytest.fixture(scope="module")
def job(tenon, tmp_path_factory):
    """A list of images, some of them bad, a model, and what one process makes of them."""
    import make_images
    import numpy as np

    folder = tmp_path_factory.mktemp("mpi")
    random = np.random.default_rng(3)
    names = []
    for i in range(5):
        names.append(f"{i}.jpg")
        make_images.scene(random, 400, 300).save(folder / names[-1])
    names.append("cut.jpg")
    (folder / "cut.jpg").write_bytes((folder / "0.jpg").read_bytes()[:5000])
    chosen = (names[5] if i % 101 == 7 else names[i % 5] for i in range(SAMPLES))
    (folder / "list.txt").write_text("\n".join(chosen))
    (folder / "m.txt").write_text(
        "graph m {\n  symbol s0 in [1, 64]\n  input %x: float32[s0, 3, 32, 32]\n"
        "  const %w: float32[3072, 10] = random(3)\n"
        "  %f = aten.reshape(%x, [-1, 3072])\n  %y = aten.mm(%f, %w)\n"
        '  output "y" = %y\n}\n'
    )
    (folder / "one").mkdir()
    tenon(*arguments(folder, "one"), "--instances", "1")
    return folder


def arguments(folder, out):
    return ["batch", folder / "m.txt", "--input", folder / "list.txt", "--output",
            folder / out / "y.csv", "--errors", folder / out / "errors.csv", "--on-error", "skip",
            "--threads", "1", "--batch", "4", "--checkpoint", "1"]


def under_mpirun(tenon, *given):
    if not shutil.which("mpirun") or not (tenon.command.parents[1] / "batch/tenon_mpi.so").exists():
        pytest.skip("there is no mpirun, or Tenon was built without MPI")
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS),
               str(tenon.command), *map(str, given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def check_equal(folder, out):
    for name in ("y.csv", "errors.csv"):
        assert (folder / out / name).read_bytes() == (folder / "one" / name).read_bytes()


def test_four_ranks_make_what_one_makes(tenon, job):
    (job / "four").mkdir()
    summary = job / "four.json"
    process = under_mpirun(tenon, *arguments(job, "four"), "--json", summary)
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0, text
    assert f"{SAMPLES} samples of {RANKS} shards" in text
    check_equal(job, "four")
    told = json.loads(summary.read_text())
    assert told["status"] == "finished" and told["samples"] == SAMPLES
    assert told["ranks"] == RANKS and told["bad"] == len(range(7, SAMPLES, 101))

    again = under_mpirun(tenon, *arguments(job, "four"))
    text, _ = again.communicate(timeout=300)
    assert again.returncode != 0 and "it exists" in text
    check_equal(job, "four")


def ranks_of(process):
    """The processes that mpirun has started, by rank."""
    found = {}
    listed = subprocess.run(["ps", "--ppid", str(process.pid), "-o", "pid="], capture_output=True,
                            text=True)
    for pid in listed.stdout.split():
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        for entry in environment:
            if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                found[int(entry.split(b"=")[1])] = int(pid)
    return found


@pytest.mark.parametrize("rank", [0, 2])
def test_a_rank_is_killed(tenon, job, rank):
    out = f"killed{rank}"
    (job / out).mkdir()
    process = under_mpirun(tenon, *arguments(job, out))
    journal = job / out / f"y.{rank}-of-{RANKS}.csv.journal"
    while process.poll() is None and (not journal.exists() or journal.stat().st_size < 2500):
        time.sleep(0.002)
    pids = ranks_of(process)
    assert rank in pids, "the job was done too soon"
    os.kill(pids[rank], signal.SIGKILL)
    process.communicate(timeout=300)
    assert process.returncode != 0
    assert not (job / out / "y.csv").exists()
    again = under_mpirun(tenon, *arguments(job, out), "--resume")
    text, _ = again.communicate(timeout=300)
    assert again.returncode == 0, text
    check_equal(job, out)


def test_the_command_needs_no_mpi(tenon, job):
    """It is not linked to it, and a shard of one's own is done without it, also under mpirun."""
    linked = subprocess.run(["ldd", str(tenon.command)], capture_output=True, text=True, check=True)
    assert "libtenon" in linked.stdout and "libmpi" not in linked.stdout
    (job / "shards").mkdir()
    environment = {**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
    for shard in range(2):
        command = [tenon.command, *arguments(job, "shards"), "--shard", f"{shard}/2"]
        subprocess.run(list(map(str, command)), env=environment, check=True, timeout=300)
    tenon("batch", "--merge", "2", "--output", job / "shards/y.csv")
    check_equal(job, "shards")
