"""X-Lap's figures of a run: its rule, computed a second time by the standard library, and files of their own."""

import collections
import itertools
import json
import re
import statistics
import subprocess
import xml.dom.minidom
from fractions import Fraction

import duckdb
import lossy_run
import pytest

PATH = ["client.send>server.received", "server.received>server.reply", "server.reply>client.response"]
STAGES = [*PATH, "end-to-end"]


def figures(tickscope, run, out):
    ended = subprocess.run([tickscope, "figures", run, "--out", out, "--json"], capture_output=True, text=True)
    assert ended.returncode in (0, 3), ended.stderr
    return json.loads(ended.stdout)


def exported(tickscope, run, folder):
    """Rows of every duration, as SQL reads them."""
    file = folder / "durations.csv"
    subprocess.run([tickscope, "export", run, "--csv", file], capture_output=True)
    return f"read_csv('{file}')"


MEASURED = "outcome in ('measured', 'impossible')"


def rows_of(tickscope, run, folder):
    """Estimates of the path's stages and of the whole, of traces that have all of them."""
    rows = exported(tickscope, run, folder)
    query = f"select id, occurrence, stage, estimate_ticks from {rows} where {MEASURED}"
    traces = collections.defaultdict(dict)
    for trace_id, occurrence, stage, ticks in duckdb.sql(query).fetchall():
        traces[trace_id, occurrence][stage] = ticks
    whole = [trace for trace in traces.values() if all(stage in trace for stage in STAGES)]
    return [[trace[stage] for stage in STAGES] for trace in whole]


def quartiles(values):
    return [Fraction(of) for of in statistics.quantiles(map(Fraction, values), n=4, method="inclusive")]


def fence(values):
    q1, _, q3 = quartiles(values)
    return q3 + Fraction(3, 2) * (q3 - q1)


def ranks(values):
    """From 1; equal values share the mean of theirs."""
    places = collections.defaultdict(list)
    for place, value in enumerate(sorted(values), 1):
        places[value].append(place)
    return [statistics.fmean(places[value]) for value in values]


def box(values):
    q1, median, q3 = quartiles(values)
    reach = Fraction(3, 2) * (q3 - q1)
    within = [value for value in values if q1 - reach <= value <= q3 + reach]
    return {
        "count": len(values), "quartiles_ticks": [float(of) for of in (q1, median, q3)],
        "whiskers_ticks": [min(within), max(within)], "outliers": len(values) - len(within),
    }


def test_its_rule_equals_the_standard_librarys(tickscope, swinging_run, tmp_path):
    found = figures(tickscope, swinging_run, tmp_path / "figures")["jitter"]
    rows = rows_of(tickscope, swinging_run, tmp_path)
    columns = list(zip(*rows))
    fences = [fence(column) for column in columns]
    above = [row for row in rows if row[-1] > fences[-1]]
    below = [row for row in rows if row[-1] <= fences[-1]]
    causes = [[value > limit for value, limit in zip(row[:-1], fences)] for row in above]
    assert len(rows) > 100 and len(above) > 3, "nothing to tell apart"
    assert (found["traces"], found["above"]) == (len(rows), len(above))
    assert found["uncaused"] == sum(not any(of) for of in causes)
    assert found["several"] == sum(sum(of) > 1 for of in causes)
    for at, stage in enumerate(found["stages"]):
        assert stage["name"] == STAGES[at] and stage["threshold_ticks"] == float(fences[at])
        assert stage["caused"] == (0 if stage["is_whole"] else sum(of[at] for of in causes))
        for part, some in ("all", rows), ("below", below), ("above", above):
            expected = box([row[at] for row in some])
            assert {key: stage[part][key] for key in expected} == expected, (stage["name"], part)
        for part, some in ("fit_below", below), ("fit_above", above):
            x, y = [row[at] for row in some], [row[-1] for row in some]
            fit = stage[part]
            assert fit["count"] == len(some)
            assert fit["pearson"] == pytest.approx(statistics.correlation(x, y), abs=1e-9)
            assert fit["spearman"] == pytest.approx(statistics.correlation(ranks(x), ranks(y)), abs=1e-9)
            line = statistics.linear_regression(x, y)
            assert (fit["slope"], fit["intercept_ticks"]) == pytest.approx((line.slope, line.intercept), rel=1e-6)


def held(found, intervals):
    """Whether each bin's counts are those of the intervals: of estimates exactly, no bound inside what is possible."""
    bins = zip(found["edges"], found["edges"][1:], found["count"], found["least"], found["most"])
    for left, right, count, least, most in bins:
        assert count == sum(left < estimate <= right for estimate, _, _ in intervals)
        certain = sum(left < lo and hi <= right for _, lo, hi in intervals)
        possible = sum(lo <= right and left < hi for _, lo, hi in intervals)
        assert least <= certain <= possible == most, (left, right)
    end = found["edges"][-1]
    assert found["beyond"] == [sum(of[at] > end for of in intervals) for at in range(3)]
    assert sum(found["count"]) + found["beyond"][0] == len(intervals)


DISTANCES = {
    "client.send>server.received": "remote", "server.received>server.reply": "one-thread",
    "server.reply>client.response": "remote", "end-to-end": "travelled",
}


def test_pairs_of_points_stand_apart_by_distance_and_hold_the_tables_durations(tickscope, swinging_run, tmp_path):
    found = figures(tickscope, swinging_run, tmp_path / "figures")
    rows = exported(tickscope, swinging_run, tmp_path)
    groups = {(of["pair"], of["is_whole"]): of for of in found["transfers"]}
    for stage, distance in DISTANCES.items():
        whole = stage == "end-to-end"
        ends = ["send", "response"] if whole else [point.split(".")[1] for point in stage.split(">")]
        of = groups[" > ".join(ends), whole]
        query = f"select estimate_ticks, lo_ticks, hi_ticks from {rows} where stage = '{stage}' and {MEASURED}"
        intervals = duckdb.sql(query).fetchall()
        estimates, lo, hi = (sorted(column) for column in zip(*intervals))
        assert (of["distance"], of["count"]) == (distance, len(intervals)) and len(intervals) > 100
        median, rank = of["quartiles_ticks"][2], (len(intervals) + 1) // 2 - 1
        assert median["lo"] <= lo[rank] and hi[rank] <= median["hi"], stage
        assert abs(median["estimate"] - estimates[rank]) <= abs(estimates[rank]) / 32 + 1
        widest = max(max(hi - estimate, estimate - lo) for estimate, lo, hi in intervals)
        assert widest <= of["error_ticks"][-1] <= widest * 33 / 32 + 1
        assert sum(part["count"] for part in of["shape"]) == sum(part["count"] for part in of["error_shape"])
    throughput = found["traffic"]["throughput"]
    stamps = {point["point"]: point["stamps"] for point in found["traffic"]["points"]}
    assert (throughput["from"], throughput["to"]) == (["client.send"], ["client.response"])
    assert throughput["arrived"] == stamps["client.response"] > 100
    assert 0 < throughput["span_ticks"]["lo"] <= throughput["span_ticks"]["hi"]
    assert all(len(point["processes"]) == 1 for point in found["traffic"]["points"])
    text = (tmp_path / "figures/counts.svg").read_text()
    assert f"n {stamps['client.send']:,}".replace(",", "\u202f") in text.replace("\u00a0", "\u202f"), text[:2000]


@pytest.mark.parametrize("lossy", [False, True], ids=["measured", "with holes"])
def test_bins_hold_what_every_interval_allows_and_holes_are_counted(tickscope, request, tmp_path, lossy):
    run = lossy_run.make(tmp_path / "run") if lossy else request.getfixturevalue("swinging_run")
    found = figures(tickscope, run, tmp_path / "figures")
    rows = exported(tickscope, run, tmp_path)
    for stage in found["histograms"]:
        of = f"from {rows} where stage = '{stage['stage']}'"
        intervals = duckdb.sql(f"select estimate_ticks, lo_ticks, hi_ticks {of} and {MEASURED}").fetchall()
        (missing,), = duckdb.sql(f"select count(*) {of} and outcome = 'missing'").fetchall()
        assert (stage["traces"], stage["missing"]) == (len(intervals), missing)
        held(stage["histogram"], intervals)
        if lossy:
            assert (missing == len(lossy_run.LOST)) == (missing > 0)
            holes = f", {missing} lack a stamp" if missing else ""
            words = f"{stage['stage'].replace('>', '&gt;')} n = {len(intervals)}{holes}"
            text = re.sub(r"</text><text[^>]*>", " ", (tmp_path / "figures/histogram.svg").read_text())
            assert words in text, words
    shown = found["scatter_matrix"]
    assert shown["left_out"] == (len(lossy_run.LOST) if lossy else found["jitter"]["left_out"])


def test_every_pair_of_stages_has_the_standard_librarys_coefficients(tickscope, swinging_run, tmp_path):
    found = figures(tickscope, swinging_run, tmp_path / "figures")["scatter_matrix"]
    columns = list(zip(*rows_of(tickscope, swinging_run, tmp_path)))
    assert found["stages"] == STAGES and found["traces"] == len(columns[0])
    assert [cell["stages"] for cell in found["cells"]] == [list(of) for of in itertools.combinations(range(4), 2)]
    for cell in found["cells"]:
        x, y = (columns[at] for at in cell["stages"])
        assert cell["all"] == {
            "count": len(x), "pearson": pytest.approx(statistics.correlation(x, y), abs=1e-9),
            "spearman": pytest.approx(statistics.correlation(ranks(x), ranks(y)), abs=1e-9),
        }
    kind, = found["kinds"]
    longest = [point for point in kind["longest_ticks"] if point not in kind["points_ticks"]]
    points = [*kind["points_ticks"], *longest]
    assert all(max(column) in {point[at] for point in kind["longest_ticks"]} for at, column in enumerate(columns))
    drawn = (tmp_path / "figures/pairs.svg").read_text()
    assert drawn.count(f">n {len(columns[0])}<") == len(found["cells"])
    assert drawn.count("<circle") == len(found["cells"]) * len(points)


def test_each_figure_is_a_file_by_itself_with_units_and_counts(tickscope, swinging_run, tmp_path):
    out = tmp_path / "made/figures"
    found = figures(tickscope, swinging_run, out)
    names = ["trace", "over-time", "jitter", "jitter-all", "histogram", "above-below", "causes", "correlation", "pairs"]
    places = ["transfer", "distances", "counts"]
    names += places
    of_clocks = [] if not found["files"][2 * len(names):] else ["clock-intervals", "clock-errors", "clock-bounds"]
    files = [str(out / f"{name}.{kind}") for name in [*names, *of_clocks] for kind in ("svg", "pdf")]
    assert found["files"] == files
    (placement,) = found["missing"]
    assert "no stamp tells its core. client.send: pid " in placement
    for name in names:
        assert (out / f"{name}.pdf").read_bytes().startswith(b"%PDF-")
        text = (out / f"{name}.svg").read_text()
        drawn = xml.dom.minidom.parseString(text)
        assert drawn.documentElement.getAttribute("xmlns") == "http://www.w3.org/2000/svg"
        assert "var(--" not in text, "only a page has variables"
        words = " ".join(node.firstChild.data for node in drawn.getElementsByTagName("text") if node.firstChild)
        assert name in ("causes", "counts") or " us" in words or " ms" in words
        assert name in places or f"{found['jitter']['traces']}" in words
    causes = (out / "causes.svg").read_text()
    assert all(f">{stage['caused']}<" in causes for stage in found["jitter"]["stages"] if not stage["is_whole"])


def test_what_makes_the_slow_slow_equals_the_standard_librarys(tickscope, swinging_run, tmp_path):
    words = [tickscope, "tail", swinging_run, "--slowest", "5", "--json"]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode in (0, 3), ended.stderr
    found = json.loads(ended.stdout)["tail"]
    rows = rows_of(tickscope, swinging_run, tmp_path)

    def quantile(values, percent):
        return sorted(values)[-(-len(values) * percent // 100) - 1]

    whole = [row[-1] for row in rows]
    threshold, body = quantile(whole, 95), [row for row in rows if row[-1] <= quantile(whole, 95)]
    slow = [row for row in rows if row[-1] >= threshold]
    assert (found["traces"], found["threshold_ticks"], found["slow"]) == (len(rows), threshold, len(slow))
    medians = [quantile([row[at] for row in rows], 50) for at in range(len(PATH))]
    excess = [Fraction(sum(row[at] for row in slow), len(slow)) - medians[at] for at in range(len(PATH))]
    assert found["excess_ticks"] == pytest.approx(float(sum(excess)))
    order = sorted(range(3), key=lambda at: -excess[at])
    assert [stage["name"] for stage in found["stages"]] == [PATH[at] for at in order]
    for stage in found["stages"]:
        at = PATH.index(stage["name"])
        assert stage["median_ticks"] == medians[at] and stage["excess_ticks"] == pytest.approx(float(excess[at]))
        if stage["share"]:
            assert stage["share"]["estimate"] == pytest.approx(float(excess[at] / sum(excess)))
        shorter = [row[-1] - max(0, row[at] - medians[at]) for row in rows]
        assert [stage["what_if"][key] for key in ("from_ticks", "to_ticks")] == [threshold, quantile(shorter, 95)]
        x, y = [row[at] for row in body], [row[-1] for row in body]
        assert stage["covariance_share"] == pytest.approx(statistics.covariance(x, y) / statistics.variance(y))
        causes = 0
        for row in slow:
            longer = sorted((row[of] - medians[of] for of in range(3) if row[of] > medians[of]), reverse=True)
            sums = [sum(longer[:count]) for count in range(len(longer) + 1)]
            fewest = next(count for count, some in enumerate(sums) if some >= 0.8 * sums[-1])
            causes += row[at] - medians[at] in longer[:fewest]
        assert stage["among_causes"] == causes
