#!/usr/bin/env python3
"""What profiling costs the Yahoo benchmark's throughput on Storm, part by part, and beside it Kieker and JFR.

    targets/storm/overhead.py [--rounds 10] [--seconds 5] [--parts null buffered collected ...] [--json]

Cloudprofiler's Tables IV and V. A round makes one pass of the saturated topology for each part and one without any, in
an order of its own; every window is counted again. A row has the median of the events a second, what the part changed
in these and in Storm's time on processors, from its start to its end, in per cent of the pass without in its round, as
median and interval of the sign test, and bytes in files by stamp.

`null`, `count 1s`, `every 100` and `buffered` are policies, into pools that nobody collects while the load runs;
`collected` is `buffered` with a collector, `run` all that `tickscope run` does; `jfr` and `kieker` note the same
places and ids. After `make storm`, on a machine that does nothing else.
"""

import argparse
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from recount import Redis

TREE = Path(__file__).resolve().parents[2]
BUILD = TREE / "build"
HOST, LINES, REDIS = "127.0.0.1", 7401, 7402
RATE = 60_000
PATIENCE_S = 300
POLICIES = ["null", "count 1s", "every 100", "buffered"]
PARTS = [*POLICIES, "collected", "run", "jfr", "kieker"]
POINTS = 12
FILES = "kieker.monitoring.writer.filesystem"
KIEKER = [f"-D{FILES}.FileWriter.logStreamHandler={FILES}.BinaryLogStreamHandler"]


def ended(process: subprocess.Popen, what: str) -> str:
    out = process.communicate(timeout=PATIENCE_S)[0]
    if process.returncode != 0:
        sys.exit(f"overhead: {what} ended with {process.returncode}, see above")
    return out


def awaited(what: str, holds) -> None:
    until = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > until:
            sys.exit(f"overhead: expected {what} within {PATIENCE_S} s")
        time.sleep(0.05)


def cpu_s(storm: subprocess.Popen) -> float:
    """What it took of processors, from its start to its end."""
    os.waitid(os.P_PID, storm.pid, os.WEXITED | os.WNOWAIT)  # its times are there until it is waited for
    used = used_s(storm.pid)
    ended(storm, "Storm")
    return used


def used_s(pid: int) -> float:
    """What a process had of processors, in user's and kernel's mode."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def answers(port: int = REDIS) -> bool:
    try:
        return Redis(HOST, port).ask("PING") == "PONG"
    except OSError:
        return False


class Pass:
    """One pass of the topology with its processes, outside of any run."""

    def __init__(self, words: argparse.Namespace, folder: Path) -> None:
        self.words, self.folder, self.running = words, folder, []

    def start(self, *command, **settings) -> subprocess.Popen:
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True, **settings)
        self.running.append(process)
        return process

    def made(self, java: list[str], environment: dict[str, str], collector: subprocess.Popen | None = None) -> dict:
        """What was counted; the processes are ended, a collector last, which leaves its pipe to who reads it."""
        try:
            counted = self.through(java, environment)
            if collector:
                collector.send_signal(signal.SIGINT)
                self.running.remove(collector)
            return counted
        finally:
            for process in reversed(self.running):
                process.terminate()
                process.wait()

    def through(self, java: list[str], environment: dict[str, str]) -> dict:
        sent = f"{RATE}*{self.words.seconds:g}"
        if answers():
            sys.exit(f"overhead: expected nobody at {HOST}:{REDIS}, found a Redis: it may be somebody else's. End it")
        self.start("redis-server", "--bind", HOST, "--port", REDIS, "--save", "", "--dir", self.folder)
        awaited("Redis to answer", answers)
        recount = self.start(sys.executable, TREE / "targets/storm/recount.py", BUILD / "storm", HOST, REDIS, sent)
        if recount.stdout.readline() != "ready\n":
            ended(recount, "the recount")
        path = f"{BUILD}/storm.jar:{BUILD}/tickscope.jar:{BUILD}/storm/lib/*"
        command = ["java", *java, "-cp", path, "tickscope.storm.YahooBenchmark", HOST, LINES, HOST, REDIS]
        storm = self.start(*command, env=os.environ | environment)
        redis = Redis(HOST, REDIS)
        awaited("Storm to listen", lambda: storm.poll() is not None or redis.ask("GET", "listening"))
        command = ["load", "tcp", f"{HOST}:{LINES}", "--rate", RATE, "--seconds", self.words.seconds, "--linger", "60"]
        lines = ["--lines", BUILD / "storm/lines.jsonl", "--id-text", "--id-at", "8"]
        self.start(self.words.tickscope, *command, *lines, stderr=subprocess.DEVNULL)
        counted = json.loads(ended(recount, "the recount"))
        return counted | {"cpu_s": cpu_s(storm)}


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def passed(words: argparse.Namespace, part: str) -> dict:
    """A pass under that part: events a second, and bytes in files by stamp, where it has files."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        if part == "run":
            return whole_run(words, folder)
        one = Pass(words, folder)
        if part in ("none", "jfr", "kieker"):
            (folder / "files").mkdir()
            java = [f"-Dprofiler={part}", f"-Dprofiler.out={folder}/files/passages.jfr"]
            counted = one.made([*java, *KIEKER, f"-D{FILES}.FileWriter.customStoragePath={folder}/files"], {})
            return found(counted, size(folder / "files") if part != "none" else None)
        policy = part if part in POLICIES else "buffered"
        (folder / "stamps").mkdir()
        environment = {"TICKSCOPE_DIR": f"{folder}/stamps", "TICKSCOPE_POLICY": f"*={policy}"}
        environment |= {"TICKSCOPE_POOL_BYTES": str(1 << 27), "TICKSCOPE_NODE": "storm"}
        collect = [words.tickscope, "collect", "--run", folder / "run", folder / "stamps", "--json"]
        collector = one.start(*collect, "--follow") if part == "collected" else None
        counted = one.made([], environment, collector)
        collected = collector or subprocess.Popen([str(word) for word in collect], stdout=subprocess.PIPE, text=True)
        stored = json.loads(ended(collected, "the collector").splitlines()[-1])  # before it, that it is ready
        every = passages(counted)
        if stored["lost"] or stored["stamps"] not in kept(policy, every):
            sys.exit(f"overhead: expected {every} passages under {policy}, found {stored}: what is lost costs less")
        if policy == "count 1s" and (there := counts(words, folder / "run")) != every:
            sys.exit(f"overhead: expected {every} passages under {policy}, found {there} counted")
        return found(counted, stored["bytes"] if policy == "buffered" else None)


def counts(words: argparse.Namespace, run: Path) -> int:
    """What points under `count` counted in all."""
    shown = [words.tickscope, "show", run, "--counts", "--json"]
    printed = subprocess.run([str(word) for word in shown], check=True, stdout=subprocess.PIPE).stdout
    return sum(point["total"] for point in json.loads(printed)["counts"])


def kept(policy: str, every: int) -> range:
    """How many stamps a policy may keep of so many passages."""
    if policy == "every 100":  # of each point's
        return range(every // 100 - POINTS, every // 100 + POINTS + 1)
    stamps = 0 if policy in ("null", "count 1s") else every
    return range(stamps, stamps + 1)


def passages(counted: dict) -> int:
    """Six of every event, those of the spout and of two operators, and six more of those that are views."""
    return 6 * counted["of"] + 6 * counted["views"]


def found(counted: dict, size: int | None) -> dict:
    size = size and round(size / passages(counted), 2)
    return {"rate": counted["events_per_second"], "cpu_s": counted["cpu_s"], "bytes": size}


def whole_run(words: argparse.Namespace, folder: Path) -> dict:
    text = (
        (TREE / "experiments/ysb-saturated.toml")
        .read_text()
        .replace("../target/release/tickscope", str(words.tickscope))
    )
    (folder / "ysb.toml").write_text(text.replace("../", f"{TREE}/"))
    command = [words.tickscope, "run", folder / "ysb.toml", "--seconds", f"{words.seconds:g}", "--out", folder / "run"]
    process = subprocess.Popen([*map(str, command), "--json"], stdout=subprocess.PIPE, text=True)
    said = "command of recount printed: "
    answer = json.loads(ended(process, "the run"))
    last = [event["text"] for event in answer["events"] if event["text"].startswith(said)]
    cost = next(node for node in answer["cost"]["nodes"] if node["node"] == "storm")
    return found(json.loads(last[0].removeprefix(said)) | {"cpu_s": cost["target_cpu_ns"] / 1e9}, None)


def summary(part: str, rounds: list[dict]) -> dict:
    """A part's row: what it changed is in per cent of the pass without any in the same round."""
    rank, confidence = sign_test(len(rounds))

    def changed(of: str) -> dict:
        changes = sorted(100 * (one[part][of] / one["none"][of] - 1) for one in rounds)
        return {"median": statistics.median(changes), "lo": changes[rank - 1], "hi": changes[-rank]}

    return {
        "part": part,
        "events_per_second": statistics.median(one[part]["rate"] for one in rounds),
        "percent": changed("rate"),
        "cpu_percent": changed("cpu_s"),
        "confidence": confidence,
        "bytes_per_stamp": rounds[-1][part]["bytes"],
        "rounds": [{of: one[of] for of in ("none", part)} for one in rounds],
    }


def sign_test(pairs: int) -> tuple[int, float]:
    """The rank from either end whose values hold the median at 95 % or more, and how sure that is."""
    misses = [2 * sum(math.comb(pairs, at) for at in range(rank)) / 2**pairs for rank in range(1, pairs // 2 + 1)]
    rank = sum(miss <= 0.05 for miss in misses)
    if rank == 0:
        sys.exit(f"overhead: expected 6 rounds or more, found {pairs}: fewer have no interval. Give --rounds 6")
    return rank, 1 - misses[rank - 1]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS, metavar="PART")
    arguments.add_argument("--tickscope", type=Path, default=TREE / "target/release/tickscope")
    arguments.add_argument("--json", action="store_true")
    words = arguments.parse_args()
    sign_test(words.rounds)
    rounds, draw = [], random.Random(4)
    for number in range(words.rounds):
        order = draw.sample(["none", *words.parts], len(words.parts) + 1)
        print(f"round {number + 1} of {words.rounds}: {', '.join(order)}", file=sys.stderr, flush=True)
        rounds.append({part: passed(words, part) for part in order})
        print(json.dumps(rounds[-1]), file=sys.stderr, flush=True)
    rows = [summary(part, rounds) for part in words.parts]
    if words.json:
        print(json.dumps(rows))
        return
    print(f"{'none':10}{statistics.median(one['none']['rate'] for one in rounds):8.0f} events/s")
    for row in rows:
        changes = "   ".join(
            f"{name} {interval(row[of])}" for name, of in [("rate", "percent"), ("CPU", "cpu_percent")]
        )
        files = f"   {row['bytes_per_stamp']:.1f} bytes a stamp" if row["bytes_per_stamp"] else ""
        print(f"{row['part']:10}{row['events_per_second']:8.0f} events/s   {changes}{files}")
    print(f"in per cent of none: medians of {words.rounds} rounds, intervals at {100 * rows[0]['confidence']:.1f} %")


def interval(percent: dict) -> str:
    return f"{percent['median']:+.1f} [{percent['lo']:+.1f}, {percent['hi']:+.1f}]"


if __name__ == "__main__":
    main()
