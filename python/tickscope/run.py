"""A run as tables. Each is a lazy DuckDB relation: filter, join and aggregate it, then `.arrow()`, `.df()` or `.fetchall()`.

Rust reads the run's manifest, evidence and traces and computes; DuckDB reads the Parquet files that Rust found sound.
"""

from __future__ import annotations

import html
import json
import re
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import duckdb
import pyarrow

from tickscope import _tickscope
from tickscope.clock_map import ClockMap
from tickscope.plots import Plots
from tickscope.query import ask
from tickscope.runs import Runs, found
from tickscope.storage import Copy, is_address, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as _SparkSession

    from tickscope.spark import SparkRun

Rho = str | float | None
"""How far rates may wander: `unknown`, `server-room`, `lab`, `laptop`, a number of ppm; `None`: what the run declared."""

Sources = Iterable[str] | None
"""The only evidence to use between nodes: `probes`, `kernel-probes`, `messages`, `kernel-messages`, `common-host`;
`None`: all there is."""


_FOLDERS: weakref.WeakKeyDictionary[duckdb.DuckDBPyConnection, list[object]] = weakref.WeakKeyDictionary()
"""Folders of this process with files of tables, by the connections of these."""


class FindingWarning(UserWarning):
    """The figures stand, but something in the run contradicts itself or an assumption: `tickscope show` ends with 3."""


class DamagedRunWarning(UserWarning):
    """A file of the run is not as it was written, or is missing: do not trust figures. `tickscope check` names all."""


class UnfinishedRunWarning(UserWarning):
    """The run goes on or was cut off, or stamps of it still lie in shared memory: figures are of a part of it."""


class RefusedFileWarning(UserWarning):
    """A file of the run cannot be read, and is left out."""


Key = Literal["value", "kind", "none"] | None
"""What tells updates of one thing from those of another: the value of a stamp, the kind of an id, nothing; `None`: the
value of stamps if they have one."""

Layout = Mapping[str, Any] | None
"""A layout to ask by, with the keys of a run file's `[layout]`; `None`: the run's own, or inferred."""


Many = list[str] | list[Path] | list[str | Path]
"""Paths and addresses, with `*` in their last part for all runs there."""


@overload
def open(
    run: str | Path,
    connection: duckdb.DuckDBPyConnection | None = None,
    layout: Layout = None,
    engine: Literal["duckdb"] = "duckdb",
) -> Run: ...
@overload
def open(
    run: str | Path, connection: _SparkSession | None = None, layout: Layout = None, *, engine: Literal["spark"]
) -> SparkRun: ...
@overload
def open(run: Many, connection: Any = None, layout: Layout = None, engine: str = "duckdb") -> Runs: ...
def open(
    run: str | Path | Many, connection: Any = None, layout: Layout = None, engine: str = "duckdb"
) -> Run | SparkRun | Runs:
    """Opens a run's directory, or its address in storage (`s3://BUCKET/RUN`); of a list, all runs that it names.

    Relations belong to `connection`, DuckDB's default one unless given. `engine="spark"`: Spark computes, by a session
    of its own on the Spark of the session `connection`.
    """
    if engine not in ("duckdb", "spark"):
        raise _tickscope.TickscopeError(f"expected the engine 'duckdb' or 'spark', found {engine!r}")
    if isinstance(run, str | Path):
        one: Run | SparkRun = _open_one(run, connection, layout, engine)
        return one
    return Runs([_open_one(place, connection, layout, engine) for place in found(run)])


def _open_one(run: str | Path, connection: Any, layout: Layout, engine: str) -> Any:
    if engine == "duckdb":
        return Run(run, connection, layout)
    from tickscope.spark import SparkRun

    return SparkRun(Run(run, None, layout, stamps=False), connection)


def compare(
    before: Run | Iterable[Run],
    after: Run | Iterable[Run],
    rho: Rho = None,
    slew: Rho = None,
    sources: Sources = None,
) -> duckdb.DuckDBPyRelation:
    """One row a stage and quantile: what changed from some runs to others, as `tickscope compare` has it."""
    sides = [[side] if isinstance(side, Run) else list(side) for side in (before, after)]
    asked = _query(rho, slew, sources)
    for run in sides[0] + sides[1]:
        run._warn(asked)
    inner = [[run._inner for run in side] for side in sides]
    found = json.loads(_tickscope.Run.compared(inner[0], inner[1], asked))
    rows = [
        {"stage": stage["stage"], "role": stage["role"]} | change
        for stage in found["stages"]
        for change in stage["changes"]
    ]
    connection = (sides[0] + sides[1])[0]._connection
    return ask("comparison", connection.from_arrow(pyarrow.Table.from_pylist(rows, schema=_COMPARISON)), "comparison")


class Run:
    """A run's directory. Nothing is read before it is asked for; nothing but `durations`, and the traces of a run that has
    ended without them, is ever written. Figures are those of the first time they are asked for: open a run that goes on
    again to see more."""

    def __init__(
        self,
        root: str | Path,
        connection: duckdb.DuckDBPyConnection | None = None,
        layout: Layout = None,
        stamps: bool = True,
    ) -> None:
        self.address: str = str(root)
        """The path or the address that it was opened by."""
        self.copy = Copy(str(root), stamps) if is_address(root) else None
        """Of a run in storage, the folder here."""
        self.root = Path(root) if self.copy is None else self.copy.root
        self._inner = _tickscope.Run(self.root, _layout_json(layout))
        faults = self._inner.faults()
        if self.copy is not None:
            faults += [why for path, why in self.copy.changed.items() if not any(path in fault for fault in faults)]
        self._warn_of_damage(faults)
        self.unfinished: str | None = self._inner.unfinished()
        """Why figures are of a part of the run, and what helps; `None`: it has come to its end."""
        if self.unfinished is not None:
            warnings.warn(self.unfinished, UnfinishedRunWarning, stacklevel=3)
        self._connection = connection if connection is not None else duckdb.default_connection()
        self._figures: dict[str, dict[str, Any]] = {}
        self._plots: dict[str, Plots] = {}
        self._standings: dict[str, tuple[str | None, list[str]]] = {}
        self._aside: tempfile.TemporaryDirectory[str] | None = None
        self.manifest: dict[str, Any] = json.loads(self._inner.manifest())
        """`run.json`: when, which machines, points, policies, layout, assumptions."""

    def notes(self) -> list[str]:
        """What was done before the run could be asked: a join that was not made yet, a layout that was inferred."""
        return self._inner.notes()

    def __repr__(self) -> str:
        return f"<tickscope.Run {shown(self.address) if self.copy else self.address}>"

    def _repr_html_(self) -> str:
        """What `tickscope show` prints, for a notebook; where there is no table, why."""
        try:
            table = self._inner.table()
        except _tickscope.TickscopeError as why:
            table = f"{self!r}: {why}"
        return f"<pre>{html.escape(table)}</pre>"

    def figures(self, rho: Rho = None, slew: Rho = None, sources: Sources = None) -> dict[str, Any]:
        """All that `tickscope show --json` prints: version, stages, clock_maps, assumptions, findings, events."""
        asked = _query(rho, slew, sources)
        if repr(asked) not in self._figures:
            text, standing = self._inner.figures(asked)
            self._figures[repr(asked)], self._standings[repr(asked)] = json.loads(text), standing
        self._warn(asked)
        return self._figures[repr(asked)]

    def stages(self, rho: Rho = None, slew: Rho = None, sources: Sources = None) -> duckdb.DuckDBPyRelation:
        """One row a stage: share, quantiles and mean between their bounds, common and relative error."""
        figures = pyarrow.Table.from_pylist(self.figures(rho, slew, sources)["stages"], schema=_FIGURES)
        return ask("stages", self._connection.from_arrow(figures), "figures")

    def tail(
        self, slowest: float = 1, rho: Rho = None, slew: Rho = None, sources: Sources = None
    ) -> duckdb.DuckDBPyRelation:
        """One row a stage of the path: what it adds to the `slowest` percent of the traces, and how sure that is."""
        found = self._slow(slowest, _query(rho, slew, sources))["tail"]
        whole = {key: found[key] for key in ("sure", "unresolved")}
        rows = pyarrow.Table.from_pylist([stage | whole for stage in found["stages"]], schema=_TAIL)
        return ask("tail", self._connection.from_arrow(rows), "tail")

    def causes(self, rho: Rho = None, slew: Rho = None, sources: Sources = None) -> duckdb.DuckDBPyRelation:
        """One row a stage of the path, and the whole: outliers and what causes them, by the rule of the X-Lap paper."""
        found = self._slow(1, _query(rho, slew, sources))["jitter"]
        rows = [stage | {"outliers": found["above"]} for stage in found["stages"]]
        return ask("causes", self._connection.from_arrow(pyarrow.Table.from_pylist(rows, schema=_CAUSES)), "jitter")

    def plots(self, rho: Rho = None, slew: Rho = None, sources: Sources = None) -> Plots:
        """What `tickscope figures` draws, by name: `run.plots()["causes"]`."""
        asked = _query(rho, slew, sources)
        if repr(asked) not in self._plots:
            self._plots[repr(asked)] = Plots(*self._inner.plots(asked))
        self._warn(asked)
        return self._plots[repr(asked)]

    def age(
        self,
        generated: str,
        received: str,
        limit: str | None = None,
        key: Key = None,
        rho: Rho = None,
        slew: Rho = None,
        sources: Sources = None,
    ) -> duckdb.DuckDBPyRelation:
        """How fresh what the point `received` knows of `generated` is: the mean over keys, then one row a key.

        `limit`, such as `5ms`: the share of the time above it.
        """
        asked = _query(rho, slew, sources)
        kept = f"age {generated!r} {received!r} {limit!r} {key!r} {asked!r}"
        if kept not in self._figures:
            self._figures[kept] = json.loads(self._inner.age((generated, received), limit, key, asked))
        self._warn(asked)
        return _ages_of(self._figures[kept], self._connection)

    def over_time(self, rho: Rho = None, slew: Rho = None, sources: Sources = None) -> duckdb.DuckDBPyRelation:
        """One row a 120th of the run: how many traces began in it, and their median, 99th percentile and longest."""
        found = self._slow(1, _query(rho, slew, sources))["over_time"]
        rows = pyarrow.Table.from_pylist(found["windows"] if found else [], schema=_OVER_TIME)
        return ask("over_time", self._connection.from_arrow(rows), "over_time")

    def traces(self, ids: Iterable[int] | None = None) -> duckdb.DuckDBPyRelation:
        """One row a trace: kind, id, occurrence, then a column a point, `node.point`, of raw ticks of that node's counter.

        Last, in runs that have it, `passages`: null but where an id passed a point more than once, see docs/run-format.md.

        `ids`: these only; a `range` of step 1 costs no more however long it is.
        """
        return _of_ids(self._read("traces"), ids)

    def durations(self, rho: Rho = None, ids: Iterable[int] | None = None) -> duckdb.DuckDBPyRelation:
        """One row a trace: kind, id, occurrence, then three columns a stage, in ticks of the reference: `STAGE` (the
        estimate), `STAGE.lo` and `STAGE.hi` (the guaranteed interval).

        Computed from traces and evidence where they are not kept for this rho already; the stamps are not joined again.
        """
        folder = self._inner.durations(_text(rho), self._scratch())
        self._warn(_query(rho, None, None))
        return _of_ids(self._parquet(sorted(folder.glob("[!.]*.parquet"))), ids)

    def stage_durations(self, stage: str, rho: Rho = None) -> duckdb.DuckDBPyRelation:
        """The durations of one stage: `id`, `estimate_ticks`, `lo_ticks`, `hi_ticks`, without the traces that lack them."""
        durations = self.durations(rho)
        known = _stages_of(durations)
        if stage not in known:
            raise _tickscope.TickscopeError(f"expected a stage of the layout: {', '.join(known)}; found '{stage}'")
        return ask("stage_durations", durations, "durations", stage)

    def boxes(self, rho: Rho = None) -> duckdb.DuckDBPyRelation:
        """One row a stage: what a box plot draws, quartiles and whiskers of the estimates in ticks of the reference."""
        durations = self.durations(rho)

        def box(stage: str) -> duckdb.DuckDBPyRelation:
            return ask("box", ask("stage_durations", durations, "durations", stage), "stage_durations", stage)

        return reduce(duckdb.DuckDBPyRelation.union, map(box, _stages_of(durations)))

    def histogram(self, stage: str, rho: Rho = None) -> duckdb.DuckDBPyRelation:
        """How many estimates of a stage lie in each of about 60 equal bins between its 1st and 99th percentile, and in as
        many more of that width as the tails reach."""
        return ask("histogram", self.stage_durations(stage, rho), "stage_durations")

    def log_histogram(self, stage: str, rho: Rho = None) -> duckdb.DuckDBPyRelation:
        """How many estimates of a stage lie in each bin, bins that widen with the values: none is wider than a 128th of
        them. Counts of several runs add up, and a quantile of their sum lies in the bin that it falls into."""
        return ask("log_histogram", self.stage_durations(stage, rho), "stage_durations")

    def clock_map(
        self, domain: str, reference: str | None = None, rho: Rho = None, sources: Sources = None
    ) -> ClockMap:
        """How ticks of `domain` (a node, or `node.counter`) become ticks of the run's reference."""
        own = str(self.manifest["reference"])
        if reference is not None and self._inner.label(reference) != own:
            raise _tickscope.TickscopeError(
                f"expected the run's reference {own}, found '{reference}'. Clock maps are kept to that; `inverse` leads back"
            )
        asked = _query(rho, None, sources)
        clock_map = ClockMap(self._inner.clock_map(domain, asked), self._inner.label(domain), own)
        self._warn(asked)
        return clock_map

    def events(self) -> duckdb.DuckDBPyRelation:
        """What happened and what was lost: one row an event."""
        return ask("events", self._read("events", _EVENTS), "events")

    def brackets(self) -> duckdb.DuckDBPyRelation:
        """The evidence about clocks that probes took: one row a constraint."""
        return ask("brackets", self._read("brackets", _BRACKETS), "brackets")

    def counts(self) -> duckdb.DuckDBPyRelation:
        """What channels under the policy `count` counted: one row a channel and period."""
        return ask("counts", self._read("counts", _COUNTS), "counts")

    def stamps(self, point: str) -> duckdb.DuckDBPyRelation:
        """The stamps of `node.point`: one row a stamp."""
        return ask("stamps", self._read("stamps", point=point), "stamps")

    def originals(self) -> duckdb.DuckDBPyRelation:
        """What ids are hashes of, where programs kept it: one row an original, `id` and `original`; text as it is,
        other bytes as hexadecimal digits. Join it to `traces` or `durations` by `id`."""
        ids, originals = self._inner.originals()
        columns = {"id": pyarrow.array(ids, pyarrow.int64()), "original": pyarrow.array(originals, pyarrow.string())}
        return self._connection.from_arrow(pyarrow.table(columns))

    def channels(self) -> duckdb.DuckDBPyRelation:
        """Who stamped where, by which policy, and how many stamps were kept: one row a channel."""
        channels = self._read("channels")
        lacking = [name for name in _SPARED if name not in channels.columns]
        spared = "".join(f", null::bigint as {name}" for name in lacking)
        return ask("channels", channels.project(f"*{spared}"), "channels")

    def _slow(self, slowest: float, asked: tuple[str | None, str | None, list[str] | None]) -> dict[str, Any]:
        if not 0 < slowest < 100:
            raise _tickscope.TickscopeError(
                f"expected a percentage above 0 and below 100, found {slowest}. Ask for slowest=1, or 0.1"
            )
        quantile = 1_000_000 - max(1, round(slowest * 10_000))
        key = f"{quantile} {asked!r}"
        if key not in self._figures:
            self._figures[key] = json.loads(self._inner.slow(quantile, asked))
        self._warn(asked)
        return self._figures[key]

    def _warn(self, asked: tuple[str | None, str | None, list[str] | None]) -> None:
        """Says what contradicts all that is asked by that query, and what of it is damaged; it costs a look at all
        traces, once."""
        if repr(asked) not in self._standings:
            self._standings[repr(asked)] = self._inner.finding(asked)
        finding, faults = self._standings[repr(asked)]
        self._warn_of_damage(faults)
        if finding is not None:
            warnings.warn(finding, FindingWarning, stacklevel=3)

    def _warn_of_damage(self, faults: list[str]) -> None:
        for fault in faults:
            warnings.warn(self.copy.named(fault) if self.copy else fault, DamagedRunWarning, stacklevel=4)

    def _read(
        self, table: str, empty: pyarrow.Schema | None = None, point: str | None = None
    ) -> duckdb.DuckDBPyRelation:
        files, refused = self._inner.files(table, point)
        for reason in refused:
            warnings.warn(reason, RefusedFileWarning, stacklevel=3)
        if files:
            return self._parquet(files, partitioned=table in ("brackets", "counts"))
        if empty is not None:
            return self._connection.from_arrow(empty.empty_table())
        remedy = "tickscope run joins them at its end" if table == "traces" else "is the run's collector still at work?"
        raise _tickscope.TickscopeError(f"expected {table} in {self.root}, found none: {remedy}")

    def _parquet(self, files: list[Path], partitioned: bool = False) -> duckdb.DuckDBPyRelation:
        # The table is lazy: its files stay while it may be asked, which ends with its connection.
        folders = [self.copy] if self.copy is not None else [self._aside] if self._aside is not None else []
        _FOLDERS.setdefault(self._connection, []).extend(folders)
        return self._connection.read_parquet(
            [_literal(file) for file in files], hive_partitioning=partitioned, union_by_name=True
        )

    def _scratch(self) -> str:
        """Where durations go if the run cannot be written; gone with this object, as they cost little to compute."""
        if self._aside is None:
            self._aside = tempfile.TemporaryDirectory(prefix="tickscope-")
        return self._aside.name


def _ages_of(found: dict[str, Any], connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """The table of what `tickscope show --age --json` has; its findings are warnings of whoever asked the caller."""
    for finding in found["findings"]:
        warnings.warn(finding, FindingWarning, stacklevel=3)
    mean = found["updates"] | {"is_mean": True, "key": None, "ages": found["over_keys"], "why": None}
    rows = [mean] + [row | {"is_mean": False} for row in found["keys"]]
    return ask("age", connection.from_arrow(pyarrow.Table.from_pylist(rows, schema=_AGE)), "ages")


def _literal(file: Path) -> str:
    """The name as DuckDB reads it, to which `*`, `?` and `[` are patterns in a list of names too."""
    return re.sub(r"[*?\[]", r"[\g<0>]", str(file))


def _layout_json(layout: Layout) -> str | None:
    return None if layout is None else json.dumps(layout)


def _query(rho: Rho, slew: Rho, sources: Sources) -> tuple[str | None, str | None, list[str] | None]:
    return _text(rho), _text(slew), None if sources is None else sorted(sources)


def _text(rho: Rho) -> str | None:
    return rho if rho is None or isinstance(rho, str) else str(rho)


def _stages_of(durations: duckdb.DuckDBPyRelation) -> list[str]:
    return [name for name in durations.columns if f"{name}.lo" in durations.columns]


def _of_ids(table: duckdb.DuckDBPyRelation, ids: Iterable[int] | None) -> duckdb.DuckDBPyRelation:
    if ids is None:
        return table
    if isinstance(ids, range) and ids.step == 1:
        return table.filter(f"id >= {ids.start} and id < {ids.stop}")
    listed = ", ".join(str(int(id)) for id in ids)
    return table.filter(f"id in ({listed})" if listed else "false")


_QUANTILE = pyarrow.struct(
    [("ticks", pyarrow.int64()), ("lo_ticks", pyarrow.int64()), ("hi_ticks", pyarrow.int64())]
    + [("ns", pyarrow.float64()), ("lo_ns", pyarrow.float64()), ("hi_ns", pyarrow.float64())]
)
_SHARE = pyarrow.struct([(name, pyarrow.float64()) for name in ("ratio", "lo_ratio", "hi_ratio")])
_COMMON = pyarrow.struct(
    [("below_ticks", pyarrow.int64()), ("above_ticks", pyarrow.int64())]
    + [("below_ns", pyarrow.float64()), ("above_ns", pyarrow.float64())]
)
_RELATIVE = pyarrow.struct(
    [("run_ticks", pyarrow.int64()), ("one_ms_apart_ticks", pyarrow.int64())]
    + [("run_ns", pyarrow.float64()), ("one_ms_apart_ns", pyarrow.float64())]
)
_FIGURES = pyarrow.schema(
    [(name, pyarrow.string()) for name in ("stage", "from", "to", "role")]
    + [(name, pyarrow.int64()) for name in ("count", "missing", "refused", "impossible")]
    + [(name, _QUANTILE) for name in ("p50", "p99", "p999", "max", "mean")]
    + [("share", _SHARE), ("common", _COMMON), ("relative", _RELATIVE)]
    + [("core_ticks", pyarrow.int64()), ("sign", pyarrow.string()), ("spread", pyarrow.string())]
)
_TAIL = pyarrow.schema(
    [("name", pyarrow.string()), ("median_ticks", pyarrow.int64()), ("mean_ticks", pyarrow.float64())]
    + [("excess_ticks", pyarrow.float64()), ("bound_ticks", pyarrow.int64())]
    + [
        (
            "share",
            pyarrow.struct(
                [("estimate", pyarrow.float64())]
                + [(name, pyarrow.list_(pyarrow.float64())) for name in ("clocks", "interval")]
            ),
        )
    ]
    + [("covariance_share", pyarrow.float64())]
    + [("what_if", pyarrow.struct([(f"{name}_ticks", pyarrow.int64()) for name in ("from", "to", "bound")]))]
    + [("among_causes", pyarrow.int64()), ("leads", pyarrow.int64())]
    + [("sure", pyarrow.float64()), ("unresolved", pyarrow.string())]
)
_CAUSES = pyarrow.schema(
    [("name", pyarrow.string()), ("is_whole", pyarrow.bool_()), ("threshold_ticks", pyarrow.float64())]
    + [("caused", pyarrow.int64()), ("outliers", pyarrow.int64())]
)
_SPAN = pyarrow.struct([(f"{name}_ticks", pyarrow.int64()) for name in ("estimate", "lo", "hi")])
_AGES = pyarrow.struct(
    [(name, _SPAN) for name in ("average", "peak", "without_delay", "excess")]
    + [("above", pyarrow.struct([(name, pyarrow.float64()) for name in ("estimate", "lo", "hi")]))]
)
_AGE = pyarrow.schema(
    [("is_mean", pyarrow.bool_()), ("key", pyarrow.int64()), ("ages", _AGES), ("why", pyarrow.string())]
    + [(name, pyarrow.int64()) for name in ("received", "lost", "effective", "obsolete", "out_of_order")]
)
_OVER_TIME = pyarrow.schema(
    [("begins_ticks", pyarrow.int64()), ("traces", pyarrow.int64()), ("whole_ticks", pyarrow.list_(pyarrow.int64()))]
)
_LEVEL = pyarrow.struct([("ticks", pyarrow.int64())])
_COMPARISON = pyarrow.schema(
    [(name, pyarrow.string()) for name in ("stage", "role", "quantile", "verdict", "limited_by")]
    + [("before", _LEVEL), ("after", _LEVEL)]
    + [
        (
            "shift",
            pyarrow.struct(
                [(name, pyarrow.int64()) for name in ("ticks", "lo_ticks", "hi_ticks")]
                + [(f"clocks_{side}_ticks", pyarrow.int64()) for side in ("below", "above")]
            ),
        )
    ]
)
# Columns of channels that a run may lack.
_SPARED = ("parameter", "removed", "seen", "counted", "overwritten")
# A run without these files is a whole one; their columns are those of docs/run-format.md.
_EVENTS = pyarrow.schema(
    [("node", pyarrow.string()), ("channel", pyarrow.int32()), ("domain", pyarrow.string())]
    + [("tick", pyarrow.int64()), ("until", pyarrow.int64()), ("what", pyarrow.string())]
    + [("value", pyarrow.int64()), ("text", pyarrow.string())]
)
_COUNTS = pyarrow.schema(
    [("channel", pyarrow.int32()), ("before", pyarrow.int64()), ("total", pyarrow.int64()), ("after", pyarrow.int64())]
    + [("count", pyarrow.int64()), ("periods", pyarrow.int32()), ("period_ns", pyarrow.int64())]
    + [("node", pyarrow.string())]
)
_BRACKETS = pyarrow.schema(
    [("before", pyarrow.int64()), ("at", pyarrow.int64()), ("after", pyarrow.int64())]
    + [(name, pyarrow.string()) for name in ("source", "ordering", "reference", "domain")]
)
