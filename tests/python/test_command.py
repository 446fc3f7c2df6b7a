"""The command: what it prints, what it refuses, and how it says so."""

import re
import zipfile

import numpy as np
import pytest
import torch
from conftest import ROOT

FOLDER = ROOT / "examples" / "digits"
MODEL = FOLDER / "digits.pt2"
IMAGES = FOLDER / "heldout_images.npy"
LABELS = FOLDER / "heldout_labels.npy"
LOGITS = FOLDER / "heldout_logits.npy"
FAILED, USAGE = 1, 2


def fails(tenon, status, *arguments):
    """The command must end with this status and a message, not a signal; returns the message."""
    result = tenon.start(*arguments)
    assert result.returncode == status, result.stdout + result.stderr
    assert result.stderr.startswith("tenon")
    return result.stderr


def test_version(tenon):
    text = tenon("--version")
    assert re.match(r"tenon \d+\.\d+\.\d+\n", text)
    assert re.search(r"oneDNN 3\.\d+", text)
    assert re.search(r"\d+ thread", text)


@pytest.mark.parametrize("command", ["run", "info", "explain", "profile", "batch", "passes", "ops"])
def test_help(tenon, command):
    assert f"tenon {command}" in tenon(command, "--help")
    assert f"  {command} " in tenon("--help")


def test_no_winograd(tenon, tmp_path):
    graph = tmp_path / "wide.txt"
    graph.write_text(
        'graph "wide" { input %x: float32[1, 64, 28, 28]\n'
        "const %w: float32[64, 64, 3, 3] = random(1)\n"
        "%c = aten.conv2d(%x, %w, none, [1, 1], [1, 1])\n%y = aten.relu(%c)\n"
        'output "o" = %y }\n'
    )
    assert "tenon.winograd_convolution" in tenon("explain", graph)
    assert "tenon.winograd_convolution" not in tenon("explain", graph, "--no-winograd")
    assert "tenon.winograd_convolution" not in tenon("explain", graph, "--backend", "onednn")
    outputs = []
    for option in ([], ["--no-winograd"]):
        tenon("run", graph, "--random", 1, "--output", tmp_path, *option)
        outputs.append(np.load(tmp_path / "o.npy"))
    assert not np.array_equal(*outputs)
    np.testing.assert_allclose(*outputs, rtol=0, atol=1e-5 * abs(outputs[0]).max())


@pytest.mark.parametrize("backend", ["auto", "onednn", "reference"])
@pytest.mark.parametrize("batch", [1, 7, 360])
def test_run(tenon, backend, batch):
    images, logits = np.load(IMAGES)[:batch], np.load(LOGITS)[:batch]
    got = tenon.run(MODEL, {"images": images}, "--backend", backend)
    assert list(got) == ["logits"]
    assert got["logits"].dtype == np.float32
    assert np.abs(got["logits"] - logits).max() <= 1e-4 * np.abs(logits).max()


@pytest.mark.parametrize("batch", [1, 0, 3])
def test_open_sizes_take_one(tenon, tmp_path, batch):
    """torch.export writes 2 as the least size of what it left open, and means any."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten()).eval()
    sizes = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(model, (torch.randn(4, 3, 6, 6),), dynamic_shapes=sizes)
    torch.export.save(program, tmp_path / "open.pt2")
    images = torch.randn(batch, 3, 6, 6)
    (name,) = program.graph_signature.user_inputs
    (got,) = tenon.run(tmp_path / "open.pt2", {name: images.numpy()}).values()
    np.testing.assert_allclose(got, model(images).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_run_prints(tenon):
    text = tenon(
        *("run", MODEL, "--input", f"images={IMAGES}", "--expect", f"logits={LOGITS}"),
        *("--tolerance", "1e-4", "--iterations", "3", "--threads", "1"),
    )
    assert "float32[360, 10]" in text
    assert re.search(r"latency: median [\d.]+ ms, p90 [\d.]+ ms", text)


def test_expect_differs(tenon, tmp_path):
    wrong = np.load(LOGITS)
    wrong[300, 3] += 0.01 * np.abs(wrong).max()
    np.save(tmp_path / "wrong.npy", wrong)
    inputs = "run", MODEL, "--input", f"images={IMAGES}"
    message = fails(tenon, FAILED, *inputs, "--expect", f"logits={tmp_path / 'wrong.npy'}")
    assert "logits" in message
    tenon(*inputs, "--expect", f"logits={tmp_path / 'wrong.npy'}", "--tolerance", "0.02")


def test_random_is_seeded(tenon, tmp_path):
    symbol = re.search(r"symbols\n +(\w+):", tenon("info", MODEL))[1]
    arrays = []
    for number, seed in enumerate([3, 3, 4]):
        folder = tmp_path / str(number)
        tenon("run", MODEL, "--random", seed, "--dim", f"{symbol}=5", "--output", folder)
        arrays.append(np.load(folder / "logits.npy"))
    assert arrays[0].shape == (5, 10)
    assert (arrays[0] == arrays[1]).all()
    assert (arrays[0] != arrays[2]).any()


def test_info(tenon):
    text = tenon("info", MODEL)
    assert re.search(r"images: float32\[\w+, 1, 8, 8\]", text)
    assert "logits" in text
    assert "1 to 1024" in text
    assert re.search(r"\d+ +aten\.conv2d", text)


def test_explain(tenon):
    symbol = re.search(r"symbols\n +(\w+):", tenon("info", MODEL))[1]
    text = tenon("explain", MODEL, "--dim", f"{symbol}=360")
    assert re.search(r"\d+ oneDNN partitions? with \d+ nodes", text)
    reference = tenon("explain", MODEL, "--dim", f"{symbol}=360", "--backend", "reference")
    assert re.search(r"\b0 oneDNN partitions", reference)


def test_ops(tenon):
    text = tenon("ops")
    for op in ("aten.convolution", "aten.linear", "aten.add.Tensor"):
        assert op in text


def wrong_arrays(folder):
    images = np.load(IMAGES)
    np.save(folder / "rank.npy", images[0])
    np.save(folder / "size.npy", images[:, :, :7])
    np.save(folder / "dtype.npy", images.astype(np.float64))
    np.save(folder / "empty.npy", images[:0])
    np.save(folder / "many.npy", np.zeros((1025, 1, 8, 8), np.float32))
    (folder / "text.npy").write_text("no array")
    (folder / "cut.npy").write_bytes(IMAGES.read_bytes()[:-1])


WRONG_INPUTS = {
    "unknown name": (USAGE, ["--input", f"pictures={IMAGES}"], "pictures"),
    "given twice": (USAGE, ["--input", f"images={IMAGES}", "--input", f"images={IMAGES}"], "twice"),
    "no name": (USAGE, ["--input", f"{IMAGES}"], "NAME"),
    "none": (USAGE, [], "images"),
    "no file": (FAILED, ["--input", "images=no-such.npy"], "no-such.npy"),
    "no array": (FAILED, ["--input", "images={folder}/text.npy"], "text.npy"),
    "file cut": (FAILED, ["--input", "images={folder}/cut.npy"], "cut.npy"),
    "rank": (FAILED, ["--input", "images={folder}/rank.npy"], "images"),
    "size": (FAILED, ["--input", "images={folder}/size.npy"], "images"),
    "dtype": (FAILED, ["--input", "images={folder}/dtype.npy"], "float64"),
    "below the range": (FAILED, ["--input", "images={folder}/empty.npy"], "images"),
    "above the range": (FAILED, ["--input", "images={folder}/many.npy"], "1024"),
    "other labels": (FAILED, ["--input", f"images={LABELS}"], "images"),
    "unknown output": (
        USAGE,
        ["--input", f"images={IMAGES}", "--expect", f"scores={LOGITS}"],
        "scores",
    ),
    "unknown option": (USAGE, ["--inputs", f"images={IMAGES}"], "--inputs"),
    "unknown backend": (USAGE, ["--random", "1", "--backend", "gpu"], "gpu"),
    "unknown symbol": (USAGE, ["--random", "1", "--dim", "nothing=3"], "nothing"),
    "open symbol": (USAGE, ["--random", "1"], "--dim"),
}


@pytest.mark.parametrize("case", WRONG_INPUTS)
def test_refuses_input(tenon, tmp_path, case):
    wrong_arrays(tmp_path)
    status, arguments, named = WRONG_INPUTS[case]
    arguments = [argument.format(folder=tmp_path) for argument in arguments]
    message = fails(tenon, status, "run", MODEL, *arguments)
    assert named in message


def test_messages_differ(tenon, tmp_path):
    wrong_arrays(tmp_path)
    messages = set()
    for status, arguments, _ in WRONG_INPUTS.values():
        arguments = [argument.format(folder=tmp_path) for argument in arguments]
        messages.add(fails(tenon, status, "run", MODEL, *arguments))
    assert len(messages) == len(WRONG_INPUTS)


@pytest.mark.parametrize(
    "arguments", [["fly"], [], ["run"], ["info"], ["run", str(MODEL), "another.pt2"]]
)
def test_refuses_usage(tenon, arguments):
    result = tenon.start(*arguments)
    assert result.returncode == USAGE
    assert result.stderr and not result.stdout


def test_refuses_missing_model(tenon):
    assert "no-such.pt2" in fails(tenon, FAILED, "info", "no-such.pt2")


def entry_ends():
    """Where the archive's entries begin, and where its central directory and its end lie."""
    size = MODEL.stat().st_size
    with zipfile.ZipFile(MODEL) as archive:
        starts = [entry.header_offset for entry in archive.infolist()]
        return sorted({*starts, archive.start_dir, size - 22, size - 1})


def test_refuses_truncated_archives(tenon, tmp_path):
    whole = MODEL.read_bytes()
    path = tmp_path / "cut.pt2"
    for length in entry_ends():
        path.write_bytes(whole[:length])
        assert "cut.pt2" in fails(tenon, FAILED, "info", path)


def rewrite(path, change):
    """Copies the archive; `change` gets each entry's name and bytes, and returns them or None."""
    with zipfile.ZipFile(MODEL) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.infolist():
            changed = change(entry.filename, old.read(entry))
            if changed is not None:
                new.writestr(entry.filename, changed)


def edit(ending, old, new):
    def change(name, data):
        if not name.endswith(ending):
            return data
        assert old in data
        return data.replace(old, new, 1)

    return change


def drop(ending):
    return lambda name, data: None if name.endswith(ending) else data


WRONG_ARCHIVES = {
    "missing weight": (drop("/weight_3"), "weight_3"),
    "missing model": (drop("model.json"), "json"),
    "missing weight table": (drop("model_weights_config.json"), "model_weights_config"),
    "short weight": (lambda n, d: d[:-4] if n.endswith("/weight_3") else d, "weight_3"),
    "unknown op": (edit("model.json", b"aten.conv2d.default", b"aten.magic.default"), "magic"),
    "unknown dtype": (edit("model.json", b'"dtype": 7', b'"dtype": 77'), "77"),
    "newer schema": (edit("model.json", b'"major": 8', b'"major": 9'), "9"),
    "broken json": (edit("model.json", b"{", b"["), "json"),
}


@pytest.mark.parametrize("case", WRONG_ARCHIVES)
def test_refuses_archive(tenon, tmp_path, case):
    change, named = WRONG_ARCHIVES[case]
    path = tmp_path / "wrong.pt2"
    rewrite(path, change)
    message = fails(tenon, FAILED, "info", path)
    assert "wrong.pt2" in message and named in message


def test_rewritten_archive_runs(tenon, tmp_path):
    """What the wrong archives are made with makes right ones too."""
    path = tmp_path / "same.pt2"
    rewrite(path, lambda name, data: data)
    tenon("run", path, "--input", f"images={IMAGES}", "--expect", f"logits={LOGITS}")
