"""The tables: what each engine takes, its speed against the baseline, and Tenon's lead."""

import statistics

from . import stats

TENON = "tenon"


def best_peer(engines):
    """The other engine of the smallest median time; variants of Tenon are no peers."""
    medians = {
        label: statistics.median(facts["times"])
        for label, facts in engines.items()
        if "times" in facts and not label.startswith(TENON)
    }
    return min(medians, key=medians.get) if medians else None


def lead(result):
    """The best peer, and Tenon's speed over its, round by round; None where one is missing."""
    engines = result["engines"]
    best = best_peer(engines)
    if best is None or "times" not in engines.get(TENON, {}):
        return None
    pairs = zip(engines[best]["times"], engines[TENON]["times"], strict=True)
    return best, [peer / tenon for peer, tenon in pairs]


def summary(results):
    """The geometric mean of the leads and its interval, worst and best model; None without any."""
    leads = {(r["model"], r["batch"]): found[1] for r in results if (found := lead(r))}
    if not leads:
        return None
    medians = {key: statistics.median(ratios) for key, ratios in leads.items()}
    mean, low, high = stats.geometric_mean_interval(list(leads.values()))
    return {
        "geometric_mean": mean,
        "interval": [low, high],
        "worst": [*min(medians, key=medians.get), min(medians.values())],
        "best": [*max(medians, key=medians.get), max(medians.values())],
    }


def name_of(result):
    return f"{result['model']}, {result['batch']}"


def _grid(rows):
    """Columns of equal width, the first to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _interval(found):
    median, low, high = found
    return f"{median:.3f} [{low:.3f}, {high:.3f}]"


def times_table(results, labels, baseline):
    """Median times in ms, and after each the speed relative to the baseline's."""
    rows = [["model, batch", *labels]]
    columns = {label: [] for label in labels}
    for result in results:
        row = [name_of(result)]
        base = result["engines"].get(baseline, {}).get("times")
        for label in labels:
            times = result["engines"][label].get("times")
            if times is None:
                row.append("fails")
                continue
            cell = f"{statistics.median(times) * 1e3:.2f}"
            if base:
                ratio = stats.ratio(base, times)[0]
                columns[label].append(ratio)
                cell += f" {ratio:5.2f}x"
            row.append(cell)
        rows.append(row)
    if any(columns.values()):
        means = [f"{stats.geometric_mean(c):.2f}x" if c else "" for c in columns.values()]
        rows.append(["geometric mean", *means])
    return _grid(rows)


def lead_table(results):
    rows = [["model, batch", "best peer", "Tenon's speed over its [95 %]"]]
    for result in results:
        if found := lead(result):
            best, ratios = found
            rows.append([name_of(result), best, _interval(stats.median_interval(ratios))])
    return _grid(rows)


def errors_table(results, labels):
    """Largest errors against PyTorch in FP32."""
    rows = [["model, batch", *labels]]
    for result in results:
        errors = [result["engines"][label].get("error") for label in labels]
        rows.append([name_of(result), *("" if e is None else f"{e:.1e}" for e in errors)])
    return _grid(rows)


def cold(facts):
    """Median seconds and peak memory of an engine's fresh starts; None without any."""
    if "cold_seconds" not in facts:
        return None
    return statistics.median(facts["cold_seconds"]), statistics.median(facts["cold_peaks"])


def cold_table(results):
    labels = list(dict.fromkeys(l for r in results for l, f in r["engines"].items() if cold(f)))
    rows = [["model, batch", *labels]]
    for result in results:
        found = [cold(result["engines"].get(label, {})) for label in labels]
        cells = [f"{f[0]:.2f} s {f[1] / 1e6:5.0f} MB" if f else "" for f in found]
        rows.append([name_of(result), *cells])
    return _grid(rows)


def text(results, labels, precision, baseline):
    """The whole report of the runs of one precision."""
    parts = [
        f"{precision}: ms a run, and the speed against {baseline}",
        times_table(results, labels, baseline),
    ]
    if found := summary(results):
        parts += ["", "Tenon beside the best peer of each model, paired by round"]
        parts.append(lead_table(results))
        mean = found["geometric_mean"], *found["interval"]
        parts.append(f"geometric mean {_interval(mean)}")
        for key in ("worst", "best"):
            model, batch, ratio = found[key]
            parts.append(f"{key} {ratio:.3f}: {model}, {batch}")
    if any(cold(facts) for result in results for facts in result["engines"].values()):
        parts += ["", "from the start of the process to the first output; peak memory until then"]
        parts.append(cold_table(results))
    if precision != "fp32":
        parts += ["", "largest error against FP32, as a part of the largest output"]
        parts.append(errors_table(results, labels))
    failures = [
        f"{name_of(result)}: {label} fails: {facts['failure']}"
        for result in results
        for label, facts in result["engines"].items()
        if "failure" in facts
    ]
    if failures:
        parts += ["", *failures]
    stray = max(result["stray"] for result in results)
    parts += ["", f"CPU time that engines used in the turns of others: at most {stray:.2%}"]
    return "\n".join(parts) + "\n"
