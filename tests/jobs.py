"""Programs of tests: what each runs, how long it may take, what its output says, and its failed tests run again.

A job is one program of tests (a Rust test binary, a file of pytest) or one command. What it prints goes to a log of its
own. A job that is at its limit is ended with all that it started, and the tests that had not ended count as failed.
What a job leaves going when it ends is ended, too, by `tests/reaper.py`, and named.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOGS = ROOT / "build" / "test-logs"
RUST_TEST = re.compile(r"^test (?P<name>\S+)(?: .*)? \.\.\. (?P<outcome>ok|FAILED|ignored)", re.M)
PYTEST = re.compile(r"^(?P<name>\S+::.+?) (?P<outcome>PASSED|FAILED|ERROR|SKIPPED)", re.M)
# The harness's own account at its end.
RUST_END = re.compile(r"test result: ok\. (?P<passed>\d+) passed; 0 failed; (?P<ignored>\d+) ignored;")
MUTANT = re.compile(r"^mutant (?P<name>\S+) \.\.\. (?P<outcome>red|SURVIVED|ROTTED|LEFT-OUT)", re.M)
# Its last lines: a missed target is a figure, and what goes wrong has none.
BENCHMARKS = re.compile(r"^(?P<name>\d+ of \d+ targets) (?P<outcome>met)", re.M)
# What tells why: the account of each failed test by cargo's harness and pytest, the line of a mutant that is not red.
ACCOUNT = re.compile(
    r"^failures:\n\n---- .*?^failures:$|^=+ FAILURES =+$.*|^mutant \S+ \.\.\. (?:SURVIVED|ROTTED).*?(?=^mutant |\Z)",
    re.M | re.S,
)
SHOWN_CHARS, SHOWN_END_CHARS = 12_000, 3_000
PASSED = {"ok", "PASSED", "red", "met"}
LEFT_OUT = {"ignored", "SKIPPED", "LEFT-OUT"}
# A test of the harness whose end is missing: the program hung, or died.
NO_END = "NO END"
# Runs each program, and ends what is left of it.
REAPER = [sys.executable, str(ROOT / "tests" / "reaper.py")]
# What it prints of each process that it had to end.
LEFT_GOING = re.compile(r"^left going by the tests, and ended: .*", re.M)
# Its last line: what the program and all that it started took.
PROCESSOR = re.compile(r"^processor seconds: (.*)$", re.M)
# What it is given to end all in after it was told to: its own grace twice, and the time of a busy machine.
GRACE_S = 20


@dataclass
class Job:
    group: str
    name: str
    command: list
    pattern: re.Pattern = RUST_TEST
    directory: Path = ROOT
    environment: dict = field(default_factory=dict)
    limit_s: float = 300
    # Words that make the command run one test alone, before its name.
    alone: list | None = None
    # Names of the tests that must have an outcome; empty: whatever the output says.
    expected: list = field(default_factory=list)
    # Whether nothing else may run meanwhile.
    exclusive: bool = False


@dataclass
class Ended:
    job: Job
    code: int
    seconds: float
    text: str
    # (name, outcome) of each test.
    outcomes: list

    @property
    def failed(self):
        return [name for name, outcome in self.outcomes if outcome not in PASSED | LEFT_OUT]

    @property
    def went_well(self):
        return self.code == 0 and not self.failed

    @property
    def left_going(self):
        """A line for each process that was still going when the program had ended."""
        return LEFT_GOING.findall(self.text)

    @property
    def processor_s(self):
        """Seconds of processors, by all processes of the program that ended; 0 if its runner was killed."""
        return float((PROCESSOR.findall(self.text) or [0])[-1])


def run(job, command=None, log=None):
    """Runs a job to its end or limit."""
    log = LOGS / f"{(log or job.name).replace('/', '-').replace(' ', '-')}.log"
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*REAPER, *(command or job.command)],
            cwd=job.directory,
            env=os.environ | job.environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        code = end_of(process, job.limit_s)
    seconds = time.monotonic() - started
    text = log.read_text(errors="replace")
    if code is None:
        text += f"\n{job.name}: no end within {job.limit_s:.0f} s; it was ended\n"
    outcomes = [(found["name"], found["outcome"]) for found in job.pattern.finditer(text)]
    if command is None:
        outcomes += unseen(job.expected, outcomes, text, code)
    return Ended(job, -1 if code is None else code, seconds, text, outcomes)


def unseen(expected, outcomes, text, code):
    """Outcomes of the tests that no line names: what a test's processes print may stand in the line of another.

    They passed if the harness ended with 0 and counts as many as were to run; a program that ends early has no count.
    """
    ends = [int(found["passed"]) + int(found["ignored"]) for found in RUST_END.finditer(text)]
    is_whole = code == 0 and len(expected) in ends
    seen = {name for name, _ in outcomes}
    return [(name, "ok" if is_whole else NO_END) for name in expected if name not in seen]


def end_of(process, limit_s):
    """The exit code; None: it was at its limit, and is ended with what it started."""
    try:
        return process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.terminate()
        try:
            process.wait(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        return None


def account(ended):
    """What tells why a job did not go well: its accounts of failures, and its last lines."""
    accounts = "\n".join(ACCOUNT.findall(ended.text))[:SHOWN_CHARS]
    return f"{ended.job.name}: exit code {ended.code}\n{accounts}\n{ended.text[-SHOWN_END_CHARS:]}"


def passes_again(job, name, times=2):
    """Whether one test passes by itself as often as asked, one run after the other."""
    if job.alone is None:
        return False
    for attempt in range(times):
        command = [*job.alone, name]
        ended = run(job, command, f"{job.name} {name.rsplit('::', 1)[-1][:60]} again {attempt + 1}")
        if not ended.went_well or not any(outcome in PASSED for _, outcome in ended.outcomes):
            print(account(ended), flush=True)
            return False
    return True
