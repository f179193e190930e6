"""Queries in SQL over the tables of files, computed by DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sapwood.errors import ArgumentError, MissingPackageError
from sapwood.pages.listing import layout
from sapwood.show.json import json_text
from sapwood.storage.locate import split_path

_QUOTED = r"(?i)\b(?:from|join)\s+'((?:[^']|'')+)'"
_ROWS = 1000
"""Number of rows shown in one block."""


def query(
    sql: str, tables: Mapping[str, Sequence[str]], options: Mapping[str, Any] | None = None
) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """Run a query; return its column names and its rows.

    In the query, a table is one of the given names, or, after FROM or JOIN, a file in quotes:
    ``from 'events.root:Events'``.

    Parameters
    ----------
    sql
        The query, in DuckDB's SQL.
    tables
        The files of each table by its name; files as in `sapwood.dataset`.
    options
        Options of `sapwood.open`.

    Raises
    ------
    ArgumentError
        DuckDB cannot run the query, or is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingPackageError("queries in SQL need the package duckdb: pip install 'sapwood[frames]'") from error
    from sapwood.frames.dataset import dataset

    connection = duckdb.connect()
    try:
        quoted = (match[1].replace("''", "'") for match in re.finditer(_QUOTED, sql))
        # File names with a colon are split; names of tables and of DuckDB's own files are not.
        in_quotes = {name: [name] for name in quoted if split_path(f"{name}:")[1] is not None}
        for name, files in {**in_quotes, **tables}.items():
            connection.register(name, dataset(list(files), **(options or {})))
        result = connection.execute(sql)
        if result is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise ArgumentError("the query is empty")
    except duckdb.Error as error:
        raise ArgumentError(f"cannot run the query: {error}") from error
    return [column[0] for column in result.description or ()], _rows(result)


def _rows(result: Any) -> Iterator[tuple[Any, ...]]:
    import duckdb

    try:
        while rows := result.fetchmany(_ROWS):
            yield from rows
    except duckdb.Error as error:
        raise ArgumentError(f"cannot run the query: {error}") from error


def lines_of(names: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    """Yield rows as lines of JSON."""
    for row in rows:
        yield json_text(dict(zip(names, row, strict=True)))


def text_of(names: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    """Yield rows as aligned tables."""
    block: list[list[str]] = []
    shown = False
    for row in rows:
        block.append([f"{value:.6g}" if isinstance(value, float) else str(value) for value in row])
        if len(block) == _ROWS:
            yield layout([list(names), *block])
            block, shown = [], True
    if block or not shown:
        yield layout([list(names), *block])
