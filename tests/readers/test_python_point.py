"""Stamps taken in Python are collected exactly: from threads, with kind and value, across fork and SIGKILL."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
import tickscope


@pytest.fixture
def place(request, tmp_path):
    """What programs are told: where to stamp, how to collect."""
    (tmp_path / "stamps").mkdir()
    command = request.getfixturevalue("tickscope")  # the package has that name here
    collect = [str(command), "collect", str(tmp_path / "stamps"), "--run", str(tmp_path / "run"), "--node", "here", "--json"]
    return {"TICKSCOPE_DIR": str(tmp_path / "stamps"), "COLLECT": json.dumps(collect)}


@pytest.fixture
def stamp(place):
    """Starts a program that is given as text."""

    def start(text):
        program = [sys.executable, "-c", text]
        return subprocess.Popen(program, env=os.environ | place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


@pytest.fixture
def tickscope_json(request):
    """What a command prints as JSON."""
    command = request.getfixturevalue("tickscope")

    def ask(*words):
        return json.loads(subprocess.run([str(command), *map(str, words)], check=True, capture_output=True).stdout)

    return ask


@pytest.fixture
def collected(place, tmp_path):
    """Collects what lies in the stamp directory; gives the run."""

    def collect():
        report = subprocess.run(json.loads(place["COLLECT"]), check=True, capture_output=True)
        assert json.loads(report.stdout)["lost"] == 0
        return tickscope.open(tmp_path / "run")

    return collect


def ended(process):
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out, err


def ids(run, point):
    return sorted(id for (id,) in run.stamps(point).project("id").fetchall())


def test_stamps_of_many_threads_are_collected_exactly(stamp, collected):
    ended(stamp("""
import threading, tickscope
sent = tickscope.point("sent", "before")
def work(thread):
    for id in range(thread * 10_000, thread * 10_000 + 10_000):
        sent(id)
threads = [threading.Thread(target=work, args=(thread,)) for thread in range(1, 7)]
work(0)
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""))  # fmt: skip
    run = collected()
    assert ids(run, "here.sent") == list(range(70_000))
    channels = run.channels().to_arrow_table().to_pylist()
    assert len({channel["thread"] for channel in channels}) == len(channels) == 7
    assert {(channel["point"], channel["ordering"], channel["stored"]) for channel in channels} == {("sent", "before", 10_000)}
    disordered = "select count(*) from (select tick < lag(tick) over (partition by channel order by id) as late from s) where late"
    assert run.stamps("here.sent").query("s", disordered).fetchall() == [(0,)]


def test_a_thread_that_ends_gives_its_channel_back(stamp, collected):
    ended(stamp("""
import json, os, subprocess, threading, tickscope
sent = tickscope.point("sent")
for id in range(600):  # more than a pool has channels at a time
    thread = threading.Thread(target=sent.stamp, args=(id,))
    thread.start()
    thread.join()
    if id % 100 == 99:
        subprocess.run(json.loads(os.environ["COLLECT"]), check=True, stdout=subprocess.DEVNULL)
"""))  # fmt: skip
    assert ids(collected(), "here.sent") == list(range(600))


def test_what_finds_no_memory_is_counted_under_its_point(stamp, place, tmp_path):
    _, err = ended(stamp("""
import os
os.environ |= {"TICKSCOPE_POOL_BYTES": "65536", "TICKSCOPE_BLOCK_BYTES": "4096"}
import threading, tickscope
sent, go = tickscope.point("sent"), threading.Event()
def work(id):
    sent(id)
    go.wait()
    sent(id + 1000)
threads = [threading.Thread(target=work, args=(id,)) for id in range(300)]
[thread.start() for thread in threads]
go.set()
[thread.join() for thread in threads]
"""))  # fmt: skip
    report = json.loads(subprocess.run(json.loads(place["COLLECT"]), check=True, capture_output=True).stdout)
    kept = ids(tickscope.open(tmp_path / "run"), "here.sent")
    assert 0 < len(kept) == len(set(kept)) < 600 and report["lost"] == 600 - len(kept), (report, err)


def test_kind_and_value_ride_along_where_the_point_is_wide(stamp, collected):
    ended(stamp("""
import tickscope
wide, slim = tickscope.point("wide", "after", wide=True), tickscope.point("slim")
for id in range(10):
    wide.stamp_with(id, id % 3, -id * 2**40)
    slim.stamp_with(id, id % 3, -id * 2**40)
wide.stamp(10)
"""))  # fmt: skip
    run = collected()
    rows = run.stamps("here.wide").project("id, kind, value").order("id").fetchall()
    assert rows[:10] == [(id, id % 3, -id * 2**40) for id in range(10)]
    assert rows[10][0] == 10
    assert run.stamps("here.slim").aggregate("count(kind), count(value)").fetchall() == [(0, 0)]


def test_a_forked_child_stamps_into_a_pool_of_its_own(stamp, collected):
    ended(stamp("""
import os, tickscope
sent = tickscope.point("sent")
for id in range(1000):
    sent(id)
child = os.fork()
for id in range(1000, 2000) if child else range(5000, 6000):
    sent(id)
if child:
    os.waitpid(child, 0)
"""))  # fmt: skip
    run = collected()
    assert ids(run, "here.sent") == [*range(2000), *range(5000, 6000)]
    assert run.channels().aggregate("count(distinct pool), count(distinct pid)").fetchall() == [(2, 2)]


def test_a_trace_that_spans_the_making_of_a_forked_childs_pool_is_named(stamp, collected, tmp_path, tickscope_json):
    ended(stamp("""
import os, tickscope
received, done = tickscope.point("received"), tickscope.point("done")
for id in range(100):
    received(id), done(id)
received(1000)
if not os.fork():
    done(1000)
    received(1001), done(1001)
    os._exit(0)
os.wait()
"""))  # fmt: skip
    run = collected()
    [event] = [event for event in run.events().to_arrow_table().to_pylist() if event["what"] == "pool-late"]
    assert event["tick"] < event["until"] and event["domain"].startswith("here.")
    table = tickscope_json("show", tmp_path / "run", "--json")
    assert table["late_pools"]
    for stage in table["late_pools"]:
        assert (stage["spanning"], [trace["id"] for trace in stage["traces"]]) == (1, [1000]), stage
        assert stage["longest_ticks"] >= event["until"] - event["tick"]


def test_a_killed_program_loses_nothing(stamp, collected):
    process = stamp("""
import tickscope
sent = tickscope.point("sent")
for id in range(12_345):
    sent(id)
print("stamped", flush=True)
while True:
    pass
""")
    assert process.stdout.readline() == "stamped\n"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert ids(collected(), "here.sent") == list(range(12_345))


def test_without_a_directory_points_are_off_and_say_nothing():
    text = "import tickscope; p = tickscope.point('p'); p(1); p.stamp(2); p.stamp_with(3, 4, 5); print(p)"
    environment = {name: value for name, value in os.environ.items() if name != "TICKSCOPE_DIR"}
    done = subprocess.run([sys.executable, "-W", "error", "-c", text], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "tickscope.point('p', ordering='plain', wide=False)\n"


def test_a_directory_that_is_not_there_ends_no_program_and_says_what_helps(tmp_path):
    text = "import tickscope; p = tickscope.point('p'); p(1); print('went on')"
    environment = os.environ | {"TICKSCOPE_DIR": str(tmp_path / "gone")}
    done = subprocess.run([sys.executable, "-c", text], env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "went on\n" and "mkdir -m 700" in done.stderr
    assert done.stderr.startswith("tickscope: cannot make a pool of ") and done.stderr.count("\n") == 1


def full_pipe():
    """Both ends of a pipe that nobody reads, and that takes no more."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    for size in (65536, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write, b"x" * size)
    os.set_blocking(write, True)
    return read, write


# A stamp, a point and a forked child, with a directory that is not there.
STAMPS = """
import os, signal, sys, tickscope
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
p = tickscope.point("p")
p(1)
child = os.fork()
p(2), tickscope.point("q")(3)
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print("went on")
"""


@pytest.mark.parametrize("stderr", ["full", "no reader", "closed", "-W error"])
def test_whatever_stderr_is_a_complaint_neither_freezes_nor_ends_the_program(tmp_path, stderr):
    environment = os.environ | {"TICKSCOPE_DIR": str(tmp_path / "gone")}
    read, write = full_pipe() if stderr == "full" else os.pipe()
    if stderr == "no reader":
        os.close(read)
    words = [sys.executable, *(["-W", "error"] if stderr == "-W error" else []), "-c", STAMPS]
    close = (lambda: os.close(2)) if stderr == "closed" else None
    # A program that stands still ends with this test, which then fails.
    how = {"env": environment, "stdout": subprocess.PIPE, "stderr": write, "text": True, "timeout": 60}
    done = subprocess.run(words, preexec_fn=close, **how)  # noqa: PLW1509
    os.close(write)
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_a_child_that_cannot_have_a_pool_says_so_once(stamp, collected):
    process = stamp("""
import os, resource, tickscope
p, q = tickscope.point("p"), tickscope.point("q")
p(1), q(1)
resource.setrlimit(resource.RLIMIT_NOFILE, (4, 4))
child = os.fork()
for id in range(2, 100):
    p(id), q(id)
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""")
    _, err = process.communicate()
    assert process.returncode == 0
    assert err.count("tickscope: ") == 1 and "Raise ulimit -n" in err, err
    assert ids(collected(), "here.p") == list(range(1, 100))


def test_a_measured_program_imports_no_library_of_tables():
    text = "import sys, tickscope; tickscope.point('p')(1); print({'duckdb', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(("a b",), "expected the name of a point, 1 to 47 letters"), (("", "plain"), "found ''"), (("p", "now"), "plain, before or after; found 'now'")],
)  # fmt: skip
def test_a_point_that_cannot_be_is_refused_where_it_is_made(stamp, arguments, expected):
    process = stamp(f"import tickscope; tickscope.point(*{arguments!r})")
    _, err = process.communicate()
    assert process.returncode != 0
    assert "tickscope.TickscopeError" in err
    assert expected in err


def test_a_stamp_of_what_is_no_64_bit_integer_is_an_error():
    point = tickscope.point("p")
    for wrong, error in ((2**63, OverflowError), ("7", TypeError), (7.0, TypeError)):
        with pytest.raises(error):
            point(wrong)


def test_a_point_asked_for_twice_is_one_channel(stamp, collected):
    ended(stamp("import tickscope\nfor id in range(1000): tickscope.point('sent')(id)"))
    run = collected()
    assert ids(run, "here.sent") == list(range(1000))
    assert len(run.channels()) == 1
