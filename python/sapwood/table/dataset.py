"""Many tables as one: reading them in steps, or into one array. The caller opens and closes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sapwood.columns import Foreign
from sapwood.errors import ArgumentError, NotFoundError
from sapwood.table.query import Query
from sapwood.table.results import ResultForm
from sapwood.table.scan import Kept, Scan, Slice, numbers_in, read
from sapwood.table.schema import HasFields
from sapwood.table.steps import Report, StepPlan, entry_range, read_ahead

if TYPE_CHECKING:
    from sapwood.table.groups import GroupBy

_FILES_AT_ONCE = 400
"""Maximum number of files open at a time: many systems allow 1,024 for a process."""

_BYTES_BEFORE_CUT = 256_000_000
"""Uncompressed bytes that `concatenate` reads before it applies a cut and frees the entries that fail."""


class Opened(Protocol):
    """Tables that are opened one by one."""

    @property
    def more(self) -> bool:
        """Whether another table may follow the one that was yielded last."""
        ...

    def __iter__(self) -> Iterator[tuple[HasFields, Sequence[tuple[int, int]]]]:
        """Open the tables; yield each with the ranges of its entries to read."""
        ...

    def skip(self, path: str, error: NotFoundError) -> None:
        """Record a file that lacks the table or a field, or raise the error if that is not allowed."""
        ...

    def done_with(self, table: HasFields) -> None:
        """Close the file of a table."""
        ...


class _Step(NamedTuple):
    """The arrays of a step, its source and entries, its offset in all tables, and whether it is the last of all."""

    array: Foreign
    source: HasFields
    start: int
    stop: int
    offset: int
    last: bool


def iterate(
    tables: Opened,
    select: Callable[[HasFields], Query],
    step_size: int | str,
    form: ResultForm,
    report: bool,
    group_by: GroupBy | None = None,
    on_demand: int = 0,
) -> Iterator[Any]:
    """Read tables in steps, one after the other; `select` makes the query of each.

    The next step is read while one is in use; the first `on_demand` steps and the next one only when they are
    requested.
    """
    if group_by is not None:
        return _iterate_groups(tables, select, group_by, step_size, form, report)
    return _iterate(tables, select, step_size, form, report, on_demand)


def _iterate_groups(
    tables: Opened,
    select: Callable[[HasFields], Query],
    group_by: GroupBy,
    step_size: int | str,
    form: ResultForm,
    report: bool,
) -> Iterator[Any]:
    from sapwood.table.groups import Stretch, iterate_groups

    stretches: list[Stretch] = []
    opened: list[HasFields] = []
    try:
        offset = 0
        for table, ranges in tables:
            opened.append(table)
            if len(opened) > _FILES_AT_ONCE:
                raise ArgumentError(f"entries are grouped over no more than {_FILES_AT_ONCE} files at a time")
            try:
                query = select(table)
            except NotFoundError as error:
                tables.skip(table.file.file_path, error)
                tables.done_with(opened.pop())
                offset += _entries_in(ranges)
                continue
            for start, stop in ranges:
                stretches.append(Stretch(table, query, start, stop, offset - start))
                offset += stop - start
        yield from iterate_groups(stretches, group_by, step_size, form, report)
    finally:
        for table in opened:
            tables.done_with(table)


def _iterate(
    tables: Opened,
    select: Callable[[HasFields], Query],
    step_size: int | str,
    form: ResultForm,
    report: bool,
    on_demand: int,
) -> Iterator[Any]:
    opened: list[HasFields] = []
    scan: Scan | None = None

    def give_up() -> None:
        if scan is not None:
            scan.give_up()

    def job(scan: Scan, start: int, stop: int, offset: int, last: bool) -> _Step:
        # Entry numbers count over all files.
        return _Step(scan.arrays(start, stop, form, offset), scan.query.source, start, stop, offset, last)

    def close_before(step: _Step) -> None:
        # Closing lets other threads run. Later, the next read would start before the caller has freed the last step.
        while opened[0] is not step.source:
            tables.done_with(opened.pop(0))

    def jobs() -> Iterator[Callable[[], Any]]:
        nonlocal scan
        offset = 0
        query = None
        for table, ranges in tables:
            opened.append(table)
            try:
                query = (query and query.on(table)) or select(table)
            except NotFoundError as error:
                tables.skip(table.file.file_path, error)
                tables.done_with(opened.pop())
                offset += _entries_in(ranges)
                continue
            steps = StepPlan(query, step_size, *ranges)
            if not steps:
                tables.done_with(opened.pop())
                offset += _entries_in(ranges)
                continue
            # What lies between several ranges is not for them.
            gapless = all(one[1] == other[0] for one, other in pairwise(ranges))
            scan = Scan.stepping(query, step_size, steps, announce=gapless)
            for first, last in ranges:
                final = not tables.more and (first, last) == steps.ranges[-1]
                for start, stop in steps.through((first, last)):
                    yield partial(job, scan, start, stop, offset - first, final and stop == last)
                offset += last - first

    try:
        with closing(read_ahead(jobs(), give_up, on_demand, close_before, lambda step: step.last)) as steps:
            for array, source, start, stop, offset, _ in steps:
                # No reference to the array remains here, so that the caller can free it.
                box = [array]
                del array
                yield (box.pop(), Report(source, start, stop, offset)) if report else box.pop()
    finally:
        for table in opened:
            tables.done_with(table)


def _entries_in(ranges: Sequence[tuple[int, int]]) -> int:
    """Count the entries of a file. Those of a skipped file keep their numbers."""
    return sum(stop - start for start, stop in ranges)


def concatenate(
    tables: Opened,
    select: Callable[[HasFields], Query],
    form: ResultForm,
    first: int,
    last: int | None,
) -> tuple[list[Any], list[str]]:
    """Read entries of tables, counted over all, into as few pieces as their shapes allow.

    Tables of one shape are decoded straight into the same arrays.

    Returns
    -------
    The pieces, and for each the path of its first file.
    """
    batch = _Batch(tables, form)
    try:
        offset = 0
        query = None
        for table, ranges in tables:
            try:
                query = (query and query.on(table)) or select(table)
            except BaseException as error:
                tables.done_with(table)
                if not isinstance(error, NotFoundError):
                    raise
                tables.skip(table.file.file_path, error)
                offset += _entries_in(ranges)
                continue
            for begin, end in ranges:
                stop_here = None if last is None else max(0, last - offset)
                start, stop = entry_range(end - begin, max(0, first - offset), stop_here)
                batch.add(query, begin + start, begin + stop, offset - begin)
                offset += end - begin
            if last is not None and offset >= last:
                break
        batch.flush()
    finally:
        batch.close()
    return batch.pieces, batch.paths


class _Batch:
    """Slices of tables with one shape, gathered to be read by one call of the engine."""

    def __init__(self, tables: Opened, form: ResultForm) -> None:
        self._tables = tables
        self._form = form
        self._slices: list[Slice] = []
        self._ranges: list[tuple[int, int]] = []
        self._kept: tuple[Query, Kept] | None = None
        self._bytes = 0.0
        self._excludes = False
        """Whether an index excludes all entries of an added range."""
        self.pieces: list[Any] = []
        """The results so far."""
        self.paths: list[str] = []
        """The path of the first file of each."""
        self._any_entries = False

    def add(self, query: Query, start: int, stop: int, offset: int) -> None:
        """Add a range of entries of a table; `offset` and their numbers in it are their numbers in all."""
        if self._kept is None or self._kept[0] is not query:
            self._kept = query, Kept(query)
        ranges = self._kept[1].between(start, stop)
        for begin, end in ranges or [(start, start)]:
            self._add(query, begin, end, offset)
        self._excludes = self._excludes or (not ranges and start < stop)

    def _add(self, query: Query, start: int, stop: int, offset: int) -> None:
        found = self._slices[0].joined(query, start, stop) if self._slices else None
        size = query.bytes_between(start, stop)
        too_much = query.cut is not None and self._bytes + size > _BYTES_BEFORE_CUT
        enough = too_much or len(self._slices) >= _FILES_AT_ONCE
        # The file is closed afterwards, so everything that is needed of it is read together.
        if found is None or (enough and query.source is not self._slices[-1].query.source):
            self.flush()
            found = Slice.of(query, start, stop)
        self._slices.append(found)
        self._ranges.append((offset + start, offset + stop))
        self._bytes += size

    def flush(self) -> None:
        """Read the added files, and close them."""
        if self._slices:
            entries = sum(one.stop - one.start for one in self._slices)
            # An error of an expression does not depend on an index.
            if entries or not self.pieces or self._excludes:
                data, query = read(self._slices), self._slices[0].query
                piece = self._form.make(query, data, numbers_in(_joined(self._ranges)))
                if entries and not self._any_entries:
                    # A piece without entries only stood in for the type of the result.
                    self.pieces.clear()
                    self.paths.clear()
                    self._any_entries = True
                if entries or not self.pieces:
                    self.pieces.append(piece)
                    self.paths.append(query.source.file.file_path)
        self.close()

    def close(self) -> None:
        """Close the added files, read or not."""
        while self._slices:
            source = self._slices.pop().query.source
            if not self._slices or self._slices[-1].query.source is not source:
                self._tables.done_with(source)
        self._ranges.clear()
        self._bytes = 0.0
        self._excludes = False


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join ranges that follow each other."""
    joined: list[tuple[int, int]] = []
    for start, stop in ranges:
        if start < stop:
            follows = bool(joined) and joined[-1][1] == start
            joined.append((joined.pop()[0] if follows else start, stop))
    return joined
