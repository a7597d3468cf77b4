#!/usr/bin/env python3
"""Compiles a C program on tickscope.h with every warning an error, or takes it from a test that compiled the same.

    tests/compiled.py COMPILER [FLAG...] -o PROGRAM SOURCE [LIBRARY...]

Two thirds of what the tests compile are the same few programs, each two seconds of the header. What is the same: the
text after the preprocessor, the words, and the compiler. Each program is a file of its own: of two links to one file
the loader takes the second for the first.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FLAGS = ["-Wall", "-Wextra", "-Werror", "-O2", "-pthread"]
# Behind the folders that a test names: it may bring another header.
INCLUDE = ["-I", str(ROOT / "crates/stamp/include")]
STORE = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "tmp" / "compiled"


def main(words):
    at = words.index("-o")
    program = Path(words[at + 1])
    others = [words[0], *FLAGS, *words[1:at], *INCLUDE, *words[at + 2 :], "-ldl"]
    # Of the words that are for the linker clang complains here.
    seen = subprocess.run([*others, "-E", "-Wno-unused-command-line-argument"], stdout=subprocess.PIPE, check=False)
    if seen.returncode != 0:
        return seen.returncode
    stored = STORE / name_of(others, seen.stdout)
    if not stored.exists():
        STORE.mkdir(parents=True, exist_ok=True)
        made = stored.with_suffix(f".{os.getpid()}")
        code = subprocess.run([*others, "-o", made], check=False).returncode
        if code != 0:
            return code
        made.rename(stored)
    program.unlink(missing_ok=True)
    shutil.copy2(stored, program)
    return 0


def name_of(words, text):
    """A digest of all that decides what the program is: a file that is named is told by what is in it."""
    compiler = os.stat(shutil.which(words[0]))
    digest = hashlib.sha256(repr((words, compiler.st_size, compiler.st_mtime_ns)).encode())
    for file in filter(os.path.isfile, words):
        digest.update(Path(file).read_bytes())
    digest.update(text)
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
