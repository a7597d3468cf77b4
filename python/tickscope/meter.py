"""How long a section of code took, as an interval.

    with tickscope.section() as section:
        work()
    section.at_most_ticks, section.between_ticks or section.why, section.assumes

`at_most_ticks` is guaranteed, whatever happened meanwhile. `between_ticks` needs evidence that nothing intervened, and its lower
end what `section.assumes` says: that entering and leaving take no more than four times what empty sections took at first.
"""

from __future__ import annotations

import array

from tickscope import _tickscope
from tickscope._tickscope import Section


def section() -> Section:
    """A section to enter once by `with`. The first one of a process measures for a few milliseconds what empty ones take."""
    if not _known:
        _known.append(_meter())
    return Section(_known[0])


_known: list[_tickscope.Meter] = []


def _meter() -> _tickscope.Meter:
    tries = 2001
    meter = _tickscope.Meter()
    empty = array.array("q")
    for _ in range(tries):
        with Section(meter) as nothing:
            pass
        empty.append(nothing.ticks)
    return meter.knowing_empty(empty)
