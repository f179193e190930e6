"""The tables of files as one table of Arrow columns, for engines that select columns and entries."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple

from sapwood import columns
from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, ChangedFileError, NotFoundError, SapwoodError, UnsupportedError
from sapwood.files.many import KeptTables, OpenFiles
from sapwood.frames.expressions import ListColumn, NumberColumn, Numbers
from sapwood.show.text import layout
from sapwood.storage.locate import Files
from sapwood.table import dataset
from sapwood.table.explain import Explanation, Explanations, explain
from sapwood.table.identity import identity_of
from sapwood.table.libraries import NO_UNIONS, library_of
from sapwood.table.predicates import UNKNOWN, Predicate, is_number_or_none, lists_of
from sapwood.table.query import Group, Leaf, Query
from sapwood.table.reading import Readable
from sapwood.table.results import ResultForm, warn_of_lost
from sapwood.table.scan import Kept
from sapwood.table.schema import Field, HasFields, Table
from sapwood.table.steps import entries_for

STEP = "32 MB"
"""Uncompressed size of a step."""
FIRST_STEPS = ("512 kB", "8 MB")
"""Uncompressed sizes of the first steps of a scan that an engine may end after a few entries."""
_FEW_PAGES = 4
"""Pages per column of a cluster up to which no step ends within it."""
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
        self._with_friends: dict[tuple[str, str], HasFields] = {}
        """The given open tables that have added friends, by the paths of file and table."""
        self._absolute: dict[str, str] = {}
        """The absolute paths of local files, for processes with another working directory."""
        self._look()

    def _look(self) -> None:
        opened = self._open()
        table = next((table for table, _ in opened), None)
        if table is None:
            raise NotFoundError(f"no files found: {self.files!r}")
        try:
            self.types, self._paths, self.numbers = _schema(table)
            self._sizes = {name: table[path].compressed_bytes for name, path in self._paths.items()}
            self.types |= _friend_types(table, self.types)
            self._inner: dict[str, tuple[columns.Type, str]] | None = None
            self._counted: dict[str, list[str]] = {}
            """The lists that a column counts, which other files may have without that column."""
            for one, counter in table.list_counters.items() if isinstance(table, Readable) else ():
                if one.isidentifier():
                    self._counted.setdefault(counter, []).append(one)
        finally:
            opened.done_with(table)

    def _open(self) -> OpenFiles:
        return OpenFiles(self.files, False, self.options, kept=self._kept)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the files."""
        return FrameSource, (self.files, self.options, self._identity)

    def part(self, path: str, identity: Mapping[str, Any] | None, table: str, start: int, stop: int) -> FrameSource:
        """Return the same columns of some entries of one file, whose identity must be this when it is read."""
        part = copy(self)
        given, steps = self._with_friends.get((path, table)), {"steps": [[start, stop]]}
        absolute = self._absolute.get(path, path)
        part.files = {absolute: {"object_path": table, **steps}} if given is None else {given: steps}
        part._identity = identity
        return part

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.types)

    def schema(self, names: Iterable[str] | None = None) -> Foreign:
        """Return the `pyarrow.Schema` of some columns; None: of all columns, but not the parts of columns."""
        import pyarrow as pa

        return pa.schema([
            pa.field(name, columns.arrow_type(self._kind(name))) for name in (self.types if names is None else names)
        ])  # fmt: skip

    def __contains__(self, name: object) -> bool:
        """Return whether there is a column of this name, or a part of a column with this path (``"rec.pt"``)."""
        return name in self.types or (isinstance(name, str) and "." in name and name in self._parts())

    def needed(self, names: Iterable[str]) -> list[str]:
        """Return the columns to read: the given ones, or if there are none, the smallest, to count entries."""
        wanted = dict.fromkeys(names)
        found = [name for name in self.types if name in wanted]
        found += [name for name in wanted if name not in self.types and name in self]
        return found or [min(self._sizes, key=lambda name: self._sizes[name])]

    def _kind(self, name: str) -> columns.Type:
        return self.types[name] if name in self.types else self._parts()[name][0]

    def _path(self, name: str) -> str | None:
        """Return the path of the field of a column; None for a column of a friend."""
        return self._paths.get(name) if name in self.types else self._parts()[name][1]

    def _parts(self) -> dict[str, tuple[columns.Type, str]]:
        """Return the types and paths of the fields within columns, by their names with dots."""
        if self._inner is None:
            found: dict[str, tuple[columns.Type, str]] = {}
            opened = self._open()
            for table, _ in opened:
                for name, path in self._paths.items():
                    for inner, field in table[path].walk(True, prefix=f"{name}{table.separator}"):
                        kind = field.type
                        if kind is not None and not _not_in_arrow(kind):
                            found.setdefault(inner.replace(table.separator, "."), (kind, field.path_in(table)))
                opened.done_with(table)
                break
            self._inner = found
        return self._inner

    def select(self, names: Sequence[str]) -> Callable[[HasFields], Query]:
        """Return a function that makes the query of some columns in each table."""
        paths = [(name, self._path(name)) for name in names]

        def query_on(table: HasFields) -> Query:
            own = {name: None if path is None else self._own(name, path, table) for name, path in paths}
            query = Query.picking(table, own)
            for name, node in query.outputs:
                if own[name] is None and isinstance(node, (Leaf, Group)):
                    self._checked(name, node.field)
            return query

        return query_on

    def _own(self, name: str, path: str, table: HasFields) -> Field | str:
        """Return the field of a column in a table, or an expression that counts lists in place of a counter.

        A counter is replaced where it is absent, and where it counts the same lists but has another type.
        """
        field, lists = table.find(path), self._counted.get(path, ())
        if field is None:
            lists = [one for one in lists if table.find(one) is not None]
        elif not self._is_alike(name, field):
            counters = table.list_counters if isinstance(table, Readable) else {}
            lists = [one for one in lists if counters.get(one) == path]
        else:
            return field
        return f"count({lists[0]})" if lists else self._checked(name, table[path])

    def _is_alike(self, name: str, field: Field) -> bool:
        return field.type is not None and columns.arrow_type(field.type) == columns.arrow_type(self._kind(name))

    def _checked(self, name: str, field: Field) -> Field:
        if not self._is_alike(name, field):
            found = "unreadable" if field.type is None else columns.describe(field.type)
            first = columns.describe(self._kind(name))
            raise ArgumentError(f"{name!r} is {found} here, but {first} in the first file\n{field.location}")
        return field

    def fragments(
        self, names: Sequence[str] = (), predicate: Predicate = UNKNOWN
    ) -> list[tuple[str, Mapping[str, Any] | None, str, int, int]]:
        """List the clusters of all files: path and identity of the file, path of the table, first entry and end.

        A cluster is left out if an index excludes all of its entries by a predicate of some columns.
        """
        select = None if predicate is UNKNOWN else self.select(names)
        found: list[tuple[str, Mapping[str, Any] | None, str, int, int]] = []
        opened = self._open()
        for table, ranges in opened:
            if local := getattr(table.file, "local_path", None):
                self._absolute[table.file.file_path] = local
            if table.table.added_friends:
                self._with_friends[table.file.file_path, table.object_path] = table
            kept = None if select is None else Kept(select(table), predicate)
            edges, skipped = table.table.clusters, 0
            for start, stop in ranges:
                inside = [start, *(edge for edge in edges if start < edge < stop), stop]
                where = table.file.file_path, identity_of(table.table), table.object_path
                pairs = [pair for pair in pairwise(inside) if pair[0] < pair[1]]
                remaining = [pair for pair in pairs if kept is None or kept.between(*pair)]
                found += [(*where, *pair) for pair in remaining]
                skipped += _entries_in(pairs) - _entries_in(remaining)
            if skipped:
                scanned = Scanned(_file_of(table), _inside(table), (), skipped, skipped)
                for recording in _recordings:
                    recording.append(scanned)
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
        self,
        names: Sequence[str],
        predicate: Predicate = UNKNOWN,
        limit: int | None = None,
        step: int | str = STEP,
        first: Sequence[str] = (),
    ) -> Generator[Any]:
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
        first
            Memory of the first steps. After each of them, the next step is not read before it is requested.
        """
        select = self.select(names)
        schema = self.schema(names)
        opened = _Narrowed(self._open(), select, names, predicate, limit, self._identity, first)

        def read() -> Generator[Any]:
            # It ends with this generator.
            for table in dataset.iterate(opened, select, step, form, False, on_demand=len(first)):
                yield table if table.schema.equals(schema) else table.cast(schema)

        form = ResultForm(library_of("pa"))
        return read()


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
    Polars and Arrow. A scan that ends early, such as one with a limit, has only the files that it began to read until
    the end of the block. An engine may continue it in the background; it does not count in a later block. Clusters that
    `Dataset.get_fragments` leaves out are listed without columns, as skipped.

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


def _file_of(table: HasFields) -> str:
    """Return the absolute path of a local file, as its fragments have it; other files as they were given."""
    return getattr(table.file, "local_path", None) or table.file.file_path


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
        first: Sequence[str],
    ) -> None:
        self._identity = identity
        self._opened = opened
        self._select = select
        self._names = tuple(names)
        self._predicate = predicate
        self._left = limit
        self._sizes = list(first)
        # A scan may still run in the background when a later recording begins.
        self._recordings = list(_recordings)
        self.more = True
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
            for recording in self._recordings:
                if not any(one is recording for one in _recordings):
                    continue
                skipped = entries - _entries_in(ranges)
                recording.append(Scanned(_file_of(table), _inside(table), self._names, entries, skipped))
            self.more = self._opened.more
            yield table, self._begun(table, ranges)

    def _begun(self, table: HasFields, ranges: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """Cut the first steps of the scan off the ranges of a table."""
        if not self._sizes:
            return ranges
        query = self._select(table)
        found: list[tuple[int, int]] = []
        for first, stop in ranges:
            start = first
            while self._sizes and start < stop:
                length = entries_for(query, self._sizes.pop(0), start, stop)
                if stop - start < 2 * length:
                    break  # the rest is one step
                found.append((start, min(stop, _end_near(query, start, length))))
                start = found[-1][1]
            if start < stop:
                found.append((start, stop))
        return found

    def _first(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for start, stop in ranges:
            end = min(stop, start + (self._left or 0))
            self._left = (self._left or 0) - (end - start)
            found.append((start, end))
        return found


def _end_near(query: Query, start: int, length: int) -> int:
    """Return where a step of about this length ends: with a cluster if one ends near, or if few pages make up one."""
    edges = query.source.table.clusters
    last = edges[bisect_right(edges, start + length) - 1] if edges else start
    if last > start:
        return last
    following = next((edge for edge in edges[bisect_right(edges, start) :]), start + length)
    if following > start + 2 * length:
        pages, _ = query.source.table.native.plan(query.numbers, start, following)
        # Steps that end within pages read these twice, or keep them.
        if len(pages) >= _FEW_PAGES * len({page[1] for page in pages}):
            return start + length
    return following


def _refusal(kind: columns.Type) -> str:
    """Return why Arrow has no such type; an empty string if it has."""
    try:
        columns.arrow_type(kind)
    except UnsupportedError as error:
        return str(error)
    return ""


def _not_in_arrow(kind: columns.Type) -> str:
    """Return why engines do not support a type; an empty string if they do."""
    if not columns.is_settled(kind):
        return "only the data tell its type"
    return NO_UNIONS if columns.has_unions(kind) else _refusal(kind)


def _schema(table: HasFields) -> tuple[dict[str, columns.Type], dict[str, str], Numbers]:
    """Return the types of all columns that engines support, the paths of their fields, all single numbers and lists."""
    types: dict[str, columns.Type] = {}
    paths: dict[str, str] = {}
    numbers: dict[tuple[str, ...], NumberColumn | ListColumn] = {}
    left_out: list[str] = []
    for name, node in Query(table).outputs:
        if not isinstance(node, (Leaf, Group)):
            continue
        kind = node.field.type
        if why := _not_in_arrow(("dynamic",) if kind is None else kind):
            left_out.append(f"{name}: {why}")
        elif kind is not None:
            types[name] = kind
            paths[name] = node.field.path_in(table)
            numbers.update(_numbers_in(table, (name,), node.field, kind))
    warn_of_lost(table.words.fields, left_out)
    if not types:
        raise UnsupportedError(f"no {table.words.field} has a form in Arrow\n{table.location}")
    return types, paths, numbers


def _friend_types(table: HasFields, own: Container[str]) -> dict[str, columns.Type]:
    """Return the types of the columns of friends that can be opened, by the names of friend and column."""
    found: dict[str, columns.Type] = {}
    query = Query(table, [])
    for friend in table.table.friends.values() if isinstance(table, Table) else ():
        with suppress(SapwoodError):
            for column, _ in Query(friend.table).outputs:
                name = f"{friend.name}.{column}"
                node = None if name in own else query.of_friend(name)
                # A friend may have the name of the table itself, or a name with dots.
                kind = node.field.type if node is not None and node.field.table is friend.table else None
                if kind is not None and not _not_in_arrow(kind):
                    found[name] = kind
    return found


def _numbers_in(
    table: HasFields, names: tuple[str, ...], field: Field, kind: columns.Type
) -> Iterator[tuple[tuple[str, ...], NumberColumn | ListColumn]]:
    """Iterate over the numbers and lists in a column and in its records, with the names that lead to them."""
    if is_number_or_none(kind):
        yield names, NumberColumn(field.path_in(table), columns.describe(kind[1] if kind[0] == "option" else kind))
    elif lists := [one.path_in(table) for one in lists_of(field)]:
        yield names, ListColumn(lists[0], tuple(lists[1:]))
    elif kind[0] == "record":
        parts = {part.name: part for part in reversed(field.fields)}
        for name, inner in kind[2]:
            if name in parts and parts[name].type == inner:
                yield from _numbers_in(table, (*names, name), parts[name], inner)
