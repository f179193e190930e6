"""Queries in SQL over the tables of files, computed by DuckDB."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sapwood.columns import Foreign
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
        DuckDB cannot run the query, would take a name for that of another column, or is not installed.
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
            scanned = dataset(list(files), **(options or {}))
            connection.register(name, scanned)
            quoted_name = name.replace('"', '""')
            shown = [str(row[0]) for row in connection.execute(f'describe "{quoted_name}"').fetchall()]
            _check_case(_identifiers(sql), name, scanned.schema, shown)
            scanned.warns_of_case = False
        result = connection.execute(sql)
        if result is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise ArgumentError("the query is empty")
    except duckdb.Error as error:
        raise ArgumentError(f"cannot run the query: {error}") from error
    return [column[0] for column in result.description or ()], _rows(result)


def _identifiers(sql: str) -> list[str]:
    """Return the names in a query, without quotes."""
    import duckdb

    tokens = duckdb.tokenize(sql)
    # Offsets count bytes.
    text = sql.encode()
    ends = [*(start for start, _ in tokens), len(text)][1:]
    found: list[str] = []
    for (start, kind), end in zip(tokens, ends, strict=True):
        if kind == duckdb.token_type.string_const:
            continue
        piece = text[start:end].decode(errors="replace")
        if quoted := re.match(r'"((?:[^"]|"")*)"', piece):
            found.append(quoted[1].replace('""', '"'))
        elif word := re.match(r"\w+", piece):
            found.append(word[0])
    return found


def _check_case(identifiers: Sequence[str], table: str, schema: Foreign, shown: Sequence[str]) -> None:
    """Raise an error for a name that DuckDB, which ignores case, takes for that of another column or field.

    Parameters
    ----------
    identifiers
        The names in the query.
    table, schema
        The name and the Arrow schema of a table.
    shown
        DuckDB's names of its columns. Those that it cannot distinguish get numbers: ``pt``, ``PT_1``.

    Raises
    ------
    ArgumentError
        There is one.
    """
    from sapwood.frames.case import names_in_records, same

    for names, own in [(schema.names, shown), *((one, one) for one in names_in_records(schema))]:
        for name in dict.fromkeys(identifiers):
            meant = next((place for place, one in enumerate(own) if same(one, name)), None)
            if meant is None:
                continue
            alike = [place for place, one in enumerate(names) if same(one, name)]
            exact = [place for place in alike if names[place] == name] or ([meant] if own[meant] == name else alike)
            if exact == [meant] or not exact:
                continue
            what = "columns" if own is shown else "fields of a record"
            listed = ", ".join(repr(names[place]) for place in dict.fromkeys([meant, *alike]))
            others = [own[place] for place in exact if place != meant and not same(own[place], name)]
            hint = f"; name the other column {others[0]!r}" if others else ""
            raise ArgumentError(
                f"cannot run the query: DuckDB ignores case, and {table} has the {what} {listed}: "
                f"DuckDB takes {name!r} for {names[meant]!r}{hint}"
            )


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
