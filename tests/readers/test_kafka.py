"""`tickscope load kafka` and targets/kafka, with a real broker if that is here."""

import json
import os
import subprocess
import sys

import pytest

from conftest import TREE

NEEDS = [TREE / "build/kafka.jar", TREE / "build/tickscope.jar"]
IS_HERE = all(path.exists() for path in NEEDS)
LIBRARIES = f"{TREE}/build/kafka/lib/*"


def test_what_a_broker_stores_is_in_the_folder_that_it_is_given_and_goes_with_it(tmp_path):
    (tmp_path / "run").mkdir()
    java = tmp_path / "java"
    java.write_text(f'#!/bin/sh\necho "$@" >> "{tmp_path}/commands"\n')
    java.chmod(0o755)
    command = ["sh", TREE / "targets/kafka/broker.sh", "127.0.0.1", "7492", tmp_path / "run"]
    subprocess.run(command, env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True)
    commands = (tmp_path / "commands").read_text().splitlines()
    assert len(commands) == 2 and all(f"{tmp_path}/run/" in words for words in commands), commands
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.skipif(not IS_HERE, reason="Kafka is not here. Run make kafka")
def test_e2e_kafka_takes_every_tuple_once_and_a_consumer_of_its_own_reads_the_same(tickscope, tmp_path):
    text = (TREE / "experiments/kafka.toml").read_text()
    # Kafka's own console consumer, before the broker goes: it prints the ids as they are text in this load.
    own = [
        "java", "-cp", LIBRARIES, "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server",
        "{broker.address}:7492", "--topic", "texts", "--from-beginning", "--max-messages", "2000",
    ]  # fmt: skip
    script = (
        "import subprocess, sys\n"
        "subprocess.run(sys.argv[1:11], check=True)\n"
        f"with open({str(tmp_path / 'texts')!r}, 'w') as out:\n"
        "    subprocess.run(sys.argv[11:], stdout=out, check=True)\n"
    )
    load = [str(tickscope), "load", "kafka", "{broker.address}:7492", "--topic", "texts"]
    load += ["--rate=2000", "--seconds=1", "--id-text", "--linger=60"]
    words = json.dumps([sys.executable, "-c", script, *load, *own])
    text = text.replace("../target/release/tickscope", str(tickscope)).replace("../", f"{TREE}/")
    text = text.replace("seconds = 20", "seconds = 200").replace(
        "[layout]", f'[[node]]\nname = "texts"\nends_run = true\ncommand = {words}\n\n[layout]'
    )
    (tmp_path / "kafka.toml").write_text(text)
    command = [tickscope, "run", tmp_path / "kafka.toml", "--out", tmp_path / "run", "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    counts = {stage["stage"]: stage["count"] for stage in json.loads(ended.stdout)["stages"]}
    names = ["load.due>load.send", "load.send>consumer.received", "load.send>load.reply", "end-to-end"]
    assert counts == dict.fromkeys(names, 10_000)
    texts = [line.rstrip("\0") for line in (tmp_path / "texts").read_text().splitlines()]
    assert sorted(texts) == [f"{number:019}" for number in range(2000)]
