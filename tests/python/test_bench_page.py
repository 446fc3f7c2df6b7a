"""The page of `tenon bench --html`, opened in a headless Chromium."""

import json
import re
import shutil

import pytest
from conftest import ROOT
from test_explain_page import Browser

DIGITS = ROOT / "examples" / "digits" / "digits.pt2"
AWKWARD = "</script><b id=oops>&\"'.txt"
SHORT = "--nwarmup", "1", "--niter", "8", "--rounds", "1"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    command = shutil.which("chromium") or shutil.which("chromium-browser")
    if not command:
        pytest.fail("there is no Chromium: tools/setup --python installs it", pytrace=False)
    return Browser(command, tmp_path_factory.mktemp("chromium"))


@pytest.fixture(scope="module")
def run(tenon, tmp_path_factory):
    """A page of two results and two failures, with a baseline that was faster by far for one result
    and slower by far for the other."""
    folder = tmp_path_factory.mktemp("bench")
    old, new, page = folder / "old.json", folder / "new.json", folder / "page.html"
    arguments = ["bench", DIGITS, "--batch", "8,1", *SHORT]
    tenon(*arguments, "--no-peaks", "--json", old)
    facts = json.loads(old.read_text())
    for result, factor in zip(facts["results"], (1e-6, 1e6), strict=True):
        result["samples_ms"] = [time * factor for time in result["samples_ms"]]
    old.write_text(json.dumps(facts))
    # A name of a file that looks like the end of the script.
    awkward = folder / AWKWARD.replace("/", "_")
    options = ["--detail", "--json", new, "--html", page, "--baseline", old]
    result = tenon.start("bench", DIGITS, awkward, "--batch", "8,1", *SHORT, *options)
    assert result.returncode == 1
    return page, json.loads(new.read_text())


def test_what_it_shows(run, browser):
    page, facts = run
    shown = browser.value(
        page,
        """({
            oops: document.getElementById("oops") !== null,
            title: document.title,
            tiles: [...document.querySelectorAll(".tile")].map((tile) => tile.textContent),
            rows: [...document.querySelectorAll("#results tbody tr")].map((row) => row.textContent),
            failed: document.querySelectorAll("#results tr.failed").length,
            steps: document.querySelectorAll("#steps tbody tr").length,
            plots: [...document.querySelectorAll(".plot svg")].map((svg) => svg.childElementCount),
            bars: document.querySelectorAll("#rates rect.fp32").length,
            dots: document.querySelectorAll("#spread .dots circle").length,
            slower: document.querySelectorAll("#baseline circle.bad").length,
            faster: document.querySelectorAll("#baseline circle.good").length,
            rings: document.querySelectorAll("#roofline circle.pick").length,
            bad: [...document.querySelectorAll("svg *")].filter((element) =>
                [...element.attributes].some((a) => /NaN|undefined|Infinity/.test(a.value))).length,
            outside: [...document.querySelectorAll("script[src], link, img")].length,
        })""",
    )
    good = [r for r in facts["results"] if "error" not in r]
    assert len(good) == 2
    assert not shown["oops"]
    assert shown["title"] == "tenon bench"
    assert "4results" in shown["tiles"]
    assert "2failed" in shown["tiles"]
    assert len(shown["rows"]) == 4
    assert shown["failed"] == 2
    assert any(AWKWARD.replace("/", "_").removesuffix(".txt") in row for row in shown["rows"])
    assert shown["steps"] == len(good[0]["steps"])
    assert len(shown["plots"]) == 6
    assert min(shown["plots"]) > 3
    assert shown["bars"] == shown["rings"] == 2
    assert shown["dots"] == 16
    assert shown["slower"] == shown["faster"] == 1
    assert shown["bad"] == 0
    assert shown["outside"] == 0
    assert "http" not in re.sub(r"http://www\.w3\.org/2000/svg", "", page.read_text())


def test_choosing_and_sorting(run, browser):
    page, facts = run
    second = [r for r in facts["results"] if "error" not in r][1]
    shown = browser.value(
        page,
        """(() => {
            const choice = document.getElementById("choice");
            choice.value = "1";
            choice.dispatchEvent(new Event("change"));
            const note = document.getElementById("one-note").textContent;
            const all = (selector) => [...document.querySelectorAll(selector)];
            const head = (title) => all("#results th button").find((b) => b.textContent === title);
            const medians = () => all("#results tbody tr").map((r) => r.children[3].textContent);
            head("Median ms").click();
            const down = medians();
            head("Median ms").click();
            return { note, down, up: medians() };
        })()""",
    )
    assert f"{len(second['samples_ms'])} runs after 1 to warm up" in shown["note"]
    numbers = [float(text) for text in shown["down"] if text != "-"]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 2
    assert [float(text) for text in shown["up"] if text != "-"] == numbers[::-1]


def test_nothing_but_failures(tenon, browser, tmp_path):
    page = tmp_path / "page.html"
    result = tenon.start("bench", "nothing.pt2", "--no-peaks", "--html", page)
    assert result.returncode == 1
    shown = browser.value(
        page,
        """({
            hidden: [...document.querySelectorAll("section")].every((section) => section.hidden),
            rows: document.querySelectorAll("#results tr.failed").length,
        })""",
    )
    assert shown == {"hidden": True, "rows": 1}
