"""The tables: what each engine takes, its speed against the baseline, and Tenon's lead."""

import statistics

from . import stats

TENON = "tenon"
MOST_STRAY = 0.01  # of CPU time: with more the results are disturbed


def ratios(result, peer):
    """Tenon's speed over another engine's, round by round; None where one of them has no times."""
    engines = result["engines"]
    if any("times" not in engines.get(label, {}) for label in (peer, TENON)):
        return None
    pairs = zip(engines[peer]["times"], engines[TENON]["times"], strict=True)
    return [other / tenon for other, tenon in pairs]


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
    best = best_peer(result["engines"])
    found = ratios(result, best)
    return (best, found) if found else None


def summary(results):
    """The geometric mean of the leads and its interval, worst and best model; None without any."""
    leads = {(r["model"], r["batch"]): found[1] for r in results if (found := lead(r))}
    if not leads:
        return None
    medians = {key: statistics.median(found) for key, found in leads.items()}
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


def lead_table(results, labels):
    """Tenon's speed over each of the others, and over the best peer, paired by round."""
    others = [label for label in labels if label != TENON]
    rows = [["model, batch", *others, "best peer", "over it"]]
    for result in results:
        cells = [ratios(result, label) for label in others]
        found = lead(result)
        rows.append(
            [name_of(result), *(_interval(stats.median_interval(c)) if c else "" for c in cells)]
        )
        rows[-1] += [found[0], _interval(stats.median_interval(found[1]))] if found else ["", ""]
    means = []
    for label in others:
        cells = [c for result in results if (c := ratios(result, label))]
        means.append(_interval(stats.geometric_mean_interval(cells)) if cells else "")
    if found := summary(results):
        means += ["", _interval((found["geometric_mean"], *found["interval"]))]
    else:
        means += ["", ""]
    rows.append(["geometric mean", *means])
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


def failures(results):
    """A line for each engine that failed."""
    return [
        f"{name_of(result)}: {label} fails: {facts['failure']}"
        for result in results
        for label, facts in result["engines"].items()
        if "failure" in facts
    ]


def disturbance(results):
    """How much engines worked in the turns of others, and where that is too much."""
    stray = max(result["stray"] for result in results)
    lines = [f"CPU time that engines used in the turns of others: at most {stray:.2%}"]
    if disturbed := [name_of(result) for result in results if result["stray"] > MOST_STRAY]:
        lines.append(
            f"That is more than {MOST_STRAY:.0%}: engines disturbed each other, so do not rely on "
            f"the times of {'; '.join(disturbed)}"
        )
    return lines


def text(results, labels, precision, baseline):
    """The whole report of the runs of one precision."""
    parts = [
        f"{precision}: ms a run, and the speed against {baseline}",
        times_table(results, labels, baseline),
    ]
    if any("times" in result["engines"].get(TENON, {}) for result in results):
        parts += [
            "",
            "Tenon's speed over each, paired by round [95 %]",
            lead_table(results, labels),
        ]
    if found := summary(results):
        for key in ("worst", "best"):
            model, batch, ratio = found[key]
            parts.append(f"{key} {ratio:.3f}: {model}, {batch}")
    if any(cold(facts) for result in results for facts in result["engines"].values()):
        parts += ["", "from the start of the process to the first output; peak memory until then"]
        parts.append(cold_table(results))
    if precision != "fp32":
        parts += ["", "largest error against FP32, as a part of the largest output"]
        parts.append(errors_table(results, labels))
    if failed := failures(results):
        parts += ["", *failed]
    parts += ["", *disturbance(results)]
    return "\n".join(parts) + "\n"
