"""Age of information by SQL, the same digits as the core's (`crates/analysis/src/age.rs`), on the views of `portable`.

Idea: `sql/` sums areas, peaks and times above the limit by key, exactly, with delays as estimated, shortest and
longest; what is left is a handful of divisions a key, rounded outward here. Assumes and refuses what `portable` does.
Guarantees: the numbers of `tickscope show --age --json`. Deliberately absent: the line that a page draws; an answer for
more keys than one machine holds a row of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tickscope import _tickscope
from tickscope.portable import Engine, Plan, expect_each_id_once, prepare, statement_text

SIDES = ("estimate", "lo", "hi")
KEYS = ["key", "is_keyed", "begin_ticks", "end_ticks", "reading_ticks", "fixed_ticks", "error_ticks", "of_ticks"] + [
    f"limit_{side}" for side in SIDES
]
FEW_UPDATES, MOST_KEYS, MOST_NAMED = 30, 1000, 5
MOST_OF = 1 << 42
"""Of the axis's slope: its parts have to be fewer, or products leave 64 bits."""
NEAR = 8
"""Ticks beyond a reading's width: a counter a fourth as fast as the reference has then moved by one of its ticks."""

Three = tuple[int, int, int]
"""As estimated, at least, at most."""
Key = tuple[int, int]
"""A key, and 1; or two 0 for none."""


@dataclass(frozen=True)
class AgePlan:
    """A question and the core's part of it: the two points, keys, limit, the receiver's axis (reading, fixed, slope),
    ticks by which cores differ at each point, and stamps that are missing there."""

    places: tuple[str, str]
    key: str
    limit_ns: int | None
    limit_ticks: tuple[int, int] | None
    axis: tuple[int, int, int, int]
    core_ticks: tuple[int, int]
    lacking: list[str]


def ages(plan: Plan, asked: AgePlan, engine: Engine, stamps: Sequence[Sequence[Path]]) -> dict[str, Any]:
    """What `tickscope show --age --json` has as `age`; `stamps`: the files of the two points."""
    names = [name for name, *_ in plan.points]
    points = [plan.points[names.index(place)] for place in asked.places]
    stages = [("delay", 0, 1, "extra"), ("first", 0, 0, "extra"), ("second", 1, 1, "extra")]
    two = Plan(points, stages, plan.inferred)
    prepare(two, engine, stamps)
    expect_each_id_once(engine)
    key = {"value": "from_value", "kind": "cast(kind as bigint)", "none": "cast(null as bigint)"}[asked.key]
    engine.keep("updates", statement_text("updates", two).replace("KEY", key))
    try:
        return _of_updates(two, asked, engine)
    finally:
        engine.forget("updates")


def _of_updates(two: Plan, asked: AgePlan, engine: Engine) -> dict[str, Any]:
    keys = {(int(row[0]), int(row[1])): _Key.of(row[2:]) for row in engine.rows(statement_text("update_counts", two))}
    window = _window(asked, keys)
    begin, end = window[1]
    rows = [(*key, begin, end, *asked.axis, *of.limits(asked)) for key, of in keys.items() if of.received]
    engine.table("keys", KEYS, rows)
    _measure(two, asked, engine, keys)
    return _answer(asked, keys, window, engine.rows(statement_text("impossible_updates", two)))


def _measure(plan: Plan, asked: AgePlan, engine: Engine, keys: dict[Key, _Key]) -> None:
    """Puts what the statements sum into the keys."""
    near = [
        str(0 if cores == 0 else width + NEAR)
        for cores, (_, _, width, _) in zip(asked.core_ticks, plan.points, strict=True)
    ]
    pairs = statement_text("pairs", plan).replace("NEAR_FROM", near[0]).replace("NEAR_TO", near[1])
    engine.view("pairs", pairs)
    engine.view("pair_durations", statement_text("durations", plan).replace("from ends", "from pairs as ends"))
    for name in ("arrivals", "generations"):
        engine.view(name, statement_text(name, plan))
    sawtooth = statement_text("sawtooth", plan)
    for row in engine.rows(statement_text("unresolved", plan)):
        keys[int(row[0]), int(row[1])].unresolved = int(row[2])
    for row in engine.rows(statement_text("peaks", plan)):
        of = keys[int(row[0]), int(row[1])]
        of.effective, of.obsolete, of.out_of_order = map(int, row[2:5])
        of.peaks = _three(row[5:8])
    for row in engine.rows(sawtooth.replace("ARRIVALS", "arrivals")):
        keys[int(row[0]), int(row[1])].aged = _Area.of(row[2:])
    for row in engine.rows(sawtooth.replace("ARRIVALS", "generations")):
        keys[int(row[0]), int(row[1])].without_delay = _Area.of(row[2:])


@dataclass(frozen=True)
class _Area:
    doubled: Three
    above: Three
    first: Three
    least: Three

    @classmethod
    def of(cls, row: Sequence[Any]) -> _Area:
        """Of a row that has the four figures side by side."""
        return cls(*(_three([row[place + 4 * side] for side in range(3)]) for place in range(4)))


@dataclass
class _Key:
    received: int
    lost: int
    refused: int
    ungenerated: int
    impossible: int
    first: int | None
    last: int | None
    least_lo: int
    least_hi: int
    unresolved: int = 0
    effective: int = 0
    obsolete: int = 0
    out_of_order: int = 0
    peaks: Three = (0, 0, 0)
    aged: _Area | None = None
    without_delay: _Area | None = None

    @classmethod
    def of(cls, row: Sequence[Any]) -> _Key:
        """Of a row of `update_counts`, after the key."""
        received, lost, refused, ungenerated, impossible = map(int, row[:5])
        first, last, _, least_lo, least_hi = (None if value is None else int(value) for value in row[5:10])
        return cls(received, lost, refused, ungenerated, impossible, first, last, least_lo or 0, least_hi or 0)

    def limits(self, asked: AgePlan) -> Three:
        """What the three sawteeth are held against, as `limits` of crates/trace/src/age.rs."""
        if asked.limit_ticks is None:
            return 0, 0, 0
        _, fixed, error, of = asked.axis
        down, up = asked.limit_ticks
        lower, upper = up + fixed, down - fixed
        beyond = max(lower - self.least_lo, 0) * of
        lower = min(lower, self.least_lo) - (-beyond) // (of - error)
        return down, lower, upper + fixed - _over(asked, upper - self.least_hi)


def _three(values: Sequence[Any]) -> Three:
    estimate, lo, hi = map(int, values)
    return estimate, lo, hi


def _over(asked: AgePlan, ticks: int) -> int:
    """How far so much time on the receiver's axis may be wrong."""
    _, fixed, error, of = asked.axis
    return fixed - (-error * max(ticks, 0)) // of


def _window(asked: AgePlan, keys: dict[Key, _Key]) -> tuple[int, tuple[int, int], tuple[int, int]]:
    """The last tick at which a key that counts is first received; the window, and all receptions."""
    reading, _, error, of = asked.axis
    if error >= of or of >= MOST_OF:
        raise _tickscope.TickscopeError(
            f"expected a clock of {asked.places[1]} that errs by less than its time, found {error} of {of} ticks. Open "
            "the run without engine"
        )
    firsts = [of.first for of in keys.values() if of.first is not None]
    if firsts:
        first, last = min(firsts), max(of.last for of in keys.values() if of.last is not None)
        half = first + (last - first) // 2
        begin = max(at for at in firsts if at <= half) + reading
        if begin < last:
            return half, (begin, last), (first + reading, last)
    total = {name: sum(getattr(of, name) for of in keys.values()) for name in ("received", "lost", "refused")}
    raise _tickscope.TickscopeError(
        f"expected updates from {asked.places[0]} to {asked.places[1]} at two instants or more, found "
        f"{total['received']} received, {total['lost']} not received, "
        f"{sum(of.ungenerated for of in keys.values())} without a generation, {total['refused']} without an interval. "
        "Name two points that one id passes, on nodes that evidence relates; measure longer"
    )


@dataclass(frozen=True)
class _Found:
    """Ages of a key: each an estimate with both ends, or None."""

    key: _Key
    average: Three
    peak: Three | None
    above: Three | None
    without_delay: Three | None
    excess: Three | None


def _found(asked: AgePlan, of: _Key, begin: int, length: int) -> _Found:
    aged, prompt = of.aged, of.without_delay
    assert aged is not None
    assert prompt is not None
    average = _bounded(asked, aged.doubled, 2 * length, aged.least)
    peak = _bounded(asked, of.peaks, of.effective, aged.least) if of.effective else None
    above = None if asked.limit_ticks is None else _around(asked, aged.above, length)
    if max(prompt.first) > begin:
        return _Found(of, average, peak, above, None, None)
    without = _bounded(asked, prompt.doubled, 2 * length, prompt.least)
    excess = (average[0] - without[0], average[1] - without[2], average[2] - without[1])
    return _Found(of, average, peak, above, without, excess)


def _bounded(asked: AgePlan, sums: Three, count: int, least: Three) -> Three:
    lo, hi = sums[1] // count, -(-sums[2] // count)
    nearest = (2 * sums[0] + count) // (2 * count)
    return nearest, lo - _over(asked, lo - least[1]), hi + _over(asked, hi - least[2])


def _around(asked: AgePlan, parts: Three, length: int) -> Three:
    """Parts of a window, with what they may be of it in true time."""
    _, fixed, error, of = asked.axis

    def open_ticks(part: int) -> int:
        return 2 * (-(-error * abs(min(part, length - part)) // (of - error)) + fixed)

    near, lo, hi = parts
    return near, max(lo - open_ticks(lo), 0), min(hi + open_ticks(hi), length)


def _answer(
    asked: AgePlan,
    keys: dict[Key, _Key],
    window: tuple[int, tuple[int, int], tuple[int, int]],
    impossible: list[tuple[Any, ...]],
) -> dict[str, Any]:
    half, (begin, end), full = window
    length = end - begin
    known = sorted(key for key, of in keys.items() if of.received + of.lost + of.refused)
    known.sort(key=lambda key: (key[1], key[0]))
    counted = [keys[key] for key in known if _why(keys[key], half) is None]
    found = {key: _found(asked, keys[key], begin, length) for key in known if _why(keys[key], half) is None}
    rows = [_row(asked, key, keys[key], found.get(key), _why(keys[key], half), length) for key in known]
    few = [row for row in rows if row["why"] is None and row["effective"] + row["obsolete"] < FEW_UPDATES]
    few.sort(key=lambda row: row["effective"] + row["obsolete"])
    total = {name: sum(row[name] for row in rows) for name in ("received", "effective", "obsolete", "out_of_order")}
    total |= {"doubled": 0, "lost": sum(row["lost"] for row in rows)}
    for name in ("ungenerated", "refused", "impossible", "unresolved"):
        total[name] = sum(getattr(of, name) for of in keys.values())
    rows.sort(key=lambda row: -int(row["received"]))
    is_open = any(of.unresolved for of in counted)
    return {
        "from": asked.places[0],
        "to": asked.places[1],
        "key": asked.key,
        "limit_ns": asked.limit_ns,
        "window_ticks": [begin, end],
        "receptions_ticks": list(full),
        "primed_share": float(length) / float(full[1] - full[0]),
        "updates": total,
        "counted_keys": len(counted),
        "keys_with_few": len(few),
        "few": [row["key"] for row in few[:MOST_NAMED]],
        "over_keys": _over_keys(asked, list(found.values()), is_open, length),
        "excess_by_update": _excess_by_update(asked, list(found.values())),
        "keys": rows[:MOST_KEYS],
        "keys_left_out": max(len(rows) - MOST_KEYS, 0),
        "lacking": asked.lacking,
        "findings": _findings(asked, total["impossible"], impossible),
    }


def _why(of: _Key, half: int) -> str | None:
    """Why a key is in no figure."""
    return "never-received" if of.first is None else "late" if of.first > half else None


def _row(asked: AgePlan, key: Key, of: _Key, found: _Found | None, why: str | None, length: int) -> dict[str, Any]:
    row: dict[str, Any] = {"key": key[0] if key[1] else None, "generated": of.received + of.lost + of.refused}
    row |= {"received": of.received, "lost": of.lost}
    row |= {name: getattr(of, name) if found else 0 for name in ("effective", "obsolete", "out_of_order")}
    peak_ends = of.unresolved == 0
    of_key = found and _ages(asked, *_figures(found), peak_ends, length)
    return row | {"ages": of_key, "why": why}


def _figures(found: _Found) -> tuple[Three, Three | None, Three | None, Three | None, Three | None]:
    return found.average, found.peak, found.above, found.without_delay, found.excess


def _ages(
    asked: AgePlan,
    average: Three,
    peak: Three | None,
    above: Three | None,
    without_delay: Three | None,
    excess: Three | None,
    peak_ends: bool,
    length: int,
) -> dict[str, Any]:
    return {
        "average": _span(asked, average),
        "peak": _span(asked, peak, peak_ends),
        "above": above and _share(asked, above, length),
        "without_delay": _span(asked, without_delay),
        "excess": _span(asked, excess),
    }


def _span(asked: AgePlan, ticks: Three | None, has_ends: bool = True) -> dict[str, Any] | None:
    """An age with its ends, which it has where every stamp of the two points is there."""
    if ticks is None:
        return None
    lo, hi = ticks[1:] if has_ends and not asked.lacking else (None, None)
    return {"estimate_ticks": ticks[0], "lo_ticks": lo, "hi_ticks": hi}


def _share(asked: AgePlan, part: Three, length: int) -> dict[str, Any]:
    estimate = float(part[0]) / float(length)
    if asked.lacking:
        return {"estimate": estimate, "lo": 0.0, "hi": 1.0}
    lo, hi = _tickscope.fraction_down(part[1], length), _tickscope.fraction_up(part[2], length)
    return {"estimate": estimate, "lo": lo, "hi": hi}


def _over_keys(asked: AgePlan, found: list[_Found], is_open: bool, length: int) -> dict[str, Any] | None:
    """The mean over all keys that count."""

    def mean(of: Callable[[_Found], Three | None]) -> Three | None:
        values = [three for one in found if (three := of(one)) is not None]
        return _mean([(1, three) for three in values]) if values else None

    average = mean(lambda one: one.average)
    if average is None:
        return None
    all_have = all(one.without_delay is not None for one in found)
    without, excess = (mean(of) if all_have else None for of in (lambda one: one.without_delay, lambda one: one.excess))
    peak, above = mean(lambda one: one.peak), mean(lambda one: one.above)
    return _ages(asked, average, peak, above, without, excess, not is_open, length)


def _excess_by_update(asked: AgePlan, found: list[_Found]) -> dict[str, Any] | None:
    weighted = [(one.key.effective + one.key.obsolete, one.excess) for one in found if one.excess is not None]
    if len(weighted) < len(found) or not sum(weight for weight, _ in weighted):
        return None
    return _span(asked, _mean(weighted))


def _mean(weighted: list[tuple[int, Three]]) -> Three:
    count = sum(weight for weight, _ in weighted)
    estimate, lo, hi = (sum(weight * three[side] for weight, three in weighted) for side in range(3))
    return (2 * estimate + count) // (2 * count), lo // count, -(-hi // count)


def _findings(asked: AgePlan, impossible: int, named: list[tuple[Any, ...]]) -> list[str]:
    if not impossible:
        return []
    start, end = asked.places
    ids = "; ".join(
        f"id {id}, generated at {generated}, received at {received}, at most {most} ticks later"
        for id, generated, received, most in named
    )
    return [
        f"{impossible} updates were received at {end} before they were generated at {start}, whatever the clocks "
        f"were: {ids}. The two points are the other way round, name different things by the same id, or rho is too "
        "small"
    ]
