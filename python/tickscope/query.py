"""The queries of the package: each a short .sql file in `queries/`, over one table that it names, every column with its unit."""

from __future__ import annotations

from importlib.resources import files
from typing import cast

import duckdb

QUERIES = files("tickscope") / "queries"


def ask(query: str, table: duckdb.DuckDBPyRelation, name: str, stage: str | None = None) -> duckdb.DuckDBPyRelation:
    """Puts `query` to `table`, which the query calls `name`; nothing is read until a row is asked for.

    `stage` takes the place of `STAGE`, which stands for its column as in the run's format.
    """
    text = (QUERIES / f"{query}.sql").read_text()
    if stage is not None:
        text = text.replace('"STAGE', f'"{_quoted(stage)}').replace("'STAGE'", "'" + stage.replace("'", "''") + "'")
    # DuckDB's types allow for statements that give no rows; ours are all queries.
    return cast(duckdb.DuckDBPyRelation, table.query(name, text))


def _quoted(identifier: str) -> str:
    return identifier.replace('"', '""')
