"""Errands of CONTRIBUTING: every name of code stands in a file that the same errand names."""

import re

from source import CODE, all_files, rule

PAGE = "CONTRIBUTING.md"
READ = (*CODE, ".java", ".toml", ".json", ".md")
# A type, a type's member, or a function; a word in capitals stands for any, or is a constant.
NAME = re.compile(r"(?:[A-Z]\w*[a-z]\w*|[A-Z][A-Z_]+|[a-z]+(?:_[a-z]+)*)(?:::\w+)*")


def errands(root):
    """`(title, text)` of each errand."""
    page = root / PAGE
    text = page.read_text().split("\n## Errands\n", 1)[-1].split("\n## ", 1)[0] if page.is_file() else ""
    return [(part.split("**", 1)[0], part) for part in re.split(r"^\*\*", text, flags=re.M)[1:]]


def named_files(root, words):
    """The files that an errand names: by their path, their folder, or the end of their path."""
    folders = tuple(f"{word.rstrip('/')}/" for word in words if "/" in word and (root / word).is_dir())
    ends = tuple(f"/{word}" for word in words if re.search(r"\.\w+$", word))
    for path in all_files(root):
        name = f"/{path.relative_to(root)}"
        if path.suffix in READ and (name.endswith(ends) or name[1:].startswith(folders)):
            yield path


@rule(
    {
        PAGE: "# C\n\n## Errands\n**A join**\n1. `Joins` in `crates/trace/src/join.rs`.\n\n## Next\n",
        "crates/trace/src/join.rs": "pub struct Join;\n",
    }
)
def a_name_in_an_errand_stands_in_a_file_of_it(root):
    for title, text in errands(root):
        words = re.findall(r"`([^`\n]+)`", text)
        texts = [path.read_text(errors="replace") for path in named_files(root, words)]
        for word in words:
            if NAME.fullmatch(word.removesuffix("()")) and not (root / word).exists():
                last = word.removesuffix("()").split("::")[-1]
                if not any(re.search(rf"\b{last}\b", text) for text in texts):
                    yield f"{PAGE}, {title}: expected `{word}` in a file that the errand names, found none"
