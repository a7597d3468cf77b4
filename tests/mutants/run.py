"""Changes the code in ways that must turn its tests red. A mutant that survives is a hole in the tests.

Each tests/mutants/*.toml lists mutants: name, file, find (text whose tokens occur once in it, or in the item that the
optional `within` names), replace, test (a command). `--check` lists the entries that cannot work, without building.
The tree is copied, so nothing here touches the sources. A mutant that does not compile proves nothing: it is rotted.
"""

import argparse
import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import anchor

ROOT = Path(__file__).resolve().parent.parent.parent
COPY = ROOT / "build" / "mutants" / "tree"
BUILT = ROOT / "build" / "mutants" / "target"
ENVIRONMENT = os.environ | {
    "CARGO_TARGET_DIR": str(BUILT),
    "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true",
    "TICKSCOPE_TESTS": "all",  # a mutant that only some of many cases show
}
HANG_S = 150
# What a build may take on a machine that builds everything for the first time, and has other things to do.
BUILD_S = 1800


def mutants(only):
    for path in sorted((ROOT / "tests" / "mutants").glob("*.toml")):
        for mutant in tomllib.loads(path.read_text())["mutant"]:
            if only is None or only in f"{path.stem}/{mutant['name']}":
                yield path.stem, mutant


def copy_tree():
    """Brings the copy up to date; unchanged files keep their time, so that nothing is built again."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    wanted = set(listed.stdout.split("\n")) - {""}
    for name in wanted:
        source, target = ROOT / name, COPY / name
        if not source.is_file():
            continue
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    for stale in [path for path in COPY.rglob("*") if path.is_file() and str(path.relative_to(COPY)) not in wanted]:
        stale.unlink()


def take_what_is_built():
    """Copies the third-party crates that the tree's own tests built: they are the same here, and take minutes."""
    for folder, taken in (("deps", "lib"), ("build", ""), (".fingerprint", "")):
        source, target = ROOT / "target" / "debug" / folder, BUILT / "debug" / folder
        if not source.is_dir() or target.exists():
            continue
        target.mkdir(parents=True)
        for entry in source.iterdir():
            if entry.name.startswith(taken) and "tickscope" not in entry.name:
                (shutil.copytree if entry.is_dir() else shutil.copy2)(entry, target / entry.name)


def run(command, limit_s=HANG_S):
    """Exit code and output; a hang is a failure of the test, and said so."""
    # To a file, not a pipe: what a hung test started may outlive it, and would keep a pipe open.
    with tempfile.TemporaryFile("w+") as output:
        test = subprocess.Popen(
            command,
            cwd=COPY,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = test.wait(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(test.pid, signal.SIGKILL)  # the test's own children too: a hung one would keep a core
            test.wait()
            return -1, f"no end within {limit_s} s"
        output.seek(0)
        return code, output.read()


def compiles(test, file):
    if file.suffix == ".java":
        return run(["make", "-s", "build/tickscope.jar"], BUILD_S)
    words = shlex.split(test)
    if "cargo" not in words:
        return 0, ""
    build = words[: words.index("--")] if "--" in words else words
    return run(build + ["--no-run"], BUILD_S)


def is_green(test):
    """A busy machine may spoil one try of a test, and the machine is not what is looked at here."""
    for _ in range(2):
        code, output = run(shlex.split(test), limit_of(test))
        if code == 0:
            break
    return code == 0 and re.search(r"\b[1-9]\d* passed", output) is not None, output


def limit_of(test):
    """A test that is not cargo's may build what it needs within itself."""
    return HANG_S if "cargo" in shlex.split(test) else BUILD_S


def try_mutant(mutant, green):
    """`red`, `SURVIVED` or `ROTTED`, and why."""
    file, test = COPY / mutant["file"], mutant["test"]
    source = file.read_text() if file.is_file() else ""
    try:
        changed = anchor.mutated(source, mutant, file.suffix == ".py")
    except anchor.Rotted as why:
        return "ROTTED", str(why)
    if test not in green:
        compiles(test, file)  # the first build of a crate takes its time, which is none of the test's
        green[test], output = is_green(test)
        if not green[test]:
            return "ROTTED", f"its test is red without it: {output[-1500:]}"
    try:
        file.write_text(changed)
        code, output = compiles(test, file)
        if code != 0:
            return "ROTTED", f"it does not compile: {output[-1500:]}"
        for attempt in ("", "at the second try"):
            code, output = run(shlex.split(test), limit_of(test))
            if code != 0:
                why = "by not ending" if code == -1 else attempt
                break
        else:
            return "SURVIVED", "its test stayed green, twice"
    finally:
        file.write_text(source)
    # Such a red may be the machine's.
    if why and not is_green(test)[0]:
        return "ROTTED", f"red {why}, and its test is red without it, too"
    return "red", why


def faults(root, mutant):
    """What keeps a mutant from proving anything, as far as text alone tells."""
    file = root / mutant["file"]
    if not file.is_file():
        yield f"expected a file {mutant['file']}, found none"
    else:
        try:
            source = file.read_text()
            if anchor.tokens(anchor.mutated(source, mutant, file.suffix == ".py")) == anchor.tokens(source):
                yield "its replacement changes nothing"
        except anchor.Rotted as why:
            yield str(why)
    yield from missing(root, shlex.split(mutant["test"]))


def places(crate):
    """Where a crate of that name may lie."""
    return f"crates/{crate}", f"targets/{crate}/analysis", f"targets/{crate}"


def filtered(words):
    """Parts of the name by which cargo chooses tests."""
    known = re.search(r" -p \S+(?: --lib| --test \S+)?(?: --)? ([a-z]\S+)$", " ".join(words))
    return known[1].split("::") if known else []


@functools.cache
def names_of(place):
    """Functions and modules below a crate's folder."""
    files = list(place.rglob("*.rs"))
    named = (name for file in files for name in re.findall(r"\b(?:fn|mod)\s+(\w+)", file.read_text()))
    return {file.stem for file in files} | set(named)


def missing(root, words):
    """Packages, test targets and files that a command of a test names and the tree lacks."""
    crates = [
        word.removeprefix("tickscope-")
        for of, word in zip(words, words[1:])
        if of == "-p" and word.startswith("tickscope-")
    ]
    for crate in crates:
        if not any((root / place / "Cargo.toml").is_file() for place in places(crate)):
            yield f"its test names the crate crates/{crate}, which is not there"
    for of, name in zip(words, words[1:]):
        place = next((root / place for place in places(crates[0]) if (root / place).is_dir()), None) if crates else None
        if of == "--test" and place:
            tests = place / "tests"
            if not (tests / f"{name}.rs").is_file() and not (tests / name / "main.rs").is_file():
                yield f"its test names {tests.relative_to(root)}/{name}.rs, which is not there"
    for part in filtered(words) if crates else ():
        if not any(part in name for place in places(crates[0]) for name in names_of(root / place)):
            yield f"its test asks for {part}, which no function or module of {crates[0]} is called"
    for word in words:
        if word.endswith(".py") and not (root / word.split("::")[0]).is_file():
            yield f"its test names {word}, which is not there"


def check(only):
    """Prints the entries that cannot work; true if there is none."""
    seen, bad = set(), 0
    for stem, mutant in mutants(only):
        told = list(faults(ROOT, mutant))
        if (stem, mutant["name"]) in seen:
            told.append("its name is another's too")
        seen.add((stem, mutant["name"]))
        for fault in told:
            print(f"mutant {stem}/{mutant['name'].replace(' ', '-')} ... ROTTED: {fault}")
        bad += bool(told)
    print(f"{len(seen)} mutants, {bad} rotted")
    return bad == 0


def changed_since(commit):
    """Files that differ from a commit's, also those not committed yet."""
    command = ["git", "diff", "--name-only", commit]
    changed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return set(changed.split("\n")) - {""}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--only", help="mutants whose FILE/name contains this")
    arguments.add_argument("--since", help="mutants whose file changed since this commit")
    arguments.add_argument(
        "--check", action="store_true", help="list entries whose text or test is not there; builds nothing"
    )
    options = arguments.parse_args()
    if options.check:
        sys.exit(0 if check(options.only) else 1)
    copy_tree()
    take_what_is_built()
    changed = changed_since(options.since) if options.since else None
    bad, count, green = 0, 0, {}
    for stem, mutant in mutants(options.only):
        if changed is not None and mutant["file"] not in changed:
            continue
        outcome, why = try_mutant(mutant, green)
        name = f"{stem}/{mutant['name'].replace(' ', '-')}"
        print(f"mutant {name} ... {outcome}{': ' + why if why else ''}", flush=True)
        count, bad = count + 1, bad + (outcome != "red")
    print(f"{count - bad} red, {bad} not")
    sys.exit(1 if bad or not count and changed is None else 0)


if __name__ == "__main__":
    main()
