#!/usr/bin/env python3
"""What stamps cost the Yahoo benchmark's throughput on Storm, by policy: Cloudprofiler's Table IV.

    targets/storm/overhead.py [--pairs 10] [--seconds 5] [--policies null "every 100" buffered] [--json]

For each policy: pairs of passes of experiments/ysb-saturated.toml, with all that a run does and with nothing of it. A
row has the median of the events a second without, and what measuring changed, in per cent of that: the median over
pairs, and the interval of the sign test with its confidence. After `make storm`, on a machine that does nothing else.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]


def compared(words: argparse.Namespace, policy: str) -> dict:
    """The comparison of one policy, as `--json` has it, with what was added in per cent of the median alone."""
    text = (TREE / "experiments/ysb-saturated.toml").read_text()
    text = text.replace('policy = "buffered"', f'policy = "{policy}"').replace("../", f"{TREE}/")
    text = text.replace("pairs = 10\nseconds = 5", f"pairs = {words.pairs}\nseconds = {words.seconds}")
    text = text.replace(f"{TREE}/target/release/tickscope", str(words.tickscope))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ysb.toml").write_text(text)
        command = [words.tickscope, "run", f"{folder}/ysb.toml", "--overhead", "--out", f"{folder}/run", "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            sys.exit(f"overhead: tickscope run ended with {done.returncode} under the policy {policy}, see above")
    [field] = json.loads(done.stdout)["cost"]["overhead"]["fields"]
    percent = {name: 100 * field["added"][name] / field["alone"] for name in ("median", "lo", "hi")}
    return {"policy": policy, **field, "percent": percent}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--pairs", type=int, default=10)
    arguments.add_argument("--seconds", type=float, default=5)
    arguments.add_argument("--policies", nargs="+", default=["null", "every 100", "buffered"])
    arguments.add_argument("--tickscope", type=Path, default=TREE / "target/release/tickscope")
    arguments.add_argument("--json", action="store_true")
    words = arguments.parse_args()
    rows = [compared(words, policy) for policy in words.policies]
    if words.json:
        print(json.dumps(rows))
        return
    print(f"{'policy':12}{'events/s alone':>16}{'change %':>10}   interval")
    for row in rows:
        percent, sure = row["percent"], 100 * row["added"]["confidence"]
        interval = f"[{percent['lo']:+.1f}, {percent['hi']:+.1f}] at {sure:.1f} %, {row['pairs']} pairs"
        print(f"{row['policy']:12}{row['alone']:16.0f}{percent['median']:+10.1f}   {interval}")


if __name__ == "__main__":
    main()
