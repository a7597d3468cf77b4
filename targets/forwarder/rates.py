#!/usr/bin/env python3
"""How many packets a second each datapath takes, and what stamping costs of that.

    targets/forwarder/rates.py [--program build/forwarder] [--trials 3] [--seconds 0.3]

A row each: what was asked for, the median of valid trials, and the target of the age study; a trial that is not valid
gives its own reasons and is in no median. Rates with stamps and without are of trials in turn; the stamps go to a
folder of their own that nobody collects. Pairs of processes meet at a socket, or at a veth pair of two namespaces,
which are made and removed as root. Exit code 1: a target is missed, or a row has no valid trial.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

LEAST_STAMPED = 0.9  # of the rate without stamps
NOT_SENT = "packets a second"  # the program's own reason: here a row is to say how many there were
POOL_BYTES = 1 << 29
SPACES = ("forwarder-rates-a", "forwarder-rates-b")


def line_of(process):
    """The program's line, or its own words where it ended badly."""
    out, words = process.communicate(timeout=60)
    if process.returncode != 0 or not out:
        return {"valid": False, "why": [words.strip() or f"it ended with {process.returncode}"], "achieved_pps": 0}
    line = json.loads(out)
    why = [reason for reason in line["why"] if NOT_SENT not in reason]
    return line | {"why": why, "valid": not why}


def start(words, environment=None, space=None):
    inside = ["ip", "netns", "exec", space] if space else []
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*inside, *words], env=os.environ | (environment or {}), **pipes)


def alone(program, options):
    return line_of(start([program, *options]))


def stamped(program, options):
    """The same with stamps."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        environment = {"TICKSCOPE_DIR": folder, "TICKSCOPE_POOL_BYTES": str(POOL_BYTES)}
        return line_of(start([program, *options], environment))


def pair(program, options, spaces=(None, None)):
    """The source's line, which is valid only if the forwarder's is."""
    ends = [
        start([program, "--role", role, *options], space=space)
        for role, space in zip(("forwarder", "source"), spaces, strict=True)
    ]
    forwarder, source = (line_of(end) for end in ends)
    why = source["why"] + [f"the forwarder: {reason}" for reason in forwarder["why"]]
    return source | {"why": why, "valid": not why}


def over_memif(program, options):
    with tempfile.TemporaryDirectory() as folder:
        return pair(program, ["--at", str(pathlib.Path(folder) / "memif.sock"), *options])


def over_interface(program, options):
    return pair(program, ["--at", "wire", *options], SPACES)


def ip(*words, must=True):
    subprocess.run(["ip", *words], check=must, capture_output=not must)


def make_spaces():
    remove_spaces()
    for space in SPACES:
        ip("netns", "add", space)
    ip("link", "add", "wire", "netns", SPACES[0], "type", "veth", "peer", "name", "wire", "netns", SPACES[1])
    for space in SPACES:
        ip("-n", space, "link", "set", "wire", "up")


def remove_spaces():
    for space in SPACES:
        ip("netns", "del", space, must=False)


def rows():
    """Name, how it is run, options, least rate; None: it is only shown."""
    rings, bare = ["--datapath", "rings"], ["--fib", "none"]
    for rate in (0.5e6, 1e6, 2e6, 4e6):
        yield f"rings, {rate / 1e6:g} M/s", alone, [*rings, "--rate", f"{rate:g}"], 0.98 * rate
    yield "net_ring, 5 M/s, no table", alone, [*bare, "--datapath", "net_ring", "--rate", "5.1e6"], 5e6
    yield "net_ring, 8 M/s, no table", alone, [*bare, "--datapath", "net_ring", "--rate", "8e6"], None
    yield "memif, 4 M/s, no table", over_memif, [*bare, "--datapath", "net_memif", "--rate", "4.1e6"], 4e6
    for rate in (2e6, 4e6, 8e6):
        yield f"net_ring, {rate / 1e6:g} M/s", alone, ["--datapath", "net_ring", "--rate", f"{rate:g}"], None
        yield f"the same, stamped, {rate / 1e6:g} M/s", stamped, ["--datapath", "net_ring", "--rate", f"{rate:g}"], None
    for datapath in ("net_af_packet", "net_af_xdp"):
        yield f"{datapath}, 100 k/s", over_interface, ["--datapath", datapath, "--rate", "1e5"], None


def told(name, trials, least, before):
    """The row as text, its rate, and whether it is as it should be."""
    valid = [trial for trial in trials if trial["valid"]]
    reasons = sorted({reason for trial in trials for reason in trial["why"]})
    if not valid:
        return f"{name:32} refused: {'; '.join(reasons)}", None, False
    rate = statistics.median(trial["achieved_pps"] for trial in valid)
    if name.startswith("the same, stamped"):
        least = before and LEAST_STAMPED * before
    target = "" if least is None else f", at least {least:.0f}: {'met' if rate >= least else 'MISSED'}"
    delay = statistics.median(trial["delay_mean_ns"] for trial in valid)
    lost = [trial["lost"] for trial in valid if trial["lost"] and any(trial["lost"].values())]
    words = (
        f"{name:32} {rate:9.0f} packets/s, {delay:7.0f} ns there and back{target}, {len(valid)} of {len(trials)} valid"
    )
    words += f", lost {lost}" if lost else ""
    words += f"; not valid: {'; '.join(reasons)}" if reasons else ""
    return words, rate, least is None or rate >= least


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", default="build/forwarder")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seconds", default="0.3")
    given = parser.parse_args()
    program = shutil.which(given.program) or sys.exit(f"{given.program}: expected the forwarder: run `make forwarder`")
    is_right, before = True, None
    make_spaces()
    try:
        for name, run, options, least in rows():
            trials = [run(program, [*options, "--seconds", given.seconds]) for _ in range(given.trials)]
            words, before, was_right = told(name, trials, least, before)
            print(words, flush=True)
            is_right = is_right and was_right
    finally:
        remove_spaces()
    sys.exit(not is_right)


if __name__ == "__main__":
    main()
