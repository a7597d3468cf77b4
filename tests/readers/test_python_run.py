"""What the Python package says of a run is what the command says, and what an independent computation finds."""

import array
import html
import json
import os
import pathlib
import shutil
import subprocess
import time
import warnings
from fractions import Fraction

import duckdb
import pyarrow
import pyarrow.parquet as parquet
import pytest
import tickscope
from conftest import TREE
from test_bounds_against_fractions import STAGE, Drift

GOLDEN = TREE / "crates/store/tests/golden/v1"
def shown(command, run, rho):
    asked = [] if rho is None else ["--rho", str(rho)]
    printed = subprocess.run([command, "show", run, "--json", *asked], check=True, capture_output=True)
    return json.loads(printed.stdout)["stages"]


@pytest.fixture(params=[None, 500.0], ids=["own", "500"])
def rho(request):
    return request.param


@pytest.fixture
def command(request):
    """The command; `tickscope` is the package here."""
    return request.getfixturevalue("tickscope")


def test_every_figure_of_stages_is_the_commands_to_the_tick(swinging_run, command, rho):
    rows = tickscope.open(swinging_run).stages(rho).to_arrow_table().to_pylist()
    stages = shown(command, swinging_run, rho)
    assert len(rows) == len(stages) == 5
    for row, stage in zip(rows, stages, strict=True):
        assert row["stage"] == stage["stage"]
        for name in ("count", "missing", "refused", "impossible", "core_ticks", "sign", "spread"):
            assert row[name] == stage[name]
        for quantile in ("p50", "p99"):
            for end in ("ticks", "lo_ticks", "hi_ticks", "ns", "lo_ns", "hi_ns"):
                assert row[f"{quantile}_{end}"] == stage[quantile][end]
        assert row["common_below_ticks"] == stage["common"]["below_ticks"]
        assert row["common_above_ticks"] == stage["common"]["above_ticks"]
        assert row["relative_run_ticks"] == stage["relative"]["run_ticks"]
        assert row["relative_1ms_ticks"] == stage["relative"]["one_ms_apart_ticks"]


def test_a_notebook_shows_a_run_as_the_command_prints_it(swinging_run, command, tmp_path):
    to_a_file = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    words = [command, "show", swinging_run]
    printed = subprocess.run(words, check=True, capture_output=True, text=True, env=to_a_file).stdout
    assert tickscope.open(swinging_run)._repr_html_() == f"<pre>{html.escape(printed)}</pre>"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        empty = shutil.copytree(swinging_run, tmp_path / "<empty>")
        shutil.rmtree(empty / "traces")
        shutil.rmtree(empty / "stamps")
        told = tickscope.open(empty)._repr_html_()
    assert told.startswith("<pre>&lt;tickscope.Run ") and "&lt;empty&gt;" in told and "<empty>" not in told


def test_durations_under_any_rho_have_the_quantiles_of_its_stages(swinging_copy, rho):
    run = tickscope.open(swinging_copy)
    for row in run.stages(rho).to_arrow_table().to_pylist():
        durations = run.stage_durations(row["stage"], rho).fetchall()
        assert len(durations) == row["count"] > 0
        for column, end in ((3, ""), (4, "lo_"), (5, "hi_")):
            ascending = sorted(duration[column] for duration in durations)
            for quantile, share in (("p50", Fraction(1, 2)), ("p99", Fraction(99, 100))):
                rank = -(-share * len(ascending) // 1)
                assert row[f"{quantile}_{end}ticks"] == ascending[rank - 1]


def test_a_clock_map_is_that_of_exact_fractions(swinging_run):
    run = tickscope.open(swinging_run)
    ppm, clock_map = 200, run.clock_map("server", "client", sources=["probes"])
    hertz = {node["name"]: node["counter"]["frequency"]["hertz"] for node in run.manifest["nodes"]}
    brackets = run.brackets().filter("domain = 'server.tsc'").project('before, "at", after').fetchall()
    width = {node["name"]: node["counter"]["reading"]["width_ticks"] for node in run.manifest["nodes"]}
    drift = Drift(brackets, Fraction(hertz["client"], hertz["server"]), Fraction(ppm, 10**6), width["server"], width["client"])
    ticks = [tick for (tick,) in run.stamps("server.received").project("tick").order("hash(tick)").limit(100).fetchall()]
    lo, hi = clock_map.intervals(ticks)
    off = [drift.lo(tick) - bound for tick, bound in zip(ticks, lo.to_pylist(), strict=True)]
    off += [bound - drift.hi(tick) for tick, bound in zip(ticks, hi.to_pylist(), strict=True)]
    assert min(off) >= 0, "a bound was rounded inward"
    assert max(off) <= 1
    slowest, fastest = clock_map.slopes
    assert slowest <= drift.slowest < drift.fastest <= fastest
    widest_slack = Fraction(1, 2**50)
    assert drift.slowest - slowest < widest_slack
    assert fastest - drift.fastest < widest_slack


def test_the_parts_of_a_clock_map_agree_with_each_other(swinging_run):
    run = tickscope.open(swinging_run)
    clock_map = run.clock_map("server.tsc")
    first, last = min_max(run)
    ticks = [first, (first + last) // 2, last]
    lo, hi = (ends.to_pylist() for ends in clock_map.intervals(ticks))
    assert list(zip(lo, hi, strict=True)) == [clock_map.interval(tick) for tick in ticks]
    estimates = clock_map.estimates(ticks).to_pylist()
    assert estimates == [clock_map.estimate(tick) for tick in ticks]
    for least, estimate, most, half in zip(lo, estimates, hi, clock_map.half_widths(ticks).to_pylist(), strict=True):
        assert least <= estimate <= most
        assert half == -(-(most - least) // 2)
    shortest, longest = clock_map.span(first, last)
    assert shortest <= estimates[2] - estimates[0] <= longest
    earliest, latest = clock_map.inverse(estimates[1])
    assert earliest <= ticks[1] <= latest
    segments = clock_map.segments(first, last)
    assert (segments[0].first, segments[-1].last) == (first, last)
    for tick, least, most in zip(ticks, lo, hi, strict=True):
        piece = next(piece for piece in segments if piece.first <= tick <= piece.last)
        middle = piece.base + (((tick - piece.anchor) * piece.mult) >> piece.shift)
        assert middle - piece.pad <= least <= most <= middle + piece.pad


def min_max(run):
    return run.stamps("server.received").aggregate("min(tick), max(tick)").fetchall()[0]


@pytest.mark.parametrize(
    "made",
    [list, lambda ticks: array.array("q", ticks), pyarrow.array, lambda ticks: pyarrow.chunked_array([ticks[:1], ticks[1:]]),
     lambda ticks: pyarrow.array([0, *ticks, 0])[1:-1], iter],
    ids=["list", "array", "Arrow", "chunked", "slice", "iterator"],
)  # fmt: skip
def test_ticks_come_in_any_array(swinging_run, made):
    run = tickscope.open(swinging_run)
    clock_map, ticks = run.clock_map("server"), list(min_max(run))
    assert clock_map.estimates(made(ticks)).to_pylist() == [clock_map.estimate(tick) for tick in ticks]


def test_no_ticks_are_no_answers(swinging_run):
    assert [len(ends) for ends in tickscope.open(swinging_run).clock_map("server").intervals([])] == [0, 0]


@pytest.mark.parametrize("ticks", [[1, None], [1.5], ["a"]], ids=["null", "float", "text"])
def test_ticks_that_are_none_are_refused(swinging_run, ticks):
    with pytest.raises(tickscope.TickscopeError, match="expected ticks as 64-bit integers without nulls, found"):
        tickscope.open(swinging_run).clock_map("server").estimates(ticks)


def files_of(run):
    return {path: path.stat().st_mtime_ns for path in run.rglob("*.parquet")}


def test_another_rho_costs_no_join_and_is_computed_once(swinging_copy):
    before = files_of(swinging_copy)
    wide = tickscope.open(swinging_copy).durations(500)
    rows = wide.fetchall()
    after = files_of(swinging_copy)
    assert {path.parent.name for path in after.keys() - before.keys()} == {"rho=500ppm"}
    assert before.items() <= after.items()
    assert tickscope.open(swinging_copy).durations("500").fetchall() == rows
    assert files_of(swinging_copy) == after


def test_what_the_command_kept_is_not_computed_again(swinging_copy):
    before = files_of(swinging_copy)
    assert len(tickscope.open(swinging_copy).durations()) > 0
    assert files_of(swinging_copy) == before


def test_durations_of_other_evidence_are_not_taken_for_todays(swinging_copy):
    kept = files_of(swinging_copy / "durations")
    half = min((swinging_copy / "brackets/reference=client.tsc/domain=server.tsc").glob("*.parquet"))
    table = parquet.read_table(half, partitioning=None)
    parquet.write_table(table.slice(0, len(table) // 2), half, compression="zstd")
    tickscope.open(swinging_copy).durations()
    assert {path for path, time in files_of(swinging_copy / "durations").items() if kept[path] != time} == set(kept)


def test_a_run_that_cannot_be_written_is_asked_all_the_same(swinging_copy):
    expected = tickscope.open(swinging_copy).durations(500).fetchall()
    shutil.rmtree(swinging_copy / "durations")
    (swinging_copy / "durations").write_text("in the way, as a medium that is read only")
    run = tickscope.open(swinging_copy)
    assert run.durations(500).fetchall() == expected
    assert (swinging_copy / "durations").is_file()


def test_evidence_that_contradicts_the_rho_asked_for_is_a_finding(swinging_run):
    run = tickscope.open(swinging_run)
    for ask in (run.stages, lambda rho: run.clock_map("server", rho=rho), run.durations):
        with pytest.raises(tickscope.Finding, match=r"server\.tsc against client\.tsc: .* expected .* found "):
            ask(1)


def test_an_impossible_duration_warns_and_leaves_the_figures(tmp_path):
    run = shutil.copytree(GOLDEN, tmp_path / "run")
    path = next((run / "traces").glob("*.parquet"))
    table = parquet.read_table(path, partitioning=None)
    earlier = [tick and tick - 10**6 for tick in table["server.deliver"].to_pylist()]
    table = table.set_column(table.column_names.index("server.deliver"), "server.deliver", [pyarrow.array(earlier, pyarrow.int64())])
    parquet.write_table(table, path, compression="zstd")
    with pytest.warns(tickscope.FindingWarning, match="impossible durations? in"):
        stages = tickscope.open(run).stages()
    assert stages.filter("impossible > 0").aggregate("count(*)").fetchall()[0][0] > 0


def test_the_table_of_stages_has_the_quantiles_the_mean_and_the_share_of_the_json():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tickscope.FindingWarning)
        run = tickscope.open(GOLDEN)
        shown, rows = run.figures()["stages"], run.stages().to_arrow_table().to_pylist()
    for stage, row in zip(shown, rows, strict=True):
        for quantile in ("p50", "p99", "p999", "max", "mean"):
            assert stage[quantile] == {key: row[f"{quantile}_{key}"] for key in stage[quantile]}, quantile
        share = stage["share"] or {}
        assert [share.get(key) for key in ("ratio", "lo_ratio", "hi_ratio")] == [
            row[f"share_{key}"] for key in ("ratio", "lo_ratio", "hi_ratio")
        ]


def test_a_file_that_is_torn_is_named_and_left_out(swinging_copy):
    run = tickscope.open(swinging_copy)
    whole = run.channels().fetchall()
    (swinging_copy / "channels/node=other.parquet").write_bytes(b"PAR1 torn")
    with pytest.warns(tickscope.RefusedFileWarning, match="node=other.parquet: expected a complete Parquet file, found"):
        assert run.channels().fetchall() == whole


def test_a_run_without_events_has_a_table_of_none(swinging_copy):
    events = tickscope.open(swinging_copy).events().columns
    shutil.rmtree(swinging_copy / "events")
    none = tickscope.open(swinging_copy).events()
    assert (none.fetchall(), none.columns) == ([], events)


@pytest.mark.parametrize(
    ("ask", "expected", "found"),
    [
        (lambda run: tickscope.open(run).stages("much"), "unknown, server-room, lab, laptop", "'much'"),
        (lambda run: tickscope.open(run).stages(-1), "a number of ppm from 0", "'-1'"),
        (lambda run: tickscope.open(run).clock_map("nobody"), "server.tsc", "'nobody'"),
        (lambda run: tickscope.open(run).clock_map("server", "server"), "reference client.tsc", "'server'"),
        (lambda run: tickscope.open(run).clock_map("server").interval(2**62), "from the first bracket's", "a question beyond"),
        (lambda run: tickscope.open(run).stamps("client.sned"), "client.send", "'client.sned'"),
        (lambda run: tickscope.open(run).stamps("../../etc"), "client.send", "etc"),
        (lambda run: tickscope.open(run).stamps("client"), "node.point", "'client'"),
        (lambda run: tickscope.open(run).stage_durations("end"), "end-to-end", "'end'"),
    ],
)
def test_bad_input_is_told_with_expected_and_found(swinging_run, ask, expected, found):
    with pytest.raises(tickscope.TickscopeError) as error:
        ask(swinging_run)
    assert not isinstance(error.value, tickscope.Finding)
    expectation, _, rest = str(error.value).partition("found")
    assert expected in expectation
    assert found in rest


@pytest.mark.parametrize("folder", ["nowhere", "stamps"])
def test_a_folder_without_a_run_is_named(swinging_run, folder):
    with pytest.raises(tickscope.TickscopeError, match=rf"cannot open .*{folder}/run\.json: No such file"):
        tickscope.open(swinging_run / folder)


def test_traces_of_some_ids_are_those(swinging_run):
    run = tickscope.open(swinging_run)
    everything = {row[1]: row for row in run.traces().fetchall()}
    some = sorted(everything)[10:20]
    assert sorted(run.traces(range(some[0], some[-1] + 1)).fetchall()) == [everything[id] for id in some]
    assert sorted(run.traces(iter(some[::3])).fetchall()) == [everything[id] for id in some[::3]]
    assert run.traces([]).fetchall() == []
    assert sorted(row[1] for row in run.durations(ids=some).fetchall()) == some


def test_clock_maps_outlive_their_run_and_join_with_others(swinging_run):
    def counts():
        return tickscope.open(swinging_run).channels().project("node, channel, stored")

    one, other = counts().set_alias("one"), counts().set_alias("other")
    channels = len(counts())
    assert one.join(other, "node, channel").aggregate("count(*), sum(one.stored - other.stored)").fetchall() == [(channels, 0)]
    mine = duckdb.connect()
    assert tickscope.open(swinging_run, mine).stages().query("stages", "select count(*) from stages").fetchall()[0] == (5,)


def test_nothing_is_read_before_a_row_is_asked_for(tmp_path):
    run = shutil.copytree(GOLDEN, tmp_path / "run")
    rows = 3_000_000
    large = run / "traces/part-00000000.parquet"
    keys = parquet.read_metadata(large).metadata
    points = ("client.send", "server.receive", "server.deliver", "client.sent")
    columns = ", ".join(f'i + {shift} as "{point}"' for shift, point in enumerate(points))
    table = duckdb.sql(f"select 0::int as kind, i as id, 0::int as occurrence, {columns} from range({rows}) t(i)").to_arrow_table()
    parquet.write_table(table.replace_schema_metadata({key: keys[key] for key in keys if key.startswith(b"tickscope")}), large, compression="zstd")
    traces = tickscope.open(run).traces(range(5, 7))
    assert "PARQUET" in traces.explain().upper()
    large.rename(large.with_suffix(".away"))  # had it been read already, this would not matter
    with pytest.raises(duckdb.Error):
        traces.fetchall()
    large.with_suffix(".away").rename(large)
    assert [row[1] for row in traces.fetchall()] == [5, 6]
    assert tickscope.open(run).traces().aggregate("count(*)").fetchall()[0] == (rows,)


def test_a_run_that_has_not_come_to_its_end_says_so_once_and_why(begin_run, command):
    process, run = begin_run(60, 500)

    def opened():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = tickscope.open(run)
            found.channels()
        said = [str(one.message) for one in caught if issubclass(one.category, tickscope.UnfinishedRunWarning)]
        assert said == ([] if found.unfinished is None else [found.unfinished])
        return found.unfinished

    while not list(run.glob("stamps/node=client/point=response/*.parquet")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    assert opened().startswith("this run goes on")
    process.kill()
    process.communicate()
    assert "cut off" in opened() and f"tickscope finish {run}" in opened()
    subprocess.run([command, "finish", run], check=True, capture_output=True)
    assert opened() is None


@pytest.mark.parametrize("name", ["ru[n]1", "run?", "r*"])
def test_a_name_that_is_a_pattern_reads_its_own_run_alone(name, tmp_path):
    other, run = (pathlib.Path(shutil.copytree(GOLDEN, tmp_path / folder)) for folder in ("run1", name))
    large = other / "traces/part-00000000.parquet"
    parquet.write_table(parquet.read_table(large).slice(0, 3), large, compression="zstd")
    assert tickscope.open(run).traces().aggregate("count(*)").fetchall() == [(200,)]


def test_slow_traces_their_causes_and_time_are_those_of_the_command(swinging_run, command):
    run = tickscope.open(swinging_run)
    words = [command, "tail", swinging_run, "--slowest", "5", "--json"]
    tail = json.loads(subprocess.run(words, capture_output=True).stdout)["tail"]
    columns = "stage, share, share_lo, share_hi, excess_ticks, among_causes, unresolved"

    def row(stage):
        share = stage["share"] or {"estimate": None, "interval": [None, None]}
        ends = (share["estimate"], *share["interval"])
        return (stage["name"], *ends, stage["excess_ticks"], stage["among_causes"], tail["unresolved"])

    assert run.tail(slowest=5).project(columns).fetchall() == [row(stage) for stage in tail["stages"]]
    figures = "count(*), bool_or(is_whole), max(caused) <= max(outliers), max(outliers) > 0"
    assert run.causes().aggregate(figures).fetchall() == [(4, True, True, True)]
    figures = "sum(traces), count(*) > 20, bool_and(p50_ticks <= p99_ticks and p99_ticks <= max_ticks)"
    assert run.over_time().aggregate(figures).fetchall() == [(tail["traces"], True, True)]
    with pytest.raises(tickscope.TickscopeError, match="above 0 and below 100, found 100"):
        run.tail(slowest=100)


def test_plots_are_the_figures_that_the_command_draws(swinging_run, command, tmp_path):
    subprocess.run([command, "figures", swinging_run, "--out", tmp_path], capture_output=True)
    drawn = {place.stem: place.read_text() for place in tmp_path.glob("*.svg")}
    plots = tickscope.open(swinging_run).plots()
    assert {name: plot._repr_svg_() for name, plot in plots.items()} == drawn
    plots["causes"].save(tmp_path / "saved")
    assert (tmp_path / "saved").read_text() == drawn["causes"] and plots["causes"].title in drawn["causes"]
    with pytest.raises(KeyError, match=r"expected one of .*causes.*; found 'cause' \(.*Choose one"):
        plots["cause"]


def test_an_age_is_that_of_the_command(swinging_run, command):
    points = ("client.send", "server.received")
    words = [command, "show", swinging_run, "--age", *points, "--limit", "1ms", "--json"]
    told = json.loads(subprocess.run(words, capture_output=True).stdout)["age"]
    run = tickscope.open(swinging_run)
    found = run.age(*points, limit="1ms")
    columns = "is_mean, average_lo_ticks, excess_hi_ticks, peak_ticks, above_hi, received, obsolete, out_of_order"

    def row(is_mean, ages, counts):
        ends = (ages["average"]["lo_ticks"], ages["excess"]["hi_ticks"], ages["peak"]["estimate_ticks"])
        return (is_mean, *ends, ages["above"]["hi"], *(counts[key] for key in ("received", "obsolete", "out_of_order")))

    (key,) = told["keys"]
    assert found.project(columns).fetchall() == [
        row(True, told["over_keys"], told["updates"]),
        row(False, key["ages"], key),
    ]
    assert run.age(*points).project("above").fetchall() == [(None,), (None,)]
    for wrong, said in [
        ({"limit": "5"}, "from 1ns to 86400s with its unit"),
        ({"key": "colour"}, "value, kind or none, found 'colour'"),
    ]:
        with pytest.raises(tickscope.TickscopeError, match=said):
            run.age(*points, **wrong)
    with pytest.raises(tickscope.TickscopeError, match="did you mean 'server.received'"):
        run.age("client.send", "server.recieved")
    with pytest.warns(tickscope.FindingWarning, match="before they were generated"):
        run.age("client.response", "client.send")


def test_a_comparison_is_that_of_the_command(swinging_run, steady_run, command):
    words = [command, "compare", swinging_run, steady_run, "--json"]
    told = json.loads(subprocess.run(words, capture_output=True).stdout)
    columns = "stage, quantile, change_ticks, change_lo_ticks, change_hi_ticks, verdict, limited_by"
    found = tickscope.compare(tickscope.open(swinging_run), [tickscope.open(steady_run)]).project(columns)

    def row(stage, change):
        ends = (change["shift"][key] for key in ("ticks", "lo_ticks", "hi_ticks"))
        return (stage["stage"], change["quantile"], *ends, change["verdict"], change.get("limited_by"))

    assert found.fetchall() == [row(stage, change) for stage in told["stages"] for change in stage["changes"]]
    assert len(found) >= 8
