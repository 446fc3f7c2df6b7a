"""`tenon batch`: what it reads and writes, and what interruptions leave."""

import csv
import json
import os
import pty
import random
import resource
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import ROOT

MODEL = ROOT / "examples" / "digits" / "digits.pt2"
IMAGES = ROOT / "examples" / "digits" / "heldout_images.npy"
FAILED, USAGE = 1, 2
SAMPLES = 2000
# Small batches and a checkpoint after each: many places to be interrupted at.
OPTIONS = ["--batch", "8", "--threads", "1", "--instances", "2", "--checkpoint", "1", "--quiet"]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    images = np.concatenate([np.load(IMAGES)] * 6)[:SAMPLES]
    images = images + np.linspace(0, 1, SAMPLES, dtype=np.float32)[:, None, None, None]
    path = tmp_path_factory.mktemp("samples") / "images.npy"
    np.save(path, images)
    return path


@pytest.fixture(scope="module")
def undisturbed(tenon, samples, tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "logits.npy"
    tenon("batch", MODEL, "--input", samples, "--output", path, *OPTIONS)
    return path


def start(tenon, *arguments, **options):
    command = [str(tenon.command), "batch", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def size_of(path):
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def wait_for_bytes(process, path, size):
    """Until the file has so many bytes, or the process is over."""
    while process.poll() is None and size_of(path) < size:
        pass


def fails(tenon, status, *arguments):
    result = tenon.start("batch", *arguments)
    assert result.returncode == status, result.stdout + result.stderr
    assert result.stderr.startswith("tenon batch: ")
    return result.stderr


# ---- Interruptions ----


@pytest.mark.parametrize("kills", [12, pytest.param(100, marks=pytest.mark.slow)])
def test_kills(tenon, samples, undisturbed, tmp_path, kills):
    """kill -9 when the journal has got some number of bytes; each job is resumed to its end."""
    draw = random.Random(kills)
    wanted = undisturbed.read_bytes()
    whole = size_of(f"{undisturbed}.journal")
    done = 0
    while done < kills:
        output = tmp_path / f"{done}.npy"
        job = [MODEL, "--input", samples, "--output", output, *OPTIONS, "--resume"]
        for _ in range(50):
            process = start(tenon, *job)
            now = size_of(f"{output}.journal")
            wait_for_bytes(process, f"{output}.journal", draw.randint(now, whole))
            process.kill()
            killed = process.wait() == -signal.SIGKILL
            process.stderr.close()
            done += killed
            if not killed or draw.random() < 0.5:
                break
        tenon("batch", *job)
        assert output.read_bytes() == wanted
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            output.name,
            f"{output.name}.journal",
        ]
        output.unlink()
        (tmp_path / f"{output.name}.journal").unlink()


def feed(process, data):
    process.stdin.buffer.write(data)
    process.stdin.buffer.flush()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals(tenon, samples, undisturbed, tmp_path, number):
    """A job that waits for more of its input is interrupted, and goes on from the same input."""
    output = tmp_path / "logits.npy"
    records = np.load(samples).tobytes()
    job = [MODEL, "--input", "-", "--output", output, *OPTIONS]
    process = start(tenon, *job, stdin=subprocess.PIPE)
    feed(process, records[: 100 * 256 + 100])
    # The title, and the states of the twelve batches that are whole.
    wait = f"{output}.journal"
    while '"samples":96' not in (open(wait).read() if os.path.exists(wait) else ""):
        assert process.poll() is None
    process.send_signal(number)
    assert process.wait() == 128 + number
    message = process.stderr.read()
    assert "96" in message
    assert "--resume" in message
    process.stdin.close()
    assert not output.exists()
    result = subprocess.run(
        [tenon.command, "batch", *map(str, job), "--resume"], input=records, check=True
    )
    assert result.returncode == 0
    assert output.read_bytes() == undisturbed.read_bytes()


def test_other_stream(tenon, samples, tmp_path):
    """A stream that is not the one of before is found out."""
    records = bytearray(np.load(samples).tobytes())
    job = [MODEL, "--input", "-", "--output", tmp_path / "o.npy", *OPTIONS]
    process = start(tenon, *job, stdin=subprocess.PIPE)
    feed(process, records[: 64 * 256])
    journal = tmp_path / "o.npy.journal"
    while '"samples":64' not in (journal.read_text() if journal.exists() else ""):
        assert process.poll() is None
    process.kill()
    process.wait()
    process.stdin.close()
    process.stderr.close()
    records[1000] ^= 1
    command = [str(tenon.command), "batch", *map(str, job), "--resume"]
    result = subprocess.run(command, input=bytes(records), capture_output=True)
    assert result.returncode == FAILED
    assert b"not the one" in result.stderr
    result = subprocess.run(command, input=bytes(records[: 30 * 256]), capture_output=True)
    assert result.returncode == FAILED


def test_bar(tenon, tmp_path):
    """On a terminal: while the job waits for its input a bar is drawn, and it goes at the end."""
    command = [str(tenon.command), "batch", str(MODEL), "--input", "-", "--output",
               str(tmp_path / "o.npy"), "--batch", "8"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    process.stdin.write(np.load(IMAGES)[:16].tobytes())
    process.stdin.flush()
    shown = b""
    while b"\r\x1b[K 16 samples, " not in shown:
        shown += os.read(ours, 4096)
    process.stdin.close()
    assert process.wait() == 0
    try:
        while more := os.read(ours, 4096):
            shown += more
    except OSError:  # how a terminal says that it is closed
        pass
    os.close(ours)
    *_, last = shown.split(b"\r\x1b[K")
    assert last.startswith(b"tenon batch: 16 samples in ")


def test_second_signal(tenon, tmp_path):
    """Two signals that arrive at once end the job at once."""
    process = start(
        tenon, MODEL, "--input", "-", "--output", tmp_path / "o.npy", stdin=subprocess.PIPE
    )
    while not (tmp_path / "o.npy.partial").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    assert process.wait() in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert process.stderr.read() == ""
    process.stdin.close()


def test_two_jobs(tenon, tmp_path):
    """The output of a job that runs is refused, under any name of its journal."""
    output = tmp_path / "o.npy"
    process = start(tenon, MODEL, "--input", "-", "--output", output, stdin=subprocess.PIPE)
    while not (tmp_path / "o.npy.partial").exists():
        assert process.poll() is None
    for more in ([], ["--resume"], ["--overwrite"]):
        message = fails(tenon, FAILED, MODEL, "--input", IMAGES, "--output", output, *more)
        assert "another job" in message
    process.communicate("")
    assert np.load(output).shape == (0, 10)


def test_full_disk(tenon, samples, undisturbed, tmp_path):
    """The disk takes no more after some bytes; with room the job goes on."""
    output = tmp_path / "o.npy"
    job = [MODEL, "--input", samples, "--output", output, *OPTIONS]

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000))

    process = start(tenon, *job, preexec_fn=limit, restore_signals=False)
    assert process.wait() == FAILED
    message = process.stderr.read()
    assert "cannot be written: File too large" in message
    assert "--resume" in message
    assert not output.exists()
    tenon("batch", *job, "--resume")
    assert output.read_bytes() == undisturbed.read_bytes()


# ---- What is there already ----


def test_exists(tenon, samples, tmp_path):
    output = tmp_path / "o.npy"
    job = [MODEL, "--input", samples, "--output", output, "--threads", "1", "--quiet"]
    output.write_text("precious")
    assert "exists" in fails(tenon, FAILED, *job)
    assert "exists" in fails(tenon, FAILED, *job, "--resume")
    assert output.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [output]
    tenon("batch", *job, "--overwrite")
    before = output.read_bytes()
    assert "exists" in fails(tenon, FAILED, *job)
    tenon("batch", *job, "--resume")
    assert output.read_bytes() == before
    output.write_text("changed")
    assert "changed" in fails(tenon, FAILED, *job, "--resume")
    output.unlink()
    tenon("batch", *job, "--resume")
    assert output.read_bytes() == before


def test_other_job(tenon, samples, tmp_path):
    """A resume that is another job is refused, with what differs."""
    output = tmp_path / "o.npy"
    job = [MODEL, "--input", samples, "--output", output]
    tenon("batch", *job, "--batch", 8, "--threads", 1)
    for more, words in [
        (["--batch", 16], ["batch: 8 in the journal, 16 now"]),
        (["--threads", 2], ["threads: 1 in the journal, 2 now"]),
        (["--precision", "bf16"], ["precision: default in the journal, bf16 now"]),
        (["--no-winograd"], ["passes: "]),
        (["--check-nan"], ["NaN"]),
        (["--batch", 4, "--threads", 2], ["batch: 8 in the journal, 4 now"]),
    ]:
        options = ["--batch", 8, "--threads", 1]
        for name, value in zip(more[::2], more[1::2]):
            if name in options:
                options[options.index(name) + 1] = value
            else:
                options += [name, value]
        if len(more) == 1:
            options += more
        message = fails(tenon, FAILED, *job, *options, "--resume")
        for word in words:
            assert word in message
    other = tmp_path / "images.npy"
    np.save(other, np.load(samples)[:100])
    message = fails(tenon, FAILED, MODEL, "--input", other, "--output", output, "--resume")
    assert "images.npy: " in message
    assert "bytes" in message


@pytest.mark.parametrize(
    "status, arguments, words",
    [
        (FAILED, ["--input", "{s}", "--output", "{t}/none/o.npy"], "No such file"),
        (FAILED, ["--input", "{s}", "--output", "{t}"], None),
        (FAILED, ["--input", "{t}/none.npy", "--output", "{t}/o.npy"], "No such file"),
        (USAGE, ["--input", "pictures={s}", "--output", "{t}/o.npy"], "pictures"),
        (USAGE, ["--input", "{s}", "--input", "images={s}", "--output", "{t}/o.npy"], "left"),
        (USAGE, ["--input", "{s}", "--output", "scores={t}/o.npy"], "scores"),
        (USAGE, ["--input", "{s}", "--output", "logits={t}/o.txt"], ".safetensors"),
        (USAGE, ["--input", "{s}"], "--output"),
        (USAGE, ["--output", "{t}/o.npy"], "images"),
        (USAGE, ["--input", "{s}", "--output", "{t}/o.npy", "--batch", "2000"], "1024"),
        (USAGE, ["--input", "{s}", "--output", "{t}/o.npy", "--errors", "{t}/e.txt"], ".jsonl"),
        (USAGE, ["--input", "{s}", "--output", "{t}/o.npy", "--batch", "0"], "--batch"),
        (USAGE, ["--input", "{s}", "--output", "{t}/o.npy", "--shard", "2/2"], "--shard"),
        (USAGE, ["--input", "{s}", "--output", "{t}/o.npy", "--shard", "4294967296/2"], "--shard"),
        (USAGE, ["--input", "{s}", "--output", "{t}/o.npy", "--shard", "0/2x"], "--shard"),
        (USAGE, ["--input", "{s}", "--output", "{t}/o.npy", "--crop", "8"], "no input is any"),
        (USAGE, ["--input", "{s}", "--output", "{t}/o.npy", "--dim", "s34=x"], "s34"),
        (USAGE, ["--input", "{s}", "--output", "{t}/o.npy", "--threads", "x"], "--threads: 'x'"),
        (USAGE, ["--input", "{s}", "--output", "{t}/o.npy", "--on-error", "x"], "--on-error"),
        (USAGE, ["--input", "{s}", "--output", "{t}/o.npy", "--resume", "--overwrite"], "--resume"),
        (USAGE, ["--input", "", "--output", "{t}/o.npy"], "empty"),
        (USAGE, ["--input", "-", "--output", "{t}/o.npy", "--shard", "0/2"], "standard input"),
    ],
)
def test_wrong(tenon, samples, tmp_path, status, arguments, words):
    arguments = [text.format(s=samples, t=tmp_path) for text in arguments]
    if words is None:
        (tmp_path / "logits.npy").write_text("precious")
        words = "exists"
    before = sorted(tmp_path.iterdir())
    assert words in fails(tenon, status, MODEL, *arguments)
    assert sorted(tmp_path.iterdir()) == before


# ---- Inputs and outputs ----


def test_every_input(tenon, samples, undisturbed, tmp_path):
    images = np.load(samples)
    np.savez(tmp_path / "stored.npz", images=images)
    np.savez_compressed(tmp_path / "packed.npz", other=images[:3], images=images)
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "a.npy", images[:700])
    np.savez_compressed(tmp_path / "folder" / "b.npz", images[700:701])
    np.save(tmp_path / "folder" / "c.npy", images[701])
    np.save(tmp_path / "folder" / "d.npy", images[:0])
    np.save(tmp_path / "folder" / "e.npy", images[702:])
    (tmp_path / "folder" / "readme.txt").write_text("no samples")
    for number, path in enumerate(["stored.npz", "packed.npz", "folder"]):
        output = tmp_path / f"{number}.npy"
        tenon("batch", MODEL, "--input", tmp_path / path, "--output", output, *OPTIONS)
        assert output.read_bytes() == undisturbed.read_bytes()


def test_outputs(tenon, samples, undisturbed, tmp_path):
    safetensors = pytest.importorskip("safetensors.numpy")
    wanted = np.load(undisturbed)
    tenon("batch", MODEL, "--input", samples, "--output", tmp_path / "new", *OPTIONS)
    assert (tmp_path / "new" / "logits.npy").read_bytes() == undisturbed.read_bytes()
    path = tmp_path / "o.safetensors"
    tenon("batch", MODEL, "--input", samples, "--output", f"logits={path}", *OPTIONS)
    (name, array), *rest = safetensors.load_file(path).items()
    assert name == "logits"
    assert not rest
    np.testing.assert_array_equal(array, wanted)
    assert wanted.dtype == np.float32
    assert wanted.shape == (SAMPLES, 10)


@pytest.mark.parametrize("batch", [1, 7, 64, 1000])
def test_batches(tenon, samples, undisturbed, tmp_path, batch):
    """Rows do not depend on the batch, nor on instances, but for rounding."""
    wanted = np.load(undisturbed)
    reference = tenon.run(MODEL, {"images": np.load(samples)[:1000]})["logits"]
    np.testing.assert_allclose(wanted[:1000], reference, rtol=0, atol=1e-4 * abs(wanted).max())
    for options in (["--threads", 1, "--instances", 1], ["--threads", 2], ["--instances", 2]):
        output = tmp_path / "o.npy"
        tenon("batch", MODEL, "--input", samples, "--output", output, "--batch", batch, *options,
              "--overwrite")
        np.testing.assert_allclose(np.load(output), wanted, rtol=0, atol=1e-5 * abs(wanted).max())


def test_bad_samples(tenon, samples, undisturbed, tmp_path):
    images = np.load(samples)[:100]
    folder = tmp_path / "in"
    folder.mkdir()
    nan = images[20:40].copy()
    nan[3, 0, 4, 4] = np.nan
    np.save(folder / "0.npy", images[:20])
    np.save(folder / "1.npy", nan)
    (folder / "2.npy").symlink_to("nowhere")
    np.save(folder / "3.npy", images[41:43, :, :7])
    np.save(folder / "4.npy", images[43:])
    output, errors = tmp_path / "o.npy", tmp_path / "bad.csv"
    job = [MODEL, "--input", folder, "--output", output, "--check-nan", *OPTIONS]
    message = fails(tenon, FAILED, *job)
    assert "1.npy[3]" in message
    assert "NaN" in message
    tenon("batch", *job, "--on-error", "skip", "--resume")
    rows = list(csv.reader(open(tmp_path / "o.npy.errors.csv")))
    assert rows[0] == ["sample", "name", "reason"]
    assert [row[:2] for row in rows[1:]] == [
        ["23", "1.npy[3]"],
        ["40", "2.npy"],
        ["41", "3.npy[0]"],
        ["42", "3.npy[1]"],
    ]
    assert "float32[1, 7, 8]" in rows[3][2]
    assert "float32[1, 8, 8]" in rows[3][2]
    got, wanted = np.load(output), np.load(undisturbed)[:100]
    bad = [23, 40, 41, 42]
    assert np.isnan(got[bad]).all()
    good = np.delete(np.arange(100), bad)
    np.testing.assert_array_equal(got[good], wanted[good])
    job[4] = tmp_path / "p.npy"
    errors = tmp_path / "bad.jsonl"
    tenon("batch", *job, "--on-error", "skip", "--errors", errors)
    lines = [json.loads(line) for line in errors.read_text().splitlines()]
    assert [line["sample"] for line in lines] == bad
    assert (tmp_path / "p.npy").read_bytes() == output.read_bytes()


GATHER = """graph gather { input %i: int64[4, 2] input %x: float32[4, 3]
const %t: float32[10, 3] = random(1)
%e = aten.embedding(%t, %i)
%s = aten.sum.dim_IntList(%e, [1], false)
%y = aten.add.Tensor(%s, %x)
output "y" = %y }
"""


def test_failing_runs(tenon, tmp_path):
    """A sample that makes runs fail is found, and the others of its batch have their results."""
    (tmp_path / "model.txt").write_text(GATHER)
    indices = np.arange(22).reshape(11, 2) % 10
    values = np.arange(33, dtype=np.float32).reshape(11, 3)
    np.savez(tmp_path / "good.npz", i=indices, x=values)
    job = [tmp_path / "model.txt", "--threads", 1, "--instances", 1]
    tenon("batch", *job, "--input", tmp_path / "good.npz", "--output", tmp_path / "good.npy")
    indices[5, 1] = 10
    indices[6, 0] = -1
    np.savez(tmp_path / "bad.npz", i=indices, x=values)
    job += ["--input", tmp_path / "bad.npz", "--output", tmp_path / "bad.npy"]
    assert "samples 4 to 7" in fails(tenon, FAILED, *job)
    tenon("batch", *job, "--on-error", "skip", "--resume")
    got, wanted = np.load(tmp_path / "bad.npy"), np.load(tmp_path / "good.npy")
    assert np.isnan(got[5:7]).all()
    keep = [0, 1, 2, 3, 4, 7, 8, 9, 10]
    np.testing.assert_array_equal(got[keep], wanted[keep])


def test_several_inputs(tenon, tmp_path):
    (tmp_path / "model.txt").write_text(GATHER)
    indices = np.arange(22).reshape(11, 2) % 10
    values = np.arange(33, dtype=np.float32).reshape(11, 3)
    np.savez(tmp_path / "both.npz", i=indices, x=values)
    np.save(tmp_path / "i.npy", indices)
    np.save(tmp_path / "x.npy", values)
    np.save(tmp_path / "short.npy", values[:10])
    np.save(tmp_path / "half.npy", values.astype(np.float16))
    np.save(tmp_path / "double.npy", values.astype(np.float64))
    job = [tmp_path / "model.txt", "--threads", 1, "--instances", 1, "--overwrite"]
    results = []
    for inputs in (["both.npz"], ["i=i.npy", "x=x.npy"], ["i=both.npz", "x.npy"],
                   ["x=half.npy", "both.npz"]):
        paths = []
        for text in inputs:
            name, equals, path = text.rpartition("=")
            paths += ["--input", f"{name}{equals}{tmp_path / path}"]
        tenon("batch", *job, *paths, "--output", tmp_path / "o.npy")
        results.append((tmp_path / "o.npy").read_bytes())
    assert len(set(results)) == 1
    records = b"".join(i.tobytes() + x.tobytes() for i, x in zip(indices, values))
    command = [tenon.command, "batch", *job, "--input", "-", "--output", tmp_path / "o.npy"]
    subprocess.run([str(text) for text in command], input=records, check=True)
    assert (tmp_path / "o.npy").read_bytes() == results[0]
    i = ["--input", f"i={tmp_path / 'i.npy'}", "--output", tmp_path / "p.npy"]
    assert "10" in fails(tenon, FAILED, *job, *i, "--input", f"x={tmp_path / 'short.npy'}")
    assert "float64" in fails(tenon, FAILED, *job, *i, "--input", f"x={tmp_path / 'double.npy'}")


def test_cut_stream(tenon, samples, undisturbed, tmp_path):
    """A last record that is not whole is a bad sample."""
    records = np.load(samples).tobytes()[: 10 * 256 + 99]
    job = [tenon.command, "batch", MODEL, "--input", "-", "--output", tmp_path / "o.npy", *OPTIONS]
    job = [str(text) for text in job] + ["--on-error", "skip"]
    subprocess.run(job, input=records, check=True)
    got = np.load(tmp_path / "o.npy")
    assert got.shape == (11, 10)
    np.testing.assert_array_equal(got[:10], np.load(undisturbed)[:10])
    assert np.isnan(got[10]).all()
    assert "99 of a record's 256 bytes" in (tmp_path / "o.npy.errors.csv").read_text()


# ---- Shards ----


@pytest.mark.parametrize("shards", [1, 3, 7])
@pytest.mark.parametrize("ending", ["npy", "safetensors"])
def test_shards(tenon, samples, tmp_path, shards, ending):
    images = np.load(samples)[:203]
    images[150, 0, 0, 0] = np.nan
    np.save(tmp_path / "x.npy", images)
    job = [MODEL, "--input", tmp_path / "x.npy", *OPTIONS, "--check-nan", "--on-error", "skip"]
    whole, parts = tmp_path / f"whole.{ending}", tmp_path / f"parts.{ending}"
    tenon("batch", *job, "--output", whole)
    for shard in range(shards):
        if shard == shards - 1 and shards > 1:
            message = fails(tenon, FAILED, "--merge", shards, "--output", parts)
            assert f"shard {shard} of {shards}" in message
        tenon("batch", *job, "--output", parts, "--shard", f"{shard}/{shards}")
    tenon("batch", "--merge", shards, "--output", parts)
    assert parts.read_bytes() == whole.read_bytes()
    errors = [(tmp_path / f"{name}.{ending}.errors.csv").read_text() for name in ("whole", "parts")]
    assert errors[0] == errors[1]
    assert "150," in errors[0]
    assert "exists" in fails(tenon, FAILED, "--merge", shards, "--output", parts)
    summary = tmp_path / "summary.json"
    assert "nothing of a job" in fails(tenon, USAGE, "--merge", shards, "--output", parts,
                                       "--overwrite", "--json", summary)


def test_summary(tenon, samples, tmp_path):
    path, output = tmp_path / "summary.json", tmp_path / "o.npy"
    result = tenon.start("batch", MODEL, "--input", samples, "--output", output, "--json", path)
    assert result.returncode == 0
    assert f"{SAMPLES} samples in " in result.stderr
    summary = json.loads(path.read_text())
    assert summary["status"] == "finished"
    assert summary["samples"] == SAMPLES
    assert summary["bad"] == 0
    assert summary["files"] == [str(output)]
    assert summary["samples_per_second"] > 0
    tenon("batch", MODEL, "--input", samples, "--output", output, "--json", path, "--resume")
    assert json.loads(path.read_text())["samples"] == SAMPLES
    quiet = tenon.start("batch", MODEL, "--input", samples, "--output", tmp_path / "p.npy", "--quiet")
    assert quiet.stderr == quiet.stdout == ""


def test_nothing_is_written_over_what_is_read(tenon, samples, tmp_path):
    given = tmp_path / "given.npy"
    given.write_bytes(samples.read_bytes())
    output = tmp_path / "o.npy"
    job = [MODEL, "--input", given, "--output"]
    assert "the job reads it" in fails(tenon, USAGE, *job, given, "--overwrite")
    assert "the job reads it" in fails(tenon, USAGE, *job, output, "--json", given)
    for taken in (output, f"{output}.partial", f"{output}.journal", f"{tmp_path}/./o.npy"):
        assert "writes something else" in fails(tenon, USAGE, *job, output, "--json", taken)
    assert given.read_bytes() == samples.read_bytes()
    assert os.listdir(tmp_path) == ["given.npy"]


def test_nothing_is_written_over_files_of_a_folder(tenon, samples, tmp_path):
    """Nor under a name that the next job would read, under whatever other name."""
    folder = tmp_path / "in"
    folder.mkdir()
    kept = tmp_path / "kept.npy"
    kept.write_bytes(samples.read_bytes())
    (folder / "a.npy").symlink_to(kept)
    (tmp_path / "other").symlink_to(folder)
    job = [MODEL, "--input", folder, "--overwrite", "--output"]
    for output in (folder / "o.npy", folder, f"{tmp_path}/other/./o.safetensors"):
        message = fails(tenon, USAGE, *job, output)
        assert f"lies in the folder {folder}" in message
    for output in ([kept], [folder / "a.npy"], [tmp_path / "o.npy", "--json", kept]):
        assert "kept.npy: the job reads it" in fails(tenon, USAGE, *job, *output)
    assert kept.read_bytes() == samples.read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["in", "kept.npy", "other"]
    # Tables are no arrays, and what stands below the folder is not read.
    (folder / "below").mkdir()
    job = [MODEL, "--input", folder, "--quiet", "--output"]
    for output in (folder / "best.csv", folder / "below" / "o.npy"):
        tenon("batch", *job, output)
        tenon("batch", *job, output, "--resume")
    # Nor over labels, and what else it reads.
    labels = tmp_path / "labels.txt"
    labels.write_text("a\n" * 10)
    given = [MODEL, "--input", folder, "--output", tmp_path / "l.csv", "--labels", labels]
    assert "the job reads it" in fails(tenon, USAGE, *given, "--json", labels)


def two_outputs(path):
    path.write_text(
        "graph g {\n  symbol s0 in [1, 64]\n  input %x: float32[s0, 2]\n"
        '  %y = aten.neg(%x)\n  %z = aten.abs(%x)\n  output "y" = %y\n  output "z" = %z\n}\n'
    )
    np.save(path.parent / "x.npy", np.float32([[1, -2], [3, -4]]))
    return [path, "--input", path.parent / "x.npy"]


def test_two_names_of_one_output(tenon, tmp_path):
    job = two_outputs(tmp_path / "m.txt")
    (tmp_path / "p").mkdir()
    (tmp_path / "q").symlink_to("p")
    old, hard = tmp_path / "p" / "old.npy", tmp_path / "hard.npy"
    old.write_text("old")
    hard.hardlink_to(old)
    for y, z in [("p/y.npy", "p/./y.npy"), ("p/y.npy", "q/y.npy"), ("p/old.npy", "hard.npy")]:
        given = ["--output", f"y={tmp_path}/{y}", "--output", f"z={tmp_path}/{z}", "--overwrite"]
        assert "two outputs go to" in fails(tenon, USAGE, *job, *given)
    errors = ["--output", f"y={tmp_path}/p/y.csv", "--errors", f"{tmp_path}/q/y.csv"]
    assert "--errors: an output goes to" in fails(tenon, USAGE, *job, *errors)
    assert os.listdir(tmp_path / "p") == ["old.npy"]


def test_names_in_a_journal(tenon, tmp_path):
    """Shards are joined by the names that the journals have, whatever is in these."""
    job = two_outputs(tmp_path / "m.txt")
    long = "n" * 200
    outputs = [
        *("--output", f"y={tmp_path}/a, b.0-of-2.npy", "--output", f"z={tmp_path}/{long}.npy"),
        *("--errors", f"{tmp_path}/{long}.csv"),
    ]
    for shard in range(2):
        tenon("batch", *job, *outputs, "--shard", f"{shard}/2", "--batch", 1)
    tenon("batch", "--merge", 2, *outputs[:2])
    want = np.load(tmp_path / "x.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "a, b.0-of-2.npy"), -want)
    np.testing.assert_array_equal(np.load(tmp_path / f"{long}.npy"), abs(want))


def test_closed_streams(tenon, samples, undisturbed, tmp_path):
    """What would be printed does not go into a file that got the number of a closed stream."""
    output = tmp_path / "o.npy"
    command = [tenon.command, "batch", MODEL, "--input", samples, "--output", output, *OPTIONS]
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", *map(str, command[:-1])], check=False
    )
    assert closed.returncode == 0
    assert output.read_bytes() == undisturbed.read_bytes()
    # Nor is a closed standard input one that is empty, or lost what is printed.
    command = [tenon.command, "batch", MODEL, "--input", "-", "--output", tmp_path / "p.npy"]
    closed = subprocess.run(
        ["sh", "-c", 'exec "$@" 0<&-', "sh", *map(str, command)], capture_output=True, text=True
    )
    assert closed.returncode == FAILED
    assert "standard input cannot be read: Bad file descriptor" in closed.stderr
    assert not (tmp_path / "p.npy").exists()
    for arguments in ("info", MODEL), ("--version",):
        closed = subprocess.run(
            ["sh", "-c", 'exec "$@" 1>&-', "sh", str(tenon.command), *map(str, arguments)],
            stderr=subprocess.PIPE, text=True,
        )
        assert closed.returncode == FAILED
        assert "writing to standard output failed" in closed.stderr


def test_links_are_not_followed(tenon, samples, tmp_path):
    kept = tmp_path / "kept"
    kept.write_text("kept")
    output = tmp_path / "o.npy"
    (tmp_path / "o.npy.partial").symlink_to(kept)
    fails(tenon, FAILED, MODEL, "--input", samples, "--output", output)
    assert kept.read_text() == "kept"
