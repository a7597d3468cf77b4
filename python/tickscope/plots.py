"""What `tickscope figures` draws, for a notebook."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Plot:
    """One figure: with its units, counts and caption. A notebook shows it."""

    title: str
    svg: str = field(repr=False)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, place: str | Path) -> None:
        """Writes it to a file, as SVG."""
        Path(place).write_text(self.svg, encoding="utf-8")


class Plots(dict[str, Plot]):
    """The figures of a run by name; `missing` says why others are not there."""

    def __init__(self, drawn: list[tuple[str, str, str]], missing: list[str]) -> None:
        super().__init__((name, Plot(title, svg)) for name, title, svg in drawn)
        self.missing = missing

    def __missing__(self, name: str) -> Plot:
        why = "; ".join(self.missing) or "no other was asked for"
        raise KeyError(f"expected one of {', '.join(self)}; found '{name}' ({why}). Choose one of them")
