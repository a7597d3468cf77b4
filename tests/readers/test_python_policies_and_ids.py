"""Policies and ids of a Python program that the real command runs: what it counted, which originals it kept."""

import json
import os
import subprocess
import sys

import pytest
import tickscope

# Ids are kept by several threads, by a child that is forked, and right before a SIGKILL; nothing of it may be missing.
PROGRAM = """
import os, signal, threading, tickscope
placed, shipped = tickscope.point("placed", "before"), tickscope.point("shipped", "after")
counted, nth = tickscope.point("counted"), tickscope.point("nth")
def orders(first):
    for number in range(first, first + 50):
        id = tickscope.keep_id(f"order {number} für Zoë")
        placed(id)
        counted(number)
        nth(number)
        shipped(tickscope.id_of(f"order {number} für Zoë".encode()))
threads = [threading.Thread(target=orders, args=(50 * at,)) for at in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
child = os.fork()
if child == 0:
    placed(tickscope.keep_id(b"\\x00\\xff of the child"))
    os._exit(0)
os.waitpid(child, 0)
if os.fork() == 0:
    placed(tickscope.keep_id("the last word"))
    os.kill(os.getpid(), signal.SIGKILL)
os.wait()
"""
RUN_FILE = """
run = {{ name = "orders", seconds = 30 }}
network.kind = "loopback"
clock.reference = "shop"
[[node]]
name = "shop"
command = ["{python}", "{program}"]
ends_run = true
[[policy]]
channels = "counted"
policy = "count 10ms"
[[policy]]
channels = "nth"
policy = "every 7"
[layout]
path = ["shop.placed", "shop.shipped"]
"""
ORDERS = [f"order {number} für Zoë" for number in range(200)]


@pytest.fixture(scope="module")
def root(request, tmp_path_factory):
    """The run's directory; not to be changed."""
    command = request.getfixturevalue("tickscope")  # the package has that name here
    folder = tmp_path_factory.mktemp("orders")
    (folder / "orders.py").write_text(PROGRAM)
    (folder / "run.toml").write_text(RUN_FILE.format(python=sys.executable, program=folder / "orders.py"))
    words = [command, "run", folder / "run.toml", "--out", folder / "run", "--json"]
    ended = subprocess.run(words, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return folder / "run"


@pytest.fixture
def asked(request, root):
    """What the command answers of the run as JSON."""
    command = request.getfixturevalue("tickscope")

    def ask(what, *words):
        return json.loads(
            subprocess.run([command, what, root, "--json", *words], check=True, capture_output=True).stdout
        )

    return ask


def test_counts_are_those_of_the_program_and_of_the_command(root, asked):
    counts = tickscope.open(root).counts()
    assert counts.columns == ["node", "channel", "before", "after", "total", "count", "periods", "period_ns"]
    [(total, rows)] = counts.aggregate("sum(count), count(*)").fetchall()
    assert total == len(ORDERS)
    assert counts.filter("before > after or period_ns != 10000000").fetchall() == []
    shown = asked("show", "--counts")["counts"]
    assert [(of["point"], of["total"]) for of in shown] == [("shop.counted", total)]
    # The last total of every channel is what all its periods add up to.
    last = counts.aggregate("channel, max(total) as total, sum(count) as count", "channel")
    assert rows >= 4
    assert last.filter("total != count").fetchall() == []


def test_every_nth_stamp_of_a_channel_is_there_and_the_others_were_seen(root):
    run = tickscope.open(root)
    stamped = run.channels().filter("stored > 0 or counted > 0")  # the main thread makes the points, and stamps none
    of_nth = stamped.filter("point = 'nth'").project("policy, parameter, stored, seen").fetchall()
    assert of_nth == [("every", 7, 7, 50)] * 4
    ids = sorted(id for (id,) in run.stamps("shop.nth").project("id").fetchall())
    assert len(ids) == 28 and {id % 50 % 7 for id in ids} == {6}
    of_counted = stamped.filter("point = 'counted'").project("stored, seen, counted").fetchall()
    assert of_counted == [(0, None, 50)] * 4


def test_originals_are_those_that_threads_children_and_the_killed_kept(root, asked):
    run = tickscope.open(root)
    originals = dict(run.originals().fetchall())
    expected = {tickscope.id_of(order): order for order in [*ORDERS, "the last word"]}
    of_bytes = tickscope.id_of(b"\x00\xff of the child")
    assert originals == expected | {of_bytes: b"\x00\xff of the child".hex()}
    assert {row["id"]: row["original"] for row in asked("ids")["ids"]} == originals


def test_originals_join_to_traces_and_durations_by_id(root):
    run = tickscope.open(root)
    originals = run.originals().set_alias("originals")
    traces = run.traces().set_alias("traces").join(originals, "traces.id = originals.id")
    shipped = traces.filter('"shop.shipped" is not null').project("original").fetchall()
    assert sorted(original for (original,) in shipped) == sorted(ORDERS)
    durations = run.durations().set_alias("durations").join(originals, "durations.id = originals.id")
    known = durations.filter('"shop.placed>shop.shipped.lo" is not null').project("original").fetchall()
    assert sorted(known) == sorted(shipped)


def test_the_id_of_text_is_that_of_its_bytes_in_every_language(request):
    command = request.getfixturevalue("tickscope")
    for text in ["", "order-7", "für Zoë", "x" * 5000]:
        told = subprocess.run([command, "ids", "--of", text], check=True, capture_output=True, text=True).stdout
        assert tickscope.id_of(text) == tickscope.id_of(text.encode()) == int(told)
    assert (
        tickscope.id_of(bytearray(b"order-7")) == tickscope.id_of(memoryview(b"order-7")) == tickscope.id_of("order-7")
    )
    for wrong in [7, None, 1.5, object(), [300], "\ud800"]:
        with pytest.raises((TypeError, ValueError)):
            tickscope.id_of(wrong)
        with pytest.raises((TypeError, ValueError)):
            tickscope.keep_id(wrong)


def test_without_a_directory_an_id_is_the_same_and_nothing_is_kept(tmp_path):
    program = 'import tickscope; print(tickscope.keep_id("order-7") == tickscope.id_of("order-7"))'
    environment = {name: value for name, value in os.environ.items() if name != "TICKSCOPE_DIR"}
    said = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    assert (said.stdout, said.stderr) == ("True\n", "")


def test_tables_of_a_run_that_counted_and_kept_nothing_are_empty_and_have_their_columns(request, tmp_path):
    command = request.getfixturevalue("tickscope")
    (tmp_path / "stamps").mkdir()
    environment = os.environ | {"TICKSCOPE_DIR": str(tmp_path / "stamps")}
    program = 'import tickscope; point = tickscope.point("sent"); [point(id) for id in range(9)]'
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    collect = [command, "collect", tmp_path / "stamps", "--run", tmp_path / "run", "--node", "here"]
    subprocess.run(collect, check=True, capture_output=True)
    run = tickscope.open(tmp_path / "run")
    assert run.counts().fetchall() == [] and run.originals().fetchall() == []
    assert run.originals().columns == ["id", "original"] and "total" in run.counts().columns
    assert run.channels().project("policy, parameter, removed, seen, counted, overwritten").fetchall() == [
        ("buffered", None, None, None, None, None)
    ]
