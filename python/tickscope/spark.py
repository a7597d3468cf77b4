"""A run on Spark, for what outgrows one machine: the same questions, the same digits.

    run = tickscope.open("runs/mine", engine="spark")
    run.stages().show()

The core, on the driver, says which files are sound and what the clocks are; Spark reads the stamps and computes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow

from tickscope import _tickscope
from tickscope.ages import AgePlan, ages
from tickscope.portable import (
    BOXES,
    CAUSES,
    COLUMNS,
    Plan,
    boxes,
    causes,
    drawn,
    prepare,
    stage_durations,
    stage_rows,
    wide_durations,
)
from tickscope.storage import DIGESTS, Storage, entries, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as _DataFrame
    from pyspark.sql import SparkSession as _SparkSession

    from tickscope.run import Key, Rho, Run, Sources
    from tickscope.storage import Copy

TESTED = "4.0"
"""The release of Spark that the tests run on."""

_PARTITIONS = "spark.sql.shuffle.partitions"
_BYTES_A_PARTITION = 16 << 20
"""Of segments: about 1.6 million stamps, of which the shuffles make some 80 MB."""

_ALONE = "exists(array(spark_partition_id()), part -> part >= 0)"
"""Always true. Spark writes one Java method for a chain of statements, and Java compiles none above 8000 bytes: what is
interpreted takes tenfold. No such method has this condition in it, and no filter moves below it, so the chain ends."""

_TOLD = re.compile(r"TickscopeError: (.*)")
"""What an executor said, within what Spark says."""
_STAMPS = "tick bigint, id bigint, kind int, attempt int, ids int, value bigint"


class SparkRun:
    """A run whose stamps Spark reads: a directory at the same path on every executor, or an address in storage."""

    def __init__(self, run: Run, session: _SparkSession | None = None) -> None:
        if run.unfinished is not None and run.unfinished.startswith("this run goes on"):
            raise _tickscope.TickscopeError(
                f"expected a run that has come to its end, found {run.root}: {run.unfinished}. On Spark its files "
                "would change while they are read; wait for its end, or open it without engine"
            )
        self._run, self._session = run, _own(session)
        self.address, self.manifest = run.address, run.manifest

    def __repr__(self) -> str:
        return repr(self._run).replace("Run", "SparkRun", 1)

    def stages(self, rho: Rho = None, slew: Rho = None, sources: Sources = None) -> _DataFrame:
        """One row a stage: counts, quantiles and mean between their bounds, in ticks; the columns of `Run.stages` that
        the statements in `sql/` tell exactly."""
        plan, engine = self._prepared(rho, slew, sources)
        rows = stage_rows(plan, engine)
        kinds = [pyarrow.string()] * 4 + [pyarrow.int64()] * (len(COLUMNS) - 4)
        return self._session.createDataFrame(_arrow(COLUMNS, kinds, rows))

    def stage_durations(self, stage: str, rho: Rho = None) -> _DataFrame:
        """The durations of one stage, a row a trace that has one: the columns of `Run.stage_durations`."""
        plan, engine = self._prepared(rho, None, None, stage)
        return self._session.sql(stage_durations(plan, engine, stage))

    def durations(self, rho: Rho = None) -> _DataFrame:
        """One row a trace: kind, id, occurrence, then three columns a stage, in ticks of the reference; the columns of
        `Run.durations`."""
        plan, engine = self._prepared(rho, None, None)
        query, names = wide_durations(plan, engine)
        return self._session.sql(query).select(*names).toDF(*names.values())

    def causes(self, rho: Rho = None, slew: Rho = None, sources: Sources = None) -> _DataFrame:
        """One row a stage of the path, and the whole: outliers and what causes them, by the rule of the X-Lap paper,
        in the columns of `Run.causes`."""
        plan, engine = self._prepared(rho, slew, sources)
        kinds = [pyarrow.string(), pyarrow.bool_(), pyarrow.float64(), pyarrow.int64(), pyarrow.int64()]
        return self._session.createDataFrame(_arrow(CAUSES, kinds, causes(plan, engine)))

    def age(
        self,
        generated: str,
        received: str,
        limit: str | None = None,
        key: Key = None,
        rho: Rho = None,
        slew: Rho = None,
        sources: Sources = None,
    ) -> _DataFrame:
        """How fresh what the point `received` knows of `generated` is: the mean over keys, then one row a key, in the
        columns of `Run.age`. Updates of one key are put in order by one executor."""
        from tickscope.run import _ages_of, _query

        plan, engine = self._asked(rho, slew, sources)
        points, inner = (generated, received), self._run._inner
        asked = AgePlan(points, *inner.age_plan(points, limit, key, _query(rho, slew, sources)))
        found = ages(plan, asked, engine, [self._files(name) for name in points])
        return self._session.createDataFrame(_ages_of(found, self._run._connection).to_arrow_table())

    def boxes(self, rho: Rho = None) -> _DataFrame:
        """One row a stage: what a box plot draws, in the columns of `Run.boxes`."""
        kinds = [pyarrow.string()] + [pyarrow.int64()] * (len(BOXES) - 1)
        return self._session.createDataFrame(_arrow(BOXES, kinds, boxes(*self._prepared(rho, None, None))))

    def histogram(self, stage: str, rho: Rho = None) -> _DataFrame:
        """How many estimates of a stage lie in each of about 60 equal bins, in the columns of `Run.histogram`."""
        return self._session.sql(drawn("histogram", *self._prepared(rho, None, None, stage), stage))

    def log_histogram(self, stage: str, rho: Rho = None) -> _DataFrame:
        """How many estimates of a stage lie in each bin, none wider than a 128th of its values, in the columns of
        `Run.log_histogram`: counts of several runs add up."""
        return self._session.sql(drawn("log_histogram", *self._prepared(rho, None, None, stage), stage))

    def _prepared(self, rho: Rho, slew: Rho, sources: Sources, stage: str | None = None) -> tuple[Plan, _OnSpark]:
        plan, engine = self._asked(rho, slew, sources)
        prepare(plan, engine, [self._files(name) for name, *_ in plan.points], stage)
        return plan, engine

    def _asked(self, rho: Rho, slew: Rho, sources: Sources) -> tuple[Plan, _OnSpark]:
        from tickscope.run import _query

        asked = _query(rho, slew, sources)
        self._expect_traces()
        plan, engine = Plan(*self._run._inner.plan(asked)), _OnSpark(self._session, self._run.copy)
        self._run._warn(asked)
        return plan, engine

    def _files(self, point: str) -> list[Path]:
        """The segments of a point, each of which the core found sound; in storage: by its footer."""
        inner = self._run._inner
        files, refused = inner.segments(point) if self._run.copy else inner.files("stamps", point)
        node, _, name = point.partition(".")
        folder = f"stamps/node={node}/point={name}/"
        listed = [path for path in self._listed if path.startswith(folder)]
        refused += [f"{path} is gone" for path in listed if self._run.root / path not in files]
        if refused:
            raise _tickscope.TickscopeError(
                f"expected every segment of {point} to be readable, found: {'; '.join(refused)}. Restore it, or "
                "open the run without engine: its traces may stand"
            )
        return files

    @cached_property
    def _listed(self) -> list[str]:
        """The files that the run had when it ended; none where it has no list of digests."""
        here = Storage(self._run.root.absolute().as_uri())
        digests = here.text(DIGESTS)
        return [] if digests is None else [file.path for file in entries(digests, here.address)]

    def _expect_traces(self) -> None:
        copy = self._run.copy
        if copy is not None and not copy.is_whole and not any(file.is_of_traces for file in copy.files.values()):
            raise _tickscope.TickscopeError(
                f"expected a run that was joined, found no traces in {shown(copy.address)}. tickscope.join, given this "
                "address, makes them here and puts them there; without engine all of it is copied here each time"
            )


class _OnSpark:
    def __init__(self, session: _SparkSession, copy: Copy | None = None) -> None:
        self._session, self._copy = session, copy

    def stamps(self, points: Sequence[Sequence[Path]]) -> None:
        # Spark's own 200 of a small run take seconds to open, of a large one each is too large to sort in memory.
        if self._session.sparkContext.getConf().get(_PARTITIONS) is None:
            stored = sum(self._bytes(file) for files in points for file in files)
            least = 2 * self._session.sparkContext.defaultParallelism
            self._session.conf.set(_PARTITIONS, max(least, -(-stored // _BYTES_A_PARTITION)))
        if self._copy is not None:
            self._stored(self._copy, points).createOrReplaceTempView("stamps")
            return
        # Spark would read names as patterns, and so other runs' files.
        read = self._session.read.schema(_STAMPS).option("__globPaths__", "false")
        columns = "coalesce(kind, 0) as kind", "id", "tick", "ids", "attempt", "value"
        of_points = [
            read.parquet(*map(str, files)).selectExpr(f"cast({point} as bigint) as point", *columns)
            for point, files in enumerate(points)
        ]
        reduce(lambda one, other: one.unionAll(other), of_points).createOrReplaceTempView("stamps")

    def table(self, name: str, columns: Sequence[str], rows: Sequence[tuple[int, ...]]) -> None:
        table = _arrow(columns, [pyarrow.int64()] * len(columns), rows)
        self._session.createDataFrame(table).createOrReplaceTempView(name)

    def view(self, name: str, query: str) -> None:
        frame = self._session.sql(query)
        if name in ("ends", "durations"):
            frame = frame.where(_ALONE)
        if name == "durations":
            alone = {"outcome": f"if({_ALONE}, outcome, null) as outcome"}
            frame = frame.selectExpr(*(alone.get(column, column) for column in frame.columns))
        frame.createOrReplaceTempView(name)

    def keep(self, name: str, query: str) -> None:
        self._session.sql(query).persist().createOrReplaceTempView(name)

    def forget(self, name: str) -> None:
        self._session.catalog.uncacheTable(name)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        from pyspark.errors import PySparkException

        try:
            return [tuple(row) for row in self._session.sql(query).collect()]
        except PySparkException as why:
            told = _TOLD.search(str(why))
            if told is None:
                raise
            raise _tickscope.TickscopeError(told[1]) from None

    def _bytes(self, file: Path) -> int:
        return file.stat().st_size if self._copy is None else self._copy.stored(file).bytes

    def _stored(self, copy: Copy, points: Sequence[Sequence[Path]]) -> _DataFrame:
        from tickscope.segments import Segment, rows

        numbered = [(point, copy.stored(file)) for point, files in enumerate(points) for file in files]
        found = rows(self._session, [Segment(copy.address, point, file) for point, file in numbered])
        return found.selectExpr("point", "coalesce(kind, 0) as kind", "id", "tick", "ids", "attempt", "value")


def _arrow(columns: Sequence[str], kinds: Sequence[Any], rows: Sequence[tuple[Any, ...]]) -> Any:
    """Rows as Spark takes them without a Python on its executors."""
    values = zip(*rows, strict=True) if rows else ((),) * len(columns)
    arrays = [pyarrow.array(of, kind) for of, kind in zip(values, kinds, strict=True)]
    return pyarrow.table(arrays, names=list(columns))


def _own(session: _SparkSession | None) -> _SparkSession:
    """A session with settings and names of its own, on the caller's Spark, the one that is there, or a new one."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise _tickscope.TickscopeError(
            "expected pyspark for engine=\"spark\", found none. pip install 'tickscope[spark]'"
        ) from None
    if session is None:
        # Its workers run this Python, which has tickscope, unless the caller knows of another.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        own = (session or SparkSession.builder.appName("tickscope").getOrCreate()).newSession()
    except (PySparkException, OSError) as why:
        found = str(why).rstrip(".")
        raise _tickscope.TickscopeError(
            f"expected a Java 17 that Spark can start, found: {found}. Install one, or set JAVA_HOME to it"
        ) from None
    if not own.version.startswith(f"{TESTED}."):
        raise _tickscope.TickscopeError(
            f"expected Spark {TESTED}, found {own.version}. Install pyspark {TESTED} next to a cluster of {TESTED}"
        )
    # A sum beyond 64 bits is an error then, as in the core, and never another number.
    own.conf.set("spark.sql.ansi.enabled", "true")
    return own
