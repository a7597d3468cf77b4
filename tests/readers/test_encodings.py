"""Files of stamps are read by DuckDB and pyarrow alike, whatever compresses them."""

import os
import pathlib
import subprocess

import duckdb
import pyarrow.parquet as parquet
import pytest

from conftest import TREE

PROGRAM = """
#include "tickscope.h"
int main(void) {
    tickscope_channel *channel = tickscope_open("send", TICKSCOPE_PLAIN, 0);
    uint64_t random = 1;
    for (int64_t id = 0; id < 300000; id++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        tickscope_record(channel, id < 150000 ? id : (int64_t)random, 1000 + id * 2 + (int64_t)(random >> 63));
    }
    return 0;
}
"""
STAMPS = 300_000
CODECS = {"none": "UNCOMPRESSED", "zstd": "ZSTD", "lz4": "LZ4"}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encodings")
    (folder / "stamps.c").write_text(PROGRAM)
    command = ["cc", "-O2", "-pthread", "-I", TREE / "crates/stamp/include", "-o", "stamps", "stamps.c", "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "stamps"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("encoders", [1, 3])
def test_stamps_are_read_by_both_readers_whatever_compresses_them(tickscope, program, tmp_path, codec, encoders):
    shared, run = tmp_path / "stamps", tmp_path / "run"
    shared.mkdir()
    environment = {**os.environ, "TICKSCOPE_DIR": str(shared), "TICKSCOPE_NODE": "node"}
    subprocess.run([program], env=environment, check=True)
    words = ["collect", shared, "--run", run, "--codec", codec, "--encoders", str(encoders)]
    subprocess.run([tickscope, *words], check=True, capture_output=True)
    (file,) = pathlib.Path(run).glob("stamps/node=node/point=send/*.parquet")
    table = parquet.read_table(file, partitioning=None)
    read = f"read_parquet('{file}', hive_partitioning = false)"
    rows = duckdb.sql(f"select id, tick, channel, kind from {read}").fetchall()
    assert list(zip(*(table[name].to_pylist() for name in ("id", "tick", "channel", "kind")), strict=True)) == rows
    ids = [id for id, *_ in rows]
    assert len(ids) == STAMPS and ids[:150_000] == list(range(150_000)) and [rows[0][1], rows[0][3]] == [1000, None]
    group = parquet.read_metadata(file).row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert columns["channel"].compression == CODECS[codec]
    assert [columns["tick"].statistics.min, columns["tick"].statistics.null_count] == [1000, 0]
    assert "DELTA_BINARY_PACKED" in columns["id"].encodings
