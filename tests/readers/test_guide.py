"""The guide does what it says: its files are written, its patches applied and its commands run, as they stand on the page."""

import json
import os
import re
import subprocess

import pytest

from conftest import TREE, free_port

GUIDE = TREE / "docs/guide.md"
EXAMPLE = TREE / "examples/udp-service"
BLOCK = re.compile(r"^```(?P<kind>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.M | re.S)
PACKETS = 3000  # a second has 1000, at most


def blocks():
    return list(BLOCK.finditer(GUIDE.read_text()))


def test_the_files_of_the_guide_lie_ready():
    shown = {block["file"]: block["text"] for block in blocks() if block["file"]}
    assert shown == {file.name: file.read_text() for file in EXAMPLE.iterdir()}
    text = GUIDE.read_text()
    # Named in the text too: renderers hide what stands behind the fence.
    assert all(f"`{name}`" in text for name in shown)


@pytest.fixture(scope="module")
def followed(tickscope, tmp_path_factory):
    """A folder in which the guide was followed, and what its commands printed."""
    folder = tmp_path_factory.mktemp("guide")
    # What a reader's machine has in other places, and a port that nobody else has.
    places = {"~/tickscope": str(TREE), "$TICKSCOPE/target/release": str(tickscope.parent), "9000": str(free_port())}

    def here(text):
        for page, ours in places.items():
            text = text.replace(page, ours)
        return text

    commands = ["set -exo pipefail"]
    commands += [here(block["text"]) for block in blocks() if block["kind"] == "sh" and not block["file"]]
    copied = 'cp -r "$TICKSCOPE/examples/udp-service" my-service && cd my-service'
    assert copied in commands[1], "the guide works in a copy of its files"
    (folder / "my-service").mkdir()
    for file in EXAMPLE.iterdir():
        (folder / "my-service" / file.name).write_text(here(file.read_text()))
    commands[1] = commands[1].replace(copied, "cd my-service")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TICKSCOPE")}
    ended = subprocess.run(["bash", "-m", "-c", "\n".join(commands)], cwd=folder, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder / "my-service", ended.stdout


def table(tickscope, run):
    return json.loads(subprocess.run([tickscope, "show", run, "--json"], check=True, capture_output=True).stdout)


def test_every_run_of_the_guide_measures_what_it_says(followed, tickscope):
    folder, _ = followed
    for run, stages in {"first": 3, "apart": 3, "messages": 3, "kernel": 9}.items():
        shown = table(tickscope, folder / "runs" / run)
        path = [stage for stage in shown["stages"] if stage["role"] == "path"]
        whole = next(stage["count"] for stage in shown["stages"] if stage["role"] == "end-to-end")
        assert len(path) == stages and 0 < whole <= PACKETS, run
        assert all(stage["count"] > 0 for stage in path), run
        assert shown["path_sums"]["mismatches"] == 0
        if run != "first":
            assert shown["truth"]["known"] == shown["truth"]["inside"] > 0, run


def test_the_evidence_that_the_guide_adds_is_used(followed, tickscope):
    folder, _ = followed
    sources = {
        run: {source["name"] for source in table(tickscope, folder / "runs" / run)["clock_maps"][0]["sources"]}
        for run in ("apart", "messages", "kernel")
    }
    assert sources == {
        "apart": {"probes"},
        "messages": {"messages", "probes"},
        "kernel": {"kernel-messages", "kernel-probes", "probes"},
    }
    assert table(tickscope, folder / "runs/first")["clock_maps"] == []


def test_what_the_guide_leaves_behind_is_there(followed):
    folder, _ = followed
    assert (folder / "runs/kernel/report.html").stat().st_size > 0
    assert json.loads((folder / "table.json").read_text())["stages"]


def test_output_on_the_page_has_the_form_of_output(followed):
    """Columns and stages of every table that is printed in the guide are printed by its commands."""
    _, said = followed
    heads = {tuple(line.split()) for line in said.splitlines() if line.startswith("stage ")}
    names = {line.split()[0] for line in said.splitlines() if ">" in line.split(" ")[0]}
    shown = [block["text"] for block in blocks() if block["kind"] == "text"]
    assert len(shown) == 4
    for text in shown:
        head, *rows = text.splitlines()
        assert tuple(head.split()) in heads, head
        assert {row.split()[0] for row in rows if ">" in row.split(" ")[0]} <= names
