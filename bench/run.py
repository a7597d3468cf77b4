#!/usr/bin/env python3
"""Measures what tickscope costs, beside the floor or rival measured in the same run. What and how: bench/README.md.

    bench/run.py [--keep | --quick] [--only NAME ...] [--scratch FOLDER]

A missed target is said and is no error (exit 0); whatever goes wrong is (exit 1).
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

from codecs_cost import DRAWN, measure_codecs
from figures import at_least, at_most, figure, median, none_of, print_table, quantile
from foreign import SECONDS as FOREIGN_SECONDS
from foreign import foreign_clocks
from java import measure_java
from load import measure_load
from noise import measure_noise
from path import kernel_path
from policies import measure_policies
from processes import (
    BUILD, CPUS, RELEASE, ROOT, STAMPING_CPU, blocks_of, collector, filesystem, measured, output_of, stamp_directory,
)
from prrt import measure_prrt
from recorders import measure_rivals
from sender import measure_sending
from sustained import Pace, figures_of, measure_sustained, pace
from table import measure_table

INJECTION = "0:1000000000:12500:900:150000000000"


# ---- building --------------------------------------------------------------------------------------------------------


# Crates whose programs a benchmark needs.
CRATES = {
    "stamp": ("cli", "stamp"), "paced": ("cli",), "demo": ("cli", "store"), "join": ("store",), "report": ("cli", "analysis"),
    "perfetto": ("cli", "analysis"),
    "clock_map": ("bracket",), "medcouple": ("stats",), "outliers": ("stats",), "rivals": ("cli",), "path": ("cli",),
    "overhead": ("cli",), "python": ("cli", "analysis"), "foreign": ("cli",), "policies": ("cli", "stamp"),
    "codecs": ("store",), "java": ("stamp",), "sustained": ("cli", "store"), "load": ("load",),
    "noise": ("cli",),
    "prrt": ("cli", "prrt"), "sending": ("cli",), "table": ("cli", "analysis"),
}


def build(names):
    crates = sorted({crate for name in names for crate in CRATES[name]})
    packages = [word for crate in crates for word in ("-p", f"tickscope-{crate}")]
    packages += ["--features", "tickscope-prrt/quic"] if "prrt" in crates else []
    subprocess.run(["cargo", "build", "--release", "--locked", "--quiet", "--bins", "--examples", *packages], cwd=ROOT, check=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    compile_c("bench/stamp_library.c", BUILD / "libstamp_library.so", "-shared", "-fPIC")
    compile_c("bench/stamp.c", BUILD / "stamp")
    compile_c("bench/policies.c", BUILD / "policies")
    compile_c("bench/paced.c", BUILD / "paced")
    compile_c("targets/udp-echo/udp-echo.c", ROOT / "build" / "udp-echo")
    compile_c("targets/zmq-pull/zmq-pull.c", BUILD / "zmq-pull")


def compile_c(source, program, *flags):
    common = ["-O2", "-Wall", "-Wextra", "-pthread", "-I", "crates/stamp/include"]
    subprocess.run(["cc", *common, *flags, "-o", program, source, "-ldl"], cwd=ROOT, check=True)


# ---- 1. the cost of a stamp ------------------------------------------------------------------------------------------

STAMPS = 500  # in a block


def stamp_cost(options):
    alone = c_blocks(rounds=options.of(400))
    beside = c_blocks_beside_a_collector(rounds=options.of(1000))
    injected = c_blocks(rounds=options.of(200), environment={"TICKSCOPE_INJECT": INJECTION})
    rust = rust_blocks(rounds=options.of(400))
    rows = [readings(alone, name) for name in ("rdtsc", "rdtscp", "lfence;rdtsc", "clock_gettime")]
    rows += targets("C", alone) + targets("C beside a collector", beside) + targets("Rust", rust)
    rows.append(above_rdtsc("C injected: plain", injected, "plain"))
    for title, name in [("a tick read already", "record"), ("CLOCK_REALTIME", "realtime"), ("a bracket, best of 8", "bracket")]:
        rows.append(figure(f"C: {title}", median(alone[name]), "ns", ("clock_gettime", median(alone["clock_gettime"]))))
    raw = {"alone": alone, "beside a collector": beside, "injected": injected, "Rust": rust}
    return rows, {"stamps a block": STAMPS, "ns a stamp, block by block": raw}


def targets(who, blocks):
    rows = [above_rdtsc(f"{who}: plain", blocks, "plain", limit=3)]
    rows += [above_rdtsc(f"{who}: {name}", blocks, name) for name in ("before", "after", "wide")]
    if "library" in blocks:
        rows.append(above_rdtsc(f"{who}: in a loaded library", blocks, "library", limit=12))
    off = at_most(f"{who}: off", median(blocks["off"]), "ns", 2, ("empty loop", median(blocks["nothing"])))
    return rows + [off]


def readings(blocks, name):
    return figure(f"reading: {name}", median(blocks[name]), "ns", ("rdtsc", median(blocks["rdtsc"])))


def above_rdtsc(title, blocks, name, limit=None):
    """The target is judged by the median of differences within rounds, which are neighbours in time."""
    above = median([block - floor for block, floor in zip(blocks[name], blocks["rdtsc"])])
    more = {"above_rdtsc_ns": above, "p10_ns": quantile(blocks[name], 0.1), "p90_ns": quantile(blocks[name], 0.9)}
    beside = (f"rdtsc{above:+.2f}:", median(blocks["rdtsc"]))
    if limit is None:
        return figure(title, median(blocks[name]), "ns", beside, **more)
    return figure(title, median(blocks[name]), "ns", beside, f"<= rdtsc + {limit} ns", above <= limit, **more)


def c_blocks(rounds, environment=None, pause_us=0):
    with stamp_directory(128 << 20) as directory:
        blocks, dropped = c_blocks_in({**directory, **(environment or {})}, rounds, pause_us)
    if dropped:
        sys.exit(f"bench: expected a pool that holds every stamp, found {dropped} dropped")
    return blocks


def c_blocks_in(environment, rounds, pause_us):
    command = [BUILD / "stamp", STAMPING_CPU, rounds, STAMPS, pause_us, BUILD / "libstamp_library.so"]
    output = output_of(command, None, environment)
    return blocks_of(output), int(re.search(r"^count dropped\t(\d+)$", output, re.MULTILINE)[1])


def c_blocks_beside_a_collector(rounds):
    """The pool is small enough to be freed and used again several times."""
    with stamp_directory(32 << 20) as environment, tempfile.TemporaryDirectory() as run:
        with collector(environment["TICKSCOPE_DIR"], run):
            blocks, dropped = c_blocks_in(environment, rounds, pause_us=250)
    if dropped:
        print(f"beside a collector: it fell behind, {dropped} stamps were dropped; their blocks count as they are")
    return blocks


def rust_blocks(rounds):
    with stamp_directory(128 << 20) as environment:
        command = [RELEASE / "examples" / "stamp_cost", STAMPING_CPU, rounds, STAMPS]
        return blocks_of(output_of(command, None, environment))


# ---- 2. a paced producer and its collector ---------------------------------------------------------------------------

PACED = Pace(seconds=12, hz=10_000_000)


def paced(options):
    produced, collected = pace(PACED, options)
    rows = figures_of(PACED, options, produced, collected)
    rows.append(figure("bytes a stamp, tight batches", collected["bytes"] / collected["stamps"], "B"))
    return rows, {"producer": produced, "collector": collected, "files on": filesystem(options.scratch)}


# ---- 3. bytes a stamp of the demo ------------------------------------------------------------------------------------

DEMO_SECONDS = 20


def demo_bytes(options):
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        demo = [RELEASE / "tickscope", "run", "experiments/demo.toml", "--seconds", options.of(DEMO_SECONDS), "--out", run, "--json"]
        output_of(demo)
        points = [json.loads(line) for line in output_of([RELEASE / "examples" / "entropy", run]).splitlines()]
    return [bytes_of(point) for point in points], {"points": points}


# Points of tickscope's own processes: fewer stamps a second, with values beside. The target is for the target's.
OWN_POINTS = re.compile(r"\.(clock-bracket\.|probe-)")


def bytes_of(point):
    entropy, size = (point["tick_bits"] + point["id_bits"]) / 8, point["bytes"] / point["stamps"]
    if OWN_POINTS.search(point["point"]):
        return figure(f"demo's evidence: {point['point']}", size, "B", ("entropy", entropy))
    return at_most(f"demo, 1 kHz: {point['point']}", size, "B", 3.2, ("entropy", entropy))


# ---- 4. the join -----------------------------------------------------------------------------------------------------

JOIN_IDS = 10_000_000
JOIN_ROUNDS = 5  # of which the middle counts
JOIN_SCATTERS = 4  # bare scatters that it may take


def millions(options):
    return f"{options.of(JOIN_IDS) / 1e6:g}"


def join(options):
    program = RELEASE / "examples" / "join"
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        run = pathlib.Path(folder) / "run"
        output_of([program, "make", run, options.of(JOIN_IDS)])
        scatters, joins = [], []
        for _ in range(JOIN_ROUNDS):
            scatters.append(json.loads(measured([program, "scatter", run])[0]))
            joins.append(measured([program, "join", run]))
    scattered = sorted(scatters, key=lambda each: each["scatter_seconds"])[JOIN_ROUNDS // 2]
    counts, cost = sorted(joins, key=lambda each: each[1]["wall_s"])[JOIN_ROUNDS // 2]
    floor, cpu_floor = (("bare scatter", scattered[key]) for key in ("scatter_seconds", "scatter_cpu_seconds"))
    most = round(JOIN_SCATTERS * scattered["scatter_seconds"], 2)
    rows = [
        at_most(f"join of 10 points x {millions(options)} M ids, wall", cost["wall_s"], "s", min(20, most), floor),
        figure("join, processor time", cost["cpu_s"], "s", cpu_floor),
        at_most("join, peak memory", cost["peak_bytes"] / 1e9, "GB", 2),
    ]
    return rows, {"join": {**json.loads(counts), **cost}, "scatter": scattered, "files on": filesystem(options.scratch)}


# ---- 5. the report ---------------------------------------------------------------------------------------------------

MOST_PAGE_MB = 2


def report(options):
    """The page of a run of two nodes; beside it the table of the same run, which it stands on."""
    make = RELEASE / "examples" / "large_run"
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        run = pathlib.Path(folder) / "run"
        output_of([make, "make", run, options.of(JOIN_IDS)])
        _, table = measured([make, "stages", run])
        _, cost = measured([RELEASE / "tickscope", "report", run])
        page_bytes = (run / "report.html").stat().st_size
    rows = [
        at_most(f"report of 10 points x {millions(options)} M ids, wall", cost["wall_s"], "s", 60, ("its table alone", table["wall_s"])),
        figure("report, processor time", cost["cpu_s"], "s", ("its table alone", table["cpu_s"])),
        figure("report, peak memory", cost["peak_bytes"] / 1e9, "GB", ("its table alone", table["peak_bytes"] / 1e9)),
        at_most("report, the page", page_bytes / 1e6, "MB", MOST_PAGE_MB),
    ]
    return rows, {"report": cost, "table": table, "page_bytes": page_bytes, "files on": filesystem(options.scratch)}


PERFETTO_IDS = 500_000


def perfetto(options):
    """A trace for Perfetto of a run of two nodes; beside it a copy of its bytes, and the table of the same run."""
    make = RELEASE / "examples" / "large_run"
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        run, trace = pathlib.Path(folder) / "run", pathlib.Path(folder) / "trace"
        output_of([make, "make", run, options.of(PERFETTO_IDS)])
        _, table = measured([make, "stages", run])
        said, cost = measured([RELEASE / "tickscope", "export", run, "--perfetto", trace, "--json"])
        trace_bytes = trace.stat().st_size
        _, copied = measured(["cp", trace, pathlib.Path(folder) / "copy"])
    slices = sum(stage["slices"] for stage in json.loads(said)["stages"])
    rate = lambda cost: slices / cost["wall_s"] / 1e6
    rows = [
        at_least(f"perfetto, {slices / 1e6:.1f} M slices", rate(cost), "M/s", 1, ("a copy of the file", rate(copied))),
        figure("perfetto, processor time", cost["cpu_s"], "s", ("its table alone", table["cpu_s"])),
        figure("perfetto, peak memory", cost["peak_bytes"] / 1e9, "GB"),
    ]
    raw = {"export": cost, "table": table, "copy": copied, "slices": slices, "trace_bytes": trace_bytes}
    return rows, {**raw, "files on": filesystem(options.scratch)}


# ---- 6. the clock map ------------------------------------------------------------------------------------------------


def clock_map(_options):
    output = output_of([RELEASE / "examples" / "cost"], STAMPING_CPU)
    found = re.findall(r"^([a-z][^:\n]*): ([0-9.]+) (ms|ns)", output, re.MULTILINE)
    rows = [figure(f"clock_map, {name}", float(value), unit) for name, value, unit in found]
    if not rows:
        sys.exit(f"bench: expected figures of the clock map, found\n{output}")
    return rows, {"output": output}


# ---- 7. the medcouple ------------------------------------------------------------------------------------------------

MOST_SORTS = 6


def medcouple(_options):
    output = output_of([RELEASE / "examples" / "medcouple_cost"], STAMPING_CPU)
    rounds = {}
    for name, sort, whole in re.findall(r"^round (.+)\t(.+)\t(.+)$", output, re.MULTILINE):
        rounds.setdefault(name, []).append((float(sort), float(whole)))
    return [beside_sorting(name, pairs) for name, pairs in rounds.items()], {"ms a round: sort, sort and medcouple": rounds}


def beside_sorting(name, rounds):
    """Judged by the median of the rounds' ratios: the speed of the machine changes from one to the next."""
    ratio = median([whole / sort for sort, whole in rounds])
    sort, whole = (median(list(column)) for column in zip(*rounds))
    row = figure(f"medcouple of 10^6, {name}", whole, "ms", ("sort", sort), f"<= {MOST_SORTS} x sort", ratio <= MOST_SORTS)
    return row | {"ratio": ratio}


# ---- 8. outlier rules, judged by truth -------------------------------------------------------------------------------


def outliers(_options):
    output = output_of([RELEASE / "examples" / "outliers"])
    print(output)
    rows = []
    for title, section in re.findall(r"^(tuned on|held out): \d+ families.*?$(.*?)^\1, F1", output, re.MULTILINE | re.DOTALL):
        for rule, coverage, f1 in re.findall(r"^(\S+) +0\.40 % +(\S+) +\S+ +\S+ +(\S+)", section, re.MULTILINE):
            default = rule == "gap-or-tail"
            target = {"target": ">= 0.85", "met": float(f1) >= 0.85} if default else {}
            rows.append(figure(f"{title}, {rule}: F1, coverage {coverage}", float(f1), "", **target))
        for rule, worst in re.findall(r"^(\S+) +none .* (\S+) %$", section, re.MULTILINE):
            if rule == "gap-or-tail":
                rows.append(at_most(f"{title}, {rule}: worst false positives", float(worst), "%", 0.2))
    frequent = r"^(contaminated|drawn again): 12 families[^\n]*$(.*?)^rule[^\n]* FP worst"
    for title, section in re.findall(frequent, output, re.MULTILINE | re.DOTALL):
        silent = re.findall(r"^gap-or-tail +\S+ % .* (\S+)$", section, re.MULTILINE)
        worst = max(map(float, silent))
        rows.append(at_most(f"{title}, gap-or-tail: outliers left in silence, worst share", worst, "", 0))
    section = output.partition("all 42 families")[2].partition("small:")[0]
    for rule, f1, coverage in re.findall(r"^(\S+) +(\S+) +(\S+) .* %", section, re.MULTILINE):
        rows.append(figure(f"all, {rule}: F1, abstention as 0, coverage {coverage}", float(f1), ""))
    if not rows:
        sys.exit(f"bench: expected tables of outlier rules, found\n{output}")
    return rows, {"tables": output.splitlines()}


# ---- 9. rivals -------------------------------------------------------------------------------------------------------


RIVAL_ROUNDS = 400


def rivals(options):
    """Recorders and clocks of others, under the protocol of stamp_cost: bench/recorders.py."""
    return measure_rivals(options.of(RIVAL_ROUNDS))


# ---- 10. the kernel's stamps -----------------------------------------------------------------------------------------


def path(options):
    return kernel_path(RELEASE / "tickscope", options.scratch, figure, at_most)


# ---- 11. what measuring adds to the demo's target -------------------------------------------------------------------


def overhead(options):
    """The demo with and without being measured, in pairs of passes."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        seconds = options.of(DEMO_SECONDS)
        table = json.loads(
            output_of([RELEASE / "tickscope", "run", "experiments/demo.toml", "--overhead", "--seconds", seconds, "--out", run, "--json"])
        )
    cost = table["cost"]
    rows = [added(compared) for compared in cost["overhead"]["fields"]]
    rows += [
        figure(f"demo's {node['node']}: stamps' share of its processor time", 100 * node["stamping_share"], "%")
        for node in cost["nodes"]
    ]
    return rows, {"cost": cost}


def added(compared):
    """A difference with its interval, beside what it is a difference to."""
    added = compared["added"]
    lo, hi, sure = (added[name] for name in ("lo", "hi", "confidence"))
    title = f"{compared['node']} {compared['field']}: measuring added [{lo:g}, {hi:g}]"
    more = {"lo": lo, "hi": hi, "confidence": sure, "pairs": compared["pairs"]}
    return figure(title, added["median"], "ns", ("alone", compared["alone"]), **more)


# ---- 12. Python ------------------------------------------------------------------------------------------------------

PYTHON = BUILD / "python"
PYTHON_ROUNDS = 150


def python(options):
    """A stamp in Python, and the table of a run of 10 points x 10 M ids; the package is built as for users."""
    scripts = ROOT / ".venv" / "bin"
    environment = {"PATH": f"{scripts}:{os.environ['PATH']}", "PYTHONPATH": str(PYTHON)}
    install = [scripts / "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation", "--no-deps", "--upgrade"]
    output_of([*install, "--target", PYTHON, ROOT], environment=environment)
    with stamp_directory(64 << 20) as pool, tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        with collector(pool["TICKSCOPE_DIR"], folder):
            stamped = output_of([scripts / "python", "bench/stamp_python.py", options.of(PYTHON_ROUNDS)], STAMPING_CPU, environment | pool)
    blocks = json.loads(stamped)
    loop = median(blocks["loop"])
    clock = ("perf_counter_ns()", median(blocks["perf_counter_ns()"]) - loop)
    stamps = [figure(f"Python: {name}", median(blocks[name]) - loop, "ns", clock) for name in blocks if name not in ("loop", clock[0])]
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        output_of([RELEASE / "examples" / "large_run", "make", f"{folder}/run", options.of(JOIN_IDS)])
        ask = f"import tickscope; print(len(tickscope.open({folder + '/run'!r}).stages()))"
        stages, cost = measured(["env", *(f"{name}={value}" for name, value in environment.items()), scripts / "python", "-c", ask])
        _, bare = measured([RELEASE / "examples" / "large_run", "stages", f"{folder}/run"])
    rows = [
        at_most(f"stages() of 10 points x {millions(options)} M ids, wall", cost["wall_s"], "s", 10, ("the same in Rust alone", bare["wall_s"])),
        figure("stages(), processor time", cost["cpu_s"], "s", ("the same in Rust alone", bare["cpu_s"])),
        figure("stages(), peak memory", cost["peak_bytes"] / 1e9, "GB"),
    ]
    return stamps + rows, {"ns a call, by block": blocks, "stages": int(stages), "cost": cost, "cost in Rust": bare}


# ---- 13. the clocks of others ----------------------------------------------------------------------------------------


def foreign(options):
    """chrony and ptp4l on the same veth pair, at the same time: bench/foreign.py. As root only."""
    seconds = options.seconds or options.of(FOREIGN_SECONDS)
    return foreign_clocks(RELEASE / "tickscope", options.scratch, seconds, figure, at_most, none_of)


# ---- 14. the policies ------------------------------------------------------------------------------------------------


def policies(options):
    """What a stamp costs under each policy, beside Cloudprofiler's Table III: bench/policies.py."""
    return measure_policies(options)


# ---- 15. codecs ------------------------------------------------------------------------------------------------------


def codecs(options):
    """General codecs over records, beside the disk: bench/codecs_cost.py."""
    return measure_codecs(options)


# ---- 16. twice the rate for a minute ---------------------------------------------------------------------------------


def sustained(options):
    """20 M stamps/s for a minute, to Parquet that DuckDB reads: bench/sustained.py."""
    return measure_sustained(options)


# ---- 17. a paced load ------------------------------------------------------------------------------------------------


def load(options):
    """How late a paced load is, next to bare readings of the counter: bench/load.py."""
    return measure_load(options)


# ---- 18. Java --------------------------------------------------------------------------------------------------------


def java(options):
    """A stamp in Java on each JDK that is here: bench/java.py."""
    return measure_java(options)


# ---- 19. noise -------------------------------------------------------------------------------------------------------


def noise(options):
    """What `[noise]` costs, and what others see: bench/noise.py."""
    return measure_noise(options)


# ---- 20. PRRT --------------------------------------------------------------------------------------------------------


def prrt(options):
    """Coding beside copying, PRRT beside UDP, TCP and QUIC: bench/prrt.py."""
    return measure_prrt(options)


# ---- 21. a load over sockets -----------------------------------------------------------------------------------------


def sending(options):
    """Lateness over ZeroMQ; a stalled server as we, wrk and redis-benchmark tell it: bench/sender.py."""
    return measure_sending(options)


# ---- 22. the table, beside DuckDB and Polars -------------------------------------------------------------------------


def table(options):
    """Bounds and all, beside plain quantiles of the same stages; and asked again: bench/table.py."""
    return measure_table(options)


# ---- a run -----------------------------------------------------------------------------------------------------------

BENCHMARKS = {
    "stamp": stamp_cost, "paced": paced, "demo": demo_bytes, "join": join, "report": report, "perfetto": perfetto,
    "clock_map": clock_map,
    "medcouple": medcouple, "outliers": outliers, "rivals": rivals, "path": path, "overhead": overhead, "python": python,
    "foreign": foreign, "policies": policies, "codecs": codecs, "sustained": sustained, "load": load,
    "java": java, "noise": noise, "prrt": prrt,
    "sending": sending, "table": table,
}


def main():
    options = parse_options()
    names = options.only or list(BENCHMARKS)
    build(names)
    result = {**described(), "benchmarks": {}}
    for name in names:
        before = os.getloadavg()
        rows, raw = BENCHMARKS[name](options)
        load = {"before": before, "after": os.getloadavg()}
        result["benchmarks"][name] = {"load": load, "figures": rows, "raw": raw}
    rows = [row for part in result["benchmarks"].values() for row in part["figures"]]
    print_table(rows)
    say(rows, result)
    if options.keep:
        keep(result)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", action="store_true", help="keep the result under bench/runs/")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help=" ".join(BENCHMARKS))
    parser.add_argument("--scratch", default="/dev/shm", help="where runs of the paced producer and the join lie")
    parser.add_argument("--seconds", type=int, help="foreign: as long, 14400 for the bounds of hours")
    parser.add_argument("--quick", action="store_true", help="an eighth of everything: to see that it works, not to keep")
    options = parser.parse_args()
    if options.quick and options.keep:
        parser.error("expected --keep without --quick, found both: a quick run is no result")
    options.of = (lambda amount: max(amount // 8, 1)) if options.quick else (lambda amount: amount)
    return options


def say(rows, result):
    missed = [row["name"] for row in rows if row["met"] is False]
    judged = sum(row["met"] is not None for row in rows)
    print(f"\n{judged - len(missed)} of {judged} targets met" + (f"; missed: {', '.join(missed)}" if missed else ""))
    busiest = max(part["load"]["before"][0] for part in result["benchmarks"].values())
    if busiest > 0.5 * len(CPUS):
        print(f"the machine was busy (load up to {busiest:.1f} on {len(CPUS)} processors before a benchmark): figures may be high")


def described():
    now = datetime.datetime.now(datetime.timezone.utc)
    return {
        "date": now.isoformat(timespec="seconds"),
        "machine": {"cpu": cpu_model(), "processors": len(CPUS), "kernel": platform.release(), "memory_bytes": memory()},
        "commit": git("rev-parse", "HEAD"),
        "changed since": bool(git("status", "--porcelain", "--untracked-files=no")),
        "command": " ".join(["bench/run.py", *sys.argv[1:]]),
        "compilers": [first_line("cc", "--version"), first_line("rustc", "--version")],
    }


def cpu_model():
    found = re.search(r"^model name\s*: (.+)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def memory():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def first_line(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def keep(result):
    words = f"{result['machine']['cpu']} {result['machine']['processors']} cpu"
    machine = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((R|TM)\)|CPU|Processor", "", words).lower()).strip("-")
    stamp = re.sub(r"[-:]", "", result["date"])[:15]
    folder = ROOT / "bench" / "runs" / f"{stamp}-{machine}"
    folder.mkdir(parents=True)
    text = json.dumps(result, indent=1)
    # Blocks: one line a variant, not one a number.
    text = re.sub(r"\[\s+([-0-9.,\s]+?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m[1]) + "]", text)
    (folder / "result.json").write_text(text + "\n")
    if "codecs" in result["benchmarks"]:
        shutil.copy(DRAWN, folder)
    print(f"kept in {folder.relative_to(ROOT)}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failure:
        sys.exit(f"bench: {failure}")
