#!/usr/bin/env python3
"""How far searches for a sustainable rate are from the truth, on simulated queues of known capacity.

    bench/sustain.py SEARCH [--seeds N]

SEARCH is the program of `cargo build --example search`: the search of `tickscope sustain` itself, which is asked for
rates and told verdicts. Beside it: the same with loss alone for a verdict; a linear scan up to the first loss, as
Cloudprofiler's; bisection by the first loss; and MLRsearch (RFC 9971) with the defaults of its authors, if
`pip install MLRsearch==1.2.1` was done. All ask one simulated queue; time is that of the trials.

The queue is a fluid: its capacity wanders by 2 % (first order, steps of 10 ms) around 100 000 a second, it has room for
so many, and begins each trial empty. The last rows of each search are of one that does nothing for 100 ms of each
second, and of one whose capacity falls by a tenth half-way through each trial: what it sustains is nine tenths.
Prints a line of JSON for each kind of search and size of buffer, then a table.
"""

import argparse
import json
import math
import random
import statistics
import subprocess

CAPACITY_HZ = 100_000
BUFFERS = [1, 100, 10_000, 100_000]
STEP_S, WANDER = 0.01, 0.02
PIECES = 40
TRIAL_S = 2.0
FROM_HZ, TO_HZ, PRECISION = 20_000, 400_000, 0.01
LOST, LAG = 0.005, 0.005


class Queue:
    """One system under test; `trial` offers a rate for some seconds. It does nothing for `stall_s` of each second, and
    its capacity falls by the share `tires` half-way through a trial."""

    def __init__(self, buffer, seed, stall_s=0.0, tires=0.0):
        self.buffer, self.draw, self.stall_s, self.tires = buffer, random.Random(seed), stall_s, tires
        self.seconds, self.trials = 0.0, 0

    def trial(self, rate, seconds=TRIAL_S):
        """What was offered, what was lost, and the backlog at each step."""
        steps, wander, backlog, lost, over_time = round(seconds / STEP_S), 0.0, 0.0, 0.0, []
        phase = self.draw.random()
        for step in range(steps):
            stalls = (step * STEP_S + phase) % 1.0 < self.stall_s
            wander = 0.5 * wander + WANDER * math.sqrt(0.75) * self.draw.gauss(0, 1)
            capacity = 0.0 if stalls else CAPACITY_HZ * (1 + wander) * (1 - (2 * step >= steps) * self.tires)
            backlog = max(0.0, backlog + (rate - capacity) * STEP_S)
            lost += max(0.0, backlog - self.buffer)
            backlog = min(backlog, self.buffer)
            over_time.append(backlog)
        self.seconds += seconds
        self.trials += 1
        return rate * seconds, lost, over_time


def verdict(rate, offered, lost, backlog):
    """As `crates/analysis/src/sustain.rs` judges: of the least fortieths of both halves, and of the last quarter."""
    count, half, quarter = len(backlog) // PIECES, PIECES // 2, PIECES // 4
    pieces = [statistics.mean(backlog[at * count:(at + 1) * count]) for at in range(PIECES)]
    before = max(min(pieces[at:at + quarter]) for at in range(PIECES - 2 * quarter + 1))
    a_piece = max((min(pieces[half:]) - min(pieces[:half])) / half, (min(pieces[-quarter:]) - before) / quarter)
    lag, grown = a_piece / CAPACITY_HZ / (count * STEP_S), PIECES * a_piece / offered
    if lost / offered > LOST:
        return "dropped"
    if lost / offered + max(grown, 0) > LOST:
        return "backlog"
    return "latency" if lag > LAG else "sustained"


def rates():
    count = math.ceil(math.log(TO_HZ / FROM_HZ) / math.log1p(PRECISION))
    return [FROM_HZ * (TO_HZ / FROM_HZ) ** (at / count) for at in range(count + 1)]


def searched(program, queue, judge, method="bisection", trials=3, exceed=0.5):
    """The middle of the interval that the search ends with."""
    all_rates = rates()
    words = [program, str(len(all_rates)), method, str(trials), str(round(exceed * 1e6))]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as search:
        while (line := search.stdout.readline().split())[0] == "try":
            rate = all_rates[int(line[1])]
            print(judge(rate, *queue.trial(rate)), file=search.stdin, flush=True)
    ends = [all_rates[int(at)] for at in line[1:] if at != "-"]
    return math.prod(ends) ** (1 / len(ends))


def by_loss(_rate, _offered, lost, _backlog):
    return "dropped" if lost > 0 else "sustained"


def mlr(queue):
    """MLRsearch with its defaults; None: it is not here."""
    try:
        import MLRsearch
    except ImportError:
        return None

    class Measurer(MLRsearch.AbstractMeasurer):
        def measure(self, intended_duration, intended_load):
            offered, lost, _ = queue.trial(intended_load, intended_duration)
            counts = {"offered_count": round(offered), "loss_count": math.ceil(lost)}
            return MLRsearch.MeasurementResult(intended_duration, intended_load, **counts)

    config = MLRsearch.Config()
    config.goals, config.min_load, config.max_load = [MLRsearch.SearchGoal()], FROM_HZ, TO_HZ
    config.search_duration_max = 1200.0
    results = MLRsearch.MultipleLossRatioSearch(config=config).search(measurer=Measurer(), debug=lambda _: None)
    found = next(iter(results.values()))
    return float(found.conditional_throughput)


def kinds(program):
    return {
        "tickscope sustain": lambda queue: searched(program, queue, verdict),
        "the same by loss alone": lambda queue: searched(
            program, queue, lambda rate, offered, lost, _: "dropped" if lost > LOST * offered else "sustained"
        ),
        "linear scan to the first loss": lambda queue: searched(program, queue, by_loss, "linear", 1, 0),
        "bisection by the first loss": lambda queue: searched(program, queue, by_loss, "bisection", 1, 0),
        "MLRsearch's defaults": mlr,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("search")
    parser.add_argument("--seeds", type=int, default=30)
    options = parser.parse_args()
    table = []
    for name, kind in kinds(options.search).items():
        steady = [(buffer, 0.0, 0.0) for buffer in BUFFERS]
        for buffer, stall_s, tires in [*steady, (BUFFERS[-1], 0.1, 0.0), (BUFFERS[-1], 0.0, 0.1)]:
            queues = [Queue(buffer, seed, stall_s, tires) for seed in range(options.seeds)]
            found = [kind(queue) for queue in queues]
            if None in found:
                print(f"left out: {name}, which is not installed (pip install MLRsearch==1.2.1)")
                break
            row = {
                "search": name, "buffer": buffer, "stall_s": stall_s, "tires": tires, "seeds": options.seeds,
                "bias": statistics.mean(found) / CAPACITY_HZ / (1 - stall_s - tires) - 1,
                "deviation": statistics.pstdev(found) / CAPACITY_HZ,
                "seconds": statistics.median(queue.seconds for queue in queues),
                "trials": statistics.median(queue.trials for queue in queues),
            }
            print(json.dumps(row), flush=True)
            table.append(row)
    print("\n| search | buffer | stalled | tires by | bias % | deviation % | s of trials | trials |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in table:
        figures = f"{100 * row['bias']:+.2f} | {100 * row['deviation']:.2f}"
        system = [f"{100 * row[key]:.0f} %" for key in ("stall_s", "tires")]
        cells = [row["search"], row["buffer"], *system, figures]
        print(f"| {' | '.join(map(str, cells))} | {row['seconds']:.0f} | {row['trials']:.0f} |")


if __name__ == "__main__":
    main()
