"""Waits of tests: for what is seen, with an end, never by the clock."""

import re

from source import counted, files, is_test

SLEEP = re.compile(r"\b(?:u|nano)?sleep\(")
LOOP = re.compile(r"\s*(?:'\w+: )?(?:loop|while|for)\b")
FUNCTION = re.compile(r"\s*(?:pub )?(?:async )?(?:fn|def) ")
# A loop that looks at the time, or at whether the other side ended, has an end.
HAS_END = re.compile(r"deadline|elapsed\(\)|\buntil\b|monotonic\(\)|try_wait\(\)|\.poll\(\)|\bnow\(\) <")


def indent(row):
    return len(row) - len(row.lstrip())


def loops_around(rows, number):
    """The texts of the loops that a line stands in, by indentation."""
    least = indent(rows[number])
    for head in range(number, -1, -1):
        row = rows[head]
        if not row.strip() or head != number and indent(row) >= least:
            continue
        least = indent(row)
        if LOOP.match(row):
            end = next((n for n in range(number + 1, len(rows)) if rows[n].strip() and indent(rows[n]) <= least), None)
            yield "\n".join(rows[head:end])
        if FUNCTION.match(row):
            return


@counted(
    "sleeps",
    "sleeps in a test outside a loop that has a deadline or notices that the other side ended",
    "Wait for what must have happened",
    {"crates/trace/tests/slow.rs": "fn waits() {\n    while !done() {\n        sleep(TICK);\n    }\n}\n"},
)
def a_test_sleeps_only_in_a_poll_that_has_an_end(root):
    found = {}
    for path in files(root, ".rs", ".py", ".c"):
        if not is_test(root, path) or "mutants" in path.parts or "tree" in path.parts:
            continue
        rows = path.read_text(errors="replace").splitlines()
        count = sum(
            not any(map(HAS_END.search, loops_around(rows, number)))
            for number, row in enumerate(rows)
            if SLEEP.search(row) and not row.lstrip().startswith(("//", "*", "#"))
        )
        if count:
            found[str(path.relative_to(root))] = count
    return found
