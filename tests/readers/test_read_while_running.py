"""A run can be read by any Parquet reader while it goes on: no half file is ever seen, and nothing that was seen goes."""

import json
import subprocess
import time

import duckdb
import pyarrow.dataset as dataset

TABLES = ["stamps", "brackets"]


def rows_by_duckdb(run, table):
    pattern = f"{run}/{table}/**/*.parquet"
    if not any((run / table).glob("**/*.parquet")):
        return 0
    return duckdb.sql(f"select count(*) from read_parquet('{pattern}', hive_partitioning = true)").fetchall()[0][0]


def rows_by_pyarrow(run, table):
    files = [str(file) for file in (run / table).glob("**/*.parquet") if not file.name.startswith(".")]
    return dataset.dataset(files, format="parquet").count_rows() if files else 0


def test_a_run_is_readable_at_every_moment_and_only_grows(begin_run, tickscope):
    process, run = begin_run(seconds=8, rate=20_000)
    seen = {table: [] for table in TABLES}
    while process.poll() is None:
        for table in TABLES:
            # Two readers after another: the second sees at least what the first saw.
            seen[table] += [rows_by_duckdb(run, table), rows_by_pyarrow(run, table)]
        time.sleep(0.05)
    out, err = process.communicate()
    assert process.returncode == 0, err.decode()
    for table in TABLES:
        assert seen[table] == sorted(seen[table]), f"{table} shrank: {seen[table]}"
        grown = len(set(seen[table]))
        print(f"{table}: read {len(seen[table])} times, {grown} different counts")
        assert grown >= 2, f"{table}: {set(seen[table])}"

    shown = json.loads(subprocess.run([tickscope, "show", run, "--json"], check=True, capture_output=True).stdout)
    clock_map = shown["clock_maps"][0]
    between_nodes = f"brackets/reference={shown['reference']}/domain={clock_map['domain']}"
    probes = next(source for source in clock_map["sources"] if source["name"] == "probes")
    for read in (rows_by_duckdb, rows_by_pyarrow):
        assert read(run, between_nodes) == probes["brackets"] > 0
    by_point = duckdb.sql(
        f"select node || '.' || point, count(*) from read_parquet('{run}/stamps/**/*.parquet', hive_partitioning = true)"
        " group by all"
    ).fetchall()
    lost = {event["node"] for event in shown["events"] if event["what"] == "lost"}
    assert not lost, shown["events"]
    counts = dict(by_point)
    missing = {stage["stage"]: stage["missing"] for stage in shown["stages"]}
    stages = {stage["stage"]: stage["count"] for stage in shown["stages"]}
    assert counts["client.send"] == stages["client.send>client.sent"] == stages["end-to-end"] + missing["end-to-end"]
    assert counts["client.response"] == stages["end-to-end"]
    partitions = dataset.dataset(run / "stamps", format="parquet", partitioning="hive", exclude_invalid_files=False)
    assert partitions.count_rows() == sum(counts.values())
    assert json.loads(out)["stages"] == shown["stages"]
