"""How well chrony and ptp4l know the clocks that tickscope relates, at the same time on the same veth pair.

A pass is a run of experiments/rivals.toml: both nodes are of one host, so the truth is known. chrony and ptp4l set no
clock. Where the programs are not installed, `scripts/setup.sh` has unpacked them under build/rivals, as root.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "build" / "rivals" / "usr"
SECONDS = 190
# How much tighter than chrony's best the run's own bound is to be.
TIGHTER = 4


def methods_of(tickscope, seconds, scratch):
    """The methods of the one related node, by name, and all that is said of it."""
    path = os.pathsep.join([os.environ["PATH"], str(PROGRAMS / "sbin"), str(PROGRAMS / "bin")])
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        command = [tickscope, "run", "experiments/rivals.toml", "--seconds", str(seconds)]
        command += ["--out", Path(folder) / "run", "--json"]
        environment = os.environ | {"PATH": path}
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=environment)
    table = json.loads(done.stdout)
    # Whether a daemon disciplines the clock is the machine's affair; the others come by `make setup`.
    missing = [event["text"] for event in table["events"] if event["what"] == "rival-missing"]
    missing = [text for text in missing if not text.startswith("NTP:")]
    if missing:
        raise SystemExit(f"bench: not all rivals took part: {'; '.join(missing)}")
    (node,) = table["rivals"]
    return {method["name"]: method for method in node["methods"]}, node


def foreign_clocks(tickscope, scratch, seconds, figure, at_most, none_of):
    methods, node = methods_of(tickscope, seconds, scratch)
    width = {name: method["half_width"]["median_ns"] for name, method in methods.items() if method["half_width"]}
    ours, best = width["tickscope"], min(width[name] for name in width if name.startswith("chrony"))
    rows = [at_most("clock bound, median, of chrony's best", ours / best, "", 1 / TIGHTER, ("chrony's best, ns", best))]
    for name, method in methods.items():
        if name in width:
            rows.append(figure(f"{name}: half-width, median", width[name], "ns", ("ours", ours)))
        if method["error_ns"]:
            median, most = method["error_ns"]
            rows.append(figure(f"{name}: true error, median", median, "ns", ("at most, ns", most)))
    rows.append(none_of("intervals of ours that the truth is outside of", methods["tickscope"]["outside"]))
    return rows, node
