"""A producer at a fixed rate, the collector on the other processor, and what DuckDB reads of what that wrote."""

import dataclasses
import json
import pathlib
import sys
import tempfile

from figures import at_most, figure, none_of
from processes import BUILD, RELEASE, ROOT, STAMPING_CPU, collector, filesystem, output_of, stamp_directory

POOL_BYTES = 64 << 20
ENTROPY_OF = 8_000_000  # stamps of the run's beginning, whose entropy stands beside the bytes
PYTHON = ROOT / ".venv" / "bin" / "python"  # has DuckDB, as `make python` makes it
READ_BACK = """
import duckdb, sys
duckdb.sql("SET enable_progress_bar = false")  # it is drawn on what is read here
print(*duckdb.sql(f"SELECT count(*), count(tick), min(id), max(id) FROM '{sys.argv[1]}'").fetchall()[0])
"""


@dataclasses.dataclass
class Pace:
    seconds: int
    hz: int
    ids: str = "sequential"
    spacing: str = "tight"

    def title(self, options):
        random = ", random ids" if self.ids == "random" else ""
        return f"{self.hz / 1e6:g} M stamps/s for {options.of(self.seconds)} s{random}"


def pace(how, options, after=None):
    """What producer and collector said; `after` looks at the run before it is gone."""
    with stamp_directory(POOL_BYTES) as environment, tempfile.TemporaryDirectory(dir=options.scratch) as run:
        with collector(environment["TICKSCOPE_DIR"], run) as report:
            command = [BUILD / "paced", STAMPING_CPU, options.of(how.seconds), how.hz, how.ids, how.spacing]
            # Waiting counts a stall each time no block is free, and a drop where waiting did not help.
            produced = json.loads(output_of(command, None, {**environment, "TICKSCOPE_WHEN_FULL": "wait"}))
        collected = report[0]
        if collected["stamps"] + produced["dropped"] != produced["stamps"]:
            found = f"{collected['stamps']} collected, {produced['dropped']} dropped"
            sys.exit(f"bench: {produced['stamps']} stamps, but {found}")
        if after:
            collected |= after(pathlib.Path(run))
    return produced, collected


def figures_of(how, options, produced, collected):
    title = how.title(options)
    return [
        none_of(f"{title}: dropped", produced["dropped"]),
        none_of(f"{title}: producer stalls", produced["stalls"]),
        figure("latest batch behind its due time", produced["latest_ns"] / 1e6, "ms"),
        figure("collector, processor time a stamp", collected["cpu_ns"] / collected["stamps"], "ns"),
    ]


# ---- for a minute ----------------------------------------------------------------------------------------------------

# Uneven, because what comes evenly compresses to next to nothing.
PACES = [Pace(60, 20_000_000, ids, "uneven") for ids in ("sequential", "random")]
MOST_BYTES = 1.6  # a stamp of sequential ids


def measure_sustained(options):
    """Rows for the table of figures, and everything else, raw."""
    rows, raw = [], {"files on": filesystem(options.scratch)}
    for how in PACES:
        produced, collected = pace(how, options, after=looked_at)
        raw[f"{how.ids} ids"] = {"producer": produced, "collector": collected}
        rows += figures_of(how, options, produced, collected)
        entropy = ("entropy", sum(collected["entropy"][bits] for bits in ("tick_bits", "id_bits")) / 8)
        size, title = collected["bytes"] / collected["stamps"], f"bytes a stamp, {how.ids} ids"
        told = at_most(title, size, "B", MOST_BYTES, entropy)
        rows.append(told if how.ids == "sequential" else figure(title, size, "B", entropy))
        rows.append(read_back(how, produced, collected["DuckDB"]))
    return rows, raw


def looked_at(run):
    point = json.loads(output_of([RELEASE / "examples" / "entropy", run, ENTROPY_OF]).splitlines()[0])
    return {"entropy": point, "DuckDB": asked_of_duckdb(run)}


def asked_of_duckdb(run):
    """Count, ticks, smallest and largest id; or why not."""
    if not PYTHON.exists():
        return f"expected DuckDB in {PYTHON.relative_to(ROOT)}, found none. Call make python"
    files = run / "stamps" / "*" / "point=paced" / "*.parquet"
    return [int(word) for word in output_of([PYTHON, "-c", READ_BACK, files]).split()]


def read_back(how, produced, found):
    if isinstance(found, str):
        return figure(f"read back by DuckDB: not here: {found}", 0, "stamps", target="all", met=False)
    count, ticks, first, last = found
    most = produced["stamps"] if how.ids == "sequential" else 1 << 20
    kept = produced["stamps"] - produced["dropped"]
    ids = first == 0 and last == most - 1 if how.ids == "sequential" else 0 <= first and last < most
    title = f"read back by DuckDB, ids {first} to {last}"
    return figure(title, count, "stamps", ("stamped and not dropped", kept), "all", count == ticks == kept and ids)
