"""The same steps leave the same run, whatever language took them: tests/conformance/README.md."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pyarrow.parquet as parquet
import pytest

HERE = pathlib.Path(__file__).parent
TREE = HERE.parents[1]
PROGRAMS = json.loads((HERE / "stamps.json").read_text())
LANGUAGES = ("C", "C++", "Rust", "Python")
LACKS = 64


def built(*words):
    subprocess.run(["cargo", "build", "-q", *words], cwd=TREE, check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TREE / "target")) / "debug"


@pytest.fixture(scope="session")
def collector():
    """The command: TICKSCOPE names it, else the build in the tree."""
    named = os.environ.get("TICKSCOPE")
    return pathlib.Path(named) if named else built("-p", "tickscope-cli") / "tickscope"


@pytest.fixture(scope="session", params=LANGUAGES)
def runner(request, tmp_path_factory):
    """The program that takes steps in one language."""
    if request.param == "Python":
        return [sys.executable, HERE / "steps.py"]
    if request.param == "Rust":
        return [built("-p", "tickscope-stamp", "--example", "conformance_steps") / "examples/conformance_steps"]
    program = tmp_path_factory.mktemp("steps") / "steps"
    compiler = {"C": ["cc", "-std=gnu11"], "C++": ["c++", "-std=c++17", "-x", "c++"]}[request.param]
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", TREE / "crates/stamp/include"]
    subprocess.run([*compiler, *flags, "-o", program, HERE / "steps.c"], check=True)
    return [program]


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
    """`[tick, id, kind, value]` in the order of ticks, then of ids."""
    rows = []
    for file in sorted(run.glob(f"stamps/node=here/point={point}/*.parquet")):
        rows += parquet.read_table(file, partitioning=None).to_pylist()
    rows = [[row["tick"], row["id"], row.get("kind") or 0, row.get("value")] for row in rows]
    return sorted(rows, key=lambda row: row[:2])


def channels(run):
    """By point, what all its channels counted: opening it again gives the same channel in C, another one in Rust."""
    names, counts = ("point", "ordering", "state"), ("stored", "dropped", "refused")
    totals = {}
    for row in parquet.read_table(run / "channels/node=here.parquet", partitioning=None).to_pylist():
        total = totals.setdefault(tuple(row[name] for name in names), dict.fromkeys(counts, 0))
        for name in counts:
            total[name] += row[name]
    return [dict(zip(names, key)) | total for key, total in sorted(totals.items())]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program["name"])
def test_the_same_steps_leave_the_same_run(program, run):
    found = run(program["steps"], program.get("environment", {}))
    if found is None:
        # A language may lack a step, which its page says; it may not take it otherwise.
        assert any(step.split()[0] in {"record", "record_with", "close"} for step in program["steps"])
        return
    for point, wanted in program["stamps"].items():
        rows = stamps(found, point)
        read = [tick for (tick, *_), (given, *_) in zip(rows, wanted) if given == "counter"]
        assert read == sorted(read) and all(tick > 0 for tick in read)
        assert len(rows) == len(wanted)
        known = [given if given == "counter" else tick for (tick, *_), (given, *_) in zip(rows, wanted)]
        assert [[tick, *row[1:]] for tick, row in zip(known, rows)] == wanted
    assert channels(found) == program["channels"]
