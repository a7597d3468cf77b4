"""Which crate may stand on which, and what must be absent where."""

import re
import tomllib

from source import files, lines, rule

PURE_CRATES = ("tick", "bracket", "trace", "stats")
PURE = re.compile(r"std::(fs|net|time)\b|SystemTime|Instant::now|counter::(plain|before|after)\(")
PARSES = re.compile(r"import struct\b|read_bytes\(|\bopen\([^)]*['\"]rb")
TREE_LIST = "## Crates and directions"


def directions(root):
    """`{crate: crates that it may stand on}`: the list of ARCHITECTURE.md, the one place that says so."""
    page = (root / "ARCHITECTURE.md").read_text()
    section = page.split(TREE_LIST, 1)[-1].split("\n## ", 1)[0]
    found = {}
    for crate, others in re.findall(r"^- `([\w-]+)`(?: -> ([^:]*))?:", section, re.M):
        found[crate] = set(re.findall(r"`([\w-]+)`", others))
    return found


def dependencies(root):
    """`{crate: (manifest, crates of this tree that it names)}`; a target, or its analysis, may be a crate too."""
    found = {}
    places = ("crates/*", "targets/*", "targets/*/analysis")
    for manifest in sorted(found for place in places for found in root.glob(f"{place}/Cargo.toml")):
        text = tomllib.loads(manifest.read_text())
        name = text.get("package", {}).get("name", manifest.parent.name).removeprefix("tickscope-")
        ours = {other for other in text.get("dependencies", {}) if other.startswith("tickscope-")}
        found[name] = manifest.relative_to(root), {other.removeprefix("tickscope-") for other in ours}
    return found


@rule({"crates/bracket/Cargo.toml": '[dependencies]\ntickscope-store = "1"\n'})
def crates_depend_in_the_directions_of_architecture_md(root):
    allowed = directions(root)
    for crate, (manifest, found) in dependencies(root).items():
        if crate not in allowed:
            yield f"ARCHITECTURE.md: expected a line of '{TREE_LIST}' for {crate}, found none"
        for name in sorted(found - allowed.get(crate, set())):
            yield f"{manifest}: expected dependencies on {sorted(allowed.get(crate, set()))}, found {name}"


@rule(
    {
        "ARCHITECTURE.md": "## Crates and directions\n- `tick` -> `trace`: a.\n- `bracket` -> `tick`: b.\n"
        "- `trace` -> `bracket`: c.\n"
        "- `stats`: d.\n- `stamp`: e.\n"
    }
)
def the_directions_lead_back_nowhere(root):
    allowed = directions(root)
    reached = {crate: set(others) for crate, others in allowed.items()}
    for _ in allowed:
        reached = {
            crate: others.union(*(reached.get(other, set()) for other in others)) for crate, others in reached.items()
        }
    for crate in sorted(reached):
        if crate in reached[crate]:
            yield f"ARCHITECTURE.md: expected no way back to {crate}, found one among its directions"
        for other in sorted(allowed[crate] - allowed.keys()):
            yield f"ARCHITECTURE.md: expected every crate that {crate} stands on in the list, found {other} missing"


@rule({"crates/stamp/Cargo.toml": '[dependencies]\nserde = "1"\n'})
def the_stamp_library_carries_next_to_nothing(root):
    manifest = root / "crates/stamp/Cargo.toml"
    for name in sorted(
        set(tomllib.loads(manifest.read_text())["dependencies"]) - {"libc", "tickscope-tick", "tickscope-counter"}
    ):
        yield f"crates/stamp/Cargo.toml: expected libc, tickscope-tick and tickscope-counter alone, found {name}"


@rule({"crates/trace/src/lib.rs": "use std::fs::File;\n"})
def pure_crates_hold_no_unsafe_and_read_nothing(root):
    for crate in PURE_CRATES:
        if "#![forbid(unsafe_code)]" not in (root / f"crates/{crate}/src/lib.rs").read_text():
            yield f"crates/{crate}/src/lib.rs: expected #![forbid(unsafe_code)], found none"
        for path in files(root / f"crates/{crate}/src", ".rs"):
            for place, line in lines(root, path):
                if PURE.search(line):
                    yield f"{place}: expected no clock, file or socket in {crate}, found '{line.strip()}'"


@rule({"python/tickscope/run.py": "import struct\n"})
def the_bindings_only_convert(root):
    for path in files(root / "python" / "src", ".rs"):
        for place, line in lines(root, path):
            if "new_err(" in line and path.name != "error.rs":
                yield f"{place}: expected errors to be mapped in python/src/error.rs, found '{line.strip()}'"
    for path in files(root / "python" / "tickscope", ".py"):
        for place, line in lines(root, path):
            if PARSES.search(line):
                yield f"{place}: expected Rust to read the run's files, found '{line.strip()}'"
