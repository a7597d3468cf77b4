"""The rows of the forwarder's figures are what its trials counted, and a trial that was refused is in none."""

import importlib.util
import math
import pathlib
import sys
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("figures", ROOT / "targets/forwarder/figures.py")
sys.path.insert(0, str(ROOT / "targets/forwarder"))
figures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(figures)

LINE = {"achieved_pps": 1_100_000, "delay_mean_ns": 2000, "misaddressed_share": 0.0051, "data_drop_share": None}
LINE |= {"fib_bytes": 4096, "versions_most": 51}


def answers(*words):
    """What `tickscope show` says of a sweep of one rate, one of whose two trials was refused."""
    if "--age" in words:
        assert words == ("sweep/trial-0001", "--age", "node.generated", "node.received")
        keys = [{"key": 0, "ages": {"average": {"estimate_ticks": 20_000}}}, {"key": 1, "ages": None}]
        return {"hertz": 2_000_000_000, "age": {"keys": keys}}
    values = [1000, "rwl-spin"]
    made = {"number": 1, "values": values, "state": "made", "folder": "trial-0001", "why": None}
    refused = {"number": 2, "values": values, "state": "failed", "folder": None, "why": "it was stalled"}
    age = {"ticks": 5000, "lo_ticks": 4990, "hi_ticks": None, "keys_with_few": 7}
    numbers = [number and {"value": float(number)} for number in LINE.values()]
    figures_of = {"figures": [age, age | {"ticks": 20_000, "keys_with_few": 0}], "numbers": numbers}
    measures = [{"age": ["node.generated", "node.received"], "of": "average", **more} for more in ({}, {"key": 0})]
    table = {"name": "figure-4", "hertz": 2_000_000_000, "parameters": ["rate", "fib"], "measures": measures}
    table |= {"fields": [{"field": name, "node": None, "unit": None} for name in LINE]}
    return table | {"points": [{"values": values, "repetitions": 1, "of": 2} | figures_of], "trials": [made, refused]}


def test_a_row_has_its_figures_its_counts_and_the_share_by_the_formula(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(figures, "asked", lambda _, *words: answers(*words))
    monkeypatch.setattr("sys.argv", ["figures.py", "sweep", "--svg", str(tmp_path / "f.svg")])
    with pytest.raises(SystemExit) as ended:
        figures.main()
    head, row, *rest = capsys.readouterr().out.splitlines()
    row = dict(zip(head.split("\t"), row.split("\t"), strict=True))
    assert (row["age of node.received, us"], row["trials"], row["keys < 30"]) == ("2.50", "1 of 2", "7")
    of_all = sum(1 / rank for rank in range(1, 1001))
    shares = [1 / rank / of_all for rank in range(1, 1001)]
    assert row["misaddressed"] == "0.00510"
    assert row["by formula"] == f"{sum(p * (1 - math.exp(-p * 0.1 * 2)) for p in shares):.5f}"
    assert (row["age of user 0, us"], row["versions"], row["table, bytes"]) == ("10.00", "51", "4096")
    assert (row["sent/s"], row["data drops"]) == ("1100000", "-")
    assert rest[0] == "in no figure: trial 2, [1000, 'rwl-spin']: it was stalled"
    assert any(line.startswith("the paper, figure 4(f)") for line in rest)
    assert ended.value.code == 1
    assert "4(c) age of each user at 1000, rwl-spin" in (tmp_path / "f.svg").read_text()


def row(rate, age=None, fib="rwl-spin", refused=(), cdr=0.1, drops=None, **counts):
    """A point as figures.py has it, with an interval for its ages, and for its share of dropped data."""
    counts = dict.fromkeys([*figures.COUNTED, *figures.NUMBERS]) | counts
    values = {"rate": rate, "fib": fib, "cdr": cdr}
    found = {"values": values, "trials": "1 of 1", "ages": [age, age], "user_0": age, "counts": counts}
    return found | {"refused": list(refused), "spreads": {"data_drop_share": drops} if drops else {}}


def test_rcu_is_lower_only_at_the_highest_rate_of_both_and_where_intervals_leave_no_doubt():
    def found(*rows):
        return figures.lower_under_rcu(rows, 0.1, lambda one: one["ages"][0], "us")

    low = [row(1, [5, 4, 6]), row(1, [9, 8, 10], "rcu")]
    rcu = row(2, [5, 4, 6], "rcu")
    assert found(*low, row(2, [9, 8, 10]), rcu) == "seen at 2: 5.00 us under rcu, 9.00 us under rwl-spin"
    assert found(*low).startswith("NOT SEEN at 1")
    assert found(row(1, [5, 4, 6]), row(1, [5, 4, 6], "rcu")).startswith("not resolved at 1")
    stalled = row(2, None, refused=["stalled for 2 %"])
    assert found(*low, stalled, rcu).endswith("; above that refused: rwl-spin at 2: stalled for 2 %")
    assert found(stalled) == "refused: they have no rate in common; rwl-spin at 2: stalled for 2 %"
    assert found() == "refused: they have no rate in common, nobody ran them"


def test_drops_that_nobody_has_are_no_claim():
    def found(spin, rcu):
        rows = [row(1, drops=spin), row(1, None, "rcu", drops=rcu)]
        return figures.lower_under_rcu(rows, 0.1, lambda one: one["spreads"].get("data_drop_share"), "%")

    assert found([0.03, 0.02, 0.04], [0.0, 0.0, 0.01]) == "seen at 1: 0.00% under rcu, 3.00% under rwl-spin"
    assert found([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]).startswith("refused: no data was dropped at any rate")


def test_more_moves_make_it_older_at_each_rate_or_that_is_refused():
    few = [row(rate, [5, 4.5, 5.4], cdr=0.01) for rate in (1, 2)]
    found = figures.higher_at_more_moves([*few, row(1, [6, 5.5, 7]), row(2, [5, 4.9, 5.1])], "rwl-spin")
    assert found.startswith("not resolved at 1 of 2 rates, 0.0% to 20.0% more; 8.9 % are of fewer data packets")
    assert figures.higher_at_more_moves([*few, row(1, [4, 3, 4.4])], "rwl-spin").startswith("NOT SEEN at 0 of 1")
    late = row(1, None, refused=["late"])
    assert figures.higher_at_more_moves([*few, late], "rwl-spin") == "refused: no rate has both: late"


def test_ages_at_the_table_are_held_against_users_whose_updates_need_no_time():
    closed = 500.5 * sum(1 / rank for rank in range(1, 1001))  # us at a million moves a second
    rows = [
        row(1e6, [closed * share, 1, 2], achieved_pps=11e6, keys=keys)
        for share, keys in ((1.049, "1000"), (0.951, "1000"), (0.8, "417 of 1000"))
    ]
    found = figures.as_the_closed_form(rows)
    assert found == "2 of 3 rows; 1000000.0, rwl-spin, 0.1: 0.800 of it, over 417 of 1000 users"
    assert figures.keys_of([{"keys": 1000, "keys_of": 1000}, {"keys": 3, "keys_of": 7}, {"keys": None}]) == "3 of 7"
    assert figures.keys_of([{"keys": 7, "keys_of": 7}, None]) == "7"
    lines = [row(1, [100, 99, 101]), row(1, [104, 99, 101], "rcu"), row(2, [50, 49, 51]), row(2, [40, 39, 41], "rcu")]
    assert figures.alike(lines[:2], 0.1) == "seen at 1 rates"
    assert figures.alike(lines, 0.1) == "NOT SEEN: 0.800 at 2"
    claims = dict(figures.claims_of_moves([*lines, row(1, None, "seqlock", ["stalled"])]))
    assert claims["the age of location updates falls with R under rwl-spin, CDR 0.1"] == "seen"
    lacks = "refused: fewer than two rates have an age; at 1: stalled"
    assert claims["the age of location updates falls with R under seqlock, CDR 0.1"] == lacks


def test_each_panel_of_figure_4_has_a_verdict():
    verdicts = {claim[:4] for claim, verdict in figures.claims_of_4([row(1, [5, 4, 6])]) if verdict}
    assert verdicts >= {"4(a)", "4(b)", "4(d)", "4(e)", "4(f)"}


@pytest.mark.parametrize(
    ("ages", "falls", "rises"),
    [
        ([[9, 8, 10], [5, 4, 6], [9, 8, 10]], "seen", "seen"),
        ([[9, 8, 10], [8.5, 7, 9], [8.6, 8, 9]], "not resolved", "not resolved"),
        ([[9, 8, 10], [5, 4, 6], [4, 3, 3.9]], "seen", "NOT SEEN"),
        ([[3, 2, 4], [9, 8, 10]], "NOT SEEN", "seen"),
        ([[9, 8, 10], None, [9, None, None]], "NOT SEEN", "not resolved"),
        ([[9, 8, 10], None], "not judged: fewer than two rates have an age", "not judged"),
    ],
)
def test_an_age_falls_or_rises_where_intervals_leave_no_doubt(ages, falls, rises):
    rows = [row(rate, age) for rate, age in enumerate(ages, 1)]
    assert figures.falls_then_rises(rows, lambda one: one["user_0"]) == (falls, rises)


def test_the_lock_that_parks_collapses_or_is_refused_with_its_reason():
    spins = [row(rate, [5, 4, 6]) for rate in (1, 2)]
    park = {"fib": "rwl-park"}
    assert figures.park_collapses([*spins, row(1, [70, 61, 80], **park)]).startswith("seen: 70 us at 1")
    assert figures.park_collapses([*spins, row(1, [59, 50, 60], **park)]) == "NOT SEEN"
    stalled = row(2, None, refused=["stalled for 38 %"], **park)
    assert figures.park_collapses([]).startswith("refused: rwl-park and rwl-spin have no rate in common")
    assert figures.park_collapses([*spins, stalled]) == "refused at 2, where rwl-spin is not: stalled for 38 %"


def test_a_share_beyond_the_formula_has_a_measured_reason_or_is_not_explained():
    def found(share, **counts):
        counts = {"achieved_pps": 4e6, "delay_mean_ns": 1000, "data_drop_share": 0.0} | counts
        return figures.misaddressed([row(1, misaddressed_share=share, by_formula=0.01, **counts)])

    assert found(0.0129) == found(0.0071) == "1 of 1 rows"
    assert "1.31 of it, NOT EXPLAINED" in found(0.0131)
    assert "0.4 packets under way, evenly paced" in found(0.005, delay_mean_ns=100)
    assert "2.0% of data dropped" in found(0.02, data_drop_share=0.02)


def test_panels_show_each_primitive_in_one_colour_and_say_where_none_may_be_drawn(tmp_path):
    rows = [row(1e6, [9, 8, 10]), row(2e6, [5, 4, None]), row(1e6, None, "rcu"), row(2e6, [7, 6, 8], "rcu")]
    rows[3]["counts"]["data_drop_share"] = 0.01  # of rcu alone
    figures.panels.draw(tmp_path / "f.svg", "figure-4", rows, ["<received>", "written"])
    root = xml.etree.ElementTree.parse(tmp_path / "f.svg").getroot()
    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert "4(d) average age at <received>, CDR 0.1" in texts
    assert texts.count("no trial may be used") == 2  # nothing was counted
    figures.panels.draw(tmp_path / "g.svg", "location-age", rows, ["written"])
    assert "4(d)" not in (tmp_path / "g.svg").read_text(), "it is no panel of the paper's"
    circles = [one.get("fill") for one in root.iter("{http://www.w3.org/2000/svg}circle")]
    spin, rcu = figures.panels.COLOURS[:2]
    # In the legend, in each of three panels of ages, and where data was dropped.
    assert (circles.count(spin), circles.count(rcu)) == (1 + 3 * 2, 1 + 3 * 1 + 1)
