"""What `[noise]` costs the demo, and what other tools see on the cores that `tickscope noise` surveys, and can name.

The companion: runs of the demo without it, with switches alone and with all events, in turn; `tickscope compare` says
how much the median round trip moved, with its interval. The tools: each has all cores for as long, one after the other,
under the same real-time priority. A tool that is not installed, or does not run here, is named with why.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from figures import figure
from processes import CPUS, RELEASE, ROOT

ROUNDS, RUN_SECONDS, TOOL_SECONDS = 8, 6, 20
# Median round trip: how much longer it may be, percent.
COMPANIONS = {"switches": 2, "all": 10}
CORES = ",".join(map(str, CPUS))
FIFO = "50"


def measure_noise(options):
    costs, raw_costs = companion(options)
    tools, raw_tools = beside_tools(options)
    return costs + tools, {"companion": raw_costs, "tools": raw_tools}


# ---- the companion ---------------------------------------------------------------------------------------------------


def run_file(events):
    text = (ROOT / "experiments" / "demo.toml").read_text().replace("../build/", f"{ROOT}/build/")
    text = text.replace('kind = "auto"', 'kind = "loopback"')
    return text + (f'\n[noise]\nevents = "{events}"\n' if events else "")


def one_run(events, folder, seconds):
    """A run's directory, and why it recorded no noise."""
    place = Path(tempfile.mkdtemp(dir=folder))
    (place / "demo.toml").write_text(run_file(events))
    run = ["run", place / "demo.toml", "--seconds", str(seconds), "--out", place / "run", "--json"]
    command = [RELEASE / "tickscope", *run]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: the demo ended with {done.returncode}: {done.stderr}")
    lacks = [event["text"] for event in json.loads(done.stdout)["events"] if event["what"] == "noise-missing"]
    return place / "run", [why for why in lacks if not why.startswith("the run file asks")]


def companion(options):
    kinds, seconds = [None, *COMPANIONS], max(1, options.of(RUN_SECONDS))
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        runs = {kind: [] for kind in kinds}
        for number in range(max(2, options.of(ROUNDS))):
            for kind in kinds[number % 3 :] + kinds[: number % 3]:
                run, lacks = one_run(kind, folder, seconds)
                if lacks:
                    print(f"noise: the companion is not measured: {lacks[0]}")
                    return [], {"not measured": lacks}
                runs[kind].append(run)
        compared = {kind: compare(runs[None], runs[kind]) for kind in COMPANIONS}
    return [row(kind, found) for kind, found in compared.items()], compared


def compare(before, after):
    """The change of the median round trip, as JSON."""
    command = [RELEASE / "tickscope", "compare", "--quantiles", "50", "--json", "--before", *before, "--after", *after]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    table = json.loads(done.stdout)
    whole = next(stage for stage in table["stages"] if stage["role"] == "end-to-end")["changes"][0]
    return {"hertz": table["hertz"], **whole}


def row(kind, found):
    us = 1e6 / found["hertz"]
    before, shift, limit = found["before"]["ticks"] * us, found["shift"], COMPANIONS[kind]
    ends = [shift["statistics_lo_ticks"], shift["statistics_hi_ticks"]]
    ends = [end * us if end is not None else None for end in ends]
    between = ", ".join("?" if end is None else f"{100 * end / before:.1f}" for end in ends)
    percent = 100 * shift["ticks"] * us / before
    # Met or missed for sure; where the interval leaves it open, neither.
    met = None if None in ends or ends[0] <= before * limit / 100 < ends[1] else ends[1] <= before * limit / 100
    title = f"demo p50, [noise] {kind}: added % [{between}]"
    return figure(title, percent, "%", None, f"<= {limit} % of {before:.1f} us", met)


# ---- the tools -------------------------------------------------------------------------------------------------------


def ours(words):
    profile = json.loads(words)
    cores = profile["cores"]
    us = 1e6 / profile["hertz"]
    detours = [detour for of in cores for detour in of["detours"]["longest"]]
    longest = max((detour["after"] - detour["before"] for detour in detours), default=0)
    count = sum(of["count"] for of in cores)
    lost = sum(of["lost_ticks"][1] for of in cores)
    causes = [cause for of in cores for cause in of["causes"] or []]
    known = [cause for cause in causes if cause["class"] not in ("unknown", "hypervisor-or-hardware")]
    by = sum(cause["lost_ticks"][1] for cause in known)
    names = f"{100 * by / lost:.1f} % of the lost time by name" if causes and lost else "nothing: no causes recorded"
    return longest * us, f"{count} detours; names {names}"


def maxima(pattern):
    def read(words):
        found = [float(number) for numbers in re.findall(pattern, words) for number in numbers.split()]
        return (max(found) if found else None), "a histogram of latencies; names nothing"

    return read


TICKSCOPE = [str(RELEASE / "tickscope"), "noise", "--json", "--cores", CORES]
# Name, package of Debian, command with {seconds}, what it prints.
TOOLS = [
    ("tickscope noise", None, [*TICKSCOPE, "--seconds", "{seconds}"], ours),
    ("tickscope noise --no-trace", None, [*TICKSCOPE, "--no-trace", "--seconds", "{seconds}"], ours),
    (
        "cyclictest", "rt-tests",
        ["cyclictest", "-m", "-a", CORES, "-t", str(len(CPUS)), "-p", FIFO, "-i", "200", "-q", "-D", "{seconds}"],
        maxima(r"Max:\s*(\d+)"),
    ),
    ("oslat", "rt-tests", ["oslat", "-c", CORES, "-f", FIFO, "-D", "{seconds}"], maxima(r"Maximum:\s*([\d ]+)")),
    (
        "jitterdebugger", "jitterdebugger",
        ["jitterdebugger", "-a", CORES, "-p", FIFO, "-i", "200", "-D", "{seconds}s"],
        maxima(r"Max:\s*([\d.]+)"),
    ),
]


def beside_tools(options):
    seconds, rows, raw = max(2, options.of(TOOL_SECONDS)), [], {}
    chrt = ["chrt", "-f", FIFO] if os.geteuid() == 0 and shutil.which("chrt") else []
    for name, package, command, read in TOOLS:
        words = [word.format(seconds=seconds) for word in command]
        if not shutil.which(words[0]):
            print(f"noise: {name} is not measured: it is not installed (Debian: {package})")
            raw[name] = "not installed"
            continue
        prefix = chrt if package is None else []
        done = subprocess.run([*prefix, *words], cwd=ROOT, capture_output=True, text=True, check=False)
        longest, saw = read(done.stdout) if done.returncode == 0 else (None, "")
        out, err, code = done.stdout, done.stderr, done.returncode
        raw[name] = {"command": [*prefix, *words], "code": code, "out": out[-4000:], "err": err[-2000:]}
        if longest is None:
            print(f"noise: {name} is not measured: it ended with {code}: {(err or out).strip()[-200:]}")
            continue
        print(f"noise: {name} saw {saw}")
        rows.append(figure(f"{name}: longest, {seconds} s", longest, "us"))
    return rows, raw
