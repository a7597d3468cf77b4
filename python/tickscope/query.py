"""The queries of the package: each a short .sql file over one table that it names, every column with its unit.

Those in `sql/` Spark runs as well; those in `queries/` put what the core computed into columns.
"""

from __future__ import annotations

from importlib.resources import files
from typing import cast

import duckdb

from tickscope.portable import STATEMENTS

QUERIES = files("tickscope") / "queries"


def ask(query: str, table: duckdb.DuckDBPyRelation, name: str, stage: str | None = None) -> duckdb.DuckDBPyRelation:
    """Puts `query` to `table`, which the query calls `name`; nothing is read until a row is asked for.

    `stage` takes the place of `STAGE`, which stands for its column as in the run's format.
    """
    place = QUERIES / f"{query}.sql"
    text = (place if place.is_file() else STATEMENTS / f"{query}.sql").read_text()
    if stage is not None:
        text = text.replace('"STAGE', f'"{_quoted(stage)}').replace("'STAGE'", "'" + stage.replace("'", "''") + "'")
    # DuckDB's types allow for statements that give no rows; ours are all queries.
    return cast(duckdb.DuckDBPyRelation, table.query(name, text))


def _quoted(identifier: str) -> str:
    return identifier.replace('"', '""')
