"""Entries of a table as rows, with expressions, a cut and a range; as text or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sapwood.errors import ArgumentError
from sapwood.pages.entries import opened_tree
from sapwood.show.json import json_text
from sapwood.show.text import layout
from sapwood.table.scan import arrays_by_entry

if TYPE_CHECKING:
    from sapwood.columns import Foreign

_STEP = "16 MB"
_ITEMS = 5
"""Number of list items shown in a cell."""


def rows(
    where: str,
    expressions: Sequence[str] = (),
    cut: str | None = None,
    start: int = 0,
    stop: int | None = None,
    limit: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number and the values of entries, read step by step.

    Parameters
    ----------
    where
        ``file:path``; the path may be absent in a file with one table.
    expressions
        Names, patterns or expressions; all readable fields by default.
    cut
        Only entries for which this expression is true.
    start, stop
        The range of entries, as in a slice.
    limit
        Stop after this many rows.
    options
        Options of `sapwood.open`.

    Raises
    ------
    ArgumentError
        `limit` is negative.
    """
    if limit is not None and limit < 0:
        raise ArgumentError(f"cannot show {limit} entries")
    left = limit
    with opened_tree(where, options) as table:
        begin, end, _ = slice(start, stop).indices(table.num_entries)
        while begin < end and left != 0:
            # The first step is small: most callers want only a few entries.
            size = max(1, table.num_entries_for(_STEP)) if left is None or cut is not None else left
            step = min(end, begin + size)
            arrays = arrays_by_entry(table, _wanted(table, expressions), cut, begin, step)
            chosen = range(begin, step) if cut is None else _passing(table, cut, begin, step)
            for place, entry in enumerate(chosen):
                yield entry, {name: _value(values[place]) for name, values in arrays.items()}
                if left is not None:
                    left -= 1
                    if left == 0:
                        return
            begin = step


def _wanted(table: Foreign, expressions: Sequence[str]) -> list[str] | None:
    if not expressions:
        return None
    wanted: list[str] = []
    for expression in expressions:
        pattern = any(mark in expression for mark in "*?") and expression not in table
        matched = table.keys(filter_name=expression) if pattern else []
        wanted += matched or [expression]
    return wanted


def _passing(table: Foreign, cut: str, start: int, stop: int) -> list[int]:
    import awkward as ak
    import numpy as np

    mask = arrays_by_entry(table, [cut], None, start, stop)[cut]
    return [start + int(place) for place in np.flatnonzero(ak.to_numpy(ak.fill_none(mask, False)))]


def _value(value: Foreign) -> Foreign:
    if hasattr(value, "to_list"):
        return value.to_list()
    return value.item() if hasattr(value, "item") else value


def lines_of(found: Iterable[tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """Yield rows as lines of JSON, with the entry number as ``entry``."""
    for entry, values in found:
        yield json_text({"entry": entry, **values})


def text_of(found: Iterable[tuple[int, dict[str, Any]]], block: int = 100) -> Iterator[str]:
    """Yield rows as aligned tables of up to `block` rows; long lists are shortened."""
    table: list[list[str]] = []
    names: list[str] = []
    for entry, values in found:
        names = ["entry", *values]
        table.append([str(entry), *(_cell(value) for value in values.values())])
        if len(table) == block:
            yield layout([names, *table], right=(0,))
            table = []
    if table:
        yield layout([names, *table], right=(0,))


def _cell(value: Foreign) -> str:
    if isinstance(value, list):
        more = f", … {len(value)}" if len(value) > _ITEMS else ""
        return "[" + ", ".join(_cell(item) for item in value[:_ITEMS]) + more + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_cell(item)}" for name, item in value.items()) + "}"
    return f"{value:.6g}" if isinstance(value, float) else repr(value) if isinstance(value, str) else str(value)
