"""A run over three hosts, written by pyarrow as another program would write it: losses, a clock step, hostile text.

    python3 tests/readers/lossy_run.py FOLDER

Everything about it is known: id SLOW was held up in the relay, ids of LOST never reached the server, and texts that a
run may carry try to be markup.
"""

import json
import pathlib
import random
import sys

import pyarrow as arrow
import pyarrow.parquet as parquet

HERTZ = 2_500_000_000
US = HERTZ // 1_000_000
TRACES = 3000
SLOW = 734  # a trace later by one piece of a scan has the number that a wrong count would give it
SLOW_US = 4000
LOST = range(2000, 2037)
BOOT = {"client": "01", "relay": "02", "server": "03"}
# By node: offset in ticks and rate in parts per million against the client's counter.
COUNTER = {"client": (0, 0), "relay": (10_000_000_000, 12), "server": (-3_000_000_000, -7)}
PATH = ["client.send", "relay.received", "relay.sent", "server.received", "server.delivered"]
BRANCHES = {"client.returned": "client.send", "server.acknowledged": "server.received"}
HOSTILE = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 2'> & \"quoted\""


def local(node, tick):
    """What a node's counter reads when the client's reads `tick`."""
    offset, ppm = COUNTER[node]
    return tick + offset + tick * ppm // 1_000_000


def write(place, columns, schema):
    place.parent.mkdir(parents=True, exist_ok=True)
    fields = [arrow.field(name, kind, nullable) for name, kind, nullable in schema]
    table = arrow.table([arrow.array(columns[field.name], field.type) for field in fields], schema=arrow.schema(fields))
    parquet.write_table(table.replace_schema_metadata({"tickscope.schema": "1"}), place, compression="zstd")


def traces(run, chance, slow_us):
    """One trace a millisecond; jitter as a network has it, and a slow one."""
    points = {name: [] for name in [*PATH, *BRANCHES]}
    for number in range(TRACES):
        at = HERTZ + number * HERTZ // 1000
        jitter = lambda least, mean: int(US * (least + chance.expovariate(1 / mean)))
        # One tick more, so that no total of the relay's is of whole nanoseconds.
        stay = jitter(2, 1) + (slow_us * US + 1 if number == SLOW else 0)
        steps = [0, jitter(6, 3), stay, jitter(9, 4), jitter(1, 0.5)]
        now = {name: at + sum(steps[: index + 1]) for index, name in enumerate(PATH)}
        for branch, origin in BRANCHES.items():
            now[branch] = now[origin] + jitter(3, 1)
        for name, tick in now.items():
            reached = number not in LOST or not name.startswith("server.")
            points[name].append(local(name.split(".")[0], tick) if reached else None)
    keys = {"kind": [0] * TRACES, "id": list(range(TRACES)), "occurrence": [0] * TRACES}
    schema = [("kind", arrow.int32(), False), ("id", arrow.int64(), False), ("occurrence", arrow.int32(), False)]
    write(run / "traces/part-00000000.parquet", keys | points, schema + [(name, arrow.int64(), True) for name in points])
    return points


def stamps(run, points):
    """What the traces were joined from."""
    optional = [("kind", arrow.int32()), ("cpu", arrow.int32()), ("value", arrow.int64())]
    schema = [("tick", arrow.int64(), False), ("id", arrow.int64(), False), ("channel", arrow.int32(), False)]
    schema += [(name, kind, True) for name, kind in optional]
    for node in COUNTER:
        names = [name for name in points if name.startswith(node)]
        for channel, name in enumerate(names, 1):
            kept = [(tick, number) for number, tick in enumerate(points[name]) if tick is not None]
            columns = {"tick": [tick for tick, _ in kept], "id": [number for _, number in kept]}
            columns |= {"channel": [channel] * len(kept)} | {name: [None] * len(kept) for name, _ in optional}
            write(run / f"stamps/node={node}/point={name.split('.')[1]}/part-00000000.parquet", columns, schema)


def brackets(run, node, least_us, chance):
    """Exchanges over the run, each a lower and an upper bound."""
    columns = {name: [] for name in ("before", "at", "after", "source", "ordering")}
    for number in range(1500):
        at = HERTZ // 2 + number * 4 * HERTZ // 1500
        for side, source in (("before", "probe-request"), ("after", "probe-reply")):
            way = int(US * (least_us + chance.expovariate(1 / 2)))
            columns["at"].append(local(node, at))
            columns["before"].append(at - way if side == "before" else None)
            columns["after"].append(at + way if side == "after" else None)
            columns["source"].append(source)
            columns["ordering"].append("before/after")
    tick = arrow.int64()
    schema = [("before", tick, True), ("at", tick, False), ("after", tick, True)]
    schema += [("source", arrow.string(), False), ("ordering", arrow.string(), False)]
    write(run / f"brackets/reference=client.tsc/domain={node}.tsc/probe.parquet", columns, schema)


def channels(run):
    for node in COUNTER:
        points = [name.split(".")[1] for name in [*PATH, *BRANCHES] if name.startswith(node)]
        rows = len(points)
        dropped = [len(LOST) if (node, point) == ("server", "received") else 0 for point in points]
        stored = [TRACES - (len(LOST) if node == "server" else 0)] * rows
        text = {"node": [node] * rows, "pool": ["00000000000000ff"] * rows, "point": points, "ordering": ["after"] * rows}
        text |= {"domain": [f"{BOOT[node] * 16}/tsc/0"] * rows, "policy": ["buffered"] * rows}
        text |= {"state": ["recovered" if node == "server" else "closed"] * rows}
        long = {"process_start": [1] * rows, "stored": stored, "dropped": dropped}
        long |= {"refused": [0] * rows, "uncommitted": [0] * rows}
        number = {"channel": list(range(1, rows + 1)), "pid": [7] * rows, "serial": list(range(rows)), "thread": [7] * rows}
        schema = [(name, kind, False) for of, kind in ((text, arrow.string()), (long, arrow.int64()), (number, arrow.int32())) for name in of]
        write(run / f"channels/node={node}.parquet", text | long | number, schema)


def events(run):
    def at(node, seconds):
        return local(node, int(seconds * HERTZ))

    rows = [
        {"node": "server", "channel": 2, "domain": "server.tsc", "tick": at("server", 3.0), "until": at("server", 3.036), "what": "lost",
         "value": len(LOST), "text": "expected room for stamps, found none; a larger TICKSCOPE_POOL_BYTES keeps them"},
        {"node": "relay", "channel": None, "domain": "relay.realtime", "tick": at("relay", 2.5), "until": at("relay", 2.52), "what": "clock-step",
         "value": 350_000, "text": "CLOCK_REALTIME was set forward by 350 µs; nothing here was stamped with it"},
        {"node": "server", "channel": None, "domain": None, "tick": None, "until": None, "what": "target", "value": None, "text": HOSTILE},
    ]
    write_events(run, rows)


def write_events(run, rows):
    text, tick = arrow.string(), arrow.int64()
    schema = [("node", text, False), ("channel", arrow.int32(), True), ("domain", text, True), ("tick", tick, True)]
    schema += [("until", tick, True), ("what", text, False), ("value", tick, True), ("text", text, False)]
    write(run / "events/run.parquet", {name: [row[name] for row in rows] for name, *_ in schema}, schema)


def manifest():
    def node(name):
        boot = BOOT[name]
        frequency = {"hertz": HERTZ, "tolerance_ppm": 100, "origin": "kernel"}
        counter = {"counter": "tsc", "invariant": True, "clocksource": "tsc", "trapped": False, "frequency": frequency}
        counter |= {"sharing": {"bound_ticks": 270, "checked": "every pair of cores"}}
        return {"name": name, "boot": f"{boot * 4}-{boot * 2}-{boot * 2}-{boot * 2}-{boot * 6}", "cpu_model": HOSTILE, "kernel": "6.1.0",
                "counter": counter}

    rho = [{"reference": "client.tsc", "domain": f"{name}.tsc", "ppb": 1000, "origin": "server-room"} for name in ("relay", "server")]
    branches = [f"{origin} > {branch}" for branch, origin in BRANCHES.items()]
    return {"schema": 1, "run": "00c0ffee00000002", "tickscope": "0.1.0", "started_unix_ms": 1_790_000_000_000, "ended_unix_ms": 1_790_000_005_000,
            "nodes": [node(name) for name in COUNTER], "reference": "client.tsc", "rho": rho,
            "layout": {"path": PATH, "branches": branches, "rules": []}, "assumptions": [{"statement": HOSTILE, "origin": "declared"}]}


def make(run, slow_us=SLOW_US):
    """Writes the run into the folder `run`; `slow_us`: how long the slow trace is held up, below 0 for what cannot be."""
    run = pathlib.Path(run)
    chance = random.Random(4)
    run.mkdir(parents=True)
    (run / "run.json").write_text(json.dumps(manifest()))
    stamps(run, traces(run, chance, slow_us))
    brackets(run, "relay", 5, chance)
    brackets(run, "server", 11, chance)
    channels(run)
    events(run)
    return run


if __name__ == "__main__":
    make(sys.argv[1])
