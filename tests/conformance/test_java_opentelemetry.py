"""A service and its client that carry OpenTelemetry's SDK, and nothing of tickscope, are stamped at their spans."""

import fcntl
import json
import re
import shutil
import subprocess

import pytest
import tickscope
from java import FLAGS, JAR, NATIVE, TREE
from test_java import free_port, program, rows_of_channels  # noqa: F401
from test_minimal_writer import command  # noqa: F401
from test_stamps import stamps

MODULE = TREE / "java/opentelemetry"
PROCESSOR, SDK = TREE / "build/tickscope-opentelemetry.jar", TREE / "build/java/sdk"
REQUESTS = 30
SETTINGS = [f"-Dotel.{signal}.exporter=none" for signal in ("traces", "metrics", "logs")]
RUN = """
[run]
name = "traced"
seconds = 60

[network]
kind = "loopback"

[clock]
reference = "client"

[[node]]
name = "here"
command = %s
ready = %d

[[node]]
name = "client"
command = %s
ends_run = true

[layout]
path = ["client.ask.begin", "here.GET__orders.begin", "here.work.begin", "here.work.end", "client.ask.end"]
branches = ["here.work.end > here.GET__orders.end"]
"""

pytestmark = pytest.mark.skipif(
    not (SDK / "pom.xml").exists(), reason="OpenTelemetry's SDK is not here. Run make java-opentelemetry"
)


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A command that runs the program with the processor beside it."""
    with (TREE / "build/java.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", PROCESSOR.relative_to(TREE)], cwd=TREE, check=True)
    classes = tmp_path_factory.mktemp("traced")
    program = MODULE / "tests/Traced.java"
    subprocess.run(["javac", "-nowarn", "-d", classes, "-cp", f"{SDK}/*", program], check=True)
    path = f"{JAR}:{PROCESSOR}:{SDK}/*:{classes}"
    return lambda *words: [shutil.which("java"), *NATIVE, *FLAGS, *SETTINGS, "-cp", path, *words]


def test_e2e_spans_of_a_trace_are_joined_over_two_services_that_nobody_touched(traced, command, tmp_path):  # noqa: F811
    port = free_port()
    server = traced("Traced", "server", "{address}", str(port))
    client = traced("Traced", "client", "{here.address}", str(port), str(REQUESTS))
    (tmp_path / "run.toml").write_text(RUN % (json.dumps(server), port, json.dumps(client)))
    words = [command, "run", "--json", "--out", tmp_path / "run", tmp_path / "run.toml"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    stages = {stage["stage"]: stage for stage in found["stages"]}
    assert len(stages) == 6
    for name, stage in stages.items():
        assert (stage["impossible"], stage["refused"], stage["missing"]) == (0, 0, 0), name
        assert stage["count"] == REQUESTS, name
    assert found["path_sums"]["mismatches"] == 0
    traces = re.findall(r"trace ([0-9a-f]{32})", "\n".join(event["text"] for event in found["events"]))
    ids = [id for _, id, *_ in stamps(tmp_path / "run", "GET__orders.end")]
    assert {tickscope.id_of(bytes.fromhex(trace)) for trace in traces} <= set(ids)
    assert len(set(ids)) == REQUESTS and traces
    orderings = {(row["point"], row["ordering"]) for row in rows_of_channels(tmp_path / "run", "here")}
    assert {("GET__orders.begin", "after"), ("GET__orders.end", "plain"), ("work.begin", "before")} <= orderings
    assert {("ask.begin", "before"), ("ask.end", "after")} <= {
        (row["point"], row["ordering"]) for row in rows_of_channels(tmp_path / "run", "client")
    }


def test_a_span_begins_and_ends_at_one_point_and_no_two_long_names_share_it(traced, program):  # noqa: F811
    service = "com.example.shop.orders.OrderServiceImplementation"
    names = ["GET", f"{service}.create", f"{service}.delete", "x" * 41]
    _, said = program.end(traced("Traced", "names", *names))
    assert said == []
    program.collect()
    cut = [f"{service[:32]}-{tickscope.id_of(name) % 2**64:016x}"[:41] for name in names[1:3]]
    expected = {f"{name}.{end}" for name in ["GET", *cut, "x" * 41] for end in ("begin", "end")}
    assert {row["point"]: row["stored"] for row in rows_of_channels(program.run)} == dict.fromkeys(expected, 1)


def test_a_setting_that_is_none_is_told_and_the_service_goes_on(traced):
    words = traced("-Dtickscope.opentelemetry.id=both", "Traced", "client", "127.0.0.1", "1", "0")
    ended = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    expected = "tickscope: expected tickscope.opentelemetry.id as trace or span; found 'both'; spans are not stamped"
    assert expected in ended.stderr
