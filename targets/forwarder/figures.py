#!/usr/bin/env python3
"""Figures 3 and 4 of "Timely Mobile Routing" from a sweep of the forwarder: their panels as rows, and what was refused.

    targets/forwarder/figures.py SWEEP [--tickscope target/release/tickscope]

Ages are the sweep's own, the median of a point's trials; all other columns are what each trial's program counted, the
median of the trials that are in a figure. The paper's numbers are those of its text: its curves are pictures without a
table, and nothing is read off them. Misaddressed shares stand beside 0.0293 x moves a microsecond x mean delay, which
holds for 1000 Zipf users and Poisson moves. Exit code 1: a trial is in no figure.
"""

import argparse
import json
import statistics
import subprocess
import sys

BY_FORMULA = 0.0293  # of 1000 Zipf users: sum of p squared
PAPER = {
    "figure-3": (
        "3(a), section V: for R < 1 million/s the age falls with R, as R becomes large it grows; 1 to 10 us in all",
        "3(b), section V: one packet a batch for R < 4 million/s, more above, growing with R",
    ),
    "figure-4": (
        "4(a), section V: at CDR 0.01 the age falls with R, RCU below RWL at high R; 5 to 10 ms over 1000 users",
        "4(b), section V: at CDR 0.01 few data packets are dropped, more under RWL at high R",
        "4(c), section V: age of each user at R = 10 million/s under RWL: `tickscope show TRIAL --age`",
        "4(d), section V: at CDR 0.1 the age under RWL falls, then rises; both are above CDR 0.01",
        "4(e), section V: at CDR 0.1 RWL drops more data than RCU",
        "4(f), section V: at CDR 0.1 misaddressed packets, shown for R < 4 million/s alone",
        "section V, without numbers: the age of location updates falls with R at both CDR, RCU and RWL alike",
    ),
}
COUNTED = {
    "achieved_pps": "sent/s",
    "sent_batch_mean": "batch",
    "data_drop_share": "data drops",
    "control_drop_share": "control drops",
    "misaddressed_share": "misaddressed",
    "by_formula": "by formula",
    "stalled_share_most": "stalled",
    "keys_with_few": "keys < 30",
}


def asked(tickscope, *words):
    """The JSON that tickscope answers, whatever it says of trials that failed."""
    ended = subprocess.run([tickscope, "show", *words, "--json"], capture_output=True, text=True, check=False)
    if not ended.stdout:
        sys.exit(ended.stderr.strip() or f"{tickscope}: ended with {ended.returncode}")
    return json.loads(ended.stdout)


def counted(tickscope, place, ages):
    """What the program of a trial printed, and keys of few updates, the most of any age."""
    texts = [event["text"] for event in asked(tickscope, place)["events"] if event["what"] == "target"]
    lines = [json.loads(text[text.index("{") :]) for text in texts if "{" in text]
    if not lines:
        sys.exit(f"{place}: expected a program's line of JSON among its events, found none. Sweep the forwarder")
    moves_a_us = lines[0]["achieved_pps"] / 1e6 * lines[0]["cdr"] / (1 + lines[0]["cdr"])
    found = [asked(tickscope, place, "--age", *points)["age"]["keys_with_few"] for points in ages]
    formula = BY_FORMULA * moves_a_us * lines[0]["delay_mean_ns"] / 1000 if lines[0]["users"] == 1000 else None
    return lines[0] | {"keys_with_few": max(found), "by_formula": formula}


def median(trials, name):
    """The median of what trials have of that name, as text."""
    values = [trial[name] for trial in trials if trial.get(name) is not None]
    if not values:
        return "-"
    return f"{statistics.median(values):.{0 if name in ('achieved_pps', 'keys_with_few') else 5}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sweep")
    parser.add_argument("--tickscope", default="target/release/tickscope")
    given = parser.parse_args()
    table = asked(given.tickscope, given.sweep)
    ages = [measure["age"] for measure in table["measures"]]
    made = [trial for trial in table["trials"] if trial["state"] == "made"]
    rows = [(trial, counted(given.tickscope, f"{given.sweep}/{trial['folder']}", ages)) for trial in made]
    heads = [f"age of {to}, us" for _, to in ages]
    print("\t".join([*table["parameters"], "trials", *heads, *COUNTED.values()]))
    for point in table["points"]:
        of_point = [line for trial, line in rows if trial["values"] == point["values"]]
        figures = [figure and f"{figure['ticks'] * 1e6 / table['hertz']:.2f}" for figure in point["figures"]]
        cells = [*point["values"], f"{point['repetitions']} of {point['of']}", *(text or "-" for text in figures)]
        print("\t".join(str(cell) for cell in [*cells, *(median(of_point, name) for name in COUNTED)]))
    refused = [trial for trial in table["trials"] if trial["state"] != "made"]
    for trial in refused:
        print(f"in no figure: trial {trial['number']}, {trial['values']}: {trial['why']}")
    for claim in PAPER.get(table["name"], ()):
        print(f"the paper, figure {claim}" if claim[0].isdigit() else f"the paper, {claim}")
    sys.exit(bool(refused))


if __name__ == "__main__":
    main()
