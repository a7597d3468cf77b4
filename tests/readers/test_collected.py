"""Stamps that no run file declared become a table: of one node or several, while a run goes on, by another layout."""

import fcntl
import itertools
import json
import os
import re
import shutil
import struct
import subprocess
import time

import pytest

from conftest import TREE, free_port

BLOCK = re.compile(r"^```(?:c|diff|toml) (?P<file>\S+)\n(?P<text>.*?)^```$", re.M | re.S)
IDS = 200

RELAY = r"""
#include "tickscope.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Sends ids on: those it makes, or those it reads. */
int main(int argc, char **argv) {
    int64_t id = 0, most = argc > 1 ? atoll(argv[1]) : 0;
    tickscope_channel *in = tickscope_open("in", TICKSCOPE_AFTER, 0), *out = tickscope_open("out", TICKSCOPE_BEFORE, 0);
    while (most ? ++id <= most : read(0, &id, sizeof id) == sizeof id) {
        if (!most) tickscope_stamp(in, id);
        tickscope_stamp(out, id);
        if (write(1, &id, sizeof id) != sizeof id) return 1;
    }
}
"""


def shown(tickscope, run, *options, code=0):
    ended = subprocess.run([tickscope, "show", run, "--json", *options], capture_output=True, text=True)
    assert ended.returncode == code, ended.stderr
    return json.loads(ended.stdout) if ended.stdout else ended.stderr


def compiled(folder, name):
    flags = ["-O2", "-pthread", "-D_GNU_SOURCE", "-I", TREE / "crates/stamp/include"]
    subprocess.run(["cc", *flags, "-o", folder / name, folder / f"{name}.c"], check=True)
    return folder / name


def stamp_directory(folder, name):
    place = folder / f"stamps-{name}"
    place.mkdir()
    return {**os.environ, "TICKSCOPE_DIR": str(place)}


def collect(tickscope, folder, run, node):
    words = [tickscope, "collect", folder / f"stamps-{node}", "--run", run, "--node", node]
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture(scope="module")
def collected(tickscope, tmp_path_factory):
    """The guide's service and client, stamped without a run file, collected as two nodes; and the guide's run file."""
    folder = tmp_path_factory.mktemp("collected")
    port = str(free_port())
    for block in BLOCK.finditer((TREE / "docs/guide.md").read_text()):
        if block["file"] in ("message.h", "service.c", "client.c", "stamps.patch", "service.toml"):
            (folder / block["file"]).write_text(block["text"].replace("9000", port))
    subprocess.run(["patch", "-s", "-i", "stamps.patch"], cwd=folder, check=True)
    programs = {name: compiled(folder, name) for name in ("service", "client")}
    service = subprocess.Popen([programs["service"]], env=stamp_directory(folder, "server"))
    time.sleep(0.3)
    environment = stamp_directory(folder, "client")
    words = [programs["client"], "127.0.0.1", "0.5"]
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
    service.kill()
    service.wait()
    for node in ("server", "client"):
        collect(tickscope, folder, folder / "run", node)
    return folder


def test_the_layout_of_the_guides_programs_is_inferred_as_it_is_declared(collected, tickscope):
    table = shown(tickscope, collected / "run")
    assert table["layout_inferred"] and table["findings"] == [] and table["truth"] is None
    declared = re.search(r"^path = \[.*?\]$", (collected / "service.toml").read_text(), re.M)[0]
    path = [edge["from"] for edge in table["inferred"]["edges"]] + [table["inferred"]["edges"][-1]["to"]]
    assert json.loads(declared.removeprefix("path = ")) == path
    assert all(edge["agree"] == edge["common"] > 0 for edge in table["inferred"]["edges"])
    again = shown(tickscope, collected / "run", "--layout", collected / "service.toml")
    assert not again["layout_inferred"] and again["inferred"] is None
    assert again["stages"] == table["stages"] and table["complete"] == table["stages"][0]["count"] > 0
    pasted = collected / "pasted.toml"
    pasted.write_text(table["inferred"]["toml"])
    assert shown(tickscope, collected / "run", "--layout", pasted)["stages"] == table["stages"]
    assert not (collected / "run/traces").exists()


def test_another_order_is_a_finding_and_a_misspelt_point_is_named(collected, tickscope):
    wrong = collected / "wrong.toml"
    wrong.write_text('[layout]\npath = ["client.response", "client.send"]\n')
    table = shown(tickscope, collected / "run", "--layout", wrong, code=3)
    finding = table["findings"][0]
    assert "rho" not in finding and "by the same id; or their order in the layout is wrong" in finding
    wrong.write_text('[layout]\npath = ["client.send", "client.respnse"]\n')
    assert "did you mean 'client.response'?" in shown(tickscope, collected / "run", "--layout", wrong, code=2)
    page = subprocess.run([tickscope, "report", collected / "run"], capture_output=True, text=True)
    assert page.returncode == 0 and "inferred from" in (collected / "run/report.html").read_text()
    rows = subprocess.run([tickscope, "export", collected / "run", "--csv", "-"], capture_output=True, text=True)
    assert rows.returncode == 0 and ",impossible," not in rows.stdout and "joined now from" in rows.stderr


def test_three_processes_collected_as_three_nodes_are_one_table(tickscope, tmp_path):
    (tmp_path / "relay.c").write_text(RELAY)
    relay = compiled(tmp_path, "relay")
    nodes = ("first", "middle", "last")
    pipe, processes = None, []
    for node in nodes:
        words = [relay, str(IDS)] if node == "first" else [relay]
        out = subprocess.DEVNULL if node == "last" else subprocess.PIPE
        processes.append(subprocess.Popen(words, stdin=pipe, stdout=out, env=stamp_directory(tmp_path, node)))
        pipe = processes[-1].stdout
    assert [process.wait() for process in processes] == [0, 0, 0]
    for node in nodes:
        collect(tickscope, tmp_path, tmp_path / "run", node)
    table = shown(tickscope, tmp_path / "run")
    edges = [(edge["from"], edge["to"]) for edge in table["inferred"]["edges"]]
    points = ["first.out", "middle.in", "middle.out", "last.in", "last.out"]
    assert edges == list(itertools.pairwise(points))
    assert table["complete"] == IDS and table["reference"].startswith("first.")


def test_a_run_is_shown_while_it_goes_on(collected, tickscope):
    run = shutil.copytree(collected / "run", collected / "going-on")
    lock = os.open(run / "run.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.fcntl(lock, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 1, 0))
    table = shown(tickscope, run, "--layout", collected / "service.toml")
    os.close(lock)
    assert table["joined_now"]["run"] == "going-on" and "the run goes on" in table["notes"][0]
    assert table["complete"] > 0 and not (run / "traces").exists() and not list(run.glob(".look-*"))


def test_a_point_of_the_run_file_that_is_misspelt_ends_with_1(begin_run, tickscope):
    process, run = begin_run(seconds=1, rate=500)
    process.communicate()
    manifest = json.loads((run / "run.json").read_text())
    manifest["layout"]["path"][-1] = "client.respnse"
    (run / "run.json").write_text(json.dumps(manifest))
    ended = subprocess.run([tickscope, "show", run], capture_output=True, text=True)
    assert ended.returncode == 1 and "did you mean 'client.response'?" in ended.stderr, ended.stderr
    assert "exactly, in every trace" not in ended.stdout
