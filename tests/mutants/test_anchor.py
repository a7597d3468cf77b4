"""A mutant's text is found again after a reflow, and nowhere else."""

import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import anchor
import run as runner

SOURCE = """
fn first(a: i64) -> i64 {
    let brace = '{'; // an open { in a comment
    a.max(limit(
        a,
        b,
    ))
}

fn second(a: i64) -> i64 {
    a.min(0)
}

fn third(a: i64) -> i64 {
    a.min(0)
}
"""
PYTHON = """
class Run:
    def first(self):
        if self.lo:

            return self.lo
        return 0

    def second(self):
        return 0
"""


def mutant(find, replace="x", **more):
    return {"file": "a.rs", "find": find, "replace": replace} | more


@pytest.mark.parametrize(
    "find",
    [
        "a.max(limit(\n        a,\n        b,\n    ))",
        "a.max(limit(a, b))",
        "a.max( limit( a,b ) )",
        "a\n.max(limit(a, b,))",
    ],
)
def test_the_same_tokens_are_found_under_any_layout(find):
    assert "    x\n}\n\nfn second" in anchor.mutated(SOURCE, mutant(find))


@pytest.mark.parametrize(
    "find", ["a.max(limit(b, a))", "amax(limit(a, b))", "a.max(limit(a, b, c))", "letbrace", "", "  "]
)
def test_other_tokens_are_rotted(find):
    with pytest.raises(anchor.Rotted):
        anchor.place(SOURCE, mutant(find))


def test_a_text_that_occurs_twice_is_rotted_unless_its_item_is_named():
    with pytest.raises(anchor.Rotted, match="found it 2 times"):
        anchor.place(SOURCE, mutant("a.min(0)"))
    changed = anchor.mutated(SOURCE, mutant("a.min( 0 )", within="fn third"))
    assert changed.count("a.min(0)") == 1 and changed.rstrip().endswith("x\n}")


def test_an_item_ends_at_its_own_brace():
    begin, end = anchor.item(SOURCE, "fn first")
    assert SOURCE[begin:end].startswith("fn first") and SOURCE[end:].startswith("\n\nfn second")
    with pytest.raises(anchor.Rotted):
        anchor.place(SOURCE, mutant("a.min(0)", within="fn first"))
    with pytest.raises(anchor.Rotted, match="the item 'fn fourth' once, found it 0 times"):
        anchor.place(SOURCE, mutant("a.min(0)", within="fn fourth"))


def test_an_item_of_python_ends_where_its_indentation_does():
    changed = anchor.mutated(PYTHON, mutant("return 0", "return 1", within="def first"), by_indentation=True)
    assert changed == PYTHON.replace("return 0", "return 1", 1)


def test_whitespace_around_both_texts_is_not_doubled():
    changed = anchor.mutated(
        PYTHON, mutant("        if self.lo:\n            return self.lo\n", "        if self.lo:\n            pass\n")
    )
    assert changed == PYTHON.replace("if self.lo:\n\n            return self.lo", "if self.lo:\n            pass")


def test_a_word_is_found_as_a_whole_word_after_a_reflow():
    assert anchor.spans("xa . min(0)", "a.min(0)") == []
    assert anchor.spans("a . min(0)", "a.min(0)") == [(0, 10)]


def test_a_mutant_that_cannot_run_is_told_without_building(tmp_path):
    (tmp_path / "a.rs").write_text("fn f() { one(); }")
    good = mutant("one( );", name="a", test="cargo test -p tickscope-none --test missing")
    told = list(runner.faults(tmp_path, good))
    assert len(told) == 1 and "crates/none" in told[0]
    told = list(runner.faults(tmp_path, good | {"find": "two();", "test": "pytest tests/none.py"}))
    assert len(told) == 2 and "0 times" in told[0] and "tests/none.py" in told[1]
    assert any("changes nothing" in fault for fault in runner.faults(tmp_path, good | {"replace": "one();"}))


def test_no_mutant_of_the_tree_is_rotted():
    checked = subprocess.run([sys.executable, runner.__file__, "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout
