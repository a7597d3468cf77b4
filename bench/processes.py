"""Measured programs as processes: in a session of their own, pinned, beside a collector or not."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"
RELEASE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
CPUS = sorted(os.sched_getaffinity(0))
STAMPING_CPU, OTHER_CPU = CPUS[0], CPUS[-1]


def in_own_session(cpu):
    """Runs in the child, after setsid: scheduled as a group of its own, of the highest weight allowed, on one processor."""

    def prepare():
        with contextlib.suppress(OSError):
            pathlib.Path("/proc/self/autogroup").write_text("-20")
        if cpu is not None:
            os.sched_setaffinity(0, {cpu})

    return prepare


def start(command, cpu=None, environment=None):
    environment = {**os.environ, **(environment or {})}
    command = [str(word) for word in command]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=in_own_session(cpu),
    )


def finish(process):
    output, _ = process.communicate()
    if process.returncode != 0:
        sys.exit(f"bench: {' '.join(map(str, process.args))} ended with {process.returncode}")
    return output


def output_of(command, cpu=None, environment=None):
    return finish(start(command, cpu, environment))


def measured(command):
    """Output, wall seconds, processor seconds and peak memory of one process."""
    began, process = time.monotonic(), start(command)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"bench: {' '.join(map(str, command))} ended with status {status}")
    process.returncode = 0
    return output, {
        "wall_s": time.monotonic() - began,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }


@contextlib.contextmanager
def collector(stamps, run):
    """A live collector on the other processor; what it reported is in the list once it has ended."""
    command = [RELEASE / "tickscope", "collect", stamps, "--run", run, "--follow", "--json"]
    process, report = start(command, OTHER_CPU), []
    try:
        process.stdout.readline()  # "ready"
        yield report
        time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        report.append(json.loads(finish(process)))
    finally:
        if process.poll() is None:
            process.kill()


@contextlib.contextmanager
def stamp_directory(pool_bytes):
    with tempfile.TemporaryDirectory(prefix="tickscope-bench-", dir="/dev/shm") as folder:
        yield {"TICKSCOPE_DIR": folder, "TICKSCOPE_POOL_BYTES": str(pool_bytes), "TICKSCOPE_POLICY": "off=null"}


def blocks_of(output):
    blocks = {}
    for name, ns in re.findall(r"^block (.+)\t(.+)$", output, re.MULTILINE):
        blocks.setdefault(name, []).append(round(float(ns), 2))
    return blocks


def filesystem(folder):
    return subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True).stdout.strip()
