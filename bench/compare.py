"""Runs of a program with one stage made slower, compared with runs without: found, not resolved, or a wrong stage?

    bench/compare.py [PAIRS] [RUNS] [PERCENT] [TRACES]

For each of PAIRS (10) RUNS (8) runs of `bench/stages.c` before and after are taken in turn; the second of its three
stages, one after the other, does PERCENT (5) more work. One line a pair: what one run a side says, what all say. At the
end how often it was found, not resolved, or wrong, where wrong means that another stage is named as the one that
changed most. Of one run a side that may be so, as runs differ by themselves: that is what several are for. With a
PERCENT of 0 whatever is named is a false alarm.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
POINTS = ("first", "second", "third", "fourth")
STAGES = [f"stages.{a}>stages.{b}" for a, b in zip(POINTS, POINTS[1:])]
WORK = [3000, 5000, 8000]


def command():
    """The command: TICKSCOPE names it, else a build in the tree."""
    if "TICKSCOPE" in os.environ:
        return Path(os.environ["TICKSCOPE"])
    found = [path for kind in ("release", "debug") if (path := ROOT / "target" / kind / "tickscope").exists()]
    return found[0] if found else sys.exit("expected target/release/tickscope, found none: make build")


def measured(tickscope, program, folder, name, work, traces):
    """A run of so many traces."""
    words = [tickscope, "run", "--out", folder / name, "--json", "--", program, traces, *work]
    subprocess.run([str(word) for word in words], check=True, capture_output=True)
    return folder / name


def said(tickscope, slower, *words):
    """`found`, `not resolved` or `wrong`, and the change that is named, in percent with its interval."""
    ended = subprocess.run([tickscope, "compare", *words, "--json"], capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(ended.stderr)
    found = json.loads(ended.stdout)
    named = found["most_changed"]
    if named is None:
        return "not resolved" if slower else "no alarm", ""
    change = next(stage for stage in found["stages"] if stage["stage"] == named)["changes"]
    first = next(one for one in change if one["verdict"] == "changed")
    ends = [first["shift"][end] for end in ("lo_ticks", "ticks", "hi_ticks")]
    lo, at, hi = (100 * end / first["before"]["ticks"] for end in ends)
    text = f"{named.split('>')[1]} {first['quantile']} {at:+.1f} % [{lo:.1f}, {hi:.1f}]"
    if named == slower or slower is None:
        return "found" if slower else "false alarm", text
    return ("not resolved" if slower in found["perhaps"] else "wrong"), text


def main(pairs=10, runs=8, percent=5, traces=5000):
    tickscope, counts = command(), {"one run": Counter(), "all runs": Counter()}
    with tempfile.TemporaryDirectory() as place:
        program = Path(place) / "stages"
        source = ["-I", ROOT / "crates/stamp/include", "-o", program, ROOT / "bench/stages.c"]
        subprocess.run(["cc", "-O2", "-pthread", "-D_GNU_SOURCE", *source], check=True)
        for pair in range(pairs):
            at = pair % len(WORK)
            more = [work * (100 + percent) // 100 if stage == at else work for stage, work in enumerate(WORK)]
            taken = {"before": [], "after": []}
            for turn in range(runs):
                for side, work in ("before", WORK), ("after", more):
                    name = f"{pair}-{turn}-{side}"
                    taken[side].append(measured(tickscope, program, Path(place), name, work, traces))
            slower = STAGES[at] if percent else None
            one = said(tickscope, slower, taken["before"][0], taken["after"][0])
            every = said(tickscope, slower, "--before", *taken["before"], "--after", *taken["after"])
            counts["one run"][one[0]] += 1
            counts["all runs"][every[0]] += 1
            name = STAGES[at].split(">")[1] if percent else "equal"
            print(f"{name}: one run a side: {' '.join(one)}; {runs} a side: {' '.join(every)}", flush=True)
    for kind, count in counts.items():
        print(f"{kind}: {dict(count)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
