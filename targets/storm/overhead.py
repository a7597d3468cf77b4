#!/usr/bin/env python3
"""What stamps cost the Yahoo benchmark's throughput on Storm, by policy: Cloudprofiler's Table IV.

    targets/storm/overhead.py [--pairs 10] [--seconds 5] [--policies null "every 100" buffered] [--json]

For each policy: pairs of passes of experiments/ysb-saturated.toml, with all that a run does and with nothing of it. A
row has the median of the events a second without, and what measuring changed, in per cent of that: the median over
pairs, and the interval of the sign test with its confidence. After `make storm`, on a machine that does nothing else.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]


def compared(words: argparse.Namespace, policy: str) -> dict:
    """The pairs of one policy, and what was added in per cent of the median alone."""
    text = (TREE / "experiments/ysb-saturated.toml").read_text()
    text = text.replace('policy = "buffered"', f'policy = "{policy}"').replace("../", f"{TREE}/")
    text = text.replace("pairs = 10\nseconds = 5", f"pairs = {words.pairs}\nseconds = {words.seconds}")
    text = text.replace(f"{TREE}/target/release/tickscope", str(words.tickscope))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ysb.toml").write_text(text)
        command = [words.tickscope, "run", f"{folder}/ysb.toml", "--overhead", "--out", f"{folder}/run"]
        done = subprocess.run(command, stdout=sys.stderr, check=False)
        # Under null a run has no stamp and no table, and ends with 1: its passes stand in run.json all the same.
        if done.returncode != 0 and policy != "null":
            sys.exit(f"overhead: tickscope run ended with {done.returncode} under the policy {policy}, see above")
        cost = json.loads((Path(folder) / "run/run.json").read_text()).get("cost") or {}
    fields = (cost.get("overhead") or {}).get("fields") or []
    if [len(field["pairs"]) for field in fields] != [words.pairs]:
        sys.exit(f"overhead: expected {words.pairs} pairs under the policy {policy}, found {fields}. See above")
    pairs = fields[0]["pairs"]
    alone = statistics.median(passes["alone"] for passes in pairs)
    changes = sorted(100 * (passes["measured"] - passes["alone"]) / alone for passes in pairs)
    rank, confidence = sign_test(len(pairs))
    percent = {"median": statistics.median(changes), "lo": changes[rank - 1], "hi": changes[-rank]}
    return {"policy": policy, "pairs": pairs, "alone": alone, "percent": percent, "confidence": confidence}


def sign_test(pairs: int) -> tuple[int, float]:
    """The rank from either end whose values hold the median at 95 % or more, and how sure that is."""
    misses = [2 * sum(math.comb(pairs, at) for at in range(rank)) / 2**pairs for rank in range(1, pairs // 2 + 1)]
    rank = sum(miss <= 0.05 for miss in misses)
    if rank == 0:
        sys.exit(f"overhead: expected 6 pairs or more, found {pairs}: fewer have no interval. Give --pairs 6")
    return rank, 1 - misses[rank - 1]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pairs", type=int, default=10)
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--policies", nargs="+", default=["null", "every 100", "buffered"])
    arguments.add_argument("--tickscope", type=Path, default=TREE / "target/release/tickscope")
    arguments.add_argument("--json", action="store_true")
    words = arguments.parse_args()
    sign_test(words.pairs)
    rows = []
    to = sys.stderr if words.json else sys.stdout
    print(f"{'policy':12}{'events/s alone':>16}{'change %':>10}   interval", file=to)
    for policy in words.policies:
        row = compared(words, policy)
        rows.append(row)
        percent, sure = row["percent"], 100 * row["confidence"]
        interval = f"[{percent['lo']:+.1f}, {percent['hi']:+.1f}] at {sure:.1f} %, {words.pairs} pairs"
        line = f"{policy:12}{row['alone']:16.0f}{percent['median']:+10.1f}   {interval}"
        print(line, file=to, flush=True)
    if words.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
