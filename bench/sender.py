"""How late `tickscope load` sends over ZeroMQ, and what a stalled server costs, as it, wrk and redis-benchmark tell it.

A server is stopped (SIGSTOP) for a tenth of each second, so a request that is due while it stands waits up to 100 ms,
and a hundredth of all wait longer than nine tenths of a stall: that is the true p99. wrk sends its next request when
the last was answered, and corrects for it by its own estimate; redis-benchmark does not correct. Kafka's producer test
paces itself.
"""

import contextlib
import csv
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from figures import at_most, figure, median
from processes import BUILD, OTHER_CPU, RELEASE, ROOT, STAMPING_CPU, output_of, start

ROUNDS, SECONDS = 3, 5
RATES = [10_000, 100_000, 1_000_000]
STALL_S, EVERY_S, STALLED_SECONDS, RATE = 0.1, 1.0, 10, 1000
# The kernel stops and continues a process when it gets to it.
SEEN_WITHIN = 0.05
UNPACKED = ROOT / "build" / "rivals"
NGINX = """daemon off; master_process off; pid nginx.pid; error_log error.log; events {{}}
http {{ access_log off; client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d;
  scgi_temp_path e;
  server {{ listen 127.0.0.1:{port}; keepalive_requests 100000000; location / {{ return 204; }} }} }}"""


def measure_sending(options):
    """Rows for the table of figures, and everything else, raw."""
    lateness = {rate: [zmq(rate, options.of(SECONDS)) for _ in range(options.of(ROUNDS))] for rate in RATES}
    rows = []
    for rate, rounds in lateness.items():
        for key, title in (("p50_ns", "median"), ("p999_ns", "p99.9")):
            late_us = median([one["schedule"][key] for one in rounds]) / 1000
            rows.append(figure(f"zmq, {rate / 1000:g} k/s: lateness, {title}", late_us, "us"))
    http, redis = stalled_http(options.scratch), stalled_redis(options.scratch)
    kafka = stalled_kafka(options.scratch) if (BUILD.parent / "kafka.jar").exists() else None
    stalled = [("nginx", http, "wrk"), ("redis", redis, "redis-benchmark")]
    if kafka:
        stalled.append(("kafka", kafka, "its producer test"))
    else:
        print("left out: a stalled Kafka, which is not here. Run make kafka")
    for name, told, rival in stalled:
        true = told["truth_ms"]
        off, beside = abs(told["load"] / true - 1), ("p99, ms", told["load"])
        if name == "kafka":  # it takes long to work off what waited: the stops alone are the least
            rows.append(figure("kafka, stalled: p99 of load", told["load"], "ms", ("true, at least", true)))
        else:
            rows.append(at_most(f"{name}, stalled: p99 of load off by", off, "", SEEN_WITHIN, beside))
        rows.append(figure(f"{name}, stalled: p99 of {rival}", told[rival], "ms", ("true", true)))
    return rows, {"lateness": lateness, "nginx": http, "redis": redis, "kafka": kafka}


# ---- lateness ------------------------------------------------------------------------------------------------------


def zmq(rate, seconds):
    """What one load over ZeroMQ says of its own schedule."""
    port = free_port()
    target = start([BUILD / "zmq-pull", "127.0.0.1", port, "--senders", 1], OTHER_CPU)
    words = ["load", "zmq", f"127.0.0.1:{port}", "--rate", rate, "--seconds", seconds, "--size", 100]
    told = json.loads(output_of([RELEASE / "tickscope", *words], STAMPING_CPU))
    target.wait()
    return told


# ---- stalls --------------------------------------------------------------------------------------------------------


def stalled_http(scratch):
    """p99 of requests to an nginx that is stopped now and then, ms."""
    unpack("wrk", "nginx", "libluajit-5.1-2")
    port = free_port()
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        (Path(folder) / "nginx.conf").write_text(NGINX.format(port=port))
        server = start([UNPACKED / "usr/sbin/nginx", "-p", folder, "-c", "nginx.conf"], OTHER_CPU)
        with ended(server):
            await_listener(port)
            with stalls(server.pid) as stopped:
                ours = loaded("http", port, folder)
            libraries = {"LD_LIBRARY_PATH": str(UNPACKED / "usr/lib/x86_64-linux-gnu")}
            words = ["-t1", "-c10", f"-d{STALLED_SECONDS}", "--latency", f"http://127.0.0.1:{port}/"]
            with stalls(server.pid):
                told = output_of([UNPACKED / "usr/bin/wrk", *words], STAMPING_CPU, libraries)
    line = next(line.split()[1] for line in told.splitlines() if line.strip().startswith("99%"))
    number, unit = float(line.rstrip("mus")), line.lstrip("0123456789.")
    wrk = number * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]
    return {"load": ours, "wrk": wrk, "truth_ms": truth(stopped), "stopped_s": stopped, "wrk's words": told}


def stalled_redis(scratch):
    """The same of a redis."""
    port = free_port()
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        server = start(["redis-server", "--port", port, "--save", "", "--dir", folder, "--logfile", "log"], OTHER_CPU)
        with ended(server):
            await_listener(port)
            tuples = ["--tuple", ROOT / "targets/redis/set.resp", "--id-text", "--id-at", 27, "--replies", "lines"]
            with stalls(server.pid) as stopped:
                ours = loaded("tcp", port, folder, *tuples)
            rate = benchmarked(port, 50_000)["rps"]
            with stalls(server.pid):
                row = benchmarked(port, int(float(rate) * STALLED_SECONDS))
    own = float(row["p99_latency_ms"])
    return {"load": ours, "redis-benchmark": own, "truth_ms": truth(stopped), "stopped_s": stopped, "its row": row}


def benchmarked(port, requests):
    """What redis-benchmark says of so many requests over ten connections."""
    told = output_of(["redis-benchmark", "-p", port, "-c", 10, "-n", requests, "-t", "set", "--csv"], STAMPING_CPU)
    return next(csv.DictReader(told.splitlines()))


def stalled_kafka(scratch):
    """The same of a Kafka, until its leader acknowledges; beside it the producer's own test at the same rate."""
    port = free_port()
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        broker = start(["sh", ROOT / "targets/kafka/broker.sh", "127.0.0.1", port], OTHER_CPU)
        with ended(broker):
            await_listener(port)
            (java,) = Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text().split()
            loaded("kafka", port, folder, "--topic", "warm", "--linger", 10)
            with stalls(int(java)) as stopped:
                ours = loaded("kafka", port, folder, "--topic", "ours", "--linger", 10)
            words = ["java", "-cp", f"{BUILD.parent}/kafka/lib/*", "org.apache.kafka.tools.ProducerPerformance"]
            words += ["--topic", "theirs", "--num-records", RATE * STALLED_SECONDS, "--record-size", 100]
            words += ["--throughput", RATE, "--producer-props", f"bootstrap.servers=127.0.0.1:{port}"]
            with stalls(int(java)):
                told = output_of(words, STAMPING_CPU).splitlines()[-1]
    own = float(re.search(r"([\d.]+) ms 99th", told)[1])
    return {"load": ours, "its producer test": own, "truth_ms": truth(stopped), "stopped_s": stopped, "its words": told}


def loaded(transport, port, folder, *more):
    """p99 from the tick at which a request was due to its reply, ms: what `tickscope run` tells of a load."""
    words = [RELEASE / "tickscope", "load", transport, f"127.0.0.1:{port}", "--rate", RATE]
    command = json.dumps([str(word) for word in [*words, "--seconds", STALLED_SECONDS, *more]])
    file, run = Path(folder) / "stall.toml", Path(folder) / f"run-{len(os.listdir(folder))}"
    file.write_text(
        f'run = {{ name = "stall", seconds = {STALLED_SECONDS + 2} }}\nnetwork.kind = "loopback"\n'
        f'clock.reference = "load"\n[[node]]\nname = "load"\nends_run = true\ncommand = {command}\n'
        '[layout]\npath = ["load.due", "load.send", "load.reply"]\n'
    )
    table = json.loads(output_of([RELEASE / "tickscope", "run", file, "--out", run, "--json"]))
    (whole,) = [stage for stage in table["stages"] if stage["stage"] == "end-to-end"]
    return whole["p99"]["ns"] / 1e6


@contextlib.contextmanager
def stalls(pid):
    """Stops a process for a tenth of each second; how long each stop took is in the list at the end."""
    lengths, over = [], threading.Event()

    def stop():
        due = time.monotonic() + EVERY_S / 2
        while not over.wait(max(0.0, due - time.monotonic())):
            os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            time.sleep(STALL_S)
            os.kill(pid, signal.SIGCONT)
            lengths.append(time.monotonic() - began)
            due += EVERY_S

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield lengths
    finally:
        over.set()
        thread.join()


def truth(lengths):
    """The p99 of requests due evenly over the time of those stops, ms, where nothing else takes time."""
    lo, hi = 0.0, max(lengths)
    while hi - lo > 1e-6:
        middle = (lo + hi) / 2
        longer = sum(max(0.0, length - middle) for length in lengths) / (len(lengths) * EVERY_S)
        lo, hi = (middle, hi) if longer > 0.01 else (lo, middle)
    return lo * 1000


# ---- programs ------------------------------------------------------------------------------------------------------


def unpack(*packages):
    """Debian's packages, unpacked and not installed: an installed server would start."""
    if (UNPACKED / "usr/bin/wrk").exists() and (UNPACKED / "usr/sbin/nginx").exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", "--quiet", *packages], cwd=folder, check=True, stderr=subprocess.DEVNULL)
        for package in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, UNPACKED], check=True)


@contextlib.contextmanager
def ended(process):
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def free_port():
    with socket.socket() as of:
        of.bind(("127.0.0.1", 0))
        return of.getsockname()[1]


def await_listener(port):
    deadline = time.monotonic() + 120  # a JVM
    while time.monotonic() < deadline:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.01)
    raise SystemExit(f"bench: nothing listens at port {port}")
