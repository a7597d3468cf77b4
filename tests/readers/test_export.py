"""DuckDB reads the CSV of a run as the durations that Python gives: every trace, every stage, to the tick."""

import subprocess

import duckdb
import pytest
import tickscope as package


def test_a_csv_is_the_durations_row_by_row(tickscope, swinging_run, tmp_path):
    file = tmp_path / "run.csv"
    subprocess.run([tickscope, "export", swinging_run, "--csv", file], check=True, capture_output=True)
    durations = package.open(swinging_run).durations().to_arrow_table()
    stages = [name[: -len(".lo")] for name in durations.column_names if name.endswith(".lo")]
    expected = [
        (row["kind"], row["id"], row["occurrence"], stage, row[stage], row[f"{stage}.lo"], row[f"{stage}.hi"])
        for row in durations.to_pylist() for stage in stages
    ]
    ticks = "kind, id, occurrence, stage, estimate_ticks, lo_ticks, hi_ticks"
    assert duckdb.sql(f"select {ticks} from read_csv('{file}')").fetchall() == expected
    inside = f"select count(*) from read_csv('{file}') where not (lo_ns <= estimate_ns and estimate_ns <= hi_ns)"
    assert duckdb.sql(inside).fetchall() == [(0,)]


def test_a_source_of_evidence_that_there_is_not_is_refused(swinging_run):
    with pytest.raises(package.TickscopeError, match="'bogus'.*kernel-probes"):
        package.open(swinging_run).figures(sources=["bogus"])
