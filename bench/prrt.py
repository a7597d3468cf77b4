"""PRRT beside what it is compared with: coding next to copying and ISA-L, the same payloads over UDP, TCP and QUIC.

Coding is targets/prrt/examples/coding_cost.rs. The transports are experiments/prrt-rivals.toml: each trial is a run
whose table has the delay with its interval and what broke the deadline or never came; the sender says how many bytes
were on the wire.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from figures import figure, median
from processes import BUILD, RELEASE, ROOT, output_of

ROUNDS, REPETITIONS, SECONDS = 7, 5, 10
MIDDLES = ("p50_us", "p99_us", "missing", "overhead")
# Targets of nanoseconds: encoding (8, 4), decoding beyond encoding, a search.
MOST_ENCODE_NS, MOST_BEYOND_NS, MOST_SEARCH_NS = 2_000, 3_000, 1_000_000


def measure_prrt(options):
    """Rows for the table of figures, and everything else, raw."""
    coding, lines = measure_coding(options)
    transports, trials = measure_transports(options)
    return coding + transports, {"coding": lines, "transports": trials}


def measure_coding(options):
    """Each figure is the median of its rounds."""
    program = RELEASE / "examples" / "coding_cost"
    lines = [json.loads(line) for line in output_of([program, options.of(ROUNDS)]).splitlines()]
    rows = []
    for k, parity in dict.fromkeys((line["k"], line["parity"]) for line in lines if "k" in line):
        of = [line for line in lines if (line.get("k"), line.get("parity")) == (k, parity)]
        encode, decode, copy = (median([line[name] for line in of]) for name in ("encode_ns", "decode_ns", "copy_ns"))
        judged = (k, parity) == (8, 4)
        floor = ("a copy of the block", copy)
        least = ("<= 2 us", encode <= MOST_ENCODE_NS) if judged else ()
        rows.append(figure(f"encode ({k}, {parity}) of 1200 bytes", encode, "ns", floor, *least))
        beyond = ("<= encode + 3 us", decode <= encode + MOST_BEYOND_NS) if judged else ()
        rows.append(figure(f"decode ({k}, {parity}), random losses", decode, "ns", ("encode", encode), *beyond))
    more, rival = measure_isal(options, lines)
    rows += more
    for name in dict.fromkeys(line["search"] for line in lines if "search" in line):
        took = median([line["search_ns"] for line in lines if line.get("search") == name])
        rows.append(figure(f"search: {name}", took, "ns", None, "<= 1 ms", took <= MOST_SEARCH_NS))
    return rows, lines + rival


def measure_isal(options, ours):
    """The same by ISA-L (bench/isal.c), where pkg-config finds it; the line says so where it does not."""
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libisal"], capture_output=True, text=True, check=False)
    if flags.returncode != 0:
        print("prrt: coding by ISA-L is left out: pkg-config finds no libisal (Debian: libisal-dev)")
        return [], []
    program = BUILD / "isal"
    BUILD.mkdir(parents=True, exist_ok=True)
    source = ROOT / "bench" / "isal.c"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-std=gnu11", "-O2", "-o", program, source, *flags.stdout.split()], check=True)
    lines = [json.loads(line) for line in output_of([program, options.of(ROUNDS)]).splitlines()]
    rows = []
    for k, parity in dict.fromkeys((line["isal_k"], line["parity"]) for line in lines):
        of = [line for line in lines if (line["isal_k"], line["parity"]) == (k, parity)]
        for what in ("encode", "decode"):
            took = median([line[f"{what}_ns"] for line in of])
            same = [line[f"{what}_ns"] for line in ours if (line.get("k"), line.get("parity")) == (k, parity)]
            rows.append(figure(f"{what} ({k}, {parity}) by ISA-L", took, "ns", ("ours", median(same))))
    return rows, lines


def measure_transports(options):
    """The medians of each transport's trials by loss, and all trials."""
    text = (ROOT / "experiments" / "prrt-rivals.toml").read_text()
    text = text.replace("../target/release/", f"{RELEASE}/")
    text = text.replace("repetitions = 5", f"repetitions = {options.of(REPETITIONS)}")
    with tempfile.TemporaryDirectory() as folder:
        file, sweep = Path(folder) / "rivals.toml", Path(folder) / "sweep"
        file.write_text(text)
        run = [RELEASE / "tickscope", "run", file, "--seconds", str(options.of(SECONDS)), "--out", sweep]
        subprocess.run(run, check=True, capture_output=True)
        trials = [trial_of(folder) for folder in sorted(sweep.glob("trial-*"))]
    return rows_of(trials), trials


def rows_of(trials):
    """One table of all transports: medians, and from the least end of any trial's interval to the greatest."""
    rows = []
    for loss in ("0", "0.01"):
        by = {"udp": {}, "prrt": {}, "tcp": {}, "quic": {}}
        for over, middle in by.items():
            some = [trial for trial in trials if (trial["over"], trial["loss"]) == (over, loss)]
            middle |= {name: median([trial[name] for trial in some]) for name in MIDDLES}
            for name in MIDDLES:
                lo, hi = name.replace("_us", "_lo_us"), name.replace("_us", "_hi_us")
                ends = {"lo": min(trial[lo] for trial in some), "hi": max(trial[hi] for trial in some)}
                middle[f"{name} between"] = ends
        floor = {name: by["udp"][name] for name in ("p50_us", "p99_us")}
        for over, middle in by.items():
            title = f"{over}, {float(loss):.0%} lost"
            for name in floor:
                beside = ("udp", floor[name])
                rows.append(figure(f"{title}: {name[:3]}", middle[name], "us", beside, **middle[f"{name} between"]))
            for name, what in (("missing", "not there by the deadline"), ("overhead", "bytes beyond the payload")):
                rows.append(figure(f"{title}: {what}", middle[name], "of 1", None, **middle[f"{name} between"]))
    return rows


def trial_of(run):
    """What a trial's run says: of quantiles the intervals too."""
    done = subprocess.run([RELEASE / "tickscope", "show", run, "--json"], capture_output=True, text=True)
    table = json.loads(done.stdout)  # exit codes 4 and 5: the deadline was not kept by all, which is what is counted
    whole = next(row for row in table["stages"] if row["stage"] == "end-to-end")
    texts = [event["text"] for event in table["events"] if '"role"' in (event["text"] or "")]
    said = [json.loads(text.split(": ", 1)[1]) for text in texts]
    sender = next(counts for counts in said if counts["role"] == "sender")
    command = (run / "run.json").read_text()
    in_time = table["limits"][0]["kept"]
    ends = (("_us", "ns"), ("_lo_us", "lo_ns"), ("_hi_us", "hi_ns"))
    quantiles = {f"{name}{key}": whole[name][of] / 1000 for name in ("p50", "p99") for key, of in ends}
    return {
        "over": sender["over"],
        "loss": "0.01" if '"--lose","0.01"' in command.replace(" ", "").replace("\n", "") else "0",
        **quantiles,
        "missing": 1 - in_time / sender["submitted"],
        "overhead": sender["overhead"],
        "schedule_faults": sender["schedule_faults"],
    }
