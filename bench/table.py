"""The table of stages, bounds and all, beside DuckDB's and Polars' plain p50 and p99 of the same; and asked again."""

import hashlib
import json
import pathlib
import sys
import tempfile

from figures import at_most, figure, median
from processes import BUILD, RELEASE, ROOT, filesystem, measured, output_of

PYTHON = ROOT / ".venv" / "bin" / "python"  # has DuckDB, as `make test` makes it
REQUIREMENTS = ROOT / "bench" / "requirements-table.txt"
POLARS = BUILD / "polars"
IDS, ROUNDS = 10_000_000, 5
MOST_AGAIN_S, MOST_GB = 0.5, 1
RIVALS = {"DuckDB": "duckdb", "Polars": "polars"}


def measure_table(options):
    """Each round asks all, one after the other, of one run: the speed of a machine changes from minute to minute."""
    fetch_polars()
    rounds = []
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        run = pathlib.Path(folder) / "run"
        output_of([RELEASE / "examples" / "large_run", "make", run, options.of(IDS)])
        for number in range(ROUNDS):
            rounds.append(asked(run, pathlib.Path(folder) / f"cache-{number}"))
    rows = rows_of(rounds, f"10 points x {options.of(IDS) / 1e6:g} M ids")
    return rows, {"rounds": rounds, "files on": filesystem(options.scratch)}


def fetch_polars():
    """Polars and its runtime, by their digests, into a folder of their own."""
    wanted, said = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest(), POLARS / "requirements.sha256"
    if said.exists() and said.read_text() == wanted:
        return
    install = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    output_of([*install, "--require-hashes", "--target", POLARS, "-r", REQUIREMENTS])
    said.write_text(wanted)


def asked(run, cache):
    """By who is asked: wall and processor seconds, and peak memory."""
    show = ["env", f"XDG_CACHE_HOME={cache}", RELEASE / "tickscope", "show", run, "--json"]
    first, anew = measured(show)
    second, again = measured(show)
    found = {"table": anew, "again": again}
    if first != second:
        sys.exit("bench: expected the answer once more, found another")
    if not any(cache.glob("tickscope/answers/*")):
        sys.exit(f"bench: expected an answer that is kept in {cache}, found none")
    for name, module in RIVALS.items():
        ask = [PYTHON, "bench/table_rivals.py", module, run / "traces"]
        answer = json.loads(output_of(ask, environment={"PYTHONPATH": str(POLARS)}))
        expect_alike(json.loads(first), answer.pop("stages"), name)
        found[name] = answer
    return found


def expect_alike(table, stages, rival):
    """Between points of the reference's node the estimates are plain differences: the rival must find the same."""
    ours = {stage["stage"]: [stage[name]["ticks"] for name in ("p50", "p99")] for stage in table["stages"]}
    alike = [name for name in stages if name.count("client") == 2]
    if len(alike) < 2 or any(ours[name] != stages[name] for name in alike):
        found = [stages[name] for name in alike]
        sys.exit(f"bench: expected of {rival} {[ours.get(name) for name in alike]}, found {found}")


def rows_of(rounds, what):
    def of(who, key):
        return median([found[who][key] for found in rounds])

    rows = []
    for key, title, unit in [("wall_s", "wall", "s"), ("cpu_s", "processor time", "s")]:
        duckdb = ("DuckDB", of("DuckDB", key))
        # Judged by the median of the rounds' ratios.
        ratio = median([found["table"][key] / found["DuckDB"][key] for found in rounds])
        row = figure(f"table of {what}, {title}", of("table", key), unit, duckdb, "<= 1 x DuckDB", ratio <= 1)
        rows += [row | {"ratio": ratio}, figure(f"Polars, {title}", of("Polars", key), unit, duckdb)]
    peak, wall, cpu = (("DuckDB", of("DuckDB", key)) for key in ("peak_bytes", "wall_s", "cpu_s"))
    peak = (peak[0], peak[1] / 1e9)
    rows.append(at_most("table, peak memory", of("table", "peak_bytes") / 1e9, "GB", MOST_GB, peak))
    rows.append(figure("Polars, peak memory", of("Polars", "peak_bytes") / 1e9, "GB", peak))
    rows.append(at_most("table asked again, wall", of("again", "wall_s"), "s", MOST_AGAIN_S, wall))
    rows.append(figure("table asked again, processor time", of("again", "cpu_s"), "s", cpu))
    return rows
