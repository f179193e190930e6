"""Files as an Arrow dataset, which DuckDB and Arrow's own functions scan with columns and a filter."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar, NamedTuple
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, ArgumentTypeError, NotFoundError, StorageError, near_it, without_secrets
from sapwood.files.many import check_options
from sapwood.frames.case import warn_of_case
from sapwood.frames.expressions import names_in, of_arrow
from sapwood.frames.source import FIRST_STEPS, PIECE, FrameSource
from sapwood.storage.locate import Files
from sapwood.table.explain import Explanations
from sapwood.table.predicates import UNKNOWN, All, Predicate
from sapwood.table.signatures import check_keywords

Columns = Sequence[str] | Mapping[str, Any] | None
"""Names of columns, or expressions by the names of their results; None for all."""

_OPTIONS = (
    "batch_size",
    "batch_readahead",
    "cache_metadata",
    "fragment_readahead",
    "fragment_scan_options",
    "memory_pool",
    "use_async",
    "use_threads",
)
"""The options of Arrow's scanners."""
_FORMAT = ds.IpcFileFormat()
_IDLE = 0.5
"""Seconds after the last batch after which no thread is expected to request another batch or to release one."""
_GRACE = 0.05
"""Seconds after a release in which its thread may still need Python's lock."""
_HOW = (
    "Arrow cannot scan a dataset of ROOT files by itself. Instead of pyarrow.dataset.Scanner.from_dataset(events, ...),"
    " use events.scanner(...) with the same arguments. Instead of a union of datasets, use"
    " sapwood.dataset([file, ...]). For pyarrow.acero and joins, use events.to_table(...)."
)


class _Batches:
    """Record batches for Arrow's threads; they end when Python ends.

    A scan that was not read to its end (``head``, a query with a limit or an error) leaves a thread that reads ahead.
    Also after its end, a thread of Arrow releases this object. A thread that asks for a batch or releases an object
    while Python ends would abort the process or never return.
    """

    _alive: ClassVar[WeakSet[_Batches]] = WeakSet()
    _busy: ClassVar[list[int]] = []
    """Threads that read or release batches now."""
    _released = -_GRACE
    """Time of the last release."""
    _ending = False

    def __init__(self, batches: Generator[Any]) -> None:
        self._batches = batches
        self._last = time.monotonic()
        self._alive.add(self)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        thread = threading.get_ident()
        self._busy.append(thread)
        try:
            if _Batches._ending:
                raise StopIteration
            return next(self._batches)
        finally:
            self._last = time.monotonic()
            self._busy.remove(thread)

    def __del__(self) -> None:
        # Closing the generator closes files, which lets other threads run. This object is no longer alive then.
        thread = threading.get_ident()
        self._busy.append(thread)
        try:
            self._batches.close()
        finally:
            _Batches._released = time.monotonic()
            self._busy.remove(thread)

    @classmethod
    def end(cls) -> None:
        """End all batches, and wait for the threads that ask for one or release them."""
        cls._ending = True
        thread = threading.get_ident()
        while (
            any(one != thread for one in cls._busy)
            or time.monotonic() - cls._released < _GRACE
            or any(time.monotonic() - one._last < _IDLE for one in list(cls._alive))
        ):
            time.sleep(0.005)

    @classmethod
    def forget(cls) -> None:
        """Forget the batches of the parent process: in a forked child, the threads that read them do not exist."""
        cls._alive = WeakSet()
        cls._busy = []


atexit.register(_Batches.end)
os.register_at_fork(after_in_child=_Batches.forget)


class _Asked(NamedTuple):
    """A scan as it was requested: what must be read for it, and what Arrow makes of that."""

    source: FrameSource
    names: list[str]
    """The columns to read."""
    predicate: Predicate
    columns: list[str] | dict[str, Any]
    filter: Foreign

    def tables(self, limit: int | None = None, first: Sequence[str] = FIRST_STEPS) -> Generator[Any]:
        """Read the columns of the entries that an index leaves, in steps, at most `limit` entries."""
        return self.source.tables(self.names, self.predicate, limit, first=first)

    def scanner(self, tables: Iterable[Any], options: Mapping[str, Any]) -> Foreign:
        """Return a scanner that filters and projects tables."""
        known = {name: options[name] for name in ("batch_size", "use_threads", "memory_pool") if name in options}
        return ds.Scanner.from_batches(
            # One by one: a table of records without fields may have any number of rows.
            _Batches(batch for table in tables for batch in table.to_reader(PIECE)),
            schema=self.source.schema(self.names), columns=self.columns, filter=self.filter, **known,
        )  # fmt: skip


class _Scannable:
    """The methods of datasets and fragments that follow from a scanner."""

    _source: FrameSource
    _filter: Foreign
    warns_of_case = True
    """Whether to warn of names that DuckDB may have taken for others, which differ in case."""

    def _scanner(
        self,
        called: str,
        columns: Columns,
        filter: Foreign,  # noqa: A002
        whole: bool,
        options: Mapping[str, Any],
    ) -> Foreign:
        """Return a scanner for the method `called`; with `whole`, all entries will be read."""
        self._check(called, options)
        asked = self._asked(columns, filter)
        return asked.scanner(asked.tables(first=() if whole else FIRST_STEPS), options)

    def _check(self, called: str, options: Mapping[str, Any]) -> None:
        check_keywords(f"{type(self).__name__}.{called}", options, ("columns", "filter", *_OPTIONS))

    def _asked(self, columns: Columns, filter: Foreign) -> _Asked:  # noqa: A002
        source = self._source
        filters = [one for one in (self._filter, filter) if one is not None]
        for one in filters:
            if not isinstance(one, pc.Expression):
                raise ArgumentTypeError(f"the filter is an expression of Arrow (pyarrow.compute.field), not {one!r}")
        both = filters[0] & filters[1] if len(filters) == 2 else next(iter(filters), None)
        wanted = None if columns is None else _names(columns)
        named = set() if both is None else names_in(both)
        _check_names(source, [*(wanted or ()), *(named or ())])
        names = source.needed(source.names if wanted is None or named is None else [*wanted, *named])
        predicate = UNKNOWN if both is None else of_arrow(both, source.numbers)
        given = source.names if columns is None else columns
        # Arrow searches the columns for a name with dots before it treats the name as a path.
        return _Asked(source, names, predicate, dict(given) if isinstance(given, Mapping) else list(given), both)

    def scanner(self, columns: Columns = None, filter: Foreign = None, **options: Foreign) -> Foreign:  # noqa: A002
        """Return a `pyarrow.dataset.Scanner`.

        Parameters
        ----------
        columns
            Names, or a dict of names and expressions; by default all. Only these columns are read. A name may be that
            of a field in a record (``"rec.pt"``); then only this field is read.
        filter
            An expression. Only entries for which it is true are returned. Entries that an index excludes are not
            read.
        options
            ``batch_size``, ``use_threads`` and ``memory_pool`` as in `pyarrow.dataset.Scanner.from_batches`. Other
            options of `pyarrow.dataset.Scanner.from_dataset` have no effect.

        Raises
        ------
        NotFoundError
            There is no such column.
        ArgumentError
            The filter is not an expression, or there is no such option.
        """
        if self.warns_of_case and "duckdb" in sys.modules:
            named = set() if filter is None else names_in(filter) or set()
            warn_of_case(self._source.schema(), sorted({*(_names(columns) if columns else ()), *named}))
        return self._scanner("scanner", columns, filter, False, options)

    def to_batches(self, *given: Foreign, **scanned: Foreign) -> Iterator[Any]:
        """Read record batches; arguments as in `scanner`."""
        return _in_one_process(self._read("to_batches", False, *given, **scanned).to_batches(), os.getpid())

    def to_table(self, *given: Foreign, **scanned: Foreign) -> Foreign:
        """Read a `pyarrow.Table`; arguments as in `scanner`."""
        return self._read("to_table", True, *given, **scanned).to_table()

    def _read(
        self,
        called: str,
        whole: bool,
        columns: Columns = None,
        filter: Foreign = None,  # noqa: A002
        **options: Foreign,
    ) -> Foreign:
        """Return a scanner for a method that has the arguments of `scanner`."""
        return self._scanner(called, columns, filter, whole, options)

    def head(
        self,
        num_rows: int,
        columns: Columns = None,
        filter: Foreign = None,  # noqa: A002
        **options: Foreign,
    ) -> Foreign:
        """Read the first rows; further arguments as in `scanner`. Reading ends when there are enough rows."""
        self._check("head", options)
        asked = self._asked(columns, filter)
        left = max(0, num_rows)
        with closing(asked.tables(left if asked.filter is None else None)) as tables:
            found: list[Any] = []
            while left and (table := next(tables, None)) is not None:
                found.append(asked.scanner([table], options).head(left))
                left -= found[-1].num_rows
        return pa.concat_tables(found) if found else asked.scanner([], options).to_table()

    def take(
        self,
        indices: Foreign,
        columns: Columns = None,
        filter: Foreign = None,  # noqa: A002
        **options: Foreign,
    ) -> Foreign:
        """Read the rows with these numbers; further arguments as in `scanner`."""
        return self._scanner("take", columns, filter, False, options).take(indices)

    def explain(
        self,
        columns: Columns = None,
        filter: Foreign = None,  # noqa: A002
        *,
        analyze: bool = False,
    ) -> Explanations:
        """Return what a scan would read, without reading it: clusters, requests, bytes, and what an index skips.

        `sapwood.record_scans` shows what the queries of an engine have read and skipped.

        Parameters
        ----------
        columns
            As in `scanner`.
        filter
            As in `scanner`, or an expression of Polars.
        analyze
            Also read, and return the bytes and times of the parts of the read.

        Returns
        -------
        Explanations
            By the path of each table an `Explanation`. Its `str` is a table for each.

        Raises
        ------
        ArgumentError, NotFoundError
            The filter is not an expression, or there is no such column.
        """
        source = self._source
        arrows = filter is None or isinstance(filter, pc.Expression)
        if not arrows and not hasattr(filter, "meta"):
            raise ArgumentTypeError(f"the filter is an expression of Arrow or Polars, not {filter!r}")
        asked = self._asked(columns, filter if arrows else None)
        names, predicate = asked.names, asked.predicate
        wanted = source.names if columns is None else _names(columns)
        named: set[str] = set() if asked.filter is None else names_in(asked.filter) or set()
        if not arrows:
            named |= set(filter.meta.root_names())  # pyright: ignore[reportOptionalMemberAccess]
        _check_names(source, [*wanted, *named])
        if not arrows:
            from sapwood.frames.polars import passed_on

            read, passed = passed_on(source, wanted, filter)
            names = source.needed([*(() if self._filter is None else names), *read])
            predicate = passed if predicate is UNKNOWN else All((predicate, passed))
        return source.explain(names, predicate, analyze)

    def count_rows(self, filter: Foreign = None, **scanned: Foreign) -> int:  # noqa: A002
        """Count rows. Without a filter, only the descriptions of the tables are read."""
        self._check("count_rows", scanned)
        if filter is None and self._filter is None:
            return self._source.count()
        return self._scanner("count_rows", [], filter, True, scanned).count_rows()


class Fragment(_Scannable):
    """A cluster of a file: entries whose columns are stored together."""

    def __init__(
        self,
        source: FrameSource,
        path: str,
        identity: Mapping[str, Any] | None,
        table: str,
        start: int,
        stop: int,
        filter: Foreign,  # noqa: A002
    ) -> None:
        self.path = path
        self.table = table
        self.start = start
        self.stop = stop
        self._filter = filter
        self._source = source.part(path, identity, table, start, stop)

    @property
    def physical_schema(self) -> Foreign:
        """The schema."""
        return self._source.schema()

    def scanner(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        schema: Foreign = None,
        columns: Columns = None,
        filter: Foreign = None,  # noqa: A002
        **options: Foreign,
    ) -> Foreign:
        """Return a `pyarrow.dataset.Scanner`. `schema` is the dataset's; other arguments as in `Dataset.scanner`."""
        return self._read("scanner", False, schema, columns, filter, **options)

    def _read(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        called: str,
        whole: bool,
        schema: Foreign = None,
        columns: Columns = None,
        filter: Foreign = None,  # noqa: A002
        **options: Foreign,
    ) -> Foreign:
        _check_schema(schema, self.physical_schema)
        return self._scanner(called, columns, filter, whole, options)

    @property
    def partition_expression(self) -> Foreign:
        """An expression that is true for all rows: no information."""
        return pc.scalar(True)

    def __repr__(self) -> str:
        """Show which entries it has."""
        return without_secrets(f"<sapwood.Fragment {self.path}:{self.table} entries {self.start} to {self.stop}>")


class _NoFiles(pyarrow.fs.FileSystemHandler):  # pyright: ignore[reportUntypedBaseClass]
    """The file system of the native part of a dataset: Arrow cannot read the files by itself."""

    def _refuse(self, *_: Foreign, **__: Foreign) -> Foreign:
        raise ArgumentTypeError(_HOW)

    def get_type_name(self) -> str:
        """Return the name that Arrow shows."""
        return "sapwood"

    def normalize_path(self, path: str) -> str:
        """Return a path as it is."""
        return path

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = move = copy_file = _refuse
    get_file_info = get_file_info_selector = open_input_stream = open_input_file = _refuse
    open_output_stream = open_append_stream = _refuse


# An Arrow dataset has a native part. If Arrow uses it directly instead of `scanner`, this class raises an error.
class Dataset(_Scannable, ds.FileSystemDataset):  # pyright: ignore[reportUntypedBaseClass]
    """The tables of files as a `pyarrow.dataset.Dataset`, made by `sapwood.dataset`."""

    def __init__(self, source: FrameSource, filter: Foreign = None) -> None:  # noqa: A002
        nowhere = pyarrow.fs.PyFileSystem(_NoFiles())
        ds.FileSystemDataset.__init__(
            self, [_FORMAT.make_fragment("native", filesystem=nowhere)], source.schema(), _FORMAT, nowhere
        )
        self._source = source
        self._filter = filter

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the files and the filter."""
        return Dataset, (self._source, self._filter)

    def __repr__(self) -> str:
        """Show the files."""
        return without_secrets(f"<sapwood.Dataset {self._source.files!r}>")

    def _scanner_options(self, _: Foreign) -> Foreign:
        """Refuse a scan of the native part, before it begins."""
        raise ArgumentTypeError(_HOW)

    @property
    def _scan_options(self) -> Foreign:
        """Refuse to be a part of another dataset."""
        raise ArgumentTypeError(_HOW)

    @property
    def schema(self) -> Foreign:
        """The schema: a column for each field."""
        return self._source.schema()

    @property
    def files(self) -> list[str]:
        """The files."""
        return list(dict.fromkeys(path for path, *_ in self._source.fragments()))

    @property
    def partition_expression(self) -> Foreign:
        """An expression that is true for all rows: no information."""
        return pc.scalar(True)

    def filter(self, expression: Foreign) -> Dataset:
        """Return a dataset with only the rows for which an expression is true."""
        if not isinstance(expression, pc.Expression):
            raise ArgumentTypeError(f"the filter is an expression of Arrow (pyarrow.compute.field), not {expression!r}")
        return Dataset(self._source, expression if self._filter is None else self._filter & expression)

    def replace_schema(self, schema: Foreign) -> Dataset:
        """Return the dataset if it has this schema. The types of the files cannot be replaced."""
        _check_schema(schema, self.schema)
        return self

    def get_fragments(self, filter: Foreign = None) -> Iterator[Fragment]:  # noqa: A002
        """Iterate over the clusters of the files, except those that an index excludes.

        The fragments apply the filter, too.
        """
        asked = self._asked([], filter)
        clusters = self._source.fragments(asked.names, asked.predicate)
        return (Fragment(self._source, *cluster, asked.filter) for cluster in clusters)

    def sort_by(self, sorting: Foreign, **options: Foreign) -> Foreign:
        """Return all rows sorted, in memory, as `pyarrow.dataset.Dataset.sort_by` does."""
        return _in_memory(self).sort_by(sorting, **options)

    def join(self, right_dataset: Foreign, *arguments: Foreign, **options: Foreign) -> Foreign:
        """Join all rows, in memory, as `pyarrow.dataset.Dataset.join` does."""
        return _in_memory(self).join(_in_memory(right_dataset), *arguments, **options)

    def join_asof(self, right_dataset: Foreign, *arguments: Foreign, **options: Foreign) -> Foreign:
        """Join all rows, in memory, as `pyarrow.dataset.Dataset.join_asof` does."""
        return _in_memory(self).join_asof(_in_memory(right_dataset), *arguments, **options)


def _in_memory(given: Foreign) -> Foreign:
    return ds.InMemoryDataset(given.to_table()) if isinstance(given, Dataset) else given


def _in_one_process(batches: Iterator[Any], process: int) -> Iterator[Any]:
    """Yield batches in the process that began to read them: in a forked one, Arrow would wait for its threads."""
    while True:
        if os.getpid() != process:
            raise StorageError("this iterator was created before fork(); create it again in the child process")
        try:
            batch = next(batches)
        except StopIteration:
            return
        yield batch


def _check_schema(given: Foreign, own: Foreign) -> None:
    if given is not None and not given.equals(own):
        raise ArgumentError("the schema of a dataset of ROOT files cannot be replaced; cast the result instead")


def _names(columns: Columns) -> list[str]:
    if isinstance(columns, str):
        raise ArgumentTypeError(f"columns are a list of names or a dict of expressions, not {columns!r}")
    if not isinstance(columns, Mapping):
        return list(columns or ())
    found: list[str] = []
    for expression in columns.values():
        names = names_in(expression)
        if names is None:
            raise ArgumentError(f"cannot find out which columns this expression needs: {expression}")
        found += names
    return found


def _check_names(source: FrameSource, names: Iterable[str]) -> None:
    """Raise an error for the first column that does not exist; Arrow itself adds some like ``__filename``."""
    for name in names:
        if name not in source and not name.startswith("__"):
            raise NotFoundError(f"no such column: {name!r}{near_it(name, source.names, 'schema.names')}")


def dataset(files: Files, **options: object) -> Dataset:
    """Return the tables of files as an Arrow dataset, for DuckDB and Arrow's own functions.

    Only the descriptions of the first table and of its friends are read. Up to 64 local files stay open until the
    dataset is released; a file that was changed or replaced is opened again. A scan reads only its columns. If a file
    has an index (see `sapwood stats --index`), it reads only the entries that can pass its filter. DuckDB finds a
    dataset by the name of its variable: ``duckdb.sql("SELECT count(*) FROM events WHERE nMuon > 1")``.

    Parameters
    ----------
    files
        As in `sapwood.iterate`. All files must have the fields of the first. Columns of friends that the first table
        lists, or that were added to an open table, are named ``friend.column``.
    options
        As in `sapwood.open`.

    Raises
    ------
    NotFoundError, ArgumentError, StorageError, CorruptError
        As in `sapwood.iterate`.
    """
    check_options(dataset, options, files, "pass columns and a filter to `scanner` or `to_table`")
    return Dataset(FrameSource(files, options))
