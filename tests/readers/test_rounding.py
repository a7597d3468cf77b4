"""No bound that is printed lies inside the exact one: text, JSON and page of one run, its counters declared at many rates.

What is printed is read back digit by digit and held against fractions of the ticks, which JSON has exactly.
"""

import json
import os
import re
import shutil
import subprocess
from fractions import Fraction

import lossy_run
import pytest
import tickscope as package
from test_report import Read

HERTZ = [1, 997, 24_000_000, 999_999_937, 1_000_000_000, 2_299_998_035, 2_449_995_997, 10_000_000_000]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return lossy_run.make(tmp_path_factory.mktemp("made") / "run")


@pytest.fixture(params=HERTZ)
def run(request, made, tmp_path):
    """The same ticks, said to be of a counter that runs at another rate."""
    copied = shutil.copytree(made, tmp_path / "run")
    manifest = json.loads((copied / "run.json").read_text())
    for node in manifest["nodes"]:
        node["counter"]["frequency"]["hertz"] = request.param
    (copied / "run.json").write_text(json.dumps(manifest))
    return copied


def said(command, *words):
    wide = os.environ | {"COLUMNS": "1000"}
    return subprocess.run([command, *words], check=True, capture_output=True, text=True, env=wide).stdout


def exact(ticks, hertz, per_second):
    return Fraction(ticks * per_second, hertz)


def bounds(value):
    """Every `(name, ns, ticks)` of a document, wherever it stands."""
    if isinstance(value, dict):
        for name, found in value.items():
            if name.endswith("_ns") and f"{name[:-3]}_ticks" in value and found is not None:
                yield name, found, value[f"{name[:-3]}_ticks"]
            yield from bounds(found)
    elif isinstance(value, list):
        for one in value:
            yield from bounds(one)


@pytest.mark.parametrize("read", [Fraction, float], ids=["decimal", "double"])
def test_no_bound_in_json_lies_inside_the_exact_one(tickscope, run, read):
    shown = json.loads(said(tickscope, "show", run, "--json"), parse_float=read)
    hertz = shown["frequency"]["hertz"]
    found = list(bounds(shown))
    assert len(found) >= len(shown["stages"]) * 10 + len(shown["clock_maps"]) * 2
    for name, ns, ticks in found:
        off = Fraction(ns) - exact(ticks, hertz, 10**9)
        # As near as a thousandth, or as 15 digits: or it would say nothing.
        near = max(Fraction(2, 1000), abs(Fraction(ns)) / 10**14)
        assert (-near <= off <= 0) if name == "lo_ns" else (0 <= off <= near), (name, ns, ticks)


def test_no_bound_in_python_lies_inside_the_exact_one(run):
    figures = package.open(run).figures()
    for name, ns, ticks in bounds(figures):
        off = Fraction(ns) - exact(ticks, figures["frequency"]["hertz"], 10**9)
        assert off <= 0 if name == "lo_ns" else off >= 0, (name, ns, ticks)
    hertz = figures["frequency"]["hertz"]
    for row in package.open(run).stages().to_arrow_table().to_pylist():
        for quantile in ("p50", "p99", "p999", "max", "mean"):
            assert Fraction(row[f"{quantile}_lo_ns"]) <= exact(row[f"{quantile}_lo_ticks"], hertz, 10**9)
            assert Fraction(row[f"{quantile}_hi_ns"]) >= exact(row[f"{quantile}_hi_ticks"], hertz, 10**9)


def reach(words):
    """Below and above of `±0.05`, `-0.05 +0.75` or `0`."""
    first = words.pop(0)
    if first.startswith("-"):
        return Fraction(first[1:]), Fraction(words.pop(0)[1:])
    return (Fraction(first.lstrip("±")),) * 2


def test_no_bound_in_the_text_lies_inside_the_exact_one(tickscope, run):
    shown = json.loads(said(tickscope, "show", run, "--json"))
    text = said(tickscope, "show", run, "--wide", "--unit", "us")

    def us(ticks):
        return exact(ticks, shown["frequency"]["hertz"], 10**6)

    for stage in shown["stages"]:
        line = next(line for line in text.splitlines() if line.startswith(stage["stage"] + " "))
        words = line.split()[2:]  # after stage and share
        if words[0].startswith("±"):
            of_share = int(words.pop(0).lstrip("±"))
            shown_share = int(line.split()[1].rstrip("%"))
            part = stage["share"]
            lo, hi = (100 * part[end] for end in ("lo_ratio", "hi_ratio"))
            assert shown_share - of_share <= lo and hi <= shown_share + of_share, line
        words.pop(0)  # the count
        for quantile in (stage[name] for name in ("p50", "p99", "p999", "max", "mean")):
            estimate = Fraction(words.pop(0))
            below, above = reach(words)
            assert estimate - below <= us(quantile["lo_ticks"]) and estimate + above >= us(quantile["hi_ticks"]), line
        for bound in ["common", "reading"]:
            below, above = reach(words)
            assert below >= us(stage[bound]["below_ticks"]) and above >= us(stage[bound]["above_ticks"]), line
        relative = [Fraction(word) for word in words]
        assert relative[0] >= us(stage["relative"]["one_ms_apart_ticks"]) and relative[1] >= us(stage["relative"]["run_ticks"])
    flat = " ".join(text.split())
    for clock_map in shown["clock_maps"]:
        known = re.search(rf"{re.escape(clock_map['domain'])}: known to ±(\S+) µs", flat)[1]
        assert Fraction(known) >= us(clock_map["half_width_ticks"])


def test_no_bound_on_the_page_lies_inside_the_exact_one(tickscope, run):
    said(tickscope, "report", run)
    shown = json.loads(said(tickscope, "show", run, "--json"))
    page = (run / "report.html").read_text()
    unit = json.loads(re.search(r'<script[^>]*id="figures"[^>]*>(.*?)</script>', page, re.S)[1])["unit"]

    def number(text):
        return Fraction(text.replace("\u2212", "-"))

    def exactly(ticks):
        return exact(ticks, shown["frequency"]["hertz"], unit["per_second"])

    named = lambda row: re.sub(r"^\d+ ", "", row[0].replace("branch", "").strip())
    rows = {named(row): row for row in Read(page).rows if len(row) == 12}
    for stage in shown["stages"]:
        arrow = f"{stage['from']} → {stage['to']}"
        row = rows["end to end " + arrow if stage["stage"] == "end-to-end" else arrow]
        for cell, name, needs in zip(row[3:7], ("p50", "p99", "p999", "max"), (2, 100, 1000, 1), strict=True):
            quantile = stage[name]
            if stage["count"] < needs:
                assert cell.strip() == f"longest of {stage['count']}"
                continue
            interval = re.search(r"\[(.*),\u00a0(.*)\]", cell)
            lo, hi = map(number, interval.groups()) if interval else [number(cell.split(" ")[0])] * 2
            if interval:
                assert lo <= exactly(quantile["lo_ticks"]) and hi >= exactly(quantile["hi_ticks"]), cell
            else:
                assert quantile["lo_ticks"] == quantile["hi_ticks"]
        for cell, ticks in ((row[9], "one_ms_apart_ticks"), (row[10], "run_ticks")):
            assert number(cell) >= exactly(stage["relative"][ticks])
