"""The tables of files as one table of Arrow columns, for engines that select columns and entries."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

from sapwood import columns
from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, ChangedFileError, NotFoundError, UnsupportedError
from sapwood.files.many import KeptTables, OpenFiles
from sapwood.show.text import layout
from sapwood.storage.locate import Files
from sapwood.table import dataset
from sapwood.table.explain import Explanation, Explanations, explain
from sapwood.table.identity import identity_of
from sapwood.table.libraries import NO_UNIONS, library_of
from sapwood.table.predicates import UNKNOWN, Predicate, is_number_or_none
from sapwood.table.query import Group, Leaf, Query
from sapwood.table.reading import Readable
from sapwood.table.results import ResultForm, warn_of_lost
from sapwood.table.scan import Kept
from sapwood.table.schema import Field, HasFields

STEP = "32 MB"
"""Uncompressed size of a step."""
PIECE = 1 << 15
"""Maximum number of entries per batch for an engine. Its threads share the work by batches."""
_OPEN = 64
"""Number of local files that stay open between scans."""


class FrameSource:
    """The tables of files, with the fields of the first one.

    Parameters and errors are those of `sapwood.dataset`.
    """

    def __init__(self, files: Files, options: Mapping[str, Any], identity: Mapping[str, Any] | None = None) -> None:
        self.files = files
        self._identity = identity
        self.options = dict(options)
        self._kept = KeptTables(_OPEN)
        self._look()

    def _look(self) -> None:
        opened = self._open()
        table = next((table for table, _ in opened), None)
        if table is None:
            raise NotFoundError(f"no files found: {self.files!r}")
        try:
            self.types, self._paths = _schema(table)
            self._sizes = {name: table[path].compressed_bytes for name, path in self._paths.items()}
        finally:
            opened.done_with(table)

    def _open(self) -> OpenFiles:
        return OpenFiles(self.files, False, self.options, kept=self._kept)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the files."""
        return FrameSource, (self.files, self.options, self._identity)

    def part(self, files: Files, identity: Mapping[str, Any] | None) -> FrameSource:
        """Return the same columns of some of the files, or of one file whose identity must be this when it is read."""
        part = copy(self)
        part.files, part._identity = files, identity
        return part

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.types)

    @property
    def numbers(self) -> dict[str, str]:
        """The columns with one number per entry, which may be missing, and the paths of their fields."""
        return {name: path for name, path in self._paths.items() if is_number_or_none(self.types[name])}

    def schema(self) -> Foreign:
        """Return the `pyarrow.Schema`."""
        import pyarrow as pa

        return pa.schema([pa.field(name, columns.arrow_type(kind)) for name, kind in self.types.items()])

    def needed(self, names: Sequence[str]) -> list[str]:
        """Return the columns to read: the given ones, or if there are none, the smallest, to count entries."""
        found = [name for name in self.types if name in set(names)]
        return found or [min(self._sizes, key=lambda name: self._sizes[name])]

    def select(self, names: Sequence[str]) -> Callable[[HasFields], Query]:
        """Return a function that makes the query of some columns in each table."""
        return lambda table: Query.picking(table, {name: self._field(table, name) for name in names})

    def _field(self, table: HasFields, name: str) -> Field:
        field = table[self._paths[name]]
        if field.type is None or columns.arrow_type(field.type) != columns.arrow_type(self.types[name]):
            found = "unreadable" if field.type is None else columns.describe(field.type)
            first = columns.describe(self.types[name])
            raise ArgumentError(f"{name!r} is {found} here, but {first} in the first file\n{field.location}")
        return field

    def fragments(self) -> list[tuple[str, Mapping[str, Any] | None, str, int, int]]:
        """List the clusters of all files: path and identity of the file, path of the table, first entry and end."""
        found: list[tuple[str, Mapping[str, Any] | None, str, int, int]] = []
        opened = self._open()
        for table, ranges in opened:
            edges = table.table.clusters
            for start, stop in ranges:
                inside = [start, *(edge for edge in edges if start < edge < stop), stop]
                where = table.file.file_path, identity_of(table.table), table.object_path
                found += [(*where, *pair) for pair in pairwise(inside) if pair[0] < pair[1]]
            opened.done_with(table)
        return found

    def count(self) -> int:
        """Count the entries, reading nothing else."""
        return sum(entries for _, _, entries in self._open().count())

    def explain(self, names: Sequence[str], predicate: Predicate, analyze: bool) -> Explanations:
        """Return what `tables` would read, without reading it; with `analyze` also read, and return the counts."""
        select, found = self.select(names), Explanations()
        opened = self._open()
        for table, ranges in opened:
            path = f"{table.file.file_path}:{_inside(table)}"
            for start, stop in ranges:
                name = path if len(ranges) == 1 and path not in found else f"{path} from entry {start}"
                while name in found:
                    name += ", again"
                kind = table.explanation_type() if isinstance(table, Readable) else Explanation
                found[name] = explain(select(table), start, stop, analyze, kind, predicate)
            opened.done_with(table)
        return found

    def tables(
        self, names: Sequence[str], predicate: Predicate = UNKNOWN, limit: int | None = None, step: int | str = STEP
    ) -> Iterator[Any]:
        """Read columns in steps, as `pyarrow.Table`.

        Parameters
        ----------
        names
            The columns; at least one.
        predicate
            Entries that an index excludes are not read. Other entries are returned whether they pass or not.
        limit
            Read no more entries than this.
        step
            Entries, or memory, read at once.
        """
        import pyarrow as pa

        select = self.select(names)
        form = ResultForm(library_of("pa"))
        schema = self.schema()
        schema = pa.schema([schema.field(name) for name in names])
        opened = _Narrowed(self._open(), select, names, predicate, limit, self._identity)
        for table in dataset.iterate(opened, select, step, form, False):
            yield table if table.schema.equals(schema) else table.cast(schema)


class Scanned(NamedTuple):
    """A table that an engine has scanned."""

    file: str
    """The path or URL of the file."""
    table: str
    """The path of the table in it."""
    columns: tuple[str, ...]
    """The columns that were read."""
    entries: int
    """Number of entries that were requested."""
    entries_skipped: int
    """Entries among them that were not read, because the index shows that they fail the filter."""


class Scans(list[Scanned]):
    """The tables that engines have scanned, in the order of the scans. Its `str` is a table."""

    def __str__(self) -> str:
        """Show a line for each table, and the sums."""
        rows = [["table", "entries", "skipped", "columns"]]
        rows += [
            [f"{one.file}:{one.table}", str(one.entries), str(one.entries_skipped), ", ".join(one.columns)]
            for one in self
        ]
        sums = (str(sum(numbers)) for numbers in ([one.entries for one in self], [one.entries_skipped for one in self]))
        return layout([*rows, ["all", *sums, ""]], right=(1, 2)).rstrip("\n")


_recordings: list[Scans] = []


@contextmanager
def record_scans() -> Generator[Scans]:
    """Record which tables engines scan inside a ``with`` block, which columns they read, and what an index skips.

    All scans of `sapwood.dataset` and `sapwood.scan_polars` in this process are recorded: those of DuckDB, DataFusion,
    Polars and Arrow. A scan that ends early, such as one with a limit, has only the files that it began to read.

    Returns
    -------
    Scans
        A list of `Scanned`, as a context manager. Its `str` is a table.
    """
    found = Scans()
    _recordings.append(found)
    try:
        yield found
    finally:
        # Two recordings may be equal.
        _recordings[:] = [one for one in _recordings if one is not found]


def _inside(table: HasFields) -> str:
    """Return the path of a table in its file, as users give it."""
    return table.object_path.lstrip("/").partition(";")[0]


def _entries_in(ranges: Sequence[tuple[int, int]]) -> int:
    return sum(stop - start for start, stop in ranges)


class _Narrowed:
    """Tables with the ranges of entries that remain after a predicate and a limit."""

    def __init__(
        self,
        opened: OpenFiles,
        select: Callable[[HasFields], Query],
        names: Sequence[str],
        predicate: Predicate,
        limit: int | None,
        identity: Mapping[str, Any] | None,
    ) -> None:
        self._identity = identity
        self._opened = opened
        self._select = select
        self._names = tuple(names)
        self._predicate = predicate
        self._left = limit
        self.skip = opened.skip
        self.done_with = opened.done_with

    def __iter__(self) -> Iterator[tuple[HasFields, Sequence[tuple[int, int]]]]:
        for table, given in self._opened:
            if self._identity is not None and identity_of(table.table) != self._identity:
                path = table.file.file_path
                raise ChangedFileError(f"{path} was changed after the fragments were listed: list them again")
            if self._left == 0:
                self.done_with(table)
                return
            ranges = given if self._left is None else self._first(given)
            entries = _entries_in(ranges)
            if self._predicate is not UNKNOWN:
                kept = Kept(self._select(table), self._predicate)
                ranges = [one for start, stop in ranges for one in kept.between(start, stop)]
            for recording in _recordings:
                skipped = entries - _entries_in(ranges)
                recording.append(Scanned(table.file.file_path, _inside(table), self._names, entries, skipped))
            yield table, ranges

    def _first(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for start, stop in ranges:
            end = min(stop, start + (self._left or 0))
            self._left = (self._left or 0) - (end - start)
            found.append((start, end))
        return found


def _refusal(kind: columns.Type) -> str:
    """Return why Arrow has no such type; an empty string if it has."""
    try:
        columns.arrow_type(kind)
    except UnsupportedError as error:
        return str(error)
    return ""


def _schema(table: HasFields) -> tuple[dict[str, columns.Type], dict[str, str]]:
    """Return the types of all columns that engines support, and the paths of their fields."""
    types: dict[str, columns.Type] = {}
    paths: dict[str, str] = {}
    left_out: list[str] = []
    for name, node in Query(table).outputs:
        if not isinstance(node, (Leaf, Group)):
            continue
        kind = node.field.type
        if kind is None or not columns.is_settled(kind):
            left_out.append(f"{name}: only the data tell its type")
        elif columns.has_unions(kind):
            left_out.append(f"{name}: {NO_UNIONS}")
        elif why := _refusal(kind):
            left_out.append(f"{name}: {why}")
        else:
            types[name] = kind
            paths[name] = node.field.path_in(table)
    warn_of_lost(table.words.fields, left_out)
    if not types:
        raise UnsupportedError(f"no {table.words.field} has a form in Arrow\n{table.location}")
    return types, paths
