#!/usr/bin/env python3
"""Plain p50 and p99 of the stages of a run, by raw ticks, for bench/table.py: `table_rivals.py duckdb|polars TRACES`.

The query alone is timed, not the interpreter's start: of both, the least that a user can write.
"""

import itertools
import json
import pathlib
import resource
import sys
import time

import pyarrow.parquet as parquet

QUANTILES = (0.5, 0.99)


def stages_of(place):
    """By name the points of each stage: neighbours, and the whole."""
    names = [name for name in parquet.read_schema(place).names if "." in name]
    return {f"{a}>{b}": (a, b) for a, b in itertools.pairwise(names)} | {"end-to-end": (names[0], names[-1])}


def duckdb(files, stages):
    import duckdb

    ask = ", ".join(f'quantile_disc("{b}" - "{a}", {list(QUANTILES)})' for a, b in stages.values())
    return lambda: duckdb.sql(f"SELECT {ask} FROM read_parquet({files})").fetchall()[0]


def polars(files, stages):
    import polars

    column = polars.col
    ask = [
        (column(b) - column(a)).quantile(share, "higher").cast(polars.Int64).alias(f"{name} {share}")
        for name, (a, b) in stages.items()
        for share in QUANTILES
    ]

    def found():
        values = polars.scan_parquet(files).select(ask).collect().row(0)
        return [list(values[at : at + 2]) for at in range(0, len(values), 2)]

    return found


def main():
    module, folder = sys.argv[1:]
    files = [str(file) for file in sorted(pathlib.Path(folder).glob("*.parquet"))]
    stages = stages_of(files[0])
    ask = {"duckdb": duckdb, "polars": polars}[module](files, stages)
    spent = lambda usage: usage.ru_utime + usage.ru_stime
    before, began = spent(resource.getrusage(resource.RUSAGE_SELF)), time.monotonic()
    values = ask()
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
    stages = {name: list(of) for name, of in zip(stages, values, strict=True)}
    found = {"wall_s": wall, "cpu_s": spent(after) - before, "peak_bytes": after.ru_maxrss * 1024, "stages": stages}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
