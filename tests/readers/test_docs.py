"""What the pages say of the command is so: its JSON, its man page, its completions; and their picture is drawn as it is computed."""

import json
import os
import re
import shutil
import subprocess
import sys

import duckdb
import pytest
import x_lap_pair

from conftest import TREE, free_port

sys.path.insert(0, str(TREE / "docs"))
import guarantee_picture as picture

PAGE = (TREE / "docs/commands.md").read_text()
NO_FIGURES = {"agent", "completions", "man", "help", "init"}


def said(tickscope, *words):
    wide = os.environ | {"COLUMNS": "120"}
    return subprocess.run([tickscope, *words], check=True, capture_output=True, text=True, env=wide).stdout


def commands(tickscope):
    listed = said(tickscope, "--help").split("Commands:")[1].split("Options:")[0]
    return re.findall(r"^  ([a-z-]+) ", listed, re.M)


def lacking(shown, found, place):
    """Keys of an example that the real thing lacks."""
    if isinstance(shown, dict):
        for key, value in shown.items():
            if not isinstance(found, dict) or key not in found:
                yield f"{place}.{key}"
            else:
                yield from lacking(value, found[key], f"{place}.{key}")
    elif isinstance(shown, list):
        if not isinstance(found, list):
            yield place
        elif shown and found:
            yield from lacking(shown[0], found[0], f"{place}[0]")


def sweep_of(run, folder):
    """A sweep of one trial that is a copy of that run."""
    shutil.copytree(run, folder / "trial-0001")
    age = {"age": ["client.send", "server.received"], "of": "average"}
    trial = {"number": 1, "repetition": 1, "point": [0], "state": "made", "folder": "trial-0001", "why": None}
    trial["code"] = 0
    sweep = {"sweep": 1, "name": "s", "run_file": "", "run_file_place": None, "run_file_directory": "/"}
    sweep |= {"order": "given", "seed": 1, "seconds": None, "keep_ms": None}
    sweep |= {"parameters": [{"name": "rate", "values": [1000]}], "repetitions": 1, "trials": [trial]}
    sweep |= {"measures": [{"stage": "end-to-end", "quantile": 0.99}, age]}
    sweep |= {"fields": [{"field": "rtt_p50_ns", "node": None, "unit": "ns"}]}
    (folder / "sweep.json").write_text(json.dumps(sweep))
    return folder


def sustain_file(folder):
    """A search among two rates, of which a queue does not survive the higher one."""
    source = TREE / "targets/queue/queue.c"
    subprocess.run([TREE / "tests/compiled.py", "cc", "-D_GNU_SOURCE", "-o", folder / "queue", source], check=True)
    options = "--rate {rate} --seconds {seconds} --capacity 1000000 --buffer 100000 --linger 60000 --late 60000"
    command = f"[ {{rate}} = 1000 ] || exit 7; exec {folder / 'queue'} {options}"
    (folder / "queue.toml").write_text(f"""
run = {{ name = "queue", seconds = 0.2 }}
network.kind = "loopback"
clock.reference = "queue"
layout.path = ["queue.enqueue", "queue.dequeue"]
node = [{{ name = "queue", ends_run = true, command = ["sh", "-c", "{command}"] }}]
sustain = {{ from = 1000, to = 2000, step = 1000, searches = 1, trials = 1, lost = 1.0, lag = 1000 }}
""")
    return folder / "queue.toml"


def machines_file(folder):
    """Two machines that stamp nothing."""
    nodes = "".join(f'[[node]]\nname = "n{at}"\naddress = "127.0.0.{at + 1}"\n' for at in range(2))
    inject = "inject = { offset = 5, drift_ppb = 0, wander_ppb = 0, wander_period = 1000 }\n"
    (folder / "machines.toml").write_text(
        'run = { name = "machines", seconds = 0.3 }\nnetwork.kind = "loopback"\n'
        f'clock = {{ reference = "n0", same_boot = "ignore", probe_port = {free_port()} }}\n{nodes}{inject}'
    )
    return folder / "machines.toml"


SHOWN = ["show", "report", "tail", "figures", "export", "compare", "check", "doctor", "collect", "age"]
SHOWN += ["sweep", "sustain", "load", "perfetto", "otherwise", "import", "relate", "runs"]


@pytest.mark.parametrize("command", SHOWN)
def test_json_holds_what_its_example_shows(command, tickscope, swinging_run, steady_run, tmp_path):
    example = re.search(rf"^```json {command}\n(.*?)^```", PAGE, re.M | re.S)[1]
    words = {
        "show": ["show", swinging_run], "report": ["report", swinging_run], "check": ["check", swinging_run],
        "compare": ["compare", swinging_run, steady_run],
        "export": ["export", swinging_run, "--csv", tmp_path / "run.csv"], "doctor": ["doctor"],
        "perfetto": ["export", swinging_run, "--perfetto", tmp_path / "run.pftrace"],
        "runs": ["runs", swinging_run.parent],
        "otherwise": ["export", swinging_run, "--hdr", tmp_path / "run.hlog"],
        "figures": ["figures", swinging_run, "--out", tmp_path / "figures"],
        # Of a kept run: of another, what is slow may not be resolved, and no share be told.
        "tail": ["tail", TREE / "python/notebooks/echo"],
        "collect": ["collect", tmp_path, "--run", tmp_path / "run"],
        "load": ["load", "udp", "127.0.0.1:9", "--rate", "100", "--seconds", "0.1"],  # nobody need be there
        "age": ["show", swinging_run, "--age", "client.send", "server.received", "--limit", "5ms"],
    }
    if command == "import":
        x_lap_pair.make(tmp_path)
        words["import"] = ["import", tmp_path / "xlap.yml", "--out", tmp_path / "run"]
    if command == "sweep":
        words["sweep"] = ["show", sweep_of(swinging_run, tmp_path / "sweep")]
    if command == "relate":
        words["relate"] = ["relate", machines_file(tmp_path), "--out", tmp_path / "machines"]
    if command == "sustain":
        words["sustain"] = ["sustain", sustain_file(tmp_path), "--out", tmp_path / "search"]
    found = json.loads(said(tickscope, *words[command], "--json"))
    assert list(lacking(json.loads(example), found, command)) == []


def test_every_command_that_has_figures_has_json(tickscope):
    names = set(commands(tickscope))
    assert {"run", "show", "report", "export", "check", "doctor", "collect"} <= names
    without = {name for name in names - NO_FIGURES if "--json" not in said(tickscope, name, "--help")}
    assert without == set()


def test_the_man_page_and_the_completions_know_every_command(tickscope):
    man = said(tickscope, "man")
    shells = [said(tickscope, "completions", shell) for shell in ("bash", "zsh", "fish")]
    for name in set(commands(tickscope)) - {"help"}:
        assert f".SH TICKSCOPE {name.upper()}" in man
        assert all(name in script for script in shells)
    for section in ("EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"):
        assert f".SH {section}" in man


def test_every_event_of_the_format_has_something_to_do():
    def events(page, begin, end):
        text = page.split(begin)[1].split(end)[0]
        return {name for row in re.findall(r"^\| (`.*?) \|", text, re.M) for name in re.findall(r"`([a-z-]+)`", row)}

    named = events((TREE / "docs/run-format.md").read_text(), "\n## events", "\n## brackets")
    assert len(named) > 20 and events(PAGE, "\n## Events", "\n## No more") == named


def test_the_picture_of_the_guarantee_is_what_its_script_computes():
    assert (TREE / "docs/guarantee.svg").read_text() == picture.picture()
    for step in range(401):
        at = picture.SECONDS * step / 400
        lower, upper = picture.envelope(at)
        assert lower <= picture.truth(at) <= upper
    assert any(low is None or high is None for _, low, high in picture.BRACKETS)


def test_the_first_screen_of_the_readme_says_what_a_stranger_needs_in_order(tickscope, swinging_run):
    screen = (TREE / "README.md").read_text().splitlines()[:60]
    parts = ["Where does the time go", "$ git clone ", "stage ", "| **stage**", "tickscope_stamp(",
             "`tickscope run -- ./program`", "![The first screen", "**The guarantee.**", "**It cannot**", "**Cost**", "**Tested**", "## Install", "**[Guide"]
    places = [next((at for at, line in enumerate(screen) if line.startswith(part)), None) for part in parts]
    assert None not in places and places == sorted(places), dict(zip(parts, places))
    table = said(tickscope, "show", swinging_run).splitlines()
    assert screen[places[2]].split() == table[0].split()
    stages = {line.split()[0] for line in table if ">" in line.split(" ")[0]}
    assert {line.split()[0] for line in screen if ">" in line.split(" ")[0] and line[0] != ">"} <= stages


NEEDED = """
run = { name = "hosts", seconds = 1 }
clock.reference = "client"
[[node]]
name = "client"
command = ["true"]
ends_run = true
"""


def test_the_run_files_of_the_page_on_hosts_are_taken(tickscope, tmp_path):
    (tmp_path / "build").mkdir()
    (tmp_path / "build/server").touch()
    examples = re.findall(r"^```toml\n(.*?)^```", (TREE / "docs/hosts.md").read_text(), re.M | re.S)
    assert len(examples) >= 3
    for example in examples:
        is_whole = re.search(r"^(run = |\[run\])", example, re.M)
        (tmp_path / "run.toml").write_text(("" if is_whole else NEEDED) + example)
        words = [tickscope, "run", "run.toml", "--check"]
        checked = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert checked.returncode == 0, (example, checked.stderr)


def test_the_readmes_sql_gives_the_quantile_of_the_table(tickscope, swinging_run):
    sql = re.search(r"^```sql\n(.*?)^```", (TREE / "README.md").read_text(), re.M | re.S)[1]
    shown = json.loads(said(tickscope, "show", swinging_run, "--json"))
    stage = next(stage for stage in shown["stages"] if stage["stage"] == "client.send>server.received")
    said(tickscope, "show", swinging_run)  # which keeps the durations
    found = duckdb.sql(sql.replace("RUN/durations/rho=50ppm", f"{swinging_run}/durations/rho=*")).fetchall()
    assert found == [(stage["p99"]["ticks"],)]
