"""Every snippet of the page on Python runs as it stands, from the top of the tree."""

import re
import shutil

import pytest
import tickscope
from conftest import TREE

PAGE = (TREE / "docs/python.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A place that looks like the tree to the page, where a run may be written to."""
    shutil.copytree(TREE / "python/notebooks/echo", tmp_path / "python/notebooks/echo")
    monkeypatch.chdir(tmp_path)


def test_the_snippets_of_the_page_run_one_after_the_other(tree, capsys):
    names = {}
    for snippet in SNIPPETS:
        exec(compile(snippet, "docs/python.md", "exec"), names)
    assert len(SNIPPETS) >= 6
    out = capsys.readouterr().out
    assert "client.send>server.received" in out
    assert "expected unknown, server-room" in out


@pytest.mark.parametrize("name", re.findall(r"`([a-z_]+)\(", "".join(line for line in PAGE.splitlines() if line.startswith("| `"))))
def test_the_page_names_calls_that_exist(name):
    assert hasattr(tickscope.Run, name)
