"""A service on Netty, whose pipeline has a handler that stamps, held against the clock that it logs itself."""

import json
import re
import shutil
import subprocess

import pytest
from java import FLAGS, JAR, NATIVE, TREE, classes
from test_java import free_port
from test_java_docs import PAGE
from test_minimal_writer import command  # noqa: F401

EXAMPLE, NETTY = TREE / "examples/netty", TREE / "build/java/netty"
RUN = """
[run]
name = "netty"
seconds = 2

[network]
kind = "loopback"

[clock]
reference = "client"

[[node]]
name = "server"
command = %s
ready = %d

[[node]]
name = "client"
command = %s
ends_run = true

[[log]]
node = "server"
point = ["outer-in", "inner-in", "inner-out", "outer-out"]
file = "{run}/own.csv"
clock = "monotonic"

[layout]
path = [
    "client.send", "server.outer-in", "server.received", "server.inner-in", "server.inner-out", "server.reply",
    "server.outer-out", "client.response",
]
"""

FETCH = "java/fetch.sh examples/netty/pom.xml build/java/netty"
pytestmark = pytest.mark.skipif(not (NETTY / "pom.xml").exists(), reason=f"Netty is not here. Run {FETCH}")


def test_e2e_each_stamp_of_netty_lies_between_two_readings_of_its_own_clock(command, tmp_path):  # noqa: F811
    classes()  # builds the jar
    (tmp_path / "Client.java").write_text(re.search(r"^```java Client.java\n(.*?)^```$", PAGE, re.M | re.S)[1])
    path, port = f"{JAR}:{NETTY}/*:{tmp_path}", str(free_port())
    sources = [*EXAMPLE.glob("*.java"), tmp_path / "Client.java"]
    subprocess.run(["javac", "-nowarn", "-d", tmp_path, "-cp", path, *sources], check=True)
    java = [shutil.which("java"), *NATIVE, *FLAGS, "-cp", path]
    server = [*java, "Service", "{address}", port, "{run}/own.csv"]
    client = [*java, "Client", "{server.address}", port, "{seconds}"]
    (tmp_path / "run.toml").write_text(RUN % (json.dumps(server), int(port), json.dumps(client)))
    words = [command, "run", "--json", "--out", tmp_path / "run", tmp_path / "run.toml"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert len(found["stages"]) == 8
    count = found["stages"][0]["count"]
    assert count > 0 and found["path_sums"]["mismatches"] == 0
    for stage in found["stages"]:
        counts = (stage["count"], stage["missing"], stage["refused"], stage["impossible"])
        assert counts == (count, 0, 0, 0), stage
