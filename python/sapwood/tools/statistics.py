"""Statistics of the fields of a table, and its index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from sapwood.errors import ArgumentError
from sapwood.pages.entries import opened_tree
from sapwood.pages.listing import layout
from sapwood.show.units import bytes_text, count_text, seconds_text
from sapwood.table.index import FieldZones, indexable, place_for, write
from sapwood.table.statistics import FieldStatistics, index_of, statistics


def statistics_of(
    where: str, fields: Sequence[str] = (), *, index: bool = False, options: Mapping[str, Any] | None = None
) -> tuple[list[FieldStatistics], str | None]:
    """Read fields one after the other, and return the statistics of each.

    Parameters
    ----------
    where
        ``file:path``; the path may be absent in a file with one table.
    fields
        Names or patterns; by default all fields.
    index
        Write the index of these fields beside the file.
    options
        Options of `sapwood.open`.

    Returns
    -------
    The statistics of each field, and the path of the index or None.

    Raises
    ------
    ArgumentError
        `where` names a branch or a field.
    """
    found: list[FieldStatistics] = []
    zones: dict[str, FieldZones] = {}
    with opened_tree(where, options) as table:
        if table is not table.table:
            raise ArgumentError(f"{where} is not a table; name the fields of a table after it")
        if index:
            place_for(table)  # before the fields are read
        known = indexable(table)
        readable = {
            field.path_in(table): field
            for field in table.every_field
            if not field.is_group and field.reason is None
        }  # fmt: skip
        wanted = {field.path_in(table) for name in fields for field in _matching(table, name)}
        paths = [path for path in readable if not fields or path in wanted]
        for one, own in statistics(table, paths, by_cluster=index):
            found.append(one)
            if index and one.path in known:
                zones[one.path] = own
        return found, str(write(table, index_of(table, zones.items()))) if index else None


def _matching(table: Any, name: str) -> list[Any]:
    return table.values(filter_name=name) if any(mark in name for mark in "*?") else [table[name]]


def text_of(found: Sequence[FieldStatistics]) -> str:
    """Return statistics as an aligned table."""
    heads = "field type stored ratio pages decode count missing NaN longest min mean max"
    rows = [tuple(heads.split()), *map(_row, found)]
    return layout(rows, right=range(2, len(rows[0])))


def as_dict(one: FieldStatistics) -> dict[str, Any]:
    """Return statistics as a dictionary for JSON."""
    return {**asdict(one), "mean": one.mean}


def _ratio(one: FieldStatistics) -> str:
    return f"{one.uncompressed_bytes / one.compressed_bytes:.2f}" if one.compressed_bytes else "–"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"


def _row(one: FieldStatistics) -> tuple[str, ...]:
    stored = bytes_text(one.compressed_bytes), _ratio(one), str(one.pages), seconds_text(one.seconds)
    values = count_text(one.count), str(one.missing), str(one.nan), str(one.longest)
    return one.path, one.typename, *stored, *values, *map(_number, (one.low, one.mean, one.high))
