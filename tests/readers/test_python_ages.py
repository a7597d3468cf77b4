"""Age of information by SQL: the digits of `tickscope show --age --json` on DuckDB and on Spark, whatever the order.

Updates of a run that is made here: several keys, one late, one never received, updates that overtake each other, are
received at one tick, or within the width of a reading, are lost, or come before they were generated.
"""

import json
import random
import shutil
import subprocess

import lossy_run
import pyarrow
import pyarrow.parquet as parquet
import pytest
import tickscope
from lossy_run import HERTZ, US, local
from test_python_spark import OnDuckDB, needs_spark, opened, recorded, segmented, spark  # noqa: F401
from tickscope.ages import AgePlan, ages
from tickscope.portable import Plan

FROM, TO = "client.send", "relay.sent"
UPDATES = 1500
LATE, NEVER = 77, -5
CASES = [("value", None), ("value", "150us"), ("kind", "1ms"), ("none", "40us"), (None, "2ns")]


def judge(run, points, limit, key):
    """What the core says, and the warnings of the run left out."""
    return json.loads(run._inner.age(points, limit, key, (None, None, None)))


def by_sql(run, points, limit, key, engine):
    asked = (None, None, None)
    plan = Plan(*run._inner.plan(asked))
    question = AgePlan(points, *run._inner.age_plan(points, limit, key, asked))
    return ages(plan, question, engine, [run._inner.files("stamps", name)[0] for name in points])


def written(run, name, rows, clock):
    """Replaces the stamps of a point: (id, tick of the first node's counter, value)."""
    (file,) = run.glob(f"stamps/*/point={name.split('.')[1]}/part-00000000.parquet")
    empty = parquet.read_schema(file)
    ids, ticks, values = zip(*rows, strict=True)
    columns = {"tick": [local(clock, tick) for tick in ticks], "id": ids, "value": values}
    channel = parquet.read_table(file)["channel"][0].as_py()
    arrays = [
        pyarrow.array(columns.get(field.name, [channel if field.name == "channel" else None] * len(rows)), field.type)
        for field in empty
    ]
    parquet.write_table(pyarrow.table(arrays, schema=empty), file, compression="zstd")


def made(folder, seed, share_of_ties):
    """A run of updates in bursts, which the core has to join."""
    run, chance = lossy_run.make(folder), random.Random(seed)
    shutil.rmtree(run / "traces")
    generated, received, at, arrival = [], [], HERTZ, HERTZ
    for number in range(UPDATES):
        at += chance.choice([0, 1, 40, 300, 500, HERTZ // 1000, HERTZ // 500])
        value = chance.choice([None, 1, 2, 3, NEVER]) if number < UPDATES * 2 // 3 else chance.choice([2, 3, LATE])
        generated.append((number, at, value))
        if value == NEVER or chance.random() < 0.03:
            continue
        later = at + US * 20 + int(US * chance.expovariate(1 / 300))
        if chance.random() < share_of_ties:
            later = max(arrival + chance.choice([0, 1, 90, 280, 600]), at + US * 20)
        arrival = later
        received.append((number, later, None))
    late = [number for number, (_, _, value) in enumerate(generated) if value == 3][5:100:20]
    received = [(id, generated[id][1] - 200 * US if id in late else tick, none) for id, tick, none in received]
    written(run, FROM, generated, "client")
    written(run, TO, received, "relay")
    return run


@pytest.fixture(scope="session", params=[(1, 0.0), (2, 0.4), (3, 0.9)])
def made_run(request, tmp_path_factory):
    return made(tmp_path_factory.mktemp("ages") / "run", *request.param)


def test_ages_on_duckdb_are_those_of_the_command_to_the_digit(tickscope, made_run):  # noqa: F811
    words = [tickscope, "show", made_run, "--age", FROM, TO, "--key", "value", "--limit", "150us", "--json"]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    assert found.returncode == 3, found.stderr
    told = json.loads(found.stdout)["age"]
    assert by_sql(opened(made_run), (FROM, TO), "150us", "value", OnDuckDB()) == told
    assert told["updates"]["impossible"] > 2 and "received at relay.sent before" in told["findings"][0]
    whys = {row["key"]: row["why"] for row in told["keys"]}
    assert whys == {None: None, 1: None, 2: None, 3: None, LATE: "late", NEVER: "never-received"}
    assert told["updates"]["out_of_order"] > 5 and told["updates"]["lost"] > 20


@pytest.mark.parametrize(("key", "limit"), CASES)
def test_ages_by_sql_are_those_of_the_core_whatever_the_key_and_the_limit(made_run, key, limit):
    run = opened(made_run)
    assert by_sql(run, (FROM, TO), limit, key, OnDuckDB()) == judge(run, (FROM, TO), limit, key)


def test_updates_whose_order_the_clocks_leave_open_are_counted_as_the_core_counts_them(tmp_path):
    run = opened(made(tmp_path / "run", 9, 0.3))
    told = judge(run, (FROM, TO), None, "none")
    assert by_sql(run, (FROM, TO), None, "none", OnDuckDB()) == told
    assert told["updates"]["unresolved"] > 20 and told["over_keys"]["peak"]["lo_ticks"] is None


@pytest.mark.parametrize("folder", ["segmented", "recorded", "swinging_run"])
def test_ages_of_other_runs_and_of_either_way_are_those_of_the_core(folder, request):
    run = opened(request.getfixturevalue(folder))
    names = [name for name, *_ in run._inner.plan((None, None, None))[0]]
    for points in [(names[0], names[-1]), (names[2], names[1])]:
        assert by_sql(run, points, "1ms", None, OnDuckDB()) == judge(run, points, "1ms", None), points


def test_missing_stamps_leave_no_ends_and_wrong_points_are_refused_as_by_the_core(segmented):  # noqa: F811
    run = opened(segmented)
    lossy = ("client.send", "server.received")
    told = by_sql(run, lossy, "1ms", None, OnDuckDB())
    assert told == judge(run, lossy, "1ms", None)
    assert told["lacking"] and told["over_keys"]["average"]["lo_ticks"] is None
    for points, says in [((FROM, "relay.sant"), "did you mean 'relay.sent'"), ((FROM, FROM), "expected two points")]:
        with pytest.raises(tickscope.TickscopeError, match=says):
            by_sql(run, points, None, None, OnDuckDB())


@needs_spark
def test_ages_on_spark_are_those_of_the_core(spark, tmp_path):  # noqa: F811
    run = made(tmp_path / "run", 2, 0.4)
    on_spark, core = opened(run, connection=spark, engine="spark"), opened(run)
    for key, limit in [("value", "150us"), ("none", None)]:
        with pytest.warns(tickscope.FindingWarning):
            found = on_spark.age(FROM, TO, limit, key)
        with pytest.warns(tickscope.FindingWarning):
            expected = core.age(FROM, TO, limit, key)
        assert found.columns == expected.columns
        assert [tuple(row) for row in found.collect()] == expected.fetchall()


@needs_spark
def test_boxes_and_histograms_on_spark_are_those_of_the_core(spark, segmented):  # noqa: F811
    on_spark, core = opened(segmented, connection=spark, engine="spark"), opened(segmented)
    asks = [lambda run: run.boxes()]
    asks += [lambda run: run.histogram("end-to-end"), lambda run: run.log_histogram("end-to-end")]
    for ask in asks:
        found, expected = ask(on_spark), ask(core)
        assert found.columns == expected.columns
        assert [tuple(row) for row in found.collect()] == expected.fetchall()


def test_bins_hold_their_values_are_narrow_and_add_up_over_runs(segmented, swinging_run):  # noqa: F811
    import duckdb

    stages = [("end-to-end", opened(segmented)), ("end-to-end", opened(swinging_run))]
    total = {}
    for stage, run in stages:
        bins = run.log_histogram(stage).fetchall()
        values = sorted(value for (value,) in run.stage_durations(stage).project("estimate_ticks").fetchall())
        assert sum(count for *_, count in bins) == len(values)
        for least, most, count in bins:
            assert sum(least <= value <= most for value in values) == count
            assert (most - least) * 128 <= max(abs(least), abs(most))
            total[least, most] = total.get((least, most), 0) + count
    edges = [-1027, -301, -300, -256, -255, -1, 0, 1, 255, 256, 257, 511, 512, 2**62, -(2**62)]
    values = ", ".join(f"({edge}::bigint)" for edge in edges)
    table = duckdb.sql(f"select * from (values {values}) t(estimate_ticks)")
    from tickscope.query import ask

    for least, most, count in ask("log_histogram", table, "stage_durations").fetchall():
        assert count == sum(least <= edge <= most for edge in edges) > 0
        assert (most - least) * 128 <= max(abs(least), abs(most))
    runs = tickscope.open([segmented, swinging_run]).log_histogram("end-to-end")
    added = runs.aggregate("least_ticks, most_ticks, sum(durations)::bigint").fetchall()
    assert {(least, most): count for least, most, count in added} == total
