"""The table of a run by SQL alone, the same digits as the core's, for engines that have no core where the stamps lie.

Idea: `sql/` has each statement once, in what DuckDB and Spark share; long form, one shuffle by id. The core hands over
layout and clocks; what a clock map says of a tick becomes a row of a table that every worker has: straight segments in
integers, exact to 2^-60 of a tick. Assumes: ids that pass each point once at most, stamped by their nodes' counters.
Guarantees: whatever else is there is refused with its reason, and so is what 64 bits do not hold: nothing is
approximated. Deliberately absent: how the clocks were found, which is the core's; any engine.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from tickscope import _tickscope

STATEMENTS = files("tickscope") / "sql"

LIMB = 30
"""Bits of a slope's small limb; a segment is at most 2^30 ticks long, so that limb times ticks stays in 64 bits."""
MOST_BUCKETS = 1 << 34
"""A point's pieces of 2^30 ticks are numbered from its number times this: one key of 64 bits joins fastest."""
FRACTION = 60
MOST_SLOPE = 1 << 62
"""Slopes stay below 4 ticks of the reference a tick, in units of 2^-60."""

CLOCKS = ["place", "first_tick", "last_tick"] + [
    f"{line}_{part}" for line in ("lo", "hi", "middle") for part in ("whole", "part", "large", "small")
]
STAGES = ["stage", "from_point", "to_point", "from_width", "to_width", "is_mapped", "is_path", "route"] + [
    f"{slope}_{limb}" for slope in ("slow", "fast") for limb in ("large", "small")
]
VIEWS = ("traces", "ends", "durations", "sample_values")
"""Statements that the next one names; `figures` is the last."""
_QUANTILES = ("p50", "p99", "p999", "max", "mean")
COLUMNS = ["stage", "from_point", "to_point", "role", "count", "missing", "refused", "impossible"] + [
    f"{quantile}_{side}ticks" for quantile in _QUANTILES for side in ("", "lo_", "hi_")
]
"""Columns of the table, named as those of `Run.stages`; the first four are text, the others 64-bit integers."""
BOXES = ["stage", "q1_ticks", "median_ticks", "q3_ticks", "lower_whisker_ticks", "upper_whisker_ticks", "outliers"]
"""Columns of the boxes, named as those of `Run.boxes`."""
CAUSES = ["stage", "is_whole", "threshold_ticks", "caused", "outliers"]
"""Columns of the causes, named as those of `Run.causes`."""
_TOKENS = {"END": ["from", "to"], "BOUND": ["lo", "hi"], "SIDE": ["estimate", "lo", "hi"]}
_OF_ROUTE = {False: 1, True: 2}
"""`route` of a stage: 1 is one of those that add up to the whole, 2 the whole; 0 neither."""


class Engine(Protocol):
    """What runs the statements. Integers of 64 bits that overflow must be an error there, never wrapped or null."""

    def stamps(self, points: Sequence[Sequence[Path]]) -> None:
        """Makes the view `stamps` of the files of each point: point, kind (null: 0), id, tick, ids, attempt, value."""

    def table(self, name: str, columns: Sequence[str], rows: Sequence[tuple[int, ...]]) -> None:
        """Makes a table of 64-bit integers, small enough for every worker."""

    def view(self, name: str, query: str) -> None:
        """Names a query."""

    def keep(self, name: str, query: str) -> None:
        """Names a query whose rows are computed once, until `forget`."""

    def forget(self, name: str) -> None:
        """Gives up rows that were kept."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Runs a query."""


@dataclass(frozen=True)
class Plan:
    """What the core says of a run: its points (name, counter, width of a reading, clock map), its stages (name, from,
    to, role), and whether their order was inferred."""

    points: list[tuple[str, int, int, _tickscope.ClockMap | None]]
    stages: list[tuple[str, int, int, str]]
    inferred: bool


def prepare(plan: Plan, engine: Engine, stamps: Sequence[Sequence[Path]], stage: str | None = None) -> None:
    """Makes the views that all questions are put to, of the files with the stamps of each point; those that are about
    one stage alone need no other."""
    numbers = range(len(plan.stages)) if stage is None else [_number(plan, stage)]
    engine.stamps(stamps)
    read = f"select point, shiftright(tick, {LIMB}), min(tick), max(tick) from stamps group by 1, 2"
    held: dict[int, dict[int, tuple[int, int]]] = {}
    for point, bucket, first, last in engine.rows(read):
        held.setdefault(int(point), {})[int(bucket)] = (int(first), int(last))
    clocks = []
    for point, buckets in held.items():
        first, last = min(first for first, _ in buckets.values()), max(last for _, last in buckets.values())
        clocks += _segments(plan, point, first, last, buckets.keys())
    engine.table("clocks", CLOCKS, clocks)
    engine.table("stages", STAGES, [_stage(plan, number) for number in numbers])
    for name in VIEWS:
        engine.view(name, statement_text(name, plan))


def stage_rows(plan: Plan, engine: Engine) -> list[tuple[Any, ...]]:
    """The table, a row a stage, of what was prepared."""
    sides: dict[tuple[int, int], tuple[Any, ...]] = {}
    for stage, side, *figures in engine.rows(statement_text("figures", plan)):
        sides[int(stage), int(side)] = tuple(None if figure is None else int(figure) for figure in figures)
    if not sides:
        raise _tickscope.TickscopeError("expected stamps at the points of the layout, found none. Was it collected?")
    _expect_single_passages(*next(iter(sides.values()))[4:6])
    return [_row(plan, number, [sides.get((number, side)) for side in range(3)]) for number in range(len(plan.stages))]


def causes(plan: Plan, engine: Engine) -> list[tuple[Any, ...]]:
    """Outliers and what causes them by X-Lap's rule, a row a stage of the path and the whole, of what was prepared."""
    expect_each_id_once(engine)
    found = {int(stage): figures for stage, *figures in engine.rows(statement_text("causes", plan))}
    outliers = max((int(above) for *_, above in found.values()), default=0)
    rows = []
    for number in _route(plan):
        eighths, caused, _ = found.get(number, (None, 0, 0))
        name, _, _, role = plan.stages[number]
        is_whole = role == "end-to-end"
        threshold = None if eighths is None else int(eighths) / 8
        rows.append((name, is_whole, threshold, 0 if is_whole else int(caused), outliers))
    return rows


def stage_durations(plan: Plan, engine: Engine, stage: str) -> str:
    """The query for the durations of one stage, of what was prepared."""
    number = _number(plan, stage)
    expect_each_id_once(engine)
    return statement_text("stage_durations", plan).replace("STAGE", str(number))


def _number(plan: Plan, stage: str) -> int:
    names = [name for name, *_ in plan.stages]
    if stage not in names:
        raise _tickscope.TickscopeError(f"expected a stage of the layout: {', '.join(names)}; found '{stage}'")
    return names.index(stage)


def drawn(statement: str, plan: Plan, engine: Engine, stage: str) -> str:
    """The query for what is drawn of one stage: `histogram`, `log_histogram`."""
    engine.view("stage_durations", stage_durations(plan, engine, stage))
    return statement_text(statement, plan)


def boxes(plan: Plan, engine: Engine) -> list[tuple[Any, ...]]:
    """What a box plot draws, a row a stage, of what was prepared."""
    expect_each_id_once(engine)
    values = "select stage, estimate_ticks from durations where outcome in ('measured', 'impossible')"
    engine.keep("stage_values", values)
    found: list[tuple[Any, ...]] = []
    for number, (name, *_) in enumerate(plan.stages):
        engine.view("stage_durations", f"select estimate_ticks from stage_values where stage = {number}")
        found += [(name, *row[1:]) for row in engine.rows(statement_text("box", plan))]
    engine.forget("stage_values")
    return found


def wide_durations(plan: Plan, engine: Engine) -> tuple[str, dict[str, str]]:
    """The query for the durations of all stages, a row a trace; the names of its columns, in their order."""
    expect_each_id_once(engine)
    names = {name: name for name in ("kind", "id", "occurrence")}
    for number, (name, *_) in enumerate(plan.stages):
        names |= {f"estimate_{number}": name, f"lo_{number}": f"{name}.lo", f"hi_{number}": f"{name}.hi"}
    return statement_text("wide_durations", plan), names


def statement_text(name: str, plan: Plan) -> str:
    """A statement of `sql/`, with the lines that stand for each point, stage, end, bound or side written out."""
    lines = (STATEMENTS / f"{name}.sql").read_text().splitlines()
    points, stages = (list(map(str, range(len(of)))) for of in (plan.points, plan.stages))
    for token, values in {"POINT": points, "NUMBER": stages, **_TOKENS}.items():
        lines = _repeated(lines, token, values)
    return "\n".join(lines)


def _repeated(lines: Iterable[str], token: str, values: list[str]) -> list[str]:
    """Neighbouring lines whose code has the token once a value, together; all others as they are."""
    result: list[str] = []
    for is_repeated, block in groupby((line.split("--")[0] for line in lines), lambda line: token in line):
        text = list(block)
        result += [line.replace(token, value) for value in values for line in text] if is_repeated else text
    return result


class _Bounds:
    """The bounds of a clock map at any tick between its first and last vertex, in units of 2^-60."""

    def __init__(self, vertices: list[tuple[int, int, int]]) -> None:
        self.vertices = vertices
        self.ticks = [tick for tick, _, _ in vertices]

    def at(self, tick: int) -> tuple[int, int]:
        after = bisect_right(self.ticks, tick)
        first, lo, hi = self.vertices[after - 1]
        if after == len(self.ticks):
            return lo, hi
        last, lo_last, hi_last = self.vertices[after]
        apart, past = last - first, tick - first
        return lo + (lo_last - lo) // apart * past, hi + (hi_last - hi) // apart * past


def _segments(plan: Plan, point: int, first: int, last: int, buckets: Set[int]) -> list[tuple[int, ...]]:
    """Where a point's readings from `first` to `last`, in those buckets, lie on the reference: the lower bound at the
    reading, the upper one where the counter moved on, and twice the middle at the reading; straight, and each in one
    bucket."""
    name, _, width, clock_map = plan.points[point]
    end = last + width
    vertices = [(tick, tick << FRACTION, tick << FRACTION) for tick in (first, end)]
    bounds = _Bounds(vertices if clock_map is None else clock_map.vertices(first, end))
    bends = {tick for of in bounds.ticks for tick in (of, of - width) if first <= tick <= last}
    bends |= {tick for bucket in buckets for tick in (bucket << LIMB, bucket + 1 << LIMB) if first < tick <= last}
    starts = sorted(bends | {first})

    def lines(tick: int) -> tuple[int, int, int]:
        lo, hi = bounds.at(tick)
        return lo, bounds.at(tick + width)[1], lo + hi

    rows = []
    for start, following in zip(starts, [*starts[1:], last + 1], strict=True):
        if start >> LIMB not in buckets:
            continue
        here = lines(start)
        ahead = lines(start + 1) if following - start > 1 else here
        slopes = [there - value for value, there in zip(here, ahead, strict=True)]
        if not all(0 <= slope < MOST_SLOPE for slope in slopes[:2]):
            raise _refused(f"the counter of {name} runs less than a fourth as fast as the reference")
        row = [point * MOST_BUCKETS + (start >> LIMB), start, following - 1]
        for value, slope, bits in zip(here, slopes, (FRACTION, FRACTION, FRACTION + 1), strict=True):
            low = bits - LIMB
            row += [value >> bits, value & ((1 << bits) - 1), slope >> low, slope & ((1 << low) - 1)]
        rows.append(tuple(row))
    return rows


def _stage(plan: Plan, number: int) -> tuple[int, ...]:
    _, start, end, role = plan.stages[number]
    (_, counter, from_width, clock_map), (_, other, to_width, _) = plan.points[start], plan.points[end]
    is_mapped = clock_map is not None and counter == other
    slopes = clock_map.slopes if clock_map is not None and is_mapped else (0, 0)
    limbs = [limb for slope in slopes for limb in (slope >> LIMB, slope & ((1 << LIMB) - 1))]
    is_path = role in ("path", "end-to-end") and not plan.inferred
    route = _OF_ROUTE[role == "end-to-end"] if number in _route(plan) else 0
    return (number, start, end, from_width, to_width, int(is_mapped), int(is_path), route, *limbs)


def _route(plan: Plan) -> list[int]:
    """The stages that add up to the whole, one after the other, and then the whole: where paths divide, those to its
    end. None of them if there is no whole, or several ways lead to its end."""
    wholes = [number for number, (*_, role) in enumerate(plan.stages) if role == "end-to-end"]
    if not wholes:
        return []
    route = wholes[:1]
    _, begin, place, _ = plan.stages[wholes[0]]
    while place != begin:
        before = [number for number, (_, _, to, role) in enumerate(plan.stages) if role == "path" and to == place]
        if len(before) != 1 or before[0] in route:
            return []
        place, route = plan.stages[before[0]][1], before + route
    return route


def expect_each_id_once(engine: Engine) -> None:
    """Refuses what was prepared if an id passed a point more than once, or stands for others."""
    counted = "count(case when special = 0 and repeats > 0 then 1 end), count(case when special > 0 then 1 end)"
    found = engine.rows(f"select {counted} from ends where stage = (select min(stage) from stages)")
    _expect_single_passages(*map(int, found[0]))


def _expect_single_passages(repeated: int, special: int) -> None:
    if special:
        raise _refused(f"{special} ids have stamps that stand for many ids, or say that they were sent again")
    if repeated:
        raise _refused(f"{repeated} ids passed a point more than once, which takes more than SQL to tell apart")


def _refused(found: str) -> _tickscope.TickscopeError:
    return _tickscope.TickscopeError(
        f"expected a run whose table SQL tells to the last tick, found one where {found}. Open it without engine"
    )


def _row(plan: Plan, number: int, sides: list[tuple[Any, ...] | None]) -> tuple[Any, ...]:
    name, start, end, role = plan.stages[number]
    named = (name, plan.points[start][0], plan.points[end][0], role)
    estimates, lower, upper = (side or (0,) * 6 + (None,) * 5 for side in sides)
    measured, missing, refused, impossible = estimates[:4]
    figures = [figure for of in zip(estimates[6:10], lower[6:10], upper[6:10], strict=True) for figure in of]
    sums = [side[10] for side in (estimates, lower, upper)]
    if measured:
        figures += [(2 * sums[0] + measured) // (2 * measured), sums[1] // measured, -(-sums[2] // measured)]
    else:
        figures += [None] * 3
    return (*named, measured, missing, refused, impossible, *figures)
