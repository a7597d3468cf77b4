"""The library in java/: its counter, threads and ends, and where it cannot stamp. See test_minimal_writer.py too."""

import contextlib
import json
import mmap
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import zipfile

import pyarrow.parquet as parquet
import pytest
import tickscope
from java import HOMES, JAR, TREE, java
from test_minimal_writer import FIRST_ENTRY, Writer, command, record, wait_for  # noqa: F401
from test_stamps import PROGRAMS, channels, stamps

TABLE = TREE / "experiments/java.toml"
KILLS = 200 if os.environ.get("TICKSCOPE_TESTS") == "all" else 3
NEWER = [home for home in HOMES if home]
EVERY_JAVA = pytest.mark.parametrize("home", HOMES, ids=lambda home: home.name if home else "default")


class Program:
    """A program in Java, and the run of what it stamps."""

    def __init__(self, collector, folder):
        self.collector, self.stamps, self.run = collector, folder / "stamps", folder / "run"
        self.stamps.mkdir()

    def start(self, words, **variables):
        environment = os.environ | {"TICKSCOPE_DIR": str(self.stamps), "TICKSCOPE_NODE": "here"} | variables
        pipes = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.PIPE) | {"text": True}
        return subprocess.Popen(words, env=environment, **pipes)

    def end(self, words, **variables):
        """What it printed, and what the library said."""
        process = self.start(words, **variables)
        printed, said = process.communicate(timeout=600)
        assert process.returncode == 0, said
        return printed, [line for line in said.splitlines() if line.startswith("tickscope: ")]

    def collect(self):
        words = [self.collector, "collect", self.stamps, "--run", self.run, "--node", "here", "--json"]
        return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)

    def ids(self, point="passed"):
        return sorted(id for _, id, *_ in stamps(self.run, point))


def rows_of_channels(run, node="here"):
    return parquet.read_table(run / f"channels/node={node}.parquet", partitioning=None).to_pylist()


def clocks(rows):
    """What channels say that their ticks are of."""
    return {row["domain"].split("/")[1] for row in rows}


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


@pytest.fixture
def program(command, tmp_path):  # noqa: F811
    return Program(command, tmp_path)


def without_native(folder):
    """The jar without its library, as on a machine that it was not built for."""
    jar = folder / "without.jar"
    java("Programs")  # builds
    with zipfile.ZipFile(JAR) as whole, zipfile.ZipFile(jar, "w") as without:
        for name in (name for name in whole.namelist() if not name.endswith(".so")):
            without.writestr(name, whole.read(name))
    return str(jar)


# ---- one table -------------------------------------------------------------------------------------------------------


def table(collector, folder, home, counter):
    """Of a run of experiments/java.toml over loopback, one second long."""
    words = java("Programs")
    echo = folder / "udp-echo"
    source = TREE / "targets/udp-echo/udp-echo.c"
    subprocess.run([TREE / "tests/compiled.py", "cc", "-D_GNU_SOURCE", "-o", echo, source], check=True)
    replaced = {
        "../build/udp-echo": str(echo),
        "../build/tickscope.jar": str(JAR),
        "../targets/java-echo": str(TREE / "targets/java-echo"),
        '"java", ': f'"{home / "bin/java" if home else words[0]}", "-Dtickscope.counter={counter}", ',
        'kind = "auto"': 'kind = "loopback"',
        "seconds = 20": "seconds = 1",
        "probes_hz = 1000": f"probes_hz = 500\nprobe_port = {free_port()}",
        "7400": str(free_port()),
    }
    text = TABLE.read_text()
    for found, other in replaced.items():
        assert found in text
        text = text.replace(found, other)
    file = folder / "java.toml"
    file.write_text(text)
    words = [collector, "run", "--json", "--out", folder / "run", file]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


CLIENTS = [(None, "native"), (None, "monotonic"), *((newer, "native") for newer in NEWER)]


@pytest.mark.parametrize(("home", "counter"), CLIENTS)
def test_e2e_a_client_in_java_and_a_server_in_c_give_one_table(home, counter, command, tmp_path):  # noqa: F811
    found = table(command, tmp_path, home, counter)
    stages = {stage["stage"]: stage for stage in found["stages"]}
    assert set(stages) >= {"client.send>server.received", "server.reply>client.response", "end-to-end"}
    for stage in stages.values():
        assert (stage["impossible"], stage["refused"], stage["missing"]) == (0, 0, 0)
    assert stages["end-to-end"]["count"] == 1000
    assert found["path_sums"]["mismatches"] == 0
    assert found["truth"]["known"] == found["truth"]["inside"] > 0
    says = "client: stamps of process "
    (told,) = [of for of in found["assumptions"] if of["statement"].startswith(says)]
    assert (told["origin"], told["origin_kind"], told["matters"]) == ("the program says so", "platform", False)
    assert ("are of the TSC, by " if counter == "native" else "are of System.nanoTime(), ") in told["statement"]
    own = [row for row in rows_of_channels(tmp_path / "run", "client") if row["point"] in ("send", "response")]
    assert clocks(own) == {"tsc" if counter == "native" else "monotonic"}


# ---- the counter -----------------------------------------------------------------------------------------------------


def test_the_library_is_unpacked_for_its_user_alone_and_a_channel_has_one_owner(program):
    told, _ = program.end(["sh", "-c", 'umask 0; exec "$@"', "sh", *java("tickscope.Checks")])
    assert dict(line.split(" ", 1) for line in told.splitlines()) == {
        "unpacked": "rw-------",
        "claims": "true false true",
        "waited": "true",
    }


@EVERY_JAVA
def test_the_counter_of_jfr_is_never_read_and_that_is_told_with_the_reason(home, program):
    flags = ["-Dtickscope.counter=jfr", "--add-exports", "jdk.jfr/jdk.jfr.internal=ALL-UNNAMED"]
    told = off(program, java("Programs", "one", home=home, flags=flags))
    assert "expected tickscope.counter as native or monotonic; found 'jfr'" in told
    assert "counterTime()" in told and "width of a bracket" in told


@EVERY_JAVA
def test_without_native_code_stamps_are_of_the_monotonic_clock_and_that_is_told(home, program, tmp_path):
    words = [word.replace(str(JAR), without_native(tmp_path)) for word in java("Programs", "one", home=home)]
    printed, said = program.end(words)
    assert "\ntrue System.nanoTime(), CLOCK_MONOTONIC in ns; no native code" in printed
    assert len(said) == 1 and "no /tickscope/" in said[0] and "CLOCK_MONOTONIC" in said[0]
    program.collect()
    assert program.ids() == [1]
    assert clocks(rows_of_channels(program.run)) == {"monotonic"}
    (told,) = readings(program.run)
    assert "System.nanoTime(), CLOCK_MONOTONIC in ns; no native code" in told["text"]
    assert "not checked to be that clock; Java " in told["text"]


def readings(run):
    """What programs of the run say that their stamps are read from."""
    all = (row for file in run.glob("events/*.parquet") for row in parquet.read_table(file).to_pylist())
    return [row for row in all if row["what"] == "program-reading"]


@EVERY_JAVA
def test_a_stamp_is_of_the_counter_between_two_readings_of_it(home, program):
    printed, said = program.end(java("Programs", "one", home=home))
    assert "\ntrue the TSC, by " in printed and said == []
    program.collect()
    assert clocks(rows_of_channels(program.run)) == {"tsc"}
    before, after = (int(word) for word in printed.split()[:2])
    assert [before <= tick <= after for tick, *_ in stamps(program.run, "passed")] == [True]


@EVERY_JAVA
def test_what_a_killed_program_read_what_it_cost_and_how_it_was_checked_stand_in_the_run(home, program, tmp_path):
    progress = tmp_path / "progress"
    progress.write_bytes(bytes(8))
    process = program.start(java("Programs", "for-ever", "1", str(progress), home=home))
    wait_for(lambda: struct.unpack("<Q", progress.read_bytes())[0] > 0)
    process.kill()
    process.wait(60)
    program.collect()
    (told,) = readings(program.run)
    version = int(re.search(r"; Java (\d+)\S*; a reading took it \d+\.\d ns at its start$", told["text"])[1])
    by = "a foreign function" if version >= 22 else "JNI"
    assert f"stamps of process {process.pid} (java) are of the TSC, by {by}; checked: none of 1000" in told["text"]
    assert told["value"] > 0 and told["channel"] in [row["channel"] for row in rows_of_channels(program.run)]


@pytest.mark.skipif(not NEWER, reason="no JDK that can deny native code is here")
@pytest.mark.parametrize("path", ["class", "module"])
def test_native_code_that_the_jvm_denies_is_named_with_the_flag_that_allows_it(path, program):
    words = [word for word in java("Programs", "one", home=NEWER[-1]) if "enable-native-access" not in word]
    own = "ALL-UNNAMED"
    if path == "module":
        own = "tickscope"
        at = words.index("-cp")
        words[at : at + 2] = ["-p", str(JAR), "--add-modules", own, "-cp", words[at + 1].split(":")[1]]
    words.insert(1, "--illegal-native-access=deny")
    printed, said = program.end(words)
    assert "\ntrue System.nanoTime()" in printed
    assert len(said) == 1 and "IllegalCallerException" in said[0]
    assert f"Run java with --enable-native-access={own}; stamps are of" in said[0]
    words.insert(1, f"--enable-native-access={own}")
    printed, said = program.end(words)
    assert "\ntrue the TSC, by a foreign function" in printed and said == []


@pytest.mark.parametrize("asked", ["native", "sundial"])
def test_a_counter_that_is_asked_for_and_not_to_be_had_turns_points_off(asked, program, tmp_path):
    words = [word.replace(str(JAR), without_native(tmp_path)) for word in java("Programs", "one")]
    printed, said = program.end(words, TICKSCOPE_COUNTER=asked)
    assert "\nfalse none: " in printed
    assert len(said) == 1 and said[0].endswith("points are off")
    assert asked in said[0] or "/libtickscope.so" in said[0]
    assert list(program.stamps.rglob("pool-*")) == []


@pytest.mark.parametrize(("asked", "is_on"), [("native", "true"), ("sundial", "false")])
def test_whoever_asks_for_the_counter_first_changes_nothing(asked, is_on, program):
    printed, said = program.end(java("Programs", "counter"), TICKSCOPE_COUNTER=asked)
    assert printed.splitlines()[1] == is_on
    assert len(said) == (is_on == "false")


# ---- threads ---------------------------------------------------------------------------------------------------------


@EVERY_JAVA
def test_a_stamp_allocates_nothing(home, program):
    printed, _ = program.end(java("Programs", "bytes", home=home, flags=[]), TICKSCOPE_POOL_BYTES="16777216")
    assert printed == "0\n"


def test_threads_that_ended_are_closed_and_each_of_their_stamps_is_stored(program):
    process = program.start(java("Programs", "threads", "600"))
    assert process.stdout.readline() == "stamped\n"
    assert program.collect()["lost"] == 0
    rows = rows_of_channels(program.run)
    process.communicate(timeout=60)
    assert program.ids() == list(range(601))
    assert len({row["thread"] for row in rows}) == len(rows) == 601
    assert [row["state"] for row in rows].count("closed") == 600


@EVERY_JAVA
def test_a_thread_that_is_interrupted_loads_the_library_and_stays_interrupted(home, program):
    printed, said = program.end(java("Programs", "interrupted", home=home))
    assert printed.startswith("true true the TSC") and said == []
    program.collect()
    assert program.ids() == [1]


@EVERY_JAVA
def test_a_thread_that_is_interrupted_while_it_loads_the_library_turns_no_points_off(home, program):
    printed, said = program.end(java("Programs", "disturbed", home=home))
    assert printed.startswith("true true the TSC") and said == []
    program.collect()
    assert program.ids() == [1]


@EVERY_JAVA
def test_a_thread_whose_locals_are_cleared_finds_its_channel_again(home, program):
    """As the common pool does after each task; its pool has 256 entries, which no collector frees."""
    flags = ["-Djava.util.concurrent.ForkJoinPool.common.parallelism=2"]
    _, said = program.end(java("Programs", "cleared", "3000", home=home, flags=flags))
    assert said == []
    assert program.collect()["lost"] == 0
    assert program.ids() == list(range(3000))
    assert len(rows_of_channels(program.run)) <= 4


def test_no_ended_thread_is_named_where_none_ended(program):
    small = {"TICKSCOPE_BLOCK_BYTES": "4096", "TICKSCOPE_POOL_BYTES": "16384"}
    _, (told,) = program.end(java("Programs", "many", "300"), **small)
    assert "all 256 channels" in told and told.endswith("Raise TICKSCOPE_POOL_BYTES")


def test_threads_without_a_channel_are_counted(program):
    """256 entries, which no collector frees, and blocks for four threads."""
    _, said = program.end(
        java("Programs", "threads", "300"), TICKSCOPE_BLOCK_BYTES="4096", TICKSCOPE_POOL_BYTES="16384"
    )
    assert len(said) == 1 and "all 256 channels" in said[0] and "256 are closed" in said[0]
    told = program.collect()
    counted = sum(of["dropped"] for of in channels(program.run))
    assert program.ids() == [0, 1, 2, 3] and counted == 252
    assert told["lost"] >= counted


@pytest.mark.skipif(not NEWER, reason="no JDK with virtual threads is here")
def test_each_stamp_of_ten_thousand_virtual_threads_is_stored_once(program):
    flags = ["-Djdk.virtualThreadScheduler.parallelism=8"]
    printed, said = program.end(java("Programs", "virtual", "10000", home=NEWER[-1], flags=flags))
    assert (printed, said) == ("true\n", [])
    assert program.collect()["lost"] == 0
    assert program.ids() == list(range(30000))
    assert {row["thread"] for row in rows_of_channels(program.run)} == {0}


def test_ids_of_texts_and_traces_are_those_of_every_language(program):
    texts = ["", "a", "order-7", "8 bytes!", "für Zoë", "x" * 1025]
    trace = "8d073b983f87645075221a69694a0d29"
    printed, said = program.end(java("Programs", "ids", *texts, trace))
    expected = [*(tickscope.id_of(text) for text in texts), tickscope.id_of(bytes.fromhex(trace))]
    assert ([int(id) for id in printed.split()], said) == (expected, [])


# ---- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kill", range(KILLS))
def test_a_kill_loses_no_stamp_whose_call_returned(kill, program, tmp_path):
    threads, progress = 3, tmp_path / "progress"
    progress.write_bytes(bytes(8 * threads))
    words = java("Programs", "for-ever", str(threads), str(progress))
    process = program.start(words, TICKSCOPE_POOL_BYTES=str(64 << 20))

    def returned():
        return struct.unpack(f"<{threads}Q", progress.read_bytes())

    wait_for(lambda: min(returned()) > 500 * kill)
    process.kill()
    assert process.wait(60) == -signal.SIGKILL
    program.collect()
    dropped = {row["point"]: row["dropped"] for row in rows_of_channels(program.run)}
    for thread, count in enumerate(returned()):
        ids = program.ids(f"point-{thread}")
        assert ids == list(range(len(ids)))
        assert count <= len(ids) + dropped[f"point-{thread}"] <= count + 1
    assert list(program.stamps.rglob("pool-*")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_living_program_whose_process_is_not_seen_keeps_its_pool(program):
    process = program.start(["unshare", "--pid", "--fork", "--kill-child", *java("Programs", "threads", "2")])
    assert process.stdout.readline() == "stamped\n"
    assert len(program.collect()["held"]) == 1
    process.communicate(timeout=60)
    assert (len(program.collect()["held"]), program.ids()) == (0, [0, 1, 2])


def test_a_child_that_outlives_its_parent_does_not_make_it_look_alive(program):
    process = program.start(java("Programs", "parent"))
    child = int(process.stdout.readline())
    try:
        process.kill()
        process.wait(60)
        program.collect()
        assert program.ids() == [1, 2]
        assert list(program.stamps.rglob("pool-*")) == []
    finally:
        os.kill(child, signal.SIGKILL)


def test_copies_of_the_library_in_one_process_have_pools_of_their_own(program, tmp_path):
    words = java("Programs", "loaders")
    other = shutil.copy(JAR, tmp_path / "other.jar")
    program.end([*words, str(JAR), str(JAR), str(other)])
    assert len(list(program.stamps.rglob("pool-*"))) == 4
    program.collect()
    assert program.ids() == [0, 1, 2, 3]


# ---- where it cannot stamp -------------------------------------------------------------------------------------------


def off(program, words=None, **variables):
    """What the library says where points are off; the program goes on."""
    printed, said = program.end(words or java("Programs", "one"), **variables)
    assert "\nfalse " in printed and len(said) == 1 and said[0].endswith("points are off")
    assert list(program.stamps.rglob("*.ticks")) == []
    return said[0]


def test_without_a_stamp_directory_nothing_is_measured_or_said(program):
    printed, said = program.end(java("Programs", "one"), TICKSCOPE_DIR="")
    assert "\nfalse " in printed and said == []


def test_a_stderr_that_nobody_reads_holds_no_program_up(program):
    unread, full = os.pipe()
    os.set_blocking(full, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(full, b"x" * 4096)
    os.set_blocking(full, True)
    environment = os.environ | {"TICKSCOPE_DIR": str(program.stamps / "nowhere")}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": full}
    # Beyond ten minutes it hangs, as everywhere here.
    ended = subprocess.run(java("Programs", "one"), env=environment, timeout=600, check=False, **streams)
    os.close(unread)
    os.close(full)
    assert (ended.returncode, b"\nfalse " in ended.stdout) == (0, True)


def test_a_wrong_setting_is_named_with_what_was_expected(program):
    wrong = {
        "TICKSCOPE_NODE": "a.b",
        "TICKSCOPE_KEY": "secret",
        "TICKSCOPE_BLOCK_BYTES": "5000",
        "TICKSCOPE_POOL_BYTES": "much",
        "TICKSCOPE_POLICY": "passed=some",
        "TICKSCOPE_WHEN_FULL": "panic",
        "TICKSCOPE_INJECT": "0:1000:0:0:2",
    }
    for name, value in wrong.items():
        told = off(program, **{name: value})
        assert "expected" in told and value.split("=")[-1] in told, told


POLICIES = {
    "1 of 1000000000": f"4 {1 << 32 | 10**9}",
    "3000000000 of 4000000000": f"4 {3 * 10**9 << 32 | 4 * 10**9}",
    "0001  of\t4294967295": f"4 {1 << 32 | 2**32 - 1}",
    "1 of 4294967296": "none",
    "0 of 4": "none",
    "4 of 4": "none",
    "keep 86400000000us": f"8 {86400 * 10**9}",
    "keep 86400000000000ns": f"8 {86400 * 10**9}",
    "keep 86400000001us": "none",
    "count 1000ns": "5 1000",
    "count 999ns": "none",
    "count 24h": f"5 {86400 * 10**9}",
    "count 24 h": "none",
    "count": "none",
    f"every {2**63 - 1}": f"3 {2**63 - 1}",
    f"every {2**63}": "none",
    "every 0": "none",
    "first-last": f"6 {2**63}",
    "first-last -7": f"6 {2**64 - 7}",
    f"first-last -{2**63}": "none",
    "first-last --7": "none",
    "all": "2 0",
    "all 1": "none",
    "x of y": "none",
}


def test_a_policy_has_the_grammar_that_it_has_in_c(program, tmp_path):
    printed, _ = program.end(java("tickscope.Checks", *POLICIES))
    assert dict(zip(POLICIES, printed.splitlines(), strict=True)) == POLICIES
    (tmp_path / "c.c").write_text('#include "tickscope.h"\nint main(void) { tickscope_open("passed", 0, 0); }\n')
    header = ["-I", TREE / "crates/stamp/include"]
    subprocess.run(["cc", *header, "-o", tmp_path / "c", tmp_path / "c.c"], check=True)
    for text, found in POLICIES.items():
        _, said = program.end([tmp_path / "c"], TICKSCOPE_POLICY=f"passed={text}")
        assert any("TICKSCOPE_POLICY" in line for line in said) == (found == "none"), text


def switched(writer, number, parameter, epoch):
    """Gives the writer's only channel another policy, as a collector does."""
    with writer.pool().open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        at = FIRST_ENTRY + 8 + epoch % 2 * 8
        memory[at : at + 8] = struct.pack("<q", parameter)
        memory[FIRST_ENTRY : FIRST_ENTRY + 8] = struct.pack("<II", number, epoch)


@pytest.mark.parametrize("ending", ["", " of a program that is killed"])
def test_each_policy_keeps_the_same_stamps_as_in_every_language(ending, command, tmp_path):  # noqa: F811
    (steps,) = [of for of in PROGRAMS if of["name"] == f"each policy keeps the same stamps{ending}"]
    logs = tmp_path / "logs"
    logs.mkdir()
    room = {"TICKSCOPE_POOL_BYTES": str(16 * 4096), "TICKSCOPE_LOGS": str(logs)}
    writer = Writer(command, tmp_path, java("Steps"), steps["environment"] | room)
    writer.take(*(step for step in steps["steps"] if step != "kill"))
    writer.kill() if ending else writer.end()
    writer.collect()
    assert {point: [row[:4] for row in stamps(writer.run, point)] for point in steps["stamps"]} == steps["stamps"]
    assert channels(writer.run) == steps["channels"]
    (log,) = logs.iterdir()
    logged = [(tick, id) for tick, id, *_ in steps["stamps"]["logged"]]
    assert [(tick, id) for id, tick in struct.iter_unpack("<qq", log.read_bytes())] == logged
    assert log.stat().st_mode & 0o777 == 0o600


def test_what_no_log_takes_is_told_counted_and_stored(command, tmp_path):  # noqa: F811
    writer = Writer(command, tmp_path, java("Steps"), {"TICKSCOPE_POLICY": "*=all"}, stderr=subprocess.PIPE)
    writer.take("open 0 sent before slim", *record(0, 3))
    writer.end()
    told = writer.process.stderr.read()
    assert told.count("expected") == 1 and "TICKSCOPE_LOGS" in told and "found none" in told
    writer.collect()
    assert writer.stored("sent") == [(id, 1000 + id) for id in range(3)]
    assert [event["value"] for event in writer.events("stamps-unwritten")] == [3]


def test_logs_leave_the_program_half_of_its_descriptors(program):
    logs = program.stamps.parent / "logs"
    logs.mkdir()
    words = ["sh", "-c", 'ulimit -n 300; exec "$@"', "sh", *java("Programs", "many", "200")]
    printed, said = program.end(words, TICKSCOPE_POLICY="*=all", TICKSCOPE_LOGS=str(logs))
    assert printed == "opened\n"
    assert len(said) == 1 and "raise ulimit -n: a log takes a descriptor" in said[0]
    assert len(list(logs.iterdir())) == 150
    program.collect()
    assert program.ids() == list(range(200))


def test_first_and_last_are_those_of_each_policy_and_of_a_whole_stream(command, tmp_path):  # noqa: F811
    """The slots that are written in turn, a switch in mid-stream, a marker that ends it, and a kill."""
    writer = Writer(command, tmp_path, java("Steps"), {"TICKSCOPE_POLICY": "*=first-last"})
    writer.take("open 0 sent before slim", *record(0, 7))
    switched(writer, 6, 14, 1)
    writer.take(*record(10, 20))
    switched(writer, 1, 0, 2)
    writer.take(*record(20, 22))
    switched(writer, 6, -(2**63), 3)
    writer.take(*record(30, 32))
    writer.kill()
    told = writer.collect()
    assert writer.stored("sent") == [(id, 1000 + id) for id in [0, 6, 10, 14, 20, 21, 30, 31]]
    assert told["lost"] == 0


def test_what_chooses_is_asked_four_deep_and_without_it_stamps_are_refused(program):
    printed, _ = program.end(java("Programs", "chooses"), TICKSCOPE_POLICY="p*=own")
    assert printed == "threw\n" * 4
    program.collect()
    # 1 and 2 came before anybody chose, 101 was stamped within four others, 20 to 23 ended by an exception.
    assert program.ids() == [3, 5, 7, 9, 15, 97, 98, 99, 100]
    assert [(of["stored"], of["refused"]) for of in channels(program.run)] == [(9, 3)]


def test_under_keep_a_full_pool_holds_the_newest_blocks(command, tmp_path):  # noqa: F811
    """Four blocks of 244 records, each overwritten twice."""
    environment = {"TICKSCOPE_POLICY": "*=keep 24h", "TICKSCOPE_POOL_BYTES": str(4 * 4096)}
    writer = Writer(command, tmp_path, java("Steps"), environment)
    writer.take("open 0 sent before slim", *record(0, 12 * 244 + 10))
    writer.kill()
    told = writer.collect()
    assert writer.stored("sent") == [(id, 1000 + id) for id in range(9 * 244, 12 * 244 + 10)]
    assert told["lost"] == 0 and [row["dropped"] for row in writer.channels()] == [0]


def test_what_is_kept_is_stored_when_the_program_asks(command, tmp_path):  # noqa: F811
    writer = Writer(command, tmp_path, java("Steps"), {"TICKSCOPE_POLICY": "*=keep 24h"})
    writer.take("open 0 sent before slim", *record(0, 500), "dump")
    collector = subprocess.Popen(writer.words("--follow"), stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: (writer.run / "run.json").exists() and writer.events("dumped"))
    finally:
        collector.send_signal(signal.SIGINT)
        collector.wait(60)
    assert writer.stored("sent") == [(id, 1000 + id) for id in range(500)]
    writer.end()


def test_under_keep_no_block_of_another_policy_is_overwritten(command, tmp_path):  # noqa: F811
    writer = Writer(command, tmp_path, java("Steps"))
    writer.take("open 0 sent before slim", *record(0, 249))
    switched(writer, 8, 86_400 * 10**9, 1)
    writer.take(*record(1000, 1000 + 3 * 244 + 10))
    writer.kill()
    writer.collect()
    ids = [*range(249), *range(1000 + 2 * 244, 1000 + 3 * 244 + 10)]
    assert writer.stored("sent") == [(id, 1000 + id) for id in ids]


def test_a_policy_of_a_later_version_refuses_and_counts(command, tmp_path):  # noqa: F811
    writer = Writer(command, tmp_path, java("Steps"))
    writer.take("open 0 sent before slim", *record(0, 2))
    switched(writer, 10, 0, 1)
    writer.take(*record(10, 13))
    writer.end()
    writer.collect()
    assert [(row["stored"], row["refused"]) for row in writer.channels()] == [(2, 3)]


def test_a_policy_that_is_switched_holds_from_the_next_stamp_on_and_no_block_has_two(command, tmp_path):  # noqa: F811
    writer = Writer(command, tmp_path, java("Steps"), {"TICKSCOPE_POOL_BYTES": str(8 * 4096)})
    writer.take("open 0 sent before slim", *record(0, 10))
    policies = [(4, 2 << 32 | 5), (3, 4), (0, 0), (1, 0), (4, 5 << 32 | 5), (1, 0)]
    for epoch, (number, parameter) in enumerate(policies, start=1):
        switched(writer, number, parameter, epoch)
        writer.take(*record(10 * epoch, 10 * epoch + 10))
    writer.end()
    told = writer.collect()
    kept = [*range(10), 10, 11, 15, 16, 23, 27, *range(40, 50), *range(60, 70)]
    assert writer.stored("sent") == [(id, 1000 + id) for id in kept]
    assert [(row["stored"], row["seen"], row["refused"]) for row in writer.channels()] == [(len(kept), 10, 10)]
    assert (told["lost"], told["uncommitted"]) == (0, 0)


def test_a_pool_that_shall_make_stamps_wait_is_told_to_drop_them(program):
    printed, said = program.end(java("Programs", "one"), TICKSCOPE_WHEN_FULL="wait")
    assert "\ntrue " in printed and len(said) == 1
    assert "'wait'" in said[0] and "dropped and counted" in said[0]


def test_the_policy_null_keeps_nothing_and_counts_nothing(program):
    _, said = program.end(java("Programs", "threads", "2"), TICKSCOPE_POLICY=" *sed =null")
    assert said == []
    program.collect()
    assert [(of["stored"], of["refused"]) for of in channels(program.run)] == [(0, 0)]


def test_a_stamp_directory_that_is_missing_or_no_directory_turns_points_off(program):
    assert "nowhere" in off(program, TICKSCOPE_DIR=str(program.stamps / "nowhere"))
    (program.stamps / f"uid-{os.geteuid()}").write_text("")
    assert f"uid-{os.geteuid()}" in off(program)


def test_a_program_with_little_direct_memory_is_stamped_and_one_with_none_goes_on(program):
    flags = ["-XX:MaxDirectMemorySize=32k"]
    printed, said = program.end(java("Programs", "one", flags=flags))
    assert "\ntrue " in printed and said == []
    printed, said = program.end(java("Programs", "one", flags=["-XX:MaxDirectMemorySize=1k"]))
    assert "\nfalse " in printed and said[-1].endswith("points are off")
    assert [line.count("OutOfMemoryError") for line in said] == [1] * len(said)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_directory_of_another_user_turns_points_off(program):
    own = program.stamps / "uid-0"
    own.mkdir()
    os.chown(own, 65534, 65534)
    assert "directory of user 0" in off(program)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize(("options", "word"), [("size=1m", "No space left"), ("ro", "Read-only")])
def test_a_full_or_read_only_stamp_directory_turns_points_off(options, word, program):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", program.stamps], check=True)
    try:
        assert word in off(program)
    finally:
        subprocess.run(["umount", program.stamps], check=True)
