"""The table of a run by SQL: on DuckDB and on Spark, the core's digits; what SQL cannot tell exactly is refused.

The statements run on DuckDB always, on Spark where pyspark is (`scripts/setup.sh spark`).
"""

import collections
import fcntl
import importlib.util
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import warnings
from fractions import Fraction

import duckdb
import lossy_run
import pyarrow
import pyarrow.parquet as parquet
import pytest
import tickscope
from conftest import TREE
from tickscope.portable import (
    CAUSES,
    COLUMNS,
    STATEMENTS,
    VIEWS,
    Plan,
    _segments,
    causes,
    prepare,
    stage_durations,
    stage_rows,
    statement_text,
    wide_durations,
)

needs_spark = pytest.mark.skipif(
    importlib.util.find_spec("pyspark") is None, reason="there is no pyspark in .venv. Run scripts/setup.sh spark"
)
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_EC2_METADATA_DISABLED": "true"}
PARTS = 7
ONE = 1 << 60


class OnDuckDB:
    """The other engine of the statements."""

    def __init__(self):
        self.connection = duckdb.connect()
        self.connection.execute("create macro shiftright(value, bits) as value >> bits")

    def stamps(self, points):
        views = []
        for point, files in enumerate(points):
            relation = self.connection.read_parquet([str(file) for file in files], union_by_name=True)
            spared = ("ids", "attempt", "value")
            spared = [name if name in relation.columns else f"null::bigint as {name}" for name in spared]
            columns = [f"{point}::bigint as point", "coalesce(kind, 0) as kind", "id", "tick", *spared]
            relation.project(", ".join(columns)).to_view(f"stamps_{point}")
            views.append(f"select * from stamps_{point}")
        self.view("stamps", " union all ".join(views))

    def table(self, name, columns, rows):
        table = pyarrow.table({column: [row[at] for row in rows] for at, column in enumerate(columns)})
        self.connection.register(f"{name}_rows", table)
        self.view(name, f"select * from {name}_rows")

    def view(self, name, query):
        self.connection.execute(f"create view {name} as {query}")

    def keep(self, name, query):
        self.connection.execute(f"create table {name} as {query}")

    def forget(self, name):
        self.connection.execute(f"drop table {name} cascade")

    def rows(self, query):
        return self.connection.execute(query).fetchall()


def prepared(plan, files, engine=None):
    """The engine with the views of a run."""
    engine = engine or OnDuckDB()
    prepare(plan, engine, files)
    return engine


def inputs(run):
    """What the core says of a run, and the files of each point."""
    plan = Plan(*run._inner.plan((None, None, None)))
    return plan, [run._inner.files("stamps", name)[0] for name, *_ in plan.points]


def opened(folder, **more):
    """Without what is said of a run of schema 1."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tickscope.open(folder, **more)


def table_of(run):
    return run.stages().project(", ".join(COLUMNS)).fetchall()


def split(run):
    """Each point's stamps in many segments, in another order than that of time."""
    for file in run.glob("stamps/*/*/part-00000000.parquet"):
        table = parquet.read_table(file)
        size = -(-len(table) // PARTS)
        file.unlink()
        for part in range(PARTS):
            place = file.with_name(f"part-{part:08}.parquet")
            parquet.write_table(table.slice((PARTS - 1 - part) * size, size), place, compression="zstd")
    return run


@pytest.fixture(scope="session")
def segmented(tmp_path_factory):
    """Three hosts, losses, two clock maps; each point in many segments."""
    return split(lossy_run.make(tmp_path_factory.mktemp("segmented") / "run"))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """The demo's program, two counters, as it was recorded once."""
    return pathlib.Path(shutil.copytree(TREE / "python/notebooks/echo", tmp_path_factory.mktemp("recorded") / "echo"))


@pytest.fixture(scope="session", params=["segmented", "recorded", "swinging_run"])
def run_folder(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def spark():
    from pyspark.sql import SparkSession

    # Its workers have the environment of now, whenever a test starts the S3 server.
    os.environ.update(PYSPARK_PYTHON=sys.executable, **KEYS)
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "3"}
    settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    session = SparkSession.builder.master("local[2]").appName("tests").config(map=settings).getOrCreate()
    yield session
    session.stop()


def test_the_statements_on_duckdb_give_the_table_of_the_core_to_the_digit(run_folder):
    run = opened(run_folder)
    plan, files = inputs(run)
    found = stage_rows(plan, prepared(plan, files))
    assert found == table_of(run)
    assert any(clock_map is not None for *_, clock_map in plan.points)
    assert sum(row[COLUMNS.index("count")] for row in found) > 1000


def test_each_duration_on_duckdb_is_that_of_the_core(run_folder):
    run = opened(run_folder)
    plan, files = inputs(run)
    engine = prepared(plan, files)
    for name, *_ in plan.stages:
        found = engine.rows(stage_durations(plan, engine, name) + " order by id, kind")
        assert found == run.stage_durations(name).order("id, kind").fetchall(), name
    with pytest.raises(tickscope.TickscopeError, match="expected a stage of the layout: .*; found 'a>b'"):
        stage_durations(plan, engine, "a>b")
    query, names = wide_durations(plan, engine)
    core = run.durations().order("id, kind")
    assert list(names.values()) == core.columns
    assert engine.rows(f"select {', '.join(names)} from ({query}) order by id, kind") == core.fetchall()


def test_the_causes_on_duckdb_are_those_of_the_core(run_folder):
    run = opened(run_folder)
    plan, files = inputs(run)
    found, core = causes(plan, prepared(plan, files)), run.causes()
    assert CAUSES == core.columns
    assert found == core.fetchall()
    assert found[-1][1] and found[-1][-1] > 0 and sum(row[3] for row in found) > 0


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 6, 7, 40])
def test_thresholds_on_duckdb_are_those_of_exact_fractions(count):
    """Of few values, some of them equal: quartiles lie between two, or on one."""
    chance = random.Random(count)
    draw = lambda: [chance.choice([-7, 2, 8, chance.randrange(30), chance.randrange(1000)]) for _ in range(count)]
    parts, wholes = draw(), draw()
    engine = OnDuckDB()
    engine.table("stages", ["stage", "route"], [(0, 1), (1, 2), (2, 0)])
    both = enumerate(zip(parts, wholes, strict=True))
    rows = [(stage, 0, id, value, "measured") for id, values in both for stage, value in enumerate(values)]
    rows += [(0, 0, 10**6, 5, "measured"), (1, 0, 10**6, None, "missing")]  # has no whole: of no figure
    engine.table("durations", ["stage", "kind", "id", "estimate_ticks", "outcome"], rows)
    plan = Plan([], [("a>b", 0, 1, "path"), ("end-to-end", 0, 1, "end-to-end"), ("a>c", 0, 2, "branch")], False)

    def threshold(of):
        quartile = lambda part: sum(Fraction(share) * of[at] for at, share in between(Fraction(len(of) - 1) * part))
        first, third = quartile(Fraction(1, 4)), quartile(Fraction(3, 4))
        return third + Fraction(3, 2) * (third - first)

    def between(place):
        rank = place.numerator // place.denominator
        return (rank, 1 - (place - rank)), (min(rank + 1, count - 1), place - rank)

    expected = []
    if count:
        fences = [threshold(sorted(values)) for values in (parts, wholes)]
        above = [part for part, whole in zip(parts, wholes) if whole > fences[1]]
        caused = sum(part > fences[0] for part in above)
        assert count < 40 or 0 < caused < min(len(above), sum(part > fences[0] for part in parts))
        expected = [(0, int(8 * fences[0]), caused, len(above)), (1, int(8 * fences[1]), len(above), len(above))]
    assert sorted(engine.rows(statement_text("causes", plan))) == expected


class Web:
    """A clock map in exact integers, the largest and smallest of all lines; vertices wherever any two may cross."""

    def __init__(self, slopes, brackets):
        self.slopes, self.brackets = slopes, brackets

    def at(self, tick):
        slow, fast = self.slopes
        lo = max(before * ONE + (slow if tick >= at else fast) * (tick - at) for before, at, _ in self.brackets)
        return lo, min(after * ONE + (fast if tick >= at else slow) * (tick - at) for _, at, after in self.brackets)

    def vertices(self, first, last):
        slow, fast = self.slopes
        ticks = {first, last} | {at for _, at, _ in self.brackets}
        for before, at, after in self.brackets:
            for other_before, other_at, other_after in self.brackets:
                for value, other, one, two in ((before, other_before, slow, fast), (after, other_after, fast, slow)):
                    crossing = (other * ONE - two * other_at - value * ONE + one * at) // (one - two)
                    ticks |= {crossing, crossing + 1}
        return [(tick, *self.at(tick)) for tick in sorted(ticks) if first <= tick <= last]


def simulated(seed, slopes):
    """A plan with a counter of those slopes, stamps up to seconds apart in either order, and what the bounds are."""
    chance = random.Random(seed)
    rate, begin = sum(slopes) // 2, -(1 << 33)
    reference = lambda tick: 10**15 + (rate * (tick - begin) >> 60)
    brackets = []
    for number in range(12):
        at = begin + number * 300_000_000 + chance.randrange(1000)
        before, after = (chance.randrange(20, 30_000) for _ in range(2))
        brackets.append((reference(at) - before, at, reference(at) + after))
    clock_map, points = Web(slopes, brackets), [{}, {}, {}]
    for number in range(300):
        tick = begin - 10**8 + chance.randrange(4 * 10**9)
        later = tick + chance.choice([1000, -5000, 3 * 10**9]) * chance.randrange(1000) // 1000
        for stamps, read in zip(points, (reference(tick) - chance.randrange(10_000), tick, later), strict=True):
            stamps.update({number: read} if chance.random() < 0.95 else {})
    ways = [("a.x", 0, 26, None), ("b.y", 1, 3, clock_map), ("b.z", 1, 3, clock_map)]
    stages = [("across", 0, 1, "path"), ("within", 1, 2, "path"), ("back", 2, 1, "extra"), ("home", 1, 0, "branch")]
    return Plan(ways, stages, False), points


def exact(plan, stage, start, end):
    """A duration by big integers alone, as docs/proof.md has it."""
    (_, one, from_width, from_map), (_, other, to_width, to_map) = plan.points[stage[1]], plan.points[stage[2]]
    at = lambda clock_map, tick: (tick * ONE, tick * ONE) if clock_map is None else clock_map.at(tick)
    from_lo, to_lo = at(from_map, start)[0], at(to_map, end)[0]
    from_hi, to_hi = at(from_map, start + from_width)[1], at(to_map, end + to_width)[1]
    estimate = (sum(at(to_map, end)) >> 61) - (sum(at(from_map, start)) >> 61)
    if one != other:
        return estimate, (to_lo >> 60) - -(-from_hi >> 60), -(-to_hi >> 60) - (from_lo >> 60)
    least, most = end - start - from_width, end + to_width - start
    slow, fast = from_map.slopes
    lo = max((fast if least < 0 else slow) * least, to_lo - from_hi)
    return estimate, lo >> 60, -(-min((slow if most < 0 else fast) * most, to_hi - from_lo) >> 60)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "slopes", [(ONE * 11 // 10, ONE * 11 // 10 + ONE // 10**5), (ONE * 5 // 2 - 12_345, ONE * 5 // 2 + 98_765_432_109)]
)
def test_property_durations_by_limbs_of_64_bits_are_those_of_big_integers(seed, slopes, tmp_path):
    plan, points = simulated(seed, slopes)
    files = []
    for number, stamps in enumerate(points):
        kinds = pyarrow.array([None] * len(stamps), "int32")
        columns = {"tick": list(stamps.values()), "id": list(stamps), "kind": kinds}
        files.append([tmp_path / f"{number}.parquet"])
        parquet.write_table(pyarrow.table(columns), files[-1][0])
    engine, checked = prepared(plan, files), 0
    query = "select stage, id, outcome, estimate_ticks, lo_ticks, hi_ticks from durations"
    for number, id, *found in engine.rows(query):
        stage = plan.stages[number]
        start, end = (points[point].get(id) for point in stage[1:3])
        if start is None or end is None:
            assert found[0] == "missing"
            continue
        estimate, lo, hi = exact(plan, stage, start, end)
        is_sound, on_path = lo <= estimate <= hi, stage[3] == "path"
        assert found[0] == ("refused" if not is_sound else "impossible" if hi < 0 and on_path else "measured")
        assert not is_sound or found[1:] == [estimate, lo, hi]
        checked += is_sound
    assert checked > 1000


def rewritten(run, point, change):
    (file,) = run.glob(f"stamps/*/point={point}/part-00000000.parquet")
    parquet.write_table(change(parquet.read_table(file)), file, compression="zstd")


def all_with(column, value):
    return lambda table: table.append_column(column, pyarrow.array([value] * len(table), "int32"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda table: pyarrow.concat_tables([table, table.slice(5, 3)]), "3 ids passed a point more than once"),
        (all_with("ids", 2), "3000 ids have stamps that stand for many"),
        (all_with("attempt", 1), "3000 ids .* or say that they were sent again"),
    ],
)
def test_what_sql_cannot_tell_exactly_is_refused_with_its_reason(tmp_path, change, says):
    run = lossy_run.make(tmp_path / "run")
    plan, _ = inputs(opened(run))
    rewritten(run, "sent", change)
    files = [sorted(run.glob(f"stamps/*/point={name.split('.', 1)[1]}/*.parquet")) for name, *_ in plan.points]
    with pytest.raises(tickscope.TickscopeError, match=says):
        stage_rows(plan, prepared(plan, files))
    with pytest.raises(tickscope.TickscopeError, match=says):
        stage_durations(plan, prepared(plan, files), plan.stages[0][0])


def test_a_counter_without_a_clock_map_is_refused_by_the_name_of_its_point(tmp_path):
    run = lossy_run.make(tmp_path / "run")
    shutil.rmtree(run / "brackets/reference=client.tsc/domain=server.tsc")
    with pytest.raises(tickscope.TickscopeError, match="one where server.received is not related to the reference"):
        inputs(opened(run))


def keep_another(run, text):
    """Has the client say once more what the id 7 is a hash of, a text of up to eight bytes."""
    part = len(list(run.glob("stamps/node=client/point=id-original/*")))
    long = {"tick": [part + 1], "id": [7], "value": [int.from_bytes(text.encode(), "little")], "parent": [0]}
    short = {"channel": [2], "kind": [0], "attempt": [len(text)]}
    schema = [(name, pyarrow.int64(), name in ("value", "parent")) for name in long]
    schema += [(name, pyarrow.int32(), name != "channel") for name in short]
    place = run / f"stamps/node=client/point=id-original/part-{part:08}.parquet"
    lossy_run.write(place, long | short, schema)


def test_ids_of_two_things_are_refused_though_no_event_says_so(tmp_path):
    """As in a run that was joined after its end."""
    run = lossy_run.make(tmp_path / "run")
    keep_another(run, "order")
    inputs(opened(run))
    keep_another(run, "other")
    with pytest.raises(tickscope.TickscopeError, match="one where ids name more than one thing: 1 of them"):
        inputs(opened(run))


def test_a_run_that_goes_on_is_refused_on_spark(tmp_path):
    run = lossy_run.make(tmp_path / "run")
    manifest = json.loads((run / "run.json").read_text())
    del manifest["ended_unix_ms"]
    (run / "run.json").write_text(json.dumps(manifest))
    with (run / "run.lock").open("w+b") as lock:
        # The lock that whoever writes a run holds on its first byte: F_OFD_SETLK of a struct flock.
        fcntl.fcntl(lock, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 0, 1, 0))
        with pytest.raises(tickscope.TickscopeError, match="that has come to its end, found .*: this run goes on"):
            opened(run, engine="spark")


def test_an_engine_that_is_not_there_is_refused_with_what_helps(recorded, monkeypatch):
    with pytest.raises(tickscope.TickscopeError, match="expected the engine 'duckdb' or 'spark', found 'dask'"):
        opened(recorded, engine="dask")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.errors", None)
    with pytest.raises(tickscope.TickscopeError, match=r"found none. pip install 'tickscope\[spark\]'"):
        opened(recorded, engine="spark")


def test_a_stamp_far_from_all_others_has_a_row_and_the_time_between_has_none():
    plan = Plan([("a.begin", 0, 1, None)], [], False)
    rows = _segments(plan, 0, 5, 1 << 62, {0, 1 << 32})
    assert [row[:3] for row in rows] == [(0, 5, (1 << 30) - 1), (1 << 32, 1 << 62, 1 << 62)]


@needs_spark
def test_a_directory_whose_name_is_a_pattern_is_that_run_and_no_other(spark, swinging_run, steady_run, tmp_path):
    for name, neighbour in [("x[12]", "x1"), ("y{a,b}", "ya"), ("q?", "a:b")]:
        run = shutil.copytree(swinging_run, tmp_path / name)
        shutil.copytree(steady_run, tmp_path / neighbour)
        found = tickscope.open(run, connection=spark, engine="spark").stages()
        assert [tuple(row) for row in found.collect()] == table_of(tickscope.open(run))


@needs_spark
def test_the_table_on_spark_is_that_of_the_core_to_the_digit(spark, run_folder):
    found = opened(run_folder, connection=spark, engine="spark").stages()
    assert found.columns == COLUMNS
    assert [tuple(row) for row in found.collect()] == table_of(opened(run_folder))


@needs_spark
def test_durations_and_causes_on_spark_are_those_of_the_core(spark, run_folder):
    on_spark, run = opened(run_folder, connection=spark, engine="spark"), opened(run_folder)
    found, core = on_spark.durations(), run.durations().order("id, kind")
    assert found.columns == core.columns
    assert [tuple(row) for row in found.orderBy("id", "kind").collect()] == core.fetchall()
    assert [tuple(row) for row in on_spark.causes().collect()] == run.causes().fetchall()


@needs_spark
def test_each_statement_gives_the_same_rows_on_both_engines(spark, segmented):
    from tickscope.spark import _OnSpark, _own

    plan, files = inputs(opened(segmented))
    engines = [prepared(plan, files, engine) for engine in (OnDuckDB(), _OnSpark(_own(spark)))]
    queries = [f"select * from {view}" for view in VIEWS] + [statement_text("figures", plan)]
    queries.append(stage_durations(plan, engines[1], plan.stages[0][0]))
    queries += [wide_durations(plan, engines[1])[0], statement_text("causes", plan)]
    for query in queries:
        first, second = (collections.Counter(map(tuple, engine.rows(query))) for engine in engines)
        assert first == second, query
        assert first


@needs_spark
def test_java_compiles_what_spark_writes_for_each_question(spark, segmented):
    """Methods above 8000 bytes it interprets, ten times slower."""
    run = opened(segmented, connection=spark, engine="spark")
    plan, engine = run._prepared(None, None, None)
    frames = [run._session.sql(statement_text(name, plan)) for name in ("figures", "causes")]
    mode = spark._jvm.org.apache.spark.sql.execution.ExplainMode.fromString("codegen")
    for frame in [*frames, run.durations(), run.stage_durations("end-to-end")]:
        frame.collect()
        sizes = re.findall(r"maxMethodCodeSize:(\d+)", frame._jdf.queryExecution().explainString(mode))
        assert len(sizes) > len(plan.points)
        assert max(map(int, sizes)) <= 8000


@needs_spark
@pytest.mark.parametrize("statement", ["box", "histogram"])
def test_what_is_drawn_is_the_same_on_both_engines(spark, statement):
    values = ", ".join(f"(cast({value} as bigint))" for value in [*range(100, 140), 3, 900, -70_000])
    spark.sql(f"select * from values {values} as t(estimate_ticks)").createOrReplaceTempView("stage_durations")
    text = (STATEMENTS / f"{statement}.sql").read_text()
    found = [tuple(row) for row in spark.sql(text).collect()]
    table = duckdb.sql(f"select * from (values {values}) t(estimate_ticks)")
    assert found == table.query("stage_durations", text).fetchall()


@needs_spark
def test_findings_and_damage_end_on_spark_as_the_core_ends(spark, tmp_path):
    run = lossy_run.make(tmp_path / "run", slow_us=-4000)
    on_spark = opened(run, connection=spark, engine="spark")
    with pytest.warns(tickscope.FindingWarning, match="2 impossible durations in 2 stages"):
        found = on_spark.stages()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [tuple(row) for row in found.collect()] == table_of(opened(run))
    (segment,) = run.glob("stamps/*/point=sent/part-00000000.parquet")
    segment.write_bytes(segment.read_bytes()[:-9])
    with pytest.raises(tickscope.TickscopeError, match=r"segment of relay.sent to be readable, found: .*part-00000000"):
        opened(run, connection=spark, engine="spark").stages()


@needs_spark
def test_a_sum_beyond_64_bits_is_an_error_on_spark_and_never_another_number(spark):
    from pyspark.errors import ArithmeticException
    from tickscope.spark import _OnSpark, _own

    spark.conf.set("spark.sql.ansi.enabled", "false")
    with pytest.raises(ArithmeticException):
        _OnSpark(_own(spark)).rows("select id + 1 from values (9223372036854775807) as t(id)")


@needs_spark
def test_a_spark_of_another_version_is_refused(spark, recorded, monkeypatch):
    monkeypatch.setattr("tickscope.spark.TESTED", "9.9")
    with pytest.raises(tickscope.TickscopeError, match=r"expected Spark 9.9, found \d"):
        opened(recorded, connection=spark, engine="spark")


@needs_spark
def test_spark_without_a_java_is_refused_with_what_helps(recorded):
    code = f"import tickscope; tickscope.open({str(recorded)!r}, engine='spark')"
    environment = os.environ | {"JAVA_HOME": "/none"}
    said = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert "TickscopeError: expected a Java 17 that Spark can start, found: " in said.stderr
    assert said.stderr.endswith("Install one, or set JAVA_HOME to it\n")
