"""The tree's own rules: directions between crates, what must be absent where, names, lengths, links.

python3 tests/tree              every rule
python3 tests/tree --self-test  every rule, and that each can go red
python3 tests/tree --ratchet    writes the counts that shrank into tests/tree/ratchet.toml
python3 tests/tree --keys       writes the table of the public JSON's keys into docs/commands.md
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import circle  # noqa: F401  each declares its rules
import direction  # noqa: F401
import errand  # noqa: F401
import key
import paper  # noqa: F401
import shape  # noqa: F401
import wait  # noqa: F401
import word  # noqa: F401
from source import GOOD, RATCHET, RULES, tightened

ROOT = Path(__file__).resolve().parents[2]


def violations_of(rule, tree):
    """What a rule says of a tree that is made for it."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return list(rule(Path(folder)))


def self_test():
    """Every rule is quiet on a good tree and speaks on one that breaks it; so does a ratchet on a count that shrank."""
    for rule in RULES:
        outcomes = [bool(violations_of(rule, GOOD | change)) for change in ({}, rule.bad)]
        if outcomes != [False, True]:
            yield f"tests/tree: expected {rule.__name__} to be quiet, then to speak; found {outcomes}"
    wide = next(rule for rule in RULES if rule.__name__ == "no_line_is_wider_than_120_columns")
    for held, speaks in ((1, False), (2, True)):
        told = violations_of(wide, GOOD | wide.bad | {RATCHET: f'[columns]\n"crates/trace/src/wide.rs" = {held}\n'})
        if bool(told) != speaks:
            wanted = "speak" if speaks else "be quiet"
            yield f"tests/tree: expected a ratchet of {held} for one wide line to {wanted}; found {told}"


def main():
    if "--ratchet" in sys.argv:
        text = tightened(ROOT)
        (ROOT / RATCHET).write_text(text)
    if "--keys" in sys.argv:
        text = key.written(ROOT)
        (ROOT / key.PAGE).write_text(text)
    failed = 0
    checks = [(rule.__name__, lambda rule=rule: rule(ROOT)) for rule in RULES]
    if "--self-test" in sys.argv:
        checks.append(("every_rule_can_go_red", self_test))
    for name, check in checks:
        violations = list(check())
        failed += bool(violations)
        print(f"test {name} ... {'FAILED' if violations else 'ok'}")
        for violation in violations:
            print(f"  {violation}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
