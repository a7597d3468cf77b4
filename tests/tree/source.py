"""What the rules stand on: the tree's files and lines, the counts that may only shrink, and the list of rules.

A rule is a function from the tree's root to violations. It carries a tree that breaks it, so that `--self-test` can
show that it goes red; a rule without one cannot be declared.
"""

import os
import re
import tomllib
from functools import cache
from pathlib import Path

SKIPPED = {"target", "build", ".venv", ".git", "runs", "__pycache__", "vendor", "golden", "fixtures", "__marimo__"}
CODE = (".rs", ".py", ".c", ".h", ".js", ".css")
RATCHET = "tests/tree/ratchet.toml"
RULES = []
COUNTS = {}
# The smallest tree that every rule is quiet on; each rule adds or replaces files to break itself.
GOOD = {
    "ARCHITECTURE.md": "## Crates and directions\n- `tick`: ticks.\n- `bracket` -> `tick`: brackets.\n"
    "- `trace` -> `tick`: traces.\n"
    "- `stats` -> `tick`: samples.\n- `stamp` -> `tick`: stamps.\n\n## Next\n",
    "crates/tick/src/lib.rs": "#![forbid(unsafe_code)]\n",
    "crates/tick/Cargo.toml": "[dependencies]\n",
    "crates/bracket/Cargo.toml": '[dependencies]\ntickscope-tick = "1"\n',
    "crates/stamp/Cargo.toml": '[dependencies]\nlibc = "1"\n',
    "crates/bracket/src/lib.rs": "#![forbid(unsafe_code)]\n",
    "crates/trace/src/lib.rs": "#![forbid(unsafe_code)]\n",
    "crates/stats/src/lib.rs": "#![forbid(unsafe_code)]\n",
    "docs/proof.md": "# Proof\n## The cone\n",
    "README.md": "[a](Makefile) make demo\n",
    "Makefile": "demo:\n",
}


def rule(bad):
    """Declares a rule, with the files that break it."""

    def declare(check):
        check.bad = bad
        RULES.append(check)
        return check

    return declare


def counted(section, what, remedy, bad):
    """Declares a rule over a function from the root to counts by name, none of which may exceed the ratchet's."""

    def declare(count):
        def check(root):
            held = ratchet(root).get(section, {})
            found = count(root)
            for name in sorted(found):
                if found[name] > held.get(name, 0):
                    yield f"{name}: expected at most {held.get(name, 0)} {what}, found {found[name]}. {remedy}"
            for name in sorted(held):
                if held[name] > found.get(name, 0):
                    yield (
                        f"{RATCHET}: expected {found.get(name, 0)} {what} of {name}, found {held[name]}. "
                        "Run python3 tests/tree --ratchet"
                    )

        check.__name__ = count.__name__
        COUNTS[section] = count
        rule(bad)(check)
        return count

    return declare


def ratchet(root):
    """Counts that are held, by section and name."""
    path = root / RATCHET
    return tomllib.loads(path.read_text()) if path.is_file() else {}


def tightened(root):
    """The ratchet's text with every count that shrank; what one name lost another may have, as when a file is moved."""
    text = "# Counts that may only shrink: by file, or by a public type's name. See CONTRIBUTING.md, Tests.\n"
    for section, held in ratchet(root).items():
        found = COUNTS[section](root)
        left = {name: min(count, found.get(name, 0)) for name, count in held.items()}
        spare = sum(held.values()) - sum(left.values())
        for name in sorted(found):
            moved = found[name] - left.get(name, 0)
            if 0 < moved <= spare and name not in held:
                left[name], spare = moved, spare - moved
        text += f"\n[{section}]\n" + "".join(f'"{name}" = {count}\n' for name, count in sorted(left.items()) if count)
    return text


def files(root, *endings):
    return (path for path in all_files(root) if path.suffix in endings)


@cache
def all_files(root):
    """Files in order, without a step into what is skipped: a build's folder has a hundred times what the tree has."""
    found = []
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in SKIPPED]
        found += [Path(folder, name) for name in names if name not in SKIPPED]
    return sorted(path for path in found if path.is_file())


def lines(root, path):
    name = path.relative_to(root)
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        yield f"{name}:{number}", line


def is_of_the_rules(path):
    """The rules themselves hold examples of what they forbid."""
    return path.parent.name == "tree" and path.parent.parent.name == "tests"


def is_test(root, path):
    """A file of tests or examples alone."""
    parts = path.relative_to(root).parts
    return bool({"tests", "examples", "benches"} & set(parts)) or path.stem in {"tests", "sample"}


def product(path):
    """A Rust file's text up to its tests."""
    return re.split(
        r"^#\[cfg\((?:all\()?test\b.*\]\n(?:#\[.*\]\n)*(?:pub(?:\(crate\))? )?mod \w+ \{",
        path.read_text(errors="replace"),
        maxsplit=1,
        flags=re.M,
    )[0]
