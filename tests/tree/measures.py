"""The tree in figures, or two of them next to each other: python3 tests/tree/measures.py TREE [TREE]

Product code alone: no tests, no examples, no benchmarks. Prints a Markdown table: code lines (neither blank nor
comment), characters in them (a reflow changes lines, hardly characters), functions and files by length, lines above
120 columns, files in the largest circle of each crate, third-party crates in what each crate is built of (`?` where
cargo has not fetched them).
"""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import circle
from shape import MOST_COLUMNS, MOST_FUNCTION_LINES, functions_of_braces, functions_of_python
from source import files, is_test, product

CODE = (".rs", ".py", ".c", ".h", ".js", ".css", ".html")
COMMENT = re.compile(r"^\s*(//|\*|/\*|#(?!\[|!\[|include|if|el|endif|define|undef|error|pragma)|--)")


def room(root, path):
    """Name of the crate or folder that a file belongs to; none: not a product's."""
    parts = path.relative_to(root).parts
    if parts[0] not in ("crates", "targets", "subjects", "python") or is_test(root, path):
        return None
    return parts[0] if parts[0] != "crates" else "/".join(parts[:2])


def code_of(path):
    text = product(path) if path.suffix == ".rs" else path.read_text(errors="replace")
    return [line for line in text.splitlines() if line.strip() and not COMMENT.match(line)]


def quantile(values, share):
    values = sorted(values)
    return values[min(int(len(values) * share), len(values) - 1)] if values else 0


def third_party(root):
    """By crate, how many crates of others it is built of; `all` for the workspace."""
    found = {"all": dependencies(root, "--workspace")}
    for manifest in sorted(root.glob("crates/*/Cargo.toml")):
        name = re.search(r'^name = "(.*)"$', manifest.read_text(), re.M)[1]
        found[f"crates/{manifest.parent.name}"] = dependencies(root, "-p", name)
    return found


def dependencies(root, *of):
    command = [
        "cargo",
        "tree",
        "--locked",
        "--offline",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
        *of,
    ]
    tree = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    if tree.returncode:
        return "?"
    output = tree.stdout
    return len({line.split(" (")[0] for line in output.splitlines() if line and not line.startswith("tickscope")})


def measured(root):
    """Figures by name, in the order in which they are shown."""
    lines, characters, functions, lengths, wide = {}, {}, [], [], 0
    for path in files(root, *CODE):
        wide += sum(len(line) > MOST_COLUMNS for line in path.read_text(errors="replace").splitlines())
        of = room(root, path)
        if of is None:
            continue
        code = code_of(path)
        lines[of] = lines.get(of, 0) + len(code)
        characters[of] = characters.get(of, 0) + sum(len(line.strip()) for line in code)
        lengths.append(len(code))
        if path.suffix in (".rs", ".c", ".h"):
            functions += functions_of_braces(product(path))
        elif path.suffix == ".py":
            functions += functions_of_python(path.read_text())
    others = third_party(root)
    figures = {f"{of}: code lines": count for of, count in sorted(lines.items())}
    figures |= {
        "all product code: lines": sum(lines.values()),
        "all product code: characters": sum(characters.values()),
        "functions": len(functions),
        "lines of a function: median": quantile(functions, 0.5),
        "lines of a function: 90 %": quantile(functions, 0.9),
        "lines of a function: 99 %": quantile(functions, 0.99),
        f"functions above {MOST_FUNCTION_LINES} lines": sum(length > MOST_FUNCTION_LINES for length in functions),
        "product files": len(lengths),
        "code lines of a file: median": quantile(lengths, 0.5),
        "code lines of a file: 90 %": quantile(lengths, 0.9),
        "code lines of a file: longest": max(lengths),
        f"lines above {MOST_COLUMNS} columns, whole tree": wide,
    }
    circles = circle.no_circle_of_files_grows(root)
    figures |= {f"files in the largest circle: {of}": count for of, count in circles.items()}
    return figures | {f"third-party crates: {of}": count for of, count in sorted(others.items())}


def main():
    roots = [pathlib.Path(word).resolve() for word in sys.argv[1:3]]
    if not roots or not all((root / "crates").is_dir() for root in roots):
        sys.exit("measures.py: expected one or two checkouts of tickscope. measures.py . ../before")
    found = [measured(root) for root in roots]
    names = sorted({name for figures in found for name in figures}, key=lambda name: order(name, found))
    print("| | " + " | ".join(root.name for root in roots) + " |\n| --- |" + " ---: |" * len(roots))
    for name in names:
        print(f"| {name} | " + " | ".join(str(figures.get(name, "")) for figures in found) + " |")


def order(name, found):
    """Rooms first, by name; the rest as it was measured."""
    rest = [known for figures in found for known in figures if not known.endswith(": code lines")]
    return (0, 0, name) if name.endswith(": code lines") else (1, rest.index(name), name)


if __name__ == "__main__":
    main()
