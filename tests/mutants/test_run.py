"""The runner tells a mutant that is seen from one that survives or is gone, and leaves the copy as it was."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import run as runner

SOURCE = "fn f() {\n    one(\n        1,\n    );\n    two();\n}\n"
# A test that is green, in pytest's words, while the source calls one(1).
CHECK = "import re; ok = re.search(r'one\\(\\s*1', open('a.rs').read()); print('1 passed'); raise SystemExit(not ok)"


@pytest.fixture
def copy(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "COPY", tmp_path)
    (tmp_path / "a.rs").write_text(SOURCE)
    (tmp_path / "check.py").write_text(CHECK)
    return tmp_path


def tried(find, replace, test=f"{sys.executable} check.py"):
    return runner.try_mutant({"name": "m", "file": "a.rs", "find": find, "replace": replace, "test": test}, {})


@pytest.mark.parametrize(
    ("find", "replace", "outcome"),
    [("one(1)", "one(2)", "red"), ("two();", "three();", "SURVIVED"), ("one(3)", "one(4)", "ROTTED")],
)
def test_an_outcome_is_what_its_test_says(copy, find, replace, outcome):
    assert tried(find, replace)[0] == outcome
    assert (copy / "a.rs").read_text() == SOURCE


def test_a_mutant_whose_test_is_red_without_it_proves_nothing(copy):
    outcome, why = tried("one(1)", "one(2)", f"{sys.executable} -c 'raise SystemExit(1)'")
    assert outcome == "ROTTED" and "red without it" in why


def test_a_test_that_runs_nothing_is_not_green(copy):
    assert tried("one(1)", "one(2)", f"{sys.executable} -c pass")[0] == "ROTTED"
