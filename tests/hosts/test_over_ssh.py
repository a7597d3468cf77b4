"""Runs over real OpenSSH: an sshd in each of several namespaces, keys made by the test, the agent copied there."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest
from cluster import Cluster, missing

TREE = pathlib.Path(__file__).resolve().parents[2]
# Said by tests/run.py, as for the browser.
pytestmark = pytest.mark.skipif(missing() is not None, reason=f"no hosts: {missing()}")
USER = "tickscope-test"


@pytest.fixture(scope="module")
def tickscope():
    """The command: TICKSCOPE names it, else the build in the tree."""
    if os.environ.get("TICKSCOPE"):
        return pathlib.Path(os.environ["TICKSCOPE"])
    subprocess.run(["cargo", "build", "-q", "--workspace", "--bin", "tickscope"], cwd=TREE, check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", TREE / "target")) / "debug/tickscope"


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    """The target."""
    program = tmp_path_factory.mktemp("build") / "udp-echo"
    source = TREE / "targets/udp-echo/udp-echo.c"
    subprocess.run([TREE / "tests/compiled.py", "cc", "-D_GNU_SOURCE", "-o", program, source], check=True)
    return program


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Three hosts, and root on them."""
    with Cluster(3, tmp_path_factory.mktemp("hosts")) as hosts:
        yield hosts


@pytest.fixture
def user():
    """A user who may do nothing in particular; gone afterwards."""
    subprocess.run(["userdel", USER], stderr=subprocess.DEVNULL)
    subprocess.run(["useradd", "--no-create-home", "--shell", "/bin/sh", "--password", "*", USER], check=True)
    yield USER
    subprocess.run(["pkill", "-KILL", "-u", USER])
    time.sleep(0.2)
    subprocess.run(["userdel", USER], check=True)


def run_file(folder, cluster, echo, seconds=3, more=""):
    """demo/hosts.toml, at these hosts and with this target."""
    text = (TREE / "demo/hosts.toml").read_text()
    text = text.replace("../build/hosts/ssh_config", str(cluster.folder / "ssh_config"))
    text = text.replace("../build/udp-echo", str(echo)).replace("seconds = 10", f"seconds = {seconds}")
    path = folder / "hosts.toml"
    path.write_text(text + more)
    return path


def begin(tickscope, cluster, *words):
    """The command in the hub, from where the hosts are reached."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cluster.folder / "cache")}
    words = [*cluster.within(), tickscope, *words]
    return subprocess.Popen(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process, *codes):
    """What it printed, as JSON; it has to end with one of the codes."""
    out, err = process.communicate(timeout=300)
    assert process.returncode in codes, (process.returncode, err)
    return json.loads(out) if out else None


def stored(run):
    """Stamps by point; none was dropped."""
    import pyarrow.parquet

    channels = pyarrow.parquet.read_table(run / "channels").to_pylist()
    assert not any(channel["dropped"] for channel in channels), channels
    return {f"{channel['node']}.{channel['point']}": channel["stored"] for channel in channels}


def is_whole(table, run):
    """Every packet that arrived passed every point, and every duration lies in its interval; UDP may lose some."""
    of = stored(run)
    assert of["client.send"] > 1000 and of["client.sent"] == of["client.send"], of
    assert of["client.send"] >= of["server.received"] == of["server.reply"] >= of["client.response"] > 0, of
    for stage in table["stages"]:
        expected = min(of[stage["from"]], of[stage["to"]])
        assert stage["count"] == expected and stage["refused"] == 0, (stage, of)
    truth = table["truth"]
    assert truth["known"] == truth["inside"] > 0


def test_the_demo_runs_over_ssh_with_the_binary_copied_through_the_pipe(tickscope, cluster, echo, tmp_path):
    run = tmp_path / "run"
    table = ended(begin(tickscope, cluster, "run", run_file(tmp_path, cluster, echo), "--json", "--out", run), 0)
    is_whole(table, run)
    assert list((cluster.home / "cache/tickscope/agents").glob("tickscope-*"))
    assert not list(cluster.home.glob("state-*/tickscope/sessions/*"))


def test_agents_of_a_user_without_rights_measure_as_well(tickscope, echo, user, tmp_path):
    folder = pathlib.Path("/tmp") / f"tickscope-hosts-{os.getpid()}"  # where another user may go
    try:
        with Cluster(3, folder, user=user) as cluster:
            run = tmp_path / "run"
            path = run_file(tmp_path, cluster, echo)
            table = ended(begin(tickscope, cluster, "run", path, "--json", "--out", run), 0)
            is_whole(table, run)
            assert list((cluster.home / "cache/tickscope/agents").glob("tickscope-*"))
    finally:
        shutil.rmtree(folder)


def nothing_left(cluster):
    """Whether no agent and no session of an ended run is on any host, after a moment."""
    for _ in range(50):
        daemons = [pid for host in range(1, cluster.hosts + 1) for pid in cluster.processes(host, "agent", "daemon")]
        folders = list(cluster.home.glob("state-*/tickscope/sessions/*"))
        if not daemons and not folders:
            return True
        time.sleep(0.1)
    print(daemons, folders)
    return False


def test_a_host_that_is_not_there_or_not_itself_or_wants_a_password_is_an_error_and_never_a_hang(
    tickscope, cluster, echo, tmp_path
):
    run = tmp_path / "run"
    path = run_file(tmp_path, cluster, echo)

    def says(*words):
        process = begin(tickscope, cluster, "run", path, "--out", run)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 1 and all(word in err for word in words), err
        assert not run.exists()
        assert nothing_left(cluster)

    known = (cluster.folder / "known_hosts").read_text()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    other = (tmp_path / "other.pub").read_text().split(" ")[1]
    (cluster.folder / "known_hosts").write_text(f"10.232.0.* ssh-ed25519 {other}\n")
    says("cannot reach node", "ssh-keygen -R")
    (cluster.folder / "known_hosts").write_text(known)
    keys = cluster.folder / "authorized_keys"
    allowed = keys.read_text()
    keys.write_text("")
    says("cannot reach node", "Permission denied", "set up a key")
    keys.write_text(allowed)
    cluster.link(1, "down")
    says("cannot reach node server")
    cluster.link(1, "up")


def test_pauses_of_a_jvm_on_one_host_are_named_in_the_traces_with_a_program_in_c_on_another(
    tickscope, cluster, echo, tmp_path
):
    """A collection every 20 ms, by the JVM itself; the client has no rest between its requests."""
    subprocess.run(["make", "-s", "build/tickscope.jar"], cwd=TREE, check=True)
    target, run = TREE / "targets/java-echo/StampingClient.java", tmp_path / "run"
    pauses = ["-XX:+UseG1GC", "-XX:G1PeriodicGCInterval=20", "-XX:-G1PeriodicGCInvokesConcurrent"]
    log = "-Xlog:safepoint,gc,vmoperation=debug:file={run}/gc.log:timenanos,uptimenanos:filecount=0"
    words = ["java", *pauses, log, "-cp", "tickscope.jar", "StampingClient.java"]
    words += ["{server.address}", "7400", "5000", "{seconds}"]
    more = '[[log]]\nnode = "client"\nfile = "{run}/gc.log"\nformat = "jvm"\nclock = "monotonic"\n'
    file = run_file(tmp_path, cluster, echo, more=more)
    client = 'files = ["%s"]\ncommand = ["./udp-echo", "client",' % echo
    before, after = file.read_text().split(client)
    files = json.dumps([str(TREE / "build/tickscope.jar"), str(target)])
    text = f"{before}files = {files}\ncommand = {json.dumps(words)}\n" + after.split("]\n", 1)[1]
    file.write_text(text.replace('branches = ["client.send > client.sent"]\n', ""))
    table = ended(begin(tickscope, cluster, "run", file, "--json", "--out", run), 0)
    truth = table["truth"]
    assert truth["known"] == truth["inside"] > 0
    (whole,) = [stage for stage in table["pauses"] if stage["stage"] == "end-to-end"]
    (counted,) = [stage for stage in table["stages"] if stage["stage"] == "end-to-end"]
    assert whole["undisturbed"] + whole["disturbed"] + whole["unknown"] == counted["count"]
    named = [of["name"] for of in whole["neighbours"]]
    assert "G1CollectFull" in named and whole["disturbed"] > 0, whole


def test_a_login_that_ends_at_once_or_an_agent_that_is_not_there_is_an_error_that_names_the_node(
    tickscope, cluster, echo, tmp_path
):
    run, path = tmp_path / "run", run_file(tmp_path, cluster, echo)
    begin_run = ("run", path, "--out", run)
    cluster.restart_server(1, "ForceCommand echo no shell here >&2; exit 7\n")
    try:
        process = begin(tickscope, cluster, *begin_run)
        _, err = process.communicate(timeout=120)
        assert process.returncode == 1 and "cannot reach node server" in err and "no shell here" in err, err
        assert nothing_left(cluster)
    finally:
        cluster.restart_server(1)
    path.write_text(path.read_text().replace('name = "server"\n', 'name = "server"\nagent = "/nowhere/tickscope"\n'))
    process = begin(tickscope, cluster, *begin_run)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 1 and "server" in err and "/nowhere/tickscope" in err, err
    assert not run.exists() and nothing_left(cluster)


def test_a_login_that_is_slow_and_prints_is_passed_over(tickscope, cluster, echo, tmp_path):
    cluster.restart_server(1, "ForceCommand echo Welcome; printf 'no newline'; sleep 1; exec sh\n")
    try:
        run = tmp_path / "run"
        table = ended(begin(tickscope, cluster, "run", run_file(tmp_path, cluster, echo), "--json", "--out", run), 0)
    finally:
        cluster.restart_server(1)
    is_whole(table, run)


def witnessed(run, echo_log):
    """Stamps of the client's sends that the run has, and those that it counts as lost."""
    import pyarrow.parquet

    channels = pyarrow.parquet.read_table(run / "channels").to_pylist()
    of_sends = [channel for channel in channels if channel["node"] == "client" and channel["point"] == "send"]
    files = sorted((run / "stamps/node=client/point=send").glob("*.parquet"))
    ids = [row for path in files for row in pyarrow.parquet.read_table(path, columns=["id"])["id"].to_pylist()]
    assert len(ids) == len(set(ids)) == sum(channel["stored"] for channel in of_sends)
    return len(ids), sum(channel["dropped"] for channel in of_sends)


@pytest.mark.parametrize("victim", ["ssh", "link"])
def test_a_pipe_that_breaks_in_mid_run_costs_nothing(tickscope, cluster, echo, tmp_path, victim):
    few = "TICKSCOPE_TESTS" not in os.environ
    away = 30 if victim == "link" and not few else 12
    for turn in range(1 if few else 20):
        run = tmp_path / f"run-{turn}"
        process = begin(tickscope, cluster, "run", run_file(tmp_path, cluster, echo, away + 2), "--json", "--out", run)
        while not (run / "stamps/node=client/point=send").exists():
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        time.sleep(random.random() * 2)
        if victim == "ssh":
            for pipe in cluster.processes(0, str(cluster.folder / "ssh_config"), "host2"):
                os.kill(pipe, signal.SIGKILL)
        else:
            # The hosts' own service goes on where its link does: between 1 and 2; the hub is cut off from 3.
            cluster.link(3, "down")
            time.sleep(away)
            cluster.link(3, "up")
        truth = ended(process, 0, 3)["truth"]
        assert truth["known"] == truth["inside"] > 0
        stored, lost = witnessed(run, echo)
        assert stored == (away + 2) * 1000 and lost == 0
        node = "client" if victim == "ssh" else "witness"
        import pyarrow.parquet

        events = pyarrow.parquet.read_table(run / "events/run.parquet").to_pylist()
        told = {event["what"] for event in events if event["node"] == node}
        assert {"agent-unreachable", "agent-reached"} <= told, events


def begun(tickscope, cluster, echo, folder, run):
    """A run of 6 s, at a random instant once its client has sent."""
    process = begin(tickscope, cluster, "run", run_file(folder, cluster, echo, 6), "--json", "--out", run)
    while not (run / "stamps/node=client/point=send").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    time.sleep(random.random() * 2)
    return process


def test_a_run_whose_conductor_is_killed_is_finished_from_what_its_hosts_hold(tickscope, cluster, echo, tmp_path):
    for turn in range(1 if "TICKSCOPE_TESTS" not in os.environ else 20):
        run = tmp_path / f"run-{turn}"
        process = begun(tickscope, cluster, echo, tmp_path, run)
        [conductor] = cluster.processes(0, "run", str(tmp_path / "hosts.toml"))
        os.kill(conductor, signal.SIGKILL)
        process.communicate()
        finish = begin(tickscope, cluster, "finish", run)
        _, err = finish.communicate(timeout=120)
        assert finish.returncode in (0, 3), err
        stored, lost = witnessed(run, echo)
        assert 0 < stored and lost == 0 and stored <= 6_000
        assert nothing_left(cluster)


def test_a_daemon_that_is_killed_ends_the_wait_for_its_node_and_what_was_fetched_stays(
    tickscope, cluster, echo, tmp_path
):
    for turn in range(1 if "TICKSCOPE_TESTS" not in os.environ else 20):
        run = tmp_path / f"run-{turn}"
        process = begun(tickscope, cluster, echo, tmp_path, run)
        [daemon] = cluster.processes(2, "agent", "daemon")
        os.kill(daemon, signal.SIGKILL)
        _, err = process.communicate(timeout=120)
        assert process.returncode in (0, 1, 3) and "client" in err, (process.returncode, err)
        stored, _ = witnessed(run, echo)
        assert stored > 0
