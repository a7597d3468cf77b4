#!/usr/bin/env python3
"""Controls of the forwarder: whether trials on this machine can be told apart by their primitive at all.

    targets/forwarder/controls.py [--program build/forwarder] [--trials 5] [OPTIONS OF THE FORWARDER]

Three rows in turn, several times each: the options as given, the same without a table, and that with a delay of the
consumer. What does strictly less work must be no slower, and a slower consumer must not raise the rate: where that is
found otherwise, something else decides (a faster consumer disturbs the source's rings more often), and a ranking of
primitives is refused. So it is where a trial was not valid, with the program's own reasons, and where the two cores
were not as far apart in all trials. Exit code 1: refused.
"""

import argparse
import json
import statistics
import subprocess
import sys

DELAY_NS = 20
MOST_MOVED = 1.5  # as in result.h


def trial(program, options):
    """One line of the program, or its own words where it ended badly."""
    ended = subprocess.run([program, *options], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        sys.exit(ended.stderr.strip() or f"{program}: ended with {ended.returncode}")
    return json.loads(ended.stdout)


def refusals(rows):
    """Why trials of these rows cannot be ranked; none: they can."""
    for name, trials in rows.items():
        reasons = sorted({why for trial in trials for why in trial["why"]})
        invalid = sum(not trial["valid"] for trial in trials)
        if invalid:
            yield f"{name}: {invalid} of {len(trials)} trials are not valid: {'; '.join(reasons)}"
    exchanges = [ns for trials in rows.values() for trial in trials for ns in trial["exchange_ns"]]
    if max(exchanges) > MOST_MOVED * min(exchanges):
        yield f"the cores were moved: an exchange between them took {min(exchanges)} ns, then {max(exchanges)} ns"
    took, sent = (
        {name: statistics.median(trial[what] for trial in trials) for name, trials in rows.items()}
        for what in ("delay_mean_ns", "achieved_pps")
    )
    if took["none"] > took["given"]:
        yield f"less work took longer: {took['none']:.0f} ns without a table, {took['given']:.0f} ns with it"
    if took["delayed"] < took["none"]:
        yield f"{DELAY_NS} ns more made packets faster: {took['delayed']:.0f} ns instead of {took['none']:.0f} ns"
    if sent["delayed"] > sent["none"] * 1.001:  # the clocks that both rates are measured by
        yield f"{DELAY_NS} ns more raised the rate from {sent['none']:.0f} to {sent['delayed']:.0f} packets a second"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", default="build/forwarder")
    parser.add_argument("--trials", type=int, default=5)
    asked, given = parser.parse_known_args()
    variants = {"given": given, "none": [*given, "--fib", "none"]}
    variants["delayed"] = [*variants["none"], "--delay", str(DELAY_NS)]
    rows = {name: [] for name in variants}
    for _ in range(asked.trials):
        for name, options in variants.items():
            rows[name].append(trial(asked.program, options))
    for name, trials in rows.items():
        for one in trials:
            figures = f"sent {one['achieved_pps']:9} /s  took {one['delay_mean_ns']:7} ns"
            figures += f"  exchange {one['exchange_ns'][0]:4} ns  valid {one['valid']}"
            print(f"{name:8} {one['fib']:9} {figures}")
    reasons = list(refusals(rows))
    passed = "controls passed: trials at this rate may be ranked"
    print("\n".join(f"no ranking: {reason}" for reason in reasons) or passed)
    sys.exit(bool(reasons))


if __name__ == "__main__":
    main()
