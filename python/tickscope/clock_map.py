"""How a domain's ticks become ticks of the reference: bounds that hold whatever the clocks did, and an estimate within.

All arithmetic is Rust's; this gives its answers the types that Python's tables use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pyarrow

from tickscope import _tickscope

Ticks = Any
"""64-bit ticks: an Arrow or NumPy array, a buffer of 64-bit integers, or any iterable of int."""


class NotTicks(_tickscope.TickscopeError, ValueError):
    """Values that are no ticks."""


@dataclass(frozen=True)
class Segment:
    """A straight piece: for ticks `y` in `[first, last]` the interval lies within `a - pad` to `a + pad`, where
    `a = base + (((y - anchor) * mult) >> shift)` never leaves 64 bits; for engines that have no more."""

    first: int
    last: int
    anchor: int
    base: int
    mult: int
    shift: int
    pad: int


class ClockMap:
    """What all brackets between two domains say. `domain`'s ticks go in, `reference`'s come out, rounded outward."""

    def __init__(self, inner: _tickscope.ClockMap, domain: str, reference: str) -> None:
        self._inner = inner
        self.domain, self.reference = domain, reference

    def __repr__(self) -> str:
        return f"<tickscope.ClockMap {self.domain} to {self.reference}, rho {self.rho}>"

    @property
    def rho(self) -> str:
        """How far the rates may wander, and where that was declared."""
        return self._inner.rho

    @property
    def slopes(self) -> tuple[Fraction, Fraction]:
        """Slowest and fastest rate of the reference against the domain, exact."""
        slowest, fastest = self._inner.slopes
        unit = 1 << self._inner.FRACTION_BITS
        return Fraction(slowest, unit), Fraction(fastest, unit)

    def interval(self, tick: int) -> tuple[int, int]:
        """First and last tick of the reference while the domain's counter can have stood at `tick`.

        A reading leaves its width open: it stood at the first tick of this interval or later, and at the last one of that
        of `tick + width` or earlier, with the counter's `reading.width_ticks` in `run.json`.
        """
        return self._inner.interval(tick)

    def estimate(self, tick: int) -> int:
        """An admissible tick of the reference within the interval; differences of estimates telescope."""
        return self._inner.estimate(tick)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Shortest and longest time from `start` to `end`, two ticks of the domain, in ticks of the reference."""
        return self._inner.span(start, end)

    def inverse(self, tick: int) -> tuple[int, int]:
        """First and last tick of the domain that the reference's `tick` can be."""
        return self._inner.inverse(tick)

    def intervals(self, ticks: Ticks) -> tuple[pyarrow.Int64Array, pyarrow.Int64Array]:
        """`interval` of many: an array of first and one of last ticks."""
        lo, hi = self._inner.intervals(_buffer(ticks))
        return _array(lo), _array(hi)

    def estimates(self, ticks: Ticks) -> pyarrow.Int64Array:
        """`estimate` of many."""
        return _array(*self._inner.estimates(_buffer(ticks)))

    def half_widths(self, ticks: Ticks) -> pyarrow.Int64Array:
        """Half the interval's width at each tick, in ticks of the reference, rounded up."""
        return _array(*self._inner.half_widths(_buffer(ticks)))

    def segments(self, first: int, last: int) -> list[Segment]:
        """Straight pieces that cover the domain's ticks from `first` to `last`."""
        return [Segment(*fields) for fields in self._inner.segments(first, last)]


def _buffer(ticks: Ticks) -> memoryview:
    if isinstance(ticks, Iterable) and not hasattr(ticks, "__arrow_array__") and not hasattr(ticks, "__len__"):
        ticks = list(ticks)
    array = ticks if isinstance(ticks, pyarrow.Array | pyarrow.ChunkedArray) else _arrow(ticks)
    if isinstance(array, pyarrow.ChunkedArray):
        array = array.combine_chunks()
    if len(array) == 0:
        return memoryview(b"").cast("q")
    if array.type != pyarrow.int64() or array.null_count:
        found = f"{array.null_count} nulls" if array.null_count else str(array.type)
        raise NotTicks(f"expected ticks as 64-bit integers without nulls, found {found}. Filter or cast first")
    values = memoryview(array.buffers()[1])
    return values[array.offset * 8 : (array.offset + len(array)) * 8].cast("q")


def _arrow(ticks: Ticks) -> pyarrow.Array:
    try:
        return pyarrow.array(ticks)
    except OverflowError:
        found = next((tick for tick in ticks if not -(1 << 63) <= tick < 1 << 63), "a greater one")
        raise NotTicks(
            f"expected ticks within 64 bits, from {-(1 << 63)} to {(1 << 63) - 1}, found {found}. "
            "Give differences of ticks, or leave that value out"
        ) from None


def _array(values: bytes) -> pyarrow.Int64Array:
    return pyarrow.Array.from_buffers(pyarrow.int64(), len(values) // 8, [None, pyarrow.py_buffer(values)])
