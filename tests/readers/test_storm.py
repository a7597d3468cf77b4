"""The Yahoo benchmark of targets/storm: its operators alone, its recount, and the whole on Storm if that is here."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from conftest import TREE

STORM = TREE / "targets/storm"
sys.path.insert(0, str(STORM))
import events
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
            if word == "GET":
                return "10000"
            return campaigns.get(words[0], []) if word == "HGETALL" else "OK"

    monkeypatch.setattr(recount, "Redis", Redis)
    for (campaign, window), views in counts.items():
        campaigns.setdefault(campaign, []).extend([window, str(views)])
    assert recount.main(written, "", 0, 10_000) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["wrong"] == 0
    assert recount.main(written, "", 0, 9_999) == 1, "an event more than was sent"
    one = next(iter(campaigns.values()))
    one[1] = str(int(one[1]) + 1)
    assert recount.main(written, "", 0, 10_000) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["wrong"] == 1


HAS_STORM = pytest.mark.skipif(not IS_HERE, reason="Storm is not here. Run make storm")


@HAS_STORM
@pytest.mark.parametrize("name", ["ysb", "ysb-factory", "ysb-workers"])
def test_e2e_every_window_is_right_and_each_operator_has_its_time(name, tickscope, tmp_path):
    if name == "ysb-workers" and os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    text = (TREE / f"experiments/{name}.toml").read_text()
    text = text.replace("../target/release/tickscope", str(tickscope)).replace("../", f"{TREE}/")
    (tmp_path / "ysb.toml").write_text(text)
    words = [tickscope, "run", tmp_path / "ysb.toml", "--out", tmp_path / "run", "--json"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    stages = {stage["stage"]: stage["count"] for stage in json.loads(ended.stdout)["stages"]}
    counts = {stage.split(".")[1].split("-in>")[0]: count for stage, count in stages.items() if "-in>" in stage}
    assert counts["deserialise"] == counts["filter"] == 10_000
    views = recount.recounted(TREE / "build/storm", 10_000)[0]
    assert counts["project"] == counts["join"] == counts["count"] == views


@HAS_STORM
def test_the_object_factory_loses_nothing_whatever_its_queues_and_ends(tmp_path):
    libraries = f"{TREE}/build/storm/lib/*"
    names = ["src/tickscope/storm/ObjectFactory", "src/tickscope/storm/Codec", "src/tickscope/storm/Operators"]
    sources = [STORM / f"{name}.java" for name in [*names, "tests/ObjectFactoryTest"]]
    subprocess.run(["javac", "-cp", libraries, "-d", tmp_path, *sources], check=True)
    words = ["java", "-cp", f"{tmp_path}:{libraries}", "tickscope.storm.ObjectFactoryTest"]
    subprocess.run(words, check=True, timeout=300)
