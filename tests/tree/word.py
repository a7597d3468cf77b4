"""What may not stand in a line: unfinished work, bounds on time, messages without a remedy, Rust's `Debug`."""

import re

from source import CODE, counted, files, is_of_the_rules, is_test, lines, product, rule

# `#[ignore]` with a reason beside it is a role that a test starts as a process, a generator run by hand, or heavy.
LEFTOVERS = re.compile(r"\b(todo!\(|unimplemented!\(|TODO|FIXME|XXX)|#\[ignore\]|pytest\.mark\.skip\b")
UPPER_BOUND = re.compile(r"assert.*elapsed\(\)\s*<|assert.*(monotonic|perf_counter)\(\).*<")
PUBLIC = ("analysis", "show", "export", "cli", "experiment")


@rule({"crates/trace/src/join.rs": "fn f() { todo" + "!() }\n"})
def nothing_is_left_over(root):
    for path in files(root, *CODE, ".toml", ".md"):
        if is_of_the_rules(path):
            continue
        for place, line in lines(root, path):
            if LEFTOVERS.search(line):
                yield f"{place}: expected finished work, found '{line.strip()}'"


@rule({"crates/trace/src/join.rs": "assert!(start.elapsed() < limit);\n"})
def no_test_bounds_elapsed_time(root):
    for path in files(root, ".rs", ".py"):
        if is_of_the_rules(path):
            continue
        for place, line in lines(root, path):
            if UPPER_BOUND.search(line):
                yield f"{place}: expected timing in bench/, found an upper bound on time: '{line.strip()}'"


@rule({"crates/trace/src/join.rs": 'fn f() -> String { format!("expected rows, found {n}") }\n'})
def an_error_says_what_helps(root):
    """After what was expected and what was found: a message that ends there leaves its reader alone."""
    for path in files(root, ".rs", ".c", ".h"):
        told = path.relative_to(root).parts
        if (
            told[0] not in {"crates", "python", "targets"}
            or path.stem == "tests"
            or "src" not in told
            and path.suffix == ".rs"
        ):
            continue
        code = re.sub(
            r"^\s*//.*$", "", path.read_text(errors="replace").split("#[cfg(test)]\nmod tests")[0], flags=re.M
        )
        for literal in re.findall(r'"((?:[^"\\\n]|\\.|\\\n)*)"', code):
            message = re.sub(r"\\\n\s*", "", literal)
            # One that ends in a space is continued; one of places alone is put together from a type with a remedy.
            found = re.search(r"\bexpected\b(?!,).*\bfound\b:?(.*)$", message)
            if (
                found
                and not found[1].endswith(" ")
                and re.search(r"[a-z]{3}", re.sub(r"expected|found|\{[^}]*\}", "", message))
            ):
                if found[1] and not re.search(r"[.;:] \S", found[1]):
                    yield f"{path.relative_to(root)}: expected a message that says what helps, found '{message}'"


@counted(
    "debug",
    "formats by `{:?}`",
    "What is printed is named by a function, not by a type's spelling in the source",
    {"crates/show/src/row.rs": 'fn f() -> Value { json!({ "role": format!("{:?}", role) }) }\n'},
)
def nothing_public_is_spelt_by_debug(root):
    found = {}
    for crate in PUBLIC:
        for path in files(root / "crates" / crate / "src", ".rs"):
            if not is_test(root, path):
                count = len(re.findall(r"\{\w*:#?\?\}", re.sub(r"^\s*//.*$", "", product(path), flags=re.M)))
                if count:
                    found[str(path.relative_to(root))] = count
    return found


def by_crate(root, count):
    """Sums of `count(text)` over a crate's product code."""
    found = {}
    for source in sorted(root.glob("crates/*/src")):
        texts = (product(path) for path in files(source, ".rs") if not is_test(root, path))
        if total := sum(map(count, texts)):
            found[f"crates/{source.parent.name}"] = total
    return found


@counted(
    "openings",
    "doc comments that open with What, Who, Whoever, Of or Those",
    "Open with a noun or a verb that can be understood without the code",
    {"crates/show/src/row.rs": "/// What is shown.\nfn f() {}\n"},
)
def doc_comments_open_with_a_noun_or_a_verb(root):
    opening = re.compile(r"^(?![ \t]*//[/!])[^\n]*\n[ \t]*//[/!] (?:What|Who|Whoever|Of|Those)\b", re.M)
    return by_crate(root, lambda text: len(opening.findall("\n" + text)))


@counted(
    "told",
    "words told, said or beside in messages",
    "Say it with the field's verb: reported, shown, listed, next to",
    {"crates/show/src/row.rs": 'fn f() { say("nothing is told") }\n'},
)
def messages_say_it_with_the_fields_verbs(root):
    literal = re.compile(r'"((?:[^"\\]|\\.|\\\n)*)"')
    words = re.compile(r"\b(?:told|said|beside)\b")

    def count(text):
        code = re.sub(r"^\s*//.*$", "", text, flags=re.M)
        return sum(len(words.findall(found)) for found in literal.findall(code))

    return by_crate(root, count)
