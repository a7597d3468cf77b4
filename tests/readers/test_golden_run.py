"""The runs of schema 1 and 2 that are kept for ever are read by DuckDB and pyarrow as by tickscope itself."""

import json

import duckdb
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest

from conftest import TREE

GOLDENS = TREE / "crates/store/tests/golden"
SCHEMAS = [1, 2]
STAMP_COLUMNS = ["tick", "id", "channel", "kind", "cpu", "value"]


def files():
    return sorted(GOLDENS.glob("**/*.parquet"))


@pytest.fixture(params=SCHEMAS)
def golden(request):
    return GOLDENS / f"v{request.param}"


@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.relative_to(GOLDENS)))
def test_every_file_is_of_its_schema_and_both_readers_agree(file):
    table = parquet.read_table(file, partitioning=None)
    schema = file.relative_to(GOLDENS).parts[0]
    assert b"v" + parquet.read_metadata(file).metadata[b"tickscope.schema"] == schema.encode()
    names = ", ".join(f'"{name}"' for name in table.column_names)
    rows = duckdb.sql(f"select {names} from read_parquet('{file}', hive_partitioning = false)").fetchall()
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    assert len(rows) > 0


def test_stamps_of_all_nodes_are_one_table_with_their_node_and_point(golden):
    stamps = f"read_parquet('{golden}/stamps/**/*.parquet', hive_partitioning = true)"
    query = f"select node, point, count(*), min(id), max(id) from {stamps}"
    found = sorted(duckdb.sql(query + " group by all").fetchall())
    points = [("client", "send"), ("client", "sent"), ("server", "deliver"), ("server", "receive")]
    assert found == [(node, point, 200, found[0][3], found[0][4]) for node, point in points]
    table = dataset.dataset(golden / "stamps", format="parquet", partitioning="hive").to_table()
    assert table.num_rows == 800
    assert set(STAMP_COLUMNS) | {"node", "point"} == set(table.column_names)


def test_a_duration_lies_in_its_interval(golden):
    columns = duckdb.sql(f"describe select * from read_parquet('{golden}/durations/**/*.parquet')").fetchall()
    stages = [name[: -len(".lo")] for name, *_ in columns if name.endswith(".lo")]
    assert stages
    for stage in stages:
        outside = f"\"{stage}\" not between \"{stage}.lo\" and \"{stage}.hi\""
        query = f"select count(*) filter ({outside}), count(*) from read_parquet('{golden}/durations/**/*.parquet')"
        assert duckdb.sql(query).fetchall()[0][0] == 0


def test_the_digests_list_every_file_that_is_not_derived_with_its_size():
    run = GOLDENS / "v2"
    digests = json.loads((run / "digests.json").read_text())
    kept = [path for path in run.glob("**/*") if path.is_file() and "durations" not in path.parts]
    files = [path for path in kept if path.name != "digests.json"]
    sizes = {str(path.relative_to(run)): path.stat().st_size for path in files}
    assert {entry["path"]: entry["bytes"] for entry in digests["files"]} == sizes
