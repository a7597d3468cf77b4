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

from tickscope import stats
from tickscope._tickscope import VERSION as __version__
from tickscope._tickscope import Finding, Point, Section, TickscopeError, point
from tickscope.clock_map import ClockMap, Segment
from tickscope.meter import section
from tickscope.run import DamagedRunWarning, FindingWarning, RefusedFileWarning, Run, UnfinishedRunWarning, open

__all__ = [
    "ClockMap",
    "DamagedRunWarning",
    "Finding",
    "FindingWarning",
    "Point",
    "RefusedFileWarning",
    "Run",
    "Section",
    "Segment",
    "TickscopeError",
    "UnfinishedRunWarning",
    "__version__",
    "open",
    "point",
    "section",
    "stats",
]
