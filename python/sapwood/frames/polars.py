"""Files as a Polars LazyFrame."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any

from sapwood.columns import Foreign
from sapwood.files.many import check_options
from sapwood.frames.expressions import of_polars
from sapwood.frames.source import FIRST_STEPS, FrameSource
from sapwood.storage.locate import Files
from sapwood.table.predicates import UNKNOWN, Constant, Predicate

_AHEAD = 4
"""Number of frames into which the first step of a scan that may end early is divided."""


def scan_polars(files: Files, **options: object) -> Foreign:
    """Return the tables of files as a `polars.LazyFrame`.

    Only the columns that a query uses are read. If a file has an index (see `sapwood stats --index`), only the entries
    that can pass its filter are read. A limit (``head``) ends reading early, also after a filter: the first steps are
    small.

    Parameters
    ----------
    files, options
        As in `sapwood.dataset`. So are the errors.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    check_options(scan_polars, options, files, "use select, filter and head of the LazyFrame")
    source = FrameSource(files, options)
    empty: Any = pl.from_arrow(source.schema().empty_table())

    def read(
        with_columns: list[str] | None, predicate: Foreign, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Foreign]:
        wanted = source.names if with_columns is None else with_columns
        names, known = _asked(source, with_columns, predicate)
        # Polars passes a limit on if no condition is before it.
        first = () if predicate is None else FIRST_STEPS
        ahead = 1 if predicate is None else _AHEAD
        for table in source.tables(source.needed(names), known, n_rows, first=first):
            whole: Any = pl.from_arrow(table)
            # Polars divides frames among its threads by itself. Before it ends early, it has taken some frames ahead.
            size, ahead = max(1, min(batch_size or len(whole), -(-len(whole) // ahead))), 1
            for frame in whole.iter_slices(size):
                passed = frame if predicate is None else frame.filter(predicate)
                yield passed if passed.columns == wanted else passed.select(wanted)

    # Polars reads a source that a query names several times once, if it may; older versions cannot.
    once: dict[str, Any] = {"is_pure": True} if "is_pure" in signature(register_io_source).parameters else {}
    return register_io_source(read, schema=empty.schema, **once)


def _asked(source: FrameSource, with_columns: list[str] | None, predicate: Foreign) -> tuple[list[str], Predicate]:
    """Return the columns that a scan of Polars needs, and the condition that an index can use."""
    wanted = source.names if with_columns is None else with_columns
    if predicate is None:
        return wanted, UNKNOWN
    return [*wanted, *predicate.meta.root_names()], of_polars(predicate, source.numbers)


def passed_on(source: FrameSource, columns: list[str], expression: Foreign) -> tuple[list[str], Predicate]:
    """Return the columns and the condition that Polars passes to a scan for some columns with a filter."""
    import polars as pl
    from polars.io.plugins import register_io_source

    empty: Any = pl.from_arrow(source.schema().empty_table())
    found: list[tuple[list[str], Predicate]] = []

    def read(
        with_columns: list[str] | None, predicate: Foreign, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Foreign]:
        del n_rows, batch_size
        found.append(_asked(source, with_columns, predicate))
        return iter([empty if with_columns is None else empty.select(with_columns)])

    whole = dict.fromkeys(name if name in source.types else name.partition(".")[0] for name in columns)
    register_io_source(read, schema=empty.schema).filter(expression).select(list(whole) or pl.len()).collect()
    # With a filter that is never true, Polars reads nothing.
    return found[0] if found else (list(whole), Constant(False))
