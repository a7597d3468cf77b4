"""tickscope.stats gives what R gives: the answers that the crate's tests keep, through Python's types."""

import math
from fractions import Fraction

import pytest
from conftest import TREE
from tickscope import TickscopeError, stats

KEPT = TREE / "crates/stats/tests/r"


def kept(name, separator):
    """Answers and values, line by line."""
    for line in (KEPT / f"{name}.txt").read_text().splitlines():
        if not line.startswith("#"):
            yield [part.split() for part in line.split(separator)]


def ints(words):
    return [int(word) for word in words]


def test_medcouples_are_rs():
    cases = list(kept("medcouple", ":"))
    for [answer], values in cases:
        medcouple = stats.Sample(ints(values)).medcouple()
        assert isinstance(medcouple, Fraction)
        assert math.isclose(float(medcouple), float(answer), abs_tol=1e-12)
    assert len(cases) >= 400


def test_comparisons_are_rs():
    cases = list(kept("comparison", ";"))
    for base, other, answer in cases:
        found = stats.compare(stats.Sample(ints(base)), stats.Sample(ints(other)))
        w, chance, *shift = map(float, answer)
        test = found.mann_whitney
        # R's W counts the first sample's wins, and here they are the other's.
        assert w in (test.twice_u / 2, test.pairs - test.twice_u / 2)
        assert math.isclose(test.chance, chance, rel_tol=1e-6)
        if shift:
            assert (found.shift, *found.shift_interval) == tuple(shift)
        assert found.cliffs_delta == (test.twice_u - test.pairs) / test.pairs
    assert len(cases) >= 20


def test_autocorrelations_are_rs():
    for answers, values in kept("series", ":"):
        series = ints(values)
        for lag, answer in enumerate(answers, 1):
            assert math.isclose(stats.autocorrelation(series, lag), float(answer), abs_tol=1e-12)
    assert stats.autocorrelation([5, 5, 5], 1) is None


def test_adjusted_fences_are_rs_or_the_rule_says_why_it_has_none():
    judged = [(answer, stats.Sample(ints(values)).threshold("adjusted")) for answer, values in kept("adjusted", ":")]
    thresholds = [(answer, threshold) for answer, threshold in judged if isinstance(threshold, stats.Threshold)]
    for (lower, upper), threshold in thresholds:
        assert (threshold.lower, threshold.upper) == (math.ceil(float(lower)), math.floor(float(upper)))
        assert threshold.basis == "formula"
    assert all("medcouple" in found.why for _, found in judged if isinstance(found, stats.Abstention))
    assert len(thresholds) >= 50


def test_quantiles_are_values_of_the_sample_and_shares_are_what_was_written():
    sample = stats.Sample(range(1, 101))
    # 0.07 as a binary fraction is more than 7 of 100: the rank would be 8.
    assert (sample.quantile(0.07), sample.quantile(Fraction(7, 100)), sample.quantile(1)) == (7, 7, 100)
    interval = sample.interval(0.5)
    assert (interval.lo, interval.hi) == (40, 61)
    assert 0.95 <= interval.coverage < 0.97
    assert stats.Sample([3]).interval(0.5).lo is None
    with pytest.raises(TickscopeError, match="whole millionths"):
        sample.quantile(1 / 3)
    with pytest.raises(TickscopeError, match="at most 1000000"):
        sample.quantile(1.5)


def test_moments_and_l_moments_of_a_sample_done_by_hand():
    moments = stats.Sample([0, 0, 0, 4]).moments()
    assert (moments.mean, moments.variance) == (1.0, 3.0)
    assert math.isclose(moments.skewness, 6 / 3**1.5)
    assert math.isclose(moments.kurtosis, 21 / 9)
    found = stats.Sample([1, 2, 3, 4]).l_moments()
    assert (found.location, math.isclose(found.scale, 5 / 6)) == (2.5, True)
    assert math.isclose(found.skewness, 0, abs_tol=1e-12)
    assert stats.Sample([7, 7]).moments().skewness is None


def test_a_rule_names_what_it_takes_away():
    ticks = [9_000 + k if k % 250 == 0 else 18 + k % 3 * 2 for k in range(1000)]
    sample = stats.Sample(ticks)
    threshold = sample.threshold()
    assert (threshold.upper, threshold.basis, threshold.until) == (22, "gap", 9_000)
    removal = sample.removal(threshold)
    assert (removal.count, removal.excess_ticks) == (4, sum(ticks[k] - 20 for k in range(0, 1000, 250)))
    assert threshold.removal == removal == stats.Removal(4, 1000, removal.excess_ticks)
    assert removal.share == 0.004
    assert str(threshold) == "above 22: 4 of 1000 values (0.400 %), beyond a gap up to 9000"
    few = stats.Sample([1, 2]).threshold()
    assert "400" in few.why
    assert few.instead == "one-sided"
    by_distance = stats.Sample(range(101)).threshold_by_distance(0.95, 3)
    assert by_distance == stats.Sample(range(101)).threshold("ipad")
    with pytest.raises(TickscopeError, match="there are gap-or-tail, ipad, tukey"):
        sample.threshold("three sigma")


def test_frequent_outliers_are_told_with_where_they_begin_and_a_tail_what_it_takes_from_clean_values():
    ticks = [18 + k % 3 * 2 + (k % 5 == 0) * 25_000 for k in range(1000)]
    refusal = stats.Sample(ticks).threshold()
    assert isinstance(refusal, stats.Abstention)
    assert refusal.instead is None
    assert "found 200 of 1000 (20.0 %) above 22;" in str(refusal)
    tail = stats.Sample(range(1000)).threshold()
    assert (tail.basis, tail.expected_of_clean) == ("tail", 0.5)


def test_a_step_that_is_told_is_no_gap():
    sample = stats.Sample([294] * 700 + [318] * 150 + [319] * 150)
    assert "found 300 of 1000" in sample.threshold().why
    assert sample.threshold(step_ticks=25).removal.count == 0
    with pytest.raises(TickscopeError, match="at least 1 tick, found 0"):
        sample.threshold(step_ticks=0)


@pytest.mark.parametrize("tick", [1 << 63, -(1 << 63) - 1, 1 << 100])
def test_a_value_beyond_64_bits_is_refused_by_name(tick):
    for values in ([7, tick], iter([tick])):
        with pytest.raises(ValueError, match=f"expected ticks within 64 bits.* found {tick}\\. ") as refusal:
            stats.Sample(values)
        assert isinstance(refusal.value, TickscopeError)


def test_what_is_no_sample_is_refused():
    with pytest.raises(TickscopeError, match="at least one value"):
        stats.Sample([])
    with pytest.raises(TickscopeError, match="64-bit integers"):
        stats.Sample([1.5])
