"""Many runs at once: one table of all, with the run's name in front; each run by its own clocks and layout."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from tickscope import _tickscope
from tickscope.storage import MANIFEST, expanded, is_address, shown

if TYPE_CHECKING:
    from tickscope.run import Rho, Sources


class Runs:
    """Runs by their names, each the last part of its path where no two share it. Their tables have the column `run`
    first, then those of the one run's tables; columns that a run lacks are null."""

    def __init__(self, runs: list[Any]) -> None:
        self._runs: dict[str, Any] = dict(zip(_names([run.address for run in runs]), runs, strict=True))
        _expect_each_once([(run.address, str(run.manifest["run"])) for run in runs])

    def __repr__(self) -> str:
        return f"<tickscope.Runs {', '.join(self._runs)}>"

    def __getitem__(self, name: str) -> Any:
        return self._runs[name]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Any:
        return iter(self._runs)

    def stages(self, rho: Rho = None, slew: Rho = None, sources: Sources = None) -> Any:
        """One row a run and stage, as `stages` of one run."""
        return self._together(lambda run: run.stages(rho, slew, sources))

    def causes(self, rho: Rho = None, slew: Rho = None, sources: Sources = None) -> Any:
        """One row a run and stage of its path, as `causes` of one run."""
        return self._together(lambda run: run.causes(rho, slew, sources))

    def durations(self, rho: Rho = None) -> Any:
        """One row a run and trace, as `durations` of one run."""
        return self._together(lambda run: run.durations(rho))

    def stage_durations(self, stage: str, rho: Rho = None) -> Any:
        """The durations of one stage, which every run must have: one row a run and trace."""
        return self._together(lambda run: run.stage_durations(stage, rho))

    def log_histogram(self, stage: str, rho: Rho = None) -> Any:
        """Bins of one stage, which every run must have, as `log_histogram` of one run: sum `durations` by bin."""
        return self._together(lambda run: run.log_histogram(stage, rho))

    def _together(self, ask: Callable[[Any], Any]) -> Any:
        tables = {}
        for name, run in self._runs.items():
            try:
                tables[name] = ask(run)
            except _tickscope.TickscopeError as why:
                raise type(why)(f"{shown_run(run.address)}: {why}") from None
        columns = list(dict.fromkeys(column for table in tables.values() for column in table.columns))
        return reduce(lambda one, other: one.union(other), (_named(*item, columns) for item in tables.items()))


def found(runs: Iterable[str | Path]) -> list[str | Path]:
    """The runs that paths and addresses name, with `*` in their last part: each once, in the order of their names."""
    all_found: list[str | Path] = []
    for run in runs:
        if is_address(run):
            named: list[str | Path] = list(expanded(str(run)))
        else:
            places = sorted(glob.glob(str(run))) if "*" in str(run) else [str(run)]
            named = list(dict.fromkeys(Path(place).resolve() for place in places if (Path(place) / MANIFEST).exists()))
        if not named:
            raise _tickscope.TickscopeError(f"expected runs at {shown_run(str(run))}, found none. Name their folders")
        all_found += named
    if not all_found:
        raise _tickscope.TickscopeError("expected a run or more, found an empty list. Name one")
    return all_found


def shown_run(run: str) -> str:
    return shown(run) if is_address(run) else run


def _names(addresses: list[str]) -> list[str]:
    places = [shown_run(address) for address in addresses]
    last = [place.rstrip("/").rpartition("/")[2] for place in places]
    return last if len(set(last)) == len(last) else places


def _expect_each_once(runs: list[tuple[str, str]]) -> None:
    seen: dict[str, str] = {}
    for address, id in runs:
        if id in seen:
            raise _tickscope.TickscopeError(
                f"expected each run once, found run {id} at {shown_run(seen[id])} and {shown_run(address)}. "
                "Name one of them"
            )
        seen[id] = address


def _named(name: str, table: Any, columns: list[str]) -> Any:
    if isinstance(table, duckdb.DuckDBPyRelation):
        quoted = ['"' + column.replace('"', '""') + '"' for column in columns]
        here = [of if column in table.columns else f"null as {of}" for of, column in zip(quoted, columns, strict=True)]
        literal = name.replace("'", "''")
        return table.project(", ".join([f"'{literal}' as run", *here]))
    from pyspark.sql.functions import col, lit

    spark_columns = [col(f"`{of}`") if of in table.columns else lit(None).alias(of) for of in columns]
    return table.select(lit(name).alias("run"), *spark_columns)
