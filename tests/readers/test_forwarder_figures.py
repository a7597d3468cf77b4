"""The rows of the forwarder's figures are what its trials counted, and a trial that was refused is in none."""

import importlib.util
import json
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("figures", ROOT / "targets/forwarder/figures.py")
figures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(figures)

LINE = {"achieved_pps": 1_100_000, "cdr": 0.1, "users": 1000, "delay_mean_ns": 2000, "misaddressed_share": 0.0051}


def answers(*words):
    """What `tickscope show` says of a sweep of one rate, one of whose two trials was refused."""
    if "--age" in words:
        return {"age": {"keys_with_few": 7}}
    if words[-1] == "sweep/trial-0001":
        return {"events": [{"what": "target", "text": f"command of node printed: {json.dumps(LINE)}"}]}
    made = {"number": 1, "values": [1000], "state": "made", "folder": "trial-0001", "why": None}
    refused = {"number": 2, "values": [1000], "state": "failed", "folder": None, "why": "it was stalled"}
    point = {"values": [1000], "repetitions": 1, "of": 2, "figures": [{"ticks": 5000}]}
    measures = [{"age": ["node.generated", "node.received"], "of": "average"}]
    table = {"name": "figure-4", "hertz": 2_000_000_000, "parameters": ["rate"], "measures": measures}
    return table | {"points": [point], "trials": [made, refused]}


def test_a_row_has_its_figures_its_counts_and_the_share_by_the_formula(monkeypatch, capsys):
    monkeypatch.setattr(figures, "asked", lambda _, *words: answers(*words))
    monkeypatch.setattr("sys.argv", ["figures.py", "sweep"])
    with pytest.raises(SystemExit) as ended:
        figures.main()
    head, row, *rest = capsys.readouterr().out.splitlines()
    row = dict(zip(head.split("\t"), row.split("\t"), strict=True))
    assert (row["age of node.received, us"], row["trials"], row["keys < 30"]) == ("2.50", "1 of 2", "7")
    assert (row["misaddressed"], row["by formula"]) == ("0.00510", f"{0.0293 * 0.1 * 2:.5f}")
    assert (row["sent/s"], row["data drops"]) == ("1100000", "-")
    assert rest[0] == "in no figure: trial 2, [1000]: it was stalled"
    assert any(line.startswith("the paper, figure 4(f)") for line in rest)
    assert ended.value.code == 1
