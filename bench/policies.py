"""Cloudprofiler's Table III with our policies: what a stamp costs and how many one thread makes a second, C and Rust.

Latency is that of a block within rounds, beside `rdtsc` in the same rounds, with a collector on the other processor and
a pool that holds everything. Throughput is sustained beside a collector that frees what fills, and stamps wait where it
falls behind: nothing is lost. What this build does not know is in the table, too, with the reason.
"""

import contextlib
import dataclasses
import json
import os
import subprocess
import tempfile

from figures import at_most, figure, median, quantile
from processes import BUILD, OTHER_CPU, RELEASE, ROOT, STAMPING_CPU, blocks_of, collector, output_of, stamp_directory

EVENTS, ROUNDS, PAUSE_US = 500, 400, 250
# Two threads meet at the start of each block: of a long one that is little.
SHARED_EVENTS, SHARED_ROUNDS = 10_000, 200
THROUGHPUT_MS = 3000
POOL_BYTES, THROUGHPUT_POOL_BYTES = 256 << 20, 64 << 20
PROGRAMS = {"C": [BUILD / "policies"], "Rust": [RELEASE / "examples" / "policy_cost"]}


@dataclasses.dataclass
class Policy:
    """A policy as it is measured: its rule, under the name of a point; what the paper has for it."""

    point: str
    rule: str
    keeps: str
    # Of "C++" and "Java": ns an event, M events/s.
    published: dict = dataclasses.field(default_factory=dict)


DOWNSAMPLE = {"C++": (175, 5.71), "Java": (276, 3.62)}
X_OF_Y = {"C++": (13, 72.4), "Java": (108, 9.26)}
POLICIES = [
    Policy("off", "null", "nothing", {"C++": (3, 294.7), "Java": (97, 10.31)}),
    Policy("all", "all", "every stamp, written through", {"C++": (377, 2.65), "Java": (472, 2.12)}),
    Policy("buffered", "buffered", "every stamp", {"C++": (63, 15.9), "Java": (152, 6.58)}),
    Policy("every-kept", "every 1", "this one", DOWNSAMPLE),
    Policy("every-skipped", "every 1000000000", "not this one", DOWNSAMPLE),
    Policy("every-100", "every 100", "one in 100", DOWNSAMPLE),
    Policy("share-kept", "4294967294 of 4294967295", "this one", X_OF_Y),
    Policy("share-skipped", "1 of 1000000000", "not this one", X_OF_Y),
    Policy("share-2-of-1024", "2 of 1024", "one in 512", X_OF_Y),
    Policy("count", "count 10ms", "how many", {"C++": (3, 305.0), "Java": (96, 10.42)}),
    Policy("first-last", "first-last", "two"),
    Policy("first-last-pill", "first-last -1", "two, ends at an id"),
    Policy("return-trip", "return-trip", "every stamp"),
    Policy("keep", "keep 10s", "the last 10 s"),
]
# The paper's: how its other handlers did. Its buffered ones compress on threads of their own, as our collector does.
ALSO_PUBLISHED = {
    "buffered and zstd": {"C++": (73, 13.7), "Java": (173, 5.78)},
    "buffered and lzo1x": {"C++": (65, 15.4), "Java": (141, 7.09)},
    "count, several writers": {"C++": (9, 105.0), "Java": (101, 9.90)},
}


def measure_policies(options):
    """Rows for the table of figures, and everything else, raw."""
    rows, raw = [], {"events a block": EVENTS, "published": {policy.rule: policy.published for policy in POLICIES}}
    table = {}
    for language, program in PROGRAMS.items():
        absent = {policy.point: why for policy in POLICIES if (why := why_unknown(program, policy, options))}
        known = [policy for policy in POLICIES if policy.point not in absent]
        blocks = latencies(program, known, options)
        rates = {policy.point: throughput(program, policy, options) for policy in known}
        shared = {} if "count" in absent else two_threads(program, options)
        rows += targets(language, blocks) + counters(language, shared)
        table[language] = (absent, blocks, rates)
        raw[language] = {
            "not in this build": absent, "ns an event, block by block": blocks, "throughput": rates,
            "two threads at once, ns an event, block by block": shared,
        }
    print_policies(table)
    return rows, raw


# ---- measuring -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def asking_for(policies, options, pool_bytes=POOL_BYTES):
    """An environment with the rule of each point. `all` writes its logs to memory, as segments are."""
    rules = ",".join(f"{policy.point}={policy.rule}" for policy in policies)
    with stamp_directory(pool_bytes) as directory, tempfile.TemporaryDirectory(dir=options.scratch) as logs:
        yield {**directory, "TICKSCOPE_POLICY": rules, "TICKSCOPE_LOGS": logs}


def why_unknown(program, policy, options):
    """Why this build can't be asked for the policy; None: it can. A rule not understood leaves the point off."""
    if policy.rule == "null":
        return None
    with asking_for([policy], options, 1 << 20) as environment:
        command, environment = [*program, "known", policy.point], {**os.environ, **environment}
        asked = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = asked.stderr.strip().splitlines()
    return None if asked.returncode == 0 and not lines else (lines or ["its point is off, or refuses"])[0]


def latencies(program, policies, options):
    words = ["latency", STAMPING_CPU, options.of(ROUNDS), EVENTS, PAUSE_US, *(policy.point for policy in policies)]
    with asking_for(policies, options) as environment, tempfile.TemporaryDirectory(dir=options.scratch) as run:
        with collector(environment["TICKSCOPE_DIR"], run):
            return blocks_of(output_of([*program, *words], None, environment))


def throughput(program, policy, options):
    """Of one thread, while a collector takes what it keeps."""
    words = ["throughput", STAMPING_CPU, options.of(THROUGHPUT_MS), policy.point]
    with asking_for([policy], options, THROUGHPUT_POOL_BYTES) as environment:
        with tempfile.TemporaryDirectory(dir=options.scratch) as run:
            with collector(environment["TICKSCOPE_DIR"], run) as report:
                waiting = {**environment, "TICKSCOPE_WHEN_FULL": "wait"}
                produced = json.loads(output_of([*program, *words], None, waiting))
    return {**produced, "collector": report[0]}


def two_threads(program, options):
    words = ["shared", STAMPING_CPU, OTHER_CPU, options.of(SHARED_ROUNDS), SHARED_EVENTS, "count"]
    count = next(policy for policy in POLICIES if policy.point == "count")
    with asking_for([count], options) as environment:
        return blocks_of(output_of([*program, *words], None, environment))


# ---- judging ---------------------------------------------------------------------------------------------------------


def above(blocks, name, floor):
    """The median of differences within rounds, which are neighbours in time."""
    return median([block - below for block, below in zip(blocks[name], blocks[floor])])


def beside(title, blocks, name, floor, limit):
    more = above(blocks, name, floor)
    spread = {"p10_ns": quantile(blocks[name], 0.1), "p90_ns": quantile(blocks[name], 0.9), "above_ns": more}
    target = f"<= {floor} + {limit:g} ns"
    floor = (f"{floor}{more:+.2f}:", median(blocks[floor]))
    return figure(title, median(blocks[name]), "ns", floor, target, more <= limit, **spread)


def targets(language, blocks):
    rows = [
        beside(f"{language}: off", blocks, "off", "nothing", 1),
        beside(f"{language}: buffered", blocks, "buffered", "rdtsc", 2),
    ]
    if "keep" in blocks:
        rows.append(beside(f"{language}: keep, no dearer than buffered", blocks, "keep", "buffered", 0.3))
    clock = ("rdtsc", median(blocks["rdtsc"]))
    if "share-skipped" in blocks:
        ns = median(blocks["share-skipped"])
        # What takes less than a reading of the clock has not read it.
        met = ns <= 3 and ns < clock[1]
        rows.append(figure(f"{language}: x of y, not kept", ns, "ns", clock, "<= 3 ns, no clock read", met))
    if "count" in blocks:
        rows.append(at_most(f"{language}: count", median(blocks["count"]), "ns", 3, clock))
    return rows


def counters(language, shared):
    if not shared:
        return []
    word = ("lock add, one word", median(shared["lock add, one word"]))
    own = median(shared["lock add, a word each"])
    return [
        at_most(f"{language}: count on two threads at once", median(shared["point"]), "ns", 3, word),
        figure(f"{language}: lock add on two threads, a word each", own, "ns", word),
    ]


# ---- the table -------------------------------------------------------------------------------------------------------


def print_policies(table):
    print(f"{'':54} {'latency, ns an event':^40}   {'throughput, M events/s, one thread':^40}")
    heads = ["C", "- rdtsc", "Rust", "- rdtsc", "C++ *", "Java *"]
    heads += ["C", "stalls", "Rust", "C++ *", "Java *"]
    print(f"{'policy':25} {'of what comes, keeps':28} {''.join(f'{head:>8}' for head in heads)}")
    for policy in POLICIES:
        cells = []
        for language in PROGRAMS:
            _, blocks, _ = table[language]
            cells += latency_of(blocks, policy.point) if policy.point in blocks else ["-", "-"]
        cells += published(policy.published, 0)
        rates = {language: table[language][2].get(policy.point) for language in PROGRAMS}
        cells += [rate_of(rates["C"]), str(rates["C"]["stalls"]) if rates["C"] else "-", rate_of(rates["Rust"])]
        print_line(policy.rule, policy.keeps, cells + published(policy.published, 1))
    for name, figures in ALSO_PUBLISHED.items():
        print_line(name, "", ["-"] * 4 + published(figures, 0) + ["-"] * 3 + published(figures, 1))
    print("*: Cloudprofiler's, as published (Table III), on another machine")
    for language, (absent, _, _) in table.items():
        if absent:
            rules = ", ".join(policy.rule for policy in POLICIES if policy.point in absent)
            print(f"not in this build, {language}: {rules}. The first of them: {next(iter(absent.values()))}")


def print_line(rule, keeps, cells):
    print(f"{rule:25} {keeps:28} {''.join(f'{cell:>8}' for cell in cells)}")


def latency_of(blocks, point):
    return [f"{median(blocks[point]):.2f}", f"{above(blocks, point, 'rdtsc'):+.2f}"]


def rate_of(produced):
    return f"{produced['stamps'] / produced['seconds'] / 1e6:.1f}" if produced else "-"


def published(figures, which):
    return [f"{figures[language][which]:g}" if figures else "-" for language in ("C++", "Java")]
