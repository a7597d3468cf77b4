"""The tree's own rules: directions between crates, what must be absent where, names, lengths, links.

Every rule is a function from the tree's root to violations; `--self-test` shows each one a tree that breaks it.
"""

import re
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ALLOWED = {
    "tick": set(), "stats": {"tick"}, "bracket": {"tick"}, "trace": {"bracket", "stats", "tick"},
    "counter": {"tick"}, "host": {"counter", "tick"}, "stamp": {"counter", "tick"}, "probe": {"bracket", "counter", "tick"},
    "store": {"stamp", "trace", "bracket", "tick"}, "collect": {"store", "stamp", "tick"},
    "experiment": {"analysis", "bracket", "collect", "counter", "host", "probe", "stamp", "store", "tick", "trace"},
    "analysis": {"tick", "stats", "bracket", "trace", "store"},
    "clock": {"counter", "host", "stats", "tick"}, "export": {"analysis", "store", "trace", "tick"},
    "show": {"tick", "trace", "store", "analysis", "clock"},
    "cli": {"tick", "stats", "bracket", "trace", "counter", "host", "stamp", "probe", "store", "collect", "experiment", "analysis", "clock",
            "export", "show"},
}
SKIPPED = {"target", "build", ".venv", ".git", "runs", "__pycache__", "vendor"}
BANNED_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "handler", "handlers", "stuff", "tools"}
MOST_LINES = 900
# Files that are longer with a reason; they may not grow.
LONG = {"crates/stamp/include/tickscope.h": 1544}  # header-only by design: one file is what users copy; its clocks are read where it stamps
# `#[ignore]` with a reason beside it is a role that a test starts as a process, or a generator run by hand.
LEFTOVERS = re.compile(r"\b(todo!\(|unimplemented!\(|TODO|FIXME|XXX)|#\[ignore\]|pytest\.mark\.skip\b")
UPPER_BOUND = re.compile(r"assert.*elapsed\(\)\s*<|assert.*(monotonic|perf_counter)\(\).*<")
PARSES = re.compile(r"import struct\b|read_bytes\(|\bopen\([^)]*['\"]rb")
PURE = re.compile(r"std::(fs|net|time)\b|SystemTime|Instant::now|counter::(plain|before|after)\(")


def files(root, *endings):
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.suffix in endings and not SKIPPED & set(path.relative_to(root).parts):
            yield path


def lines(root, path):
    for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
        yield f"{path.relative_to(root)}:{number}", line


def crates_depend_in_the_directions_of_architecture_md(root):
    for manifest in sorted(root.glob("crates/*/Cargo.toml")):
        crate = manifest.parent.name
        found = {name.removeprefix("tickscope-") for name in tomllib.loads(manifest.read_text()).get("dependencies", {})
                 if name.startswith("tickscope-")}
        for name in sorted(found - ALLOWED.get(crate, set())):
            yield f"crates/{crate}/Cargo.toml: expected dependencies on {sorted(ALLOWED.get(crate, set()))}, found {name}"


def the_stamp_library_carries_next_to_nothing(root):
    manifest = root / "crates/stamp/Cargo.toml"
    for name in sorted(set(tomllib.loads(manifest.read_text())["dependencies"]) - {"libc", "tickscope-tick", "tickscope-counter"}):
        yield f"crates/stamp/Cargo.toml: expected libc, tickscope-tick and tickscope-counter alone, found {name}"


def pure_crates_hold_no_unsafe_and_read_nothing(root):
    for crate in ("tick", "bracket", "trace", "stats"):
        if "#![forbid(unsafe_code)]" not in (root / f"crates/{crate}/src/lib.rs").read_text():
            yield f"crates/{crate}/src/lib.rs: expected #![forbid(unsafe_code)], found none"
        for path in files(root / f"crates/{crate}/src", ".rs"):
            for place, line in lines(root, path):
                if PURE.search(line):
                    yield f"{place}: expected no clock, file or socket in {crate}, found '{line.strip()}'"


def the_bindings_only_convert(root):
    for path in files(root / "python" / "src", ".rs"):
        for place, line in lines(root, path):
            if "new_err(" in line and path.name != "error.rs":
                yield f"{place}: expected errors to be mapped in python/src/error.rs, found '{line.strip()}'"
    for path in files(root / "python" / "tickscope", ".py"):
        for place, line in lines(root, path):
            if PARSES.search(line):
                yield f"{place}: expected Rust to read the run's files, found '{line.strip()}'"


def a_file_is_one_noun(root):
    for path in files(root, ".rs", ".py", ".c", ".h", ".js", ".css"):
        if path.stem in BANNED_NAMES:
            yield f"{path.relative_to(root)}: expected a noun of the domain as name, found '{path.stem}'"


def a_file_has_one_subject(root):
    for path in files(root, ".rs", ".py", ".c", ".h", ".js", ".css"):
        name, length = str(path.relative_to(root)), len(path.read_text(errors="replace").splitlines())
        if length > LONG.get(name, MOST_LINES):
            yield f"{name}: expected at most {LONG.get(name, MOST_LINES)} lines, found {length}. Split it by subject"


def nothing_is_left_over(root):
    for path in files(root, ".rs", ".py", ".c", ".h", ".js", ".css", ".toml", ".md"):
        if path.name == Path(__file__).name:
            continue
        for place, line in lines(root, path):
            if LEFTOVERS.search(line):
                yield f"{place}: expected finished work, found '{line.strip()}'"


def no_test_bounds_elapsed_time(root):
    for path in files(root, ".rs", ".py"):
        if path.name == Path(__file__).name:
            continue
        for place, line in lines(root, path):
            if UPPER_BOUND.search(line):
                yield f"{place}: expected no upper bound on time in a test, found '{line.strip()}'. Timing belongs in bench/"


def anchors(page):
    """What the headings of a page are linked by: small letters, hyphens for spaces, no other signs."""
    headings = re.findall(r"^#+ +(.+?) *$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def links_lead_somewhere(root):
    for path in files(root, ".md"):
        for place, line in lines(root, path):
            for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", line):
                page = path.parent / target if target else path
                if not page.exists():
                    yield f"{place}: expected a link to a file, found '{target}'"
                elif anchor and anchor not in anchors(page):
                    yield f"{place}: expected a link to a heading of {page.name}, found '#{anchor}'"


def an_error_says_what_helps(root):
    """After what was expected and what was found: a message that ends there leaves its reader alone."""
    for path in files(root, ".rs", ".c", ".h"):
        told = path.relative_to(root).parts
        if told[0] not in {"crates", "python", "targets"} or path.stem == "tests" or "src" not in told and path.suffix == ".rs":
            continue
        code = re.sub(r"^\s*//.*$", "", path.read_text(errors="replace").split("#[cfg(test)]\nmod tests")[0], flags=re.M)
        for literal in re.findall(r'"((?:[^"\\\n]|\\.|\\\n)*)"', code):
            message = re.sub(r"\\\n\s*", "", literal)
            # One that ends in a space is continued; one of places alone is put together from a type with a remedy.
            found = re.search(r"\bexpected\b(?!,).*\bfound\b:?(.*)$", message)
            if found and not found[1].endswith(" ") and re.search(r"[a-z]{3}", re.sub(r"expected|found|\{[^}]*\}", "", message)):
                if found[1] and not re.search(r"[.;:] \S", found[1]):
                    yield f"{path.relative_to(root)}: expected a message that says what helps, found '{message}'"


def the_readme_names_targets_that_exist(root):
    readme, makefile = root / "README.md", root / "Makefile"
    targets = set(re.findall(r"^([a-z]+):", makefile.read_text(), re.M))
    for place, line in lines(root, readme):
        for name in re.findall(r"\bmake ([a-z]+)\b", line.replace("git, make", "")):
            if name not in targets and name not in {"use", "sure"}:
                yield f"{place}: expected one of the Makefile's targets, found 'make {name}'"


RULES = [crates_depend_in_the_directions_of_architecture_md, the_stamp_library_carries_next_to_nothing,
         pure_crates_hold_no_unsafe_and_read_nothing,
         the_bindings_only_convert, a_file_is_one_noun, a_file_has_one_subject, nothing_is_left_over,
         no_test_bounds_elapsed_time, links_lead_somewhere, the_readme_names_targets_that_exist,
         an_error_says_what_helps]

GOOD = {
    "crates/tick/src/lib.rs": "#![forbid(unsafe_code)]\n",
    "crates/bracket/Cargo.toml": '[dependencies]\ntickscope-tick = "1"\n', "crates/stamp/Cargo.toml": '[dependencies]\nlibc = "1"\n',
    "crates/bracket/src/lib.rs": "#![forbid(unsafe_code)]\n", "crates/trace/src/lib.rs": "#![forbid(unsafe_code)]\n",
    "crates/stats/src/lib.rs": "#![forbid(unsafe_code)]\n",
    "README.md": "[a](Makefile) make demo\n", "Makefile": "demo:\n",
}
BAD = {
    crates_depend_in_the_directions_of_architecture_md: {"crates/bracket/Cargo.toml": '[dependencies]\ntickscope-store = "1"\n'},
    the_stamp_library_carries_next_to_nothing: {"crates/stamp/Cargo.toml": '[dependencies]\nserde = "1"\n'},
    pure_crates_hold_no_unsafe_and_read_nothing: {"crates/trace/src/lib.rs": "use std::fs::File;\n"},
    the_bindings_only_convert: {"python/tickscope/run.py": "import struct\n"},
    a_file_is_one_noun: {"crates/trace/src/utils.rs": ""},
    a_file_has_one_subject: {"crates/trace/src/long.rs": "\n" * (MOST_LINES + 1)},
    nothing_is_left_over: {"crates/trace/src/join.rs": "fn f() { todo" + "!() }\n"},
    no_test_bounds_elapsed_time: {"crates/trace/src/join.rs": "assert!(start.elapsed() < limit);\n"},
    links_lead_somewhere: {"README.md": "# A heading\n[a](#a-heading) [a](Makefile) [b](#none)\n"},
    the_readme_names_targets_that_exist: {"README.md": "make coffee\n"},
    an_error_says_what_helps: {"crates/trace/src/join.rs": 'fn f() -> String { format!("expected rows, found {n}") }\n'},
}


def self_test():
    """Every rule is quiet on a good tree and speaks on one that breaks it."""
    for rule in RULES:
        outcomes = []
        for change in ({}, BAD[rule]):
            with tempfile.TemporaryDirectory() as folder:
                for name, text in (GOOD | change).items():
                    path = Path(folder) / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text)
                outcomes.append(bool(list(rule(Path(folder)))))
        if outcomes != [False, True]:
            yield f"tests/tree.py: expected {rule.__name__} to be quiet, then to speak; found {outcomes}"


def main():
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
