"""Files as a Polars LazyFrame."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import signature
from typing import Any

from sapwood.columns import Foreign
from sapwood.frames.expressions import of_polars
from sapwood.frames.source import FrameSource
from sapwood.storage.locate import Files
from sapwood.table.predicates import UNKNOWN


def scan_polars(files: Files, **options: object) -> Foreign:
    """Return the tables of files as a `polars.LazyFrame`.

    Only the columns that a query uses are read. If a file has an index (see `sapwood stats --index`), only the entries
    that can pass its filter are read. A limit (``head``) ends reading early.

    Parameters
    ----------
    files, options
        As in `sapwood.dataset`. So are the errors.
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    source = FrameSource(files, options)
    empty: Any = pl.from_arrow(source.schema().empty_table())

    def read(
        with_columns: list[str] | None, predicate: Foreign, n_rows: int | None, batch_size: int | None
    ) -> Iterator[Foreign]:
        wanted = source.names if with_columns is None else with_columns
        named = [] if predicate is None else predicate.meta.root_names()
        known = UNKNOWN if predicate is None else of_polars(predicate, source.numbers)
        for table in source.tables(source.needed([*wanted, *named]), known, n_rows):
            whole: Any = pl.from_arrow(table)
            # Polars divides frames among its threads by itself.
            for frame in whole.iter_slices(batch_size) if batch_size else [whole]:
                passed = frame if predicate is None else frame.filter(predicate)
                yield passed if passed.columns == wanted else passed.select(wanted)

    # Polars reads a source that a query names several times once, if it may; older versions cannot.
    once: dict[str, Any] = {"is_pure": True} if "is_pure" in signature(register_io_source).parameters else {}
    return register_io_source(read, schema=empty.schema, **once)
