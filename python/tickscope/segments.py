"""Segments in storage as a source of Spark: each is read, held against its digest and decoded by an executor.

Assumes: tickscope and pyarrow in the Python of the executors. Guarantees: a row comes from a file of the size and
digest that `digests.json` has, or there is an error with the file's address. Deliberately absent: which files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow
import pyarrow.parquet

from tickscope import _tickscope
from tickscope.storage import Storage, Stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as _DataFrame
    from pyspark.sql import SparkSession as _SparkSession

_COLUMNS = [("kind", pyarrow.int32()), ("id", pyarrow.int64()), ("tick", pyarrow.int64())]
_COLUMNS += [("ids", pyarrow.int32()), ("attempt", pyarrow.int32()), ("value", pyarrow.int64())]
_SCHEMA = "point bigint, kind int, id bigint, tick bigint, ids int, attempt int, value bigint"


@dataclass
class Segment:
    """A segment of the point with that number in the layout."""

    address: str
    point: int
    file: Stored


def rows(session: _SparkSession, segments: list[Segment]) -> _DataFrame:
    """The stamps of segments: point, kind, id, tick, ids, attempt, value; a partition a segment."""
    from pyspark.errors import PySparkException
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    # Spark refuses a name that another of its sessions has.
    own_name = f"tickscope_{uuid4().hex}"

    def read(_: Any, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        yield from batches(partition.value)

    # Their bases are Spark's, which need not be installed.
    partitions = [InputPartition(segment) for segment in segments]
    reader = type("Reader", (DataSourceReader,), {"partitions": lambda _: partitions, "read": read})
    parts = {"name": classmethod(lambda _: own_name), "schema": lambda _: _SCHEMA, "reader": lambda _, schema: reader()}
    session.dataSource.register(type("Source", (DataSource,), parts))
    try:
        return session.read.format(own_name).load()
    except PySparkException as why:
        lacking = re.search(r"(?:ModuleNotFoundError|ImportError): .*", str(why))
        if lacking is None:
            raise
        raise _tickscope.TickscopeError(
            f"expected tickscope in the Python of Spark's workers, found {lacking[0]}. Install it there, or set "
            "PYSPARK_PYTHON to a Python that has it before Spark is started"
        ) from None


def batches(segment: Segment) -> Iterator[pyarrow.RecordBatch]:
    """The stamps of a segment."""
    bytes_read = whole(segment)
    file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(bytes_read))
    here = [name for name, _ in _COLUMNS if name in file.schema_arrow.names]
    for batch in file.iter_batches(columns=here):
        point = pyarrow.repeat(pyarrow.scalar(segment.point, pyarrow.int64()), len(batch))
        columns = [batch.column(name) if name in here else pyarrow.nulls(len(batch), of) for name, of in _COLUMNS]
        yield pyarrow.record_batch([point, *columns], names=["point"] + [name for name, _ in _COLUMNS])


def whole(segment: Segment) -> bytes:
    """The bytes of a segment, which are those that it had when the run ended."""
    storage = Storage(segment.address)
    found = storage.text(segment.file.path)
    content = None if found is None else (len(found), _tickscope.digest(found))
    segment.file.expect(content, storage, "Upload it again")
    return found or b""
