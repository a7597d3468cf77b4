"""Measure where time goes, with a guaranteed error bound on every duration: runs as tables, points to stamp at, sections to time.

    run = tickscope.open("runs/mine")
    run.stages()                                   # a DuckDB relation: one row a stage, both bounds
    run.durations(rho="lab")                       # asked again under another rho

    sent = tickscope.point("sent", "before")
    sent(packet_id)

    with tickscope.section() as section:           # how long it took: section.at_most_ticks, section.between_ticks
        work()

Ticks are 64-bit readings of the counter of the domain that a column names; nanoseconds are ticks over its declared rate.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tickscope._tickscope import VERSION as __version__
from tickscope._tickscope import Finding, Point, Section, TickscopeError, id_of, keep_id, point
from tickscope.meter import section

if TYPE_CHECKING:
    from tickscope import stats
    from tickscope.clock_map import ClockMap, Segment
    from tickscope.joins import join
    from tickscope.run import (
        DamagedRunWarning,
        FindingWarning,
        RefusedFileWarning,
        Run,
        UnfinishedRunWarning,
        compare,
        open,
    )
    from tickscope.runs import Runs
    from tickscope.uploads import upload

# What a measured program does not carry: DuckDB and pyarrow are imported when a run is opened.
_LATER = (
    dict.fromkeys(("ClockMap", "Segment"), "clock_map")
    | {"Runs": "runs", "join": "joins", "upload": "uploads"}
    | dict.fromkeys(
        ("DamagedRunWarning", "FindingWarning", "RefusedFileWarning", "Run", "UnfinishedRunWarning", "compare", "open"),
        "run",
    )
)

__all__ = [
    "ClockMap",
    "DamagedRunWarning",
    "Finding",
    "FindingWarning",
    "Point",
    "RefusedFileWarning",
    "Run",
    "Runs",
    "Section",
    "Segment",
    "TickscopeError",
    "UnfinishedRunWarning",
    "__version__",
    "compare",
    "id_of",
    "join",
    "keep_id",
    "open",
    "point",
    "section",
    "stats",
    "upload",
]


def __getattr__(name: str) -> Any:
    if name == "stats":
        return importlib.import_module("tickscope.stats")
    if name not in _LATER:
        raise AttributeError(f"module 'tickscope' has no attribute '{name}'")
    found = getattr(importlib.import_module(f"tickscope.{_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
