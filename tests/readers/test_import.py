"""Other programs' files become runs: durations as in the file; what has no bound is said, what is wrong refused."""

import csv
import gzip
import json
import os
import re
import shutil
import struct
import subprocess
from fractions import Fraction

import lossy_run
import pyarrow as arrow
import pyarrow.parquet as parquet
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


def changed_times(folder, change):
    """Changes the times of the sender's reference, by number of the row."""
    with (folder / "sender.csv").open() as rows:
        table = list(csv.DictReader(rows))
    for number, row in enumerate(table):
        row["LinkTransmitEnd_T"] = change(number, int(row["LinkTransmitEnd_T"]))
    with (folder / "sender.csv").open("w", newline="") as out:
        written = csv.DictWriter(out, table[0])
        written.writeheader()
        written.writerows(table)


@pytest.mark.parametrize(("late_us", "row"), [(5000, 0), (30_000, -1), (200, 0), (1_000_000, 700)])
def test_the_rate_of_an_x_lap_host_holds_the_true_one_whichever_packet_was_held_up(command, tmp_path, late_us, row):
    x_lap.make(tmp_path / "pair")
    count = len((tmp_path / "pair/sender.csv").read_text().splitlines()) - 1
    changed_times(tmp_path / "pair", lambda number, us: us + late_us * (number == row % count))
    command("import", tmp_path / "pair/xlap.yml", "--out", tmp_path / "run")
    nodes = json.loads((tmp_path / "run/run.json").read_text())["nodes"]
    (found,) = (node["counter"]["frequency"] for node in nodes if node["name"] == "sender")
    true = x_lap.HERTZ["sender"]
    assert abs(found["hertz"] - true) * 1_000_000 <= found["tolerance_ppm"] * true, found
    assert found["tolerance_ppm"] < 200, "one that was held up says nothing of the others"
    assert "every duration may be off by" not in command("show", tmp_path / "run", code=1).stdout


def test_a_rate_that_x_laps_times_leave_open_is_said_beside_the_table_and_holds_the_true_one(command, tmp_path):
    x_lap.make(tmp_path / "pair")
    changed_times(tmp_path / "pair", lambda number, us: us + 3000 * (number % 10 == 0))
    command("import", tmp_path / "pair/xlap.yml", "--out", tmp_path / "run")
    said = command("show", tmp_path / "run", "--json", code=1).stdout
    frequency, true = json.loads(said)["frequency"], x_lap.HERTZ["sender"]
    assert abs(frequency["hertz"] - true) * 1_000_000 <= frequency["tolerance_ppm"] * true, frequency
    assert 3000 < frequency["tolerance_ppm"] < 20_000, "a tenth of the times is off by 3 ms, in half a second"
    shown = " ".join(command("show", tmp_path / "run", code=1).stdout.split())
    assert f"every duration may be off by \u00b1{frequency['tolerance_ppm']} ppm of its length" in shown


def test_references_that_leave_a_rate_open_by_a_tenth_are_refused(command, tmp_path):
    x_lap.make(tmp_path / "pair")
    changed_times(tmp_path / "pair", lambda number, us: us + 100_000 * (number % 10 == 0))
    said = command("import", tmp_path / "pair/xlap.yml", "--out", tmp_path / "run", code=2).stderr
    assert "known to 100000 ppm" in said and "or add hertz" in said


def test_what_a_mapping_says_of_a_rate_bounds_the_durations_of_every_node(command, tmp_path):
    """The second node's counter runs at 2.03 GHz, and is said to run at 2.0 within 2 %."""
    of = ('[[file]]\npath = "{0}.csv"\nnode = "{0}"\nclock = "tsc"\nhertz = {1}\ntolerance_ppm = {2}\nid = "id"\n'
          'points = {{ a = "a", b = "b" }}\n')
    layout = '[layout]\nedges = ["one.a > one.b", "two.a > two.b"]\n'
    rows = "id,a,b\n" + "".join(f"{i},{{0}},{{1}}\n".format(10**10 + i * 2_030_000_003, 10**10 + i * 2_030_000_003 +
                                                           1_015_000_000) for i in range(100))
    mapping = of.format("one", 1_000_000_000, 100) + of.format("two", 2_000_000_000, 20_000) + layout
    imported(command, tmp_path, mapping, one_csv=rows, two_csv=rows)
    found = [row for key, row in durations(command, tmp_path / "run", 1).items() if key[2] == "two.a>two.b"]
    assert len(found) == 100
    assert all(int(row["lo_ticks"]) <= 500_000_000 <= int(row["hi_ticks"]) for row in found), found[0]
    said = " ".join(command("show", tmp_path / "run", "--assumptions", code=1).stdout.split())
    assert "lies within 20511 ppm of what their frequencies declare [what the tolerances" in said
    assert "checked at the start" not in said and "do not say on which core" in said
    shutil.rmtree(tmp_path / "run")
    wide = mapping.replace("20000", "100001")
    assert "at most 100000" in imported(command, tmp_path, wide, code=2, one_csv=rows, two_csv=rows).stderr


def test_a_description_that_may_have_no_end_is_refused(command, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for place in ("/dev/zero", tmp_path / "pipe"):
        assert "no regular file" in command("import", place, "--out", tmp_path / "run", code=2).stderr


def test_times_of_x_lap_in_nanoseconds_give_no_rate_of_a_processor(command, tmp_path):
    x_lap.make(tmp_path / "pair")
    changed_times(tmp_path / "pair", lambda _, us: us * 1000)
    said = command("import", tmp_path / "pair/xlap.yml", "--out", tmp_path / "run", code=2)
    assert "at 10 MHz to 100 GHz" in said.stderr and "the times' unit" in said.stderr


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
    for again in ("show", "show", "check"):
        command(again, tmp_path / "run")


def test_traces_of_strangers_are_neither_passed_nor_read(command, tmp_path):
    mapping = MAPPING + '[layout]\npath = ["a.send", "a.sent"]\n'
    for name, digits in (("one", "000003"), ("other", "000009")):
        (tmp_path / name).mkdir()
        imported(command, tmp_path / name, mapping, a_csv=TABLE.replace("000003", digits))
    run, strange = tmp_path / "one/run", tmp_path / "other/run"
    stages = json.loads(command("show", run, "--json").stdout)["stages"]
    command("check", run)
    traces = run / "traces/part-00000000.parquet"
    whole = traces.read_bytes()
    assert json.loads(command("show", strange, "--json").stdout)["stages"] != stages
    # Joined traces are in the digests: a flipped byte is found by every reader.
    traces.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    for damaged in ("check", "show"):
        assert str(traces) in command(damaged, run, code=1).stderr + command(damaged, run, code=1).stdout
    traces.write_bytes(whole)
    command("check", run)
    # Those that a stranger put where none were joined yet are told, and never read.
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    imported(command, fresh, mapping, a_csv=TABLE)
    (fresh / "run/traces").mkdir(exist_ok=True)
    for part in (0, 1):
        name = f"traces/part-0000000{part}.parquet"
        (fresh / "run" / name).write_bytes((strange / "traces/part-00000000.parquet").read_bytes())
    said = command("check", fresh / "run", code=1)
    assert "2 faults" in said.stderr and "part-00000001.parquet" in said.stdout
    shown = command("show", fresh / "run", "--json")
    assert json.loads(shown.stdout)["stages"] == stages
    assert [path.name for path in (fresh / "run/traces").iterdir()] == ["part-00000000.parquet"]
    command("check", fresh / "run")


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
    "cut off within a number": ({"a_csv": TABLE + "3,0,1763849125,1763849126.5"}, ["a.csv:5:", "a line's end", "echo"]),
    "truncated": ({"a_csv": TABLE + "3,0,1763849\n"}, ["a.csv:5:", "expected 4 cells, found 3", "cut off"]),
    "wrong unit": ({"a_csv": TABLE.replace("1763849124.5", "1763849124500000")}, ["a.csv:3:", "unit"]),
    "another clock": ({"a_csv": "number,class,t1,t2\n1,0,17.5,18\n"}, ["a.csv:2:", "between 1990 and 2100", "unit"]),
    "no id": ({"a_csv": TABLE.replace("\n2,1", "\nx,1")}, ["a.csv:3:", "whole number", "found 'x'"]),
    "UTF-16": ({"a_csv": TABLE.encode("utf-16")}, ["a.csv:1:", "UTF-16", "iconv"]),
    "UTF-16 without a mark": ({"a_csv": TABLE.encode("utf-16-le")}, ["a.csv:1:", "a byte 0", "iconv"]),
    "gzip": ({"a_csv": gzip.compress(TABLE.encode())}, ["a.csv:1:", "found gzip", "gunzip -k"]),
    "latin 1": ({"a_csv": (TABLE + "é\n").encode("latin-1")}, ["a.csv:5:", "0xe9", "iconv"]),
    "a huge field": ({"a_csv": TABLE + "7" * 70_000}, ["a.csv:5:", "at most 65536 bytes"]),
    "a huge number": ({"a_csv": TABLE + "9" * 300 + ",0,1,2\n"}, ["a.csv:5:", "2^63", "999..."]),
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
    ('zero = "missing"\n', "", "a.csv:3: expected a time of the clock realtime between 1990 and 2100, found 0 s"),
    ('clock = "realtime"', 'clock = "sundial"', "expected a clock of tsc"),
    ('clock = "realtime"', 'clock = "tsc"', "Name the clock that was read"),
    ('node = "a"', 'node = "a b"', "[[file]] 1: expected"),
    ("points =", "point =", "invalid type"),
])
def test_what_is_wrong_with_a_mapping_is_refused_with_what_helps(command, tmp_path, was, now, said):
    ended = imported(command, tmp_path, MAPPING.replace(was, now), code=2, a_csv=TABLE)
    assert said in ended.stderr, ended.stderr


PERF = """# captured on: a day
 my prog  4711/4712 [003] 12345.678901234:  net:net_dev_queue: dev=lo skbaddr=0xffff888100000001 len=60
        ffffffff81000000 dev_queue_xmit ([kernel.kallsyms])
 my prog  4711/4712 [003] 12345.678902234:  net:net_dev_xmit: dev=lo skbaddr=0xffff888100000001 len=60 rc=0
 my prog  4711/4712 [003] 12345.678999000:  sched:sched_switch: prev_comm=a next_pid=5
    swapper     0 [001] 12346.000000000:  net:net_dev_queue: dev=lo skbaddr=0xffff888100000002 len=60
    swapper     0 [001] 12346.000000777:  net:net_dev_xmit: dev=lo skbaddr=0xffff888100000002 len=60 rc=0
"""
FTRACE = """          <idle>-0     [001] d..2.  1234.567890: net_dev_queue: dev=lo skbaddr=0x1 len=60
            prog-71    [000] .....  1234.567893: net_dev_xmit: dev=lo skbaddr=0x1 len=60 rc=0
"""
EVENTS = """[[file]]
path = "events.txt"
format = "{form}"
node = "host"
clock = "monotonic"
unit = "s"
id = "skbaddr"
points = {{ queued = "{prefix}net_dev_queue", sent = "{prefix}net_dev_xmit" }}
[layout]
path = ["host.queued", "host.sent"]
"""


def test_events_of_perf_and_of_ftrace_are_stamps_by_a_key_of_theirs(command, tmp_path):
    cases = (("perf", "net:", PERF, 3, [777, 1000]), ("ftrace", "", FTRACE, 0, [3000]))
    for form, prefix, text, others, expected in cases:
        (tmp_path / form).mkdir()
        said = imported(command, tmp_path / form, EVENTS.format(form=form, prefix=prefix), events_txt=text).stdout
        (file,) = json.loads(said)["files"]
        assert (file["stamps"], file["others"], file["not_taken"]) == (2 * len(expected), others, 0)
        found = durations(command, tmp_path / form / "run", 0)
        assert sorted(int(row["estimate_ticks"]) for row in found.values() if row["stage"] != "end-to-end") == expected


def capture(packets, magic=0xA1B23C4D, link=1, order="<"):
    """A pcap with nanoseconds, of IPv4 over Ethernet: seconds, nanoseconds, ports, payload of UDP; None: a bare TCP."""
    out = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link)
    for seconds, part, (source, destination), payload in packets:
        if payload is None:
            protocol, body = 6, struct.pack(">HHIIHHHH", source, destination, 1, 1, 0x5010, 1000, 0, 0)
        else:
            protocol, body = 17, struct.pack(">HHHH", source, destination, 8 + len(payload), 0) + payload
        addresses = b"\x7f\0\0\1\x7f\0\0\2"
        ip = struct.pack(">BBHHHBBH8s", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0, addresses) + body
        frame = (bytes(12) + b"\x08\x00" + ip).ljust(60, b"\0")
        out += struct.pack(order + "IIII", seconds, part, len(frame), len(frame)) + frame
    return out


PACKETS = """[[file]]
path = "net.pcap"
format = "pcap"
node = "host"
clock = "realtime"
id = "payload 4 le64"
points = { request = "dst 7400", reply = "src 7400" }
[layout]
path = ["host.request", "host.reply"]
"""


def test_captured_packets_are_stamps_of_the_kernel_by_their_ports_and_an_id_in_the_payload(command, tmp_path):
    begin, packets = 1_763_849_123, []
    for number in range(50):
        payload = b"head" + struct.pack("<q", number - 25)
        packets.append((begin + number, 100, (40000, 7400), payload))
        packets.append((begin + number, 100 + 3001 + number, (7400, 40000), payload))
        packets.append((begin + number, 200, (53, 53), b""))
        packets.append((begin + number, 300, (40000, 7400), None))
    for name, order in (("little", "<"), ("big", ">")):
        (tmp_path / name).mkdir()
        said = imported(command, tmp_path / name, PACKETS, net_pcap=capture(packets, order=order)).stdout
        (file,) = json.loads(said)["files"]
        assert (file["stamps"], file["others"]) == (100, 100), "of TCP what opens, acknowledges and ends"
        found = durations(command, tmp_path / name / "run", 0)
        path = {key[1]: int(row["estimate_ticks"]) for key, row in found.items() if key[2] != "end-to-end"}
        assert path == {number - 25: 3001 + number for number in range(50)}
    whole = capture(packets)
    wrong = ((whole[:-7], "packet 200.*cut off"), (whole[:20], "24 bytes"), (b"\n\r\r\n" + whole[4:], "editcap"),
             (capture([(begin, 1, (1, 7400), b"abc")]), "expected 12 bytes of payload, found 3"))
    for text, expected in wrong:
        assert re.search(expected, imported(command, tmp_path, PACKETS, code=2, net_pcap=text).stderr), expected
        assert not (tmp_path / "run").exists()


@pytest.mark.skipif(shutil.which("capinfos") is None, reason="there is no capinfos. Install wireshark-common")
def test_capinfos_counts_as_many_packets_and_has_the_same_first_and_last_time(command, tmp_path):
    begin, ports = 1_763_849_123, [(40000, 7400), (7400, 40000)]
    packets = [(begin + number, 999_999_000 + 13 * number, ports[number % 2], struct.pack("<qq", 0, number // 2))
               for number in range(76)]
    mapping = PACKETS.replace("payload 4", "payload 8")
    for name, others in (("all", []), ("some", [(begin + 80, 5, (53, 53), b"")])):
        (tmp_path / name).mkdir()
        said = imported(command, tmp_path / name, mapping, net_pcap=capture(packets + others)).stdout
        (file,) = json.loads(said)["files"]
        words = ["capinfos", "-T", "-m", "-r", "-S", "-c", "-a", "-e", tmp_path / name / "net.pcap"]
        told = subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip().split(",")
        assert int(told[1]) == file["stamps"] + file["others"] == len(packets + others)
        stamps = (tmp_path / name / "run/stamps/node=host").iterdir()
        ticks = sorted(tick for point in stamps for tick in parquet.read_table(point)["tick"].to_pylist())
        assert Fraction(told[2]) == Fraction(ticks[0], 10**9)
        assert (Fraction(told[3]) == Fraction(ticks[-1], 10**9)) == (not others), "the last is of another port"


def test_a_table_of_parquet_goes_in_by_the_names_of_its_columns(command, tmp_path):
    rows = 1000
    columns = {"seq": list(range(rows)), "t1": [10**9 + 1000 * i for i in range(rows)], "text": ["x"] * rows,
               "t2": [None if i == 7 else 10**9 + 1000 * i + 5 * i for i in range(rows)]}
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet", compression="brotli")
    mapping = ('[[file]]\npath = "a.parquet"\nformat = "parquet"\nnode = "n"\nclock = "monotonic"\nid = "seq"\n'
               'points = { begin = "t1", end = "t2" }\n[layout]\npath = ["n.begin", "n.end"]\n')
    assert 'compression="zstd"' in imported(command, tmp_path, mapping, code=2).stderr
    packed = {"use_dictionary": False, "column_encoding": {"text": "DELTA_LENGTH_BYTE_ARRAY"}}
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet", compression="zstd", **packed)
    named = mapping.replace("[layout]", 'kind = "text"\n[layout]')
    assert "texts in DELTA_LENGTH_BYTE_ARRAY" in imported(command, tmp_path, named, code=2).stderr
    missing = mapping.replace('"seq"', '"number"')
    assert "found seq, t1, text, t2" in imported(command, tmp_path, missing, code=2).stderr
    # A column that nobody names is never unpacked.
    parquet.write_table(arrow.table(columns), tmp_path / "a.parquet", compression="snappy", **packed)
    (file,) = json.loads(imported(command, tmp_path, mapping).stdout)["files"]
    assert (file["rows"], file["stamps"], file["not_taken"]) == (rows, 2 * rows - 1, 1)
    found = durations(command, tmp_path / "run", 0)
    stage = {key[1]: row["estimate_ticks"] for key, row in found.items() if key[2] != "end-to-end"}
    assert stage == {i: "" if i == 7 else str(5 * i) for i in range(rows)}
    damaged = (tmp_path / "a.parquet").read_bytes()
    shutil.rmtree(tmp_path / "run")
    said = imported(command, tmp_path, mapping, code=2, a_parquet=damaged[:-40]).stderr
    assert "a.parquet" in said and "expected Parquet" in said


ARROW = """[[file]]
path = "a.arrow"
format = "arrow"
node = "n"
clock = "realtime"
unit = "ns"
id = "seq"
value = "length"
point_column = "where"
time = "at"
[layout]
path = ["n.begin", "n.end"]
"""
BEGIN_NS = 1_763_849_123_000_000_001


def arrow_table(rows):
    """Two rows an id, the second 5 ns later for each id; beside what is wanted a column of each kind that is not."""
    number = [i // 2 for i in range(rows)]
    at = [BEGIN_NS + 1000 * (i // 2) + 5 * (i // 2) * (i % 2) for i in range(rows)]
    columns = {
        "other": arrow.array([0.5] * rows), "seq": arrow.array([of - 7 for of in number], arrow.int16()),
        "name": arrow.array(["x" * (i % 70) for i in range(rows)]).dictionary_encode(),
        "none": arrow.nulls(rows), "raw": arrow.array([b"\0\xff"] * rows),
        "where": arrow.array(["end" if i % 2 else "begin" for i in range(rows)], arrow.large_string()),
        "at": arrow.array([None if i == 14 else of for i, of in enumerate(at)], arrow.timestamp("ns")),
        "length": arrow.array([2**32 - 1 - of for of in number], arrow.uint32()), "is": arrow.array([True] * rows),
    }
    return arrow.table(columns)


def written(table, stream, rows_a_batch=None, **how):
    sink, options = arrow.BufferOutputStream(), arrow.ipc.IpcWriteOptions(**how)
    with (arrow.ipc.new_stream if stream else arrow.ipc.new_file)(sink, table.schema, options=options) as to:
        to.write_table(table, max_chunksize=rows_a_batch)
    return sink.getvalue().to_pybytes()


def test_a_table_of_arrow_goes_in_whatever_its_batches_and_comes_out_to_the_nanosecond(command, tmp_path):
    rows = 20_000  # columns of more bytes than are in memory at once
    table = arrow_table(rows)
    for name, stream, rows_a_batch in (("file", False, None), ("stream", True, 999)):
        (tmp_path / name).mkdir()
        whole = written(table, stream, rows_a_batch)
        (file,) = json.loads(imported(command, tmp_path / name, ARROW, a_arrow=whole).stdout)["files"]
        assert (file["rows"], file["stamps"], file["not_taken"]) == (rows, rows - 1, 1)
        found = durations(command, tmp_path / name / "run", 0)
        stage = {key[1]: row["estimate_ticks"] for key, row in found.items() if key[2] != "end-to-end"}
        assert stage == {of - 7: "" if of == 7 else str(5 * of) for of in range(rows // 2)}
        stamps = parquet.read_table(tmp_path / name / "run/stamps/node=n/point=end").to_pylist()
        assert all(row["value"] == 2**32 - 1 - (row["id"] + 7) for row in stamps) and len(stamps) == rows // 2


def replaced(table, name, column):
    return table.set_column(table.column_names.index(name), name, column)


def test_numbers_of_parquet_that_a_reader_would_guess_are_refused(command, tmp_path):
    """Times and ids as floating numbers have lost digits, INT96 says no unit; columns that nobody names may be so."""
    mapping = ('[[file]]\npath = "a.parquet"\nformat = "parquet"\nnode = "n"\nclock = "realtime"\nunit = "{}"\n'
               'id = "seq"\npoints = {{ a = "at", b = "then" }}\n')
    ns = 1763849124_000000000
    ids, times = arrow.array([1, 2]), arrow.array([ns, ns + 256])

    def table(columns, unit="ns", code=0, **more):
        columns = {"seq": ids, "at": times, "then": times} | columns
        parquet.write_table(arrow.table(columns), tmp_path / "a.parquet", compression="zstd", **more)
        return imported(command, tmp_path, mapping.format(unit), code=code).stderr

    seconds = arrow.array([1763849124.5, 1763849125.5])
    for columns, unit, expected in [
        ({"at": times.cast(arrow.float64(), safe=False)}, "ns", "whole numbers below 2^53 in 'at'"),
        ({"at": seconds, "then": seconds}, "s", "whole numbers below 2^53 in 'at'"),
        ({"seq": arrow.array([2.0**53, 2.0**53 + 2])}, "ns", "whole numbers below 2^53 in 'seq'"),
    ]:
        assert expected in table(columns, unit, code=2)
    stamps = arrow.array([ns, ns + 256], arrow.timestamp("ns"))
    assert "found INT96" in table({"at": stamps}, code=2, use_deprecated_int96_timestamps=True)
    table({"other": arrow.array([0.5, 1.5]), "seq": arrow.array([1.0, 2.0])})


def test_what_is_wrong_with_a_table_of_arrow_is_refused_with_what_helps(command, tmp_path):
    table = arrow_table(40)
    whole, stream = written(table, False), written(table, True)
    nested = table.append_column("list", arrow.array([[1]] * 40))
    cases = [(whole[:-20], "cut off"), (whole[:200], "cut off"), (stream[:-8], "cut off"), (stream[:-40], "cut off"),
             (b"ARROW1", "cut off"), (b"seq,at\n1,2\n", "found other bytes"),
             (whole[:8] + b"\0" + whole[9:], "damaged"),
             (written(table, False, compression="zstd"), "IpcWriteOptions"), (written(nested, True), "'list'"),
             (written(table.drop_columns(["at"]), False), "expected a column 'at', found other, seq"),
             (written(replaced(table, "seq", table["seq"].cast(arrow.float64())), False), "whole numbers.*'seq'.*Cast"),
             (written(replaced(table, "where", table["where"].dictionary_encode()), False), "'where'.*a dictionary"),
             (written(replaced(table, "at", table["at"].cast(arrow.int64()).cast(arrow.timestamp("us"))), True),
              "expected times in ns in 'at', as `unit` says, found us. Correct `unit`"),
             (written(replaced(table, "seq", arrow.array([None] * 40, arrow.int64())), False), r"a.arrow:1: .*whole"),
             (written(replaced(table, "where", arrow.array(["x" * 70_000] * 40)), True), "row 1: .*most 65536 bytes"),
             (written(arrow.table({"seq": table["seq"]}), False), "a.arrow")]
    for text, expected in cases:
        said = imported(command, tmp_path, ARROW, code=2, a_arrow=text).stderr
        assert re.search(expected, said) and "a.arrow" in said, (expected, said)
        assert not (tmp_path / "run").exists()


def test_a_table_of_parquet_that_says_another_unit_than_the_mapping_is_refused(command, tmp_path):
    mapping = ARROW.replace("arrow", "parquet").replace('unit = "ns"', 'unit = "us"')
    table = replaced(arrow_table(40), "length", arrow.array(range(40)))
    parquet.write_table(table.drop_columns(["none", "raw", "is"]), tmp_path / "a.parquet", compression="zstd")
    said = imported(command, tmp_path, mapping, code=2).stderr
    assert "expected times in us in 'at', as `unit` says, found ns. Correct `unit`" in said
    imported(command, tmp_path, mapping.replace('unit = "us"', 'unit = "ns"'))


def test_spans_that_were_exported_come_back_with_the_same_durations_and_say_what_was_lost(command, tmp_path):
    source = lossy_run.make(tmp_path / "source")
    command("export", source, "--otlp", tmp_path / "all.otlp")
    mapping = ('[[file]]\npath = "all.otlp"\nformat = "otlp"\nnode = "relay"\nclock = "realtime"\nid = "trace"\n'
               'service = "relay"\npoints = { received = "relay.received>relay.sent start", '
               'sent = "relay.received>relay.sent end" }\n[layout]\npath = ["relay.received", "relay.sent"]\n')
    (file,) = json.loads(imported(command, tmp_path, mapping).stdout)["files"]
    assert file["stamps"] == 2 * lossy_run.TRACES and file["others"] > lossy_run.TRACES
    back = durations(command, tmp_path / "run", 0)
    for (_, number, stage), row in durations(command, source, 0).items():
        if stage == "relay.received>relay.sent":
            found = back[0, number, stage]
            exact, lo, hi = (Fraction(int(row[end]) * 10**9, lossy_run.HERTZ)
                             for end in ("estimate_ticks", "lo_ticks", "hi_ticks"))
            assert exact <= int(found["estimate_ticks"]) < exact + 2, "a span encloses the estimates"
            assert int(found["lo_ticks"]) <= lo and hi <= int(found["hi_ticks"]), "and its bounds are no narrower"
    whole = (tmp_path / "all.otlp").read_bytes()
    shutil.rmtree(tmp_path / "run")
    assert "cut off" in imported(command, tmp_path, mapping, code=2, all_otlp=whole[:-3]).stderr
    half_a_bound = whole.replace(b"tickscope.lo_ns", b"tickscope.xo_ns")
    assert "with neither of the two" in imported(command, tmp_path, mapping, code=2, all_otlp=half_a_bound).stderr


def spans(service, name, traces):
    """OTLP's protobuf: a service's spans of that name, each of a trace, from its number on for 100 ns."""
    def field(number, body):
        low, high = len(body) & 0x7F | 0x80, len(body) >> 7
        return bytes([number << 3 | 2, low, high]) + body

    def span(of):
        times = b"\x39" + struct.pack("<Q", BEGIN_NS + of) + b"\x41" + struct.pack("<Q", BEGIN_NS + of + 100)
        return field(2, field(1, struct.pack(">QQ", 0, of)) + field(2, b"8 bytes.") + field(5, name) + times)

    attribute = field(1, field(1, b"service.name") + field(2, field(1, service)))
    return field(1, field(1, attribute) + field(2, b"".join(map(span, traces))))


def test_spans_whose_traces_differ_only_in_their_first_half_are_told_apart_or_refused(command, tmp_path):
    source = lossy_run.make(tmp_path / "source")
    tables = [*source.glob("stamps/*/*/*.parquet"), *source.glob("traces/*.parquet")]
    for place in tables:  # every other id passes as a kind of its own
        table = parquet.read_table(place)
        numbers = table["id"].to_pylist()
        for name, values in (("kind", [number % 2 for number in numbers]), ("id", [number // 2 for number in numbers])):
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(name), arrow.array(values, table.schema.field(name).type))
        parquet.write_table(table, place, compression="zstd")
    command("export", source, "--otlp", tmp_path / "all.otlp")
    mapping = ('[[file]]\npath = "all.otlp"\nformat = "otlp"\nnode = "relay"\nclock = "realtime"\nid = "trace"\n'
               'service = "relay"\npoints = { received = "relay.received>relay.sent start", '
               'sent = "relay.received>relay.sent end" }\n[layout]\npath = ["relay.received", "relay.sent"]\n')
    assert 'kind = "tickscope.kind"' in imported(command, tmp_path, mapping, code=2).stderr
    apart = mapping.replace('"trace"', '"tickscope.id"\nkind = "tickscope.kind"')
    imported(command, tmp_path, apart)
    back = durations(command, tmp_path / "run", 0)
    assert {key[:2] for key in back} == {(number % 2, number // 2) for number in range(lossy_run.TRACES)}
    shutil.rmtree(tmp_path / "run")
    nothing = imported(command, tmp_path, mapping.replace('"trace"', '"tickscope.number"'), code=2).stderr
    assert "an attribute 'tickscope.number', a whole number, found none" in nothing


def test_spans_of_another_service_are_counted_though_they_have_the_same_name(command, tmp_path):
    mapping = ('[[file]]\npath = "a.otlp"\nformat = "otlp"\nnode = "n"\nclock = "realtime"\nid = "trace"\n'
               'service = "relay"\npoints = { begin = "handle start", end = "handle end" }\n')
    both = spans(b"relay", b"handle", range(5, 9)) + spans(b"other", b"handle", range(100, 107))
    (file,) = json.loads(imported(command, tmp_path, mapping, a_otlp=both).stdout)["files"]
    assert (file["stamps"], file["others"]) == (8, 7)
    assert {number for _, number, _ in durations(command, tmp_path / "run", 0)} == set(range(5, 9))


@pytest.mark.parametrize("mapping, text, expected", [
    (EVENTS.format(form="perf", prefix="net:"), PERF + "prog 1 [000] 12\n", r"events.txt:8: expected an event"),
    (EVENTS.format(form="perf", prefix="net:").replace("skbaddr", "skb"), PERF, r"events.txt:2: expected skb=NUMBER"),
    (PACKETS.replace("payload 4 le64", "payload 4 le63"), "", "payload 0 le64"),
    (PACKETS.replace("dst 7400", "7400"), "", "dst PORT"),
    (EVENTS.format(form="otlp", prefix=""), "", "expected times of spans in ns"),
    (EVENTS.format(form="perf", prefix="net:").replace("points = {", 'time = "a"\npoint_column = "b"\n#'), PERF,
     "point_column"),
])
def test_what_is_wrong_with_events_packets_and_spans_is_refused(command, tmp_path, mapping, text, expected):
    name = "net_pcap" if "pcap" in mapping else "events_txt"
    assert re.search(expected, imported(command, tmp_path, mapping, code=2, **{name: text}).stderr)
    assert not (tmp_path / "run").exists()
