"""docs/java.md does what it says: its files are written and compiled, and its run gives its table."""

import http.client
import json
import re
import shutil
import socket
import subprocess
import tomllib
import zipfile

import pytest
from java import FLAGS, JAR, NATIVE, TREE, classes
from test_java import free_port
from test_minimal_writer import command, wait_for  # noqa: F401

PAGE = (TREE / "docs/java.md").read_text()
EXAMPLE, NETTY = TREE / "examples/netty", TREE / "build/java/netty"
NETTY_RUN = """
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
VERSION = tomllib.loads((TREE / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def test_the_service_of_the_page_gives_its_table(command, tmp_path):  # noqa: F811
    classes()  # builds the jar
    shutil.copy(JAR, tmp_path)
    for name, text in re.findall(r"^```\w+ (\S+)\n(.*?)^```$", PAGE, re.M | re.S):
        assert f"`{name}`" in PAGE  # renderers hide what stands behind the fence
        (tmp_path / name).write_text(text.replace("9000", str(free_port())) if name == "java.toml" else text)
    steps = "\n".join(re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S))
    for page, here in {
        "~/tickscope/build": str(JAR.parent),
        "~/tickscope/target/release": str(command.parent),
        ".toml --out": ".toml --seconds 2 --out",
        "1 2 3 4 5 6": "1",
        "compare --before": "compare --json --before",
    }.items():
        assert page in steps
        steps = steps.replace(page, here)
    ended = subprocess.run(["bash", "-e", "-c", steps], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for run in ("run", "before-1", "after-1"):
        expect_a_whole_table(command, tmp_path / run)


def expect_a_whole_table(command, run):  # noqa: F811
    shown = subprocess.run([command, "show", "--json", run], check=True, capture_output=True, text=True)
    table = json.loads(shown.stdout)
    stages = {stage["stage"]: stage for stage in table["stages"]}
    assert len(stages) == 4 and stages["end-to-end"]["count"] > 0
    assert table["path_sums"]["mismatches"] == 0
    for stage in stages.values():
        assert (stage["count"], stage["missing"], stage["impossible"]) == (stages["end-to-end"]["count"], 0, 0)
    said = [event["text"] for event in table["events"] if '"requests"' in event["text"]]
    assert [json.loads(text[text.index("{") :])["requests"] for text in said] == [stages["end-to-end"]["count"]]


def test_the_repository_for_maven_and_gradle_has_the_jar_with_its_sources_and_documentation():
    classes()
    subprocess.run(["make", "-s", "java"], cwd=TREE, check=True)
    name = f"tickscope-{VERSION}"
    folder = TREE / "build/maven/dev/tickscope/tickscope" / VERSION
    files = [f"{name}{end}" for end in (".pom", ".jar", "-sources.jar", "-javadoc.jar")]
    assert {path.name for path in folder.iterdir()} == {f"{file}{end}" for file in files for end in ("", ".sha1")}
    assert (folder / f"{name}.jar").read_bytes() == JAR.read_bytes()
    for end, file in {"-sources.jar": "tickscope/Point.java", "-javadoc.jar": "tickscope/Point.html"}.items():
        assert file in zipfile.ZipFile(folder / f"{name}{end}").namelist()
    assert f"<version>{VERSION}</version>" in PAGE and f"dev.tickscope:tickscope:{VERSION}'" in PAGE


WITH_NETTY = pytest.mark.skipif(
    not (NETTY / "pom.xml").exists(), reason="Netty is not here. java/fetch.sh examples/netty/pom.xml build/java/netty"
)


@WITH_NETTY
def test_netty_answers_requests_without_a_number_too(tmp_path):
    classes()  # builds the jar
    path, port = f"{JAR}:{NETTY}/*:{tmp_path}", free_port()
    subprocess.run(["javac", "-nowarn", "-d", tmp_path, "-cp", path, *EXAMPLE.glob("*.java")], check=True)
    java = [shutil.which("java"), *NATIVE, *FLAGS, "-cp", path]
    server = subprocess.Popen([*java, "Service", "127.0.0.1", str(port), tmp_path / "own.csv"])
    try:
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        for headers in ({}, {"Id": "order-7"}, {"Id": "7"}):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/asked", headers=headers)
            assert connection.getresponse().read() == b"/asked", headers
            connection.close()
    finally:
        server.kill()
        server.wait(60)


@WITH_NETTY
def test_e2e_each_stamp_of_netty_lies_between_two_readings_of_its_own_clock(command, tmp_path):  # noqa: F811
    classes()  # builds the jar
    (tmp_path / "Client.java").write_text(re.search(r"^```java Client.java\n(.*?)^```$", PAGE, re.M | re.S)[1])
    path, port = f"{JAR}:{NETTY}/*:{tmp_path}", str(free_port())
    sources = [*EXAMPLE.glob("*.java"), tmp_path / "Client.java"]
    subprocess.run(["javac", "-nowarn", "-d", tmp_path, "-cp", path, *sources], check=True)
    java = [shutil.which("java"), *NATIVE, *FLAGS, "-cp", path]
    server = [*java, "Service", "{address}", port, "{run}/own.csv"]
    client = [*java, "Client", "{server.address}", port, "{seconds}"]
    (tmp_path / "run.toml").write_text(NETTY_RUN % (json.dumps(server), int(port), json.dumps(client)))
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
