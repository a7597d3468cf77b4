#!/usr/bin/env python3
"""A run's questions to the core, and by SQL to DuckDB and Spark: time, memory and shuffle a stamp, at some sizes.

    .venv/bin/python bench/spark.py [--stamps N,N] [--engines core,duckdb,spark,spark-s3] [--executors 1,2]
        [--questions stages,causes | all] [--memory 8g]

After `make spark`; 1 and 10 million stamps at 7 points unless told otherwise, and the table of stages, which alone
DuckDB is asked here. Each engine gives the same answer, or this ends with an error; of a table with a row a trace the
sums over all rows are compared, each row with a weight by its id.

Spark is local on all processors, its start not counted; with `--executors`, processes of one core
each (`local-cluster`). Each runs once on a small run before. The core reads traces that were joined before, the others
join. `spark-s3` reads the segments from an S3 server of this machine (moto, written in Python: it is the slower part).
The run is that of tests/readers/lossy_run.py, again and again with later ticks and other ids.
"""

import argparse
import itertools
import json
import os
import pathlib
import resource
import sys
import tempfile
import time
import urllib.request
import warnings

import duckdb
import pyarrow
import pyarrow.compute as compute
import pyarrow.parquet as parquet

TREE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TREE / "tests/readers"))

import lossy_run  # noqa: E402
import test_python_storage as storage  # noqa: E402
import tickscope  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from test_python_spark import COLUMNS, inputs, prepared, stage_rows  # noqa: E402

SMALL = 20_000
TRACES = 100_000
"""Traces of a copy; a copy is a segment of each point."""
POINTS = len(lossy_run.PATH) + len(lossy_run.BRANCHES)
LATER = lossy_run.HERTZ * TRACES // 1000
"""Ticks of the first node from a copy to the next."""


def stamped(folder, stamps):
    """A run of about so many stamps, with the digests that an upload needs; how many there are, but for the lost."""
    copies = max(1, round(stamps / POINTS / TRACES))
    lossy_run.TRACES = min(TRACES, stamps // POINTS)
    run = lossy_run.make(folder)
    for place in [*run.glob("stamps/*/*/part-00000000.parquet"), run / "traces/part-00000000.parquet"]:
        table = parquet.read_table(place)
        for copy in range(1, copies):
            part = place.with_name(f"part-{copy:08}.parquet")
            parquet.write_table(later(table, place, copy), part, compression="zstd")
    (run / storage.DIGESTS).write_text(json.dumps({"schema": 1, "run": lossy_run.manifest()["run"]}))
    return storage.described(run), copies * lossy_run.TRACES * POINTS


def later(table, place, copy):
    """The rows of a copy: other ids, and each counter's later ticks."""
    for name in table.column_names:
        if name == "id":
            more = copy * TRACES
        elif name == "tick" or "." in name:
            node = name.split(".")[0] if "." in name else place.parts[-3].removeprefix("node=")
            more = copy * (lossy_run.local(node, LATER) - lossy_run.local(node, 0))
        else:
            continue
        column = compute.add(table[name], pyarrow.scalar(more, pyarrow.int64()))
        table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)
    return table


WHOLE = "end-to-end"
QUESTIONS = {
    "stages": lambda run: run.stages(),
    "causes": lambda run: run.causes(),
    "boxes": lambda run: run.boxes(),
    "histogram": lambda run: run.histogram(WHOLE),
    "log_histogram": lambda run: run.log_histogram(WHOLE),
    "age": lambda run: run.age("client.send", "server.delivered", "5ms"),
    "stage_durations": lambda run: run.stage_durations(WHOLE),
    "durations": lambda run: run.durations(),
}


def question(engine, run, session, port, name):
    """What is timed: an answer by an engine."""
    opened = tickscope.open(run)
    if engine == "core":
        return lambda: rows_of(QUESTIONS[name](opened), name)
    if engine == "duckdb":
        return lambda: sorted(stage_rows(inputs(opened)[0], prepared(*inputs(opened))), key=repr)
    place = storage.uploaded(run, port, str(run.name)) if engine == "spark-s3" else run
    on_spark = tickscope.open(place, connection=session, engine="spark")
    return lambda: rows_of(QUESTIONS[name](on_spark), name)


def rows_of(table, name):
    """An answer, from either engine: its rows, or the weighted sums of a table with a row a trace."""
    is_frame = hasattr(table, "collect")
    if name in ("durations", "stage_durations"):
        columns = [f"c{number}" for number in range(len(table.columns))]
        summed = [f"sum(cast({column} as decimal(20, 0)) * cast(c1 % 1009 + 1 as decimal(5, 0)))" for column in columns]
        query = f"select count(*), {', '.join(summed)} from answer"
        if is_frame:
            table.toDF(*columns).createOrReplaceTempView("answer")
            return [tuple(row) for row in table.sparkSession.sql(query).collect()]
        named = zip(table.columns, columns, strict=True)
        selected = table.select(*(duckdb.ColumnExpression(name).alias(short) for name, short in named))
        return selected.query("answer", query).fetchall()
    if name == "stages":
        table = table.select(*COLUMNS)
    return sorted(map(tuple, table.collect() if is_frame else table.fetchall()), key=repr)


def asked(session, path):
    """What Spark's page says of this application."""
    context = session.sparkContext
    place = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{path}"
    with urllib.request.urlopen(place) as answer:
        return json.load(answer)


def shuffled(session):
    """Bytes that were shuffled, and spilled to disk, until now."""
    stages = asked(session, "stages")
    return [sum(stage[name] for stage in stages) for name in ("shuffleWriteBytes", "diskBytesSpilled")]


def peak_mib(session):
    """Of the processes that compute, the largest resident set so far."""
    context = session.sparkContext
    java = context._gateway.proc.pid
    text = pathlib.Path(f"/proc/{java}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) >> 10


def worked(session):
    """Processor seconds of this process, of Spark's, and of its executors', which a busy machine does not lengthen."""
    of = {session.sparkContext._gateway.proc.pid}
    ticks, parents = {}, {}
    for place in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(place.parent.name)
        ticks[pid], parents[pid] = int(fields[11]) + int(fields[12]), int(fields[1])
    while more := {pid for pid, parent in parents.items() if parent in of and pid not in of}:
        of |= more
    return sum(ticks.get(pid, 0) for pid in of | {os.getpid()}) / os.sysconf("SC_CLK_TCK")


def measure(engine, run, stamps, session, port, name, expected):
    ask = question(engine, run, session, port, name)
    before, worked_before, begun = shuffled(session), worked(session), time.perf_counter()
    found = ask()
    seconds, processor = time.perf_counter() - begun, worked(session) - worked_before
    assert expected in (None, found), f"{engine}: expected the table of the core, found another"
    shuffle, spill = (now - then for now, then in zip(shuffled(session), before, strict=True))
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    memory = f"python {own} MiB" + (f", java {peak_mib(session)} MiB" if "spark" in engine else "")
    each = f"{seconds / stamps * 1e9:6.0f} ns, {processor / stamps * 1e9:6.0f} ns of processor"
    each += f" and {shuffle / stamps:5.1f} B shuffled a stamp"
    about = f"{stamps:10} stamps, {name}, {engine:8}"
    print(f"{about} {seconds:7.1f} s, {each}, {spill >> 20} MiB spilled, {memory}", flush=True)
    return found


def sessions(executors, memory):
    build = SparkSession.builder.appName("bench").config("spark.driver.memory", memory)
    build = build.config("spark.ui.port", "0").config("spark.ui.showConsoleProgress", "false")
    build = build.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    for count in executors or [0]:
        master = f"local-cluster[{count},1,2048]" if count else "local[*]"
        session = build.master(master).config("spark.executor.memory", "2g").getOrCreate()
        print(f"Spark: {master}", flush=True)
        yield session
        session.stop()


def main():
    asks = argparse.ArgumentParser()
    asks.add_argument("--stamps", default="1000000,10000000")
    asks.add_argument("--engines", default="core,duckdb,spark,spark-s3")
    asks.add_argument("--executors", default="")
    asks.add_argument("--memory", default="4g", help="of the process that is Spark, without --executors")
    asks.add_argument("--questions", default="stages", help=f"all, or some of {', '.join(QUESTIONS)}")
    options = asks.parse_args()
    names = list(QUESTIONS) if options.questions == "all" else options.questions.split(",")
    warnings.simplefilter("ignore")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    engines = options.engines.split(",")
    with tempfile.TemporaryDirectory() as folder:
        runs = [
            stamped(pathlib.Path(folder) / f"run-{number}", int(stamps))
            for number, stamps in enumerate([SMALL * POINTS, *options.stamps.split(",")])
        ]
        server, port = storage.started(pathlib.Path(folder) / "log") if "spark-s3" in engines else (None, 0)
        try:
            for session in sessions([int(count) for count in options.executors.split(",") if count], options.memory):
                for (run, stamps), name in itertools.product(runs, names):
                    expected = None
                    for engine in [engine for engine in engines if engine != "duckdb" or name == "stages"]:
                        expected = measure(engine, run, stamps, session, port, name, expected)
        finally:
            if server is not None:
                server.kill()


if __name__ == "__main__":
    main()
