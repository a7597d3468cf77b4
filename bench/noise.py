"""What `[noise]` costs the demo, and what other tools see on the cores that `tickscope noise` surveys, and can name.

The companion: one run of the demo for each kind, in which the recorder is stopped and its events are switched off every
other half second; a block's median round trip beside those of its two neighbours, and over all blocks the median of
these with the interval that holds it in 95 % of samples (order statistics). Pairs share the run's processes, and the
machine's weather. The floor: the same while the kernel traces switches and nobody reads its trace. The tools: each has
all cores for as long, one after the other, under the same real-time priority. A tool that is not installed, or does not
run here, is named with why.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from figures import figure, interval_of_median, median
from processes import CPUS, RELEASE, ROOT, output_of

COMPANION_SECONDS, BLOCK_SECONDS, TOOL_SECONDS = 120, 0.5, 20
# Median round trip: how much longer it may be, percent.
COMPANIONS = {"switches": 2, "all": 10}
# The kernel's part of it: its events are read while none are made.
FLOOR = "switches, not read"
CORES = ",".join(map(str, CPUS))
FIFO = "50"
# Round trips of a block that has a median.
FEWEST = 50
INSTANCES = Path("/sys/kernel/tracing/instances")
# Each round trip that lies well within a block, as [block, recorded, ticks]. Where nothing is recorded for a third of a
# block's length the recorder was stopped; what lies within a fifth of a change is left out.
ROUND_TRIPS = """
    WITH rows AS (SELECT DISTINCT begin AS tick FROM read_parquet('{run}/noise/*/*.parquet')
                  WHERE class IN ('task', 'interrupt', 'softirq')),
         gaps AS (SELECT lag(tick) OVER (ORDER BY tick) AS off, tick AS again FROM rows),
         stops AS (SELECT off, again FROM gaps WHERE again - off > {block} / 3),
         ends AS (SELECT unnest([off, again]) AS tick, unnest([false, true]) AS recorded FROM stops),
         blocks AS (SELECT row_number() OVER (ORDER BY tick) AS block, recorded, tick AS begin,
                           lead(tick) OVER (ORDER BY tick) AS until FROM ends),
         trips AS (SELECT "client.send" AS sent, "client.response" AS came FROM traces)
    SELECT block, recorded, came - sent FROM trips JOIN blocks
        ON sent > begin + {block} / 5 AND came < until - {block} / 5
"""
# The package is what `make python` installs.
READ = """
import json, sys, duckdb, tickscope
run, ask, seconds = tickscope.open(sys.argv[1]), sys.argv[2], float(sys.argv[3])
hertz, traces = run.figures()["frequency"]["hertz"], run.traces()
print(json.dumps([hertz, duckdb.sql(ask.format(run=sys.argv[1], block=int(seconds * hertz))).fetchall()]))
"""


def measure_noise(options):
    costs, raw_costs = companion(options)
    tools, raw_tools = beside_tools(options)
    return costs + tools, {"companion": raw_costs, "tools": raw_tools}


# ---- the companion ---------------------------------------------------------------------------------------------------


def companion(options):
    seconds, found = max(10, options.of(COMPANION_SECONDS)), {}
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        for kind in [*COMPANIONS, FLOOR]:
            run, lacks = one_run(kind, Path(folder) / kind.replace(" ", "-"), seconds)
            if lacks:
                print(f"noise: the companion is not measured: {lacks}")
                return [], {"not measured": lacks}
            found[kind] = added(run)
    return [row(kind, of) for kind, of in found.items()], found


def one_run(kind, place, seconds):
    """A run's directory, and why it recorded no noise."""
    place.mkdir()
    events = "switches" if kind == FLOOR else kind
    text = (ROOT / "experiments" / "demo.toml").read_text().replace("../build/", f"{ROOT}/build/")
    text = text.replace('kind = "auto"', 'kind = "loopback"') + f'\n[noise]\nevents = "{events}"\n'
    (place / "demo.toml").write_text(text)
    run_words = ["run", place / "demo.toml", "--seconds", str(seconds), "--out", place / "run", "--json"]
    command = [RELEASE / "tickscope", *run_words]
    before = set(INSTANCES.glob("tickscope-*"))
    with (place / "out.json").open("w") as out, (place / "err.txt").open("w") as err:
        with subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=err) as run:
            by_turns(run, before, is_read=kind != FLOOR)
    if run.returncode:
        raise SystemExit(f"bench: the demo ended with {run.returncode}: {(place / 'err.txt').read_text()[-2000:]}")
    events_told = json.loads((place / "out.json").read_text())["events"]
    why = [event["text"] for event in events_told if event["what"] == "noise-missing"]
    return place / "run", next((text for text in why if text.startswith("noise was not recorded")), None)


def by_turns(run, before, is_read):
    """Stops the recorder and its events, and lets both go on, by turns until the run is over."""
    recorders = {}
    try:
        for is_recording in itertools.cycle([False, True]):
            if run.poll() is not None:
                return
            for instance in set(INSTANCES.glob("tickscope-*")) - before:
                with contextlib.suppress(OSError):  # it may have ended meanwhile
                    recorders.setdefault(instance, events_of(instance))
                    turn(instance, recorders[instance] if is_recording else "", is_read)
            time.sleep(BLOCK_SECONDS)
    finally:
        for instance, events in recorders.items():
            with contextlib.suppress(OSError):
                turn(instance, events, is_read=True)


def events_of(instance):
    return (instance / "set_event").read_text()


def turn(instance, events, is_read):
    """Lets the kernel trace these events, and the recorder read them."""
    recorder = int(instance.name.split("-")[1])
    if events and is_read:
        os.kill(recorder, signal.SIGCONT)
    (instance / "set_event").write_text(events)
    if not events and not is_read:  # it reads what was traced, while nothing is
        os.kill(recorder, signal.SIGCONT)
        time.sleep(BLOCK_SECONDS / 10)
    if not (events and is_read):
        os.kill(recorder, signal.SIGSTOP)


def added(run):
    """What recording adds to the median round trip: in percent, pair by pair, with the median of all blocks without."""
    python = ROOT / ".venv" / "bin" / "python"
    hertz, trips = json.loads(output_of([python, "-c", READ, run, ROUND_TRIPS, BLOCK_SECONDS]))
    blocks = {}
    for block, recorded, ticks in trips:
        blocks.setdefault(block, (recorded, []))[1].append(ticks)
    medians = {block: (recorded, median(ticks)) for block, (recorded, ticks) in blocks.items() if len(ticks) >= FEWEST}
    shares = []
    for block, (recorded, with_it) in medians.items():
        beside = [medians[near] for near in (block - 1, block + 1) if near in medians]
        if recorded and len(beside) == 2:
            shares.append(100 * (2 * with_it / sum(ticks for _, ticks in beside) - 1))
    if len(shares) < 6:
        raise SystemExit(f"bench: expected at least 6 blocks with recording between two without, found {len(shares)}")
    without = median([ticks for recorded, ticks in medians.values() if not recorded])
    return {"percent": shares, "without_us": 1e6 * without / hertz}


def row(kind, found):
    (lo, hi), limit = interval_of_median(found["percent"]), COMPANIONS.get(kind)
    title = f"demo p50, [noise] {kind}: added"
    if limit is None:
        return figure(title, median(found["percent"]), "%", lo=lo, hi=hi, pairs=len(found["percent"]))
    # Met or missed for sure; where the interval leaves it open, neither.
    met = None if lo <= limit < hi else hi <= limit
    target = f"<= {limit} % of {found['without_us']:.1f} us"
    return figure(title, median(found["percent"]), "%", None, target, met, lo=lo, hi=hi, pairs=len(found["percent"]))


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
