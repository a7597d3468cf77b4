"""Papers and what cites them: every link, cited file and cited heading is there; the README's commands exist."""

import re

from source import CODE, files, is_of_the_rules, lines, rule

PATH = re.compile(
    r"(?<![\w/.~-])((?:docs|crates|tests|targets|experiments|scripts)/[\w./-]*\w"
    r"\.(?:md|rs|py|toml|h|c|json|sql|svg|sh))\b"
)
PAGE = re.compile(r"(?<![\w/.-])([\w-]+\.md)\b(?!\()")
HEADING = re.compile(r"\b([\w-]+\.md)`?,? (?:section )?\"([^\"]+)\"")
# A name in capitals stands for any.
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b")


def anchors(page):
    """What the headings of a page are linked by: small letters, hyphens for spaces, no other signs."""
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings(page)]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def headings(page):
    return re.findall(r"^#+ +(.+?) *$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)


@rule({"README.md": "# A heading\n[a](#a-heading) [a](Makefile) [b](#none)\n"})
def links_lead_somewhere(root):
    for path in files(root, ".md"):
        for place, line in lines(root, path):
            for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", line):
                page = path.parent / target if target else path
                if not page.exists():
                    yield f"{place}: expected a link to a file, found '{target}'"
                elif anchor and anchor not in anchors(page):
                    yield f"{place}: expected a link to a heading of {page.name}, found '#{anchor}'"


@rule({"crates/trace/src/join.rs": "//! As in `docs/brackets.md`.\n"})
def a_cited_file_exists(root):
    """Paths from the root in papers and sources; a change's entry may name what is gone by now."""
    for path in files(root, ".md", ".toml", *CODE):
        if (
            path.name == "CHANGELOG.md"
            or is_of_the_rules(path)
            or path.parent.name == "mutants"
            and path.suffix == ".py"
        ):
            continue
        for place, line in lines(root, path):
            for name in PATH.findall(line):
                near = (
                    path.parent / name,
                    root / name,
                    *(root.glob(f"crates/*/{name}") if name.startswith("tests/") else ()),
                )
                if not PLACEHOLDER.search(name) and not any(candidate.exists() for candidate in near):
                    yield f"{place}: expected a file that exists, found '{name}'"


@rule({"crates/trace/src/join.rs": "//! See `brackets.md`.\n"})
def a_cited_page_exists(root):
    pages = {page.name for page in files(root, ".md")}
    for path in files(root, ".md", *CODE):
        if path.name == "CHANGELOG.md" or is_of_the_rules(path):
            continue
        for place, line in lines(root, path):
            for name in set(PAGE.findall(line)) - pages:
                yield f"{place}: expected a page that exists, found '{name}'"


@rule({"crates/trace/src/join.rs": '//! The bound (`docs/proof.md`, "The bounds").\n'})
def a_cited_heading_exists(root):
    pages = {page.name: page for page in files(root, ".md")}
    for path in files(root, ".md", *CODE):
        if is_of_the_rules(path):
            continue
        # A citation may go on in the next line of a comment.
        text = re.sub(r"\n\s*(?://[/!]?|\*|#)?\s*", " ", path.read_text(errors="replace"))
        for name, heading in HEADING.findall(text):
            if name in pages and heading.strip(",.") not in headings(pages[name]):
                yield f"{path.relative_to(root)}: expected a heading of {name}, found '{heading}'"


@rule({"README.md": "make coffee\n"})
def the_readme_names_targets_that_exist(root):
    readme, makefile = root / "README.md", root / "Makefile"
    targets = set(re.findall(r"^([a-z-]+):", makefile.read_text(), re.M))
    for place, line in lines(root, readme):
        for name in re.findall(r"\bmake ([a-z-]+)\b", line.replace("git, make", "")):
            if name not in targets and name not in {"use", "sure"}:
                yield f"{place}: expected one of the Makefile's targets, found 'make {name}'"
