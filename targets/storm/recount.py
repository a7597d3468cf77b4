"""Counts the benchmark's windows again, independently of the engine, and compares: recount.py FOLDER HOST PORT SENT.

Puts the ads of `FOLDER/ads.tsv` into Redis at HOST:PORT, which must be empty, and says `ready`; waits until the engine
set `done` there; then counts the views among the first SENT of the lines, taken in turn, and compares each window with
what Redis has. SENT may be a rate and seconds: `1000*10`. A JVM of the engine that was at Redis and has gone before
`done` is an error. Prints a line of JSON, with the events a second from the first line that the engine read to its last
count, and ends with 1 where anything is wrong.
"""

import collections
import itertools
import json
import socket
import sys
import time
from pathlib import Path

WINDOW_MS = 10_000
PATIENCE_S = 300
# Storm starts a worker again: its operators then say that they begin a second time, and the others are ended in order.
RESTART_S = 60


class Redis:
    """A connection to Redis; answers are texts, numbers, lists and None."""

    def __init__(self, host: str, port: int) -> None:
        self.stream = socket.create_connection((host, port)).makefile("rwb")

    def ask(self, *words: str):
        parts = [word.encode() for word in words]
        self.stream.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        self.stream.flush()
        return self.answer()

    def answer(self):
        line = self.stream.readline().strip().decode()
        kind, rest = line[:1], line[1:]
        if kind == "$":
            return None if rest == "-1" else self.stream.read(int(rest) + 2)[:-2].decode()
        if kind == "*":
            return [self.answer() for _ in range(int(rest))]
        if kind == ":":
            return int(rest)
        if kind == "+":
            return rest
        raise SystemExit(f"expected an answer of Redis, found '{line}'")


def recounted(folder: Path, sent: int) -> tuple[int, dict[tuple[str, str], int]]:
    """Views, and views by campaign and window."""
    campaigns = dict(line.split("\t") for line in (folder / "ads.tsv").read_text().splitlines())
    events = [json.loads(line) for line in (folder / "lines.jsonl").read_text().splitlines()]
    views = [event for event in itertools.islice(itertools.cycle(events), sent) if event["event_type"] == "view"]
    counts = collections.Counter(
        (campaigns[event["ad_id"]], str(int(event["event_time"]) // WINDOW_MS)) for event in views
    )
    return len(views), dict(counts)


def found(redis: Redis, folder: Path) -> dict[tuple[str, str], int]:
    campaigns = {line.split("\t")[1] for line in (folder / "ads.tsv").read_text().splitlines()}
    counts = {}
    for campaign in campaigns:
        answer = redis.ask("HGETALL", campaign)
        for window, views in zip(answer[::2], answer[1::2], strict=True):
            counts[campaign, window] = int(views)
    return counts


def engines(redis: Redis) -> set[str]:
    """The connections of the engine's JVMs, one of each."""
    return {line.split()[0] for line in redis.ask("CLIENT", "LIST").splitlines() if " name=engine " in line}


def waited(redis: Redis) -> str | None:
    until, seen, gone = time.monotonic() + PATIENCE_S, set(), None
    while time.monotonic() < until:
        there = engines(redis)  # before the end is asked for: an engine says that it is done, and goes then
        if done := redis.ask("GET", "done"):
            return done
        if why := redis.ask("GET", "failed"):
            raise SystemExit(f"recount: the engine failed: {why}")
        if seen - there:
            gone = gone or time.monotonic()
        if gone is not None and (not there or time.monotonic() - gone >= RESTART_S):
            raise SystemExit("recount: a JVM of the engine is gone, with the tuples that it had. See what ended it")
        seen = there
        time.sleep(0.05)
    return None


def main(folder: Path, host: str, port: int, sent: int) -> int:
    redis = Redis(host, port)
    if keys := redis.ask("DBSIZE"):
        raise SystemExit(
            f"recount: expected an empty Redis at {host}:{port}, found {keys} keys: it may be somebody else's, and is"
            " left as it is. Start one of its own, at a free port and without a file"
        )
    for line in (folder / "ads.tsv").read_text().splitlines():
        redis.ask("SET", *line.split("\t"))
    print("ready", flush=True)
    done = waited(redis)
    views, expected = recounted(folder, sent)
    counted = found(redis, folder)
    wrong = [key for key in expected.keys() | counted.keys() if expected.get(key) != counted.get(key)]
    right = done == str(sent) and not wrong
    result = {"events": done and int(done), "of": sent, "views": views, "windows": len(counted), "wrong": len(wrong)}
    if right and (first := redis.ask("GET", "first_ns")):
        result["events_per_second"] = round(sent * 1e9 / (int(redis.ask("GET", "last_ns")) - int(first)), 1)
    print(json.dumps(result | {"valid": right}), flush=True)
    if not right:
        print(f"expected the windows of {sent} events, found {result}", file=sys.stderr)
    return not right


if __name__ == "__main__":
    rate, _, seconds = sys.argv[4].partition("*")
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), round(int(rate) * float(seconds or 1))))
