"""The run of schema 1 that is kept for ever is read by DuckDB and pyarrow as by tickscope itself."""

import duckdb
import pyarrow.dataset as dataset
import pyarrow.parquet as parquet
import pytest

from conftest import TREE

GOLDEN = TREE / "crates/store/tests/golden/v1"
STAMP_COLUMNS = ["tick", "id", "channel", "kind", "cpu", "value"]


def files():
    return sorted(GOLDEN.glob("**/*.parquet"))


@pytest.mark.parametrize("file", files(), ids=lambda file: str(file.relative_to(GOLDEN)))
def test_every_file_is_of_schema_1_and_both_readers_agree(file):
    table = parquet.read_table(file, partitioning=None)
    assert parquet.read_metadata(file).metadata[b"tickscope.schema"] == b"1"
    names = ", ".join(f'"{name}"' for name in table.column_names)
    rows = duckdb.sql(f"select {names} from read_parquet('{file}', hive_partitioning = false)").fetchall()
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    assert len(rows) > 0


def test_stamps_of_all_nodes_are_one_table_with_their_node_and_point():
    query = f"select node, point, count(*), min(id), max(id) from read_parquet('{GOLDEN}/stamps/**/*.parquet', hive_partitioning = true)"
    found = sorted(duckdb.sql(query + " group by all").fetchall())
    points = [("client", "send"), ("client", "sent"), ("server", "deliver"), ("server", "receive")]
    assert found == [(node, point, 200, found[0][3], found[0][4]) for node, point in points]
    table = dataset.dataset(GOLDEN / "stamps", format="parquet", partitioning="hive").to_table()
    assert table.num_rows == 800
    assert set(STAMP_COLUMNS) | {"node", "point"} == set(table.column_names)


def test_a_duration_lies_in_its_interval():
    columns = duckdb.sql(f"describe select * from read_parquet('{GOLDEN}/durations/**/*.parquet')").fetchall()
    stages = [name[: -len(".lo")] for name, *_ in columns if name.endswith(".lo")]
    assert stages
    for stage in stages:
        outside = f"\"{stage}\" not between \"{stage}.lo\" and \"{stage}.hi\""
        query = f"select count(*) filter ({outside}), count(*) from read_parquet('{GOLDEN}/durations/**/*.parquet')"
        assert duckdb.sql(query).fetchall()[0][0] == 0
