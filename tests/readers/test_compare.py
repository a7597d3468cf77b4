"""Two runs compared: every interval computed a second time, by the standard library, from what is exported."""

import json
import math
import statistics
import subprocess

import duckdb

BLOCKS = 32
SHARES = {"p50": 0.5, "p99": 0.99}


def durations(tickscope, run, stage, folder):
    """Estimates, lower and upper ends of a stage, in order of the stamp at its first point."""
    file = folder / f"{run.parent.name}.csv"
    if not file.exists():
        subprocess.run([tickscope, "export", run, "--csv", file], check=True, capture_output=True)
    rows = duckdb.sql(f"""
        select estimate_ticks, lo_ticks, hi_ticks
        from read_csv('{file}') as durations
        join read_parquet('{run}/traces/*.parquet') as traces using (kind, id, occurrence)
        where stage = '{stage["stage"]}' and outcome in ('measured', 'impossible')
        order by traces."{stage["from"]}", estimate_ticks
    """).fetchall()
    return list(zip(*rows))


def exceeded(t, freedom):
    """The chance of a Student's t above `t`: one half less Simpson's rule over the density."""
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    steps, width = 4000, t / 4000
    density = [scale * (1 + (at * width) ** 2 / freedom) ** (-(freedom + 1) / 2) for at in range(steps + 1)]
    return 0.5 - width / 3 * (density[0] + density[-1] + 4 * sum(density[1:-1:2]) + 2 * sum(density[2:-1:2]))


def upper_t(freedom, tail):
    lo, hi = 0.0, 2000.0
    while hi - lo > 1e-7 * hi:
        middle = (lo + hi) / 2
        lo, hi = (middle, hi) if exceeded(middle, freedom) > tail else (lo, middle)
    return lo


def error_of_share(series, counts):
    """Variance of the share that `counts`, by blocks, and the degrees of freedom that are left."""
    ends = [block * len(series) // BLOCKS for block in range(BLOCKS + 1)]
    shares = [statistics.fmean(map(counts, series[first:end])) for first, end in zip(ends, ends[1:])]
    mean = statistics.fmean(shares)
    away = [share - mean for share in shares]
    squares = sum(one * one for one in away)
    r = sum(a * b for a, b in zip(away, away[1:])) / squares if squares else 0
    r = min(max((r + 1 / BLOCKS) / (1 - 3 / BLOCKS), 0), 0.95) if squares else 0
    inflation = (1 + r) / (1 - r)
    return statistics.variance(shares) / BLOCKS * inflation, max(BLOCKS / inflation - 1, 1)


def ranks(series, share, tail):
    """The ranks that the quantile lies between, rounded outward and not yet whole."""
    count = len(series)
    value = sorted(series)[math.ceil(share * count) - 1]
    either = [error_of_share(series, counts) for counts in (lambda one: one <= value, lambda one: one < value)]
    variance, freedom = max(either)
    half = upper_t(freedom, tail) * math.sqrt(max(variance, share * (1 - share) / count))
    return (share - half) * count, (share + half) * count + 1


def at(column, rank):
    return sorted(column)[rank - 1] if 1 <= rank <= len(column) else None


def expected(columns, share, tail, slack):
    """Of one run: the quantile, what lies as far away, and the clocks' part; `slack` of a rank moves both ends."""
    low, high = ranks(columns[0], share, tail)
    count = len(columns[0])
    places = {"at": math.ceil(share * count), "low": math.floor(low - slack), "high": math.ceil(high + slack)}
    found = {name: [at(column, place) for column in columns] for name, place in places.items()}
    below = max(ends[0] - ends[1] for ends in (found["at"], found["low"]) if None not in ends)
    above = max(ends[2] - ends[0] for ends in (found["at"], found["high"]) if None not in ends)
    quantile, low, high = (found[name][0] for name in ("at", "low", "high"))
    return {"at": quantile, "down": None if low is None else quantile - low,
            "up": None if high is None else high - quantile, "below": below, "above": above}


def ends(before, after):
    """Lower and upper end of the change by statistics, then with the clocks."""
    change = after["at"] - before["at"]
    down = None if None in (after["down"], before["up"]) else math.ceil(math.hypot(after["down"], before["up"]))
    up = None if None in (after["up"], before["down"]) else math.ceil(math.hypot(after["up"], before["down"]))
    lo, hi = (None if down is None else change - down), (None if up is None else change + up)
    clocks = after["below"] + before["above"], after["above"] + before["below"]
    return change, lo, hi, None if lo is None else lo - clocks[0], None if hi is None else hi + clocks[1]


def test_intervals_are_those_of_the_standard_library(tickscope, swinging_run, steady_run, tmp_path):
    words = [tickscope, "compare", swinging_run, steady_run, "--json"]
    found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    assert found["runs"] == [1, 1] and found["not_compared"] == [[], []]
    figures = [(stage, change) for stage in found["stages"] for change in stage["changes"]]
    assert len(figures) == 10, "three stages, the whole and a branch, each with its median and p99"
    tail = (50_000 // len(figures)) / 2e6
    for stage, change in figures:
        share = SHARES[change["quantile"]]
        runs = [durations(tickscope, run, stage, tmp_path) for run in (swinging_run, steady_run)]
        # What is a thousandth of t off, on either side, may be another rank.
        either = [ends(*(expected(run, share, tail, slack) for run in runs)) for slack in (-1, 0, 1)]
        shift = change["shift"]
        keys = ("ticks", "statistics_lo_ticks", "statistics_hi_ticks", "lo_ticks", "hi_ticks")
        for key, among in zip(keys, zip(*either)):
            known = [value for value in among if value is not None]
            if shift[key] is None or not known:
                assert None in among and shift[key] is None or not known, (stage["stage"], change, either)
            else:
                assert min(known) <= shift[key] <= max(known), (stage["stage"], key, change, either)
        count = [len(run[0]) for run in runs]
        assert [change["before"]["count"], change["after"]["count"]] == count
    clocks = [change["shift"]["clocks_below_ticks"] for stage, change in figures if stage["role"] == "path"]
    assert max(clocks) > 10 * min(clocks), "of two hosts, and of one"
