"""The same steps leave the same run, whatever language took them: tests/conformance/README.md."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pyarrow.parquet as parquet
import pytest

HERE = pathlib.Path(__file__).parent
TREE = HERE.parents[1]
PROGRAMS = json.loads((HERE / "stamps.json").read_text())
ARM = "aarch64-linux-gnu"
EMULATED = ["qemu-aarch64", "-L", f"/usr/{ARM}"]
HAS_ARM_C = all(shutil.which(tool) for tool in (f"{ARM}-gcc", EMULATED[0]))


def has_arm_rust():
    """Whether Rust's library for aarch64 is there; tests/run.py says so where it is not."""
    where = subprocess.run(["rustc", "--print", "sysroot"], cwd=TREE, capture_output=True, text=True, check=True).stdout
    return HAS_ARM_C and pathlib.Path(where.strip(), "lib/rustlib/aarch64-unknown-linux-gnu").exists()


LANGUAGES = ("C", "C++", "Rust", "Python") + ("C on aarch64",) * HAS_ARM_C + ("Rust on aarch64",) * has_arm_rust()
LACKS = 64
LACKED_BY_PYTHON = {"record", "record_with", "record_batch", "choose", "close"}


def built(*words, variables=None, target=""):
    subprocess.run(["cargo", "build", "-q", *words], cwd=TREE, env=os.environ | (variables or {}), check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TREE / "target")) / target / "debug"


@pytest.fixture(scope="session")
def collector():
    """The command: TICKSCOPE names it, else the build in the tree."""
    named = os.environ.get("TICKSCOPE")
    return pathlib.Path(named) if named else built("--workspace", "--bin", "tickscope") / "tickscope"


@pytest.fixture(scope="session", params=LANGUAGES)
def runner(request, tmp_path_factory):
    """The program that takes steps in one language."""
    if request.param == "Python":
        return [sys.executable, HERE / "steps.py"]
    if request.param == "Rust on aarch64":
        # An example asks for what tests are made with, which takes longest to build: without.
        words = {"LINKER": f"{ARM}-gcc", "RUSTFLAGS": "--cfg emulated"}
        variables = {f"CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_{name}": word for name, word in words.items()}
        target = "aarch64-unknown-linux-gnu"
        words = ["--target", target, "-p", "tickscope-stamp", "--example", "conformance_steps"]
        return [*EMULATED, built(*words, variables=variables, target=target) / "examples/conformance_steps"]
    if request.param == "Rust":
        # Of the workspace, as `make python` has it: built already.
        return [built("--workspace", "--example", "conformance_steps") / "examples/conformance_steps"]
    program = tmp_path_factory.mktemp("steps") / "steps"
    compilers = {"C": ["cc", "-std=gnu11"], "C++": ["c++", "-std=c++17", "-x", "c++"], "C on aarch64": [f"{ARM}-gcc"]}
    compiler = compilers[request.param]
    subprocess.run([TREE / "tests/compiled.py", *compiler, "-o", program, HERE / "steps.c"], check=True)
    return [*EMULATED, program] if request.param == "C on aarch64" else [program]


@pytest.fixture
def run(runner, collector, tmp_path):
    """Takes the steps, collects; gives the run, or none where the language lacks a step."""

    def take(steps, variables):
        (tmp_path / "stamps").mkdir()
        environment = os.environ | {"TICKSCOPE_DIR": str(tmp_path / "stamps"), "TICKSCOPE_NODE": "here"} | variables
        ended = subprocess.run(runner, env=environment, input="\n".join(steps) + "\n", text=True, check=False)
        if ended.returncode == LACKS and pathlib.Path(runner[-1]).suffix == ".py":
            return None
        assert ended.returncode == (-signal.SIGKILL if "kill" in steps else 0)
        words = [collector, "collect", tmp_path / "stamps", "--run", tmp_path / "run", "--node", "here"]
        subprocess.run(words, check=True, capture_output=True)
        return tmp_path / "run"

    return take


def stamps(run, point):
    """`[tick, id, kind, value, ids]` in the order of ticks, then of ids and kinds."""
    rows = []
    for file in sorted(run.glob(f"stamps/node=here/point={point}/*.parquet")):
        rows += parquet.read_table(file, partitioning=None).to_pylist()
    rows = [[row["tick"], row["id"], row.get("kind") or 0, row.get("value"), row.get("ids")] for row in rows]
    return sorted(rows, key=lambda row: row[:3])


def channels(run):
    """By point, what all its channels counted: opening it again gives the same channel in C, another one in Rust."""
    names, counts = ("point", "ordering", "state"), ("stored", "dropped", "refused")
    of_policies = ("counted", "seen")  # which the data has where they are not 0
    totals = {}
    for row in parquet.read_table(run / "channels/node=here.parquet", partitioning=None).to_pylist():
        total = totals.setdefault(tuple(row[name] for name in names), dict.fromkeys(counts, 0))
        for name in counts:
            total[name] += row[name]
        for name in (name for name in of_policies if row.get(name)):
            total[name] = total.get(name, 0) + row[name]
    return [dict(zip(names, key)) | total for key, total in sorted(totals.items())]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["name"])
def test_the_same_steps_leave_the_same_run(program, run):
    found = run(program["steps"], program.get("environment", {}))
    if found is None:
        # A language may lack a step, which its page says; it may not take it otherwise.
        assert any(step.split()[0] in LACKED_BY_PYTHON for step in program["steps"])
        return
    expect(program, found)


def expect(program, found):
    """Holds a run against what the program says of it."""
    for point, wanted in program["stamps"].items():
        rows = stamps(found, point)
        read = [tick for (tick, *_), (given, *_) in zip(rows, wanted) if given == "counter"]
        assert read == sorted(read) and all(tick > 0 for tick in read)
        assert len(rows) == len(wanted)
        known = [given if given == "counter" else tick for (tick, *_), (given, *_) in zip(rows, wanted)]
        # What nothing is said of, as the ids of a stamp of one, is left out of the data.
        assert [[tick, *row[1 : len(given)]] for tick, row, given in zip(known, rows, wanted)] == wanted
    assert channels(found) == program["channels"]
