"""Pauses of a JVM beside its stamps: its own log says when they were, the program when it waited for them."""

import json
import re
import subprocess

import pytest
from java import HOMES, java
from test_java import rows_of_channels
from test_minimal_writer import command  # noqa: F401
from test_stamps import stamps

COUNT = 100
LOG = "-Xlog:safepoint,gc,vmoperation=debug:file={run}/jvm.log:timenanos,uptimenanos:filecount=0"
RUN = """
[run]
name = "collected"
seconds = 60

[network]
kind = "loopback"

[clock]
reference = "here"

[[node]]
name = "here"
command = %s
ends_run = true

[[log]]
node = "here"
file = "{run}/jvm.log"
format = "jvm"
clock = "monotonic"

[layout]
path = ["here.begun", "here.done"]
"""


def collected(collector, folder, home=None, log=LOG):
    """What a run of a program that waits for collections says, and its directory."""
    words = java("Programs", "collected", str(COUNT), home=home, flags=["-XX:+UseG1GC", "-Xmx64m", log])
    file, run = folder / "run.toml", folder / "run"
    file.write_text(RUN % json.dumps([str(word) for word in words]))
    words = [collector, "run", "--json", "--out", run, file]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout), run


def waits(found):
    """When the program had asked for each collection, and when it was done, by its own clock."""
    said = "\n".join(event["text"] for event in found["events"])
    found = re.findall(r"collected (\d+) (\d+) (\d+)", said)
    return [(int(before), int(after)) for _, before, after in found]


def told_by_log(log):
    """Of each pause that is a full collection, as the log itself says: all of it, and without its begin."""
    found = re.findall(r'Safepoint "G1CollectFull".*Reaching safepoint: *(\d+) ns.*Total: *(\d+) ns', log.read_text())
    return [int(total) for _, total in found], [int(total) - int(reaching) for reaching, total in found]


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.name if home else "default")
def test_e2e_a_pause_is_found_in_the_trace_that_waited_for_it(home, command, tmp_path):  # noqa: F811
    found, run = collected(command, tmp_path, home)
    begins, ends = (stamps(run, f"jvm.G1CollectFull.{end}") for end in ("begin", "end"))
    totals, still = told_by_log(run / "jvm.log")
    assert [value for *_, value, _ in begins] == still and len(still) == COUNT // 10
    assert all(0 < value <= total for (*_, value, _), total in zip(ends, totals, strict=True))
    waited = waits(found)
    assert waited
    for before, after in waited:
        # All threads stand still from `end - the begin's value` on, at the latest, and to `begin + the end's value`.
        bounds = [(end[0] - begin[3], begin[0] + end[3]) for begin, end in zip(begins, ends, strict=True)]
        assert any(before <= still and let_go <= after for still, let_go in bounds)
    (stage,) = [stage for stage in found["pauses"] if stage["stage"] == "here.begun>here.done"]
    assert stage["undisturbed"] + stage["disturbed"] + stage["unknown"] == COUNT
    assert stage["undisturbed"] <= COUNT - COUNT // 10
    named = {of["name"]: of for of in stage["neighbours"]}
    assert 0 < named["G1CollectFull"]["disturbed"] <= COUNT // 10
    assert named["G1CollectFull"]["class"] == "pause"
    assert 0 < named["G1CollectFull"]["held_up_ticks"] <= named["G1CollectFull"]["ticks"]
    of_log = {row["point"]: row["ordering"] for row in rows_of_channels(run) if row["policy"] == "log"}
    assert of_log["jvm.G1CollectFull.begin"] == "before" and of_log["jvm.G1CollectFull.end"] == "after"
    shown = subprocess.run([command, "show", run], check=True, capture_output=True, text=True).stdout
    assert "with and without pauses of JVMs" in shown and "pause G1CollectFull took" in shown


def test_of_a_log_that_lacks_pauses_no_trace_is_told_to_be_undisturbed(command, tmp_path):  # noqa: F811
    found, run = collected(command, tmp_path, log=LOG.replace("filecount=0", "filecount=1,filesize=2k"))
    assert len(told_by_log(run / "jvm.log")[0]) < COUNT // 10
    (gaps,) = [event for event in found["events"] if event["what"] == "log-gaps"]
    assert gaps["value"] > 0 and "other safepoints may be missing before this one" in gaps["text"]
    assert [event for event in found["events"] if event["what"] == "log-refused"] == []
    assert {row["refused"] for row in rows_of_channels(run)} == {0}
    (stage,) = [stage for stage in found["pauses"] if stage["stage"] == "here.begun>here.done"]
    assert stage["undisturbed"] == 0 and stage["unknown"] + stage["disturbed"] == COUNT


def test_a_log_whose_clock_is_not_proven_is_refused_and_no_pause_is_told(command, tmp_path):  # noqa: F811
    found, run = collected(command, tmp_path, log=LOG.replace("timenanos,", ""))
    refused = [event["text"] for event in found["events"] if event["what"] == "log-refused"]
    expected = LOG.replace("{run}/jvm.log", "FILE")
    assert len(refused) == 1 and expected in refused[0]
    assert found["pauses"] == [] and not list(run.glob("stamps/node=here/point=jvm.*"))
