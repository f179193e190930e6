"""Entries of a table as rows, with expressions, a cut and a range; as text or JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sapwood.errors import ArgumentError
from sapwood.pages.entries import opened_tree
from sapwood.show.json import json_text
from sapwood.show.text import layout
from sapwood.table.libraries import library_of
from sapwood.table.predicates import of_cut
from sapwood.table.query import Query
from sapwood.table.results import ResultForm
from sapwood.table.scan import Kept, Scan
from sapwood.table.steps import plan_steps

if TYPE_CHECKING:
    from sapwood.columns import Array, Foreign
    from sapwood.table.schema import HasFields

_STEP = "16 MB"
_FIRST = "512 kB"
"""The columns of a cut that are read first if a limit may end the scan."""
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

    Of a cut, its own columns are read first: without the entries that an index excludes, and no further than `limit`
    needs. Other columns are read where entries pass.

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
        `limit` is negative, or the cut does not have one value per entry.
    """
    if limit is not None and limit < 0:
        raise ArgumentError(f"cannot show {limit} entries")
    with opened_tree(where, options) as table:
        begin, end, _ = slice(start, stop).indices(table.num_entries)
        query = _by_entry(table, _wanted(table, expressions))
        for chosen in _chosen(query, cut, begin, end, limit):
            first = int(chosen[0])
            arrays = _read(query, first, int(chosen[-1]) + 1)
            for entry in map(int, chosen):
                yield entry, {name: _value(values[entry - first]) for name, values in arrays.items()}


def _by_entry(source: HasFields, expressions: list[str] | None) -> Query:
    query = Query(source, expressions)
    query.by_entry = True
    return query


def _read(query: Query, start: int, stop: int) -> dict[str, Foreign]:
    return Scan(query).arrays(start, stop, ResultForm(library_of("ak"), dict))


def _chosen(query: Query, cut: str | None, start: int, stop: int, limit: int | None) -> Iterator[Sequence[int] | Array]:
    """Yield the numbers of the entries to show, step by step; none of the steps is empty."""
    if cut is None:
        end = stop if limit is None else min(stop, start + limit)
        yield from (range(*step) for step in plan_steps(query, _STEP, start, end))
        return
    left = limit
    for passing in _passing(query.source, cut, start, stop, limit) if left != 0 else ():
        found = passing[:left]
        ends = (int(found[0]), int(found[-1]) + 1) if len(found) else (0, 0)
        for step in plan_steps(query, _STEP, *ends):
            inside = found[slice(*np.searchsorted(found, step))]
            if len(inside):
                yield inside
        if left is not None:
            left -= len(found)
            if left == 0:
                return


def _wanted(table: Foreign, expressions: Sequence[str]) -> list[str] | None:
    if not expressions:
        return None
    wanted: list[str] = []
    for expression in expressions:
        pattern = any(mark in expression for mark in "*?") and expression not in table
        matched = table.keys(filter_name=expression) if pattern else []
        wanted += matched or [expression]
    return wanted


def _passing(source: HasFields, cut: str, start: int, stop: int, limit: int | None) -> Iterator[Array]:
    """Yield the numbers of the entries that pass a cut, step by step, without those that an index excludes."""
    alone = Query(source, [], cut)
    kept = Kept(alone, of_cut(alone, drops_empty=True)).between(start, stop)
    query = _by_entry(source, [cut])
    if not kept:
        _numbers(query, cut, start, start)  # an error of the cut does not depend on an index
    size = _STEP if limit is None else _FIRST
    for begin, end in kept:
        if size == _FIRST:
            size, until = _STEP, next(plan_steps(query, size, begin, end))[1]
            yield _numbers(query, cut, begin, until)
            begin = until  # noqa: PLW2901 - the rest of the range
        for step in plan_steps(query, size, begin, end):
            yield _numbers(query, cut, *step)


def _numbers(query: Query, cut: str, start: int, stop: int) -> Array:
    """Return the numbers of the entries in a range for which the only result of a query, a cut, is true."""
    import awkward as ak

    values = _read(query, start, stop)[cut]
    if values.ndim != 1:
        raise ArgumentError(f"the cut {cut!r} does not have one value per entry\n{query.source.location}")
    try:
        mask = ak.fill_none(values != 0, False)
    except (ValueError, TypeError) as error:  # records, strings
        raise ArgumentError(f"the cut {cut!r} needs bools or numbers: {error}\n{query.source.location}") from error
    return start + np.flatnonzero(ak.to_numpy(mask))


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
