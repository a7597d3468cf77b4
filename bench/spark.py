#!/usr/bin/env python3
"""The table of a run by the core, and by SQL on DuckDB and on Spark: nanoseconds a stamp, at two sizes.

    .venv/bin/python bench/spark.py [TRACES TRACES]      after `make spark`; 100 000 and 1 000 000 traces of 7 points

Each gives the same table, or the run ends with an error. Spark is local on all processors, its start not counted; every
engine runs once on a small run before. The core reads traces that were joined before, the others join. The run is that
of tests/readers/lossy_run.py, each point in many segments.
"""

import pathlib
import sys
import tempfile
import time
import warnings

TREE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TREE / "tests/readers"))

import lossy_run  # noqa: E402
import tickscope  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from test_python_spark import COLUMNS, inputs, prepared, split, stage_rows, table_of  # noqa: E402

SMALL = 3_000


def stamped(folder, traces):
    """A run of so many traces, and how many stamps it has."""
    lossy_run.TRACES = traces
    run = split(lossy_run.make(folder))
    points = (*lossy_run.PATH, *lossy_run.BRANCHES)
    return run, sum(tickscope.open(run).stamps(name).count("*").fetchall()[0][0] for name in points)


def engines(run, session):
    """The table of a run, by engine."""
    opened = tickscope.open(run)
    yield "core", lambda: table_of(opened)
    yield "DuckDB", lambda: stage_rows(inputs(opened)[0], prepared(*inputs(opened)))
    on_spark = tickscope.open(run, connection=session, engine="spark")
    yield "Spark", lambda: [tuple(row) for row in on_spark.stages().collect()]


def measured(run, session):
    """Seconds by engine; all tables are the core's."""
    seconds, expected = {}, None
    for name, question in engines(run, session):
        begun = time.perf_counter()
        found = question()
        seconds[name] = time.perf_counter() - begun
        expected = expected or found
        assert found == expected, f"{name}: expected the table of the core, found another. Columns: {COLUMNS}"
    return seconds


def main():
    sizes = [int(word) for word in sys.argv[1:]] or [100_000, 1_000_000]
    warnings.simplefilter("ignore")
    session = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory() as folder:
        for number, traces in enumerate([SMALL, *sizes]):
            run, stamps = stamped(pathlib.Path(folder) / str(number), traces)
            found = measured(run, session)
            for name, seconds in found.items() if number else ():
                each, ratio = seconds / stamps * 1e9, seconds / found["core"]
                cost = f"{seconds:7.1f} s, {each:7.0f} ns a stamp, {ratio:5.1f} of the core's"
                print(f"{stamps:10} stamps, {name:6} {cost}", flush=True)


if __name__ == "__main__":
    main()
