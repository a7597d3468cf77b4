"""Names and lengths: of files, lines, functions, and of the types that a crate shows."""

import ast
import re
from collections import Counter, defaultdict

from source import CODE, counted, files, is_test, product, rule

BANNED_NAMES = {
    "util",
    "utils",
    "helper",
    "helpers",
    "common",
    "misc",
    "manager",
    "handler",
    "handlers",
    "stuff",
    "tools",
}
# Nouns that end like participles. A test is named after what it tests, and may be one.
NOUNS = {"finding", "ordering", "sharing", "ring", "string", "typesetting", "recording"}
MOST_LINES = 900
# Files that are longer with a reason; they may not grow.
LONG = {
    "crates/stamp/include/tickscope.h": 3159
}  # header-only by design: one file is what users copy; its clocks are read, and its logs guarded, where it stamps
MOST_COLUMNS = 120
MOST_FUNCTION_LINES = 70
# In a list of parameters: a closure's follow a bar, and a variable `let`.
TAKEN_APART = re.compile(r"[(,]\s*&?\((?:[^():]|\([^():]*\))*\): &?(?:mut )?\(")


@rule({"crates/trace/src/utils.rs": ""})
def a_file_is_one_noun(root):
    for path in files(root, *CODE):
        if path.stem in BANNED_NAMES:
            yield f"{path.relative_to(root)}: expected a noun of the domain as name, found '{path.stem}'"


@rule({"crates/trace/src/collecting.rs": ""})
def no_file_is_named_by_a_participle(root):
    for path in files(root, *CODE):
        last = re.split(r"[_-]", path.stem)[-1]
        if last.endswith("ing") and last not in NOUNS and not is_test(root, path):
            yield f"{path.relative_to(root)}: expected a noun as name, found '{path.stem}'"


@rule({"crates/trace/src/long.rs": "\n" * (MOST_LINES + 1)})
def a_file_has_one_subject(root):
    for path in files(root, *CODE):
        name, length = str(path.relative_to(root)), len(path.read_text(errors="replace").splitlines())
        if length > LONG.get(name, MOST_LINES):
            yield f"{name}: expected at most {LONG.get(name, MOST_LINES)} lines, found {length}. Split it by subject"


@counted(
    "columns",
    f"lines above {MOST_COLUMNS} columns",
    "Break them",
    {"crates/trace/src/wide.rs": "// " + "x" * MOST_COLUMNS + "\n"},
)
def no_line_is_wider_than_120_columns(root):
    found = {}
    for path in files(root, ".rs", ".py", ".c", ".h", ".js", ".sql", ".toml"):
        # A mutant's text is one line of its file, whatever its length.
        if path.parent.name == "mutants" and path.suffix == ".toml":
            continue
        wide = sum(len(line) > MOST_COLUMNS for line in path.read_text(errors="replace").splitlines())
        if wide:
            found[str(path.relative_to(root))] = wide
    return found


@counted(
    "tuples",
    "arguments that are tuples taken apart",
    "Give them names: a struct, or an argument each",
    {"crates/trace/src/tuple.rs": "fn f((a, b): (u64, u64)) {}\n"},
)
def no_argument_is_a_tuple_taken_apart(root):
    found = {}
    for path in files(root, ".rs"):
        tuples = 0 if is_test(root, path) else len(TAKEN_APART.findall(product(path)))
        if tuples:
            found[str(path.relative_to(root))] = tuples
    return found


def functions_of_braces(text):
    """Lengths of functions in Rust or C as formatters lay them out: to the brace that is indented as the function is."""
    rows = text.splitlines()
    for number, row in enumerate(rows):
        begun = re.match(r"(\s*)(?:pub(?:\([\w: ]+\))? |const |async |unsafe |extern (?:\"C\" )?)*fn \w", row)
        if not begun and not re.match(r"(?!typedef|struct|enum|union|#|/|\*)[\w*].*\)\s*\{$", row):
            continue
        indent = begun[1] if begun else ""
        for end in range(number, min(len(rows), number + 10_000)):
            if rows[end].rstrip().endswith(";") and end == number or rows[end] in (f"{indent}}}", f"{indent}}};"):
                yield end - number + 1
                break


def functions_of_python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.end_lineno - node.lineno + 1


@counted(
    "functions",
    f"functions above {MOST_FUNCTION_LINES} lines",
    "Split them",
    {"crates/trace/src/long.rs": "fn f() {\n" + "    f();\n" * MOST_FUNCTION_LINES + "}\n"},
)
def no_function_is_longer_than_70_lines(root):
    found = {}
    for path in files(root, ".rs", ".c", ".h", ".py"):
        measure = functions_of_python if path.suffix == ".py" else functions_of_braces
        long = sum(length > MOST_FUNCTION_LINES for length in measure(path.read_text(errors="replace")))
        if long:
            found[str(path.relative_to(root))] = long
    return found


@counted(
    "types",
    "crates that show a type of the name",
    "Name it after what it is there, or use the other's",
    {
        "crates/trace/src/lib.rs": "#![forbid(unsafe_code)]\npub struct Place;\n",
        "crates/tick/src/place.rs": "pub enum Place {}\n",
    },
)
def a_public_type_is_declared_by_one_crate(root):
    """An error type is each crate's own."""
    crates = defaultdict(set)
    for path in files(root / "crates", ".rs"):
        if not is_test(root, path):
            for name in re.findall(r"^\s*pub (?:struct|enum|trait|type|union) (\w+)", product(path), re.M):
                crates[name].add(path.relative_to(root).parts[1])
    return Counter({name: len(of) for name, of in crates.items() if len(of) > 1 and name != "Error"})
