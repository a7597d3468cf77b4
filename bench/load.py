"""How late a paced load is, next to bare readings of the counter: crates/load/examples/pacing.rs."""

import json
import subprocess

from figures import figure, median
from processes import RELEASE, STAMPING_CPU, output_of

ROUNDS, TRIAL_MS = 7, 100
MOST_PPM = 10
# The kernel lets such a thread run whenever it can: what is measured is the pacer, not who else is there.
FIFO = ["chrt", "-f", "10"]


def measure_load(options):
    """Rows for the table of figures, and everything else, raw."""
    policy = FIFO if subprocess.run([*FIFO, "true"], capture_output=True).returncode == 0 else []
    command = [*policy, RELEASE / "examples" / "pacing", STAMPING_CPU, options.of(ROUNDS), TRIAL_MS]
    lines = [json.loads(line) for line in output_of(command).splitlines()]
    counter, bare = lines[0], median([line["rdtsc"] for line in lines if "rdtsc" in line])
    trials = {}
    for line in lines:
        if "law" in line:
            trials.setdefault((line["law"], line["rate"]), []).append(line)
    rows = [row for (law, rate), rounds in trials.items() for row in rows_of(law, rate, rounds, counter, bare)]
    return rows, {"policy": "SCHED_FIFO" if policy else "SCHED_OTHER", "lines": lines}


def rows_of(law, rate, rounds, counter, bare):
    """Each figure is the median of its rounds."""
    title = f"{law}, {rate / 1000:g} k/s"
    late, held = median([line["p50"] for line in rounds]), sum(line["held"] for line in rounds)
    off = median([abs(line["ppm"]) for line in rounds])
    if law == "bucket, capped":
        return [figure(f"{title}: credit lost", median([line["lost"] for line in rounds]), "events", rate_off=off)]
    most = counter["step_ticks"] + bare
    floor = ("step + one rdtsc", most)
    return [
        figure(f"{title}: median lateness", late, "ticks", floor, "<= step + read", late <= most, held=held),
        figure(f"{title}: rate error", off, "ppm", None, f"<= {MOST_PPM} ppm", off <= MOST_PPM),
    ]
