"""lo and hi of a real run equal those of a brute force in exact fractions, within one tick.

Written from the page on model `drift` alone: no hulls, no fixed point, every bracket looked at for every question. The
only other thing taken over is that files keep raw readings: one of n says "from n to n + width", with the width that the
run measured of each counter.
"""

import json
import re
from fractions import Fraction

import duckdb
import pytest

QUESTIONS = 200
PRIOR = Fraction(500, 10**6)
STAGE = "client.send>server.received"


class Drift:
    """All maps whose rate stays within rho of one rate, and that every bracket allows."""

    def __init__(self, brackets, nominal, rho, local_width, reference_width):
        self.lowers = [(at + local_width, before) for before, at, _ in brackets if before is not None]
        self.uppers = [(at, after + reference_width) for _, at, after in brackets if after is not None]
        ats = [at for at, _ in self.lowers + self.uppers]
        self.anchor, self.rho = min(ats) + (max(ats) - min(ats)) // 2, rho
        low = self.first_rate_allowed(nominal * (1 - PRIOR))
        high = self.first_rate_allowed(nominal * (1 + PRIOR))
        self.slowest, self.fastest = low * (1 - rho), high * (1 + rho)

    def first_rate_allowed(self, rate):
        """From outside, the first rate at which some value at the anchor fits all brackets: exact, as each step goes to
        where the two brackets that contradict each other most are just reconciled."""
        rho, anchor = self.rho, self.anchor
        uppers = [(d - rho * abs(d), after) for at, after in self.uppers for d in [at - anchor]]
        lowers = [(d + rho * abs(d), before) for at, before in self.lowers for d in [at - anchor]]
        while True:
            after, x = min((after - rate * x, x) for x, after in uppers)
            before, z = max((before - rate * z, z) for z, before in lowers)
            if after >= before:
                return rate
            rate += Fraction(after - before) / (x - z)

    def lo(self, tick):
        def open_up(at, before):
            return before + (tick - at) * (self.slowest if tick >= at else self.fastest)

        return max(open_up(*lower) for lower in self.lowers)

    def hi(self, tick):
        def open_up(at, after):
            return after + (tick - at) * (self.fastest if tick >= at else self.slowest)

        return min(open_up(*upper) for upper in self.uppers)


@pytest.mark.parametrize(
    "rho, inject",
    [
        ("1", "inject = { offset = 1000000000, drift_ppb = 12500, wander_ppb = 1000, wander_period = 20000000000 }"),
        ("unknown", ""),
        ("unknown", "inject = { offset = 7, drift_ppb = 0, wander_ppb = 0, wander_period = 2, step = [49, 2] }"),
        ("1", "inject = { offset = 7, drift_ppb = -40000, wander_ppb = 0, wander_period = 2, step = [1000, 1] }"),
    ],
)
def test_bounds_of_a_real_run_are_those_of_exact_fractions(begin_run, rho, inject):
    process, run = begin_run(seconds=2, rate=1000, rho=rho, probes_hz=400, inject=inject, kernel_probes=False)
    _, err = process.communicate()
    assert process.returncode == 0, err.decode()
    columns = 'before, "at", after'  # at is a word of the language
    brackets = duckdb.sql(f"select {columns} from read_parquet('{run}/brackets/reference=client.tsc/domain=server.tsc/*.parquet')").fetchall()
    counters = {node["name"]: node["counter"] for node in json.loads((run / "run.json").read_text())["nodes"]}
    hertz = {name: counter["frequency"]["hertz"] for name, counter in counters.items()}
    width = {name: counter["reading"]["width_ticks"] for name, counter in counters.items()}
    stepping = re.search(r"step = \[(\d+), (\d+)\]", inject)
    if stepping:
        step = Fraction(int(stepping[1]), int(stepping[2]))
        assert step <= width["server"] <= step + 4, "the server's step was not seen"
    ppm = {"1": 1, "unknown": 50}[rho]
    drift = Drift(brackets, Fraction(hertz["client"], hertz["server"]), Fraction(ppm, 10**6), width["server"], width["client"])

    asked = duckdb.sql(
        f"""select t."client.send", t."server.received", d."{STAGE}.lo", d."{STAGE}.hi"
            from read_parquet('{run}/traces/*.parquet') t
            join read_parquet('{run}/durations/rho={ppm}ppm/*.parquet') d using (kind, id, occurrence)
            where t."server.received" is not null order by hash(id) limit {QUESTIONS}"""
    ).fetchall()
    assert len(asked) == QUESTIONS
    off = []
    for send, received, lo, hi in asked:
        off += [drift.lo(received) - (send + width["client"]) - lo, hi - (drift.hi(received + width["server"]) - send)]
    print(f"{len(brackets)} brackets, {len(off)} bounds, at most {float(max(off)):.4f} ticks apart")
    assert min(off) >= 0, "a bound was rounded inward"
    assert max(off) <= 1
