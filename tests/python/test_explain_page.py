"""The page of `tenon explain --html`, opened in a headless Chromium."""

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT
from explain_facts import explain
from PIL import Image

DIGITS = ROOT / "examples" / "digits" / "digits.pt2"
LONG = ROOT / "tests" / "data" / "pt2-cases" / "chain5000.pt2"
OPTIONS = ("--dim", "s34=8", "--remove-pass", "convolve")
SIZE = 1400, 1700
SECONDS = 120

AWKWARD = """graph "a" {
  input %x: float32[64, 64]
  const %w: float32[64, 64] = random(7, -1, 1)
  %y = aten.linear(%x, %w)
  %z = aten.sin(%y)
  output "<b id=oops>&\\"'</script>" = %z
  output "same" = %x
}
"""


class Browser:
    """Chromium on a page: what it looks like, and what its document is after the scripts ran."""

    def __init__(self, command, folder):
        self.command = command
        self.folder = folder

    def start(self, page, *options):
        command = [self.command, "--headless=new", "--no-sandbox", "--disable-gpu"]
        command += ["--hide-scrollbars", "--force-color-profile=srgb", "--virtual-time-budget=5000"]
        command += [f"--user-data-dir={self.folder / 'profile'}", *options, page.as_uri()]
        environment = os.environ | {"HOME": str(self.folder)}
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, env=environment
        )
        assert result.returncode == 0, result.stderr[-2000:]
        return result.stdout

    def screenshot(self, page, *options):
        picture = self.folder / "page.png"
        picture.unlink(missing_ok=True)
        size = f"--window-size={SIZE[0]},{SIZE[1]}"
        self.start(page, f"--screenshot={picture}", size, *options)
        return Image.open(picture).convert("RGB")

    def document(self, page, script=""):
        """The document as HTML; `script` runs at its end, in a copy of the page."""
        copy = self.folder / "copy.html"
        text = page.read_text()
        assert text.count("</body>") == 1
        copy.write_text(text.replace("</body>", f"<script>{script}</script></body>"))
        return self.start(copy, "--dump-dom", "--window-size=1400,1700")

    def value(self, page, expression):
        """What a JavaScript expression gives at the end of the page."""
        script = f"""
            const answer = document.createElement("pre");
            answer.id = "answer";
            answer.textContent = "BEGIN" + JSON.stringify({expression}) + "END";
            document.body.append(answer);"""
        text = self.document(page, script).rpartition('id="answer">BEGIN')[2].partition("END")[0]
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        return json.loads(text)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    command = shutil.which("chromium") or shutil.which("chromium-browser")
    if not command:
        pytest.fail("there is no Chromium: tools/setup --python installs it", pytrace=False)
    return Browser(command, tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def digits(tenon, tmp_path_factory):
    """The page of a small network, and the facts in it."""
    folder = tmp_path_factory.mktemp("page")
    page = folder / "digits.html"
    return page, explain(tenon, DIGITS, folder, *OPTIONS, "--html", page)


def colors(page, theme):
    """The fills of the legend: name to (r, g, b); the light theme stands before the dark one."""
    found = re.findall(r"--(\w+)-fill: #(\w{6});", page.read_text())
    half = len(found) // 2
    chosen = found[:half] if theme == "light" else found[half:]
    return {name: tuple(bytes.fromhex(text)) for name, text in chosen}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_looks(browser, digits, theme):
    page, _ = digits
    picture = browser.screenshot(page, *(["--force-dark-mode"] if theme == "dark" else []))
    assert picture.size == SIZE
    counts = {color: count for count, color in picture.getcolors(SIZE[0] * SIZE[1])}
    assert len(counts) > 100  # letters have soft edges: a blank page has few colours
    legend = colors(page, theme)
    assert sorted(legend) == ["copy", "end", "kernel", "onednn", "view"]
    for color in legend.values():
        assert counts.get(color, 0) > 100, color  # the legend's own samples at least
    # The graph in view: its first nodes run in oneDNN, below an input.
    graph = picture.crop((0, 420, 900, 1000))
    counts = {color: count for count, color in graph.getcolors(graph.width * graph.height)}
    assert counts.get(legend["onednn"], 0) > 5000
    assert counts.get(legend["end"], 0) > 500
    # Light is light and dark is dark.
    assert (sum(picture.getpixel((3, 3))) > 3 * 128) == (theme == "light")


def test_rows(browser, digits):
    page, facts = digits
    rows, tiles, passes = browser.value(
        page,
        "[[...document.querySelectorAll('#steps tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent)),"
        "[...document.querySelectorAll('.tile')].map((tile) => tile.textContent),"
        "[...document.querySelectorAll('#passes td:first-child')].map((cell) => cell.textContent)]",
    )
    assert len(rows) == len(facts["steps"]) > 5
    where = {"onednn": "oneDNN", "kernel": "kernel", "copy": "copy"}
    for row, step in zip(rows, facts["steps"]):
        assert row[:3] == [str(step["index"]), where[step["where"]], step["title"]]
        assert step["reason"]["text"] in row[-1] and step["reason"]["kind"] in row[-1]
        assert row[4] == step["outputs"][0]["dtype"]
        assert row[5] == "×".join(map(str, step["outputs"][0]["shape"]))
    assert f"{facts['plan']['partitions']}oneDNN partitions" in tiles
    assert passes == list(dict.fromkeys(record["name"] for record in facts["passes"]))


SORTED_BY = {
    "bytes": lambda step: step["read_bytes"] + step["written_bytes"],
    "flops": lambda step: step["flops"],
    "where": lambda step: step["where"],
    "title": lambda step: step["title"].lower(),
}


def test_sorts(browser, digits):
    """A click on a heading sorts, a second one turns the order around."""
    page, facts = digits
    clicks = [key for key in SORTED_BY for _ in range(2)]
    results = browser.value(
        page,
        f"{json.dumps(clicks)}.map((key) => {{"
        "const button = document.querySelector(`#steps button[data-key=${key}]`); button.click();"
        "return [[...document.querySelectorAll('#steps tbody tr')].map((row) => +row.dataset.step),"
        "button.closest('th').getAttribute('aria-sort'),"
        "document.querySelectorAll('#steps th[aria-sort]').length]; })",
    )
    for click, key in enumerate(clicks):
        order, direction, headings = results[click]
        down = click % 2 == 1
        assert direction == ("descending" if down else "ascending")
        assert headings == 1
        assert sorted(order) == list(range(len(facts["steps"])))
        values = [SORTED_BY[key](step) for step in facts["steps"]]
        assert [values[at] for at in order] == sorted(values, reverse=down)
        assert len(set(values)) > 1


def test_filters(browser, digits):
    page, facts = digits
    shown = browser.value(
        page,
        "(() => { const field = document.getElementById('filter'); field.value = 'add conv';"
        "field.dispatchEvent(new Event('input'));"
        "return [...document.querySelectorAll('#steps tbody tr')].filter((row) => !row.hidden)"
        ".map((row) => +row.dataset.step); })()",
    )
    wanted = [s["index"] for s in facts["steps"] if s["title"].startswith("Convolution+Add")]
    assert 0 < len(wanted) < len(facts["steps"])
    assert shown == wanted


def test_row_and_node_belong_together(browser, digits):
    page, facts = digits
    step = next(s for s in facts["steps"] if s["title"].startswith("Convolution+Add"))
    numbers = {node["name"]: number for number, node in enumerate(facts["nodes"])}
    wanted = [f"n{numbers[name]}" for name in step["nodes"]] + [f"s{step['index']}"]
    picked = (
        "[[...document.querySelectorAll('#drawing .picked')].map((shape) => shape.id).sort(),"
        "[...document.querySelectorAll('#steps tr.picked')].map((row) => +row.dataset.step),"
        "document.querySelector('#details').textContent]"
    )
    by_row = f"document.querySelector('tr[data-step=\"{step['index']}\"]').click()"
    shape = f"document.getElementById('{wanted[0]}').querySelector('path, polygon')"
    by_node = f"{shape}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))"
    answers = browser.value(
        page, f"[({by_row}, {picked}), (hint(), mark([]), {by_node}, {picked})]"
    )
    for shapes, rows, details in answers:
        assert shapes == sorted(wanted)
        assert rows == [step["index"]]
        assert step["reason"]["text"] in details
        assert facts["advice"][step["reason"]["kind"]] in details


def test_zooms(browser, digits):
    page, _ = digits
    width = "document.querySelector('#drawing svg').viewBox.baseVal.width"
    before, nearer, whole = browser.value(
        page,
        f"(() => {{ const widths = [{width}]; document.getElementById('in').click();"
        f"widths.push({width}); document.getElementById('whole').click(); widths.push({width});"
        "return widths; })()",
    )
    assert nearer == pytest.approx(before * 0.75, rel=1e-3)
    assert whole > before


def check_alone(text):
    """Nothing in the page comes from outside."""
    assert "http" not in text and "//" not in re.sub(r"\\u003c|<!--.*?-->", "", text)
    assert not re.search(r"\b(src|href|action|data-src)\s*=|@import|url\(|<link|<iframe", text)


def test_stands_alone(digits):
    page, _ = digits
    check_alone(page.read_text())


def test_escapes(tenon, browser, tmp_path):
    """Names that look like HTML stay text, in the table, the facts and the drawing."""
    model = tmp_path / "a <i>&.txt"
    model.write_text(AWKWARD)
    page = tmp_path / "awkward.html"
    facts = explain(tenon, model, tmp_path, "--html", page)
    assert [c["for"] for c in facts["conversions"]] == ["output 'same'"]
    check_alone(page.read_text())
    found, title, name, texts = browser.value(
        page,
        "[document.getElementById('oops') !== null, document.title, "
        "document.getElementById('name').textContent, "
        "[...document.querySelectorAll('#drawing text')].map((text) => text.textContent)]",
    )
    assert found is False
    assert title == "a <i>&.txt - tenon explain" and name == "a <i>&.txt"
    assert "<b id=oops>&\"'</script>" in texts


def test_partitions_as_boxes(tenon, browser, digits, tmp_path):
    """Where Graphviz does not draw frames, it draws a box for each partition."""
    fake = tmp_path / "dot"
    real = shutil.which("dot")
    fake.write_text(
        f"#!/bin/sh\ncat >{tmp_path}/in\n"
        f"! grep -q subgraph {tmp_path}/in && exec {real} -Tsvg {tmp_path}/in\n"
    )
    fake.chmod(0o755)
    page = tmp_path / "boxes.html"
    command = [tenon.command, "explain", DIGITS, *OPTIONS, "--html", page]
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PATH": path})
    _, facts = digits
    boxes, frames, edges, picked = browser.value(
        page,
        "[[...document.querySelectorAll('#drawing .node.onednn')].map((box) => box.id),"
        "document.querySelectorAll('#drawing .cluster').length,"
        "document.querySelectorAll('#drawing .edge').length,"
        "(document.querySelector('tr[data-step=\"3\"]').click(),"
        "[...document.querySelectorAll('#drawing .picked')].map((box) => box.id))]",
    )
    assert boxes == [f"s{s['index']}" for s in facts["steps"] if s["where"] == "onednn"]
    assert frames == 0 and edges >= len(facts["steps"])
    assert picked == ["s3"]


def test_without_graphviz(tenon, browser, digits, tmp_path):
    """Boxes in running order stand in for the drawing, and can be picked too."""
    page = tmp_path / "plain.html"
    command = [tenon.command, "explain", DIGITS, *OPTIONS, "--html", page]
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PATH": "/none"})
    _, facts = digits
    shapes, picked = browser.value(
        page,
        "[[...document.querySelectorAll('#drawing g.node')]"
        ".map((box) => [box.id, box.classList[1]]),"
        "(document.querySelector('tr[data-step=\"3\"]').click(),"
        "[...document.querySelectorAll('#drawing .picked')].map((box) => box.id))]",
    )
    assert shapes == [[f"s{step['index']}", step["where"]] for step in facts["steps"]]
    assert picked == ["s3"]


def test_long_models_open(tenon, browser, tmp_path):
    page = tmp_path / "long.html"
    facts = explain(tenon, LONG, tmp_path, "--html", page)
    assert len(facts["nodes"]) > 4000
    rows = browser.value(page, "document.querySelectorAll('#steps tbody tr').length")
    assert rows == len(facts["steps"])
