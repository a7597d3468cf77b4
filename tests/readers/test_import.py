"""Other programs' files become runs: durations as in the file; what has no bound is said, what is wrong refused."""

import csv
import json
import subprocess
from fractions import Fraction

import pytest
import x_lap_pair as x_lap


@pytest.fixture
def command(tickscope):
    def run(*words, code=0):
        ended = subprocess.run([tickscope, *words], capture_output=True, text=True)
        assert ended.returncode == code, ended.stderr
        return ended

    return run


def durations(command, run, code):
    """Rows of the run's CSV by (kind, id, stage); cells without a duration are empty."""
    rows = csv.DictReader(command("export", run, "--csv", "-", code=code).stdout.splitlines())
    return {(int(row["kind"]), int(row["id"]), row["stage"]): row for row in rows}


@pytest.fixture
def x_lap_run(command, tmp_path):
    """X-Lap's pair as a run, with the truth."""
    truth = x_lap.make(tmp_path / "pair")
    said = command("import", tmp_path / "pair/xlap.yml", "--out", tmp_path / "run", "--json")
    return tmp_path / "run", truth, json.loads(said.stdout)


def test_every_duration_of_an_x_lap_pair_is_what_its_cycles_say_type_by_type(command, x_lap_run):
    run, truth, _ = x_lap_run
    found = durations(command, run, 1)
    within = {f"{host}.{a}>{host}.{b}": (host, a, b) for host, names in
              (("sender", x_lap.SENDER), ("receiver", x_lap.RECEIVER)) for a in names for b in names}
    stages = {stage for _, _, stage in found}
    both = {"sender.PrrtSendStart>sender.LinkTransmitEnd", "receiver.LinkReceive>receiver.PrrtDeliver"}
    assert both <= stages and {kind for kind, _, _ in found} == {x_lap.DATA, x_lap.REDUNDANCY}, "X-Lap's own totals"
    compared = 0
    for (kind, number, stage), row in found.items():
        if stage not in within:
            continue
        host, a, b = within[stage]
        stamps = truth[kind, number]
        if a not in stamps or b not in stamps:
            assert row["outcome"] == "missing"
            continue
        true = Fraction(stamps[b] - stamps[a], x_lap.HERTZ[host])
        lo, hi = (Fraction(int(row[f"{end}_ticks"]), x_lap.HERTZ["sender"]) for end in ("lo", "hi"))
        # The rates are those between the references' microseconds, to some ppm of each duration.
        assert lo - true / 10_000 <= true <= hi + true / 10_000, row
        compared += 1
    assert compared > 20_000


def test_what_nothing_bounds_between_x_laps_hosts_is_said_in_the_table_and_in_json(command, x_lap_run):
    run, _, said = x_lap_run
    assert sum("without guarantee" in note for note in said["notes"]) == 2
    shown = command("show", run, code=1)
    words = " ".join(shown.stdout.split())
    assert "nothing relates the clocks of the two nodes" in words
    assert "a reading is no wider than the power of ten" in words
    assert "without guarantee: nothing brackets the sender's clock by the receiver's" in words
    assert "expected brackets of receiver.tsc against sender.tsc, found none" in shown.stderr
    table = {row["stage"]: row for row in json.loads(command("show", run, "--json", code=1).stdout)["stages"]}
    channel = table["sender.LinkTransmitEnd>receiver.LinkReceive"]
    assert channel["count"] == 0 and channel["refused"] > 1000 and table["end-to-end"]["count"] == 0
    command("check", run, code=1)


def test_the_figures_of_x_lap_are_drawn_of_each_host_by_itself(command, x_lap_run, tmp_path):
    run, _, _ = x_lap_run
    path = ", ".join(f'"sender.{name}"' for name in x_lap.SENDER if name != "PrrtSendEnd")
    (tmp_path / "sender.toml").write_text(f"[layout]\npath = [{path}]\n")
    drawn = command("figures", run, "--layout", tmp_path / "sender.toml", "--out", tmp_path / "figures", "--json")
    names = {file.rsplit("/", 1)[-1] for file in json.loads(drawn.stdout)["files"]}
    assert len(names) >= 8, names
    command("show", run, "--layout", tmp_path / "sender.toml")


MAPPING = """
[[file]]
path = "a.csv"
node = "a"
clock = "realtime"
unit = "s"
id = "number"
kind = "class"
zero = "missing"
points = { sent = "t2", send = "t1" }
"""
TABLE = """number,class,t1,t2
1,0,1763849123.000001,1763849123.000003
2,1,1763849124.5,0
2,0,1763849124.25,1763849125
"""


def imported(command, folder, mapping, code=0, **files):
    (folder / "map.toml").write_text(mapping)
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_bytes(text if isinstance(text, bytes) else text.encode())
    return command("import", folder / "map.toml", "--out", folder / "run", "--json", code=code)


def test_a_table_goes_in_by_a_mapping_and_comes_out_to_the_nanosecond(command, tmp_path):
    said = json.loads(imported(command, tmp_path, MAPPING, a_csv=TABLE).stdout)
    (file,) = said["files"]
    assert (file["rows"], file["stamps"], file["not_taken"], file["backward"]) == (3, 5, 1, 1)
    assert file["first_backward_line"] == 4
    found = durations(command, tmp_path / "run", 0)
    measured = {key[:2]: int(row["estimate_ticks"]) for key, row in found.items() if row["estimate_ticks"]}
    assert measured == {(0, 1): 2000, (0, 2): 750_000_000}


def test_logs_of_cloudprofiler_are_ticks_and_ids_a_file_a_point(command, tmp_path):
    entry = '[[file]]\npath = "{0}.log"\nformat = "cloudprofiler"\nnode = "worker"\npoint = "{0}"\nhertz = 2200000000\n'
    logs = {"spout": [(1000 + 500 * i, i) for i in range(100)], "bolt": [(1000 + 507 * i, i) for i in range(100)]}
    texts = {f"{name}_log": "".join(f"{tick} {number}\n" for tick, number in log) for name, log in logs.items()}
    order = '[layout]\npath = ["worker.spout", "worker.bolt"]\n'
    imported(command, tmp_path, entry.format("spout") + entry.format("bolt") + order, **texts)
    found = durations(command, tmp_path / "run", 0)
    measured = {key[1]: int(row["estimate_ticks"]) for key, row in found.items() if ">" in key[2]}
    assert measured == {number: 7 * number for number in range(100)}


REFUSED = {
    "truncated": ({"a_csv": TABLE + "3,0,1763849"}, ["a.csv:5:", "expected 4 cells, found 3", "cut off"]),
    "wrong unit": ({"a_csv": TABLE.replace("1763849124.5", "1763849124500000")}, ["a.csv:3:", "unit"]),
    "another clock": ({"a_csv": "number,class,t1,t2\n1,0,17.5,18\n"}, ["a.csv:2:", "between 1990 and 2100", "unit"]),
    "no id": ({"a_csv": TABLE.replace("\n2,1", "\nx,1")}, ["a.csv:3:", "whole number", "found 'x'"]),
    "UTF-16": ({"a_csv": TABLE.encode("utf-16")}, ["a.csv:1:", "UTF-16", "iconv"]),
    "UTF-16 without a mark": ({"a_csv": TABLE.encode("utf-16-le")}, ["a.csv:1:", "a byte 0", "iconv"]),
    "latin 1": ({"a_csv": (TABLE + "é").encode("latin-1")}, ["a.csv:5:", "0xe9", "iconv"]),
    "a huge field": ({"a_csv": TABLE + "7" * 70_000}, ["a.csv:5:", "at most 65536 bytes"]),
    "a huge number": ({"a_csv": TABLE + "9" * 300 + ",0,1,2"}, ["a.csv:5:", "2^63", "999..."]),
    "a quote": ({"a_csv": TABLE + '"3,0,1,2\n'}, ["a.csv:5:", "quote"]),
    "no column": ({"a_csv": TABLE.replace("t2", "t3")}, ["a.csv:1:", "expected a column 't2'", "t3"]),
    "two columns": ({"a_csv": TABLE.replace("class", "number")}, ["a.csv:1:", "several"]),
    "empty": ({"a_csv": ""}, ["a.csv", "empty file"]),
    "no stamps": ({"a_csv": "number,class,t1,t2\n1,0,0,0\n"}, ["a.csv", "expected stamps of a, found none in 1 rows"]),
    "no file": ({}, ["a.csv", "No such file", "correct its name"]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_with_a_table_is_refused_with_its_line_and_what_helps(command, tmp_path, what):
    files, said = REFUSED[what]
    ended = imported(command, tmp_path, MAPPING, code=2, **files)
    assert [words for words in said if words not in ended.stderr] == [], ended.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("was, now, said", [
    ('id = "number"', "", "expected the name of the column of ids"),
    ('unit = "s"', 'unit = "h"', "line 6: unknown variant"),
    ('clock = "realtime"', 'clock = "sundial"', "expected a clock of tsc"),
    ('clock = "realtime"', 'clock = "tsc"', "Name the clock that was read"),
    ('node = "a"', 'node = "a b"', "[[file]] 1: expected"),
    ("points =", "point =", "invalid type"),
])
def test_what_is_wrong_with_a_mapping_is_refused_with_what_helps(command, tmp_path, was, now, said):
    ended = imported(command, tmp_path, MAPPING.replace(was, now), code=2, a_csv=TABLE)
    assert said in ended.stderr, ended.stderr
