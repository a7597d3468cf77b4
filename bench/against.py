#!/usr/bin/env python3
"""Compares this tree with another checkout of it: is a stamp, a collection, a join, a report slower than it was?

    git worktree add ../before REVISION
    bench/against.py ../before [--rounds 9] [--ids 2000000] [--json FILE]

Both are built in release. A round measures both trees, in random order, so that a pair shares the machine's weather. A
figure is the median of its pairs' ratios, with the interval that holds it in 95 % of samples (order statistics).
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

from figures import interval_of_median, median
from processes import ROOT, STAMPING_CPU, blocks_of, measured, output_of

STAMPS, ROUNDS_OF_BLOCKS, POOL_BYTES = 500, 200, 128 << 20
VARIANTS = ("plain", "before", "after", "wide", "off")


class Tree:
    """A checkout, built, with a run of its own to join, one to report, and a pool to collect."""

    def __init__(self, root, folder, ids):
        self.root, self.folder = root.resolve(), folder
        self.release = self.root / "target" / "release"
        folder.mkdir()
        subprocess.run(
            ["cargo", "build", "--release", "--locked", "--quiet", "--bins", "--examples"], cwd=root, check=True
        )
        self.stamp = folder / "stamp"
        includes = ["-I", self.root / "crates" / "stamp" / "include", "-I", self.root / "bench"]
        source = self.root / "bench" / "stamp.c"
        subprocess.run(["cc", "-O2", "-pthread", *includes, "-o", self.stamp, source, "-ldl"], cwd=root, check=True)
        output_of([self.release / "examples" / "join", "make", folder / "join", ids])
        output_of([self.release / "examples" / "large_run", "make", folder / "report", ids])
        self.stamps(self.stamp, folder / "pool")

    def stamps(self, program, place):
        """What the stamps cost above the counter's bare reading, in ns; the pool they lie in is left."""
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        environment = {
            "TICKSCOPE_DIR": str(place),
            "TICKSCOPE_POOL_BYTES": str(POOL_BYTES),
            "TICKSCOPE_POLICY": "off=null",
        }
        words = [STAMPING_CPU, ROUNDS_OF_BLOCKS, STAMPS]
        if program == self.stamp:
            words += [0, self.library()]
        blocks = blocks_of(output_of([program, *words], None, environment))
        floor = "nothing"
        return {
            name: median(
                [block - below for block, below in zip(blocks[name], blocks[floor if name == "off" else "rdtsc"])]
            )
            for name in VARIANTS
        }

    def library(self):
        library = self.folder / "libstamp_library.so"
        if not library.exists():
            source = self.root / "bench" / "stamp_library.c"
            includes = ["-I", self.root / "crates" / "stamp" / "include"]
            subprocess.run(["cc", "-O2", "-pthread", "-shared", "-fPIC", *includes, "-o", library, source], check=True)
        return library

    def collect(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            pool, run = pathlib.Path(folder) / "pool", pathlib.Path(folder) / "run"
            shutil.copytree(self.folder / "pool", pool)
            return measured([self.release / "tickscope", "collect", pool, "--run", run])[1]

    def join(self):
        return measured([self.release / "examples" / "join", "join", self.folder / "join"])[1]

    def report(self):
        return measured([self.release / "tickscope", "report", self.folder / "report"])[1]

    def round(self):
        """Every figure once: name -> (value, unit)."""
        figures = {}
        for language, program in (("C", self.stamp), ("Rust", self.release / "examples" / "stamp_cost")):
            costs = self.stamps(program, self.folder / "stamps")
            figures |= {f"stamp, {language}: {name}, above its floor": (ns, "ns") for name, ns in costs.items()}
        for name, cost in (("collect", self.collect()), ("join", self.join()), ("report", self.report())):
            figures |= {
                f"{name}: wall": (cost["wall_s"], "s"),
                f"{name}: processor": (cost["cpu_s"], "s"),
                f"{name}: peak memory": (cost["peak_bytes"] / 1e6, "MB"),
            }
        return figures


def compared(pairs):
    for name, (_, unit) in pairs[0][0].items():
        here, there = ([pair[which][name][0] for pair in pairs] for which in (0, 1))
        # What lies above a floor may be nothing: a difference says more than a ratio.
        changes = [a - b if unit == "ns" else a / b for a, b in zip(here, there)]
        lo, hi = interval_of_median(changes)
        yield {
            "figure": name,
            "unit": unit,
            "this": median(here),
            "that": median(there),
            "change": median(changes),
            "lo": lo,
            "hi": hi,
            "pairs": [here, there],
        }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("that", type=pathlib.Path, help="another checkout of tickscope")
    arguments.add_argument("--rounds", type=int, default=9)
    arguments.add_argument("--ids", type=int, default=2_000_000, help="traces of the runs that are joined and reported")
    arguments.add_argument("--scratch", type=pathlib.Path, default="/dev/shm")
    arguments.add_argument("--json", type=pathlib.Path, help="a file for all figures of all rounds")
    options = arguments.parse_args()
    if not (options.that / "crates" / "stamp").is_dir():
        sys.exit(f"against: expected a checkout of tickscope, found none in {options.that}. git worktree add makes one")
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        trees = [
            Tree(root, pathlib.Path(folder) / name, options.ids)
            for root, name in ((ROOT, "this"), (options.that, "that"))
        ]
        pairs = []
        for number in range(options.rounds):
            order = random.sample((0, 1), 2)
            figures = {at: trees[at].round() for at in order}
            pairs.append((figures[0], figures[1]))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    rows = list(compared(pairs))
    print(f"{'figure':44} {'this':>10} {'that':>10}     change, 95 %")
    for row in rows:
        sign = "" if row["unit"] == "ns" else "x"
        change, lo, hi = (f"{sign}{row[key]:.3f}" for key in ("change", "lo", "hi"))
        print(f"{row['figure']:44} {row['this']:10.3f} {row['that']:10.3f} {row['unit']:2}  {change} ({lo} to {hi})")
    if options.json:
        revision = ["git", "rev-parse", "HEAD"]
        revisions = [
            subprocess.run(revision, cwd=tree.root, check=True, capture_output=True, text=True).stdout.strip()
            for tree in trees
        ]
        cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
        result = {
            "cpu": cpu and cpu[1],
            "load": os.getloadavg(),
            "this": revisions[0],
            "that": revisions[1],
            "rows": rows,
        }
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
