"""Age of information, recomputed from the CSV of a run with exact fractions."""

import csv
import json
import subprocess
from fractions import Fraction

FROM, TO, BACK = "client.send", "server.received", "client.response"
STAGE = f"{FROM}>{TO}"


def age(tickscope, run, *words, code=0):
    found = subprocess.run([tickscope, "show", run, "--age", *words], capture_output=True, text=True)
    assert found.returncode == code, found.stderr
    return found


def rows(tickscope, run, tmp_path, stage):
    file = tmp_path / "run.csv"
    subprocess.run([tickscope, "export", run, "--csv", file], check=True, capture_output=True)
    with open(file) as text:
        return [row for row in csv.DictReader(text) if row["stage"] == stage]


def sawtooth(arrivals, begin, end):
    """Average age and mean peak of (arrival, generation) from `begin` to `end`."""
    area, peaks, freshest, at = Fraction(0), [], None, begin
    for arrival, generated in sorted(arrivals, key=lambda pair: (pair[0], -pair[1])):
        if arrival > at:
            area += Fraction((arrival - at) * (arrival + at - 2 * freshest), 2)
            at = arrival
        if freshest is None or generated > freshest:
            if freshest is not None and begin < arrival <= end:
                peaks.append(arrival - freshest)
            freshest = generated
    return area / (end - begin), Fraction(sum(peaks), len(peaks))


def test_an_age_is_what_the_csv_of_the_run_makes_of_it(tickscope, swinging_run, tmp_path):
    """Both points of the way back and forth are stamped by the reference, whose ticks the trace table has."""
    import duckdb

    limit = "--limit=1ms"
    found = json.loads(age(tickscope, swinging_run, FROM, BACK, limit, "--json").stdout)["age"]
    columns = f'"{FROM}", "{BACK}"'
    known = f'"{FROM}" is not null and "{BACK}" is not null'
    files = f"{swinging_run}/traces/*.parquet"
    stamps = duckdb.sql(f"select {columns} from read_parquet('{files}', union_by_name = true) where {known}").fetchall()
    begin, end = found["window_ticks"]
    average, peak = sawtooth([(back, sent) for sent, back in stamps], begin, end)
    for exact, told in [(average, found["over_keys"]["average"]), (peak, found["over_keys"]["peak"])]:
        assert abs(exact - told["estimate_ticks"]) <= 1
        assert told["lo_ticks"] <= exact <= told["hi_ticks"]
    durations = [int(row["estimate_ticks"]) for row in rows(tickscope, swinging_run, tmp_path, "end-to-end")]
    assert len(durations) == found["updates"]["received"] == len(stamps)
    assert sorted(durations) == sorted(back - sent for sent, back in stamps)


def test_the_one_way_age_is_that_of_its_delays(tickscope, swinging_run, tmp_path):
    """With A on the reference, an arrival is the generation and the delay that the CSV has."""
    import duckdb

    found = json.loads(age(tickscope, swinging_run, FROM, TO, "--json").stdout)["age"]
    files = f"{swinging_run}/traces/*.parquet"
    ids = f"select id, \"{FROM}\" from read_parquet('{files}', union_by_name = true)"
    sent = dict(duckdb.sql(ids).fetchall())
    delays = [row for row in rows(tickscope, swinging_run, tmp_path, STAGE) if row["estimate_ticks"]]
    arrivals = [(sent[int(row["id"])] + int(row["estimate_ticks"]), sent[int(row["id"])]) for row in delays]
    begin, end = found["window_ticks"]
    average, peak = sawtooth(arrivals, begin, end)
    over = found["over_keys"]
    assert abs(average - over["average"]["estimate_ticks"]) <= 1 and abs(peak - over["peak"]["estimate_ticks"]) <= 1
    # How wide is the machine's to say: where probes were late, between two delays, the clock is known less.
    assert over["average"]["lo_ticks"] < average < over["average"]["hi_ticks"]


def test_points_that_are_not_there_or_the_other_way_round_are_told(tickscope, swinging_run):
    wrong = age(tickscope, swinging_run, "server.receive", FROM, code=2)
    assert "did you mean 'server.received'?" in wrong.stderr and wrong.stdout == ""
    assert "expected two points" in age(tickscope, swinging_run, FROM, FROM, code=2).stderr
    no_unit = age(tickscope, swinging_run, FROM, TO, "--limit=5", code=2)
    assert "expected a duration from 1ns to 86400s" in no_unit.stderr
    reverse = age(tickscope, swinging_run, BACK, FROM, code=3)
    assert "received at client.send before they were generated" in reverse.stdout + reverse.stderr


def test_a_page_has_a_chapter_on_the_age_where_two_points_are_named(tickscope, swinging_run, browser, tmp_path):
    def page_of(*words, code=0):
        out = tmp_path / "page.html"
        done = subprocess.run([tickscope, "report", swinging_run, "--out", out, *words], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        return out

    assert 'id="age"' not in page_of().read_text()
    told = age(tickscope, swinging_run, FROM, TO, "--limit=1ms").stdout.splitlines()[0]
    out = page_of("--age", FROM, TO, "--limit", "1ms")
    page = browser.new_page()
    page.set_default_timeout(200_000)  # the processors may be busy with other tests
    page.goto(out.as_uri())
    for width, scheme in [(1400, "light"), (400, "dark")]:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        chapter = page.locator("#age")
        assert chapter.locator("p").first.inner_text().replace("\xa0", " ") == told.replace("\xa0", " ")
        assert chapter.locator("th", has_text="above 1 ms").count() == 1
        drawn = chapter.locator("svg[role=img]")
        assert drawn.count() == 2
        assert "Age at server.received of what client.send" in drawn.first.get_attribute("aria-label")
        assert chapter.locator("svg polyline").count() == chapter.locator("svg polygon").count() == 2
        right = "one => one.getBoundingClientRect().right"
        rightmost = f"chapter => Math.max(...[...chapter.querySelectorAll('*')].map({right}))"
        assert chapter.evaluate(rightmost) <= width
        assert page.locator("nav a[href='#age']").is_visible()
    page.close()
    assert "received at client.send before they were generated" in page_of("--age", BACK, FROM, code=3).read_text()
