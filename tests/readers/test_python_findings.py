"""A run that contradicts itself warns whatever figures are asked of it."""

import shutil

import pytest
import tickscope
from conftest import TREE

GOLDEN = TREE / "crates/store/tests/golden/v1"


@pytest.mark.parametrize("ask", ["stages", "durations", "clock_map"])
def test_every_way_to_figures_warns_of_a_contradiction(tmp_path, ask):
    place = shutil.copytree(GOLDEN, tmp_path / "run") / "run.json"
    place.write_text(place.read_text().replace('"invariant": true', '"invariant": false'))
    run = tickscope.open(place.parent)
    for _ in range(2):
        with pytest.warns(tickscope.FindingWarning, match="a counter that runs at one rate"):
            run.clock_map("server") if ask == "clock_map" else getattr(run, ask)()
    assert run.figures()["faults"] == []
