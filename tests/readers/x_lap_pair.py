"""A pair of X-Lap's tables as its paper describes them (arXiv 1808.06434, sections 2.2 and 3.1), and the truth.

    python3 tests/readers/x_lap_pair.py FOLDER

Both hosts write every column; what was stamped on the other, or not at all, is 0. Entering and leaving the protocol on
a host has a time-stamp in microseconds beside the cycle-stamp; everything between has a cycle-stamp alone. A redundancy
packet has the sequence number of a source packet and another type. Nothing here knows tickscope.
"""

import csv
import pathlib
import random
import sys

DATA, REDUNDANCY = 0, 1
HERTZ = {"sender": 2_400_000_000, "receiver": 3_100_000_000}
# Cycles before the first packet, and microseconds of the hosts' clocks then.
ORIGIN = {"sender": (7_000_000_000, 1_000_000), "receiver": (900_000_000_000, 77_000_000)}
SENDER = ["PrrtSendStart", "PrrtSubmitPackage", "PrrtEncodeStart", "PrrtEncodeEnd", "LinkTransmitStart", "PrrtSendEnd",
          "LinkTransmitEnd"]
RECEIVER = ["LinkReceive", "DecodeStart", "DecodeEnd", "PrrtDeliver"]
TIMED = {"PrrtSendStart", "LinkTransmitEnd", "LinkReceive", "PrrtDeliver"}
PACKETS, LOST = 2000, range(700, 720)

XLAP_YML = """# As X-Lap's readme has it
data_files: {sender: sender.csv, receiver: receiver.csv}
cycle_reference:
  sender: LinkTransmitEnd_C
  receiver: LinkReceive_C
time_reference: {sender: LinkTransmitEnd_T, receiver: LinkReceive_T}
packet_types: {Data: 0, Redundancy: 1}
stamps:
"""
DURATIONS = """durations:
  SenderTotal: {Start: PrrtSendStart, Stop: LinkTransmitEnd, Source: sender}
  ReceiverTotal: {Start: LinkReceive, Stop: PrrtDeliver, Source: receiver}
"""


def cycles(host, microseconds):
    return ORIGIN[host][0] + round(microseconds * HERTZ[host] / 1e6)


def packet(chance, number, kind):
    """Cycles by point; the sender's `send` call returns now before, now after the packet is on the wire."""
    at, found = number * 500 + kind * 40, {}
    for name in SENDER:
        at += chance.uniform(0.3, 4)
        found[name] = cycles("sender", at)
    if chance.random() < 0.5:
        found["PrrtSendEnd"] = found["LinkTransmitEnd"] + chance.randrange(1, 9000)
    if number not in LOST:
        at += chance.uniform(20, 40)
        for name in RECEIVER:
            at += chance.uniform(0.3, 4)
            found[name] = cycles("receiver", at)
        if number % 10 == 0:  # nothing to decode
            del found["DecodeStart"], found["DecodeEnd"]
    return found


def microseconds(host, cycle):
    return ORIGIN[host][1] + (cycle - ORIGIN[host][0]) * 1_000_000 // HERTZ[host]


def make(folder):
    """Writes the pair and its xlap.yml; gives each packet's cycles by (type, sequence number)."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(3)
    keys = [(kind, number) for number in range(1, PACKETS) for kind in (DATA, REDUNDANCY)]
    truth = {(kind, number): packet(chance, number, kind) for kind, number in keys if kind == DATA or number % 4 == 0}
    columns = [f"{name}_{suffix}" for name in SENDER + RECEIVER for suffix in "TC"] + ["AppReceived_T"]
    for host, own in (("sender", SENDER), ("receiver", RECEIVER)):
        with open(folder / f"{host}.csv", "w", newline="") as out:
            table = csv.writer(out)
            table.writerow(["SeqNo", "Kind", *columns])
            for (kind, number), stamps in truth.items():
                row = {column: 0 for column in columns}
                taken = {name: stamps[name] for name in own if name in stamps}
                row |= {f"{name}_C": cycle for name, cycle in taken.items()}
                row |= {f"{name}_T": microseconds(host, cycle) for name, cycle in taken.items() if name in TIMED}
                if host == "receiver" and taken:
                    row["AppReceived_T"] = microseconds(host, taken["PrrtDeliver"]) + 2
                if taken:
                    table.writerow([number, kind, *row.values()])
    named = [(name, "sender") for name in SENDER] + [(name, "receiver") for name in RECEIVER]
    lines = [f"  {name}_C: {{Source: {host}, Type: cycle}}\n" for name, host in named]
    lines += [f"  {name}_T: {{Source: {host}, Type: time}}\n" for name, host in named if name in TIMED]
    lines += ["  AppReceived_T: {Source: receiver, Type: time}\n"]
    (folder / "xlap.yml").write_text(XLAP_YML + "".join(lines) + DURATIONS)
    return truth


if __name__ == "__main__":
    make(sys.argv[1])
