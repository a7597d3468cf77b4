"""Runs the tests of a tier, and says how many of each kind ran, what failed, which tier it was, and what it left out.

    tests/run.py          `make test`: all that is deterministic, and one path through each command with real processes
    tests/run.py --slow   the same on one processor beside two busy processes: what passes there passes anywhere
    tests/run.py --all    `make test-all`: every case, kill and mutant, ten million true durations

Programs of tests run side by side, those that need the machine for themselves one after the other. A test that fails is
run again twice when nothing else runs: if it passes both times it is *unstable*, which is named and counted; more than
UNSTABLE_MOST of them fail the run, and with --all each does. `tests/heavy.toml` has what `make test` leaves out.
build/test-logs has what each program printed, and summary.json.
"""

import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import jobs
from jobs import BENCHMARKS, LEFT_OUT, LOGS, MUTANT, PASSED, PYTEST, ROOT, Job

ALL, SLOW = "--all" in sys.argv[1:], "--slow" in sys.argv[1:]
TIER = "make test-all" if ALL else "make test SLOW=1" if SLOW else "make test"
KINDS = ("unit", "property", "model-checked", "C", "end-to-end", "Python", "tree", "mutants")
UNSTABLE_MOST = 0 if ALL else 3
# Beyond so many failed tests it is no bad luck, and none is run again.
AGAIN_MOST = 12
SIDE_BY_SIDE = 3
# How much longer than on a machine of its own a program may take.
PATIENCE = 20 if ALL else 4 if SLOW else 1
# Tests of many cases or kills read it: all of them, instead of a third or less.
EVERY_CASE = {"TICKSCOPE_TESTS": "all"} if ALL else {"PROPTEST_RNG_SEED": "20260317"}
HEAVY = {"TICKSCOPE_TRUE_DURATIONS": "10000000", "TICKSCOPE_SECTIONS": "1000000", "TICKSCOPE_STEPS": "1000000"}
MIRI = ["cargo", "+nightly", "miri"]
HAS_MIRI = ALL and subprocess.run([*MIRI, "--version"], cwd=ROOT, capture_output=True, check=False).returncode == 0


def kind_of(group, name):
    """The kind by a test's group, and by the last segment of a Rust test's name."""
    if group == "benchmarks":
        return "end-to-end"
    if group == "readers":
        return "Python" if name.startswith("tests/readers/test_python_") else "end-to-end"
    if group in ("tree", "mutants"):
        return group
    last = name.rsplit("::", 1)[-1]
    for prefix, kind in (("property_", "property"), ("model_", "model-checked"), ("c_", "C"), ("e2e_", "end-to-end")):
        if last.startswith(prefix):
            return kind
    return "unit"


def left_out_here():
    """Tests that only `make test-all` runs, by program; and programs that need the machine for themselves."""
    table = tomllib.loads((ROOT / "tests" / "heavy.toml").read_text())
    return ({} if ALL else table["heavy"]), set(table["exclusive"])


def built(words, environment=None):
    """Builds the test programs of a cargo command; cargo's messages of each."""
    command = ["cargo", "test", "--locked", "--no-run", "--message-format=json-render-diagnostics", *words]
    with (LOGS / "build.log").open("ab") as log:
        done = subprocess.run(
            command, cwd=ROOT, env=os.environ | (environment or {}), stdout=subprocess.PIPE, stderr=log, check=False
        )
    if done.returncode != 0:
        print((LOGS / "build.log").read_text(errors="replace")[-jobs.SHOWN_CHARS :])
        sys.exit("the tests do not build, see above")
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
    return [m for m in messages if m.get("executable") and m.get("profile", {}).get("test")]


def rust_jobs(heavy, exclusive):
    """A job for each program of Rust tests, and one for the examples in comments."""
    unknown = []
    for message in built(["--workspace"]):
        directory = Path(message["manifest_path"]).parent
        target = message["target"]["name"]
        name = f"{directory.name}/{target}"
        binary = message["executable"]
        listed = subprocess.run([binary, "--list"], cwd=directory, capture_output=True, text=True, check=True).stdout
        names = [line.removesuffix(": test") for line in listed.splitlines() if line.endswith(": test")]
        skipped = heavy.pop(name, [])
        unknown += [f"{name}: {test}" for test in skipped if test not in names]
        environment = EVERY_CASE | {"CARGO_MANIFEST_DIR": str(directory)}
        yield Job(
            "Rust and C",
            name,
            [binary, "--exact", *(word for test in skipped for word in ("--skip", test))],
            directory=directory,
            environment=environment,
            limit_s=400 * PATIENCE,
            alone=[binary, "--exact"],
            expected=[test for test in names if test not in skipped],
            exclusive=name in exclusive,
        )
    if unknown:
        sys.exit("tests/heavy.toml names tests that are not there: " + ", ".join(unknown))
    yield Job("Rust and C", "doctests", ["cargo", "test", "--workspace", "--locked", "--doc"], limit_s=400 * PATIENCE)


def pytest_jobs(heavy, exclusive):
    """A job for each file of pytest; the command is built already."""
    pytest = [str(ROOT / ".venv/bin/pytest"), "-v", "-p", "no:cacheprovider"]
    for file in sorted((ROOT / "tests").glob("*/test_*.py")):
        name = str(file.relative_to(ROOT))
        if shutil.which("chromium") is None and name.endswith("_in_browser.py"):
            continue
        skipped = heavy.pop(name, [])
        if skipped and set(re.findall(r"^def (test_\w+)", file.read_text(), re.M)) <= set(skipped):
            continue  # pytest calls a file without a test a failure
        yield Job(
            "readers",
            name,
            [*pytest, name, *(f"--deselect={name}::{test}" for test in skipped)],
            PYTEST,
            environment=EVERY_CASE,
            limit_s=480 * PATIENCE,
            alone=pytest,
            exclusive=name in exclusive,
        )


def other_jobs():
    """What is neither: the model checker, the tree's rules; with --all the mutants and what takes hours."""
    # Parts of loom's that the tests of the workspace spend time in, and the model none.
    plain = [f"--config=profile.dev.package.{name}.opt-level=0" for name in ("memchr", "regex-automata")]
    model = ["cargo", "test", "--locked", *plain, "-p", "tickscope-stamp", "--test", "model"]
    loom = {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": "target/loom", "CARGO_BUILD_JOBS": "1"}
    yield Job("model checker", "model checker", model, environment=loom, limit_s=600 * PATIENCE)
    yield Job("tree", "tree", [sys.executable, "tests/tree", "--self-test"], limit_s=200 * PATIENCE)
    if not ALL:
        return
    million = ["cargo", "test", "--release", "--locked", "--no-fail-fast"]
    million += ["-p", "tickscope-analysis", "-p", "tickscope-clock", "-p", "tickscope-host"]
    million += ["--test", "stepping", "--test", "section", "--test", "step", "--", "--nocapture"]
    yield Job("by the million", "by the million", million, environment=HEAVY, limit_s=7200, exclusive=True)
    bench = [sys.executable, "bench/run.py", "--quick"]
    yield Job("benchmarks", "benchmarks to their end", bench, BENCHMARKS, limit_s=7200, exclusive=True)
    mutants = [sys.executable, "tests/mutants/run.py"]
    yield Job("mutants", "mutants", mutants, MUTANT, limit_s=36_000, exclusive=True)
    if HAS_MIRI:
        # Those that need no mapping of a file, which Miri does not have.
        small = ["--lib", "--test", "memory_model", "--", "--skip", "property_", "policies::", "policy", "pool::"]
        miri = [*MIRI, "test", "--locked", "-p", "tickscope-stamp", *small]
        yield Job("Miri", "Miri", miri, limit_s=7200, exclusive=True)


def run_all(all_jobs):
    """Runs the jobs side by side, then the exclusive ones one after the other; yields each as it ends."""
    waiting, ended = queue.SimpleQueue(), queue.SimpleQueue()
    beside = [job for job in all_jobs if not job.exclusive]
    for job in beside:
        waiting.put(job)

    def work():
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            ended.put(jobs.run(job))

    for _ in range(SIDE_BY_SIDE):
        threading.Thread(target=work, daemon=True).start()
    for _ in beside:
        yield ended.get()
    yield from (jobs.run(job) for job in all_jobs if job.exclusive)


def told(all_jobs):
    """Runs the jobs, and prints how far they are each half a minute and what did not go well at once."""
    results, last = [], time.monotonic()
    for ended in run_all(all_jobs):
        results.append(ended)
        if not ended.went_well or not ended.outcomes and ended.job.name != "doctests" and not ended.job.alone:
            print(jobs.account(ended), flush=True)
        if ended.left_going and ended.went_well:
            print(f"{ended.job.name}:", *ended.left_going, sep="\n", flush=True)
        if time.monotonic() - last > 30:
            last = time.monotonic()
            tests = sum(len(of.outcomes) for of in results)
            print(f"{len(results)} of {len(all_jobs)} programs ended, {tests} tests", flush=True)
    return results


def judged(results):
    """(failed, unstable) tests as (group, name); what failed is run again when nothing else runs."""
    failed = [(ended.job, name) for ended in results for name in ended.failed]
    # A program that ended badly without naming a failed test counts as one.
    unnamed = [(ended.job, ended.job.name) for ended in results if ended.code != 0 and not ended.failed]
    unnamed += [(ended.job, ended.job.name) for ended in results if not ended.outcomes and ended.job.alone is None]
    if len(failed) > AGAIN_MOST:
        return [(job.group, name) for job, name in failed + unnamed], []
    unstable = [(job, name) for job, name in failed if jobs.passes_again(job, name)]
    still = [one for one in failed if one not in unstable] + unnamed
    named = [[(job.group, f"{name} ({job.name})") for job, name in some] for some in (still, unstable)]
    return named[0], named[1]


def print_left_out(heavy):
    """What did not run here, and why."""
    if not ALL:
        count = sum(len(tests) for tests in heavy.values())
        print(f"left out: {count} tests that take long (tests/heavy.toml), two thirds or more of the cases and kills")
        print("left out: of others, all mutants, ten million true durations. make test-all has them all")
    if shutil.which("c++") is None:
        print("left out: tickscope.h as C++17, there is no C++ compiler. Install g++")
    if shutil.which("clang") is None:
        print("left out: tickscope.h under clang's sanitizers, there is no clang. Run scripts/setup.sh as root")
    if not all(shutil.which(tool) for tool in ("aarch64-linux-gnu-gcc", "qemu-aarch64")):
        print("left out: aarch64, there is no cross compiler or no qemu-user. Run scripts/setup.sh as root")
    library = ["rustc", "--print", "target-libdir", "--target", "aarch64-unknown-linux-gnu"]
    found = subprocess.run(library, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    if not (found and Path(found).exists()):
        print("left out: Rust on aarch64, its library is missing. Run rustup target add aarch64-unknown-linux-gnu")
    if ALL and not HAS_MIRI:
        print("left out: policies under Miri, it is not here. Run rustup component add miri --toolchain nightly")
    if shutil.which("chromium") is None:
        print("left out: the pages in a browser, there is no chromium. Install chromium")
    if shutil.which("babeltrace2") is None:
        print("left out: export --ctf read by babeltrace2, there is none. Run scripts/setup.sh as root")
    if shutil.which("capinfos") is None:
        print("left out: imported packets beside capinfos, there is none. Install wireshark-common")
    if shutil.which("tshark") is None:
        print("left out: the dissector of PRRT, there is no tshark. Install tshark")
    if not list((ROOT / ".venv").glob("lib/python3*/site-packages/pyspark")):
        print("left out: runs on Spark and in s3://, there is no pyspark. Run scripts/setup.sh spark")
    if not (ROOT / "build/storm.jar").exists() or shutil.which("redis-server") is None:
        print("left out: the Yahoo benchmark on Storm, which is not here. Run make storm")
    if not (ROOT / "build/kafka.jar").exists():
        print("left out: load over a real Kafka, which is not here. Run make kafka")
    path = f"{os.environ['PATH']}:/usr/sbin:{ROOT}/build/rivals/usr/sbin"
    if not all(shutil.which(name, path=path) for name in ("chronyd", "ptp4l")):
        print("left out: chrony and ptp4l beside a run, they are not installed. Run scripts/setup.sh as root")
    for library in ("liburcu", "libdpdk"):
        if subprocess.run(["sh", "-c", f"pkg-config --exists {library}"], capture_output=True, check=False).returncode:
            print(f"left out: what the forwarder does with {library}, which is not here. Run make forwarder as root")
    if not list(Path("/usr/lib/jvm").glob("*-2[5-9]-*")):
        print("left out: Java 25 with its virtual threads and foreign functions, there is none. Install a JDK of it")
    if os.geteuid() != 0:
        print("left out, unprivileged: runs over network namespaces (loopback was used), a full tmpfs. Run as root")


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def slow_machine():
    """One processor, and two busy processes on it."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    spin = ["sh", "-c", "while :; do :; done"]
    return [subprocess.Popen(spin, start_new_session=True) for _ in range(2)]


def main():
    if LOGS.exists():
        shutil.rmtree(LOGS)
    LOGS.mkdir(parents=True)
    begun = time.monotonic()
    heavy, exclusive = left_out_here()
    remaining = dict(heavy)
    rust = list(rust_jobs(remaining, exclusive))
    os.environ["TICKSCOPE"] = str(ROOT / "target/debug/tickscope")
    readers = list(pytest_jobs(remaining, exclusive))
    if remaining:
        sys.exit("tests/heavy.toml names programs of tests that are not there: " + ", ".join(remaining))
    build_s = time.monotonic() - begun
    print(f"built in {build_s:.0f} s: {len(rust)} programs of Rust tests, {len(readers)} of pytest", flush=True)
    busy = slow_machine() if SLOW else []
    try:
        # The longest first, as they are known: else the last one is waited for alone.
        longest = tomllib.loads((ROOT / "tests" / "heavy.toml").read_text())["longest"]
        rank = {name: number for number, name in enumerate(longest)}
        order = sorted([*readers, *rust, *other_jobs()], key=lambda job: rank.get(job.name, len(rank)))
        results = told(order)
        failed, unstable = judged(results)
    finally:
        for process in busy:
            process.kill()
    sys.exit(report(results, failed, unstable, heavy, (begun, build_s)))


def report(results, failed, unstable, heavy, times):
    """Prints the counts, writes summary.json; the exit code."""
    begun, build_s = times
    passed, skipped, unmet = Counter(), [], []
    seconds, processor_s = defaultdict(float), defaultdict(float)
    for ended in results:
        seconds[ended.job.group] += ended.seconds
        processor_s[ended.job.group] += ended.processor_s
        for name, outcome in ended.outcomes:
            if outcome in PASSED:
                passed[kind_of(ended.job.group, name)] += 1
            elif outcome in LEFT_OUT:
                (unmet if outcome == "SKIPPED" else skipped).append(name)
    passed["end-to-end"] += 0
    slowest = sorted(results, key=lambda ended: -ended.seconds)[:8]
    print("longest:", ", ".join(f"{ended.job.name} {ended.seconds:.0f} s" for ended in slowest))
    print("seconds of programs, side by side:", ", ".join(f"{group} {of:.0f}" for group, of in seconds.items()))
    print("of processors:", ", ".join(f"{group} {of:.0f}" for group, of in processor_s.items()))
    print(f"\n{'kind':14} passed failed")
    kinds_failed = Counter(kind_of(group, name) for group, name in failed)
    for kind in KINDS:
        print(f"{kind:14} {passed[kind]:6} {kinds_failed[kind]:6}")
    for group, name in failed:
        print(f"failed: {kind_of(group, name)} {name}")
    for group, name in unstable:
        print(f"unstable, failed once and passed twice by itself: {kind_of(group, name)} {name}")
    print(f"left out: {len(skipped)} roles that other tests start as a process, and generators run by hand")
    for name in unmet:
        print(f"left out, its log says what it needs: {name}")
    print_left_out(heavy)
    minutes = (time.monotonic() - begun) / 60
    is_too_unstable = len(unstable) > UNSTABLE_MOST
    if is_too_unstable:
        print(f"{len(unstable)} unstable tests, {UNSTABLE_MOST} are allowed: each counts as failed")
    count = sum(passed.values()) + (0 if is_too_unstable else len(unstable))
    bad = len(failed) + (len(unstable) if is_too_unstable else 0)
    summary = {
        "tier": TIER,
        "commit": git("rev-parse", "HEAD"),
        "clean": not git("status", "--porcelain"),
        "passed": count,
        "failed": [name for _, name in failed],
        "unstable": [name for _, name in unstable],
        "left_going": {ended.job.name: ended.left_going for ended in results if ended.left_going},
        "minutes": round(minutes, 1),
        "build_seconds": round(build_s),
        "group_seconds": {group: round(of) for group, of in seconds.items()},
        "program_seconds": {ended.job.name: round(ended.seconds, 1) for ended in results},
        "processor_seconds": {ended.job.name: ended.processor_s for ended in results},
    }
    (LOGS / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    print(f"tier: {TIER}, in {minutes:.1f} minutes; {len(unstable)} unstable")
    print(f"{count} passed, {bad} failed")
    return 0 if not bad else 1


if __name__ == "__main__":
    main()
