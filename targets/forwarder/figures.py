#!/usr/bin/env python3
"""Figures 3 and 4 of "Timely Mobile Routing" from a sweep of the forwarder: rows, panels, and what was refused.

    targets/forwarder/figures.py SWEEP [--tickscope target/release/tickscope] [--svg FILE]

Ages are the sweep's own, the median of a point's trials, and so is that of user 0, the most popular; all other columns
are what each trial's program counted, the median of the trials that are in a figure. The paper's numbers are those of
its text: its curves are pictures without a table, and nothing is read off them. Misaddressed shares stand beside those
of Zipf users that move by a Poisson process: of each user's packets, those that meet a move within the mean delay, some
0.0293 x moves a microsecond x delay of 1000 users. What the paper claims is judged by intervals; what they leave open,
or what was refused, is not. Of ages at the table the mean over users is held against that of Zipf users whose updates
need no time: H(1000) x 500.5 moves. --svg draws the panels. Exit code 1: a trial is in no figure.
"""

import argparse
import json
import math
import subprocess
import sys

import panels

MOST_OFF = 0.3  # of the formula's share
FEW_UNDER_WAY = 2  # packets: of so few that are paced evenly, fewer meet a move than of Poisson's
MOST_DROPPED = 0.01  # of data, for a misaddressed share
MOST_OFF_AGE = 0.05  # of the closed form's age at the table, and between primitives that are alike
COLLAPSED = 10  # times the age under the lock that spins
USERS, CDR = 1000, 0.1  # of a sweep in which they are no parameters
PAPER = {
    "figure-3": (
        "3(a), section V: for R < 1 million/s the age falls with R, as R becomes large it grows; 1 to 10 us in all",
        "3(b), section V: one packet a batch for R < 4 million/s, more above, growing with R",
    ),
    "figure-4": (
        "4(a), section V: at CDR 0.01 the age falls with R, RCU below RWL at high R; 5 to 10 ms over 1000 users",
        "4(b), section V: at CDR 0.01 few data packets are dropped, more under RWL at high R",
        "4(c), section V: age of each user at R = 10 million/s under RWL",
        "4(d), section V: at CDR 0.1 the age under RWL falls, then rises; both are above CDR 0.01",
        "4(e), section V: at CDR 0.1 RWL drops more data than RCU",
        "4(f), section V: at CDR 0.1 misaddressed packets, shown for R < 4 million/s alone",
    ),
    "location-age": (
        "section V, without numbers: the age of location updates falls with R at both CDR, RCU and RWL alike",
    ),
}
COUNTED = {
    "user_0_us": "age of user 0, us",
    "achieved_pps": "sent/s",
    "sent_batch_mean": "batch",
    "data_drop_share": "data drops",
    "control_drop_share": "control drops",
    "misaddressed_share": "misaddressed",
    "by_formula": "by formula",
    "stalled_share_most": "stalled",
    "keys": "keys",
    "keys_with_few": "keys < 30",
    "fib_bytes": "table, bytes",
    "versions_most": "versions",
    "versions_bytes": "versions, bytes",
}
OWN = {"user_0_us", "by_formula", "keys", "keys_with_few"}
NUMBERS = [*(name for name in COUNTED if name not in OWN), "delay_mean_ns"]  # of what its programs print
WHOLE = {"achieved_pps", "keys_with_few", "fib_bytes", "versions_most", "versions_bytes"}


def asked(tickscope, *words):
    """The JSON that tickscope answers, whatever it says of trials that failed."""
    ended = subprocess.run([tickscope, "show", *words, "--json"], capture_output=True, text=True, check=False)
    if not ended.stdout:
        sys.exit(ended.stderr.strip() or f"{tickscope}: ended with {ended.returncode}")
    return json.loads(ended.stdout)


def expected_share(users, moves):
    """Misaddressed packets of so many Zipf users that make so many moves during a packet's delay."""
    ranks = range(1, users + 1)
    of_all = sum(1 / rank for rank in ranks)
    return sum(1 / rank / of_all * -math.expm1(-moves / rank / of_all) for rank in ranks)


def users_of(tickscope, place, points):
    """The average age of each user in a trial, us."""
    found = asked(tickscope, place, "--age", *points)
    ages = [key["ages"]["average"]["estimate_ticks"] for key in found["age"]["keys"] if key["ages"]]
    return [age * 1e6 / found["hertz"] for age in ages]


def told(value, name):
    if isinstance(value, str):
        return value
    return "-" if value is None else f"{value:.{0 if name in WHOLE else 2 if name.endswith('_us') else 5}f}"


def keys_of(figures):
    """Of how many keys a mean over keys is, where it is of the fewest; None: there is none."""
    means = [figure for figure in figures if figure and figure.get("keys") is not None]
    least = min(means, key=lambda figure: figure["keys"] / max(figure["keys_of"], 1), default=None)
    if least is None:
        return None
    return str(least["keys"]) + ("" if least["keys"] == least["keys_of"] else f" of {least['keys_of']}")


def row_of(table, point):
    """What is known of a point: its parameters by name, ages as [median, low, high] in us, and medians of counts."""
    scale = 1e6 / table["hertz"] if table["hertz"] else None
    ages = [
        figure and [end and end * scale for end in (figure["ticks"], figure["lo_ticks"], figure["hi_ticks"])]
        for figure in point["figures"]
    ]
    keys = [measure.get("key") for measure in table["measures"]]
    user_0 = ages[keys.index(0)] if 0 in keys else None
    values = dict(zip(table["parameters"], point["values"], strict=True))
    numbers = zip(table["fields"], point["numbers"], strict=True)
    counts = dict.fromkeys([*COUNTED, *NUMBERS]) | {
        field["field"]: number["value"] for field, number in numbers if number is not None
    }
    few = [figure["keys_with_few"] for figure in point["figures"] if figure]
    counts |= {"keys_with_few": max(few, default=None), "user_0_us": user_0 and user_0[0]}
    counts["keys"] = keys_of(point["figures"])
    spreads = {
        field["field"]: [number["value"], number.get("lo"), number.get("hi")]
        for field, number in zip(table["fields"], point["numbers"], strict=True)
        if number is not None
    }
    if counts["achieved_pps"] and counts["delay_mean_ns"] and counts["misaddressed_share"] is not None:
        cdr = values.get("cdr", CDR)
        moves_a_us = counts["achieved_pps"] / 1e6 * cdr / (1 + cdr)
        counts["by_formula"] = expected_share(USERS, moves_a_us * counts["delay_mean_ns"] / 1000)
    refused = [trial for trial in table["trials"] if trial["values"] == point["values"] and trial["state"] != "made"]
    return {
        "values": values,
        "trials": f"{point['repetitions']} of {point['of']}",
        "ages": [age for age, key in zip(ages, keys, strict=True) if key is None],
        "user_0": user_0,
        "counts": counts,
        "spreads": spreads,
        "refused": [trial["why"] for trial in refused],
    }


# ---- what the paper claims -------------------------------------------------------------------------------------------


def is_below(one, other):
    """Whether the first interval lies below the second one; None: they leave it open, or one is not known."""
    if not one or not other or None in (*one, *other):
        return None
    return True if one[2] < other[1] else False if one[1] > other[2] else None


def judged(falls):
    return "not resolved" if falls is None else "seen" if falls else "NOT SEEN"


def line_of(rows, **values):
    """The rows of those parameters, by rate."""
    some = [row for row in rows if all(row["values"].get(name) == value for name, value in values.items())]
    return sorted(some, key=lambda row: row["values"]["rate"])


def falls_then_rises(rows, age):
    """Verdicts of both for ages over the rate: from the first to the lowest, and from there to the last."""
    rows = [row for row in rows if age(row)]
    if len(rows) < 2:
        return "not judged: fewer than two rates have an age", "not judged"
    lowest = min(rows, key=lambda row: age(row)[0])
    ends = [is_below(age(lowest), age(row)) if row is not lowest else False for row in (rows[0], rows[-1])]
    return tuple(judged(end) for end in ends)


def claims_of_3(rows):
    def age(row):
        return row["ages"][0]

    line = line_of(rows)
    slow = [row for row in line if row["values"]["rate"] <= 1e6]
    yield "the baseline's age falls with R below 1 million/s", falls_then_rises(slow, age)[0]
    batches = [row["counts"]["sent_batch_mean"] for row in line if row["counts"]["sent_batch_mean"]]
    is_batched = bool(batches) and batches[-1] > 1.5
    reason = "not judged: no row has batches above 1"
    yield "it rises again once batches exceed 1", falls_then_rises(line, age)[1] if is_batched else reason


def lower_under_rcu(rows, cdr, value, unit):
    """Whether it is, at the highest rate at which both have it; which of them was refused above that, and why."""
    lines = {fib: line_of(rows, fib=fib, cdr=cdr) for fib in ("rcu", "rwl-spin")}
    found = {fib: {row["values"]["rate"]: value(row) for row in line if value(row)} for fib, line in lines.items()}
    common = found["rcu"].keys() & found["rwl-spin"].keys()
    above = [
        f"{fib} at {row['values']['rate']}: {row['refused'][0]}"
        for fib, line in lines.items()
        for row in line
        if row["values"]["rate"] > max(common, default=0) and not value(row) and row["refused"]
    ]
    refused = f"; above that refused: {'; '.join(above)}" if above else ""
    if not common:
        return f"refused: they have no rate in common{'; ' + '; '.join(above) if above else ', nobody ran them'}"
    rcu, spin = (found[fib][max(common)] for fib in ("rcu", "rwl-spin"))
    if unit == "%" and not any(one[0] for line in found.values() for one in line.values()):
        return f"refused: no data was dropped at any rate; the layouts of two cores lose their rate instead{refused}"
    one, other = (f"{end[0]:.2%}" if unit == "%" else f"{end[0]:.2f} {unit}" for end in (rcu, spin))
    return f"{judged(is_below(rcu, spin))} at {max(common)}: {one} under rcu, {other} under rwl-spin{refused}"


def higher_at_more_moves(rows, fib):
    """At how many rates the age is above that of fewer moves. A part is of the trace: fewer of its packets are data."""
    few, many = (
        {row["values"]["rate"]: row["ages"][0] for row in line_of(rows, fib=fib, cdr=cdr)} for cdr in (0.01, 0.1)
    )
    both = [rate for rate in few if few[rate] and many.get(rate)]
    if not both:
        reasons = [row["refused"][0] for row in line_of(rows, fib=fib) if row["refused"]]
        return f"refused: no rate has both{': ' + reasons[0] if reasons else ''}"
    found = [is_below(few[rate], many[rate]) for rate in both]
    verdict = "seen" if all(found) else "NOT SEEN" if False in found else "not resolved"
    more = [many[rate][0] / few[rate][0] - 1 for rate in both]
    return (
        f"{verdict} at {found.count(True)} of {len(both)} rates, {min(more):.1%} to {max(more):.1%} more; 8.9 % are of "
        "fewer data packets in the trace"
    )


def park_collapses(rows):
    """Whether it does at a rate at which the lock that spins has an age, or why it has none itself."""
    seen, refused, compared = [], [], 0
    spins = {row["values"]["rate"]: row for row in line_of(rows, fib="rwl-spin", cdr=0.1) if row["user_0"]}
    for row in line_of(rows, fib="rwl-park", cdr=0.1):
        spin = spins.get(row["values"]["rate"])
        if spin and not row["user_0"]:
            refused += [f"at {row['values']['rate']}, where rwl-spin is not: {why}" for why in row["refused"][:1]]
            continue
        compared += spin is not None
        if spin and row["user_0"][1] > COLLAPSED * spin["user_0"][2]:
            seen.append(f"{row['user_0'][0]:.0f} us at {row['values']['rate']}, beside {spin['user_0'][0]:.1f} us")
    if not compared and not refused:
        return "refused: rwl-park and rwl-spin have no rate in common at which rwl-spin has an age"
    return f"seen: {'; '.join(seen)}" if seen else f"refused {'; '.join(refused)}" if refused else "NOT SEEN"


def misaddressed(rows):
    """How many shares are within 30 % of the formula; why each other is not judged by it, or that nothing says so."""
    within, others = 0, []
    for row in rows:
        counts = row["counts"]
        if not counts["by_formula"] or not counts["misaddressed_share"]:
            continue
        ratio = counts["misaddressed_share"] / counts["by_formula"]
        under_way = counts["achieved_pps"] * counts["delay_mean_ns"] / 1e9
        where = ", ".join(str(value) for value in row["values"].values())
        if abs(ratio - 1) <= MOST_OFF:
            within += 1
        elif (counts["data_drop_share"] or 0) > MOST_DROPPED:
            others.append(f"{where}: {ratio:.2f} of it, {counts['data_drop_share']:.1%} of data dropped")
        elif under_way < FEW_UNDER_WAY:
            others.append(f"{where}: {ratio:.2f} of it, {under_way:.1f} packets under way, evenly paced")
        else:
            others.append(f"{where}: {ratio:.2f} of it, NOT EXPLAINED")
    return f"{within} of {within + len(others)} rows" + "".join(f"; {other}" for other in others)


def claims_of_4(rows):
    def age(row):
        return row["ages"][0]

    def dropped(row):
        return row["spreads"].get("data_drop_share")

    for fib in ("rwl-spin", "rcu"):
        falls = falls_with_rate(line_of(rows, fib=fib, cdr=0.01), age)
        yield f"4(a): at CDR 0.01 the mean age under {fib} falls with R", falls
    yield "4(a): at CDR 0.01 it is lower under rcu than under rwl-spin", lower_under_rcu(rows, 0.01, age, "us")
    yield "4(b): at CDR 0.01 fewer data packets are dropped under rcu", lower_under_rcu(rows, 0.01, dropped, "%")
    falls, rises = falls_then_rises(line_of(rows, fib="rwl-spin", cdr=0.1), age)
    yield "4(d): at CDR 0.1 the mean age under rwl-spin falls", falls
    yield "4(d): and rises again", rises
    for fib in ("rwl-spin", "rcu"):
        yield f"4(d): the mean age under {fib} is above that at CDR 0.01", higher_at_more_moves(rows, fib)
    yield "4(e): at CDR 0.1 fewer data packets are dropped under rcu", lower_under_rcu(rows, 0.1, dropped, "%")
    for fib in ("rwl-spin", "rcu"):
        falls, rises = falls_then_rises(line_of(rows, fib=fib, cdr=0.1), lambda row: row["user_0"])
        yield f"at CDR 0.1 the age of user 0 under {fib} falls", falls
        yield "and rises again", rises
    yield "at CDR 0.1 the age of user 0 under the lock that parks is ten times as high", park_collapses(rows)
    yield "4(f): misaddressed shares are within 30 % of the formula", misaddressed(rows)


def falls_with_rate(line, age):
    """From the first rate to the last that have an age."""
    aged = [row for row in line if age(row)]
    if len(aged) < 2:
        reasons = [f"at {row['values']['rate']}: {row['refused'][0]}" for row in line if row["refused"]]
        return f"refused: fewer than two rates have an age{'; ' + '; '.join(reasons) if reasons else ''}"
    return judged(is_below(age(aged[-1]), age(aged[0])))


def by_closed_form(row):
    """Mean age at the table over that of Zipf users whose updates need no time; None: it has none."""
    cdr, sent = row["values"].get("cdr", CDR), row["counts"]["achieved_pps"]
    if not row["ages"][-1] or not sent:
        return None
    of_all = sum(1 / rank for rank in range(1, USERS + 1))
    return row["ages"][-1][0] / (of_all * (USERS + 1) / 2 / (sent * cdr / (1 + cdr)) * 1e6)


def as_the_closed_form(rows):
    """How many ages at the table are within 5 % of it, and each other, and those of which users are missing."""
    within, others = 0, []
    for row in rows:
        ratio = by_closed_form(row)
        if ratio is None:
            continue
        if abs(ratio - 1) <= MOST_OFF_AGE:
            within += 1
        else:
            where = ", ".join(str(value) for value in row["values"].values())
            others.append(f"{where}: {ratio:.3f} of it, over {row['counts']['keys']} users")
    return f"{within} of {within + len(others)} rows" + "".join(f"; {other}" for other in others)


def alike(rows, cdr):
    """At how many rates the ages at the table of both are within 5 % of each other."""
    lines = [line_of(rows, fib=fib, cdr=cdr) for fib in ("rcu", "rwl-spin")]
    rcu, spin = ({row["values"]["rate"]: row["ages"][-1][0] for row in line if row["ages"][-1]} for line in lines)
    ratios = {rate: rcu[rate] / spin[rate] for rate in rcu.keys() & spin.keys()}
    if not ratios:
        reasons = [row["refused"][0] for line in lines for row in line if row["refused"]]
        return f"refused: they have no rate in common{': ' + reasons[0] if reasons else ''}"
    others = [f"{ratio:.3f} at {rate}" for rate, ratio in sorted(ratios.items()) if abs(ratio - 1) > MOST_OFF_AGE]
    return f"seen at {len(ratios)} rates" if not others else f"NOT SEEN: {'; '.join(others)}"


def claims_of_moves(rows):
    """Of each primitive, and each ratio of control and data, where location updates have an age."""
    for fib, cdr in sorted({(row["values"].get("fib"), row["values"].get("cdr", CDR)) for row in rows}):
        line = [row for row in line_of(rows, fib=fib) if row["values"].get("cdr", CDR) == cdr]
        falls = falls_with_rate(line, lambda row: row["ages"][-1])
        yield f"the age of location updates falls with R under {fib}, CDR {cdr}", falls
    for cdr in sorted({row["values"].get("cdr") for row in rows} - {None}):
        yield f"it is alike under rcu and rwl-spin, within 5 %, CDR {cdr}", alike(rows, cdr)
    yield "it is within 5 % of the closed form", as_the_closed_form(rows)


CLAIMS = {"figure-3": claims_of_3, "figure-4": claims_of_4, "location-age": claims_of_moves}


def most_loaded(rows, trials):
    """Values and folder of a trial at the highest rate at which the lock that spins has any; None: it has none."""
    some = [row for row in rows if row["values"].get("fib") == "rwl-spin" and row["user_0"]]
    if not some:
        return None
    values = max(some, key=lambda row: (row["values"]["rate"], row["values"].get("cdr", 0)))["values"]
    made = [one for one in trials if one["state"] == "made" and one["values"] == [*values.values()]]
    return values, made[0]["folder"]


# ---- the whole -------------------------------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("sweep")
    parser.add_argument("--tickscope", default="target/release/tickscope")
    parser.add_argument("--svg")
    given = parser.parse_args()
    table = asked(given.tickscope, given.sweep)
    ages = [measure["age"] for measure in table["measures"] if measure.get("key") is None]
    refused = [trial for trial in table["trials"] if trial["state"] != "made"]
    rows = [row_of(table, point) for point in table["points"]]
    heads = [f"age of {to}, us" for _, to in ages]
    print("\t".join([*table["parameters"], "trials", *heads, *COUNTED.values()]))
    for row in rows:
        figures = [age and f"{age[0]:.2f}" or "-" for age in row["ages"]]
        counts = [told(row["counts"][name], name) for name in COUNTED]
        print("\t".join(str(cell) for cell in [*row["values"].values(), row["trials"], *figures, *counts]))
    for trial in refused:
        print(f"in no figure: trial {trial['number']}, {trial['values']}: {trial['why']}")
    if any(point["repetitions"] == 1 for point in table["points"]):
        print("of one trial: an interval holds the clocks' error alone, not what another trial would give")
    for claim, verdict in CLAIMS.get(table["name"], lambda _: ())(rows):
        print(f"{claim}: {verdict}")
    for claim in PAPER.get(table["name"], ()):
        print(f"the paper, figure {claim}" if claim[0].isdigit() else f"the paper, {claim}")
    if given.svg:
        users = most_loaded(rows, table["trials"]) if table["name"] == "figure-4" else None
        found = users and (users[0], users_of(given.tickscope, f"{given.sweep}/{users[1]}", ages[0]))
        panels.draw(given.svg, table["name"], rows, [to for _, to in ages], found)
    sys.exit(bool(refused))


if __name__ == "__main__":
    main()
