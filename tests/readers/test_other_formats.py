"""Other people's readers read what `export` writes, each format by its own, and find every bound outward."""

import importlib.util
import json
import pathlib
import re
import shutil
import subprocess
from fractions import Fraction

import duckdb
import lossy_run
import pyarrow as arrow
import pytest

HERTZ = lossy_run.HERTZ
ENDS = ("estimate", "lo", "hi")


def ns(ticks):
    return Fraction(int(ticks) * 10**9, HERTZ)


@pytest.fixture(scope="module")
def made(tickscope, tmp_path_factory):
    """A run with a slow trace and losses; `rows`: its durations, as the CSV has them; `export` writes others."""
    folder = tmp_path_factory.mktemp("formats")
    run = lossy_run.make(folder / "run")

    def export(option, place, *words):
        command = [tickscope, "export", run, option, folder / place, *words, "--json"]
        return folder / place, json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    csv = export("--csv", "run.csv")[0].read_text().splitlines()
    names = csv[0].split(",")
    table = subprocess.run([tickscope, "show", run, "--json"], check=True, capture_output=True, text=True)
    rows = [dict(zip(names, line.split(","))) for line in csv[1:]]
    return {"export": export, "rows": rows, "table": json.loads(table.stdout)}


def expect_all_counted(made, report):
    names = ("measured", "missing", "refused")
    by_outcome = {name: sum(row["outcome"] == name for row in made["rows"]) for name in names}
    assert {name: report[name] for name in by_outcome} == by_outcome
    missing = sum(left["count"] for left in report["left_out"] if left["why"] == "without both stamps")
    assert missing == by_outcome["missing"] > 0


def test_a_flame_graph_weighs_the_least_total_and_what_the_bounds_leave_open(made):
    place, report = made["export"]("--folded", "run.folded")
    weights = {}
    for line in place.read_text().splitlines():
        stack, weight = line.rsplit(" ", 1)
        weights[tuple(stack.split(";"))] = int(weight)
    stages = {stage["stage"]: stage for stage in made["table"]["stages"] if stage["role"] == "path"}
    fractions = 0
    for name in stages:
        frame = ("end-to-end", name.split(".")[0], name)
        of = [row for row in made["rows"] if row["stage"] == name and row["outcome"] == "measured"]
        lo, hi = (ns(sum(int(row[f"{end}_ticks"]) for row in of)) for end in ("lo", "hi"))
        if lo < 0:
            whys = [left["why"] for left in report["left_out"] if left["stage"] == name and left["count"] == len(of)]
            assert any("below 0" in why for why in whys), "the total may be below 0, and no frame can be"
            continue
        least, most = weights.pop(frame), weights.pop((*frame, "within the bounds"))
        assert lo - 1 < least <= lo and hi <= least + most < hi + 1, name
        fractions += lo.denominator > 1 and hi.denominator > 1
    assert not weights and stages and fractions > 0, "totals of whole nanoseconds tell nothing of rounding"
    expect_all_counted(made, report)


def test_hdrhistogram_reads_three_histograms_a_stage_and_each_of_their_quantiles_is_outward(made):
    from hdrh.histogram import HdrHistogram

    place, report = made["export"]("--hdr", "run.hlog")
    lines = [line for line in place.read_text().splitlines() if line.startswith("Tag=")]
    found = {}
    for line in lines:
        tag, start, length, _, text = line.removeprefix("Tag=").split(",")
        found[tuple(tag.rsplit("/", 1))] = HdrHistogram.decode(text)
        assert (start, length) == ("0.000", "5.000")
    unheld = [left for left in report["left_out"] if "no histogram" in left["why"]]
    left_out = {(left["stage"], left["why"].split(" ")[0]) for left in unheld}
    for stage in (stage["stage"] for stage in made["table"]["stages"]):
        of = [row for row in made["rows"] if row["stage"] == stage and row["outcome"] == "measured"]
        for end, word in (("lo", "lower"), ("estimate", "estimates:"), ("hi", "upper")):
            exact = sorted(ns(row[f"{end}_ticks"]) for row in of)
            histogram = found.pop((stage, end), None)
            assert (histogram is None) == ((stage, word) in left_out) == (exact[0] < 0), (stage, end)
            if histogram is None:
                continue
            assert histogram.get_total_count() == len(of), "every one, and those without a duration in none"
            for percent in (1, 50, 99, 99.9, 100):
                at = exact[max(1, int(percent * len(exact) / 100 + 0.5)) - 1]  # the rank that it takes
                value = histogram.get_value_at_percentile(percent)  # the highest value of its bucket
                least = histogram.get_lowest_equivalent_value(value)
                assert end != "lo" or value <= at, (stage, percent, "the highest of a bucket, and yet not above")
                assert end != "hi" or least >= at, (stage, percent, "the lowest of a bucket, and yet not below")
                assert abs(value - at) <= at / 250 + 2, (stage, end, percent)
    assert not found
    assert any(line.startswith("#[Assumption: ") for line in place.read_text().splitlines())
    expect_all_counted(made, report)


def test_prometheus_reads_the_quantiles_and_the_dashboard_asks_for_what_there_is(made):
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    place, report = made["export"]("--openmetrics", "run.txt")
    families = {family.name: family for family in text_string_to_metric_families(place.read_text())}
    duration = {(sample.labels["stage"], sample.labels["statistic"], sample.labels["end"]): Fraction(sample.value)
                for sample in families["tickscope_stage_duration_seconds"].samples}
    stages = made["table"]["stages"]
    for stage in stages:
        for statistic, key in (("p50", "p50"), ("p99", "p99"), ("max", "max")):
            lo, hi = (ns(stage[key][f"{end}_ticks"]) / 10**9 for end in ("lo", "hi"))
            low, near, high = (duration[stage["stage"], statistic, end] for end in ("lo", "estimate", "hi"))
            assert low <= lo and hi <= high and low <= near <= high, stage["stage"]
            assert lo - low < Fraction(1, 10**11) and high - hi < Fraction(1, 10**11)
    traces = {(sample.labels["stage"], sample.labels["outcome"]): sample.value
              for sample in families["tickscope_stage_traces"].samples}
    for stage in stages:
        assert traces[stage["stage"], "missing"] == stage["missing"]
        assert traces[stage["stage"], "measured"] == stage["count"]
    assert families["tickscope_findings"].samples[0].value == len(report["findings"])
    assert len(families["tickscope_assumption"].samples) > 0
    dashboard = (pathlib.Path(__file__).parents[2] / "docs/grafana.json").read_text()
    asked = set(re.findall(r"tickscope_[a-z_]+", dashboard))
    written = {sample.name for family in families.values() for sample in family.samples}
    assert asked and asked <= written | {"tickscope_finding_info"}
    json.loads(dashboard)
    expect_all_counted(made, report)


def spans_of(place):
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    data = TracesData.FromString(place.read_bytes())
    value = lambda any_value: getattr(any_value, any_value.WhichOneof("value"))
    for resource in data.resource_spans:
        of = {pair.key: value(pair.value) for pair in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield of, span, {pair.key: value(pair.value) for pair in span.attributes}


def test_opentelemetry_decodes_a_span_for_every_duration_with_its_interval(made):
    place, report = made["export"]("--otlp", "run.otlp")
    expected = {(int(row["id"]), row["stage"]): row for row in made["rows"] if row["outcome"] == "measured"}
    whole = {}
    for resource, span, attributes in spans_of(place):
        row = expected.pop((attributes["tickscope.id"], span.name))
        lo, hi = ns(row["lo_ticks"]), ns(row["hi_ticks"])
        assert lo - 1 < attributes["tickscope.lo_ns"] <= lo and hi <= attributes["tickscope.hi_ns"] < hi + 1
        took = span.end_time_unix_nano - span.start_time_unix_nano
        assert ns(row["estimate_ticks"]) <= took < ns(row["estimate_ticks"]) + 2
        assert resource["service.name"] == span.name.split(".")[0] or span.name == "end-to-end"
        assert int.from_bytes(span.trace_id[8:], signed=True) == attributes["tickscope.id"]
        assert len(span.trace_id) == 16 and len(span.span_id) == 8
        whole.setdefault(span.trace_id, {})[span.span_id] = span.parent_span_id
        assert len(resource["tickscope.assumptions"].values) > 0
    assert not expected
    for spans in whole.values():
        roots = [span for span, parent in spans.items() if parent == b""]
        assert len(roots) == 1 or "end-to-end" not in spans, "one root, where the whole is there"
        assert all(parent == b"" or parent in spans for parent in spans.values())
    expect_all_counted(made, report)


def test_a_sample_of_spans_holds_whole_traces_and_every_slow_one(made):
    place, report = made["export"]("--otlp", "some.otlp", "--one-in", "10")
    stages, slow = {}, set()
    for _, span, attributes in spans_of(place):
        stages.setdefault(attributes["tickscope.id"], set()).add(span.name)
        slow |= {attributes["tickscope.id"]} if attributes.get("tickscope.slow") else set()
    by_id = {}
    for row in made["rows"]:
        if row["outcome"] == "measured":
            by_id.setdefault(int(row["id"]), set()).add(row["stage"])
    assert all(stages[number] == by_id[number] for number in stages), "whole, or not at all"
    assert lossy_run.SLOW in slow and lossy_run.SLOW in stages
    assert len(slow) >= len(by_id) // 101
    assert len(slow) < len(stages) < len(by_id) // 4
    unsampled = sum(left["count"] for left in report["left_out"] if "sample" in left["why"])
    assert unsampled == sum(map(len, by_id.values())) - sum(map(len, stages.values()))


def test_pyarrow_and_duckdb_read_a_row_for_every_trace_and_stage(made):
    place, report = made["export"]("--arrow", "run.arrow")
    with arrow.ipc.open_file(place) as reader:
        table = reader.read_all()
    table.validate(full=True)
    assert table.num_rows == report["rows"] == len(made["rows"])
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    for number, row in enumerate(made["rows"]):
        text = lambda name: "" if columns[name][number] is None else str(columns[name][number])
        same = ("kind", "id", "occurrence", "stage", "outcome", *(f"{end}_ticks" for end in ENDS))
        assert [text(name) for name in same] == [row[name] for name in same]
        if row["lo_ticks"]:
            lo, hi = (Fraction(columns[f"{end}_ns"][number]) for end in ("lo", "hi"))
            step = Fraction(1, 500)
            assert lo <= ns(row["lo_ticks"]) < lo + step and hi - step < ns(row["hi_ticks"]) <= hi
    metadata = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
    assert metadata["tickscope.hertz"] == str(HERTZ) and metadata["tickscope.assumptions"]
    longest = duckdb.sql("select stage, max(hi_ns) from \"table\" group by stage order by stage").fetchall()
    assert [stage for stage, _ in longest] == sorted({row["stage"] for row in made["rows"]})


EVENT = re.compile(r"\[(\d+)\] (?:\([^)]*\) )?(.*?): .*\{ id = (-?\d+), kind = (-?\d+), occurrence = (-?\d+)(.*) \}")


@pytest.mark.skipif(shutil.which("babeltrace2") is None, reason="there is no babeltrace2; run scripts/setup.sh as root")
def test_babeltrace_reads_every_stamp_on_its_own_clock_and_every_duration(made):
    folder, report = made["export"]("--ctf", "run.ctf")
    text = subprocess.run(["babeltrace2", "--clock-cycles", folder], check=True, capture_output=True, text=True)
    assert text.stderr == ""
    stamps, durations = {}, {}
    for line in text.stdout.splitlines():
        cycles, name, number, _, _, more = EVENT.fullmatch(line).groups()
        if ">" in name or name == "end-to-end":
            durations[int(number), name.strip('"')] = [int(value) for value in re.findall(r"_ns = (-?\d+)", more)]
        else:
            stamps.setdefault(name.strip('"'), []).append((int(number), int(cycles)))
    for row in made["rows"]:
        if row["outcome"] == "measured":
            estimate, lo, hi = durations.pop((int(row["id"]), row["stage"]))
            assert lo <= ns(row["lo_ticks"]) < lo + 1 and hi - 1 < ns(row["hi_ticks"]) <= hi
            assert abs(estimate - ns(row["estimate_ticks"])) <= Fraction(1, 2)
    assert not durations
    lost = {point for point in lossy_run.PATH + list(lossy_run.BRANCHES) if point.startswith("server.")}
    for point, of in stamps.items():
        assert len(of) == lossy_run.TRACES - (len(lossy_run.LOST) if point in lost else 0)
    assert set(stamps) == set(lossy_run.PATH) | set(lossy_run.BRANCHES)
    expect_all_counted(made, report)


@pytest.mark.skipif(shutil.which("babeltrace2") is None, reason="there is no babeltrace2; run scripts/setup.sh as root")
def test_the_precision_of_a_clock_class_holds_each_stamp_of_it(made):
    folder, _ = made["export"]("--ctf", "again.ctf")
    metadata = (folder / "metadata").read_text()
    clock = r"name = clock_(\w+?)_tsc_\d;.*?freq = (\d+);.*?precision = (\d+);.*?offset_s = (-?\d+);.*?offset = (\d+);"
    clocks = {name: (int(precision), int(seconds) * 10**9 + Fraction(int(offset) * 10**9, int(hertz)))
              for name, hertz, precision, seconds, offset in re.findall(clock, metadata, re.S)}
    assert set(clocks) == set(lossy_run.COUNTER)
    least = clocks["client"][1]
    for node in lossy_run.COUNTER:
        precision, offset = clocks[node]
        for at in (HERTZ + HERTZ // 1000, 3 * HERTZ):  # when the reference read this, the node read that
            base = min(0, lossy_run.local(node, HERTZ))
            shown = offset - least + ns(lossy_run.local(node, at) - (base if base < 0 else 0))
            assert abs(shown - ns(at)) <= ns(precision) + 1, node


def test_a_reader_that_is_needed_is_here():
    for name in ("hdrh", "prometheus_client", "opentelemetry.proto"):
        assert importlib.util.find_spec(name), f"{name}: run scripts/setup.sh"
