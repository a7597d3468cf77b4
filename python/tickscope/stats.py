"""Statistics of ticks: quantiles with their intervals, medcouple, outlier rules, moments, comparison of runs.

    sample = stats.Sample(ticks)
    sample.interval(0.99)                          # what the population's 99 % quantile lies between
    sample.threshold("gap-or-tail")                # a Threshold, or an Abstention that says why there is none

Rust computes; quantiles are values of the sample itself, shares and confidences are exact to a millionth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

from tickscope import _tickscope
from tickscope.clock_map import NotTicks, Ticks, _buffer

__all__ = [
    "Abstention",
    "Comparison",
    "LMoments",
    "MannWhitney",
    "Moments",
    "QuantileInterval",
    "Removal",
    "Sample",
    "Threshold",
    "autocorrelation",
    "compare",
]

_MILLION = 1_000_000


@dataclass(frozen=True)
class QuantileInterval:
    """Two values that a quantile of the population lies between; an end is None where the sample is too small for it."""

    lo: int | None
    hi: int | None
    coverage: float
    """The chance that it does, for a continuous distribution; not below the confidence."""


@dataclass(frozen=True)
class Moments:
    """Of the sample itself (divided by the count). Kurtosis is not the excess: 3 for a normal distribution."""

    mean: float
    variance: float
    skewness: float | None
    kurtosis: float | None


@dataclass(frozen=True)
class LMoments:
    """Location and scale in ticks, skewness and kurtosis as ratios; None where there are too few values, or all are equal."""

    location: float
    scale: float | None
    skewness: float | None
    kurtosis: float | None


@dataclass(frozen=True)
class Removal:
    """What a threshold takes away."""

    count: int
    of: int
    """How many values there are."""
    excess_ticks: int
    """By how much these exceed the median, together: the time that is called noise."""

    @property
    def share(self) -> float:
        """The part of the values, from 0 to 1."""
        return self.count / self.of


@dataclass(frozen=True)
class Threshold:
    """Values above `upper` are outliers. `lower` is what a box plot would have and is not used. `str` gives a sentence."""

    upper: int
    lower: int | None
    basis: Literal["formula", "gap", "tail"]
    until: int | None
    """Of a gap: the first value above it."""
    shape: float | None
    """Of a tail: the fitted one's xi; 0 is exponential, the greater the heavier."""
    expected_of_clean: float | None
    """Of a tail: how many values of a clean sample of this size are expected above `upper`."""
    removal: Removal
    """What it takes away from the sample."""
    words: str = field(repr=False)

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True)
class Abstention:
    """Why a rule has no threshold for a sample."""

    why: str
    instead: str | None
    """A rule that has one, for whoever must have an answer."""

    def __str__(self) -> str:
        return self.why


@dataclass(frozen=True)
class MannWhitney:
    """Whether two kinds of runs could be one and the same."""

    twice_u: int
    pairs: int
    chance: float
    exact: bool
    """Whether the chance was counted out; else it is that of the normal distribution."""


@dataclass(frozen=True)
class Comparison:
    """Other runs against base runs, one value a run."""

    shift: float
    """How much greater the others' values are (Hodges-Lehmann), in ticks."""
    shift_interval: tuple[int | None, int | None]
    cliffs_delta: float
    mann_whitney: MannWhitney


class Sample:
    """At least one value of 64 bits: an Arrow or NumPy array, a buffer of 64-bit integers, or any iterable of int."""

    def __init__(self, ticks: Ticks) -> None:
        self._inner = _tickscope.Sample(_buffer(ticks))

    def __repr__(self) -> str:
        return f"<tickscope.stats.Sample of {self.count} from {self.least} to {self.most}>"

    def __len__(self) -> int:
        return self.count

    @property
    def count(self) -> int:
        """How many values."""
        return self._inner.count

    @property
    def least(self) -> int:
        """The smallest, Q0."""
        return self._inner.least

    @property
    def most(self) -> int:
        """The largest."""
        return self._inner.most

    def quantile(self, share: float | Fraction) -> int:
        """The smallest value that this share of the values does not exceed (type 1 of Hyndman and Fan)."""
        return self._inner.quantile(_per_million(share))

    def interval(self, share: float | Fraction, confidence: float | Fraction = 0.95) -> QuantileInterval:
        """What the population's quantile lies between, if values are independent: samples within a run are not."""
        return QuantileInterval(*self._inner.interval(_per_million(share), _per_million(confidence)))

    def medcouple(self) -> Fraction:
        """Skewness that outliers do not move, exact: from -1 over 0 (symmetric) to 1."""
        return Fraction(*self._inner.medcouple())

    def moments(self) -> Moments:
        """Mean, variance, skewness and kurtosis."""
        return Moments(*self._inner.moments())

    def l_moments(self) -> LMoments:
        """Hosking's, which outliers move less."""
        return LMoments(*self._inner.l_moments())

    def threshold(self, rule: str = "gap-or-tail", step_ticks: int | None = None) -> Threshold | Abstention:
        """Above it are outliers, by a rule of that name: gap-or-tail, ipad, tukey, one-sided, adjusted.

        `step_ticks`: how wide the readings of the clock are, for gap-or-tail, which else finds the step in the values.
        """
        if step_ticks is not None and not 1 <= step_ticks < 1 << 64:
            raise NotTicks(f"expected a step of at least 1 tick, found {step_ticks}. Leave it out to have it found")
        return _judged(*self._inner.threshold(rule, step_ticks or 0))

    def threshold_by_distance(self, share: float | Fraction, factor: float | Fraction) -> Threshold | Abstention:
        """Beyond a quantile q by `factor` times its distance from the minimum: `q + c (q - Q0)`; c to a thousandth."""
        thousandths = _exactly(factor, 1000, "a factor in whole thousandths")
        return _judged(*self._inner.threshold_by_distance(_per_million(share), thousandths))

    def removal(self, threshold: Threshold) -> Removal:
        """What a threshold takes away from this sample."""
        return Removal(*self._inner.removal(threshold.upper))


def compare(base: Sample, other: Sample, confidence: float | Fraction = 0.95) -> Comparison:
    """How much greater `other`'s runs are than `base`'s, how surely, and could it be chance? One value a run."""
    shift, interval, delta, test = _tickscope.compare(base._inner, other._inner, _per_million(confidence))
    return Comparison(shift, interval, delta, MannWhitney(*test))


def autocorrelation(series: Ticks, lag: int) -> float | None:
    """How much a value of a series in order of time tells of the one `lag` later; None where nothing can be said."""
    return _tickscope.autocorrelation(_buffer(series), lag)


def _judged(threshold: tuple[Any, ...] | None, abstention: tuple[str, str | None] | None) -> Threshold | Abstention:
    if abstention is not None:
        return Abstention(*abstention)
    assert threshold is not None
    fields, removal, words = threshold
    upper, lower, basis, until, shape, expected = fields
    return Threshold(upper, lower, basis, until, shape, expected, Removal(*removal), words)


def _per_million(share: float | Fraction) -> int:
    return _exactly(share, _MILLION, "a share in whole millionths, such as 0.99")


def _exactly(value: float | Fraction, parts: int, expected: str) -> int:
    # A float's shortest decimal is what was meant: 0.07 is not the binary fraction beside it.
    scaled = Fraction(str(value)) * parts
    if scaled.denominator != 1 or not 0 <= scaled < 1 << 32:
        raise _tickscope.TickscopeError(f"expected {expected}, found {value}. Round it first")
    return int(scaled)
