"""What the kernel's time-stamps cost a packet, and what they give: passes with and without them, in turn, in each way of waiting.

A pass is a run of experiments/path-MODE.toml. Without: no kernel point, no stamp of the kernel asked for, and the clock map from the
probes' user stamps alone. Both say what they found of the same path: the round trip at the median, how well the nodes are related.
"""

import json
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODES = ("blocking", "epoll", "busy")
KERNEL_POINTS = ("client.sched", "client.tx", "server.rx", "server.reply-sched", "server.reply-tx", "client.response-rx")
PAIRS, SECONDS = 3, 6


def run_file(mode, kernel):
    text = (ROOT / "experiments" / f"path-{mode}.toml").read_text()
    text = text.replace("../build/", f"{ROOT}/build/")  # it is read elsewhere
    if kernel:
        return text
    for point in KERNEL_POINTS:
        text = text.replace(f'"{point}",', "")
    text = text.replace('"--kernel", "1"', '"--kernel", "0"')
    text = re.sub(r"^messages = .*$", "kernel_probes = false", text, flags=re.MULTILINE)
    return re.sub(r"^extra = .*$", "", text, flags=re.MULTILINE)


def one_pass(tickscope, mode, kernel, scratch):
    """The table of a pass, as JSON."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        file = Path(folder) / "path.toml"
        file.write_text(run_file(mode, kernel))
        command = [tickscope, "run", file, "--seconds", str(SECONDS), "--out", Path(folder) / "run", "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def stage(table, name):
    return next(row for row in table["stages"] if row["stage"] == name)


def round_trip_us(table):
    return stage(table, "end-to-end")["p50"]["ns"] / 1000


def half_width_us(table):
    return table["clock_maps"][0]["half_width_ns"] / 1000


def clock_ns(table, share):
    return max(clock["half_width_ns"][share] for clock in table["auxiliary_clocks"] if clock["readings"])


def kernel_path(tickscope, scratch, figure, at_most):
    """Rows and raw data; `figure` and `at_most` make a row, as bench/run.py does."""
    rows, raw = [], {}
    for mode in MODES:
        passes = {True: [], False: []}
        for pair in range(PAIRS):
            for kernel in (True, False) if pair % 2 else (False, True):
                passes[kernel].append(one_pass(tickscope, mode, kernel, scratch))
        middle = {kernel: statistics.median(map(round_trip_us, tables)) for kernel, tables in passes.items()}
        width = {kernel: statistics.median(map(half_width_us, tables)) for kernel, tables in passes.items()}
        stages = [row for table in passes[True] for row in table["stages"]]
        rows += [
            figure(f"{mode}: round trip p50, kernel stamps", middle[True], "us", ("without them", middle[False])),
            at_most(f"{mode}: clock_map, kernel stamps", width[True], "us", 0.35, ("user stamps alone", width[False])),
            at_most(f"{mode}: REALTIME to counter, p50", max(clock_ns(t, "p50") for t in passes[True]), "ns", 100),
            at_most(f"{mode}: REALTIME to counter, p99", max(clock_ns(t, "p99") for t in passes[True]), "ns", 300),
            at_most(f"{mode}: impossible durations", sum(row["impossible"] for row in stages), "", 0),
        ]
        raw[mode] = {
            "with": [{"round_trip_us": round_trip_us(t), "half_width_us": half_width_us(t)} for t in passes[True]],
            "without": [{"round_trip_us": round_trip_us(t), "half_width_us": half_width_us(t)} for t in passes[False]],
            "stages_p50_us": {row["stage"]: row["p50"]["ns"] / 1000 for row in passes[True][0]["stages"]},
        }
    return rows, raw
