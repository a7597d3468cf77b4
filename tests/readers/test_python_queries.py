"""The package's queries: rows in, query, rows out; and every column they give says its unit."""

import statistics

import duckdb
import pytest
from tickscope.portable import STATEMENTS
from tickscope.query import QUERIES, ask

FILES = sorted(path for folder in (QUERIES, STATEMENTS) for path in folder.iterdir())


def durations(values):
    rows = ", ".join(f"(0, {id}, 0, {value}, {value - 1}, {value + 2})" for id, value in enumerate(values))
    return duckdb.sql(f"select * from (values {rows}) t(kind, id, occurrence, estimate_ticks, lo_ticks, hi_ticks)")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_column_of_each_query_says_what_it_is(file):
    name, text = file.name, file.read_text()
    assert text.startswith("-- ")
    columns = text[text.rindex("\nselect") :].split("\nfrom ")[0].splitlines()[2:]
    assert columns
    for line in columns:
        column, _, comment = line.rpartition("-- ")
        assert len(comment) > 1, f"{name}: expected a comment, found '{line.strip()}'"
        for unit in ("ticks", "ns"):
            if column.rstrip(", ").endswith(f"_{unit}"):
                assert comment.startswith(unit), f"{name}: expected {unit}, found '{line.strip()}'"


def test_a_box_is_that_of_the_sorted_values():
    values = sorted([*range(100, 140), 3, 900])
    row = ask("box", durations(values), "stage_durations", "it's a > b").fetchall()[0]
    q1, median, q3 = (values[-(-len(values) * quarter // 4) - 1] for quarter in (1, 2, 3))
    reach = (q3 - q1) * 3 // 2
    inside = [value for value in values if q1 - reach <= value <= q3 + reach]
    assert row == ("it's a > b", q1, median, q3, inside[0], inside[-1], 2)


def test_a_histogram_holds_every_value_in_the_bin_that_is_its():
    values = [int(statistics.NormalDist(0, 1000).inv_cdf((i + 0.5) / 5000)) for i in range(5000)] + [100_000, -70_000]
    bins = ask("histogram", durations(values), "stage_durations").fetchall()
    assert sum(count for *_, count in bins) == len(values)
    for start, end, count in bins:
        assert count == sum(start <= value < end for value in values)
    assert len({end - start for start, end, _ in bins}) == 1
    assert len(bins) > 30


def test_a_histogram_of_one_value_is_one_bin():
    assert ask("histogram", durations([5] * 10), "stage_durations").fetchall() == [(5, 6, 10)]


def test_a_stages_durations_leave_out_the_traces_without():
    wide = duckdb.sql('select 0 as kind, 7 as id, 0 as occurrence, 5 as "a""b", 4 as "a""b.lo", 6 as "a""b.hi" union all select 0, 8, 0, null, null, null')
    assert ask("stage_durations", wide, "durations", 'a"b').fetchall() == [(0, 7, 0, 5, 4, 6)]


def test_a_query_reads_the_table_it_was_put_to_whatever_is_asked_later():
    first = ask("box", durations([1]), "stage_durations", "x")
    ask("box", durations([2]), "stage_durations", "x").fetchall()
    assert first.fetchall()[0][2] == 1
