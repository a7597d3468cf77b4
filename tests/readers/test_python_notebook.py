"""The notebook on the run that is kept beside it gives the figures that the command prints."""

import importlib.util
import json
import subprocess
import sys

import pytest
from conftest import TREE

NOTEBOOKS = TREE / "python/notebooks"
RUN = NOTEBOOKS / "echo"


@pytest.fixture(scope="module")
def shown(request):
    command = request.getfixturevalue("tickscope")
    return json.loads(subprocess.run([command, "show", RUN, "--json"], check=True, capture_output=True).stdout)


@pytest.fixture(scope="module")
def made():
    """What the notebook's cells define."""
    spec = importlib.util.spec_from_file_location("echo_notebook", NOTEBOOKS / "echo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _, definitions = module.app.run()
    return definitions


def test_the_notebook_runs_as_a_script_and_changes_nothing_that_was_measured():
    def files():
        return {path: path.read_bytes() for path in RUN.rglob("*.*") if path.is_file() and "durations" not in path.parts}

    before = files()
    subprocess.run([sys.executable, NOTEBOOKS / "echo.py"], check=True, capture_output=True)
    assert files() == before


def test_its_table_is_the_commands(made, shown):
    rows = made["stages"].to_arrow_table().to_pylist()
    assert [row["stage"] for row in rows] == [stage["stage"] for stage in shown["stages"]]
    for row, stage in zip(rows, shown["stages"], strict=True):
        assert row["count"] == stage["count"]
        for name, ns in (("p50_us", "ns"), ("p50_lo_us", "lo_ns"), ("p50_hi_us", "hi_ns")):
            assert row[name] == pytest.approx(stage["p50"][ns] / 1000)


def test_its_traces_sum_to_the_slowest_end_to_end(made, shown):
    hertz = shown["frequency"]["hertz"]
    slowest = [bar for bar in made["traces"].data if bar.y[0].startswith("slowest")]
    whole = made["run"].stage_durations("end-to-end").aggregate("max(estimate_ticks)").fetchall()[0][0]
    assert sum(bar.x[0] for bar in slowest) == pytest.approx(whole / hertz * 1e6)
    assert all(bar.error_x.array[0] >= 0 and bar.error_x.arrayminus[0] >= 0 for bar in slowest)


def test_its_boxes_have_the_medians_of_the_table(made, shown):
    for box, stage in zip(made["boxes"].data, shown["stages"], strict=True):
        assert box.name.startswith(stage["stage"])
        assert box.median[0] == pytest.approx(stage["p50"]["ticks"] / shown["frequency"]["hertz"] * 1e6)
        assert box.lowerfence[0] <= box.q1[0] <= box.median[0] <= box.q3[0] <= box.upperfence[0]


def test_its_histogram_holds_every_datagram(made, shown):
    assert sum(made["histogram"].data[0].y) == next(s["count"] for s in shown["stages"] if s["stage"] == "end-to-end")


def test_its_band_is_the_clock_map_of_the_table(made, shown):
    lower, upper, estimate = made["band"].data[-3:]
    assert all(lo <= middle <= hi for lo, middle, hi in zip(lower.y, estimate.y, upper.y, strict=True))
    assert made["widths"]["unknown"] == [clock_map["half_width_ns"] for clock_map in shown["clock_maps"]]
    assert made["widths"]["server-room"] <= made["widths"]["unknown"]
