"""The Yahoo benchmark of targets/storm: its operators alone, its recount, and the whole on Storm if that is here."""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import TREE, free_port

STORM = TREE / "targets/storm"
sys.path.insert(0, str(STORM))
import events
import overhead
import rates
import recount

NEEDS = [TREE / "build/storm.jar", TREE / "build/tickscope.jar", TREE / "build/storm/lines.jsonl"]
IS_HERE = all(path.exists() for path in NEEDS) and shutil.which("redis-server")


def test_the_operators_compute_what_the_benchmark_says(tmp_path):
    sources = [STORM / "src/tickscope/storm/Operators.java", STORM / "tests/OperatorsTest.java"]
    subprocess.run(["javac", "-d", tmp_path, *sources], check=True)
    subprocess.run(["java", "-cp", tmp_path, "OperatorsTest"], check=True)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    events.write(folder)
    return folder


def test_events_are_those_of_the_benchmark(written):
    lines = (written / "lines.jsonl").read_text().splitlines()
    assert len(lines) == 10_000 and all(line[8 : 8 + 19] == "0" * 19 for line in lines)
    found = [json.loads(line) for line in lines]
    assert len({event["ad_id"] for event in found}) == 1000
    times = [int(event["event_time"]) for event in found]
    assert times == list(range(times[0], times[0] + 10_000))


def test_a_window_with_another_count_is_wrong(written, monkeypatch, capsys):
    _, counts = recount.recounted(written, 10_000)
    assert len(counts) == 200
    campaigns = {}

    class Redis:
        """As the engine left it."""

        def __init__(self, *_):
            pass

        def ask(self, word, *words):
            if word == "DBSIZE":
                return 0
            if word == "GET":
                return {"done": "10000", "first_ns": "500", "last_ns": "2000000500"}.get(words[0])
            return campaigns.get(words[0], []) if word == "HGETALL" else ""

    monkeypatch.setattr(recount, "Redis", Redis)
    for (campaign, window), views in counts.items():
        campaigns.setdefault(campaign, []).extend([window, str(views)])
    assert recount.main(written, "", 0, 10_000) == 0
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["wrong"], last["events_per_second"]) == (0, 5000)
    assert recount.main(written, "", 0, 9_999) == 1, "an event more than was sent"
    one = next(iter(campaigns.values()))
    one[1] = str(int(one[1]) + 1)
    assert recount.main(written, "", 0, 10_000) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["wrong"] == 1


def test_a_jvm_that_goes_before_all_is_counted_is_missed_and_one_that_goes_after_that_is_not(monkeypatch):
    monkeypatch.setattr(recount.time, "sleep", lambda _: None)

    class Redis:
        """What it has at each look: the connections, and `done`."""

        def __init__(self, looks):
            self.looks = iter(looks)

        def ask(self, word, *words):
            if word == "CLIENT":
                there, self.done = next(self.looks)
                return "".join(f"id={one} addr=127.0.0.1:1 name=engine age=1\n" for one in there) + "id=9 name= age=1\n"
            return self.done if words == ("done",) else None

    with pytest.raises(SystemExit, match="a JVM of the engine is gone"):
        recount.waited(Redis([((), None), ((4,), None), ((), None)]))
    looks = [((), None), ((4, 5), None), ((4,), None)]
    assert recount.waited(Redis([*looks, ((4, 6), "10000")])) == "10000", "its engine may say why, first"
    monkeypatch.setattr(recount, "RESTART_S", 0)
    with pytest.raises(SystemExit, match="a JVM of the engine is gone"):
        recount.waited(Redis(looks))
    assert recount.waited(Redis([((), None), ((4, 5), None), ((), "10000")])) == "10000"


def test_a_redis_that_holds_something_is_left_as_it_is(written, monkeypatch):
    asked = []

    class Redis:
        """Somebody else's."""

        def __init__(self, *_):
            pass

        def ask(self, *words):
            asked.append(words[0])
            return 3 if words == ("DBSIZE",) else "PONG"

    monkeypatch.setattr(recount, "Redis", Redis)
    with pytest.raises(SystemExit, match=r"empty Redis at 127\.0\.0\.1:7402, found 3 keys"):
        recount.main(written, "127.0.0.1", 7402, 10_000)
    assert asked == ["DBSIZE"]
    monkeypatch.setattr(overhead, "Redis", Redis)
    one = overhead.Pass(argparse.Namespace(seconds=1), written)
    with pytest.raises(SystemExit, match=r"expected nobody at 127\.0\.0\.1:7402, found a Redis"):
        one.made([], {})
    assert one.running == []


HAS_STORM = pytest.mark.skipif(not IS_HERE, reason="Storm is not here. Run make storm")


def run_of(text, tickscope, folder, started=False):
    """A run of that run file in `folder`/run, ended or just started."""
    text = text.replace("../target/release/tickscope", str(tickscope)).replace("../", f"{TREE}/")
    (folder / "ysb.toml").write_text(text)
    words = [tickscope, "run", folder / "ysb.toml", "--out", folder / "run", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, **pipes) if started else subprocess.run(words, check=False, **pipes)


HAS_KAFKA = pytest.mark.skipif(
    not (IS_HERE and (TREE / "build/kafka.jar").exists()), reason="Storm or Kafka is not here. Run make storm kafka"
)


@HAS_STORM
@pytest.mark.parametrize("name", ["ysb", "ysb-factory", "ysb-workers", pytest.param("ysb-kafka", marks=HAS_KAFKA)])
def test_e2e_every_window_is_right_and_each_operator_has_its_time(name, tickscope, tmp_path):
    if name == "ysb-workers" and os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    ended = run_of((TREE / f"experiments/{name}.toml").read_text(), tickscope, tmp_path)
    assert ended.returncode == 0, ended.stderr
    stages = {stage["stage"]: stage["count"] for stage in json.loads(ended.stdout)["stages"]}
    counts = {stage.split(".")[1].split("-in>")[0]: count for stage, count in stages.items() if "-in>" in stage}
    assert counts["deserialise"] == counts["filter"] == 10_000
    views = recount.recounted(TREE / "build/storm", 10_000)[0]
    assert counts["project"] == counts["join"] == counts["count"] == views
    if name == "ysb-kafka":
        assert stages["load.send>load.reply"] == stages["load.send>storm.received"] == 10_000
        assert stages["storm.count-out>storm.stored"] == views


def test_what_a_part_costs_is_of_its_own_round_and_has_the_interval_of_the_sign_test():
    rounds = [
        {
            "none": {"rate": alone, "cpu_s": 4, "bytes": None},
            "jfr": {"rate": alone * changed, "cpu_s": 5, "bytes": 27.0},
        }
        for alone, changed in [(100, 0.9), (1000, 0.8), (10, 1.1), (50, 0.95), (500, 0.5), (200, 0.97)]
    ]
    row = overhead.summary("jfr", rounds)
    assert {of: round(percent, 6) for of, percent in row["percent"].items()} == {"median": -7.5, "lo": -50, "hi": 10}
    assert set(row["cpu_percent"].values()) == {25}
    assert row["confidence"] == 1 - 2 / 2**6 and row["bytes_per_stamp"] == 27.0
    eleven = [
        {**one, "jfr": {"rate": one["none"]["rate"] * (90 + at) / 100, "cpu_s": 4, "bytes": None}}
        for at, one in enumerate((rounds * 2)[:11])
    ]
    percent = overhead.summary("jfr", eleven)["percent"]
    assert [round(percent[of], 6) for of in ("lo", "median", "hi")] == [-9, -5, -1], "one left out at either end"
    with pytest.raises(SystemExit, match="6 rounds or more, found 5"):
        overhead.sign_test(5)


def test_what_a_factory_brings_is_told_by_rates_and_by_the_least_processor_time(monkeypatch):
    # Of six rounds: what is alone, then what a factory of three threads gives.
    alone = [{"rate": 100.0, "taker_ns": ns, "all_ns": ns + 1, "bytes": 9} for ns in (130, 120, 500, 125, 140, 150)]
    factory = [
        {"rate": rate, "taker_ns": taker, "all_ns": taker + 90, "bytes": 9}
        for rate, taker in [(90.0, 70), (200.0, 60), (150.0, 900), (160.0, 65), (170.0, 80), (40.0, 61)]
    ]
    runs = iter([one for pair in zip(alone, factory, strict=True) for one in pair])
    monkeypatch.setattr(rates, "rate", lambda *_: next(runs))
    found = rates.measured("flat", 3, 6, 1)
    assert (found["ratio"], found["ratio_interval"]) == (1.55, [0.9, 1.7])
    assert [found[of] for of in ("alone_ns", "taker_ns", "all_ns")] == [120, 60, 150]
    assert found["ratio_of_two_processors"] == 120 / 75, "all of the time, on two"
    assert found["ratio_of_enough"] == 2, "who takes them has 60 ns, three threads 30 each"


@HAS_STORM
def test_e2e_each_profiler_notes_every_passage(tickscope, monkeypatch):
    monkeypatch.delenv("TICKSCOPE_DIR", raising=False)
    words = argparse.Namespace(seconds=0.2, tickscope=tickscope)
    one, kept = {}, overhead.size

    def size(folder):
        recorded = folder / "passages.jfr"
        if recorded.exists():
            summary = subprocess.run(["jfr", "summary", recorded], capture_output=True, text=True, check=True).stdout
            one["jfr"] = int(next(line.split()[1] for line in summary.splitlines() if "tickscope.Passage" in line))
        return kept(folder)

    monkeypatch.setattr(overhead, "size", size)
    found = {part: overhead.passed(words, part) for part in (*overhead.POLICIES, "collected", "jfr", "kieker")}
    views = recount.recounted(TREE / "build/storm", 12_000)[0]
    assert one["jfr"] == 6 * 12_000 + 6 * views
    assert all(of["rate"] > 0 for of in found.values())
    assert found["kieker"]["bytes"] == pytest.approx(40, abs=0.05), "a record of 40 bytes for each passage"
    assert found["collected"]["bytes"] < found["jfr"]["bytes"] and found["null"]["bytes"] is None


@HAS_STORM
def test_e2e_a_profiler_that_is_none_is_refused_with_those_that_are():
    path = f"{TREE}/build/storm.jar:{TREE}/build/tickscope.jar:{TREE}/build/storm/lib/*"
    command = [
        "java",
        "-Dprofiler=perf",
        "-cp",
        path,
        "tickscope.storm.YahooBenchmark",
        "127.0.0.1",
        "1",
        "127.0.0.1",
        "1",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "tickscope, none, jfr, kieker], found 'perf'" in ended.stderr, ended.stderr


IS_FLINK_HERE = IS_HERE and (TREE / "build/flink.jar").exists()
HAS_FLINK = pytest.mark.skipif(not IS_FLINK_HERE, reason="Storm or Flink is not here. Run make storm flink")


@HAS_FLINK
def test_e2e_one_table_has_both_engines_and_no_window_of_either_is_wrong(tickscope, tmp_path):
    text = (TREE / "experiments/ysb-engines.toml").read_text().replace("repetitions = 3", "repetitions = 1")
    text = text.replace('"--linger"', '"--late", "60000", "--linger"')  # a machine that has more to do holds it up
    ended = run_of(text, tickscope, tmp_path)
    assert ended.returncode == 0, ended.stderr
    points = json.loads(ended.stdout)["points"]
    assert [point["values"] for point in points] == [["storm"], ["flink"]]
    views = recount.recounted(TREE / "build/storm", 10_000)[0]
    for trial in sorted((tmp_path / "run").glob("trial-*")):
        shown = subprocess.run([tickscope, "show", trial, "--json"], capture_output=True, check=True).stdout
        counts = {stage["stage"]: stage["count"] for stage in json.loads(shown)["stages"]}
        assert counts["stream.deserialise-in>stream.deserialise-out"] == 10_000
        assert counts["stream.count-in>stream.count-out"] == views


def listening_at(pid):
    """Addresses, in the kernel's figures, of that process's sockets that take connections."""
    links = [os.readlink(place) for place in Path(f"/proc/{pid}/fd").iterdir()]
    lines = [line.split() for of in ("tcp", "tcp6") for line in Path(f"/proc/{pid}/net/{of}").read_text().splitlines()]
    return [line[1].split(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in links]


@HAS_STORM
@pytest.mark.parametrize("engine", ["storm", pytest.param("flink", marks=HAS_FLINK)])
def test_e2e_no_engine_of_one_jvm_listens_beyond_loopback(engine, tmp_path):
    path = ":".join(f"{TREE}/build/{name}" for name in (f"{engine}.jar", "tickscope.jar", f"{engine}/lib/*"))
    host, port, at = "127.0.0.1", str(free_port()), free_port()
    words = ["java", "-cp", path, f"tickscope.{engine}.YahooBenchmark", host, port, host, str(at)]
    kept = ["--save", "", "--dir", tmp_path]
    redis = subprocess.Popen(["redis-server", "--bind", host, "--port", str(at), *kept], stdout=subprocess.DEVNULL)
    try:
        overhead.awaited("Redis", lambda: redis.poll() is not None or overhead.answers(at))
        asked = recount.Redis(host, at)
        running = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            overhead.awaited("the engine", lambda: running.poll() is not None or asked.ask("GET", "listening"))
            assert running.poll() is None, f"{engine} ended with {running.returncode}, and says above why"
            found = listening_at(running.pid)
        finally:
            running.kill()
            running.wait()
    finally:
        redis.kill()
        redis.wait()
    # 127.0.0.1, or the same as an address of IPv6; the lines are its own, the others the engine's.
    assert len(found) > 1 and set(found) <= {"0100007F", "0000000000000000FFFF00000100007F"}, found


@HAS_STORM
def test_e2e_collections_of_garbage_stand_beside_what_storm_took_in_meanwhile(tickscope, tmp_path):
    text = (TREE / "experiments/ysb-pauses.toml").read_text()
    ended = run_of(text, tickscope, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "ParallelGC" in str(json.loads(ended.stdout)["pauses"])
    asked = [tickscope, "show", tmp_path / "run", "--counts", "storm.received"]
    shown = subprocess.run([*asked, "--json"], capture_output=True, check=True).stdout
    counted = json.loads(shown)["counts"][0]
    assert counted["total"] == 50_000
    paused = [period["paused_ticks"] for period in counted["periods"] if "paused_ticks" in period]
    assert paused and all(0 <= least <= most for least, most in paused) and any(least > 0 for least, _ in paused)
    assert " ms" in subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    subprocess.run([tickscope, "report", tmp_path / "run"], capture_output=True, check=True)
    assert "JVM of storm paused" in (tmp_path / "run/report.html").read_text()


def processes(*words):
    """Those whose command and environment have all these words."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            text = b"".join((place / name).read_bytes() for name in ("cmdline", "environ"))
        except OSError:
            continue
        if all(word.encode() in text for word in words):
            yield int(place.name)


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@HAS_STORM
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
@pytest.mark.parametrize("node", ["first", "second"])
def test_e2e_a_killed_worker_ends_the_run_with_that_reason_and_what_all_stamped_is_there(node, tickscope, tmp_path):
    text = (TREE / "experiments/ysb-workers.toml").read_text()
    run = run_of(text, tickscope, tmp_path, started=True)
    try:
        stored = tmp_path / f"run/stamps/node={node}/point={'emitted' if node == 'first' else 'count-in'}"
        while not list(stored.glob("*.parquet")):
            assert run.poll() is None, run.communicate()  # at the latest at its ready_timeout
            time.sleep(0.05)  # between two looks
        # Storm starts a worker by another process of the same words, which is that JVM's parent.
        launched = list(processes("org.apache.storm.daemon.worker.Worker", f"/{node}\0"))
        workers = [pid for pid in launched if parent_of(pid) in launched]
        os.kill(workers[0], signal.SIGKILL)
        out, err = run.communicate(timeout=300)
    finally:
        run.terminate()
        run.wait()
    # Storm starts the worker again, unless it has no time for that within a minute.
    reasons = ["began a second time: the worker that it ran in is gone", "recount: a JVM of the engine is gone"]
    assert run.returncode == 1 and any(reason in err for reason in reasons), err
    shown = subprocess.run([tickscope, "show", tmp_path / "run", "--json"], capture_output=True, check=False)
    assert json.loads(shown.stdout)["lost"] == 0, out
    counts = {stage["stage"]: stage["count"] for stage in json.loads(shown.stdout)["stages"]}
    assert counts["first.filter-in>first.filter-out"] > 0 and counts["second.count-in>second.count-out"] > 0


@HAS_STORM
def test_e2e_a_local_cluster_that_dies_ends_the_run_with_that_reason(tickscope, tmp_path):
    text = (TREE / "experiments/ysb.toml").read_text()
    run = run_of(
        text.replace("seconds = 10\n", "seconds = 60\n").replace('"10000"', '"60000"'), tickscope, tmp_path, True
    )
    try:
        while not list((tmp_path / "run/stamps/node=storm/point=count-in").glob("*.parquet")):
            assert run.poll() is None, run.communicate()  # at the latest at its ready_timeout
            time.sleep(0.05)  # between two looks
        (storm,) = processes("tickscope.storm.YahooBenchmark\0", str(tmp_path / "run"))
        os.kill(storm, signal.SIGKILL)
        err = run.communicate(timeout=300)[1]
    finally:
        run.terminate()
        run.wait()
    assert run.returncode == 1 and "a JVM of the engine is gone" in err and "storm failed with" in err, err


@HAS_KAFKA
def test_e2e_a_broker_that_dies_ends_the_run_with_that_reason_and_how_many_events_were_read(tickscope, tmp_path):
    text = (TREE / "experiments/ysb-kafka.toml").read_text()
    text = text.replace("seconds = 10\n", "seconds = 60\n").replace('"10000"', '"60000"')
    run = run_of(text, tickscope, tmp_path, started=True)
    try:
        while not list((tmp_path / "run/stamps/node=storm/point=count-in").glob("*.parquet")):
            assert run.poll() is None, run.communicate()  # at the latest at its ready_timeout
            time.sleep(0.05)
        (broker,) = processes("kafka.Kafka\0", str(tmp_path / "run"))
        os.kill(broker, signal.SIGKILL)
        err = run.communicate(timeout=300)[1]
    finally:
        run.terminate()
        run.wait()
    assert run.returncode == 1 and "broker failed with" in err, err
    read = int(re.search(r"does not answer any more: expected 60000 records, found (\d+)", err)[1])
    shown = subprocess.run([tickscope, "show", tmp_path / "run", "--json"], capture_output=True, check=False)
    assert json.loads(shown.stdout)["lost"] == 0, shown
    counts = {stage["stage"]: stage["count"] for stage in json.loads(shown.stdout)["stages"]}
    assert 0 < read == counts["load.send>storm.received"] <= counts["load.due>load.send"] < 60_000


@HAS_STORM
def test_the_object_factory_loses_nothing_whatever_its_queues_and_ends(tmp_path):
    libraries = f"{TREE}/build/storm/lib/*"
    names = ["src/tickscope/storm/ObjectFactory", "src/tickscope/storm/Codec", "src/tickscope/storm/Operators"]
    sources = [STORM / f"{name}.java" for name in [*names, "tests/ObjectFactoryTest"]]
    subprocess.run(["javac", "-cp", libraries, "-d", tmp_path, *sources], check=True)
    words = ["java", "-cp", f"{tmp_path}:{libraries}", "tickscope.storm.ObjectFactoryTest"]
    subprocess.run(words, check=True, timeout=300)
