"""`tenon batch` on images, against torchvision's transforms on Pillow's images, and the best
classes as CSV. The images are those of examples/images/make_images.py: every kind of JPEG and PNG,
in odd sizes."""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/zoo"))
sys.path.insert(0, str(ROOT / "examples/images"))

import make_images  # noqa: E402
import models as zoo  # noqa: E402

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def transforms():
    zoo.import_torchvision()
    from torchvision import transforms

    return transforms


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """A folder with a file of every kind, and a part of them one folder deeper."""
    folder = tmp_path_factory.mktemp("kinds")
    random = np.random.default_rng(7)
    (folder / "png").mkdir()
    make_images.jpeg_kinds(folder, random)
    make_images.png_kinds(folder / "png", random)
    (folder / "notes.md").write_text("no image")
    (folder / ".hidden.png").write_text("no image")
    return folder


def names_in(folder):
    found = [p.relative_to(folder) for p in folder.rglob("*") if p.suffix in (".jpg", ".png")]
    return sorted(str(p) for p in found if not p.name.startswith("."))


def negation(path, size):
    """A model that gives its images back, negated, which loses nothing."""
    height, width = (size, size) if isinstance(size, int) else size
    path.write_text(
        "graph images {\n  symbol s0 in [1, 64]\n"
        f"  input %x: float32[s0, 3, {height}, {width}]\n"
        '  %y = aten.neg(%x)\n  output "y" = %y\n}\n'
    )
    return path


def classifier(path, classes=10, size=32):
    """Scores from 3 * size * size pixels."""
    pixels = 3 * size * size
    path.write_text(
        f"graph scores {{\n  symbol s0 in [1, 64]\n  input %x: float32[s0, 3, {size}, {size}]\n"
        f"  const %w: float32[{pixels}, {classes}] = random(3)\n"
        f"  %f = aten.reshape(%x, [-1, {pixels}])\n"
        '  %y = aten.mm(%f, %w)\n  output "scores" = %y\n}\n'
    )
    return path


def images_through(tenon, folder, tmp_path, size, *options):
    out = tmp_path / "images.npy"
    tenon("batch", negation(tmp_path / "m.txt", size), "--input", folder, "--output", out,
          "--overwrite", "--quiet", *options)
    return -np.load(out)


SETTINGS = {
    "standard": ([256, 224, "bilinear"], []),
    "bicubic": ([256, 224, "bicubic"], ["--interpolation", "bicubic"]),
    "weights 2": ([232, 224, "bilinear"], ["--resize", "232"]),
    "small": ([40, 32, "bilinear"], ["--resize", "40"]),
    "both edges": ([(100, 150), (90, 140), "bicubic"],
                   ["--resize", "100x150", "--interpolation", "bicubic", "--crop", "90x140"]),
    "crop outside": ([(60, 70), (91, 64), "bilinear"], ["--resize", "60x70"]),
    "no resize": ([None, (120, 131), "bilinear"], ["--resize", "none"]),
    "larger": ([500, 480, "bicubic"], ["--resize", "500", "--interpolation", "bicubic"]),
}


@pytest.mark.parametrize("isa", ["", "baseline"])
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
def test_pixels_are_those_of_torchvision(
    tenon, kinds, transforms, tmp_path, monkeypatch, name, isa
):
    (resize, crop, method), options = SETTINGS[name]
    if isa:
        monkeypatch.setenv("TENON_MAX_ISA", isa)
    mode = getattr(transforms.InterpolationMode, method.upper())
    steps = [transforms.Resize(resize, mode)] if resize else []
    steps += [transforms.CenterCrop(crop), transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    got = images_through(tenon, kinds, tmp_path, crop, *options)
    names = names_in(kinds)
    assert len(names) > 40 and len(got) == len(names)
    for file, image in zip(names, got):
        want = transforms.Compose(steps)(Image.open(kinds / file).convert("RGB")).numpy()
        # Equal, all of them. The decoders may be of different versions, and still agree.
        assert np.abs(image - want).max() == 0, file


def test_mean_and_std(tenon, kinds, transforms, tmp_path):
    got = images_through(tenon, kinds / "jpeg_420.jpg", tmp_path, 224, "--mean", "0.5,0,0.25",
                         "--std", "0.5")
    steps = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224),
                                transforms.ToTensor(),
                                transforms.Normalize((0.5, 0, 0.25), (0.5, 0.5, 0.5))])
    want = steps(Image.open(kinds / "jpeg_420.jpg").convert("RGB")).numpy()
    assert got.shape == (1, 3, 224, 224) and np.array_equal(got[0], want)


def test_lists_and_orders(tenon, kinds, tmp_path):
    everything = images_through(tenon, kinds, tmp_path, 64)
    names = names_in(kinds)
    chosen = [names[i] for i in (5, 40, 0, 5)]
    (kinds / "list.txt").write_text("\r\n".join(chosen) + "\n\n")
    picked = images_through(tenon, kinds / "list.txt", tmp_path, 64)
    assert np.array_equal(picked, everything[[5, 40, 0, 5]])
    (tmp_path / "far.txt").write_text(f"{kinds / names[3]}\n")
    far = images_through(tenon, tmp_path / "far.txt", tmp_path, 64)
    assert np.array_equal(far[0], everything[3])


@pytest.fixture
def damaged(kinds, tmp_path):
    folder = tmp_path / "damaged"
    folder.mkdir()
    whole = (kinds / "jpeg_420.jpg").read_bytes()
    png = (kinds / "png/png_rgb.png").read_bytes()
    (folder / "a_good.jpg").write_bytes(whole)
    (folder / "b_cut.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "c_no_end.jpg").write_bytes(whole[:-2])
    (folder / "d_cut.png").write_bytes(png[: len(png) // 2])
    (folder / "e_empty.png").write_bytes(b"")
    (folder / "f_text.jpg").write_text("this is text")
    frame = whole.index(b"\xff\xc0")
    size = b"\xff\xdc\xff\xdc"
    (folder / "g_huge.jpg").write_bytes(whole[: frame + 5] + size + whole[frame + 9 :])
    (folder / "h_folder.jpg").mkdir()
    (folder / "i_nowhere.jpg").symlink_to("nothing.jpg")
    os.mkfifo(folder / "j_pipe.jpg")
    middle = len(whole) // 2
    (folder / "k_middle.jpg").write_bytes(whole[:middle] + b"\xff\xd9" + whole[middle:])
    (folder / "z_good.png").write_bytes(png)
    return folder


REASONS = {
    "b_cut.jpg": "Premature end",
    "c_no_end.jpg": "damaged JPEG: it ends early",
    "d_cut.png": "damaged PNG: it ends early",
    "e_empty.png": "the file is empty",
    "f_text.jpg": "neither JPEG nor PNG",
    "g_huge.jpg": "65500x65500 pixels: more than the limit of 89478485",
    "i_nowhere.jpg": "cannot be opened: No such file or directory",
    "k_middle.jpg": "damaged JPEG: ",
}


def test_bad_images_are_told_by_name(tenon, damaged, tmp_path):
    errors = tmp_path / "errors.csv"
    got = images_through(tenon, damaged, tmp_path, 64, "--on-error", "skip", "--errors", errors)
    samples = sorted(["a_good.jpg", "z_good.png", *REASONS])
    assert len(got) == len(samples)
    told = errors.read_text()
    for name, image in zip(samples, got):
        assert np.isnan(image).all() == (name in REASONS), name
        if name in REASONS:
            line = next(line for line in told.splitlines() if name in line)
            assert REASONS[name] in line
        else:
            assert name not in told
    result = tenon.start("batch", tmp_path / "m.txt", "--input", damaged, "--output",
                         tmp_path / "other.npy")
    assert result.returncode == 1
    assert "b_cut.jpg" in result.stderr and "Premature end" in result.stderr


def test_a_pixel_limit_of_ones_own(tenon, kinds, tmp_path):
    errors = tmp_path / "errors.csv"
    images_through(tenon, kinds, tmp_path, 64, "--on-error", "skip", "--errors", errors,
                   "--max-pixels", "200000")
    assert "jpeg_large.jpg" in errors.read_text() and "jpeg_444.jpg" not in errors.read_text()


def test_what_cannot_be(tenon, kinds, tmp_path):
    model = negation(tmp_path / "m.txt", 64)
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "none.txt").write_text("\n")

    def refused(text, *options, source=kinds):
        given = ["--input", source, "--output", tmp_path / "y.npy", *options]
        result = tenon.start("batch", model, *given)
        assert result.returncode in (1, 2) and text in result.stderr, result.stderr
        assert not list(tmp_path.glob("y.npy*"))

    refused("--resize: '0'", "--resize", "0")
    refused("--resize: '256x'", "--resize", "256x")
    refused("--mean: '1,2'", "--mean", "1,2")
    refused("--std: '1,0,1'", "--std", "1,0,1")
    refused("--interpolation: 'nearest'", "--interpolation", "nearest")
    refused("--max-pixels", "--max-pixels", "0")
    refused("the crop is 32x32", "--crop", "32")
    refused(".csv", "--topk", "3")
    refused("there are no images", source=tmp_path / "none.txt")
    refused("there is no .npy, .npz or .safetensors file", source=empty)


def table(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def test_best_classes(tenon, kinds, tmp_path):
    model = classifier(tmp_path / "m.txt")
    labels = ["plain", "with, comma", 'a "quote"', " space", "", "naïve", "g", "h", "i", "j"]
    (tmp_path / "labels.txt").write_text("\n".join(labels) + "\n")
    scores, out = tmp_path / "scores.npy", tmp_path / "best.csv"
    options = ["--input", kinds, "--resize", "36", "--threads", "1", "--quiet"]
    tenon("batch", model, *options, "--output", scores)
    options += ["--labels", tmp_path / "labels.txt"]
    tenon("batch", model, *options, "--output", out, "--topk", "3")
    want, index = torch.from_numpy(np.load(scores)).topk(3)
    head, *rows = table(out)
    assert head == ["sample", "rank", "index", "label", "score"]
    names = names_in(kinds)
    assert len(rows) == 3 * len(names)
    for i, (sample, rank, best, label, score) in enumerate(rows):
        assert sample == names[i // 3] and int(rank) == i % 3 + 1
        assert int(best) == index[i // 3, i % 3] and label == labels[int(best)]
        assert np.float32(score) == want[i // 3, i % 3]

    options = options[:-2]
    tenon("batch", model, *options, "--output", tmp_path / "soft.csv", "--softmax", "--topk", "99")
    _, *rows = table(tmp_path / "soft.csv")
    soft = torch.from_numpy(np.load(scores)).double().softmax(1).sort(1, descending=True)
    assert len(rows) == 10 * len(names)
    assert np.allclose([float(row[4]) for row in rows], soft.values.flatten(), rtol=1e-8)
    assert {row[3] for row in rows} == {""}


def test_best_classes_of_ties_and_nan(tenon, tmp_path):
    model = tmp_path / "m.txt"
    model.write_text('graph m {\n  symbol s0 in [1, 8]\n  input %x: float32[s0, 4]\n'
                     '  %y = aten.neg(%x)\n  output "y" = %y\n}\n')
    np.save(tmp_path / "x.npy", -np.array([[1, 2, 2, np.nan], [np.nan] * 4, [3, 3, 3, -np.inf]],
                                          dtype=np.float32))
    given = ["--input", tmp_path / "x.npy", "--output", tmp_path / "y.csv", "--topk", "4"]
    tenon("batch", model, *given)
    _, *rows = table(tmp_path / "y.csv")
    assert [int(row[2]) for row in rows] == [1, 2, 0, 3, 0, 1, 2, 3, 0, 1, 2, 3]
    assert rows[0][0] == "x.npy[0]" and [row[4] for row in rows[2:5]] == ["1", "nan", "nan"]
    assert rows[-1][4] == "-inf"
    assert "-nan" not in (tmp_path / "y.csv").read_text()  # aten.neg sets the sign of each NaN


def test_labels_must_be_as_many_as_classes(tenon, kinds, tmp_path):
    model = classifier(tmp_path / "m.txt")
    for count in (9, 11):
        (tmp_path / "labels.txt").write_text("a\n" * count)
        result = tenon.start("batch", model, "--input", kinds, "--output", tmp_path / "y.csv",
                             "--labels", tmp_path / "labels.txt")
        assert result.returncode == 1 and f"{count} labels" in result.stderr
    result = tenon.start("batch", negation(tmp_path / "n.txt", 64), "--input", kinds, "--output",
                         tmp_path / "y.csv")
    assert result.returncode == 2 and "not one score for each class" in result.stderr


def test_killed_and_resumed(tenon, kinds, damaged, tmp_path):
    """With bad samples, killed at several moments: the bytes are the same."""
    folder = tmp_path / "images"
    folder.mkdir()
    good = [kinds / "jpeg_420.jpg", kinds / "png/png_rgb.png", kinds / "jpeg_progressive.jpg"]
    for i in range(400):
        source = damaged / "b_cut.jpg" if i % 37 == 5 else good[i % 3]
        shutil.copy(source, folder / f"{i:03}{source.suffix}")
    model = classifier(tmp_path / "m.txt")

    def command(out):
        return ["batch", model, "--input", folder, "--output", f"scores={out / 'best.csv'}",
                "--threads", "1", "--on-error", "skip", "--errors", out / "errors.csv",
                "--checkpoint", "1", "--batch", "4", "--quiet"]

    whole = tmp_path / "whole"
    whole.mkdir()
    tenon(*command(whole))
    _, *rows = table(whole / "best.csv")
    assert len(rows) == 5 * (400 - len(range(5, 400, 37)))
    kills = 0
    for attempt in range(6):
        out = tmp_path / f"out{attempt}"
        out.mkdir()
        process = subprocess.Popen([str(tenon.command), *map(str, command(out))])
        journal = out / "best.csv.journal"
        size = 1500 * (1 + attempt)  # of the journal: each time a little further
        while process.poll() is None and (not journal.exists() or journal.stat().st_size < size):
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() != 0
        tenon(*command(out), "--resume")
        for name in ("best.csv", "errors.csv"):
            assert (out / name).read_bytes() == (whole / name).read_bytes()
    assert kills > 0


def test_resume_must_be_the_same_job(tenon, kinds, tmp_path):
    model = classifier(tmp_path / "m.txt")
    (tmp_path / "labels.txt").write_text("a\n" * 10)
    given = ["batch", model, "--input", kinds, "--output", tmp_path / "y.csv", "--labels",
             tmp_path / "labels.txt", "--quiet"]
    tenon(*given)
    tenon(*given, "--resume")
    for options in (["--resize", "40"], ["--mean", "0.5"], ["--topk", "2"], ["--softmax"],
                    ["--interpolation", "bicubic"]):
        result = tenon.start(*given, "--resume", *options)
        assert result.returncode == 1
        assert "transform" in result.stderr or "best classes" in result.stderr
    (tmp_path / "labels.txt").write_text("b\n" * 10)
    result = tenon.start(*given, "--resume")
    assert result.returncode == 1 and "labels" in result.stderr
