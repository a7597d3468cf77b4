"""Runs the tests of a tier, and says how many of each kind ran, what failed, which tier it was, and what it left out.

`make test`: every test, but few of the cases and kills that take long, and some of the mutants: within 30 minutes on
two processors, from a fresh clone. `make test-all` (`--all`): all of them, ten million true durations, a million
sections in each language.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "test-logs"
RUST_TEST = re.compile(r"^test (?P<name>\S+)(?: .*)? \.\.\. (?P<outcome>ok|FAILED|ignored)", re.M)
PYTEST = re.compile(r"^(?P<name>\S+::.+?) (?P<outcome>PASSED|FAILED|ERROR|SKIPPED)", re.M)
# What tells why: cargo's and pytest's account of each failed test, the line of a mutant that is not red.
ACCOUNT = re.compile(
    r"^failures:\n\n---- .*?^failures:$|^=+ FAILURES =+$.*|^mutant \S+ \.\.\. (?:SURVIVED|ROTTED).*?(?=^mutant |\Z)",
    re.M | re.S,
)
SHOWN_CHARS, SHOWN_END_CHARS = 16_000, 4_000
# cargo's account of its build and of each program of tests, pytest's of its slowest.
BUILT = re.compile(r"^ +Finished .* in (?P<time>\S+(?: \S+s)?)$", re.M)
PROGRAM = re.compile(r"^ +Running .*/(?P<name>\w+)-\w+\)$|^test result: .* finished in (?P<seconds>[\d.]+)s$", re.M)
SLOW_PYTEST = re.compile(r"^(?P<seconds>[\d.]+)s (?:call|setup) +(?P<name>\S+)", re.M)
MUTANT = re.compile(r"^mutant (?P<name>\S+) \.\.\. (?P<outcome>red|SURVIVED|ROTTED|LEFT-OUT)", re.M)
KINDS = ("unit", "property", "model-checked", "C", "end-to-end", "Python", "tree", "mutants")
PASSED = {"ok", "PASSED", "red"}
LEFT_OUT = {"ignored", "SKIPPED"}
# All of them take longer than anyone waits for tests; every commit begins at another one.
MUTANT_MINUTES = 2
ALL = "--all" in sys.argv[1:]
TIER = "make test-all" if ALL else "make test"
# What a test of many cases or kills reads: all of them, instead of a third or less.
EVERY_CASE = {"TICKSCOPE_TESTS": "all"} if ALL else {}
HEAVY = {"TICKSCOPE_TRUE_DURATIONS": "10000000", "TICKSCOPE_SECTIONS": "1000000"}


def kind_of_rust_test(name):
    """The kind by the last segment of a test's name."""
    last = name.rsplit("::", 1)[-1]
    for prefix, kind in (("property_", "property"), ("model_", "model-checked"), ("c_", "C"), ("e2e_", "end-to-end")):
        if last.startswith(prefix):
            return kind
    return "unit"


def kind_of_pytest(name):
    return "Python" if name.startswith("tests/readers/test_python_") else "end-to-end"


GROUPS = (
    (
        "Rust and C",
        ["cargo", "test", "--workspace", "--locked", "--no-fail-fast"],
        EVERY_CASE,
        RUST_TEST,
        kind_of_rust_test,
    ),
    (
        "model checker",
        ["cargo", "test", "--locked", "--release", "-p", "tickscope-stamp", "--test", "model"],
        {"RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": "target/loom"},
        RUST_TEST,
        kind_of_rust_test,
    ),
    (
        "other readers and runners",
        [".venv/bin/pytest", "-v", "-p", "no:cacheprovider", "--durations=3", "tests"],
        EVERY_CASE,
        PYTEST,
        kind_of_pytest,
    ),
    ("tree", [sys.executable, "tests/tree", "--self-test"], {}, RUST_TEST, lambda name: "tree"),
    (
        "mutants",
        [sys.executable, "tests/mutants/run.py"] + ([] if ALL else ["--minutes", str(MUTANT_MINUTES)]),
        {} if ALL else {"CARGO_BUILD_JOBS": "1"},
        MUTANT,
        lambda name: "mutants",
    ),
) + (
    (
        (
            "true durations and sections by the million",
            [
                "cargo",
                "test",
                "--release",
                "--locked",
                "-p",
                "tickscope-analysis",
                "-p",
                "tickscope-clock",
                "--test",
                "stepping",
                "--test",
                "section",
                "--",
                "--nocapture",
            ],
            HEAVY,
            RUST_TEST,
            kind_of_rust_test,
        ),
    )
    if ALL
    else ()
)
MIRI = ["cargo", "+nightly", "miri"]
HAS_MIRI = ALL and subprocess.run([*MIRI, "--version"], cwd=ROOT, capture_output=True, check=False).returncode == 0
if HAS_MIRI:
    # Those that need no mapping of a file, which Miri does not have.
    small = ["--lib", "--test", "memory_model", "--", "--skip", "property_", "policies::", "policy", "pool::"]
    command = [*MIRI, "test", "--locked", "-p", "tickscope-stamp", *small]
    GROUPS += (("Miri", command, {}, RUST_TEST, kind_of_rust_test),)


def slowest(text):
    """The build and the three programs of tests, or tests, that took longest, as cargo or pytest says."""
    name, programs = "", []
    for found in PROGRAM.finditer(text):
        name = found["name"] or name
        if found["seconds"]:
            programs.append((float(found["seconds"]), name))
    programs += [(float(found["seconds"]), found["name"]) for found in SLOW_PYTEST.finditer(text)]
    programs = [f"{name} {seconds:.0f} s" for seconds, name in sorted(programs, reverse=True)[:3]]
    return ", ".join([f"build {built['time']}" for built in BUILT.finditer(text)] + programs)


# Compiled and run by one processor each, one after the other, while those of "other readers and runners" mostly wait.
ASIDE = ("model checker",) if ALL else ("model checker", "tree", "mutants")


def run_groups():
    """Runs all groups in their order, but some aside; (outcomes, well) of each."""
    with ThreadPoolExecutor(1) as pool:
        yield run_group(*GROUPS[0])
        aside = [pool.submit(run_group, *group) for group in GROUPS if group[0] in ASIDE]
        yield from (run_group(*group) for group in GROUPS[1:] if group[0] not in ASIDE)
        yield from (done.result() for done in aside)


def run_group(title, command, environment, pattern, kind_of):
    """Runs one group; returns its outcomes as (kind, name, outcome), and whether it went well."""
    log = LOGS / f"{title.replace(' ', '-')}.log"
    started = time.monotonic()
    with log.open("wb") as output:
        code = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    text = log.read_text(errors="replace")
    outcomes = [(kind_of(found["name"]), found["name"], found["outcome"]) for found in pattern.finditer(text)]
    well = code == 0 and bool(outcomes)
    print(
        f"{title}: {len(outcomes)} tests in {time.monotonic() - started:.0f} s{'' if well else ', NOT WELL'}",
        f" ({slowest(text)})" if slowest(text) else "",
        sep="",
        flush=True,
    )
    if not well:
        print("\n".join(ACCOUNT.findall(text))[:SHOWN_CHARS], text[-SHOWN_END_CHARS:], sep="\n", flush=True)
        if not outcomes:
            print(f"{title}: expected tests, found none", flush=True)
    return outcomes, well


def main():
    LOGS.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    outcomes, wells = [], []
    for found, well in run_groups():
        outcomes += found
        wells.append(well)
    passed = Counter(kind for kind, _, outcome in outcomes if outcome in PASSED)
    left_out = [(kind, name) for kind, name, outcome in outcomes if outcome in LEFT_OUT]
    untried = sum(1 for *_, outcome in outcomes if outcome == "LEFT-OUT")
    failed = [(kind, name) for kind, name, outcome in outcomes if outcome not in PASSED | LEFT_OUT | {"LEFT-OUT"}]
    print(f"\n{'kind':14} passed failed")
    for kind in KINDS:
        print(f"{kind:14} {passed[kind]:6} {sum(1 for of, _ in failed if of == kind):6}")
    for kind, name in failed:
        print(f"failed: {kind} {name}")
    for _, name in left_out:
        print(f"left out: {name}: a role that other tests start as a process, or a generator run by hand")
    if not ALL:
        print(
            "left out: ten million true durations, a million sections in each language, and two thirds or more "
            "of the cases and kills that take long. make test-all has all"
        )
    if untried:
        print(f"left out: {untried} mutants, after {MUTANT_MINUTES} minutes of them. make mutants tries all")
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
    path = f"{os.environ['PATH']}:/usr/sbin:{ROOT}/build/rivals/usr/sbin"
    if not all(shutil.which(name, path=path) for name in ("chronyd", "ptp4l")):
        print("left out: chrony and ptp4l beside a run, they are not installed. Run scripts/setup.sh as root")
    if os.geteuid() != 0:
        print(
            "left out, unprivileged: runs over network namespaces (loopback was used), a full tmpfs of 1 MiB. "
            "Run as root for them"
        )
    # A group that ended badly without naming a failed test counts as one.
    unnamed = wells.count(False) if not failed else 0
    print(f"tier: {TIER}, in {(time.monotonic() - begun) / 60:.0f} minutes")
    print(f"{sum(passed.values())} passed, {len(failed) + unnamed} failed")
    sys.exit(0 if all(wells) and not failed else 1)


if __name__ == "__main__":
    main()
