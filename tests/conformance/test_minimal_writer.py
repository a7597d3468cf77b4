"""What a writer from docs/minimal-writer.md stamped is stored exactly, however it ended: minimal.py, and java/."""

import json
import mmap
import os
import pathlib
import signal
import subprocess
import sys
import time

import pyarrow.parquet as parquet
import pytest
from java import java
from test_stamps import HERE, PROGRAMS, built, expect, stamps

LEVEL = [program for program in PROGRAMS if program.get("level") == "minimal"]
SLOTS, BLOCKS = (4096 - 192) // 16, 4  # of minimal.py
SMALL = {"TICKSCOPE_BLOCK_BYTES": "4096", "TICKSCOPE_POOL_BYTES": str(BLOCKS * 4096)}  # the same for others
FIRST_ENTRY = 4096


@pytest.fixture(scope="session")
def command():
    named = os.environ.get("TICKSCOPE")
    return pathlib.Path(named) if named else built("--workspace", "--bin", "tickscope") / "tickscope"


@pytest.fixture(params=["Python", "Java"])
def words(request):
    """A command that takes steps."""
    return [sys.executable, HERE / "minimal.py"] if request.param == "Python" else java("Steps")


class Writer:
    """A running writer, and the collector of what it writes."""

    def __init__(self, command, folder, words, variables=None, **pipes):
        self.command, self.directory, self.run = command, folder / "stamps", folder / "run"
        self.directory.mkdir()
        own = {"TICKSCOPE_DIR": str(self.directory), "TICKSCOPE_NODE": "here"}
        environment = os.environ | SMALL | own | (variables or {})
        pipes |= {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(words, env=environment, **pipes)

    def take(self, *steps):
        """Returns when the steps are taken."""
        self.process.stdin.write("\n".join([*steps, "say done"]) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0

    def kill(self):
        self.process.kill()
        assert self.process.wait(60) == -signal.SIGKILL

    def words(self, *more):
        return [self.command, "collect", self.directory, "--run", self.run, "--node", "here", *more]

    def collect(self):
        told = subprocess.run(self.words("--json"), check=True, capture_output=True, text=True)
        return json.loads(told.stdout)

    def pool(self):
        """Its file; none once a collector removed it."""
        return next(iter(self.directory.glob("uid-*/pool-*")), None)

    def stored(self, point):
        return [(id, tick) for tick, id, *_ in stamps(self.run, point)]

    def channels(self):
        return parquet.read_table(self.run / "channels/node=here.parquet", partitioning=None).to_pylist()

    def events(self, what):
        rows = [row for file in self.run.glob("events/*.parquet") for row in parquet.read_table(file).to_pylist()]
        return [row for row in rows if row["what"] == what]


@pytest.fixture
def writer(command, tmp_path, words):
    """A writer with a channel `sent`; killed with the test."""
    writer = Writer(command, tmp_path, words)
    writer.take("open 0 sent before slim")
    yield writer
    writer.process.kill()
    writer.process.wait()


def record(first, end, channel=0):
    return [f"record {channel} {id} {1000 + id}" for id in range(first, end)]


def records(first, end):
    return [(id, 1000 + id) for id in range(first, end)]


@pytest.mark.parametrize("program", LEVEL, ids=lambda program: program["name"])
def test_the_steps_of_the_level_minimal_leave_the_same_run(program, command, tmp_path, words):
    writer = Writer(command, tmp_path, words)
    writer.process.communicate("\n".join(program["steps"]) + "\n", timeout=60)
    assert writer.process.returncode == (-signal.SIGKILL if "kill" in program["steps"] else 0)
    writer.collect()
    expect(program, writer.run)


@pytest.mark.parametrize("ending", ["is closed", "ends", "is killed"])
def test_whole_blocks_and_a_partly_filled_one_are_stored_however_the_writer_ended(ending, writer):
    count = 2 * SLOTS + 100
    writer.take("open 1 seen after slim", *record(0, count), *record(7, 12, channel=1))
    if ending == "is closed":
        writer.take("close 0", "close 1")
    writer.kill() if ending == "is killed" else writer.end()
    told = writer.collect()
    assert (told["stamps"], told["lost"], told["uncommitted"], told["left_alone"]) == (count + 5, 0, 0, 0)
    assert (writer.stored("sent"), writer.stored("seen")) == (records(0, count), records(7, 12))
    state = "recovered" if ending == "is killed" else "closed"
    names = ("ordering", "stored", "dropped", "refused", "state")
    said = {row["point"]: [row[name] for name in names] for row in writer.channels()}
    assert said == {"sent": ["before", count, 0, 0, state], "seen": ["after", 5, 0, 0, state]}
    assert writer.pool() is None


UNSEEN = [({}, "Python"), ({"MINIMAL_PID": "0"}, "Python"), ({}, "Java")]


@pytest.mark.parametrize(("variables", "words"), UNSEEN, indirect=["words"])
def test_a_living_writer_is_collected_as_far_as_it_committed_and_keeps_its_pool(variables, command, tmp_path, words):
    writer = Writer(command, tmp_path, words, variables)
    writer.take("open 0 sent before slim", *record(0, SLOTS + 10))
    assert (len(writer.collect()["held"]), writer.stored("sent")) == (1, records(0, SLOTS + 10))
    writer.take(*record(SLOTS + 10, SLOTS + 30))
    assert (len(writer.collect()["held"]), writer.stored("sent")) == (1, records(0, SLOTS + 30))
    writer.take(*record(SLOTS + 30, 2 * SLOTS + 5))
    writer.kill()
    assert (len(writer.collect()["held"]), writer.stored("sent")) == (0, records(0, 2 * SLOTS + 5))
    assert writer.pool() is None


def test_blocks_go_round_many_times_beside_a_collector(writer):
    count, chunk = 20 * SLOTS, 100
    collector = subprocess.Popen(writer.words("--follow"), stdout=subprocess.DEVNULL)
    try:
        for first in range(0, count, chunk):
            wait_for(lambda: 0 in states(writer.pool()))
            writer.take(*record(first, min(first + chunk, count)))
        writer.kill()
    finally:
        collector.send_signal(signal.SIGTERM)
        assert collector.wait(60) == 0
    assert writer.stored("sent") == records(0, count)


def test_stamps_that_find_no_block_are_counted_with_their_ticks(writer):
    fit = BLOCKS * SLOTS
    writer.take(*record(0, fit + 7))
    writer.collect()  # makes room
    writer.take(*record(fit + 7, fit + 20))
    writer.end()
    assert writer.collect()["lost"] == 7
    assert writer.stored("sent") == records(0, fit) + records(fit + 7, fit + 20)
    assert [(row["stored"], row["dropped"]) for row in writer.channels()] == [(fit + 13, 7)]
    lost = [(row["value"], row["tick"], row["until"]) for row in writer.events("lost")]
    assert lost == [(7, 1000 + fit, 1000 + fit + 6)]


def test_an_entry_that_was_used_before_counts_from_zero(writer):
    writer.take(*record(0, BLOCKS * SLOTS + 7), "record 0 1 0")
    writer.collect()
    writer.take("close 0")  # its last block was full, and is no longer its own
    writer.collect()
    assert [row["state"] for row in writer.channels()] == ["closed"]
    assert states(writer.pool()) == [0] * BLOCKS
    writer.take("open 0 seen after slim", *record(0, 3))
    writer.end()
    writer.collect()
    said = {row["point"]: [row[name] for name in ("stored", "dropped", "refused")] for row in writer.channels()}
    assert said == {"sent": [BLOCKS * SLOTS, 7, 1], "seen": [3, 0, 0]}
    assert writer.stored("seen") == records(0, 3)


@pytest.mark.parametrize("killed_behind", range(0, 3 * SLOTS, 61))
def test_a_writer_killed_while_it_stamps_leaves_all_it_said_and_nothing_torn(killed_behind, writer):
    writer.take(*record(0, killed_behind))
    writer.process.stdin.write("\n".join(record(killed_behind, BLOCKS * SLOTS)) + "\n")
    writer.process.stdin.flush()
    writer.kill()
    writer.collect()
    found = writer.stored("sent")
    assert killed_behind <= len(found) <= BLOCKS * SLOTS
    assert found == records(0, len(found))


@pytest.mark.parametrize("words", ["Python"], indirect=True)  # the step `reserve` is its own
def test_a_stamp_that_a_kill_cut_off_between_id_and_tick_is_none(writer):
    writer.take(*record(0, 5), "reserve 0 5")
    writer.kill()
    writer.collect()
    assert writer.stored("sent") == records(0, 5)


def test_a_policy_that_it_does_not_know_refuses_stamps_and_null_leaves_them_out(writer):
    for id, policy in enumerate([1, 3, 1, 0, 1]):
        with writer.pool().open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            memory[FIRST_ENTRY : FIRST_ENTRY + 4] = policy.to_bytes(4, "little")
        writer.take(*record(id, id + 1))
    writer.end()
    writer.collect()
    assert writer.stored("sent") == [records(id, id + 1)[0] for id in (0, 2, 4)]
    assert [(row["stored"], row["refused"]) for row in writer.channels()] == [(3, 1)]


def test_ticks_of_another_clock_are_stored_under_it(command, tmp_path, words):
    writer = Writer(command, tmp_path, words, {"MINIMAL_CLOCK": "4", "TICKSCOPE_COUNTER": "monotonic"})
    writer.take("open 0 sent before slim", *record(0, 3))
    writer.end()
    writer.collect()
    assert writer.stored("sent") == records(0, 3)
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert [row["domain"] for row in writer.channels()] == [f"{boot}/monotonic/0"]


def states(pool):
    """Of each block."""
    data = pool.read_bytes()[-BLOCKS * 4096 :]
    return [int.from_bytes(data[at + 8 : at + 12], "little") for at in range(0, len(data), 4096)]


def wait_for(happened):
    deadline = time.monotonic() + 60
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError("no block became free within a minute")
        time.sleep(0.001)
