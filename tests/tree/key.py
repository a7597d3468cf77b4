"""Keys of the public JSON: the page has a row for each, in the words of its declaration."""

import re

from source import files, product, rule

PAGE = "docs/commands.md"
# The objects' structs; what compares a run's clocks is declared above what has the key.
ROOMS = ("crates/analysis/src", "crates/rivals/src", "crates/store/src")
OBJECT = "RunJson"
ALIASES = {"R": "NodeRivals"}
HEAD = "| key | what it is |\n| --- | --- |\n"
STRUCT = re.compile(
    r"^(?:pub(?:\(\w+\))? )?struct (\w+)(?:<[^>{]*>)? \{\n(.*?)^\}", re.M | re.S
)
FIELD = re.compile(r"((?: +///.*\n)*)((?: +#\[.*\]\n)*) +(?:pub )?(\w+): (.*),\n")


def structs(root):
    """`{struct: [(key, type, attributes, words)]}` of what is serialized."""
    found = {}
    for room in ROOMS:
        for path in files(root / room, ".rs"):
            text = product(path)
            for struct in STRUCT.finditer(text):
                if "Serialize" in text[: struct.start()].rsplit("\n\n", 1)[-1]:
                    found.setdefault(struct[1], [of_field(field) for field in FIELD.finditer(struct[2])])
    return found


def of_field(field):
    words = " ".join(line.strip().removeprefix("///").strip() for line in field[1].splitlines())
    words = words.replace("`None`", "`null`").replace("absent:", "`null`:")
    return field[3], field[4], field[2], re.sub(r"\[(`[^`\]]+`)\](?!\()", r"\1", words)


def rows(root):
    """Key and words of every object; an object that was there before is named by its key."""
    known, told = structs(root), {}

    def of(struct, prefix):
        for key, kind, attributes, words in known[struct]:
            names = [ALIASES.get(name, name) for name in re.findall(r"\w+", kind)]
            inner = next((name for name in names if name in known), None)
            if "serde(skip)" in attributes:
                continue
            if inner and "serde(flatten)" in attributes:
                yield from of(inner, prefix)
                continue
            name = f"{prefix}{key}"
            if inner in told:
                words = f"{words} Keys as of `{told[inner]}`.".strip()
            yield name, words
            if inner and inner not in told:
                told[inner] = name
                yield from of(inner, f"{name}.")

    return list(of(OBJECT, "")) if OBJECT in known else []


def table(root):
    return HEAD + "".join(f"| `{key}` | {words} |\n" for key, words in rows(root))


def written(root):
    """The page with the table as it is declared."""
    return re.sub(re.escape(HEAD) + r"(?:\|.*\n)*", lambda _: table(root), (root / PAGE).read_text(), count=1)


@rule(
    {
        "crates/analysis/src/run_json.rs": "#[derive(Serialize)]\nstruct RunJson {\n"
        "    /// How many.\n    a: u64,\n}\n",
        PAGE: HEAD + "| `a` | How much. |\n",
    }
)
def the_keys_of_the_public_json_are_documented_as_declared(root):
    for key, words in rows(root):
        if not words:
            yield f"{OBJECT}: expected a doc comment of {key}, found none"
    if (root / PAGE).is_file() and (root / PAGE).read_text() != written(root):
        yield f"{PAGE}: expected the table of keys as it is declared, found another. Run python3 tests/tree --keys"
