"""Where a mutant's text stands in a source: by its tokens, so that a reflow of the source does not lose it.

`find` matches as it is, or with other whitespace between the same tokens and with or without the comma that a formatter
puts before a closing bracket. It must match once: in the file, or in the item that `within` names (`"fn width"`).
Comments are tokens like any other: a mutant that spans one moves with it.
"""

import re

TOKEN = re.compile(r"\w+|[^\w\s]")
# What may hold a brace that closes nothing: comments, strings, characters.
HIDDEN = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)'""", re.S)


class Rotted(Exception):
    """The text of a mutant is not where it is said to be."""


def tokens(text):
    """The tokens, without a comma before a closing bracket."""
    found = TOKEN.findall(text)
    followers = found[1:] + [""]
    return [token for token, follower in zip(found, followers) if not (token == "," and follower in (")", "]", "}"))]


def pattern(text):
    """A regular expression of the tokens of `text`, at word boundaries, with any whitespace between."""
    parts, before = [], ""
    for token in tokens(text):
        word = re.match(r"\w", token)
        if not before:
            parts.append(r"(?<!\w)" if word else "")
        elif word and re.match(r"\w", before):
            parts.append(r"\s+")
        else:
            parts.append(r"\s*,?\s*" if token in (")", "]", "}") else r"\s*")
        parts.append(re.escape(token))
        before = token
    return "".join(parts) + (r"(?!\w)" if re.match(r"\w", before) else "")


def spans(source, text, begin=0, end=None):
    """Places of `text` in `source[begin:end]`: those that are equal, or if there are none, those of equal tokens."""
    end = len(source) if end is None else end
    if not text.strip():
        return []
    for form in (re.escape(text), pattern(text)):
        found = [match.span() for match in re.compile(form).finditer(source, begin, end)]
        if found:
            return found
    return []


def item(source, name, by_indentation=False):
    """From and to of the one item that `name` begins: to its closing brace, or in Python to its last line."""
    found = [match.start() for match in re.compile(pattern(name)).finditer(source)]
    if len(found) != 1:
        raise Rotted(f"expected the item '{name}' once, found it {len(found)} times")
    begin = found[0]
    if by_indentation:
        line_begin = source.rfind("\n", 0, begin) + 1
        depth = len(source[line_begin:]) - len(source[line_begin:].lstrip(" "))
        ended = re.compile(rf"\n(?=[ ]{{0,{depth}}}[^\s)\]}}])").search(source, source.find("\n", begin))
        return begin, ended.start() if ended else len(source)
    code = HIDDEN.sub(lambda hidden: " " * len(hidden[0]), source)
    depth = 0
    for at in range(begin, len(code)):
        if code[at] in "{([":
            depth += 1
        elif code[at] in "})]":
            depth -= 1
            if depth == 0 and code[at] == "}":
                return begin, at + 1
        elif code[at] == ";" and depth == 0:
            return begin, at + 1
    raise Rotted(f"expected an end of the item '{name}', found none")


def place(source, mutant, by_indentation=False):
    """From and to of the mutant's text in `source`; raises `Rotted` unless it is there once."""
    begin, end = item(source, mutant["within"], by_indentation) if "within" in mutant else (0, None)
    found = spans(source, mutant["find"], begin, end)
    if len(found) != 1:
        where = f"in '{mutant['within']}' of" if "within" in mutant else "in"
        raise Rotted(f"expected its text once {where} {mutant['file']}, found it {len(found)} times")
    return found[0]


def mutated(source, mutant, by_indentation=False):
    """The source with the mutant's text replaced."""
    begin, end = place(source, mutant, by_indentation)
    replacement = mutant["replace"]
    if source[begin:end] != mutant["find"]:
        # Whitespace around both texts is not part of a match by tokens.
        replacement = shorn(replacement, mutant["find"])
    return source[:begin] + replacement + source[end:]


def shorn(replacement, find):
    """`replacement` without the whitespace at either end that `find` has there too."""
    lead, tail = re.match(r"\s*", find)[0], re.search(r"\s*\Z", find)[0]
    return replacement.removeprefix(lead).removesuffix(tail)
