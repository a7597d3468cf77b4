"""USDT probes switched on: a uprobe of the kernel at each place that a program's notes name, recorded by tracefs.

Everything lies in a trace instance of this process's own, and goes with it. As root, with tracefs.
"""

import contextlib
import json
import os
import pathlib
import re
import subprocess

from processes import STAMPING_CPU

TRACEFS = pathlib.Path("/sys/kernel/tracing")
BUFFER_KB = 32768  # a run's events, 28 bytes each, several times


def why_not():
    """What a uprobe lacks here; None: nothing."""
    if os.geteuid() != 0:
        return "expected root (a uprobe is made through tracefs), found another user"
    if not (TRACEFS / "uprobe_events").exists():
        subprocess.run(["mount", "-t", "tracefs", "nodev", TRACEFS], check=False, capture_output=True)
    if not (TRACEFS / "uprobe_events").exists():
        return f"expected uprobe events in the kernel, found no {TRACEFS / 'uprobe_events'}"
    return None


def places(program, probe):
    """Where a probe lies in the file, and the register that its one argument is in."""
    notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True, check=True).stdout
    segments = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    loads = [[int(word, 16) for word in found] for found in re.findall(r"LOAD +(\S+) (\S+) \S+ \S+ (\S+)", segments)]
    found = re.findall(rf"Name: {probe}\n +Location: (\S+),.*\n +Arguments: -8@%(\w+)\n", notes)
    if not found:
        raise ValueError(f"expected probe {probe} with one argument in a register in {program}, found\n{notes}")
    for location, register in found:
        at = int(location, 16)
        offset = next(at - address + offset for offset, address, size in loads if address <= at < address + size)
        yield offset, register if register[1:].isdigit() else register[1:]


@contextlib.contextmanager
def recorded(program, probe, folder):
    """While it lasts, the probe's events go to memory of the kernel, which nobody reads; kept.json says how many."""
    group = f"tickscope_bench_{os.getpid()}"
    instance = TRACEFS / "instances" / group
    processor = instance / "per_cpu" / f"cpu{STAMPING_CPU}"
    try:
        for offset, register in places(program, probe):
            write("uprobe_events", f"p:{group}/{probe} {program}:{offset:#x} id=%{register}:s64")
        instance.mkdir()
        (processor / "buffer_size_kb").write_text(f"{BUFFER_KB}")
        (instance / "events" / group / "enable").write_text("1")
        yield
        (instance / "events" / group / "enable").write_text("0")
        stats = dict(re.findall(r"^([a-z ]+): (\d+)$", (processor / "stats").read_text(), re.MULTILINE))
        (folder / "kept.json").write_text(json.dumps({"events": int(stats["entries"]), "bytes": int(stats["bytes"])}))
    finally:
        with contextlib.suppress(OSError):
            instance.rmdir()
        with contextlib.suppress(OSError):
            write("uprobe_events", f"-:{group}/{probe}")


def write(name, line):
    file = os.open(TRACEFS / name, os.O_WRONLY | os.O_APPEND)  # Python's own "a" looks for an end, which it lacks
    try:
        os.write(file, f"{line}\n".encode())
    finally:
        os.close(file)
