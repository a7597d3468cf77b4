"""Other recorders of events, under the protocol of our stamp: what an event costs, what is kept of it, what a kill leaves.

Each is a process of its own that measures, in the same rounds, the readings it stands on and our stamp. Those from Debian are
small C and C++ programs (bench/rivals/), those from crates.io one Rust program (bench/rivals/rust/, pinned by its own lock).
A rival that can't be had is in the table, too, with the reason.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable

import uprobes
from figures import figure, median, quantile
from processes import (
    BUILD, OTHER_CPU, RELEASE, ROOT, STAMPING_CPU, blocks_of, collector, output_of, stamp_directory, start,
)

EVENTS = 500  # in a block
PAUSE_US = 250  # after a round: so that a consumer keeps up
KILLED_EVENTS = 200_000  # one a microsecond, then SIGKILL
POOL_BYTES = 128 << 20
RUST, TRACY, TRACY_ON_DEMAND = (BUILD / f"rival-{name}" for name in ("rust", "tracy", "tracy-on-demand"))
RUST_PROGRAMS = {
    RUST: ["tickscope-rivals"], TRACY: ["tracy"], TRACY_ON_DEMAND: ["tracy", "--features", "tracy-on-demand"],
}
USDT = BUILD / "rival-usdt"
LOCK = ROOT / "bench" / "rivals" / "rust" / "Cargo.lock"


@dataclasses.dataclass
class Recorder:
    """A recorder that can be had."""

    name: str
    version: Callable[[], str]
    command: list
    when_full: str
    event: str  # what one is
    kept: Callable[[pathlib.Path, str], tuple[int | None, int | None]]  # events and bytes, of a folder and what was printed
    beside: Callable  # of a folder and the environment so far: what runs meanwhile; gives the recorder's environment
    packages: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()  # source and flags of a C or C++ program
    survives: bool | None = None  # None: a kill is tried; False: it keeps nothing outside the process


NO_REGISTRY = "no registry reachable here ships it (Debian 12 has none; crates.io, PyPI and npm have others of that name)"
# Median of bursts of 20 000 events that fit the default buffer, recorder's thread live on the other processor; on a virtual
# machine of two Xeon 2.5 GHz processors, where a store and rdtsc in the same loop took 14.2 ns.
CITED_NS = {"quill": 24.8, "NanoLog": 31.7, "binlog": 35.5}
CITED = "cited, not measured: {} ns on another machine, where rdtsc and a store took 14.2; published: {} ns"
# Medians of one thread that logs two whole numbers and a float: the README of https://github.com/odygrd/quill, at
# commit 00a0dbf, on an i5-12600 at 4.8 GHz that was tuned for it. NanoLog's own README says 12.5 ns.
PUBLISHED_NS = {"quill": 8, "NanoLog": 13, "binlog": 20, "spdlog": 148}
ABSENT = {name: f"{NO_REGISTRY}; {CITED.format(ns, PUBLISHED_NS[name])}" for name, ns in CITED_NS.items()}


# ---- how much was kept -----------------------------------------------------------------------------------------------


def lines_of(name):
    def kept(folder, _output):
        file = folder / name
        if not file.exists():
            return 0, 0
        # The last line may have been cut off by a kill: it is no event.
        return file.read_bytes().count(b"\n"), file.stat().st_size

    return kept


def of_lttng(folder, _output):
    trace = folder / "trace"
    shown = subprocess.run(["babeltrace2", trace], capture_output=True, text=True, check=True).stdout
    return shown.count("tickscope_bench:event"), sum(file.stat().st_size for file in trace.rglob("*") if file.is_file())


def counted(_folder, output):
    found = re.search(r"^count kept\t(\d+)$", output, re.MULTILINE)
    return (int(found[1]) if found else None), None


def nothing_kept(_folder, _output):
    """Where events lie until somebody connects, and nobody does."""
    return None, None


def of_uprobes(folder, _output):
    file = folder / "kept.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    return kept.get("events"), kept.get("bytes")


def of_our_collector(folder, _output):
    """All stamps of the run: in `cost` our own variant stamps as many beside."""
    report = json.loads((folder / "report.json").read_text())
    return report["stamps"], report["bytes"]


# ---- what runs beside ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def nothing(_folder, environment):
    yield environment


@contextlib.contextmanager
def our_collector(folder, environment):
    with collector(environment["TICKSCOPE_DIR"], folder / "run") as report:
        yield environment
    (folder / "report.json").write_text(json.dumps(report[0]))


@contextlib.contextmanager
def lttng_session(folder, environment):
    """A session of our own, 8 sub-buffers of 1 MiB, discarding when they are full; and its daemon, where none runs."""
    environment = {**environment, "LTTNG_HOME": str(folder), "LTTNG_UST_REGISTER_TIMEOUT": "-1"}

    def lttng(*words, check=True):
        command = ["lttng", "--no-sessiond", *words]
        return subprocess.run(command, env={**os.environ, **environment}, check=check, capture_output=True, text=True)

    def answers():
        return lttng("list", check=False).returncode == 0

    daemon = None if answers() else start(["lttng-sessiond", "--no-kernel"], OTHER_CPU, environment)
    try:
        if daemon:
            wait_for(answers, daemon)
        name = f"tickscope-{os.getpid()}"
        lttng("create", name, "--output", str(folder / "trace"))
        lttng("enable-channel", "--session", name, "--userspace", "--num-subbuf", "8", "--subbuf-size", "1M", "events")
        lttng("enable-event", "--session", name, "--userspace", "--channel", "events", "tickscope_bench:event")
        lttng("start", name)
        yield environment
        lttng("destroy", name)
    finally:
        if daemon:
            daemon.terminate()
            daemon.wait()


@contextlib.contextmanager
def uprobe(folder, environment):
    """The kernel's own recorder; where it can't be had, a probe that is off is measured alone."""
    if why := uprobes.why_not():
        print(f"bench: USDT is measured off only: {why}", file=sys.stderr)
        yield environment
        return
    with uprobes.recorded(USDT, "event", folder):
        yield {**environment, "TICKSCOPE_USDT_ON": "1"}


def wait_for(answers, daemon):
    for _ in range(100):
        if daemon.poll() is not None:
            raise subprocess.CalledProcessError(daemon.returncode, daemon.args)
        if answers():
            return
        time.sleep(0.1)
    raise TimeoutError("expected lttng-sessiond to answer within 10 s, found it silent")


# ---- who they are ----------------------------------------------------------------------------------------------------


def debian(package):
    """The installed version; empty: none."""
    asked = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True, check=False)
    return asked.stdout if asked.returncode == 0 else ""


def locked(*crates):
    versions = {package["name"]: package["version"] for package in tomllib.loads(LOCK.read_text())["package"]}
    return lambda: ", ".join(f"{crate} {versions[crate]}" for crate in crates)


def of_debian(*packages):
    return lambda: ", ".join(f"{package} {debian(package)}" for package in packages)


def ours():
    return subprocess.run([RELEASE / "tickscope", "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]


def rust(name):
    return [RUST, name]


RECORDERS = [
    Recorder(
        "tickscope", ours, [BUILD / "rival-tickscope"], "drops and counts, or waits", "counter, id", of_our_collector, our_collector,
        compiled=("bench/rivals/tickscope.c", "-ldl"),
    ),
    Recorder(
        "LTTng-UST", of_debian("liblttng-ust-dev", "lttng-tools"), [BUILD / "rival-lttng"], "discards and counts", "clock, id",
        of_lttng, lttng_session, packages=("lttng-tools", "liblttng-ust-dev", "babeltrace2"),
        compiled=("bench/rivals/lttng.c", "-I", "bench/rivals", "-llttng-ust", "-ldl"),
    ),
    Recorder(
        "spdlog", of_debian("libspdlog-dev"), [BUILD / "rival-spdlog"], "blocks", "clock, text with id",
        lines_of("events.log"), nothing, packages=("libspdlog-dev",),
        compiled=("bench/rivals/spdlog.cc", "-DSPDLOG_COMPILED_LIB", "-DSPDLOG_FMT_EXTERNAL", "-lspdlog", "-lfmt"),
    ),
    Recorder(
        "tracing, to memory", locked("tracing"), rust("tracing-memory"), "the subscriber's choice", "counter, id", counted, nothing,
        survives=False,
    ),
    Recorder(
        "tracing, JSON to a file", locked("tracing", "tracing-subscriber", "tracing-appender"), rust("tracing-json"), "blocks",
        "clock, text with id", lines_of("events.json"), nothing,
    ),
    Recorder(
        "fastrace LocalSpan", locked("fastrace"), rust("fastrace"), "drops in silence", "two readings, no id", counted, nothing,
        survives=False,
    ),
    Recorder(
        "USDT by a uprobe", of_debian("systemtap-sdt-dev"), [USDT], "overwrites and counts", "clock, id", of_uprobes, uprobe,
        packages=("systemtap-sdt-dev",), compiled=("bench/rivals/usdt.c", "-ldl"),
    ),
    Recorder(
        "Tracy, no server", locked("tracy-client", "tracy-client-sys"), [TRACY], "grows", "counter, id", nothing_kept, nothing,
        survives=False,
    ),
    Recorder(
        "Tracy on demand, no server", locked("tracy-client", "tracy-client-sys"), [TRACY_ON_DEMAND], "-", "none", nothing_kept,
        nothing, survives=False,
    ),
]
CLOCKS = {"event": "std Instant", "quanta now": "quanta now", "quanta raw": "quanta raw", "minstant": "minstant", "fastant": "fastant"}


# ---- building --------------------------------------------------------------------------------------------------------


def build_rivals():
    """Returns why a recorder could not be built, by name."""
    missing = {recorder.name: why for recorder in RECORDERS if (why := uninstalled(recorder.packages))}
    for recorder in RECORDERS:
        if recorder.compiled and recorder.name not in missing:
            source, *flags = recorder.compiled
            compiler = ["c++", "-std=c++20"] if source.endswith(".cc") else ["cc"]
            common = ["-O2", "-Wall", "-Wextra", "-pthread", "-I", "crates/stamp/include", "-o", recorder.command[0], source]
            subprocess.run([*compiler, *common, *flags], cwd=ROOT, check=True)
    for program, (name, *features) in RUST_PROGRAMS.items():
        if not built(program, name, *features):
            why = "expected its crates to be had and to build, found an error; see above"
            missing |= {recorder.name: why for recorder in RECORDERS if recorder.command[0] == program}
            missing |= {"clocks": why} if program == RUST else {}
    return missing


def built(program, name, *features):
    """Whether a program of bench/rivals/rust could be built; kept under a name of its own, for one name has two builds."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(BUILD / "rivals")}
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--bin", name, *features]
    if subprocess.run(command, cwd=LOCK.parent, env=environment, check=False).returncode != 0:
        return False
    shutil.copy2(BUILD / "rivals" / "release" / name, program)
    return True


def uninstalled(packages):
    """Installs what is missing, as scripts/setup.sh does; why not, where it could not."""
    absent = [package for package in packages if not debian(package)]
    if not absent:
        return None
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"bench: installing {' '.join(absent)}", file=sys.stderr)
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for words in (["update", "-qq"], ["install", "-y", "-qq", *absent]):
            subprocess.run(["apt-get", *words], env=environment, stdout=subprocess.DEVNULL, check=False)
        absent = [package for package in absent if not debian(package)]
    return f"expected {' '.join(absent)}, found none. As root: apt-get install {' '.join(absent)}" if absent else None


# ---- measuring -------------------------------------------------------------------------------------------------------


def measure_rivals(rounds):
    """Rows for the table of figures, and everything else, raw."""
    missing = build_rivals()
    rows, told, blocks = [], [], {}
    for recorder in RECORDERS:
        if recorder.name in missing:
            told.append({"recorder": recorder.name, "absent": missing[recorder.name]})
            continue
        try:
            facts, blocks[recorder.name] = measure_one(recorder, rounds)
        except (subprocess.CalledProcessError, OSError, ValueError) as failure:
            # A rival that does not run here is told in its place; the others go on.
            told.append({"recorder": recorder.name, "absent": f"{failure}\n{getattr(failure, 'stderr', '') or ''}".strip()})
            continue
        told.append(facts)
        rows += rows_of(recorder.name, blocks[recorder.name])
    if "clocks" not in missing:
        blocks["clocks"] = clocks(rounds)
        rows += [beside_rdtsc(f"clock: {name}", blocks["clocks"], variant) for variant, name in CLOCKS.items()]
    told += [{"recorder": name, "absent": why} for name, why in ABSENT.items()]
    beside = ("its spdlog", PUBLISHED_NS["spdlog"])
    rows += [figure(f"{name}, as quill published: an event", PUBLISHED_NS[name], "ns", beside) for name in ABSENT]
    print_recorders(told)
    return rows, {"events a block": EVENTS, "recorders": told, "ns an event, block by block": blocks}


def measure_one(recorder, rounds):
    output, events, size = run_beside(recorder, ["cost"], [STAMPING_CPU, rounds, EVENTS, PAUSE_US])
    recorded = int(re.search(r"^count recorded\t(\d+)$", output, re.MULTILINE)[1])
    if recorder.name == "tickscope":
        recorded *= 2  # the stamp that every process takes beside
    blocks = blocks_of(output)
    facts = {
        "recorder": recorder.name, "version": recorder.version(), "event": recorder.event, "when full": recorder.when_full,
        **{f"{name}_ns": median(blocks[name]) for name in ("event", "rdtsc", "tickscope", "off") if name in blocks},
        "recorded": recorded, "kept": events, "bytes": size,
    }
    if recorder.survives is None:
        _, survived, _ = run_beside(recorder, ["kill"], [STAMPING_CPU, KILLED_EVENTS], killed=True)
        facts["killed after"], facts["survived"] = KILLED_EVENTS, survived
    return facts, blocks


def run_beside(recorder, before, after, killed=False):
    """What it printed, and the events and bytes that it kept."""
    with stamp_directory(POOL_BYTES) as environment, tempfile.TemporaryDirectory(prefix="tickscope-rival-", dir="/dev/shm") as folder:
        folder = pathlib.Path(folder)
        with recorder.beside(folder, environment) as environment:
            # On the other processor until it has opened: its own threads stay there, the recording one moves.
            process = start([*recorder.command, *before, folder, *after], OTHER_CPU, environment)
            output = process.communicate()[0]
        if process.returncode != (-signal.SIGKILL if killed else 0):
            raise subprocess.CalledProcessError(process.returncode, process.args)
        return output, *recorder.kept(folder, output)


def clocks(rounds):
    with stamp_directory(POOL_BYTES) as environment, tempfile.TemporaryDirectory() as folder:
        return blocks_of(output_of([RUST, "clocks", "cost", folder, STAMPING_CPU, rounds, EVENTS, 0], OTHER_CPU, environment))


def rows_of(name, blocks):
    others = [variant for variant in blocks if variant not in ("event", "off", "nothing", "rdtsc", "clock_gettime", "tickscope")]
    rows = [beside_rdtsc(f"{name}: an event", blocks, "event")] if "event" in blocks else []
    rows += [beside_rdtsc(f"{name}: {variant}", blocks, variant) for variant in others]
    if name != "tickscope":
        rows.append(beside_rdtsc(f"{name}: our stamp, same rounds", blocks, "tickscope"))
    if "off" in blocks:
        rows.append(figure(f"{name}: off", median(blocks["off"]), "ns", ("empty loop", median(blocks["nothing"]))))
    return rows


def beside_rdtsc(title, blocks, variant):
    """The difference is the median within rounds, which are neighbours in time."""
    above = median([block - floor for block, floor in zip(blocks[variant], blocks["rdtsc"])])
    more = {"above_rdtsc_ns": above, "p10_ns": quantile(blocks[variant], 0.1), "p90_ns": quantile(blocks[variant], 0.9)}
    return figure(title, median(blocks[variant]), "ns", (f"rdtsc{above:+.2f}:", median(blocks["rdtsc"])), **more)


def print_recorders(told):
    print(f"{'recorder':26} {'ns':>8} {'x rdtsc':>8} {'x ours':>7} {'off ns':>7} {'B/event':>8} {'lost':>9}  "
          f"{'left by kill -9':>16}  {'when full':26} event")
    for facts in told:
        if "absent" in facts:
            print(f"{facts['recorder']:26} not measured: {facts['absent']}")
            continue
        event, off, kept, recorded = (facts.get(name) for name in ("event_ns", "off_ns", "kept", "recorded"))
        size = f"{facts['bytes'] / kept:.1f}" if facts["bytes"] is not None and kept else "-"
        lost = f"{recorded - kept}" if kept is not None else "-"
        left = f"{facts['survived']} of {facts['killed after']}" if "survived" in facts else "nothing"
        costs = [event, event and event / facts["rdtsc_ns"], event and event / facts["tickscope_ns"], off]
        columns = zip(costs, (8, 8, 7, 7), (1, 2, 2, 2))
        cells = [f"{cost:{width}.{places}f}" if cost else f"{'-':>{width}}" for cost, width, places in columns]
        print(f"{facts['recorder']:26} {' '.join(cells)} {size:>8} {lost:>9}  {left:>16}  "
              f"{facts['when full']:26} {facts['event']}; {facts['version']}")
