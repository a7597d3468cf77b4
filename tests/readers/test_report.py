"""The page of a run as a file: what it says agrees with the table, fits into its size, and no text of a run is markup in it."""

import collections
import fcntl
import hashlib
import html
import html.parser
import json
import os
import re
import struct
import subprocess
from fractions import Fraction

import duckdb
import lossy_run
import pytest
from conftest import TREE

MOST_BYTES = 2_000_000
VENDORED = TREE / "crates/show/vendor/plotly"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """In a folder whose name is not harmless either."""
    return lossy_run.make(tmp_path_factory.mktemp("runs") / "a run<img src=x onerror='window.owned = 3'>&")


@pytest.fixture(scope="module")
def page(tickscope, run):
    said = subprocess.run([tickscope, "report", run], check=True, capture_output=True, text=True).stdout
    assert said == f"report: {run / 'report.html'}\n"
    return (run / "report.html").read_text()


class Read(html.parser.HTMLParser):
    """Elements with their attributes, the cells of tables by their rows, and all text outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.rows, self.text, self.inside = [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "br", "input", "img"):
            self.inside.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.inside.pop() == tag

    def handle_data(self, text):
        if self.inside and self.inside[-1] in ("script", "style"):
            return
        self.text.append(text)
        if {"td", "th"} & set(self.inside):
            self.rows[-1][-1] += text


def test_the_page_is_one_file_that_asks_for_nothing(page):
    assert len(page.encode()) <= MOST_BYTES
    for tag, attributes in Read(page).elements:
        for name in ("src", "href"):
            target = attributes.get(name)
            assert target is None or target.startswith("#") or target == "data:,", (tag, attributes)
    assert "default-src 'none'" in page


def test_no_text_of_a_run_becomes_markup(page):
    read = Read(page)
    assert read.inside == [], "every element is closed where it should be"
    assert "img" not in {tag for tag, _ in read.elements}
    assert sum(tag == "script" for tag, _ in read.elements) == 3
    assert not [attributes for _, attributes in read.elements if any(name.startswith("on") for name in attributes)]
    text = "".join(read.text)
    assert text.count(lossy_run.HOSTILE) == 1 + 2 + 3, "an event, an assumption in brief and whole, three processors"


def test_a_page_appears_complete_or_not_at_all(tickscope, run, tmp_path):
    place = tmp_path / "page.html"
    subprocess.run([tickscope, "report", run, "--out", place], check=True, capture_output=True)
    assert place.read_text().endswith("</html>\n") and [file.name for file in tmp_path.iterdir()] == ["page.html"]
    nowhere = place / "other.html"
    refused = subprocess.run([tickscope, "report", run, "--out", nowhere], capture_output=True, text=True)
    assert refused.returncode == 2 and "expected a file in a directory that is there" in refused.stderr


def outward(ticks, up):
    """Hundredths of a microsecond, rounded away from the truth, by exact fractions."""
    exact = Fraction(ticks * 100_000_000, lossy_run.HERTZ)
    return -((-exact).__floor__()) if up else exact.__floor__()


def hundredths(text):
    return int(text.replace("\u2212", "-").replace(".", ""))


def test_the_table_of_stages_says_what_show_says_with_bounds_rounded_outward(tickscope, run, page):
    shown = json.loads(subprocess.run([tickscope, "show", run, "--json"], check=True, capture_output=True).stdout)
    named = lambda row: re.sub(r"^\d+ ", "", row[0].replace("branch", "").strip())
    rows = {named(row): row for row in Read(page).rows if len(row) == 12}
    assert len(rows) == 1 + len(shown["stages"]), "a head, and a row a stage"
    for stage in shown["stages"]:
        name = "end to end client.send → server.delivered" if stage["stage"] == "end-to-end" else f"{stage['from']} → {stage['to']}"
        row = rows[name]
        assert int(row[1].replace("\u202f", "")) == stage["count"]
        part = stage["share"] if stage["role"] == "path" else None
        assert (row[2] == "–") == (part is None)
        if part:
            shown, _, reach = row[2].partition(" ±")
            shown = float(shown.removesuffix("\u00a0%"))
            assert shown == pytest.approx(100 * part["ratio"], abs=0.51)
            off = max(shown - 100 * part["lo_ratio"], 100 * part["hi_ratio"] - shown)
            assert int(reach or 1) >= off - 0.51 and (reach or off < 1.1), "a bound is nowhere unstated"
        for cell, quantile in zip(row[3:7], (stage[name] for name in ("p50", "p99", "p999", "max")), strict=True):
            estimate, bounds = cell.split(" ", 1)
            assert abs(Fraction(hundredths(estimate), 100) - Fraction(quantile["ticks"] * 1_000_000, lossy_run.HERTZ)) <= Fraction(1, 200)
            assert quantile["lo_ticks"] < quantile["hi_ticks"], "a reading is never exact"
            lo, hi = re.fullmatch(r"\[(.*),\u00a0(.*)\]", bounds).groups()
            assert (hundredths(lo), hundredths(hi)) == (outward(quantile["lo_ticks"], False), outward(quantile["hi_ticks"], True))
        for cell, bound in zip(row[7:9], (stage["common"], stage["reading"]), strict=True):
            shown = [hundredths(part.lstrip("±\u2212+")) for part in cell.split()]
            below, above = shown if len(shown) == 2 else shown * 2
            assert (below, above) == tuple(outward(bound[f"{side}_ticks"], True) for side in ("below", "above"))
        assert hundredths(row[10]) == outward(stage["relative"]["run_ticks"], True)


def test_the_first_sentences_say_what_was_measured_which_stage_is_slowest_and_how_sure_that_is(tickscope, run):
    said = json.loads(subprocess.run([tickscope, "report", run, "--json"], check=True, capture_output=True).stdout)
    measured, slowest, relay, server, state = said["headline"]
    assert measured.startswith("2\u202f963 traces took ") and " from client.send to server.delivered at the median [" in measured
    assert "not resolved between relay.sent → server.received" in slowest and "client.send → relay.received" in slowest
    assert relay.startswith("relay.tsc is known to ±") and server.startswith("server.tsc is known to ±")
    assert state == "Mind: 37\u00a0stamps lost; 37\u00a0traces lack a point of the path."
    assert said["table"]["slowest"] == ["relay.sent>server.received", "client.send>relay.received"]


def test_each_column_over_time_has_the_bounds_of_the_traces_that_began_in_it(tickscope, run, tmp_path):
    said = json.loads(subprocess.run([tickscope, "report", run, "--json"], check=True, capture_output=True).stdout)
    overview, stages = said["figures"]["overview"], [stage["stage"] for stage in said["figures"]["stages"]]
    file = tmp_path / "durations.csv"
    subprocess.run([tickscope, "export", run, "--csv", file], check=True, capture_output=True)
    measured = f"from read_csv('{file}') where outcome = 'measured'"
    rows = duckdb.sql(f"select id, stage, estimate_ticks, lo_ticks, hi_ticks {measured}").fetchall()
    # One trace a millisecond, by the counter that is the reference.
    column = lambda number: number * lossy_run.HERTZ // 1000 // overview["column_ticks"]
    assert sum(overview["holes"]) == len(lossy_run.LOST) and overview["holes"][column(2010)] > 0
    assert overview["holes_elsewhere"] == 0 and sum(overview["traces"]) == lossy_run.TRACES - len(lossy_run.LOST)
    assert [stages[of["stage"]] for of in overview["stages"]][:2] == ["end-to-end", "client.send>relay.received"]
    for of in overview["stages"]:
        inside = collections.defaultdict(list)
        for number, stage, *ends in rows:
            if stage == stages[of["stage"]] and number not in lossy_run.LOST:
                inside[column(number)].append(ends)
        for number, shown in enumerate(of["columns"]):
            assert (shown is None) == (number not in inside)
            ends = [sorted(end) for end in zip(*inside[number])]
            for (estimate, below, above), rank in zip(shown or [], (0, (len(inside[number]) - 1) // 2, -1)):
                exact, lo, hi = (end[rank] for end in ends)
                assert estimate == exact and estimate - below <= lo and hi <= estimate + above
                assert below + above <= (hi - lo) * (1 + 1e-6) + 2, "no wider than 24 bits make it"


def test_the_slowest_trace_its_cause_and_the_lost_ones_are_told(tickscope, run):
    said = json.loads(subprocess.run([tickscope, "report", run, "--json"], check=True, capture_output=True).stdout)
    traces = said["figures"]["traces"]
    slow = traces["worst"][0]
    cause = said["figures"]["stages"][slow["cause"]["stage"]]["stage"]
    assert (slow["id"], cause, slow["cause"]["resolved"]) == (lossy_run.SLOW, "relay.received>relay.sent", True)
    assert [trace["id"] for trace in traces["incomplete"]] == list(lossy_run.LOST)
    took = [trace["stages"][4][0] for trace in traces["worst"]]
    assert took == sorted(took, reverse=True) and len(took) == 1000


def test_a_run_that_contradicts_itself_gets_its_page_and_exit_code_3(tickscope, tmp_path):
    run = lossy_run.make(tmp_path / "run", slow_us=-50)
    ended = subprocess.run([tickscope, "report", run], capture_output=True, text=True)
    assert ended.returncode == 3, ended.stderr
    page = (run / "report.html").read_text()
    body = page[page.index("<main>") :]
    box, stages = body.index('<div class="alarm finding"'), body.index('id="stages"')
    wide = os.environ | {"COLUMNS": "1000"}
    shown = subprocess.run([tickscope, "show", run], capture_output=True, text=True, env=wide)
    found = shown.stdout.split("\n\n")[0].removeprefix("finding: ").splitlines()
    assert found[0].startswith(f"{len(found) - 1} impossible durations in {len(found) - 1} stages: "), found
    items = [html.escape(line.strip()).replace("&#x27;", "&#39;") for line in found]
    assert box < stages and "".join(f"<li>{item}</li>" for item in items) in body[box:stages].replace("\n", "")
    assert 'class="path"' not in body and "at the median" not in body[:stages], "no headline of what cannot be"


def test_a_run_without_an_end_says_so_first(tickscope, tmp_path):
    run = lossy_run.make(tmp_path / "run")
    manifest = json.loads((run / "run.json").read_text())
    ended = manifest.pop("ended_unix_ms")
    (run / "run.json").write_text(json.dumps(manifest))
    make = lambda: subprocess.run([tickscope, "report", run], capture_output=True).returncode
    shown = lambda: "".join(Read((run / "report.html").read_text()).text)
    assert make() == 1  # nobody knows what it lost
    assert "This run was cut off" in shown() and shown().index("This run was cut off") < shown().index("at the median")
    with (run / "run.lock").open("w+") as lock:
        fcntl.fcntl(lock, 37, struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 1, 0))  # F_OFD_SETLK: as who writes a run does
        assert make() == 0
        assert "This run goes on" in shown()
    (run / "run.json").write_text(json.dumps(manifest | {"ended_unix_ms": ended}))
    assert make() == 0
    assert "This run" not in shown()


def test_the_page_says_what_ran(tickscope, tmp_path):
    run = lossy_run.make(tmp_path / "folder")
    manifest = json.loads((run / "run.json").read_text())
    file = '[run]\nname = "two hops"\n# what it is for\n'
    manifest |= {"run_file": file, "revision": "0123abc-dirty", "tickscope": "9.8.7"}
    for node in manifest["nodes"]:
        node |= {"host": f"{node['name']}.example", "command": ["./serve", "--greeting", "it's me"]}
    (run / "run.json").write_text(json.dumps(manifest))
    subprocess.run([tickscope, "report", run], check=True, capture_output=True)
    page = (run / "report.html").read_text()
    said = "".join(Read(page).text)
    assert "<h1>two hops</h1>" in page
    command = "./serve --greeting 'it'\\''s me'"
    for words in (file, "0123abc-dirty", "9.8.7", "relay.example", command, "Linux 6.1.0", "in the folder folder"):
        assert words in said, words


def test_the_vendored_library_is_the_one_its_page_describes():
    described = dict(re.findall(r"SHA-256 of `([^`]+)` \| `([0-9a-f]{64})`", (VENDORED / "README.md").read_text()))
    assert set(described) == {"plotly-cartesian.min.js", "LICENSE"}
    for name, digest in described.items():
        assert hashlib.sha256((VENDORED / name).read_bytes()).hexdigest() == digest
