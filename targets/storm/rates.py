"""Measures what the object factory is worth: rates.py [--threads N] [--runs N] [--seconds S] [FORM ...].

For each form of an event (json, kryo, flat): how many events a second one thread takes that deserialises them itself,
and out of a factory of N threads, in turn, a JVM each. Prints medians, and the median of the ratios of neighbouring
runs with the interval between the second least and the second largest, which holds the true median in 97.9 of 100
cases where there are ten. Beside them the least processor time of an event, alone, and in the factory of the one that
takes it and of all threads, which other programs change less than the rates; and the ratios that these come to where
nothing else has the processors: two of them, and one for each thread. One JSON list at the end.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build"
JAVA = ["java", "-Xms2g", "-Xmx2g", "-XX:+UseParallelGC", "-cp", f"{BUILD}/storm.jar:{BUILD}/storm/lib/*"]
BUCKET = 256


def rate(form: str, threads: int, seconds: float) -> dict[str, float]:
    words = [*JAVA, "tickscope.storm.FactoryRate", BUILD / "storm/lines.jsonl", form, threads, BUCKET, seconds]
    done = subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def measured(form: str, threads: int, runs: int, seconds: float) -> dict[str, object]:
    both = [[rate(form, of, seconds) for of in (0, threads)] for _ in range(runs)]
    pairs = [[one["rate"] for one in pair] for pair in both]
    alone_ns = min(pair[0]["taker_ns"] for pair in both)
    taker_ns, all_ns = (min(pair[1][of] for pair in both) for of in ("taker_ns", "all_ns"))
    alone, through = zip(*pairs, strict=True)
    ratios = sorted(b / a for a, b in pairs)
    out = 1 if runs >= 6 else 0  # of fewer the interval is from the least to the largest
    return {
        "form": form,
        "threads": threads,
        "runs": runs,
        "bytes": both[0][0]["bytes"],
        "alone": statistics.median(alone),
        "factory": statistics.median(through),
        "ratio": statistics.median(ratios),
        "ratio_interval": [ratios[out], ratios[-1 - out]],
        "alone_ns": alone_ns,
        "taker_ns": taker_ns,
        "all_ns": all_ns,
        "ratio_of_two_processors": alone_ns / max(taker_ns, all_ns / 2),
        "ratio_of_enough": alone_ns / max(taker_ns, (all_ns - taker_ns) / threads),
        "pairs": pairs,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("forms", nargs="*", default=["json", "kryo", "flat"])
    asked = parser.parse_args()
    if not (BUILD / "storm.jar").exists():
        sys.exit("rates: expected build/storm.jar, found none. Run make storm")
    found = []
    for form in asked.forms:
        found.append(measured(form, asked.threads, asked.runs, asked.seconds))
        low, high = found[-1]["ratio_interval"]
        alone, factory = (found[-1][of] / 1e6 for of in ("alone", "factory"))
        rates = f"alone {alone:.2f} M/s, {asked.threads} threads {factory:.2f} M/s"
        print(f"{form:5} {found[-1]['bytes']:4} bytes: {rates}, ratio {found[-1]['ratio']:.2f} [{low:.2f}, {high:.2f}]")
        print(
            "      processor time of an event: alone {alone_ns:.0f} ns; factory {all_ns:.0f} ns, {taker_ns:.0f} of them"
            " of who takes it; so, where nothing else runs, a ratio of {ratio_of_two_processors:.2f} on two processors,"
            " {ratio_of_enough:.2f} on {processors}".format(processors=asked.threads + 1, **found[-1])
        )
        sys.stdout.flush()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
