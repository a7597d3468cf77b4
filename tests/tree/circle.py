"""Circles of files, which may only shrink: Rust files of a crate each of which leads to every other by what it uses.

Read from `use` declarations and from paths that begin with `crate` or `super`, up to a file's tests. A name that
another file hands on (`pub use`) leads to the file that has it; an error that everybody returns counts like any other.
"""

import re

from source import counted, files, product

PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+(?:::\{)?")
USE = re.compile(r"^\s*(?:pub(?:\([\w:]+\))? )?use ([^;]+);", re.M)


def expanded(text):
    """Paths of one `use` tree, each a list of names."""
    head, brace, rest = text.partition("{")
    if not brace:
        return [re.sub(r" as \w+", "", head).strip().split("::")]
    parts, depth, start, inner = [], 0, 0, rest[: rest.rindex("}")]
    for at, sign in enumerate(inner + ","):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append(inner[start:at].strip())
            start = at + 1
    prefix = [name for name in head.strip().split("::") if name]
    return [prefix + path for part in parts if part for path in expanded(part)]


def modules(source):
    """`{module: file}` of a crate; a module is a tuple of names, the crate's own is the empty one."""
    found = {}
    for path in files(source, ".rs"):
        names = path.relative_to(source).with_suffix("").parts
        if names[-1] in ("lib", "main", "mod"):
            names = names[:-1]
        if "tests" not in names:
            found[names] = path
    return found


def absolute(names, of, known):
    """A path's names from the crate's root, seen in module `of`; none: another crate's."""
    if names[0] == "crate":
        return tuple(names[1:])
    if names[0] == "self":
        return of + tuple(names[1:])
    if names[0] == "super":
        while names and names[0] == "super":
            of, names = of[:-1], names[1:]
        return of + tuple(names)
    return of + tuple(names) if of + (names[0],) in known else None


def leads_to(path, known, handed_on):
    """The module that has what a path names."""
    for _ in range(8):
        end = max(at for at in range(len(path) + 1) if path[:at] in known)
        if end == len(path) or path[: end + 1] not in handed_on:
            return path[:end]
        path = handed_on[path[: end + 1]] + path[end + 1 :]
    return path[:0]


def uses(source):
    """`{module: modules that it uses}`, but for the crate's own file, which only lists them."""
    known = modules(source)
    texts = {of: re.sub(r"^\s*//.*$", "", product(path), flags=re.M) for of, path in known.items()}
    handed_on, named = {}, {}
    for of, text in texts.items():
        declared = [names for tree in USE.findall(text) for names in expanded(tree)]
        inline = [found.removesuffix("::{").split("::") for found in PATH.findall(USE.sub("", text))]
        named[of] = [path for names in declared + inline if (path := absolute(names, of, known)) is not None]
        for names in declared:
            path = absolute(names, of, known)
            if path and of + (names[-1],) != path:
                handed_on[of + (names[-1],)] = path
    found = {}
    for of, paths in named.items():
        if of in ((), ("main",)):
            continue
        found[of] = {leads_to(path, known, handed_on) for path in paths} - {of, ()}
    return found


def circles(source):
    """Circles of a crate's files, the largest first, each as a sorted list of modules."""
    graph = uses(source)
    reached = {of: closure(graph, of) for of in graph}
    left, found = set(graph), []
    while left:
        of = min(left)
        ring = {other for other in reached[of] if of in reached.get(other, ())} | {of}
        left -= ring
        if len(ring) > 1:
            found.append(sorted("::".join(names) for names in ring))
    return sorted(found, key=lambda ring: (-len(ring), ring))


def closure(graph, of):
    seen, ahead = set(), [of]
    while ahead:
        for other in graph.get(ahead.pop(), ()):
            if other not in seen:
                seen.add(other)
                ahead.append(other)
    return seen


@counted(
    "circles",
    "files in the largest circle",
    "Move what both use to a file of its own",
    {
        "crates/trace/src/join.rs": "use crate::tally::Tally;\npub struct Join;\n",
        "crates/trace/src/tally.rs": "use crate::join::Join;\npub struct Tally;\n",
    },
)
def no_circle_of_files_grows(root):
    """By crate that has a circle, how many files its largest has."""
    found = {}
    for source in sorted(root.glob("crates/*/src")):
        if rings := circles(source):
            found[f"crates/{source.parent.name}"] = len(rings[0])
    return found
